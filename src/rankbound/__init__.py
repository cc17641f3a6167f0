"""Ranking metrics, losses and bounds over ragged lists, in linear time and memory.

Names are loaded on first use, which keeps `import rankbound` light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankbound._version import __version__

if TYPE_CHECKING:
    from rankbound import clicks, datasets, plot, preferences, recommendations
    from rankbound.boosting import boosting_metric, boosting_objective, lightgbm_folds, lightgbm_topics, xgboost_topics
    from rankbound.bounds.base import BoundedMetric, bound, bounded
    from rankbound.bounds.extremes import expectation, extremes, maximum, minimum
    from rankbound.bounds.score_distribution import ScoreDistribution, score_distribution
    from rankbound.columns import from_list_column
    from rankbound.compare.runs import compare_runs, evaluate_runs
    from rankbound.evaluation import Evaluation, evaluate_run
    from rankbound.fusion import fuse, tune_fusion
    from rankbound.io.files import pack_lists, read_lists, read_qrels, read_run, write_qrels, write_run
    from rankbound.io.judged import JudgedLists, Qrels, Run
    from rankbound.lists import Batch, Lists, Topic, collate, from_padded, to_padded
    from rankbound.losses import RankingLoss, SmoothLoss, loss
    from rankbound.losses.random_orders import sampled
    from rankbound.metrics import Metric, evaluate, metric
    from rankbound.smooth_ranks import smooth_rank
    from rankbound.training.pairs import evaluate_catalogue
    from rankbound.training.ranker import Ranker, load, train_ranker
    from rankbound.training.recipe import Recipe
    from rankbound.training.splits import (
        CrossValidated,
        Split,
        cross_validate,
        cross_validate_splits,
        leave_last_out,
        split_by_time,
    )

_HOMES = {
    "rankbound.boosting": (
        "boosting_metric",
        "boosting_objective",
        "lightgbm_folds",
        "lightgbm_topics",
        "xgboost_topics",
    ),
    "rankbound.bounds.score_distribution": ("ScoreDistribution", "score_distribution"),
    "rankbound.bounds.extremes": ("expectation", "extremes", "maximum", "minimum"),
    "rankbound.bounds.base": ("BoundedMetric", "bound", "bounded"),
    "rankbound.columns": ("from_list_column",),
    "rankbound.compare.runs": ("compare_runs", "evaluate_runs"),
    "rankbound.evaluation": ("Evaluation", "evaluate_run"),
    "rankbound.fusion": ("fuse", "tune_fusion"),
    "rankbound.io.files": ("pack_lists", "read_lists", "read_qrels", "read_run", "write_qrels", "write_run"),
    "rankbound.io.judged": ("JudgedLists", "Qrels", "Run"),
    "rankbound.lists": ("Batch", "Lists", "Topic", "collate", "from_padded", "to_padded"),
    "rankbound.losses": ("RankingLoss", "SmoothLoss", "loss"),
    "rankbound.losses.random_orders": ("sampled",),
    "rankbound.metrics": ("Metric", "evaluate", "metric"),
    "rankbound.training.pairs": ("evaluate_catalogue",),
    "rankbound.training.ranker": ("Ranker", "load", "train_ranker"),
    "rankbound.training.recipe": ("Recipe",),
    "rankbound.training.splits": (
        "CrossValidated",
        "Split",
        "cross_validate",
        "cross_validate_splits",
        "leave_last_out",
        "split_by_time",
    ),
    "rankbound.smooth_ranks": ("smooth_rank",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("clicks", "datasets", "plot", "preferences", "recommendations")

# Type checkers read lists of texts alone.
__all__ = ["__version__"]
__all__ += ["Batch", "JudgedLists", "Lists", "Qrels", "Run", "Split", "Topic"]
__all__ += ["collate", "from_list_column", "from_padded", "pack_lists", "read_lists", "to_padded"]
__all__ += ["read_qrels", "read_run", "write_qrels", "write_run"]
__all__ += ["Evaluation", "Metric", "compare_runs", "evaluate", "evaluate_run", "evaluate_runs", "metric"]
__all__ += ["clicks", "datasets", "fuse", "plot", "preferences", "recommendations", "tune_fusion"]
__all__ += ["BoundedMetric", "ScoreDistribution", "bound", "bounded", "score_distribution"]
__all__ += ["expectation", "extremes", "maximum", "minimum"]
__all__ += ["RankingLoss", "SmoothLoss", "loss", "sampled", "smooth_rank"]
__all__ += ["CrossValidated", "Ranker", "Recipe", "cross_validate", "cross_validate_splits", "load", "train_ranker"]
__all__ += ["evaluate_catalogue", "leave_last_out", "split_by_time"]
__all__ += ["boosting_metric", "boosting_objective", "lightgbm_folds", "lightgbm_topics", "xgboost_topics"]


if not TYPE_CHECKING:
    # Type checkers know the names from above, and no others.
    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"rankbound.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'rankbound' has no attribute {name!r}")
        return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
