"""The flat layout: what is refused, and per-list arithmetic on ragged batches with empty lists.

Padded tensors and DataLoaders: what goes in flat comes out padded, and back. Relevance between 0 and 1, which losses
and metrics of binary relevance count none of: they say so.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

import rankbound as rb
from rankbound.lists import Lists, Topic, as_tensor, require_finite
from rankbound.ranks import Ranks, descending_order, hard_ranks, tie_blocks
from tests.library.planted_ratings import lists_of
from tests.library.refusals import refusals

# An empty list first, in the middle and last.
OFFSETS = torch.tensor([0, 0, 3, 3, 4, 6, 6])
VALUES = torch.tensor([1.0, -2.0, 4.0, 8.0, 16.0, 32.0])


test_offsets_that_do_not_fit_are_refused_by_name = refusals(
    [
        ([], "found none"),
        ([0, 3], r"found 0 .. 3, expected 0 .. 6 \(the number of items\)$"),
        ([1, 6], "found 1 .. 6, expected 0 .. 6"),
        ([0, 7], "found 0 .. 7, expected 0 .. 6"),
        ([0, 4, 2, 6], r"entry 2 \(2\) is below entry 1 \(4\)"),
        ([0.0, 6.0], "float"),
        ([[0, 6]], r"found shape \(1, 2\)"),
        (0, r"found shape \(\)"),
        ([4, 2], r"; these are sizes of lists: pass rankbound\.Lists\.of_sizes\(sizes\)\.offsets$"),
        ([0, 0, 0, 0, 1, 1], "; there is one per item: pass the index of each list's first item"),
    ],
    lambda offsets: Lists.checked(torch.tensor(offsets, dtype=None if offsets else torch.int64), 6),
)


def test_offsets_and_sizes_may_be_any_integers_and_none() -> None:
    for dtype in (np.int32, np.int64, np.uint32, np.int16):
        assert Lists.checked(np.array([0, 2, 6], dtype=dtype), 6).sizes.tolist() == [2, 4]
    for sizes in ([2, 0, 4], np.array([2, 0, 4]), torch.tensor([2, 0, 4])):
        assert Lists.of_sizes(sizes).offsets.tolist() == [0, 2, 2, 6]
    nothing = Lists.checked(torch.tensor([0]), 0)
    assert (len(nothing), nothing.n_items) == (0, 0)
    assert nothing.segment.shape == nothing.sum(torch.zeros(0)).shape == (0,)


def test_each_list_has_its_items_sums_and_extremes() -> None:
    lists = Lists.checked(OFFSETS, 6)
    infinity = float("inf")
    assert len(lists) == 6
    assert lists.sizes.tolist() == [0, 3, 0, 1, 2, 0]
    assert lists.segment.tolist() == [1, 1, 1, 3, 4, 4]
    assert lists.position.tolist() == [0, 1, 2, 0, 0, 1]
    assert lists.sum(VALUES).tolist() == [0, 3, 0, 8, 48, 0]
    assert lists.max(VALUES).tolist() == [-infinity, 4, -infinity, 8, 32, -infinity]
    assert lists.min(VALUES).tolist() == [infinity, -2, infinity, 8, 16, infinity]
    assert lists.running_sum(VALUES).tolist() == [1, -1, 3, 8, 16, 48]
    assert [VALUES[part].tolist() for part in lists.each()] == [[], [1, -2, 4], [], [8], [16, 32], []]
    counted = lists.sum(VALUES > 0)
    assert counted.dtype == torch.float64
    assert counted.tolist() == [0, 2, 0, 1, 2, 0]
    assert lists.max(torch.tensor([3, 1, 2, 5, 7, 6])).tolist()[1] == 3
    # Items that tie for an extreme share its gradient.
    tied, three = torch.tensor([1.0, 4.0, 4.0, 2.0, 0.0], requires_grad=True), Lists(torch.tensor([0, 3, 3, 5]))
    (slope,) = torch.autograd.grad((three.max(tied)[[0, 2]] ** 2).sum(), tied)
    assert slope.tolist() == [0.0, 4.0, 4.0, 4.0, 0.0]
    kept = lists.keep(torch.tensor([True, False, True, False, False, True]))
    assert kept.offsets.tolist() == [0, 0, 2, 2, 2, 3, 3]


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


# Hard ranks: tie blocks and permutations
@given(st.lists(st.lists(st.sampled_from([-3.0, -0.0, 0.0, 1.0, 2.0]), max_size=7), min_size=1, max_size=5))
def test_blocks_agree_with_counting(rows: list[list[float]]) -> None:
    """A block's first rank is one more than the items above it; its size is the number of items level with it."""
    lists = Lists.of_sizes([len(row) for row in rows])
    scores = torch.tensor([score for row in rows for score in row], dtype=torch.float64)
    blocks = tie_blocks(scores, lists)
    found = list(zip(blocks.first[blocks.block].tolist(), blocks.size[blocks.block].tolist(), strict=True))
    assert found == [
        (1 + sum(other > score for other in row), row.count(score)) for row in rows for score in sorted(row)[::-1]
    ]
    assert scores[blocks.order].tolist() == [score for row in rows for score in sorted(row)[::-1]]
    assert blocks.lists.sizes.tolist() == [len(set(row)) for row in rows]
    assert blocks.has_ties == any(len(set(row)) < len(row) for row in rows)


def test_ranks_and_their_blocks() -> None:
    blocks = tie_blocks(torch.tensor([1.0, 3.0, 1.0, 2.0, 5.0, 5.0, 0.0]), Lists(torch.tensor([0, 4, 4, 6, 7])))
    relevant = blocks.sum(torch.tensor([1, 0, 1, 1, 0, 1, 1]))
    assert relevant.tolist() == [0, 1, 2, 1, 1]
    assert blocks.before(relevant).tolist() == [0, 0, 1, 0, 0]
    for dtype in (torch.float32, torch.float64, torch.int64):
        order = descending_order(torch.tensor([1, 2, 1, 0, 0], dtype=dtype), Lists(torch.tensor([0, 3, 5])))
        assert order.tolist() == [1, 0, 2, 3, 4]
    order = torch.tensor([2, 0, 1, 4, 3])
    ranks = hard_ranks(order, Lists(torch.tensor([0, 3, 5])), (torch.tensor([True, False, True, True, True]),))
    assert ranks.position.tolist() == [2, 3, 1, 2, 1]
    assert [above.tolist() for above in ranks.above] == [[1, 2, 0, 1, 0]]
    position, sizes = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3])
    assert Ranks(position, sizes).within(None) == 1.0
    hard, smooth = Ranks(position, sizes).within(2), Ranks(position, sizes, temperature=0.5).within(2)
    torch.testing.assert_close(hard, torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(smooth, torch.sigmoid(torch.tensor([3.0, 1.0, -1.0])))


# Padded tensors, and batches of topics

SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=8)


@given(SIZES, st.integers(0, 100), st.booleans(), st.sampled_from([(), (3,)]))
def test_items_keep_their_list_and_order(sizes: list[int], seed: int, prefix: bool, more: tuple[int, ...]) -> None:
    longest, generator = max(sizes) + 2, torch.Generator().manual_seed(seed)
    mask = torch.arange(longest) < torch.tensor(sizes)[:, None]
    if not prefix:
        mask = torch.stack([row[torch.randperm(longest, generator=generator)] for row in mask])
    values = torch.arange(mask.numel() * int(np.prod(more)), dtype=torch.float32).reshape(*mask.shape, *more)
    flat, offsets = rb.from_padded(values, mask)
    assert offsets.tolist() == np.concatenate([[0], np.cumsum(sizes)]).tolist()
    for row, own, start, stop in zip(values, mask, offsets[:-1], offsets[1:], strict=True):
        assert torch.equal(flat[start:stop], row[own])
    padded = rb.to_padded(flat, offsets, fill=-1)
    assert padded.shape == (len(sizes), max(sizes), *more)
    again, same = rb.from_padded(padded, lengths=torch.tensor(sizes))
    assert torch.equal(again, flat)
    assert torch.equal(same, offsets)
    assert (padded < 0).sum() == (len(sizes) * max(sizes) - sum(sizes)) * int(np.prod(more))


def test_gradients_reach_the_items_alone_whatever_the_padding() -> None:
    mask = torch.tensor([[True, True, False], [True, False, True]])
    relevance = torch.tensor([[1, 0, 7], [0, 7, 2]])
    slopes = []
    for padding in (0.0, -1e9, float("nan")):
        scores = torch.tensor([[0.5, 0.1, padding], [0.3, padding, 0.9]], requires_grad=True)
        flat, offsets = rb.from_padded(scores, mask)
        rb.loss("nDCG")(flat, rb.from_padded(relevance, mask)[0], offsets, reduction="mean").backward()
        assert scores.grad[~mask].eq(0).all()
        slopes.append(scores.grad[mask])
    assert slopes[0].abs().min() > 0
    assert torch.equal(slopes[0], slopes[1])
    assert torch.equal(slopes[0], slopes[2])


def padded(values: Tensor, **keywords: Any) -> Callable[[], Any]:
    return lambda: rb.from_padded(values, **keywords)


TWO = [Topic(torch.zeros(2, 3), torch.zeros(2), "a"), Topic(torch.zeros(1, 3), torch.zeros(2), "b")]
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (padded(torch.zeros(4), mask=torch.ones(4).bool()), r"found shape \(4,\), expected \(n_lists, longest\)"),
    (padded(torch.zeros(2, 3)), "expected either mask or lengths"),
    (padded(torch.zeros(2, 3), mask=torch.ones(2, 3)), "mask: found torch.float32 of shape"),
    (padded(torch.zeros(2, 3), mask=torch.ones(2, 4).bool()), r"expected torch.bool of shape \(2, 3\)"),
    (padded(torch.zeros(2, 3), lengths=torch.tensor([1, 4])), "lengths: found 4, expected numbers from 0 to 3"),
    (padded(torch.zeros(2, 3), lengths=torch.tensor([-1, 2])), "lengths: found -1"),
    (padded(torch.zeros(2, 3), lengths=torch.tensor([1, 1, 1])), "lengths: found 3 of torch.int64, expected 2"),
    (lambda: as_tensor(torch.zeros(2, 2), "relevance"), r"^relevance: found shape \(2, 2\), expected"),
    (lambda: as_tensor(torch.zeros(2), "relevance", 3), "^relevance: found 2 values, expected"),
    (lambda: require_finite(torch.tensor([1.0, 2.0, torch.nan, torch.inf])), "^scores: found nan at item 2"),
    (lambda: require_finite(torch.tensor([1.0, -torch.inf, torch.nan])), "^scores: found -inf at item 1"),
    (lambda: rb.collate(TWO), "topic 1 of the batch: found 1 rows of features, 2 labels"),
]


test_other_forms_are_refused_by_name = refusals(REFUSED)


@pytest.mark.parametrize("workers", [0, 1])
def test_judged_lists_are_a_dataset_of_topics_which_are_collated_as_pairs_are(workers: int) -> None:
    generator = np.random.default_rng(0)
    sizes = [3, 0, 5, 1, 4]
    relevance = generator.integers(0, 3, sum(sizes))
    lists = lists_of(sizes, relevance, generator.normal(size=(sum(sizes), 2)), ["one", "other"])
    assert len(lists) == 5
    assert [topic.name for topic in lists] == list(lists.topics)
    assert torch.equal(lists[-1].features, torch.from_numpy(lists.features[-4:]))
    with pytest.raises(IndexError):
        lists[5]
    loader = DataLoader(lists, batch_size=2, collate_fn=rb.collate, num_workers=workers)
    batches = list(loader)
    assert [batch.names for batch in batches] == [["q0", "q1"], ["q2", "q3"], ["q4"]]
    assert [batch.offsets.tolist() for batch in batches] == [[0, 3, 3], [0, 5, 6], [0, 4]]
    assert torch.equal(torch.cat([batch.relevance for batch in batches]), torch.from_numpy(lists.relevance))
    assert torch.equal(torch.cat([batch.features for batch in batches]), torch.from_numpy(lists.features))
    batch = rb.collate([(torch.zeros(2, 3), torch.tensor([1, 0])), (torch.ones(1, 3), torch.tensor([2]))])
    assert (batch.offsets.tolist(), batch.names) == ([0, 2, 3], ["0", "1"])


SHARED_SCORES, LIMITS = torch.tensor([0.3, 0.1, 0.2, 0.9]), [0, 3, 4]
SHARES = [0.2, 0.7, 0.0, 0.4]
OF_GAINS = ("nDCG(gain=linear)", "DCG(gain=linear)", "nDCG")


@pytest.mark.parametrize("text", ["AP", "RR", "nRBP", "P@2", "RBP(p=0.8)", "AP, min-max", "multinomial"])
@pytest.mark.usefixtures("each_way")
def test_what_is_of_binary_relevance_warns_of_fractions(text: str) -> None:
    name, _, bound = text.partition(", ")
    calls = [rb.loss(name, bound or "none"), *([rb.metric(name)] if name != "multinomial" and not bound else [])]
    for call in calls:
        with pytest.warns(UserWarning, match="relevance: found numbers below 1 alone.*finds no relevant item in any"):
            values = call(SHARED_SCORES, SHARES, LIMITS)
        assert not values.nan_to_num().any()


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("each_way")
def test_others_do_not_warn() -> None:
    """Lists without anything relevant, some grade of 1 beside fractions, and no two grades, are common."""
    for texts, relevance in (
        ((*OF_GAINS, "softmax", "ListNet", "RankNet", "LambdaRank"), SHARES),
        (("AP", "softmax"), [0.0, 0.0, 0.0, 0.0]),
        (("AP", "nRBP"), [0.2, 1.0, 0.0, 0.4]),
        (("RankNet", "LambdaRank", "hinge"), [0.5, 0.5, 0.5, 0.4]),
    ):
        for text in texts:
            rb.loss(text)(SHARED_SCORES, relevance, LIMITS)
            if text in (*OF_GAINS, "AP", "nRBP"):
                rb.metric(text)(SHARED_SCORES, relevance, LIMITS)
