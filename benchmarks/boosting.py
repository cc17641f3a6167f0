"""Question 8: how long does a boosted tree take with our objectives, compared with LightGBM's own lambdarank?"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.rows import OURS, Row, rows_of
from benchmarks.run import Run
from benchmarks.timing import Contender, race

TITLE = "Objectives of tree boosting"
ABOUT = """\
One tree of LightGBM (15 leaves, half of the features, one thread), gradient and Hessian included, on generated
data: 470 lists of 20 with 46 features, the size of a fold of MQ2008, and 2,000 lists of 120 with 136 features; a fifth
of the rows has grade 1 or 2. Trees start from standard normal scores, which a learning rate of 1e-4 hardly moves, so
that all trees are alike. Ours are `rankbound.boosting_objective`; the peer is LightGBM's objective `lambdarank`."""
SETTINGS = ("default",)

PEER = "LightGBM lambdarank"
OBJECTIVES: Mapping[str, Mapping[str, str]] = {
    "LambdaRank": {"of": "LambdaRank"},
    "RankNet": {"of": "RankNet"},
    "nDCG": {"of": "nDCG"},
    "nDCG min-max": {"of": "nDCG", "bound": "min-max"},
    "nDCG@10 min-max": {"of": "nDCG@10", "bound": "min-max"},
    "AP min-max": {"of": "AP", "bound": "min-max"},
}
SIZES = {"470 x 20": (470, 20, 46), "2,000 x 120": (2_000, 120, 136)}
"""Lists, rows of a list, and features."""
_QUICK_SIZES = {"20 x 20": (20, 20, 46)}
TREES = {
    "num_leaves": 15,
    "learning_rate": 1e-4,
    "feature_fraction": 0.5,
    "metric": "none",
    "num_threads": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
}


def measure(run: Run) -> list[Row]:
    """Race each objective with LightGBM's own on each size, one thread."""
    rows = []
    for place, (size, numbers) in enumerate((_QUICK_SIZES if run.quick else SIZES).items()):
        data = _generate(*numbers)
        for objective, options in OBJECTIVES.items():
            label = f"{objective}, {size}"
            if find_spec("lightgbm") is None:
                rows.append(Row(label, place, OURS, note="lightgbm is not installed"))
                continue
            run.tell(label)
            rows += rows_of(race(_contenders(options, data, run.peers), run.pace), label, place)
    return rows


def _generate(lists: int, n: int, features: int) -> dict[str, Any]:
    """Return what a LightGBM data set is made of."""
    random = np.random.default_rng(0)
    data = random.normal(size=(lists * n, features))
    label = np.digitize(data[:, 0] - data[:, 1] + random.normal(size=len(data)), [1.5, 3.0])
    return {"data": data, "label": label, "group": np.full(lists, n), "init_score": random.normal(size=len(data))}


def _contenders(options: Mapping[str, str], data: Mapping[str, Any], peers: bool) -> list[Contender]:
    import lightgbm as lgb

    import rankbound as rb

    ours = lgb.Booster({**TREES, "objective": "none"}, lgb.Dataset(**data))
    contenders = [Contender(OURS, partial(ours.update, fobj=rb.boosting_objective(**options)))]
    if peers:
        theirs = lgb.Booster({**TREES, "objective": "lambdarank"}, lgb.Dataset(**data))
        contenders.append(Contender(PEER, theirs.update))
    return contenders
