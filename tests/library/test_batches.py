"""Padded tensors and DataLoaders: what goes in flat comes out padded, and back."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

import rankbound as rb
from rankbound.lists import Topic

SIZES = st.lists(st.integers(0, 7), min_size=1, max_size=8)


def random_mask(sizes: list[int], seed: int, prefix: bool) -> Tensor:
    longest = max(sizes) + 2
    mask = torch.arange(longest) < torch.tensor(sizes)[:, None]
    if prefix:
        return mask
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([row[torch.randperm(longest, generator=generator)] for row in mask])


@given(SIZES, st.integers(0, 100), st.booleans(), st.sampled_from([(), (3,)]))
def test_items_keep_their_list_and_order(sizes: list[int], seed: int, prefix: bool, more: tuple[int, ...]) -> None:
    mask = random_mask(sizes, seed, prefix)
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
        assert scores.grad is not None
        assert scores.grad[~mask].eq(0).all()
        slopes.append(scores.grad[mask])
    assert slopes[0].abs().min() > 0
    assert torch.equal(slopes[0], slopes[1])
    assert torch.equal(slopes[0], slopes[2])


@pytest.mark.parametrize(
    ("values", "keywords", "message"),
    [
        (torch.zeros(4), {"mask": torch.ones(4).bool()}, r"found shape \(4,\), expected \(n_lists, longest\)"),
        (torch.zeros(2, 3), {}, "expected either mask or lengths"),
        (torch.zeros(2, 3), {"mask": torch.ones(2, 3)}, "mask: found torch.float32 of shape"),
        (torch.zeros(2, 3), {"mask": torch.ones(2, 4).bool()}, r"expected torch.bool of shape \(2, 3\)"),
        (torch.zeros(2, 3), {"lengths": torch.tensor([1, 4])}, "lengths: found 4, expected numbers from 0 to 3"),
        (torch.zeros(2, 3), {"lengths": torch.tensor([-1, 2])}, "lengths: found -1"),
        (torch.zeros(2, 3), {"lengths": torch.tensor([1, 1, 1])}, "lengths: found 3 of torch.int64, expected 2"),
    ],
)
def test_wrong_padding_is_named(values: Tensor, keywords: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.from_padded(values, **keywords)


def judged() -> rb.JudgedLists:
    generator = np.random.default_rng(0)
    sizes = [3, 0, 5, 1, 4]
    return rb.JudgedLists(
        topics=[f"q{place}" for place in range(len(sizes))],
        items=[f"d{place}" for place in range(sum(sizes))],
        relevance=generator.integers(0, 3, sum(sizes)),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        features=generator.normal(size=(sum(sizes), 2)).astype(np.float32),
        feature_names=["one", "other"],
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_judged_lists_are_a_dataset_of_topics(workers: int) -> None:
    lists = judged()
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


def test_collate_takes_pairs_and_refuses_uneven_ones() -> None:
    batch = rb.collate([(torch.zeros(2, 3), torch.tensor([1, 0])), (torch.ones(1, 3), torch.tensor([2]))])
    assert batch.offsets.tolist() == [0, 2, 3]
    assert batch.names == ["0", "1"]
    with pytest.raises(ValueError, match="topic 1 of the batch: found 1 rows of features, 2 labels"):
        rb.collate([Topic(torch.zeros(2, 3), torch.zeros(2), "a"), Topic(torch.zeros(1, 3), torch.zeros(2), "b")])
