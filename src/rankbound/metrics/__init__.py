"""Ranking metrics as values: `metric("nDCG@10")` parses a text, `str` returns it, and a call evaluates lists."""

from collections.abc import Iterable

from rankbound.lazy import ArrayLike, Tensor
from rankbound.metrics.base import Metric, values_of
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP
from rankbound.metrics.runs import RunMetric
from rankbound.texts import build, named_kinds, split_text, unknown_name

KINDS: dict[str, type[Metric]] = {
    name: kind for name, kind in named_kinds(__name__, Metric) if kind not in (NormalizedRBP, RankSum)
}
"""The metrics by name, except the two named nRBP, which differ in their parameters."""

HINTS = {
    "MAP": "AP, whose mean over lists is MAP",
    "MRR": "RR, whose mean over lists is MRR",
    "Precision": "P, as in P@10",
    "R": "Recall, as in Recall@10",
    **dict.fromkeys(("HR", "HitRate", "Success"), "Hit, as in Hit@10"),
    **dict.fromkeys(("AUC", "Accuracy"), "PairAccuracy"),
    **dict.fromkeys(("Tau", "KendallTau"), "Kendall"),
}
"""Suggestions for other common names."""

NAMES = ("rankbound", "ir_measures", "trec_eval")


def metric(text: str | Metric, *, names: str = "rankbound") -> Metric:
    """Return the metric that `text` names, with its parameters and cut-off.

    Texts: `nDCG@10`, `nDCG(gain=linear)`, `AP(rel=2)`, `P@5`, `RBP(p=0.8)`, `ERR(max=4)@20`; the metrics' classes
    document their parameters. `nRBP(p=0.95)` is the metric of thesis eq. 2.5; plain `nRBP` is the loss of eq. 2.12,
    which has no persistence.

    Args:
        text: the text, or a metric, which is returned unchanged.
        names: the naming convention, `rankbound`, `ir_measures` or `trec_eval` (whose nDCG has linear gain).

    Returns:
        The metric, which is called with scores, relevance and offsets; `str` gives its text.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), parameter or value.

    >>> str(rb.metric("nDCG(gain=exp2)@10"))
    'nDCG@10'
    >>> str(rb.metric("nDCG@10", names="ir_measures"))
    'nDCG(gain=linear)@10'
    >>> str(rb.metric("map_cut_5", names="trec_eval"))
    'AP@5'
    """
    if names not in NAMES:
        raise ValueError(f"names: found {names!r}, expected one of {', '.join(NAMES)}")
    if isinstance(text, Metric):
        return text
    if names == "rankbound":
        name, parameters, cutoff = split_text(text)
    else:
        from rankbound.names import of_ir_measures, of_trec_eval

        name, parameters, cutoff = of_ir_measures(text) if names == "ir_measures" else of_trec_eval(text)
    if name == NormalizedRBP.name:
        return build(NormalizedRBP if "p" in parameters else RankSum, text, parameters, cutoff)
    if name not in KINDS:
        raise unknown_name("metric", text, name, [*KINDS, NormalizedRBP.name], HINTS | _hint_of_trec_eval(text, name))
    return build(KINDS[name], text, parameters, cutoff)


def _hint_of_trec_eval(text: str, name: str) -> dict[str, str]:
    """Return the metric that trec_eval calls `ndcg_cut_10` as the suggestion for this name; none for other texts."""
    try:
        return {name: f"{metric(text, names='trec_eval')}, which is trec_eval's {text}"} if "_" in name else {}
    except ValueError:
        return {}


def evaluate(
    metrics: str | Metric | Iterable[str | Metric], scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike
) -> dict[str, Tensor]:
    """Evaluate metrics, or their texts, on the same lists with one sort.

    Args:
        metrics: one or several metrics or their texts.
        scores: `(n_items,)`, finite; higher is better.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Returns:
        The values of each list by the metric's text, float64 `(n_lists,)`; NaN where a metric is undefined.

    Raises:
        ValueError: as `Metric.__call__`, or for a text that names no metric.

    >>> rb.evaluate(["nDCG", "RR"], [0.3, 0.1, 0.2], [0, 1, 0], [0, 3])
    {'nDCG': tensor([0.5000], dtype=torch.float64), 'RR': tensor([0.3333], dtype=torch.float64)}
    """
    return values_of(metrics_of(metrics), scores, relevance, offsets)


def metrics_of(metrics: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """Return one or several metrics, or their texts, as a list of metrics."""
    return [metric(one) for one in ([metrics] if isinstance(metrics, str | Metric) else metrics)]


__all__ = ["AdditiveMetric", "Metric", "RunMetric", "evaluate", "metric", "metrics_of"]
