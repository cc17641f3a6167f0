"""Methods that see some of the features, or pictures that are moved: which, the same for all methods, and how."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from study_files import write_instances
from test_method_job import options

from rankbound.errors import ConfigError
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.reader import read_instances
from rankbound_study.jobs import examples
from rankbound_study.jobs.examples import (
    FeatureColumns,
    drawn_columns,
    drawn_shifts,
    moved,
    narrowed,
    reach_of,
    shifted,
)
from rankbound_study.jobs.models import PixelScale, input_scale
from rankbound_study.jobs.parts import StudyData

KEY: dict[str, Any] = {"study": "neural", "dataset": "mq2008-label1", "fold": 1, "seed": 0}


def job(method: str = "RankNet", **settings: Any) -> TrainingJob:
    given = options(method, KEY["dataset"], model={"name": "linear"}, loss="RankNet", settings=settings)
    return TrainingJob.parse(json.dumps(given))


@pytest.fixture
def data(tmp_path: Path) -> StudyData:
    """Features that say where they stand: row and column."""
    instances = read_instances(write_instances(tmp_path / "i.parquet", nsr=None))
    features = torch.arange(instances.item_count)[:, None] * 100.0 + torch.arange(46)
    return StudyData(instances, features, torch.device("cpu"))


@given(width=st.integers(1, 300), data=st.data(), fold=st.integers(1, 5), seed=st.integers(0, 3))
def test_the_columns_of_a_smaller_count_are_among_those_of_a_larger_one(
    width: int, data: st.DataObject, fold: int, seed: int
) -> None:
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
    moves = drawn_shifts(50, 20, **FACES)
    assert torch.equal(drawn_shifts(50, 20, **FACES), moves)
    assert torch.equal(drawn_shifts(30, 20, **FACES), moves[:30]), "a face's own, however many there are"
    for change in ({"study": "other"}, {"dataset": "synthetic-aaf"}):
        assert not torch.equal(drawn_shifts(50, 20, **{**FACES, **change}), moves)


def test_every_method_sees_the_same_columns(data: StudyData) -> None:
    one, columns = narrowed(job("RankNet-of-7", features=7, learning_rate=1), data, 1, 0)
    other, _ = narrowed(job("LambdaMART-of-7", features=7), data, 1, 0)
    assert torch.equal(one.features, other.features)  # type: ignore[arg-type]
    assert torch.equal(one.features, data.features[:, columns.indices])  # type: ignore[arg-type, index, union-attr]
    every, columns = narrowed(job(features=46), data, 1, 0)
    assert every.features is data.features, "without a copy"
    assert columns is not None
    assert columns.indices.tolist() == list(range(46))
    assert narrowed(job(), data, 1, 0) == (data, None)


@pytest.mark.parametrize("count", [0, 47])
def test_a_count_beyond_the_features_is_told(data: StudyData, count: int) -> None:
    with pytest.raises(ConfigError, match=f"RankNet: it requires {count} features, but mq2008-label1 has 46; .* to 46"):
        narrowed(job(features=count), data, 1, 0)


# Pixels


def pixels() -> torch.Tensor:
    """Twelve places of each channel, the later channels the brighter."""
    random = torch.Generator().manual_seed(0)
    low = torch.tensor([0, 80, 160]).repeat_interleave(12)
    return (low + torch.randint(0, 90, (30, 36), generator=random)).to(torch.uint8)


def narrowed_pixels(data: StudyData, count: int) -> tuple[torch.Tensor, FeatureColumns]:
    found, columns = narrowed(job(features=count), StudyData(data.instances, pixels(), data.device), 1, 0)
    assert found.features is not None
    assert columns is not None
    return found.features, columns


@pytest.mark.parametrize("count", [1, 2, 5, 20, 36])
def test_pixels_are_scaled_by_the_channel_that_they_are_of(data: StudyData, count: int) -> None:
    seen, columns = narrowed_pixels(data, count)
    assert seen.dtype == torch.uint8, "no copy in single precision"
    rows = torch.arange(20)
    scaled = input_scale("standard", seen, rows, columns.channels)(seen)
    for channel in range(3):
        own = columns.indices // 12 == channel
        if own.any():
            known = seen[rows][:, own].to(torch.float64) / 255
            wanted = (seen[:, own].to(torch.float64) / 255 - known.mean()) / known.std(correction=0)
            np.testing.assert_allclose(scaled[:, own].numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
    plain = input_scale("none", seen, rows, columns.channels)(seen)
    assert torch.equal(plain, seen.to(torch.float32) / 255)


def test_all_pixels_are_scaled_as_without_a_count(data: StudyData) -> None:
    seen, columns = narrowed_pixels(data, 36)
    assert columns.channels == (12, 12, 12)
    one, other = PixelScale.of_pixels(seen, widths=columns.channels), PixelScale.of_pixels(pixels())
    assert one.state_dict().keys() == other.state_dict().keys()
    assert torch.equal(one(seen), other(pixels()))
    # Rows that lack a pixel of one channel: the others' numbers, bit by bit.
    numbers = (0.1, 0.4, 0.7), (0.2, 0.1, 0.3)
    assert torch.equal(PixelScale(*numbers, (11, 12, 12))(pixels()[:, 1:]), PixelScale(*numbers)(pixels())[:, 1:])


# Pictures that are moved at random: within bounds, each its own way, edges repeated

SIDE = 10
FACES: dict[str, Any] = {"study": "neural", "dataset": "aaf"}


@pytest.fixture
def faces(data: StudyData) -> StudyData:
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
    before, moves = pictures(7), drawn_shifts(7, 2, **FACES)
    assert torch.equal(moved(before, torch.zeros_like(moves), SIDE), before)
    whole = moved(before, moves, SIDE)
    monkeypatch.setattr(examples, "CHUNK", 3)
    assert torch.equal(moved(before, moves, SIDE), whole)
    moves = drawn_shifts(2000, 20, **FACES)
    assert (moves.min(0).values.tolist(), moves.max(0).values.tolist()) == ([-20, -20], [20, 20])
    assert moves.to(torch.float64).mean(0).abs().max() < 1.5
    assert len(moves.unique(dim=0)) > 1000
    assert not torch.equal(moves[:, 0], moves[:, 1])


def test_every_method_sees_the_same_moved_faces(faces: StudyData) -> None:
    one = shifted(job("RankNet-shifted", shift=0.2, learning_rate=1), faces)
    other = shifted(job("RankCNN-shifted", shift=0.2), faces)
    moves = drawn_shifts(faces.instances.item_count, 2, study="neural", dataset="mq2008-label1")
    assert one.features is not None
    assert torch.equal(one.features, moved(faces.features, moves, SIDE))  # type: ignore[arg-type]
    assert torch.equal(one.features, other.features)  # type: ignore[arg-type]
    assert (one.instances, one.values) == (faces.instances, faces.values)
    assert shifted(job(), faces) is faces
    assert [reach_of(*of) for of in ((0.2, 100), (0.29, 100), (0.2, 10), (0.05, 10))] == [20, 29, 2, 0], "rounded down"


@pytest.mark.parametrize("features", [torch.zeros(5, 300), torch.zeros(5, 46, dtype=torch.uint8), None])
def test_what_is_no_picture_is_not_moved(faces: StudyData, features: torch.Tensor | None) -> None:
    with pytest.raises(ConfigError, match="RankNet: shift moves pictures, but the features of mq2008-label1 are not"):
        shifted(job(shift=0.2), replace(faces, features=features))
