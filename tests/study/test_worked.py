"""The worked tables: the library's numbers round to the printed ones, but for the misprints that are known."""

from math import log2

import polars as pl
import pytest

from rankbound.errors import ConfigError
from rankbound_study.claims import worked
from rankbound_study.report.tables import table_specs

MISPRINTED = {"table_murphy_9_3": {"1.887", "0.772", "8.09", "0.9306"}}
"""Table 9.3 rounds log2(i) to two decimals first; 3 / 1.59 = 1.887, where 3 / log2(3) = 1.893."""


@pytest.mark.parametrize("name", list(worked.WORKED_TABLES))
def test_every_other_printed_value_holds(name: str) -> None:
    table = worked.worked_table(name)
    assert set(table.filter(~pl.col("holds"))["printed"]) == MISPRINTED.get(name, set())
    assert table.select(pl.col("holds").is_null() == (pl.col("printed") == "")).to_series().all()


def test_values_that_the_text_has_lost_are_computed() -> None:
    rbp = worked.worked_table("table_2_3").filter(pl.col("part") == "ideal", pl.col("printed") == "")
    assert dict(rbp.select("row", "ours").rows()) == pytest.approx({"sum": 2.19, "times (1-p)": 0.657})
    expected = worked.worked_table("table_3_1").filter(pl.col("row") == "mean")["ours"].to_list()
    assert expected == pytest.approx([(1 + 1 / log2(3)) / 2, 4 / 6 * (1 + 1 / log2(3) + 1 / 2)], abs=1e-9)


@pytest.mark.parametrize(
    ("ours", "printed", "expected"),
    [
        (0.6309, "0.63", True),
        (0.635, "0.63", True),
        (0.6351, "0.63", False),
        (0.6249, "0.63", False),
        (29 / 36, "29/36", True),
        (29 / 36 + 1e-6, "29/36", False),
        (5 / 6, "(1/1+2/3)/2", True),
        (0.75, "(1/1+2/3)/2", False),
        (3.0, "3", True),
        (3.1, "3", False),
        (1.0, "", None),
    ],
)
def test_holds_follows_the_printed_rounding(ours: float, printed: str, expected: bool | None) -> None:
    assert worked.holds(ours, printed) is expected


def test_an_unknown_table_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(ConfigError, match=r"no 'table_9_9'; the tables without runs are table_1_1"):
        worked.worked_table("table_9_9")


def test_every_worked_table_has_a_caption() -> None:
    assert [name for name, spec in table_specs().items() if spec.section == "worked"] == list(worked.WORKED_TABLES)
