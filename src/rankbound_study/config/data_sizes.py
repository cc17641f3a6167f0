"""The sizes of a data set, from a short look: stated, generated, or by the beginning of files."""

import re
from pathlib import Path
from typing import NamedTuple

from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.config.own_files import own_files
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.study import Study

LISTS = {"movielens": 412, "mq2008": 784, "mslr-web10k": 10_000}
"""Topics of the fetched data sets whose descriptions don't state them."""

ROWS = {"movielens": 100_836, "mq2008": 15_211, "mslr-web10k": 1_200_192, "aaf": 12_936}
"""Ratings, judged items or pictures of the same."""

WIDTHS = {"mq2008": 46, "mslr-web10k": 136}
"""Their features."""

OTHER_LISTS = 1_000
"""Topics of data sets of which nothing is known before they are converted."""

ITEMS, FEATURES = 20, 100
"""Items of a list, and features, of data sets of which nothing is known."""

PIXELS, OF_VGG16 = 3 * 100 * 100, 4_096
"""Values of a picture, and of the network's penultimate layer."""

BYTES_OF_A_LINE = 25
"""Of text with a rating."""

LOOK = 1 << 20
"""Bytes of a file's beginning that are looked at."""

PACKED = (".gz", ".zip", ".rar", ".parquet")

_QUERY = re.compile(rb"qid:([^\s]+)")


class Sizes(NamedTuple):
    """About the sizes of a data set: topics, rows (ratings, judged items, pictures) and features of an item."""

    topics: int
    rows: int
    width: int


def sizes_of(study: Study, source: str, features: str | None = None) -> Sizes:
    """Return about the sizes of a data set; `features` names the network that computes those of pictures."""
    section, kind = study.sources[source], study.kind_of(source)
    topics = topics_of(study, source)
    if kind == "images":
        faces = int(section.get("size", ROWS["aaf"]))
        return Sizes(section["pairs"]["train"], faces, OF_VGG16 if features else PIXELS)
    known = WIDTHS.get(source.removeprefix(SYNTHETIC), FEATURES)
    if source in study.generated or source in ROWS:
        return Sizes(topics, ROWS.get(source, ITEMS * topics), known)
    described = study.described(source)
    rows = described.sizes.rows if described.sizes else _rows(described) or ITEMS * topics
    return Sizes(topics, rows, described.features or known)


def _rows(described: DescriptionKeys) -> int:
    """Return about the number of ratings in text of one's own; 0 if the file doesn't tell."""
    files = [Path(name) for name in own_files(described)] if described.path else []
    if described.format != "ratings" or not all(file.is_file() and file.suffix not in PACKED for file in files):
        return 0
    repeated = described.n_folds if described.given_folds else 1
    return sum(file.stat().st_size for file in files) // BYTES_OF_A_LINE // repeated


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
