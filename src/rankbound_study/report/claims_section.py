"""The claims in the report: counts of verdicts, every claim with its reason, and quotations for other sections."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims import verdict_table
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, NOT_TESTABLE, REFUTED
from rankbound_study.report import claims_table
from rankbound_study.report.blocks import Cell, Finding, ReportSection, TableBlock
from rankbound_study.report.columns import with_minus_signs
from rankbound_study.report.prose import finding, text
from rankbound_study.results.specs import probability

FILE = "claims.md"
GENERATED = text(FILE, "generated")
_BY_DOUBT = (REFUTED, INCONCLUSIVE, CONFIRMED, NOT_TESTABLE, NOT_RUN)
_DECIDED = (CONFIRMED, REFUTED)


@dataclass(frozen=True)
class Claims:
    """The table of claims; `table` is None if it was not made."""

    table: pl.DataFrame | None

    @classmethod
    def read(cls, tables: Path) -> "Claims":
        """Read the table in the folder of the tables."""
        path = tables / f"{verdict_table.NAME}.csv"
        return cls(verdict_table.read(path) if path.exists() else None)

    def findings(self, *, synthetic: bool) -> Iterator[Finding]:
        """Count the verdicts, by source."""
        if self.table is None:
            return
        verdicts = list(verdict_table.counts(self.table))
        by_source = {
            title: verdict_table.counts(of_source)
            for letter, title in verdict_table.SOURCES.items()
            if len(of_source := verdict_table.of_source(self.table, letter))
        }
        every = verdict_table.counts(self.table)
        parts = [
            f"{every[verdict]} are {verdict}" for verdict in (CONFIRMED, REFUTED, INCONCLUSIVE) if verdict in every
        ]
        yield finding(
            FILE,
            "counts",
            ("source", *verdicts),
            tuple(
                (title, *(str(of_source.get(verdict, 0)) for verdict in verdicts))
                for title, of_source in by_source.items()
            ),
            claims=len(self.table),
            parts=parts,
            generated=GENERATED if synthetic else "",
        )

    def sections(self) -> Iterator[ReportSection]:
        """Return the section with all claims, a table for each group."""
        if self.table is not None:
            blocks = tuple(
                _block(name, f"{verdict_table.summary(own)}.", own) for name, own in verdict_table.groups(self.table)
            )
            undecided = self.table.filter(pl.col("verdict") == INCONCLUSIVE)
            opening = text(FILE, "opening", inconclusive=len(undecided), known=undecided["margin"].count())
            yield ReportSection("claims", "Claims", opening, blocks)

    def of_source(self, letter: str) -> Iterator[TableBlock]:
        """Return the claims of one source, refuted ones first."""
        if self.table is not None:
            order = pl.col("verdict").replace_strict({verdict: place for place, verdict in enumerate(_BY_DOUBT)})
            own = verdict_table.of_source(self.table, letter).sort(order, maintain_order=True)
            yield _block("Claims of the paper", text(FILE, "of-the-paper"), own)

    def verdict(self, claim: str) -> str:
        """Return a claim's verdict; empty if there are no claims."""
        if self.table is None:
            return ""
        found: str = self.table.row(by_predicate=pl.col("id") == claim, named=True)["verdict"]
        return found

    def quoted(self, claim: str) -> str:
        """Return a claim's verdict and reason as a sentence; empty if the table does not have it."""
        if self.table is None or claim not in self.table["id"]:
            return ""
        row = self.table.row(by_predicate=pl.col("id") == claim, named=True)
        return f"Claim {claim}, {row['verdict']}: {with_minus_signs(row['reason'])}"


def _block(name: str, caption: str, table: pl.DataFrame) -> TableBlock:
    rows = tuple(
        (
            Cell(row["id"]),
            Cell(row["claim"]),
            Cell(row["verdict"], strong=row["verdict"] in _DECIDED),
            Cell(with_minus_signs(row["reason"]), _behind(row)),
        )
        for row in table.iter_rows(named=True)
    )
    header = ("claim", "what is claimed", "verdict", "why")
    return TableBlock(name, caption, header, rows, labels=4, sortable=True, prose=frozenset({1, 3}))


def _behind(row: dict[str, Any]) -> str:
    """Return the statistic, its p-value, the number of units, where it is shown, and what would decide the claim."""
    parts = [f"{row['statistic']} {claims_table.estimate(row)}".strip()] if claims_table.estimate(row) else []
    if isinstance(row["p_value"], float):
        parts.append(f"p {probability(row['p_value'])}")
    if row["n"]:
        parts.append(f"n {row['n']}")
    if isinstance(row["shown_in"], str) and row["shown_in"]:
        parts.append(f"see {', '.join(map(_title_of, row['shown_in'].split()))}")
    if row["margin"] is not None:
        parts.append(_to_decide(row))
    return "; ".join(parts)


def _to_decide(row: dict[str, Any]) -> str:
    """Return the sample that would decide an inconclusive claim: `to decide for ±0.01: 1,200 topics instead of 412`."""
    needed = [
        f"{row[f'{name}_needed']:,} {name} instead of {row[name]:,}"
        for name in ("topics", "seeds")
        if row[f"{name}_needed"] is not None
    ]
    margin = f"±{claims_table.number(row['margin'])}"
    if row["topics_needed"] is not None and row["topics_needed"] <= row["topics"]:
        return f"the sample decides for {margin}, so that the true difference is smaller"
    return f"to decide for {margin}: {' or '.join(needed) or 'more topics and more seeds'}"


def _title_of(name: str) -> str:
    """Return `figure_5_2` as Figure 5.2."""
    kind, _, rest = name.partition("_")
    return f"{kind.capitalize()} {rest.replace('_', '.' if rest[:1].isdigit() else ' ')}"
