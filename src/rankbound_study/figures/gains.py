"""Figure 3.5: the distribution of the scores of all orders, and its smooth versions with sigmoids of fixed gain."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.instances import METRICS
from rankbound_study.figures.spec import FigureSpec

SPECS = {
    "figure_3_5": FigureSpec(
        "Cumulative distribution of the scores of all orders (steps) and its smooth versions (algorithm 2) with gains "
        "1, 4, 16 and 64, for lists of 8 items with 4 relevant ones and of 15 with 5."
    )
}

LISTS = ((8, 4), (15, 5))
GAINS = (1, 4, 16, 64)
POINTS = 400


def draw() -> Any:
    """Draw X(8,4) and X(15,5) in rows, metrics in columns; the steps are algorithm 1, the lines algorithm 2."""
    figure, axes = style.panels(len(LISTS), len(METRICS), height=4.2, sharey=True)
    for row, (n, p) in enumerate(LISTS):
        for column, metric in enumerate(METRICS):
            _panel(axes[row, column], rb.score_distribution(metric, n=n, p=p, method="exact"))
        axes[row, 0].set_ylabel("cumulative probability")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(metric)
        axes[-1, column].set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
    axes[0, 0].set_ylim(-0.02, 1.02)
    style.row_titles(axes, [f"N = {n}, P = {p}" for n, p in LISTS])
    style.shared_legend(figure, axes, columns=5)
    return figure


def _panel(axes: Any, distribution: Any) -> None:
    margin = 0.06 * (distribution.maximum - distribution.minimum)
    x = np.linspace(distribution.minimum - margin, distribution.maximum + margin, POINTS)
    axes.step(
        np.concatenate([x[:1], distribution.support, x[-1:]]),
        np.concatenate([[0.0], np.cumsum(distribution.probability), [1.0]]),
        where="post",
        color=style.INK,
        linewidth=1.4,
        label="all orders",
    )
    for gain, look in zip(GAINS, style.SERIES[1:], strict=False):
        style.line(axes, x, distribution.smooth_cdf(x, gain=float(gain)), look, label=f"gain {gain}", marks=5)
