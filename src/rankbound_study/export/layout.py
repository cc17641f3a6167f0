"""The place of an exported run: a folder for all runs judged by one file of qrels, and a descriptive name."""

import json
import re
from collections.abc import Sequence

from rankbound_study.export.kept import Kept

NAMED = ("study", "protocol", "model", "loss", "bounding", "selection")
"""The keys that distinguish the runs of a data set, besides the seed, in the order of their names."""

QRELS = "qrels.txt"
RUNS = "runs"


def lists_folder(kept: Kept, all_folds: Sequence[int]) -> str:
    """Return the folder of all runs on the same test lists: `movielens-nsr1`, `mq2008-label1`.

    If a training was tested on other lists than its data set's, or only on some folds, the name says so:
    `movielens-nsr3_tested-at-nsr1_folds-1-2`.
    """
    key = kept.key
    dataset, trained, tested = key["dataset"], key["nsr_train"], key["nsr_test"]
    relevant = json.loads(key["options"]).get("test_relevant")
    parts = [
        dataset if trained is None else f"{dataset}-nsr{trained}",
        "" if trained == tested else f"tested-at-nsr{tested}",
        f"relevant-{relevant}" if relevant else "",
        "" if set(kept.folds) == set(all_folds) else f"folds-{'-'.join(map(str, kept.folds))}",
    ]
    return _file_name("_".join(filter(None, parts)))


def run_name(kept: Kept) -> str:
    """Return a run's file name and tag: `thesis_published_mlp_nDCG_min-max_test_seed0`."""
    return _file_name("_".join([*(str(kept.key[name]) for name in NAMED), f"seed{kept.seed}"]))


def _file_name(text: str) -> str:
    """Return the text without characters that are special to file systems or shells; it is never hidden, or `..`."""
    return re.sub(r"[^\w.@=+-]+", "-", text).lstrip(".") or "-"
