"""Pictures of results by one call, on axes of Matplotlib: given ones, or those of a new figure. Needs Matplotlib.

The colours are those of Okabe and Ito (2008), for colour-blind readers; nothing is said by a colour alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankbound.io.files import needs_extra
from rankbound.kernels.formulas import Floats
from rankbound.texts import printable, quantity, require, require_one_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankbound.compare.comparison import Comparison
    from rankbound.evaluation import Evaluation
    from rankbound.training.ranker import Ranker

INK, MUTED, A_HIGHER, B_HIGHER = "#1b1b1b", "#8a8a8a", "#0072b2", "#d55e00"
SAME = 1e-9
"""Values that differ by less are equal but for rounding."""
MOST_LINES, MOST_NAMES, BINS = 60, 30, 100
"""Scores that are drawn one by one, topics whose names are shown, and bins of a distribution of more scores."""


def topics(a: "Evaluation", b: "Evaluation", metric: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the differences A - B of a metric by topic as bars, in ascending order.

    Args:
        a, b: two evaluations, with topics in common.
        metric: the metric's text; by default, the first that both have.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: a metric that one of them lacks, or no topic on which it is defined for both.
        RankboundError: Matplotlib is not installed.

    >>> ax = rb.plot.topics(rb.evaluate_run(new, qrels, "AP"), rb.evaluate_run(old, qrels, "AP"))  # doctest: +SKIP
    """
    shared = [name for name in a.values if name in b.values]
    if metric is None and not shared:
        raise ValueError(f"metrics: found {', '.join(a.values)} and {', '.join(b.values)}, expected one in common")
    name = shared[0] if metric is None else metric
    for one in (a, b):
        if name not in one.values:
            raise ValueError(f"metric: found {name!r}, expected one of both evaluations: {', '.join(shared)}")
    first, second = (dict(zip(one.topics, one.values[name].tolist(), strict=True)) for one in (a, b))
    differences = {topic: value - second[topic] for topic, value in first.items() if topic in second}
    defined = sorted((value, topic) for topic, value in differences.items() if value == value)
    if not defined:
        raise ValueError(f"topics: found none on which {name} is defined for both")
    values = np.array([value for value, _ in defined])
    higher, lower = int((values > SAME).sum()), int((values < -SAME).sum())
    ax = _axes(ax, 4.0)
    ax.bar(np.arange(len(values)), values, width=0.9, color=np.where(values > 0, A_HIGHER, B_HIGHER))
    ax.axhline(0, color=INK, linewidth=0.8)
    ax.axhline(values.mean(), color=INK, linewidth=1, linestyle="--", label=f"mean {values.mean():+.4f}")
    ax.legend(frameon=False)
    ax.set_ylabel(f"{_text(name)}, A - B")
    counts = f"A higher: {higher}, B higher: {lower}, equal: {len(values) - higher - lower}"
    ax.set_xlabel(f"{quantity(len(values), 'topic')} ({counts})")
    shown = [_text(topic) for _, topic in defined] if len(defined) <= MOST_NAMES else []
    ax.set_xticks(np.arange(len(shown)), shown, rotation=90)
    return ax


def learning_curves(ranker: "Ranker | Sequence[Ranker]", ax: "Axes | None" = None) -> "Axes":
    """Draw the loss of every epoch of a training, and the metric of its validation beside it on an axis of its own.

    Without validation topics, the metric is that of the training topics. A dot is at the epoch whose weights the ranker
    has.

    Args:
        ranker: a ranker, or several with the same loss and metric, such as those of the folds of a cross-validation.
        ax: the axes to draw the loss on; by default, those of a new figure.

    Returns:
        The axes of the loss.

    Raises:
        ValueError: no ranker, rankers of different losses or metrics, or one without a record of its epochs.
        RankboundError: Matplotlib is not installed.

    >>> ax = rb.plot.learning_curves(rb.load("model.safetensors"))  # doctest: +SKIP
    """
    rankers = list(ranker) if isinstance(ranker, Sequence) else [ranker]
    recipes = set()
    for recipe in (one.recipe for one in rankers):
        bound = f" (bound: {recipe.bound})" if recipe.bound != "none" else ""
        # Models that have a loss of their own are named in its place.
        recipes.add((recipe.loss + bound if recipe.takes_loss else recipe.model, recipe.metric))
    require("rankers", f"{len(recipes)} pairs of loss and metric", len(recipes) == 1, "one for all")
    if without := [one.recipe.model for one in rankers if not one.record.get("curves")]:
        raise ValueError(
            f"ranker: found {without[0]} without a record of its epochs, which models without epochs and those of "
            "earlier versions lack: train it again"
        )
    ((loss, metric),) = recipes
    ax = _axes(ax, 4.0)
    from matplotlib.ticker import MaxNLocator

    right, of = ax.twinx(), set[str]()
    for one in rankers:
        curves = {name: np.array(values, dtype=np.float64) for name, values in one.record["curves"].items()}
        losses = curves.pop("loss")
        ((part, values),) = curves.items()
        of.add(part)
        number, best = np.arange(1, len(losses) + 1), one.record["epoch"]
        ax.plot(number, losses, color=A_HIGHER, alpha=len(rankers) ** -0.3)
        right.plot(number, values, color=B_HIGHER, linestyle="--", alpha=len(rankers) ** -0.3)
        right.plot(best, values[best - 1], color=B_HIGHER, marker="o")
    ax.set_xlabel("epoch")
    ax.set_ylabel(f"training loss, {loss}", color=A_HIGHER)
    right.set_ylabel(f"{metric}, {' or '.join(sorted(of))} topics (dashed)", color=B_HIGHER)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return ax


def distribution(metric: Any, n: int, p: int, ax: "Axes | None" = None, **how: Any) -> "Axes":
    """Draw the distribution of a metric over random orders of a list, with its minimum, expectation and maximum.

    A few scores are lines as high as their probabilities; more are a density.

    Args:
        metric: the metric, or its text.
        n, p: the numbers of items, and of relevant ones.
        ax: the axes to draw on; by default, those of a new figure.
        how: the other arguments of `rankbound.score_distribution`, such as `tilt=2`.

    Returns:
        The axes.

    Raises:
        ValueError: the metric is undefined on such lists, or as `rankbound.score_distribution`.
        RankboundError: Matplotlib is not installed.

    >>> ax = rb.plot.distribution("nDCG", 20, 5)  # doctest: +SKIP
    """
    from rankbound.bounds.score_distribution import score_distribution

    found = score_distribution(metric, n, p, **how)
    require("n, p", f"{n} and {p}", not np.isnan(found.expectation), f"a list on which {found.metric} is defined")
    ax = _axes(ax, 3.6)
    if found.width == 0 and len(found.support) <= MOST_LINES:
        ax.vlines(found.support, 0, found.probability, color=A_HIGHER, linewidth=2)
        ax.set_ylabel("probability")
        ax.set_ylim(bottom=0)
    else:
        gaps = np.diff(found.support)
        edges: Floats = np.linspace(found.minimum, found.maximum, BINS + 1)
        if np.ptp(gaps) <= SAME * gaps.max():
            # Between scores that are evenly spaced, to have as many in each.
            step = -(-len(found.support) // BINS)
            places = np.arange(-(-len(found.support) // step) + 1) * step
            edges = found.support[0] + gaps[0] * (places - 0.5)
        below = found.cdf(edges)
        below[0] = 0
        ax.stairs(np.diff(below) / np.diff(edges), edges, fill=True, color=A_HIGHER, alpha=0.5)
        ax.set_ylabel("density")
    for name, style in (("minimum", ":"), ("expectation", "--"), ("maximum", ":")):
        value = getattr(found, name)
        ax.axvline(value, color=INK, linewidth=1, linestyle=style, label=f"{name} {value:.4g}")
    ax.legend(frameon=False)
    ax.set_xlabel(f"{found.metric} of random orders of {n} items, {p} of them relevant")
    return ax


def differences(
    comparisons: Mapping[str, "Comparison"], level: float = 0.05, ax: "Axes | None" = None, label: str = "A - B"
) -> "Axes":
    """Draw the differences of comparisons with their intervals, one below the other: a forest plot.

    Filled dots are significant: their adjusted p-value (for a single comparison, its own) is at most the level.
    `Comparison.plot` and the reports' `plot` call this.

    Args:
        comparisons: comparisons by the names of their rows.
        level: the level of significance.
        ax: the axes to draw on; by default, those of a new figure.
        label: what the differences are of.

    Returns:
        The axes.

    Raises:
        ValueError: no comparison has a difference.
        RankboundError: Matplotlib is not installed.
    """
    rows = {name: one for name, one in comparisons.items() if one.difference == one.difference}
    require("comparisons", "none with a difference", bool(rows), "one whose systems share topics")
    ax = _axes(ax, 1.2 + 0.32 * len(rows))
    for place, one in enumerate(rows.values()):
        p_value = one.p_value if np.isnan(one.p_adjusted) else one.p_adjusted
        colour = A_HIGHER if one.difference > 0 else B_HIGHER
        ax.hlines(place, one.low, one.high, color=colour, linewidth=1.5)
        ax.plot(one.difference, place, "o", color=colour, markerfacecolor=colour if p_value <= level else "white")
    ax.axvline(0, color=INK, linewidth=0.8)
    _name_rows(ax, rows)
    ax.set_xlabel(f"{_text(label)} (filled: p ≤ {level:g})")
    return ax


def means(
    evaluations: Mapping[str, "Evaluation"],
    metric: str,
    intervals: Mapping[str, tuple[float, float]],
    marks: Mapping[str, str],
    label: str,
    higher_is_better: bool = True,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the mean of each system on a metric, best first, with intervals and marks behind the names."""
    averages = {name: mean for name, one in evaluations.items() if (mean := one.means()[metric]) == mean}
    order = sorted(averages, key=averages.__getitem__, reverse=higher_is_better)
    require("metric", f"{metric}, which is undefined on all topics", bool(order), "one that is not")
    ax = _axes(ax, 1.2 + 0.32 * len(order))
    for place, name in enumerate(order):
        ax.hlines(place, *intervals[name], color=MUTED, linewidth=1.5)
        ax.plot(averages[name], place, "o", color=A_HIGHER)
    _name_rows(ax, [f"{name} {marks[name]}".rstrip() for name in order])
    ax.set_xlabel(_text(label))
    return ax


def critical_differences(
    evaluations: Mapping[str, "Evaluation"], metric: str, level: float = 0.05, ax: "Axes | None" = None
) -> "Axes":
    r"""Draw the mean ranks of systems over topics, best first; lines join those that Nemenyi's test can't tell apart.

    Of $k$ systems on $n$ topics, mean ranks differ significantly if they do by $q \sqrt{k (k + 1) / (6 n)}$ or more,
    where $q$ is the quantile of the studentized range of $k$ means, divided by $\sqrt 2$ (Demšar 2006, "Statistical
    comparisons of classifiers over multiple data sets"). Equal values have the mean of their ranks. Needs scipy.

    Args:
        evaluations: two or more systems by name.
        metric: the metric's text.
        level: the level of significance.
        ax: the axes to draw on; by default, those of a new figure.

    Returns:
        The axes.

    Raises:
        ValueError: fewer than two systems, or no topic on which the metric is defined for all.
        RankboundError: Matplotlib or scipy is not installed.

    >>> ax = rb.plot.critical_differences(rb.evaluate_runs(runs, qrels, "AP").evaluations, "AP")  # doctest: +SKIP
    """
    with needs_extra("statistics"):
        from scipy.stats import rankdata, studentized_range

    from rankbound.metrics import metric as parse_metric

    for one in evaluations.values():
        require_one_of("metric", metric, one.values)
    columns = [dict(zip(one.topics, one.values[metric].tolist(), strict=True)) for one in evaluations.values()]
    shared = [topic for topic in (columns[0] if columns else ()) if all(topic in column for column in columns)]
    values = np.array([[column[topic] for column in columns] for topic in shared]).reshape(len(shared), len(columns))
    values = values[~np.isnan(values).any(1)]
    n, k = values.shape
    if k < 2 or n == 0:
        raise ValueError(
            f"evaluations: found {quantity(k, 'system')} with {quantity(n, 'topic')} in common on which {metric} is "
            "defined, expected two or more with one"
        )
    best_first = -1 if parse_metric(metric).higher_is_better else 1
    ranks = rankdata(best_first * np.round(values, 12), axis=1).mean(0)
    distance = float(studentized_range.ppf(1 - level, k, np.inf)) * (k * (k + 1) / (12 * n)) ** 0.5
    order = np.argsort(ranks, kind="stable")
    names, ranks = [list(evaluations)[place] for place in order], ranks[order]
    ax = _axes(ax, 1.4 + 0.32 * k)
    ax.plot(ranks, np.arange(k), "o", color=A_HIGHER)
    for number, (first, last) in enumerate(_alike(ranks, distance), start=1):
        ax.vlines(ranks[-1] + 0.04 * number * (k - 1), first, last, color=MUTED, linewidth=3)
    _name_rows(ax, [f"{name}  {rank:.2f}" for name, rank in zip(names, ranks, strict=True)])
    ax.set_xlabel(f"mean rank by {_text(metric)} over {quantity(n, 'topic')}\n(critical difference: {distance:.2f})")
    return ax


def _alike(ranks: Floats, distance: float) -> list[tuple[int, int]]:
    """Return the first and last place of the largest groups of ascending ranks that lie within less than a distance."""
    lasts = np.searchsorted(ranks, ranks + distance) - 1
    spans = [(first, int(last)) for first, last in enumerate(lasts) if last > first]
    return [span for span in spans if not any(a <= span[0] and span[1] <= b and (a, b) != span for a, b in spans)]


def _name_rows(ax: "Axes", names: Iterable[str]) -> None:
    """Name the rows of a picture from the top."""
    texts = [_text(name) for name in names]
    ax.set_yticks(range(len(texts)), texts)
    ax.set_ylim(len(texts) - 0.5, -0.5)


def _text(text: str) -> str:
    """Return a text whose dollars are not the limits of formulas."""
    return printable(text).replace("$", r"\$")


def _axes(ax: "Axes | None", height: float) -> "Axes":
    """Return the axes, or those of a new figure of this height in inches."""
    if ax is not None:
        return ax
    with needs_extra("plots"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(6.4, height), layout="constrained")[1]
