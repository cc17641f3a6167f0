"""Build the section on Table 5.1: both protocols, scores not reproduced, test-picked epochs, sensitivity."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Finding, ReportSection, TableBlock
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.findings import attempts_block, attempts_findings, findings, honest_findings, not_reproduced
from rankbound_study.report.made_blocks import table_blocks
from rankbound_study.report.table_5_1_scores import COLUMNS
from rankbound_study.report.table_files import read_table
from rankbound_study.report.tables import table_5_1
from rankbound_study.results import scores
from rankbound_study.results.specs import reading
from rankbound_study.vocabulary import HONEST

HONEST_TABLE = "table_5_1_honest"


@dataclass(frozen=True)
class Bounded:
    """The tables of the study on metric bounding.

    Attributes:
        folder: the folder of the tables.
        table, summary: Table 5.1 by the first protocol.
        honest, honest_summary: Table 5.1 by the honest protocol; without rows, and None, if it was not made.
    """

    folder: Path
    table: pl.DataFrame
    summary: dict[str, Any]
    honest: pl.DataFrame
    honest_summary: dict[str, Any] | None

    @classmethod
    def read(cls, folder: Path) -> "Bounded":
        """Read the tables in a folder; raises DataError if Table 5.1 or a summary is missing."""
        table, summary = read_table(folder / "table_5_1.csv", COLUMNS), _read_summary(folder / "table_5_1_summary.json")
        if not (folder / f"{HONEST_TABLE}.csv").exists():
            return cls(folder, table, summary, pl.DataFrame(schema=COLUMNS), None)
        honest = read_table(folder / f"{HONEST_TABLE}.csv", COLUMNS)
        return cls(folder, table, summary, honest, _read_summary(folder / f"{HONEST_TABLE}_summary.json"))

    @property
    def data_sets(self) -> list[DataSet]:
        """The data sets of Table 5.1, in its order."""
        return scores.data_sets(self.table.rename({"nsr": "nsr_test"}))

    @property
    def reproduced(self) -> bool:
        """The study is one of the sources', or has no results yet; not one on other data alone."""
        return not self.data_sets or any(data_set.of_the_sources for data_set in self.data_sets)

    @property
    def protocols(self) -> str:
        """The protocols of the tables, in words."""
        return "published and honest protocols" if len(self.honest) else self.protocol

    @property
    def protocol(self) -> str:
        """The protocol of Table 5.1, in words."""
        return scores.PROTOCOLS.get(self.summary["protocol"], "no runs")

    def first_findings(self) -> Iterator[Finding]:
        """Report the effect of bounding, tested on the honest protocol."""
        yield from self._tested

    def findings(self, claims: Claims, *, tested: bool = False) -> Iterator[Finding]:
        """Report the other findings of Table 5.1, with the verdicts on the claims about it.

        If others have `tested` the effect of bounding, it is not counted without a test.
        """
        printed = self.table.filter(pl.col("published").is_not_null())
        missed = attempts_findings(self._not_reproduced, printed.select("nsr", "loss", "bounding").n_unique())
        honest = self.honest_summary if len(self.honest) else None
        yield from findings(
            self.table, self.summary, honest, missed, claims.quoted, tested=tested or bool(self._tested)
        )

    def section(self) -> ReportSection:
        """Return the section with all its tables."""
        return ReportSection("table-5-1", "Table 5.1", "", tuple(self._blocks()))

    @cached_property
    def _tested(self) -> list[Finding]:
        return list(honest_findings(self.honest, self.table))

    @cached_property
    def _not_reproduced(self) -> list[dict[str, Any]]:
        return not_reproduced(self.table, self.honest)

    def _blocks(self) -> Iterator[TableBlock]:
        yield table_5_1.block(self.table, self.protocol)
        if self._not_reproduced:
            yield attempts_block(self._not_reproduced)
        if len(self.honest):
            honest = table_5_1.block(self.honest, scores.PROTOCOLS[HONEST])
            yield replace(honest, name="Table 5.1, honest protocol")
        yield from table_blocks("table-5-1", self.folder)


def _read_summary(path: Path) -> dict[str, Any]:
    with reading(path):
        summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := {"protocol", "synthetic"} - set(summary):
            raise KeyError(f"missing keys: {', '.join(sorted(missing))}")
    return summary
