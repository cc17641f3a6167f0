"""Raw files: where they are fetched from, what is accepted, what comes out of archives, and what is refused by name."""

import ast
import hashlib
import re
import shutil
import struct
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from described_steps import Run

from rankbound import datasets
from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study import doctor
from rankbound_study.commands.data import fetched
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data import archives, sources
from rankbound_study.data.archives import find_member, list_members, open_member
from rankbound_study.data.faces import FOLDER
from rankbound_study.data.sources import SOURCES, RawSource, check_content, find_source
from tests.raw_files import LINK, changed, encode_image, folder_of, make_rar, pack, raw_file, source_of

SRC = Path(__file__).parents[2] / "src"
READERS = (archives, datasets, sources)
"""The modules that may open archives: the library's `datasets` its own; others are given a `RawFiles`."""

TEXT = b"0 qid:1 1:0.5\n" * 200_000  # several read blocks, of a length that no block divides


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


TOY = {
    "format": "letor", "title": "Toy set", "homepage": "https://example.org/toy", "random_parts": 3,
    "archives": ["Toy.zip", "Toy.rar"], "content": {"line_ends": "any", "members": {"S1.txt": sha(TEXT)}},
}  # fmt: skip
SOURCE = RawSource("toy", DescriptionKeys.model_validate(TOY))


def packed(path: Path, text: bytes = TEXT) -> Path:
    return pack(path, {"Toy/S1.txt": text})


@pytest.fixture(autouse=True)
def _no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    monkeypatch.setattr("rankbound.io.fetch.ATTEMPTS", 2)
    monkeypatch.setattr("rankbound.io.fetch.PAUSE_SECONDS", 0.01)


Answer = Callable[[BaseHTTPRequestHandler], None]
Serve = Callable[[Answer], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server on the loopback that answers every request by the given function; gives its base URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Answer) -> str:
        handler = type(
            "Handler", (BaseHTTPRequestHandler,), {"do_GET": lambda self: answer(self), "log_message": lambda *_: None}
        )
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def answer_with(data: bytes, length: int | None = None, status: int = 200) -> Answer:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(data) if length is None else length))
        request.end_headers()
        request.wfile.write(data)

    return answer


def test_the_known_sources_are_complete() -> None:
    for name, source in SOURCES.items():
        described = source.described
        assert source.name == name
        assert all(file_name.endswith((".zip", ".rar", ".pth")) for file_name in described.archives or ())
        assert all(address.startswith("https://") for address in described.addresses or ())
        length = hashlib.new(source.content.algorithm).digest_size * 2
        assert all(len(checksum) == length for checksum in source.content.members.values())
        assert source.is_checked or "no checksums are known" in (described.remark or "")
        assert described.terms
        assert described.citation
    with pytest.raises(
        ConfigError, match=r"no source 'movielen'; known are aaf, citeulike-a, istella, istella-s, movielens"
    ):
        find_source("movielen")


# Content


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("pack_it", [packed, lambda path, text: make_rar(path, {"Toy/S1.txt": text})])
def test_content_counts_whatever_ends(tmp_path: Path, pack_it: Callable[[Path, bytes], Path], line_end: bytes) -> None:
    check_content(SOURCE, pack_it(tmp_path / "x", TEXT.replace(b"\n", line_end)))
    wrong = TEXT[:-2] + b"6\n"
    with pytest.raises(SourceError, match=rf"'Toy/S1\.txt' is not that of Toy set: expected {sha(TEXT)}.*{sha(wrong)}"):
        check_content(SOURCE, pack_it(tmp_path / "x", wrong))


def test_line_ends_count_where_the_source_says_so_and_members_are_given(tmp_path: Path) -> None:
    as_shipped = changed(SOURCE, line_ends="as-is")
    check_content(as_shipped, packed(tmp_path / "x.zip"))
    with pytest.raises(SourceError, match=r"expected [0-9a-f]{64} \(sha256\), found"):
        check_content(as_shipped, packed(tmp_path / "x.zip", TEXT.replace(b"\n", b"\r\n")))
    # Both halves of a line's end, in two blocks.
    across = b"a" * (2**20 - 1) + b"\n"
    as_lf = changed(SOURCE, members={"S1.txt": sha(across)})
    check_content(as_lf, packed(tmp_path / "x.zip", across.replace(b"\n", b"\r\n")))
    odd = b"a\rb\r"
    check_content(changed(SOURCE, members={"S1.txt": sha(odd)}), packed(tmp_path / "x.zip", odd))
    raw = raw_file("movielens", pack(tmp_path / "x.zip", ratings("4.0")))
    assert [member.name for member in raw.members] == list(ratings("4.0"))
    with raw.open(raw.find("tags.csv")) as stream:
        assert stream.read() == b"tags\r\n"
    assert dict(raw.read(["ml-latest-small/links.csv"])) == {"ml-latest-small/links.csv": b"links\r\n"}
    with pytest.raises(DataError, match=r"x\.zip: expected exactly one member 'users\.csv', found 0"):
        raw.find("users.csv")


def test_folders_and_single_files_are_known_by_names_and_contents(tmp_path: Path) -> None:
    files = {"00001A20.jpg": b"one", "00002A21.jpg": b"two", "00000A21.jpg": b"zero"}

    def check(files: dict[str, bytes], folder: str = f"Faces/{FOLDER}/", **more: Any) -> None:
        members = {f"{folder}{name}": content for name, content in files.items()}
        check_content(source, pack(tmp_path / "x.zip", {"Faces/image sets/train.txt": b"", **members, **more}))

    source = changed(SOURCES["aaf"], folder=folder_of(files))
    check(files)
    check(files, f"{FOLDER}/")
    with pytest.raises(SourceError, match=r"the checksum of its contents should be [0-9a-f]{64}, found"):
        check(files | {"00001A20.jpg": b"0ne"})
    with pytest.raises(SourceError, match=r"expected 3 files, whose names have the checksum .* found 3 with"):
        check({name.replace("A20", "A22"): content for name, content in files.items()})
    with pytest.raises(SourceError, match=r"expected one folder 'original images' with files, found 2"):
        check(files, **{f"other/{FOLDER}/00001A20.jpg": b"one"})
    longer = files | {"00001A20.jpg": bytes(2**20)}
    with pytest.raises(SourceError, match=r"its files have 1048583 bytes; known editions have \[10\]"):
        check(longer)
    source = changed(source, folder=folder_of(files, unknown_from=1))
    check(longer)
    (tmp_path / "x.pth").write_bytes(b"weights")
    check_content(changed(SOURCES["vgg16"], file=sha(b"weights")), tmp_path / "x.pth")
    with pytest.raises(SourceError, match=r"expected the SHA-256 397923af[0-9a-f]{56}, found .* of 7 bytes"):
        check_content(SOURCES["vgg16"], tmp_path / "x.pth")


# Fetching


def got(source: RawSource, out: Path, mirror: object = None) -> bytes:
    """The content of the fetched file, beside which nothing lies but what was set aside."""
    path = fetched(source, out, None if mirror is None else str(mirror))
    assert path == out
    return path.read_bytes()


@pytest.mark.parametrize("place", ["beside", "environment", "mirror", "mirror's URL", "publisher"])
def test_every_place_gives_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Serve, place: str) -> None:
    """Folders and publishers by any of the names; URLs by the preferred one."""
    out, source, mirror, asked = tmp_path / "raw" / "Toy.zip", SOURCE, tmp_path / "mirror", list[str]()
    (tmp_path / "raw").mkdir()
    mirror.mkdir()
    data = make_rar(mirror / "Toy.rar", {"S1.txt": TEXT}).read_bytes()

    def answer(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        answer_with(data)(request)

    match place:
        case "beside":
            (mirror / "Toy.rar").rename(out.with_name("Toy.rar"))
            mirror = None
        case "environment":
            monkeypatch.setenv(MIRROR_VARIABLE, str(mirror))
            mirror = None
        case "mirror's URL":
            mirror = f"{serve(answer)}/archives/"
        case "publisher":
            source, mirror = changed(SOURCE, addresses=[f"{serve(answer)}/Toy.zip"]), tmp_path / "absent"
    assert got(source, out, mirror) == data
    assert asked == {"mirror's URL": ["/archives/Toy.zip"], "publisher": ["/Toy.zip"]}.get(place, [])
    assert {entry.name for entry in out.parent.iterdir()} == {"Toy.zip", *(["Toy.rar"] if place == "beside" else [])}


def test_an_archive_without_other_names_is_found_at_the_mirror_by_its_own(tmp_path: Path) -> None:
    source, out = changed(SOURCE, archives=None, homepage=None), tmp_path / "raw" / "mine.zip"
    with pytest.raises(SourceError, match=r"fetch mine\.zip \(from its publisher or a colleague\)"):
        got(source, out)
    assert got(source, out, packed(tmp_path / "mirror" / "mine.zip").parent) == out.read_bytes()


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "flipped": (lambda data: data[: len(data) // 3] + b"?" + data[len(data) // 3 + 1 :], "cannot be unpacked"),
    "truncated": (lambda data: data[:-30], "cannot be unpacked"),
    "other member": (
        lambda data: data.replace(b"S1.txt", b"S2.txt"),
        r"expected exactly one member 'S1\.txt', found 0",
    ),
    "page": (lambda data: b"<html>please log in</html>", "it begins with b'<html>pl'"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_set_aside_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str) -> None:
    path, (change, reason) = packed(tmp_path / "raw" / "Toy.zip"), DAMAGES[damage]
    good = path.read_bytes()
    path.write_bytes(change(good))
    with pytest.raises(SourceError, match=rf"{reason}(.|\n)*Toy\.zip\.rejected(.|\n)*By hand"):
        got(SOURCE, path)
    assert [(entry.name, entry.read_bytes()) for entry in path.parent.iterdir()] == [("Toy.zip.rejected", change(good))]
    assert "rejected" in capsys.readouterr().err
    path.write_bytes(change(good))
    packed(tmp_path / "mirror" / "Toy.zip")
    assert got(SOURCE, path, tmp_path / "mirror") == good
    assert path.with_name("Toy.zip.rejected-2").read_bytes() == change(good)
    before = path.stat()
    got(SOURCE, path)
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino), "it is left alone"


def test_unreachable_places_are_all_listed_with_their_reasons(tmp_path: Path, serve: Serve) -> None:
    gone, broken = (serve(answer_with(b"no", status=status)) for status in (404, 503))
    refused = "http://127.0.0.1:9/Toy.zip"  # the discard port, where nothing listens
    out, absent = tmp_path / "raw" / "Toy.zip", tmp_path / "absent"
    with pytest.raises(SourceError) as caught:
        got(changed(SOURCE, addresses=[f"{gone}/Toy.zip", f"{broken}/Toy.zip", refused]), out, absent)
    for said in (
        f"{absent}/Toy.zip: No such file", f"{absent}/Toy.rar: No such file",
        f"{gone}/Toy.zip: the server answered 404 Not Found\n",
        f"{broken}/Toy.zip: the server answered 503 Service Unavailable (2 attempts)",
        "127.0.0.1:9/Toy.zip: ConnectionRefusedError", f"save it as {out}", "https://example.org/toy",
    ):  # fmt: skip
        assert said in str(caught.value)
    assert list(out.parent.iterdir()) == []


def full(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_a_broken_download_is_tried_again(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = packed(tmp_path / "x.zip").read_bytes(), tmp_path / "raw" / "Toy.zip"
    cut, woken = answer_with(data[:500], length=len(data)), threading.Event()
    answers = [cut, answer_with(data)]

    def at(answer: Answer) -> RawSource:
        return changed(SOURCE, addresses=[f"{serve(answer)}/Toy.zip"])

    assert got(at(lambda request: answers.pop(0)(request)), out) == data
    assert answers == []
    out.unlink()
    with pytest.raises(SourceError, match=r"IncompleteRead.*500 bytes read.*\(2 attempts\)"):
        got(at(cut), out)
    monkeypatch.setattr("rankbound.io.fetch.SILENCE_SECONDS", 0.2)
    with pytest.raises(SourceError, match=r"(?i)time.*out"):
        got(at(lambda request: (woken.wait(20), None)[1]), out)
    woken.set()
    monkeypatch.setattr("rankbound.io.fetch.os.fsync", full)
    with pytest.raises(SourceError, match=r"could not write .*Toy\.zip\..*\.part: No space left on device"):
        got(at(answer_with(b"data")), out)
    assert list(out.parent.iterdir()) == []


# Steps, which refuse content that is not their source's, however it came to its place


def ratings(stars: str) -> dict[str, bytes]:
    """The four tables of MovieLens, with one rating in them."""
    others = {f"ml-latest-small/{name}.csv": f"{name}\r\n".encode() for name in ("movies", "tags", "links")}
    return {"ml-latest-small/ratings.csv": f"userId,movieId,rating,timestamp\r\n1,2,{stars},10\r\n".encode(), **others}


def judgments(label: int) -> dict[str, bytes]:
    """The five parts of MQ2008, one query each, the last of which has this label."""
    pairs = " ".join(f"{index}:0.5" for index in range(1, 47))
    lines = {part: f"{relevance} qid:{part} {pairs}\r\n" for part, relevance in enumerate([2, 0, 1, 0, label], 1)}
    return {f"MQ2008/S{part}.txt": line.encode() for part, line in lines.items()}


def faces(*names: str) -> dict[str, bytes]:
    """Pictures of All-Age-Faces under these names, by name."""
    pictures = [np.random.default_rng(seed).integers(0, 256, (3, 120, 120), dtype=np.uint8) for seed in (1, 2)]
    return {
        f"Faces/{FOLDER}/{name}": encode_image(pixels) for name, pixels in sorted(zip(names, pictures, strict=True))
    }


SWAPS = {
    "movielens": ("ml-latest-small.zip", ratings("4.0"), ratings("4.5"), r"'ml-latest-small/ratings\.csv'"),
    "mq2008": ("MQ2008.zip", judgments(1), judgments(2), r"'MQ2008/S5\.txt'"),
    "aaf": (
        "All-Age-Faces.zip",
        faces("00001A20.jpg", "00002A60.jpg"),
        faces("00002A60.jpg", "00001A20.jpg"),
        "folder 'original images'",
    ),
}
"""A source's content and another one that only its checksums tell from it, with what the message names."""


@pytest.mark.parametrize("name", SWAPS)
def test_other_content_placed_by_hand_is_refused_and_left(run: Run, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    file_name, right, wrong, named = SWAPS[name]
    raw, out = Path("data/raw", file_name), Path("data/converted.parquet")
    arguments = ("convert", name, "--raw", str(raw), "--out", str(out))
    source = source_of(name, pack(raw, right))
    monkeypatch.setattr(sources, "SOURCES", {**SOURCES, name: source})
    run(*arguments)
    out.unlink()
    content = pack(raw, wrong).read_bytes()
    said = run(*arguments, status=2)
    checksums = r".*[0-9a-f]{32,}.*found [0-9a-f]{32,}"
    assert re.match(rf"python -m rankbound_study convert: {raw}: .*{named}{checksums}", said), said
    assert f"run `python -m rankbound_study download {name} --out {raw}`, which sets a wrong file aside" in said
    assert "and, where it cannot download, says what to save by hand" in said
    assert raw.read_bytes() == content
    assert [path for path in Path().rglob("*") if path.is_file()] == [raw]


def test_what_was_not_compared_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checksum of the full-size faces' content is unknown: an archive placed by hand is converted, with a note."""
    source = source_of("aaf", pack(Path("x.zip"), SWAPS["aaf"][1]))
    folder = source.described.folder.model_copy(update={"editions": {}, "unknown_from": 0})  # type: ignore[union-attr]
    monkeypatch.setattr(sources, "SOURCES", {**SOURCES, "aaf": changed(source, folder=folder)})
    pack(Path("x.zip"), SWAPS["aaf"][2])
    printed = run("convert", "aaf", "--raw", "x.zip", "--out", "x.parquet")
    assert printed == f"note: {source.described.remark}\n"


@pytest.mark.parametrize(
    ("words", "content", "said"),
    [
        (
            ("convert", "movielens"),
            ratings("4.0"),
            r"'ml-latest-small/ratings.csv' is not that of MovieLens latest-small \(September 2018\): "
            r"expected 325a6f09399d1c45671f187505e1a100 \(md5\), found [0-9a-f]{32}\. To get the right",
        ),
        (("weights", "vgg16"), b"weights", r"expected the SHA-256 397923af[0-9a-f]{56}, found [0-9a-f]{64} of 7 bytes"),
        (("convert", "mq2008"), None, r"x: cannot be read: No such file or directory\. To get the right file"),
    ],
)
def test_the_publishers_own_sums_hold(run: Run, words: tuple[str, str], content: Any, said: str) -> None:
    if content is not None:
        pack(Path("x"), content) if isinstance(content, dict) else Path("x").write_bytes(content)
    printed = run(*words, "--raw", "x", "--out", "out", status=2)
    assert re.search(said, printed), printed
    assert f"run `python -m rankbound_study download {words[1]} --out x`, which sets a wrong file aside" in printed
    assert [path.name for path in Path().iterdir()] == ([] if content is None else ["x"])


def test_nothing_else_opens_archives() -> None:
    """A reader that needs no `RawFiles` would take any content: it has to be written another way."""
    allowed = {Path(str(module.__file__)) for module in (*READERS, doctor)}  # `doctor` asks which readers there are
    closed = {archives.__name__, "zipfile", "tarfile", "libarchive"}
    assert {path for path in SRC.rglob("*.py") if closed & set(_imported(path))} == allowed


def _imported(path: Path) -> list[str]:
    """The modules that a file imports, and the names that it imports from them, in full."""
    names: list[str] = []
    for statement in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(statement, ast.Import):
            names += [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom):
            names += [str(statement.module), *(f"{statement.module}.{alias.name}" for alias in statement.names)]
    return names


# Archives: what comes out is what was packed, and everything odd is refused by name

MEMBERS = {"MQ2008/S1.txt": b"0 qid:1 1:0.5\r\n" * 5000, "MQ2008/deep/S2.txt": b"", "notes.txt": b"x"}
needs_unar = pytest.mark.skipif(
    shutil.which("unar") is None or shutil.which("lsar") is None, reason="the programs unar and lsar are not installed"
)


def changed_zip(path: Path, change: Callable[[bytes], bytes], members: Mapping[str, bytes], **how: Any) -> Path:
    path.write_bytes(change(pack(path, members, **how).read_bytes()))
    return path


def flipped(place: Callable[[bytes], int], bit: int) -> Callable[[bytes], bytes]:
    def flip(whole: bytes) -> bytes:
        at = place(whole)
        return whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]

    return flip


def content(path: Path, name: str) -> bytes:
    with open_member(path, name) as stream:
        return stream.read()


@pytest.fixture(params=["zip", "rar", pytest.param("unar", marks=needs_unar)])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same members, through each of the readers; the file's name tells nothing."""
    if request.param == "unar":
        monkeypatch.setattr(archives, "_import_libarchive", lambda: None)
    elif request.param == "rar" and archives._import_libarchive() is None:
        pytest.skip("libarchive is not installed")
    return (pack if request.param == "zip" else make_rar)(tmp_path / "archive.bin", MEMBERS)


def test_members_come_out_as_they_went_in_in_any_step(archive: Path) -> None:
    members = list_members(archive)
    assert {member.name: member.size for member in members} == {name: len(data) for name, data in MEMBERS.items()}
    for name, data in MEMBERS.items():
        assert content(archive, name) == data
        assert find_member(members, name.rpartition("/")[2], archive) == name
    assert find_member(members, "deep/S2.txt", archive) == "MQ2008/deep/S2.txt"
    with pytest.raises(DataError, match=r"exactly one member '2\.txt', found 0; the archive has MQ2008/S1\.txt"):
        find_member(members, "2.txt", archive)
    with pytest.raises(DataError, match=r"there is no member 'S9\.txt'"):
        content(archive, "S9.txt")
    with open_member(archive, "MQ2008/S1.txt") as stream:
        assert b"".join(iter(lambda: stream.read(777), b"")) == MEMBERS["MQ2008/S1.txt"]
    opened = open_member(archive, "MQ2008/S1.txt")
    with opened as stream:
        assert stream.readline() == b"0 qid:1 1:0.5\r\n"
    if Path("/proc/self/fd").exists():
        assert not any(file.resolve().name == archive.name for file in Path("/proc/self/fd").iterdir())


OUTSIDE = ("../evil", "a/../../evil", "/tmp/evil", "C:evil", "c:/evil", "..\\evil", "\\\\server\\evil", "a/..", "..")
MALFORMED = (
    *("a\nb", "a\rb", "a\x07b", "a\x7fb", "a\x9bb", "x" * 10_000, "é" * 2_000, "photo\u202egpj.exe"),
    *("a\u2066b", "a\u200bb", "a\u2028b", "\ufeffa"),
)
IN_A_RAR = ("/etc/evil", "C:/evil", "a/../../evil", "a\x07b", "x" * 3000, "\x7f")
SIZES = {"a": bytes(500), "b": bytes(1000)}
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    **{f"{make.__name__} {name[:9]!r}": (lambda path, make=make, name=name: make(path, {"fine": b"1", name: b"2"}),
                                         said)
       for make, names, said in ((pack, OUTSIDE, "member .* points outside"),
                                 (pack, MALFORMED, "a member has the malformed name"),
                                 (make_rar, IN_A_RAR, "(member .* points outside|a member has the malformed name)"))
       for name in names},
    **{f"rar of mode {mode:o}": (lambda path, mode=mode: make_rar(path, {"l": b"/etc/passwd"}, {"l": mode}),
                                 "member 'l' is a link") for mode in (LINK, 0o060644, 0o020644, 0o010644, 0o140777)},
    **{f"method {method}": (lambda path, method=method: pack(path, {"a": bytes(1000)}, method),
                            f"member 'a' is packed by method {method}; expected stored or deflated")
       for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)},
    "NUL": (
        lambda path: changed_zip(path, lambda whole: whole.replace(b"S1.txt_e", b"S1.txt\0e"), {"S1.txt_e": b"1"}),
        "a member has the malformed name",
    ),
    "zip link": (lambda path: pack(path, {"l": b"/etc/passwd"}, mode=LINK), "member 'l' is a link"),
    "encrypted": (
        lambda path: changed_zip(path, flipped(lambda whole: whole.index(b"PK\x01\x02") + 8, 1), {"a": b"1"}),
        "member 'a' is encrypted",
    ),
    "twice": (
        lambda path: changed_zip(path, lambda whole: whole.replace(b"S2", b"S1"), {"S1": b"1", "S2": b"2"}),
        "member 'S1' occurs twice",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsafe_archives_are_refused(tmp_path: Path, name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(DataError, match=rf"x\.bin: archive refused: {message}"):
        list_members(make(tmp_path / "x.bin"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.bin"]


LIMITED = {
    "MEMBER_BYTES": (1000, "member 'b' has 1000 bytes, more than 999"),
    "TOTAL_BYTES": (1500, "its members add up to 1500 bytes, more"),
    "MOST_MEMBERS": (2, "it has 2 members, more than 1"),
}


@pytest.mark.parametrize("limit", LIMITED)
def test_archives_beyond_a_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    most, message = LIMITED[limit]
    path = pack(tmp_path / "x.zip", SIZES)
    monkeypatch.setattr(archives, limit, most)
    assert len(list_members(path)) == 2
    monkeypatch.setattr(archives, limit, most - 1)
    with pytest.raises(DataError, match=rf"x\.zip: archive refused: {message}"):
        list_members(path)


def test_damage_and_bombs_are_found(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "_zip_blocks", lambda *_: repeat(b"x" * 64))
        with pytest.raises(DataError, match=r"member 'b': cannot be unpacked \(read \d+ bytes, but it declares 1000"):
            content(pack(tmp_path / "x.zip", SIZES), "b")
    less = struct.pack("<I", 100_000), struct.pack("<I", 10)
    path = changed_zip(tmp_path / "x.zip", lambda whole: whole.replace(*less), {"a": bytes(100_000)})
    assert list_members(path)[0].size == 10
    with pytest.raises(DataError, match="cannot be unpacked"):
        content(path, "a")
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        path = changed_zip(tmp_path / "x.zip", flipped(lambda _: 120, 0x10), MEMBERS, method=method)
        with pytest.raises(DataError, match=r"cannot be unpacked.*fetch it again"):
            content(path, "MQ2008/S1.txt")
    path = pack(tmp_path / "x.zip", {"a/S1.txt": b"", "b/S1.txt": b""})
    with pytest.raises(DataError, match=r"found 2; the archive has a/S1\.txt, b/S1\.txt"):
        find_member(list_members(path), "S1.txt", path)


def test_every_truncated_archive_is_a_data_error(archive: Path) -> None:
    whole = archive.read_bytes()
    for size in (*range(0, 600, 23), 20_000, 70_100):
        archive.write_bytes(whole[: min(size, len(whole) // 2)])
        with pytest.raises(DataError, match=r"archive\.bin"):
            content(archive, "MQ2008/S1.txt")


def test_pages_are_no_archives_and_missing_readers_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "MQ2008.rar").write_bytes(b"<!DOCTYPE html><html>404</html>")
    with pytest.raises(DataError, match=r"neither a \.zip nor a \.rar archive: it begins with b'<!DOCTYP'"):
        list_members(tmp_path / "MQ2008.rar")
    with pytest.raises(DataError, match=r"none\.zip: cannot be read: No such file"):
        list_members(tmp_path / "none.zip")
    path = make_rar(tmp_path / "x.rar", MEMBERS)
    monkeypatch.setattr(archives, "_import_libarchive", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (lambda: list_members(path), lambda: content(path, "notes.txt")):
        with pytest.raises(DataError, match=r"libarchive is not installed; .*`unar` is not.*unpack it by hand"):
            call()


@needs_unar
def test_unar_takes_over_where_libarchive_fails_on_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("libarchive")

    def fail(*_: object) -> None:
        raise OSError("RAR solid archive support unavailable.")
        yield

    monkeypatch.setattr("libarchive.entry.ArchiveEntry.get_blocks", fail)
    path = make_rar(tmp_path / "x.rar", MEMBERS)
    assert content(path, "MQ2008/S1.txt") == MEMBERS["MQ2008/S1.txt"]
