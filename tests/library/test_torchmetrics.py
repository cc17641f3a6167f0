"""Metrics in the form of torchmetrics: means, batches, ties and errors."""

from typing import Any

import pytest
import torch
from torch import Tensor

import rankbound as rb

pytest.importorskip("torchmetrics", reason="the extra torchmetrics is not installed")

from torchmetrics import MetricCollection
from torchmetrics.retrieval import RetrievalMAP, RetrievalMRR, RetrievalNormalizedDCG

from rankbound.interop.torchmetrics import RankingMetric


def items(highest: int = 1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores without ties, relevance and list numbers of items in no order; list 5 has no relevant item."""
    generator = torch.Generator().manual_seed(seed)
    indexes = torch.randint(0, 6, (60,), generator=generator)
    target = torch.randint(0, highest + 1, (60,), generator=generator) * (indexes != 5)
    return torch.randn(60, generator=generator), target, indexes


def of(metric: Any, *batches: Any) -> float:
    """Return the metric of batches of scores, relevance and list numbers."""
    for batch in batches:
        metric.update(*batch)
    return float(metric.compute())


@pytest.mark.parametrize(
    ("text", "theirs", "highest"),
    [("AP", RetrievalMAP(), 1), ("RR", RetrievalMRR(), 1), ("nDCG(gain=linear)@4", RetrievalNormalizedDCG(top_k=4), 3)],
)
def test_means_are_theirs(text: str, theirs: Any, highest: int) -> None:
    """With 0 for lists without relevant items, and scores above 0: theirs ignores relevant items of other scores."""
    scores, target, indexes = items(highest)
    batch = (scores.exp(), target, indexes)
    assert of(RankingMetric(text, undefined="zero"), batch) == pytest.approx(of(theirs, batch), rel=1e-5)


def test_lists_arrive_in_pieces_of_any_shape() -> None:
    whole = items(2)
    pieces = [
        tuple(part.reshape(-1, 5) for part in piece) for piece in zip(*(one.split(20) for one in whole), strict=True)
    ]
    assert of(RankingMetric("nDCG"), *pieces) == of(RankingMetric("nDCG"), whole)


def test_the_order_of_tied_items_changes_nothing() -> None:
    scores, target, indexes = items(2)
    tied = scores.round()
    flipped = tuple(one.flip(0) for one in (tied, target, indexes))
    assert of(RankingMetric("nDCG@3"), flipped) == pytest.approx(of(RankingMetric("nDCG@3"), (tied, target, indexes)))


def whole_lists(metric: Any, batch: tuple[Tensor, Tensor, Tensor], cut: int) -> Any:
    """Add the lists of items that are numbered, in two batches of whole lists."""
    scores, target, indexes = batch
    for chosen in (indexes < cut, indexes >= cut):
        order = torch.argsort(indexes[chosen], stable=True)
        sizes = torch.unique(indexes[chosen], return_counts=True)[1]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
        metric.update(scores[chosen][order], target[chosen][order], offsets=offsets)
    return metric


@pytest.mark.parametrize("policy", ["skip", "zero"])
def test_whole_lists_with_offsets_have_the_values_of_their_items(policy: str) -> None:
    by_number, whole = RankingMetric("nDCG@3", undefined=policy), RankingMetric("nDCG@3", undefined=policy)
    by_number.update(*items(2))
    whole_lists(whole, items(2), 2)
    torch.testing.assert_close(whole.per_list()[0], by_number.per_list()[0], equal_nan=True)
    assert whole.per_list()[1].tolist() == [0, 1, 2, 3, 4, 5]
    assert float(whole.compute()) == pytest.approx(float(by_number.compute()))


def test_whole_lists_of_several_processes_stay_apart() -> None:
    """As no numbers are given, lists of two processes can't be taken for one."""
    one, other = whole_lists(RankingMetric("AP"), items(), 3), whole_lists(RankingMetric("AP"), items(seed=1), 3)
    expected = torch.cat([one.per_list()[0], other.per_list()[0]]).nanmean()
    there = torch.cat(other.values)
    gathered = RankingMetric(
        "AP", dist_sync_fn=lambda here, group: [here, there], distributed_available_fn=lambda: True
    )
    assert float(whole_lists(gathered, items(), 3).compute()) == pytest.approx(float(expected))
    one.merge_state(other)
    assert float(one.compute()) == pytest.approx(float(expected))


def test_collections_pass_offsets() -> None:
    metrics = whole_lists(MetricCollection({"nDCG": RankingMetric("nDCG"), "AP": RankingMetric("AP")}), items(), 3)
    assert float(metrics.compute()["AP"]) == pytest.approx(of(RankingMetric("AP"), items()))


def test_values_of_every_list() -> None:
    scores, target, indexes = items()
    metric = RankingMetric("AP")
    metric.update(scores, target, indexes + 10)
    values, numbers = metric.per_list()
    assert numbers.tolist() == [10, 11, 12, 13, 14, 15]
    for number, value in zip(range(5), values, strict=False):
        own = indexes == number
        alone = rb.metric("AP")(scores[own], target[own], torch.tensor([0, int(own.sum())]))
        assert float(value) == pytest.approx(float(alone[0]))
    assert values[5].isnan()
    assert float(metric.compute()) == pytest.approx(float(values[:5].mean()))


def test_processes_are_merged() -> None:
    whole = items(2)
    one, other = RankingMetric("nDCG"), RankingMetric("nDCG")
    one.update(*(part[:25] for part in whole))
    other.update(*(part[25:] for part in whole))
    one.merge_state(other)
    assert float(one.compute()) == pytest.approx(of(RankingMetric("nDCG"), whole))


def test_collections_reset_and_direction() -> None:
    metrics = MetricCollection({"nDCG": RankingMetric("nDCG"), "AP": RankingMetric("AP")})
    batch = items()
    first = metrics(*batch)
    assert first["AP"] == of(RankingMetric("AP"), batch)
    metrics.reset()
    assert metrics["AP"].indexes == []
    assert metrics["AP"].higher_is_better
    assert not RankingMetric("nRBP").higher_is_better
    assert repr(RankingMetric("nDCG@10")) == "RankingMetric(nDCG@10, undefined=skip)"


def test_gradients_are_not_kept() -> None:
    scores, target, indexes = items()
    metric = RankingMetric("AP")
    metric.update(scores.requires_grad_(), target, indexes)
    assert not metric.preds[0].requires_grad


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": torch.ones(3)}, r"found the shapes \(2,\), \(3,\), \(2,\), expected the same shape"),
        ({"indexes": torch.zeros(2)}, "indexes: found torch.float32, expected integers"),
        ({"indexes": None}, "expected either indexes, of items in any order, or offsets"),
        ({"offsets": torch.tensor([0, 2])}, "expected either indexes"),
        (
            {"indexes": None, "offsets": torch.tensor([0, 2]), "target": torch.ones(3)},
            r"preds, target: found the shapes \(2,\), \(3,\)",
        ),
        ({"indexes": None, "offsets": torch.tensor([0, 3])}, "offsets: found 0 .. 3, expected 0 .. 2"),
    ],
)
def test_updates_are_checked(change: dict[str, Tensor], message: str) -> None:
    batch = {"preds": torch.rand(2), "target": torch.tensor([1, 0]), "indexes": torch.tensor([0, 0])} | change
    with pytest.raises(ValueError, match=message):
        RankingMetric("AP").update(**batch)


def test_offsets_and_indexes_are_not_mixed() -> None:
    scores, target = torch.rand(2), torch.tensor([1, 0])
    metric = RankingMetric("AP")
    metric.update(scores, target, offsets=torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="found both indexes and offsets since the last reset"):
        metric.update(scores, target, torch.tensor([0, 0]))
    metric.reset()
    metric.update(scores, target, torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="found both indexes and offsets"):
        metric.update(scores, target, offsets=torch.tensor([0, 2]))


def test_parameters_are_checked() -> None:
    with pytest.raises(ValueError, match="Did you mean AP"):
        RankingMetric("MAP")
    with pytest.raises(ValueError, match="undefined: found error, expected one of skip, zero"):
        RankingMetric("AP", undefined="error")
