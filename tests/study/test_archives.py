"""Archives: what comes out is what was packed, and everything odd is refused by name."""

import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from rar4_fixture import LINK, make_rar

from rankbound.errors import DataError
from rankbound_study.data import archives
from rankbound_study.data.archives import Limits, find_member, list_members, open_member
from tests.raw_files import pack

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


def content(path: Path, name: str, limits: Limits | None = None) -> bytes:
    with open_member(path, name, limits) as stream:
        return stream.read()


@pytest.fixture(params=["zip", "rar", pytest.param("unar", marks=needs_unar)])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same members, through each of the readers; the file's name tells nothing."""
    if request.param == "unar":
        monkeypatch.setattr(archives, "_import_libarchive", lambda: None)
    elif request.param == "rar" and archives._import_libarchive() is None:
        pytest.skip("libarchive is not installed")
    return (pack if request.param == "zip" else make_rar)(tmp_path / "archive.bin", MEMBERS)


def test_members_are_found_by_the_end_of_their_path_and_come_out_as_they_went_in(archive: Path) -> None:
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


def test_streams_are_read_in_any_step_and_may_be_left_in_the_middle(archive: Path) -> None:
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
REFUSED: dict[str, tuple[Callable[[Path], Path], Limits, str]] = {
    **{f"{make.__name__} {name[:9]!r}": (lambda path, make=make, name=name: make(path, {"fine": b"1", name: b"2"}),
                                         Limits(), said)
       for make, names, said in ((pack, OUTSIDE, "member .* points outside"),
                                 (pack, MALFORMED, "a member has the malformed name"),
                                 (make_rar, IN_A_RAR, "(member .* points outside|a member has the malformed name)"))
       for name in names},
    **{f"rar of mode {mode:o}": (lambda path, mode=mode: make_rar(path, {"l": b"/etc/passwd"}, {"l": mode}), Limits(),
                                 "member 'l' is a link") for mode in (LINK, 0o060644, 0o020644, 0o010644, 0o140777)},
    **{f"method {method}": (lambda path, method=method: pack(path, {"a": bytes(1000)}, method), Limits(),
                            f"member 'a' is packed by method {method}; expected stored or deflated")
       for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)},
    "NUL": (
        lambda path: changed_zip(path, lambda whole: whole.replace(b"S1.txt_e", b"S1.txt\0e"), {"S1.txt_e": b"1"}),
        Limits(), "a member has the malformed name",
    ),
    "zip link": (lambda path: pack(path, {"l": b"/etc/passwd"}, mode=LINK), Limits(), "member 'l' is a link"),
    "encrypted": (
        lambda path: changed_zip(path, flipped(lambda whole: whole.index(b"PK\x01\x02") + 8, 1), {"a": b"1"}),
        Limits(), "member 'a' is encrypted",
    ),
    "twice": (
        lambda path: changed_zip(path, lambda whole: whole.replace(b"S2", b"S1"), {"S1": b"1", "S2": b"2"}),
        Limits(), "member 'S1' occurs twice",
    ),
    "large": (lambda path: pack(path, SIZES), Limits(member_bytes=999), "member 'b' has 1000 bytes, more than 999"),
    "larger": (lambda path: pack(path, SIZES), Limits(total_bytes=1499), "its members add up to 1500 bytes, more"),
    "many": (lambda path: pack(path, SIZES), Limits(members=1), "it has 2 members, more than 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsafe_archives_are_refused(tmp_path: Path, name: str) -> None:
    make, limits, message = REFUSED[name]
    with pytest.raises(DataError, match=rf"x\.bin: archive refused: {message}"):
        list_members(make(tmp_path / "x.bin"), limits)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.bin"]


def test_sizes_within_the_limits_are_accepted_and_ambiguous_members_not_chosen_from(tmp_path: Path) -> None:
    assert len(list_members(pack(tmp_path / "x.zip", SIZES), Limits(2, 1000, 1500))) == 2
    path = pack(tmp_path / "x.zip", {"a/S1.txt": b"", "b/S1.txt": b""})
    with pytest.raises(DataError, match=r"found 2; the archive has a/S1\.txt, b/S1\.txt"):
        find_member(list_members(path), "S1.txt", path)


def test_damage_is_found_and_a_bomb_stops_at_the_size_that_it_declares(tmp_path: Path) -> None:
    endless = archives._checked_blocks(repeat(b"x" * 64), "bomb.zip", size=1000)
    with pytest.raises(DataError, match=r"bomb\.zip: cannot be unpacked \(read \d+ bytes, but it declares 1000"):
        b"".join(endless)
    less = struct.pack("<I", 100_000), struct.pack("<I", 10)
    path = changed_zip(tmp_path / "x.zip", lambda whole: whole.replace(*less), {"a": bytes(100_000)})
    assert list_members(path)[0].size == 10
    with pytest.raises(DataError, match="cannot be unpacked"):
        content(path, "a", Limits(member_bytes=50))
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        path = changed_zip(tmp_path / "x.zip", flipped(lambda _: 120, 0x10), MEMBERS, method=method)
        with pytest.raises(DataError, match=r"cannot be unpacked.*fetch it again"):
            content(path, "MQ2008/S1.txt")


def test_every_truncated_archive_is_a_data_error(archive: Path) -> None:
    whole = archive.read_bytes()
    for size in (*range(0, 600, 23), 20_000, 70_100):
        archive.write_bytes(whole[: min(size, len(whole) // 2)])
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
    pytest.importorskip("libarchive")

    def fail(*_: object) -> None:
        raise OSError("RAR solid archive support unavailable.")
        yield

    monkeypatch.setattr(archives, "_libarchive_blocks", fail)
    path = make_rar(tmp_path / "x.rar", MEMBERS)
    assert content(path, "MQ2008/S1.txt") == MEMBERS["MQ2008/S1.txt"]
