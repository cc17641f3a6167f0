"""Variants of the distribution bound against no bound, and against the best affine one: which of them helps, if any.

Variants are the study's own distribution bounding, in the thesis' gain, and those with parameters of the experiments
`gains` and `tilts`, over the folds and seeds that both trainings have.
"""

from collections.abc import Iterator

import polars as pl

from rankbound_study.claims.cells import judge
from rankbound_study.claims.certainty import adjusted_p_values
from rankbound_study.claims.crossed_metrics import DIFFERENCE, compared
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.validation import best_of, validation_scores
from rankbound_study.vocabulary import AFFINE, JUDGED_BY, LOSSES, UNBOUNDED

EXPERIMENTS = ("gains", "tilts")
USUAL = "distribution"
_WITH_PARAMETERS = f"{USUAL}("

AFFINE_PREFIX = "affine_"
"""Prefix of the columns on the difference from the best affine bounding, by the validation part."""

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding", "affine"), pl.String()),
    "trained": pl.Boolean(),
    **DIFFERENCE,
    **{f"{AFFINE_PREFIX}{name}": kind for name, kind in DIFFERENCE.items() if name != "score"},
}
"""Columns of the table; differences are from the unbounded loss, null for variants that did not train."""


def distribution_variants(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, loss and variant; none without the experiments."""
    rows = [row for column in evidence.data_sets for row in _of_data_set(evidence, column)]
    table = pl.DataFrame(rows, schema=COLUMNS)
    affine = table.select(pl.col(f"{AFFINE_PREFIX}p_value").alias("p_value"))
    return table.with_columns(adjusted_p_values(table), adjusted_p_values(affine).alias(f"{AFFINE_PREFIX}p_holm"))


def _of_data_set(evidence: Evidence, column: DataSet) -> Iterator[dict[str, object]]:
    every = _variants(evidence.of_all_trainings(), column)
    if every.is_empty():
        return
    rows = pl.concat([_own(evidence, column), _variants(evidence, column)])
    ran = pl.concat([_own(evidence.of_all_trainings(), column), every]).select("loss", "bounding").unique()
    for loss in [loss for loss in LOSSES if loss in ran["loss"]]:
        scores = scores_of_runs(rows.filter(pl.col("loss") == loss), judge(loss), by=("bounding",))
        affine = _best_affine(evidence, column, loss, [name for name in AFFINE if name in scores.systems])
        for bounding in ran.filter(pl.col("loss") == loss)["bounding"].sort():
            if bounding != USUAL and not bounding.startswith(_WITH_PARAMETERS):
                continue
            trained = bounding in scores.systems
            row = {"dataset": column.dataset, "nsr": column.nsr, "loss": loss, "bounding": bounding}
            row |= {"affine": affine, "trained": trained}
            if trained:
                row |= compared(scores, bounding, UNBOUNDED)
                beside = compared(scores, bounding, affine or "")
                row |= {f"{AFFINE_PREFIX}{name}": value for name, value in beside.items() if name != "score"}
            yield row


def _own(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    rows = evidence.cell(column.dataset, column.nsr).filter(pl.col("loss").is_in(LOSSES))
    return rows.select(*KEY, *JUDGED_BY.values()).collect()


def _variants(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs with parameters of the bound; no rows if the experiments did not run on these data."""
    found = [_own(evidence, column).clear()]
    for experiment in EXPERIMENTS if evidence.experiments is not None else ():
        for rows in evidence.variants(experiment, column.dataset, column.nsr).values():
            parameters = pl.col("bounding").str.starts_with(_WITH_PARAMETERS), pl.col("selection") == "validation"
            found.append(rows.filter(*parameters).select(*KEY, *JUDGED_BY.values()).collect())
    return pl.concat(found)


def _best_affine(evidence: Evidence, column: DataSet, loss: str, names: list[str]) -> str | None:
    if evidence.epochs is None:
        return None
    epochs = evidence.epochs_of(column.dataset, column.nsr).filter(pl.col("loss") == loss)
    return best_of(names, validation_scores(epochs, judge(loss), "bounding"))
