"""Jobs of comparisons: every kind of model on judged lists and on pictures, and what they leave."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from safetensors.numpy import load_file
from study_files import N_FEATURES, write_instances, write_lists
from test_train_job import PROBLEMS, assert_selected, files_of, frame, words
from test_train_job import options as bounded

from rankbound_study import cli
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.contracts import beside, read_metadata, read_table, write_table
from rankbound_study.data.images import read_faces, read_pixels
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.examples import ValueScale, drawn_shifts, examples_of, moved
from rankbound_study.jobs.models import score_distinct
from rankbound_study.jobs.parts import Inputs, StudyData

TRAINER = {"optimiser": "adam", "learning_rate": 0.01, "epochs": 3, "batch_size": 4, "scale": "standard"}
PAIRS, ITEMS = ({**TRAINER, "batches": batches} for batches in ("pairs", "items"))
TREES = {"rounds": 4, "every": 2, "leaves": 3, "min_rows": 2}
LINEAR, BOOSTED = {"name": "linear"}, {"name": "boosted-trees", **TREES}
CNN = {"name": "cnn", "channels": [3, 1, 2], "hidden": [3]}
FEW_BINS = {**BOOSTED, "feature_share": 0.01, "bins": 8}

WEB: dict[str, dict[str, Any]] = {
    "RankNet": {"model": {"name": "mlp", "hidden": [4]}, "loss": "RankNet", "settings": PAIRS},
    "Rank-LR": {"model": LINEAR, "loss": "RankNet", "settings": {**PAIRS, "pairs": 9, "optimiser": "sgd"}},
    "Class-NN": {"family": "class", "model": {"name": "mlp", "hidden": [4]}, "settings": ITEMS},
    "LambdaMART": {"model": BOOSTED, "loss": "LambdaRank"},
    "Class-RF": {"family": "class", "model": {"name": "random-forest", **TREES}, "loss": "squared"},
    "RankSVM": {"model": {"name": "ranksvm"}, "loss": "hinge", "settings": {"epochs": 20}},
    "AdaRank": {"model": {"name": "adarank"}, "loss": "AP", "bounding": "min-max", "settings": {"epochs": 3}},
    "RankBoost": {"model": {"name": "rankboost", "pair_weights": "list"}, "loss": "hinge", "settings": {"epochs": 3}},
    "McRank": {"model": {"name": "mcrank", "leaves": 3}, "loss": "hinge", "settings": {"epochs": 2}},
}
VALUES: dict[str, Any] = {"family": "reg", "loss": "squared", "target": "value"}
SLOW = {**TRAINER, "learning_rate": 1e-4}
FACES: dict[str, dict[str, Any]] = {
    "RankCNN": {"model": CNN, "loss": "RankNet", "settings": {**TRAINER, "epochs": 1}},
    "Rank-LR": {"model": LINEAR, "loss": "RankNet", "settings": TRAINER},
    "Reg-NN": {**VALUES, "model": {"name": "mlp", "hidden": [3]}, "settings": SLOW},
    "Reg-l1": {**VALUES, "model": {"name": "lasso", "penalties": [0.5, 0.2]}},
    "Reg-l2": {**VALUES, "model": {"name": "ridge", "penalties": [0.1, 0.01, 0.001]}},
    "Reg-Boost": {**VALUES, "model": FEW_BINS},
}


def options(method: str, dataset: str, **changes: Any) -> dict[str, Any]:
    return {
        "study": "neural",
        "protocol": "honest",
        "dataset": dataset,
        "nsr": None,
        "method": method,
        "family": "rank",
        "loss": "logistic",
        "bounding": "none",
        "target": "relevance",
        "settings": {},
        "judged_by": "PairAccuracy" if "aaf" in dataset else "nDCG@10",
        "folds": [1],
        "seeds": [0],
        **changes,
    }


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("web")
    return Inputs(write_instances(folder / "i.parquet", nsr=None), write_lists(folder / "l.parquet"))


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("faces")
    images, folds, pairs = (folder / f"{name}.parquet" for name in ("images", "folds", "pairs"))
    counts = json.dumps({"train_pairs": 60, "validation_pairs": 20, "test_pairs": 20})
    name, data = "synthetic-aaf", ["--in", str(images)]
    for step in (
        ["generate", name, "--size", "80", "--out", str(images)],
        ["split", name, *data, "--out", str(folds), "--options", '{"folds": 1}'],
        ["sample", name, *data, "--folds", str(folds), "--out", str(pairs), "--options", counts],
    ):
        assert cli.main(step) == 0
    return Inputs(pairs, images=images)


def of_job(out: Path, given: dict[str, Any], inputs: Inputs) -> list[str]:
    return words("job", out, given, instances=inputs.instances, images=inputs.images, lists=inputs.lists)


def run(folder: Path, inputs: Inputs, method: str, **changes: Any) -> Path:
    dataset, methods = ("synthetic-aaf", FACES) if inputs.images else ("mq2008-label1", WEB)
    given = options(method, dataset, **{**methods[method], **changes})
    out = folder / "none.parquet"
    assert cli.main([*of_job(out, given, inputs), "--device", "cpu"]) == 0
    return out


Plain = Callable[[Inputs, str], Path]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Plain:
    """Run a method as it is listed, once for all tests, which leave its files as they are."""
    made: dict[str, Path] = {}

    def run_once(inputs: Inputs, method: str) -> Path:
        key = f"{'faces' if inputs.images else 'web'} {method}"
        if key not in made:
            made[key] = run(tmp_path_factory.mktemp("plain"), inputs, method)
        return made[key]

    return run_once


def inputs_of(request: pytest.FixtureRequest, name: str) -> Inputs:
    found: Inputs = request.getfixturevalue(name)
    return found


CASES = [*(("web", method) for method in WEB), *(("faces", method) for method in FACES)]
ONE_OF_EACH_FIT = (("web", "RankNet"), ("web", "LambdaMART"), ("faces", "Reg-l2"))


@pytest.mark.parametrize(("data", "method"), CASES)
def test_every_kind_of_model_leaves_the_same_files(
    request: pytest.FixtureRequest, plain: Plain, data: str, method: str
) -> None:
    inputs = inputs_of(request, data)
    out = plain(inputs, method)
    assert set(frame(out)["model"]) == {method}
    assert_selected(out, inputs.instances, "validation", json.loads(frame(out)["options"][0])["judged_by"])


@pytest.mark.parametrize(
    ("data", "method"),
    [pytest.param(*case, marks=[] if case in ONE_OF_EACH_FIT else pytest.mark.long) for case in CASES],
)
def test_a_second_run_leaves_the_same_bytes(
    tmp_path: Path, request: pytest.FixtureRequest, plain: Plain, data: str, method: str
) -> None:
    inputs = inputs_of(request, data)
    assert files_of(run(tmp_path, inputs, method).parent) == files_of(plain(inputs, method).parent)


def parts_of(out: Path) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """The weights of a job's first training, and the items and scores of its predictions."""
    weights = load_file(beside(out, "weights.safetensors"))
    predictions = frame(beside(out, "predictions.parquet"), "predictions")
    items, scores = (np.concatenate(predictions[name].to_list()) for name in ("items", "scores"))
    return {key.removeprefix("fold-1/seed-0/"): value for key, value in weights.items()}, items, scores


@pytest.mark.parametrize("method", ["Reg-NN", "Reg-l2", "Reg-Boost"])
def test_regressions_predict_years(faces: Inputs, plain: Plain, method: str) -> None:
    _, items, years = parts_of(plain(faces, method))
    assert faces.images is not None
    ages = read_faces(faces.images).ages.astype(np.float64)
    assert abs(years.mean() - ages[items].mean()) < 15
    assert years.std() < 40


def test_coefficients_of_a_linear_model_give_its_scores(faces: Inputs, plain: Plain) -> None:
    assert faces.images is not None
    pixels, ages = read_pixels(faces.images), read_faces(faces.images).ages
    for method in ("Rank-LR", "Reg-l1", "Reg-l2"):
        kept, items, scores = parts_of(plain(faces, method))
        scaled = pixels[items].reshape(len(items), 3, -1) / 255 - kept["scale.mean"][:, None]
        features = (scaled / kept["scale.deviation"][:, None]).reshape(len(items), -1)
        expected = features @ kept["network.weight"] + kept["network.bias"]
        if method != "Rank-LR":
            expected = expected * kept["target.deviation"] + kept["target.mean"]
            assert abs(float(kept["target.mean"]) - ages.mean()) < 15
        np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", ["Rank-LR", "Reg-l2", "Reg-Boost"])
def test_a_method_learns_from_moved_pictures_and_is_tested_on_them(tmp_path: Path, faces: Inputs, method: str) -> None:
    assert faces.images is not None
    moving = {"settings": {**FACES[method].get("settings", {}), "shift": 0.2}}
    out = run(tmp_path / "moved", faces, method, **moving)
    assert json.loads(frame(out)["options"][0])["shift"] == 0.2
    pixels = torch.from_numpy(read_pixels(faces.images))
    moves = drawn_shifts(len(pixels), 20, study=frame(out)["study"][0], dataset="synthetic-aaf")
    rows = pa.array([row.tobytes() for row in moved(pixels, moves, 100).numpy()], pa.binary(30_000))
    table = read_table(faces.images, "images")
    table = table.set_column(table.column_names.index("pixels"), "pixels", rows)
    write_table(table, tmp_path / "images.parquet", "images", metadata=read_metadata(faces.images, "images"))
    by_hand = run(tmp_path / "by hand", replace(faces, images=tmp_path / "images.parquet"), method)
    for contract, name in (("predictions", "none.predictions.parquet"), ("runs", "none.parquet")):
        one, other = (frame(folder / name, contract).drop("options") for folder in (out.parent, by_hand.parent))
        assert one.equals(other, null_equal=True)


def seeing(method: str, methods: dict[str, dict[str, Any]], count: int) -> dict[str, Any]:
    return {"settings": {**methods[method].get("settings", {}), "features": count}}


@pytest.mark.parametrize(
    ("data", "method"),
    [
        pytest.param(*case, marks=[] if case in ONE_OF_EACH_FIT else pytest.mark.long)
        for case in CASES
        if case[1] != "RankCNN"
    ],
)
def test_a_method_that_sees_every_feature_is_the_plain_one(
    tmp_path: Path, request: pytest.FixtureRequest, plain: Plain, data: str, method: str
) -> None:
    inputs, methods = inputs_of(request, data), WEB if data == "web" else FACES
    every = N_FEATURES if data == "web" else 30_000
    whole = plain(inputs, method)
    counted = run(tmp_path, inputs, method, **seeing(method, methods, every))
    for contract, path in (("runs", counted), ("epochs", beside(counted, "epochs.parquet"))):
        other = frame(whole.with_name(path.name), contract).drop("options")
        assert frame(path, contract).drop("options").equals(other, null_equal=True)
    kept, without = (load_file(beside(out, "weights.safetensors")) for out in (counted, whole))
    assert kept.pop("fold-1/seed-0/features.columns").tolist() == list(range(every))
    assert {name: each.tobytes() for name, each in kept.items()} == {n: each.tobytes() for n, each in without.items()}


def test_methods_see_the_same_columns_and_no_others(tmp_path: Path, faces: Inputs) -> None:
    assert faces.images is not None
    pixels = read_pixels(faces.images)
    parts = {}
    for method in ("Rank-LR", "Reg-l2", "Reg-Boost"):
        out = run(tmp_path / method, faces, method, **seeing(method, FACES, 40))
        parts[method] = parts_of(out)
        assert json.loads(frame(out)["options"][0])["features"] == 40
    of, *others = (kept["features.columns"].tolist() for kept, *_ in parts.values())
    assert others == [of, of]
    # The coefficients of those pixels, scaled by their channels, give the scores.
    kept, items, scores = parts["Rank-LR"]
    channel = np.array(of) // 10_000
    scaled = (pixels[items][:, of] / 255 - kept["scale.mean"][channel]) / kept["scale.deviation"][channel]
    expected = scaled @ kept["network.weight"] + kept["network.bias"]
    np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-3)


def job(**changes: Any) -> TrainingJob:
    given = options("RankNet", "mq2008-label1", **{**WEB["RankNet"], **changes})
    return TrainingJob.parse(json.dumps(given))


def test_batches_hold_lists_pairs_or_items(web: Inputs) -> None:
    data = StudyData.read(web, torch.device("cpu"))
    parts = data.fold(1, merge_validation=False)
    whole = parts.training
    settings = [{"batches": "lists"}, {"batches": "items"}, {"batches": "pairs"}, {"batches": "pairs", "pairs": 7}]
    found = [examples_of(job(settings=one), data, parts, 1, 0) for one in settings]
    assert [callable(one) for one in found] == [False, False, False, True]
    lists, items, pairs, drawn = cast(Any, found)
    assert lists.lists.sizes.tolist() == whole.lists.sizes.tolist()
    assert items.lists.sizes.tolist() == [1] * len(whole.items)
    assert len(pairs.lists) == sum(2 * (size - 2) for size in whole.lists.sizes.tolist()), "2 relevant items in each"
    first, second = drawn(), drawn()
    assert len(first.lists) == len(second.lists) == 7
    assert first.items.tolist() != second.items.tolist(), "every epoch draws its own"


def test_an_item_is_scored_once_however_many_lists_it_is_in(faces: Inputs) -> None:
    data = StudyData.read(faces, torch.device("cpu"))
    part = data.part(data.instances.split(1, "train"))
    assert data.features is not None
    seen = []

    class Sum(torch.nn.Module):
        def forward(self, features: torch.Tensor) -> torch.Tensor:
            seen.append(len(features))
            return features.to(torch.float64).sum(1)

    scores = score_distinct(data.features)(Sum(), part)
    assert sum(seen) == len(part.items.unique()) < len(part.items)
    assert torch.equal(scores, data.features[part.items].to(torch.float64).sum(1))


def test_values_have_mean_0_and_deviation_1_in_training() -> None:
    values = torch.tensor([3.0, 20.0, 41.0, 78.0])
    scale = ValueScale.of(values)
    scaled = scale.scaled(values)
    assert float(scaled.mean()) == pytest.approx(0, abs=1e-6)
    assert float(scaled.std(correction=0)) == pytest.approx(1)
    torch.testing.assert_close(scale.restored(scaled), values)
    assert ValueScale.of(torch.tensor([5.0, 5.0])).deviation == 1


@pytest.mark.parametrize(("changes", "message"), PROBLEMS["methods"])
def test_what_cannot_be_is_said(
    tmp_path: Path, web: Inputs, told: Callable[..., str], changes: Any, message: str
) -> None:
    given = options("RankNet", "mq2008-label1", **{**WEB["RankNet"], **changes})
    assert message in told(*of_job(tmp_path / "none.parquet", given, web), status=2)
    assert not (tmp_path / "none.parquet").exists()


def test_comparisons_are_collected_beside_other_jobs(tmp_path: Path, web: Inputs, plain: Plain) -> None:
    """Their epochs have other metrics: NaN stands where one was not measured."""
    model = {"dataset": "mq2008-label1", "nsr": None, "model": {"name": "mlp", "hidden": [3]}, "bounding": "none"}
    thesis = bounded(**model, protocol="honest", folds=[1], learning_rate=0.01, epochs=2, batch_size=4)
    other = tmp_path / "thesis.parquet"
    assert cli.main(of_job(other, thesis, web)) == 0
    files = [other, plain(web, "RankNet"), plain(web, "LambdaMART")]
    collect(files, *(tmp_path / f"{name}.parquet" for name in ("all", "epochs", "rates")))
    runs, epochs = frame(tmp_path / "all.parquet"), frame(tmp_path / "epochs.parquet", "epochs")
    assert set(runs["study"]) == {"thesis", "neural"}
    assert epochs.filter(study="thesis")["PairAccuracy"].is_nan().all()
    assert not epochs.filter(study="neural")["PairAccuracy"].is_nan().any()
    assert len(load_file(beside(files[1], "weights.safetensors"))["fold-1/seed-0/scale.shift"]) == N_FEATURES
