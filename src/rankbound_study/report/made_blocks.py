"""The figures and tables of a results folder as blocks of the report, with what stands in their modules."""

from collections.abc import Iterator
from pathlib import Path

from rankbound_study.figures import figure_specs, title
from rankbound_study.report import tables
from rankbound_study.report.blocks import FigureBlock, TableBlock


def figure_block(name: str, *, synthetic: bool) -> FigureBlock:
    """Return a figure with its caption; the caption of a figure drawn from synthetic data begins by saying so."""
    spec = figure_specs()[name]
    label = "Synthetic data. " if synthetic and (spec.needs_runs or spec.needs) else ""
    return FigureBlock(name, title(name), label + spec.caption)


def table_blocks(section: str, folder: Path) -> Iterator[TableBlock]:
    """Yield what a section shows of the tables in a folder."""
    for name, spec in tables.table_specs().items():
        if spec.section == section and (folder / f"{name}.csv").exists():
            yield from tables.module_of(spec).blocks(name, folder)
