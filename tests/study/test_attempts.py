"""Printed scores that are not reproduced: the nearest attempt at each, and the count below a random ordering."""

import polars as pl
import pytest

from rankbound_study.report import findings
from rankbound_study.report.tables import table_5_1

Row = dict[str, object]


def row(dataset: str, ours: float, **changes: object) -> Row:
    usual: Row = {
        "protocol": "published",
        "dataset": dataset,
        "nsr": None,
        "model": "mlp",
        "loss": "nRBP",
        "bounding": "none",
        "metric": "nRBP(p=0.95)",
        "as_printed": True,
        "published": 0.7,
        "ours": ours,
    }
    return usual | changes


def table(*rows: Row) -> pl.DataFrame:
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    others = [pl.lit(None).alias(name) for name in table_5_1.COLUMNS if name not in frame.columns]
    difference = pl.col("ours") - pl.col("published")
    known = {"difference": difference, "within_0.015": difference.abs() <= table_5_1.TOLERANCE}
    return frame.with_columns(*others).with_columns(**known).select(list(table_5_1.COLUMNS)).cast(table_5_1.COLUMNS)  # type: ignore[arg-type]


def random_order(dataset: str, ours: float) -> Row:
    return row(dataset, ours, model="random", loss="none", published=None)


def test_a_score_is_reproduced_by_any_reading_of_the_labels_alone() -> None:
    """By no other metric, nor by the honest protocol, whose runs are attempts."""
    other = row("mq2008-label2", 0.701, metric="nRBP(p=0.8)", as_printed=False)
    off = row("mq2008-label1", 0.8)
    assert findings.not_reproduced(table(off, row("mq2008-label2", 0.71))) == []
    assert len(findings.not_reproduced(table(off, other))) == 1
    (found,) = findings.not_reproduced(table(off), table(row("mq2008-label1", 0.701, protocol="honest")))
    assert (found["n"], found["nearest"]["protocol"]) == (2, "honest")
    assert findings.not_reproduced(table(row("synthetic-mq2008-label1", 0.8, published=None))) == []
    assert list(findings.attempts_findings([], 60)) == []


def test_the_nearest_attempt_is_named_with_its_distance() -> None:
    tried = [row("mq2008-label1", 0.8), row("mq2008-label2", 0.66, metric="nRBP(p=0.8)", as_printed=False)]
    block = findings.ATTEMPTS.of_rows(findings.not_reproduced(table(*tried, random_order("mq2008-label1", 0.75))))
    (text,) = [[cell.text for cell in cells] for cells in block.rows]
    assert text[:6] == ["MQ2008", "nRBP", "unbounded", "0.7000", "0.7500", "2"]
    assert text[6:8] == ["0.6600", "−0.0400"]
    assert "nRBP(p=0.8)" in text[8]
    assert len(text) == len(block.header)


@pytest.mark.parametrize(("random", "below"), [(0.75, True), (0.65, False)])
def test_a_printed_score_below_a_random_order_is_told(random: float, below: bool) -> None:
    found = findings.not_reproduced(table(row("mq2008-label1", 0.8), random_order("mq2008-label1", random)))
    (told,) = findings.attempts_findings(found, 60)
    assert told.headline == "1 of 60 printed scores of Table 5.1 are not reproduced: nRBP on MQ2008."
    assert ("1 of them lie below the score of a random ordering" in told.detail) == below
