"""Hard ranks: tie blocks and permutations of ragged lists."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from rankbound.lists import Lists
from rankbound.ranks import Ranks, descending_order, hard_ranks, tie_blocks

SCORES = torch.tensor([1.0, 3.0, 1.0, 2.0, 5.0, 5.0, 0.0])
LISTS = Lists(torch.tensor([0, 4, 4, 6, 7]))


def test_blocks_hold_first_rank_size_and_sums() -> None:
    blocks = tie_blocks(SCORES, LISTS)
    assert blocks.order.tolist() == [1, 3, 0, 2, 4, 5, 6]
    assert blocks.block.tolist() == [0, 1, 2, 2, 3, 3, 4]
    assert blocks.first.tolist() == [1, 2, 3, 1, 1]
    assert blocks.size.tolist() == [1, 1, 2, 2, 1]
    assert blocks.lists.offsets.tolist() == [0, 3, 3, 4, 5]
    relevant = blocks.sum(torch.tensor([1, 0, 1, 1, 0, 1, 1]))
    assert relevant.tolist() == [0, 1, 2, 1, 1]
    assert blocks.before(relevant).tolist() == [0, 0, 1, 0, 0]
    assert blocks.has_ties


def test_equal_scores_of_neighbouring_lists_are_no_tie() -> None:
    blocks = tie_blocks(torch.zeros(3), Lists(torch.tensor([0, 1, 2, 3])))
    assert blocks.first.tolist() == [1, 1, 1]
    assert not blocks.has_ties


def test_both_zeros_tie() -> None:
    assert tie_blocks(torch.tensor([-0.0, 0.0]), Lists(torch.tensor([0, 2]))).size.tolist() == [2]


def test_an_empty_batch_has_no_blocks() -> None:
    blocks = tie_blocks(torch.zeros(0), Lists(torch.tensor([0, 0])))
    assert blocks.first.shape == (0,)
    assert blocks.lists.offsets.tolist() == [0, 0]


@given(
    st.lists(st.lists(st.integers(-3, 3), max_size=7), min_size=1, max_size=5),
)
def test_blocks_agree_with_counting(rows: list[list[int]]) -> None:
    """A block's first rank is one more than the items above it; its size is the number of items level with it."""
    lists = Lists(torch.tensor([0, *torch.tensor([len(row) for row in rows]).cumsum(0).tolist()]))
    scores = torch.tensor([score for row in rows for score in row], dtype=torch.float64)
    blocks = tie_blocks(scores, lists)
    found = list(zip(blocks.first[blocks.block].tolist(), blocks.size[blocks.block].tolist(), strict=True))
    expected = [
        (1 + sum(other > score for other in row), row.count(score)) for row in rows for score in sorted(row)[::-1]
    ]
    assert found == expected


def test_equal_values_keep_their_place() -> None:
    assert descending_order(torch.tensor([1.0, 2.0, 1.0, 0.0, 0.0]), Lists(torch.tensor([0, 3, 5]))).tolist() == [
        1,
        0,
        2,
        3,
        4,
    ]


def test_a_permutation_gives_every_item_a_rank_of_its_own() -> None:
    order = torch.tensor([2, 0, 1, 4, 3])
    ranks = hard_ranks(order, Lists(torch.tensor([0, 3, 5])), (torch.tensor([True, False, True, True, True]),))
    assert ranks.position.tolist() == [2, 3, 1, 2, 1]
    assert [above.tolist() for above in ranks.above] == [[1, 2, 0, 1, 0]]


def test_membership_of_the_first_ranks() -> None:
    position, sizes = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3])
    assert Ranks(position, sizes).within(None) == 1.0
    hard, smooth = Ranks(position, sizes).within(2), Ranks(position, sizes, temperature=0.5).within(2)
    assert isinstance(hard, torch.Tensor)
    assert isinstance(smooth, torch.Tensor)
    assert hard.tolist() == [1, 1, 0]
    torch.testing.assert_close(smooth, torch.sigmoid(torch.tensor([3.0, 1.0, -1.0])))
