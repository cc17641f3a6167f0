"""Get a raw archive from disk, from a mirror or from its publisher, and check it before use.

A download is written out rather than left to a library such as pooch: pooch compares the checksum of the file, but an
archive may be repacked, so that its content counts; and the message names every place with its own reason.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from rankbound.errors import SourceError
from rankbound.io.atomic import temporary_beside
from rankbound.io.files import needs_extra

MIRROR_VARIABLE = "RANKBOUND_MIRROR"
CONNECT_SECONDS, SILENCE_SECONDS = 15.0, 60.0
"""Limits for one address: to connect, and without a byte."""

ATTEMPTS, PAUSE_SECONDS = 3, 2.0
"""Attempts for one address, and the pause after the first; the later ones are longer."""

_BLOCK_BYTES = 2**18
_TOO_MANY_REQUESTS, _FIRST_SERVER_FAULT = 429, 500


class _Fault(Exception):
    """The reason why one place failed; `again` if another attempt may help."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


@dataclass(frozen=True)
class Archive:
    """An archive to get, and what decides whether it is the right one.

    Args:
        title: what it is called in messages.
        names: its names at a mirror, preferred first.
        addresses: its publishers' addresses.
        homepage: where a person finds it.
        check: raises SourceError for a file with other content.
        is_checked: whether sums of the content are known.
    """

    title: str
    names: Sequence[str]
    addresses: Sequence[str]
    homepage: str
    check: Callable[[Path], None]
    is_checked: bool


def fetch(archive: Archive, out: str | os.PathLike[str], mirror: str | None = None) -> Path:
    """Make sure that `out` is the archive with the right content, and return it.

    Tried in order: `out` itself; the archive under one of its names in the same folder (placed by hand); the mirror
    (the environment's RANKBOUND_MIRROR, then `mirror`: a folder or a base URL with the archives by name); the
    publisher's addresses. A file that fails its check becomes `<name>.rejected`, or the first free one of
    `<name>.rejected-2`, ..., and is never used. Downloads appear by rename. Raises SourceError, which lists every place
    tried and what to do by hand.
    """
    target = Path(out)
    if target.exists() and not target.is_file():
        raise SourceError(f"{target}: found a folder or a device, expected a file, or nothing yet: choose another name")
    target.parent.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    if target.exists() and _accept(archive, target, target, faults):
        return target
    siblings = [target.parent / name for name in archive.names]
    mirrors = filter(None, dict.fromkeys([os.environ.get(MIRROR_VARIABLE), mirror]))
    for place in (
        *(str(path) for path in siblings if path != target and path.exists()),
        *(f"{base.rstrip('/')}/{name}" for base in mirrors for name in archive.names),
        *archive.addresses,
    ):
        # A temporary name: two simultaneous downloads must not write into one file.
        with temporary_beside(target.with_name(f"{target.name}.part"), ".part") as part:
            try:
                _copy(place, part)
            except _Fault as fault:
                faults.append(f"{place}: {fault}")
                continue
            if _accept(archive, part, target, faults, place):
                part.replace(target)
                return target
    tried = "\n".join(f"  - {fault}" for fault in faults) or "  - nothing"
    names, publisher = " or ".join(archive.names), archive.homepage or "its publisher"
    accepted = "if its content has the expected checksums" if archive.is_checked else "without checksums"
    raise SourceError(
        f"could not get {archive.title}. Tried:\n{tried}\n"
        f"By hand: fetch {names} (from {publisher} or a colleague), and save it as {target} "
        f"or beside it under its own name; or set {MIRROR_VARIABLE} (or `mirror`) to a folder or base "
        f"URL that has it. It is accepted {accepted}."
    )


def _accept(archive: Archive, path: Path, target: Path, faults: list[str], place: str | None = None) -> bool:
    """Return whether the file at `path` passes; otherwise set it aside under the target's name and note the fault."""
    try:
        archive.check(path)
        return True
    except SourceError as error:
        reason = str(error).removeprefix(f"{path}: ")
    first = target.with_name(f"{target.name}.rejected")
    # A copy from elsewhere is kept only once: attempts that are repeated must not fill the disk.
    if path != target and first.exists():
        became = f"the copy is not kept, because {first} exists"
    else:
        others = (first.with_name(f"{first.name}-{number}") for number in count(2))
        free = next(name for name in chain([first], others) if not os.path.lexists(name))
        path.rename(free)
        became = f"the file is set aside as {free}"
    faults.append(f"{place or path}: {reason} ({became})")
    print(f"rejected {faults[-1]}", file=sys.stderr)
    return False


def _copy(place: str, part: Path) -> None:
    if not place.startswith(("http://", "https://")):
        try:
            shutil.copyfile(place, part)
        except OSError as error:
            raise _Fault(error.strerror or str(error)) from error
        return
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _download(place, part)
            return
        except _Fault as fault:
            if not fault.again or attempt == ATTEMPTS:
                tries = f" ({attempt} attempts)" if attempt > 1 else ""
                raise _Fault(f"{fault}{tries}") from fault
        time.sleep(PAUSE_SECONDS * attempt)


def _download(address: str, part: Path) -> None:
    with needs_extra("datasets"):
        import requests
        from tqdm import tqdm

    # Without this header a server may compress on the fly, and the length could not be checked.
    headers, limits = {"Accept-Encoding": "identity", "User-Agent": "rankbound"}, (CONNECT_SECONDS, SILENCE_SECONDS)
    try:
        with requests.get(address, stream=True, timeout=limits, headers=headers) as response:
            if not response.ok:
                again = response.status_code == _TOO_MANY_REQUESTS or response.status_code >= _FIRST_SERVER_FAULT
                raise _Fault(f"the server answered {response.status_code} {response.reason}", again)
            length = response.headers.get("Content-Length", "")
            # disable=None: no bar unless the output is a terminal.
            total = int(length) if length.isdigit() else None
            bar = tqdm(total=total, desc=part.name, unit="B", unit_scale=True, disable=None)
            with part.open("wb") as file, bar:
                # A body that is shorter than announced is an error of requests.
                for block in response.iter_content(_BLOCK_BYTES):
                    bar.update(file.write(block))
                file.flush()
                os.fsync(file.fileno())
    except requests.RequestException as error:
        # The innermost reason: the outer layers only repeat the address.
        cause: BaseException = error
        while (inner := cause.__cause__ or cause.__context__) is not None:
            cause = inner
        raise _Fault(f"{type(cause).__name__}: {cause}", again=True) from error
    except OSError as error:
        raise _Fault(f"could not write {part}: {error.strerror or error}") from error
