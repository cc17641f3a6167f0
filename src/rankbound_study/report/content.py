"""The figures and tables that a results folder has, as blocks of the report with what stands in their modules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rankbound_study.figures import figure_file, figure_specs, title
from rankbound_study.report.blocks import FigureBlock, Paragraph, TableBlock
from rankbound_study.report.tables import table_specs


@dataclass(frozen=True)
class Figures:
    """The figures of a report.

    Attributes:
        folder: the results folder that has their files.
        remarks: what the report says of a figure that is not there, by its name. Others are left out.
    """

    folder: Path
    remarks: Mapping[str, str] = field(default_factory=dict)

    def blocks(self, names: Iterable[str], *, synthetic: bool) -> Iterator[FigureBlock | Paragraph]:
        """Yield each figure that is there, and for others a paragraph with caption and remark, if they have one.

        The caption of a figure drawn from synthetic data begins by saying so.
        """
        for name in names:
            spec = figure_specs()[name]
            if figure_file(self.folder, name, ".svg").exists():
                label = "Synthetic data. " if synthetic and spec.needs else ""
                yield FigureBlock(name, title(name), label + spec.caption)
            elif name in self.remarks:
                yield Paragraph(title(name), f"{spec.caption} {self.remarks[name]}")


def figures_named(*prefixes: str) -> list[str]:
    """Return the names of all figures that begin so, in their order."""
    return [name for name in figure_specs() if name.startswith(prefixes)]


def table_blocks(section: str, folder: Path) -> Iterator[TableBlock]:
    """Yield what a section shows of the tables in a folder."""
    for name, spec in table_specs().items():
        if spec.section == section and (folder / f"{name}.csv").exists():
            yield from spec.shown(name, folder)
