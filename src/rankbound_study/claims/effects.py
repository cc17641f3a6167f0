r"""The effects of bounding in the cells of Table 5.1, their means over groups of cells, and the effects by regime.

A cell is a loss under a bounding on a data set; identical boundings (the affine ones of nRBP) are one cell. The errors
of two cells are correlated if they share topics or the trainings of an unbounded loss: their covariance is that of a
bootstrap that draws topics and trainings for all cells together.

The mean of many cells' effects follows a random-effects model for cells that share topics and trainings. With the
effects $y_i$ of $k$ cells, whose errors have the covariance matrix $V$, and true effects that differ between cells with
variance $\tau^2$:

$$\hat\mu = \frac1k \sum_i y_i, \qquad
\hat\tau^2 = \max\Big(0, \frac{\sum_i (y_i - \hat\mu)^2 - \operatorname{tr} V + 1^\top V 1 / k}{k - 1}\Big), \qquad
\operatorname{Var} \hat\mu = \frac{1^\top V 1}{k^2} + \frac{\hat\tau^2}{k}$$

This is the method of moments of Hedges (1983, "A random effects model for effect sizes") with covariances. All cells
have the same weight: weights by precision assume independent errors, and those of cells that share trainings are not.

A regime is a data set under one setting of the model: the study's own, or that of a variant. Regimes differ in how much
list sizes spread, whether tastes go with them, and the model's capacity. The influence of a list is the range of its
loss over all orders (`P(N - P)` for nRBP), by which an unbounded mean weighs it; its coefficient of variation between
the test lists, which have the proportions of the training lists, measures how unequal the weights are that bounding by
minimum and maximum removes.
"""

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import Pair
from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Floats, Integers, any_over, mean_of_known, per_unit
from rankbound.compare.statistics import Estimate, draws, over_units, percentiles
from rankbound_study.claims.evidence import KEY, Cell, Contrast, Evidence, is_distinct, judge, kept_units, repeats
from rankbound_study.claims.rules import adjusted
from rankbound_study.claims.verdicts import MissingEvidence
from rankbound_study.config.data_sets import DataSet, SampledName
from rankbound_study.results.scores import read_trainings, scores_of_runs, untrained_counts
from rankbound_study.results.study_files import StudyFiles, scan_runs, schema
from rankbound_study.vocabulary import AFFINE, BOUNDED, HONEST, JUDGED_BY, LOSSES, SELECTIONS, UNBOUNDED, VARIANT

KINDS = {"affine": AFFINE, "distribution": tuple(name for name in BOUNDED if name not in AFFINE)}
"""Bounds by what they do to a list: affine ones weigh it, the others reshape its loss."""

EVERY = "all"  # in the place of a loss: all losses

RESAMPLES = 1999  # number of permutations, and of bootstrap samples


@dataclass(frozen=True)
class Pooled(Estimate):
    """The mean effect of `n` cells, with `n - 1` degrees of freedom.

    Attributes:
        between: the standard deviation of the true effects between cells.
    """

    between: float

    @property
    def of_new_cell(self) -> tuple[float, float] | None:
        """The 95 % interval of the true effect in another such cell; None for two cells.

        It has `n - 2` degrees of freedom (Higgins, Thompson and Spiegelhalter 2009, "A re-evaluation of random-effects
        meta-analysis"); with few cells it covers a little less than it should.
        """
        freedom = self.degrees_of_freedom - 1
        if not freedom:
            return None
        return Estimate(self.mean, math.hypot(self.standard_error, self.between), freedom).interval()


def pooled(effects: Floats, covariance: Floats) -> Pooled:
    """Return the mean of effects `(k,)` of two or more cells, whose errors have a covariance matrix `(k, k)`."""
    k = len(effects)
    mean, of_errors = float(effects.mean()), float(covariance.sum()) / k
    squares = float(((effects - mean) ** 2).sum())
    between = max(0.0, (squares - float(np.trace(covariance)) + of_errors) / (k - 1))
    return Pooled(mean, math.sqrt((of_errors + between) / k), k - 1, math.sqrt(between))


def resampled_means(pairs: Mapping[Cell, Pair]) -> Floats:
    """Return resampled mean differences `(RESAMPLES, n_cells)`.

    A topic is drawn for all cells of its source, with all its lists, at every ratio and in every reading of its labels.
    So are clusters of trainings, for all boundings and losses of a column: drawings if there are five or more, or else
    folds (of a drawing), or the seeds of a single fold. What seeds of a fold share, as a learning rate that one of them
    selects, is drawn with them. With $K$ clusters, their numbers of draws are spread by $\\sqrt{K / (K - 1)}$, as a
    bootstrap's variance is too small by this factor. Drawing topics and trainings is conservative: the variance of a
    topic within one training counts up to three times (Owen 2007, "The pigeonhole bootstrap").
    """
    random = np.random.default_rng(0)
    units: dict[str, set[str]] = {}
    for cell, one in pairs.items():
        units.setdefault(cell.column.source, set()).update(one.units)
    places = {source: {name: place for place, name in enumerate(sorted(units[source]))} for source in sorted(units)}
    drawn = {source: draws(random, len(of_source), RESAMPLES) for source, of_source in places.items()}
    of_trainings: dict[object, Floats] = {}
    means = []
    for cell, one in pairs.items():
        differences = one.a - one.b
        trained = any_over(np.isfinite(differences), 0)
        key = (cell.column, trained.tobytes())
        if key not in of_trainings:
            of_trainings[key] = _drawn_trainings(random, trained, one.drawings)
        topics = drawn[cell.column.source][:, [places[cell.column.source][name] for name in one.units]]
        lists = any_over(np.isfinite(differences), 2)
        weighted = np.nan_to_num(differences) / np.maximum(lists.sum(1), 1)[:, None, None]
        sums = topics @ weighted.reshape(len(weighted), -1)
        weights = of_trainings[key].reshape(RESAMPLES, -1)
        means.append((sums * weights).sum(1) / np.maximum(topics.sum(1), 1))
    return np.stack(means, 1) if means else np.empty((RESAMPLES, 0))


FEWEST_DRAWINGS = 5  # fewer drawings are no sample of drawings: their folds are drawn instead


def _drawn_trainings(random: np.random.Generator, trained: np.ndarray, drawings: Integers | None) -> Floats:
    """Return the weight of each training in the mean of its fold, times its fold's, `(RESAMPLES, n_folds, n_seeds)`."""
    cluster = np.arange(trained.size).reshape(trained.shape)
    if trained.any(1).sum() > 1:
        cluster = np.broadcast_to(np.arange(len(trained))[:, None], trained.shape)
        if drawings is not None and len(np.unique(drawings[trained.any(1)])) >= FEWEST_DRAWINGS:
            cluster = np.broadcast_to(drawings[:, None], trained.shape)
    _, member = np.unique(cluster[trained], return_inverse=True)
    count = int(member.max()) + 1
    spread = math.sqrt(count / (count - 1)) if count > 1 else 0.0
    weights = 1 + spread * (draws(random, count, RESAMPLES) - 1)
    found = np.zeros((RESAMPLES, *trained.shape))
    found[:, trained] = weights[:, member] / np.broadcast_to(trained.sum(1)[:, None], trained.shape)[trained]
    return found


NAME, MEANS = "table_effects", "table_effects_means"

CELL_COLUMNS = schema(
    "text: dataset; int8: nsr; text: loss bounding metric; float: effect low high margin p_holm; "
    "flag: alike; int: n_topics"
)
MEAN_COLUMNS = schema("text: bounds loss; int: n; float: mean low high between new_low new_high")


def cells_and_means(evidence: Evidence) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the effects of all cells whose bounded and unbounded losses ran and trained, and means of these effects.

    They are bounded minus unbounded; p-values have Holm's correction over all cells. The means are those of every kind
    of bounds and every loss (and of all losses, `EVERY`) with two or more cells.
    """
    pairs: dict[Cell, Pair] = {}
    for loss, column, bounding in product(LOSSES, evidence.data_sets, BOUNDED):
        if is_distinct(loss, bounding):
            cell = Cell(loss, bounding, column, judge(loss))
            with suppress(MissingEvidence):
                pairs[cell] = evidence.pair(cell)
    effects = {cell: Contrast.of(one) for cell, one in pairs.items()}
    p_values = adjusted({cell: one.p_value() for cell, one in effects.items()})
    rows = [
        (*column, loss, bounding, metric, *one.measured, one.margin, p_values[cell], one.p_within() <= LEVEL, one.n)
        for cell, one in effects.items()
        for loss, bounding, column, metric in (cell,)
    ]
    means = []
    covariance = np.cov(resampled_means(pairs), rowvar=False)
    names, first, second = {cell.column.dataset for cell in effects}, "-label1", "-label2"
    # Of two readings of the same queries, the second does not count.
    again = {name for name in names if name.endswith(second) and name.removesuffix(second) + first in names}
    for kind, loss in product(KINDS, (EVERY, *LOSSES)):
        chosen = [
            place
            for place, (of, bounding, column, _) in enumerate(effects)
            if bounding in KINDS[kind] and loss in (EVERY, of) and column.dataset not in again
        ]
        if len(chosen) > 1:
            values = np.array([one.mean for one in effects.values()])[chosen]
            mean = pooled(values, covariance[np.ix_(chosen, chosen)])
            of_new_cell = mean.of_new_cell or (None, None)
            means.append((kind, loss, len(chosen), mean.mean, *mean.interval(), mean.between, *of_new_cell))
    cells = pl.DataFrame(rows, schema=CELL_COLUMNS, orient="row").with_columns(pl.col("margin").fill_nan(None))
    return cells, pl.DataFrame(means, schema=MEAN_COLUMNS, orient="row")


SAME_LOSS, OTHER_SEEDS = "one loss, up to a factor", "one loss, other seeds"
"""What two replicas are: bounds that weigh lists alike up to a factor, which Adam cancels, and halves of the seeds."""

REPLICA_COLUMNS = schema(
    "text: replicas dataset; int8: nsr; text: loss a b metric; float: difference low high topics_low topics_high; "
    "int: n_topics"
)
"""Columns of the test of the intervals against themselves (A/A): the true difference is 0. `topics_low` and
`topics_high` are the interval over topics alone."""


def replicas_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row per pair of replicas of a training: 95 % of their intervals should contain 0.

    Replicas that came out the same to the last digit are one training, and counted once.
    """
    rows = []
    for column, loss in product(evidence.data_sets, LOSSES):
        known: list[tuple[str, str, str, Pair]] = []
        for one, other in combinations([name for name in AFFINE if repeats(loss, name)], 2):
            with suppress(MissingEvidence):
                known.append((SAME_LOSS, one, other, evidence.pair(Cell(loss, one, column, judge(loss)), other)))
        same = {other for *_, other, both in known if np.array_equal(both.a, both.b, equal_nan=True)}
        known = [row for row in known if row[2] not in same]
        for bounding in [name for name in (UNBOUNDED, *BOUNDED) if name not in same]:
            with suppress(MissingEvidence):
                found = evidence.scores(judge(loss), loss, column)
                halves = of_halves(found.pair(bounding, bounding)) if bounding in found.systems else None
                if halves is not None:
                    known.append((OTHER_SEEDS, bounding, bounding, halves))
        for replicas, one, other, both in known:
            contrasted, topics = Contrast.of(both), over_units(both.differences).interval()
            names = (replicas, *column, loss, one, other, judge(loss))
            rows.append((*names, *contrasted.measured, *topics, contrasted.n))
    return pl.DataFrame(rows, schema=REPLICA_COLUMNS, orient="row")


def of_halves(of: Pair) -> Pair | None:
    """Return the scores of one system under every other seed of a fold, beside those under the seeds between them.

    None without a fold that has two seeds, or with fewer than two topics.
    """
    trained = any_over(np.isfinite(of.a), 0)
    # Seeds of a fold in their order, then its other seeds, so that pairs of neighbours are replicas.
    order = np.argsort(~trained, axis=1, kind="stable")
    values = np.take_along_axis(of.a, order[None], axis=2)
    count = values.shape[2] // 2 * 2
    a, b = values[:, :, 0:count:2], values[:, :, 1:count:2]
    both = np.isfinite(a) & np.isfinite(b)
    kept = any_over(both, (1, 2))
    if kept.sum() < 2:
        return None
    return kept_units(replace(of, a=np.where(both, a, np.nan), b=np.where(both, b, np.nan)), kept)


_REGIME = ("study", "dataset", "nsr_test", "options")
_SYSTEM = ("loss", "bounding")

PLANTED = ("spread", "correlation", "rank")
REGIME_COLUMNS = schema(
    "text: dataset; int8: nsr; float: spread correlation; int: rank factors; float: log_sd; text: "
    "loss bounding metric; float: influence_cv pairs unbounded effect low high effect_short "
    "effect_long; int: n_topics n_trainings n_untrained"
)
"""Columns of the table: planted parameters (null for real data), facts about the lists, and effects.

`log_sd` is the standard deviation of log P, `pairs` the mean of `P(N - P)`. Effects are bounded minus unbounded, with a
95 % interval; `effect_short` and `effect_long` are those of the topics with fewer relevant items than the median, and
of all others (null if all have equally many). `n_untrained` counts the trainings, bounded or unbounded, that did not
train.
"""


def regimes(files: StudyFiles, study: str, planted: Mapping[str, Mapping[str, float]]) -> pl.DataFrame:
    """Return a row per regime, loss and bounding; `planted` are the parameters of generated data sets, by name."""
    tables = [(files.runs, files.epochs), (files.experiments, files.experiment_epochs)]
    own = (pl.col("study") == study) | pl.col("study").str.starts_with(f"{study}{VARIANT}")
    honest = (pl.col("protocol") == HONEST) & (pl.col("selection") == SELECTIONS[HONEST])
    chosen = own & honest & pl.col("loss").is_in(LOSSES)
    read = [scan_runs(runs).filter(chosen) for runs, _ in tables if runs is not None]
    rows = pl.concat([one.select("study", "options", *KEY, *JUDGED_BY.values()).collect() for one in read])
    counts = untrained_counts(read_trainings(*tables), _REGIME + _SYSTEM)
    untrained = dict(zip(counts.select(_REGIME + _SYSTEM).rows(), counts["n_untrained"].to_list(), strict=True))
    parts = rows.partition_by(_REGIME, maintain_order=True)
    found = [row for part in parts for row in _regime(part, planted, untrained)]
    table = pl.DataFrame(found, schema=REGIME_COLUMNS, orient="row")
    losses = {name: place for place, name in enumerate(LOSSES)}
    return table.sort(
        pl.col("rank").is_null(),
        pl.col("factors") < pl.col("rank"),
        "correlation",
        "spread",
        "dataset",
        pl.col("loss").replace_strict(losses, return_dtype=pl.Int64),
        maintain_order=True,
    )


def _regime(
    rows: pl.DataFrame, planted: Mapping[str, Mapping[str, float]], untrained: Mapping[tuple[object, ...], int]
) -> Iterator[tuple[object, ...]]:
    regime = rows.select(_REGIME).row(0)
    _, dataset, nsr, options = regime
    lists = rows.unique(["topic", "fold"]).filter(pl.col("p") > 0, pl.col("p") < pl.col("n")).sort("topic", "fold")
    n, p = (lists[name].to_numpy().astype(np.int64) for name in ("n", "p"))
    parameters = planted.get(SampledName.of(dataset).source, {})
    facts = (*map(parameters.get, PLANTED), json.loads(options).get("factors"), float(np.log(p).std()))
    # Every bounding of every loss, paired with the unbounded loss.
    pairs = {}
    for (loss,), own in sorted(rows.partition_by("loss", as_dict=True).items()):
        found = scores_of_runs(own, judge(str(loss)), by=("bounding",))
        for bounding in found.systems if UNBOUNDED in found.systems else ():
            if bounding != UNBOUNDED:
                cell = Cell(str(loss), bounding, DataSet(dataset, nsr), judge(str(loss)))
                pairs[cell] = found.pair(bounding, UNBOUNDED)
    if not pairs:
        return
    resampled, sizes = resampled_means(pairs), dict(lists.group_by("topic").agg(pl.col("p").mean()).rows())
    for (cell, both), means in zip(pairs.items(), resampled.T, strict=True):
        influence = rb.maximum(cell.loss, n, p) - rb.minimum(cell.loss, n, p)
        relevant = np.array([sizes.get(unit, np.nan) for unit in both.units])
        short = relevant < np.nanmedian(relevant)
        halves = [float(mean_of_known(both.differences[kept])) if short.any() else None for kept in (short, ~short)]
        not_trained = [untrained.get((*regime, cell.loss, bounding), 0) for bounding in (cell.bounding, UNBOUNDED)]
        of_lists = float(influence.std() / influence.mean()), float((p * (n - p)).mean())
        measured = float(mean_of_known(per_unit(both.b))), float(mean_of_known(both.differences)), *percentiles(means)
        counts = len(both.units), int(np.isfinite(both.a).any(0).sum()), sum(not_trained)
        names = cell.loss, cell.bounding, cell.metric
        yield (dataset, nsr, *facts, *names, *of_lists, *measured, *halves, *counts)
