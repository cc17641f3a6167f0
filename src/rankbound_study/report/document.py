"""Build the report's content from the tables and figures of a results folder.

The content is independent of HTML and Typst. All results are computed: findings come from `findings`, and verdicts are
quoted from the table of claims.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound_study.figures import figure_file, figure_specs
from rankbound_study.provenance.manifest import Manifest, check_recorded, read_manifest
from rankbound_study.report.blocks import Cell, Document, Section, TableBlock
from rankbound_study.report.bounded_section import Bounded
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.figure_block import figure_block
from rankbound_study.report.methods_section import methods_section
from rankbound_study.report.neural_sections import Neural
from rankbound_study.report.provenance_section import provenance_section
from rankbound_study.results.made_files import reading


def build(results: Path, provenance: Path | None = None) -> Document:
    """Read the tables and figures in DIR (and DIR/runs.parquet for the settings) into a document.

    Args:
        results: DIR.
        provenance: the file written by `python -m rankbound_study provenance`, for the last section.

    Raises:
        DataError: Table 5.1 or its summary is missing, the provenance cannot be read, or a table or figure differs
            from the record.
    """
    manifest = None if provenance is None else read_manifest(provenance)
    if manifest is not None:
        check_recorded(results, manifest, ("tables/", "figures/", "licensed/"))
    bounded = Bounded.read(results / "tables")
    neural = Neural.read(results / "tables")
    claims = Claims.read(results / "tables")
    synthetic = bounded.summary["synthetic"]
    first = (*bounded.first_findings(), *claims.findings(synthetic=synthetic), *bounded.findings(claims))
    return Document(
        title="User/query-wise metric bounding and neural networks in learning to rank, reproduced",
        subtitle=f"Every table and figure of both studies, regenerated — {bounded.protocols}",
        synthetic=synthetic,
        sections=(
            Section("findings", "Findings", "", findings=first),
            _methods(provenance, manifest),
            *claims.sections(),
            bounded.section(),
            *_figure_sections(results, synthetic=synthetic),
            _worked_section(results / "tables"),
            *neural.sections(results, claims),
            provenance_section(results, bounded.table, manifest),
        ),
    )


def _methods(provenance: Path | None, manifest: Manifest | None) -> Section:
    if provenance is None or manifest is None:
        return methods_section(None)
    with reading(provenance):
        return methods_section(manifest.config)


def _figure_sections(results: Path, *, synthetic: bool) -> Iterator[Section]:
    groups: dict[str, tuple[str, tuple[str, ...]]] = {
        "results": ("Figures of the results", ("figure_5_",)),
        "bounds": ("Figures of the bounds", ("figure_1_", "figure_3_")),
        "linear": ("Linear NDCG and pair-wise error", ("figure_linear_",)),
    }
    for anchor, (title, prefixes) in groups.items():
        names = [name for name in figure_specs() if name.startswith(prefixes)]
        missing = [name for name in names if not figure_file(results, name, ".svg").exists()]
        blocks = tuple(figure_block(name, synthetic=synthetic) for name in names if name not in missing)
        text = f"Not drawn: {', '.join(missing)}." if missing else ""
        yield Section(anchor, title, text, blocks)


def _worked_section(folder: Path) -> Section:
    from rankbound_study.claims.worked import CAPTIONS, title

    blocks, held, printed = [], 0, 0
    for name, caption in CAPTIONS.items():
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        with reading(path):
            # Some of these texts look like numbers, so their types are not inferred.
            texts = dict.fromkeys(("part", "row", "quantity", "printed"), pl.String)
            table = pl.read_csv(path, schema_overrides={**texts, "ours": pl.Float64, "holds": pl.Boolean})
            table.select("part", "row", "quantity", "ours", "printed", "holds")
        held += int(table["holds"].sum())
        printed += int(table["holds"].count())
        rows = tuple(
            (
                Cell(row["part"]),
                Cell(row["row"]),
                Cell(row["quantity"]),
                Cell(f"{row['ours']:.4f}"),
                Cell(row["printed"] or "–"),
                Cell({True: "yes", False: "NO", None: "–"}[row["holds"]], strong=row["holds"] is False),
            )
            for row in table.iter_rows(named=True)
        )
        header = ("list", "row", "quantity", "ours", "printed", "holds")
        blocks.append(TableBlock(title(name), caption, header, rows, labels=3))
    text = (
        f"{held} of {printed} printed values hold: ours rounds to them. A dash marks values missing from the text."
        if blocks
        else "No worked table has been made."
    )
    return Section("worked", "Worked tables", text, tuple(blocks), columns=2)
