r"""DirectRanker with antisymmetry and transitivity: RankNet with another odd link.

Section 3.1 of the source states this for its network N2, which takes the difference of two embeddings. As printed, it
is false for N2 itself (erratum N06: tanh(w.d (1 + (v.d)^2)) has both properties), but true for the order that N2
induces.
"""

from typing import Any

import numpy as np

from rankbound_study.figures import style
from rankbound_study.figures._pair_models import PAIR_MODELS, probability, violations
from rankbound_study.figures.spec import FigureSpec

SPECS = {
    "figure_neural_links": FigureSpec(
        "RankNet and DirectRanker give a pair the probability σ(d) and σ(tanh d) of the same difference d of scores: "
        "one order, two links. DirectRanker's cannot leave 0.269 .. 0.731, so its loss never falls below 0.313. Right, "
        "for random models of a pair: the share of pairs whose winner depends on which item comes first, and of "
        "triples in which each item beats the next. Only an odd link of a score difference, and functions with its "
        "sign, are free of both.",
        title="Antisymmetry and transitivity",
        order=4,
    )
}

_REACH = 5.0


def draw() -> Any:
    """Draw the probability of winning by both links, the loss of a pair, and the violations of random models."""
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
