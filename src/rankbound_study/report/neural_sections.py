"""Build the report's sections on the neural-ranking study: facts, claims, tables and figures."""

from collections.abc import Iterator
from pathlib import Path

from rankbound_study.figures import figure_specs
from rankbound_study.report.blocks import ReportSection
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.made_blocks import Figures, table_blocks
from rankbound_study.report.neural_facts import facts
from rankbound_study.report.neural_results import read_results

SOURCE = "N"
"""First letter of the ids of this study's claims."""

_TEXT = (
    "The paper Application of Neural Networks in Ranking compares methods that rank, classify and regress. This "
    "section has facts that no claim covers, then the paper's claims, tables and figures. The validation part picks "
    "every method's epoch and the best of several methods. The people in the pictures are unknown: near duplicates are "
    "kept in one part of the split, but a person may appear in two."
)
_GENERATED = "The tables and figures below show generated data, which decide no claim about the literature."


def neural_sections(tables: Path, figures: Figures, claims: Claims) -> Iterator[ReportSection]:
    """Yield the study's sections; nothing if the study has no tables."""
    results = read_results(tables)
    if not results:
        return
    synthetic = any(table.synthetic for table in results)
    listed = () if all(table.synthetic for table in results) else claims.of_source(SOURCE)
    text = f"{_TEXT} {_GENERATED}" if synthetic else _TEXT
    shown = (*listed, *table_blocks("neural", tables))
    yield ReportSection("neural", "Neural networks in ranking", text, shown, tuple(facts(results)))
    names = [name for name in figure_specs() if name.startswith("figure_neural_")]
    drawn = tuple(figures.blocks(names, synthetic=synthetic))
    yield ReportSection("neural-figures", "Figures of neural ranking", "", drawn)
