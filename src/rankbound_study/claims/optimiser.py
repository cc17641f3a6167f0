"""Claims about the optimiser: plain gradient descent and Adam, each loss at the rate picked by validation."""

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from rankbound_study.claims.cells import MQ2008, Column, Contrast
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.orders import OrderKept, order_kept
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Family, together
from rankbound_study.claims.varied import (
    USUAL,
    Training,
    column_of,
    paired,
    picked_by_validation,
    picked_rows,
    trainings,
    variants,
)
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict

OFTEN = 1 / 3
"""Smallest share of losses that counts as "often"."""


@dataclass(frozen=True)
class _Descent:
    """SGD and Adam on one data set: differences by loss and bounding, and the agreement of the losses' orders."""

    column: Column
    differences: dict[Training, Contrast]
    order: OrderKept


@decides("T22")
def sgd_often_ranks_better_and_keeps_the_order(evidence: Evidence) -> Verdict:
    """Decide by whether SGD is significantly better in a third of all losses and keeps Adam's order of the losses."""
    found = list(_descents(evidence))
    family = Family.of({(one.column, *key): each for one in found for key, each in one.differences.items()})
    count = len(family.contrasts)
    open_cells = count - len(family.higher) - len(family.lower) - len(family.alike)
    enough = OFTEN * count
    often = CONFIRMED if len(family.higher) >= enough else INCONCLUSIVE
    if len(family.higher) + open_cells < enough:
        often = REFUTED
    agreements = "; ".join(f"{one.order} on {one.column}" for one in found)
    return Verdict(
        together(often, *(one.order.verdict for one in found)),
        f"With rates picked by validation, SGD ranks significantly better than Adam in {len(family.higher)} of {count} "
        f"losses and worse in {len(family.lower)}; the orders of the losses agree between SGD and Adam with a "
        f"Kendall's tau of {agreements}.",
        statistic="share of losses in which SGD is better",
        value=len(family.higher) / count,
        n=count,
    )


def _descents(evidence: Evidence) -> Iterable[_Descent]:
    experiments = {"sgd-movielens": column_of(evidence, "sgd-movielens"), "sgd-mq2008": Column(MQ2008, None)}
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
