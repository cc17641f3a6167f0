"""Figures 2 and 3 of Jin and Geng: the linear DCG error of a list is its weighted number of wrongly ordered pairs."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

import rankbound as rb
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec

_CAPTION = (
    "A ranked list above its ideal order: ratings in boxes, and below each its contribution to DCG, the rating times "
    "the number of items under it. Arcs join the pairs in the wrong order, with the difference of their ratings where "
    "it exceeds 1; their sum is the DCG error. The original drawing is not available; this list is one of those that "
    "give the printed numbers."
)
SPECS = {
    f"figure_linear_{number}": FigureSpec(_CAPTION, {"ratings": ratings}, title=f"Jin and Geng, Figure {number}")
    for number, ratings in ((2, (1, 0, 1, 0, 0, 1)), (3, (2, 1, 0, 2, 0, 0)))
}

SIDE = 0.42
"""Half the width of an item's box."""


def draw(ratings: Sequence[int]) -> Any:
    """Draw the list of `ratings`, from rank 1 down, above its ideal order, with both DCGs and the wrong pairs."""
    figure, axes = style.panels(2, 1, height=3.6, sharex=True, gridspec_kw={"height_ratios": [1.7, 1]})
    ideal = sorted(ratings, reverse=True)
    for panel, row in zip(axes[:, 0], (ratings, ideal), strict=True):
        panel.set(xlim=(0.5, len(ratings) + 1.8), yticks=[], xticks=range(1, len(ratings) + 1))
        panel.grid(visible=False)
        panel.spines["left"].set_visible(False)
        panel.spines["bottom"].set_bounds(1 - SIDE, len(ratings) + SIDE)
        _items(panel, row)
    error = _score("PairError", ratings)
    _total(axes[0, 0], len(ratings), f"DCG = {_score('LinearDCG', ratings):g}", f"error = {error:g}")
    _total(axes[1, 0], len(ratings), f"ideal DCG = {_score('LinearDCG', ideal):g}", "")
    _wrong_pairs(axes[0, 0], ratings)
    axes[0, 0].set_title("ranked list")
    axes[1, 0].set_title("ideal order")
    left, right = axes[1, 0].get_xlim()
    axes[1, 0].set_xlabel("rank i", x=((1 + len(ratings)) / 2 - left) / (right - left))
    return figure


def _items(panel: Any, ratings: Sequence[int]) -> None:
    from matplotlib.patches import Rectangle

    most = max(ratings)
    for rank, rating in enumerate(ratings, start=1):
        strength = 0.12 + 0.5 * rating / most if rating else 0.0
        box = Rectangle((rank - SIDE, -SIDE), 2 * SIDE, 2 * SIDE, facecolor=style.BLUE, alpha=strength)
        box.set_label(f"_rank {rank}: rating {rating}")
        panel.add_patch(box)
        outline = Rectangle((rank - SIDE, -SIDE), 2 * SIDE, 2 * SIDE, fill=False, edgecolor=style.MUTED, linewidth=0.8)
        panel.add_patch(outline)
        panel.text(rank, 0, str(rating), ha="center", va="center", fontsize=11, weight="bold")
        share = f"{rating} × {len(ratings) - rank}"
        panel.text(rank, -SIDE - 0.1, share, ha="center", va="top", fontsize=8, color=style.MUTED)
    panel.set_ylim(-SIDE - 0.5, SIDE + 0.15)


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


def _total(panel: Any, length: int, upper: str, lower: str) -> None:
    x = length + SIDE + 0.15
    panel.text(x, 0.12 if lower else 0, upper, ha="left", va="center", fontsize=9, weight="bold")
    panel.text(x, -0.3, lower, ha="left", va="center", fontsize=9, color=style.VERMILION)


def _score(metric: str, ratings: Sequence[int]) -> float:
    scores = np.arange(len(ratings), 0.0, -1.0)
    values = rb.metric(metric)(scores, np.asarray(ratings), np.array([0, len(ratings)]))
    return float(values[0])
