"""The stated sizes of a data set, by which another edition is noticed where checksums are not known."""

from rankbound.errors import DataError
from rankbound_study.config.sections.description import DescriptionKeys


def require_sizes(described: DescriptionKeys, topics: int, rows: int, where: str) -> None:
    """Raise DataError if files have other numbers of topics and rows than their description states."""
    stated = described.sizes
    if stated is None or (topics, rows) == (stated.topics, stated.rows):
        return
    raise DataError(
        f"{where}: found {rows:,} rows of {topics:,} topics, but {described.title or 'the description'} has "
        f"{stated.rows:,} of {stated.topics:,}: it is incomplete, or of another edition; fetch it again, or "
        "describe it under another name (docs/data.md)"
    )
