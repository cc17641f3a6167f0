"""Programs that try a feature in a library: a verdict, and the observation behind it; `PROBES` has them by feature.

The loss of a library nearest to nDCG is tried on a few short lists, its metrics on one list of a few items.
"""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import rankbound as rb
from benchmarks import losses
from benchmarks.measure import added_peak
from benchmarks.questions import evaluated_by_ir_measures, evaluated_by_rankbound, evaluated_by_ranx
from benchmarks.rerankers import Outputs, labelled_queries, tiny_reranker

YES, PARTLY, NO = "yes", "partly", "no"


class Seen(NamedTuple):
    """The result of a cell: a verdict for the table, and the observation behind it."""

    verdict: str
    note: str


Probe = Callable[[], Seen]
Step = Callable[[losses.Batch], float]
"""Returns the mean loss of lists (or the predictions of a tree); the gradient is computed, too."""


def holds(is_true: Any, note: str, verdict: str = YES) -> Seen:
    """Return the verdict if the feature was observed, otherwise no."""
    return Seen(verdict if is_true else NO, note)


def each(probe: Callable[[Any], Seen], cases: Mapping[str, Any], *libraries: str) -> dict[str, Probe]:
    """Return the same program for several libraries, by default for all."""
    return {library: partial(probe, cases[library]) for library in libraries or cases}


# Losses and training.

INFORMATIVE = losses.Batch(torch.tensor([2.0, 1.0, 3.0, 1.0, 0.5]), torch.tensor([1, 0, 0, 0, 1]), [3, 2])
APART = [
    losses.Batch(scores, relevance, [len(scores)])
    for scores, relevance in zip(INFORMATIVE.scores.split([3, 2]), INFORMATIVE.relevance.split([3, 2]), strict=True)
]
"""Its two lists."""
WITH_UNINFORMATIVE = losses.Batch(
    torch.cat([INFORMATIVE.scores, torch.tensor([1.0, 2.0, 3.0])]),
    torch.cat([INFORMATIVE.relevance, torch.tensor([0, 0, 0])]),
    [*INFORMATIVE.sizes, 3],
)
"""The same, and a list without relevant items."""
LONG = 3_000
"""Items of a list, of whose pairs an array takes 36 MB: more than any allocator keeps from earlier probes."""


def _sentence_transformers(batch: losses.Batch) -> losses.Prepared:
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    model = Outputs(batch.scores)
    inputs = [["q"] * len(batch.sizes), [["d"] * size for size in batch.sizes]]
    return partial(LambdaLoss(model, mini_batch_size=-1), inputs, batch.relevance.split(batch.sizes)), model.outputs


TORCH: Mapping[str, Callable[[losses.Batch], losses.Prepared]] = {
    "rankbound": partial(losses.rankbound_loss, "nDCG"),
    "allRank": partial(losses.allrank_loss, "nDCG"),
    "pytorchltr": partial(losses.pytorchltr_loss, "LambdaRank"),
    "sentence-transformers": _sentence_transformers,
}


def _rax_arrays(batch: losses.Batch) -> tuple[Any, Any, Any]:
    """Return scores, relevance and the number of each item's list."""
    import jax.numpy as jnp

    segments = np.repeat(np.arange(len(batch.sizes)), batch.sizes)
    return jnp.array(batch.scores.numpy()), jnp.array(batch.relevance.numpy(), dtype="float32"), jnp.array(segments)


def _rax_step(batch: losses.Batch) -> float:
    import jax

    scores, relevance, segments = _rax_arrays(batch)
    step = jax.jit(jax.value_and_grad(losses.rax_loss))
    return float(jax.block_until_ready(step(scores, relevance, segments=segments))[0])


def _lightgbm_tree(batch: losses.Batch) -> Any:
    """Return the predictions of a tree whose only feature are the scores."""
    import lightgbm as lgb

    rows = batch.scores.numpy()[:, None]
    data = lgb.Dataset(rows, batch.relevance.numpy(), group=batch.sizes, params={"min_data_in_bin": 1})
    settings = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0, "verbosity": -1}
    return lgb.train({"objective": "lambdarank", **settings}, data, 1).predict(rows)


def _xgboost_tree(batch: losses.Batch) -> Any:
    import xgboost as xgb

    data = _xgboost_data(batch.scores.numpy()[:, None], batch.relevance.numpy(), batch.sizes)
    return xgb.train({"objective": "rank:ndcg", "min_child_weight": 0}, data, 1).predict(data)


def _xgboost_data(rows: Any, relevance: Any, sizes: Sequence[int]) -> Any:
    import xgboost as xgb

    data = xgb.DMatrix(rows, relevance)
    data.set_group(sizes)
    return data


LOSSES: Mapping[str, Step] = {
    **{library: lambda batch, loss=loss: float(losses.step_of(loss, batch)()[0]) for library, loss in TORCH.items()},
    "Rax": _rax_step,
}
TREES: Mapping[str, Callable[[losses.Batch], Any]] = {"LightGBM": _lightgbm_tree, "XGBoost": _xgboost_tree}


def _without_padding(step: Step) -> Seen:
    together, apart = step(INFORMATIVE), np.mean([step(one) for one in APART])
    return holds(abs(together - apart) < 1e-5, f"both lists {together:.3f}, mean of each alone {apart:.3f}")


def _flat_refused(loss: Callable[[losses.Batch], losses.Prepared]) -> Seen:
    call, _ = loss(INFORMATIVE)
    flat = INFORMATIVE.scores, INFORMATIVE.relevance.to(call.args[1].dtype)
    try:
        return Seen(NO, f"takes flat scores for one list ({call.func(*flat, *call.args[2:]).mean():.3f})")
    except (IndexError, RuntimeError, ValueError) as error:
        return Seen(NO, f"refuses flat scores ({type(error).__name__})")


def _groups(fit: Callable[[losses.Batch], Any]) -> Seen:
    note = "sizes of groups" if fit in TREES.values() else "a list of documents per query"
    return holds(np.isfinite(fit(INFORMATIVE)).all(), note)


def _memory(step: Callable[[losses.Batch], object]) -> Seen:
    step(losses.one_list(20))
    batch = losses.one_list(LONG)
    added = added_peak(lambda: step(batch))
    return holds(added < 4 * LONG**2 / 2, f"{max(added, 0.0) / 1e6:.0f} MB")


def _memory_of_lightgbm() -> Seen:
    try:
        _lightgbm_tree(losses.one_list(10_001))
    except Exception as error:
        verdict, note = _memory(_lightgbm_tree)
        return holds(verdict == YES, f"{note}; {error}", PARTLY)
    return _memory(_lightgbm_tree)


def _uninformative(step: Step) -> Seen:
    alone, with_it = step(INFORMATIVE), step(WITH_UNINFORMATIVE)
    return holds(abs(alone - with_it) < 1e-6, f"{alone:.3f} becomes {with_it:.3f}")


def _uninformative_in_trees(tree: Callable[[losses.Batch], Any]) -> Seen:
    alone, with_it = tree(INFORMATIVE), tree(WITH_UNINFORMATIVE)
    return holds(np.allclose(alone, with_it[: len(alone)]), f"leaf {alone[0]:.3f} becomes {with_it[0]:.3f}")


def _bounds_of_rankbound() -> Seen:
    scores = rb.score_distribution("nDCG", n=3, p=1)
    shown = f"{scores.minimum:.2f} to {scores.maximum:.2f}, on average {scores.expectation:.2f}"
    return holds(len(scores.support) == 3 and scores.minimum < scores.expectation < scores.maximum, shown)


def _learnable() -> tuple[Any, Any, list[int]]:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    return rows, (rows[:, 0] > 0).astype(int), [10] * 20


def _boosted_by_rankbound() -> Seen:
    import lightgbm as lgb

    rows, relevance, sizes = _learnable()
    ranker = lgb.LGBMRanker(objective=rb.boosting_objective(rb.loss("RankNet")), n_estimators=2, verbosity=-1)
    scores = ranker.fit(rows, relevance, group=sizes).predict(rows)
    return holds(scores[relevance > 0].mean() > scores[relevance == 0].mean(), "`boosting_objective(loss)`")


def _boosted_by_lightgbm() -> Seen:
    import lightgbm as lgb

    groups = []

    def objective(labels: Any, scores: Any, weight: Any, group: Any) -> Any:
        groups.append(group)
        return scores - labels, np.ones(len(labels))

    rows, relevance, sizes = _learnable()
    lgb.LGBMRanker(objective=objective, n_estimators=1, verbosity=-1).fit(rows, relevance, group=sizes)
    knows = groups[0] is not None and list(groups[0]) == sizes
    return holds(knows, "a function of four parameters gets the groups", PARTLY)


def _boosted_by_xgboost() -> Seen:
    import xgboost as xgb

    groups = []

    def objective(scores: Any, data: Any) -> Any:
        groups.append(data.get_uint_info("group_ptr"))
        return scores - data.get_label(), np.ones(len(scores))

    rows, relevance, sizes = _learnable()
    xgb.train({}, _xgboost_data(rows, relevance, sizes), 1, obj=objective)
    try:
        xgb.XGBRanker(objective=lambda labels, scores: (scores - labels, scores)).fit(rows, relevance, group=sizes)
        note = "a function gets the groups in `train` and `XGBRanker`"
    except ValueError:
        note = "a function gets the groups in `train`; `XGBRanker` refuses it"
    return holds(np.diff(groups[0]).tolist() == sizes, note, PARTLY)


def _compiled_by_torch(loss: Callable[[losses.Batch], losses.Prepared]) -> Seen:
    call, _ = loss(INFORMATIVE)
    try:
        with torch.no_grad():
            plain = call()
            compiled = torch.compile(call.func, fullgraph=True, backend="eager")(*call.args, **call.keywords)
    except RuntimeError as error:
        return Seen(NO, f"torch.compile: {str(error).splitlines()[0]}")
    return holds(torch.allclose(plain, compiled), "by torch.compile")


def _compiled_by_jax() -> Seen:
    import jax

    scores, relevance, segments = _rax_arrays(INFORMATIVE)
    values = [loss(scores, relevance, segments=segments) for loss in (losses.rax_loss, jax.jit(losses.rax_loss))]
    return holds(np.isclose(*values), "by jax.jit, for CPU, GPU and TPU")


def _attention_of_rankbound() -> Seen:
    from rankbound.training.models import AttentionScorer

    model, rows, lists = AttentionScorer(3).eval(), torch.randn(4, 3), rb.Lists.of_sizes([4])
    with torch.no_grad():
        before = model(rows, lists)[0].item()
        rows[3] += 1
        after = model(rows, lists)[0].item()
    return holds(abs(after - before) > 1e-6, "another item's features change the score, in `train_ranker`")


def _attention_of_allrank() -> Seen:
    transformer = losses.allrank("config").TransformerConfig(N=1, d_ff=8, h=1, positional_encoding=None, dropout=0.0)
    layers = {"sizes": [8], "input_norm": False, "activation": None, "dropout": 0.0}
    ranker = losses.allrank("models.model").make_model(layers, transformer, {"d_output": 1}, n_features=3).eval()
    rows, mask = torch.randn(1, 4, 3), torch.zeros(1, 4, dtype=torch.bool)
    before = ranker.score(rows, mask, None)[0, 0].item()
    rows[0, 3] += 1
    after = ranker.score(rows, mask, None)[0, 0].item()
    return holds(abs(after - before) > 1e-6, "another item's features change the score")


def _texts(ours: bool) -> Seen:
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    from rankbound.interop.sentence_transformers import ListwiseLoss

    with tempfile.TemporaryDirectory() as folder:
        model = tiny_reranker(Path(folder))
    columns = labelled_queries([3, 4])
    loss = ListwiseLoss(model, "nDCG") if ours else LambdaLoss(model)
    inputs, labels = [columns["query"], columns["documents"]], [torch.tensor(one) for one in columns["labels"]]
    loss(inputs, labels).backward()
    learns = any(weight.grad is not None and weight.grad.any() for weight in model.parameters())
    note = "in sentence-transformers' trainer" if ours else "a cross-encoder gets gradients from texts"
    return holds(learns, note, PARTLY if ours else YES)


def _clicks_of_rankbound() -> Seen:
    rankers = np.array([[3.0, 2.0, 1.0], [1.0, 3.0, 2.0], [2.0, 1.0, 3.0]])
    model = rb.clicks.PositionBased(eta=1.0)
    log = rb.clicks.simulate(model, [1, 1, 1], [0, 3], scores=rankers, sessions=20_000)
    found = rb.clicks.intervention_harvesting(log)
    return holds(
        np.allclose(found, model.propensities(3), atol=0.05), "four click models, three estimates of propensities"
    )


def _clicks_of_allrank() -> Seen:
    model = losses.allrank("click_models.cascade_models").BaseCascadeModel(eta=0.0, threshold=1)
    clicks = model.click((torch.zeros(3, 1), torch.tensor([0.0, 1.0, 1.0])))
    return holds(clicks.tolist() == [False, True, True], "click models")


def _clicks_of_pytorchltr() -> Seen:
    from pytorchltr.click_simulation.pbm import simulate_position

    clicks, _ = simulate_position(torch.tensor([[0, 1, 2]]), torch.tensor([[0, 4, 4]]), torch.tensor([3]), eta=0.0)
    return holds(clicks.shape == (1, 3), "simulated clicks")


def _positions_of_lightgbm() -> Seen:
    import lightgbm as lgb

    rows, relevance, sizes = _learnable()
    trees = []
    for position in (None, list(range(10)) * 20):
        data = lgb.Dataset(rows, relevance, group=sizes, position=position)
        trees.append(lgb.train({"objective": "lambdarank", "verbosity": -1}, data, 5).predict(rows))
    return holds(not np.allclose(*trees), "estimates the bias of `position`")


def _positions_of_xgboost() -> Seen:
    import xgboost as xgb

    data = _xgboost_data(*_learnable())
    settings = [{"objective": "rank:ndcg", "lambdarank_unbiased": unbiased} for unbiased in (False, True)]
    trees = [xgb.train(one, data, 5).predict(data) for one in settings]
    return holds(not np.allclose(*trees), "`lambdarank_unbiased`")


# Metrics and evaluation.

Evaluator = Callable[[Sequence[float], Sequence[int]], list[float]]
"""Returns nDCG, and RR or (the same for a single relevant item) AP, of the scores and the relevance of a list."""

DOCUMENTS = "abcdefgh"
TIED = 0.8155, 0.75
"""The means of nDCG and RR over both orders of a relevant and an irrelevant item."""


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
    metrics, rows = losses.allrank("models.metrics"), (torch.tensor([scores]), torch.tensor([relevance]).float())
    return [float(metric(*rows, ats=[10])) for metric in (metrics.ndcg, metrics.mrr)]


def _pytorchltr(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    from pytorchltr.evaluation import ndcg

    return [float(ndcg(torch.tensor([scores]), torch.tensor([relevance]), torch.tensor([len(scores)]), k=10)[0])]


def _lightgbm(scores: Sequence[float], relevance: Sequence[int], *metrics: str) -> dict[str, float]:
    """Return the values of those metrics that LightGBM has; it skips the others silently."""
    import lightgbm as lgb

    data = lgb.Dataset(np.zeros((len(scores), 1)), relevance, group=[len(scores)], init_score=scores)
    values: dict[str, Any] = {}
    settings = {"objective": "lambdarank", "metric": metrics, "eval_at": [10], "verbosity": -1}
    lgb.train(settings, data, 1, valid_sets=[data], callbacks=[lgb.record_evaluation(values)])
    return {name.partition("@")[0]: series[0] for name, series in values["training"].items()}


def _torchmetrics(scores: Sequence[float], relevance: Sequence[int]) -> list[float]:
    from torchmetrics.retrieval import RetrievalMRR, RetrievalNormalizedDCG

    rows = torch.tensor(scores), torch.tensor(relevance), torch.zeros(len(scores)).long()
    return [float(metric(top_k=10)(*rows)) for metric in (RetrievalNormalizedDCG, RetrievalMRR)]


EVALUATORS: Mapping[str, Evaluator] = {
    "rankbound": _means(evaluated_by_rankbound),
    "Rax": _rax,
    "allRank": _allrank,
    "pytorchltr": _pytorchltr,
    "LightGBM": lambda scores, relevance: [*_lightgbm(scores, relevance, "ndcg", "map").values()],
    "torchmetrics": _torchmetrics,
    "ranx": _means(evaluated_by_ranx),
    "ir_measures": _means(evaluated_by_ir_measures),
}


def _ties(evaluator: Evaluator) -> Seen:
    values = [*zip(evaluator([1.0, 1.0], [0, 1]), evaluator([1.0, 1.0], [1, 0]), strict=True)]
    averaged = [max(abs(value - mean) for value in pair) < 1e-4 for pair, mean in zip(values, TIED, strict=False)]
    note = "; ".join(f"{one:.2f} and {other:.2f}" for one, other in values)
    return holds(any(averaged), note, YES if all(averaged) else PARTLY)


def _undefined(evaluator: Evaluator) -> Seen:
    value = evaluator([2.0, 1.0], [0, 0])[0]
    return holds(value != value, f"{value:.0f}")


def _skipped_by_torchmetrics() -> Seen:
    from torchmetrics.retrieval import RetrievalMRR

    rows = torch.tensor([2.0, 1.0, 2.0, 1.0]), torch.tensor([0, 0, 1, 0]), torch.tensor([0, 0, 1, 1])
    plain, skipping = (float(RetrievalMRR(empty_target_action=action)(*rows)) for action in ("neg", "skip"))
    return holds((plain, skipping) == (0.5, 1.0), "0; left out with `empty_target_action`", PARTLY)


def _twenty_topics() -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    qrels = {f"q{i}": {DOCUMENTS[i % 4]: 1} for i in range(20)}
    runs = {
        name: {f"q{i}": {d: (step * i + 3 * j) % 7 + j / 10 for j, d in enumerate(DOCUMENTS)} for i in range(20)}
        for name, step in (("x", 1), ("y", 2))
    }
    return qrels, runs


def _compared_by_rankbound() -> Seen:
    qrels, runs = _twenty_topics()
    columns = rb.compare_runs(runs, qrels, "RR").to_polars().columns
    return holds({"low", "high", "p_adjusted"} <= set(columns), "an interval, and a p-value corrected for all tests")


def _compared_by_ranx() -> Seen:
    import ranx

    qrels, runs = _twenty_topics()
    report = ranx.compare(ranx.Qrels(qrels), [ranx.Run(run, name=name) for name, run in runs.items()], ["mrr"])
    p_value = report.to_dict()["x"]["comparisons"]["y"]["mrr"]
    return holds(0 <= p_value <= 1, "a p-value, no interval", PARTLY)


def _fused_by_rankbound() -> Seen:
    fused = rb.fuse([{"q": {"a": 2.0, "b": 1.0}}, {"q": {"c": 1.0, "a": 0.5}}], "rrf")
    return holds(set(fused.items) == {"a", "b", "c"}, "`fuse`, by 23 methods")


def _fused_by_ranx() -> Seen:
    import ranx

    runs = [ranx.Run({"q": {"a": 2.0, "b": 1.0}}), ranx.Run({"q": {"c": 1.0, "a": 0.5}})]
    return holds(set(ranx.fuse(runs, method="rrf").run["q"]) == {"a", "b", "c"}, "`fuse`, by reciprocal ranks")


def _names(pattern: str, module: str, load: Callable[[str], object] = import_module) -> Callable[[], list[str]]:
    return lambda: [name for name in vars(load(module)) if re.search(pattern, name)]


def _of_ir_measures() -> list[str]:
    registry = import_module("ir_measures.measures").registry
    return list({id(measure): name for name, measure in registry.items()}.values())


MEASURES: Mapping[str, Callable[[], list[str]]] = {
    "rankbound": lambda: [*import_module("rankbound.metrics").KINDS, "nRBP"],
    "Rax": _names("_metric$", "rax"),
    "allRank": _names("^(n?dcg|mrr)$", "models.metrics", losses.allrank),
    "pytorchltr": _names("^(n?dcg|arp)$", "pytorchltr.evaluation"),
    "LightGBM": lambda: [
        *_lightgbm([2.0, 1.0], [0, 1], *["ndcg", "map", "mrr", "precision", "recall", "err", "dcg", "hit"])
    ],
    "torchmetrics": _names("^Retrieval", "torchmetrics.retrieval"),
    "ranx": _names("^(?!_|common|get_|metric_switch)", "ranx.metrics"),
    "ir_measures": _of_ir_measures,
}


def _number(names: Callable[[], list[str]]) -> Seen:
    found = names()
    return Seen(str(len(found)), ", ".join(sorted(found)[:6]) + ", ..." * (len(found) > 6))


PROBES: Mapping[str, Mapping[str, Probe]] = {
    "Lists without padding": each(_without_padding, LOSSES, "rankbound", "Rax")
    | each(_flat_refused, TORCH, "allRank", "pytorchltr")
    | each(_groups, {**LOSSES, **TREES}, "sentence-transformers", *TREES),
    "Memory linear in a list's length": each(_memory, {**LOSSES, **TREES}) | {"LightGBM": _memory_of_lightgbm},
    "Uninformative lists change nothing": each(_uninformative, LOSSES) | each(_uninformative_in_trees, TREES),
    "Bounds and distributions of metrics": {"rankbound": _bounds_of_rankbound},
    "Boosted trees by a loss of choice": {
        "rankbound": _boosted_by_rankbound,
        "LightGBM": _boosted_by_lightgbm,
        "XGBoost": _boosted_by_xgboost,
    },
    "Compiles as a whole": each(_compiled_by_torch, TORCH) | {"Rax": _compiled_by_jax},
    "Attention between items": {"rankbound": _attention_of_rankbound, "allRank": _attention_of_allrank},
    "Trains on texts": each(_texts, {"rankbound": True, "sentence-transformers": False}),
    "Clicks": {
        "rankbound": _clicks_of_rankbound,
        "allRank": _clicks_of_allrank,
        "pytorchltr": _clicks_of_pytorchltr,
        "LightGBM": _positions_of_lightgbm,
        "XGBoost": _positions_of_xgboost,
    },
    "Ties are averaged": each(_ties, EVALUATORS),
    "An undefined list is not a value": each(_undefined, EVALUATORS) | {"torchmetrics": _skipped_by_torchmetrics},
    "Paired tests with intervals": {"rankbound": _compared_by_rankbound, "ranx": _compared_by_ranx},
    "Fusion of runs": {"rankbound": _fused_by_rankbound, "ranx": _fused_by_ranx},
    "Number of ranking measures": each(_number, MEASURES),
}
"""Feature -> library -> program."""
