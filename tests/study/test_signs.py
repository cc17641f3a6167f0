"""Cells whose effect changes its sign between the protocols: each is counted at the step that changes it."""

import polars as pl
import pytest

from rankbound_study.report.tables.table_5_1 import COLUMNS, SIGNS_LAYOUT, signs, signs_block

CELLS = {
    "min-max": (0.001, -0.002, -0.003),
    "expectation": (0.001, 0.002, -0.003),
    "expectation-max": (0.001, -0.002, 0.003),
    "distribution": (-0.01, -0.02, -0.03),
}
"""Bounding -> the effect by the published protocol, at the lowest rate, and by the honest protocol."""


def table_of(place: int, loss: str = "AP", p_holm: float = 0.5) -> pl.DataFrame:
    rows = [
        {"dataset": "movielens", "nsr": 2, "loss": loss, "bounding": bounding, "as_printed": True}
        | {"change": changes[place], "p_holm": p_holm}
        for bounding, changes in CELLS.items()
    ]
    unbounded = {"dataset": "movielens", "nsr": 2, "loss": loss, "bounding": "none", "as_printed": True}
    return pl.DataFrame([*rows, unbounded], schema=COLUMNS)


def rates(loss: str = "AP") -> pl.DataFrame:
    """Two folds and two rates; at the higher rate, all effects are those of the lower one with the other sign."""
    rows = [
        {"dataset": "movielens", "nsr_test": 2, "loss": loss, "bounding": bounding, "fold": fold}
        | {"learning_rate": rate, "test_score": 0.6 + sign * effect + fold / 100}
        for bounding, (_, effect, _) in {**CELLS, "none": (0, 0, 0)}.items()
        for fold in (1, 2)
        for rate, sign in ((0.003, 1), (0.1, -1))
    ]
    return pl.DataFrame(rows, schema_overrides={"nsr_test": pl.Int8})


def counts(table: pl.DataFrame) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in signs_block(table).rows}


def test_every_change_is_counted_at_its_step() -> None:
    table = signs(table_of(0), table_of(2), rates())
    assert table["lowest_rate"].to_list() == pytest.approx([changes[1] for changes in CELLS.values()])
    found = dict(zip([column.title for column in SIGNS_LAYOUT.columns][1:], counts(table)["AP"], strict=True))
    assert (found["cells"], found["other sign"]) == ("4", "2")
    assert (found["by protocol"], found["by rate"]) == ("1", "1")
    assert (found["there and back"], found["significantly"]) == ("1", "0")
    assert counts(table)["all"] == counts(table)["AP"]


def test_what_is_no_change_is_not_counted() -> None:
    nrbp = signs(table_of(0, "nRBP"), table_of(2, "nRBP"), rates("nRBP"))
    assert nrbp["bounding"].to_list() == ["min-max", "distribution"], "identical boundings count once"
    assert counts(nrbp.with_columns(honest=pl.lit(1e-12)))["nRBP"][1] == "0", "equal scores have no sign"
    significant = [signs(table_of(0, p_holm=0.01), table_of(2, p_holm=p), rates()) for p in (0.01, 0.5)]
    assert [counts(table)["AP"][-1] for table in significant] == ["2", "0"], "by both protocols"
    assert counts(signs(table_of(0), table_of(2), rates().clear()))["AP"] == ["4", "2", "–", "–", "–", "0"]
