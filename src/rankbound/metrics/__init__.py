"""Ranking metrics as values: `metric("nDCG@10")` reads a text, `str` writes it back, and a call evaluates lists."""

from rankbound.metrics.additive import DCG, NDCG, RBP, NormalizedRBP, Precision, RankSum
from rankbound.metrics.base import Metric, evaluate
from rankbound.metrics.relevant_ranks import AveragePrecision, ReciprocalRank
from rankbound.texts import build, split_text, unknown_name

KINDS: dict[str, type[Metric]] = {
    kind.name: kind for kind in (NDCG, DCG, AveragePrecision, ReciprocalRank, Precision, RBP)
}


def metric(text: str | Metric) -> Metric:
    """The metric that `text` names: nDCG, DCG, AP, RR, P, RBP or nRBP, with parameters and cut-off.

    Texts: `nDCG@10`, `nDCG(gain=linear)`, `AP(rel=2)`, `P@5`, `RBP(p=0.8)`. `nRBP(p=0.95)` is the metric of thesis
    eq. 2.5; plain `nRBP` is the loss of eq. 2.12, which has no persistence.

    Raises:
        ValueError: for an unknown name (with the nearest known one), parameter or value.

    >>> str(metric("nDCG(gain=exp2)@10"))
    'nDCG@10'
    """
    if isinstance(text, Metric):
        return text
    name, parameters, cutoff = split_text(text)
    if name == NormalizedRBP.name:
        return build(NormalizedRBP if "p" in parameters else RankSum, text, parameters, cutoff)
    if name not in KINDS:
        raise unknown_name("metric", text, name, [*KINDS, NormalizedRBP.name])
    return build(KINDS[name], text, parameters, cutoff)


__all__ = [
    "DCG",
    "NDCG",
    "RBP",
    "AveragePrecision",
    "Metric",
    "NormalizedRBP",
    "Precision",
    "RankSum",
    "ReciprocalRank",
    "evaluate",
    "metric",
]
