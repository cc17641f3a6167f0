"""Claims about the optimiser: plain gradient descent against Adam, each loss at the rate that validation picks."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from rankbound.claims.cells import MQ2008, Column, Contrast
from rankbound.claims.evidence import Evidence
from rankbound.claims.registry import decides
from rankbound.claims.rules import Family, together
from rankbound.claims.varied import (
    USUAL,
    Training,
    column_of,
    order_agreement,
    paired,
    picked_by_validation,
    picked_rows,
    trainings,
    variants,
)
from rankbound.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict

OFTEN = 1 / 3
"""The share of losses in which "often" has to be seen."""


@dataclass(frozen=True)
class _Descent:
    """SGD beside Adam on one data set: differences by loss and bounding, and how far the two orders of these agree."""

    column: Column
    differences: dict[Training, Contrast]
    agreement: float
    between_seeds: list[float]


@decides("T22")
def sgd_often_ranks_better_and_keeps_the_order(evidence: Evidence) -> Verdict:
    """Significantly better in a third of all losses, with orders that agree as well as those of two seeds of Adam."""
    found = list(_descents(evidence))
    family = Family.of({(one.column, *key): each for one in found for key, each in one.differences.items()})
    count = len(family.contrasts)
    open_cells = count - len(family.higher) - len(family.lower) - len(family.alike)
    enough = OFTEN * count
    often = CONFIRMED if len(family.higher) >= enough else INCONCLUSIVE
    if len(family.higher) + open_cells < enough:
        often = REFUTED
    orders = [_same_order(one) for one in found]
    agreements = ", ".join(
        f"{one.agreement:.2f} on {one.column} (two seeds: {min(one.between_seeds, default=math.nan):.2f} or more)"
        for one in found
    )
    return Verdict(
        together(often, *orders),
        f"With rates picked by validation, SGD ranks significantly better than Adam in {len(family.higher)} of {count} "
        f"losses and worse in {len(family.lower)}; the orders of the losses agree with Kendall's tau {agreements}.",
        statistic="share of losses in which SGD is better",
        value=len(family.higher) / count,
        n=count,
    )


def _same_order(one: _Descent) -> str:
    if not one.between_seeds:
        return INCONCLUSIVE
    return CONFIRMED if one.agreement >= min(one.between_seeds) else REFUTED


def _descents(evidence: Evidence) -> Iterable[_Descent]:
    experiments = {"sgd-movielens": column_of(evidence, "sgd-movielens"), "sgd-mq2008": Column(MQ2008, None)}
    for experiment, column in experiments.items():
        rows = dict(variants(evidence, experiment, column))
        adam = rows.pop(USUAL)
        rates = picked_by_validation(evidence, experiment, column)
        if set(rates) != set(trainings(adam)):
            raise MissingEvidence(f"the experiment {experiment} lacks some of the study's losses on {column}")
        best = picked_rows(rows, rates)
        agreement, _ = order_agreement([best, adam], "nDCG")
        every_seed = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss") != "none")
        folds = adam["fold"].unique().to_list()
        _, by_seed = order_agreement([every_seed.filter(pl.col("fold").is_in(folds)).collect()] * 2, "nDCG")
        yield _Descent(column, {key: paired(best, adam, key) for key in trainings(adam)}, agreement, by_seed)
