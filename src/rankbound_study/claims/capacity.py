"""Claims about the size of a model: more latent factors on MovieLens, a wider hidden layer on MQ2008."""

import numpy as np
from scipy import stats

from rankbound.compare.effects import LEVEL
from rankbound.compare.margins import MARGIN, against_margin
from rankbound.compare.randomisation import holm
from rankbound_study.claims.cells import MQ2008, Column
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.orders import order_kept
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import together
from rankbound_study.claims.varied import USUAL, column_of, paired, per_topic, trainings, variants
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Verdict
from rankbound_study.results.number_texts import signed

SIZES = ("f16", USUAL, "f64")
"""16, 32 and 64 factors: the variants of the experiment `factors`, with the study's own size between them."""


@decides("T20")
def more_factors_rank_better_and_keep_the_order(evidence: Evidence) -> Verdict:
    """Decide by the trend of mean nDCG over three sizes, and by the agreement of the losses' orders between sizes."""
    column = column_of(evidence, "factors")
    found = variants(evidence, "factors", column)
    sizes = [found[name] for name in SIZES if name in found]
    topics = [per_topic(rows, "nDCG") for rows in sizes]
    table = np.column_stack([one["nDCG"].to_numpy() for one in topics])
    table = table[np.isfinite(table).all(1)]
    if table.shape[0] < 2 or table.shape[1] < 3:
        reason = f"{len(table)} topics at {table.shape[1]} sizes: a trend needs two topics at three sizes."
        return Verdict(INCONCLUSIVE, reason, n=len(table))
    rises = float(stats.page_trend_test(table).pvalue)
    falls = float(stats.page_trend_test(table[:, ::-1]).pvalue)
    trend = CONFIRMED if rises <= LEVEL else REFUTED if falls <= LEVEL else INCONCLUSIVE
    order = order_kept(sizes, sizes, "nDCG")
    means = ", ".join(f"{value:.4f}" for value in table.mean(0))
    return Verdict(
        together(trend, order.verdict),
        f"Mean nDCG of all losses with 16, 32 and 64 factors is {means} on {column} (upward trend: p = {rises:.2g}); "
        f"the orders of the losses agree between sizes with a Kendall's tau of at least {order}.",
        statistic="mean nDCG, 64 minus 16 factors",
        value=float(table.mean(0)[-1] - table.mean(0)[0]),
        p_value=rises,
        n=len(table),
    )


@decides("T21")
def the_width_hardly_matters(evidence: Evidence) -> Verdict:
    """Decide by whether every width scores within 0.01 of the study's own, for each unbounded loss."""
    found = dict(variants(evidence, "widths", Column(MQ2008, None)))
    usual = found.pop(USUAL)
    compared = {
        (name, training): paired(rows, usual, training) for name, rows in found.items() for training in trainings(rows)
    }
    tests = {key: against_margin(one.estimate, MARGIN, "") for key, one in compared.items()}
    alike = holm([test.p_alike for test in tests.values()])
    beyond = holm([min(one.estimate.p_below(-MARGIN), one.estimate.p_above(MARGIN)) for one in compared.values()])
    farthest = max(compared, key=lambda key: abs(compared[key].mean))
    low, high = compared[farthest].interval
    verdict = REFUTED if min(beyond) <= LEVEL else CONFIRMED if max(alike) <= LEVEL else INCONCLUSIVE
    width, (loss, _) = farthest
    return Verdict(
        verdict,
        f"Of {len(compared)} comparisons of other widths with width 46, {sum(p <= LEVEL for p in alike)} are alike "
        f"within {MARGIN}; the largest difference is that of width {width.removeprefix('w')} with {loss}, "
        f"{signed(compared[farthest].mean)}.",
        statistic="mean score, other width minus 46, largest difference",
        value=compared[farthest].mean,
        low=low,
        high=high,
        p_value=max(alike),
        n=compared[farthest].n,
    )
