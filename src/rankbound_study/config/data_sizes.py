"""The number of topics of a data set, from a short look: stated, generated, or by the beginning of files."""

import re
from pathlib import Path

from rankbound_study.config.own_files import own_files
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.study import Study

LISTS = {"movielens": 412, "mq2008": 784, "mslr-web10k": 10_000}
"""Topics of the fetched data sets whose descriptions don't state them."""

OTHER_LISTS = 1_000
"""Topics of data sets of which nothing is known before they are converted."""

LOOK = 1 << 20
"""Bytes of a file's beginning that are looked at."""

PACKED = (".gz", ".zip", ".rar", ".parquet")

_QUERY = re.compile(rb"qid:([^\s]+)")


def topics_of(study: Study, source: str) -> int:
    """Return about the number of topics of a data set; no more than the beginning of a file of it is read."""
    section = study.sources[source]
    if "size" in section:
        return int(section["size"])
    if source in LISTS or source in study.generated:
        return LISTS.get(source, OTHER_LISTS)
    described = study.described(source)
    return described.sizes.topics if described.sizes else _found(described) or OTHER_LISTS


def _found(described: DescriptionKeys) -> int:
    """Return the topics of files of one's own; 0 if nothing tells."""
    files = [Path(name) for name in own_files(described)] if described.path else []
    if not files or not all(file.is_file() for file in files) or any(file.suffix in PACKED for file in files):
        return 0
    # The files of given folds repeat the topics.
    repeated = described.n_folds if described.given_folds else 1
    if described.format == "lightgbm":
        groups = [file for file in files if file.name.endswith(described.groups)]
        return sum(file.read_bytes().count(b"\n") for file in groups) // repeated
    with files[0].open("rb") as file:
        beginning = file.read(LOOK)
    if not beginning.strip():
        return 0
    share = len(beginning) / max(1, sum(file.stat().st_size for file in files))
    found = set(_QUERY.findall(beginning)) if described.format == "letor" else _column(beginning, described)
    return round(len(found) / share / repeated) if found else 0


def _column(beginning: bytes, described: DescriptionKeys) -> set[bytes]:
    """Return the topics of the first lines of a delimited file; none if its header doesn't name their column."""
    if described.columns is None:
        return set()
    separator = described.separator.encode()
    header, *lines = beginning.splitlines()
    names = (
        header.split(separator)
        if described.header
        else [b"%d" % (place + 1) for place in range(len(header.split(separator)))]
    )
    wanted = described.columns.topic.encode()
    if wanted not in names:
        return set()
    # The last line may be cut off.
    rows = (line.split(separator) for line in lines[:-1])
    place = names.index(wanted)
    return {row[place] for row in rows if len(row) > place}
