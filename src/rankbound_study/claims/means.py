"""Claims about mean scores of bounded and unbounded losses: Table 5.1, and nDCG of the first places (Figure 5.1)."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

import rankbound as rb
from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound_study.claims.cells import (
    CUT_OFFS,
    MOVIELENS,
    MQ2008,
    Cell,
    Contrast,
    cells,
    chosen,
    columns,
    contrast,
    contrast_of,
    contrasts,
    control_scores,
    enough,
    judge,
    pair,
    some_trained,
    values,
)
from rankbound_study.claims.cells import scores as scores_of
from rankbound_study.claims.comparisons import COUNT, picked_systems, rated_data_sets
from rankbound_study.claims.data_sets import slope_weights
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decides, differences, shape
from rankbound_study.claims.rules import FLAT, HALF, RULES, Family, together
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, MissingEvidence, Ruling, each_way
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.study_files import signed
from rankbound_study.vocabulary import BOUNDINGS, LOSSES, UNBOUNDED

HIGHEST_RATIO = 3


def _sizes(evidence: Evidence, loss: str, column: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes (items, relevant items) of the lists."""
    n, p = (values(evidence, name, loss, column) for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p)
    return n[known].astype(np.int64), p[known].astype(np.int64)


def _floors(evidence: Evidence, family: Family[Cell]) -> Mapping[str, object]:
    """Return the range of the lowest possible AP by ratio."""
    ratios = columns(evidence, MOVIELENS)
    spreads = [float(np.ptp(rb.minimum("AP", *_sizes(evidence, "AP", column)))) for column in ratios]
    texts = ", ".join(f"{one:.2f}" for one in spreads), ", ".join(str(column.nsr) for column in ratios)
    return dict(zip(("spreads", "ratios"), texts, strict=True))


shape("differences_beside_floors", _floors)(differences)


@shape("differences_but_at_the_top")
def differences_but_at_the_top(evidence: Evidence, **axes: Any) -> dict[Cell, Contrast]:
    """Return the differences of some cells, without the first two cut-offs at the highest ratio."""
    kept = [
        cell for cell in chosen(evidence, **axes) if cell.column.nsr != HIGHEST_RATIO or cell.metric not in CUT_OFFS[:2]
    ]
    return contrasts(evidence, kept)


@shape("boundings_apart")
def boundings_apart(
    evidence: Evidence, losses: Sequence[str], boundings: Sequence[str], named: str = "{one}, {other} on {column}"
) -> dict[str, Contrast]:
    """Return the difference of each two boundings of a loss, in every column."""
    return {
        named.format(loss=loss, one=one, other=other, column=column): contrast(
            pair(evidence, Cell(loss, one, column, judge(loss)), other)
        )
        for column, loss, (one, other) in product(columns(evidence), losses, combinations(boundings, 2))
    }


@decides("T16")
def expectation_max_is_as_expectation(evidence: Evidence) -> Ruling:
    """Decide by whether both weigh the lists of a ratio alike, and score alike.

    Weights whose quotient varies by less than 10 % are alike. That it varies more decides nothing: whether that matters
    is what the scores tell.
    """
    family = Family(boundings_apart(evidence, LOSSES, ("expectation-max", "expectation"), "{loss} on {column}"))
    ratios, texts, most = columns(evidence, MOVIELENS), [], 0.0
    for loss in LOSSES:
        found = [_variation_of_quotient(evidence, loss, column) for column in ratios]
        texts.append(f"{min(found):.2f} to {max(found):.2f} ({loss})")
        most = max(most, *found)
    return Ruling(
        together(CONFIRMED if most < FLAT else INCONCLUSIVE, RULES["all are within"](family)),
        family.facts({"quotients": ", ".join(texts), "flat": FLAT}),
        most,
        n=len(family),
    )


def _variation_of_quotient(evidence: Evidence, loss: str, column: DataSet) -> float:
    """Return the coefficient of variation over the lists of (max - E) / E, the quotient of 1 / E and 1 / (max - E).

    Their correlation says nothing: where the maximum is 1, one falls as the other rises, however little both vary.
    """
    n, p = _sizes(evidence, loss, column)
    expected = np.asarray(rb.expectation(loss, n, p))
    room = np.asarray(rb.maximum(loss, n, p)) - expected
    usable = (expected > 0) & (room > 0)
    quotient = room[usable] / expected[usable]
    return float(quotient.std() / quotient.mean()) if usable.any() else 0.0


class OnLoss(NamedTuple):
    """A loss on a data set of ratings."""

    column: DataSet
    loss: str

    def __str__(self) -> str:
        return f"{judge(self.loss)} on {self.column}"


def _by_data_set(evidence: Evidence, family: Family[OnLoss]) -> Mapping[str, object]:
    texts: dict[DataSet, list[str]] = {}
    for key, one in family.contrasts.items():
        texts.setdefault(key.column, []).append(f"{one} ({judge(key.loss)})")
    differences = "; ".join(f"{column}: {', '.join(of_losses)}" for column, of_losses in texts.items())
    return {"differences": differences, "level": LEVEL}


@shape("popularity_minus_trained", _by_data_set)
def popularity_minus_trained(evidence: Evidence) -> Mapping[OnLoss, Contrast]:
    """Return popularity minus the best bounding of every loss by validation, on every data set of ratings."""
    found = {}
    for column in rated_data_sets(evidence):
        for loss, (scores, system) in picked_systems(evidence, column).items():
            pair = scores.pair(COUNT, system)
            enough(len(pair.units), f"of {column} with a score of popularity")
            found[OnLoss(column, loss)] = contrast(pair)
    if not found:
        raise MissingEvidence("no honest runs of popularity beside trained models: add it to controls in config.yaml")
    return found


@decides("T29")
def distribution_bounding_of_ap_raises_first_places(evidence: Evidence) -> Ruling:
    """Decide by most of nDCG@1 to nDCG@10 rising and none falling in any column, while AP falls at ratio 3."""
    family = Family(contrasts(evidence, cells(evidence, ["AP"], ["distribution"], metrics=CUT_OFFS)))
    in_columns = list(dict.fromkeys(cell.column for cell in family.contrasts))
    texts, verdicts = [], []
    for column in in_columns:
        these = [cell for cell in family.contrasts if cell.column == column]
        up, down, alike = (sum(one in group for one in these) for group in (family.higher, family.lower, family.alike))
        change = signed(float(np.mean([family.contrasts[cell].mean for cell in these])))
        texts.append(f"{column}: {up} up and {down} down, mean change {change}")
        verdicts.append(each_way(up > HALF * len(these), bool(down) or alike > HALF * len(these)))
    highest = max(in_columns, key=lambda column: column.nsr or 0)
    mean_ap = contrast(pair(evidence, Cell("AP", "distribution", highest, "AP")))
    falls = mean_ap.p_value() <= LEVEL
    of_ap = each_way(falls and mean_ap.mean < 0, mean_ap.mean >= 0 if falls else mean_ap.is_alike)
    facts = {"cut_offs": "; ".join(texts), "mean_ap": mean_ap, "highest": highest}
    return Ruling(together(*verdicts, of_ap), facts, len(family.higher) / len(family), n=len(family))


@decides("T32")
def first_places_fall_on_movielens_and_rise_on_mq2008(evidence: Evidence) -> Ruling:
    """Decide by the slope of nDCG@k on k = 1 to 10: below zero in every MovieLens column, above zero on MQ2008."""
    slopes: dict[tuple[str, str, DataSet], Contrast] = {}
    for loss, bounding, column in product(LOSSES, BOUNDINGS, columns(evidence)):
        if evidence.trained(loss, bounding, column):
            own = _slopes([values(evidence, metric, loss, column, bounding) for metric in CUT_OFFS])
            enough(len(own), f"of {column} with a score")
            slopes[loss, bounding, column] = contrast_of(own, scores_of(evidence, CUT_OFFS[0], loss, column).drawings)
    family = Family(slopes)
    movielens, mq2008 = ({key for key in slopes if key[2].dataset == dataset} for dataset in (MOVIELENS, MQ2008))
    some_trained(movielens and mq2008, "loss on one of them")
    down, up = len(movielens & set(family.lower)), len(mq2008 & set(family.higher))
    against = movielens & set(family.higher) or mq2008 & set(family.lower)
    there, here = ([slopes[key].mean for key in slopes if key in keys] for keys in (movielens, mq2008))
    facts: dict[str, object] = {"down": down, "of_there": len(movielens), "up": up, "of_here": len(mq2008)}
    facts |= {name: f"{signed(min(of))} to {signed(max(of))}" for name, of in (("there", there), ("here", here))}
    facts["apart"] = f"{_by_size(evidence)}{_of_controls(evidence)}"
    return Ruling(
        each_way(down + up == len(slopes), bool(against)),
        facts,
        float(np.mean(here) - np.mean(there)),
        n=len(slopes),
    )


def _slopes(of_cut_offs: Sequence[Floats]) -> Floats:
    """Return the least-squares slope of nDCG@k on k for every list, without units that have none."""
    found = _slopes_of_lists(of_cut_offs)
    return found[np.isfinite(found).any((1, 2))]


def _slopes_of_lists(of_cut_offs: Sequence[Floats]) -> Floats:
    found: Floats = np.tensordot(slope_weights(range(len(of_cut_offs))), np.stack(of_cut_offs), 1)
    return found


def _by_size(evidence: Evidence) -> str:
    """Describe the mean slope, after training on unbounded losses, of lists with few and with many relevant items.

    From a list's number of relevant items on, nDCG@k cannot fall: the ideal ranking gains nothing more.
    """
    texts = []
    for dataset, name in ((MOVIELENS, "MovieLens"), (MQ2008, "MQ2008")):
        few, many = [np.empty(0)], [np.empty(0)]
        for loss, column in product(LOSSES, columns(evidence, dataset)):
            if evidence.trained(loss, UNBOUNDED, column):
                slopes = _slopes_of_lists([values(evidence, metric, loss, column) for metric in CUT_OFFS])
                is_long = values(evidence, "p", loss, column) >= len(CUT_OFFS)
                few.append(slopes[np.isfinite(slopes) & ~is_long])
                many.append(slopes[np.isfinite(slopes) & is_long])
        means = [np.concatenate(one) for one in (few, many)]
        texts.append(f"{' and '.join(signed(float(one.mean())) if len(one) else 'no list' for one in means)} on {name}")
    return f"; in lists with fewer than {len(CUT_OFFS)} relevant items and in all others, by {', '.join(texts)}"


def _of_controls(evidence: Evidence) -> str:
    """Describe the slope of nDCG@k in the rankings of untrained models."""
    slopes: dict[str, list[str]] = {}
    for column in columns(evidence):
        of_cut_offs = [control_scores(evidence, metric, column) for metric in CUT_OFFS]
        for place, model in enumerate(of_cut_offs[0].systems):
            found = _slopes([one.values[place] for one in of_cut_offs])
            slopes.setdefault(model, []).append(signed(float(per_unit(found).mean())))
    texts = [f"{', '.join(slopes[model])} ({model})" for model in ("random", "popularity", "oracle") if model in slopes]
    return f"; without training, by data set: {'; '.join(texts)}" if texts else ""
