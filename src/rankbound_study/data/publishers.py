"""The publishers of raw files: addresses, names of the files, and terms.

Only downloads depend on this module: another address changes no data, because `sources` says which content is right.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.sections.known_sets import known_names, known_set
from rankbound_study.data.sources import SOURCES, RawSource


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """The publisher's addresses and terms of a raw file.

    `file_names` are its possible names on a mirror or if placed by hand, preferred first; `addresses` the publisher's.
    """

    source: RawSource
    file_names: tuple[str, ...]
    addresses: tuple[str, ...]
    homepage: str
    terms: str
    citation: str


def publisher_of(source: RawSource, described: DescriptionKeys) -> Publisher:
    """Return the publisher of a data set's raw file by its description."""
    return Publisher(
        source=source,
        file_names=tuple(described.archives or ()),
        addresses=tuple(described.addresses or ()),
        homepage=described.homepage or "",
        terms=described.terms or "",
        citation=described.citation or "",
    )


PUBLISHERS: Mapping[str, Publisher] = {name: publisher_of(SOURCES[name], known_set(name)) for name in known_names()}
"""The publishers of the data sets that the project knows."""
