"""A finished study for others: TREC files of its scores, and an RO-Crate; each a folder that is whole or absent."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rankbound.errors import ConfigError


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Yield a new folder beside `target`, and rename it to `target` if the block ends without an error.

    It is removed on any error. Raises ConfigError if `target` exists and is not an empty folder.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise ConfigError(f"{target}: already exists, expected a new folder: remove it, or choose another one")
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as temporary:
        folder = Path(temporary, target.name)
        folder.mkdir()
        yield folder
        if target.exists():
            target.rmdir()
        folder.rename(target)
