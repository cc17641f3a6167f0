"""The claim about tests that differ from training: another ratio of negatives, another metric."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from rankbound.compare import Pair
from rankbound.compare.margins import LEVEL
from rankbound_study.claims.cells import Cell, Contrast, cells, contrast, contrast_of, contrasts, distinct, judge
from rankbound_study.claims.crossed_ratios import EXPERIMENT
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.ratios import on_same_users
from rankbound_study.claims.registry import decides
from rankbound_study.claims.rules import Key, adjusted, among, together
from rankbound_study.claims.varied import (
    Training,
    column_of,
    on_the_same_lists,
    pair_in,
    trainings,
    usual_beside,
)
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict
from rankbound_study.config.data_sets import DataSet
from rankbound_study.vocabulary import LOSSES, UNBOUNDED

JUDGES = tuple(judge(loss) for loss in LOSSES)

HIGHER, LOWER, ALIKE, OPEN = "higher", "lower", "alike", "open"
"""Results for bounded minus unbounded; "alike" is any difference within the noise margin, significant or not."""


Readings = tuple[str, str]
"""The results of one bounding in two settings."""


@dataclass(frozen=True)
class _Ratios:
    """Bounded minus unbounded, by loss and bounding, tested at one ratio and trained at it and at a higher one."""

    column: DataSet
    trained_at: int
    own: Mapping[Training, Contrast]
    other: Mapping[Training, Contrast]
    change: Mapping[Training, Contrast]


@decides("T49")
def verdicts_change_between_training_and_test(evidence: Evidence) -> Verdict:
    """Decide by whether another training ratio and another test metric each change a verdict on a bounding.

    A metric changes it if the differences on both metrics have significantly opposite signs (Holm). That one is within
    its noise margin and the other is not compares two margins, and decides nothing.
    """
    ratios = _ratios(evidence)
    by_ratio, turned_by_ratio = _read_twice(ratios)
    found = contrasts(evidence, distinct(cells(evidence, metrics=JUDGES)))
    by_metric, opposite = _on_other_metrics(found), _opposite(found)
    named = [
        f"{key[0]} with {key[1]} bounding {ratios.own[key]} becomes {ratios.other[key]}"
        for key in turned_by_ratio or by_ratio
    ]
    shown = [f"{cell}: {found[_on_own(cell)]} on its own, {found[cell]} on {cell.metric}" for cell in opposite]
    return Verdict(
        together(
            _some_change(len(turned_by_ratio), by_ratio.values()),
            _some_change(len(opposite), by_metric.values()),
        ),
        f"On {ratios.column}, {len(turned_by_ratio)} of {len(by_ratio)} verdicts on bounded minus unbounded losses "
        f"change significantly, on the same lists, when models are trained at ratio {ratios.trained_at} instead of "
        f"that of the test{among(named)}; {len(opposite)} of {len(by_metric)} differences have significantly opposite "
        f"signs on the optimised metric and on another one{among(shown)}.",
        "share of differences with the opposite sign on another metric",
        len(opposite) / len(by_metric),
        n=len(by_ratio) + len(by_metric),
        shown_in="table_5_1",
    )


def _ratios(evidence: Evidence) -> _Ratios:
    column = column_of(evidence, EXPERIMENT)
    lazy = next(iter(evidence.varied(EXPERIMENT, column.dataset, column.nsr).values()))
    rows = lazy.select("nsr_train", *KEY, *JUDGES).collect()
    trained_at = rows.select(pl.col("nsr_train").max()).item()
    rows = rows.filter(pl.col("nsr_train") == trained_at)
    rows, usual = on_the_same_lists(rows, usual_beside(evidence, column, rows))
    bounded = [one for one in trainings(rows) if one[1] != UNBOUNDED]
    pairs = {key: (_pair(usual, key), _pair(rows, key)) for key in bounded}
    if not pairs:
        raise MissingEvidence(f"the experiment {EXPERIMENT} has no bounded losses: see experiments in config.yaml")
    own, other = ({key: contrast(both[place]) for key, both in pairs.items()} for place in (0, 1))
    return _Ratios(column, trained_at, own, other, {key: _change(*both) for key, both in pairs.items()})


def _pair(rows: pl.DataFrame, training: Training) -> Pair:
    loss, bounding = training
    of_loss = rows.filter(pl.col("loss") == loss)
    return pair_in(of_loss, judge(loss), "bounding", (bounding, UNBOUNDED), f"as bounding of {loss}, at both ratios")


def _change(own: Pair, other: Pair) -> Contrast:
    """Return the change of a difference, over the same users, folds and seeds."""
    before, after = on_same_users([own, other])
    return contrast_of(after - before)


def _read_twice(ratios: _Ratios) -> tuple[dict[Training, Readings], list[Training]]:
    """Return every bounding's results at both ratios, and the boundings whose results differ significantly."""
    states = _states({(name, key): one for name in ("own", "other") for key, one in getattr(ratios, name).items()})
    readings = {key: (states["own", key], states["other", key]) for key in ratios.own}
    changes = adjusted({key: one.estimate.p_value() for key, one in ratios.change.items()})
    return readings, [key for key, (own, other) in readings.items() if changes[key] <= LEVEL and own != other]


def _on_other_metrics(found: Mapping[Cell, Contrast]) -> dict[Cell, Readings]:
    """Return every cell's results on its loss' own metric and on the metrics of the other losses."""
    states = _states(found)
    return {cell: (states[_on_own(cell)], other) for cell, other in states.items() if cell != _on_own(cell)}


def _opposite(found: Mapping[Cell, Contrast]) -> list[Cell]:
    """Return the cells, on other metrics, whose difference has significantly another sign than on the own one."""
    p_values = {}
    for cell in found:
        if cell != _on_own(cell):
            own, other = found[_on_own(cell)].estimate, found[cell].estimate
            ways = (own.p_above(0.0), other.p_below(0.0)), (own.p_below(0.0), other.p_above(0.0))
            # Intersection-union tests, of which at most one can reach the level where signs are not opposite.
            p_values[cell] = min(map(max, ways))
    return [cell for cell, p_value in adjusted(p_values).items() if p_value <= LEVEL]


def _on_own(cell: Cell) -> Cell:
    return cell._replace(metric=judge(cell.loss))


def _states(found: Mapping[Key, Contrast]) -> dict[Key, str]:
    differ = adjusted({key: one.estimate.p_value() for key, one in found.items()})
    alike = adjusted({key: one.p_alike for key, one in found.items()})
    return {
        key: ALIKE if alike[key] <= LEVEL else OPEN if differ[key] > LEVEL else HIGHER if one.mean > 0 else LOWER
        for key, one in found.items()
    }


def _some_change(count: int, readings: Collection[Readings]) -> str:
    """Decide "verdicts may change": refuted if all of them are shown to stay the same."""
    if count:
        return CONFIRMED
    return REFUTED if all(own == other != OPEN for own, other in readings) else INCONCLUSIVE
