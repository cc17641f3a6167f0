"""Jobs of comparisons: every kind of model on judged lists and on pictures, what they see, and what they leave."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file
from test_train_job import (
    N_FEATURES,
    OPTIONS,
    PROBLEMS,
    assert_selected,
    files_of,
    frame,
    words,
    write_instances,
    write_lists,
)
from test_train_job import options as bounded

from rankbound.errors import ConfigError
from rankbound_study import cli
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.contracts import beside, read_metadata, read_table, write_table
from rankbound_study.data.images import read_faces, read_pixels
from rankbound_study.data.reader import read_instances
from rankbound_study.jobs import models
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.models import (
    PixelScale,
    drawn_columns,
    drawn_shifts,
    examples_of,
    input_scale,
    moved,
    narrowed,
    score_distinct,
    shifted,
    value_examples,
)
from rankbound_study.jobs.parts import Inputs, StudyData

WEB, FACES = OPTIONS["web"], OPTIONS["faces"]


def options(method: str, dataset: str, **changes: Any) -> dict[str, Any]:
    own = {"dataset": dataset, "method": method, "judged_by": "PairAccuracy" if "aaf" in dataset else "nDCG@10"}
    return {**OPTIONS["method"], **own, **changes}


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
    return cache(lambda inputs, method: run(tmp_path_factory.mktemp("plain"), inputs, method))


CASES = [*(("web", method) for method in WEB), *(("faces", method) for method in FACES)]
ONE_OF_EACH_FIT = (("web", "RankNet"), ("web", "LambdaMART"), ("faces", "Reg-l2"))
MOSTLY_LONG = [pytest.param(*case, marks=[] if case in ONE_OF_EACH_FIT else pytest.mark.long) for case in CASES]


@pytest.mark.parametrize(("data", "method"), CASES)
def test_all_models_leave_the_same_files(request: pytest.FixtureRequest, plain: Plain, data: str, method: str) -> None:
    inputs = request.getfixturevalue(data)
    out = plain(inputs, method)
    assert set(frame(out)["model"]) == {method}
    assert_selected(out, inputs.instances, "validation", json.loads(frame(out)["options"][0])["judged_by"])


@pytest.mark.parametrize(("data", "method"), MOSTLY_LONG)
def test_reruns_are_alike(tmp_path: Path, request: pytest.FixtureRequest, plain: Plain, data: str, method: str) -> None:
    inputs = request.getfixturevalue(data)
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


@pytest.mark.parametrize("method", ["Rank-LR", "Reg-l2", pytest.param("Reg-Boost", marks=pytest.mark.long)])
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


@pytest.mark.parametrize(("data", "method"), [case for case in MOSTLY_LONG if "RankCNN" not in case.values])
def test_a_method_that_sees_every_feature_is_the_plain_one(
    tmp_path: Path, request: pytest.FixtureRequest, plain: Plain, data: str, method: str
) -> None:
    inputs, methods = request.getfixturevalue(data), WEB if data == "web" else FACES
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


def job(method: str = "RankNet", **changes: Any) -> TrainingJob:
    return TrainingJob.model_validate(options(method, "mq2008-label1", **{**WEB["RankNet"], **changes}))


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


def test_values_have_mean_0_and_deviation_1_in_training(faces: Inputs) -> None:
    data, given = StudyData.read(faces, torch.device("cpu")), job(target="value")
    part, (mean, deviation) = value_examples(given, data, 1)
    assert float(part.relevance.mean()) == pytest.approx(0, abs=1e-6)
    assert float(part.relevance.std(correction=0)) == pytest.approx(1)
    torch.testing.assert_close(part.relevance * deviation + mean, data.values[part.items])  # type: ignore[index]
    equal = replace(data, values=torch.full_like(data.values, 5))  # type: ignore[arg-type]
    assert value_examples(given, equal, 1)[1] == (5, 1)


@pytest.mark.parametrize(("changes", "message"), PROBLEMS["methods"])
def test_problems_are_said(tmp_path: Path, web: Inputs, told: Callable[..., str], changes: Any, message: str) -> None:
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


# Methods that see some of the features, or pictures that are moved: which, the same for all methods, and how

KEY: dict[str, Any] = {"study": "neural", "dataset": "mq2008-label1", "fold": 1, "seed": 0}


def of_settings(method: str = "RankNet", **settings: Any) -> TrainingJob:
    return job(method=method, settings=settings)


@pytest.fixture
def data(tmp_path: Path) -> StudyData:
    """Features that say where they stand: row and column."""
    instances = read_instances(write_instances(tmp_path / "i.parquet", nsr=None))
    features = torch.arange(instances.item_count)[:, None] * 100.0 + torch.arange(46)
    return StudyData(instances, features, torch.device("cpu"))


@given(width=st.integers(1, 300), data=st.data(), fold=st.integers(1, 5), seed=st.integers(0, 3))
def test_fewer_columns_are_among_more_of_them(width: int, data: st.DataObject, fold: int, seed: int) -> None:
    fewer = data.draw(st.integers(1, width))
    more = data.draw(st.integers(fewer, width))
    key = {**KEY, "fold": fold, "seed": seed}
    one, other = (drawn_columns(count, width, **key).tolist() for count in (fewer, more))
    assert len(set(one)) == fewer
    assert set(one) <= set(other) <= set(range(width))
    assert one == sorted(one)
    assert drawn_columns(width, width, **key).tolist() == list(range(width))


def test_columns_and_moves_differ_between_their_keys_alone() -> None:
    first = drawn_columns(10, 1000, **KEY).tolist()
    assert drawn_columns(10, 1000, **KEY).tolist() == first
    for change in ({"fold": 2}, {"seed": 1}, {"dataset": "aaf"}, {"study": "other"}):
        assert drawn_columns(10, 1000, **{**KEY, **change}).tolist() != first
    drawn = torch.cat([drawn_columns(5, 20, **{**KEY, "seed": seed}) for seed in range(400)])
    assert (torch.bincount(drawn, minlength=20) - 100).abs().max() < 45, "every column about as often"
    moves = drawn_shifts(50, 20, **DRAWN_FACES)
    assert torch.equal(drawn_shifts(50, 20, **DRAWN_FACES), moves)
    assert torch.equal(drawn_shifts(30, 20, **DRAWN_FACES), moves[:30]), "a face's own, however many there are"
    for change in ({"study": "other"}, {"dataset": "synthetic-aaf"}):
        assert not torch.equal(drawn_shifts(50, 20, **{**DRAWN_FACES, **change}), moves)


def test_every_method_sees_the_same_columns_scaled_as_all_are(data: StudyData) -> None:
    one, columns = narrowed(of_settings("RankNet-of-7", features=7, learning_rate=1), data, 1, 0)
    other, _ = narrowed(of_settings("LambdaMART-of-7", features=7), data, 1, 0)
    assert torch.equal(one.features, other.features)  # type: ignore[arg-type]
    assert torch.equal(one.features, data.features[:, columns])  # type: ignore[arg-type, index]
    every, columns = narrowed(of_settings(features=46), data, 1, 0)
    assert every.features is data.features, "without a copy"
    assert columns is not None
    assert columns.tolist() == list(range(46))
    assert narrowed(of_settings(), data, 1, 0) == (data, None)
    seen, _, channels = narrowed_pixels(data, 36)
    one, other = PixelScale.of_pixels(seen, widths=channels), PixelScale.of_pixels(pixels())
    assert one.state_dict().keys() == other.state_dict().keys()
    assert torch.equal(one(seen), other(pixels()))
    # Rows that lack a pixel of one channel: the others' numbers, bit by bit.
    numbers = (0.1, 0.4, 0.7), (0.2, 0.1, 0.3)
    assert torch.equal(PixelScale(*numbers, (11, 12, 12))(pixels()[:, 1:]), PixelScale(*numbers)(pixels())[:, 1:])


@pytest.mark.parametrize("count", [0, 47])
def test_a_count_beyond_the_features_is_told(data: StudyData, count: int) -> None:
    with pytest.raises(ConfigError, match=f"RankNet: it requires {count} features, but mq2008-label1 has 46; .* to 46"):
        narrowed(of_settings(features=count), data, 1, 0)


# Pixels


def pixels() -> torch.Tensor:
    """Twelve places of each channel, the later channels the brighter."""
    random = torch.Generator().manual_seed(0)
    low = torch.tensor([0, 80, 160]).repeat_interleave(12)
    return (low + torch.randint(0, 90, (30, 36), generator=random)).to(torch.uint8)


def narrowed_pixels(data: StudyData, count: int) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """The pixels that a job with so many reads, their places, and their number by channel."""
    found, columns = narrowed(of_settings(features=count), replace(data, features=pixels()), 1, 0)
    return cast(torch.Tensor, found.features), cast(torch.Tensor, columns), found.channels


@pytest.mark.parametrize("count", [1, 2, 5, 20, 36])
def test_pixels_are_scaled_by_the_channel_that_they_are_of(data: StudyData, count: int) -> None:
    seen, columns, channels = narrowed_pixels(data, count)
    assert seen.dtype == torch.uint8, "no copy in single precision"
    rows = torch.arange(20)
    scaled = input_scale("standard", seen, rows, channels)(seen)
    for channel in range(3):
        own = columns // 12 == channel
        if own.any():
            known = seen[rows][:, own].to(torch.float64) / 255
            wanted = (seen[:, own].to(torch.float64) / 255 - known.mean()) / known.std(correction=0)
            np.testing.assert_allclose(scaled[:, own].numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    plain = input_scale("none", seen, rows, channels)(seen)
    assert torch.equal(plain, seen.to(torch.float32) / 255)


# Pictures that are moved at random: within bounds, each its own way, edges repeated

SIDE = 10
DRAWN_FACES: dict[str, Any] = {"study": "neural", "dataset": "aaf"}


@pytest.fixture
def pictured(data: StudyData) -> StudyData:
    return replace(data, features=pictures(data.instances.item_count))


def pictures(count: int, side: int = SIDE) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3 * side * side), generator=random).to(torch.uint8)


def padded_and_cut(picture: torch.Tensor, down: int, right: int, side: int) -> np.ndarray:
    """The same by hand: a wide border of the edge, and the window that looks the other way."""
    wide = np.pad(picture.reshape(3, side, side).numpy(), ((0, 0), (side, side), (side, side)), mode="edge")
    return wide[:, side - down : 2 * side - down, side - right : 2 * side - right].reshape(-1)


@given(side=st.integers(1, 7), seed=st.integers(0, 5), count=st.integers(1, 9), data=st.data())
def test_a_move_shows_the_picture_beside_its_place(side: int, seed: int, count: int, data: st.DataObject) -> None:
    reach = data.draw(st.integers(0, side))
    moves = drawn_shifts(count, reach, study="neural", dataset=str(seed))
    before = pictures(count, side)
    after = moved(before, moves, side)
    for picture, (down, right), found in zip(before, moves.tolist(), after, strict=True):
        np.testing.assert_array_equal(found.numpy(), padded_and_cut(picture, down, right, side))
    assert after.dtype == torch.uint8


def test_moves_fill_their_bounds_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, moves = pictures(7), drawn_shifts(7, 2, **DRAWN_FACES)
    assert torch.equal(moved(before, torch.zeros_like(moves), SIDE), before)
    whole = moved(before, moves, SIDE)
    monkeypatch.setattr(models, "SHIFTED_TOGETHER", 3)
    assert torch.equal(moved(before, moves, SIDE), whole)
    moves = drawn_shifts(2000, 20, **DRAWN_FACES)
    assert (moves.min(0).values.tolist(), moves.max(0).values.tolist()) == ([-20, -20], [20, 20])
    assert moves.to(torch.float64).mean(0).abs().max() < 1.5
    assert len(moves.unique(dim=0)) > 1000
    assert not torch.equal(moves[:, 0], moves[:, 1])


def test_every_method_sees_the_same_moved_faces(pictured: StudyData) -> None:
    one = shifted(of_settings("RankNet-shifted", shift=0.2, learning_rate=1), pictured)
    other = shifted(of_settings("RankCNN-shifted", shift=0.2), pictured)
    moves = drawn_shifts(pictured.instances.item_count, 2, study="neural", dataset="mq2008-label1")
    assert one.features is not None
    assert torch.equal(one.features, moved(pictured.features, moves, SIDE))  # type: ignore[arg-type]
    assert torch.equal(one.features, other.features)  # type: ignore[arg-type]
    assert (one.instances, one.values) == (pictured.instances, pictured.values)
    assert shifted(of_settings(), pictured) is pictured
    for share, reach in ((0.2, 20), (0.29, 29), (0.005, 0)):
        large = replace(pictured, features=pictures(30, 100))
        moves = drawn_shifts(30, reach, study="neural", dataset="mq2008-label1")
        assert torch.equal(shifted(of_settings(shift=share), large).features, moved(large.features, moves, 100))  # type: ignore[arg-type]


@pytest.mark.parametrize("features", [torch.zeros(5, 300), torch.zeros(5, 46, dtype=torch.uint8), None])
def test_what_is_no_picture_is_not_moved(pictured: StudyData, features: torch.Tensor | None) -> None:
    with pytest.raises(ConfigError, match="RankNet: shift moves pictures, but the features of mq2008-label1 are not"):
        shifted(of_settings(shift=0.2), replace(pictured, features=features))
