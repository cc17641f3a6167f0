r"""Mean differences with their standard errors: over units, over units and trainings, over pairs that share members.

Bootstrap and sign flips cover the sampling of topics, for fixed trained models. Covering new trainings takes several
seeds. With $d_{ufs}$ the difference of unit $u$ in fold $f$ under seed $s$, the mean is
$m = \sum_{ufs} w_{uf} d_{ufs} / S_f$, where $w_{uf} = 1 / (n F_u)$ (a unit counts once, however many folds it is in).
With the contribution $c_{fs} = \sum_u w_{uf} d_{ufs}$ of a training,

$$\operatorname{Var} m \approx \frac{s^2(\bar d_u)}{n} + \sum_f \frac{s^2_s(c_{fs})}{S_f} - E$$

where $E$ is the residual variance, after the effects of unit and training. It is part of both other terms and is
subtracted once. Degrees of freedom follow Satterthwaite.
"""

import math
from dataclasses import dataclass

import numpy as np

from rankbound.compare.dyadic import standard_error
from rankbound.compare.scores import Floats, Integers, Mask, any_over, mean_of_known, per_unit


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


def over_members(differences: Floats, members: Integers) -> Estimate:
    """Estimate the mean over pairs that share `members` `(n_pairs, 2)`: dyadic standard error, normal distribution."""
    return Estimate(_mean(differences), standard_error(differences, members), math.inf)


def over_trainings(cells: Floats) -> Estimate | None:
    """Estimate the mean over units and trainings, `(n_units, n_folds, n_seeds)`; None if a fold has only one seed."""
    seeds, variances = _of_trainings(cells)
    if not len(seeds) or seeds.min() < 2:
        return None
    units = per_unit(cells)
    n = len(units)
    of_units = _deviation(units) ** 2 / n
    of_trainings = variances / seeds
    smaller = max(of_units, float(of_trainings.sum()))
    variance = max(of_units + float(of_trainings.sum()) - _interaction(cells), smaller)
    squares = of_units**2 / (n - 1) + float((of_trainings**2 / (seeds - 1)).sum())
    freedom = (of_units + float(of_trainings.sum())) ** 2 / squares if squares else float(n - 1)
    return Estimate(_mean(units), math.sqrt(variance), freedom)


def seed_deviation(cells: Floats) -> float:
    """Return the noise floor: the standard deviation of a mean between single seeds; NaN if a fold has only one seed.

    `cells` `(n_units, n_folds, n_seeds)` are a system's scores or two systems' differences. Trainings of different
    folds are independent, even with the same seed.
    """
    seeds, variances = _of_trainings(cells)
    return math.sqrt(float(variances.sum())) if len(seeds) and seeds.min() > 1 else math.nan


def _of_trainings(cells: Floats) -> tuple[Integers, Floats]:
    """Return, for each fold with scores, the number of seeds and the variance of its contribution between seeds."""
    filled, weights, trained = _balanced(cells)
    used = any_over(trained, 1)
    parts = (weights[:, :, None] * filled).sum(0)[used]
    counts: Integers = trained[used].sum(1, dtype=np.int64)
    means = (parts * trained[used]).sum(1) / np.maximum(counts, 1)
    squares = (((parts - means[:, None]) * trained[used]) ** 2).sum(1)
    return counts, squares / np.maximum(counts - 1, 1)


def _interaction(cells: Floats) -> float:
    """Return the part of the mean's variance that neither unit nor training explains."""
    filled, weights, trained = _balanced(cells)
    listed = weights > 0
    counts, seeds = listed.sum(0), trained.sum(1)
    means = (filled * listed[:, :, None]).sum(0) / np.maximum(counts, 1)[:, None]
    residuals = np.where(listed[:, :, None] & trained, filled - means, 0.0)
    centre = residuals.sum(2, keepdims=True) / np.maximum(seeds, 1)[:, None]
    squares = np.where(trained, (residuals - centre) ** 2, 0.0).sum(2)
    freedom = np.maximum(seeds - 1, 1) * np.maximum(counts - 1, 1) / np.maximum(counts, 1)
    return float((weights**2 * squares / freedom / np.maximum(seeds, 1)).sum())


def _balanced(cells: Floats) -> tuple[Floats, Floats, Mask]:
    """Return scores without gaps, the weight of each list `(n_units, n_folds)`, and a mask of the trainings.

    A score that is undefined under some seeds of a fold is replaced by its mean over the others.
    """
    defined = np.isfinite(cells)
    lists = any_over(defined, 2)
    weights = lists / np.maximum(lists.sum(1, keepdims=True), 1) / max(1, int(any_over(lists, 1).sum()))
    mean = np.nan_to_num(mean_of_known(cells))[:, :, None]
    filled: Floats = np.where(defined, cells, mean)
    return filled, weights, any_over(defined, 0)


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values)


def _deviation(values: Floats) -> float:
    """Return the sample standard deviation; exact summation makes it independent of the order of units."""
    mean = _mean(values)
    return math.sqrt(math.fsum(((values - mean) ** 2).tolist()) / (len(values) - 1))
