"""Numbers as the reasons of verdicts, the tables and the report write them.

Files of tables have six places. A number is rounded to these first: it then has the same digits whether it was read
from a file or not.
"""

FILE_PLACES = 6


def signed(value: float) -> str:
    """A difference of scores to four places, with its sign; that of zero is +."""
    # Adding zero takes the sign off a negative zero.
    return f"{round(round(value, FILE_PLACES), 4) + 0.0:+.4f}"


def score(value: float) -> str:
    """A score to four places."""
    return f"{round(value, FILE_PLACES):.4f}"


def probability(value: float) -> str:
    """A p-value to four places, or that it is smaller."""
    return "<0.0001" if value < 0.00005 else f"{value:.4f}"
