"""Small data for tree boosting whose features decide the order inside each topic."""

from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import xgboost as xgb

Array = npt.NDArray[Any]

QUIET = {"verbosity": -1, "num_threads": 1, "metric": "none", "num_leaves": 7, "min_data_in_leaf": 10, "seed": 3}
FOREST = {"nthread": 1, "max_depth": 3, "eta": 0.3, "seed": 3, "disable_default_eval_metric": 1}


def planted(n_topics: int = 60, seed: int = 0, *, largest: int = 1) -> tuple[Array, Array, Array]:
    """Features, grades 0 .. `largest` and sizes: two of the five features decide the order inside a topic."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 16, n_topics)
    features = rng.normal(size=(sizes.sum(), 5))
    utility = features[:, 0] - np.abs(features[:, 1]) + 0.3 * rng.normal(size=sizes.sum())
    grades = np.clip(np.floor(utility + largest / 2), 0, largest).astype(np.int64)
    return features, grades, sizes


def lightgbm_data(features: Array, grades: Array, sizes: Array, **others: Any) -> lgb.Dataset:
    return lgb.Dataset(features, grades, group=sizes, free_raw_data=False, params=QUIET, **others).construct()


def xgboost_data(features: Array, grades: Array, sizes: Array) -> xgb.DMatrix:
    data = xgb.DMatrix(features, grades, nthread=1)
    data.set_group(sizes)
    return data


def offsets_of(sizes: Array) -> Array:
    return np.concatenate([[0], np.cumsum(sizes)])
