"""The outcomes of the faults as a table: rule by kind."""

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

OUTCOMES = ("ended", "refused", "unharmed", "taken")

Record = Mapping[str, Any]
"""rule, kind, outcome, and whether it recovered."""


def counted(records: Iterable[Record]) -> pl.DataFrame:
    """One row for each rule and kind: the number of faults, by outcome, and by whether the step recovered."""
    of_outcomes = [(pl.col("outcome") == outcome).sum().alias(outcome) for outcome in OUTCOMES]
    recovered = pl.col("recovered").sum(), (~pl.col("recovered")).sum().alias("lost")
    frame = pl.DataFrame(list(records)).group_by("rule", "kind").agg(pl.len().alias("faults"), *of_outcomes, *recovered)
    return frame.sort("rule", "kind")


def as_csv(records: Iterable[Record]) -> str:
    return counted(records).write_csv()


def as_markdown(records: Iterable[Record]) -> str:
    """Rules down, kinds across, the number of faults in each cell; below, what became of them."""
    found = counted(records)
    kinds = sorted(found["kind"].unique())
    lines = [_line("rule", *kinds, "all", "lost"), _line(*["---"] * (len(kinds) + 3))]
    for (rule,), own in found.group_by("rule", maintain_order=True):
        counts = dict(own.select("kind", "faults").rows())
        lines.append(_line(rule, *(counts.get(kind, "–") for kind in kinds), own["faults"].sum(), own["lost"].sum()))
    for key in ("faults", *OUTCOMES, "recovered", "lost"):
        totals = dict(found.group_by("kind").agg(pl.col(key).sum()).rows())
        lines.append(_line(f"**{key}**", *(totals[kind] for kind in kinds), found[key].sum(), ""))
    return "\n".join(lines)


def _line(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"
