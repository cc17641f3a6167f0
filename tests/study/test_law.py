"""The law of list weights: what is planted is what the line, the verdict and the predictions find."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import LOSSES, Setting, World, settings

from rankbound_study.claims import law as law_of_lists
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.law import (
    ALL,
    BOUNDS,
    EXPERIMENT,
    LINE_COLUMNS,
    MISMATCH,
    REGISTERED,
    SECOND,
    SECOND_HYPOTHESIS,
    Law,
    cells_table,
    fit,
    law,
    lines_table,
    outcomes,
    predictions_table,
    verdict,
)
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.cli import main
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import SPLITS, lists_table
from rankbound_study.data.reader import read_instances
from rankbound_study.data.sampling import write_instances as write_lists_of
from rankbound_study.jobs.weighting import Influence
from rankbound_study.report.content import Figures
from rankbound_study.report.document import further_sections
from rankbound_study.report.findings import law_findings
from rankbound_study.vocabulary import ListWeights

COLUMNS = (DataSet("movielens", 2), DataSet("mq2008-label1", None))
SLOPE = -0.004
VARIANTS = dict(
    zip(
        ("weak", "half", "same", "more", "moved"),
        ("pairs^-0.5", "pairs^0.5", "pairs^-1", "pairs^-1.5", "permuted(pairs^-1)"),
        strict=True,
    )
)
AFFINE = ("none", "min-max", "expectation", "expectation-max")
Instances = Mapping[DataSet, Path]


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Instances:
    """Training lists of very different sizes."""
    folder = tmp_path_factory.mktemp("instances")
    return {column: write(folder / f"{column.dataset}.parquet", column) for column in COLUMNS}


def write(path: Path, column: DataSet, folds: int = 5) -> Path:
    random = np.random.default_rng(1)
    parts = []
    for fold in range(1, folds + 1):
        for split in SPLITS:
            p = random.integers(*((20, 100) if column.nsr else (1, 30)), 25)
            n = p * 3 if column.nsr else p + random.integers(1, 60, 25)
            relevance = np.concatenate([np.arange(size) < count for size, count in zip(n, p, strict=True)])
            offsets = np.concatenate([[0], np.cumsum(n)])
            names = [str(topic) if column.nsr else f"{split}-{topic}" for topic in range(25)]
            items = np.arange(len(relevance), dtype=np.int64)
            parts.append((fold, split, lists_table(names, items, relevance.astype(np.int8), offsets)))
    write_lists_of(path, column.dataset, column.nsr, parts, item_count=10**6)
    return path


def evidence(
    instances: Instances,
    folder: Path,
    slope: float = SLOPE,
    only: str = "",
    experiments: tuple[str, ...] = (EXPERIMENT,),
    bonus: float = 0.0,
    drawings: int = 1,
) -> Evidence:
    """Runs whose effects are `slope` times the change of mismatch, of one loss `only` if it is named.

    The weights that are best by the second hypothesis have a bonus in its experiment.
    """
    lists = {column.nsr: read_instances(path) for column, path in instances.items()}

    @cache
    def change(nsr: int | None, loss: str, text: str) -> float:
        views = [Influence(lists[nsr], fold, loss) for fold in (1, 2)]
        weights = ListWeights.of(text)
        return float(np.mean([one.under(weights).of_mismatch - one.under(None).of_mismatch for one in views]))

    def effect(one: Setting) -> float:
        text = json.loads(one.options).get("list_weights", one.bounding)
        if text == "none" or (only and one.loss != only):
            return 0.0
        best = one.variant == f"{SECOND}-{'weak' if one.loss == 'nRBP' else 'half'}"
        return slope * change(one.nsr, one.loss, text) + bonus * best

    varied = [
        one
        for experiment, (name, text) in product(experiments, VARIANTS.items())
        for one in settings(
            LOSSES, ["none"], (2, None), f"{experiment}-{name}", options=f'{{"list_weights": "{text}"}}'
        )
    ]
    size = {"drawings": drawings, "topics": 40, "own": 0.0, "training": 0.0, "chance": 0.0005}
    return World(effect, [*settings(LOSSES, AFFINE, (2, None)), *varied], **size).files(folder)


def found(instances: Instances, folder: Path, **planted: Any) -> Law:
    lists = {column: read_instances(path) for column, path in instances.items()}
    return law(evidence(instances, folder, **planted), lists)


@pytest.fixture(scope="module")
def planted(instances: Instances, tmp_path_factory: pytest.TempPathFactory) -> Law:
    return found(instances, tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def one_loss(instances: Instances, tmp_path_factory: pytest.TempPathFactory) -> Law:
    return found(instances, tmp_path_factory.mktemp("one_loss"), only="nRBP")


def test_the_line_has_the_planted_slope_through_zero(planted: Law) -> None:
    line = planted.line()
    assert line["slope"] == pytest.approx(SLOPE, abs=0.0004)
    assert line["slope_low"] < SLOPE < line["slope_high"] < 0
    assert line["intercept"] == pytest.approx(0, abs=2e-4)
    assert line["r_squared"] > 0.95
    without = [one for one in planted.lines if one["predictor"] == MISMATCH and one["cells"].startswith("without")]
    assert [one["cells"] for one in without] == ["without movielens", "without mq2008-label1"]
    assert all(one["slope"] == pytest.approx(SLOPE, abs=0.0006) for one in without)


def test_cells_with_the_same_relative_weights_count_once(planted: Law) -> None:
    """The affine bounds of nRBP, and the weights pairs^-1 of the experiment, are one training."""
    of_pairs = [one for one in planted.effects if one.cell.loss == "nRBP" and one.cell.column == COLUMNS[0]]
    same = {(one.origin, one.cell.bounding): one.same_as for one in of_pairs}
    assert same[BOUNDS, "min-max"] == ""
    assert same[BOUNDS, "expectation"] == same[BOUNDS, "expectation-max"] == "min-max"
    assert same[EXPERIMENT, "pairs^-1"] == "min-max"
    assert same[EXPERIMENT, "permuted(pairs^-1)"] == same[EXPERIMENT, "pairs^-0.5"] == ""
    assert not any(one.same_as for one in planted.effects if one.cell.loss == "AP")
    assert len(planted.counted) == len(planted.effects) - 3 * len(COLUMNS)


def test_the_law_is_confirmed_where_it_is_planted(planted: Law) -> None:
    assert verdict(planted).outcome == CONFIRMED
    by_text = {one.prediction: one.outcome for one in outcomes(planted)}
    best = [outcome for text, outcome in by_text.items() if "scores highest" in text]
    assert best == [CONFIRMED] * len(LOSSES) * len(COLUMNS)
    # The planted slope is steeper than the predicted one.
    starts = {
        "Permuted, the weights pairs^-1 of nRBP": CONFIRMED,
        "nDCG and AP on": CONFIRMED,
        "The slope over": REFUTED,
    }
    for start, expected in starts.items():
        assert [outcome for text, outcome in by_text.items() if text.startswith(start)] == [expected]


@pytest.mark.parametrize(("bonus", "outcome"), [(0.0, REFUTED), (0.05, CONFIRMED)])
def test_the_second_hypothesis_has_cells_and_predictions_of_its_own(
    instances: Instances, tmp_path: Path, planted: Law, bonus: float, outcome: str
) -> None:
    """The same cells again, best at the powers of the first hypothesis, or with a bonus at those of the second."""
    both = found(instances, tmp_path, experiments=(EXPERIMENT, SECOND), bonus=bonus)
    line, of_first = both.line(REGISTERED), planted.line(REGISTERED)
    assert line["n"] == of_first["n"], "the registered regression is about the same cells"
    assert line["slope"] == pytest.approx(of_first["slope"], abs=2e-4)
    assert [(one.prediction, one.outcome) for one in outcomes(both) if SECOND_HYPOTHESIS not in one.prediction] == [
        (one.prediction, one.outcome) for one in outcomes(planted)
    ]
    of_second = [one for one in outcomes(both) if one.prediction.startswith(SECOND_HYPOTHESIS)]
    assert len(of_second) == len(LOSSES) * len(COLUMNS)
    # On MQ2008, nRBP is best at -0.5 by the first hypothesis, too.
    assert {one.outcome for one in of_second if "MovieLens" in one.prediction} == {outcome}
    cells = cells_table(both)
    assert len(cells.filter(origin=SECOND)) == len(cells.filter(origin=EXPERIMENT))


def test_lines_predict_cells_that_they_were_not_fitted_to(instances: Instances, tmp_path: Path) -> None:
    """The bounds' line predicts the later cells and those of another data set, where effects are on one line."""
    later = found(instances, tmp_path, experiments=(SECOND,))
    lines = {one["cells"]: one for one in later.lines if one["predictor"] == MISMATCH}
    assert lines[ALL]["n"] == len(later.counted) == lines[REGISTERED]["n"] + lines[REGISTERED]["n_held_out"]
    tested = lines["without movielens"]
    assert tested["n"] + tested["n_held_out"] == lines[ALL]["n"]
    assert min(one["r_squared_held_out"] for one in (lines[REGISTERED], tested)) > 0.9
    assert lines[BOUNDS]["r_squared_held_out"] is None


def test_weights_are_those_of_the_folds_of_every_drawing(tmp_path: Path) -> None:
    files = {column: write(tmp_path / f"{column.dataset}.parquet", column, 10) for column in COLUMNS}
    lists = {column: read_instances(path) for column, path in files.items()}
    drawn = {column: replace(one, repeats=2) if column.nsr else one for column, one in lists.items()}
    found = law(evidence(files, tmp_path / "runs", drawings=2), drawn)
    (cell,) = (one for one in found.effects if one.cell[:2] == ("AP", "min-max") and one.cell.column.nsr)
    weights = ListWeights.of("min-max")
    views = [Influence(lists[cell.cell.column], fold, "AP") for fold in range(1, 11)]
    changes = [view.under(weights).of_mismatch - view.under(None).of_mismatch for view in views]
    assert cell.changes["mismatch"] == pytest.approx(np.mean(changes), rel=1e-12)
    assert np.std(changes) > 0


def test_a_gain_from_mismatch_refutes_the_law(instances: Instances, tmp_path: Path) -> None:
    opposite = found(instances, tmp_path, slope=-SLOPE)
    assert verdict(opposite).outcome == REFUTED
    assert {one.outcome for one in outcomes(opposite) if "scores highest" in one.prediction} == {REFUTED}


def test_a_law_of_one_loss_is_not_one_of_all_and_cells_off_the_line_are_named(planted: Law, one_loss: Law) -> None:
    outcome, line = verdict(one_loss), one_loss.line("nRBP")
    assert outcome.outcome == INCONCLUSIVE
    assert "By loss: nDCG +0.0" in outcome.found or "By loss: nDCG -0.0" in outcome.found
    assert line["slope_high"] < 0
    off, none = ([cell for cell, p in of.p_residuals.items() if p <= 0.05] for of in (one_loss, planted))
    assert off
    assert not none
    assert fit(planted).outcome != REFUTED == fit(one_loss).outcome
    assert f"{len(off)} of {len(one_loss.counted)} (" in fit(one_loss).found


def test_without_cells_there_is_no_line_and_no_outcome() -> None:
    assert verdict(law(Evidence("thesis"), {})).outcome == NOT_RUN
    assert list(outcomes(Law([]))) == []
    assert lines_table(Law([])).is_empty()
    assert predictions_table(Law([])).is_empty()


def test_the_steps_make_tables_figures_and_a_section(instances: Instances, tmp_path: Path) -> None:
    made = evidence(instances, tmp_path)
    tables, files = tmp_path / "tables", [str(path) for path in instances.values()]
    of_runs = [f"--{name}={getattr(made, name)}" for name in ("runs", "epochs", "experiments")]
    assert main(["table", "table_law", *of_runs, "--instances", *files, "--out-dir", str(tables)]) == 0
    assert main(["table", "table_list_weights", "--instances", *files, "--out-dir", str(tables)]) == 0
    cells = pl.read_csv(tables / "table_law.csv", schema=law_of_lists.COLUMNS)
    lines = pl.read_csv(tables / "table_law_lines.csv", schema=LINE_COLUMNS)
    assert len(cells) == len(COLUMNS) * 3 * (3 + len(VARIANTS))
    assert ALL in lines["cells"]
    csv = [str(path) for path in tables.glob("table_law*.csv")]
    for figure in ("figure_law", "figure_weight_powers"):
        (tmp_path / "figures").mkdir(exist_ok=True)
        assert main(["figure", figure, "--law", *csv, "--out", str(tmp_path / "figures" / f"{figure}.svg")]) == 0
    (section,) = further_sections(tables, Figures(tmp_path), ["law"], synthetic=False)
    names = [block.name for block in section.blocks]
    assert names[:2] == ["figure_law", "figure_weight_powers"]
    assert {"Predictions", "Lines through the cells", "The law of list weights", "List weights of bounds"} < set(names)
    (finding,) = law_findings(tables)
    assert finding.headline.startswith("The law that mismatch explains the effect of weights is")
    assert "for every loss, the effect falls as the mismatch grows" in finding.detail
    assert "−0.00" in finding.detail
