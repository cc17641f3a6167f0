"""The results of a study as claims read them, and the cells of Table 5.1: scores side by side, and their differences.

Claims are about MovieLens, MQ2008 and faces; a generated stand-in replaces a missing data set, so a demonstration
decides all claims, about its stand-ins. Runs are those of the honest protocol. Those of models that did not train (see
`rankbound_study.results.scores`) are left out, unless a claim is about training itself.

A cell is a loss under a bounding, on MovieLens at one negative sampling ratio or on MQ2008. Differences are bounded
minus unbounded; their tests generalise to topics (whole users or queries) and, with several seeds, to trainings. MQ2008
is the reading in which a label of 1 is relevant, which fits the printed numbers.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from rankbound.compare import Pair, PairedScores
from rankbound.compare.comparison import LEVEL, TIE
from rankbound.compare.scores import Floats, Integers, Mask, any_over, mean_of_known, per_unit
from rankbound.compare.statistics import Estimate, corrected, over_trainings, over_units, seed_deviation
from rankbound_study.claims.verdicts import MissingEvidence, Untrained, enough, some_trained
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.results.scores import JOB, read_trainings, scores_of_runs
from rankbound_study.results.study_files import StudyFiles, scan_runs, schema, signed
from rankbound_study.vocabulary import AFFINE, BOUNDED, HONEST, JUDGED_BY, LOSSES, SELECTIONS, UNBOUNDED, VARIANT

KEY = ("dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed", "drawing", "topic", "n", "p", "epoch")


def _described(loss: str, bounding: str, column: DataSet, variant: str = "") -> str:
    of_variant = f" (variant {variant})" if variant else ""
    return f"{loss} {'unbounded' if bounding == UNBOUNDED else f'with {bounding} bounding'} on {column}{of_variant}"


CUT_OFFS = tuple(f"nDCG@{k}" for k in range(1, 11))
METRICS = ("nDCG", "AP", "nRBP(p=0.8)", "nRBP(p=0.9)", "nRBP(p=0.95)", *CUT_OFFS)
READ = (*KEY, "options", *METRICS)  # the columns of experiments, and of the runs beside them
MOVIELENS, MQ2008 = "movielens", "mq2008-label1"

SHARE = "share"  # in the place of a metric: a share of lists

OF_LISTS, OF_FIRST_PLACES, OF_SHARES = 0.002, 0.005, 0.01
"""Smallest differences of means that matter: in metrics of whole lists, in those of the first places, and in shares of
lists and of pairs. docs/statistics.md has the reasons; every claim about a metric uses these alone."""

COLLAPSE = 5 * OF_LISTS  # drop in the mean that counts as a collapse, or as strong

_CHOSEN: dict[str, float] = {}


def choose_smallest_effects(effects: Mapping[str, float]) -> None:
    """Decide about these metrics (`share`: about shares of lists) by other smallest differences from now on."""
    _CHOSEN.update(effects)


def smallest_effect(metric: str) -> float:
    """Return the smallest difference that matters in a metric; NaN without one."""
    if not metric:
        return math.nan
    if metric in _CHOSEN:
        return _CHOSEN[metric]
    if metric in (SHARE, "PairAccuracy"):
        return OF_SHARES
    return OF_FIRST_PLACES if "@" in metric or metric == "RR" else OF_LISTS


class Cell(NamedTuple):
    """A bounding of a loss in a column, on one metric."""

    loss: str
    bounding: str
    column: DataSet
    metric: str

    def __str__(self) -> str:
        bounding = "affine" if repeats(self.loss, self.bounding) else self.bounding
        return f"{self.loss} with {bounding} bounding on {self.column}"


@dataclass(frozen=True)
class Contrast(Estimate):
    """A mean difference with its error over topics and trainings.

    It is that over topics alone if there are fewer than three trainings or a fold has one seed.

    Attributes:
        margin: the smallest difference that matters in its metric; NaN for what is no difference of means.
        n: the number of topics; 0 where no number of them would narrow the interval as that of a mean.
        training_variance: the part of the mean's variance that is due to trainings; 0 for one seed.
        seeds: the number of seeds.
        is_repeated: the error covers other trainings; of one training alone, no difference is shown to be small.
    """

    margin: float
    n: int
    training_variance: float = 0.0
    seeds: int = 1
    is_repeated: bool = True

    @classmethod
    def of(cls, pair: Pair) -> "Contrast":
        """Return the difference of the two."""
        return cls.of_differences(pair.a - pair.b, pair.drawings, pair.metric)

    @classmethod
    def of_differences(cls, differences: Floats, drawings: Integers | None = None, metric: str = "") -> "Contrast":
        """Return the mean of differences `(n_units, n_folds, n_seeds)` in a metric."""
        trained = any_over(np.isfinite(differences), 0)
        seeds = int(any_over(trained, 0).sum())
        variance = seed_deviation(differences) ** 2 * any_over(trained, 1).sum() / max(trained.sum(), 1)
        known = float(variance) if np.isfinite(variance) else 0.0
        repeated = over_trainings(differences, drawings) is not None
        found = estimate(differences, drawings)
        moments = found.mean, found.standard_error, found.degrees_of_freedom
        return cls(*moments, smallest_effect(metric), len(differences), known, seeds, repeated)

    @property
    def measured(self) -> tuple[float, float, float]:
        """The mean and its interval: `value`, `low` and `high` of a verdict."""
        return self.mean, *self.interval()

    def __str__(self) -> str:
        return signed(self.mean)

    @property
    def range(self) -> str:
        """The interval as text: `+0.0001 to +0.0042`."""
        return " to ".join(map(signed, self.interval()))

    @property
    def points(self) -> str:
        """The mean difference of two shares, in percentage points."""
        return f"{100 * self.mean:+.2f}"

    @property
    def points_range(self) -> str:
        """Its interval as text."""
        return " to ".join(f"{100 * end:+.2f}" for end in self.interval())

    def p_within(self, limit: float = math.nan) -> float:
        """Return the p-value, small for differences within the limit (NaN: the margin) on both sides of zero.

        Both one-sided tests have to be significant.
        """
        if math.isnan(limit):
            limit = self.margin if self.is_repeated else 0.0
        return max(self.p_above(-limit), self.p_below(limit)) if limit > 0 else 1.0

    def p_beyond(self, limit: float = math.nan) -> float:
        """Return the two-sided p-value, small for differences beyond the limit, or the margin, on either side."""
        limit = self.margin if math.isnan(limit) else limit
        return min(1.0, 2 * min(self.p_above(limit), self.p_below(-limit))) if limit > 0 else 1.0


@dataclass(frozen=True)
class Evidence:
    """The files of a results folder.

    Attributes:
        study: the study's name in its runs.
        runs, epochs: all runs, and the measurements of every epoch.
        experiments, experiment_epochs: the same for the experiments.
        predictions, weights: the files of the methods that were trained on pictures.
        images: the pictures, with their ages.
        with_untrained: keep the runs of models that did not train.
        left_out: descriptions of those that one claim asked for and that are left out (see `for_one_claim`).
    """

    study: str
    runs: Path | None = None
    epochs: Path | None = None
    experiments: Path | None = None
    experiment_epochs: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()
    images: Path | None = None
    with_untrained: bool = False
    left_out: set[str] = field(default_factory=set, compare=False, repr=False)

    @classmethod
    def of(cls, study: str, files: StudyFiles) -> "Evidence":
        """Return the evidence in the files of a study."""
        return cls(study, **{name: own for name, own in vars(files).items() if name in cls.__annotations__})

    def for_one_claim(self) -> "Evidence":
        """Return the same results with an empty `left_out`, in which they note what they leave out of one claim."""
        # Read once for all claims: the copy keeps it.
        assert self._untrained is not None
        own = copy(self)
        object.__setattr__(own, "left_out", set())
        return own

    def of_all_trainings(self) -> "Evidence":
        """Return the same results with those of models that did not train, for claims about training itself."""
        return replace(self, with_untrained=True)

    def trained(self, loss: str, bounding: str, *columns: DataSet) -> bool:
        """Return False, and note it in `left_out`, if a training of the study's own on these data did not train."""
        if not len(self._untrained):
            return True
        own = self._untrained.filter(study=self.study, protocol=HONEST, loss=loss, bounding=bounding)
        found = [one for one in columns if len(own.filter(self._is_on(one)))]
        self.left_out.update(_described(loss, bounding, one) for one in found)
        return not found

    def cell(self, column: DataSet, *, selection: str = SELECTIONS[HONEST], study: str = "") -> pl.LazyFrame:
        """Scan the rows of one data set, of trained models and controls.

        Args:
            column: the data set, by its name in claims: `movielens`, `mq2008-label1`, `aaf`.
            selection: the part that picked the epoch.
            study: a study other than the evidence's own, such as `neural` for the comparisons.

        Raises:
            MissingEvidence: there are no such rows.
        """
        picked = (pl.col("selection") == selection) | (pl.col("loss") == "none")
        rows = self._scan(self.runs, "runs").filter(self._is_of(study or self.study), self._is_on(column), picked)
        if rows.select(pl.len()).collect().item() == 0:
            ratio = "" if column.nsr is None else f" at NSR {column.nsr}"
            lacking = f"no {HONEST} runs on {column.dataset}{ratio}"
            raise MissingEvidence(f"{lacking}: protocols and datasets of the configuration leave them out")
        return self._that_trained(rows)

    def epochs_of(self, column: DataSet) -> pl.LazyFrame:
        """Scan the epochs of the study's own honest trainings on a data set."""
        return self._scan(self.epochs, "epochs").filter(self._is_on(column), self._is_of(self.study))

    def varied(self, experiment: str, column: DataSet, *more: str) -> dict[str, pl.DataFrame]:
        """Read the rows of every variant of an experiment on a data set, by the variant's name (`f16`).

        They have the columns `READ`, and more. The same models under the study's own settings are in `cell`.

        Raises:
            MissingEvidence: the experiment did not run there.
            Untrained: it ran, but none of its models trained.
        """
        found = self.variants(experiment, column)
        if not found:
            if self.note_untrained(experiment, column):
                raise Untrained(f"The experiment {experiment} ran on {column}, but no model trained")
            raise MissingEvidence(f"the experiment {experiment} did not run on {column.dataset}: see config.yaml")
        chosen = pl.col("selection") == SELECTIONS[HONEST]
        read = list(dict.fromkeys((*READ, *more)))
        return {name: rows.filter(chosen).select(read).collect() for name, rows in found.items()}

    def variants(self, experiment: str, column: DataSet, *, of_epochs: bool = False) -> dict[str, pl.LazyFrame]:
        """Scan the rows (or epochs) of every variant, of all selections; empty if the experiment did not run.

        Without a name of an experiment, the variants are those of all, by `factors-f16`.

        Variants none of whose models trained are left out, and noted in `left_out`.
        """
        path, start = self.experiment_epochs if of_epochs else self.experiments, self._start(experiment)
        in_experiment = pl.col("study").str.starts_with(start)
        rows = self._that_trained(self._scan(path, "experiments").filter(in_experiment, self._is_on(column)))
        self.note_untrained(experiment, column)
        names = rows.select("study").unique().sort("study").collect()["study"].to_list()
        return {name.removeprefix(start): rows.filter(pl.col("study") == name) for name in names}

    def note_untrained(self, experiment: str, column: DataSet) -> list[str]:
        """Note in `left_out` the jobs of an experiment with a training that did not train; return their names."""
        if not len(self._untrained):
            return []
        start = self._start(experiment)
        own = self._untrained.filter(pl.col("study").str.starts_with(start), self._is_on(column))
        jobs = own.select("study", "loss", "bounding").rows()
        names = [_described(loss, bounding, column, study.removeprefix(start)) for study, loss, bounding in jobs]
        self.left_out.update(names)
        return names

    def untrained(self) -> list[str]:
        """Return the names of all jobs with a training that did not train."""
        jobs = self._untrained.select("loss", "bounding", "dataset", "nsr_test").unique().rows()
        return sorted(_described(loss, bounding, DataSet(*column)) for loss, bounding, *column in jobs)

    def _start(self, experiment: str) -> str:
        return f"{self.study}{VARIANT}{experiment}-" if experiment else f"{self.study}{VARIANT}"

    def _is_of(self, study: str) -> pl.Expr:
        return (pl.col("study") == study) & (pl.col("protocol") == HONEST)

    def _is_on(self, column: DataSet) -> pl.Expr:
        return (pl.col("dataset") == self._named(column.dataset)) & pl.col("nsr_test").eq_missing(pl.lit(column.nsr))

    @cached_property
    def data_sets(self) -> tuple[DataSet, ...]:
        """The data sets of the study's own honest trainings, in the order of all tables; none without runs."""
        if self.runs is None:
            return ()
        own = self._scan(self.runs, "runs").filter(self._is_of(self.study), pl.col("loss") != "none")
        found = own.select("dataset", "nsr_test").unique().collect()
        return tuple(sorted(map(DataSet._make, found.rows()), key=lambda one: one.place))

    @cached_property
    def _untrained(self) -> pl.DataFrame:
        """The jobs with a training that did not train; none if these count, too."""
        files = (self.runs, self.epochs), (self.experiments, self.experiment_epochs)
        trainings = read_trainings(*([] if self.with_untrained else files))
        return trainings.filter(pl.col("cause").is_not_null()).select(JOB).unique().sort(JOB)

    def _that_trained(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        if not len(self._untrained):
            return rows
        return rows.join(self._untrained.lazy(), on=JOB, how="anti", nulls_equal=True, maintain_order="left")

    def _named(self, dataset: str) -> str:
        """Return the name of the data set, or of its stand-in."""
        for name in (dataset, f"{SYNTHETIC}{dataset}"):
            if name in self._data_sets:
                return name
        raise MissingEvidence(f"no runs on {dataset}" if self._data_sets else "no runs: no file of them was given")

    @cached_property
    def _data_sets(self) -> frozenset[str]:
        """The names of all data sets."""
        scans = [scan_runs(path) for path in (self.runs, self.experiments) if path is not None]
        return frozenset(name for scan in scans for name in scan.select("dataset").unique().collect()["dataset"])

    @staticmethod
    def _scan(path: Path | None, what: str) -> pl.LazyFrame:
        if path is None:
            raise MissingEvidence(f"no {what}: no file of them was given")
        return scan_runs(path)

    @lru_cache(maxsize=16)
    def columns(self, *datasets: str) -> tuple[DataSet, ...]:
        """Return the columns of these data sets, MovieLens at all ratios; MissingEvidence if it has no honest runs."""
        found: list[DataSet] = []
        for dataset in datasets or (MOVIELENS, MQ2008):
            if dataset != MOVIELENS:
                found.append(DataSet(dataset, None))
                continue
            name = self._named(dataset)
            ratios = [one.nsr for one in self.data_sets if one.dataset == name and one.nsr]
            if not ratios:
                raise MissingEvidence(f"no honest runs of trained models on {dataset}")
            found += [DataSet(dataset, nsr) for nsr in ratios]
        return tuple(found)

    def several_ratios(self) -> tuple[DataSet, ...]:
        """Return the columns of MovieLens; MissingEvidence if there is only one."""
        found = self.columns(MOVIELENS)
        if len(found) < 2:
            raise MissingEvidence(f"{found[0]} alone shows no trend over ratios: add others to nsr of interactions")
        return found

    def cells(
        self,
        losses: Iterable[str] = LOSSES,
        boundings: Iterable[str] = BOUNDED,
        datasets: Iterable[str] = (),
        metrics: Iterable[str] = (),
        lowest_ratio: bool = False,
        higher_ratios: bool = False,
    ) -> list[Cell]:
        """Return the distinct cells of some axes, or those at the lowest ratio, or at all others.

        By default they are those of Table 5.1, each on the metric that judges its loss. Cells that did not train, or
        whose unbounded loss did not, are left out.

        Raises:
            Untrained: none is left.
        """
        where = self.several_ratios()[1:] if higher_ratios else self.columns(*datasets)
        every = list(product(losses, where[:1] if lowest_ratio else where, boundings))
        trained = [
            (loss, column, bounding)
            for loss, column, bounding in every
            if self.trained(loss, UNBOUNDED, column) and self.trained(loss, bounding, column)
        ]
        if every:
            some_trained(trained, "bounded loss")
        return [
            Cell(loss, bounding, column, metric)
            for loss, column, bounding in trained
            if is_distinct(loss, bounding)
            for metric in metrics or (judge(loss),)
        ]

    def pairs(self, of: Iterable[Cell]) -> dict[Cell, Pair]:
        """Pair the scores of every cell with those of the unbounded loss."""
        return {cell: self.pair(cell) for cell in of}

    def contrasts(self, of: Iterable[Cell]) -> dict[Cell, Contrast]:
        """Return every cell's difference from the unbounded loss."""
        return {cell: Contrast.of(one) for cell, one in self.pairs(of).items()}

    def pair(self, cell: Cell, other: str = UNBOUNDED) -> Pair:
        """Pair the scores of a cell with those of another bounding of its loss.

        Raises:
            MissingEvidence: one of them did not run, or there are too few topics for a test.
            Untrained: one of them did not train.
        """
        for bounding in (cell.bounding, other):
            if not self.trained(cell.loss, bounding, cell.column):
                what = f"{cell.loss}, bounding {bounding}, {cell.column}"
                raise Untrained(f"A loss that it is about did not train: {what}")
        found = self.scores(cell.metric, cell.loss, cell.column)
        for bounding in (cell.bounding, other):
            place(found, bounding, f"{cell.loss} with bounding {bounding} on {cell.column}")
        if repeats(cell.loss, cell.bounding) and not repeats(cell.loss, other):
            # A bounding with replicas has the mean of all that ran: none stands for the others.
            replicas = [place for place, name in enumerate(found.systems) if name in AFFINE]
            own = found.values.copy()
            own[list(found.systems).index(cell.bounding)] = mean_of_known(np.moveaxis(found.values[replicas], 0, -1))
            found = replace(found, values=own)
        both = found.pair(cell.bounding, other)
        enough(len(both.units), f"of {cell.column} with a score of {cell}")
        return both

    @lru_cache(maxsize=512)
    def scores(self, metric: str, loss: str, column: DataSet) -> PairedScores:
        """Return the scores of all boundings of a loss, by name; the list sizes `n` and `p` are metrics here, too."""
        return scores_of_runs(self._rows(loss, column), metric, by=("bounding",))

    def values(self, metric: str, loss: str, column: DataSet, bounding: str = UNBOUNDED) -> Floats:
        """Return the scores `(n_topics, n_folds, n_seeds)` of a bounding of a loss."""
        found = self.scores(metric, loss, column)
        own: Floats = found.values[place(found, bounding, f"{loss} with bounding {bounding} on {column}")]
        return own

    @lru_cache(maxsize=64)
    def control_scores(self, metric: str, column: DataSet) -> PairedScores:
        """Return the scores of the untrained models, by name; without such models there are no systems."""
        rows = self._rows("none", column)
        if rows.is_empty():
            return PairedScores([], [], np.empty((0, 0, 1, 1)))
        return scores_of_runs(rows, metric, by=("model",))

    @lru_cache(maxsize=64)
    def _rows(self, loss: str, column: DataSet) -> pl.DataFrame:
        found = self.cell(column).filter(pl.col("loss") == loss).select(*KEY, *METRICS).collect()
        if found.is_empty() and loss != "none":
            raise MissingEvidence(f"no honest runs of {loss} on {column}")
        return found


def judge(loss: str) -> str:
    """Return the metric that judges a loss."""
    return JUDGED_BY.get(loss, loss)


def is_distinct(loss: str, bounding: str, standing: str = AFFINE[0]) -> bool:
    """Return False if a bounding repeats another one of its loss, in whose cell both are.

    The affine boundings of the nRBP loss weigh lists by 1, 2 and 2 over P (N - P): one training up to the loss' scale,
    which Adam cancels. They are replicas of one training: the cell of the first has the mean of all.
    """
    return not repeats(loss, bounding) or bounding == standing


def repeats(loss: str, bounding: str) -> bool:
    """Return True for the replicas of one training: the affine boundings of the nRBP loss."""
    return loss == "nRBP" and bounding in AFFINE


def place(found: PairedScores, system: str, what: str) -> int:
    """Return a system's place among the scores; MissingEvidence, which names it in full, if it did not run."""
    if system not in found.systems:
        raise MissingEvidence(f"no honest runs of {what}")
    return list(found.systems).index(system)


def estimate(differences: Floats, drawings: Integers | None = None) -> Estimate:
    """Estimate the mean of differences `(n_units, n_folds, n_seeds)` over units, and over trainings if it can be.

    Differences due to rounding count as zero. `drawings` `(n_folds,)` are those of the folds.
    """
    differences = np.where(np.abs(differences) <= TIE, 0.0, differences)
    return over_trainings(differences, drawings) or over_units(per_unit(differences))


def kept_units(of: Pair, kept: Mask) -> Pair:
    """Keep some topics of a pair."""
    names = [name for name, one in zip(of.units, kept, strict=True) if one]
    members = None if of.members is None else of.members[kept]
    return replace(of, a=of.a[kept], b=of.b[kept], units=names, members=members)


COLUMNS = schema(
    "text: dataset; int8: nsr; text: model loss bounding metric; float: margin change change_margin p_value"
)
SIGNIFICANT = f"p at most {LEVEL} after Holm's correction over the distinct bounded cells of the table"


def certainty(frame: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return half of the 95 % interval of each cell's mean, and its change relative to the unbounded loss.

    `change` and `change_margin` are over topics with scores of both losses; `p_value` is uncorrected.
    """

    def half_width(of: Estimate) -> float:
        return of.interval()[1] - of.mean

    rows = []
    for part in frame.rename({"nsr_test": "nsr"}).partition_by("dataset", "nsr", "model", "loss", maintain_order=True):
        scores, first = scores_of_runs(part, metric, by=("bounding",)), part.row(0, named=True)
        for bounding, own in zip(scores.systems, scores.values, strict=True):
            row = {name: first.get(name) for name in COLUMNS} | {"bounding": bounding, "metric": metric}
            known = own[any_over(np.isfinite(own), (1, 2))]
            row["margin"] = half_width(estimate(known, scores.drawings)) if len(known) > 1 else None
            if bounding != UNBOUNDED and UNBOUNDED in scores.systems:
                both = scores.pair(bounding, UNBOUNDED)
                if len(both.units) > 1:
                    found = Contrast.of(both)
                    row |= {"change": found.mean, "change_margin": half_width(found), "p_value": found.p_value()}
            rows.append(row)
    return pl.DataFrame(rows, schema=COLUMNS)


def significance(change: float | None, p_value: float | None) -> int:
    """Return 1 where a bounded loss is significantly better than the unbounded one, -1 where it is worse, else 0."""
    if change is None or p_value is None or p_value > LEVEL:
        return 0
    return 1 if change > 0 else -1


def holm_adjusted(table: pl.DataFrame) -> pl.Series:
    """Return the p-values of changes, corrected over the distinct cells that the thesis prints; null for all others.

    A bounding that repeats another one (`is_distinct`) is corrected in its place, as one cell of the same family.
    """
    cells = table.select("loss", "bounding").rows()
    found = pl.Series("p_holm", [None] * len(table), dtype=pl.Float64)
    for bounding in reversed(AFFINE):
        family = pl.Series([is_distinct(loss, one, bounding) for loss, one in cells], dtype=pl.Boolean)
        own = table.with_columns(pl.when(pl.col("as_printed") & family).then("p_value"))
        found = adjusted_p_values(own).fill_null(found)
    return found


def adjusted_p_values(table: pl.DataFrame) -> pl.Series:
    """Return the p-values of a table, corrected over all of them; null where there is none."""
    found = corrected(table["p_value"].fill_null(math.nan).to_list())
    return pl.Series("p_holm", found, dtype=pl.Float64).fill_nan(None)
