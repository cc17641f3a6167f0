"""The flat layout: what is refused, and per-list arithmetic on ragged batches with empty lists."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from rankbound.lists import ArrayLike, Lists, as_tensor, require_finite

# An empty list first, in the middle and last.
OFFSETS = torch.tensor([0, 0, 3, 3, 4, 6, 6])
VALUES = torch.tensor([1.0, -2.0, 4.0, 8.0, 16.0, 32.0])


@pytest.fixture
def lists() -> Lists:
    return Lists.checked(OFFSETS, 6)


@pytest.mark.parametrize(
    ("offsets", "found"),
    [
        ([], "found none"),
        ([0, 3], "found 0 .. 3, expected 0 .. 6"),
        ([1, 6], "found 1 .. 6, expected 0 .. 6"),
        ([0, 7], "found 0 .. 7, expected 0 .. 6"),
        ([0, 4, 2, 6], r"entry 2 \(2\) is below entry 1 \(4\)"),
        ([0.0, 6.0], "float"),
        ([[0, 6]], r"found shape \(1, 2\)"),
        (0, r"found shape \(\)"),
    ],
)
def test_offsets_that_do_not_fit_are_refused_by_name(offsets: object, found: str) -> None:
    with pytest.raises(ValueError, match=f"^offsets: .*{found}"):
        Lists.checked(torch.tensor(offsets, dtype=None if offsets else torch.int64), 6)


@pytest.mark.parametrize(
    ("offsets", "hint"),
    [
        ([4, 2], r"; these are sizes of lists: pass rankbound\.Lists\.of_sizes\(sizes\)\.offsets$"),
        ([0, 0, 0, 0, 1, 1], "; there is one per item: pass the index of each list's first item"),
        ([0, 3], r"\(the number of items\)$"),
    ],
)
def test_sizes_and_the_lists_of_items_are_told_from_offsets(offsets: list[int], hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        Lists.checked(offsets, 6)


@pytest.mark.parametrize("make", [list, np.array, torch.tensor])
def test_lists_of_sizes(make: Callable[[list[int]], ArrayLike]) -> None:
    assert Lists.of_sizes(make([2, 0, 4])).offsets.tolist() == [0, 2, 2, 6]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.int16])
def test_offsets_may_be_any_integers(dtype: type) -> None:
    assert Lists.checked(np.array([0, 2, 6], dtype=dtype), 6).sizes.tolist() == [2, 4]


def test_a_batch_may_be_empty() -> None:
    nothing = Lists.checked(torch.tensor([0]), 0)
    assert len(nothing) == 0
    assert nothing.n_items == 0
    assert nothing.segment.shape == (0,)
    assert nothing.sum(torch.zeros(0)).shape == (0,)


def test_segments_and_positions_name_each_items_place(lists: Lists) -> None:
    assert len(lists) == 6
    assert lists.sizes.tolist() == [0, 3, 0, 1, 2, 0]
    assert lists.segment.tolist() == [1, 1, 1, 3, 4, 4]
    assert lists.position.tolist() == [0, 1, 2, 0, 0, 1]


def test_sums_and_extremes_per_list(lists: Lists) -> None:
    infinity = float("inf")
    assert lists.sum(VALUES).tolist() == [0, 3, 0, 8, 48, 0]
    assert lists.max(VALUES).tolist() == [-infinity, 4, -infinity, 8, 32, -infinity]
    assert lists.min(VALUES).tolist() == [infinity, -2, infinity, 8, 16, infinity]


def test_integers_and_booleans_are_counted_in_float64(lists: Lists) -> None:
    counted = lists.sum(VALUES > 0)
    assert counted.dtype == torch.float64
    assert counted.tolist() == [0, 2, 0, 1, 2, 0]
    assert lists.max(torch.tensor([3, 1, 2, 5, 7, 6])).tolist()[1] == 3


def test_running_sums_start_anew_in_each_list(lists: Lists) -> None:
    assert lists.running_sum(VALUES).tolist() == [1, -1, 3, 8, 16, 48]


def test_keeping_items_keeps_every_list(lists: Lists) -> None:
    kept = lists.keep(torch.tensor([True, False, True, False, False, True]))
    assert kept.offsets.tolist() == [0, 0, 2, 2, 2, 3, 3]


def test_slices_of_each_list(lists: Lists) -> None:
    assert [VALUES[part].tolist() for part in lists.each()] == [[], [1, -2, 4], [], [8], [16, 32], []]


def test_arrays_share_their_memory() -> None:
    array = np.array([1.0, 2.0])
    tensor = as_tensor(array, "scores")
    array[0] = 5
    assert tensor.tolist() == [5, 2]


def test_read_only_arrays_such_as_arrows_pass_without_a_warning() -> None:
    array = np.array([1.0, 2.0])
    array.flags.writeable = False
    assert as_tensor(array, "scores").tolist() == [1, 2]


def test_shapes_and_counts_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"^relevance: found shape \(2, 2\)"):
        as_tensor(torch.zeros(2, 2), "relevance")
    with pytest.raises(ValueError, match=r"^relevance: found 2 values, expected 3"):
        as_tensor(torch.zeros(2), "relevance", 3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite_are_named_with_their_place(bad: float) -> None:
    with pytest.raises(ValueError, match=f"^scores: found {bad} at item 2"):
        require_finite(torch.tensor([1.0, 2.0, bad, bad]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64, torch.bool])
def test_running_sums_depend_on_their_list_alone(dtype: torch.dtype) -> None:
    """Differences of the batch's totals held the rounding errors of the lists before, and their NaN."""
    generator = torch.Generator().manual_seed(0)
    sizes = [0, 1, 7, 130, 2, 0, 33]
    values = (torch.randn(sum(sizes), generator=generator, dtype=torch.float64) * 3).to(dtype)
    if dtype.is_floating_point:
        values[:3] = torch.tensor([1e30, torch.nan, torch.inf])
    lists = Lists.of_sizes(torch.tensor(sizes))
    together = lists.running_sum(values)
    for place in lists.each():
        alone = Lists(torch.tensor([0, place.stop - place.start])).running_sum(values[place])
        torch.testing.assert_close(together[place], alone, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(alone, values[place].cumsum(0), equal_nan=True)


def test_running_sums_have_gradients() -> None:
    values = torch.randn(9, dtype=torch.float64, requires_grad=True)
    lists = Lists(torch.tensor([0, 4, 4, 9]))
    assert torch.autograd.gradcheck(lists.running_sum, values)


def test_extremes_of_differentiable_lists_share_the_gradient() -> None:
    lists = Lists(torch.tensor([0, 3, 3, 5]))
    values = torch.tensor([1.0, 4.0, 4.0, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
    assert lists.max(values).tolist() == [4.0, -math.inf, 2.0]
    assert lists.min(values).tolist() == [1.0, math.inf, 0.0]
    (slope,) = torch.autograd.grad((lists.max(values)[[0, 2]] ** 2).sum(), values)
    assert slope.tolist() == [0.0, 4.0, 4.0, 4.0, 0.0]
    assert torch.autograd.gradgradcheck(lambda x: lists.sum(x**3), values)
