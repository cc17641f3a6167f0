"""Numbers as the reasons of verdicts, the tables and the report write them."""


def signed(value: float) -> str:
    """A difference of scores to four places, with its sign; that of zero is +."""
    # Adding zero takes the sign off a negative zero.
    return f"{round(value, 4) + 0.0:+.4f}"


def probability(value: float) -> str:
    """A p-value to four places, or that it is smaller."""
    return "<0.0001" if value < 0.00005 else f"{value:.4f}"
