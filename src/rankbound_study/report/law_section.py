"""Build the section on the law of list weights, and its finding."""

from collections.abc import Iterator
from pathlib import Path

from rankbound_study.claims.law_table import NAME, PREDICTION_COLUMNS, PREDICTIONS
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.figures import figure_file
from rankbound_study.report.blocks import FigureBlock, ReportSection, TableBlock
from rankbound_study.report.findings import Finding
from rankbound_study.report.made_blocks import figure_block, table_blocks
from rankbound_study.report.table_files import read_table
from rankbound_study.report.typeset_numbers import with_minus_signs

FIGURES = ("figure_law", "figure_weight_powers")

_TEXT = (
    "Affine bounds multiply a list's gradient by a weight and do nothing else. The influence of a list is its weight "
    "times the range of its loss over all orders; its mismatch is the influence over the range of the metric that "
    "judges the loss. The law: weights gain where they make the mismatch more equal between lists, lose where they "
    "make it less equal, and do nothing else. docs/law.md has the formulas and the prediction."
)
_HEADLINES = {
    CONFIRMED: "Bounding equalises the influence of lists: for every loss, its effect falls with their mismatch.",
    REFUTED: "The law that bounding helps by equalising the influence of lists fails.",
    INCONCLUSIVE: "That bounding helps by equalising the influence of lists is not shown for every loss.",
}


def law_findings(folder: Path) -> Iterator[Finding]:
    """Report the verdict on the law, with its slope; nothing if it was not decided."""
    if not (folder / f"{NAME}.csv").exists():
        return
    predictions = read_table(folder / f"{PREDICTIONS}.csv", PREDICTION_COLUMNS)
    if predictions.is_empty() or predictions["outcome"][0] == NOT_RUN:
        return
    _, outcome, found = predictions.row(0)
    others = predictions["outcome"][1:].to_list()
    held = (
        f" Of {len(others)} predictions written before the experiment, {others.count(CONFIRMED)} hold."
        if others
        else ""
    )
    yield Finding(_HEADLINES[outcome], with_minus_signs(f"{found}{held}"))


def law_sections(results: Path, *, synthetic: bool) -> Iterator[ReportSection]:
    """Return the section, if any of its tables or figures was made."""
    figures = [name for name in FIGURES if figure_file(results, name, ".svg").exists()]
    blocks: tuple[FigureBlock | TableBlock, ...] = (
        *(figure_block(name, synthetic=synthetic) for name in figures),
        *table_blocks("law", results / "tables"),
    )
    if blocks:
        yield ReportSection("law", "The law of list weights", _TEXT, blocks)
