"""The neural-ranking study in the report's first lines: which of its claims do not hold, and by what differences."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rankbound.paper.findings import Finding
from rankbound.paper.neural_verdicts import FAILS, HOLDS, OPEN, VERDICTS, Item


def first_findings(items: Sequence[Item]) -> Iterator[Finding]:
    """One finding over all claims that were judged, and those that are about how the study counts."""
    claims = [item for item in items if item.claim]
    if claims:
        yield _judged(claims)
    for item in items:
        if item.verdict == FAILS and not item.claim:
            yield Finding(f"Neural ranking. {item.finding.headline}", item.finding.detail)


def _judged(claims: Sequence[Item]) -> Finding:
    counted = Counter(item.verdict for item in claims)
    rows = [
        (item.claim, VERDICTS[item.verdict].lower(), ", ".join(item.differences) or "–")
        for item in claims
        if item.verdict in (FAILS, OPEN)
    ]
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
