r"""The law of list weights (docs/law.md): effects of weighting the training lists against the change of their mismatch.

A cell is a loss with the weights of an affine bound (the study's own runs) or of the experiment `weights`, on a data
set. Its effect is the mean score with weights minus the score without, paired by topic, in the metric that judges the
loss. The regression is a straight line by least squares over the cells; its intervals are those of a bootstrap that
draws topics within data sets and trainings within folds, the same ones for all cells.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from rankbound.compare import Pair, PairedScores
from rankbound.compare.scores import Floats, Mask, any_over
from rankbound.compare.statistics import percentiles
from rankbound_study.claims.cells import Cell, Contrast, contrast, judge, place, scores
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.resampled import resampled_means
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.varied import SYSTEMS, side_by_side, trainings, usual_beside, variants
from rankbound_study.claims.verdict import MissingEvidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import LIST_WEIGHTS, ListWeights
from rankbound_study.data.reader import FoldedLists
from rankbound_study.vocabulary import AFFINE, LOSSES, UNBOUNDED

if TYPE_CHECKING:
    from rankbound_study.results.list_weights import Weighting

EXPERIMENT = "weights"
"""The experiment whose runs differ from the study's own in the weights of lists alone."""

SECOND = "influence"
"""The experiment of the second hypothesis, that a list's best influence is proportional to its relevant items."""

BOUNDS = "bounds"
"""The origin of cells of the study's own runs."""

MISMATCH, INFLUENCE, WEIGHTS = "mismatch", "influence", "weights"
PREDICTORS = (MISMATCH, INFLUENCE, WEIGHTS)
"""Changes of coefficients of variation over the training lists, each of which may predict the effect; the first is
the law's."""

ALL = "all cells"

TOLERANCE = 0.002
"""Distance from the line that counts: smaller ones are those of seeds and rounding."""

_DIGITS = 9
"""Decimals to which two cells' weights, with mean 1, agree if their trainings are the same."""

_FEWEST = 3
"""Cells through which a line is fitted."""


@dataclass(frozen=True)
class Effect:
    """A cell of the law.

    Attributes:
        cell: its loss, data set and judging metric; `bounding` is the text of the weights.
        origin: `BOUNDS`, `EXPERIMENT` or `SECOND`.
        pair: the scores with and without weights.
        contrast: their difference.
        usual, weighted: the variation over training lists without and with weights, as means over folds.
        same_as: an earlier cell whose trainings have the same relative weights; empty for cells that count.
    """

    cell: Cell
    origin: str
    pair: Pair
    contrast: Contrast
    usual: "Weighting"
    weighted: "Weighting"
    same_as: str = ""

    def change(self, predictor: str) -> float:
        """Return the change of a predictor."""
        usual, weighted = (getattr(one, f"of_{predictor}") for one in (self.usual, self.weighted))
        return float(weighted - usual)


@dataclass(frozen=True)
class Line:
    """A line by least squares through some cells, with 95 % intervals of slope and intercept."""

    predictor: str
    cells: str
    n: int
    slope: float
    slope_low: float
    slope_high: float
    intercept: float
    intercept_low: float
    intercept_high: float
    r_squared: float


@dataclass(frozen=True)
class Law:
    """All cells, and the lines through those that count."""

    effects: Sequence[Effect]

    @cached_property
    def counted(self) -> list[Effect]:
        """The cells that count: of several with the same relative weights, the first.

        The law's prediction was about these; the second experiment came later, and has predictions of its own.
        """
        return [one for one, counts in zip(self.effects, self._counts, strict=True) if counts]

    @cached_property
    def _counts(self) -> Mask:
        return np.array([not one.same_as and one.origin != SECOND for one in self.effects], dtype=bool)

    @cached_property
    def resampled(self) -> Floats:
        """The effects of all cells in every bootstrap sample, `(n_resamples, n_cells)`."""
        # Both experiments may have the same cell.
        named = [(one.cell._replace(bounding=f"{one.origin}: {one.cell.bounding}"), one.pair) for one in self.effects]
        return resampled_means(dict(named))

    @cached_property
    def lines(self) -> list[Line]:
        """The lines of every predictor: through all cells, those of each origin and loss, and without each data set."""
        return [
            line
            for predictor in PREDICTORS
            for name, chosen in self._groups()
            if (line := self._line(predictor, name, np.array(chosen, dtype=bool))) is not None
        ]

    def line(self, predictor: str = MISMATCH, cells: str = ALL) -> Line | None:
        """Return a line; None with too few cells, or without a difference between them."""
        return next((one for one in self.lines if (one.predictor, one.cells) == (predictor, cells)), None)

    def predicted(self, effect: Effect) -> float:
        """Return the effect that the line of the law through all cells has for a cell; NaN without a line."""
        line = self.line()
        return float("nan") if line is None else line.intercept + line.slope * effect.change(MISMATCH)

    @cached_property
    def p_residuals(self) -> dict[Cell, float]:
        """The p-value of each counted cell's effect being within `TOLERANCE` of the line, after Holm's correction."""
        p_values = {}
        for one in self.counted:
            estimate, limit = one.contrast.estimate, self.predicted(one)
            p_values[one.cell] = min(
                1.0, 2 * min(estimate.p_above(limit + TOLERANCE), estimate.p_below(limit - TOLERANCE))
            )
        return adjusted(p_values) if self.line() else {}

    def _groups(self) -> Iterator[tuple[str, list[bool]]]:
        cells = self.counted
        yield ALL, [True] * len(cells)
        for origin in (BOUNDS, EXPERIMENT):
            yield origin, [one.origin == origin for one in cells]
        for loss in dict.fromkeys(one.cell.loss for one in cells):
            yield loss, [one.cell.loss == loss for one in cells]
        datasets = list(dict.fromkeys(one.cell.column.dataset for one in cells))
        for dataset in datasets if len(datasets) > 1 else ():
            yield f"without {dataset}", [one.cell.column.dataset != dataset for one in cells]

    def _line(self, predictor: str, name: str, chosen: Mask) -> Line | None:
        x = np.array([one.change(predictor) for one in self.counted])[chosen]
        if len(x) < _FEWEST or np.ptp(x) < 1e-9:
            return None
        y = np.array([one.contrast.mean for one in self.counted])[chosen]
        slope, intercept = _least_squares(x, y)
        slopes, intercepts = _least_squares(x, self.resampled[:, self._counts][:, chosen])
        rest = ((y - intercept - slope * x) ** 2).sum() / ((y - y.mean()) ** 2).sum()
        return Line(
            predictor,
            name,
            len(x),
            float(slope),
            *percentiles(slopes),
            float(intercept),
            *percentiles(intercepts),
            float(1 - rest),
        )


def law(evidence: Evidence, instances: Mapping[DataSet, FoldedLists]) -> Law:
    """Return all cells of a study on the data sets whose instances are given."""
    from rankbound_study.results.list_weights import Influence, mean_weighting

    @cache
    def influence(column: DataSet, fold: int, loss: str) -> Influence:
        return Influence(instances[column], fold, loss)

    found: list[Effect] = []
    first: dict[object, str] = {}
    of_experiments = (*_of_experiment(evidence, EXPERIMENT), *_of_experiment(evidence, SECOND))
    for cell, origin, values in (*_of_bounds(evidence), *of_experiments):
        weights, pair = ListWeights.of(cell.bounding), values.pair(*SYSTEMS)
        if cell.column not in instances or len(pair.units) < 2:
            continue
        trained = any_over(np.isfinite(pair.a), (0, 2))
        folds = [int(name) for name, one in zip(values.folds, trained, strict=True) if one]
        views = [influence(cell.column, fold, cell.loss) for fold in folds]
        key = (cell.loss, cell.column, weights.permuted, views[0].weights(weights).round(_DIGITS).tobytes())
        same = first.setdefault(key, cell.bounding)
        usual, weighted = (mean_weighting([view.under(one) for view in views]) for one in (None, weights))
        same_as = "" if same == cell.bounding else same
        found.append(Effect(cell, origin, pair, contrast(pair), usual, weighted, same_as))
    return Law(found)


def _of_bounds(evidence: Evidence) -> Iterator[tuple[Cell, str, PairedScores]]:
    """Yield the study's own cells of affine bounds, with the scores of both `SYSTEMS`."""
    for column, loss, bounding in product(evidence.data_sets, LOSSES, AFFINE):
        cell = Cell(loss, bounding, column, judge(loss))
        try:
            found = scores(evidence, cell.metric, loss, column)
            places = [place(found, name, f"{loss} with bounding {name} on {column}") for name in (bounding, UNBOUNDED)]
        except MissingEvidence:
            continue
        yield cell, BOUNDS, replace(found, systems=SYSTEMS, values=found.values[places])


def _of_experiment(evidence: Evidence, experiment: str) -> Iterator[tuple[Cell, str, PairedScores]]:
    """Yield an experiment's cells, likewise."""
    for column in evidence.data_sets:
        try:
            varied = variants(evidence, experiment, column, with_usual=False)
            beside = [(rows, usual_beside(evidence, column, rows)) for rows in varied.values()]
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
