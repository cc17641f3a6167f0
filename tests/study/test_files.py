"""Files that appear whole or not at all, and what becomes of the traces of killed writers."""

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from rankbound.errors import OutputError, RankboundError
from rankbound.io import atomic as files
from rankbound.io.atomic import atomic_path, is_at, lock
from rankbound_study.jobs.running import Shards

if TYPE_CHECKING:
    from _typeshed import TraceFunction

WRITER = """
import sys
from rankbound.io.atomic import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def other_writer(path: Path) -> "subprocess.Popen[str]":
    """A process in the middle of writing `path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def write(path: Path, text: str = "new", error: BaseException | None = None) -> None:
    with atomic_path(path) as temporary:
        assert temporary.name.endswith(path.suffix)
        temporary.write_text(text)
        if error is not None:
            raise error


def test_a_file_appears_when_it_is_on_disk_with_usual_permissions_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, on_disk, flush = tmp_path / "new" / "x.csv", list[tuple[str, bool]](), files._flush_to_disk

    def flushed(temporary: Path) -> None:
        on_disk.append((temporary.read_text(), path.exists()))
        flush(temporary)

    monkeypatch.setattr(files, "_flush_to_disk", flushed)
    write(path)
    with pytest.raises(KeyError):
        write(path, "half", KeyError("x"))
    assert on_disk == [("new", False)]
    assert (names(path.parent), path.read_text()) == (["x.csv"], "new")
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with other_writer(path) as killed, other_writer(path) as living:
        killed.kill()
        killed.wait()
        assert len(names(tmp_path)) == 2
        write(path, "first")
        assert len(names(tmp_path)) == 2, "the living one's file, and ours"
        assert path.read_text() == "first"
        living.communicate("")
        assert living.returncode == 0
    assert names(tmp_path) == ["x.csv"]
    assert path.read_text() == "half"


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in (".y.abcdefgh.csv", ".x.abcdefgh.txt", ".x.notes.csv", "x.abcdefgh.csv"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    write(tmp_path / "x.csv")
    assert names(tmp_path) == sorted([*before, "x.csv"])


def stumbling() -> AttributeError:
    """The second error of a library that stumbles over a full disk."""
    error = AttributeError("pos")
    error.__context__ = OSError(errno.ENOSPC, "No space left on device")
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        stumbling(),
    ],
)
def test_a_full_disk_is_said_with_the_file_and_what_to_do(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(OutputError, match=r"x\.csv: could not be written: No space left on device; make room"):
        write(tmp_path / "x.csv", error=error)
    assert names(tmp_path) == []


def test_errors_of_other_files_stay_as_they_are_and_a_file_in_the_place_of_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(PermissionError) as caught:
        write(tmp_path / "x.csv", error=PermissionError(errno.EACCES, "Permission denied", "input.csv"))
    assert not isinstance(caught.value, RankboundError)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"could not be written: .*; check the folder"):
        write(tmp_path / "file" / "x")


def test_a_lock_is_for_one_open_file_and_ends_with_it(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock(first, wait=False)
    assert not lock(second, wait=False)
    os.close(first)
    assert lock(second, wait=False)
    assert is_at(second, tmp_path / "lock")
    (tmp_path / "lock").unlink()
    assert not is_at(second, tmp_path / "lock")
    os.close(second)


HOLDER = """
import sys
from rankbound_study.jobs.running import Shards
with Shards(sys.argv[1], "", []) as shards:
    print("working", flush=True)
    sys.stdin.read()
    if sys.argv[2] == "finish":
        shards.remove()
    else:
        import os
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["finish", "die"])
def test_a_second_job_waits_for_the_first_however_that_ends(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "x.parquet"), end]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:  # type: ignore[call-overload]
        assert first.stdout.readline() == "working\n"
        command[-1] = "finish"
        with subprocess.Popen(command, **pipes) as second:  # type: ignore[call-overload]
            assert "another process is making it; waiting" in second.stderr.readline()
            first.communicate("")
            assert second.stdout.readline() == "working\n"
            second.communicate("")
            assert second.returncode == 0
    assert names(tmp_path) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_interruption_at_any_instruction_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """As a signal's handler raises it: before, between and after the making, the locking and the renaming."""
    target = tmp_path / "x.txt"
    for last in itertools.count(1):
        target.write_text("old")
        left = itertools.count(last, -1)

        def interrupt(frame: FrameType, event: str, _: object, left: Iterator[int] = left) -> "TraceFunction | None":
            if frame.f_code.co_filename != files.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and next(left) == 0:
                raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            write(target)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(None)
        assert names(tmp_path) == ["x.txt"], last
        assert target.read_text() in ("old", "new")
    assert last > 200
    assert target.read_text() == "new"


def test_shards_of_a_finished_job_are_gone(tmp_path: Path) -> None:
    with Shards(tmp_path / "x.parquet", "options", []) as shards:
        write(shards.path("one"))
        assert shards.path("one").exists()
        shards.remove()
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there, so that nobody removes a living writer's file")
def test_a_file_that_is_taken_for_a_dead_writers_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may look at the folder between the making of a temporary file and its locking."""
    made = []
    lock = files.lock

    def seen_by_another_writer(handle: int, *, wait: bool) -> bool:
        made.append(handle)
        if len(made) == 1:
            (temporary,) = tmp_path.iterdir()
            temporary.unlink()
        return lock(handle, wait=wait)

    monkeypatch.setattr(files, "lock", seen_by_another_writer)
    write(tmp_path / "a.txt")
    assert len(made) == 2
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").stat().st_mode & 0o600 == 0o600
