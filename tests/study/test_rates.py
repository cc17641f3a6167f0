"""Grids of learning rates: every fold selects its own by the part that selects its epochs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from study_files import write_instances, write_lists
from test_train_job import LEFT_OUT, files_of, frame, options, train

from rankbound_study import cli
from rankbound_study.config.check import merged
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import beside
from rankbound_study.figures import runs as drawn
from rankbound_study.jobs import train_job
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.train_job import Plan, Trial, choose, in_groups
from rankbound_study.report.tables import protocols
from rankbound_study.results.study_files import StudyFiles

ROOT = Path(__file__).resolve().parents[2]
GRID = [0.0001, 0.05, 0.4]
HONEST: dict[str, Any] = {"protocol": "honest", "seeds": [3, 5]}


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_instances(tmp_path_factory.mktemp("data") / "movielens-nsr1.parquet")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, instances: Path) -> Path:
    return train(tmp_path_factory.mktemp("tuned"), instances, learning_rate=GRID, **HONEST)


def rates(out: Path) -> pl.DataFrame:
    return frame(beside(out, "rates.parquet"), "rates")


def test_every_fold_tries_every_rate_on_the_first_seed_and_keeps_the_best_by_validation(tuned: Path) -> None:
    tried = rates(tuned)
    assert tried.select("fold", "seed", "learning_rate").rows() == [(f, 3, rate) for f in (1, 2) for rate in GRID]
    for fold in (1, 2):
        own = tried.filter(fold=fold)
        best = own.sort("score", "learning_rate", descending=[True, False])["learning_rate"][0]
        assert own.filter("chosen")["learning_rate"].to_list() == [best]


def test_the_kept_trainings_are_those_of_the_chosen_rates(tmp_path: Path, tuned: Path, instances: Path) -> None:
    """Whatever was tried, a fold's runs, epochs, predictions and weights are those of its rate alone."""
    for fold, rate in rates(tuned).filter("chosen").select("fold", "learning_rate").rows():
        alone = train(tmp_path, instances, f"{fold}", learning_rate=rate, folds=[fold], **HONEST)
        for contract in ("runs", "epochs", "predictions"):
            of_grid, single = (
                frame(path if contract == "runs" else beside(path, f"{contract}.parquet"), contract)
                .filter(fold=fold)
                .drop("options")
                for path in (tuned, alone)
            )
            assert of_grid.equals(single), contract
        weights = load_file(beside(tuned, "weights.safetensors"))
        for name, values in load_file(beside(alone, "weights.safetensors")).items():
            np.testing.assert_array_equal(weights[name], values)


def test_the_scores_of_a_rate_are_those_of_its_selected_epoch(tmp_path: Path, tuned: Path, instances: Path) -> None:
    for rate in GRID:
        alone = train(tmp_path, instances, f"{rate}", learning_rate=rate, **HONEST)
        epochs = frame(beside(alone, "epochs.parquet"), "epochs").filter(seed=3)
        for row in rates(tuned).filter(learning_rate=rate).iter_rows(named=True):
            at = epochs.filter(fold=row["fold"], epoch=row["epoch"])
            assert at.filter(part="validation")["nDCG"].item() == row["score"]
            assert at.filter(part="test")["nDCG"].item() == row["test_score"]


def test_the_options_of_all_folds_are_those_requested(tuned: Path) -> None:
    """A cell has one key: its folds are compared, whatever rates they selected."""
    (stated,) = frame(tuned)["options"].unique()
    assert json.loads(stated)["learning_rate"] == GRID


def test_a_job_without_a_grid_has_a_table_without_rates(tmp_path: Path, instances: Path) -> None:
    assert rates(train(tmp_path, instances)).is_empty()


def test_networks_and_trees_have_grids(tmp_path: Path) -> None:
    judged = write_instances(tmp_path / "mq2008-label1.parquet", nsr=None), write_lists(tmp_path / "mq2008.parquet")
    given = {**HONEST, "dataset": "mq2008-label1", "nsr": None, "folds": [1], "seeds": [0]}
    network = {"model": {"name": "mlp", "hidden": [3]}, "learning_rate": GRID}
    trees = {"model": {"name": "boosted-trees", "rounds": 4, "every": 2, "min_rows": 1, "learning_rate": [0.1, 0.5]}}
    of_trainer = dict.fromkeys(("optimiser", "learning_rate", "epochs", "batch_size"), LEFT_OUT)
    for name, changes, tried in (("mlp", network, GRID), ("trees", {**of_trainer, **trees}, [0.1, 0.5])):
        out = train(tmp_path, judged[0], name, judged[1], **{**given, **changes})
        assert rates(out)["learning_rate"].to_list() == tried


@pytest.mark.parametrize("stop_after", [0, 1, 3, 4, 6])
def test_an_interrupted_grid_resumes_and_ends_with_the_same_bytes(
    tmp_path: Path, instances: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch, stop_after: int
) -> None:
    """The shards of a grid, before and after the selection, are used again."""
    whole = train_job._keep
    kept: list[Trial] = []

    def interrupted(job: Any, trial: Trial, *rest: Any) -> None:
        if len(kept) == stop_after:
            raise KeyboardInterrupt
        kept.append(trial)
        whole(job, trial, *rest)

    monkeypatch.setattr(train_job, "_keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, instances, learning_rate=GRID, **HONEST)
    stop_after = 99
    train(tmp_path, instances, learning_rate=GRID, **HONEST)
    assert len(kept) == len(set(kept)) == 2 * (len(GRID) + 1), "each training once"
    assert files_of(tmp_path) == files_of(tuned.parent)


def job(**changes: Any) -> TrainingJob:
    return TrainingJob.parse(json.dumps(options(**changes)))


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5, unique=True),
    st.lists(st.integers(0, 9), min_size=1, max_size=5, unique=True),
    st.integers(1, 4),
    st.integers(1, 7),
    st.booleans(),
)
def test_every_training_is_planned_once_and_groups_have_one_rate(
    folds: list[int], seeds: list[int], repeats: int, size: int, crossed: bool
) -> None:
    """A rate is selected for each fold and drawing, and kept for the other seeds of that drawing."""
    shape = {"folds": folds, "seeds": seeds, "learning_rate": GRID} | ({} if crossed else {"crossed": False})
    plan = Plan(job(**shape), repeats)
    trainings = plan.job.trainings
    if crossed:
        assert trainings == [(fold, seed) for fold in folds for seed in seeds]
    else:
        assert [len(set(each)) for each in zip(*trainings, strict=True)] == [len(folds), len(seeds)]
        assert len(set(trainings)) == len(trainings) == max(len(folds), len(seeds))
    first = plan.first()
    tuned = {(trial.fold, trial.seed) for trial in first}
    assert len(first) == len(tuned) * len(GRID) == len({(fold, seed % repeats) for fold, seed in trainings}) * len(GRID)
    rates_of = {place: GRID[sum(place) % len(GRID)] for place in tuned}
    kept = plan.kept(rates_of)
    assert [(trial.fold, trial.seed) for trial in kept] == trainings
    for trial in kept:
        (source,) = {seed for fold, seed in tuned if fold == trial.fold and (seed - trial.seed) % repeats == 0}
        assert trial.rate == rates_of[trial.fold, source]
    assert len({*first, *kept}) == plan.count
    for trials in (first, kept):
        groups = list(in_groups(trials, size))
        assert sorted(trial.name for group in groups for trial in group) == sorted(trial.name for trial in trials)
        assert all(len({trial.rate for trial in group}) == 1 and len(group) <= size for group in groups)


@pytest.mark.parametrize(("repeats", "seeds"), [(1, [0, 1, 2]), (2, [0, 1, 2]), (3, [4, 7])])
def test_a_study_says_how_many_trainings_its_jobs_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], repeats: int, seeds: list[int]
) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text(
        f"interactions: {{movielens: {{repeats: {repeats}}}}}\nseeds: {{published: [0], honest: {seeds}}}\n"
        "training: {movielens: {learning_rate: {honest: [0.01, 0.03]}}}\n",
        encoding="utf-8",
    )
    files = [ROOT / "config.yaml", own]
    study, planned = Study.of(merged(files)), 0
    for run in study.runs:
        plan = Plan(run.request, study.repeats_of(run.instances.source))
        tried = plan.first()
        places = {(trial.fold, trial.seed) for trial in tried}
        planned += len(tried) + len({(trial.fold, trial.seed) for trial in plan.kept({})} - places)
    assert cli.main(["check-config", *map(str, files)]) == 0
    assert f" {planned:,} trainings\n" in capsys.readouterr().out.splitlines(keepends=True)[0]


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 5))
def test_the_lowest_of_the_best_rates_is_chosen(scores: list[float], worthless: int) -> None:
    """NaN, the score of a fold whose metric is undefined, is never better than a score."""
    given_scores = [float("nan") if place == worthless else score for place, score in enumerate(scores)]
    row = {"fold": 1, "seed": 0, "epoch": 1, "test_score": 0.0, "chosen": False}
    rows = [{**row, "learning_rate": rate, "score": score} for rate, score in zip(GRID, given_scores, strict=True)]
    table, chosen = choose([pl.DataFrame(rows).to_arrow()])
    known = [score for score in given_scores if score == score]
    assert chosen == {(1, 0): GRID[given_scores.index(max(known))]}
    assert table.column("chosen").to_pylist() == [rate == chosen[1, 0] for rate in GRID]


# The table and the figure


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory, instances: Path) -> Path:
    folder = tmp_path_factory.mktemp("collected")
    for bounding in ("none", "min-max"):
        train(folder, instances, bounding, learning_rate=GRID, bounding=bounding, **HONEST)
    files = [folder / f"{bounding}.parquet" for bounding in ("none", "min-max")]
    collect(files, *(folder / f"{name}.parquet" for name in ("runs", "epochs", "rates")))
    return folder / "rates.parquet"


def test_the_table_has_the_means_of_every_rate_and_who_selected_it(collected: Path) -> None:
    table = protocols.make_rates("table_rates", StudyFiles(rates=collected))
    rows = frame(collected, "rates")
    assert table["bounding"].to_list() == ["none"] * 3 + ["min-max"] * 3
    assert table["learning_rate"].to_list() == GRID * 2
    for row in table.iter_rows(named=True):
        own = rows.filter(bounding=row["bounding"], learning_rate=row["learning_rate"])
        assert (row["n_folds"], row["n_selected"]) == (2, own["chosen"].sum())
        assert row["mean_score"] == pytest.approx(own["score"].mean())
        assert row["mean_test_score"] == pytest.approx(own["test_score"].mean())
        assert row["at_edge"] == (row["learning_rate"] in (GRID[0], GRID[-1]))


def test_the_report_marks_rates_at_an_end_of_the_grid(collected: Path) -> None:
    table = protocols.make_rates("table_rates", StudyFiles(rates=collected)).with_columns(
        n_selected=pl.Series([0, 2, 0, 0, 1, 1])
    )
    ((label, loss, *cells),) = protocols.rates_block(table).rows
    assert (label.text, loss.text) == (DataSet("movielens", 1).label, "nDCG")
    assert [cell.text for cell in cells] == ["0.05 (2)", "0.05 (1), 0.4 (1)", *["–"] * 3]
    assert [cell.strong for cell in cells[:2]] == [False, True]


def test_the_figure_draws_the_scores_of_the_table(collected: Path) -> None:
    table = protocols.make_rates("table_rates", StudyFiles(rates=collected))
    (panel,) = drawn.rates(StudyFiles(rates=collected)).axes
    lines = {line.get_label(): line for line in panel.lines}
    for bounding, title in (("none", "unbounded"), ("min-max", "min-max")):
        own = table.filter(bounding=bounding)
        np.testing.assert_allclose(lines[title].get_ydata(), own["mean_test_score"].to_numpy())
        np.testing.assert_allclose(lines[title].get_xdata(), own["learning_rate"].to_numpy())
