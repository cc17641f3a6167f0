"""Formats of counts and lists in the reasons of verdicts."""

from collections.abc import Iterable, Sequence

from rankbound_study.claims.cells import Contrast

_SHOWN = 3


def numbered(count: int, of: int) -> str:
    """Return `3 of 48`."""
    return f"{count} of {of}"


def span(names: Sequence[str]) -> str:
    """Join the first names, and count the rest: `a; b; c; and 2 more`."""
    more = len(names) - _SHOWN
    return "; ".join(names[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def no_noise(contrasts: Iterable[Contrast]) -> str:
    """Explain a missing noise margin; empty if all contrasts have one."""
    if all(one.margin > 0 for one in contrasts):
        return ""
    return "Not decided: with one seed, or scores that no seed changes, the noise margin between trainings is unknown."
