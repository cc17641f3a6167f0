"""The measures of ir_measures with their parameters, as it means them.

Some differ in meaning. nDCG has linear gain, ERR a scale up to grade 4 (gdeval), and the parameter of SetF is the
square of beta. SDCG, INSQ and INST clip grades above `max_rel`, which are refused here, and stop at rank 1,000. For
documents that a run lacks or that are unjudged, see `rankbound.evaluation`.
"""

import math
import re
from contextlib import suppress

from rankbound.texts import split_text, unknown_name

_SAME = (
    "nDCG", "AP", "RR", "P", "Recall", "Rprec", "IPrec", "Bpref", "infAP", "SetP", "SetR", "SetF", "SetAP", "SetRelP",
    "Judged", "RBP", "ERR", "SDCG", "INSQ", "INST", "Compat", "alpha_nDCG", "alpha_DCG", "ERR_IA", "nERR_IA", "P_IA",
    "StRecall", "AP_IA",
)  # fmt: skip
OF_IR_MEASURES = dict(zip(_SAME, _SAME, strict=True)) | {
    "NDCG": "nDCG", "MAP": "AP", "MRR": "RR", "Precision": "P", "R": "Recall", "Success": "Hit", "RPrec": "Rprec",
    "BPref": "Bpref", "MAP_IA": "AP_IA", "NRBP": "novelty_RBP", "nNRBP": "novelty_nRBP",
}  # fmt: skip
"""The names here by those of ir_measures."""

WITHOUT_COUNTERPART = {
    "Accuracy": "it compares relevant with other items by a threshold; PairAccuracy compares grades",
    **dict.fromkeys(("NumQ", "NumRel", "NumRet", "NumRelRet"), "it counts what the data hold"),
    "BPM": "a better item in place of another can worsen it, so that its worst order is not known; INST adapts, too",
    **dict.fromkeys(("NERR8", "NERR9", "NERR10", "NERR11"), "it approximates ERR, which is exact here"),
}
"""Measures of ir_measures that are refused, with the reason."""

DCG_GAINS = {"log2": "linear", "exp-log2": "exp2"}

# The rank at which cwl-eval, which computes some measures of ir_measures, stops.
DEEPEST_OF_CWL = 1000

# The highest grade of gdeval, which computes the ERR of ir_measures.
GDEVAL_SCALE = "4"


def of_ir_measures(text: str) -> tuple[str, dict[str, str], int | None]:
    """Return the metric equal to the measure `text` of ir_measures: `nDCG@10` is `nDCG(gain=linear)@10` here.

    It has the parts that `split_text` returns: name, texts of the parameters, cut-off.

    Raises:
        ValueError: for an unknown measure, or one without a counterpart here, with the reason.
    """
    measure = f"metric {text!r} of ir_measures"
    # IPrec(rel=2)@0.5, where a recall follows the @, is IPrec(rel=2,recall=0.5).
    if match := re.fullmatch(r"\s*IPrec(?:\((.*)\))?@([\d.]+)\s*", str(text)):
        name, given, cutoff = split_text(f"IPrec({','.join(filter(None, (match[1], f'recall={match[2]}')))})")
    else:
        name, given, cutoff = split_text(text)
    if name in WITHOUT_COUNTERPART:
        raise ValueError(f"{measure}: found no counterpart: {WITHOUT_COUNTERPART[name]}")
    if name not in OF_IR_MEASURES:
        raise unknown_name("metric", text, name, OF_IR_MEASURES)
    parameters, ours = {key: value.strip("'\"") for key, value in given.items()}, OF_IR_MEASURES[name]
    if "cutoff" in parameters:
        _, _, cutoff = split_text(f"{name}@{parameters.pop('cutoff')}")
    if parameters.pop("judged_only", "False") != "False":
        raise ValueError(
            f"{measure}: found judged_only, but unjudged items count as not relevant here; expected judged_only=False: "
            "remove the unjudged items from the run"
        )
    if ours == "nDCG":
        discounting = parameters.pop("dcg", "log2")
        if "gains" in parameters or discounting not in DCG_GAINS:
            raise ValueError(f"{measure}: expected dcg='log2' or dcg='exp-log2' and no other gains")
        parameters["gain"] = DCG_GAINS[discounting]
    elif ours == "SetF" and "beta" in parameters:
        with suppress(ValueError):  # Other texts than numbers are refused later.
            parameters["beta"] = repr(math.sqrt(float(parameters["beta"])))
    elif ours == "SetP" and parameters.pop("relative", "False") != "False":
        ours = "SetRelP"
    elif ours in ("SDCG", "INSQ", "INST"):
        if parameters.pop("min_rel", "0") != "0" or parameters.pop("dcg", "log2") != "log2":
            raise ValueError(f"{measure}: expected grades from 0 (min_rel=0), and dcg='log2'")
        if "max_rel" in parameters:
            parameters["max"] = parameters.pop("max_rel")
        cutoff = min(cutoff or DEEPEST_OF_CWL, DEEPEST_OF_CWL) if cutoff or ours != "SDCG" else None
    elif ours == "Compat" and parameters.pop("normalize", "True") != "True":
        raise ValueError(f"{measure}: found normalize=False, expected True: here it is over that of the ideal ranking")
    elif ours == "ERR":
        parameters["max"] = GDEVAL_SCALE
    elif ours == "RBP":
        if "rel" not in parameters:
            raise ValueError(
                f"{measure}: without rel it has graded gains, which RBP lacks here; expected a threshold, as in "
                "RBP(p=0.8,rel=1)"
            )
        parameters.setdefault("p", "0.8")
    return ours, parameters, cutoff
