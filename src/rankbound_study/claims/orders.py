r"""Losses that exchange places between two choices, such as the number of factors or the optimiser.

The order of losses whose means hardly differ is chance, whatever the choice, and Kendall's tau mixes such pairs with
those that matter. So each pair of losses is tested: with $d_c$ their difference under choice $c$, they exchange places
if $d_c > 0$ under one choice and $d_c < 0$ under another.

- refuted: a pair is shown to exchange places, both differences being significant (Holm over all pairs);
- confirmed: of every pair it is shown that it does not exchange places by $\delta$ or more on both sides: all its $d_c$
  are below $\delta$, or all are above $-\delta$. All tests must be significant (an intersection-union test).

If no pair exchanges places, at most 5 % of all studies refute; if one does by $\delta$, at most 5 % confirm.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from rankbound.compare import PairedScores
from rankbound.compare.margins import MARGIN
from rankbound_study.claims.agreement import least_tau
from rankbound_study.claims.cells import Contrast, contrast, enough, is_distinct
from rankbound_study.claims.rules import adjusted, by_p
from rankbound_study.claims.varied import Training, trainings
from rankbound_study.claims.verdict import INCONCLUSIVE, MissingEvidence
from rankbound_study.results.paired_scores import scores_of_runs

EXCHANGED = MARGIN / 2
"""Smallest advantage on each side that counts as an exchange: a swing of the margin, 0.01."""

_SEPARATOR = " / "


@dataclass(frozen=True)
class OrderKept:
    """The tests of all pairs of losses.

    Attributes:
        pairs: the number of pairs.
        exchanged: the pairs that are shown to exchange places.
        open: the number of pairs that are neither shown to exchange places nor not to.
        p_kept, p_exchanged: p-values of both verdicts.
        tau: the smallest Kendall's tau between the orders of two choices, by means over all seeds.
        has_seeds: every choice has several seeds; without them, differences between trainings are unknown.
    """

    pairs: int
    exchanged: Sequence[str]
    open: int
    p_kept: float
    p_exchanged: float
    tau: float
    has_seeds: bool = True

    @property
    def verdict(self) -> str:
        """Refuted if a pair exchanges places, confirmed if none does by half the margin."""
        return by_p(self.p_kept, self.p_exchanged) if self.has_seeds else INCONCLUSIVE

    def __str__(self) -> str:
        if not self.has_seeds:
            return f"a Kendall's tau of {self.tau:.2f} (with one seed, the effect of chance is unknown)"
        names = f" ({self.exchanged[0]})" if self.exchanged else ""
        return (
            f"{len(self.exchanged)} of {self.pairs} pairs of losses exchange places significantly{names}, {self.open} "
            f"may do so by {EXCHANGED} or more, and Kendall's tau is {self.tau:.2f}"
        )


def order_kept(choices: Sequence[pl.DataFrame], metric: str, untuned: Collection[Training] = ()) -> OrderKept:
    """Test whether losses exchange places between choices, which have the same losses and boundings.

    Args:
        choices: the rows of each choice.
        metric: on which all losses are compared.
        untuned: losses whose place is unknown under some choice; their pairs stay open.

    Raises:
        MissingEvidence: there are fewer than two losses, or fewer than two topics.
    """
    names = [_SEPARATOR.join(one) for one in trainings(choices[0]) if is_distinct(*one)]
    if len(names) < 2:
        raise MissingEvidence(f"an order needs two losses, and the experiment has {len(names)}: add others to it")
    scores = [scores_of_runs(rows, metric, by=("loss", "bounding")) for rows in choices]
    unknown = {_SEPARATOR.join(one) for one in untuned}
    found = {
        f"{one} and {other}": [_difference(each, one, other) for each in scores]
        for one, other in combinations(names, 2)
    }
    known = {key for key in found if not unknown & set(key.split(" and "))}
    kept = {key: _p_kept(each) if key in known else 1.0 for key, each in found.items()}
    exchanged = adjusted({key: _p_exchanged(each) if key in known else 1.0 for key, each in found.items()})
    shown = sorted((key for key in found if by_p(1.0, exchanged[key]) != INCONCLUSIVE), key=lambda key: exchanged[key])
    return OrderKept(
        len(found),
        shown,
        sum(by_p(kept[key], exchanged[key]) == INCONCLUSIVE for key in found),
        max(kept.values()),
        min(exchanged.values()),
        least_tau(choices, metric),
        all(np.isfinite(one.margin) for each in found.values() for one in each),
    )


def _difference(scores: PairedScores, one: str, other: str) -> Contrast:
    pair = scores.pair(one, other)
    enough(len(pair.units), f"with a score of {one} and {other}")
    return contrast(pair)


def _p_kept(of_choices: Sequence[Contrast]) -> float:
    """Return the p-value that is small if all differences are below the limit, or all above minus the limit."""
    below = max(one.estimate.p_below(EXCHANGED) for one in of_choices)
    above = max(one.estimate.p_above(-EXCHANGED) for one in of_choices)
    return min(1.0, 2 * min(below, above))


def _p_exchanged(of_choices: Sequence[Contrast]) -> float:
    """Return the p-value that is small if one difference is above zero and another below."""
    above = min(one.estimate.p_above(0.0) for one in of_choices)
    below = min(one.estimate.p_below(0.0) for one in of_choices)
    return min(1.0, len(of_choices) * max(above, below))
