"""Measurements as CSV files, with a row per contender and size."""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from benchmarks.timing import Race

OURS = "rankbound"


@dataclass(frozen=True)
class Row:
    """One contender at one size: `value` in `unit` (s or MB), and its ratios to ours; NaN if it was left out.

    `n` orders the sizes and is the horizontal axis of plots; `note` is a remark, or the reason for a missing value.
    """

    size: str
    n: int
    contender: str
    value: float = float("nan")
    unit: str = "s"
    ratio: float = float("nan")
    ratio_low: float = float("nan")
    ratio_high: float = float("nan")
    rounds: int = 0
    note: str = ""

    @property
    def left_out(self) -> bool:
        """True if nothing was measured."""
        return self.value != self.value


def rows_of(race: Race, size: str, n: int, notes: dict[str, str] | None = None) -> list[Row]:
    """Return the rows of a race; `notes` are by contender."""
    notes = notes or {}
    timed = [
        Row(
            size,
            n,
            timing.name,
            timing.seconds,
            "s",
            timing.ratio,
            timing.ratio_low,
            timing.ratio_high,
            timing.rounds,
            notes.get(timing.name, ""),
        )
        for timing in race.timings
    ]
    slow = [Row(size, n, name, note=f"a call takes {seconds:.0f} s") for name, seconds in race.too_slow.items()]
    return timed + slow


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV file with a header, and numbers with six significant digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in asdict(row).items()}
            )


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file that `write_rows` wrote."""
    kinds = {field.name: field.type for field in fields(Row)}
    with path.open(newline="", encoding="utf-8") as file:
        return [Row(**{key: kinds[key](text) for key, text in line.items()}) for line in csv.DictReader(file)]  # type: ignore[operator]
