"""Figures of the bounds (thesis, chapters 1 and 3): worst orders, expectations, bounded losses, distributions."""

from collections.abc import Callable
from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec
from rankbound_study.templates import text

FILE = "figures_bounds.md"
FIGURES = Catalogue(FigureSpec, FILE)

SIZES = (25, 50, 100, 200)


@FIGURES.add("figure_1_1")
def lower_bounds() -> Any:
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
    return style.finish(figure, axes, legend=4)


RATIOS = (1, 2, 3, 5, 10)
LARGEST = 100


@FIGURES.add("figure_3_2")
def expected_loss() -> Any:
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
    return style.finish(figure, axes, legend=5)


LISTS = (
    ("NSR 2", ((15, 5), (30, 10), (60, 20))),
    ("NSR 1, 2, 3", ((20, 10), (30, 10), (40, 10))),
)
"""(title, (N, P) of three lists): one ratio of non-relevant to relevant items, then three."""

METRICS = ("nDCG", "AP", "nRBP")
_STYLED = tuple(dict.fromkeys(pair for _, pairs in LISTS for pair in pairs))
_BOUNDINGS = {
    "figure_3_1": "min-max",
    "figure_3_3": "expectation",
    "figure_3_4": "expectation-max",
    "figure_3_7": "distribution",
}
POINTS = {"losses": 601, "gains": 400, "curves": 300}


def _of_lists(curve: Callable[[str, int, int], tuple[Any, Any]], *, marks: int, **sharing: Any) -> tuple[Any, Any]:
    """Draw sets of three lists in rows, metrics in columns; a list has one style in both rows, and the name X(N, P)."""
    figure, axes = style.panels(len(LISTS), len(METRICS), height=4.2, **sharing)
    for row, (_, lists) in enumerate(LISTS):
        for column, metric in enumerate(METRICS):
            for n, p in lists:
                look = style.SERIES[_STYLED.index((n, p))]
                style.line(axes[row, column], *curve(metric, n, p), look, label=f"X({n}, {p})", marks=marks)
    for panel in axes[-1]:
        panel.locator_params(axis="x", nbins=5)
    return figure, axes


def bounded_loss(*, bounding: str) -> Any:
    """Draw bounded losses against unbounded ones, from the best to the worst order.

    nDCG and AP are bounded first and then negated (the order that gives expectation-max its best value of -1); the nRBP
    loss (equation 2.12, lower is better) is bounded directly.
    """

    def losses(metric: str, n: int, p: int) -> tuple[Any, Any]:
        low, high = (np.asarray(extreme(metric, n, p), dtype=float) for extreme in (rb.minimum, rb.maximum))
        values = np.linspace(low, high, POINTS["losses"])
        bounded = rb.bounded(metric, bounding).from_value(values, np.full(len(values), n), np.full(len(values), p))
        return (values, bounded) if metric == "nRBP" else (-values, -np.asarray(bounded))

    figure, axes = _of_lists(losses, marks=5, sharex="col", sharey="col")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(f"{metric} loss" if metric == "nRBP" else f"{metric} loss (−{metric})")
        axes[-1, column].set_xlabel("unbounded loss")
    for panel in axes[:, 0]:
        panel.set_ylabel("bounded loss")
    return style.finish(figure, axes, f"{bounding} bounding", rows=[title for title, _ in LISTS], legend=5)


for _name, _bounding in _BOUNDINGS.items():
    _caption = text(FILE, "bounded-loss", bounding=_bounding)
    FIGURES.add(_name, _caption, arguments={"bounding": _bounding})(bounded_loss)


SHORT_LISTS = ((8, 4), (15, 5))
GAINS = (1, 4, 16, 64)


@FIGURES.add("figure_3_5")
def gains() -> Any:
    """Draw X(8,4) and X(15,5) in rows, metrics in columns; the steps are algorithm 1, the lines algorithm 2."""
    figure, axes = style.panels(len(SHORT_LISTS), len(METRICS), height=4.2, sharey=True)
    for row, (n, p) in enumerate(SHORT_LISTS):
        for panel, metric in zip(axes[row], METRICS, strict=True):
            of_orders = rb.score_distribution(metric, n=n, p=p, method="exact")
            margin = 0.06 * (of_orders.maximum - of_orders.minimum)
            x = np.linspace(of_orders.minimum - margin, of_orders.maximum + margin, POINTS["gains"])
            support = np.concatenate([x[:1], of_orders.support, x[-1:]])
            steps = np.concatenate([[0.0], np.cumsum(of_orders.probability), [1.0]])
            panel.step(support, steps, where="post", color=style.INK, linewidth=1.4, label="all orders")
            for gain, look in zip(GAINS, style.SERIES[1:], strict=False):
                smooth = of_orders.smooth_cdf(x, gain=float(gain))
                style.line(panel, x, smooth, look, label=f"gain {gain}", marks=5)
    return _cumulative(figure, axes, [f"N = {n}, P = {p}" for n, p in SHORT_LISTS])


@FIGURES.add("figure_3_6")
def smooth_distributions() -> Any:
    """Draw the distributions of algorithm 2 with a(D) = distinct scores / their range."""

    def curve(metric: str, n: int, p: int) -> tuple[Any, Any]:
        of_orders = rb.score_distribution(metric, n=n, p=p, method="exact")
        x = np.linspace(of_orders.minimum, of_orders.maximum, POINTS["curves"])
        return x, of_orders.smooth_cdf(x, gain="distinct")

    figure, axes = _of_lists(curve, marks=6, sharex="col", sharey=True)
    return _cumulative(figure, axes, [title for title, _ in LISTS])


def _cumulative(figure: Any, axes: Any, rows: list[str]) -> Any:
    """Label the panels of distributions of scores."""
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(metric)
        axes[-1, column].set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
    for panel in axes[:, 0]:
        panel.set_ylabel("cumulative probability")
    axes[0, 0].set_ylim(-0.02, 1.02)
    return style.finish(figure, axes, rows=rows, legend=5)
