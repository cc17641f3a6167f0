"""Training jobs: what they write, how they resume, what seeds depend on; controls and the collected table."""

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import yaml
from safetensors.numpy import load_file
from study_files import write_instances, write_lists

from rankbound.errors import ConfigError, DataError
from rankbound.metrics import metric
from rankbound_study import cli
from rankbound_study.config.job import TRAINER, TrainingJob
from rankbound_study.data.contracts import beside, read_table, write_table
from rankbound_study.data.reader import read_features
from rankbound_study.jobs import collect as collecting
from rankbound_study.jobs import train_job
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.jobs.parts import RUN_METRICS
from rankbound_study.jobs.train_job import Trial

PROBLEMS = yaml.safe_load((Path(__file__).parents[1] / "reference/job_problems.yaml").read_text("utf-8"))
LEFT_OUT = "left out"
CONTROLS = {"controls": ["random", "popularity", "oracle"], "folds": [1, 2]}


def options(**changes: Any) -> dict[str, Any]:
    values = {
        "study": "thesis",
        "protocol": "published",
        "dataset": "movielens",
        "nsr": 1,
        "model": {"name": "matrix-factorization", "factors": 4},
        "loss": "nDCG",
        "bounding": "min-max",
        "folds": [1, 2],
        "seeds": [0],
        "variant": "",
        "optimiser": "adam",
        "learning_rate": 0.05,
        "epochs": 3,
        "batch_size": 2,
        "temperature": 1.0,
        **changes,
    }
    return {name: value for name, value in values.items() if value != LEFT_OUT}


TREES = {"name": "boosted-trees", "rounds": 6, "every": 2, "leaves": 4, "min_rows": 2, "learning_rate": 0.3}


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


def frame(path: Path, contract: str = "runs") -> pl.DataFrame:
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
def test_a_job_writes_runs_predictions_and_the_epochs_that_the_selection_went_by(
    tmp_path: Path, instances: Path, protocol: str, part: str
) -> None:
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
def test_options_that_cannot_be_are_one_message(
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


def test_folds_that_train_together_are_resumed_together_and_score_as_alone(
    tmp_path: Path, instances: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that lost a fold is trained again whole: its last digits are those of the group."""
    whole = train_job._keep
    kept: list[int] = []

    def interrupted(job: Any, trial: Trial, *rest: Any) -> None:
        if kept == [1]:
            raise KeyboardInterrupt
        kept.append(trial.fold)
        whole(job, trial, *rest)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train_job, "_keep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", instances, together=2)
    monkeypatch.undo()
    # Finished shards of other options are not resumed.
    monkeypatch.setattr(train_job._Trainings, "assemble", killed)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", instances, together=2, learning_rate=0.01)
    monkeypatch.undo()
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


def test_controls_are_runs_that_know_nothing_counts_or_everything(
    tmp_path: Path, instances: Path, judged: tuple[Path, Path]
) -> None:
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
        TrainingJob.parse(json.dumps(options(**of_lists(TREES))))


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
