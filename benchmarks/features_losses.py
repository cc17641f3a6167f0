"""The features of losses and training. The library's loss nearest to nDCG is tried on a few short lists."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.batches import Batch, one_list
from benchmarks.features_cells import NO, PARTLY, YES, Feature, Seen, each, from_source, holds
from benchmarks.losses import Prepared, allrank, allrank_loss, pytorchltr_loss, rankbound_loss, rax_loss, step_of
from benchmarks.measure import added_peak

Loss = Callable[[Batch], Prepared]

INFORMATIVE = Batch(torch.tensor([2.0, 1.0, 3.0, 1.0, 0.5]), torch.tensor([1, 0, 0, 0, 1]), [3, 2])
APART = [
    Batch(INFORMATIVE.scores[:3], INFORMATIVE.relevance[:3], [3]),
    Batch(INFORMATIVE.scores[3:], INFORMATIVE.relevance[3:], [2]),
]
"""Its two lists."""
WITH_UNINFORMATIVE = Batch(
    torch.cat([INFORMATIVE.scores, torch.tensor([1.0, 2.0, 3.0])]),
    torch.cat([INFORMATIVE.relevance, torch.tensor([0, 0, 0])]),
    [*INFORMATIVE.sizes, 3],
)
"""The same, and a list without relevant items."""
LONG = 3_000
"""Items of a list, of whose pairs an array takes 36 MB: more than any allocator keeps from earlier probes."""
LARGEST_LINEAR = 4 * LONG**2 / 2


def _sentence_transformers(batch: Batch) -> Prepared:
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    from benchmarks.tiny_reranker import Outputs

    model = Outputs(batch.scores)
    inputs = [["q"] * len(batch.sizes), [["d"] * size for size in batch.sizes]]
    return partial(LambdaLoss(model, mini_batch_size=-1), inputs, batch.relevance.split(batch.sizes)), model.outputs


TORCH: Mapping[str, Loss] = {
    "rankbound": partial(rankbound_loss, "nDCG"),
    "allRank": partial(allrank_loss, "nDCG"),
    "pytorchltr": partial(pytorchltr_loss, "LambdaRank"),
    "sentence-transformers": _sentence_transformers,
}


def _rax_step(batch: Batch) -> float:
    import jax

    scores, relevance, segments = _rax_arrays(batch)
    step = jax.jit(jax.value_and_grad(rax_loss))
    return float(jax.block_until_ready(step(scores, relevance, segments=segments))[0])


def _rax_arrays(batch: Batch) -> tuple[Any, Any, Any]:
    """Return scores, relevance and the number of each item's list."""
    import jax.numpy as jnp

    segments = np.repeat(np.arange(len(batch.sizes)), batch.sizes)
    return jnp.array(batch.scores.numpy()), jnp.array(batch.relevance.numpy(), dtype="float32"), jnp.array(segments)


STEPS: Mapping[str, Callable[[Batch], float]] = {
    **{library: lambda batch, loss=loss: float(step_of(loss, batch)()[0]) for library, loss in TORCH.items()},
    "Rax": _rax_step,
}
"""The mean loss of lists; the gradient is computed, too."""


def _lightgbm_tree(batch: Batch) -> Any:
    """Return the predictions of a tree whose only feature are the scores."""
    import lightgbm as lgb

    rows = batch.scores.numpy()[:, None]
    data = lgb.Dataset(rows, batch.relevance.numpy(), group=batch.sizes, params={"min_data_in_bin": 1})
    settings = {"min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0, "verbosity": -1}
    return lgb.train({"objective": "lambdarank", **settings}, data, 1).predict(rows)


def _xgboost_tree(batch: Batch) -> Any:
    import xgboost as xgb

    data = _xgboost_data(batch.scores.numpy()[:, None], batch.relevance.numpy(), batch.sizes)
    return xgb.train({"objective": "rank:ndcg", "min_child_weight": 0}, data, 1).predict(data)


def _xgboost_data(rows: Any, relevance: Any, sizes: Sequence[int]) -> Any:
    import xgboost as xgb

    data = xgb.DMatrix(rows, relevance)
    data.set_group(sizes)
    return data


TREES = {"LightGBM": _lightgbm_tree, "XGBoost": _xgboost_tree}


def _without_padding(step: Callable[[Batch], float]) -> Seen:
    together, apart = step(INFORMATIVE), np.mean([step(one) for one in APART])
    return holds(abs(together - apart) < 1e-5, f"both lists {together:.3f}, mean of each alone {apart:.3f}")


def _flat_refused(loss: Loss) -> Seen:
    call, _ = loss(INFORMATIVE)
    flat = INFORMATIVE.scores, INFORMATIVE.relevance.to(call.args[1].dtype)
    try:
        return Seen(NO, f"takes flat scores for one list ({call.func(*flat, *call.args[2:]).mean():.3f})")
    except (IndexError, RuntimeError, ValueError) as error:
        return Seen(NO, f"refuses flat scores ({type(error).__name__})")


def _groups(fit: Callable[[Batch], Any], note: str) -> Seen:
    return holds(np.isfinite(fit(INFORMATIVE)).all(), note)


def _memory(step: Callable[[Batch], object]) -> Seen:
    step(one_list(20))
    batch = one_list(LONG)
    added = added_peak(lambda: step(batch))
    return holds(added < LARGEST_LINEAR, f"{max(added, 0.0) / 1e6:.0f} MB")


def _memory_of_lightgbm() -> Seen:
    try:
        _lightgbm_tree(one_list(10_001))
    except Exception as error:
        seen = _memory(_lightgbm_tree)
        return Seen(PARTLY if seen.verdict == YES else NO, f"{seen.note}; {error}")
    return _memory(_lightgbm_tree)


def _uninformative(step: Callable[[Batch], float]) -> Seen:
    alone, with_it = step(INFORMATIVE), step(WITH_UNINFORMATIVE)
    return holds(abs(alone - with_it) < 1e-6, f"{alone:.3f} becomes {with_it:.3f}")


def _uninformative_in_trees(tree: Callable[[Batch], Any]) -> Seen:
    alone, with_it = tree(INFORMATIVE), tree(WITH_UNINFORMATIVE)
    return holds(np.allclose(alone, with_it[: len(alone)]), f"leaf {alone[0]:.3f} becomes {with_it[0]:.3f}")


def _bounds_of_rankbound() -> Seen:
    import rankbound as rb

    scores = rb.score_distribution("nDCG", n=3, p=1)
    shown = f"{scores.minimum:.2f} to {scores.maximum:.2f}, on average {scores.expectation:.2f}"
    return holds(len(scores.support) == 3 and scores.minimum < scores.expectation < scores.maximum, shown)


def _boosted_by_rankbound() -> Seen:
    import lightgbm as lgb

    import rankbound as rb

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
    return Seen(PARTLY if knows else NO, "a function of four parameters gets the groups")


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
    return Seen(PARTLY if np.diff(groups[0]).tolist() == sizes else NO, note)


def _learnable() -> tuple[Any, Any, list[int]]:
    rows = np.random.default_rng(0).normal(size=(200, 3))
    return rows, (rows[:, 0] > 0).astype(int), [10] * 20


def _compiled_by_torch(loss: Loss) -> Seen:
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
    values = [loss(scores, relevance, segments=segments) for loss in (rax_loss, jax.jit(rax_loss))]
    return holds(np.isclose(*values), "by jax.jit, for CPU, GPU and TPU")


def _attention_of_allrank() -> Seen:
    transformer = allrank("config").TransformerConfig(N=1, d_ff=8, h=1, positional_encoding=None, dropout=0.0)
    layers = {"sizes": [8], "input_norm": False, "activation": None, "dropout": 0.0}
    ranker = allrank("models.model").make_model(layers, transformer, {"d_output": 1}, n_features=3).eval()
    rows, mask = torch.randn(1, 4, 3), torch.zeros(1, 4, dtype=torch.bool)
    before = ranker.score(rows, mask, None)[0, 0].item()
    rows[0, 3] += 1
    after = ranker.score(rows, mask, None)[0, 0].item()
    return holds(abs(after - before) > 1e-6, "another item's features change the score")


def _texts(make_loss: Callable[[Any], Any], verdict: str) -> Seen:
    from benchmarks.tiny_reranker import labelled_queries, tiny_reranker

    with tempfile.TemporaryDirectory() as folder:
        model = tiny_reranker(Path(folder))
    columns = labelled_queries([3, 4])
    loss = make_loss(model)([columns["query"], columns["documents"]], [torch.tensor(one) for one in columns["labels"]])
    loss.backward()
    learns = any(weight.grad is not None and weight.grad.any() for weight in model.parameters())
    return Seen(verdict if learns else NO, "a cross-encoder gets gradients from texts")


def _texts_of_rankbound() -> Seen:
    from rankbound.interop.sentence_transformers import ListwiseLoss

    return _texts(lambda model: ListwiseLoss(model, "nDCG"), PARTLY)._replace(note="in sentence-transformers' trainer")


def _texts_of_sentence_transformers() -> Seen:
    from sentence_transformers.cross_encoder.losses import LambdaLoss

    return _texts(LambdaLoss, YES)


def _clicks_of_allrank() -> Seen:
    model = allrank("click_models.cascade_models").BaseCascadeModel(eta=0.0, threshold=1)
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


FEATURES = (
    Feature(
        "Lists without padding",
        "Lists of different lengths are passed as they are, with their limits; none is padded to the longest.",
        "",
        {
            **{library: partial(_without_padding, STEPS[library]) for library in ("rankbound", "Rax")},
            **{library: partial(_flat_refused, TORCH[library]) for library in ("allRank", "pytorchltr")},
            "sentence-transformers": partial(_groups, STEPS["sentence-transformers"], "a list of documents per query"),
            **{library: partial(_groups, tree, "sizes of groups") for library, tree in TREES.items()},
        }
        | from_source(PARTLY, "takes ragged tensors, and pads them inside", "python/losses_impl.py"),
    ),
    Feature(
        "Memory linear in a list's length",
        f"Memory that a forward and backward step of an nDCG loss adds on one list of {LONG:,} items. An array of all "
        "pairs would take 36 MB.",
        "",
        {
            **each(_memory, {**STEPS, "XGBoost": _xgboost_tree}),
            "LightGBM": _memory_of_lightgbm,
        }
        | from_source(NO, "a tensor of all pairs", "python/losses_impl.py"),
    ),
    Feature(
        "Uninformative lists change nothing",
        "A list without relevant items is added to two others. The mean loss (or the tree) stays the same.",
        "",
        each(_uninformative, STEPS)
        | each(_uninformative_in_trees, TREES)
        | from_source(NO, "such a list has weight 0, but the mean counts it", "python/losses_impl.py"),
    ),
    Feature(
        "Bounds and distributions of metrics",
        "The smallest, largest and mean value of a metric over all orderings of a list, and its distribution, as "
        "bounds that normalise a loss. Tried: nDCG of one relevant item among three.",
        "extremes|score_distribution|expected_under|random_order",
        {"rankbound": _bounds_of_rankbound} | from_source(NO, "none", "python/losses.py"),
    ),
    Feature(
        "Boosted trees by a loss of choice",
        "Trees of LightGBM or XGBoost are boosted with any loss. *Partly*: with a function "
        "that the user writes, which gets the groups and computes both derivatives.",
        "boosting_objective|hessian|gbdt",
        {"rankbound": _boosted_by_rankbound, "LightGBM": _boosted_by_lightgbm, "XGBoost": _boosted_by_xgboost}
        | from_source(NO, "none", "python/losses.py"),
    ),
    Feature(
        "Compiles as a whole",
        "A compiler takes the loss as one graph, as TPUs require: `jax.jit`, or `torch.compile` with `fullgraph`.",
        "jit",
        {**each(_compiled_by_torch, TORCH), "Rax": _compiled_by_jax}
        | from_source(YES, "TensorFlow's graphs", "python/losses_impl.py"),
    ),
    Feature(
        "Attention between items",
        "A model of the library scores an item from its own features and from the other items of its list.",
        "attention|make_transformer|listwise_context|cross_document",
        {"allRank": _attention_of_allrank}
        | from_source(YES, "`DocumentInteractionAttention`", "python/keras/layers.py"),
    ),
    Feature(
        "Trains on texts",
        "Gradients of a loss reach a language model that reads queries and documents.",
        "tokeniz|bert|cross_?encoder",
        {"rankbound": _texts_of_rankbound, "sentence-transformers": _texts_of_sentence_transformers}
        | from_source(YES, "TFR-BERT", "python/keras/tfrbert/tfrbert_model.py"),
    ),
    Feature(
        "Clicks",
        "The library simulates clicks, or estimates position bias from them.",
        "click|unbiased|propensit",
        {
            "allRank": _clicks_of_allrank,
            "pytorchltr": _clicks_of_pytorchltr,
            "LightGBM": _positions_of_lightgbm,
            "XGBoost": _positions_of_xgboost,
        }
        | from_source(YES, "`ClickEMLoss`", "python/losses_impl.py"),
    ),
)
