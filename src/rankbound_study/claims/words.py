"""Numbers and lists as reasons give them."""

from collections.abc import Iterable, Sequence

from rankbound_study.claims.cells import Contrast

_SHOWN = 3


def numbered(count: int, of: int) -> str:
    """`3 of 48`."""
    return f"{count} of {of}"


def span(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _SHOWN
    return "; ".join(names[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def no_noise(contrasts: Iterable[Contrast]) -> str:
    """Why there is no margin of noise; empty if there is one everywhere."""
    if all(one.margin > 0 for one in contrasts):
        return ""
    return "Not decided: with one seed, or scores that no seed changes, nothing says what two trainings may differ by."
