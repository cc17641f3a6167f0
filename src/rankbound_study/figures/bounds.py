"""Figures of the bounds (thesis, chapters 1 and 3): worst orders, expectations, bounded losses, distributions."""

from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.specs import described

SPECS: dict[str, FigureSpec] = {}

SIZES = (25, 50, 100, 200)


@described(
    SPECS,
    figure_1_1=FigureSpec(
        "Lower bounds of nDCG and AP: score of the worst ordering against the share of relevant items, by list size N."
    ),
)
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
    style.shared_legend(figure, axes, columns=4)
    return figure


RATIOS = (1, 2, 3, 5, 10)
LARGEST = 100


@described(
    SPECS,
    figure_3_2=FigureSpec(
        "Expected loss of a random order against the number of relevant items P, by negative sampling ratio (NSR)."
    ),
)
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
    style.shared_legend(figure, axes, columns=5)
    return figure


LISTS = (
    ("NSR 2", ((15, 5), (30, 10), (60, 20))),
    ("NSR 1, 2, 3", ((20, 10), (30, 10), (40, 10))),
)
"""(title, (N, P) of three lists): one ratio of non-relevant to relevant items, then three."""

METRICS = ("nDCG", "AP", "nRBP")
_STYLED = tuple(dict.fromkeys(pair for _, pairs in LISTS for pair in pairs))


def _list_style(n: int, p: int) -> style.LineStyle:
    """Return the line style of a list, the same in both rows."""
    return style.SERIES[_STYLED.index((n, p))]


def _list_label(n: int, p: int) -> str:
    """Return a list's size in the notation of the thesis: X(N, P)."""
    return f"X({n}, {p})"


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
LOSS_POINTS = 601


@described(
    SPECS,
    **{
        name: FigureSpec(_CAPTION.format(bounding=bounding), {"bounding": bounding})
        for name, bounding in _BOUNDINGS.items()
    },
)
def bounded_loss(*, bounding: str) -> Any:
    """Draw sets of three lists in rows, losses in columns.

    nDCG and AP are bounded first and then negated (the order that gives expectation-max its best value of -1); the nRBP
    loss (equation 2.12, lower is better) is bounded directly.
    """
    figure, axes = style.panels(len(LISTS), len(METRICS), height=4.2, sharex="col", sharey="col")
    for row, (_, lists) in enumerate(LISTS):
        for column, metric in enumerate(METRICS):
            for n, p in lists:
                unbounded, bounded = _losses(metric, bounding, n, p)
                style.line(axes[row, column], unbounded, bounded, _list_style(n, p), label=_list_label(n, p), marks=5)
        axes[row, 0].set_ylabel("bounded loss")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(f"{metric} loss" if metric == "nRBP" else f"{metric} loss (−{metric})")
        axes[-1, column].set_xlabel("unbounded loss")
        axes[-1, column].locator_params(axis="x", nbins=5)
    style.row_titles(axes, [title for title, _ in LISTS])
    style.shared_legend(figure, axes, columns=5)
    figure.suptitle(f"{bounding} bounding")
    return figure


def _losses(metric: str, bounding: str, n: int, p: int) -> tuple[Any, Any]:
    low, high = (np.asarray(extreme(metric, n, p), dtype=float) for extreme in (rb.minimum, rb.maximum))
    values = np.linspace(low, high, LOSS_POINTS)
    bounded = rb.bounded(metric, bounding).from_value(values, np.full(LOSS_POINTS, n), np.full(LOSS_POINTS, p))
    return (values, bounded) if metric == "nRBP" else (-values, -np.asarray(bounded))


SHORT_LISTS = ((8, 4), (15, 5))
GAINS = (1, 4, 16, 64)
GAIN_POINTS = 400


@described(
    SPECS,
    figure_3_5=FigureSpec(
        "Cumulative distribution of the scores of all orders (steps) and its smooth versions (algorithm 2) with gains "
        "1, 4, 16 and 64, for lists of 8 items with 4 relevant ones and of 15 with 5."
    ),
)
def gains() -> Any:
    """Draw X(8,4) and X(15,5) in rows, metrics in columns; the steps are algorithm 1, the lines algorithm 2."""
    figure, axes = style.panels(len(SHORT_LISTS), len(METRICS), height=4.2, sharey=True)
    for row, (n, p) in enumerate(SHORT_LISTS):
        for column, metric in enumerate(METRICS):
            _gains_panel(axes[row, column], rb.score_distribution(metric, n=n, p=p, method="exact"))
        axes[row, 0].set_ylabel("cumulative probability")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(metric)
        axes[-1, column].set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
    axes[0, 0].set_ylim(-0.02, 1.02)
    style.row_titles(axes, [f"N = {n}, P = {p}" for n, p in SHORT_LISTS])
    style.shared_legend(figure, axes, columns=5)
    return figure


def _gains_panel(axes: Any, distribution: Any) -> None:
    margin = 0.06 * (distribution.maximum - distribution.minimum)
    x = np.linspace(distribution.minimum - margin, distribution.maximum + margin, GAIN_POINTS)
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


CURVE_POINTS = 300


@described(
    SPECS,
    figure_3_6=FigureSpec(
        "Smooth cumulative distributions (algorithm 2) with the gain a(D) of equation 3.13. Top: three lists X(N, P) "
        "at NSR 2; bottom: three lists with 10 relevant items at NSR 1, 2, 3."
    ),
)
def smooth_distributions() -> Any:
    """Draw sets of three lists in rows, metrics in columns; algorithm 2 with a(D) = distinct scores / their range."""
    figure, axes = style.panels(len(LISTS), len(METRICS), height=4.2, sharex="col", sharey=True)
    for row, (_, lists) in enumerate(LISTS):
        for column, metric in enumerate(METRICS):
            for n, p in lists:
                x, cumulative = _curve(metric, n, p)
                style.line(axes[row, column], x, cumulative, _list_style(n, p), label=_list_label(n, p), marks=6)
        axes[row, 0].set_ylabel("cumulative probability")
    for column, metric in enumerate(METRICS):
        axes[0, column].set_title(metric)
        axes[-1, column].set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
        axes[-1, column].locator_params(axis="x", nbins=5)
    axes[0, 0].set_ylim(-0.02, 1.02)
    style.row_titles(axes, [title for title, _ in LISTS])
    style.shared_legend(figure, axes, columns=5)
    return figure


def _curve(metric: str, n: int, p: int) -> tuple[Any, Any]:
    distribution = rb.score_distribution(metric, n=n, p=p, method="exact")
    x = np.linspace(distribution.minimum, distribution.maximum, CURVE_POINTS)
    return x, distribution.smooth_cdf(x, gain="distinct")
