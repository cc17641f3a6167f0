"""The ratio of negatives trained and the ratio tested: every training on the test lists of every ratio.

Test negatives that a training at another ratio has seen are removed from its lists, so that differences are over the
lists that lost none. The experiment is `ratios`, whose variants test at other ratios (`test_nsr`).
"""

from collections.abc import Iterator

import polars as pl

from rankbound_study.claims.cells import judge
from rankbound_study.claims.certainty import adjusted_p_values
from rankbound_study.claims.crossed_metrics import DIFFERENCE, compared
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.claims.varied import Training, on_the_same_lists, trainings
from rankbound_study.claims.verdict import MissingEvidence, Untrained
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.vocabulary import BOUNDINGS, JUDGED_BY, LOSSES, UNBOUNDED

EXPERIMENT = "ratios"

EFFECT = "effect_"
"""Prefix of the columns on bounded minus unbounded, both trained at one ratio."""

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    **dict.fromkeys(("nsr_test", "nsr_train"), pl.Int8()),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **DIFFERENCE,
    **{f"{EFFECT}{name}": kind for name, kind in DIFFERENCE.items() if name != "score"},
}
"""Columns of the table. Differences are from the same loss and bounding, trained at the ratio of the test."""

_READ = ("nsr_train", *KEY, *JUDGED_BY.values())
_PLACES = {name: place for place, name in enumerate((*LOSSES, *BOUNDINGS))}


def ratios_crossed(evidence: Evidence) -> pl.DataFrame:
    """Return a row per tested ratio, loss, bounding and trained ratio; none if the experiment did not run.

    Rows of trainings that did not train have no numbers.
    """
    columns = [column for column in evidence.data_sets if column.nsr]
    table = pl.DataFrame([row for column in columns for row in _tested_at(evidence, column)], schema=COLUMNS)
    effects = table.select(pl.col(f"{EFFECT}p_value").alias("p_value"))
    return table.with_columns(adjusted_p_values(table), adjusted_p_values(effects).alias(f"{EFFECT}p_holm"))


def _tested_at(evidence: Evidence, column: DataSet) -> Iterator[dict[str, object]]:
    rows, every = _rows(evidence, column), _rows(evidence.of_all_trainings(), column)
    for training in sorted(trainings(every), key=lambda names: [_PLACES.get(name, len(_PLACES)) for name in names]):
        loss, bounding = training
        for trained_at in every.filter(loss=loss, bounding=bounding)["nsr_train"].unique().sort():
            where = {"dataset": column.dataset, "nsr_test": column.nsr, "nsr_train": trained_at}
            found = _scores(rows, training, trained_at)
            effect = _effect(rows, training, trained_at) if found else {}
            yield {**where, "loss": loss, "bounding": bounding, **found, **effect}


def _rows(evidence: Evidence, column: DataSet) -> pl.DataFrame:
    """Return the runs on the test lists of a ratio: the study's own, and those trained at any ratio."""
    parts = [evidence.cell(column.dataset, column.nsr)]
    try:
        parts += evidence.varied(EXPERIMENT, column.dataset, column.nsr).values()
    except Untrained:
        pass
    except MissingEvidence:
        return parts[0].select(_READ).head(0).collect()
    read = [part.filter(pl.col("loss").is_in(LOSSES)).select(_READ).collect() for part in parts]
    # An experiment may also repeat the study's own training, tested at its own ratio.
    key = ["nsr_train", "loss", "bounding", "fold", "seed", "topic"]
    return pl.concat(read).unique(key, keep="first", maintain_order=True)


def _scores(rows: pl.DataFrame, training: Training, trained_at: int) -> dict[str, object]:
    """Return the mean score, and its difference from training at the tested ratio; nothing if it did not train."""
    loss, bounding = training
    own = rows.filter(pl.col("loss") == loss, pl.col("bounding") == bounding)
    other, usual = (own.filter(at) for at in (pl.col("nsr_train") == trained_at, _AT_OWN))
    if other.is_empty():
        return {}
    try:
        both = other if other.equals(usual) else pl.concat(on_the_same_lists(other, usual))
    except MissingEvidence:
        both = other
    scores = scores_of_runs(both, judge(loss), by=("nsr_train",))
    return compared(scores, str(trained_at), str(rows["nsr_test"][0]))


_AT_OWN = pl.col("nsr_train") == pl.col("nsr_test")


def _effect(rows: pl.DataFrame, training: Training, trained_at: int) -> dict[str, object]:
    loss, bounding = training
    own = rows.filter(pl.col("loss") == loss, pl.col("nsr_train") == trained_at)
    found = compared(scores_of_runs(own, judge(loss), by=("bounding",)), bounding, UNBOUNDED)
    return {f"{EFFECT}{name}": value for name, value in found.items() if name != "score"}
