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


def judged_run(seed: int, n_items: int, by_intent: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Topics with retrieved and unretrieved, judged and unjudged items; the first judged one is relevant.

    Scores are above 0, which is the score of unretrieved items in the Compat of ir_measures.
    """
    random = np.random.default_rng(seed)
    pool = [f"d{item:02}" for item in range(n_items)]

    def judged() -> dict[str, int]:
        items = random.permutation(pool)[: random.integers(1, n_items)].tolist()
        return dict(zip(items, random.choice(4, len(items), p=[0.6, 0.2, 0.1, 0.1]).tolist(), strict=True)) | {
            items[0]: 3
        }

    run, qrels = {}, {}
    for topic in range(30):
        retrieved = random.permutation(pool)[: random.integers(1, n_items)].tolist()
        run[f"q{topic}"] = dict(zip(retrieved, (random.permutation(len(retrieved)) + 1.0).tolist(), strict=True))
        qrels[f"q{topic}"] = (
            {str(intent + 1): judged() for intent in range(random.integers(1, 6))} if by_intent else judged()
        )
    return run, qrels


# One text there is read here by names="ir_measures".
IR_MEASURES = {
    "lists": (
        *("nDCG", "nDCG@10", "AP", "AP(rel=2)", "AP@5", "AP(rel=2)@10", "RR", "RR(rel=2)", "RR@3", "P@5", "P(rel=2)@5"),
        *("R@10", "R(rel=2)@4", "Success@5", "Success(rel=4)@2", "Rprec", "Rprec(rel=2)"),
        *("IPrec@0.0", "IPrec@0.1", "IPrec@0.5", "IPrec(rel=2)@0.8", "IPrec@1.0"),
        *("Bpref", "Bpref(rel=2)", "infAP", "infAP(rel=2)"),
    ),
    # gdeval: exponential gain, ERR on a scale up to 4; it prints five digits.
    "gdeval": ("nDCG(dcg='exp-log2')@10", "nDCG(dcg='exp-log2')@3", "ERR@5", "ERR@20"),
    "a run": (
        *("Rprec", "Rprec(rel=2)", "IPrec@0.1", "IPrec(rel=2)@0.5", "SetP", "SetP(rel=2)", "SetR", "SetR(rel=3)"),
        *("SetAP", "SetAP(rel=2)", "SetRelP", "SetP(relative=True,rel=2)", "Compat", "Compat(p=0.8)"),
        *("SDCG(max_rel=3)@1", "SDCG(max_rel=4)@10", "INSQ(max_rel=3)", "INSQ(T=2.5,max_rel=5)"),
        *("INST(max_rel=3)", "INST(T=2.5,max_rel=5)", "INST(T=1.0,max_rel=3,min_rel=0)"),
        *("SetF", "SetF(beta=4.0)", "SetF(beta=0.5,rel=2)", "Bpref", "Bpref(rel=2)", "infAP", "infAP(rel=2)"),
        *("Judged@1", "Judged@5", "Judged@100", "Judged"),
    ),
    "intents": (
        *("alpha_nDCG@10", "alpha_nDCG(alpha=0.3,rel=2)@5", "ERR_IA@10", "ERR_IA(rel=2)@20"),
        *("alpha_DCG@10", "alpha_DCG(alpha=0.3,rel=2)@5", "nERR_IA@10", "nERR_IA(rel=2)@3", "P_IA@5", "P_IA(rel=2)@10"),
        *("StRecall@1", "StRecall(rel=2)@5"),
    ),
    # ndeval stops at rank 20.
    "short runs": (
        "AP_IA",
        "MAP_IA(rel=2)",
        "NRBP",
        "NRBP(alpha=0.3,beta=0.8,rel=2)",
        "nNRBP",
        "nNRBP(alpha=0.2,beta=0.7)",
    ),
}


@pytest.mark.parametrize(
    ("source", "text"), [(source, text) for source, texts in IR_MEASURES.items() for text in texts]
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
        run, qrels = judged_run(1, n_items, by_intent) if by_intent or source == "a run" else qrels_and_run()[::-1]
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


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.0, 1.0])
@pytest.mark.parametrize(("rel", "cutoff"), [(1, 20), (2, 10), (1, 3)])
def test_ndeval(alpha: float, rel: int, cutoff: int) -> None:
    pyndeval = pytest.importorskip("pyndeval")
    run, judged = judged_run(1, 30, by_intent=True)
    rows = [(q, t, i, y) for q, intents in judged.items() for t, items in intents.items() for i, y in items.items()]
    retrieved = [(q, item, score) for q, items in run.items() for item, score in items.items()]
    names = [f"alpha-nDCG@{cutoff}", f"ERR-IA@{cutoff}"]
    theirs = (
        pyndeval.ndeval(rows, retrieved, names, alpha=alpha)
        if rel == 1
        else pyndeval.RelevanceEvaluator(rows, names, relevance_level=rel, alpha=alpha).evaluate(retrieved)
    )
    ours = [f"{name}(rel={rel},alpha={alpha})@{cutoff}" for name in ("alpha_nDCG", "ERR_IA")]
    found = rb.evaluate_run(run, judged, ours)
    for values, name in zip(found.values.values(), names, strict=True):
        np.testing.assert_allclose(values, [theirs[topic][name] for topic in found.topics], rtol=0, atol=1e-9)


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
    "r-precision": "Rprec",
    "dcg@5": "DCG(gain=linear)@5",
    "dcg_burges@5": "DCG@5",
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
        assert names_one_or_one_of_several(theirs, text)
        found = [run_of_ranx.scores[theirs][f"{t}"] for t in range(N_LISTS)]
        np.testing.assert_allclose(rb.metric(text)(*batch()), found, rtol=0, atol=1e-9, err_msg=theirs)


@pytest.mark.parametrize("levels", [None, 3])
def test_scikit_learn(levels: int | None) -> None:
    """Linear gain; with few distinct scores both sides average over the orders of ties, of AP excepted."""
    metrics: Any = pytest.importorskip("sklearn.metrics")
    scores, grades, offsets = batch()
    coarse = scores if levels is None else np.floor(scores * levels / scores.max())
    binary, lists = (grades > 1).astype(int), list(pairwise(offsets))
    rows: list[tuple[str, Any, Any]] = [("PairAccuracy", metrics.roc_auc_score, binary)]
    if levels is None:
        rows.append(("AP", metrics.average_precision_score, binary))
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


def test_scipy_kendall() -> None:
    """Without ties in either the statistic is (tau + 1)/2."""
    stats: Any = pytest.importorskip("scipy.stats")
    scores, _, offsets = batch()
    other = np.random.default_rng(2).permutation(len(scores)) + 1
    lists = list(pairwise(offsets))
    found = [(stats.kendalltau(scores[a:b], other[a:b]).statistic + 1) / 2 for a, b in lists]
    np.testing.assert_allclose(rb.metric("Kendall")(scores, other, offsets), found, rtol=0, atol=1e-9)


# torchmetrics: its function, a name that people give it, and what that is here.
TORCHMETRICS = [
    ("average_precision", None, "RetrievalMAP", "AP"),
    ("average_precision", 3, "RetrievalMAP@3", "AP(divisor=found)@3"),
    ("average_precision", 3, "map@3", "AP(divisor=found)@3"),
    ("reciprocal_rank", None, "RetrievalMRR", "RR"),
    ("reciprocal_rank", 2, "mrr@2", "RR@2"),
    ("precision", 3, "RetrievalPrecision@3", "P@3"),
    ("recall", 3, "RetrievalRecall@3", "Recall@3"),
    ("hit_rate", 2, "RetrievalHitRate@2", "Hit@2"),
    ("r_precision", None, "RetrievalRPrecision", "Rprec"),
    ("auroc", None, "RetrievalAUROC", "PairAccuracy"),
    ("normalized_dcg", 5, "RetrievalNormalizedDCG@5", "nDCG(gain=linear)@5"),
    ("normalized_dcg", 5, "ndcg@5", "nDCG(gain=linear)@5"),
]


@pytest.mark.parametrize(("function", "k", "theirs", "text"), TORCHMETRICS)
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
