"""The neural-ranking study in the report: its claims, facts beside them, its tables and figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rankbound_study.figures import FIGURES
from rankbound_study.report.blocks import Cell, Section, TableBlock, figure_block
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.neural_facts import facts
from rankbound_study.report.neural_feature_layout import CAPTION as FEATURES_CAPTION
from rankbound_study.report.neural_feature_layout import TITLE as FEATURES_TITLE
from rankbound_study.report.neural_feature_layout import layout as features_layout
from rankbound_study.report.neural_layout import Wide
from rankbound_study.report.neural_layout import caption as neural_caption
from rankbound_study.report.neural_layout import layout as neural_layout
from rankbound_study.report.neural_results import Results, read_results
from rankbound_study.results.neural_features import FeatureResults

SOURCE = "N"
"""The letter of this study's claims."""

_TEXT = (
    "The paper Application of Neural Networks in Ranking compares methods that rank, classify and regress. Below: "
    "facts that no claim is about, then its claims, tables and figures. The validation part picks every method's "
    "epoch, and the best of several methods. The people on the pictures are not known: near duplicates share a part of "
    "the split, but one person may stand in two."
)
_GENERATED = "No claim about the literature is decided by generated data, which the tables and figures below are of."


@dataclass(frozen=True)
class Neural:
    """What has been made of the study: its tables, and the scores by the number of features."""

    results: list[Results]
    by_features: FeatureResults | None

    @classmethod
    def read(cls, tables: Path) -> "Neural":
        """From the folder of the tables."""
        return cls(read_results(tables), FeatureResults.read(tables))

    def sections(self, figures: Path, claims: Claims) -> Iterator[Section]:
        """Its sections, with the figures that lie in the folder; none if it has no tables."""
        if not self.results:
            return
        synthetic = any(table.synthetic for table in self.results)
        listed = () if all(table.synthetic for table in self.results) else claims.of_source(SOURCE)
        tables = (*listed, *map(_table, self.results), *self._feature_tables())
        text = f"{_TEXT} {_GENERATED}" if synthetic else _TEXT
        yield Section("neural", "Neural networks in ranking", text, tables, tuple(facts(self.results)))
        names = [name for name in FIGURES if name.startswith("figure_neural_") and (figures / f"{name}.svg").exists()]
        drawn = tuple(figure_block(name, synthetic=synthetic) for name in names)
        yield Section("neural-figures", "Figures of neural ranking", "", drawn)

    def _feature_tables(self) -> Iterator[TableBlock]:
        for wide in features_layout(self.by_features) if self.by_features else ():
            header = ("family", "method", *(f"{count} features" for count in wide.header))
            yield _block(FEATURES_TITLE, f"{wide.title}. {FEATURES_CAPTION}", header, wide)


def _table(results: Results) -> TableBlock:
    (wide,) = neural_layout(results.scores, results.about)
    name = f"Table {results.about.number}, {results.about.title}"
    caption = f"{wide.title}. {neural_caption(results.scores, results.about)}"
    return _block(name, caption, ("family", "method", *wide.header), wide)


def _block(name: str, caption: str, header: tuple[str, ...], wide: Wide) -> TableBlock:
    return TableBlock(
        name,
        caption,
        header,
        tuple(
            (Cell(row.family), Cell(row.method, strong=row.best), *(Cell(text) for text in row.cells))
            for row in wide.rows
        ),
        labels=2,
        rules=frozenset(
            {index for index, row in enumerate(wide.rows) if index and row.family != wide.rows[index - 1].family}
        ),
        sortable=True,
    )
