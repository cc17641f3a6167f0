"""Look at an installation: what a study of this configuration needs here, what is there, and how to get the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from rankbound.texts import printable

READY, NOTE, MISSING = "ready", "note", "missing"
"""In order; something worth knowing, which stops nothing; something without which a step fails."""


@dataclass(frozen=True)
class Finding:
    """One thing: its level (`READY`, `NOTE`, `MISSING`), the section that shows it, and one sentence.

    The sentence of what is missing ends with what to do about it.
    """

    section: str
    text: str
    level: str = READY


WIDTH, INDENT = 110, 15
MARKS = {MISSING: "! ", NOTE: "- "}


def lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings, section by section, each with its mark; names from files break no line."""
    for section, group in groupby(findings, key=lambda finding: finding.section):
        title = section
        for finding in group:
            mark = MARKS.get(finding.level, "  ")
            first, rest = f"{title:<{INDENT - len(mark)}}{mark}", " " * INDENT
            yield from wrap(
                printable(finding.text),
                WIDTH,
                initial_indent=first,
                subsequent_indent=rest,
                break_on_hyphens=False,
                break_long_words=False,  # a path can be copied in one piece
            )
            title = ""
