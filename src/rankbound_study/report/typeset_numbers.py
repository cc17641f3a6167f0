"""Numbers as the report prints them, with a true minus and a dash where there is none."""

import re

from rankbound_study.results import specs

DASH = "–"


def signed(value: float | None) -> str:
    """Return a signed difference to four decimals, or a dash for None."""
    return DASH if value is None else with_minus(specs.signed(value))


def with_minus(text: str) -> str:
    """Replace every hyphen by a minus sign."""
    return text.replace("-", "−")


def with_minus_signs(sentence: str) -> str:
    """Replace the hyphens of negative numbers in a sentence by minus signs."""
    return re.sub(r"(?<![\w.^])-(?=\d)", "−", sentence)
