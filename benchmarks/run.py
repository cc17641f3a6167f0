"""What a question is told about its run."""

import sys
from dataclasses import dataclass

from benchmarks.timing import FULL, QUICK, Pace


@dataclass(frozen=True)
class Run:
    """Small sizes or the full ones, with or without peers; `label` stands before what is told of the progress."""

    quick: bool = False
    peers: bool = True
    label: str = ""

    @property
    def pace(self) -> Pace:
        """How long each race lasts."""
        return QUICK if self.quick else FULL

    def tell(self, what: str) -> None:
        """Say on a terminal what is being measured, on one line that the next one overwrites."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self.label}: {what}", end="", file=sys.stderr, flush=True)
