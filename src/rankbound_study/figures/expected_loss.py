"""Figure 3.2: the expected loss of a random order against the number of relevant items, by negative sampling ratio."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec

SPECS = {
    "figure_3_2": FigureSpec(
        "Expected loss of a random order against the number of relevant items P, by negative sampling ratio (NSR)."
    )
}

RATIOS = (1, 2, 3, 5, 10)
LARGEST = 100


def draw() -> Any:
    """Draw panels of -E[nDCG], -E[AP] and E[nRBP loss]; a list has N = P (1 + NSR) items."""
    figure, axes = style.panels(1, 3, height=2.7, sharex=True)
    relevant = np.arange(1, LARGEST + 1)
    for panel, metric in zip(axes[0], ("nDCG", "AP", "nRBP"), strict=True):
        sign = 1.0 if metric == "nRBP" else -1.0
        for ratio, look in zip(RATIOS, style.SERIES, strict=False):
            expected = sign * np.asarray(rb.expectation(metric, relevant * (1 + ratio), relevant))
            style.line(panel, relevant, expected, look, label=f"NSR {ratio}", marks=5)
        panel.set_title(f"{metric} loss")
        panel.set_xlabel("relevant items P")
    axes[0, 0].set_ylabel("expected loss of a random order")
    axes[0, 0].set_xlim(0, LARGEST)
    axes[0, 2].set_yscale("log")
    style.shared_legend(figure, axes, columns=5)
    return figure
