"""Tables as columns, and numbers as the report writes them."""

import polars as pl
import pytest

from rankbound_study.report.columns import DATA_SET, Across, Cell, Column, Layout, between, fixed, signed, with_margin
from rankbound_study.results import study_files
from rankbound_study.results.study_files import probability


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1234567, "+0.1235"),
        (-0.5, "−0.5000"),
        (-0.00004, "+0.0000"),
        (0.0, "+0.0000"),
        (-0.0, "+0.0000"),
        (None, "–"),
    ],
)
def test_differences_have_a_sign_and_nothing_has_no_minus(value: float | None, text: str) -> None:
    assert signed(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.0, "<0.0001"), (0.00005, "0.0001"), (1.0, "1.0000")])
def test_a_p_value_is_never_zero(value: float, text: str) -> None:
    assert probability(value) == text


@pytest.mark.parametrize("pairs", [3, 15, 1635, 1641])
def test_a_number_and_its_copy_in_a_file_have_the_same_digits(pairs: int) -> None:
    """Shares of 2,400 pairs often end in a five at the fifth place, and sums of them just below or above it."""
    share = pairs / 2400
    for near in (share - 1e-15, share, share + 1e-15):
        assert study_files.signed(near) == study_files.signed(float(f"{near:.6f}"))
        assert study_files.score(near) == study_files.score(float(f"{near:.6f}"))


TABLE = pl.DataFrame(
    [
        ("movielens", 1, "AP", "none", 0.5, -0.01, 0.03),
        ("movielens", 1, "AP", "min-max", None, None, None),
        ("mq2008-label1", None, "AP", "min-max", 0.25, 0.2, 0.3),
        ("movielens", 1, "nDCG", "none", 0.125, None, 0.2),
    ],
    schema=["dataset", "nsr", "loss", "bounding", "score", "low", "high"],
    orient="row",
)
LABELS = (DATA_SET, Column("trained on", "loss"))


def test_a_row_of_data_is_a_row_of_cells_and_a_null_is_a_dash() -> None:
    columns = (*LABELS, Column("score", write=fixed(2)), Column("interval", ("low", "high"), between))
    columns += (Column("any", ("score", "low"), lambda *values: str(values.count(None)), null=True),)
    block = Layout("Name", "Caption.", (*columns, Column("row", None, lambda row: row["bounding"])), 2, ("nsr",))(TABLE)
    assert block.header == ("data set", "trained on", "score", "interval", "any", "row")
    assert [[cell.text for cell in row[2:]] for row in block.rows] == [
        ["0.50", "−0.0100 to +0.0300", "0", "none"],
        ["–", "–", "2", "min-max"],
        ["0.25", "+0.2000 to +0.3000", "0", "min-max"],
        ["0.12", "–", "1", "none"],
    ]
    assert block.rows[2][0].text.startswith("MQ2008"), "a data set without a ratio has a label, too"
    assert (block.name, block.caption, block.labels, block.rules) == ("Name", "Caption.", 2, {2, 3})


def test_across_is_a_row_per_group_with_dashes_where_it_has_no_data() -> None:
    titles = {"min-max": "bounded", "none": "unbounded"}
    across = Across(("dataset", "nsr", "loss"), ("bounding",), titles, lambda row: Cell(str(row["score"])))
    block = Layout("Name", "", LABELS, 2, rules=("loss",), across=across)(TABLE)
    assert block.header == ("data set", "trained on", "bounded", "unbounded")
    cells = [[cell.text for cell in row[1:]] for row in block.rows]
    assert cells == [["AP", "None", "0.5"], ["AP", "0.25", "–"], ["nDCG", "–", "0.125"]]
    assert block.rules == {2}


def test_a_margin_is_half_of_the_interval() -> None:
    assert with_margin(-0.01, -0.03, 0.02, "▼", strong=True) == Cell("−0.0100", "±0.0250▼", strong=True)
    assert fixed(1)(-0.26) == "−0.3"
