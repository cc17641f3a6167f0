"""The neural-ranking study's tables read back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.paper.neural_tables import COLUMNS, COMPARISON_COLUMNS
from rankbound.results import neural_runs
from rankbound.results.made_files import reading
from rankbound.results.neural_names import AS_PRINTED, TABLES, Printed, data_set_title
from rankbound.results.neural_pairs import GAP_COLUMNS
from rankbound.study.data_sets import SYNTHETIC

_GAP_COLUMNS = {"dataset": pl.String, **GAP_COLUMNS}


@dataclass(frozen=True)
class Results:
    """One table as its files have it: scores, pairs of methods compared, accuracy by age gap (faces)."""

    about: Printed
    scores: pl.DataFrame
    comparisons: pl.DataFrame
    gaps: pl.DataFrame

    @property
    def synthetic(self) -> bool:
        """Whether the data are generated."""
        return str(self.scores["dataset"][0] or "").startswith(SYNTHETIC)

    def mean(self, method: str, metric: str | None = None) -> float | None:
        """A method's mean; None where it has not run."""
        row = self._row(method, metric or self.about.metric)
        return None if row is None else row["ours"]

    def printed(self, method: str) -> float | None:
        """What the paper prints for a method, whatever the data set."""
        base = method.removesuffix(AS_PRINTED)
        found = neural_runs.printed_scores(self.about).filter(pl.col("method") == base)["printed"].to_list()
        return found[0] if found else None

    def best(self, methods: Sequence[str]) -> str | None:
        """The method with the largest mean."""
        known = {method: mean for method in methods if (mean := self.mean(method)) is not None}
        return max(known, key=lambda method: known[method], default=None)

    def of_family(self, family: str) -> list[str]:
        """The methods of a family that have run."""
        ran = self.scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == self.about.metric)
        return ran.filter(pl.col("family") == family)["method"].to_list()

    def compared(self, method: str, other: str) -> dict[str, Any] | None:
        """The difference of two methods: difference, low, high, p_value; None unless both have run."""
        for one, two, sign in ((method, other, 1), (other, method, -1)):
            found = self.comparisons.filter(pl.col("method") == one, pl.col("other") == two)
            if len(found):
                row = found.row(0, named=True)
                low, high = sorted((sign * row["low"], sign * row["high"]))
                return {"difference": sign * row["difference"], "low": low, "high": high, "p_value": row["p_value"]}
        return None

    def _row(self, method: str, metric: str) -> dict[str, Any] | None:
        found = self.scores.filter(pl.col("method") == method, pl.col("metric") == metric, pl.col("ours").is_not_null())
        return found.row(0, named=True) if len(found) else None


def read_results(folder: Path) -> list[Results]:
    """The tables of the study among a folder's files, one per data set, in the paper's order."""
    found = []
    for about in TABLES:
        if not (folder / f"{about.name}.csv").exists():
            continue
        scores = _read(folder / f"{about.name}.csv", COLUMNS)
        comparisons = _read(folder / f"{about.name}_comparisons.csv", COMPARISON_COLUMNS)
        gaps = pl.DataFrame(schema=_GAP_COLUMNS)
        if about.of_faces:
            gaps = _read(folder / f"{about.name}_by_age_gap.csv", _GAP_COLUMNS)
        for dataset in scores["dataset"].unique(maintain_order=True):
            own = pl.col("dataset").eq_missing(pl.lit(dataset))
            found.append(Results(about, scores.filter(own), comparisons.filter(own), gaps.filter(own)))
    return found


def _read(path: Path, columns: Any) -> pl.DataFrame:
    with reading(path):
        return pl.read_csv(path, schema=columns)


def data_of(results: Results) -> str:
    name = str(results.scores["dataset"][0])
    title = data_set_title(name)
    pixels = results.about.number == TABLES[1].number
    return f"{title}, pixels" if pixels and not name.startswith(SYNTHETIC) else title


def four(value: float | None) -> str:
    """A score as the paper prints it."""
    return "–" if value is None else f"{value:.4f}"
