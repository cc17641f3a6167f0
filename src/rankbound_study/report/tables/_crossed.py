"""What tables of scores away from where a model was trained share: the cells, and the explanation of their marks."""

from collections.abc import Mapping
from typing import Any

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.cells import significance
from rankbound_study.report.blocks import Cell
from rankbound_study.report.tables.table_5_1 import DIGITS, DOWN, UP
from rankbound_study.report.typeset_numbers import DASH, signed

MARKS = (
    f"In small type: half of the 95 % interval over topics and trainings; {UP} significantly higher, {DOWN} "
    f"significantly lower (p at most {LEVEL} after Holm's correction over all differences of the table)."
)


def crossed_cell(row: Mapping[str, Any] | None, *, own: bool) -> Cell:
    """Return a difference with its margin, or, without one, the mean score: in bold if it is `own`."""
    if row is None or row["score"] is None or row["difference"] is not None:
        return difference_cell(row)
    return Cell(f"{row['score']:.{DIGITS}f}", strong=own)


def difference_cell(row: Mapping[str, Any] | None, prefix: str = "") -> Cell:
    """Return a difference with its margin, from the columns with this prefix; a dash without one."""
    if row is None or row[f"{prefix}difference"] is None:
        return Cell(DASH)
    difference, low, high, p_holm = (row[f"{prefix}{name}"] for name in ("difference", "low", "high", "p_holm"))
    mark = ("", UP, DOWN)[significance(difference, p_holm)]
    return Cell(signed(difference), f"±{(high - low) / 2:.{DIGITS}f}{mark}")
