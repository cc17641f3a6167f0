"""Tree boosting with any ranking loss: objectives, metrics and callbacks for LightGBM and XGBoost."""

from rankbound.boosting.evaluation import (
    TopicMetrics,
    boosting_metric,
    lightgbm_folds,
    lightgbm_topics,
    xgboost_topics,
)
from rankbound.boosting.judgements import Judgements
from rankbound.boosting.objective import HESSIANS, RankingObjective, boosting_objective

__all__ = [
    "HESSIANS",
    "Judgements",
    "RankingObjective",
    "TopicMetrics",
    "boosting_metric",
    "boosting_objective",
    "lightgbm_folds",
    "lightgbm_topics",
    "xgboost_topics",
]
