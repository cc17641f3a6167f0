"""Read the tables of the neural-ranking study back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report.neural_tables import COLUMNS, COMPARISON_COLUMNS
from rankbound_study.report.table_files import read_table
from rankbound_study.results.neural_names import AS_PRINTED, TABLES, Printed, data_set_title
from rankbound_study.results.neural_runs import printed_scores
from rankbound_study.results.number_texts import score


@dataclass(frozen=True)
class Results:
    """One table on one data set, from its files: scores, and comparisons of pairs of methods."""

    about: Printed
    scores: pl.DataFrame
    comparisons: pl.DataFrame

    @property
    def synthetic(self) -> bool:
        """True if the data are generated."""
        return self._dataset.startswith(SYNTHETIC)

    @property
    def data(self) -> str:
        """The title of the data set."""
        pixels = self.about.number == TABLES[1].number and not self.synthetic
        return f"{data_set_title(self._dataset)}{', pixels' * pixels}"

    def mean(self, method: str, metric: str | None = None) -> float | None:
        """Return a method's mean; None if it has not run."""
        rows = self.scores.filter(
            pl.col("method") == method, pl.col("metric") == (metric or self.about.metric), pl.col("ours").is_not_null()
        )
        return rows["ours"][0] if len(rows) else None

    def printed(self, method: str) -> float | None:
        """Return the score that the paper prints for a method, on any data set."""
        table = printed_scores(self.about).filter(pl.col("method") == method.removesuffix(AS_PRINTED))
        return table["printed"][0] if len(table) else None

    def of_family(self, family: str) -> list[str]:
        """Return the methods of a family that have run."""
        ran = self.scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == self.about.metric)
        return ran.filter(pl.col("family") == family)["method"].to_list()

    def compared(self, method: str, other: str) -> dict[str, Any] | None:
        """Return the difference of two methods and its interval (difference, low, high); None unless both have run."""
        for first, second, sign in ((method, other, 1), (other, method, -1)):
            rows = self.comparisons.filter(pl.col("method") == first, pl.col("other") == second)
            if len(rows):
                row = rows.row(0, named=True)
                low, high = sorted((sign * row["low"], sign * row["high"]))
                return {"difference": sign * row["difference"], "low": low, "high": high}
        return None

    @property
    def _dataset(self) -> str:
        return str(self.scores["dataset"][0] or "")


def read_results(folder: Path, tables: Sequence[Printed] = TABLES) -> list[Results]:
    """Read the study's tables in a folder, one per table and data set, in the paper's order."""
    results = []
    for about in tables:
        if not (folder / f"{about.name}.csv").exists():
            continue
        scores = read_table(folder / f"{about.name}.csv", COLUMNS)
        comparisons = read_table(folder / f"{about.name}_comparisons.csv", COMPARISON_COLUMNS)
        for dataset in scores["dataset"].unique(maintain_order=True):
            own = pl.col("dataset").eq_missing(pl.lit(dataset))
            results.append(Results(about, scores.filter(own), comparisons.filter(own)))
    return results


def four(value: float | None) -> str:
    """Return a score to four decimals, or a dash for None."""
    return "–" if value is None else score(value)
