"""Popularity against trained models: does the count of training ratings rank better than all that was learned?

The answer depends on the test lists: uniform negatives are mostly items that few users rated, which a count tells
apart from relevant ones at once. Draws by popularity take that advantage away; whole catalogues do not draw.
"""

from collections.abc import Iterator, Mapping

import polars as pl

from rankbound.compare import PairedScores
from rankbound_study.claims.cells import judge
from rankbound_study.claims.certainty import adjusted_p_values
from rankbound_study.claims.crossed_metrics import DIFFERENCE, compared
from rankbound_study.claims.evidence import KEY, Evidence
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.paired_scores import scores_of_runs
from rankbound_study.results.validation import best_of, validation_scores
from rankbound_study.vocabulary import BOUNDINGS, JUDGED_BY, LOSSES, POPULARITY

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("metric", "model", "loss", "bounding"), pl.String()),
    "picked": pl.Boolean(),
    **DIFFERENCE,
}
"""Columns of the table: differences from popularity; `picked` is the best bounding of its loss by validation."""

COUNT = f"{POPULARITY} / none / none"
"""The system of popularity among the scores."""


def against_popularity(evidence: Evidence) -> pl.DataFrame:
    """Return a row per data set, metric and model: popularity, the other controls, every loss and bounding."""
    rows = [row for column in rated_data_sets(evidence) for row in _of_data_set(evidence, column)]
    table = pl.DataFrame(rows, schema=COLUMNS)
    return table.with_columns(adjusted_p_values(table))


def rated_data_sets(evidence: Evidence) -> list[DataSet]:
    """Return the data sets whose negatives are sampled from ratings."""
    return [column for column in evidence.data_sets if column.sampled]


def _of_data_set(evidence: Evidence, column: DataSet) -> Iterator[dict[str, object]]:
    picked = {loss: system for loss, (_, system) in picked_systems(evidence, column).items()}
    for loss, scores in _scores(evidence, column).items():
        for system in sorted(scores.systems, key=_place):
            names = dict(zip(("model", "loss", "bounding"), system.split(" / "), strict=True))
            where = {"dataset": column.dataset, "nsr": column.nsr, "metric": judge(loss), **names}
            yield {**where, "picked": picked.get(loss) == system, **compared(scores, system, COUNT)}


def _scores(evidence: Evidence, column: DataSet) -> dict[str, PairedScores]:
    """Return, by loss, the scores of popularity, the other controls, and all boundings; none without popularity."""
    rows = evidence.cell(column.dataset, column.nsr).select(*KEY, *JUDGED_BY.values()).collect()
    if POPULARITY not in rows["model"]:
        return {}
    return {
        loss: scores_of_runs(rows.filter(pl.col("loss").is_in([loss, "none"])), judge(loss))
        for loss in LOSSES
        if loss in rows["loss"]
    }


def picked_systems(evidence: Evidence, column: DataSet) -> Mapping[str, tuple[PairedScores, str]]:
    """Return, by loss, the scores and the system whose bounding scores highest on the validation part."""
    found = {}
    for loss, scores in _scores(evidence, column).items():
        epochs = evidence.epochs_of(column.dataset, column.nsr).filter(pl.col("loss") == loss)
        systems = {name.split(" / ")[2]: name for name in scores.systems if name.split(" / ")[1] == loss}
        best = best_of(list(systems), validation_scores(epochs, judge(loss), "bounding"))
        if best is not None:
            found[loss] = scores, systems[best]
    return found


def _place(system: str) -> tuple[bool, bool, int, str]:
    """Sort popularity first, then the other controls, then boundings in their order."""
    _, loss, bounding = system.split(" / ")
    place = BOUNDINGS.index(bounding) if bounding in BOUNDINGS else len(BOUNDINGS)
    return loss != "none", system != COUNT, place, system
