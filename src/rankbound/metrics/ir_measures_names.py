"""Translation of the measure texts of the library ir_measures; measures without a counterpart are errors.

Some names differ in meaning: nDCG of ir_measures has linear gain, its ERR has a scale up to grade 4 (gdeval), its
Success is `Hit`, and the parameter of its SetF is the square of beta. For documents that a run lacks or that are
unjudged, see `rankbound.evaluation`.
"""

import math
import re
from collections.abc import Mapping

from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.base import Metric
from rankbound.metrics.binary_preference import BinaryPreference
from rankbound.metrics.cascade import ERR
from rankbound.metrics.cumulative_gain import NDCG
from rankbound.metrics.first_relevant import Hit, ReciprocalRank
from rankbound.metrics.inferred_average_precision import InferredAveragePrecision
from rankbound.metrics.intents import AlphaNDCG, IntentAwareERR
from rankbound.metrics.interpolated_precision import InterpolatedPrecision
from rankbound.metrics.judged_share import Judged
from rankbound.metrics.r_precision import RPrecision
from rankbound.metrics.retrieved_set import SetF, SetPrecision, SetRecall
from rankbound.metrics.shares import RBP, Precision, Recall
from rankbound.texts import build, split_text, unknown_name

# The highest grade of gdeval, which computes the ERR of ir_measures.
GDEVAL_SCALE = "4"

DCG_GAINS = {"log2": "linear", "exp-log2": "exp2"}

KINDS: dict[str, type[Metric]] = {
    **dict.fromkeys(("nDCG", "NDCG"), NDCG),
    **dict.fromkeys(("AP", "MAP"), AveragePrecision),
    **dict.fromkeys(("RR", "MRR"), ReciprocalRank),
    **dict.fromkeys(("P", "Precision"), Precision),
    **dict.fromkeys(("R", "Recall"), Recall),
    "Success": Hit,
    **dict.fromkeys(("Rprec", "RPrec"), RPrecision),
    "IPrec": InterpolatedPrecision,
    **dict.fromkeys(("Bpref", "BPref"), BinaryPreference),
    "infAP": InferredAveragePrecision,
    "SetP": SetPrecision,
    "SetR": SetRecall,
    "SetF": SetF,
    "Judged": Judged,
    "RBP": RBP,
    "ERR": ERR,
    "alpha_nDCG": AlphaNDCG,
    "ERR_IA": IntentAwareERR,
}

WITHOUT_COUNTERPART = {
    "Accuracy": "it compares relevant with other items by a threshold; PairAccuracy compares grades",
    **dict.fromkeys(("NumQ", "NumRel", "NumRet", "NumRelRet"), "it counts what the data hold"),
    **dict.fromkeys(
        ("alpha_DCG", "AP_IA", "MAP_IA", "nERR_IA", "nNRBP", "NRBP", "P_IA", "StRecall"),
        "of the measures of intents there are alpha_nDCG and ERR_IA",
    ),
    **dict.fromkeys(("SetAP", "SetRelP", "Compat"), "no metric here computes it"),
    **dict.fromkeys(("BPM", "INSQ", "INST", "SDCG"), "no metric here computes it"),
    **dict.fromkeys(("NERR8", "NERR9", "NERR10", "NERR11"), "no metric here computes it"),
}


def metric_of_ir_measures(text: str) -> Metric:
    """Return the metric equal to the measure `text` of ir_measures: `nDCG@10` is `nDCG(gain=linear)@10` here.

    Raises:
        ValueError: for an unknown measure, or one without a counterpart here, with the reason.
    """
    name, given, cutoff = split_text(_with_recall_inside(text))
    if name in WITHOUT_COUNTERPART:
        raise ValueError(f"metric {text!r} of ir_measures: found no counterpart: {WITHOUT_COUNTERPART[name]}")
    if name not in KINDS:
        raise unknown_name("metric", text, name, KINDS)
    parameters = {key: value.strip("'\"") for key, value in given.items()}
    if "cutoff" in parameters:
        _, _, cutoff = split_text(f"{name}@{parameters.pop('cutoff')}")
    if parameters.pop("judged_only", "False") != "False":
        raise ValueError(
            f"metric {text!r} of ir_measures: found judged_only, but unjudged items count as not relevant here; "
            "expected judged_only=False: remove the unjudged items from the run"
        )
    return build(KINDS[name], text, _translated(KINDS[name], text, parameters), cutoff)


def _with_recall_inside(text: str) -> str:
    """Return `IPrec(rel=2)@0.5`, where `@` is followed by the recall, as `IPrec(rel=2,recall=0.5)`."""
    if match := re.fullmatch(r"\s*IPrec(?:\((.*)\))?@([\d.]+)\s*", str(text)):
        return f"IPrec({','.join(filter(None, (match[1], f'recall={match[2]}')))})"
    return text


def _translated(kind: type[Metric], text: str, parameters: Mapping[str, str]) -> Mapping[str, str]:
    """Translate the parameters to the names and defaults of this library."""
    if kind is NDCG:
        if "gains" in parameters or parameters.get("dcg", "log2") not in DCG_GAINS:
            raise ValueError(
                f"metric {text!r} of ir_measures: expected dcg='log2' or dcg='exp-log2' and no other gains"
            )
        rest = {key: value for key, value in parameters.items() if key != "dcg"}
        return {**rest, "gain": DCG_GAINS[parameters.get("dcg", "log2")]}
    if kind is SetF and "beta" in parameters:
        return {**parameters, "beta": _square_root(parameters["beta"])}
    if kind is ERR:
        return {**parameters, "max": GDEVAL_SCALE}
    if kind is RBP:
        if "rel" not in parameters:
            raise ValueError(
                f"metric {text!r} of ir_measures: without rel it has graded gains, which RBP lacks here; "
                "expected a threshold, as in RBP(p=0.8,rel=1)"
            )
        return {"p": "0.8", **parameters}
    return parameters


def _square_root(number: str) -> str:
    """Return the square root of a number; other texts, which are refused later, unchanged."""
    try:
        return repr(math.sqrt(float(number)))
    except ValueError:
        return number
