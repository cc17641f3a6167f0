"""The neural-ranking study in the report's first lines: which of its claims do not hold, and by what differences."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rankbound.paper.findings import Finding
from rankbound.paper.neural_results import FACT, FAILS, HOLDS, OPEN, VERDICTS, Item

_DIFFERENCES = ("ours", "gap")
"""The columns of a finding's small table that have the differences behind it."""


def first_findings(items: Sequence[Item]) -> Iterator[Finding]:
    """One finding over all claims that were judged, and those that are about how the study counts."""
    claims = [(verdict, claim) for verdict, finding in items if (claim := _claim(verdict, finding))]
    if claims:
        yield _judged(claims)
    for verdict, finding in items:
        if verdict == FAILS and _claim(verdict, finding) is None:
            yield Finding(f"Neural ranking. {finding.headline}", finding.detail)


def _judged(claims: Sequence[tuple[int, tuple[str, str]]]) -> Finding:
    counted = Counter(verdict for verdict, _ in claims)
    rows = [(text, VERDICTS[verdict].lower(), told) for verdict, (text, told) in claims if verdict in (FAILS, OPEN)]
    return Finding(
        f"Neural ranking. Of {len(claims)} claims about its methods, these runs confirm {counted[HOLDS]}, contradict "
        f"{counted[FAILS]} and leave {counted[OPEN]} open.",
        "The others, with the differences behind them, whose intervals are in the study's section. What is not "
        "confirmed may still be true: these data cannot tell."
        if rows
        else "",
        ("claim", "outcome", "differences"),
        tuple(rows),
    )


def _claim(verdict: int, finding: Finding) -> tuple[str, str] | None:
    """A claim's text and the differences behind it; None of a finding that is not a verdict on one."""
    lead = "" if verdict == FACT else f"{VERDICTS[verdict]}: "
    if not lead or not finding.headline.startswith(lead):
        return None
    column = next((finding.header.index(name) for name in _DIFFERENCES if name in finding.header), None)
    differences = [row[column] for row in finding.rows] if column is not None else []
    return finding.headline.removeprefix(lead).removesuffix("."), ", ".join(differences) or "–"
