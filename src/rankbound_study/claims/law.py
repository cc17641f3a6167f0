r"""The law of list weights (docs/law.md): effects of weighting the training lists against the change of their mismatch.

A cell is a loss with the weights of an affine bound (the study's own runs) or of the experiments `weights` and
`influence`, on a data set. Its effect is the mean score with weights minus the score without, paired by topic, in the
metric that judges the loss. The regression is a straight line by least squares over the cells; its intervals are those
of a bootstrap that draws topics within data sets and trainings within folds, the same ones for all cells. The
predictions were written before the experiment ran.

Predictions for other data (docs/predictions.md) were registered before anything ran on them. Each is about the score of
a loss under some weights of its lists, a bounding or the text of list weights, minus its score under each of several
others, paired by topic in the metric that judges the loss. These differences have one limit, or two.

- held: every difference is significantly within the limits (an intersection-union test);
- not held: a difference is significantly outside a limit (Bonferroni over the differences and limits);
- undecided: neither;
- did not train: some of these models did not (`rankbound_study.results.scores`); their effect is shown and not tested.

Both p-values have Holm's correction over all predictions, those that did not run or train among them.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from rankbound.compare import Pair, PairedScores
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import SYSTEM, Floats, any_over
from rankbound.compare.statistics import percentiles
from rankbound_study.claims.effects import resampled_means
from rankbound_study.claims.evidence import OF_LISTS, Cell, Contrast, Evidence, judge, place
from rankbound_study.claims.rules import FLAT, adjusted, among, by_p
from rankbound_study.claims.varied import SYSTEMS, pair_in, side_by_side, trainings, usual_beside
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED, MissingEvidence, each_way
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.reader import FoldedLists
from rankbound_study.results.study_files import schema, signed
from rankbound_study.vocabulary import AFFINE, HONEST, LIST_WEIGHTS, LOSSES, SELECTIONS, UNBOUNDED, ListWeights

BOUNDS, EXPERIMENT, SECOND = "bounds", "weights", "influence"
"""Origins of cells: the study's own runs, those that differ from them in the weights of lists alone, and the experiment
of the second hypothesis, that a list's best influence is proportional to its relevant items."""

MISMATCH, WEIGHTS = "mismatch", "weights"
CHANGES = {name: f"change_{name}" for name in (MISMATCH, "influence", WEIGHTS)}
"""Changes of coefficients of variation over the training lists, each of which may predict the effect, by column; the
first is the law's. Without a bound, weights do not vary."""

ALL, REGISTERED = "all cells", "cells of the first prediction"
"""Cells of a line: those of the second experiment came later than the law's prediction."""

TOLERANCE = OF_LISTS
"""Distance from the line that counts, as it was registered: the smallest effect of metrics of whole lists."""

_FEWEST = 3  # cells through which a line is fitted
_SAME = 1e-9  # changes, and effects, that differ by less are the same; so are weights, with mean 1, of two cells

NAME = "table_law"
LINES, PREDICTIONS = f"{NAME}_lines", f"{NAME}_predictions"

COLUMNS = schema(
    f"text: dataset; int8: nsr; text: loss weights metric origin same_as; float: {' '.join(CHANGES.values())} "
    "effect low high predicted p_residual; int: n_topics"
)
"""Columns of the cells. `same_as` is an earlier cell whose trainings have the same relative weights, empty for cells
that count; changes are means over folds; `predicted` is the effect on the law's line through all cells, and
`p_residual` the p-value of the effect being within `TOLERANCE` of it (Holm)."""

_RANGES = ("slope", "slope_low", "slope_high", "intercept", "intercept_low", "intercept_high")
LINE_COLUMNS = schema(
    f"text: predictor cells; int: n; float: {' '.join(_RANGES)} r_squared; int: n_held_out; float: r_squared_held_out"
)
"""Columns of the lines by least squares through some cells, with 95 % intervals of slope and intercept.

`r_squared_held_out` is 1 minus the squared errors of other cells' predictions over their squared deviations from their
own mean, and below 0 where that mean predicts them better. Those that a line without a data set predicts are the data
set's; a line through the cells of the first prediction (of a loss) predicts the later ones. A line through all cells of
a loss is fitted without the later ones for that.
"""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Effect:
    """A cell of the law: its `bounding` is the text of its weights.

    Attributes:
        pair: the scores with and without weights.
        changes: the change of each predictor.
        variation: the coefficient of variation of the weights.
        origin, same_as: as in `COLUMNS`.
    """

    cell: Cell
    origin: str
    pair: Pair
    changes: Mapping[str, float]
    variation: float
    same_as: str = ""

    @cached_property
    def contrast(self) -> Contrast:
        """The effect."""
        return Contrast.of(self.pair)

    def __str__(self) -> str:
        return f"{self.cell.loss} with {self.cell.bounding} on {self.cell.column.label}"


@dataclass(frozen=True)
class Law:
    """All cells, and the lines through those that count."""

    effects: Sequence[Effect]

    @cached_property
    def counted(self) -> list[Effect]:
        """The cells that count: of several with the same relative weights, the first."""
        return [one for one in self.effects if not one.same_as]

    @cached_property
    def resampled(self) -> Floats:
        """The effects of all cells in every bootstrap sample, `(n_resamples, n_cells)`."""
        # Both experiments may have the same cell.
        named = [(one.cell._replace(bounding=f"{one.origin}: {one.cell.bounding}"), one.pair) for one in self.effects]
        return resampled_means(dict(named))

    @cached_property
    def lines(self) -> list[Line]:
        """The lines of every predictor: through all cells, those of each origin and loss, and without each data set."""
        if not self.counted:
            return []
        names = [(one.origin, one.cell.loss, one.cell.column.dataset) for one in self.counted]
        origins, losses, datasets = map(np.array, zip(*names, strict=True))
        every, first = origins == origins, origins != SECOND
        # The cells of each line, and those that fit and test a prediction.
        groups = {ALL: (every, first, ~first), REGISTERED: (first, first, ~first)}
        groups |= {name: (origins == name, ~every, ~every) for name in (BOUNDS, EXPERIMENT, SECOND)}
        for name in dict.fromkeys(losses.tolist()):
            of_loss = losses == name
            groups[name] = of_loss, of_loss & first, of_loss & ~first
        if len(set(datasets.tolist())) > 1:
            for name in dict.fromkeys(datasets.tolist()):
                groups[f"without {name}"] = datasets != name, datasets != name, datasets == name
        return [
            {"predictor": predictor, "cells": name, "n": int(of[0].sum()), **found}
            for predictor, (name, of) in product(CHANGES, groups.items())
            if (found := self._line(predictor, *of))
        ]

    def _line(self, predictor: str, chosen: np.ndarray, fitted: np.ndarray, tested: np.ndarray) -> Line:
        """Return slope, intercept and R squared of the chosen cells, and how well a line through some predicts others.

        Nothing with too few cells, or without a difference between them.
        """
        points = np.array([(one.changes[predictor], one.contrast.mean) for one in self.counted])
        (x, y), (first, effects), (others, later) = (points[of].T for of in (chosen, fitted, tested))
        if len(x) < _FEWEST or np.ptp(x) < _SAME:
            return {}
        slope, intercept = _least_squares(x, y)
        places = [place for place, one in enumerate(self.effects) if not one.same_as]
        slopes, intercepts = _least_squares(x, self.resampled[:, places][:, chosen])
        rest = ((y - intercept - slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        ranges = (float(slope), *percentiles(slopes), float(intercept), *percentiles(intercepts))
        found = {**dict(zip(_RANGES, ranges, strict=True)), "r_squared": float(1 - rest), "n_held_out": None}
        if min(len(first), len(later)) >= _FEWEST and min(np.ptp(first), np.ptp(later)) >= _SAME:
            slope, intercept = _least_squares(first, effects)
            errors = ((later - intercept - slope * others) ** 2).sum()
            share = float(1 - errors / ((later - later.mean()) ** 2).sum())
            found |= {"n_held_out": len(later), "r_squared_held_out": share}
        return {"r_squared_held_out": None, **found}

    def line(self, cells: str = ALL) -> Line | None:
        """Return a line of the law; None with too few cells, or without a difference between them."""
        return next((one for one in self.lines if (one["predictor"], one["cells"]) == (MISMATCH, cells)), None)

    def predicted(self, effect: Effect) -> float:
        """Return the effect that the line of the law through all cells has for a cell; NaN without a line."""
        line = self.line()
        return math.nan if line is None else line["intercept"] + line["slope"] * effect.changes[MISMATCH]

    @cached_property
    def p_residuals(self) -> dict[Cell, float]:
        """The p-value of each counted cell's effect being within `TOLERANCE` of the line, after Holm's correction."""
        p_values = {}
        for one in self.counted:
            limit = self.predicted(one)
            sides = one.contrast.p_above(limit + TOLERANCE), one.contrast.p_below(limit - TOLERANCE)
            p_values[one.cell] = min(1.0, 2 * min(sides))
        return adjusted(p_values) if self.line() else {}


def law(evidence: Evidence, instances: Mapping[DataSet, FoldedLists]) -> Law:
    """Return all cells of a study on the data sets whose instances are given."""
    from rankbound_study.jobs.weighting import Influence, mean_weighting

    @cache
    def influence(column: DataSet, fold: int, loss: str) -> Influence:
        return Influence(instances[column], fold, loss)

    found: list[Effect] = []
    first: dict[object, str] = {}
    for cell, origin, values in _scores(evidence):
        weights, pair = ListWeights.of(cell.bounding), values.pair(*SYSTEMS)
        if cell.column not in instances or len(pair.units) < 2:
            continue
        trained = np.flatnonzero(any_over(np.isfinite(pair.a), (0, 2))).tolist()
        drawings = np.zeros(len(values.folds), np.int64) if values.drawings is None else values.drawings
        # A fold's name begins with its number in its drawing.
        folds = [(int(values.folds[place].split()[0]), int(drawings[place])) for place in trained]
        views = [influence(cell.column, instances[cell.column].drawn_fold(*one), cell.loss) for one in folds]
        key = (cell.loss, cell.column, weights.permuted, views[0].weights(weights).round(9).tobytes())
        same = first.setdefault(key, cell.bounding)
        usual, weighted = (mean_weighting([view.under(one) for view in views]) for one in (None, weights))
        changes = {name: float(getattr(weighted, f"of_{name}") - getattr(usual, f"of_{name}")) for name in CHANGES}
        found.append(Effect(cell, origin, pair, changes, weighted.of_weights, "" if same == cell.bounding else same))
    return Law(found)


def _scores(evidence: Evidence) -> Iterator[tuple[Cell, str, PairedScores]]:
    """Yield the study's own cells of affine bounds, then those of experiments: origin, and scores of both `SYSTEMS`."""
    for column, loss, bounding in product(evidence.data_sets, LOSSES, AFFINE):
        cell = Cell(loss, bounding, column, judge(loss))
        with suppress(MissingEvidence):
            found = evidence.scores(cell.metric, loss, column)
            places = [place(found, name, f"{loss} with bounding {name} on {column}") for name in (bounding, UNBOUNDED)]
            yield cell, BOUNDS, replace(found, systems=SYSTEMS, values=found.values[places])
    for experiment, column in product((EXPERIMENT, SECOND), evidence.data_sets):
        try:
            varied = evidence.varied(experiment, column).values()
            beside = [(rows, usual_beside(evidence, column, rows)) for rows in varied]
        except MissingEvidence:
            continue
        for loss, (rows, usual) in product(LOSSES, beside):
            weights = json.loads(rows["options"][0]).get(LIST_WEIGHTS)
            if weights and (loss, UNBOUNDED) in trainings(rows):
                cell = Cell(loss, weights, column, judge(loss))
                yield cell, experiment, side_by_side(rows, usual, (loss, UNBOUNDED))


def _least_squares(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return slope and intercept of the line through `(x, y)`, for each row of y."""
    centred = x - x.mean()
    slope = y @ centred / (centred**2).sum()
    return slope, y.mean(-1) - slope * x.mean()


SLOPES = (-0.0030, -0.0008)  # the predicted region of the slope over all cells
NOTHING = 0.001  # largest mean absolute effect of weights that hardly vary (`FLAT`)
FALLS = (-1.5, -1.0, 0.5)  # powers at which nDCG and AP should fall on MovieLens
OF_PAIRS, MOVED = "pairs^-1", "permuted(pairs^-1)"

SECOND_HYPOTHESIS = "Second hypothesis"  # how its predictions begin
PAIRWISE = "nRBP"  # the loss that counts pairs, the quantity whose powers are the doses

BEST = {loss: f"pairs^{-0.5 if loss == PAIRWISE else 0.5:g}" for loss in LOSSES}
"""The weights that the second hypothesis names for each loss: they make influence proportional to relevant items."""


class Outcome(NamedTuple):
    """A prediction, its outcome (a verdict) and the deciding numbers in a sentence."""

    prediction: str
    outcome: str
    found: str


PREDICTION_COLUMNS: dict[str, pl.DataType] = dict.fromkeys(Outcome._fields, pl.String())
_NO_LINE, _NO_CELL = "There are too few cells for a line.", "No cell has such weights."


def verdict(law: Law) -> Outcome:
    """Return the verdict on the direction of the law.

    Confirmed if the slopes over all cells and of each loss are significantly below zero, refuted if one of them is
    significantly above it.
    """
    prediction = "The effect falls with the mismatch of the lists, over all cells and for each loss."
    line = law.line()
    if line is None:
        return Outcome(prediction, NOT_RUN, _NO_LINE)
    of_losses = {loss: one for loss in LOSSES if (one := law.line(loss)) is not None}
    highest = max(_side(one) for one in (line, *of_losses.values()))
    slope, *by_loss = (
        f"{_with_range(*_of(one, 'slope'))}, R² {one['r_squared']:.2f}" for one in (line, *of_losses.values())
    )
    losses = "; ".join(map(" ".join, zip(of_losses, by_loss, strict=True)))
    found = f"Slope of the effect per unit of mismatch over {line['n']} cells: {slope}. By loss: {losses}."
    if (first := law.line(REGISTERED)) is not None and first["n_held_out"]:
        found += (
            f" The {first['n']} cells of the first prediction predict the {first['n_held_out']} later ones with "
            f"R² {first['r_squared_held_out']:.2f}."
        )
    return Outcome(prediction, each_way(highest < 0, highest > 0), found)


def fit(law: Law) -> Outcome:
    """Return whether mismatch alone predicts the effects.

    Refuted if a cell lies significantly farther than `TOLERANCE` from the line (Holm), confirmed if all lie
    significantly nearer.
    """
    prediction = f"Mismatch alone predicts the effect: no cell lies farther than {TOLERANCE:g} from the line."
    if law.line() is None:
        return Outcome(prediction, NOT_RUN, _NO_LINE)
    off = [one for one in law.counted if law.p_residuals[one.cell] <= LEVEL]
    off.sort(key=lambda one: -abs(one.contrast.mean - law.predicted(one)))
    limits = [(one.contrast, law.predicted(one)) for one in law.counted]
    near = [max(one.p_above(at - TOLERANCE), one.p_below(at + TOLERANCE)) <= LEVEL for one, at in limits]
    names = among(list(map(str, off)))
    found = f"Cells significantly farther than {TOLERANCE:g} from the line: {len(off)} of {len(near)}{names}."
    return Outcome(prediction, each_way(all(near), bool(off)), found)


def outcomes(law: Law) -> Iterator[Outcome]:
    """Yield the outcome of every other prediction; none without runs of the experiment."""
    if any(one.origin == EXPERIMENT for one in law.effects):
        if (line := law.line(REGISTERED)) is not None:
            (low, high), slope, intercept = SLOPES, _with_range(*_of(line, "slope")), _of(line, "intercept")
            region = f"The slope over these cells lies between {signed(low)} and {signed(high)}"
            held = low <= line["slope"] <= high and _side(line) < 0
            yield Outcome(f"{region}, and its interval excludes zero.", each_way(held, not held), f"{slope}.")
            outcome = each_way(intercept[1] <= 0 <= intercept[2], not intercept[1] <= 0 <= intercept[2])
            yield Outcome("The intercept's interval contains zero.", outcome, f"{_with_range(*intercept)}.")
        falls = []
        for (loss, column), places in _curves(law, EXPERIMENT).items():
            expected = (0.0,) if loss != PAIRWISE else (-1.0,) if column.sampled else (-1.0, -0.5)
            yield _highest(law, places, expected, f"{loss} on {column.label}")
            if loss != PAIRWISE and column.sampled:
                falls += [place for power, place in places.items() if power in FALLS]
        powers = ", ".join(f"{power:g}" for power in FALLS)
        yield _falls(law, f"nDCG and AP on MovieLens fall, on average, at the powers {powers} of P(N - P).", falls)
        yield from _permuted(law)
        flat = [one for one in law.counted if one.variation < FLAT and one.origin != SECOND]
        prediction = (
            f"Weights with a coefficient of variation below {FLAT:g} do nothing: the mean absolute effect is below "
            f"{NOTHING:g}, and no effect is significantly beyond {TOLERANCE:g}."
        )
        if flat:
            mean = float(np.mean([abs(one.contrast.mean) for one in flat]))
            beyond = [
                str(one) for one in flat if max(one.contrast.interval()[0], -one.contrast.interval()[1]) > TOLERANCE
            ]
            found = f"{mean:.4f}; beyond {TOLERANCE:g}: {len(beyond)}{among(beyond)}."
            held = mean < NOTHING and not beyond
            yield Outcome(prediction, each_way(held, not held), f"Mean absolute effect of {len(flat)} cells: {found}")
        else:
            yield Outcome(prediction, NOT_RUN, _NO_CELL)
    for (loss, column), places in _curves(law, SECOND).items():
        named = ListWeights.of(BEST[loss]).power
        yield _highest(law, places, (named,), f"{SECOND_HYPOTHESIS}: {loss} on {column.label}")


def _curves(law: Law, origin: str) -> dict[tuple[str, DataSet], dict[float, int]]:
    """Return, for each loss and data set, the places of an experiment's cells by power of the number of pairs."""
    curves: dict[tuple[str, DataSet], dict[float, int]] = {}
    for number, one in enumerate(law.effects):
        weights = ListWeights.of(one.cell.bounding)
        if one.origin == origin and weights.quantity == "pairs" and not weights.permuted:
            curves.setdefault((one.cell.loss, one.cell.column), {})[weights.power] = number
    return curves


def _highest(law: Law, places: Mapping[float, int], expected: Sequence[float], what: str) -> Outcome:
    """Return whether the score is highest at an expected power.

    The prediction holds if it is in 95 % of the bootstrap samples, and fails if it is in 5 %.
    """
    powers = np.array([0.0, *places])
    resampled = law.resampled[:, list(places.values())]
    best = powers[np.argmax(np.column_stack([np.zeros(len(resampled)), resampled]), axis=1)]
    means = [0.0, *(law.effects[place].contrast.mean for place in places.values())]
    share = float(np.isin(best, expected).mean())
    return Outcome(
        f"{what} scores highest at the power {' or '.join(f'{power:g}' for power in expected)} of P(N - P).",
        each_way(share >= 1 - LEVEL, share <= LEVEL),
        f"Highest at {powers[np.argmax(means)]:g}; in {100 * share:.0f} % of bootstrap samples as predicted.",
    )


def _permuted(law: Law) -> Iterator[Outcome]:
    places = {one.cell: place for place, one in enumerate(law.effects)}
    pairwise = [place for cell, place in places.items() if (cell.loss, cell.bounding) == (PAIRWISE, MOVED)]
    yield _falls(law, f"Permuted, the weights {OF_PAIRS} of {PAIRWISE} cost instead of gaining.", pairwise)
    both = [
        (place, places[moved])
        for cell, place in places.items()
        if cell.loss != PAIRWISE and cell.bounding == OF_PAIRS and (moved := cell._replace(bounding=MOVED)) in places
    ]
    if both:
        in_place, permuted = (law.resampled[:, [pair[side] for pair in both]].mean(1) for side in (0, 1))
        mean = float(np.mean([law.effects[b].contrast.mean - law.effects[a].contrast.mean for a, b in both]))
        low, high = percentiles(permuted - in_place)
        yield Outcome(
            f"Permuted, the weights {OF_PAIRS} of nDCG and AP cost what they cost in place, within {TOLERANCE:g}.",
            CONFIRMED if low >= -TOLERANCE and high <= TOLERANCE else INCONCLUSIVE if low <= 0 <= high else REFUTED,
            f"Permuted minus in place, mean of {len(both)} cells: {_with_range(mean, low, high)}.",
        )


def _falls(law: Law, prediction: str, places: Sequence[int]) -> Outcome:
    """Return the outcome of a prediction that the mean effect of some cells lies below zero."""
    if not places:
        return Outcome(prediction, NOT_RUN, _NO_CELL)
    mean = float(np.mean([law.effects[place].contrast.mean for place in places]))
    low, high = percentiles(law.resampled[:, places].mean(1))
    found = f"Mean effect of {len(places)} cells: {_with_range(mean, low, high)}."
    return Outcome(prediction, each_way(high < 0, low > 0), found)


def _of(line: Line, what: str) -> tuple[float, float, float]:
    """Return a line's slope or intercept with its interval."""
    return line[what], line[f"{what}_low"], line[f"{what}_high"]


def _side(line: Line) -> int:
    """Return the sign of a slope whose interval excludes zero, otherwise 0."""
    return int(line["slope_low"] > 0) - int(line["slope_high"] < 0)


def _with_range(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})"


def cells_table(law: Law) -> pl.DataFrame:
    """Return a row per cell."""
    rows = []
    for one in law.effects:
        loss, weights, column, metric = one.cell
        numbers = (*one.contrast.measured, law.predicted(one), None if one.same_as else law.p_residuals.get(one.cell))
        changes = (one.changes[name] for name in CHANGES)
        rows.append((*column, loss, weights, metric, one.origin, one.same_as, *changes, *numbers, one.contrast.n))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def predictions_table(law: Law) -> pl.DataFrame:
    """Return the verdicts on the law, and the outcome of every prediction; no rows without cells."""
    found = [verdict(law), fit(law), *outcomes(law)] if law.effects else []
    return pl.DataFrame(found, schema=PREDICTION_COLUMNS, orient="row")


REGISTRATION = "ae6681ce9b07effaf7fe538e5800dc806c1a2c2b"
"""The commit of the predictions, in which nothing had run; their file is the same since."""

HELD, NOT_HELD, UNDECIDED, UNTRAINED = "held", "not held", "undecided", "did not train"
_OUTCOMES = {CONFIRMED: HELD, REFUTED: NOT_HELD, INCONCLUSIVE: UNDECIDED}

_DECIDING = ("difference", "difference_low", "difference_high", "p_held", "p_not_held")
REGISTERED_COLUMNS = schema(
    "text: id dataset; int8: nsr; text: loss weights against; float: above below size_low size_high effect low high; "
    f"text: deciding; float: {' '.join(_DECIDING)}; int: n_topics; text: outcome; flag: as_sized; "
    "text: reason registered"
)
"""Columns of the table. `effect` is the difference from the loss without weights, and `as_sized` true where it lies in
the predicted range; `deciding` names the weights whose `difference` is the least shown or, where the prediction did not
hold, the one that refutes it most."""


@dataclass(frozen=True)
class Prediction:
    """A row of the file: `weights` minus each of `against` lies above `above` and below `below`.

    `size` is the predicted range of the effect over the loss without weights.
    """

    id: str
    dataset: str
    loss: str
    weights: str
    against: Sequence[str]
    size: Sequence[float]
    reason: str
    nsr: int | None = None
    above: float | None = None
    below: float | None = None

    def p_held(self, one: Contrast) -> float:
        """Return the p-value that is small for a difference within the limits."""
        tests = (one.p_above, self.above), (one.p_below, self.below)
        return max(test(limit) for test, limit in tests if limit is not None)

    def p_not_held(self, one: Contrast) -> float:
        """Return the p-value that is small for a difference outside a limit, corrected for the number of tests."""
        tests = (one.p_below, self.above), (one.p_above, self.below)
        found = [test(limit) for test, limit in tests if limit is not None]
        return min(1.0, min(found) * len(found) * len(self.against))


@cache
def predictions() -> tuple[Prediction, ...]:
    """Return the registered predictions, in their order."""
    import yaml  # type: ignore[import-untyped]

    text = files("rankbound_study.reference").joinpath("predictions.yaml").read_text("utf-8")
    return tuple(Prediction(**row) for row in yaml.safe_load(text))


def _differences(evidence: Evidence, of: Prediction) -> dict[str, Contrast]:
    """Return the differences of a prediction by the weights that are compared with, the loss without any among them.

    Raises:
        MissingEvidence: some weights did not run in any experiment, or there are too few topics for a test.
    """
    column, metric, parts = DataSet(of.dataset, of.nsr), judge(of.loss), []
    chosen = pl.col("loss") == of.loss, pl.col("selection") == SELECTIONS[HONEST]
    read = ("topic", "fold", "seed", "drawing", metric)
    for rows in evidence.variants("", column).values():
        settings = rows.filter(*chosen).select("bounding", "options", *read).collect()
        for (bounding, options), part in settings.group_by("bounding", "options", maintain_order=True):
            weights = json.loads(str(options)).get(LIST_WEIGHTS, bounding)
            parts.append(part.select(*read, pl.lit(weights).alias(SYSTEM)))
    if not parts:
        raise MissingEvidence(f"no experiment has runs of {of.loss} on {column}")
    every, where = pl.concat(parts), f"as weights of {of.loss} on {column}"
    return {
        other: Contrast.of(pair_in(every, metric, SYSTEM, (of.weights, other), where))
        for other in dict.fromkeys((UNBOUNDED, *of.against))
    }


def registered_table(evidence: Evidence, every: Sequence[Prediction] | None = None) -> pl.DataFrame:
    """Return a row per prediction (default: the registered ones), with its outcome."""
    every = predictions() if every is None else every
    found: dict[str, Mapping[str, Contrast]] = {}
    untrained: dict[str, dict[str, Any]] = {}
    held, not_held = dict.fromkeys([one.id for one in every], 1.0), dict.fromkeys([one.id for one in every], 1.0)
    for one in every:
        try:
            found[one.id] = _differences(evidence, one)
        except MissingEvidence:
            with suppress(MissingEvidence):
                effect = _differences(evidence.of_all_trainings(), one)[UNBOUNDED]
                untrained[one.id] = {**_effect(effect), "outcome": UNTRAINED}
            continue
        held[one.id] = max(one.p_held(found[one.id][other]) for other in one.against)
        not_held[one.id] = min(one.p_not_held(found[one.id][other]) for other in one.against)
    held, not_held = adjusted(held), adjusted(not_held)
    rows = []
    for one in every:
        row: dict[str, Any] = {**vars(one), "against": ", ".join(one.against), "registered": REGISTRATION}
        row |= {"outcome": NOT_RUN, **dict(zip(("size_low", "size_high"), one.size, strict=True))}
        if one.id in found:
            own, outcome = found[one.id], _OUTCOMES[by_p(held[one.id], not_held[one.id])]
            if outcome == NOT_HELD:
                deciding = min(one.against, key=lambda other: one.p_not_held(own[other]))
            else:
                deciding = max(one.against, key=lambda other: one.p_held(own[other]))
            numbers = (*own[deciding].measured, held[one.id], not_held[one.id])
            row |= {**_effect(own[UNBOUNDED]), **dict(zip(_DECIDING, numbers, strict=True)), "deciding": deciding}
            row |= {"outcome": outcome, "as_sized": one.size[0] <= own[UNBOUNDED].mean <= one.size[1]}
        rows.append(row | untrained.get(one.id, {}))
    return pl.DataFrame(rows, schema=REGISTERED_COLUMNS)


def _effect(of: Contrast) -> dict[str, Any]:
    return {**dict(zip(("effect", "low", "high"), of.measured, strict=True)), "n_topics": of.n}
