"""Write files atomically, and remove the temporary files that killed writers left behind."""

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

File = str | os.PathLike[str]

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (
    *(errno.EACCES, errno.EPERM, errno.EROFS),
    *(errno.EIO, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
)

# Libraries not written in Python report the error's number only in its text.
_NUMBER_IN_TEXT = re.compile(r"\b(?:errno|os error) (\d+)\b")

_written: ContextVar[list[Path] | None] = ContextVar("written", default=None)


@contextmanager
def atomic_path(path: File) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block ends without an error.

    The data are flushed to disk before the rename: a crash leaves either the old file or the new one. The temporary
    file keeps the suffix of `path`, by which writers choose their format. It is removed on any error; if the process
    is killed, the next writer of the same path removes it.

    Raises:
        OutputError: the file cannot be written; the message gives the reason and the remedy.
    """
    target = Path(path)
    with temporary_beside(target, target.suffix) as temporary, _explained(target, temporary):
        yield temporary
        _flush_to_disk(temporary)
        temporary.replace(target)
    if (files := _written.get()) is not None:
        files.append(target)


def write_text(path: File, text: str) -> None:
    """Write a text in UTF-8 with plain newlines, whole or not at all."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(text.encode())


@contextmanager
def written() -> Iterator[list[Path]]:
    """Collect the paths that `atomic_path` writes inside the block, in the order of writing."""
    files: list[Path] = []
    token = _written.set(files)
    try:
        yield files
    finally:
        _written.reset(token)


@contextmanager
def temporary_beside(target: Path, suffix: str) -> Iterator[Path]:
    """Yield the path of an empty file in the folder of `target`, which is removed when the block ends.

    The writing process holds a lock on the file. An unlocked temporary file of the same target was left behind by a
    killed process, and is removed first.
    """
    # The name is chosen before the file exists: a signal at any moment still removes it.
    temporary, handle = target.parent / f".{target.stem}.{secrets.token_hex(8)}{suffix}", -1
    try:
        with _explained(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            name = re.compile(rf"\.{re.escape(target.stem)}\.[0-9a-f]{{16}}{re.escape(suffix)}")
            for path in [entry for entry in target.parent.iterdir() if name.fullmatch(entry.name)]:
                with suppress(OSError):
                    other = os.open(path, os.O_RDWR)
                    try:
                        if lock(other, wait=False):
                            path.unlink()
                    finally:
                        os.close(other)
            handle = _made_and_locked(temporary)
            # Between creation and lock, another writer may have removed it as left behind.
            while not is_at(handle, temporary):
                os.close(handle)
                handle = _made_and_locked(temporary)
        yield temporary
    finally:
        # If this fails too, the original error is the informative one.
        with suppress(OSError):
            temporary.unlink()
        with suppress(OSError):
            os.close(handle)


def lock(handle: int, *, wait: bool) -> bool:
    """Lock an open file until it is closed or the process ends.

    Returns False if another process holds the lock, or if the platform or the file system does not support locks.
    """
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_at(handle: int, path: Path) -> bool:
    """Return True if the open file is still the one at `path`; another process may have removed or replaced it."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _made_and_locked(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    lock(handle, wait=True)
    return handle


@contextmanager
def _explained(target: Path, temporary: Path | None = None) -> Iterator[None]:
    """Turn errors of writing into an OutputError with file, reason and remedy; pass all others on."""
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        # Closing a file after a failed write may raise a second error.
        cause: BaseException | None = error
        while cause is not None:
            match = _NUMBER_IN_TEXT.search(str(cause))
            code = (cause.errno if isinstance(cause, OSError) else None) or (int(match[1]) if match else 0)
            ours = temporary is None or str(getattr(cause, "filename", None)) == str(temporary)
            if code in _FULL or (ours and code in _REFUSED):
                advice = "make room on its disk" if code in _FULL else "check the folder, its owner and its permissions"
                reason = f"could not be written: {os.strerror(code)}"
                raise OutputError(f"{target}: {reason}; {advice}, and run this again") from error
            cause = cause.__cause__ or cause.__context__
        raise


def _flush_to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
