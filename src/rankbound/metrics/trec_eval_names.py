"""Translation of trec_eval's names of measures: `ndcg_cut_10`, `map`, `P_5`, `iprec_at_recall_0.10`."""

import re

from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.base import Metric
from rankbound.metrics.binary_preference import BinaryPreference
from rankbound.metrics.cumulative_gain import NDCG
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.inferred_average_precision import InferredAveragePrecision
from rankbound.metrics.interpolated_precision import InterpolatedPrecision
from rankbound.metrics.r_precision import RPrecision
from rankbound.metrics.retrieved_set import SetF, SetPrecision, SetRecall
from rankbound.metrics.shares import Precision, Recall
from rankbound.texts import build, unknown_name

WHOLE: dict[str, type[Metric]] = {
    "ndcg": NDCG,
    "map": AveragePrecision,
    "recip_rank": ReciprocalRank,
    "Rprec": RPrecision,
    "bpref": BinaryPreference,
    "infAP": InferredAveragePrecision,
    "set_P": SetPrecision,
    "set_recall": SetRecall,
    "set_F": SetF,
}
"""The measures of whole lists."""

CUT: dict[str, type[Metric]] = {
    "ndcg_cut": NDCG,
    "map_cut": AveragePrecision,
    "P": Precision,
    "recall": Recall,
    "success": Hit,
}
"""The measures with a cut-off, `P_5` or `P.5`."""


def metric_of_trec_eval(text: str) -> Metric:
    """Return the metric equal to the measure `text` of trec_eval: `ndcg_cut_10` is `nDCG(gain=linear)@10` here.

    Raises:
        ValueError: for an unknown measure, or one without a cut-off that needs it.
    """
    if match := re.fullmatch(r"iprec_at_recall[_.]([\d.]+)", text):
        return build(InterpolatedPrecision, text, {"recall": match[1]}, None)
    name, cutoff = text, None
    if match := re.fullmatch(r"(.+)[_.](\d+)", text):
        name, cutoff = match[1], int(match[2])
    kinds = WHOLE if cutoff is None else CUT
    if name not in kinds:
        if name in CUT:
            raise ValueError(f"metric {text!r} of trec_eval: expected a cut-off, as in {name}_10")
        known = [*WHOLE, *(f"{one}_10" for one in CUT), "iprec_at_recall_0.10"]
        raise unknown_name("metric", text, name, known)
    return build(kinds[name], text, {"gain": "linear"} if kinds[name] is NDCG else {}, cutoff)
