"""Pictures that are moved at random: within bounds, the same for all methods, each its own way, edges repeated."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from study_files import write_instances
from test_feature_columns import job

from rankbound.errors import ConfigError
from rankbound_study.data.reader import read_instances
from rankbound_study.jobs import examples
from rankbound_study.jobs.examples import drawn_shifts, moved, reach_of, shifted
from rankbound_study.jobs.parts import StudyData

SIDE = 10
KEY: dict[str, Any] = {"study": "neural", "dataset": "aaf"}


@pytest.fixture
def data(tmp_path: Path) -> StudyData:
    instances = read_instances(write_instances(tmp_path / "i.parquet", nsr=None))
    return StudyData(instances, pictures(instances.item_count), torch.device("cpu"))


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


def test_a_move_by_nothing_changes_nothing() -> None:
    before = pictures(4)
    assert torch.equal(moved(before, torch.zeros(4, 2, dtype=torch.int64), SIDE), before)


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, moves = pictures(7), drawn_shifts(7, 2, **KEY)
    whole = moved(before, moves, SIDE)
    monkeypatch.setattr(examples, "CHUNK", 3)
    assert torch.equal(moved(before, moves, SIDE), whole)


def test_moves_fill_their_bounds_and_differ_between_faces() -> None:
    moves = drawn_shifts(2000, 20, **KEY)
    assert (moves.min(0).values.tolist(), moves.max(0).values.tolist()) == ([-20, -20], [20, 20])
    assert moves.to(torch.float64).mean(0).abs().max() < 1.5
    assert len(moves.unique(dim=0)) > 1000
    assert not torch.equal(moves[:, 0], moves[:, 1])


def test_moves_depend_on_the_study_and_the_data_set_alone() -> None:
    first = drawn_shifts(50, 20, **KEY)
    assert torch.equal(drawn_shifts(50, 20, **KEY), first)
    assert torch.equal(drawn_shifts(30, 20, **KEY), first[:30]), "a face's own, however many there are"
    for change in ({"study": "other"}, {"dataset": "synthetic-aaf"}):
        assert not torch.equal(drawn_shifts(50, 20, **{**KEY, **change}), first)


@pytest.mark.parametrize(("share", "side", "reach"), [(0.2, 100, 20), (0.29, 100, 29), (0.2, 10, 2), (0.05, 10, 0)])
def test_the_share_is_rounded_down(share: float, side: int, reach: int) -> None:
    assert reach_of(share, side) == reach


def test_every_method_sees_the_same_moved_faces(data: StudyData) -> None:
    one = shifted(job("RankNet-shifted", shift=0.2, learning_rate=1), data)
    other = shifted(job("RankCNN-shifted", shift=0.2), data)
    assert one.features is not None
    assert other.features is not None
    assert data.features is not None
    assert torch.equal(one.features, other.features)
    moves = drawn_shifts(data.n_items, 2, study="neural", dataset="mq2008-label1")
    assert torch.equal(one.features, moved(data.features, moves, SIDE))
    assert (one.instances, one.values) == (data.instances, data.values)


def test_without_the_setting_faces_stay(data: StudyData) -> None:
    assert shifted(job(), data) is data


@pytest.mark.parametrize("features", [torch.zeros(5, 300), torch.zeros(5, 46, dtype=torch.uint8), None])
def test_what_is_no_picture_is_not_moved(data: StudyData, features: torch.Tensor | None) -> None:
    with pytest.raises(ConfigError, match="RankNet: shift moves pictures, but the features of mq2008-label1 are not"):
        shifted(job(shift=0.2), replace(data, features=features))
