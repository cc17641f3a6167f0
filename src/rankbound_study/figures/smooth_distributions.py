"""Figure 3.6: smooth score distributions with the gain of equation 3.13, which depends on the number of scores."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.instances import METRICS, ROWS, list_label, list_style
from rankbound_study.figures.spec import FigureSpec

SPECS = {
    "figure_3_6": FigureSpec(
        "Smooth cumulative distributions (algorithm 2) with the gain a(D) of equation 3.13. Top: three lists X(N, P) "
        "at NSR 2; bottom: three lists with 10 relevant items at NSR 1, 2, 3."
    )
}

POINTS = 300


def draw() -> Any:
    """Draw sets of three lists in rows, metrics in columns; algorithm 2 with a(D) = distinct scores / their range."""
    figure, axes = style.panels(len(ROWS), len(METRICS), height=4.2, sharex="col", sharey=True)
    for row, (_, lists) in enumerate(ROWS):
        for column, metric in enumerate(METRICS):
            for n, p in lists:
                x, cumulative = _curve(metric, n, p)
                style.line(axes[row, column], x, cumulative, list_style(n, p), label=list_label(n, p), marks=6)
        axes[row, 0].set_ylabel("cumulative probability")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(metric)
        axes[-1, column].set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
        axes[-1, column].locator_params(axis="x", nbins=5)
    axes[0, 0].set_ylim(-0.02, 1.02)
    style.row_titles(axes, [title for title, _ in ROWS])
    style.shared_legend(figure, axes, columns=5)
    return figure


def _curve(metric: str, n: int, p: int) -> tuple[Any, Any]:
    distribution = rb.score_distribution(metric, n=n, p=p, method="exact")
    x = np.linspace(distribution.minimum, distribution.maximum, POINTS)
    return x, distribution.smooth_cdf(x, gain="distinct")
