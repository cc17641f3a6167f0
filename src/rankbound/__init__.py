"""Ranking metrics, losses and bounds over ragged lists, in linear time and memory.

Names are loaded on first use, so that `import rankbound` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rankbound._version import __version__

if TYPE_CHECKING:
    from rankbound.bounds.bounded import BoundedMetric, bounded
    from rankbound.bounds.distribution import ScoreDistribution, score_distribution
    from rankbound.bounds.extremes import expectation, extremes, maximum, minimum
    from rankbound.bounds.kinds import bound
    from rankbound.losses import RankingLoss, SmoothLoss, loss
    from rankbound.metrics import Metric, evaluate, metric
    from rankbound.smooth_ranks import smooth_rank

_HOMES = {
    "rankbound.bounds.bounded": ("BoundedMetric", "bounded"),
    "rankbound.bounds.distribution": ("ScoreDistribution", "score_distribution"),
    "rankbound.bounds.extremes": ("expectation", "extremes", "maximum", "minimum"),
    "rankbound.bounds.kinds": ("bound",),
    "rankbound.losses": ("RankingLoss", "SmoothLoss", "loss"),
    "rankbound.metrics": ("Metric", "evaluate", "metric"),
    "rankbound.smooth_ranks": ("smooth_rank",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BoundedMetric",
    "Metric",
    "RankingLoss",
    "ScoreDistribution",
    "SmoothLoss",
    "__version__",
    "bound",
    "bounded",
    "evaluate",
    "expectation",
    "extremes",
    "loss",
    "maximum",
    "metric",
    "minimum",
    "score_distribution",
    "smooth_rank",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rankbound' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
