"""Numbers as the report writes them: with a true minus, and a dash where there is none."""

import re
from collections.abc import Callable

from rankbound_study.results import study_files

DASH = "–"


def signed(value: float | None) -> str:
    """Return a signed difference to four decimals, or a dash for None."""
    return DASH if value is None else with_minus(study_files.signed(value))


def four(value: float | None) -> str:
    """Return a score to four decimals, or a dash for None."""
    return DASH if value is None else with_minus(study_files.score(value))


def fixed(digits: int) -> Callable[[float], str]:
    """Return a format with a number of decimals."""
    return lambda value: with_minus(f"{value:.{digits}f}")


def between(low: float | None, high: float | None) -> str:
    """Return an interval of differences."""
    return f"{signed(low)} to {signed(high)}"


def with_minus(text: str) -> str:
    """Replace the hyphens of negative numbers and of differences (`a - b`) in a text by minus signs."""
    return re.sub(r"(?<![\w.^])-(?=[\d ])", "−", text)
