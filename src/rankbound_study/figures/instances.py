"""The lists of figures 3.1 and 3.3 to 3.7; the thesis does not state its own."""

from rankbound_study.figures.style import SERIES, LineStyle

ROWS = (
    ("NSR 2", ((15, 5), (30, 10), (60, 20))),
    ("NSR 1, 2, 3", ((20, 10), (30, 10), (40, 10))),
)
"""(title, (N, P) of three lists): one ratio of non-relevant to relevant items, then three."""

METRICS = ("nDCG", "AP", "nRBP")

_LISTS = tuple(dict.fromkeys(pair for _, pairs in ROWS for pair in pairs))


def list_style(n: int, p: int) -> LineStyle:
    """Return the line style of a list, the same in both rows."""
    return SERIES[_LISTS.index((n, p))]


def list_label(n: int, p: int) -> str:
    """Return a list's size in the notation of the thesis: X(N, P)."""
    return f"X({n}, {p})"
