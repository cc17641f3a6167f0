r"""Mean differences with their standard errors: over units, over units and trainings, over pairs that share members.

Bootstrap and sign flips cover the sampling of topics, for fixed trained models. Covering new trainings takes several
seeds, and at least three trainings. With $d_{ufs}$ the difference of unit $u$ in fold $f$ under seed $s$, and $S_{uf}$
the number of seeds under which it is defined, the mean is $m = \sum_{ufs} w_{uf} d_{ufs} / S_{uf}$, where
$w_{uf} = 1 / (n F_u)$ (a unit counts once, however many folds it is in). Missing scores are not filled: each fold's
least-squares fit of a list's effect and a seed's effect $t_{fs}$ to the scores that exist estimates the variance
$\sigma_f^2$ of a training's effect, and

$$\operatorname{Var} m \approx \frac{s^2(u)}{n} + \sum_f \sigma_f^2 \sum_s v_{fs}^2, \qquad
\sigma_f^2 = s^2_s(t_{fs}) - g_f E_f,$$

where $v_{fs}$ is the weight of a training in the mean, $s^2(u)$ the variance of units' means without the effects of
trainings, $E_f$ the residual variance, and $g_f E_f$ its part in the variance of the fitted effects.

A variance estimated from few trainings is small by chance, and Satterthwaite's degrees of freedom are then too many.
The degrees of freedom are instead

$$\nu = \Big(\sum_k r_k^{4/3} / \nu_k\Big)^{-1}$$

for the part of topics, $n - 1$, and the part that trainings add, with the degrees of freedom of a balanced design and
shares $r_k$ of the variance. The exponent 4/3 is between Satterthwaite's 2, whose 95 % intervals cover as little as
92 % with $\nu_k = 2$, and 1, with up to 97 % (similar to Cochran's approximation). With 4/3 they cover 93.5 to 96.5 %,
whatever the shares, if variances are known to these degrees of freedom; docs/statistics.md has the figures by design.

Source: Searle, Casella and McCulloch 1992, "Variance components", on estimation from unbalanced data; Cochran 1964,
"Approximate significance levels of the Behrens-Fisher test".
"""

import math
from dataclasses import dataclass

import numpy as np

from rankbound.compare.scores import Floats, Integers, any_over, per_unit

LEAST_TRAININGS = 3
"""Fewer trainings give no interval over trainings: their variance would be estimated from a single difference."""

LEAST_MEMBERS = 5
"""Pairs of fewer members give no interval."""

_EXPONENT = 4 / 3

_ROUNDING = 1e-9
"""Differences of this size are due to rounding."""


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error, and the degrees of freedom of its t distribution."""

    mean: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the t interval of level `confidence`."""
        from scipy import special

        reach = float(special.stdtrit(self.degrees_of_freedom, (1 + confidence) / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach

    def p_value(self) -> float:
        """Return the two-sided p-value of the hypothesis that the true mean is 0."""
        return min(1.0, 2 * min(self.p_above(0.0), self.p_below(0.0)))

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value against a true mean of at most `limit`."""
        from scipy import special

        if self.standard_error == 0:
            return 0.0 if self.mean > limit else 1.0
        # As `scipy.stats.t.sf`, which takes a hundred times as long to check its arguments.
        return float(special.stdtr(self.degrees_of_freedom, (limit - self.mean) / self.standard_error))

    def p_below(self, limit: float) -> float:
        """Return the one-sided p-value against a true mean of at least `limit`."""
        return Estimate(-self.mean, self.standard_error, self.degrees_of_freedom).p_above(-limit)


def over_units(differences: Floats) -> Estimate:
    """Estimate the mean over independent units `(n_units,)`, at least two."""
    n = len(differences)
    return Estimate(_mean(differences), _deviation(differences) / math.sqrt(n), n - 1)


def over_trainings(cells: Floats) -> Estimate | None:
    """Estimate the mean over units and trainings, `(n_units, n_folds, n_seeds)`.

    None if the variance between trainings cannot be estimated: a fold has only one seed, or seeds that no list
    connects, or there are fewer than three trainings.
    """
    fits = _fits(cells)
    if fits is None or sum(len(fit.effects) for fit in fits) < LEAST_TRAININGS:
        return None
    n, units = len(cells), per_unit(cells)
    of_units = _deviation(units - sum(fit.in_units for fit in fits)) ** 2 / n
    squares = np.array([float((fit.weights**2).sum()) for fit in fits])
    of_trainings = float(squares @ [fit.between for fit in fits])
    noise = float(squares @ [fit.leverage * fit.residual for fit in fits])
    variance = max(of_units + of_trainings - noise, of_units, of_trainings)
    # As if trainings of all folds varied alike: shares of folds that are estimated would vary by chance.
    of_folds = float(squares.sum() ** 2 / (squares**2 / [len(fit.effects) - 1 for fit in fits]).sum())
    freedom = _degrees_of_freedom((of_units, variance - of_units), (n - 1, of_folds))
    return Estimate(_mean(units), math.sqrt(variance), freedom)


def seed_deviation(cells: Floats) -> float:
    """Return the noise floor: the standard deviation of a mean between single seeds; NaN if it cannot be estimated.

    `cells` `(n_units, n_folds, n_seeds)` are a system's scores or two systems' differences. Trainings of different
    folds are independent, even with the same seed. It cannot be estimated if a fold has only one seed, or seeds that
    no list connects.
    """
    fits = _fits(cells)
    if fits is None:
        return math.nan
    # The noise of lists that are not missing takes the place of that of the fit.
    excess = (fit.squares - fit.share**2 * fit.leverage for fit in fits)
    variances = (fit.share**2 * fit.between + more * fit.residual for fit, more in zip(fits, excess, strict=True))
    return math.sqrt(max(sum(variances), 0.0))


@dataclass(frozen=True)
class _Fit:
    """The additive fit of a fold's lists and seeds to their scores.

    Attributes:
        effects, weights: the effect `(n_seeds,)` of each training, 0 on average, and its weight in the mean.
        between, residual: the variance of the effects, and of the residuals of single scores.
        leverage: the variance of the effects that residuals of variance 1 alone would cause.
        in_units: the part `(n_units,)` of units' means that is due to the effects.
        share, squares: the sum of the weights of the fold's lists in the mean, and of their squares.
    """

    effects: Floats
    weights: Floats
    between: float
    residual: float
    leverage: float
    in_units: Floats
    share: float
    squares: float


def _fits(cells: Floats) -> list[_Fit] | None:
    """Return the fit of each fold with scores; None if one of them does not identify the effects of its seeds."""
    defined = np.isfinite(cells)
    lists = any_over(defined, 2)
    in_unit = lists / np.maximum(lists.sum(1, keepdims=True), 1)
    fits = []
    for fold in np.flatnonzero(lists.any(0)):
        fit = _fit(cells[:, fold], in_unit[:, fold])
        if fit is None:
            return None
        fits.append(fit)
    return fits or None


def _fit(scores: Floats, in_unit: Floats) -> _Fit | None:
    scored = np.isfinite(scores)
    scores, scored = scores[:, scored.any(0)], scored[:, scored.any(0)]
    counts, n_lists, n_seeds = scored.sum(1, keepdims=True), int(scored.any(1).sum()), scored.shape[1]
    portions = scored / np.maximum(counts, 1)
    values = np.where(scored, scores, 0.0)
    centred = np.where(scored, values - (portions * values).sum(1, keepdims=True), 0.0)
    # The normal equations of the seeds, after the lists' effects are eliminated.
    equations = np.diag(scored.sum(0)) - portions.T @ scored
    # A Laplacian matrix of the seeds: its eigenvalue 0 is single if lists connect all seeds.
    eigenvalues, vectors = np.linalg.eigh(equations)
    if n_seeds < 2 or eigenvalues[1] < _ROUNDING:
        return None
    inverse = vectors[:, 1:] / eigenvalues[1:] @ vectors[:, 1:].T
    effects = inverse @ centred.sum(0)
    in_lists = portions @ effects
    residuals = np.where(scored, centred - effects + in_lists[:, None], 0.0)
    freedom = int(counts.sum()) - n_lists - (n_seeds - 1)
    return _Fit(
        effects,
        weights=in_unit @ portions / len(in_unit),
        between=float(effects.var(ddof=1)),
        residual=float((residuals**2).sum()) / freedom if freedom else 0.0,
        leverage=float(np.trace(inverse)) / (n_seeds - 1),
        in_units=in_unit * in_lists,
        share=float(in_unit.sum()) / len(in_unit),
        squares=float((in_unit**2).sum()) / len(in_unit) ** 2,
    )


def over_members(values: Floats, members: Integers) -> Estimate | None:
    r"""Estimate the mean of one value per pair, where pairs that share members are not independent.

    With $w_p$ the weight of a pair $p$ of two members among all pairs (one that occurs twice has twice the weight),
    $u_p = w_p (y_p - m)$ and independent effects of variance $\sigma^2$ of members and $\tau^2$ of pairs, the squares

    $$Q_1 = \sum_i \Big(\sum_{p \ni i} u_p\Big)^2, \qquad Q_2 = \sum_p u_p^2, \qquad
    \operatorname{Var} m = \sigma^2 \sum_i \Big(\sum_{p \ni i} w_p\Big)^2 + \tau^2 \sum_p w_p^2$$

    have known expectations in $\sigma^2$ and $\tau^2$, from which the variance is estimated without bias; it is at
    least that of independent pairs ($\sigma^2 = 0$). For many members it becomes the dyadic cluster-robust variance
    $Q_1 - Q_2$ of the sources, whose bias for few members is large. The degrees of freedom are those of members, with
    $v_i$ the sum of the weights of a member's pairs and $G$ the number of members, but not more than those of pairs:

    $$\nu = \frac{G - 1}{G} \cdot \frac{(\sum_i v_i^2)^2}{\sum_i v_i^4}$$

    Bootstrapping the members is no alternative: it triples the variance of pairs that share no member.

    Source: Fafchamps and Gubert 2007, "The formation of risk sharing networks"; Aronow, Samii and Assenova 2015,
    "Cluster-robust variance estimation for dyadic data".

    Args:
        values: `(n_pairs,)`, at least one.
        members: `(n_pairs, 2)`, numbers that identify the members.

    Returns:
        The estimate; None for fewer than five members or two different pairs, or if a member is in all pairs.

    Raises:
        ValueError: `members` has another shape than `(n_pairs, 2)`, or there is no pair.

    Examples:
        >>> right = np.array([1.0, 0.0, 1.0, 0.0])
        >>> round(over_members(right, np.array([[1, 2], [3, 4], [5, 6], [7, 8]])).standard_error, 4)
        0.2887
        >>> round(over_members(right, np.array([[1, 2], [3, 4], [1, 6], [7, 8]])).standard_error, 4)
        0.3536
    """
    n = len(values)
    if not n or members.shape != (n, 2):
        raise ValueError(f"members: found shape {members.shape}, expected {(n, 2)}: the two of each pair")
    mean = _mean(values)
    names, numbered = np.unique(members, return_inverse=True)
    pairs, pair = np.unique(np.sort(numbered.reshape(n, 2), axis=1), axis=0, return_inverse=True)
    first, second = pairs.T
    of_two = first != second

    def per_member(of_pairs: Floats) -> Floats:
        """Sum over the pairs of each member; a pair of a member with itself counts once."""
        sums = np.bincount(first, of_pairs, len(names)) + np.bincount(second, of_pairs * of_two, len(names))
        return sums.astype(np.float64)

    weights: Floats = np.bincount(pair.reshape(-1)).astype(np.float64) / n
    portions = per_member(weights)
    if len(names) < LEAST_MEMBERS or len(pairs) < 2 or portions.max() > 1 - 1 / (2 * n):
        return None
    of_pairs, of_members = float((weights**2).sum()), float((portions**2).sum())
    # Expectations of both squares if only pairs, or only members, have effects of variance 1.
    sum_of_two = portions[first] + portions[second] * of_two
    mixed = float((portions**3).sum() + 2 * (weights * portions[first] * portions[second])[of_two].sum())
    common = of_members + 2 * float((weights[of_two] ** 2).sum())
    first_of_pairs = float((per_member(weights**2) * (1 - 2 * portions) + portions**2 * of_pairs).sum())
    first_of_members = common - 2 * mixed + of_members**2
    second_of_pairs = float((weights**2 * (1 - 2 * weights + of_pairs)).sum())
    second_of_members = float((weights**2 * (1 + of_two - 2 * sum_of_two + of_members)).sum())
    residuals: Floats = np.bincount(pair.reshape(-1), values - mean) / n
    first_square = float((per_member(residuals) ** 2).sum()) / first_of_pairs
    second_square = float((residuals**2).sum()) / second_of_pairs
    # In units of the variance that is due to pairs: what a variance 1 of members adds.
    in_first, in_second = first_of_members / first_of_pairs, second_of_members / second_of_pairs
    in_mean = of_members / of_pairs
    separate = in_first > (1 + _ROUNDING) * in_second
    slope = max(0.0, (first_square - second_square) / (in_first - in_second)) if separate else 0.0
    variance = of_pairs * (second_square + (in_mean - in_second) * slope)
    # Of the design alone: with few members, how much of the variance is theirs can hardly be estimated.
    freedom = min(of_members**2 / float((portions**4).sum()) * (1 - 1 / len(names)), len(pairs) - 1)
    return Estimate(mean, math.sqrt(variance), freedom)


def _degrees_of_freedom(parts: tuple[float, float], freedoms: tuple[float, float]) -> float:
    """Return the degrees of freedom of a sum of two variances; those of the first if both are 0."""
    shares = np.array(parts) / sum(parts) if sum(parts) else np.array([1.0, 0.0])
    return float(1 / (shares**_EXPONENT / np.array(freedoms)).sum())


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values)


def _deviation(values: Floats) -> float:
    """Return the sample standard deviation; exact summation makes it independent of the order of units."""
    mean = _mean(values)
    return math.sqrt(math.fsum(((values - mean) ** 2).tolist()) / (len(values) - 1))
