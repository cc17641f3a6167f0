"""Splits by time against rows picked one by one, whatever the order of the table, and what they refuse."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.errors import DataError

Rows = set[tuple[str, str, float]]


def table(seed: int) -> pl.DataFrame:
    """Interactions of users of 1 to 12 items, of few times, so that many tie."""
    random = np.random.default_rng(seed)
    rows = [(f"u{u}", f"i{i}") for u, n in enumerate(random.integers(1, 13, 30)) for i in random.permutation(20)[:n]]
    user, item = zip(*rows, strict=True)
    numbers = random.integers(1, 4, len(rows)), random.integers(0, 25, len(rows))
    frame = pl.DataFrame({"user": user, "item": item, "stars": numbers[0], "when": numbers[1]})
    return frame.sample(fraction=1, shuffle=True, seed=seed)


def rows_of(lists: rb.JudgedLists | None) -> Rows:
    if lists is None:
        return set()
    topics = np.repeat(np.array(lists.topics), np.diff(lists.offsets)).tolist()
    return set(zip(topics, list(lists.items), lists.relevance.tolist(), strict=True))


def parts_of(split: rb.Split) -> list[Rows]:
    return [rows_of(part) for part in split.parts.values()]


COLUMNS: dict[str, Any] = {"time": "when", "topic": "user", "relevance": "stars"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("share", "validation_share"), [(0.2, 0.0), (0.5, 0.3), (0.05, 0.5)])
def test_a_cut_is_one_moment_and_ties_stay_together(seed: int, share: float, validation_share: float) -> None:
    frame = table(seed)
    split = rb.split_by_time(frame, **COLUMNS, share=share, validation_share=validation_share)
    times = sorted(frame["when"])
    cut = times[min(ceil(len(times) * (1 - share)), len(times) - 1)]
    before = [time for time in times if time < cut]
    first = before[min(ceil(len(before) * (1 - validation_share)), len(before) - 1)] if validation_share else cut
    expected: list[Rows] = [set(), set(), set()]
    for user, item, stars, time in frame.rows():
        expected[0 if time < first else 1 if time < cut else 2].add((user, item, stars))
    assert parts_of(split) == expected
    assert (split.validation is None) == (validation_share == 0)
    assert len(expected[2]) >= share * len(frame) - 1
    assert parts_of(rb.split_by_time(frame, **COLUMNS, at=cut, validation_share=validation_share)) == expected
    assert parts_of(
        rb.split_by_time(frame.sort("item"), **COLUMNS, share=share, validation_share=validation_share)
    ) == (expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("last", "validation"), [(1, 0), (1, 1), (3, 2)])
def test_the_last_are_left_out_by_time_and_name_and_small_topics_stay(seed: int, last: int, validation: int) -> None:
    frame = table(seed)
    of_users = defaultdict(list)
    for user, item, stars, time in frame.rows():
        of_users[user].append((time, item, stars))
    expected: list[Rows] = [set(), set(), set()]
    for user, rows in of_users.items():
        for place, (_, item, stars) in enumerate(sorted(rows, reverse=True)):
            part = 2 if place < last else 1 if place < last + validation else 0
            expected[part if len(rows) > last + validation else 0].add((user, item, stars))
    for order in (frame, frame.sort("stars")):
        assert parts_of(rb.leave_last_out(order, **COLUMNS, last=last, validation=validation)) == expected


def test_times_are_numbers_dates_datetimes_and_their_texts(tmp_path: Path) -> None:
    days = [datetime(2026, 1, 1) + timedelta(days=7 * day) for day in (2, 0, 3, 1)]
    frame = pl.DataFrame({"user": ["a", "a", "b", "b"], "item": ["x", "y", "x", "y"]})
    texts = [day.isoformat(" ") for day in days]
    forms: list[tuple[list[Any], Any]] = [
        ([day.timestamp() for day in days], days[0].timestamp()),
        # Nanoseconds, which differ beyond the digits of a double.
        ([10**18 + day for day in (2, 0, 3, 1)], 10**18 + 2),
        (days, days[0]),
        (days, "2026-01-15"),
        ([day.date() for day in days], days[0].date()),
        (texts, date(2026, 1, 15)),
        ([f"{text}Z" for text in texts], days[0].replace(tzinfo=UTC)),
        ([f"{text}+02:00" for text in texts], "2026-01-14T22:00:00Z"),
    ]
    for values, at in forms:
        path = tmp_path / "rows.csv"
        own = frame.with_columns(pl.Series("when", values))
        own.write_csv(path)
        for source in (own, path):
            split = rb.split_by_time(source, time="when", topic="user", relevance=None, at=at)
            assert parts_of(split) == [{("a", "y", 1), ("b", "y", 1)}, set(), {("a", "x", 1), ("b", "x", 1)}], values


FRAME = pl.DataFrame({"user": ["a", "a", "b"], "item": ["x", "y", "x"], "when": [1, 2, 3], "stars": [1, 0, 2]})


@pytest.mark.parametrize(
    ("change", "flags", "message"),
    [
        ({}, {"share": 0}, r"share: found 0, expected a share in \(0, 1\)"),
        ({}, {"validation_share": 1}, r"validation_share: found 1, expected a share in \[0, 1\)"),
        ({}, {"at": 1}, "at: found 1, but no row is before it"),
        ({}, {"at": 4.5}, "at: found 4.5, but no row is at or after it"),
        ({}, {"at": "2026-01-01"}, "at: found '2026-01-01', expected a number, as the column 'when' has"),
        ({"when": ["2026-01-01"] * 3}, {"at": 3}, "at: found 3, expected a date or time without a time zone"),
        ({"when": ["2026-01-01T01:00Z"] * 3}, {"at": "2026-01-01"}, "expected a date or time with a time zone"),
        ({"when": [1, 1, 1]}, {}, "the test part would have all of 3 rows, as too many are of one time"),
        ({"when": [1, 1, 2]}, {"validation_share": 0.5}, "the validation part would have all of 2 rows"),
        ({"when": [1, None, 2]}, {}, "table, row 1: column 'when' is empty"),
        (
            {"when": ["2026-01-01", "soon", "2026-01-02"]},
            {},
            "table, row 1: column 'when' holds 'soon', expected a time",
        ),
        ({"when": [True, True, False]}, {}, "column 'when' holds 'True', expected a time"),
        ({}, {"time": "day"}, "there is no column 'day'"),
        ({}, {"relevance": "label"}, "there is no column 'label'"),
    ],
)
def test_what_a_cut_refuses(change: dict[str, Any], flags: dict[str, Any], message: str) -> None:
    frame = FRAME.with_columns(pl.Series(name, values) for name, values in change.items())
    with pytest.raises((ValueError, DataError), match=message):
        rb.split_by_time(frame, **(COLUMNS | flags))


def test_a_factorisation_selects_its_epoch_on_users_and_items_that_came_later() -> None:
    late = pl.DataFrame({"user": ["a-new", "z-new", "u1"], "item": ["i3", "new", "a-new"], "stars": 1, "when": 24})
    frame = pl.concat([table(0).filter(pl.col("when") < 24), late], how="vertical_relaxed")
    split = rb.split_by_time(frame.with_columns(pl.lit(1).alias("stars")), **COLUMNS, at=24, validation_share=0.2)
    assert {"a-new", "z-new"} <= set(split.test.topics) - set(split.training.topics)
    for sampling in ("uniform", "popularity"):
        ranker = rb.train_ranker(
            split.training,
            split.test,
            loss="BPR",
            model="matrix-factorization",
            negatives=2,
            negative_sampling=sampling,
            unknown="mean",
            epochs=3,
        )
        assert ranker.record["validation"] > 0


def test_what_leaving_the_last_out_refuses(tmp_path: Path) -> None:
    for flags, message in (
        ({"last": 0}, "last: found 0, expected a number of rows from 1"),
        ({"validation": -1}, "validation: found -1, expected a number of rows from 0"),
        ({"last": 2}, "no topic has more than 2 rows, .* the largest of 2 topics has 2"),
    ):
        with pytest.raises((ValueError, DataError), match=message):
            rb.leave_last_out(FRAME, **COLUMNS, **flags)
    letor = tmp_path / "a.txt"
    letor.write_text("1 qid:1 1:0.5\n")
    with pytest.raises(DataError, match="found no table with a row per interaction"):
        rb.leave_last_out(letor, time="when")
