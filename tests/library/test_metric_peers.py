"""Agreement with the public evaluators on random graded runs without ties, for each metric they share.

trec_eval is in `test_trec`.

The peers' conventions differ; the table says what a metric of theirs is called here. Every list has a relevant item,
since without one they disagree (0, 1, or left out; NaN here). Where ties count, scikit-learn averages over them too.
"""

import re
import warnings
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

import rankbound as rb
from tests.library.drawn_runs import drawn_run
from tests.library.refusals import problems

Floats = npt.NDArray[np.float64]

N_LISTS = 40


@cache
def batch() -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Lists of 2 to 30 items with grades 0 to 4 and scores that differ."""
    random = np.random.default_rng(1)
    sizes = random.integers(2, 31, N_LISTS)
    offsets = np.cumsum([0, *sizes])
    grades = random.choice(5, size=offsets[-1], p=[0.5, 0.2, 0.15, 0.1, 0.05])
    grades[offsets[:-1]] = random.integers(2, 5, N_LISTS)
    grades[offsets[1:] - 1] = 0
    return random.permutation(offsets[-1]) / 7.0, grades, offsets


@cache
def qrels_and_run() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    scores, grades, offsets = batch()
    lists = [(f"{t}", slice(a, b)) for t, (a, b) in enumerate(pairwise(offsets))]
    qrels = {t: {f"d{i}": int(y) for i, y in enumerate(grades[own])} for t, own in lists}
    run = {t: {f"d{i}": float(s) for i, s in enumerate(scores[own])} for t, own in lists}
    return qrels, run


def names_one_or_one_of_several(theirs: str, ours: str) -> bool:
    """Whether a peer's name is read as this metric, or refused with it as a way to write."""
    try:
        return str(rb.metric(theirs)) == ours
    except ValueError as error:
        return bool(re.search(rf"meanings: .*write {re.escape(ours)}(;|$)", str(error)))


@pytest.mark.parametrize(
    ("source", "text"),
    [(source, text) for source, texts in problems("measures of ir_measures").items() for text in texts.split()],
)
def test_ir_measures(source: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its parser uses ast.Num and others
        ir_measures = pytest.importorskip("ir_measures")
        by_intent = source in ("intents", "short runs")
        if by_intent:
            pytest.importorskip("pyndeval")
        if source == "a run" and "max_rel" in text:
            pytest.importorskip("cwl")
        if source == "gdeval" and not ir_measures.gdeval.is_available():
            pytest.skip("gdeval needs perl")
        n_items = 19 if source == "short runs" else 30
        run, qrels = qrels_and_run()[::-1]
        if by_intent or source == "a run":
            # Scores are above 0, which is the score of unretrieved items in the Compat of ir_measures.
            run, qrels = drawn_run(1, 30, n_items, (0, 0, 0, 1, 2, 3), intents=by_intent)
        judged: Any = qrels
        if by_intent:
            judged = [
                ir_measures.Qrel(q, item, grade, intent)
                for q, intents in qrels.items()
                for intent, items in intents.items()
                for item, grade in items.items()
            ]
        values = ir_measures.iter_calc([ir_measures.parse_measure(text)], judged, run)
        theirs = {value.query_id: value.value for value in values}
    metric = rb.metric(text, names="ir_measures")
    found = rb.evaluate_run(run, qrels, metric)
    expected = [theirs[topic] for topic in found.topics]
    tolerance = 5.1e-6 if source == "gdeval" else 1e-9
    np.testing.assert_allclose(found.values[str(metric)], expected, rtol=0, atol=tolerance)


RANX = problems("metrics of ranx")


def test_ranx(ranx: Any) -> None:
    qrels, run = qrels_and_run()
    judged = {t: {d: y for d, y in grades.items() if y} for t, grades in qrels.items()}
    run_of_ranx = ranx.Run(run)
    ranx.evaluate(ranx.Qrels(judged), run_of_ranx, list(RANX), make_comparable=False)
    for theirs, text in RANX.items():
        assert names_one_or_one_of_several(theirs, text)
        found = [run_of_ranx.scores[theirs][f"{t}"] for t in range(N_LISTS)]
        np.testing.assert_allclose(rb.metric(text)(*batch()), found, rtol=0, atol=1e-9, err_msg=theirs)


@pytest.mark.parametrize("levels", [None, 3])
def test_scikit_learn_and_scipy(levels: int | None) -> None:
    """Linear gain; with few distinct scores both sides average over the orders of ties, of AP and tau excepted."""
    metrics: Any = pytest.importorskip("sklearn.metrics")
    stats: Any = pytest.importorskip("scipy.stats")
    scores, grades, offsets = batch()
    coarse = scores if levels is None else np.floor(scores * levels / scores.max())
    binary, lists = (grades > 1).astype(int), list(pairwise(offsets))
    rows: list[tuple[str, Any, Any]] = [("PairAccuracy", metrics.roc_auc_score, binary)]
    if levels is None:
        rows.append(("AP", metrics.average_precision_score, binary))
        permuted = np.random.default_rng(2).permutation(len(scores)) + 1
        rows.append(("Kendall", lambda y, s: (stats.kendalltau(s, y).statistic + 1) / 2, permuted))
        rows.append(("AP", lambda y, s: metrics.label_ranking_average_precision_score([y], [s]), binary))
    for k in (None, 1, 10):
        for name, score in (("nDCG", metrics.ndcg_score), ("DCG", metrics.dcg_score)):
            text = f"{name}(gain=linear)" + ("" if k is None else f"@{k}")
            assert str(rb.metric(f"{name}_score" + ("" if k is None else f"@{k}"))) == text
            rows.append((text, lambda y, s, k=k, score=score: score([y], [s], k=k), grades))
    for text, theirs, labels in rows:
        found = [theirs(labels[a:b], coarse[a:b]) for a, b in lists]
        here = rb.metric(text)(coarse, labels, offsets)
        np.testing.assert_allclose(here, found, rtol=1e-9, atol=1e-12, err_msg=text)


@pytest.mark.parametrize(("function", "k", "theirs", "text"), problems("metrics of torchmetrics"))
def test_torchmetrics(function: str, k: int | None, theirs: str, text: str) -> None:
    functional: Any = pytest.importorskip("torchmetrics.functional.retrieval")
    assert names_one_or_one_of_several(theirs, text)
    cut = {} if k is None else {"top_k": k}
    scores, grades, offsets = batch()
    # It takes scores beyond 0 to 1 for logits, whose probabilities tie, and items of score 0 as not retrieved.
    scores, labels = (
        (scores + 1) / (scores.max() + 1),
        grades if function == "normalized_dcg" else (grades > 0).astype(int),
    )
    found = [
        float(getattr(functional, f"retrieval_{function}")(torch.tensor(s), torch.tensor(y), **cut))
        for s, y in ((scores[a:b], labels[a:b]) for a, b in pairwise(offsets))
    ]
    np.testing.assert_allclose(rb.metric(text)(scores, labels, offsets), found, rtol=0, atol=2e-6)


@pytest.mark.parametrize("k", [3, 10])
def test_metrics_of_tree_libraries(k: int) -> None:
    """Their means over lists, at scores that constant features leave as they start."""
    scores, grades, offsets = batch()
    features, sizes = np.zeros((len(scores), 1)), np.diff(offsets)
    lgb: Any = pytest.importorskip("lightgbm")
    xgb: Any = pytest.importorskip("xgboost")
    rows = [("ndcg", f"nDCG@{k}", grades), ("map", f"AP(divisor=cutoff)@{k}", (grades > 0).astype(int))]
    for name, text, labels in rows:
        assert names_one_or_one_of_several(f"{name}@{k}", text)
        data = lgb.Dataset(features, labels, group=sizes, init_score=scores, params={"verbosity": -1})
        asked = {"objective": "lambdarank", "metric": name, "eval_at": [k], "verbosity": -1}
        ((_, _, of_lightgbm, _),) = lgb.Booster(asked, data).eval_train()
        matrix = xgb.DMatrix(features, labels, group=sizes, base_margin=scores)
        printed = xgb.Booster({"objective": "rank:ndcg", "eval_metric": f"{name}@{k}"}, [matrix]).eval(matrix)
        expected = float(rb.metric(text)(scores, labels, offsets).mean())
        assert of_lightgbm == pytest.approx(expected, abs=1e-9)
        assert float(printed.rpartition(":")[2]) == pytest.approx(expected, abs=1e-5)
