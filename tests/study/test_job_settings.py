"""Settings of jobs: grids of learning rates, of which every fold selects its own, and weights of lists."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from test_train_job import LEFT_OUT, files_of, frame, interrupted, options, train, write_instances, write_lists
from torch import Tensor, nn

import rankbound as rb
from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.losses import SmoothLoss
from rankbound.training import trainer
from rankbound.training.trainer import LAST, Learner, Part, Trained
from rankbound_study import cli
from rankbound_study.config.check import merged
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import WEIGHTS, beside, read_table
from rankbound_study.data.reader import read_instances
from rankbound_study.figures import runs as figures_of_runs
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.models import examples_of
from rankbound_study.jobs.parts import FoldParts, StudyData
from rankbound_study.jobs.train_job import choose, first_trials, in_groups, kept_trials
from rankbound_study.jobs.weighting import bound_weights, list_ranges, list_weights
from rankbound_study.report.tables import protocols
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import ListWeights

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


def test_every_fold_keeps_its_best_rate_by_validation(tuned: Path, instances: Path, tmp_path: Path) -> None:
    tried = rates(tuned)
    assert tried.select("fold", "seed", "learning_rate").rows() == [(f, 3, rate) for f in (1, 2) for rate in GRID]
    for fold in (1, 2):
        own = tried.filter(fold=fold)
        best = own.sort("score", "learning_rate", descending=[True, False])["learning_rate"][0]
        assert own.filter("chosen")["learning_rate"].to_list() == [best]
    # A cell has one key: its folds are compared, whatever rates they selected.
    (stated,) = frame(tuned)["options"].unique()
    assert json.loads(stated)["learning_rate"] == GRID
    assert rates(train(tmp_path, instances)).is_empty()


def test_kept_trainings_and_scores_are_those_of_the_chosen_rates(tuned: Path, instances: Path, tmp_path: Path) -> None:
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
    for rate in GRID:
        alone = train(tmp_path, instances, f"{rate}", learning_rate=rate, **HONEST)
        epochs = frame(beside(alone, "epochs.parquet"), "epochs").filter(seed=3)
        for row in rates(tuned).filter(learning_rate=rate).iter_rows(named=True):
            at = epochs.filter(fold=row["fold"], epoch=row["epoch"])
            assert at.filter(part="validation")["nDCG"].item() == row["score"]
            assert at.filter(part="test")["nDCG"].item() == row["test_score"]


def test_networks_and_trees_have_grids(tmp_path: Path) -> None:
    judged = write_instances(tmp_path / "mq2008-label1.parquet", nsr=None), write_lists(tmp_path / "mq2008.parquet")
    given = {**HONEST, "dataset": "mq2008-label1", "nsr": None, "folds": [1], "seeds": [0]}
    network = {"model": {"name": "mlp", "hidden": [3]}, "learning_rate": GRID}
    trees = {"model": {"name": "boosted-trees", "rounds": 4, "every": 2, "min_rows": 1, "learning_rate": [0.1, 0.5]}}
    of_trainer = dict.fromkeys(("optimiser", "learning_rate", "epochs", "batch_size"), LEFT_OUT)
    for name, changes, tried in (("mlp", network, GRID), ("trees", {**of_trainer, **trees}, [0.1, 0.5])):
        out = train(tmp_path, judged[0], name, judged[1], **{**given, **changes})
        assert rates(out)["learning_rate"].to_list() == tried


def test_an_interrupted_grid_resumes_and_ends_with_the_same_bytes(tmp_path: Path, instances: Path, tuned: Path) -> None:
    """The shards of a grid, before and after the selection, are used again."""
    with interrupted("_keep", 1, 4, 6) as kept:
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path, instances, learning_rate=GRID, **HONEST)
        train(tmp_path, instances, learning_rate=GRID, **HONEST)
    trials = [trial for _, trial, *_ in kept]
    assert len(trials) == len(set(trials)) == 2 * (len(GRID) + 1), "each training once"
    assert files_of(tmp_path) == files_of(tuned.parent)


def job(**changes: Any) -> TrainingJob:
    return TrainingJob.model_validate(options(**changes))


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
    planned = job(**shape)
    trainings = planned.trainings
    if crossed:
        assert trainings == [(fold, seed) for fold in folds for seed in seeds]
    else:
        assert [len(set(each)) for each in zip(*trainings, strict=True)] == [len(folds), len(seeds)]
        assert len(set(trainings)) == len(trainings) == max(len(folds), len(seeds))
    first = first_trials(planned, repeats)
    tuned = {(trial.fold, trial.seed) for trial in first}
    assert len(first) == len(tuned) * len(GRID) == len({(fold, seed % repeats) for fold, seed in trainings}) * len(GRID)
    rates_of = {place: GRID[sum(place) % len(GRID)] for place in tuned}
    kept = kept_trials(planned, repeats, rates_of)
    assert [(trial.fold, trial.seed) for trial in kept] == trainings
    for trial in kept:
        (source,) = {seed for fold, seed in tuned if fold == trial.fold and (seed - trial.seed) % repeats == 0}
        assert trial.rate == rates_of[trial.fold, source]
    assert len({*first, *kept}) == planned.count_trainings(repeats)
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
    study, planned = Study(merged(files)), 0
    for run in study.runs:
        job_and_repeats = run.request, study.repeats_of(run.instances.source)
        tried = first_trials(*job_and_repeats)
        places = {(trial.fold, trial.seed) for trial in tried}
        planned += len(tried) + len({(trial.fold, trial.seed) for trial in kept_trials(*job_and_repeats, {})} - places)
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


def test_the_report_marks_rates_at_an_end_and_the_figure_draws_them(collected: Path) -> None:
    table = protocols.make_rates("table_rates", StudyFiles(rates=collected)).with_columns(
        n_selected=pl.Series([0, 2, 0, 0, 1, 1])
    )
    ((label, loss, *cells),) = protocols.rates_block(table).rows
    assert (label.text, loss.text) == (DataSet("movielens", 1).label, "nDCG")
    assert [cell.text for cell in cells] == ["0.05 (2)", "0.05 (1), 0.4 (1)", *["–"] * 3]
    assert [cell.strong for cell in cells[:2]] == [False, True]
    table = protocols.make_rates("table_rates", StudyFiles(rates=collected))
    (panel,) = figures_of_runs.rates(StudyFiles(rates=collected)).axes
    lines = {line.get_label(): line for line in panel.lines}
    for bounding, title in (("none", "unbounded"), ("min-max", "min-max")):
        own = table.filter(bounding=bounding)
        np.testing.assert_allclose(lines[title].get_ydata(), own["mean_test_score"].to_numpy())
        np.testing.assert_allclose(lines[title].get_xdata(), own["learning_rate"].to_numpy())


# List weights: what a text means, what affine bounds amount to, and what a training does with weights

RELEVANCE = [[0, 1, 0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1], [1, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0], [0, 1]]
FLAT = torch.tensor([grade for grades in RELEVANCE for grade in grades])
LISTS = Lists.of_sizes(torch.tensor([len(grades) for grades in RELEVANCE]))
AFFINE = ("min-max", "expectation", "expectation-max")
METRICS = ("nDCG", "AP", "RR", "nRBP", "nDCG@2")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("bound", AFFINE)
def test_a_bounds_weights_are_the_ratio_of_gradients(metric: str, bound: str) -> None:
    weights = bound_weights(metric, bound, FLAT, LISTS.offsets)
    scores = torch.linspace(-1, 1, len(FLAT), dtype=torch.float64, requires_grad=True)

    def gradient(by: str) -> Tensor:
        return torch.autograd.grad(SmoothLoss(metric, by)(scores, FLAT, LISTS.offsets).sum(), scores)[0]

    bounded, unbounded = gradient(bound), gradient("none")
    expected = LISTS.spread(torch.from_numpy(weights)) * unbounded
    torch.testing.assert_close(bounded, expected)


@pytest.mark.parametrize("metric", METRICS)
def test_min_max_equalises_the_influence_of_informative_lists(metric: str) -> None:
    ranges = list_ranges(metric, FLAT, LISTS.offsets)
    influence = ranges * bound_weights(metric, "min-max", FLAT, LISTS.offsets)
    assert influence[ranges > 0] == pytest.approx(1)
    assert (influence[ranges == 0] == 0).all()
    assert (bound_weights(metric, "none", FLAT, LISTS.offsets) == (ranges > 0)).all()


def test_graded_lists_have_affine_weights_and_nrbp_weighs_by_pairs() -> None:
    relevance, offsets = [2, 0, 1, 2, 2, 0, 0, 1], [0, 3, 5, 8]
    low, high = rb.extremes("nDCG", relevance, offsets)
    own = bound_weights("nDCG", "min-max", relevance, offsets)
    assert own[[0, 2]] == pytest.approx(1 / (high - low)[[0, 2]])
    assert own[1] == 0, "all orders of two items of one grade are alike"
    with pytest.raises(ValueError, match=r"bound distribution: found no list weights; expected an affine bound"):
        bound_weights("nDCG", "distribution", FLAT, LISTS.offsets)
    for bound in AFFINE:
        assert weights(bound, "nRBP") == pytest.approx(weights("pairs^-1"))
    with pytest.raises(ConfigError, match=r"list_weights: pairs\^-1 has no weights for AP: no training list is inform"):
        list_weights(ListWeights.of("pairs^-1"), "AP", [1, 1, 0], [0, 2, 3], np.random.default_rng(0))


class Table(nn.Module):
    """One free score per item."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.linspace(1, -1, len(FLAT), dtype=torch.float64))


def scores_of(model: nn.Module, part: Part) -> Tensor:
    assert isinstance(model, Table)
    return model.scores[part.items]


def part_with(weights: object = None, relevance: Tensor = FLAT) -> Part:
    names = [f"topic-{index}" for index in range(len(LISTS))]
    own = None if weights is None else torch.as_tensor(weights, dtype=torch.float64)
    return Part(names, torch.arange(len(LISTS)), torch.arange(len(FLAT)), relevance, LISTS, own)


def trained(part: Part) -> tuple[Tensor, Trained]:
    model = Table()
    learner = Learner(model, scores_of, part, {"test": part_with()}, torch.Generator().manual_seed(0))
    judge = rb.metric("nDCG")
    settings = {"learning_rate": 0.5, "epochs": 5, "batch_size": 2, "optimiser": "sgd"}
    (record,) = trainer.train([learner], SmoothLoss("nDCG"), **settings, monitored=[judge], selections={"test": judge})
    return record.selected[LAST].weights["scores"], record


def test_weights_of_one_change_nothing_and_a_list_of_weight_zero_is_left_out_like_an_uninformative_one() -> None:
    plain, ones = (trained(part_with(weights))[0] for weights in (None, np.ones(len(LISTS))))
    assert torch.equal(plain, ones)
    weights = np.ones(len(LISTS))
    weights[4] = 0
    without = FLAT.clone()
    without[LISTS.segment == 4] = 0
    scores, record = trained(part_with(weights))
    expected, of_others = trained(part_with(None, without))
    assert torch.equal(scores, expected)
    assert [epoch.loss for epoch in record.epochs] == [epoch.loss for epoch in of_others.epochs]


# Settings

SIZES = ((5, 2), (3, 1), (3, 0), (2, 2), (40, 7), (12, 11))
LABELS = np.concatenate([np.arange(n) < p for n, p in SIZES]).astype(np.int8)
OFFSETS = np.concatenate([[0], np.cumsum([n for n, _ in SIZES])])
INFORMATIVE = [0, 1, 4, 5]
N, P = np.array(SIZES, np.float64)[INFORMATIVE].T

POWERS = {"pairs^-1": 1 / (P * (N - P)), "pairs^0.5": (P * (N - P)) ** 0.5, "relevant^-1": 1 / P, "items^-1.5": N**-1.5}


def weights(text: str, loss: str = "nDCG", seed: int = 0) -> np.ndarray:
    return list_weights(ListWeights.of(text), loss, LABELS, OFFSETS, np.random.default_rng(seed))


@pytest.mark.parametrize("text", [*POWERS, *AFFINE, "permuted(pairs^-1)", "permuted(min-max)"])
def test_weights_have_mean_one_over_the_informative_lists_and_are_zero_elsewhere(text: str) -> None:
    assert str(ListWeights.of(text)) == text
    found = weights(text)
    assert found[INFORMATIVE].mean() == pytest.approx(1)
    assert (found[INFORMATIVE] > 0).all()
    assert found[[2, 3]].tolist() == [0, 0]
    if text in POWERS:
        assert found[INFORMATIVE] == pytest.approx(POWERS[text] / POWERS[text].mean()), "proportional to its number"


@pytest.mark.parametrize("text", ["pairs^-1", "expectation-max"])
def test_a_permutation_keeps_the_weights_and_moves_them_with_the_seed(text: str) -> None:
    plain = weights(text)
    drawn = [weights(f"permuted({text})", seed=seed) for seed in range(6)]
    for one in drawn:
        assert sorted(one) == pytest.approx(sorted(plain))
    assert np.array_equal(drawn[3], weights(f"permuted({text})", seed=3))
    assert len({tuple(one) for one in drawn}) > 1


@pytest.mark.parametrize(
    "text", ["", "pair^-1", "pairs^", "pairs^-11", "permuted(min-max", "min-max^2", "distribution"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"list_weights: found .*, expected an affine bounding"):
        ListWeights.of(text)


def model_of(runs: Path) -> dict[str, np.ndarray]:
    return load_file(beside(runs, WEIGHTS))


def test_a_job_with_a_boundings_weights_trains_the_bounded_losss_model_and_states_them(tmp_path: Path) -> None:
    instances = write_instances(tmp_path / "movielens-nsr1.parquet")
    model = {"name": "matrix-factorization", "factors": 4, "spread": 0.5}
    settings: dict[str, Any] = {"protocol": "honest", "loss": "nDCG", "optimiser": "sgd", "folds": [1], "epochs": 8}
    settings["model"] = model
    bounded = train(tmp_path, instances, "bounded", bounding="min-max", learning_rate=5, **settings)
    split = read_instances(instances).split(1, "train")
    n, p = split.sizes, split.positives
    factor = (1 / (rb.maximum("nDCG", n, p) - rb.minimum("nDCG", n, p))).mean()
    weighted = train(
        tmp_path, instances, "weighted", bounding="none", learning_rate=5 * factor, list_weights="min-max", **settings
    )
    plain = train(tmp_path, instances, "plain", bounding="none", learning_rate=5 * factor, **settings)
    for name, values in model_of(bounded).items():
        np.testing.assert_allclose(model_of(weighted)[name], values, rtol=1e-4, atol=1e-6)
    assert any(np.abs(model_of(plain)[name] - model_of(weighted)[name]).max() > 1e-4 for name in model_of(plain))
    stated = read_table(weighted, "runs").column("options").unique().to_pylist()
    assert [json.loads(text)["list_weights"] for text in stated] == ["min-max"]


def drawn(fold: int, seed: int, loss: str = "nDCG", dataset: str = "movielens") -> list[float]:
    """The permuted weights of the lists above in a training."""
    weighing = job(loss=loss, dataset=dataset, bounding="none", list_weights="permuted(pairs^-1)")
    lists = Lists(torch.from_numpy(OFFSETS))
    topics, items = torch.arange(len(lists)), torch.arange(len(LABELS))
    part = Part([""] * len(lists), topics, items, torch.from_numpy(LABELS), lists)
    found = examples_of(weighing, StudyData(None, None, torch.device("cpu")), FoldParts(part, None, part), fold, seed)  # type: ignore[arg-type]
    return list(found.list_weights.tolist())  # type: ignore[union-attr]


def test_a_permutation_is_shared_by_losses_and_drawn_anew_for_folds_seeds_and_data_sets() -> None:
    assert drawn(1, 0) == drawn(1, 0, loss="AP")
    # Four weights have few permutations: some of several draws differ.
    assert any(drawn(1, 0) != drawn(1, seed) for seed in range(1, 5))
    assert any(drawn(1, 0) != drawn(fold, 0) for fold in range(2, 6))
    assert any(drawn(1, seed) != drawn(1, seed, dataset="mq2008") for seed in range(4))
