"""Claims that experiments decide: choices that no loss makes, other tests than training, other losses and orders.

The claim about why distribution bounding hurts nDCG is that its gradient vanishes at tied scores. If that is the cause,
whatever lifts the gradient at the start removes the drop: a smaller gain of the sigmoid, initial factors without ties.
A remedy counts only if it does lift the gradient, by the norms of the first epoch, and if the unbounded loss trains
with it as well as without: a gain that leaves the sigmoid as it was is none, nor is a start from which nothing trains.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple

import numpy as np
import polars as pl
import torch

from rankbound.compare import Pair
from rankbound.compare.comparison import LEVEL
from rankbound.compare.statistics import Estimate, over_units
from rankbound.losses.sampled import warp_penalty
from rankbound_study.claims import varied
from rankbound_study.claims.comparisons import RATIOS_EXPERIMENT
from rankbound_study.claims.evidence import COLLAPSE, KEY, MOVIELENS, MQ2008, Cell, Contrast, Evidence, is_distinct
from rankbound_study.claims.means import on_same_users
from rankbound_study.claims.registry import Facts, decides, shape
from rankbound_study.claims.rules import RULES, Family, Key, Sample, adjusted, among, by_p, share_of, together
from rankbound_study.claims.verdicts import INCONCLUSIVE, MissingEvidence, Ruling, each_way, holds
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.scores import scores_of_runs
from rankbound_study.vocabulary import JUDGED_BY, UNBOUNDED


@decides("T20")
def more_factors_rank_better_and_keep_the_order(evidence: Evidence) -> Ruling:
    """Decide by the mean of all losses with 64 factors minus 16, and by losses that exchange places between sizes.

    The study's own size, 32 factors, lies between both.
    """
    column = varied.columns_of(evidence, "factors", MOVIELENS)[0]
    found = evidence.varied("factors", column)
    usual = varied.usual_beside(evidence, column, pl.concat(found.values()))
    sizes = [one for one in (found.get("f16"), usual, found.get("f64")) if one is not None]
    if len(sizes) < 3:
        return Ruling(INCONCLUSIVE, reason=f"{len(sizes)} of 3 sizes have scores: a trend takes all of them.")
    key = ("topic", "fold", "seed", "drawing")
    means = [rows.group_by(key).agg(pl.col("nDCG").fill_nan(None).mean()).sort(key) for rows in sizes]
    of_sizes = pl.concat(rows.with_columns(size=pl.lit(str(place))) for place, rows in enumerate(means))
    gain = Contrast.of(scores_of_runs(of_sizes, "nDCG", by=("size",)).pair("2", "0"))
    order = varied.order_kept(sizes, "nDCG")
    texts = ", ".join(f"{rows.select(pl.col('nDCG').mean()).item():.4f}" for rows in means)
    verdict = together(by_p(gain.p_above(0.0), gain.p_below(gain.margin)), order.verdict)
    facts = {"means": texts, "column": column, "gain": gain, "order": order.reason}
    return Ruling(verdict, facts, *gain.measured, gain.n, Sample.of(gain))


class Varied(NamedTuple):
    """A variant of a loss and bounding; its `size` is the number in its name."""

    size: str
    loss: str
    bounding: str


@shape
def variants(evidence: Evidence, experiment: str, dataset: str) -> Mapping[Varied, Contrast]:
    """Return every variant of an experiment minus the study's own setting, by loss and bounding."""
    column = DataSet(dataset, None)
    found = evidence.varied(experiment, column)
    usual = varied.usual_beside(evidence, column, pl.concat(found.values()))
    return {
        Varied(name.lstrip(ascii_lowercase), *training): varied.paired(rows, usual, training)
        for name, rows in found.items()
        for training in varied.trainings(rows)
    }


@decides("T22")
def sgd_often_ranks_better_and_keeps_the_order(evidence: Evidence) -> Ruling:
    """Decide by whether SGD is better in a third of all losses, and by losses that exchange places with the optimiser.

    SGD has the rate of each loss that validation picks. A loss whose picked rate is the lowest or the highest of the
    grid may rank better at a rate beyond it: SGD is not shown to be no better there, and its place among the losses
    stays open.
    """
    changes: dict[tuple[object, ...], Contrast] = {}
    untuned, at_ends, orders = set[tuple[object, ...]](), [], {}
    on_movielens = varied.columns_of(evidence, "sgd-movielens", MOVIELENS)[0]
    for experiment, column in (("sgd-movielens", on_movielens), ("sgd-mq2008", DataSet(MQ2008, None))):
        rows = evidence.varied(experiment, column)
        adam = varied.usual_beside(evidence, column, pl.concat(rows.values()))
        picked = varied.picked_by_validation(evidence, experiment, column)
        if not set(varied.trainings(adam)) <= set(picked):
            raise MissingEvidence(f"the experiment {experiment} lacks some of the study's losses on {column}")
        picked = {key: name for key, name in picked.items() if key in varied.trainings(adam) and is_distinct(*key)}
        rates = {name: float(json.loads(own["options"][0])["learning_rate"]) for name, own in rows.items()}
        ends = [key for key, name in picked.items() if rates[name] in (min(rates.values()), max(rates.values()))]
        best = varied.picked_rows(rows, picked)
        beside = adam.join(best, on=["loss", "bounding"], how="semi")
        changes |= {(column, *key): varied.paired(best, beside, key) for key in picked}
        untuned |= {(column, *key) for key in ends}
        at_ends.append(f"{len(ends)} of {len(picked)} on {column}")
        orders[column] = varied.order_kept([best, beside], "nDCG", ends)
    family = Family(changes)
    often = share_of(
        [one.p_above(0.0) for one in changes.values()],
        [1.0 if key in untuned else one.p_below(one.margin) for key, one in changes.items()],
        math.ceil(len(family) / 3),
    )
    in_order = "; ".join(f"on {at}, {order.reason}" for at, order in orders.items())
    facts = {"at_ends": "; ".join(at_ends), "orders": in_order}
    verdict = together(often, *(order.verdict for order in orders.values()))
    return Ruling(verdict, family.facts(facts), len(family.higher) / len(family), n=len(family))


JUDGES = tuple(JUDGED_BY.values())


@decides("T49")
def verdicts_change_between_training_and_test(evidence: Evidence) -> Ruling:
    """Decide by whether another training ratio and another test metric each change a verdict on a bounding.

    A metric changes it if the differences on both metrics have significantly opposite signs (Holm). That one is smaller
    than what matters and the other is not decides nothing.
    """
    column, trained_at, pairs = _at_both_ratios(evidence)
    own, other = ({key: Contrast.of(both[place]) for key, both in pairs.items()} for place in (0, 1))
    of_both = _states({(place, key): one for place, of in enumerate((own, other)) for key, one in of.items()})
    by_ratio = {key: (of_both[0, key], of_both[1, key]) for key in pairs}
    # Over the same users, folds and seeds.
    changes = Family(
        {
            key: Contrast.of_differences(np.diff(on_same_users(both), axis=0)[0], both[0].drawings)
            for key, both in pairs.items()
        }
    )
    turned = [key for key in changes.shown(lambda one: one.p_value()) if len(set(by_ratio[key])) > 1]
    found = evidence.contrasts(evidence.cells(metrics=JUDGES))
    on_own = {cell: cell._replace(metric=JUDGED_BY[cell.loss]) for cell in found}
    states = _states(found)
    by_metric = {cell: (states[own_cell], states[cell]) for cell, own_cell in on_own.items() if cell != own_cell}
    # Halved: at most one of the two orders of signs can reach the level where signs are not opposite.
    both_of = {cell: [found[one] for one in (on_own[cell], cell)] for cell in by_metric}
    p_values = {cell: varied.p_exchanged(both) / 2 for cell, both in both_of.items()}
    opposite = [cell for cell, p_value in adjusted(p_values).items() if p_value <= LEVEL]
    named = [f"{key[0]} with {key[1]} bounding {own[key]} becomes {other[key]}" for key in turned or by_ratio]
    shown = [f"{cell}: {found[on_own[cell]]} on its own, {found[cell]} on {cell.metric}" for cell in opposite]
    facts: dict[str, object] = {"column": column, "turned": len(turned), "by_ratio": len(by_ratio)}
    facts |= {"trained_at": trained_at, "at_turned": among(named), "opposite": len(opposite)}
    facts |= {"by_metric": len(by_metric), "at_opposite": among(shown)}
    # "Verdicts may change" is refuted if all readings in two settings are shown to stay the same.
    verdict = together(
        *(
            each_way(bool(changed), not changed and all(one == another != "open" for one, another in of.values()))
            for changed, of in ((turned, by_ratio), (opposite, by_metric))
        )
    )
    return Ruling(verdict, facts, len(opposite) / len(by_metric), n=len(by_ratio) + len(by_metric))


def _at_both_ratios(evidence: Evidence) -> tuple[DataSet, int, dict[varied.Training, tuple[Pair, Pair]]]:
    """Return the tested data set, the higher ratio, and bounded beside unbounded losses trained at either ratio."""
    column = varied.columns_of(evidence, RATIOS_EXPERIMENT, MOVIELENS)[0]
    rows = next(iter(evidence.varied(RATIOS_EXPERIMENT, column, "nsr_train").values()))
    trained_at = rows.select(pl.col("nsr_train").max()).item()
    rows = rows.filter(nsr_train=trained_at)
    both = varied.on_the_same_lists(rows, varied.usual_beside(evidence, column, rows))
    found = {}
    for loss, bounding in (one for one in varied.trainings(both[0]) if one[1] != UNBOUNDED):
        where = f"as bounding of {loss}, at both ratios"
        higher, usual = (
            varied.pair_in(of.filter(loss=loss), JUDGED_BY[loss], "bounding", (bounding, UNBOUNDED), where)
            for of in both
        )
        found[loss, bounding] = usual, higher
    if not found:
        raise MissingEvidence("the experiment ratios has no bounded losses: see experiments in config.yaml")
    return column, trained_at, found


def _states(found: Mapping[Key, Contrast]) -> dict[Key, str]:
    """Return what is shown of bounded minus unbounded: "alike" if smaller than what matters, significant or not."""
    family = Family(found)
    alike = family.shown(lambda one: one.p_within())
    signs = {**dict.fromkeys(family.higher, "higher"), **dict.fromkeys(family.lower, "lower")}
    return {key: "alike" if key in alike else signs.get(key, "open") for key in found}


FIRST, SPREAD = "WARP(alpha=constant)@1", "WARP(alpha=constant)@10"
"""All weight on rank 1; equal weights on ranks 1 to 10."""

PLACES = 10
PRECISION = f"P@{PLACES}"


@decides("M03")
def weights_on_k_places_serve_precision_at_k(evidence: Evidence) -> Ruling:
    """Decide by whether one weight gives the top-1 error in all short lists and ten weights raise precision at 10.

    The error of the top is 1 if another label is there or ties with the true one, else 0. Ten weights are compared with
    one on lists with more than ten items.
    """
    cases = []
    # With ties, in every order.
    for scores in (scores for size in range(1, 5) for scores in product((0.0, 1.0, 2.0), repeat=size)):
        for true, own in enumerate(scores):
            error = float(any(score >= own for place, score in enumerate(scores) if place != true))
            # From 0; ties count against the item (Murphy eq. 9.132).
            rank = (torch.tensor(scores) >= own).sum() - 1
            cases.append(float(warp_penalty(rank, "constant", 1, len(scores))) == error)
    precision, texts = {}, []
    for column in varied.columns_of(evidence, "warp", MQ2008, MOVIELENS):
        rows = next(iter(evidence.varied("warp", column, PRECISION).values()))
        rows = rows.filter(pl.col("n") > PLACES, pl.col("p") > 0)
        where = f"on lists of {column} longer than {PLACES}"
        both = [varied.pair_in(rows, metric, "loss", (SPREAD, FIRST), where) for metric in (PRECISION, "AP")]
        one, ap = map(Contrast.of, both)
        precision[column] = one
        texts.append(f"{one} in precision at 10 ({one.range}) and {ap} in average precision on {column}")
    family = Family(precision)
    least = min(precision.values(), key=lambda one: one.mean)
    facts = {"right": sum(cases), "cases": len(cases), "places": PLACES, "changes": "; ".join(texts)}
    verdict = together(holds(all(cases)), RULES["all tend to be higher"](family))
    return Ruling(verdict, facts, *least.measured, least.n, Sample.of(least))


@shape
def loss_minus_others(
    evidence: Evidence, experiment: str, loss: str, metric: str
) -> tuple[Mapping[str, Contrast], Facts]:
    """Return a loss minus every other one of an experiment, each unbounded and at the rate that validation picks."""
    column = varied.columns_of(evidence, experiment, MOVIELENS)[0]
    rows = evidence.varied(experiment, column, metric)
    picked = varied.picked_by_validation(evidence, experiment, column, metric)
    others = [name for name, bounding in sorted(picked) if name != loss and bounding == UNBOUNDED]
    if (loss, UNBOUNDED) not in picked or not others:
        raise MissingEvidence(f"the experiment {experiment} has no {loss} loss beside others: see config.yaml")
    best, where = varied.picked_rows(rows, picked), f"of {column} in the experiment {experiment}"
    found = {one: Contrast.of(varied.pair_in(best, metric, "loss", (loss, one), where)) for one in others}
    return found, {"column": column}


@shape
def tilted_minus_random(evidence: Evidence) -> Mapping[str, Contrast]:
    """Return tilted minus random orders for every loss, data set and tilt."""
    found = {}
    for column in varied.columns_of(evidence, "tilts", MOVIELENS, MQ2008):
        for rows in evidence.varied("tilts", column).values():
            for bounding in rows["bounding"].unique().sort():
                if not bounding.startswith("distribution(tilt="):
                    continue
                tilted = rows.filter(bounding=bounding).with_columns(bounding=pl.lit("distribution"))
                usual = varied.usual_beside(evidence, column, tilted)
                tilt = bounding.removeprefix("distribution(tilt=").removesuffix(")")
                for training in (one for one in varied.trainings(tilted) if one in varied.trainings(usual)):
                    found[f"{training[0]} on {column}, odds times {tilt}"] = varied.paired(tilted, usual, training)
    if not found:
        raise MissingEvidence("the experiment tilts has no tilted orders: see experiments in config.yaml")
    return found


LOSS = "nDCG"
PLAIN, BOUNDED = (LOSS, UNBOUNDED), (LOSS, "distribution")


@decides("T27")
def the_gradient_vanishes_at_the_start(evidence: Evidence) -> Ruling:
    """Decide by whether every remedy that lifts the gradient at the start removes more than half of the drop.

    Confirmed if it is shown of all of them, and that no collapse remains; refuted if one keeps more than half (Holm).
    """
    evidence = evidence.of_all_trainings()
    column = varied.columns_of(evidence, "starts", MOVIELENS)[0]
    drop = Contrast.of(evidence.pair(Cell(*BOUNDED, column, LOSS)))
    changes_by = f"Distribution bounding changes mean nDCG by {drop} on {column}"
    undecided = Ruling(INCONCLUSIVE, {}, *drop.measured, drop.n, statistic="mean nDCG, bounded minus unbounded")
    if drop.p_below(-COLLAPSE) > LEVEL:
        return replace(undecided, reason=f"{changes_by}: no drop to explain.")
    tried = _remedies(evidence, column)
    lifts = adjusted({name: one.log_lift.p_above(0.0) for name, one in tried.items()})
    harmful = [name for name, one in tried.items() if one.unbounded.p_above(-COLLAPSE) > LEVEL]
    small = [name for name in tried if name not in harmful and lifts[name] > LEVEL]
    lifting = {name: one for name, one in tried.items() if name not in (*harmful, *small)}
    reasons = {
        "the gradient is not significantly larger": dict.fromkeys(small, ""),
        f"the unbounded loss is not shown to stay within {COLLAPSE:g}": {
            name: f", where the unbounded loss changes by {tried[name].unbounded}" for name in harmful
        },
    }
    idle = "".join(
        f"; no remedy, as {reason}: {', '.join(f'{name} ({tried[name].change}{more})' for name, more in those.items())}"
        for reason, those in reasons.items()
        if those
    )
    if not lifting:
        return replace(undecided, reason=f"{changes_by}{idle}.")
    changes = ", ".join(
        f"{one.change} with {name} (gradient times {np.exp(one.log_lift.mean):.2g})" for name, one in lifting.items()
    )
    stays = adjusted({name: one.more_than_half.p_below(0.0) for name, one in lifting.items()})
    gone = max(max(one.more_than_half.p_above(0.0), one.change.p_above(-COLLAPSE)) for one in lifting.values())
    worst = min(lifting, key=lambda name: lifting[name].change.mean)
    facts = {"column": column, "drop": drop, "changes": changes, "idle": idle, "worst": worst}
    left = lifting[worst].change
    return Ruling(by_p(gone, min(stays.values())), facts, *left.measured, left.n)


class Remedy(NamedTuple):
    """A change of the training that should lift the gradient.

    Attributes:
        change: bounded minus unbounded with it.
        unbounded: the unbounded loss with it, minus that without it: it has to train.
        more_than_half: `change` minus half of the drop without it, on the same lists and trainings.
        log_lift: the log of the factor by which it lifts the bounded gradient, relative to the unbounded one.
    """

    change: Contrast
    unbounded: Contrast
    more_than_half: Estimate
    log_lift: Estimate


def _remedies(evidence: Evidence, column: DataSet) -> dict[str, Remedy]:
    """Compare other gains of the sigmoid, and other starts, with the study's own trainings, by name.

    All are in the same folds and under the same seeds.
    """
    own, own_norms = evidence.cell(column).select(*KEY, LOSS).collect(), evidence.epochs_of(column).collect()
    # Rows and epochs of the bounded loss with the remedy, its name, and those of the unbounded loss.
    tried = {}
    for experiment in ("gains", "starts"):
        epochs = evidence.variants(experiment, column, of_epochs=True)
        for name, rows in evidence.varied(experiment, column).items():
            if name not in epochs:
                raise MissingEvidence(f"the experiment {experiment} has no epochs of {name}, with their gradient norms")
            norms = epochs[name].collect()
            if experiment == "starts":
                spread = int(name.removeprefix("s")) / 100
                tried[f"factors that start within {spread:g}"] = rows, norms, BOUNDED, rows, norms
                continue
            for bounding in rows["bounding"].unique().sort():
                gain = bounding.removeprefix("distribution(gain=").removesuffix(")")
                tried[f"the gain {gain}"] = rows, norms, (LOSS, bounding), own, own_norms
    found = {}
    for name, (rows, norms, bounded, plain_rows, plain_norms) in tried.items():
        ran = rows.select("fold", "seed").unique().sort("fold", "seed")
        with_it, plain, usual = (one.join(ran, on=["fold", "seed"], how="semi") for one in (rows, plain_rows, own))
        change = varied.side_by_side(with_it, plain, bounded, PLAIN).pair(*varied.SYSTEMS)
        unbounded = varied.side_by_side(plain, usual, PLAIN).pair(*varied.SYSTEMS)
        own_change = varied.side_by_side(usual, usual, BOUNDED, PLAIN).pair(*varied.SYSTEMS)
        changed, unchanged = on_same_users([change, own_change])
        more_than_half = Contrast.of_differences(changed - unchanged / 2, change.drawings)
        lifts = ran.with_columns(lift=pl.lit(0.0))
        of_gradients = (1, norms, bounded), (-1, plain_norms, PLAIN), (-1, own_norms, BOUNDED), (1, own_norms, PLAIN)
        for sign, measured, (loss, bounding) in of_gradients:
            first = measured.filter(epoch=1, loss=loss, bounding=bounding).group_by("fold", "seed")
            log_norms = first.agg(log_norm=pl.col("gradient_norm").mean().log())
            lifts = lifts.join(log_norms, on=["fold", "seed"]).with_columns(pl.col("lift") + sign * pl.col("log_norm"))
            lifts = lifts.drop("log_norm")
        if len(lifts) < 2:
            raise MissingEvidence(f"{len(lifts)} trainings have gradient norms in the first epoch; a test takes two")
        log_lift = over_units(lifts["lift"].to_numpy())
        found[name] = Remedy(Contrast.of(change), Contrast.of(unbounded), more_than_half, log_lift)
    return found
