"""Training jobs: what they write, how they resume and repeat, what seeds depend on; controls and collected tables."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
import yaml
from safetensors.numpy import load_file

from rankbound.errors import ConfigError, DataError
from rankbound.metrics import metric
from rankbound.texts import derive_seed
from rankbound_study import cli
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.job import TRAINER, TrainingJob
from rankbound_study.config.sections.base import of_flag
from rankbound_study.data.contracts import (
    FOLDS,
    REPEATS_KEY,
    SPLITS,
    beside,
    judged_table,
    lists_table,
    read_metadata,
    read_table,
    write_table,
)
from rankbound_study.data.reader import FoldedLists, read_features, read_instances
from rankbound_study.data.sampling import write_instances as write_lists_of
from rankbound_study.export import trec_folder
from rankbound_study.jobs import collect as collecting
from rankbound_study.jobs import train_job
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.jobs.parts import RUN_METRICS
from rankbound_study.jobs.running import subnormals_as_zero
from rankbound_study.options import read_options
from tests.forks import run_with_torch

OPTIONS = yaml.safe_load((Path(__file__).parents[1] / "reference/jobs.yaml").read_text("utf-8"))
PROBLEMS = yaml.safe_load((Path(__file__).parents[1] / "reference/job_problems.yaml").read_text("utf-8"))
LEFT_OUT = "left out"
CONTROLS = {"controls": ["random", "popularity", "oracle"], "folds": [1, 2]}


def options(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**OPTIONS["bounded"], **changes}.items() if value != LEFT_OUT}


TREES = OPTIONS["trees"]


def of_lists(model: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"protocol": "honest", "dataset": "mq2008-label1", "nsr": None, "model": model, **changes}


def words(step: str, out: Path, given: dict[str, Any], **files: Path | None) -> list[str]:
    """The words of a step with options on the command line, and files by their flags."""
    named = [word for flag, path in files.items() if path for word in (f"--{flag}", str(path))]
    return [step, *named, "--out", str(out), "--options", json.dumps(given)]


def train(
    folder: Path, instances: Path, name: str = "runs", lists: Path | None = None, together: int = 1, **changes: Any
) -> Path:
    out = folder / f"{name}.parquet"
    arguments = words("job", out, options(**changes), instances=instances, lists=lists)
    assert cli.main([*arguments, "--device", "cpu", "--together", str(together)]) == 0
    return out


def frame(path: str | Path, contract: str = "runs") -> pl.DataFrame:
    read = pl.from_arrow(read_table(path, contract))
    assert isinstance(read, pl.DataFrame)
    return read


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_instances(tmp_path_factory.mktemp("data") / "movielens-nsr1.parquet")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("judged")
    return write_instances(folder / "mq2008-label1.parquet", nsr=None), write_lists(folder / "mq2008.parquet")


@pytest.mark.parametrize(("protocol", "part"), [("published", "test"), ("honest", "validation")])
def test_a_job_writes_runs_predictions_and_epochs(tmp_path: Path, instances: Path, protocol: str, part: str) -> None:
    """The honest protocol keeps validation apart; metrics are those of the kept predictions."""
    out = train(tmp_path, instances, protocol=protocol)
    endings = ("epochs.parquet", "parquet", "predictions.parquet", "rates.parquet", "weights.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"runs.{ending}" for ending in endings]
    runs = frame(out)
    counts = runs.group_by("fold", "selection").len().sort("fold", "selection").rows()
    assert counts == [(fold, selection, 4) for fold in (1, 2) for selection in sorted({"test", part, "last"})]
    assert set(runs["p"]) == {2}
    assert json.loads(runs["options"][0])["factors"] == 4
    assert_selected(out, instances, part, "nDCG", "AP", "nRBP(p=0.95)", "nDCG@3")


def assert_selected(out: Path, instances: Path, part: str, judge: str, *others: str) -> None:
    """Check that a part's best epochs are chosen, and have the metrics of what was kept of their predictions."""
    runs, epochs = frame(out), frame(beside(out, "epochs.parquet"), "epochs")
    predictions = frame(beside(out, "predictions.parquet"), "predictions")
    assert set(runs["selection"]) == {"test", part, "last"}
    assert (set(epochs["part"]), set(predictions["selection"])) == ({"test", part}, {part})
    assert set(RUN_METRICS) < set(runs.columns)
    truth = frame(instances, "instances").filter(split="test")
    chosen = runs.filter(selection=part).join(predictions, on=["fold", "topic"], maintain_order="left")
    chosen = chosen.join(truth, on=["fold", "topic"], suffix="_true", maintain_order="left")
    assert len(chosen) == len(predictions) == len(runs.filter(selection=part))
    assert chosen["items"].to_list() == chosen["items_true"].to_list()
    for fold in set(runs["fold"]):
        own, of_fold = chosen.filter(fold=fold), epochs.filter(fold=fold)
        means = of_fold.filter(part=part).sort("epoch")
        best = means["epoch"][int(np.argmax(means[judge].to_numpy()))]
        assert own["epoch"].unique().to_list() == [best]
        offsets = np.concatenate([[0], own["scores"].list.len().cum_sum().to_numpy()])
        scores, relevance = (np.concatenate(own[name].to_list()) for name in ("scores", "relevance"))
        for name in (judge, *others):
            again = np.asarray(metric(name)(scores.astype(np.float64), relevance, offsets))
            np.testing.assert_allclose(again, own[name].to_numpy(), atol=1e-9)
        on_the_way = of_fold.filter(part="test", epoch=best)[judge][0]
        assert on_the_way == pytest.approx(float(np.nanmean(own[judge].to_numpy())), abs=1e-9)


@pytest.mark.parametrize(("changes", "message"), PROBLEMS["runs"])
def test_problems_are_one_message(
    tmp_path: Path, instances: Path, told: Callable[..., str], changes: dict[str, Any], message: str
) -> None:
    out = tmp_path / "runs.parquet"
    said = told(*words("job", out, options(**changes), instances=instances), "--device", "cpu", status=2)
    assert f"rankbound_study job: {message}" in said
    assert not out.exists()


def test_models_have_the_weights_of_their_options(tmp_path: Path, instances: Path, judged: tuple[Path, Path]) -> None:
    runs = frame(train(tmp_path, judged[0], "mlp", judged[1], **of_lists({"name": "mlp", "hidden": [5]})))
    assert load_file(tmp_path / "mlp.weights.safetensors")["fold-1/seed-0/layers.0.weight"].shape == (5, 3)
    assert runs["nsr_train"].null_count() == len(runs)
    for bias in ("none", "item"):
        out = train(tmp_path, instances, bias, model={"name": "matrix-factorization", "factors": 2, "bias": bias})
        biases = [value for name, value in load_file(beside(out, "weights.safetensors")).items() if "bias" in name]
        assert bool(biases) == (bias == "item")
        assert all(np.abs(values).max() > 0 for values in biases)


@contextmanager
def interrupted(function: str, *after: int) -> Iterator[list[Any]]:
    """Ctrl-C where that function of a job would be called again, having been called so often; yield its arguments."""
    whole, stops, calls = getattr(train_job, function), [*after], list[Any]()

    def call(*arguments: Any) -> Any:
        if len(calls) in stops:
            stops.remove(len(calls))
            raise KeyboardInterrupt
        calls.append(arguments)
        return whole(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_job, function, call)
        yield calls
    assert not stops


def test_folds_train_together_and_as_if_alone(tmp_path: Path, instances: Path) -> None:
    """A group that lost a fold is trained again whole: its last digits are those of the group."""
    with interrupted("_keep", 1), pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", instances, together=2)
    # Finished shards of other options are not resumed.
    with interrupted("choose", 0), pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", instances, together=2, learning_rate=0.01)
    train(tmp_path / "killed", instances, together=2)
    runs = frame(train(tmp_path / "straight", instances, together=2))
    assert files_of(tmp_path / "killed") == files_of(tmp_path / "straight")
    alone = frame(train(tmp_path / "alone", instances))
    np.testing.assert_allclose(runs["nDCG"].to_numpy(), alone["nDCG"].to_numpy(), rtol=1e-6)


def test_seeds_do_not_depend_on_loss_or_bounding(tmp_path: Path, instances: Path) -> None:
    """With a learning rate of nearly zero the weights are the start: the same for every loss, another per seed."""
    starts = []
    for index, changes in enumerate(({}, {"loss": "AP"}, {"bounding": "expectation"}, {"seeds": [1]})):
        train(tmp_path, instances, name=str(index), learning_rate=1e-30, **changes)
        starts.append(list(load_file(tmp_path / f"{index}.weights.safetensors").values()))
    same, other = starts[:3], starts[3]
    assert all(np.array_equal(a, b) for start in same for a, b in zip(start, same[0], strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(same[0], other, strict=True))


def controls(folder: Path, instances: Path, lists: Path | None = None, **changes: Any) -> Path:
    out = folder / "controls.parquet"
    given = {"study": "thesis", "protocol": "published", "dataset": "movielens", "nsr": 1, **CONTROLS, **changes}
    assert cli.main(words("controls", out, given, instances=instances, lists=lists)) == 0
    return out


def test_controls_know_nothing_or_everything(tmp_path: Path, instances: Path, judged: tuple[Path, Path]) -> None:
    runs = frame(controls(tmp_path, instances))
    assert set(runs["model"]) == {"random", "popularity", "oracle"}
    assert runs.filter(model="oracle")["nDCG"].to_list() == [1.0] * 8
    random, mean = runs.filter(model="random", n=6)["AP"].to_list(), sum(1 / rank for rank in range(1, 7)) / 6
    assert random == pytest.approx([((6 - 6 * mean) / 5 + 6 * mean) / 6] * len(random))
    without_counts = frame(controls(tmp_path, judged[0], dataset="mq2008-label1", nsr=None))
    assert set(without_counts["model"]) == {"random", "oracle"}
    popular = {"study": "", "protocol": "", "dataset": "", "nsr": None, "controls": ["popularity"], "folds": [1]}
    with pytest.raises(ConfigError, match="expected one that ranks judged lists: random, oracle"):
        run_controls(json.dumps(popular), judged[0], tmp_path / "none.parquet")


def test_collected_runs_are_all_runs_and_their_epochs(tmp_path: Path, instances: Path) -> None:
    files = [controls(tmp_path, instances), train(tmp_path, instances, "a"), train(tmp_path, instances, "b", loss="AP")]
    collect(files, *(tmp_path / f"{name}.parquet" for name in ("all", "epochs", "rates")))
    assert len(frame(tmp_path / "all.parquet")) == sum(len(frame(path)) for path in files)
    assert set(frame(tmp_path / "epochs.parquet", "epochs")["loss"]) == {"nDCG", "AP"}


Spoil = Callable[[pl.DataFrame], pl.DataFrame]


def low(topics: int) -> Spoil:
    """Few topics, of scores that are far below random."""

    def spoil(runs: pl.DataFrame) -> pl.DataFrame:
        kept = sorted(set(runs["topic"]))[:topics]
        some = runs.filter(pl.col("topic").is_in(kept))
        if "random" in set(runs["model"]):
            return some
        return some.with_columns(nDCG=0.1 + 0.01 * pl.col("topic").is_in(kept[::2]))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda runs: pl.concat([runs, runs]), "topics twice"),
        (lambda runs: runs.with_columns(topic=pl.col("topic") + runs["model"][0]), "runs over different topics in"),
        (lambda runs: runs.with_columns(nDCG=pl.lit(1.5)), "above the oracle"),
        (lambda runs: runs.with_columns(nDCG=pl.lit(0.1)), "far below random"),
        # Two topics say little of the mean of all; four that agree say enough.
        *((low(topics), message) for topics, message in ((1, ""), (2, ""), (4, "far below random"))),
    ],
)
def test_collecting_refuses_runs_that_cannot_be_true(
    tmp_path: Path, instances: Path, monkeypatch: pytest.MonkeyPatch, spoil: Spoil, message: str
) -> None:
    files = [controls(tmp_path, instances), train(tmp_path, instances)]

    def spoiled(path: Path, contract: str) -> Any:
        table = read_table(path, contract)
        runs = pl.from_arrow(table)
        assert isinstance(runs, pl.DataFrame)
        both = spoil.__qualname__.startswith("low")
        is_spoiled = contract == "runs" and (both or path == files[1])
        return spoil(runs).to_arrow().cast(table.schema) if is_spoiled else table

    monkeypatch.setattr(collecting, "read_table", spoiled)
    with pytest.raises(DataError, match=message) if message else nullcontext():
        collecting.collect(files, *(tmp_path / f"{name}.parquet" for name in ("all", "epochs", "rates")))
    assert (tmp_path / "all.parquet").exists() == (not message)


def test_the_best_feature_is_the_one_of_the_training_part(tmp_path: Path, judged: tuple[Path, Path]) -> None:
    """Every column in either direction is scored by hand; the test part plays no role."""
    given = {"protocol": "honest", "dataset": "mq2008-label1", "nsr": None, "controls": ["random", "best-feature"]}
    found = frame(controls(tmp_path, *judged, **given)).filter(model="best-feature")
    features = read_features(judged[1])

    def scores(fold: int, split: str, place: int) -> list[float]:
        rows = frame(judged[0], "instances").filter(fold=fold, split=split).sort("topic")
        return [
            metric("nDCG")(
                np.sign(place) * features[items, abs(place) - 1], np.array(relevance), np.array([0, len(items)])
            )[0]
            for items, relevance in rows.select("items", "relevance").rows()
        ]

    places = [place for column in range(1, features.shape[1] + 1) for place in (column, -column)]
    chosen = [max(places, key=lambda place: np.mean(scores(fold, "train", place))) for fold in (1, 2)]
    assert found["options"].unique().to_list() == [json.dumps({"features": chosen})]
    for fold, place in zip((1, 2), chosen, strict=True):
        own = found.filter(fold=fold).sort("topic")
        assert own["nDCG"].to_list() == pytest.approx(scores(fold, "test", place))
    # Without features, nothing is ranked by one.
    assert set(frame(controls(tmp_path, judged[0], **given))["model"]) == {"random"}


def test_trees_minimise_bounded_losses_under_the_seeds_of_the_study(tmp_path: Path, judged: tuple[Path, Path]) -> None:
    """Trees have no optimiser: only the temperature is among their settings."""
    given = {name: value for name, value in options(**of_lists(TREES)).items() if name not in TRAINER}
    losses = {}
    for bounding in ("none", "expectation"):
        out = tmp_path / f"{bounding}.parquet"
        bounded = {**given, "temperature": 1.0, "bounding": bounding}
        assert cli.main(words("job", out, bounded, instances=judged[0], lists=judged[1])) == 0
        epochs = frame(beside(out, "epochs.parquet"), "epochs").filter(part="validation", fold=1)
        assert epochs["epoch"].to_list() == [2, 4, 6]
        losses[bounding] = epochs["mean_loss"].to_list()
        assert losses[bounding] == sorted(losses[bounding], reverse=True)
        assert json.loads(frame(out)["options"][0]).keys() == {"temperature", *TREES} - {"name"}
    assert losses["none"] != losses["expectation"]
    with pytest.raises(ConfigError, match=r"learning_rate is for models that are trained by epochs"):
        of_flag(TrainingJob, json.dumps(options(**of_lists(TREES))), "--options")


def test_a_scale_makes_units_of_features_irrelevant(tmp_path: Path, judged: tuple[Path, Path]) -> None:
    table = read_table(judged[1], "lists")
    values = read_features(judged[1]) * np.array([1000, 1, 0.01], np.float32) + np.array([5, 0, -1], np.float32)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    column = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), flat)
    other = tmp_path / "other-lists.parquet"
    write_table(table.set_column(table.schema.get_field_index("features"), "features", column), other, "lists")
    model = of_lists({"name": "mlp", "hidden": [4]}, epochs=2)
    means = {
        (name, scale): frame(
            train(tmp_path, judged[0], f"{name}{scale}", lists, **model, **({"scale": scale} if scale else {}))
        )["nDCG"]
        for name, lists in (("usual", judged[1]), ("other", other))
        for scale in ("", "standard")
    }
    assert means["usual", "standard"].to_list() == pytest.approx(means["other", "standard"].to_list(), abs=1e-3)
    assert means["usual", ""].to_list() != pytest.approx(means["other", ""].to_list(), abs=1e-3)


N_ITEMS = 40
N_FEATURES = 3


def write_instances(path: Path, *, nsr: int | None = 1, folds: tuple[int, ...] = (1, 2), seed: int = 0) -> Path:
    """Lists of 6 to 8 items with two relevant ones, four topics a split; item indices are the same in all splits."""
    generator = np.random.default_rng(seed)
    parts = [(fold, split, _topics(generator, split, nsr)) for fold in folds for split in SPLITS]
    write_lists_of(path, "movielens" if nsr else "mq2008-label1", nsr, parts, item_count=N_ITEMS)
    return path


def write_lists(path: Path, seed: int = 0) -> Path:
    """Judged lists whose rows are the items of `write_instances`."""
    values = np.random.default_rng(seed).normal(size=(N_ITEMS, N_FEATURES)).astype(np.float32)
    names, grades = [f"d{row}" for row in range(N_ITEMS)], np.zeros(N_ITEMS, np.int8)
    write_table(judged_table(["all"], names, grades, values, np.array([0, N_ITEMS])), path, "lists")
    return path


def _topics(generator: np.random.Generator, split: str, nsr: int | None) -> pa.Table:
    # Users occur in every split, with other items in each; a query has one list.
    names = [f"{index}" if nsr else f"{split}-{index}" for index in range(4)]
    span = N_ITEMS // len(SPLITS)
    lowest = SPLITS.index(split) * span
    lists = [lowest + np.sort(generator.permutation(span)[: generator.integers(6, 9)]) for _ in names]
    relevance = [generator.permutation([1, 1, *[0] * (len(items) - 2)]) for items in lists]
    offsets = np.concatenate([[0], np.cumsum([len(items) for items in lists])])
    return lists_table(names, np.concatenate(lists), np.concatenate(relevance).astype(np.int8), offsets)


# A training repeats: drawings in turns, fixed settings of its process, stable seeds, and exactly the known options

USERS, RELEVANT, ITEMS, REPEATS = 6, 11, 80, 3
SHARED = {"threshold": 4.0, "min_relevant": 5, "seed": 0}


def made(folder: Path, **options: Any) -> Path:
    """Return instances of ratings, some of them relevant, whose folds are drawn as the options say."""
    random = np.random.default_rng(0)
    topic = np.repeat(np.arange(1, USERS + 1, dtype=np.int32), 2 * RELEVANT)
    item = np.concatenate([np.sort(random.permutation(ITEMS)[: 2 * RELEVANT]) for _ in range(USERS)]).astype(np.int32)
    rating = np.where(np.arange(len(topic)) % 2, 5.0, 1.0).astype(np.float32)
    columns = {"topic": topic, "item": item, "rating": rating, "timestamp": np.zeros(len(topic), np.int64)}
    folder.mkdir(exist_ok=True)
    write_table(pa.table(columns), folder / "interactions.parquet", "interactions")
    step(folder, "split", "interactions", "folds", {**SHARED, **options})
    files = ("--folds", str(folder / "folds.parquet"))
    return step(folder, "sample", "interactions", "movielens-nsr1", {**SHARED, "validation_share": 0.2}, *files)


def step(folder: Path, name: str, source: str, out: str, options: dict[str, Any], *more: str) -> Path:
    paths = ["--in", str(folder / f"{source}.parquet"), *more, "--out", str(folder / f"{out}.parquet")]
    assert cli.main([name, "movielens", *paths, "--options", json.dumps(options)]) == 0
    return folder / f"{out}.parquet"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("once"))


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("repeated"), repeats=REPEATS)


def relevant(instances: FoldedLists, fold: int, split: str) -> set[tuple[str, int]]:
    lists = instances.split(fold, split)
    chosen = lists.relevance > 0
    names = [instances.topics[place] for place in lists.owners[chosen].tolist()]
    return set(zip(names, lists.items[chosen].tolist(), strict=True))


def test_the_first_drawing_and_seed_do_not_depend_on_their_number(once: Path, repeated: Path, tmp_path: Path) -> None:
    first, several = read_instances(once), read_instances(repeated)
    assert several.repeats == REPEATS
    assert several.folds == tuple(range(1, REPEATS * FOLDS + 1))
    for (fold, name), split in first.splits.items():
        for column in ("topics", "items", "relevance", "offsets"):
            np.testing.assert_array_equal(getattr(split, column), getattr(several.split(fold, name), column))
    runs = [frame(train(tmp_path, path, name)) for name, path in (("once", once), ("repeated", repeated))]
    assert runs[0].equals(runs[1])


def test_each_drawing_is_a_partition_of_the_relevant_items_and_differs_from_the_others(repeated: Path) -> None:
    instances = read_instances(repeated)
    tested = []
    for repeat in range(REPEATS):
        folds = range(repeat * FOLDS + 1, (repeat + 1) * FOLDS + 1)
        parts = [relevant(instances, fold, "test") for fold in folds]
        assert sum(map(len, parts)) == len(set.union(*parts)) == USERS * RELEVANT
        for fold, test in zip(folds, parts, strict=True):
            others = [relevant(instances, fold, name) for name in SPLITS[:2]]
            assert set.union(test, *others) == set.union(*parts)
            assert sum(map(len, (test, *others))) == USERS * RELEVANT, "no pair is in two parts"
        tested.append(parts)
    assert len({frozenset(part) for parts in tested for part in parts}) == REPEATS * FOLDS


def test_a_seed_is_trained_and_tested_on_its_own_drawing(tmp_path: Path, repeated: Path) -> None:
    """The seeds 0, 4 and 2 have the folds of the drawings 0, 1 and 2."""
    out = train(tmp_path, repeated, together=2, seeds=[0, 4, 2], folds=[1, 3])
    instances = read_instances(repeated)
    runs = frame(out).filter(pl.col("selection") == "test")
    assert (runs["drawing"] == runs["seed"] % REPEATS).all()
    assert sorted(runs.select("fold", "seed").unique().rows()) == [(f, s) for f in (1, 3) for s in (0, 2, 4)]
    predictions = frame(out.with_suffix("").with_suffix(".predictions.parquet"), "predictions")
    for row in predictions.iter_rows(named=True):
        drawn = instances.split(row["fold"] + FOLDS * (row["seed"] % REPEATS), "test")
        names = [instances.topics[place] for place in drawn.topics.tolist()]
        place = names.index(row["topic"])
        assert row["items"] == drawn.items[drawn.offsets[place] : drawn.offsets[place + 1]].tolist()


def test_controls_have_every_seed_of_the_trainings_and_popularity_counts(tmp_path: Path, repeated: Path) -> None:
    shared = {"study": "thesis", "protocol": "published", "dataset": "movielens", "nsr": 1, "folds": [1, 2]}
    options = {**shared, "controls": ["random", "popularity", "oracle"], "seeds": [0, 1]}
    run_controls(json.dumps(options), repeated, tmp_path / "controls.parquet")
    files = [tmp_path / "controls.parquet", train(tmp_path, repeated, seeds=[0, 1])]
    collect(files, *(tmp_path / f"{name}.parquet" for name in ("all", "epochs", "rates")))
    controls = frame(files[0])
    assert controls.group_by("model", "seed").len()["len"].to_list() == [2 * USERS] * 6
    popular = controls.filter(model="popularity")
    assert popular.filter(seed=0)["nDCG"].to_list() != popular.filter(seed=1)["nDCG"].to_list()
    lists, keep = frame(repeated, "instances").filter(fold=1), ("topic", "items", "relevance")
    known = lists.filter(pl.col("split") != "test").explode("items", "relevance").filter(relevance=1)["items"].to_list()
    for topic, items, relevance in lists.filter(split="test").select(keep).rows():
        counts = np.array([float(known.count(item)) for item in items])
        (expected,) = metric("AP")(counts, np.array(relevance), np.array([0, len(items)]))
        assert popular.filter(fold=1, seed=0, topic=topic)["AP"].item() == pytest.approx(float(expected))


def test_drawings_are_counted_and_the_export_refuses_several(repeated: Path, tmp_path: Path) -> None:
    table, notes = read_table(repeated, "instances"), read_metadata(repeated, "instances")
    for text, message in (("7", "15 folds are not those of 7 repeats"), ("x", "should be a number from 1")):
        write_table(table, tmp_path / text, "instances", metadata={**notes, REPEATS_KEY: text})
        with pytest.raises(Exception, match=message):
            read_instances(tmp_path / text)
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances/movielens-nsr1.parquet").write_bytes(repeated.read_bytes())
    with pytest.raises(Exception, match="its folds were drawn 3 times, so that the seeds of a fold have other lists"):
        trec_folder.Tested.read(tmp_path, *DataSet("movielens", 1))


def test_every_drawing_selects_its_own_rates(tmp_path: Path, repeated: Path) -> None:
    """Test items of one drawing validate in another: a rate that one drawing selects is used in that drawing alone."""
    out = train(tmp_path, repeated, protocol="honest", learning_rate=[0.001, 0.3], seeds=[0, 1, 3, 4], folds=[1])
    tried = frame(out.with_suffix("").with_suffix(".rates.parquet"), "rates")
    assert tried["seed"].to_list() == [0, 0, 1, 1], "the seeds 3 and 4 have the drawings of 0 and 1"
    assert tried.filter("chosen")["seed"].to_list() == [0, 1]


# A training repeats: what its process is set to before it begins, and that the settings reach every step

_JOB = """
import sys, warnings
warnings.simplefilter("error")
import torch
from rankbound_study.cli import main
from rankbound_study.jobs import train_job, vgg16

def tell(*arguments, **named):
    # Below the smallest normal number: zero, where the processor can make it so.
    tiny = float(torch.tensor(1e-38) / 1e3)
    print(
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        tiny == 0 or not torch.set_flush_denormal(True),
        "torch._dynamo" in sys.modules,  # Torch's compiler, which nobody here needs: half of a job's start.
    )
    sys.exit()

train_job.shards_of = vgg16.read_weights = tell
torch.set_num_threads(2)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "threads", "flushed"),
    [
        (words("job", Path("b"), options(), instances=Path("a")), "1", "True"),
        (["features", "--images", "a", "--weights", "b", "--out", "c"], "2", "False"),
    ],
)
def test_steps_that_run_networks_use_fixed_algorithms(arguments: list[str], threads: str, flushed: str) -> None:
    result = run_with_torch(_JOB, *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [threads, "True", "False", "False", "False", flushed, "False"]


# Derived seeds are stable and distinct; options are exactly the known keys

DEFAULTS = {"nsr": 1, "share": 0.1, "name": "x", "flag": False}


def test_seeds_are_stable_options_stand_over_defaults_and_small_numbers_return() -> None:
    digest = hashlib.sha256(b'["folds", "movielens", 0]').hexdigest()
    assert derive_seed("folds", "movielens", 0) == int(digest[:16], 16) // 2 == 2053635801640725812
    parts = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), ("a", None), ("a,b",), (1, 12), (11, 2), (1.5,)]
    seeds = [derive_seed(*some) for some in parts]
    assert len(set(seeds)) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    np.random.default_rng(seeds[0])
    assert read_options("{}", DEFAULTS) == DEFAULTS
    assert read_options('{"share": 1, "nsr": 3}', DEFAULTS) == {**DEFAULTS, "share": 1, "nsr": 3}
    tiny = torch.tensor(1e-38) / 1e3
    with subnormals_as_zero():
        inside = float(torch.tensor(1e-38) / 1e3)
    assert inside == 0 or not torch.set_flush_denormal(False)
    assert torch.tensor(1e-38) / 1e3 == tiny > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{nsr: 1}", r"--options is not valid JSON \(.*\): \{nsr: 1\}"),
        *((text, "--options is not valid JSON") for text in ("[" * 100_000, '{"a": NaN}', f'{{"a": {"9" * 5000}}}')),
        ("[1]", r"should be a JSON object such as \{.*\}, found \[1\]"),
        ('{"NSR": 1}', "unknown key 'NSR'; known are flag, name, nsr, share"),
        ('{"nsr": 1.5}', "'nsr' is 1.5, expected a value like 1"),
        ('{"nsr": true}', "'nsr' is true, expected a value like 1"),
        ('{"share": "0.1"}', "'share' is \"0.1\", expected a value like 0.1"),
        ('{"name": null}', "'name' is null, expected a value like 'x'"),
    ],
)
def test_other_options_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_options(text, DEFAULTS)
