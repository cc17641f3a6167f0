r"""Estimates, intervals and tests of mean differences: over units, over units and trainings, over pairs of members.

Bootstrap and sign flips cover the sampling of topics, for fixed trained models. Covering new trainings takes a design
of random effects, and at least three trainings. Units are crossed with trainings; trainings are nested: seeds in folds,
folds in drawings. A seed's effect is that of its initial weights and of what it selects for itself (the epoch); a
fold's is that of its training lists, of its negatives, and of what all its seeds share (a learning rate); a drawing's
is that of folds and negatives drawn together. With $d_{ufs}$ the difference of unit $u$ in fold $f$ (of a drawing)
under seed $s$, and $S_{uf}$ the number of seeds under which it is defined, the mean is

$$m = \sum_{uf} w_{uf} \bar d_{uf}, \qquad \bar d_{uf} = \frac1{S_{uf}} \sum_s d_{ufs}, \qquad w_{uf} = \frac1{n F_u}$$

(a unit counts once, however many folds it is in), and its variance is that of units plus that of trainings:

$$\operatorname{Var} m \approx T + \max_k (B_k - N_k, 0), \qquad
T = \sum_u \Big(\sum_f c_f w_{uf} (\bar d_{uf} - \bar d_f)\Big)^2, \qquad c_f^2 = \frac{n_f}{n_f - 1}$$

with $\bar d_f$ the means of folds. At each level $k$, $B_k$ is the variance of $m$ that the squares between its means
would have if they had no other cause, and $N_k$ the part of it that the sampling of units causes: for folds, with the
covariance $V_{fg}$ of their means over units (as in $T$) and the weights $v_f = \sum_u w_{uf}$,

$$B = \frac{\sum_f (\bar d_f - \bar d_{r(f)})^2}{F - R} \sum_f v_f^2, \qquad
N = \frac{\operatorname{tr}(C V)}{F - R} \sum_f v_f^2,$$

where $F$ folds are in $R$ drawings and $C$ centres means within drawings; for drawings likewise, with their means. (It
is the method of moments of random-effects models whose means have correlated errors.) For seeds, each fold's
least-squares fit of a list's effect and a seed's effect to the scores that exist has the variance of effects, and the
part of it that is due to residuals: missing scores are not filled. A level's squares contain those of the levels below.
So the maximum is over the highest level with at least four degrees of freedom (five drawings; or else five folds; or
else seeds) and the levels above it, which have fewer.

A variance estimated from few trainings is small by chance, and Satterthwaite's degrees of freedom are then too many.
The degrees of freedom are instead

$$\nu = \Big(\sum_k r_k^{4/3} / \nu_k\Big)^{-1}$$

with the shares $r_k$ of the variance that each level adds to those below, the lowest one with its $N_k$, and the rest
for units. The exponent 4/3 is between Satterthwaite's 2, whose 95 % intervals cover as little as 92 % with
$\nu_k = 2$, and 1, with up to 97 % (similar to Cochran's approximation). Where units are nested in folds and seeds do
not matter, this is the t interval of the folds' means. docs/statistics.md has the coverage by design.

Source: Searle, Casella and McCulloch 1992, "Variance components", on estimation from unbalanced data; Cochran 1964,
"Approximate significance levels of the Behrens-Fisher test"; Bouthillier et al. 2021, "Accounting for variance in
machine learning benchmarks", on the sources of variance: data splits, seeds, and the selection of hyperparameters.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.compare.scores import Floats, Integers, any_over, mean_of_known, per_unit
from rankbound.lazy import special, stats

CONFIDENCE = 0.95
RESAMPLES = 9999
METHODS = ("BCa", "t")
"""The bootstrap interval, and the t interval."""

FLIPS = 9999
"""Number of random sign vectors: p-values are multiples of 1 / (FLIPS + 1)."""

TESTS = {
    "flips": "randomisation test, {0.flips} sign flips",
    "t": "Student's paired t test",
    "wilcoxon": "Wilcoxon's signed-rank test without zero differences",
}
"""The tests of a difference over topics; templates take the settings."""

CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}
"""Corrections for several tests: two of the family-wise error rate, and one of the false discovery rate."""

LEAST_TRAININGS = 3
"""Fewer trainings give no interval over trainings: their variance would be estimated from a single difference."""

LEAST_MEMBERS = 5
"""Pairs of fewer members give no interval."""

_EXPONENT = 4 / 3
_ENOUGH = 4
"""Degrees of freedom of a level of trainings, such as five drawings, that need no help from the levels below it."""
_EXACT_UNITS = 13
"""All signs are enumerated for up to this many nonzero differences: 2^13 is less than FLIPS."""

_DECIMALS = 9
_ROUNDING = 1e-9
"""Differences of this size, in the case of sums as a share of the sum of absolute terms, are due to rounding."""

_NUMBERS_AT_ONCE = 2**22
_DRAWS_AT_ONCE = 2**18
_KEPT_DRAWS = 2**26
"""Bootstrap draws of up to this many counts (a byte each) are cached for other values of the same number of units."""


@dataclass(frozen=True)
class Estimate:
    """A mean, its standard error, and the degrees of freedom of its t distribution."""

    mean: float
    standard_error: float
    degrees_of_freedom: float

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the t interval of level `confidence`."""
        reach = float(special.stdtrit(self.degrees_of_freedom, (1 + confidence) / 2)) * self.standard_error
        return self.mean - reach, self.mean + reach

    def p_value(self) -> float:
        """Return the two-sided p-value of the hypothesis that the true mean is 0."""
        return min(1.0, 2 * min(self.p_above(0.0), self.p_below(0.0)))

    def p_above(self, limit: float) -> float:
        """Return the one-sided p-value against a true mean of at most `limit`."""
        if self.standard_error == 0:
            return 0.0 if self.mean > limit else 1.0
        # As `scipy.stats.t.sf`, which takes a hundred times as long to check its arguments.
        return float(special.stdtr(self.degrees_of_freedom, (limit - self.mean) / self.standard_error))

    def p_below(self, limit: float) -> float:
        """Return the one-sided p-value against a true mean of at least `limit`."""
        return Estimate(-self.mean, self.standard_error, self.degrees_of_freedom).p_above(-limit)


def over_units(differences: Floats) -> Estimate:
    """Estimate the mean over independent units `(n_units,)`, at least two."""
    n, mean = len(differences), _mean(differences)
    # Exact summation makes the standard deviation independent of the order of units.
    deviation = math.sqrt(math.fsum(((differences - mean) ** 2).tolist()) / (n - 1))
    return Estimate(mean, deviation / math.sqrt(n), n - 1)


def over_trainings(cells: Floats, drawings: Integers | None = None) -> Estimate | None:
    """Estimate the mean of `cells` `(n_units, n_folds, n_seeds)`, NaN without a score, over units and trainings.

    `drawings` `(n_folds,)` are numbers that identify the drawing of each fold; by default, all are of one. None is
    returned for fewer than three trainings, or a single fold whose seeds no list connects.
    """
    fits, in_lists = _fits(cells)
    scored = np.isfinite(cells)
    if any_over(scored, 0).sum() < LEAST_TRAININGS:
        return None
    ran = any_over(scored, (0, 2))
    lists = any_over(scored, 2)[:, ran]
    n, counts = len(cells), lists.sum(0)
    weights = lists / (n * lists.sum(1, keepdims=True))
    means = np.where(lists, mean_of_known(cells[:, ran]), 0.0)
    shares = weights.sum(0)
    of_folds = (weights * means).sum(0) / shares
    spread = np.sqrt(counts / np.maximum(counts - 1, 1))
    moved = spread * weights * np.where(lists, means - in_lists[:, ran] - of_folds, 0.0)
    of_units = math.fsum((moved.sum(1) ** 2).tolist())
    covariance = moved.T @ moved / np.outer(shares, shares)
    levels: list[tuple[float, float, float]] = []
    if len(fits[0]):
        n_seeds, squares, between, noise, _ = fits
        # As if trainings of all folds varied alike: shares of folds that are estimated would vary by chance.
        freedom = float(squares.sum() ** 2 / (squares**2 / (n_seeds - 1)).sum())
        levels.append((float(squares @ between), float(squares @ noise), freedom))
    of_one = np.zeros(len(ran), np.int64) if drawings is None else drawings
    members = (of_one[ran][:, None] == np.unique(of_one[ran])).astype(np.float64)
    to_drawings = members / members.sum(0)
    for centring, parts, of_means in (
        (np.eye(len(shares)) - members @ to_drawings.T, shares, np.eye(len(shares))),
        (np.eye(members.shape[1]) - 1 / members.shape[1], shares @ members, to_drawings),
    ):
        freedom = round(float(np.trace(centring)))
        if freedom:
            values, errors = of_folds @ of_means, of_means.T @ covariance @ of_means
            scale = float(parts @ parts) / freedom
            levels.append(
                (scale * float(values @ centring @ values), scale * float((centring * errors).sum()), freedom)
            )
    if not levels:
        return None
    # A level's squares contain those of the levels below, which add nothing where it has the degrees of freedom.
    enough = [place for place, (*_, freedom) in enumerate(levels) if freedom >= _ENOUGH]
    added = 0.0
    variances: list[float] = []
    freedoms: list[float] = []
    for squares_between, of_noise, freedom in levels[max(enough, default=0) :]:
        if squares_between - of_noise > added:
            variances.append(squares_between - of_noise - added if variances else squares_between)
            freedoms.append(freedom)
            added = squares_between - of_noise
    variance = of_units + added
    nested = bool((lists.sum(1) == 1).all())
    variances.append(max(variance - sum(variances), 0.0))
    freedoms.append(max(n - (len(shares) if nested else 1), 1))
    known = np.minimum(np.array(variances) / variance, 1.0) if variance else np.eye(len(variances))[-1]
    return Estimate(_mean(per_unit(cells)), math.sqrt(variance), float(1 / (known**_EXPONENT / freedoms).sum()))


def seed_deviation(cells: Floats) -> float:
    """Return the noise floor: the standard deviation of a mean between single seeds; NaN if it cannot be estimated.

    `cells` `(n_units, n_folds, n_seeds)` are a system's scores or two systems' differences. Trainings of different
    folds are independent, even with the same seed. It cannot be estimated if a fold has only one seed, or seeds that
    no list connects.
    """
    *_, of_a_seed = _fits(cells)[0]
    return math.sqrt(max(sum(of_a_seed.tolist()), 0.0)) if len(of_a_seed) else math.nan


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

    Of `values` `(n_pairs,)`, numbers identify the `members` `(n_pairs, 2)`; ValueError for other shapes, or no pair.
    None is returned for fewer than five members or two different pairs, or if a member is in all pairs.

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


def interval_of_mean(
    values: Floats,
    members: Integers | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    method: str = METHODS[0],
    seed: int = 0,
) -> tuple[float, float]:
    r"""Return the interval of the mean of values `(n_units,)`, ignoring NaNs; NaN for fewer than two units.

    For pairs with `members` `(n_units, 2)`, it is the t interval of `over_members`, NaN where that has no estimate.

    A bootstrap interval of $n$ units is too narrow: resamples have the variance of the sample, without the factor
    $n / (n - 1)$, and normal quantiles, where $t$ quantiles are due. It is therefore taken at the level
    $2 \Phi(t_{n-1} \sqrt{n / (n - 1)}) - 1$, with $t_{n-1}$ the quantile of the t interval of level `confidence`. With
    so few units that the whole range of the sample would not have this level (five, for 95 %), it is the t interval.
    It does not depend on the order of units, and changing all signs mirrors it.

    Source: Hesterberg 2015, "What teachers should know about the bootstrap", on expanded percentile intervals.
    """
    known = np.isfinite(values)
    if members is not None:
        estimate = over_members(values[known], members[known]) if known.any() else None
        return (math.nan, math.nan) if estimate is None else estimate.interval(confidence)
    known = np.sort(values[known])
    n = len(known)
    if n < 2:
        return math.nan, math.nan
    if known[0] == known[-1]:
        return float(known[0]), float(known[0])
    if method == "t" or not can_reach(n, 1 - confidence):
        return over_units(known).interval(confidence)
    level = 2 * float(special.ndtr(special.stdtrit(n - 1, (1 + confidence) / 2) * math.sqrt(n / (n - 1)))) - 1
    # A sample and its mirror image use the same draws.
    mirrored = -known[::-1]
    unequal = np.flatnonzero(known != mirrored)
    swapped = len(unequal) > 0 and bool(known[unequal[0]] < mirrored[unequal[0]])
    drawn = mirrored if swapped else known
    resampled = drawn_means(drawn, resamples, seed)
    low, high = bootstrap(lambda sample, axis: sample.mean(axis), drawn, level, resampled=resampled)
    return (-high, -low) if swapped else (low, high)


def p_value_of_mean(
    values: Floats, members: Integers | None = None, flips: int = FLIPS, seed: int = 0, test: str = "flips"
) -> float:
    """Return the two-sided p-value of a true mean of 0, from values `(n_units,)`; NaNs are ignored, NaN without units.

    The `test` is `sign_flip` (`flips`), Student's t test as `scipy.stats.ttest_rel` (`t`, NaN for a single unit), or
    `wilcoxon`. For pairs with `members` `(n_units, 2)`, it is the t test of `over_members` for `flips` and `t`, NaN
    where that has no estimate.

    Raises:
        ValueError: Wilcoxon's test of pairs that share members.
    """
    known = np.isfinite(values)
    if members is not None:
        if test == "wilcoxon":
            raise ValueError("test: found wilcoxon for pairs that share members, expected t: they are not independent")
        estimate = over_members(values[known], members[known]) if known.any() else None
    elif test == "flips":
        return sign_flip(values, flips, seed)
    elif test == "wilcoxon":
        return wilcoxon(values)
    else:
        estimate = over_units(values[known]) if known.sum() > 1 else None
    return math.nan if estimate is None else estimate.p_value()


def wilcoxon(differences: Floats) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test of differences `(n_units,)` by scipy.

    Zero differences are left out. As scipy's `auto` method, it is exact for up to 50 units without zeros and ties, and
    otherwise by the normal distribution, but for few units. Differences are rounded to nine decimals, so that scores
    of different rounding errors are zeros and ties, too. NaNs are ignored; NaN without differences, 1 if all are zero.
    """
    known = np.round(differences[np.isfinite(differences)], _DECIMALS)
    if not known.any():
        return 1.0 if len(known) else math.nan
    sizes = np.abs(known[known != 0])
    if len(known) <= _EXACT_UNITS and len(np.unique(sizes)) < len(known):
        # scipy tries the signs of the ranks one by one, ten thousand times as slowly.
        return sign_flip(np.sign(known[known != 0]) * stats.rankdata(sizes))
    return float(stats.wilcoxon(known).pvalue)


def sign_flip(differences: Floats, flips: int = FLIPS, seed: int = 0) -> float:
    r"""Return the two-sided p-value of a mean difference, by random sign flips of the differences `(n_units,)`.

    If the two systems are exchangeable, each $d_u$ could as well have been $-d_u$:

    $$p = \frac{1 + \#\{f : |\sum_u s_{fu} d_u| \ge |\sum_u d_u|\}}{1 + F}, \qquad s_{fu} = \pm 1$$

    over $F$ = `flips` random sign vectors and the observed one. With at most 13 nonzero differences, it is the exact
    share over all sign vectors. `scipy.stats.permutation_test` gives the same, more slowly. The p-value does not
    depend on the order of units or on the sign of all differences, to the last digit. NaNs are ignored; NaN without
    differences.

    Source: Smucker, Allan and Carterette 2007, "A comparison of statistical significance tests for information
    retrieval evaluation".
    """
    known = differences[np.isfinite(differences)]
    if not len(known):
        return math.nan
    # The null distribution depends on the absolute values alone; sorting makes it independent of their order.
    sizes = np.sort(np.abs(known))
    sizes = sizes[sizes > 0]
    least = abs(math.fsum(known.tolist())) - _ROUNDING * sizes.sum()
    if len(sizes) <= _EXACT_UNITS:
        positive = np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes)) & 1
        return float((np.abs((2.0 * positive - 1) @ sizes) >= least).mean())
    random = np.random.default_rng(seed)
    reached, batch = 1, max(1, _NUMBERS_AT_ONCE // len(sizes))
    for start in range(0, flips, batch):
        shape = (min(batch, flips - start), -(-len(sizes) // 8))
        signs = np.unpackbits(random.integers(0, 256, shape, dtype=np.uint8), axis=1, count=len(sizes))
        reached += int((np.abs(2.0 * (signs @ sizes) - sizes.sum()) >= least).sum())
    return reached / (flips + 1)


def corrected(p_values: Sequence[float], correction: str = "holm") -> list[float]:
    r"""Return adjusted p-values, in the order of the input.

    Of the ascending p-values of $m$ tests, `holm`, `bonferroni` and `bh` (Benjamini-Hochberg) return

    $$\max_{j \le i} \min(1, (m - j + 1) p_{(j)}), \qquad \min(1, m p_{(i)}), \qquad
    \min_{j \ge i} \min(1, m p_{(j)} / j)$$

    The first two control the family-wise error rate, the third the false discovery rate. NaNs, of tests that were not
    made, stay NaN and do not count in the number $m$ of tests.

    Source: Holm 1979, "A simple sequentially rejective multiple test procedure"; Benjamini and Hochberg 1995,
    "Controlling the false discovery rate: a practical and powerful approach to multiple testing".

    >>> corrected([0.01, 0.04, 0.03], correction="bh")
    [0.03, 0.04, 0.04]
    """
    values, adjusted = np.array(p_values, dtype=np.float64), np.full(len(p_values), math.nan)
    tested = np.flatnonzero(~np.isnan(values))
    ascending = tested[np.argsort(values[tested], kind="stable")]
    m, sizes = len(tested), values[ascending]
    if correction == "holm":
        raised = np.maximum.accumulate(np.arange(m, 0, -1) * sizes)
    elif correction == "bonferroni":
        raised = m * sizes
    else:
        raised = np.minimum.accumulate((m / np.arange(1, m + 1) * sizes)[::-1])[::-1]
    adjusted[ascending] = np.minimum(1.0, raised)
    return adjusted.tolist()


def bootstrap(
    statistic: Callable[..., Any],
    values: Floats,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    resampled: Floats | None = None,
) -> tuple[float, float]:
    """Return the bootstrap interval of a statistic, `statistic(column, ..., axis)` of `values` `(n_columns, n_units)`.

    The columns of a unit are resampled together, such as two systems' scores for a correlation or a difference of
    quantiles. `resampled` `(resamples,)` is the statistic of every resample, if known. Degenerate samples raise no
    warning:

    - resamples with an undefined statistic (NaN or infinite) are ignored;
    - if the BCa correction is undefined, as when hardly any resamples differ, the percentile interval is returned;
    - the interval is NaN for fewer than two units, or if no resample defines the statistic.
    """
    columns = np.atleast_2d(values)
    if columns.shape[1] < 2:
        return math.nan, math.nan
    known = SimpleNamespace(bootstrap_distribution=resampled)
    how = {"n_resamples": resamples} if resampled is None else {"n_resamples": 0, "bootstrap_result": known}
    with warnings.catch_warnings():
        # Undefined intervals are handled below.
        warnings.simplefilter("ignore")
        result: Any = stats.bootstrap(
            tuple(columns),
            statistic,
            paired=True,
            vectorized=True,
            batch=max(1, _NUMBERS_AT_ONCE // columns.size),
            confidence_level=confidence,
            method="BCa",
            rng=np.random.default_rng(seed),
            **how,
        )
    low, high = map(float, result.confidence_interval)
    defined = math.isfinite(low) and math.isfinite(high)
    return (low, high) if defined else percentiles(result.bootstrap_distribution, confidence)


def percentiles(resampled: Floats, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the percentile interval of the defined resamples; NaN if there is none."""
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def can_reach(n: int, level: float) -> bool:
    """Return True if the least p-value of `n` sign flips, 2 / 2^n, is at most `level`.

    It is also the probability that a symmetric sample lies on one side of its centre, where no resample reaches.
    """
    return 2.0 ** (1 - n) <= level * (1 + _ROUNDING)


def draws(random: np.random.Generator, n: int, resamples: int) -> Floats:
    """Return how often each of n units is drawn when n are drawn with replacement, `(resamples, n)`.

    `draws @ values / n` is the mean of every resample, for any values of the same n units.
    """
    drawn = random.integers(0, n, (resamples, n)) + n * np.arange(resamples)[:, None]
    return np.bincount(drawn.reshape(-1), minlength=resamples * n).reshape(resamples, n).astype(np.float64)


def drawn_means(values: Floats, resamples: int, seed: int) -> Floats:
    """Return the resampled means `([k,] resamples)` of values `([k,] n)`; the same seed gives the same draws."""
    n = values.shape[-1]
    drawn = _kept_draws if n * resamples <= _KEPT_DRAWS else _new_draws
    means: Floats = np.concatenate([counts @ values.T for counts in drawn(n, resamples, seed)]).T / n
    return means


@lru_cache(maxsize=2)
def _kept_draws(n: int, resamples: int, seed: int) -> Iterable[npt.NDArray[np.uint8]]:
    return tuple(_new_draws(n, resamples, seed))


def _new_draws(n: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield draws as bytes; the probability that a unit is drawn more than 255 times is below 1e-500."""
    random, batch = np.random.default_rng(seed), max(1, _DRAWS_AT_ONCE // n)
    for start in range(0, resamples, batch):
        yield draws(random, n, min(batch, resamples - start)).astype(np.uint8)


def _fits(cells: Floats) -> tuple[Floats, Floats]:
    """Fit effects of lists and of seeds to the scores of each fold that has any.

    Returns:
        `(5, n_folds)`, without folds if one of them does not identify the effects of its seeds: the number of
        trainings; the sum of the squares of their weights in the mean; the variance of their effects; the part of it
        that is due to residuals; and the variance of the fold's part of the mean between single seeds. Then the part
        of each list's mean that is due to the effects, `(n_units, n_folds)`.
    """
    lists = any_over(np.isfinite(cells), 2)
    portions_of_folds = lists / np.maximum(lists.sum(1, keepdims=True), 1)
    fits, effects_in_lists = [], np.zeros(lists.shape)
    for fold in np.flatnonzero(lists.any(0)):
        in_unit, scored = portions_of_folds[:, fold], np.isfinite(cells[:, fold])
        seeds = scored.any(0)
        scored, scores = scored[:, seeds], cells[:, fold][:, seeds]
        counts, n_seeds = scored.sum(1, keepdims=True), int(seeds.sum())
        portions = scored / np.maximum(counts, 1)
        values = np.where(scored, scores, 0.0)
        centred = np.where(scored, values - (portions * values).sum(1, keepdims=True), 0.0)
        # The normal equations of the seeds, after the lists' effects are eliminated: a Laplacian matrix of the seeds,
        # whose eigenvalue 0 is single if lists connect all of them.
        eigenvalues, vectors = np.linalg.eigh(np.diag(scored.sum(0)) - portions.T @ scored)
        if n_seeds < 2 or eigenvalues[1] < _ROUNDING:
            return np.empty((5, 0)), np.zeros(lists.shape)
        inverse = vectors[:, 1:] / eigenvalues[1:] @ vectors[:, 1:].T
        effects = inverse @ centred.sum(0)
        in_lists = portions @ effects
        residuals = np.where(scored, centred - effects + in_lists[:, None], 0.0)
        freedom = int(counts.sum()) - int(lists[:, fold].sum()) - (n_seeds - 1)
        residual = float((residuals**2).sum()) / freedom if freedom else 0.0
        between, leverage = float(effects.var(ddof=1)), float(np.trace(inverse)) / (n_seeds - 1)
        weight = float(((in_unit @ portions / len(cells)) ** 2).sum())
        share, squares = float(in_unit.sum()) / len(cells), float((in_unit**2).sum()) / len(cells) ** 2
        # The noise of lists that are not missing takes the place of that of the fit.
        of_a_seed = share**2 * between + (squares - share**2 * leverage) * residual
        fits.append((n_seeds, weight, between, leverage * residual, of_a_seed))
        effects_in_lists[:, fold] = in_lists
    return np.array(fits).reshape(-1, 5).T, effects_in_lists


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values)
