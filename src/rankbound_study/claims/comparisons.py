"""Tables of losses beside a reference: other metrics, other ratios, popularity, variants of the distribution bound.

- The metric trained and the metric judged: every loss on every metric, against the loss that is trained for it. Losses
  are compared as they are, and each with its best bounding, which the validation part picks by the metric that judges
  the loss. No loss is trained for RR and P@k: there, all are compared with that of nDCG.
- The ratio of negatives trained and the ratio tested: every training on the test lists of every ratio. Test negatives
  that a training at another ratio has seen are removed from its lists, so that differences are over the lists that lost
  none. The experiment is `ratios`, whose variants test at other ratios (`test_nsr`).
- Popularity against trained models. The answer depends on the test lists: uniform negatives are mostly items that few
  users rated, which a count tells apart from relevant ones at once. Draws by popularity take that advantage away; whole
  catalogues do not draw.
- Variants of the distribution bound against no bound, and against the best affine one. Variants are the study's own, in
  the thesis' gain, and those with parameters of the experiments `gains` and `tilts`, over the folds and seeds that both
  trainings have.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
import polars as pl

from rankbound.compare import PairedScores
from rankbound.compare.scores import mean_of_known, per_unit
from rankbound_study.claims.cells import adjusted_p_values, contrast, judge
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.varied import Training, best_bounding, on_the_same_lists, trainings
from rankbound_study.claims.verdict import MissingEvidence, Untrained
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.scores import place, scores_of_runs
from rankbound_study.results.study_files import schema
from rankbound_study.vocabulary import AFFINE, BOUNDINGS, JUDGED_BY, LOSSES, POPULARITY, UNBOUNDED

JUDGED = ("nDCG", "nDCG@10", "AP", JUDGED_BY["nRBP"], "RR", "P@5", "P@10")
"""The metrics that judge, in the order of the table's columns."""

TRAINED_FOR = {**{metric: loss for loss, metric in JUDGED_BY.items()}, "nDCG@10": "nDCG"}
"""Metric -> the loss that is trained for it."""

COMMON = "nDCG"
"""The loss that others are compared with on metrics without a loss of their own."""

DIFFERENCE = schema("float: score difference low high p_value p_holm; int: n_topics")
"""A mean score, and its difference from that of a reference: null for the reference itself, or without one. Intervals
are of 95 % over topics and trainings; `p_holm` is corrected over all differences of the table."""

Value = TypeVar("Value")


def _second(prefix: str, values: Mapping[str, Value]) -> dict[str, Value]:
    """Name what belongs to a second difference of a row, which has one score alone."""
    return {f"{prefix}{name}": value for name, value in values.items() if name != "score"}


METRIC_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; flag: bounded; text: loss bounding metric reference"),
    **DIFFERENCE,
}
"""Columns of the table; `reference` is the loss with which others are compared, bounded if they are."""


def metrics_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss (unbounded, then bounded) and judging metric."""
    found: list[dict[str, object]] = []
    for column in evidence.data_sets:
        rows = _of_losses(evidence.cell(column.dataset, column.nsr), metrics=JUDGED)
        losses = [loss for loss in LOSSES if loss in rows["loss"]]
        bounded = rows.filter(pl.col("bounding") != UNBOUNDED)
        picked = {loss: best_bounding(evidence, column, loss, bounded.filter(loss=loss)["bounding"]) for loss in losses}
        for is_bounded, boundings in ((False, dict.fromkeys(losses, UNBOUNDED)), (True, picked)):
            of_loss = pl.col("loss").replace_strict(boundings, default=None, return_dtype=pl.String)
            own = rows.filter(pl.col("bounding") == of_loss)
            for metric in JUDGED:
                scores, reference = scores_of_runs(own, metric, by=("loss",)), TRAINED_FOR.get(metric, COMMON)
                where = {**column._asdict(), "bounded": is_bounded, "metric": metric, "reference": reference}
                for loss in [loss for loss in losses if loss in scores.systems]:
                    row = {**where, "loss": loss, "bounding": boundings[loss], **compared(scores, loss, reference)}
                    found.append(row)
    return _table(found, METRIC_COLUMNS)


def _table(rows: Iterable[Mapping[str, object]], columns: Mapping[str, pl.DataType], second: str = "") -> pl.DataFrame:
    """Return the rows with p-values corrected over all differences; those with a prefix are a second family."""
    table = pl.DataFrame(list(rows), schema=columns)
    for prefix in dict.fromkeys(("", second)):
        family = table.select(pl.col(f"{prefix}p_value").alias("p_value"))
        table = table.with_columns(adjusted_p_values(family).alias(f"{prefix}p_holm"))
    return table


def compared(scores: PairedScores, system: str, reference: str) -> dict[str, object]:
    """Return a system's mean score and its difference from a reference, without `p_holm`."""
    own = per_unit(scores.values[list(scores.systems).index(system)])
    row: dict[str, object] = {"score": float(mean_of_known(own)), "n_topics": int(np.isfinite(own).sum())}
    if reference in (system, "") or reference not in scores.systems:
        return row
    pair = scores.pair(system, reference)
    if len(pair.units) < 2:
        return row
    found = contrast(pair)
    low, high = found.interval
    return row | {"difference": found.mean, "low": low, "high": high, "p_value": found.estimate.p_value()}


def _of_losses(rows: pl.LazyFrame, *more: str, metrics: Iterable[str] = JUDGED_BY.values()) -> pl.DataFrame:
    return rows.filter(pl.col("loss").is_in(LOSSES)).select(*more, *KEY, *metrics).collect()


RATIOS_EXPERIMENT = "ratios"

EFFECT = "effect_"
"""Prefix of the columns on bounded minus unbounded, both trained at one ratio."""

RATIO_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr_test nsr_train; text: loss bounding"),
    **DIFFERENCE,
    **_second(EFFECT, DIFFERENCE),
}
"""Columns of the table. Differences are from the same loss and bounding, trained at the ratio of the test."""


def ratios_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per tested ratio, loss, bounding and trained ratio; none if the experiment did not run.

    Rows of trainings that did not train have no numbers.
    """
    table: list[dict[str, object]] = []
    places = {name: number for number, name in enumerate((*LOSSES, *BOUNDINGS))}
    for column in [column for column in evidence.data_sets if column.nsr]:
        rows, every = _rows_at(evidence, column), _rows_at(evidence.of_all_trainings(), column)
        for training in sorted(trainings(every), key=lambda names: [places.get(name, len(places)) for name in names]):
            loss, bounding = training
            for trained_at in every.filter(loss=loss, bounding=bounding)["nsr_train"].unique().sort():
                where = {"dataset": column.dataset, "nsr_test": column.nsr, "nsr_train": trained_at}
                found = _at_ratio(rows, training, trained_at)
                if found:
                    own = rows.filter(loss=loss, nsr_train=trained_at)
                    scores = scores_of_runs(own, judge(loss), by=("bounding",))
                    found |= _second(EFFECT, compared(scores, bounding, UNBOUNDED))
                table.append({**where, "loss": loss, "bounding": bounding, **found})
    return _table(table, RATIO_COLUMNS, EFFECT)


def _rows_at(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs on the test lists of a ratio: the study's own, and those trained at any ratio."""
    read = [_of_losses(evidence.cell(column.dataset, column.nsr), "nsr_train")]
    try:
        varied = evidence.varied(RATIOS_EXPERIMENT, column.dataset, column.nsr)
        read += [_of_losses(rows, "nsr_train") for rows in varied.values()]
    except Untrained:
        pass
    except MissingEvidence:
        return read[0].clear()
    # An experiment may also repeat the study's own training, tested at its own ratio.
    key = ["nsr_train", "loss", "bounding", "fold", "seed", "topic"]
    return pl.concat(read).unique(key, keep="first", maintain_order=True)


def _at_ratio(rows: pl.DataFrame, training: Training, trained_at: int) -> dict[str, object]:
    """Return the mean score, and its difference from training at the tested ratio; nothing if it did not train."""
    loss, bounding = training
    own = rows.filter(loss=loss, bounding=bounding)
    other, usual = (own.filter(pl.col("nsr_train") == at) for at in (trained_at, pl.col("nsr_test")))
    if other.is_empty():
        return {}
    try:
        both = other if other.equals(usual) else pl.concat(on_the_same_lists(other, usual))
    except MissingEvidence:
        both = other
    scores = scores_of_runs(both, judge(loss), by=("nsr_train",))
    return compared(scores, str(trained_at), str(rows["nsr_test"][0]))


POPULARITY_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: metric model loss bounding; flag: picked"),
    **DIFFERENCE,
}
"""Columns of the table: differences from popularity; `picked` is the best bounding of its loss by validation."""

COUNT = f"{POPULARITY} / none / none"
"""The system of popularity among the scores."""


def against_popularity(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, metric and model: popularity, the other controls, every loss and bounding."""

    def place_of(system: str) -> tuple[bool, bool, int, str]:
        _, loss, bounding = system.split(" / ")
        return loss != "none", system != COUNT, place(bounding, BOUNDINGS)[0], system

    found: list[dict[str, object]] = []
    for column in rated_data_sets(evidence):
        for loss, (scores, picked) in beside_popularity(evidence, column).items():
            for system in sorted(scores.systems, key=place_of):
                names = dict(zip(("model", "loss", "bounding"), system.split(" / "), strict=True))
                where = {**column._asdict(), "metric": judge(loss), **names, "picked": picked == system}
                found.append({**where, **compared(scores, system, COUNT)})
    return _table(found, POPULARITY_COLUMNS)


def rated_data_sets(evidence: Evidence) -> list[DataSet]:
    """Return the data sets whose negatives are sampled from ratings."""
    return [column for column in evidence.data_sets if column.sampled]


def beside_popularity(evidence: Evidence, column: DataSet) -> Mapping[str, tuple[PairedScores, str | None]]:
    """Return, by loss, the scores of controls and all boundings, and the system that the validation part prefers.

    Nothing without popularity, and no system without validation scores.
    """
    rows = evidence.cell(column.dataset, column.nsr).select(*KEY, *JUDGED_BY.values()).collect()
    found = {}
    for loss in LOSSES if POPULARITY in rows["model"] else ():
        if loss in rows["loss"]:
            scores = scores_of_runs(rows.filter(pl.col("loss").is_in([loss, "none"])), judge(loss))
            systems = {name.split(" / ")[2]: name for name in scores.systems if name.split(" / ")[1] == loss}
            best = best_bounding(evidence, column, loss, systems)
            found[loss] = scores, None if best is None else systems[best]
    return found


VARIANT_EXPERIMENTS = ("gains", "tilts")
DISTRIBUTION = "distribution"
_WITH_PARAMETERS = f"{DISTRIBUTION}("

AFFINE_PREFIX = "affine_"
"""Prefix of the columns on the difference from the best affine bounding, by the validation part."""

VARIANT_COLUMNS: dict[str, pl.DataType] = {
    **schema("text: dataset; int8: nsr; text: loss bounding affine; flag: trained"),
    **DIFFERENCE,
    **_second(AFFINE_PREFIX, DIFFERENCE),
}
"""Columns of the table; differences are from the unbounded loss, null for variants that did not train."""


def distribution_variants(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss and variant; none without the experiments."""
    found: list[dict[str, object]] = []
    for column in evidence.data_sets:
        every = _variants(evidence.of_all_trainings(), column)
        if every.is_empty():
            continue
        both = (evidence, evidence.of_all_trainings())
        rows, of_all = (_of_losses(one.cell(column.dataset, column.nsr)) for one in both)
        rows, ran = pl.concat([rows, _variants(evidence, column)]), pl.concat([of_all, every])
        for loss in [loss for loss in LOSSES if loss in ran["loss"]]:
            scores = scores_of_runs(rows.filter(loss=loss), judge(loss), by=("bounding",))
            ran_affine = [name for name in AFFINE if name in scores.systems]
            affine = None if evidence.epochs is None else best_bounding(evidence, column, loss, ran_affine)
            for bounding in ran.filter(loss=loss)["bounding"].unique().sort():
                if bounding != DISTRIBUTION and not bounding.startswith(_WITH_PARAMETERS):
                    continue
                trained = bounding in scores.systems
                row = {**column._asdict(), "loss": loss, "bounding": bounding, "affine": affine, "trained": trained}
                if trained:
                    row |= compared(scores, bounding, UNBOUNDED)
                    row |= _second(AFFINE_PREFIX, compared(scores, bounding, affine or ""))
                found.append(row)
    return _table(found, VARIANT_COLUMNS, AFFINE_PREFIX)


def _variants(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs with parameters of the bound; no rows if the experiments did not run on these data."""
    experiments = VARIANT_EXPERIMENTS if evidence.experiments is not None else ()
    with_parameters = pl.col("bounding").str.starts_with(_WITH_PARAMETERS), pl.col("selection") == "validation"
    found = [
        _of_losses(rows.filter(*with_parameters))
        for experiment in experiments
        for rows in evidence.variants(experiment, column.dataset, column.nsr).values()
    ]
    return pl.concat(found) if found else _of_losses(evidence.cell(column.dataset, column.nsr)).clear()
