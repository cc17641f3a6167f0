"""Build the report's content from the tables and figures of a results folder.

The content is independent of HTML and Typst. All results are computed: findings come from `findings`, and verdicts are
quoted from the table of claims.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rankbound_study.provenance.checksums import Places
from rankbound_study.provenance.manifest import check_recorded, read_manifest
from rankbound_study.report.blocks import Document, ReportSection
from rankbound_study.report.claims import Claims
from rankbound_study.report.content import Figures, table_blocks
from rankbound_study.report.findings import (
    Bounded,
    abstract,
    crossed_findings,
    distribution_findings,
    law_findings,
    related_sections,
)
from rankbound_study.report.methods import left_out_blocks, methods_section, provenance_section
from rankbound_study.report.sections import Leaderboard, neural_sections
from rankbound_study.report.tables.sources import HOLDS
from rankbound_study.results.study_files import reading
from rankbound_study.templates import text, titled

_SECTIONS = {
    "law": ("The law of list weights", ("figure_law", "figure_weight_powers")),
    "effects": ("Effects of bounding", ("figure_effects",)),
    "crossed": ("Judged otherwise than trained", ()),
    "evaluation": ("Samplings of negatives, and popularity", ()),
    "regimes": ("Where bounding helps", ("figure_regimes",)),
    "citeulike": ("CiteULike-a", ()),
    "results": ("Figures of the results", ("figure_5_", "figure_bounding_", "figure_cut_", "figure_gradients")),
    "bounds": ("Figures of the bounds", ("figure_1_", "figure_3_")),
    "linear": ("Linear NDCG and pair-wise error", ("figure_linear_",)),
}
"""Anchor -> title and first words of the names of the figures of a section."""


def build(
    results: Path, provenance: Path | None = None, instances: Sequence[Path] = (), figures: Figures | None = None
) -> Document:
    """Read the tables and figures in DIR (and DIR/runs.parquet for the settings) into a document.

    Args:
        results: DIR.
        provenance: the file written by `python -m rankbound_study provenance`, for the last section.
        instances: files of instances that count whom they leave out.
        figures: figures of another folder than DIR, or remarks on missing ones.

    Raises:
        DataError: Table 5.1 is missing, the provenance cannot be read, or a table or figure differs
            from the record.
    """
    tables = results / "tables"
    manifest = None if provenance is None else read_manifest(provenance)
    if manifest is not None:
        check_recorded(Places(results), manifest, ("tables/", "figures/", "licensed/"))
    bounded = Bounded.read(tables)
    claims = Claims.read(tables)
    board = Leaderboard.read(tables, manifest)
    synthetic = bounded.synthetic
    figures = replace(figures or Figures(results), synthetic=synthetic)
    first = (
        *board.findings(),
        *law_findings(tables),
        *bounded.tested,
        *crossed_findings(tables),
        *distribution_findings(tables),
        *claims.findings(synthetic=synthetic),
        *bounded.findings(claims, tested=len(board.table) > 0),
    )
    # Of the reproduced studies, or of one on other data.
    names = list(dict.fromkeys(data_set.dataset for data_set in bounded.data_sets))
    heading = "title" if bounded.reproduced else "title-of-others"
    title, subtitle = titled("findings.md", heading, names=names, protocols=bounded.protocols)
    worked = []
    if (blocks := tuple(table_blocks("worked", tables))) or bounded.reproduced:
        marks = [row[-1].text for block in blocks for row in block.rows]
        holding, failing = (marks.count(HOLDS[holds]) for holds in (True, False))
        opening = text("findings.md", "worked", made=bool(blocks), holding=holding, printed=holding + failing)
        worked.append(ReportSection("worked", "Worked tables", opening, blocks, columns=2))
    with reading(provenance or results):
        methods = methods_section(None if manifest is None else manifest.config, left_out_blocks(instances))
    return Document(
        title=title,
        subtitle=subtitle,
        synthetic=synthetic,
        sections=(
            *abstract(tables, bounded, claims),
            *claims.sections(),
            ReportSection("findings", "Findings", "", findings=first),
            *board.sections(results, figures),
            *further_sections(tables, figures, "law", "effects"),
            methods,
            bounded.section(),
            *further_sections(tables, figures, "crossed", "evaluation", "regimes", "citeulike"),
            *related_sections(tables, bounded.honest),
            *further_sections(tables, figures, "results", "bounds", "linear", reproduced=bounded.reproduced),
            *worked,
            *neural_sections(tables, figures, claims),
            provenance_section(results, bounded.table, manifest),
            *(() if bounded.reproduced else board.advice()),
        ),
    )


def further_sections(
    tables: Path, figures: Figures, *anchors: str, reproduced: bool = False
) -> Iterator[ReportSection]:
    """Yield sections by their anchors, each with its figures and tables, as far as these were made.

    Those of a study that is `reproduced` name the figures that were not drawn, and are there without any.
    """
    for anchor in anchors:
        title, prefixes = _SECTIONS[anchor]
        blocks = (*figures.blocks(*prefixes), *table_blocks(anchor, tables))
        missing = figures.missing(*prefixes) if reproduced else []
        opening = f"Not drawn: {', '.join(missing)}." if missing else ""
        if blocks or reproduced:
            yield ReportSection(anchor, title, text("findings.md", "law") if anchor == "law" else opening, blocks)
