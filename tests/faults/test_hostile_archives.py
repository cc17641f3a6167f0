"""Archives made to do harm: refused by name, nothing written, memory and time bounded."""

import io
import os
import random
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest

from rankbound.errors import DataError, SourceError
from rankbound_study.data import ratings
from rankbound_study.data.archives import list_members, read_members
from rankbound_study.data.sources import SOURCES, RawFiles, RawSource
from tests.faults.hostile_files import files_below, with_little_memory
from tests.raw_files import make_rar, source_of

CENTRAL, END, LOCAL = b"PK\1\2", b"PK\5\6", b"PK\3\4"
RATINGS = b"userId,movieId,rating,timestamp\r\n1,2,4.5,10\r\n"


def zipped(members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return bytearray(stream.getvalue())


def written(folder: Path, content: bytes, name: str = "x.zip") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def conversion(source: RawSource) -> str:
    """Code of `run(raw, out)`: what `python -m rankbound_study convert` does with a raw file of this source."""
    described = source.described.model_dump_json(exclude_unset=True)
    return (
        "from pathlib import Path\n"
        "from rankbound_study.commands.data import convert\n"
        f"run = lambda raw, out: convert('mine', [Path(raw)], Path(out), {described!r})\n"
    )


def read_all(path: Path) -> list[bytes]:
    return [content for _, content in read_members(path, [member.name for member in list_members(path)])]


def patched(content: bytearray, mark: bytes, offset: int, layout: str, *values: int) -> bytearray:
    struct.pack_into(layout, content, content.index(mark) + offset, *values)
    return content


def test_a_converter_writes_nothing_for_a_name_that_points_outside(tmp_path: Path) -> None:
    raw = written(tmp_path, zipped([("ml/ratings.csv", RATINGS), ("../evil", b"evil")]))
    with pytest.raises(SourceError, match=r"x\.zip: archive refused: member '.*' points outside"):
        ratings.convert(RawFiles(SOURCES["movielens"], [raw]), tmp_path / "out" / "x.parquet")
    assert files_below(tmp_path) == {"x.zip"}
    assert not (tmp_path.parent / "evil").exists()


def test_a_member_without_a_name_is_refused(tmp_path: Path) -> None:
    """A zip whose one member has a name of no bytes."""
    content = zipped([("?", b"2")])
    for mark, offset in ((LOCAL, 26), (CENTRAL, 28)):
        patched(content, mark, offset, "<H", 0)
    central = content.index(CENTRAL)
    del content[central + 46]
    del content[30]
    end = content.index(END)
    struct.pack_into("<II", content, end + 12, 46, central - 1)
    with pytest.raises(DataError, match=r"x\.zip: archive refused: a member has the malformed name"):
        list_members(written(tmp_path, content))


def rar_with(folder: Path, offset: int, layout: str, *values: int | bytes) -> Path:
    """A RAR of one member, whose header has these values there, and the checksum that fits them."""
    path = make_rar(folder / "x.rar", {"aaaa.txt": b"1" * 100})
    content = bytearray(path.read_bytes())
    start = content.index(b"\x74", 20) - 2
    size = struct.unpack_from("<H", content, start + 5)[0]
    struct.pack_into(layout, content, start + offset, *values)
    struct.pack_into("<H", content, start, zlib.crc32(content[start + 2 : start + size]) & 0xFFFF)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (32, "4s", b"\xff\xfe\xff\xfe", ""),
        (3, "<B", 0x84, r"archive refused: member 'aaaa\.txt' is encrypted"),
        *((11, "<I", size, "") for size in (0xFFFFFFF0, 50, 101)),
    ],
)
def test_a_rar_name_that_is_no_text_encryption_and_sizes_that_lie_are_refused(
    tmp_path: Path, offset: int, layout: str, value: int | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=rf"x\.rar: {message}"):
        read_all(rar_with(tmp_path, offset, layout, value))


@pytest.mark.parametrize(
    ("megabytes", "declared", "message"),
    [(80, None, "the content of 'ml/ratings.csv' is not that of"), (300, 1000, "ml/ratings.csv")],
    ids=["never unpacked as a whole", "gives no more than the little that it declares"],
)
def test_a_bomb_is_refused(tmp_path: Path, megabytes: int, declared: int | None, message: str) -> None:
    size = megabytes * 2**20
    content = bytes(zipped([("ml/ratings.csv", bytes(size))]))
    path = written(tmp_path, content.replace(struct.pack("<I", size), struct.pack("<I", declared or size)))
    assert path.stat().st_size < 400_000
    assert list_members(path)[0].size == (declared or size)
    code = conversion(SOURCES["movielens"])
    said = with_little_memory(code, path, tmp_path / "out.parquet", megabytes=256)
    assert "refused" in said
    assert message in said
    assert files_below(tmp_path) == {"x.zip"}


def test_an_archive_in_an_archive_stays_packed(tmp_path: Path) -> None:
    bomb = zipped([("zeros", bytes(50 * 2**20))])
    for _ in range(3):
        bomb = zipped([("inner.zip", bytes(bomb))])
    (content,) = read_all(written(tmp_path, bomb))
    assert content.startswith(LOCAL)
    assert len(content) < 100_000


def overlapping(count: int) -> bytes:
    """Directory entries that all lead to the same bytes."""
    one = bytes(zipped([("a0000", bytes(2**20))]))
    central, end = one.index(CENTRAL), one.index(END)
    directory = b"".join(one[central:end].replace(b"a0000", b"a%04d" % number) for number in range(count))
    closing = bytearray(one[end:])
    struct.pack_into("<HHI", closing, 8, count, count, len(directory))
    return one[:central] + directory + bytes(closing)


def quoted() -> bytes:
    """Two members, the first of which is stored and has the second one within its bytes."""
    inner = bytes(zipped([("b.txt", b"b" * 50)], zipfile.ZIP_STORED))
    inner = inner[: inner.index(CENTRAL)]
    outer = zipped([("a.txt", inner)], zipfile.ZIP_STORED)
    central, end = outer.index(CENTRAL), outer.index(END)
    second = zipped([("b.txt", b"b" * 50)], zipfile.ZIP_STORED)
    entry = patched(second[second.index(CENTRAL) : second.index(END)], CENTRAL, 42, "<I", central - len(inner))
    directory = outer[central:end] + entry
    closing = patched(outer[end:], END, 8, "<HHI", 2, 2, len(directory))
    return bytes(outer[:central] + directory + closing)


@pytest.mark.parametrize("content", [overlapping(300), overlapping(2), quoted()])
def test_members_that_share_their_bytes_are_refused(tmp_path: Path, content: bytes) -> None:
    # Newer versions of Python's reader notice it, too.
    with pytest.raises(DataError, match=r"x\.zip: .*([Oo]verlap)"):
        read_all(written(tmp_path, content))


def test_a_directory_of_millions_is_not_even_read(tmp_path: Path) -> None:
    """A member takes six times as much memory as it does in the file."""
    one = bytes(zipped([("a", b"")]))
    central, end = one.index(CENTRAL), one.index(END)
    directory = one[central:end] * 1_000_000
    closing = bytearray(one[end:])
    struct.pack_into("<HHI", closing, 8, 0xFFFF, 0xFFFF, len(directory))
    path = written(tmp_path, one[:central] + directory + bytes(closing))
    code = "from rankbound_study.data.archives import list_members as run"
    said = with_little_memory(code, path, megabytes=200)
    assert "its directory has 47000000 bytes, more than 8388608" in said


def test_a_64_bit_directory_is_measured_as_well(tmp_path: Path) -> None:
    content = zipped([("a.txt", b"1")])
    end = content.index(END)
    central, size = content.index(CENTRAL), end - content.index(CENTRAL)
    for claimed, allowed in ((size, True), (2**40, False)):
        record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, claimed, central)
        locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
        closing = patched(content[end:], END, 8, "<HHII", 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
        path = written(tmp_path, bytes(content[:end]) + record + locator + bytes(closing))
        if allowed:
            assert read_all(path) == [b"1"]
        else:
            with pytest.raises(DataError, match=r"its directory has 1099511627776 bytes, more than"):
                list_members(path)


@pytest.mark.parametrize(
    ("offset", "layout", "value", "message"),
    [
        (24, "<I", 0xFFFFFFFF, r"member 'a\.txt' has 4294967295 bytes, more than"),
        (24, "<I", 10, r"member 'a\.txt'"),
        (24, "<I", 0x7FFFFFFF, r"member 'a\.txt': cannot be unpacked \(read 100 bytes, but it declares 2147483647"),
        (20, "<I", 0x00FFFFFF, r"members 'a\.txt' and 'b\.txt' overlap"),
        (28, "<H", 65535, r"x\.zip: .*(malformed name|cannot be unpacked)"),
        (30, "<H", 65535, r"x\.zip: cannot be unpacked"),
        (42, "<I", 0xFFFFFFF0, r"x\.zip: "),
        (16, "<I", 0, r"member 'a\.txt': cannot be unpacked \(Bad CRC-32"),
        (10, "<H", 99, r"packed by method 99"),
        (8, "<H", 0x40, r"strong encryption"),
    ],
)
def test_a_directory_that_lies_is_found_out(tmp_path: Path, offset: int, layout: str, value: int, message: str) -> None:
    content = patched(zipped([("a.txt", b"1" * 100), ("b.txt", b"2")]), CENTRAL, offset, layout, value)
    with pytest.raises(DataError, match=message):
        read_all(written(tmp_path, content))


def test_what_stands_after_an_archive_is_ignored_and_what_is_cut_off_is_not(tmp_path: Path) -> None:
    content = bytes(zipped([("a.txt", b"1")]))
    assert read_all(written(tmp_path, content + b"x" * 1000)) == [b"1"]
    with pytest.raises(DataError, match="cannot be unpacked"):
        list_members(written(tmp_path, content + b"x" * 70_000))
    for end in range(len(content)):
        with pytest.raises(DataError, match=r"x\.zip"):
            read_all(written(tmp_path, content[:end]))


def test_a_face_that_unpacks_to_gigapixels_is_refused_by_its_header(tmp_path: Path) -> None:
    from PIL import Image

    stream = io.BytesIO()
    Image.new("L", (20_000, 20_000)).save(stream, "JPEG", quality=1)
    raw = written(tmp_path, zipped([("AAF/original images/00000A20.jpg", stream.getvalue())]))
    code = conversion(source_of("aaf", raw)) + "import PIL.JpegImagePlugin\n"
    said = with_little_memory(code, raw, tmp_path / "out.parquet", megabytes=300)
    assert "refused" in said
    assert "original images/00000A20.jpg" in said
    assert files_below(tmp_path) == {"x.zip"}


MUTATIONS = int(os.environ.get("RANKBOUND_FUZZ", "400"))


@pytest.mark.parametrize("kind", ["zip", "rar"])
def test_damaged_archives_give_their_content_or_a_data_error(tmp_path: Path, kind: str) -> None:
    members = {"a.txt": b"hello " * 40, "b/c.txt": bytes(1000)}
    whole = bytes(zipped(members.items())) if kind == "zip" else make_rar(tmp_path / "y.rar", members).read_bytes()
    chance = random.Random(kind)
    outcomes = {"read": 0, "refused": 0}
    for _ in range(MUTATIONS):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(content))
            match chance.randrange(3):
                case 0:
                    content[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
                case 1:
                    content[place : place + 4] = chance.choice([b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"])
                case _:
                    del content[place : place + chance.randint(1, 10)]
        path = written(tmp_path, bytes(content) or b"P", f"x.{kind}")
        try:
            found = read_all(path)
        except DataError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            # What a zip gives has its checksum; a reader of RAR does not compare any.
            assert kind == "rar" or set(found) <= set(members.values())
    assert min(outcomes.values()) > 0
