"""Figures of formulas, without data: bounds (thesis, chapters 1 and 3), errors of pairs, levels of data, links.

Section 3.1 of the neural-ranking study states that DirectRanker with antisymmetry and transitivity is RankNet with
another odd link. As printed, it is false for its network N2, which takes the difference of two embeddings (erratum N06:
tanh(w.d (1 + (v.d)^2)) has both properties), but true for the order that N2 induces.
"""

from collections.abc import Callable, Sequence
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

import rankbound as rb
from rankbound_study.figures import Catalogue, FigureSpec, style
from rankbound_study.templates import text

FILE = "figures_formulas.md"
FIGURES = Catalogue(FigureSpec, FILE)
METRICS = ("nDCG", "AP", "nRBP")


@FIGURES.add("figure_1_1")
def lower_bounds() -> Any:
    """Draw a panel each for nDCG and AP, with a line per list size N over P = 1..N."""
    figure, axes = style.panels(1, 2, height=2.9, sharex=True, sharey=True)
    for panel, metric in zip(axes[0], METRICS, strict=False):
        for n, look in zip((25, 50, 100, 200), style.SERIES, strict=False):
            relevant = np.arange(1, n + 1)
            floor = rb.minimum(metric, np.full(n, n), relevant)
            style.line(panel, relevant / n, floor, look, label=f"N = {n}", marks=6)
        panel.set_xlabel("share of relevant items, P / N")
    axes[0, 0].set(xlim=(0, 1), ylim=(0, 1), ylabel="score of the worst ordering")
    return style.finish(figure, axes, columns=METRICS[:2], legend=4)


@FIGURES.add("figure_3_2")
def expected_loss() -> Any:
    """Draw panels of -E[nDCG], -E[AP] and E[nRBP loss]; a list has N = P (1 + NSR) items."""
    figure, axes = style.panels(1, 3, height=2.7, sharex=True)
    largest = 100
    relevant = np.arange(1, largest + 1)
    for panel, metric in zip(axes[0], METRICS, strict=True):
        sign = 1.0 if metric == "nRBP" else -1.0
        for ratio, look in zip((1, 2, 3, 5, 10), style.SERIES, strict=False):
            expected = sign * np.asarray(rb.expectation(metric, relevant * (1 + ratio), relevant))
            style.line(panel, relevant, expected, look, label=f"NSR {ratio}", marks=5)
        panel.set_xlabel("relevant items P")
    axes[0, 0].set(xlim=(0, largest), ylabel="expected loss of a random order")
    axes[0, 2].set_yscale("log")
    return style.finish(figure, axes, columns=[f"{metric} loss" for metric in METRICS], legend=5)


LISTS = {"NSR 2": ((15, 5), (30, 10), (60, 20)), "NSR 1, 2, 3": ((20, 10), (30, 10), (40, 10))}
"""Title -> (N, P) of three lists: one ratio of non-relevant to relevant items, then three."""

_STYLED = tuple(dict.fromkeys(chain.from_iterable(LISTS.values())))


def _of_lists(curve: Callable[[str, int, int], tuple[Any, Any]], *, marks: int, **sharing: Any) -> tuple[Any, Any]:
    """Draw sets of three lists in rows, metrics in columns; a list has one style in both rows, and the name X(N, P)."""
    figure, axes = style.panels(len(LISTS), len(METRICS), height=4.2, **sharing)
    for row, lists in enumerate(LISTS.values()):
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
        values = np.linspace(low, high, 601)
        bounded = rb.bounded(metric, bounding).from_value(values, np.full(len(values), n), np.full(len(values), p))
        return (values, bounded) if metric == "nRBP" else (-values, -np.asarray(bounded))

    figure, axes = _of_lists(losses, marks=5, sharex="col", sharey="col")
    for panel in axes[-1]:
        panel.set_xlabel("unbounded loss")
    for panel in axes[:, 0]:
        panel.set_ylabel("bounded loss")
    columns = [f"{metric} loss" if metric == "nRBP" else f"{metric} loss (−{metric})" for metric in METRICS]
    return style.finish(figure, axes, f"{bounding} bounding", columns=columns, rows=list(LISTS), legend=5)


for _number, _bounding in ((1, "min-max"), (3, "expectation"), (4, "expectation-max"), (7, "distribution")):
    _caption = text(FILE, "bounded-loss", bounding=_bounding)
    FIGURES.add(f"figure_3_{_number}", _caption, arguments={"bounding": _bounding})(bounded_loss)


@FIGURES.add("figure_3_5")
def gains() -> Any:
    """Draw X(8,4) and X(15,5) in rows, metrics in columns; the steps are algorithm 1, the lines algorithm 2."""
    lists = ((8, 4), (15, 5))
    figure, axes = style.panels(len(lists), len(METRICS), height=4.2, sharey=True)
    for panels, (n, p) in zip(axes, lists, strict=True):
        for panel, metric in zip(panels, METRICS, strict=True):
            of_orders = rb.score_distribution(metric, n=n, p=p, method="exact")
            margin = 0.06 * (of_orders.maximum - of_orders.minimum)
            x = np.linspace(of_orders.minimum - margin, of_orders.maximum + margin, 400)
            support = np.concatenate([x[:1], of_orders.support, x[-1:]])
            steps = np.concatenate([[0.0], np.cumsum(of_orders.probability), [1.0]])
            panel.step(support, steps, where="post", color=style.INK, linewidth=1.4, label="all orders")
            for gain, look in zip((1, 4, 16, 64), style.SERIES[1:], strict=False):
                smooth = of_orders.smooth_cdf(x, gain=float(gain))
                style.line(panel, x, smooth, look, label=f"gain {gain}", marks=5)
    return _cumulative(figure, axes, [f"N = {n}, P = {p}" for n, p in lists])


@FIGURES.add("figure_3_6")
def smooth_distributions() -> Any:
    """Draw the distributions of algorithm 2 with a(D) = distinct scores / their range."""

    def curve(metric: str, n: int, p: int) -> tuple[Any, Any]:
        of_orders = rb.score_distribution(metric, n=n, p=p, method="exact")
        x = np.linspace(of_orders.minimum, of_orders.maximum, 300)
        return x, of_orders.smooth_cdf(x, gain="distinct")

    figure, axes = _of_lists(curve, marks=6, sharex="col", sharey=True)
    return _cumulative(figure, axes, list(LISTS))


def _cumulative(figure: Any, axes: Any, rows: list[str]) -> Any:
    """Label the panels of distributions of scores."""
    for panel, metric in zip(axes[-1], METRICS, strict=True):
        panel.set_xlabel(f"{metric} loss" if metric == "nRBP" else metric)
    for panel in axes[:, 0]:
        panel.set_ylabel("cumulative probability")
    axes[0, 0].set_ylim(-0.02, 1.02)
    return style.finish(figure, axes, columns=METRICS, rows=rows, legend=5)


SIDE = 0.42
"""Half the width of an item's box."""

_LINEAR = text(FILE, "figure_linear")


@FIGURES.add("figure_linear_2", _LINEAR, arguments={"ratings": (1, 0, 1, 0, 0, 1)}, title="Jin and Geng, Figure 2")
@FIGURES.add("figure_linear_3", _LINEAR, arguments={"ratings": (2, 1, 0, 2, 0, 0)}, title="Jin and Geng, Figure 3")
def linear_ndcg(ratings: Sequence[int]) -> Any:
    """Draw the list of `ratings`, from rank 1 down, above its ideal order, with both DCGs and the wrong pairs."""
    from matplotlib.patches import Rectangle

    figure, axes = style.panels(2, 1, height=3.6, sharex=True, gridspec_kw={"height_ratios": [1.7, 1]})
    ideal = sorted(ratings, reverse=True)
    for panel, row, heading in zip(axes[:, 0], (ratings, ideal), ("ranked list", "ideal order"), strict=True):
        panel.set_title(heading)
        panel.set(xlim=(0.5, len(ratings) + 1.8), yticks=[], xticks=range(1, len(ratings) + 1))
        panel.grid(visible=False)
        panel.spines["left"].set_visible(False)
        panel.spines["bottom"].set_bounds(1 - SIDE, len(ratings) + SIDE)
        for rank, rating in enumerate(row, start=1):
            square = (rank - SIDE, -SIDE), 2 * SIDE, 2 * SIDE
            strength = 0.12 + 0.5 * rating / max(row) if rating else 0.0
            look: dict[str, Any] = {"facecolor": (style.BLUE, strength), "label": f"_rank {rank}: rating {rating}"}
            panel.add_patch(Rectangle(*square, edgecolor=style.MUTED, linewidth=0.8, **look))
            panel.text(rank, 0, str(rating), ha="center", va="center", fontsize=11, weight="bold")
            share = f"{rating} × {len(row) - rank}"
            panel.text(rank, -SIDE - 0.1, share, ha="center", va="top", fontsize=8, color=style.MUTED)
        panel.set_ylim(-SIDE - 0.5, SIDE + 0.15)
    look = {"x": len(ratings) + SIDE + 0.15, "ha": "left", "va": "center", "fontsize": 9}
    axes[0, 0].text(y=0.12, s=f"DCG = {_score('LinearDCG', ratings):g}", weight="bold", **look)
    axes[0, 0].text(y=-0.3, s=f"error = {_score('PairError', ratings):g}", color=style.VERMILION, **look)
    axes[1, 0].text(y=0, s=f"ideal DCG = {_score('LinearDCG', ideal):g}", weight="bold", **look)
    _wrong_pairs(axes[0, 0], ratings)
    left, right = axes[1, 0].get_xlim()
    axes[1, 0].set_xlabel("rank i", x=((1 + len(ratings)) / 2 - left) / (right - left))
    return figure


def _wrong_pairs(panel: Any, ratings: Sequence[int]) -> None:
    """Draw arcs from a lower rating to every higher one below it; wider arcs are higher."""
    from matplotlib.patches import Arc

    wrong = [(i, j) for i, j in combinations(range(len(ratings)), 2) if ratings[i] < ratings[j]]
    for i, j in wrong:
        middle, reach = (i + j) / 2 + 1, j - i
        arc = Arc((middle, SIDE), reach, 0.75 * reach, theta1=0, theta2=180, color=style.VERMILION, linewidth=1.2)
        arc.set_label(f"_wrong order: rating {ratings[i]} at rank {i + 1} above {ratings[j]} at rank {j + 1}")
        panel.add_patch(arc)
        weight = ratings[j] - ratings[i]
        if weight > 1:
            panel.text(middle, SIDE + 0.375 * reach + 0.05, f"× {weight}", ha="center", va="bottom", fontsize=8)
    panel.set_ylim(-SIDE - 0.5, SIDE + 0.45 * max((j - i for i, j in wrong), default=1) + 0.15)


def _score(metric: str, ratings: Sequence[int]) -> float:
    values = rb.metric(metric)(np.arange(len(ratings), 0.0, -1.0), np.asarray(ratings))
    return float(values[0])


LEVELS = (
    ("nominal", "classification", "which class?", "relevant, or not"),
    ("ordinal", "ranking", "which of two is more?", "grades 0 to 4 of relevance"),
    ("interval or ratio", "regression", "how much?", "age in years"),
)
"""Level of measurement, method, the question that a label answers, an example from the study."""


@FIGURES.add("figure_neural_8")
def data_levels() -> Any:
    """Draw a panel per level of measurement, in ascending order."""
    figure, axes = style.panels(1, len(LEVELS), height=2.75)
    for panel, level, items in zip(axes[0], LEVELS, (_classes, _steps, _scale), strict=True):
        panel.set(xlim=(0, 10), ylim=(-3.6, 6.4), aspect="equal")
        panel.set_axis_off()
        data, method, question, example = level
        panel.text(5, 6.3, data, ha="center", va="top", fontsize=10, weight="bold")
        items(panel)
        panel.text(5, -1.1, question, ha="center", va="center", fontsize=8.5, style="italic")
        panel.text(5, -2.1, f"e.g. {example}", ha="center", va="center", fontsize=8, color=style.MUTED)
        panel.text(5, -3.3, method, ha="center", va="center", fontsize=10, weight="bold", color=style.BLUE)
    figure.get_layout_engine().set(rect=(0, 0.1, 1, 0.9))
    ends = {"xytext": (0.03, 0.085), "xycoords": "figure fraction", "textcoords": "figure fraction"}
    arrow = {"arrowstyle": "-|>", "color": style.MUTED, "linewidth": 1.1}
    figure.axes[0].annotate("", (0.97, 0.085), arrowprops=arrow, annotation_clip=False, **ends).set_in_layout(False)
    figure.text(0.5, 0.02, "level of quantification", ha="center", va="bottom", fontsize=9, color=style.MUTED)
    return figure


def _classes(panel: Any) -> None:
    """Draw two groups without an order between them."""
    from matplotlib.patches import Ellipse

    random = np.random.default_rng(3)
    for centre, marker, color in ((2.6, "o", style.BLUE), (7.4, "s", style.VERMILION)):
        panel.add_patch(Ellipse((centre, 2.4), 3.7, 3.7, fill=False, edgecolor=style.GRID, linewidth=1.2))
        angle = np.linspace(0, 2 * np.pi, 7)[:-1] + random.uniform(0, 1)
        x, y = centre + 1.1 * np.cos(angle), 2.4 + 1.1 * np.sin(angle)
        panel.plot(x, y, marker, color=color, markersize=6, alpha=0.85)
    panel.text(5, 2.4, "≠", ha="center", va="center", fontsize=13, color=style.MUTED)


def _steps(panel: Any) -> None:
    """Draw steps of different heights: the order is known, the distances are not."""
    heights = (0.5, 1.1, 2.7, 3.2, 4.7)
    for place, height in enumerate(heights):
        panel.bar(1 + 2 * place, height, 1.15, color=style.VERMILION, alpha=0.25 + 0.15 * place)
        panel.text(1 + 2 * place, height + 0.12, str(place), ha="center", va="bottom", fontsize=8.5)
        if place:
            panel.text(2 * place, 0.25, "<", ha="center", va="center", fontsize=9, color=style.INK)


def _scale(panel: Any) -> None:
    """Draw a ruler: differences are known, too."""
    panel.plot([0.4, 9.6], [1.2, 1.2], color=style.INK, linewidth=1)
    for place in np.linspace(0.8, 9.2, 9):
        panel.plot([place, place], [1.0, 1.4], color=style.INK, linewidth=0.8)
    for years, place in ((0, 0.8), (40, 5.0), (80, 9.2)):
        panel.text(place, 0.7, str(years), ha="center", va="top", fontsize=8)
    ages = (12, 33, 67)
    at = [0.8 + 8.4 * age / 80 for age in ages]
    panel.plot(at, [1.2] * len(at), "D", color=style.GREEN, markersize=7)
    height, arrow = 2.6, {"arrowstyle": "<->", "color": style.MUTED, "linewidth": 0.9}
    for (low, one), (high, other) in pairwise(zip(ages, at, strict=True)):
        panel.annotate("", (one, height), (other, height), arrowprops=arrow)
        panel.text((one + other) / 2, height + 0.2, f"{high - low} years", ha="center", va="bottom", fontsize=8)
        for end in (one, other):
            panel.plot([end, end], [1.6, height], color=style.GRID, linewidth=0.7)


Floats = npt.NDArray[np.float64]
Beats = Callable[[Floats, Floats], npt.NDArray[np.bool_]]
WIDTH, HIDDEN = 6, 16
"""Width of the items' embeddings, and of networks' hidden layers."""

TRIPLES, MODELS = 500, 60


def probability(link: str, difference: Any) -> Any:
    """Return the probability that the first item of a pair wins, given the difference of the scores."""
    inner = np.tanh(difference) if link == "DirectRanker" else difference
    return 1 / (1 + np.exp(-inner))


def violations(name: str) -> tuple[float, float]:
    """Return the shares of pairs with the same winner in both orders and of cyclic triples, over random models."""
    broken, cycles = 0, 0
    for model in range(MODELS):
        random = np.random.default_rng([model, WIDTH])
        beats = pair_model(name, random)
        items = random.standard_normal((3, TRIPLES, WIDTH))
        forward = np.stack([beats(items[one], items[(one + 1) % 3]) for one in range(3)])
        backward = np.stack([beats(items[(one + 1) % 3], items[one]) for one in range(3)])
        broken += int((forward == backward).sum())
        cycles += int((forward.all(0) | ~forward.any(0)).sum())
    return broken / (3 * MODELS * TRIPLES), cycles / (MODELS * TRIPLES)


PAIR_MODELS = (
    "network on\nboth items",
    "odd network on\nthe difference",
    "w·d (1 + (v·d)²)",
    "difference\nof scores",
)
"""Models of a pair by name."""


def pair_model(name: str, random: np.random.Generator) -> Beats:
    """Return a random model of a pair: a function that returns True where the first item wins."""

    def network(inputs: int) -> Callable[[Floats], Floats]:
        """Return a network of one hidden layer without biases, which is odd as tanh is."""
        inner, outer = random.standard_normal((inputs, HIDDEN)), random.standard_normal(HIDDEN)
        return lambda items: np.tanh(items @ inner) @ outer

    joined, odd, counterexample, _ = PAIR_MODELS
    if name == joined:
        # A constant input in the place of biases.
        of_both = network(2 * WIDTH + 1)
        return lambda one, other: of_both(np.column_stack([one, other, np.ones(len(one))])) > 0
    if name == counterexample:
        # N2 without its tanh, which does not change the sign: no function of w.d alone, but of its sign.
        w, v = random.standard_normal((2, WIDTH))
        return lambda one, other: ((one - other) @ w) * (1 + ((one - other) @ v) ** 2) > 0
    value = network(WIDTH)
    if name == odd:
        return lambda one, other: value(one - other) > 0
    # The order of RankNet and DirectRanker: an odd, monotone link of the difference of two scores.
    return lambda one, other: value(one) > value(other)


@FIGURES.add("figure_neural_links", title="Antisymmetry and transitivity", order=4)
def pair_links() -> Any:
    """Draw the probability of winning by both links, the loss of a pair, and the violations of random models."""
    figure, axes = style.panels(1, 3, height=2.5, gridspec_kw={"width_ratios": [1, 1, 1.15]})
    difference = np.linspace(-5.0, 5.0, 401)
    for link, look in zip(("RankNet", "DirectRanker"), style.SERIES, strict=False):
        won = probability(link, difference)
        style.line(axes[0, 0], difference, won, look, label=link, marks=5)
        style.line(axes[0, 1], difference, -np.log(won), look, label=link, marks=5)
    for panel in axes[0, :2]:
        panel.set_xlabel("score difference d")
    for bound in probability("DirectRanker", np.array([-np.inf, np.inf])):
        name = f"_bound of DirectRanker: {bound:.3f}"
        axes[0, 0].axhline(bound, color=style.MUTED, linewidth=0.6, linestyle=(0, (1, 2)), label=name)
    axes[0, 0].set_ylim(0, 1)
    axes[0, 1].set_ylim(0, None)
    panel = axes[0, 2]
    shares = np.transpose([violations(name) for name in PAIR_MODELS])
    places = np.arange(len(PAIR_MODELS))
    kinds = (("pairs not antisymmetric", style.BLUE), ("triples in a cycle", style.VERMILION))
    for shift, ((label, color), values) in enumerate(zip(kinds, shares, strict=True)):
        bars = panel.barh(places - 0.2 + 0.4 * shift, values, 0.36, color=color, label=label)
        panel.bar_label(bars, [f"{value:.1%}" if value else "0" for value in values], padding=2, fontsize=7.5)
    panel.set_yticks(places, PAIR_MODELS)
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.set_xlim(0, 1.25 * shares.max())
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.get_layout_engine().set(wspace=0.04)
    columns = "probability of winning", "loss of the pair", "random models of a pair"
    return style.finish(figure, axes, columns=columns, legend=4)
