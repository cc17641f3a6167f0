r"""What antisymmetry and transitivity leave of DirectRanker: RankNet with another odd link.

Seed 000 section 3.1 says so of the network N2 that takes the difference of two embeddings. As printed it is not true of
N2 itself (erratum N06: tanh(w.d (1 + (v.d)^2)) has both properties), but it is of the order that N2 induces.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound_study.figures import style

Floats = npt.NDArray[np.float64]

WIDTH = 6
"""Of the items' embeddings."""

TRIPLES = 500
MODELS = 60
HIDDEN = 16

_REACH = 5.0


def probability(link: str, difference: Any) -> Any:
    """The chance that the first item of a pair wins, given the difference of the scores."""
    inner = np.tanh(difference) if link == "DirectRanker" else difference
    return 1 / (1 + np.exp(-inner))


def draw() -> Any:
    """Left: the chance of winning by both links; middle: the pair's loss; right: triples of items in a cycle."""
    figure, axes = style.panels(1, 3, height=2.5, gridspec_kw={"width_ratios": [1, 1, 1.15]})
    difference = np.linspace(-_REACH, _REACH, 401)
    for link, look in zip(("RankNet", "DirectRanker"), style.SERIES, strict=False):
        won = probability(link, difference)
        style.line(axes[0, 0], difference, won, look, label=link, marks=5)
        style.line(axes[0, 1], difference, -np.log(won), look, label=link, marks=5)
    axes[0, 0].set_title("probability of winning")
    axes[0, 1].set_title("loss of the pair")
    for panel in axes[0, :2]:
        panel.set_xlabel("score difference d")
    for bound in probability("DirectRanker", np.array([-np.inf, np.inf])):
        axes[0, 0].axhline(
            bound, color=style.MUTED, linewidth=0.6, linestyle=(0, (1, 2)), label=f"_bound of DirectRanker: {bound:.3f}"
        )
    axes[0, 0].set_ylim(0, 1)
    axes[0, 1].set_ylim(0, None)
    _violations(axes[0, 2])
    figure.get_layout_engine().set(wspace=0.04)
    style.shared_legend(figure, axes, columns=4)
    return figure


def _violations(panel: Any) -> None:
    names = list(PAIR_MODELS)
    shares = [violations(name) for name in names]
    places = np.arange(len(names))
    for shift, (label, look, column) in enumerate(
        (("pairs not antisymmetric", style.SERIES[1], 0), ("triples in a cycle", style.SERIES[2], 1))
    ):
        values = [share[column] for share in shares]
        bars = panel.barh(places - 0.2 + 0.4 * shift, values, 0.36, color=look.color, label=label)
        panel.bar_label(bars, [f"{value:.1%}" if value else "0" for value in values], padding=2, fontsize=7.5)
    panel.set_yticks(places, names)
    panel.invert_yaxis()
    panel.grid(visible=False, axis="y")
    panel.set_xlim(0, 1.25 * max(max(share) for share in shares))
    panel.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    panel.set_title("random models of a pair")


def violations(name: str) -> tuple[float, float]:
    """Shares over random models: pairs that have both the same winner either way round, triples without an order."""
    broken, cycles = 0, 0
    for model in range(MODELS):
        random = np.random.default_rng([model, WIDTH])
        beats = PAIR_MODELS[name](random)
        items = random.standard_normal((3, TRIPLES, WIDTH))
        forward = np.stack([beats(items[one], items[(one + 1) % 3]) for one in range(3)])
        backward = np.stack([beats(items[(one + 1) % 3], items[one]) for one in range(3)])
        broken += int((forward == backward).sum())
        cycles += int((forward.all(0) | ~forward.any(0)).sum())
    return broken / (3 * MODELS * TRIPLES), cycles / (MODELS * TRIPLES)


Beats = Callable[[Floats, Floats], npt.NDArray[np.bool_]]


def _joined(random: np.random.Generator) -> Beats:
    """A network of one hidden layer on both items side by side."""
    inner, bias = random.standard_normal((2 * WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    outer = random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh(np.concatenate([one, other], 1) @ inner + bias) @ outer > 0


def _odd(random: np.random.Generator) -> Beats:
    """An odd network of one hidden layer on the difference: no biases, tanh."""
    inner, outer = random.standard_normal((WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh((one - other) @ inner) @ outer > 0


def _score_difference(random: np.random.Generator) -> Beats:
    """RankNet's and DirectRanker's order: an odd, monotone link of the difference of two scores."""
    inner, outer = random.standard_normal((WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh(np.tanh(one @ inner) @ outer - np.tanh(other @ inner) @ outer) > 0


def _counterexample(random: np.random.Generator) -> Beats:
    """N2(d) = tanh(w.d (1 + (v.d)^2)): no function of w.d alone, yet of its sign."""
    w, v = random.standard_normal((2, WIDTH))
    return lambda one, other: np.tanh(((one - other) @ w) * (1 + ((one - other) @ v) ** 2)) > 0


PAIR_MODELS: dict[str, Callable[[np.random.Generator], Beats]] = {
    "network on\nboth items": _joined,
    "odd network on\nthe difference": _odd,
    "$w\\cdot d\\,(1+(v\\cdot d)^2)$": _counterexample,
    "difference\nof scores": _score_difference,
}
"""Models of a pair by name: from a random source to a function that says whether the first item wins."""
