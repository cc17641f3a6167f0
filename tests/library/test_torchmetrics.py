"""Metrics in the form of torchmetrics: means, batches, ties and errors."""

import copy
import pickle
import warnings
from datetime import timedelta
from itertools import product
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rankbound as rb
from tests.library.process_groups import run_forks

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
        "AP",
        dist_sync_fn=lambda here, group: [here, there if here.is_floating_point() and len(here) else here],
        distributed_available_fn=lambda: True,
    )
    assert float(whole_lists(gathered, items(), 3).compute()) == pytest.approx(float(expected))
    one.merge_state(other)
    assert float(one.compute()) == pytest.approx(float(expected))


WAYS = ("indexes", "offsets")
METRICS = ("nDCG", "nDCG@2", "skip"), ("AP", "AP", "skip"), ("AP or 0", "AP", "zero")
RANKS: dict[str, tuple[Any, Any]] = {
    "no lists": ([0, 1, 2, 3, 4, 5], []),
    "no lists in the first": ([], [0, 1, 2, 3, 4, 5]),
    "no lists anywhere": ([], []),
    "fewer lists": ([0, 1, 2, 3, 5], [4]),
}
TYPES = (torch.float32, torch.int64, torch.int64), (torch.float16, torch.bool, torch.int32)


def updated(metric: Any, way: str, rank: int, lists: list[int]) -> Any:
    """Update a metric with some lists of `items`, in the types of a process."""
    scores, target, indexes = items()
    for number in lists:
        own = indexes == number
        batch = [part[own].to(dtype) for part, dtype in zip((scores.half(), target, indexes), TYPES[rank], strict=True)]
        if way == "indexes":
            metric.update(*batch)
        else:
            metric.update(*batch[:2], offsets=torch.tensor([0, int(own.sum())]))
    return metric


def computed_by_a_process(folder: Path) -> None:
    warnings.simplefilter("ignore")  # of torchmetrics, of a process without lists
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    rank = torch.distributed.get_rank()
    found = {}
    for (name, ranks), way in product(RANKS.items(), WAYS):
        metrics = MetricCollection({name: RankingMetric(text, undefined=policy) for name, text, policy in METRICS})
        found[name, way] = updated(metrics, way, rank, ranks[rank]).compute()
        assert all(sum(map(len, metric.values + metric.preds)) <= 60 for metric in metrics.values())
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_processes_without_lists_or_with_other_types(tmp_path: Path) -> None:
    run_forks(2, computed_by_a_process, tmp_path)
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    scores, target, indexes = items()
    for key in product(RANKS, WAYS):
        lists = [*RANKS[key[0]][0], *RANKS[key[0]][1]]
        for name, text, policy in METRICS:
            alone = RankingMetric(text, undefined=policy)
            alone.update(scores.half(), target, indexes)
            expected = float(alone.compute()) if lists else nan
            for process in found:
                assert float(process[key][name]) == pytest.approx(expected, nan_ok=True), (key, name)


def test_metrics_in_a_list_are_named_by_their_texts() -> None:
    texts = ["nDCG@10", "AP", "RBP(p=0.8)", "nRBP"]
    metrics = MetricCollection([*map(RankingMetric, texts), RankingMetric("AP", undefined="zero")])
    names = ["nDCG@10", "AP", "RBP(p=0_8)", "nRBP", "AP, undefined=zero"]
    assert sorted(metrics.keys()) == sorted(names)
    metrics.update(*items())
    values = metrics.compute()
    for text, name in zip(texts, names, strict=False):
        assert float(values[name]) == of(RankingMetric(text), items())
    with pytest.raises(ValueError, match="two metrics both named AP"):
        MetricCollection([RankingMetric("AP"), RankingMetric("AP(rel=1)")])


class Own(RankingMetric):
    def __init__(self) -> None:
        super().__init__("AP")


@pytest.mark.parametrize("make", [lambda: RankingMetric("RBP(p=0.8)", undefined="zero"), Own])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric)), Own.clone])
def test_copies_keep_lists_and_type(make: Any, copied: Any) -> None:
    metric = make()
    metric.update(*items())
    other = copied(metric)
    assert type(other) is type(metric)
    assert isinstance(other, RankingMetric)
    assert repr(other) == repr(metric)
    assert float(other.compute()) == float(metric.compute())
    other.merge_state(metric)
    other.update(*items())
    assert len(other.per_list()[0]) == 6


def test_metrics_of_a_collection_that_agree_on_the_first_lists_differ_on_later_ones() -> None:
    """Collections take metrics with equal states after the first batch for one."""
    texts = ["nDCG", "AP", "RR", "nDCG@10"]
    metrics, alone = MetricCollection([*map(RankingMetric, texts)]), [*map(RankingMetric, texts)]
    for scores, target in (([2.0, 1.0], [1, 0]), ([3.0, 2.0, 1.0, 0.0], [0, 1, 0, 1])):
        batch = torch.tensor(scores), torch.tensor(target)
        offsets = torch.tensor([0, len(target)])
        metrics.update(*batch, offsets=offsets)
        for metric in alone:
            metric.update(*batch, offsets=offsets)
    assert metrics.compute() == {text: metric.compute() for text, metric in zip(texts, alone, strict=True)}


def test_items_are_kept_once_for_all_metrics_of_a_collection() -> None:
    metrics = MetricCollection([RankingMetric("nDCG"), RankingMetric("AP")])
    metrics.update(*items())
    assert metrics.compute_groups == {0: ["nDCG", "AP"]}


@pytest.mark.parametrize("policy", ["skip", "zero"])
def test_no_lists_have_no_mean(policy: str) -> None:
    with pytest.warns(UserWarning, match="metric AP.* was called before the ``update`` method"):
        assert RankingMetric("AP", undefined=policy).compute().isnan()
    assert [len(part) for part in RankingMetric("AP").per_list()] == [0, 0]
    empty = torch.zeros(0)
    for keywords in ({"indexes": empty.to(torch.int64)}, {"offsets": torch.tensor([0])}):
        metric = RankingMetric("AP", undefined=policy)
        metric.update(empty, empty, **keywords)
        assert metric.compute().isnan()
        metric.update(torch.rand(2), torch.tensor([1, 0]), torch.tensor([0, 0]))  # an empty batch is of either form
        assert not metric.compute().isnan()


@pytest.mark.parametrize(
    "change",
    [
        lambda metric: metric.set_dtype(torch.float16),
        lambda metric: metric.half(),
        lambda metric: metric.to(torch.bfloat16),
        lambda metric: metric.to("cpu"),
        lambda metric: torch.nn.ModuleList([metric]).to(torch.float16),
    ],
)
def test_types_of_a_module_leave_scores_and_numbers_as_they_are(change: Any) -> None:
    """In half precision, 2049 is 2048, and 1.0001 is 1."""
    batch = torch.tensor([1.0, 1.0001, 1.0001, 1.0]), torch.tensor([0, 1, 1, 0]), torch.tensor([2048, 2048, 2049, 2049])
    metric = RankingMetric("AP")
    metric.update(*batch)
    change(metric)
    assert [part.tolist() for part in metric.per_list()] == [[1, 1], [2048, 2049]]


def in_forward() -> None:
    metric, scores, target = RankingMetric("AP"), torch.rand(2), torch.tensor([1, 0])
    metric(scores, target, torch.tensor([0, 0]))
    metric(scores, target, offsets=torch.tensor([0, 2]))
    metric.compute()


def in_merged() -> None:
    one, other = RankingMetric("AP"), whole_lists(RankingMetric("AP"), items(), 3)
    one.update(*items())
    one.merge_state(other)
    one.compute()


def of_another_metric() -> None:
    whole_lists(RankingMetric("AP"), items(), 3).merge_state(whole_lists(RankingMetric("nDCG"), items(), 3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (in_forward, "found 1 lists with offsets and 2 items with indexes since the last reset"),
        (in_merged, "found 6 lists with offsets and 60 items with indexes since the last reset"),
        (of_another_metric, "Expected incoming state to be an instance of AP but got .*nDCG"),
    ],
)
def test_states_that_do_not_fit_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


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
        ({"indexes": torch.zeros(2, dtype=torch.complex64)}, "indexes: found torch.complex64, expected integers"),
        ({"indexes": [0, 0]}, "indexes: found list, expected a tensor"),
        ({"preds": np.zeros(2)}, "preds: found ndarray, expected a tensor"),
        ({"target": [1, 0]}, "target: found list, expected a tensor"),
        ({"preds": torch.tensor([2**53 + 1, 2**53])}, "preds: found integers beyond 2.53, .* would become equal"),
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
