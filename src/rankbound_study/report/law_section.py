"""Build the section on the law of list weights, and its finding."""

from collections.abc import Iterator
from pathlib import Path

from rankbound_study.claims.law import NAME, PREDICTION_COLUMNS, PREDICTIONS, SECOND_HYPOTHESIS
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.report.blocks import Finding, ReportSection
from rankbound_study.report.columns import with_minus_signs
from rankbound_study.report.made_blocks import Figures, table_blocks
from rankbound_study.report.table_files import read_table

FIGURES = ("figure_law", "figure_weight_powers")

_TEXT = (
    "Affine bounds multiply a list's gradient by a weight and do nothing else. The influence of a list is its weight "
    "times the range of its loss over all orderings; its mismatch is the influence over the range of the metric that "
    "judges the loss. The law: weights gain where they make the mismatch more equal between lists, lose where they "
    "make it less equal, and do nothing else. docs/law.md has the formulas and the prediction."
)
_DIRECTION = {
    CONFIRMED: "For every loss, the effect of list weights falls with the mismatch of the lists",
    REFUTED: "The effect of list weights does not fall with the mismatch of the lists for every loss",
    INCONCLUSIVE: "It is not shown for every loss that the effect of list weights falls with the mismatch of the lists",
}
_FIT = {
    CONFIRMED: ", and mismatch alone predicts it.",
    REFUTED: ", and mismatch alone does not predict it.",
    INCONCLUSIVE: ".",
}


def law_findings(folder: Path) -> Iterator[Finding]:
    """Report the verdicts on the law, with its slope; nothing if they were not decided."""
    if not (folder / f"{NAME}.csv").exists():
        return
    predictions = read_table(folder / f"{PREDICTIONS}.csv", PREDICTION_COLUMNS)
    if predictions.is_empty() or predictions["outcome"][0] == NOT_RUN:
        return
    (_, direction, slopes), (_, fit, cells), *others = predictions.rows()
    found = f"{slopes} {cells}"
    second = [row for row in others if row[0].startswith(SECOND_HYPOTHESIS)]
    for rows, what in (
        ([row for row in others if row not in second], "about the experiment"),
        (second, "of a second hypothesis, that a list's best influence is proportional to its relevant items"),
    ):
        if rows:
            held = [outcome for _, outcome, _ in rows].count(CONFIRMED)
            found += f" Of {len(rows)} predictions {what}, written before it ran, {held} hold."
    yield Finding(f"{_DIRECTION[direction]}{_FIT[fit]}", with_minus_signs(found))


def law_sections(tables: Path, figures: Figures, *, synthetic: bool) -> Iterator[ReportSection]:
    """Return the section, if any of its tables or figures was made."""
    if blocks := (*figures.blocks(FIGURES, synthetic=synthetic), *table_blocks("law", tables)):
        yield ReportSection("law", "The law of list weights", _TEXT, blocks)
