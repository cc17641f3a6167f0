"""Claims about choices that no loss makes: factors on MovieLens, the hidden layer on MQ2008, and the optimiser."""

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from rankbound.compare.margins import LEVEL, MARGIN, against_margin
from rankbound_study.claims.cells import MQ2008, Contrast, contrast, is_distinct
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.orders import OrderKept, order_kept
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import NEGLIGIBLE, Family, adjusted, by_p, share_of, together
from rankbound_study.claims.sample_sizes import Sample
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
from rankbound_study.claims.verdict import INCONCLUSIVE, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs

SIZES = ("f16", USUAL, "f64")
"""16, 32 and 64 factors: the variants of the experiment `factors`, with the study's own size between them."""

OFTEN = 1 / 3
"""Smallest share of losses that counts as "often"."""


@decides("T20")
def more_factors_rank_better_and_keep_the_order(evidence: Evidence) -> Verdict:
    """Decide by the mean of all losses with 64 factors minus 16, and by losses that exchange places between sizes."""
    column = column_of(evidence, "factors")
    found = variants(evidence, "factors", column)
    sizes = [found[name] for name in SIZES if name in found]
    if len(sizes) < len(SIZES):
        return Verdict(INCONCLUSIVE, f"{len(sizes)} of {len(SIZES)} sizes have scores: a trend takes all of them.")
    means = [mean_of_losses(rows, "nDCG").with_columns(size=pl.lit(str(place))) for place, rows in enumerate(sizes)]
    gain = contrast(scores_of_runs(pl.concat(means), "nDCG", by=("size",)).pair("2", "0"))
    order = order_kept(sizes, "nDCG")
    texts = ", ".join(f"{rows.select(pl.col('nDCG').mean()).item():.4f}" for rows in means)
    rises = gain.estimate.p_above(0.0)
    return Verdict(
        together(by_p(rises, gain.estimate.p_below(NEGLIGIBLE)), order.verdict),
        f"Mean nDCG of all losses with 16, 32 and 64 factors is {texts} on {column} (64 minus 16: {gain}, "
        f"{gain.range}); between sizes, {order}.",
        "mean nDCG, 64 minus 16 factors",
        *gain.measured,
        rises,
        gain.n,
        sample=Sample.of(gain, NEGLIGIBLE),
    )


def mean_of_losses(rows: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return the mean over losses and boundings for every list and training."""
    known = rows.with_columns(pl.col(metric).fill_nan(None))
    return known.group_by("topic", "fold", "seed").agg(pl.col(metric).mean()).sort("topic", "fold", "seed")


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
        sample=Sample.of(compared[farthest], MARGIN),
    )


@decides("T22")
def sgd_often_ranks_better_and_keeps_the_order(evidence: Evidence) -> Verdict:
    """Decide by whether SGD is better in a third of all losses, and by losses that exchange places with the optimiser.

    A loss whose picked rate is the lowest or the highest of the grid may rank better at a rate beyond it: SGD is not
    shown to be no better there, and its place among the losses stays open.
    """
    found = list(_descents(evidence))
    family = Family.of({(one.column, *key): each for one in found for key, each in one.differences.items()})
    untuned = {(one.column, *key) for one in found for key in one.untuned}
    estimates = {key: one.estimate for key, one in family.contrasts.items()}
    often = share_of(
        [one.p_above(0.0) for one in estimates.values()],
        [1.0 if key in untuned else one.p_below(NEGLIGIBLE) for key, one in estimates.items()],
        math.ceil(OFTEN * len(family)),
    )
    at_ends = "; ".join(f"{len(one.untuned)} of {len(one.differences)} on {one.column}" for one in found)
    return Verdict(
        together(often, *(one.order.verdict for one in found)),
        f"With rates picked by validation, SGD ranks significantly better than Adam in {len(family.higher)} of "
        f"{len(family)} distinct losses and worse in {len(family.lower)}; the picked rate is at an end of the grid for "
        f"{at_ends}; between SGD and Adam, {'; '.join(f'on {one.column}, {one.order}' for one in found)}.",
        "share of losses in which SGD is significantly better",
        len(family.higher) / len(family),
        n=len(family),
    )


@dataclass(frozen=True)
class _Descent:
    """SGD and Adam on one data set.

    Attributes:
        differences: SGD minus Adam, by loss and bounding.
        order: the losses that exchange places.
        untuned: the losses whose picked rate is at an end of the grid.
    """

    column: DataSet
    differences: Mapping[Training, Contrast]
    order: OrderKept
    untuned: Collection[Training]


def _descents(evidence: Evidence) -> Iterable[_Descent]:
    """Yield both data sets, with each loss at the rate picked by validation."""
    experiments = {"sgd-movielens": column_of(evidence, "sgd-movielens"), "sgd-mq2008": DataSet(MQ2008, None)}
    for experiment, column in experiments.items():
        rows = dict(variants(evidence, experiment, column))
        adam = rows.pop(USUAL)
        picked = picked_by_validation(evidence, experiment, column)
        if not set(trainings(adam)) <= set(picked):
            raise MissingEvidence(f"the experiment {experiment} lacks some of the study's losses on {column}")
        picked = {key: name for key, name in picked.items() if key in trainings(adam) and is_distinct(*key)}
        rates = {name: _rate(of_rate) for name, of_rate in rows.items()}
        untuned = [key for key, name in picked.items() if rates[name] in (min(rates.values()), max(rates.values()))]
        best = picked_rows(rows, picked)
        beside = adam.join(best, on=["loss", "bounding"], how="semi")
        changes = {key: paired(best, beside, key) for key in picked}
        yield _Descent(column, changes, order_kept([best, beside], "nDCG", untuned), untuned)


def _rate(rows: pl.DataFrame) -> float:
    """Return the learning rate of a variant."""
    return float(json.loads(rows["options"][0])["learning_rate"])
