"""Figure 1.1: the score of the worst ordering against the share of relevant items, by list size."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec

SPECS = {
    "figure_1_1": FigureSpec(
        "Lower bounds of nDCG and AP: score of the worst ordering against the share of relevant items, by list size N."
    )
}

SIZES = (25, 50, 100, 200)


def draw() -> Any:
    """Draw a panel each for nDCG and AP, with a line per list size N over P = 1..N."""
    figure, axes = style.panels(1, 2, height=2.9, sharex=True, sharey=True)
    for panel, metric in zip(axes[0], ("nDCG", "AP"), strict=True):
        for n, look in zip(SIZES, style.SERIES, strict=False):
            relevant = np.arange(1, n + 1)
            floor = rb.minimum(metric, np.full(n, n), relevant)
            style.line(panel, relevant / n, floor, look, label=f"N = {n}", marks=6)
        panel.set_title(metric)
        panel.set_xlabel("share of relevant items, P / N")
    axes[0, 0].set_ylabel("score of the worst ordering")
    axes[0, 0].set(xlim=(0, 1), ylim=(0, 1))
    style.shared_legend(figure, axes, columns=4)
    return figure
