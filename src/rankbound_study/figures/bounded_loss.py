"""Figures 3.1, 3.3, 3.4 and 3.7: the bounded loss against the unbounded one, from a list's best to its worst order."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.instances import METRICS, ROWS, list_label, list_style
from rankbound_study.figures.spec import FigureSpec

_CAPTION = (
    "Bounded loss against unbounded loss, {bounding} bounding, for every value between the best and the worst order of "
    "X(N, P), a list of N items with P relevant ones. Top: three lists at NSR 2; bottom: three lists with 10 relevant "
    "items at NSR 1, 2, 3. nDCG and AP are bounded first and then negated; the nRBP loss is bounded directly."
)
_BOUNDINGS = {
    "figure_3_1": "min-max",
    "figure_3_3": "expectation",
    "figure_3_4": "expectation-max",
    "figure_3_7": "distribution",
}
SPECS = {
    name: FigureSpec(_CAPTION.format(bounding=bounding), {"bounding": bounding})
    for name, bounding in _BOUNDINGS.items()
}

POINTS = 601


def draw(*, bounding: str) -> Any:
    """Draw sets of three lists in rows, losses in columns.

    nDCG and AP are bounded first and then negated (the order that gives expectation-max its best value of -1); the nRBP
    loss (equation 2.12, lower is better) is bounded directly.
    """
    figure, axes = style.panels(len(ROWS), len(METRICS), height=4.2, sharex="col", sharey="col")
    for row, (_, lists) in enumerate(ROWS):
        for column, metric in enumerate(METRICS):
            for n, p in lists:
                unbounded, bounded = _losses(metric, bounding, n, p)
                style.line(axes[row, column], unbounded, bounded, list_style(n, p), label=list_label(n, p), marks=5)
        axes[row, 0].set_ylabel("bounded loss")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(f"{metric} loss" if metric == "nRBP" else f"{metric} loss (−{metric})")
        axes[-1, column].set_xlabel("unbounded loss")
        axes[-1, column].locator_params(axis="x", nbins=5)
    style.row_titles(axes, [title for title, _ in ROWS])
    style.shared_legend(figure, axes, columns=5)
    figure.suptitle(f"{bounding} bounding")
    return figure


def _losses(metric: str, bounding: str, n: int, p: int) -> tuple[Any, Any]:
    low, high = (np.asarray(extreme(metric, n, p), dtype=float) for extreme in (rb.minimum, rb.maximum))
    values = np.linspace(low, high, POINTS)
    bounded = rb.bounded(metric, bounding).from_value(values, np.full(POINTS, n), np.full(POINTS, p))
    return (values, bounded) if metric == "nRBP" else (-values, -np.asarray(bounded))
