"""The claims in the report: how many hold, in the first lines; then every one with its verdict and why."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankbound.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED
from rankbound.paper import claims_table
from rankbound.paper.blocks import Cell, Section, TableBlock
from rankbound.paper.findings import Finding
from rankbound.results.number_texts import probability

_TEXT = (
    "Claims of the sources, decided by these runs: those of the honest protocol, unless a claim is about the other. "
    "Confirmed and refuted are what a test says at 5 % (after Holm's correction where a claim takes several), or what "
    "counting says of a claim about all cases; inconclusive is what these runs leave open."
)
_CAPTION = (
    "Every claim, its verdict, and why. In small type: the statistic that decides with its 95 % interval, its p-value, "
    "on how much it rests, and where it is shown."
)


@dataclass(frozen=True)
class Claims:
    """The table of claims, if there is one."""

    table: pl.DataFrame | None

    @classmethod
    def read(cls, tables: Path) -> "Claims":
        """From the folder of the tables."""
        path = tables / f"{claims_table.NAME}.csv"
        return cls(claims_table.read(path) if path.exists() else None)

    def findings(self) -> Iterator[Finding]:
        """How many claims have which verdict, by the source that makes them."""
        if self.table is None:
            return
        verdicts = list(claims_table.counts(self.table))
        by_source = {
            title: claims_table.counts(of_source)
            for letter, title in claims_table.SOURCES.items()
            if len(of_source := self.table.filter(pl.col("id").str.starts_with(letter)))
        }
        every = claims_table.counts(self.table)
        told = [f"{every[verdict]} are {verdict}" for verdict in (CONFIRMED, REFUTED, INCONCLUSIVE) if verdict in every]
        yield Finding(
            f"Of {len(self.table)} claims of the sources, {', '.join(told)}.",
            "By source; the section Claims has each with the numbers that decide.",
            ("source", *verdicts),
            tuple((title, *(str(of_source.get(one, 0)) for one in verdicts)) for title, of_source in by_source.items()),
        )

    def sections(self) -> Iterator[Section]:
        """One section with one table."""
        if self.table is None:
            return
        rows = tuple(
            (
                Cell(row["id"]),
                Cell(row["claim"]),
                Cell(row["verdict"], strong=row["verdict"] in (CONFIRMED, REFUTED)),
                Cell(_with_minus(row["reason"]), _behind(row)),
            )
            for row in self.table.iter_rows(named=True)
        )
        header = ("claim", "what is claimed", "verdict", "why")
        table = TableBlock("Claims", _CAPTION, header, rows, labels=4, sortable=True, prose=frozenset({1, 3}))
        yield Section("claims", "Claims", _TEXT, (table,))


def _with_minus(text: str) -> str:
    """Negative numbers as the report's tables have them."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def _behind(row: dict[str, object]) -> str:
    """The statistic, its p-value, and the number of units."""
    parts = [f"{row['statistic']} {claims_table.estimate(row)}".strip()] if claims_table.estimate(row) else []
    if isinstance(row["p_value"], float):
        parts.append(f"p {probability(row['p_value'])}")
    if row["n"]:
        parts.append(f"n {row['n']}")
    if isinstance(row["shown_in"], str) and row["shown_in"]:
        parts.append(f"see {', '.join(map(_called, row['shown_in'].split()))}")
    return "; ".join(parts)


def _called(name: str) -> str:
    """`figure_5_2` as Figure 5.2."""
    kind, _, rest = name.partition("_")
    return f"{kind.capitalize()} {rest.replace('_', '.' if rest[:1].isdigit() else ' ')}"
