"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and rename it to `path` if the block ends without an error.

    The data reach the disk before the rename, so that a crash leaves either the old file or the new one. The
    temporary file keeps the suffix of `path` (writers choose their format by it) and is removed on any error.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}.", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _flush_to_disk(temporary)
        temporary.chmod(0o666 & ~_current_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _flush_to_disk(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
