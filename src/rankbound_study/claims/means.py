"""Claims about mean scores: Table 5.1, nDCG of the first places (Figure 5.1), data sets and ratios compared."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import Any

import numpy as np
from scipy import stats

import rankbound as rb
from rankbound.compare import Pair, PairedScores
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, per_unit
from rankbound.compare.statistics import Estimate, draws
from rankbound_study.claims.comparisons import COUNT, beside_popularity
from rankbound_study.claims.effects import RESAMPLES
from rankbound_study.claims.evidence import CUT_OFFS, MOVIELENS, MQ2008, Cell, Contrast, Evidence, estimate, place
from rankbound_study.claims.methods import listed
from rankbound_study.claims.registry import Facts, decides, differences, shape
from rankbound_study.claims.rules import DECIDING, FLAT, RULES, Family, adjusted, together
from rankbound_study.claims.varied import best_bounding
from rankbound_study.claims.verdicts import MissingEvidence, Ruling, each_way, enough, some_trained
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.study_files import signed
from rankbound_study.vocabulary import BOUNDED, BOUNDINGS, JUDGED_BY, LOSSES, UNBOUNDED


def _sizes(evidence: Evidence, loss: str, column: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Return the sizes (items, relevant items) of the lists."""
    n, p = (evidence.values(name, loss, column) for name in ("n", "p"))
    known = np.isfinite(n) & np.isfinite(p)
    return n[known].astype(np.int64), p[known].astype(np.int64)


@shape
def differences_beside_floors(evidence: Evidence, **axes: Any) -> tuple[Mapping[Cell, Contrast], Facts]:
    """Return the differences of some cells, and the range of the lowest possible AP by ratio."""
    spreads = [np.ptp(rb.minimum("AP", *_sizes(evidence, "AP", one))) for one in evidence.columns(MOVIELENS)]
    facts = {"ratios": ratios_named(evidence), "spreads": ", ".join(f"{one:.2f}" for one in spreads)}
    return differences(evidence, **axes), facts


@shape
def differences_but_at_the_top(evidence: Evidence, **axes: Any) -> dict[Cell, Contrast]:
    """Return the differences of some cells, without the first two cut-offs at the thesis' highest ratio."""
    every, first = evidence.cells(**axes), CUT_OFFS[:2]
    return evidence.contrasts([one for one in every if one.column.nsr != 3 or one.metric not in first])


@shape
def boundings_apart(
    evidence: Evidence, losses: Sequence[str], boundings: Sequence[str], named: str = "{one}, {other} on {column}"
) -> dict[str, Contrast]:
    """Return the difference of each two boundings of a loss, in every column."""
    return {
        named.format(loss=loss, one=one, other=other, column=column): Contrast.of(
            evidence.pair(Cell(loss, one, column, JUDGED_BY[loss]), other)
        )
        for column, loss, (one, other) in product(evidence.columns(), losses, combinations(boundings, 2))
    }


@decides("T16")
def expectation_max_is_as_expectation(evidence: Evidence) -> Ruling:
    """Decide by whether both weigh the lists of a ratio alike, and score alike.

    Weights are alike if (max - E) / E, the quotient of 1 / E and 1 / (max - E), varies over the lists by less than
    10 %. That it varies more decides nothing: whether that matters is what the scores tell. The correlation of the two
    weights says nothing: where the maximum is 1, one falls as the other rises, however little both vary.
    """
    family = Family(boundings_apart(evidence, LOSSES, ("expectation-max", "expectation"), "{loss} on {column}"))
    texts, most = [], 0.0
    for loss in LOSSES:
        found = []
        for column in evidence.columns(MOVIELENS):
            n, p = _sizes(evidence, loss, column)
            expected = np.asarray(rb.expectation(loss, n, p))
            room = np.asarray(rb.maximum(loss, n, p)) - expected
            usable = (expected > 0) & (room > 0)
            quotient = room[usable] / expected[usable]
            found.append(float(quotient.std() / quotient.mean()) if usable.any() else 0.0)
        texts.append(f"{min(found):.2f} to {max(found):.2f} ({loss})")
        most = max(most, *found)
    verdict = together(each_way(most < FLAT, against=False), RULES["all are within"](family))
    return Ruling(verdict, family.facts({"quotients": ", ".join(texts), "flat": FLAT}), most, n=len(family))


@shape
def popularity_minus_trained(evidence: Evidence) -> tuple[Mapping[str, Contrast], Facts]:
    """Return popularity minus the best bounding of every loss by validation, on every data set of ratings."""
    found: dict[str, Contrast] = {}
    texts: dict[DataSet, list[str]] = {}
    for column in [column for column in evidence.data_sets if column.sampled]:
        for loss, (of_loss, system) in beside_popularity(evidence, column).items():
            if system is not None:
                both = of_loss.pair(COUNT, system)
                enough(len(both.units), f"of {column} with a score of popularity")
                one = found[f"{JUDGED_BY[loss]} on {column}"] = Contrast.of(both)
                texts.setdefault(column, []).append(f"{one} ({JUDGED_BY[loss]})")
    if not found:
        raise MissingEvidence("no honest runs of popularity beside trained models: add it to controls in config.yaml")
    shown = "; ".join(f"{column}: {', '.join(of)}" for column, of in texts.items())
    return found, {"level": LEVEL, "differences": shown}


@decides("T29")
def distribution_bounding_of_ap_raises_first_places(evidence: Evidence) -> Ruling:
    """Decide by most of nDCG@1 to nDCG@10 rising and none falling in any column, while AP falls at ratio 3."""
    family = Family(evidence.contrasts(evidence.cells(["AP"], ["distribution"], metrics=CUT_OFFS)))
    in_columns = list(dict.fromkeys(cell.column for cell in family.contrasts))
    texts, verdicts = [], []
    for column in in_columns:
        these = [cell for cell in family.contrasts if cell.column == column]
        up, down, alike = (sum(one in group for one in these) for group in (family.higher, family.lower, family.alike))
        change = signed(float(np.mean([family.contrasts[cell].mean for cell in these])))
        texts.append(f"{column}: {up} up and {down} down, mean change {change}")
        verdicts.append(each_way(up > len(these) / 2, bool(down) or alike > len(these) / 2))
    highest = max(in_columns, key=lambda column: column.nsr or 0)
    mean_ap = Contrast.of(evidence.pair(Cell("AP", "distribution", highest, "AP")))
    falls = mean_ap.p_value() <= LEVEL
    of_ap = each_way(falls and mean_ap.mean < 0, mean_ap.mean >= 0 if falls else mean_ap.p_within() <= LEVEL)
    facts = {"cut_offs": "; ".join(texts), "mean_ap": mean_ap, "highest": highest}
    return Ruling(together(*verdicts, of_ap), facts, len(family.higher) / len(family), n=len(family))


@decides("T32")
def first_places_fall_on_movielens_and_rise_on_mq2008(evidence: Evidence) -> Ruling:
    """Decide by the slope of nDCG@k on k = 1 to 10: below zero in every MovieLens column, above zero on MQ2008."""
    slopes: dict[tuple[str, str, DataSet], Contrast] = {}
    for loss, bounding, column in product(LOSSES, BOUNDINGS, evidence.columns()):
        if evidence.trained(loss, bounding, column):
            own = _known(_slopes([evidence.values(metric, loss, column, bounding) for metric in CUT_OFFS]))
            enough(len(own), f"of {column} with a score")
            slopes[loss, bounding, column] = Contrast.of_differences(
                own, evidence.scores(CUT_OFFS[0], loss, column).drawings
            )
    family = Family(slopes)
    movielens, mq2008 = ({key for key in slopes if key[2].dataset == dataset} for dataset in (MOVIELENS, MQ2008))
    some_trained(movielens and mq2008, "loss on one of them")
    down, up = len(movielens & set(family.lower)), len(mq2008 & set(family.higher))
    against = movielens & set(family.higher) or mq2008 & set(family.lower)
    there, here = ([slopes[key].mean for key in slopes if key in keys] for keys in (movielens, mq2008))
    facts: dict[str, object] = {"down": down, "of_there": len(movielens), "up": up, "of_here": len(mq2008)}
    facts |= {name: f"{signed(min(of))} to {signed(max(of))}" for name, of in (("there", there), ("here", here))}
    # The slopes in the rankings of untrained models.
    of_controls: dict[str, list[str]] = {}
    for column in evidence.columns():
        of_cut_offs = [evidence.control_scores(metric, column) for metric in CUT_OFFS]
        for model, *of_model in zip(of_cut_offs[0].systems, *(one.values for one in of_cut_offs), strict=True):
            mean = float(per_unit(_known(_slopes(of_model))).mean())
            of_controls.setdefault(model, []).append(signed(mean))
    shown = (one for one in ("random", "popularity", "oracle") if one in of_controls)
    facts["controls"] = "; ".join(f"{', '.join(of_controls[model])} ({model})" for model in shown)
    facts["by_size"] = _by_size(evidence)
    verdict = each_way(down + up == len(slopes), bool(against))
    return Ruling(verdict, facts, float(np.mean(here) - np.mean(there)), n=len(slopes))


def _slopes(of_cut_offs: Sequence[Floats]) -> Floats:
    """Return the least-squares slope of nDCG@k on k for every list."""
    found: Floats = np.tensordot(slope_weights(range(len(of_cut_offs))), np.stack(of_cut_offs), 1)
    return found


def _known(scores: Floats) -> Floats:
    """Return the units that have a score."""
    return scores[np.isfinite(scores).any((1, 2))]


def _by_size(evidence: Evidence) -> str:
    """Describe the mean slope, after training on unbounded losses, of lists with few and with many relevant items.

    From a list's number of relevant items on, nDCG@k cannot fall: the ideal ranking gains nothing more.
    """
    texts = []
    for dataset, name in ((MOVIELENS, "MovieLens"), (MQ2008, "MQ2008")):
        few, many = [np.empty(0)], [np.empty(0)]
        for loss, column in product(LOSSES, evidence.columns(dataset)):
            if evidence.trained(loss, UNBOUNDED, column):
                slopes = _slopes([evidence.values(metric, loss, column) for metric in CUT_OFFS])
                known, is_long = np.isfinite(slopes), evidence.values("p", loss, column) >= len(CUT_OFFS)
                few.append(slopes[known & ~is_long])
                many.append(slopes[known & is_long])
        means = [np.concatenate(one) for one in (few, many)]
        texts.append(f"{' and '.join(signed(float(one.mean())) if len(one) else 'no list' for one in means)} on {name}")
    return ", ".join(texts)


@decides("T25")
def mq2008_is_lower_by_its_share_of_relevant_items(evidence: Evidence) -> Ruling:
    """Decide by whether MQ2008 scores lower than MovieLens, but not on a scale from random order (0) to best (1)."""
    ratios, (queries,) = evidence.columns(MOVIELENS), evidence.columns(MQ2008)
    places = [key for key in product(LOSSES, BOUNDINGS, ratios) if evidence.trained(*key[:2], key[2], queries)]
    some_trained(places, "loss on both")

    def gap(loss: str, bounding: str, column: DataSet, above_random: bool) -> Contrast:
        """Return MQ2008 minus MovieLens: two samples, each with its own error and degrees of freedom (Welch)."""
        here, there = (_mean(evidence, loss, bounding, one, above_random) for one in (queries, column))
        parts = [one.standard_error**2 for one in (here, there)]
        terms = [part**2 / one.degrees_of_freedom for part, one in zip(parts, (here, there), strict=True)]
        freedom = sum(parts) ** 2 / sum(terms) if sum(parts) else 1.0
        return Contrast(here.mean - there.mean, math.sqrt(sum(parts)), freedom, math.nan, 2)

    raw, above_random = (Family({key: gap(*key, above) for key in places}) for above in (False, True))
    remains = len(above_random.lower)
    by_share = each_way(not remains, remains > len(places) / 2)
    smallest = above_random.contrasts[DECIDING["most"](above_random)]
    of_random = []
    for column in [*ratios, queries]:
        controls = evidence.control_scores("nDCG", column)
        if "random" in controls.systems:
            mean = float(np.nanmean(controls.matrix[:, list(controls.systems).index("random")]))
            of_random.append(f"{mean:.3f} on {column}")
    facts: dict[str, object] = {"lower_by": -float(np.mean(raw.means)), "remains": remains}
    facts |= {"remains_by": -float(np.mean(above_random.means))}
    facts |= {"of_random": ", ".join(of_random) if len(of_random) == len(ratios) + 1 else ""}
    return Ruling(together(RULES["all are lower"](raw), by_share), raw.facts(facts), *smallest.measured, len(places))


@lru_cache(maxsize=256)
def _mean(evidence: Evidence, loss: str, bounding: str, column: DataSet, above_random: bool) -> Estimate:
    found = evidence.values(JUDGED_BY[loss], loss, column, bounding)
    if above_random:
        n, p = (evidence.values(name, loss, column, bounding) for name in ("n", "p"))
        known = np.isfinite(found) & np.isfinite(n) & np.isfinite(p) & (p > 0)
        sizes = (of[known].astype(np.int64) for of in (n, p))
        raw, found = found[known], np.full(found.shape, np.nan)
        found[known] = rb.bounded(JUDGED_BY[loss], "expectation-max").from_value(raw, *sizes)
    found = _known(found)
    enough(len(found), f"of {column} with a score")
    return estimate(found, evidence.scores(JUDGED_BY[loss], loss, column).drawings)


@decides("T47")
def best_bounding_depends_on_the_data(evidence: Evidence) -> Ruling:
    """Decide by whether no bounding is among the best in all columns, neither for nDCG nor for AP.

    The best ones are the best by validation, and those that it does not beat significantly; all if Friedman's test is
    not significant.
    """
    texts, verdicts, counts = [], [], []
    for loss in ("nDCG", "AP"):
        best: dict[DataSet, list[str]] = {}
        for column in evidence.columns():
            best[column] = boundings = [name for name in BOUNDINGS if evidence.trained(loss, name, column)]
            some_trained(boundings, f"bounding of {loss}")
            if len(boundings) < 3:  # of fewer than Friedman's test compares, all count as the best
                continue
            means = [per_unit(evidence.values(JUDGED_BY[loss], loss, column, name)) for name in boundings]
            matrix = np.stack(means, 1)
            matrix = matrix[np.isfinite(matrix).all(1)]
            enough(len(matrix), f"of {column} with a score")
            if not np.ptp(matrix, axis=1).any() or stats.friedmanchisquare(*matrix.T).pvalue > LEVEL:
                continue
            preferred = best_bounding(evidence, column, loss, boundings)
            if preferred is None:
                raise MissingEvidence(f"no validation scores of {loss} on {column}")
            others = [Cell(loss, name, column, JUDGED_BY[loss]) for name in boundings if name != preferred]
            beaten = Family({one.bounding: Contrast.of(evidence.pair(one, preferred)) for one in others}).lower
            best[column] = [name for name in boundings if name not in beaten]
        shared = [name for name in BOUNDINGS if all(name in found for found in best.values())]
        # Columns with the same boundings share a phrase.
        columns_of: dict[tuple[str, ...], list[str]] = {}
        for column, names in best.items():
            columns_of.setdefault(tuple(names), []).append(str(column))
        texts.append(
            f"For {loss}, the best bounding by validation and those that are not significantly worse are "
            f"{'; '.join(f'{_names(names)} on {listed(where)}' for names, where in columns_of.items())}; on all data "
            f"sets these include {_names(shared) if shared else 'none'}."
        )
        same = all(set(one) == set(shared) for one in best.values())
        verdicts.append(each_way(not shared, bool(shared) and same and len(shared) < len(BOUNDINGS)))
        counts.append(len(shared))
    n = 2 * len(evidence.columns())
    return Ruling(together(*verdicts), {"by_loss": " ".join(texts)}, min(counts), n=n)


def _names(boundings: Sequence[str]) -> str:
    if set(boundings) == set(BOUNDINGS):
        return "all boundings"
    return listed(["no bounding" if name == UNBOUNDED else name for name in boundings])


@decides("T24")
def scores_fall_with_the_ratio(evidence: Evidence) -> Ruling:
    """Decide by Page's trend test over the ratios, for every loss and bounding."""
    ratios = evidence.several_ratios()
    rows = {
        (loss, bounding): _by_ratio([evidence.scores(JUDGED_BY[loss], loss, column) for column in ratios], bounding)
        for loss, bounding in product(LOSSES, BOUNDINGS)
        if evidence.trained(loss, bounding, *ratios)
    }
    some_trained(rows, "loss at all ratios")

    def trend(rows: Floats) -> float:
        """Return the one-sided p-value of scores that grow from column to column: of two, by the sign test."""
        if rows.shape[1] > 2:
            return float(stats.page_trend_test(rows, method="asymptotic").pvalue)
        changes = rows[:, -1] - rows[:, 0]
        rising, count = int((changes > 0).sum()), int((changes != 0).sum())
        return float(stats.binomtest(rising, count, alternative="greater").pvalue) if count else 1.0

    falls, rises = (adjusted({key: trend(sign * row) for key, row in rows.items()}) for sign in (-1, 1))
    falling, rising = (sum(p_value <= LEVEL for p_value in found.values()) for found in (falls, rises))
    changes = [float((row[:, -1] - row[:, 0]).mean()) for row in rows.values()]
    texts = []
    for loss in LOSSES:
        of_ratios = [evidence.control_scores(JUDGED_BY[loss], column) for column in ratios]
        if all("random" in one.systems for one in of_ratios):
            random = _by_ratio(of_ratios, "random")
            texts.append(f"{float((random[:, 0] - random[:, -1]).mean()):.3f} in {JUDGED_BY[loss]}")
    facts: dict[str, object] = {"falling": falling, "count": len(rows), "least": -max(changes), "most": -min(changes)}
    facts |= {"first": ratios[0].nsr, "last": ratios[-1].nsr, "of_random": ", ".join(texts)}
    return Ruling(each_way(falling == len(rows), bool(rising)), facts, float(np.mean(changes)), n=len(rows))


def _by_ratio(of_ratios: Sequence[PairedScores], system: str) -> Floats:
    """Return the scores of the users that have one at every ratio, `(n_users, n_ratios)`."""
    matrices = [one.matrix[:, place(one, system, f"{system} at every ratio")] for one in of_ratios]
    found = _of_same_units(matrices, [one.units for one in of_ratios])
    known: Floats = found.T[np.isfinite(found).all(0)]
    enough(len(known), "with a score at every ratio")
    return known


def _of_same_units(values: Sequence[Floats], names: Sequence[Sequence[str]]) -> Floats:
    """Stack values by unit, of the units that all have."""
    units = sorted(set.intersection(*map(set, names)))
    places = [{name: place for place, name in enumerate(own)} for own in names]
    return np.stack([one[[at[name] for name in units]] for one, at in zip(values, places, strict=True)])


def on_same_users(differences: Sequence[Pair]) -> Floats:
    """Return differences `(n_ratios, n_users, n_folds, n_seeds)` of the users with lists at every ratio."""
    if len({one.a.shape[1:] for one in differences}) > 1:
        raise MissingEvidence("folds or seeds differ between ratios")
    found = _of_same_units([one.a - one.b for one in differences], [one.units for one in differences])
    enough(found.shape[1], "with a score at every ratio")
    return found


def slope_over_ratios(differences: Sequence[Pair], ratios: Sequence[DataSet]) -> Contrast:
    """Return the slope of a mean difference on the ratio, over the users with a score at every ratio."""
    slopes: Floats = np.tensordot(slope_weights(column.nsr or 0 for column in ratios), on_same_users(differences), 1)
    return Contrast.of_differences(slopes, differences[0].drawings, differences[0].metric)


def slope_weights(places: Iterable[float]) -> Floats:
    """Return the weights of the least-squares slope of values at these places."""
    steps = np.array(list(places), dtype=np.float64)
    steps -= steps.mean()
    weights: Floats = steps / (steps**2).sum()
    return weights


def _pairs(evidence: Evidence, loss: str, bounding: str) -> list[Pair]:
    return [evidence.pair(Cell(loss, bounding, column, JUDGED_BY[loss])) for column in evidence.several_ratios()]


def ratios_named(evidence: Evidence) -> str:
    """Return the ratios as text."""
    return ", ".join(str(column.nsr) for column in evidence.columns(MOVIELENS))


@shape
def slopes_over_ratios(evidence: Evidence, losses: Sequence[str]) -> tuple[Mapping[str, Contrast], Facts]:
    """Return the slope of distribution bounding minus unbounded on the ratio, by loss; the facts are of all losses."""
    slopes, texts = {}, []
    for loss in LOSSES:
        of_ratios = _pairs(evidence, loss, "distribution")
        slopes[loss] = slope = slope_over_ratios(of_ratios, evidence.several_ratios())
        means = ", ".join(signed(float(one.differences.mean())) for one in of_ratios)
        texts.append(f"{loss}: {means}, slope {slope} ({slope.range})")
    return {loss: slopes[loss] for loss in losses}, {"ratios": ratios_named(evidence), "slopes": "; ".join(texts)}


def _growth_of_variance(aligned: Floats, ratios: Sequence[DataSet]) -> Contrast:
    """Return the slope of the log variance over lists on the ratio, with its bootstrap error over users."""
    n_users = aligned.shape[1]
    lists = np.isfinite(aligned).sum((2, 3)).astype(np.float64)
    sums, squares = (np.nan_to_num(aligned**power).sum((2, 3)) for power in (1, 2))
    weights = np.concatenate([np.ones((1, n_users)), draws(np.random.default_rng(0), n_users, RESAMPLES)])
    counts, means, moments = (weights @ one.T for one in (lists, sums, squares))
    variances = moments / counts - (means / counts) ** 2
    if not (variances > 0).all():
        raise MissingEvidence("scores hardly differ between users: there is no variance to compare")
    slopes = np.log(variances) @ slope_weights(column.nsr or 0 for column in ratios)
    return Contrast(float(slopes[0]), float(slopes[1:].std(ddof=1)), math.inf, math.nan, n_users)


@shape
def growth_of_scatter(evidence: Evidence) -> tuple[Mapping[tuple[str, str], Contrast], Facts]:
    """Return the growth of the log variance of bounded minus unbounded with the ratio, by loss and bounding.

    The facts are the factors of the variance with one step of the ratio: smallest, largest, and between seeds. Those
    between seeds are of every two of the unbounded loss in the same folds, if some fold has two at every ratio.
    """
    ratios = evidence.several_ratios()
    found = {
        (loss, bounding): _growth_of_variance(on_same_users(_pairs(evidence, loss, bounding)), ratios)
        for loss, bounding in product(LOSSES, BOUNDED)
        if evidence.trained(loss, UNBOUNDED, *ratios) and evidence.trained(loss, bounding, *ratios)
    }
    some_trained(found, "bounded loss at all ratios")
    texts = []
    for loss in LOSSES:
        of_ratios = [evidence.values(JUDGED_BY[loss], loss, column) for column in ratios]
        if min(one.shape[-1] for one in of_ratios) < 2:
            continue
        between = [
            np.stack([one[..., i] - one[..., j] for i, j in combinations(range(one.shape[-1]), 2)], -1)
            for one in of_ratios
        ]
        if all(np.isfinite(one).any() for one in between):
            names = [evidence.scores(JUDGED_BY[loss], loss, column).units for column in ratios]
            growth = _growth_of_variance(_of_same_units(between, names), ratios).mean
            texts.append(f"{np.exp(growth):.2f} ({loss})")
    factors = [np.exp(one.mean) for one in found.values()]
    seeds = f", those between two seeds of the unbounded loss by {', '.join(texts)}" if texts else ""
    return found, {"factors": f"{min(factors):.2f} to {max(factors):.2f}{seeds}"}
