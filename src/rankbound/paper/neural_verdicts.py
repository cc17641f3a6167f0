"""How the claims about neural ranking are judged by the study's tables, and how a verdict is told.

A claim that compares methods holds, or does not, if tests of the named comparisons agree on it (Holm within the claim,
5 %); otherwise it is not confirmed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rankbound.paper.findings import Finding
from rankbound.paper.neural_results import Results
from rankbound.paper.plain_table import signed
from rankbound.results.number_texts import probability
from rankbound.statistics.randomisation import holm

LEVEL = 0.05

FAILS, OPEN, HOLDS, FACT = range(4)
"""What a finding says of a claim, in the order of telling; a FACT judges none."""

VERDICTS = ("Does not hold", "Not confirmed", "Holds")


@dataclass(frozen=True)
class Item:
    """One finding of the study, and what it says of a claim.

    Attributes:
        verdict: `FAILS`, `OPEN` or `HOLDS`, or `FACT` where nothing is judged.
        finding: what is told.
        claim: the claim that is judged, in words; empty if the finding is about something that is no claim.
        differences: those that the verdict rests on, as they are printed.
    """

    verdict: int
    finding: Finding
    claim: str = ""
    differences: tuple[str, ...] = ()


def judged(
    verdict: int,
    claim: str,
    detail: str,
    header: tuple[str, ...] = (),
    rows: tuple[tuple[str, ...], ...] = (),
    *,
    differences: Sequence[str] = (),
) -> Item:
    """A verdict on a claim, told as a finding."""
    return Item(verdict, Finding(f"{VERDICTS[verdict]}: {claim}.", detail, header, rows), claim, tuple(differences))


def tested(results: Results, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The comparisons of a claim that can be made, with p-values adjusted within it."""
    found = [
        {"method": one, "other": other, **row}
        for one, other in pairs
        if (row := results.compared(one, other)) is not None
    ]
    adjusted = holm([row["p_value"] for row in found])
    return [row | {"p_holm": p_value} for row, p_value in zip(found, adjusted, strict=True)]


def verdict_of(claimed: Sequence[float], p_values: Sequence[float]) -> int:
    """Holds if all differences are as claimed and significant; fails if one is significant the other way."""
    significant = [p_value < LEVEL for p_value in p_values]
    if any(sure and difference < 0 for difference, sure in zip(claimed, significant, strict=True)):
        return FAILS
    return HOLDS if all(significant) else OPEN


def judged_by(
    rows: Sequence[Mapping[str, Any]], results: Results, claim: str, detail: str, *, sign: Literal[1, -1] = 1
) -> Item:
    """The verdict on a claim that tested differences give: ours with interval and p-value, and the printed one.

    The claim is that all differences are positive; with `sign` -1, negative.
    """
    verdict = verdict_of([sign * row["difference"] for row in rows], [row["p_holm"] for row in rows])
    printed = [_printed_difference(results, row["method"], row["other"]) for row in rows]
    outside = [
        not row["low"] <= value <= row["high"] for row, value in zip(rows, printed, strict=True) if value is not None
    ]
    if outside:
        detail = f"{sum(outside)} of {len(outside)} printed differences lie outside our interval. {detail}"
    return judged(
        verdict,
        claim,
        detail,
        ("methods", "ours", "95 % interval", "p (Holm)", "printed"),
        tuple(
            (
                f"{row['method']} − {row['other']}",
                signed(row["difference"]),
                f"{signed(row['low'])} to {signed(row['high'])}",
                probability(row["p_holm"]),
                "–" if value is None else signed(value),
            )
            for row, value in zip(rows, printed, strict=True)
        ),
        differences=[signed(row["difference"]) for row in rows],
    )


def _printed_difference(results: Results, method: str, other: str) -> float | None:
    one, two = results.printed(method), results.printed(other)
    return None if one is None or two is None else one - two
