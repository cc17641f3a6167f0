"""The features of metrics and evaluation. A metric is tried on one list of a few items."""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.features_cells import NO, PARTLY, YES, Feature, Seen, each, from_source, holds
from benchmarks.losses import allrank
from benchmarks.questions import evaluated_by_ir_measures, evaluated_by_rankbound, evaluated_by_ranx

Evaluator = Callable[[Sequence[float], Sequence[int]], list[float]]
"""Returns nDCG, and RR or (the same for a single relevant item) AP, of the scores and the relevance of a list."""

DOCUMENTS = "abcdefgh"
TIED_NDCG, TIED_RR = 0.8155, 0.75
"""The means over both orders of a relevant and an irrelevant item."""


def _means(prepare: Callable[[Any], Callable[[], Mapping[str, float]]]) -> Evaluator:
    """Return the evaluator of a contender of the question `evaluation`."""

    def evaluator(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
        means = prepare((np.array([scores]), np.array([relevance])))()
        return [means[name] for name in ("nDCG@10", "RR")]

    return evaluator


def _rax(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    import jax.numpy as jnp
    import rax

    arrays = jnp.array(scores), jnp.array(relevance, dtype=float)
    return [float(metric(*arrays, topn=10)) for metric in (rax.ndcg_metric, rax.mrr_metric)]


def _allrank(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    import torch

    metrics, rows = allrank("models.metrics"), (torch.tensor([scores]), torch.tensor([relevance]).float())
    return [float(metric(*rows, ats=[10])) for metric in (metrics.ndcg, metrics.mrr)]


def _pytorchltr(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    import torch
    from pytorchltr.evaluation import ndcg

    return [float(ndcg(torch.tensor([scores]), torch.tensor([relevance]), torch.tensor([len(scores)]), k=10)[0])]


def _lightgbm(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    return list(_lightgbm_values(scores, relevance, ["ndcg", "map"]).values())


def _lightgbm_values(scores: Sequence[float], relevance: Sequence[int], metrics: list[str]) -> dict[str, float]:
    import lightgbm as lgb

    data = lgb.Dataset(np.zeros((len(scores), 1)), relevance, group=[len(scores)], init_score=scores)
    values: dict[str, Any] = {}
    settings = {"objective": "lambdarank", "metric": metrics, "eval_at": [10], "verbosity": -1}
    lgb.train(settings, data, 1, valid_sets=[data], callbacks=[lgb.record_evaluation(values)])
    return {name.partition("@")[0]: series[0] for name, series in values["training"].items()}


def _torchmetrics(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    import torch
    from torchmetrics.retrieval import RetrievalMRR, RetrievalNormalizedDCG

    rows = torch.tensor(scores), torch.tensor(relevance), torch.zeros(len(scores)).long()
    return [float(metric(top_k=10)(*rows)) for metric in (RetrievalNormalizedDCG, RetrievalMRR)]


EVALUATORS: dict[str, Evaluator] = {
    "rankbound": _means(evaluated_by_rankbound),
    "Rax": _rax,
    "allRank": _allrank,
    "pytorchltr": _pytorchltr,
    "LightGBM": _lightgbm,
    "torchmetrics": _torchmetrics,
    "ranx": _means(evaluated_by_ranx),
    "ir_measures": _means(evaluated_by_ir_measures),
}


def _ties(evaluator: Evaluator) -> Seen:
    first, second = evaluator([1.0, 1.0], [0, 1]), evaluator([1.0, 1.0], [1, 0])
    averaged = [
        max(abs(one - mean), abs(other - mean)) < 1e-4
        for one, other, mean in zip(first, second, (TIED_NDCG, TIED_RR), strict=False)
    ]
    shown = (f"{one:.2f} and {other:.2f}" for one, other in zip(first, second, strict=True))
    return Seen(YES if all(averaged) else PARTLY if any(averaged) else NO, "; ".join(shown))


def _undefined(evaluator: Evaluator) -> Seen:
    value = evaluator([2.0, 1.0], [0, 0])[0]
    return holds(value != value, f"{value:.0f}")


def _skipped_by_torchmetrics() -> Seen:
    import torch
    from torchmetrics.retrieval import RetrievalMRR

    rows = torch.tensor([2.0, 1.0, 2.0, 1.0]), torch.tensor([0, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
    plain, skipping = (float(RetrievalMRR(empty_target_action=action)(*rows)) for action in ("neg", "skip"))
    return Seen(PARTLY if (plain, skipping) == (0.5, 1.0) else NO, "0; left out with `empty_target_action`")


def _twenty_topics() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    qrels = {f"q{i}": {DOCUMENTS[i % 4]: 1} for i in range(20)}
    runs = {
        name: {
            topic: {d: (step * i + 3 * j) % 7 + j / 10 for j, d in enumerate(DOCUMENTS)}
            for i, topic in enumerate(qrels)
        }
        for name, step in (("x", 1), ("y", 2))
    }
    return qrels, runs


def _compared_by_rankbound() -> Seen:
    import rankbound as rb

    qrels, runs = _twenty_topics()
    columns = rb.compare_runs(runs, qrels, "RR").to_polars().columns
    return holds({"low", "high", "p_adjusted"} <= set(columns), "an interval, and a p-value corrected for all tests")


def _compared_by_ranx() -> Seen:
    import ranx

    qrels, runs = _twenty_topics()
    report = ranx.compare(ranx.Qrels(qrels), [ranx.Run(run, name=name) for name, run in runs.items()], ["mrr"])
    p_value = report.to_dict()["x"]["comparisons"]["y"]["mrr"]
    return Seen(PARTLY if 0 <= p_value <= 1 else NO, "a p-value, no interval")


def _fused_by_ranx() -> Seen:
    import ranx

    runs = [ranx.Run({"q": {"a": 2.0, "b": 1.0}}), ranx.Run({"q": {"c": 1.0, "a": 0.5}})]
    return holds(set(ranx.fuse(runs, method="rrf").run["q"]) == {"a", "b", "c"}, "`fuse`, by reciprocal ranks")


def _names(module: str, pattern: str) -> Callable[[], list[str]]:
    return lambda: [name for name in vars(import_module(module)) if re.search(pattern, name)]


def _of_lightgbm() -> list[str]:
    """Return those names of measures elsewhere of which LightGBM reports a value; it skips the others silently."""
    return list(
        _lightgbm_values([2.0, 1.0], [0, 1], ["ndcg", "map", "mrr", "precision", "recall", "err", "dcg", "hit"])
    )


def _of_ir_measures() -> list[str]:
    registry = import_module("ir_measures.measures").registry
    return list({id(measure): name for name, measure in registry.items()}.values())


MEASURES: dict[str, Callable[[], list[str]]] = {
    "rankbound": lambda: [*import_module("rankbound.metrics").KINDS, "nRBP"],
    "Rax": _names("rax", "_metric$"),
    "allRank": lambda: [name for name in vars(allrank("models.metrics")) if re.search("^(n?dcg|mrr)$", name)],
    "pytorchltr": _names("pytorchltr.evaluation", "^(n?dcg|arp)$"),
    "LightGBM": _of_lightgbm,
    "torchmetrics": _names("torchmetrics.retrieval", "^Retrieval"),
    "ranx": _names("ranx.metrics", "^(?!_|common|get_|metric_switch)"),
    "ir_measures": _of_ir_measures,
}


def _number(names: Callable[[], list[str]]) -> Seen:
    found = names()
    return Seen(str(len(found)), ", ".join(sorted(found)[:6]) + ", ..." * (len(found) > 6))


FEATURES = (
    Feature(
        "Ties are averaged",
        "A metric is averaged over the orderings of tied items; the order of rows or names changes nothing. Tried: "
        "nDCG and RR (AP in LightGBM) of a relevant and an irrelevant item with the same score, in both row orders. "
        "The correct means are 0.82 and 0.75.",
        "",
        each(_ties, EVALUATORS) | from_source(NO, "ties are broken at random", "python/keras/metrics.py"),
    ),
    Feature(
        "An undefined list is not a value",
        "The nDCG of a list without relevant items is undefined. Its value is NaN, or a number that changes the mean.",
        "",
        each(_undefined, EVALUATORS)
        | {"torchmetrics": _skipped_by_torchmetrics}
        | from_source(NO, "0", "python/keras/metrics.py"),
    ),
    Feature(
        "Paired tests with intervals",
        "Two runs are compared query by query, with a p-value and an interval of the difference.",
        "paired|significan|ttest|t_test",
        {"rankbound": _compared_by_rankbound, "ranx": _compared_by_ranx} | from_source(NO, "none", "python/metrics.py"),
    ),
    Feature(
        "Fusion of runs",
        "Several runs are merged into one.",
        r"fuse_?runs|\bfuse\b|rrf|combsum|reciprocal_rank_fusion",
        {"ranx": _fused_by_ranx} | from_source(NO, "none", "python/metrics.py"),
    ),
    Feature(
        "Number of ranking measures",
        "Measures of a single list with different names, not counting cut-offs and parameters.",
        "",
        each(_number, MEASURES) | from_source("10", "`RankingMetricKey`", "python/keras/metrics.py"),
    ),
)
