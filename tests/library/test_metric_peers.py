"""Agreement with the public evaluators on random graded runs without ties, for each metric they share.

The peers' conventions differ; the table says what a metric of theirs is called here. Every list has a relevant item,
since without one they disagree (0, 1, or left out; NaN here). Where ties count, scikit-learn averages over them too.
"""

import re
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import rankbound as rb

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


def ours(text: str) -> Floats:
    return np.asarray(rb.metric(text)(*batch()))


def each() -> list[tuple[Floats, npt.NDArray[np.int64]]]:
    scores, grades, offsets = batch()
    return [(scores[a:b], grades[a:b]) for a, b in pairwise(offsets)]


@cache
def qrels_and_run() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    qrels = {f"{t}": {f"d{i}": int(y) for i, y in enumerate(grades)} for t, (_, grades) in enumerate(each())}
    run = {f"{t}": {f"d{i}": float(s) for i, s in enumerate(scores)} for t, (scores, _) in enumerate(each())}
    return qrels, run


# trec_eval: thresholds by relevance_level, AP cut off keeps all relevant items in the denominator.
PYTREC_EVAL = (
    *("ndcg", "ndcg_cut_10", "map", "map_cut_5", "recip_rank", "P_5", "recall_5", "success_5", "Rprec", "bpref"),
    *("infAP", "iprec_at_recall_0.30"),
)


@pytest.mark.parametrize("theirs", PYTREC_EVAL)
@pytest.mark.parametrize("rel", [1, 2])
def test_pytrec_eval(theirs: str, rel: int) -> None:
    pytrec_eval = pytest.importorskip("pytrec_eval")
    qrels, run = qrels_and_run()
    asked = re.sub(r"_(?=[\d.]+$)", ".", theirs)
    found = pytrec_eval.RelevanceEvaluator(qrels, {asked}, relevance_level=rel).evaluate(run)
    metric = rb.metric(theirs, names="trec_eval")
    here = replace(metric, rel=rel) if hasattr(metric, "rel") else metric
    np.testing.assert_allclose(here(*batch()), [found[f"{t}"][theirs] for t in range(N_LISTS)], rtol=0, atol=1e-9)


# One text there is read here by names="ir_measures".
IR_MEASURES = (
    *("nDCG", "nDCG@10", "AP", "AP(rel=2)", "AP@5", "AP(rel=2)@10", "RR", "RR(rel=2)", "RR@3", "P@5", "P(rel=2)@5"),
    *("R@10", "R(rel=2)@4", "Success@5", "Success(rel=4)@2", "Rprec", "Rprec(rel=2)"),
    *("IPrec@0.0", "IPrec@0.1", "IPrec@0.5", "IPrec(rel=2)@0.8", "IPrec@1.0"),
    *("Bpref", "Bpref(rel=2)", "infAP", "infAP(rel=2)"),
)


@pytest.mark.parametrize("text", IR_MEASURES)
def test_ir_measures(text: str) -> None:
    found = of_ir_measures(text)
    here = np.asarray(rb.metric(text, names="ir_measures")(*batch()))
    np.testing.assert_allclose(here, found, rtol=0, atol=1e-9)


@pytest.mark.parametrize("text", ["nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@3", "ERR@5", "ERR@20"])
def test_ir_measures_by_gdeval(text: str) -> None:
    """gdeval: exponential gain, ERR on a scale up to 4; it prints five digits."""
    ir_measures = pytest.importorskip("ir_measures")
    if not ir_measures.gdeval.is_available():
        pytest.skip("gdeval needs perl")
    here = np.asarray(rb.metric(text, names="ir_measures")(*batch()))
    np.testing.assert_allclose(here, of_ir_measures(text), rtol=0, atol=5.1e-6)


def of_ir_measures(text: str) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its parser uses ast.Num and others
        ir_measures = pytest.importorskip("ir_measures")
        measure = ir_measures.parse_measure(text)
        qrels, run = qrels_and_run()
        found = {value.query_id: value.value for value in ir_measures.iter_calc([measure], qrels, run)}
    return [found[f"{t}"] for t in range(N_LISTS)]


# ranx: ndcg has linear gain, ndcg_burges exponential gain; map@k divides by all relevant items.
RANX = {
    "ndcg": "nDCG(gain=linear)",
    "ndcg@10": "nDCG(gain=linear)@10",
    "ndcg_burges": "nDCG",
    "ndcg_burges@5": "nDCG@5",
    "map": "AP",
    "mrr": "RR",
    "mrr@3": "RR@3",
    "precision@5": "P@5",
    "recall@5": "Recall@5",
    "hit_rate@2": "Hit@2",
}


def test_ranx(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its functions take half a minute to compile, for lists that they evaluate uncompiled in no time.
    monkeypatch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, of its own compiling
        ranx = pytest.importorskip("ranx")
        qrels, run = qrels_and_run()
        judged = {t: {d: y for d, y in grades.items() if y} for t, grades in qrels.items()}
        run_of_ranx = ranx.Run(run)
        ranx.evaluate(ranx.Qrels(judged), run_of_ranx, list(RANX), make_comparable=False)
    for theirs, text in RANX.items():
        found = [run_of_ranx.scores[theirs][f"{t}"] for t in range(N_LISTS)]
        np.testing.assert_allclose(ours(text), found, rtol=0, atol=1e-9, err_msg=theirs)


@pytest.mark.parametrize("k", [None, 1, 10])
@pytest.mark.parametrize("levels", [None, 3])
def test_scikit_learn_ndcg(k: int | None, levels: int | None) -> None:
    """Linear gain; with few distinct scores both sides average over the orders of ties."""
    metrics: Any = pytest.importorskip("sklearn.metrics")
    scores, grades, offsets = batch()
    coarse = scores if levels is None else np.floor(scores * levels / scores.max())
    cutoff = "" if k is None else f"@{k}"
    theirs = {"nDCG": metrics.ndcg_score, "DCG": metrics.dcg_score}
    for name, score in theirs.items():
        found = [score([grades[a:b]], [coarse[a:b]], k=k) for a, b in pairwise(offsets)]
        here = rb.metric(f"{name}(gain=linear){cutoff}")(coarse, grades, offsets)
        np.testing.assert_allclose(here, found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("levels", [None, 3])
def test_scikit_learn_area_under_the_roc_curve_is_pair_accuracy(levels: int | None) -> None:
    metrics: Any = pytest.importorskip("sklearn.metrics")
    scores, grades, offsets = batch()
    coarse = scores if levels is None else np.floor(scores * levels / scores.max())
    binary = (grades > 1).astype(int)
    lists = list(pairwise(offsets))
    found = [metrics.roc_auc_score(binary[a:b], coarse[a:b]) for a, b in lists]
    np.testing.assert_allclose(rb.metric("PairAccuracy")(coarse, binary, offsets), found, rtol=0, atol=1e-9)


def test_scikit_learn_average_precision() -> None:
    metrics: Any = pytest.importorskip("sklearn.metrics")
    found = [metrics.average_precision_score(grades > 1, scores) for scores, grades in each()]
    np.testing.assert_allclose(ours("AP(rel=2)"), found, rtol=0, atol=1e-9)


def test_scipy_kendall() -> None:
    """Without ties in either the statistic is (tau + 1)/2."""
    stats: Any = pytest.importorskip("scipy.stats")
    scores, _, offsets = batch()
    other = np.random.default_rng(2).permutation(len(scores)) + 1
    lists = list(pairwise(offsets))
    found = [(stats.kendalltau(scores[a:b], other[a:b]).statistic + 1) / 2 for a, b in lists]
    np.testing.assert_allclose(rb.metric("Kendall")(scores, other, offsets), found, rtol=0, atol=1e-9)
