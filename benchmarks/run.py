"""The settings of a run, as the questions receive them."""

import sys
from dataclasses import dataclass

from benchmarks.timing import FULL, QUICK, Pace


@dataclass(frozen=True)
class Run:
    """A run with small or full sizes, with or without peers; `label` prefixes the messages of progress."""

    quick: bool = False
    peers: bool = True
    label: str = ""

    @property
    def pace(self) -> Pace:
        """The pace of each race."""
        return QUICK if self.quick else FULL

    def tell(self, what: str) -> None:
        """Show the current measurement on a terminal, on a line that the next one overwrites."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self.label}: {what}", end="", file=sys.stderr, flush=True)
