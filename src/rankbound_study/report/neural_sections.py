"""Build the report's sections on the neural-ranking study: facts, claims, tables and figures."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rankbound_study.figures import figure_file, figure_specs
from rankbound_study.report import neural_feature_layout, neural_layout
from rankbound_study.report.blocks import Section, TableBlock
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.figure_block import figure_block
from rankbound_study.report.neural_facts import facts
from rankbound_study.report.neural_results import Results, read_results
from rankbound_study.results.neural_features import FeatureResults

SOURCE = "N"
"""First letter of the ids of this study's claims."""

_TEXT = (
    "The paper Application of Neural Networks in Ranking compares methods that rank, classify and regress. This "
    "section has facts that no claim covers, then the paper's claims, tables and figures. The validation part picks "
    "every method's epoch and the best of several methods. The people in the pictures are unknown: near duplicates are "
    "kept in one part of the split, but a person may appear in two."
)
_GENERATED = "The tables and figures below show generated data, which decide no claim about the literature."


@dataclass(frozen=True)
class Neural:
    """The study's tables, and its scores by the number of features if they were made."""

    results: list[Results]
    by_features: FeatureResults | None

    @classmethod
    def read(cls, tables: Path) -> "Neural":
        """Read the tables in a folder."""
        return cls(read_results(tables), FeatureResults.read(tables))

    def sections(self, folder: Path, claims: Claims) -> Iterator[Section]:
        """Yield the study's sections, with the figures in a results folder; nothing if the study has no tables."""
        if not self.results:
            return
        synthetic = any(table.synthetic for table in self.results)
        listed = () if all(table.synthetic for table in self.results) else claims.of_source(SOURCE)
        tables = (*listed, *map(_table, self.results), *self._feature_tables())
        text = f"{_TEXT} {_GENERATED}" if synthetic else _TEXT
        yield Section("neural", "Neural networks in ranking", text, tables, tuple(facts(self.results)))
        names = [name for name in figure_specs() if name.startswith("figure_neural_")]
        names = [name for name in names if figure_file(folder, name, ".svg").exists()]
        drawn = tuple(figure_block(name, synthetic=synthetic) for name in names)
        yield Section("neural-figures", "Figures of neural ranking", "", drawn)

    def _feature_tables(self) -> Iterator[TableBlock]:
        for block in neural_feature_layout.blocks(self.by_features) if self.by_features else ():
            header = (*block.header[:2], *(f"{count} features" for count in block.header[2:]))
            caption = f"{block.name}. {neural_feature_layout.CAPTION}"
            yield replace(block, name=neural_feature_layout.TITLE, caption=caption, header=header)


def _table(results: Results) -> TableBlock:
    (block,) = neural_layout.blocks(results.scores, results.about)
    name = f"Table {results.about.number}, {results.about.title}"
    return replace(block, name=name, caption=f"{block.name}. {neural_layout.caption(results.scores, results.about)}")
