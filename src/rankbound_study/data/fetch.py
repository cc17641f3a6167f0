"""Get the raw archive of a data set, and check it before use.

Only downloads depend on this module: another address changes no data, because `sources` says which content is right.
"""

import os
from functools import partial
from pathlib import Path

from rankbound.io.fetch import Archive
from rankbound.io.fetch import fetch as fetch_archive
from rankbound_study.data.sources import RawSource, check_content


def fetch(source: RawSource, out: str | os.PathLike[str], mirror: str | None = None) -> Path:
    """Make sure that `out` is the file of `source` with the right content, and return it, as `rankbound.io.fetch`.

    A description without names of its archive has that of `out`, which the configuration gives.
    """
    described = source.described
    places = {"names": described.archives or (Path(out).name,), "addresses": described.addresses or ()}
    check, homepage = partial(check_content, source), described.homepage or ""
    archive = Archive(source.title, **places, homepage=homepage, check=check, is_checked=source.is_checked)
    return fetch_archive(archive, out, mirror)
