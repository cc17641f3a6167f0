"""Formats of numbers in the reasons of verdicts, the tables and the report.

Table files have six decimals. A number is first rounded to six, so its digits do not depend on whether it was read from
a file.
"""

FILE_PLACES = 6


def signed(value: float) -> str:
    """Format a difference of scores with four decimals and its sign; zero has a plus."""
    # Adding zero removes the sign of a negative zero.
    return f"{round(round(value, FILE_PLACES), 4) + 0.0:+.4f}"


def score(value: float) -> str:
    """Format a score with four decimals."""
    return f"{round(value, FILE_PLACES):.4f}"


def probability(value: float) -> str:
    """Format a p-value with four decimals, or as `<0.0001`."""
    return "<0.0001" if value < 0.00005 else f"{value:.4f}"
