"""Margins and significant changes of Table 5.1: against sums spelled out and scipy, and in the report."""

from pathlib import Path

import polars as pl
import pytest
from planted import RUNS, World, settings
from scipy import stats
from synthetic_runs import write_runs

from rankbound_study.claims.cells import certainty, holm_adjusted
from rankbound_study.report.findings import honest_findings
from rankbound_study.report.tables import table_5_1
from rankbound_study.results.scores import RunsChoice

HONEST = RunsChoice("honest")


def planted(change: float, *, topics: int = 40, seeds: int = 1, noise: float = 0.02) -> pl.DataFrame:
    """Scores of an unbounded and of a bounded loss that differs from it by `change` on average."""
    size = {"topics": topics, "folds": 1, "seeds": seeds, "own": 0.0, "training": 0.0, "chance": noise}
    some = settings(["AP"], ["none", "min-max"], (1,))
    return World(lambda one: change * (one.bounding != "none"), some, **size).frames(0)[RUNS]


def of(found: pl.DataFrame, bounding: str) -> dict[str, float]:
    return found.filter(bounding=bounding).row(0, named=True)


def test_of_one_seed_margins_are_those_of_a_mean_over_topics() -> None:
    scores = planted(0.05)
    found = certainty(scores, "AP")
    for bounding in ("none", "min-max"):
        values = scores.filter(bounding=bounding)["AP"].to_numpy()
        reach = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
        assert of(found, bounding)["margin"] == pytest.approx(reach, rel=1e-9)
    a, b = (scores.filter(bounding=name)["AP"].to_numpy() for name in ("min-max", "none"))
    bounded = of(found, "min-max")
    assert bounded["change"] == pytest.approx((a - b).mean(), rel=1e-9)
    assert bounded["p_value"] == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-6)
    assert of(found, "none")["change"] is None


def test_trainings_that_differ_widen_the_margin() -> None:
    scores = planted(0.0, seeds=3, noise=0.0)
    shifted = scores.with_columns(pl.col("AP") + (pl.col("seed") - 1) * 0.1)
    calm, wild = (of(certainty(frame, "AP"), "none")["margin"] for frame in (scores, shifted))
    assert wild > 2 * calm


def test_a_single_topic_has_a_mean_and_no_margin() -> None:
    found = certainty(planted(0.1, topics=1), "AP")
    assert found.select("margin", "change", "p_value").null_count().row(0) == (2, 2, 2)


def test_topics_on_which_the_metric_is_undefined_are_left_out() -> None:
    scores = planted(0.05)
    holes = scores.with_columns(pl.when(pl.col("topic").cast(pl.Int32) < 30).then(pl.col("AP")).alias("AP"))
    left = certainty(scores.filter(pl.col("topic").cast(pl.Int32) < 30), "AP")
    assert certainty(holes, "AP").equals(left)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    write_runs(path, topics=30, seeds=2, protocols=("honest",))
    return table_5_1.table_5_1(path, HONEST)


def test_only_bounded_cells_that_are_printed_are_tested_and_correction_never_lowers(table: pl.DataFrame) -> None:
    tested = table.filter(pl.col("p_holm").is_not_null())
    assert set(tested["bounding"]) == {"min-max", "expectation", "expectation-max", "distribution"}
    assert tested["as_printed"].all()
    assert len(tested) == 60
    assert tested["p_holm"].is_between(0, 1, closed="right").all()


def test_a_bounding_that_repeats_another_is_corrected_in_its_place() -> None:
    names = ["nDCG", *["nRBP"] * 3], ["min-max", "min-max", "expectation", "expectation-max"]
    cells = {"loss": names[0], "bounding": names[1], "p_value": [0.02, 0.01, 0.02, 0.03], "as_printed": [True] * 4}
    assert holm_adjusted(pl.DataFrame(cells)).to_list() == pytest.approx([0.02, 0.02, 0.04, 0.04])


def test_arrows_stand_where_a_change_is_significant(table: pl.DataFrame) -> None:
    some = table.filter(pl.col("p_holm").is_not_null()).row(0, named=True)
    for p_value, change, arrow in ((0.01, 0.1, "▲"), (0.01, -0.1, "▼"), (0.5, 0.1, ""), (0.5, -0.1, "")):
        row = pl.DataFrame([{**some, "p_holm": p_value, "change": change}], schema=table_5_1.COLUMNS)
        text = table_5_1.texts(row).markdown
        assert f"±{some['margin']:.4f}{arrow}" in text
        assert sum(text.split("\n", 2)[2].count(one) for one in "▲▼") == len(arrow)
        assert f"({some['published']:.4f})" not in text
        in_tex = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "": ""}[arrow]
        assert rf"$\pm${some['margin']:.4f}{in_tex}" in table_5_1.texts(row).latex


def test_the_published_table_has_printed_scores_and_no_margins(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", topics=10)
    text = table_5_1.texts(table_5_1.table_5_1(path, RunsChoice())).markdown
    assert "(0.9659)" in text
    assert "±" not in text


def test_the_first_finding_counts_what_is_significant(table: pl.DataFrame) -> None:
    tested = table.filter(pl.col("p_holm").is_not_null())
    signs = pl.Series([1.0] * 7 + [-1.0] * 53)
    p_values = pl.Series([0.01] * 11 + [0.9] * 49)
    # The last two of the eleven are further affine boundings of nRBP, which repeat the ninth.
    assert tested.select("loss", "bounding").rows()[8:11] == [
        ("nRBP", name) for name in ("min-max", "expectation", "expectation-max")
    ]
    (found,) = honest_findings(tested.with_columns(change=signs * 0.01, p_holm=p_values), table)
    assert found.headline == (
        "Bounding improves 7 of 50 cells significantly and degrades 2; for 41 the difference is not significant."
    )
    assert "2 seeds" in found.detail
    assert sum(int(row[1]) for row in found.rows) == 50
    assert [sum(int(row[place]) for row in found.rows) for place in (2, 3)] == [7, 2]
    assert "published protocol" not in found.detail, "no table by that protocol was given"
    other = table.with_columns(protocol=pl.lit("published"))
    (found,) = honest_findings(tested.with_columns(change=signs * 0.01, p_holm=p_values), other)
    assert "By the published protocol, and without a test," in found.detail
    assert list(honest_findings(table.with_columns(protocol=pl.lit("published")), table)) == []
