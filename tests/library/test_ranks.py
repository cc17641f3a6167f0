"""Hard ranks: tie blocks and permutations of ragged lists."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from rankbound.lists import Lists
from rankbound.ranks import Ranks, descending_order, hard_ranks, tie_blocks


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


def test_blocks_have_sums() -> None:
    blocks = tie_blocks(torch.tensor([1.0, 3.0, 1.0, 2.0, 5.0, 5.0, 0.0]), Lists(torch.tensor([0, 4, 4, 6, 7])))
    relevant = blocks.sum(torch.tensor([1, 0, 1, 1, 0, 1, 1]))
    assert relevant.tolist() == [0, 1, 2, 1, 1]
    assert blocks.before(relevant).tolist() == [0, 0, 1, 0, 0]


def test_equal_values_keep_their_place() -> None:
    for dtype in (torch.float32, torch.float64, torch.int64):
        order = descending_order(torch.tensor([1, 2, 1, 0, 0], dtype=dtype), Lists(torch.tensor([0, 3, 5])))
        assert order.tolist() == [1, 0, 2, 3, 4]


def test_a_permutation_gives_every_item_a_rank_of_its_own() -> None:
    order = torch.tensor([2, 0, 1, 4, 3])
    ranks = hard_ranks(order, Lists(torch.tensor([0, 3, 5])), (torch.tensor([True, False, True, True, True]),))
    assert ranks.position.tolist() == [2, 3, 1, 2, 1]
    assert [above.tolist() for above in ranks.above] == [[1, 2, 0, 1, 0]]


def test_membership_of_the_first_ranks() -> None:
    position, sizes = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3])
    assert Ranks(position, sizes).within(None) == 1.0
    hard, smooth = Ranks(position, sizes).within(2), Ranks(position, sizes, temperature=0.5).within(2)
    torch.testing.assert_close(hard, torch.tensor([1.0, 1.0, 0.0]))
    torch.testing.assert_close(smooth, torch.sigmoid(torch.tensor([3.0, 1.0, -1.0])))
