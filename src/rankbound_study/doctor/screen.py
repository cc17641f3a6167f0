"""The doctor's findings as lines of text."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap

from rankbound.texts import printable
from rankbound_study.doctor.finding import MISSING, NOTE, Finding

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
