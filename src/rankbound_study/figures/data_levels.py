"""Figure 8 of the neural-ranking study: nominal, ordinal and interval data, and the methods that fit them."""

from typing import Any

import numpy as np

from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec, neural_title

SPECS = {
    "figure_neural_8": FigureSpec(
        "Levels of measurement, by what can be stated about two labels, and the methods that fit them.",
        title=neural_title(8),
    )
}

LEVELS = (
    ("nominal", "classification", "which class?", "relevant, or not"),
    ("ordinal", "ranking", "which of two is more?", "grades 0 to 4 of relevance"),
    ("interval or ratio", "regression", "how much?", "age in years"),
)
"""Level of measurement, method, the question that a label answers, an example from the study."""

_COLORS = (style.BLUE, style.VERMILION, style.GREEN)


def draw() -> Any:
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
    _arrow(figure)
    return figure


def _arrow(figure: Any) -> None:
    """Draw an arrow below all panels, from left to right."""
    figure.get_layout_engine().set(rect=(0, 0.1, 1, 0.9))
    ends = {"xytext": (0.03, 0.085), "xycoords": "figure fraction", "textcoords": "figure fraction"}
    look = {"arrowstyle": "-|>", "color": style.MUTED, "linewidth": 1.1}
    figure.axes[0].annotate("", (0.97, 0.085), arrowprops=look, annotation_clip=False, **ends).set_in_layout(False)
    figure.text(0.5, 0.02, "level of quantification", ha="center", va="bottom", fontsize=9, color=style.MUTED)


def _classes(panel: Any) -> None:
    """Draw two groups without an order between them."""
    from matplotlib.patches import Ellipse

    random = np.random.default_rng(3)
    for centre, marker, color in ((2.6, "o", _COLORS[0]), (7.4, "s", _COLORS[1])):
        panel.add_patch(Ellipse((centre, 2.4), 3.7, 3.7, fill=False, edgecolor=style.GRID, linewidth=1.2))
        angle = np.linspace(0, 2 * np.pi, 7)[:-1] + random.uniform(0, 1)
        panel.plot(
            centre + 1.1 * np.cos(angle), 2.4 + 1.1 * np.sin(angle), marker, color=color, markersize=6, alpha=0.85
        )
    panel.text(5, 2.4, "≠", ha="center", va="center", fontsize=13, color=style.MUTED)


def _steps(panel: Any) -> None:
    """Draw steps of different heights: the order is known, the distances are not."""
    heights = (0.5, 1.1, 2.7, 3.2, 4.7)
    for place, height in enumerate(heights):
        panel.bar(1 + 2 * place, height, 1.15, color=_COLORS[1], alpha=0.25 + 0.15 * place)
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
    panel.plot(at, [1.2] * len(at), "D", color=_COLORS[2], markersize=7)
    for (one, other), (low, high), height in zip(
        ((at[0], at[1]), (at[1], at[2])), ((ages[0], ages[1]), (ages[1], ages[2])), (2.6, 2.6), strict=True
    ):
        panel.annotate(
            "", (one, height), (other, height), arrowprops={"arrowstyle": "<->", "color": style.MUTED, "linewidth": 0.9}
        )
        panel.text((one + other) / 2, height + 0.2, f"{high - low} years", ha="center", va="bottom", fontsize=8)
        for end in (one, other):
            panel.plot([end, end], [1.6, height], color=style.GRID, linewidth=0.7)
