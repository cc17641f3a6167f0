"""Archives: what comes out is what was packed, and everything odd is refused by name."""

import shutil
import struct
import zipfile
from itertools import repeat
from pathlib import Path

import pytest
from rar4_fixture import LINK, make_rar

from rankbound.errors import DataError
from rankbound_study.data import archives
from rankbound_study.data.archives import Limits, find_member, list_members, open_member

MEMBERS = {"MQ2008/S1.txt": b"0 qid:1 1:0.5\r\n" * 5000, "MQ2008/deep/S2.txt": b"", "notes.txt": b"x"}
needs_unar = pytest.mark.skipif(
    shutil.which("unar") is None or shutil.which("lsar") is None, reason="the programs unar and lsar are not installed"
)


def make_zip(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def content(path: Path, name: str, limits: Limits | None = None) -> bytes:
    with open_member(path, name, limits) as stream:
        return stream.read()


@pytest.fixture(params=["zip", "rar", "unar"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same members, through each of the readers; the file's name tells nothing."""
    path = tmp_path / "archive.bin"
    if request.param == "zip":
        return make_zip(path, MEMBERS)
    if request.param == "unar":
        if shutil.which("unar") is None:
            pytest.skip("the program unar is not installed")
        monkeypatch.setattr(archives, "_import_libarchive", lambda: None)
    elif archives._import_libarchive() is None:
        pytest.skip("libarchive is not installed")
    return make_rar(path, MEMBERS)


def test_members_come_out_as_they_went_in(archive: Path) -> None:
    members = list_members(archive)
    assert {member.name: member.size for member in members} == {name: len(data) for name, data in MEMBERS.items()}
    for name, data in MEMBERS.items():
        assert content(archive, name) == data


def test_streams_are_read_in_any_step(archive: Path) -> None:
    with open_member(archive, "MQ2008/S1.txt") as stream:
        assert b"".join(iter(lambda: stream.read(777), b"")) == MEMBERS["MQ2008/S1.txt"]
    with open_member(archive, "MQ2008/S1.txt") as stream:
        assert stream.readline() == b"0 qid:1 1:0.5\r\n"  # and closing early is no error


def test_a_member_that_is_left_in_the_middle_does_not_keep_the_archive_open(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("x", bytes(2**20))
    opened = open_member(tmp_path / "x.zip", "x")
    with opened as stream:
        stream.read(1)
    if Path("/proc/self/fd").exists():
        assert not any(file.resolve().name == "x.zip" for file in Path("/proc/self/fd").iterdir())


def test_an_unknown_member_is_named(archive: Path) -> None:
    with pytest.raises(DataError, match=r"there is no member 'S9\.txt'"):
        content(archive, "S9.txt")


def test_members_are_found_by_the_end_of_their_path(archive: Path) -> None:
    members = list_members(archive)
    assert find_member(members, "S2.txt", archive) == "MQ2008/deep/S2.txt"
    assert find_member(members, "deep/S2.txt", archive) == "MQ2008/deep/S2.txt"
    with pytest.raises(DataError, match=r"exactly one member '2\.txt', found 0; the archive has MQ2008/S1\.txt"):
        find_member(members, "2.txt", archive)


def test_ambiguous_members_are_not_chosen_from(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a/S1.txt": b"", "b/S1.txt": b""})
    with pytest.raises(DataError, match=r"found 2; the archive has a/S1\.txt, b/S1\.txt"):
        find_member(list_members(path), "S1.txt", path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "member .* points outside") for name in ("../evil.txt", "a/../../evil.txt", "/etc/evil", "C:/evil")),
        *((name, "member .* points outside") for name in ("..\\evil.txt", "a/..")),
        *((name, "a member has the malformed name") for name in ("x" * 2000, "a\x07b")),
    ],
)
def test_unsafe_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    make_zip(tmp_path / "x.zip", {"fine.txt": b"1", name: b"2"})
    with pytest.raises(DataError, match=rf"x\.zip: archive refused: {message}"):
        list_members(tmp_path / "x.zip")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.zip"]


def test_unsafe_names_in_a_rar_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="points outside"):
        list_members(make_rar(tmp_path / "x.rar", {"a/../../evil.txt": b"1"}))


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"S1.txt_exe": b"1"})
    path.write_bytes(path.read_bytes().replace(b"S1.txt_exe", b"S1.txt\0exe"))
    with pytest.raises(DataError, match="malformed name"):
        list_members(path)


def test_links_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("link.txt")
    info.create_system, info.external_attr = 3, LINK << 16
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(DataError, match=r"member 'link\.txt' is a link"):
        list_members(tmp_path / "x.zip")
    with pytest.raises(DataError, match=r"member 'link\.txt' is a link"):
        list_members(make_rar(tmp_path / "x.rar", {"link.txt": b"/etc/passwd"}, {"link.txt": LINK}))


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("S1.txt", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("S1.txt", "2")
    with pytest.raises(DataError, match=r"member 'S1\.txt' occurs twice"):
        list_members(tmp_path / "x.zip")


def test_encrypted_members_are_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a.txt": b"1"})
    whole = bytearray(path.read_bytes())
    whole[whole.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"member 'a\.txt' is encrypted"):
        list_members(path)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(member_bytes=999), r"'b' has 1000 bytes, more than 999"),
        (Limits(total_bytes=1499), r"add up to 1500 bytes, more than 1499"),
        (Limits(members=1), r"has 2 members, more than 1"),
    ],
)
def test_sizes_beyond_the_limits_are_refused(tmp_path: Path, limits: Limits, message: str) -> None:
    path = make_zip(tmp_path / "x.zip", {"a": bytes(500), "b": bytes(1000)})
    assert len(list_members(path, Limits(2, 1000, 1500))) == 2
    with pytest.raises(DataError, match=message):
        list_members(path, limits)


def test_a_bomb_stops_at_the_size_that_it_declares() -> None:
    endless = archives._checked_blocks(repeat(b"x" * 64), "bomb.zip", size=1000)
    with pytest.raises(DataError, match=r"bomb\.zip: cannot be unpacked \(read \d+ bytes, but it declares 1000"):
        b"".join(endless)


def test_a_zip_that_declares_less_than_it_holds_is_no_way_around(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", {"a": bytes(100_000)})
    whole = path.read_bytes()
    path.write_bytes(whole.replace(struct.pack("<I", 100_000), struct.pack("<I", 10)))
    assert list_members(path)[0].size == 10
    with pytest.raises(DataError, match="cannot be unpacked"):
        assert len(content(path, "a", Limits(member_bytes=50))) <= 10


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_flipped_byte_in_a_zip_is_found(tmp_path: Path, method: int) -> None:
    path = make_zip(tmp_path / "x.zip", MEMBERS, method)
    whole = bytearray(path.read_bytes())
    whole[120] ^= 0x10
    path.write_bytes(whole)
    with pytest.raises(DataError, match=r"cannot be unpacked.*fetch it again"):
        content(path, "MQ2008/S1.txt")


def test_every_truncated_zip_is_a_data_error(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "x.zip", MEMBERS)
    whole = path.read_bytes()
    for size in range(0, len(whole), 23):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"x\.zip"):
            content(path, list_members(path)[0].name)


@pytest.mark.parametrize("size", [0, 6, 15, 40, 90, 500, 20_000, 70_100])
def test_a_truncated_archive_is_a_data_error(archive: Path, size: int) -> None:
    archive.write_bytes(archive.read_bytes()[: min(size, archive.stat().st_size // 2)])
    with pytest.raises(DataError, match=r"archive\.bin"):
        content(archive, "MQ2008/S1.txt")


def test_an_error_page_is_told_from_an_archive(tmp_path: Path) -> None:
    (tmp_path / "MQ2008.rar").write_bytes(b"<!DOCTYPE html><html>404</html>")
    with pytest.raises(DataError, match=r"neither a \.zip nor a \.rar archive: it begins with b'<!DOCTYP'"):
        list_members(tmp_path / "MQ2008.rar")
    with pytest.raises(DataError, match=r"none\.zip: cannot be read: No such file"):
        list_members(tmp_path / "none.zip")


def test_without_any_rar_reader_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_rar(tmp_path / "x.rar", MEMBERS)
    monkeypatch.setattr(archives, "_import_libarchive", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for call in (lambda: list_members(path), lambda: content(path, "notes.txt")):
        with pytest.raises(DataError, match=r"libarchive is not installed; .*`unar` is not.*unpack it by hand"):
            call()


@needs_unar
def test_unar_takes_over_where_libarchive_fails_on_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libarchive = pytest.importorskip("libarchive")

    def fail(*_: object) -> None:
        raise libarchive.ArchiveError("RAR solid archive support unavailable.")

    monkeypatch.setattr(archives, "_libarchive_blocks", fail)
    path = make_rar(tmp_path / "x.rar", MEMBERS)
    assert content(path, "MQ2008/S1.txt") == MEMBERS["MQ2008/S1.txt"]
