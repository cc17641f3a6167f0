"""The outcomes of the faults as a table: rule by kind."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

FIELDS = (
    "rule",
    "kind",
    "faults",
    "ended",
    "refused",
    "unharmed",
    "taken",
    "recovered",
    "lost",
)
OUTCOMES = FIELDS[3:7]

Record = Mapping[str, Any]
"""rule, kind, outcome, and whether it recovered."""


def rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """One row for each rule and kind."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for record in records:
        count = counts.setdefault((record["rule"], record["kind"]), Counter())
        count.update(
            [
                "faults",
                record["outcome"],
                "recovered" if record["recovered"] else "lost",
            ]
        )
    return [
        {"rule": rule, "kind": kind, **{field: count[field] for field in FIELDS[2:]}}
        for (rule, kind), count in sorted(counts.items())
    ]


def as_csv(records: Iterable[Record]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(records))
    return stream.getvalue()


def as_markdown(records: Iterable[Record]) -> str:
    """Rules down, kinds across, the number of faults in each cell; below, what became of them."""
    found = rows(records)
    kinds = list(dict.fromkeys(row["kind"] for row in sorted(found, key=lambda row: row["kind"])))
    cells = {(row["rule"], row["kind"]): row for row in found}
    lines = [_line("rule", *kinds, "all", "lost"), _line(*["---"] * (len(kinds) + 3))]
    for rule in sorted({row["rule"] for row in found}):
        own = [cells.get((rule, kind)) for kind in kinds]
        numbers = [str(row["faults"]) if row else "–" for row in own]
        lines.append(
            _line(
                rule,
                *numbers,
                *(str(sum(row[key] for row in own if row)) for key in ("faults", "lost")),
            )
        )
    for key in ("faults", *OUTCOMES, "recovered", "lost"):
        totals = [sum(row[key] for row in found if row["kind"] == kind) for kind in kinds]
        lines.append(_line(f"**{key}**", *map(str, totals), str(sum(totals)), ""))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
