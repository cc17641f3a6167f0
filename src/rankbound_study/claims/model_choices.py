"""Claims about choices that no loss makes: factors on MovieLens, the hidden layer on MQ2008, and the optimiser."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy import stats

from rankbound.compare.effects import LEVEL
from rankbound.compare.margins import MARGIN, against_margin
from rankbound_study.claims.cells import MQ2008, Contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.orders import OrderKept, order_kept
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, adjusted, by_p, together
from rankbound_study.claims.varied import (
    USUAL,
    Training,
    column_of,
    paired,
    per_topic,
    picked_by_validation,
    picked_rows,
    trainings,
    variants,
)
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet

SIZES = ("f16", USUAL, "f64")
"""16, 32 and 64 factors: the variants of the experiment `factors`, with the study's own size between them."""

OFTEN = 1 / 3
"""Smallest share of losses that counts as "often"."""


@decides("T20")
def more_factors_rank_better_and_keep_the_order(evidence: Evidence) -> Verdict:
    """Decide by the trend of mean nDCG over three sizes, and by the agreement of the losses' orders between sizes."""
    column = column_of(evidence, "factors")
    found = variants(evidence, "factors", column)
    sizes = [found[name] for name in SIZES if name in found]
    table = np.column_stack([per_topic(rows, "nDCG")["nDCG"].to_numpy() for rows in sizes])
    table = table[np.isfinite(table).all(1)]
    if table.shape[0] < 2 or table.shape[1] < 3:
        reason = (
            f"{len(table)} topics have scores at {table.shape[1]} of 3 sizes; a trend test takes two topics at all 3."
        )
        return Verdict(INCONCLUSIVE, reason, n=len(table))
    rises, falls = (float(stats.page_trend_test(one).pvalue) for one in (table, table[:, ::-1]))
    trend = CONFIRMED if rises <= LEVEL else REFUTED if falls <= LEVEL else INCONCLUSIVE
    order = order_kept(sizes, sizes, "nDCG")
    means = ", ".join(f"{value:.4f}" for value in table.mean(0))
    return Verdict(
        together(trend, order.verdict),
        f"Mean nDCG of all losses with 16, 32 and 64 factors is {means} on {column} (upward trend: p = {rises:.2g}); "
        f"the orders of the losses agree between sizes with a Kendall's tau of at least {order}.",
        "mean nDCG, 64 minus 16 factors",
        float(table.mean(0)[-1] - table.mean(0)[0]),
        p_value=rises,
        n=len(table),
    )


@decides("T21")
def the_width_hardly_matters(evidence: Evidence) -> Verdict:
    """Decide by whether every width scores within 0.01 of the study's own, for each unbounded loss."""
    found = dict(variants(evidence, "widths", DataSet(MQ2008, None)))
    usual = found.pop(USUAL)
    compared = {
        (name, training): paired(rows, usual, training) for name, rows in found.items() for training in trainings(rows)
    }
    estimates = {key: one.estimate for key, one in compared.items()}
    alike = adjusted({key: against_margin(one, MARGIN, "").p_alike for key, one in estimates.items()}).values()
    beyond = adjusted({key: min(one.p_below(-MARGIN), one.p_above(MARGIN)) for key, one in estimates.items()}).values()
    farthest = max(compared, key=lambda key: abs(compared[key].mean))
    width, (loss, _) = farthest
    return Verdict(
        by_p(max(alike), min(beyond)),
        f"Of {len(compared)} comparisons of other widths with width 46, {sum(p <= LEVEL for p in alike)} are alike "
        f"within {MARGIN}; the largest difference is that of width {width.removeprefix('w')} with {loss}, "
        f"{compared[farthest]}.",
        "mean score, other width minus 46, largest difference",
        *compared[farthest].measured,
        max(alike),
        compared[farthest].n,
    )


@decides("T22")
def sgd_often_ranks_better_and_keeps_the_order(evidence: Evidence) -> Verdict:
    """Decide by whether SGD is significantly better in a third of all losses and keeps Adam's order of the losses."""
    found = list(_descents(evidence))
    family = Family.of({(one.column, *key): each for one in found for key, each in one.differences.items()})
    undecided = len(family) - len(family.higher) - len(family.lower) - len(family.alike)
    enough = OFTEN * len(family)
    often = CONFIRMED if len(family.higher) >= enough else INCONCLUSIVE
    if len(family.higher) + undecided < enough:
        often = REFUTED
    return Verdict(
        together(often, *(one.order.verdict for one in found)),
        f"With rates picked by validation, SGD ranks significantly better than Adam in {len(family.higher)} of "
        f"{len(family)} losses and worse in {len(family.lower)}; the orders of the losses agree between SGD and Adam "
        f"with a Kendall's tau of {'; '.join(f'{one.order} on {one.column}' for one in found)}.",
        "share of losses in which SGD is better",
        len(family.higher) / len(family),
        n=len(family),
    )


@dataclass(frozen=True)
class _Descent:
    """SGD and Adam on one data set: differences by loss and bounding, and the agreement of the losses' orders."""

    column: DataSet
    differences: dict[Training, Contrast]
    order: OrderKept


def _descents(evidence: Evidence) -> Iterable[_Descent]:
    """Yield both data sets, with each loss at the rate picked by validation."""
    experiments = {"sgd-movielens": column_of(evidence, "sgd-movielens"), "sgd-mq2008": DataSet(MQ2008, None)}
    for experiment, column in experiments.items():
        rows = dict(variants(evidence, experiment, column))
        adam = rows.pop(USUAL)
        rates = picked_by_validation(evidence, experiment, column)
        if set(rates) != set(trainings(adam)):
            raise MissingEvidence(f"the experiment {experiment} lacks some of the study's losses on {column}")
        best = picked_rows(rows, rates)
        every_seed = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss") != "none")
        of_adam = every_seed.filter(pl.col("fold").is_in(adam["fold"].unique().to_list()))
        order = order_kept([best, adam], [of_adam.select(*KEY, "nDCG").collect()], "nDCG")
        yield _Descent(column, {key: paired(best, adam, key) for key in trainings(adam)}, order)
