"""Another share of the training ratings validates: nothing is lost, nothing moves into the test, shares are nested."""

from pathlib import Path

import numpy as np
import pytest
from test_tested_lists import pairs, ratings

from rankbound.errors import ConfigError, DataError
from rankbound_study.data.reader import FoldedLists, read_instances
from rankbound_study.jobs.parts import with_validation_share


@pytest.fixture
def own(tmp_path: Path) -> FoldedLists:
    return read_instances(ratings(tmp_path, 2))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_both_parts_hold_the_same_items_as_before_cut_at_the_share(own: FoldedLists, share: float) -> None:
    found = with_validation_share(own, share)
    for fold in own.folds:
        train, validation = (pairs(found, found.split(fold, name)) for name in ("train", "validation"))
        before = [pairs(own, own.split(fold, name)) for name in ("train", "validation")]
        assert train | validation == before[0] | before[1]
        assert not train & validation
        assert found.split(fold, "test") is own.split(fold, "test")
        parts = [found.split(fold, name) for name in ("train", "validation")]
        every = sum(part.positives for part in parts)
        assert (parts[1].positives == np.maximum(1, [round(share * count) for count in every.tolist()])).all()
        assert all(
            (np.diff(part.items[start:stop]) > 0).all() for part in parts for start, stop in _lists(part.offsets)
        )


def _lists(offsets: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True))


def test_the_smaller_share_is_part_of_the_larger(own: FoldedLists) -> None:
    small, large = (with_validation_share(own, share) for share in (0.1, 0.3))
    for fold in own.folds:
        assert pairs(small, small.split(fold, "validation")) < pairs(large, large.split(fold, "validation"))


def test_a_share_that_leaves_nothing_to_train_on_is_refused(own: FoldedLists) -> None:
    with pytest.raises(DataError, match="validation_share: user 0 has 12 items of one kind to train on"):
        with_validation_share(own, 0.99)


def test_judged_lists_have_a_validation_part_of_their_own(own: FoldedLists) -> None:
    from dataclasses import replace

    with pytest.raises(ConfigError, match="not a data set of ratings"):
        with_validation_share(replace(own, nsr=None), 0.2)
