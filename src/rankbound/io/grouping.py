"""Group the rows of a table into lists, one per topic; topics and rows keep their order."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.io.judged import Names
from rankbound.texts import quoted


def by_topic(topic: pl.Series) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return the topics' names, the offsets of their lists, and the order that groups the rows (None if grouped)."""
    names = topic.unique(maintain_order=True)
    if len(names) == 0:
        return [], np.zeros(1, np.int64), None
    code = topic.replace_strict(names, pl.Series(np.arange(len(names)))).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=len(names))))).astype(np.int64)
    if (code[1:] >= code[:-1]).all():
        return names.to_list(), offsets, None
    return names.to_list(), offsets, np.argsort(code, kind="stable")


def name_column(names: Names) -> pl.Series:
    """Return names, text or numbers, as a column of text."""
    column = names if isinstance(names, pl.Series) else pl.Series(names)
    return column.cast(pl.String)


def topic_column(topics: Names, offsets: npt.NDArray[np.int64]) -> pl.Series:
    """Return the topic of every item."""
    return name_column(topics)[np.repeat(np.arange(len(topics)), np.diff(offsets))]


def require_distinct_items(
    frame: pl.DataFrame,
    where: str,
    topics: Sequence[str] | None = None,
    rows: Callable[[npt.NDArray[np.int64]], str] | None = None,
) -> None:
    """Raise DataError if a topic has an item twice; `frame` has the columns item and topic (its index in `topics`).

    `rows` names rows of the frame as they stand in its file, for the message.
    """
    twice = frame.filter(pl.struct("topic", "item").is_duplicated()) if _has_duplicates(frame) else frame.clear()
    if len(twice):
        topic, item = twice.select("topic", "item").row(0)
        places = np.flatnonzero(((frame["topic"] == topic) & (frame["item"] == item)).to_numpy())
        which = "" if rows is None else f" ({rows(places)})"
        topic = topic if topics is None else topics[topic]
        raise DataError(
            f"{where}: item {quoted(item)} occurs more than once in topic {quoted(topic)}{which}; expected each item "
            "once"
        )


def _has_duplicates(frame: pl.DataFrame) -> bool:
    # Hashing is much faster than comparing the pairs, and collisions are rare.
    return bool(frame.select(pl.struct("topic", "item").hash().n_unique()).item() < len(frame))
