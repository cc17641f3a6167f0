"""Figures of the scores of topics, bounded against unbounded: boundings in rows, data sets in columns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec, one_per_loss
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.specs import described
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import BOUNDED, JUDGED_BY, UNBOUNDED

SPECS: dict[str, FigureSpec] = {}

Column = tuple[Any, tuple[float, float], pl.DataFrame, Iterator[tuple[Any, pl.DataFrame]]]
"""The uppermost panel of a data set, its axis of scores, its scores, and all its panels, each with pairs of scores."""


def _multiples(
    runs: Path, choice: RunsChoice, loss: str, epochs: Path | None, **sharing: Any
) -> tuple[Any, Any, list[DataSet], Iterator[Column]]:
    """Return a figure, its axes, the data sets, and the columns to draw, where what did not train is hatched."""
    metric = JUDGED_BY[loss]
    frame = scores.per_topic(scores.read_scores(runs, [metric], choice), [metric])
    frame = frame.filter(pl.col("loss") == loss)
    untrained = untrained_cells(scores.chosen_trainings(runs, epochs, choice))
    sets = scores.data_sets(frame)
    figure, axes = style.panels(len(BOUNDED), len(sets), height=4.3, **sharing)

    def panels(data_set: DataSet, of_set: pl.DataFrame, column: Any) -> Iterator[tuple[Any, pl.DataFrame]]:
        for panel, bounding in zip(column, BOUNDED, strict=True):
            if {(*data_set, loss, UNBOUNDED), (*data_set, loss, bounding)} & untrained:
                style.mark_untrained(panel)
            yield panel, scores.paired(of_set, loss, bounding, metric)

    def columns() -> Iterator[Column]:
        for data_set, column in zip(sets, axes.T, strict=True):
            of_set = scores.of_data_set(frame, data_set)
            yield column[0], _limits(frame, data_set.dataset, metric), of_set, panels(data_set, of_set, column)
            column[0].set_title(data_set.title)

    return figure, axes, sets, columns()


def _limits(frame: pl.DataFrame, dataset: str, metric: str) -> tuple[float, float]:
    """Return the score axis of a data set, from its smallest score, rounded down to a multiple of 0.05, to 1."""
    smallest = frame.filter(pl.col("dataset") == dataset)[metric].min()
    low = 0.0 if smallest is None else float(np.floor(float(smallest) * 20) / 20)  # type: ignore[arg-type]
    return max(min(low, 0.9), 0.0) - 0.005, 1.005


def _finish(figure: Any, axes: Any, x: str, y: str, title: str, *, legend: int) -> Any:
    """Label rows and axes, and draw a legend of that many columns."""
    style.outer_labels(figure, axes, x, y)
    style.row_titles(axes, BOUNDED)
    style.shared_legend(figure, axes, columns=legend)
    figure.suptitle(title)
    return figure


@described(
    SPECS,
    **one_per_loss(
        5,
        2,
        "Share of topics whose {metric} is at most x, trained on the bounded and on the unbounded {loss} loss; grey "
        "where the bounded share is lower (fewer topics score that low).",
    ),
)
def score_distributions(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw the shares of topics that score at most x; grey where the bounded loss has the smaller share (better)."""
    metric = JUDGED_BY[loss]
    figure, axes, sets, columns = _multiples(runs, choice, loss, epochs, sharey=True, sharex="col")
    for top, limits, _, panels in columns:
        for panel, pairs in panels:
            _distributions(panel, pairs)
        top.set_xlim(*limits)
        top.locator_params(axis="x", nbins=3)
    axes[0, 0].set_yticks([0, 0.5, 1])
    title = scores.heading(f"{metric} per topic, trained on {loss}: bounded against unbounded", choice, sets)
    return _finish(figure, axes, metric, "share of topics with a score ≤ x", title, legend=4)


def _distributions(axes: Any, pairs: pl.DataFrame) -> None:
    if pairs.is_empty():
        style.empty_panel(axes)
        return
    grid = np.unique(np.concatenate([pairs["unbounded"].to_numpy(), pairs["bounded"].to_numpy(), [0.0, 1.0]]))
    unbounded = _shares(pairs["unbounded"], grid)
    bounded = _shares(pairs["bounded"], grid)
    axes.broken_barh(
        _runs_of(bounded < unbounded, grid), (0, 1), color=style.SHADE, linewidth=0, label="bounded share is lower"
    )
    plain, dashed = style.SERIES[0], style.SERIES[2]
    axes.plot(grid, unbounded, drawstyle="steps-post", color=plain.color, linewidth=1.0, label="unbounded")
    axes.plot(
        grid, bounded, drawstyle="steps-post", color=dashed.color, linestyle=(0, (3, 1)), linewidth=1.1, label="bounded"
    )


def _runs_of(where: Any, grid: Any) -> list[tuple[float, float]]:
    """Return (start, width) of the longest stretches of the grid where the condition holds."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], where, [False]]).astype(np.int8)))
    starts, ends = edges[::2], np.minimum(edges[1::2], len(grid) - 1)
    return [(float(grid[start]), float(grid[end] - grid[start])) for start, end in zip(starts, ends, strict=True)]


def _shares(values: pl.Series, grid: Any) -> Any:
    return np.searchsorted(np.sort(values.to_numpy()), grid, side="right") / len(values)


@described(
    SPECS,
    **one_per_loss(
        5, 5, "{metric} of each topic, trained on the bounded {loss} loss (y) against the unbounded one (x)."
    ),
)
def score_pairs(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw the topics' scores; points above the diagonal are topics that the bounding improves."""
    metric = JUDGED_BY[loss]
    figure, axes, sets, columns = _multiples(runs, choice, loss, epochs, sharex="col", sharey="col")
    for top, limits, _, panels in columns:
        for panel, pairs in panels:
            _pairs(panel, pairs, limits)
        top.set(xlim=limits, ylim=limits)
        top.locator_params(nbins=3)
    title = f"{metric} per topic, trained on {loss}: bounded (y) against unbounded (x)"
    title = scores.heading(title, choice, sets)
    return _finish(figure, axes, "unbounded", f"{metric}, bounded loss", title, legend=1)


def _pairs(axes: Any, pairs: pl.DataFrame, limits: tuple[float, float]) -> None:
    if pairs.is_empty():
        style.empty_panel(axes)
        return
    axes.plot(limits, limits, color=style.MUTED, linewidth=0.7, linestyle=(0, (4, 2)), label="_equal scores")
    style.points(axes, pairs["unbounded"].to_numpy(), pairs["bounded"].to_numpy(), label="topic", in_legend=False)
    above = int((pairs["bounded"] > pairs["unbounded"]).sum())
    below = int((pairs["bounded"] < pairs["unbounded"]).sum())
    style.note(axes, f"{above} above", (0.04, 0.96), ha="left", va="top")
    style.note(axes, f"{below} below", (0.98, 0.04), ha="right", va="bottom")


LINEAR_WITHIN = 0.01
"""Largest difference on the linear part of the axis: most differences are about 0.001, some 0.1."""

LABELLED = (-0.1, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.1)
"""Differences labelled at the axis; labels of 1, which few topics come near, would leave too little room."""

DENSITY_LEVELS = (0.9, 0.5)
GROUPS = 8
_GRID = 72


@described(
    SPECS,
    **one_per_loss(
        5,
        8,
        "Difference in {metric} (bounded minus unbounded {loss} loss; higher is better) against the number of "
        "relevant items of a topic, on an axis that is linear within ±0.01 and logarithmic beyond. Contours of a "
        "Gaussian kernel density contain 50 and 90 percent of the topics; the line joins the means of up to eight "
        "groups of topics of about equal size, ordered by their number of relevant items.",
    ),
)
def score_differences(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw the topics' differences by their number of relevant items; those above zero are improvements."""
    metric = JUDGED_BY[loss]
    figure, axes, sets, columns = _multiples(runs, choice, loss, epochs, sharex="col", sharey=True)
    axes[0, 0].set_yscale("symlog", linthresh=LINEAR_WITHIN, linscale=1.0)
    largest = 2 * LINEAR_WITHIN
    bottoms = iter(axes[-1])
    for top, _, of_set, panels in columns:
        top.set_xscale("log")
        for panel, pairs in panels:
            _differences(panel, pairs)
            largest = max(largest, 1.3 * _largest_difference(pairs))
        _plain_ticks(next(bottoms), of_set)
    axes[0, 0].set_yticks(LABELLED, [f"{tick:g}".replace("-", "−") for tick in LABELLED])
    axes[0, 0].set_yticks([-1, 1], minor=True)
    axes[0, 0].set_ylim(-largest, largest)
    title = f"Difference in {metric} per topic, bounded minus unbounded {loss} loss"
    title = scores.heading(title, choice, sets)
    return _finish(figure, axes, "relevant items", f"difference in {metric}", title, legend=3)


def _largest_difference(pairs: pl.DataFrame) -> float:
    return 0.0 if pairs.is_empty() else float((pairs["bounded"] - pairs["unbounded"]).abs().max())  # type: ignore[arg-type]


def _differences(axes: Any, pairs: pl.DataFrame) -> None:
    if pairs.is_empty():
        style.empty_panel(axes)
        return
    relevant = pairs["p"].to_numpy()
    difference = (pairs["bounded"] - pairs["unbounded"]).to_numpy()
    axes.axhline(0, color=style.MUTED, linewidth=0.7, label="_no difference")
    style.points(axes, relevant, difference, label="topic")
    _density(axes, relevant, difference)
    centres, means = _group_means(relevant, difference)
    axes.plot(centres, means, color=style.VERMILION, linewidth=1.3, marker="o", markersize=2.4, label="mean of a group")


def _density(axes: Any, relevant: Any, difference: Any) -> None:
    """Draw contours of a Gaussian kernel estimate in the axes' scales, unless the points do not span a plane."""
    from scipy.stats import gaussian_kde

    scale = axes.yaxis.get_transform()
    points = np.vstack([np.log10(relevant), scale.transform(difference)])
    # The estimate of a numerically singular covariance would show rounding errors only.
    if points.shape[1] < 10 or np.linalg.cond(np.cov(points)) > 1e8 or not points.std(axis=1).all():
        return
    density = gaussian_kde(points)
    low, high = points.min(axis=1), points.max(axis=1)
    margin = 0.15 * (high - low)
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], _GRID) for i in range(2))
    mesh = np.meshgrid(x, y)
    values = density(np.vstack([part.ravel() for part in mesh])).reshape(mesh[0].shape)
    levels = _levels(values)
    if levels[0] < levels[1]:
        contours = axes.contour(
            10 ** mesh[0],
            scale.inverted().transform(mesh[1].ravel()).reshape(mesh[1].shape),
            values,
            levels=levels,
            colors=style.BLUE,
            linewidths=(0.8, 1.2),
            linestyles=("dashed", "solid"),
        )
        contours.set_label("_density: 50 % of topics within the unbroken line, 90 % within the dashed one")
        axes.plot([], [], color=style.BLUE, linewidth=1.2, label="density: 50 % (dashed: 90 %)")


def _levels(values: Any) -> list[float]:
    """Return the density levels that enclose the given shares of the mass, ascending."""
    descending = np.sort(values.ravel())[::-1]
    mass = np.cumsum(descending) / descending.sum()
    return [float(descending[np.searchsorted(mass, share)]) for share in DENSITY_LEVELS]


def _group_means(relevant: Any, difference: Any) -> tuple[list[float], list[float]]:
    """Return means of groups of about equal size along `relevant`; topics with equal counts share a group."""
    edges = np.unique(np.quantile(relevant, np.linspace(0, 1, GROUPS + 1)[1:-1]))
    group = np.searchsorted(edges, relevant, side="left")
    places = np.unique(group)
    return (
        [float(relevant[group == place].mean()) for place in places],
        [float(difference[group == place].mean()) for place in places],
    )


def _plain_ticks(axes: Any, of_set: pl.DataFrame) -> None:
    largest = of_set["p"].max()
    ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000) if largest is None or tick <= 1.5 * float(largest)]  # type: ignore[arg-type]
    smallest = of_set.filter(pl.col("p") > 0)["p"].min()
    ticks = [tick for tick in ticks if smallest is None or tick >= 0.5 * float(smallest)] or ticks  # type: ignore[arg-type]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    if smallest is not None and largest is not None:
        axes.set_xlim(0.75 * float(smallest), 1.4 * float(largest))  # type: ignore[arg-type]
