"""The effects of bounding: planted means and variances between cells are what the tables, the figure and tests find."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from planted import Study, of_bounded

from rankbound_study.claims.effects import CELL_COLUMNS, EVERY, KINDS, effects
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.statistics import pooled
from rankbound_study.cli import main
from rankbound_study.report.columns import TableBlock
from rankbound_study.report.tables import effects as table_effects

RISE = 0.004
SMALL = Study(topics=30, ratios=(1, 2), controls=False, noise=0.002, wobble=0.001)


def covariance(k: int, shared: float, own: float) -> np.ndarray:
    """Errors of cells that share something: a common part, and one of each cell."""
    return np.full((k, k), shared**2) + np.eye(k) * own**2


@pytest.mark.parametrize("between", [0.0, 0.003])
@pytest.mark.parametrize("shared", [0.0, 0.002])
def test_intervals_cover_the_planted_mean_in_95_of_100_draws(between: float, shared: float) -> None:
    random, k, draws = np.random.default_rng(3), 12, 2000
    errors = covariance(k, shared, 0.002)
    y = RISE + random.normal(0, between, (draws, k)) + random.multivariate_normal(np.zeros(k), errors, draws)
    found = [pooled(one, errors) for one in y]
    assert 0.93 < np.mean([low < RISE < high for low, high in (one.interval for one in found)]) <= 1.0
    new = RISE + random.normal(0, between, draws)
    of_new = np.array([one.of_new_cell for one in found])
    assert 0.9 < np.mean((of_new[:, 0] < new) & (new < of_new[:, 1])) <= 1.0


def test_the_variance_between_cells_is_the_planted_one_whatever_they_share() -> None:
    random, k = np.random.default_rng(4), 12
    for shared in (0.0, 0.005):
        errors = covariance(k, shared, 0.002)
        y = random.normal(0, 0.003, (2000, k)) + random.multivariate_normal(np.zeros(k), errors, 2000)
        assert np.mean([pooled(one, errors).between ** 2 for one in y]) == pytest.approx(0.003**2, rel=0.05)


def test_equal_effects_have_no_variance_between_them() -> None:
    found = pooled(np.full(3, RISE), covariance(3, 0.0, 0.001))
    assert found.between == 0.0
    assert found.estimate.standard_error == pytest.approx(0.001 / np.sqrt(3))
    with pytest.raises(ValueError, match="found 1, expected two or more"):
        pooled(np.array([RISE]), np.eye(1))


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Bounded AP rises; distribution bounding costs nDCG; nothing else changes."""
    plants = of_bounded(RISE, of="AP"), of_bounded(-0.05, of="nDCG", bounding="distribution")
    planted = replace(SMALL, plant=lambda lists: sum(plant(lists) for plant in plants))
    return planted.evidence(tmp_path_factory.mktemp("effects"))


def test_means_are_the_planted_ones(evidence: Evidence) -> None:
    found = {(kind, loss): one for kind, loss, one in effects(evidence).means()}
    assert set(found) == {(kind, loss) for kind in KINDS for loss in (EVERY, "nDCG", "AP", "nRBP")}
    rise = found["affine", "AP"]
    assert rise.n == 9, "three boundings on three data sets"
    assert rise.interval[0] < RISE < rise.interval[1]
    assert rise.interval[0] > 0
    assert found["affine", "nRBP"].n == 3, "identical boundings are one cell"
    assert found["distribution", "nDCG"].estimate.mean == pytest.approx(-0.05, abs=0.002)
    low, high = found["affine", "nDCG"].interval
    assert low < 0 < high
    assert found["affine", EVERY].between > found["affine", "AP"].between


def test_two_readings_of_the_same_queries_are_one_data_set_in_means(evidence: Evidence, tmp_path: Path) -> None:
    runs = pl.read_parquet(evidence.runs)
    again = runs.filter(pl.col("dataset") == "mq2008-label1").with_columns(dataset=pl.lit("mq2008-label2"))
    pl.concat([runs, again]).write_parquet(tmp_path / "runs.parquet")
    both = effects(replace(evidence, runs=tmp_path / "runs.parquet"))
    assert len(both.contrasts) == 4 * 10
    assert {one.n for kind, loss, one in both.means() if (kind, loss) == ("affine", "AP")} == {9}


def test_the_steps_make_tables_a_figure_and_a_section(evidence: Evidence, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    files = [f"--{name}={getattr(evidence, name)}" for name in ("runs", "epochs")]
    assert main(["table", "table_effects", *files, "--out-dir", str(tables)]) == 0
    cells = pl.read_csv(tables / "table_effects.csv", schema=CELL_COLUMNS)
    assert len(cells) == 3 * 10
    significant = set(cells.filter(pl.col("p_holm") <= 0.05)["loss"])
    assert significant == {"nDCG", "AP"}
    blocks = list(table_effects.TABLES["table_effects"].shown("table_effects", tmp_path / "tables"))
    assert [block.name for block in blocks] == ["Mean effects", "Effects of bounding"]
    bold = {(row[0].text, row[1].text) for row in blocks[0].rows if row[3].strong}
    assert ("affine", "AP") in bold
    assert ("affine", "nDCG") not in bold
    csv = [str(path) for path in tables.glob("table_effects*.csv")]
    drawn = tmp_path / "figures" / "figure_effects.svg"
    drawn.parent.mkdir()
    assert main(["figure", "figure_effects", "--effects", *csv, "--out", str(drawn)]) == 0
    text = drawn.read_text("utf-8")
    assert "MovieLens NSR 1, distribution: −0.049" in text
    assert "mean of 9 cells, affine: +0.00" in text
    assert all(isinstance(block, TableBlock) for block in blocks)


def test_a_study_without_honest_runs_has_empty_tables(tmp_path: Path) -> None:
    made = table_effects.TABLES["table_effects"].make("table_effects", table_effects.StudyFiles())
    assert made.table.is_empty()
    made.write(tmp_path, "table_effects")
    assert list(table_effects.TABLES["table_effects"].shown("table_effects", tmp_path)) == []
