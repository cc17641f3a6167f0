"""The step `theorems`: check the theorems of the sources, which takes no results."""

from pathlib import Path

from rankbound_study.claims.theorems import check, write


def theorems(out: Path) -> None:
    """Check them, and write the rulings."""
    rulings = check()
    write(out, rulings)
    print(f"{len(rulings)} theorems")
