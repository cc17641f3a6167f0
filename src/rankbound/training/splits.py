"""Splits of judged lists into training, validation and test, which have no topic, or no item of one, in common.

Interactions may be split by their times: at one moment for all topics, or before the last items of each topic. Random
splits train on interactions that are later than those of the test, so that a model knows what will be popular, and what
a user will do next. Values by a random split are therefore mostly higher than those of a model in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.io.files import kind_of, needs_extra, read_lists
from rankbound.io.judged import JudgedLists, name_column
from rankbound.texts import quantity, quoted

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Judged lists to train on, to select the epoch on, and to test on.

    Args:
        training: the lists to train on.
        validation: those that select the epoch; by default, a share of the training lists is held out.
        test: the lists to score and evaluate.
        name: how messages call the split, such as the names of its files.

    >>> split = rb.Split(training=rb.read_lists("train.csv"), test=rb.read_lists("test.csv"))  # doctest: +SKIP
    """

    training: JudgedLists
    validation: JudgedLists | None = None
    test: JudgedLists
    name: str = ""

    @property
    def parts(self) -> Mapping[str, JudgedLists | None]:
        """The three parts by name."""
        return {"training": self.training, "validation": self.validation, "test": self.test}


def require_apart(parts: Mapping[str, JudgedLists | None], *, by_item: bool) -> None:
    """Raise DataError for a topic that is in two of the named parts, or, `by_item`, for a topic's item in two."""
    if by_item:
        from rankbound.io.table_columns import rows_of

    there = {name: lists for name, lists in parts.items() if lists is not None}
    for (a, first), (b, second) in combinations(there.items(), 2):
        if by_item:
            rows = rows_of(second).join(rows_of(first), on=["topic", "item"], how="semi", maintain_order="left")
            shared = "item {1} of topic {0}".format(*map(quoted, rows.row(0))) if len(rows) else ""
        else:
            known = set(first.topics)
            shared = next((f"topic {quoted(topic)}" for topic in second.topics if topic in known), "")
        if shared:
            where = "each item of a topic" if by_item else "each topic"
            raise DataError(
                f"{shared} is in the {a} and in the {b} lists; expected {where} in one of them: remove it from one"
                + ("" if by_item else ", or give different topics different names")
            )


def picked(lists: JudgedLists, rows: Mask, topics: Mask | None = None) -> JudgedLists:
    """Return the lists of some rows: these topics', by default those that have any of the rows."""
    sizes = np.diff(np.append(0, np.cumsum(rows))[lists.offsets])
    kept = np.flatnonzero(sizes if topics is None else topics)
    return JudgedLists(
        topics=[lists.topics[topic] for topic in kept.tolist()],
        items=name_column(lists.items).filter(rows),
        relevance=lists.relevance[rows],
        offsets=np.append(0, np.cumsum(sizes[kept])),
        features=lists.features[rows],
        feature_names=lists.feature_names,
        weights=None if lists.weights is None else lists.weights[rows],
        list_weights=None if lists.list_weights is None else lists.list_weights[kept],
        categories=lists.categories,
    )


def split_by_time(
    source: Any,
    *,
    time: str,
    share: float = 0.2,
    at: float | str | date | datetime | None = None,
    validation_share: float = 0.0,
    topic: str = "topic",
    item: str | None = None,
    relevance: str | None = "relevance",
    features: Sequence[str] = (),
) -> Split:
    r"""Split a table of interactions at a moment: training before it, test from it on.

    Rows of one time stay together. With $n$ rows in the order of time, the cut is the time of row $\lceil n (1 - s)
    \rceil$, counted from 0: the test has at least the share $s$ of the rows, up to ties and rounding. The rows before
    it are cut once more for the validation lists.

    Nothing leaks: whatever is trained on is earlier than whatever is tested. Topics and items that begin after the cut
    are in the test alone, where a model does not know them (`unknown` of `rankbound.Recipe`); topics that end before it
    are in the training alone.

    Args:
        source: a path to CSV or parquet, or a data frame, with a row per interaction.
        time: the column of times: numbers, dates or datetimes; text in ISO 8601 is read as these.
        share: the share of the rows to test on, the latest ones; without `at`.
        at: the moment of the cut, as the column has it; the rows at this moment are tested.
        validation_share: the share of the other rows to select the epoch on, the latest ones.
        topic, item: the columns, as in `read_lists`.
        relevance: the column of relevance labels; None takes every row as an interaction, of relevance 1.
        features: the columns of features; none by default.

    Returns:
        The split; without a `validation_share`, its validation is None.

    Raises:
        ValueError: for shares out of range, or a moment that is no time of such a column.
        DataError: as `read_lists`, for a time that is missing or cannot be read, or if a part would be empty.

    >>> rows = {"topic": ["a", "a", "b"], "item": ["x", "y", "x"], "relevance": [1, 1, 1], "day": [1, 3, 2]}
    >>> split = rb.split_by_time(rows, time="day", at=3)
    >>> list(split.training.items), list(split.test.items)
    (['x', 'x'], ['y'])
    """
    for name, value, lowest in (("share", share, "(0"), ("validation_share", validation_share, "[0")):
        if not (0 < value < 1 or (value == 0 and lowest == "[0")):
            raise ValueError(f"{name}: found {value}, expected a share in {lowest}, 1)")
    lists, moments = _read(source, time, topic, item, relevance, features)
    values = moments.to_physical().to_numpy()
    cut = _cut(values, share, "test") if at is None else _moment(at, moments, time)
    tested = values >= cut
    rest = values[~tested]
    held = ~tested & (values >= _cut(rest, validation_share, "validation")) if validation_share else None
    if at is not None and tested.all() | ~tested.any():
        side = "before" if tested.all() else "at or after"
        raise DataError(f"at: found {at}, but no row is {side} it; expected a moment between the times of {time!r}")
    return _split(lists, tested, held, f"by {time}")


def leave_last_out(
    source: Any,
    *,
    time: str,
    last: int = 1,
    validation: int = 0,
    topic: str = "topic",
    item: str | None = None,
    relevance: str | None = "relevance",
    features: Sequence[str] = (),
) -> Split:
    """Split a table of interactions within each topic: its `last` rows are tested, and those before them trained on.

    Rows of one time are in the order of their items' names, whatever the order of the table. A topic with too few rows
    to leave one for training, at most `last + validation`, is in the training lists alone.

    The time of other topics leaks: a topic is trained on rows that are later than another one's test, so that the model
    knows what will be popular then. `split_by_time` has no such leak, but topics that are new in its test.

    Args:
        source, time: as in `split_by_time`.
        last: the number of each topic's latest rows to test on.
        validation: the number of rows before those to select the epoch on.
        topic, item, relevance, features: as in `split_by_time`.

    Returns:
        The split; without `validation`, its validation is None.

    Raises:
        ValueError: for numbers of rows out of range.
        DataError: as `split_by_time`; no topic has enough rows.

    >>> rows = {"topic": ["a", "a", "b"], "item": ["x", "y", "x"], "relevance": [1, 1, 1], "day": [1, 3, 2]}
    >>> split = rb.leave_last_out(rows, time="day")
    >>> list(split.training.items), list(split.test.items)
    (['x', 'x'], ['y'])
    """
    for name, value, lowest in (("last", last, 1), ("validation", validation, 0)):
        if value < lowest:
            raise ValueError(f"{name}: found {value}, expected a number of rows from {lowest}")
    lists, moments = _read(source, time, topic, item, relevance, features)
    sizes = np.diff(lists.offsets)
    topics = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((name_column(lists.items).rank("dense").to_numpy(), moments.to_physical().to_numpy(), topics))
    # Rows of a topic that are later, by the place in this order.
    later = np.empty(len(order), np.int64)
    later[order] = np.repeat(lists.offsets[1:], sizes) - 1 - np.arange(len(order))
    enough = np.repeat(sizes > last + validation, sizes)
    tested = enough & (later < last)
    if not tested.any():
        raise DataError(
            f"no topic has more than {quantity(last + validation, 'row')}, expected some to train on: the largest of "
            f"{quantity(len(sizes), 'topic')} has {sizes.max(initial=0)}"
        )
    return _split(lists, tested, enough & ~tested & (later < last + validation) if validation else None, "last out")


def _split(lists: JudgedLists, tested: Mask, held: Mask | None, name: str) -> Split:
    known = ~tested if held is None else ~(tested | held)
    return Split(
        training=picked(lists, known),
        validation=None if held is None else picked(lists, held),
        test=picked(lists, tested),
        name=name,
    )


def _read(
    source: Any, time: str, topic: str, item: str | None, relevance: str | None, features: Sequence[str]
) -> tuple[JudgedLists, Any]:
    """Return the lists of a table with the times of their rows."""
    with needs_extra("data"):
        from rankbound.io.table_columns import Columns
        from rankbound.io.tables import read_moments
    if kind_of(source) in ("text", "packed"):
        raise DataError(f"{source}: found no table with a row per interaction; expected CSV, parquet or a data frame")
    label = "relevance" if relevance is None else relevance
    names, labelled = list(features), relevance is not None
    lists = read_lists(source, topic=topic, item=item, relevance=label, features=names, labelled=labelled)
    if relevance is None:
        lists = replace(lists, relevance=np.ones(len(lists.items), np.int8))
    return lists, read_moments(source, Columns(topic, item, label), time)


def _cut(values: npt.NDArray[Any], share: float, part: str) -> Any:
    """Return the time from which on at least about a share of the rows are; DataError if these are all of them."""
    if len(values) == 0:
        raise DataError(f"the {part} part would be empty: there are no rows")
    ordered = np.sort(values)
    cut = ordered[min(int(np.ceil(len(values) * (1 - share))), len(values) - 1)]
    if cut == ordered[0]:
        raise DataError(
            f"the {part} part would have all of {quantity(len(values), 'row')}, as too many are of one time, which "
            "stay together; expected times that differ, or a smaller share"
        )
    return cut


def _moment(at: Any, moments: Any, time: str) -> Any:
    """Return a moment as the times of a column are in memory."""
    import polars as pl

    from rankbound.io.table_columns import Table, moments_of

    try:
        moment = moments_of(Table(pl.DataFrame({time: [at]}), "at", "row", 0), time)
    except DataError:
        moment = pl.Series([None])
    zones = [getattr(one.dtype, "time_zone", None) is None for one in (moment, moments)]
    if moment.dtype.is_numeric() != moments.dtype.is_numeric() or moment.has_nulls() or zones[0] != zones[1]:
        zone = "without" if zones[1] else "with"
        expected = f"a date or time {zone} a time zone, such as 2026-01-31 12:30:00{'' if zones[1] else 'Z'}"
        expected = "a number" if moments.dtype.is_numeric() else expected
        raise ValueError(f"at: found {at!r}, expected {expected}, as the column {time!r} has")
    return (moment if moments.dtype.is_numeric() else moment.cast(moments.dtype)).to_physical()[0]
