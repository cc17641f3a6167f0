"""The claims in the report: the table's files, counts of verdicts, every claim with its reason, and quotations."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims import verdicts
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, NOT_TESTABLE, REFUTED
from rankbound_study.report import blocks
from rankbound_study.report.blocks import Cell, Finding, Layout, ReportSection, Row, TableBlock, finding
from rankbound_study.report.numbers import with_minus
from rankbound_study.templates import text

FILE = "claims.md"
GENERATED = text(FILE, "generated")


@dataclass(frozen=True)
class Claims:
    """The table of claims; without rows if it was not made."""

    table: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=verdicts.COLUMNS))

    @classmethod
    def read(cls, tables: Path) -> "Claims":
        """Read the table in the folder of the tables."""
        path = tables / f"{verdicts.NAME}.csv"
        return cls(verdicts.read(path)) if path.exists() else cls()

    def findings(self, *, synthetic: bool) -> Iterator[Finding]:
        """Count the verdicts, by source."""
        every = verdicts.counts(self.table)
        of_sources = ((title, verdicts.of_source(self.table, one)) for one, title in verdicts.SOURCES.items())
        counts = {title: verdicts.counts(own) for title, own in of_sources if len(own)}
        if counts:
            yield finding(
                FILE,
                "counts",
                [{"source": title, **{one: str(own.get(one, 0)) for one in every}} for title, own in counts.items()],
                claims=len(self.table),
                parts=[f"{every[one]} are {one}" for one in (CONFIRMED, REFUTED, INCONCLUSIVE) if one in every],
                generated=GENERATED if synthetic else "",
            )

    def sections(self) -> Iterator[ReportSection]:
        """Return the section with all claims, a table for each group."""
        if len(self.table):
            groups = verdicts.groups(self.table)
            shown = tuple(_SHOWN(own, name=name, caption=f"{verdicts.summary(own)}.") for name, own in groups)
            undecided = self.table.filter(pl.col("verdict") == INCONCLUSIVE)
            opening = text(FILE, "opening", inconclusive=len(undecided), known=undecided["margin"].count())
            yield ReportSection("claims", "Claims", opening, shown)

    def of_source(self, letter: str) -> Iterator[TableBlock]:
        """Return the claims of one source, refuted ones first."""
        by_doubt = pl.Enum((REFUTED, INCONCLUSIVE, CONFIRMED, NOT_TESTABLE, NOT_RUN))
        if len(own := verdicts.of_source(self.table, letter)):
            own = own.sort(pl.col("verdict").cast(by_doubt), maintain_order=True)
            yield _SHOWN(own, name="Claims of the paper", caption=text(FILE, "of-the-paper"))

    def verdict(self, claim: str) -> str:
        """Return a claim's verdict; empty if the table does not have it."""
        return next(iter(self.table.filter(id=claim)["verdict"]), "")

    def quoted(self, claim: str) -> str:
        """Return a claim's verdict and reason as a sentence; empty if the table does not have it."""
        rows = self.table.filter(id=claim).iter_rows(named=True)
        return next((f"Claim {claim}, {row['verdict']}: {with_minus(row['reason'])}" for row in rows), "")


def _behind(row: Row) -> Iterator[str]:
    """Yield the statistic, the number of units, where it is shown, and what would decide the claim."""
    if of_claim := estimate(dict(row)):
        yield f"{row['statistic']} {of_claim}"
    if row["n"]:
        yield f"n {row['n']}"
    if row["shown_in"]:
        parts = (name.partition("_")[::2] for name in row["shown_in"].split())
        # `figure_5_2` is Figure 5.2.
        names = (f"{kind.capitalize()} {name.replace('_', '.' if name[:1].isdigit() else ' ')}" for kind, name in parts)
        yield f"see {', '.join(names)}"
    if row["margin"] is not None:
        # The sample that would decide an inconclusive claim.
        margin = f"±{number(row['margin'])}"
        if row["topics_needed"] is not None and row["topics_needed"] <= row["topics"]:
            yield f"the sample decides for {margin}, so that the true difference is smaller"
            return
        needed = [
            f"{row[f'{name}_needed']:,} {name} instead of {row[name]:,}"
            for name in ("topics", "seeds")
            if row[f"{name}_needed"] is not None
        ]
        yield f"to decide for {margin}: {' or '.join(needed) or 'more topics and more seeds'}"


_SHOWN = Layout.of(
    FILE,
    "claims",
    formats={
        "verdict": lambda verdict: Cell(verdict, strong=verdict in (CONFIRMED, REFUTED)),
        "why": lambda row: Cell(with_minus(row["reason"]), "; ".join(_behind(row))),
    },
)


def estimate(row: dict[str, Any]) -> str:
    """Return the statistic with its interval: `0.012 [0.004, 0.020]`; empty if there is none."""
    value, low, high = row["value"], row["low"], row["high"]
    if not isinstance(value, float):
        return ""
    text = number(value)
    return f"{text} [{number(low)}, {number(high)}]" if isinstance(low, float) and isinstance(high, float) else text


def number(value: float) -> str:
    """Return a number with three significant digits; whole from 1000 up, in scientific notation below 0.0001."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    text = f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}" if abs(value) >= 0.0001 else f"{value:.1e}"
    return text.replace("-", "−")


_WITH_STATISTICS = Layout.of(
    FILE,
    "with-statistics",
    formats={
        "verdict": lambda verdict: Cell(verdict, strong=True),
        "statistic": lambda row: f"{row['statistic']}: {estimate(row)}" if estimate(row) else "",
    },
)


def texts(table: pl.DataFrame) -> dict[str, str]:
    """Return the table's files; LaTeX has one table, without the statistics, for lack of width."""
    count = verdicts.summary(table)
    shown = [_WITH_STATISTICS(own, name=name) for name, own in verdicts.groups(table)]
    heading = f"Claims of the sources and their verdicts. {count}."
    return blocks.texts(heading, shown, count, titled=True, in_latex=[Layout.of(FILE, "in-latex")(table)])
