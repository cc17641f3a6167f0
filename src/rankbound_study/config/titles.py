"""The titles of data sets in tables, figures and the report: those of the thesis, and those that descriptions give."""

from collections.abc import Mapping

THESIS = {
    "movielens": "MovieLens",
    "mq2008-label1": "MQ2008 label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1",
    "mq2008-label2": "MQ2008 label\N{NO-BREAK SPACE}2",
    "mq2008": "MQ2008",
}
"""In the order of Table 5.1."""

_described: dict[str, str] = {}
# One mapping for a process: a step shows one study, and titles are asked for in some twenty places that know no more
# than a data set's name.


def use_titles(titles: Mapping[str, str]) -> None:
    """Show these titles of described data sets, by name, from now on, instead of others that were shown before."""
    _described.clear()
    _described.update(titles)


def described_title(name: str) -> str | None:
    """Return the title that a data set's description gives; None if it gives none."""
    return _described.get(name)
