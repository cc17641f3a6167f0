"""What the doctor found about one thing."""

from dataclasses import dataclass

READY, NOTE, MISSING = "ready", "note", "missing"
"""In order; something worth knowing, which stops nothing; something without which a step fails."""


@dataclass(frozen=True)
class Finding:
    """One thing: its level (`READY`, `NOTE`, `MISSING`), the section that shows it, and one sentence.

    The sentence of what is missing ends with what to do about it.
    """

    section: str
    text: str
    level: str = READY
