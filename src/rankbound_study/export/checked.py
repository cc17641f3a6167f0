"""Check exported lists against the study's table: the same numbers must result."""

from dataclasses import dataclass

import polars as pl
import torch

from rankbound.errors import DataError
from rankbound.io.judged import Qrels, Run
from rankbound.metrics import evaluate, metric
from rankbound_study.data.contracts import read_table
from rankbound_study.export.kept import Kept

METRICS = ("nDCG", "AP", "RR")
TOLERANCE = 1e-9


@dataclass(frozen=True)
class StudyAgreement:
    """The number of lists, the number that score differently than in the study, and the largest difference."""

    lists: int = 0
    differing: int = 0
    most: float = 0.0

    def __add__(self, other: "StudyAgreement") -> "StudyAgreement":
        return StudyAgreement(self.lists + other.lists, self.differing + other.differing, max(self.most, other.most))


def studied(kept: Kept) -> pl.DataFrame:
    """Return the study's results of a training: a row per fold and topic, with sizes and metrics."""
    frame = pl.from_arrow(read_table(kept.runs_file, "runs"))
    assert isinstance(frame, pl.DataFrame)
    metrics = [name for name in METRICS if name in frame.columns]
    return kept.rows(frame).select("fold", "topic", "n", "p", *metrics)


def agreement(run: Run, qrels: Qrels, rows: pl.DataFrame, kept: Kept) -> StudyAgreement:
    """Compare the run with `rows`, the study's results for the same lists in the same order (`studied`).

    Raises:
        DataError: the lists have other numbers of items, or of relevant ones, than the study's.
    """
    lists = pl.DataFrame({"place": _places(run), "relevant": qrels.relevance > 0})
    sizes = lists.group_by("place", maintain_order=True).agg(n=pl.len(), p=pl.col("relevant").sum())
    if any(sizes[name].to_list() != rows[name].to_list() for name in ("n", "p")):
        raise DataError(
            f"{kept.file}: its lists differ from {kept.runs_file} in their numbers of items or of relevant items; "
            "expected the data of the study: give its folder with --data, or run the study's steps again"
        )
    chosen = [metric(name) for name in METRICS if name in rows.columns]
    values = evaluate(chosen, run.scores, qrels.relevance, run.offsets)
    gap = torch.zeros(len(rows), dtype=torch.float64)
    for name, value in values.items():
        gap = gap.maximum((value - torch.from_numpy(rows[name].to_numpy().copy())).abs().nan_to_num())
    return StudyAgreement(len(rows), int((gap > TOLERANCE).sum()), float(gap.max()) if len(gap) else 0.0)


def _places(run: Run) -> pl.Series:
    sizes = torch.from_numpy(run.offsets).diff()
    return pl.Series(torch.repeat_interleave(torch.arange(len(sizes)), sizes).numpy())
