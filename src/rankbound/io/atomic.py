"""Files that appear whole or not at all, and the traces of writers that were killed."""

import errno
import os
import re
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from rankbound.errors import OutputError

if sys.platform != "win32":
    import fcntl

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
FAILED = frozenset({errno.EIO, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG})

# Libraries that are not written in Python leave the error's number in its text alone.
_NUMBER_IN_TEXT = re.compile(r"\b(?:errno|os error) (\d+)\b")

_written: ContextVar[list[Path] | None] = ContextVar("written", default=None)


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block ends without an error.

    The data reach the disk before the rename, so that a crash leaves either the old file or the new one. The
    temporary file keeps the suffix of `path` (writers choose their format by it) and is removed on any error; what a
    killed process left of it, the next writer of the same path removes.

    Raises:
        OutputError: the file cannot be written; the text says why, and what to do.
    """
    target = Path(path)
    with temporary_beside(target, target.suffix) as temporary, _explained(target, temporary):
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(target)
    if (files := _written.get()) is not None:
        files.append(target)


@contextmanager
def written() -> Iterator[list[Path]]:
    """Collect the files that `atomic_path` writes inside the block, in their order."""
    files: list[Path] = []
    token = _written.set(files)
    try:
        yield files
    finally:
        _written.reset(token)


@contextmanager
def temporary_beside(target: Path, suffix: str) -> Iterator[Path]:
    """Yield the path of an empty file in the folder of `target` that is gone when the block ends.

    Its process holds a lock on it: a file of the same target that nobody has locked was left by a process that was
    killed, and is removed first.
    """
    # Named before it exists, so that a signal at any moment finds what has to be removed.
    temporary, handle = _temporary_name(target, suffix), -1
    try:
        with _explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            _remove_left_behind(target, suffix)
            handle = _made_and_locked(temporary)
            # Between the two, another writer may have taken it for a dead one's.
            while not is_at(handle, temporary):
                os.close(handle)
                handle = _made_and_locked(temporary)
        yield temporary
    finally:
        # Where even this fails, the error on its way says why.
        with suppress(OSError):
            temporary.unlink()
        with suppress(OSError):
            os.close(handle)


def lock(handle: int, *, wait: bool) -> bool:
    """Lock an open file for this process, until it is closed or the process ends, however it ends.

    Returns False where another process has it, or neither the system nor the file system knows locks.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_at(handle: int, path: Path) -> bool:
    """Whether the open file is the one that lies at `path`: another process may have removed or replaced it."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _temporary_name(target: Path, suffix: str) -> Path:
    return target.parent / f".{target.stem}.{secrets.token_hex(8)}{suffix}"


def _made_and_locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    lock(handle, wait=True)
    return handle


def _remove_left_behind(target: Path, suffix: str) -> None:
    name = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{16}}{re.escape(suffix)}")
    for path in [entry for entry in target.parent.iterdir() if name.fullmatch(entry.name)]:
        with suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                if lock(handle, wait=False):
                    path.unlink()
            finally:
                os.close(handle)


@contextmanager
def _explained(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Errors of writing as one that names the file, the reason and what to do; all others as they are."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        for one in _chain(error):
            code = _errno_of(one)
            ours = temporary is None or str(getattr(one, "filename", None)) == str(temporary)
            if code in FULL or (ours and code in FORBIDDEN | FAILED):
                reason = f"{os.strerror(code)}; {_what_to_do(code)}"
                raise OutputError(f"{target}: could not be written: {reason}") from error
        raise


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and those before it: a library that closes a file after a failed write may stumble over that in turn."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _errno_of(error: BaseException) -> int:
    code = error.errno if isinstance(error, OSError) else None
    found = None if code else _NUMBER_IN_TEXT.search(str(error))
    return code or (int(found[1]) if found else 0)


def _what_to_do(code: int) -> str:
    if code in FULL:
        return "make room on its disk, and run this again"
    return "check the folder, its owner and its permissions, and run this again"


def _flush_to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
