"""Metrics in the form of torchmetrics: means, batches, ties and errors; `test_metric_peers` has their values."""

import copy
import multiprocessing
import os
import pickle
import socket
import warnings
from collections.abc import Callable
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

pytest.importorskip("torchmetrics", reason="the extra torchmetrics is not installed")

from torchmetrics import MetricCollection

from rankbound.interop.torchmetrics import RankingMetric
from tests.library.refusals import refusals


def items(highest: int = 1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores without ties, relevance and list numbers of items in no order; list 5 has no relevant item."""
    generator = torch.Generator().manual_seed(seed)
    indexes = torch.randint(0, 6, (60,), generator=generator)
    target = torch.randint(0, highest + 1, (60,), generator=generator) * (indexes != 5)
    return torch.randn(60, generator=generator), target, indexes


def updated_by(metric: Any, *batches: Any) -> Any:
    for batch in batches:
        metric.update(*batch)
    return metric


def of(metric: Any, batch: Any) -> float:
    return float(updated_by(metric, batch).compute())


def whole_lists(metric: Any, batch: tuple[Tensor, Tensor, Tensor], cut: int) -> Any:
    scores, target, indexes = batch
    for chosen in (indexes < cut, indexes >= cut):
        order = torch.argsort(indexes[chosen], stable=True)
        sizes = torch.unique(indexes[chosen], return_counts=True)[1]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
        metric.update(scores[chosen][order], target[chosen][order], offsets=offsets)
    return metric


Batch = tuple[Tensor, Tensor, Tensor]


def pieces(batch: Batch) -> Any:
    return ([part.reshape(-1, 5) for part in piece] for piece in zip(*(one.split(20) for one in batch), strict=True))


def merged(metric: Any, batch: Batch) -> Any:
    other = updated_by(metric.clone(), [part[25:] for part in batch])
    updated_by(metric, [part[:25] for part in batch]).merge_state(other)
    return metric


def whole_and_merged(metric: Any, batch: Batch) -> Any:
    """Lists of two processes stay apart, although both number theirs from 0."""
    parts = [tuple(part[own] for part in batch) for own in (batch[2] >= 4, batch[2] < 4)]
    other = whole_lists(metric.clone(), parts[1], 2)
    whole_lists(metric, parts[0], 5).merge_state(other)
    return metric


ARRIVALS: dict[str, Any] = {
    "at once": updated_by,
    "in pieces of any shape": lambda metric, batch: updated_by(metric, *pieces(batch)),
    "in another order": lambda metric, batch: updated_by(metric, [part.flip(0) for part in batch]),
    "in two processes": merged,
    "with gradients": lambda metric, batch: updated_by(metric, [batch[0].clone().requires_grad_(), *batch[1:]]),
    "as whole lists": lambda metric, batch: whole_lists(metric, batch, 2),
    "as whole lists in two processes": whole_and_merged,
    "in a collection": lambda metric, batch: whole_lists(MetricCollection({"a": metric}), batch, 3)["a"],
}


@pytest.mark.parametrize("policy", ["skip", "zero"])
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_lists_have_their_values_however_they_arrive(arrival: str, policy: str) -> None:
    scores, target, indexes = items(2)
    tied = scores.round()
    metric = ARRIVALS[arrival](RankingMetric("nDCG@3", undefined=policy), (tied, target, indexes))
    values, numbers = metric.per_list()
    own = [indexes == number for number in range(6)]
    alone = [rb.metric("nDCG@3")(tied[each], target[each], torch.tensor([0, int(each.sum())])) for each in own]
    torch.testing.assert_close(values, torch.cat(alone), equal_nan=True)
    assert values[5].isnan()
    assert numbers.tolist() == [0, 1, 2, 3, 4, 5]
    assert float(metric.compute()) == pytest.approx(float(values[:5].sum()) / (5 if policy == "skip" else 6))
    assert not any(part.requires_grad for part in metric.preds)


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
    scores, target, indexes = items()
    for own in (indexes == number for number in lists):
        batch = [part[own].to(dtype) for part, dtype in zip((scores.half(), target, indexes), TYPES[rank], strict=True)]
        offsets = {"offsets": torch.tensor([0, int(own.sum())])} if way == "offsets" else {}
        metric.update(*(batch[:2] if offsets else batch), **offsets)
    return metric


def computed_by_a_process(rank: int, port: int, folder: Path) -> None:
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "RANK": str(rank)}
    os.environ.update(group | {"GLOO_SOCKET_IFNAME": "lo"})
    warnings.simplefilter("ignore")  # of torchmetrics, of a process without lists
    torch.distributed.init_process_group("gloo", timeout=timedelta(seconds=60))
    found = {}
    for (name, ranks), way in product(RANKS.items(), WAYS):
        metrics = MetricCollection({name: RankingMetric(text, undefined=policy) for name, text, policy in METRICS})
        found[name, way] = updated(metrics, way, rank, ranks[rank]).compute()
        assert all(sum(map(len, metric.values + metric.preds)) <= 60 for metric in metrics.values())
    torch.save(found, folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()


def test_processes_without_lists_or_with_other_types(tmp_path: Path) -> None:
    """Forks have imported what this process has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=computed_by_a_process, args=(rank, port, tmp_path)) for rank in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
        for process in processes:
            process.start()
    for process in processes:
        process.join(120)
        process.kill()
    assert [process.exitcode for process in processes] == [0, 0]
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    scores, target, indexes = items()
    for key in product(RANKS, WAYS):
        lists = [*RANKS[key[0]][0], *RANKS[key[0]][1]]
        for name, text, policy in METRICS:
            alone = of(RankingMetric(text, undefined=policy), (scores.half(), target, indexes))
            expected = alone if lists else nan
            for process in found:
                assert float(process[key][name]) == pytest.approx(expected, nan_ok=True), (key, name)


def test_metrics_in_a_list_are_named_by_their_texts() -> None:
    texts = ["nDCG@10", "AP", "RBP(p=0.8)", "nRBP"]
    metrics = MetricCollection([*map(RankingMetric, texts), RankingMetric("AP", undefined="zero")])
    names = ["nDCG@10", "AP", "RBP(p=0_8)", "nRBP", "AP, undefined=zero"]
    assert sorted(metrics.keys()) == sorted(names)
    values = metrics(*items())
    for text, name in zip(texts, names, strict=False):
        assert float(values[name]) == of(RankingMetric(text), items())
        assert metrics[name].higher_is_better == (text != "nRBP")
    metrics.reset()
    assert metrics["AP"].indexes == []
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
    assert repr(other) == repr(metric) == f"RankingMetric({metric.ranking_metric}, undefined={metric.undefined})"
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
    kept_once = MetricCollection([RankingMetric("nDCG"), RankingMetric("AP")])
    kept_once.update(*items())
    assert kept_once.compute_groups == {0: ["nDCG", "AP"]}


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


CHANGES: tuple[Callable[[Any], object], ...] = (
    *(lambda metric: metric.set_dtype(torch.float16), lambda metric: metric.half(), lambda metric: metric.to("cpu")),
    *(lambda metric: metric.to(torch.bfloat16), lambda metric: torch.nn.ModuleList([metric]).to(torch.float16)),
)


def test_types_of_a_module_leave_scores_and_numbers_as_they_are() -> None:
    """In half precision, 2049 is 2048, and 1.0001 is 1."""
    scores, numbers = torch.tensor([1.0, 1.0001, 1.0001, 1.0]), torch.tensor([2048, 2048, 2049, 2049])
    for change in CHANGES:
        metric = updated_by(RankingMetric("AP"), (scores, torch.tensor([0, 1, 1, 0]), numbers))
        change(metric)
        assert [part.tolist() for part in metric.per_list()] == [[1, 1], [2048, 2049]]


def test_offsets_and_indexes_are_not_mixed_and_parameters_are_checked() -> None:
    forward, merged_with, batch = RankingMetric("AP"), RankingMetric("AP"), (torch.rand(2), torch.tensor([1, 0]))
    forward(*batch, torch.tensor([0, 0]))
    forward(*batch, offsets=torch.tensor([0, 2]))
    merged_with.update(*items())
    other = whole_lists(RankingMetric("AP"), items(), 3)
    merged_with.merge_state(other)
    for metric, counts in ((forward, (1, 2)), (merged_with, (6, 60))):
        with pytest.raises(ValueError, match="found {} lists with offsets and {} items with indexes".format(*counts)):
            metric.compute()
    with pytest.raises(ValueError, match=r"Expected incoming state to be an instance of AP but got .*nDCG"):
        other.merge_state(whole_lists(RankingMetric("nDCG"), items(), 3))
    ways: Any = {"offsets": torch.tensor([0, 2])}, {"indexes": torch.tensor([0, 0])}
    metric = RankingMetric("AP")
    for first, second in (ways, ways[::-1]):
        metric.update(*batch, **first)
        with pytest.raises(ValueError, match="found both indexes and offsets since the last reset"):
            metric.update(*batch, **second)
        metric.reset()
    with pytest.raises(ValueError, match="Did you mean AP"):
        RankingMetric("NAP")
    with pytest.raises(ValueError, match="undefined: found error, expected one of skip, zero"):
        RankingMetric("AP", undefined="error")


def update(change: dict[str, Any]) -> None:
    batch = {"preds": torch.rand(2), "target": torch.tensor([1, 0]), "indexes": torch.tensor([0, 0])} | change
    RankingMetric("AP").update(**batch)


OF_OFFSETS = {"indexes": None, "offsets": torch.tensor([0, 2])}
test_updates_are_checked = refusals(
    [
        ({"target": torch.ones(3)}, r"found the shapes \(2,\), \(3,\), \(2,\), expected the same"),
        ({"indexes": torch.zeros(2)}, "indexes: found torch.float32, expected integers"),
        ({"indexes": torch.zeros(2, dtype=torch.complex64)}, "indexes: found torch.complex64, expected integers"),
        ({"indexes": [0, 0]}, "indexes: found list, expected a tensor"),
        ({"preds": np.zeros(2)}, "preds: found ndarray, expected a tensor"),
        ({"target": [1, 0]}, "target: found list, expected a tensor"),
        ({"preds": torch.tensor([2**53 + 1, 2**53])}, "preds: found integers beyond 2.53, .* would become equal"),
        ({"indexes": None}, "expected either indexes, of items in any order, or offsets"),
        ({"offsets": torch.tensor([0, 2])}, "expected either indexes"),
        (OF_OFFSETS | {"target": torch.ones(3)}, r"preds, target: found the shapes \(2,\), \(3,\)"),
        (OF_OFFSETS | {"offsets": torch.tensor([0, 3])}, "offsets: found 0 .. 3, expected 0 .. 2"),
    ],
    update,
)
