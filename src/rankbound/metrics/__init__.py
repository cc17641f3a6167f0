"""Ranking metrics as values: `metric("nDCG@10")` parses a text, `str` returns it, and a call evaluates lists."""

from rankbound.metrics.base import Metric, evaluate
from rankbound.metrics.linear import RankSum
from rankbound.metrics.shares import NormalizedRBP
from rankbound.registry import named_kinds
from rankbound.texts import build, split_text, unknown_name

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

NAMES = ("rankbound", "ir_measures")


def metric(text: str | Metric, *, names: str = "rankbound") -> Metric:
    """Return the metric that `text` names, with its parameters and cut-off.

    Texts: `nDCG@10`, `nDCG(gain=linear)`, `AP(rel=2)`, `P@5`, `RBP(p=0.8)`, `ERR(max=4)@20`; the metrics' classes
    document their parameters. `nRBP(p=0.95)` is the metric of thesis eq. 2.5; plain `nRBP` is the loss of eq. 2.12,
    which has no persistence.

    Args:
        text: the text, or a metric, which is returned unchanged.
        names: the naming convention, `rankbound` or `ir_measures` (whose nDCG, for example, has linear gain).

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), parameter or value.

    >>> str(metric("nDCG(gain=exp2)@10"))
    'nDCG@10'
    >>> str(metric("nDCG@10", names="ir_measures"))
    'nDCG(gain=linear)@10'
    """
    if names not in NAMES:
        raise ValueError(f"names: found {names!r}, expected one of {', '.join(NAMES)}")
    if isinstance(text, Metric):
        return text
    if names == "ir_measures":
        from rankbound.metrics.ir_measures_names import metric_of_ir_measures

        return metric_of_ir_measures(text)
    name, parameters, cutoff = split_text(text)
    if name == NormalizedRBP.name:
        return build(NormalizedRBP if "p" in parameters else RankSum, text, parameters, cutoff)
    if name not in KINDS:
        raise _unknown(text, name)
    return build(KINDS[name], text, parameters, cutoff)


def _unknown(text: str, name: str) -> ValueError:
    for other, hint in HINTS.items():
        if name.lower() == other.lower():
            return ValueError(f"metric {text!r}: unknown name {name!r}. Did you mean {hint}?")
    return unknown_name("metric", text, name, [*KINDS, NormalizedRBP.name])


__all__ = ["Metric", "evaluate", "metric"]
