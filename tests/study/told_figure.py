"""A figure with every kind of part that is told in words, of made-up values."""

from typing import Any

import numpy as np

from rankbound_study.figures import style

X = np.arange(1.0, 21.0)
CURVE = 0.3 + 0.02 * X - 0.0003 * X**2
TOPICS = (np.array([3.0, 40.0, 250.0, 7.0, 90.0]), np.array([0.2, -0.004, 0.0061, 0.035, -0.4]))
STEPS = ((1.0, 0.2), (8.0, 0.35), (20.0, 0.45))
POINTS, LOW, HIGH = np.array([0.71, 0.523]), np.array([0.68, 0.5012]), np.array([0.7444, 0.55])
BARS = (0.125, 0.5)


def draw() -> Any:
    """Curves on linear and on symlog axes, points with intervals, bars, an area, a line without a label."""
    figure, axes = style.panels(2, 2, height=4.0)
    style.line(axes[0, 0], X, CURVE, style.SERIES[1], label="a < b", marks=3)
    axes[0, 0].plot(X, CURVE - 0.1)
    axes[0, 0].step(*zip(*STEPS, strict=True), where="post", label="steps")
    axes[0, 0].axhspan(0.05, 0.1, color=style.SHADE, label="_low & grey")
    axes[0, 0].set_title("first set")
    axes[0, 0].set_ylabel("mean")
    axes[0, 1].set(xscale="log", title="second set", xlabel="items")
    axes[0, 1].set_yscale("symlog", linthresh=0.01, linscale=1.0)
    axes[0, 1].set_ylabel("difference")
    style.points(axes[0, 1], *TOPICS, label="topic")
    axes[0, 1].axhline(0, label="_nothing")
    axes[1, 0].errorbar([0.05, 1.05], POINTS, (POINTS - LOW, HIGH - POINTS), marker="o", label="method")
    axes[1, 0].set_xticks([0, 1], ["few", "many"])
    axes[1, 0].set_xlabel("years")
    axes[1, 0].set_ylabel("accuracy")
    axes[1, 1].barh([0.2, 1.2], BARS, 0.3, label="share")
    axes[1, 1].set_yticks([0, 1], ["one\nline", "$w\\cdot d^2$"])
    style.row_titles(axes, ["above", "below"])
    return figure
