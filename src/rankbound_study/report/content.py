"""The figures and tables that a results folder has, as blocks of the report with what stands in their modules."""

from collections.abc import Iterator, Mapping
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
        synthetic: their data are generated.
    """

    folder: Path
    remarks: Mapping[str, str] = field(default_factory=dict)
    synthetic: bool = False

    def blocks(self, *prefixes: str) -> Iterator[FigureBlock | Paragraph]:
        """Yield each figure whose name begins so and that is there, and for others a paragraph with their remark.

        The caption of a figure drawn from synthetic data begins by saying so.
        """
        for name, spec in figure_specs().items():
            if name.startswith(prefixes) and self._is_there(name):
                label = "Synthetic data. " if self.synthetic and spec.needs else ""
                yield FigureBlock(name, title(name), label + spec.caption)
            elif name.startswith(prefixes) and name in self.remarks:
                yield Paragraph(title(name), f"{spec.caption} {self.remarks[name]}")

    def missing(self, *prefixes: str) -> list[str]:
        """Return the names that begin so of figures that are not there and have no remark."""
        names = (name for name in figure_specs() if name.startswith(prefixes) and name not in self.remarks)
        return [name for name in names if not self._is_there(name)]

    def _is_there(self, name: str) -> bool:
        return figure_file(self.folder, name, ".svg").exists()


def table_blocks(section: str, folder: Path) -> Iterator[TableBlock]:
    """Yield what a section shows of the tables in a folder."""
    for name, spec in table_specs().items():
        if spec.section == section and (folder / f"{name}.csv").exists():
            yield from spec.shown(name, folder)
