"""The parameters of the measures of ir_measures, as it means them.

Some differ in meaning. nDCG has linear gain, ERR a scale up to grade 4 (gdeval), and the parameter of SetF is the
square of beta. SDCG, INSQ and INST clip grades above `max_rel`, which are refused here, and stop at rank 1,000. For
documents that a run lacks or that are unjudged, see `rankbound.evaluation`.
"""

import math
import re
from contextlib import suppress

from rankbound.texts import split_text

# The rank at which cwl-eval, which computes some measures of ir_measures, stops.
DEEPEST_OF_CWL = 1000

# The highest grade of gdeval, which computes the ERR of ir_measures.
GDEVAL_SCALE = "4"


def of_ir_measures(text: str) -> str:
    """Return the measure `text` of ir_measures with the parameters that it has here; its name is a row of `names.csv`.

    Raises:
        ValueError: for parameters without a counterpart here, with the reason.
    """
    measure = f"metric {text!r} of ir_measures"
    # IPrec(rel=2)@0.5, where a recall follows the @, is IPrec(rel=2,recall=0.5).
    if match := re.fullmatch(r"\s*IPrec(?:\((.*)\))?@([\d.]+)\s*", str(text)):
        name, given, cutoff = split_text(f"IPrec({','.join(filter(None, (match[1], f'recall={match[2]}')))})")
    else:
        name, given, cutoff = split_text(text)
    parameters = {key: value.strip("'\"") for key, value in given.items()}
    if "cutoff" in parameters:
        _, _, cutoff = split_text(f"{name}@{parameters.pop('cutoff')}")
    if parameters.pop("judged_only", "False") != "False":
        raise ValueError(
            f"{measure}: found judged_only, but unjudged items count as not relevant here; expected judged_only=False: "
            "remove the unjudged items from the run"
        )
    if name in ("nDCG", "NDCG"):
        discounting = parameters.pop("dcg", "log2")
        if "gains" in parameters or discounting not in ("log2", "exp-log2"):
            raise ValueError(f"{measure}: expected dcg='log2' or dcg='exp-log2' and no other gains")
        parameters["gain"] = "linear" if discounting == "log2" else "exp2"
    elif name == "SetF" and "beta" in parameters:
        with suppress(ValueError):  # Other texts than numbers are refused later.
            parameters["beta"] = repr(math.sqrt(float(parameters["beta"])))
    elif name == "SetP" and parameters.pop("relative", "False") != "False":
        name = "SetRelP"
    elif name in ("SDCG", "INSQ", "INST"):
        if parameters.pop("min_rel", "0") != "0" or parameters.pop("dcg", "log2") != "log2":
            raise ValueError(f"{measure}: expected grades from 0 (min_rel=0), and dcg='log2'")
        if "max_rel" in parameters:
            parameters["max"] = parameters.pop("max_rel")
        cutoff = min(cutoff or DEEPEST_OF_CWL, DEEPEST_OF_CWL) if cutoff or name != "SDCG" else None
    elif name == "Compat" and parameters.pop("normalize", "True") != "True":
        raise ValueError(f"{measure}: found normalize=False, expected True: here it is over that of the ideal ranking")
    elif name == "ERR":
        parameters["max"] = GDEVAL_SCALE
    elif name == "RBP":
        if "rel" not in parameters:
            raise ValueError(
                f"{measure}: without rel it has graded gains, which RBP lacks here; expected a threshold, as in "
                "RBP(p=0.8,rel=1)"
            )
        parameters.setdefault("p", "0.8")
    written = ",".join(f"{key}={value}" for key, value in parameters.items())
    return name + (f"({written})" if written else "") + (f"@{cutoff}" if cutoff else "")
