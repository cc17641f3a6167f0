"""Figures 5.8 to 5.10: the change by a bounding for each topic, against the topic's number of relevant items."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound_study.figures import style
from rankbound_study.figures.spec import one_per_loss
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.trained import untrained_cells
from rankbound_study.vocabulary import BOUNDED, JUDGED_BY, UNBOUNDED

SPECS = one_per_loss(
    5,
    8,
    "Difference in {metric} (bounded minus unbounded {loss} loss; higher is better) against the number of relevant "
    "items of a topic, on an axis that is linear within ±0.01 and logarithmic beyond. Contours of a Gaussian kernel "
    "density contain 50 and 90 percent of the topics; the line joins the means of up to eight groups of topics of "
    "about equal size, ordered by their number of relevant items.",
)

LINEAR_WITHIN = 0.01
"""Largest difference on the linear part of the axis: most differences are about 0.001, some 0.1."""

LABELLED = (-0.1, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.1)
"""Differences labelled at the axis; labels of 1, which few topics come near, would leave too little room."""

DENSITY_LEVELS = (0.9, 0.5)
GROUPS = 8
_GRID = 72


def draw(runs: Path, choice: RunsChoice, *, loss: str, epochs: Path | None = None) -> Any:
    """Draw boundings in rows, data sets in columns; differences above zero are improvements."""
    metric = JUDGED_BY[loss]
    frame = scores.per_topic(scores.read_scores(runs, [metric], choice), [metric])
    frame = frame.filter(pl.col("loss") == loss)
    untrained = untrained_cells(scores.chosen_trainings(runs, epochs, choice))
    sets = scores.data_sets(frame)
    figure, axes = style.panels(len(BOUNDED), len(sets), height=4.3, sharex="col", sharey=True)
    axes[0, 0].set_yscale("symlog", linthresh=LINEAR_WITHIN, linscale=1.0)
    largest = 2 * LINEAR_WITHIN
    for column, data_set in enumerate(sets):
        of_set = scores.of_data_set(frame, data_set)
        axes[0, column].set_xscale("log")
        for row, bounding in enumerate(BOUNDED):
            if {(*data_set, loss, UNBOUNDED), (*data_set, loss, bounding)} & untrained:
                style.mark_untrained(axes[row, column])
            pairs = scores.paired(of_set, loss, bounding, metric)
            _panel(axes[row, column], pairs)
            largest = max(largest, 1.3 * _largest_difference(pairs))
        axes[0, column].set_title(data_set.title)
        _plain_ticks(axes[-1, column], of_set)
    axes[0, 0].set_yticks(LABELLED, [f"{tick:g}".replace("-", "−") for tick in LABELLED])
    axes[0, 0].set_yticks([-1, 1], minor=True)
    axes[0, 0].set_ylim(-largest, largest)
    style.outer_labels(figure, axes, "relevant items", f"difference in {metric}")
    style.row_titles(axes, BOUNDED)
    style.shared_legend(figure, axes, columns=3)
    title = f"Difference in {metric} per topic, bounded minus unbounded {loss} loss"
    figure.suptitle(scores.heading(title, choice, sets))
    return figure


def _largest_difference(pairs: pl.DataFrame) -> float:
    return 0.0 if pairs.is_empty() else float((pairs["bounded"] - pairs["unbounded"]).abs().max())  # type: ignore[arg-type]


def _panel(axes: Any, pairs: pl.DataFrame) -> None:
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
