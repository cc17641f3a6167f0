"""The report's content, built from the tables and figures of a results folder; the renderers give it a shape.

Nothing here knows of HTML or Typst, and no result is typed: findings are computed by `rankbound.paper.findings`.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import DataError
from rankbound.paper import flattery, scores, sensitivity, table_layout, tables
from rankbound.paper.blocks import Cell, Document, Section, TableBlock, figure_block
from rankbound.paper.certainty import SURE
from rankbound.paper.claims_section import Claims
from rankbound.paper.figures import FIGURES
from rankbound.paper.findings import findings
from rankbound.paper.honest_findings import honest_findings
from rankbound.paper.made_files import reading
from rankbound.paper.neural_sections import Neural
from rankbound.paper.provenance_section import provenance_section
from rankbound.provenance.manifest import check_recorded, read_manifest


def build(results: Path, provenance: Path | None = None) -> Document:
    """Read DIR/tables and DIR/figures (and DIR/runs.parquet for the settings) into a document.

    Args:
        results: DIR.
        provenance: what is known of the results' making (`rankbound provenance`), for the last section.

    Raises:
        DataError: Table 5.1 or its summary is missing, the provenance cannot be read, or a table or figure is not what
            it has recorded.
    """
    manifest = None if provenance is None else read_manifest(provenance)
    if manifest is not None:
        check_recorded(results, manifest, ("tables", "figures"))
    table = _read_table(results / "tables" / "table_5_1.csv")
    summary = _read_summary(results / "tables" / "table_5_1_summary.json")
    neural = Neural.read(results / "tables")
    claims = Claims.read(results / "tables")
    honest = _honest_table(results / "tables")
    by_honest = _read_summary(results / "tables" / "table_5_1_honest_summary.json") if len(honest) else None
    told = (
        *honest_findings(honest),
        *claims.findings(),
        *findings(table, summary, by_honest),
        *neural.refuted(),
    )
    protocol = scores.PROTOCOLS.get(summary["protocol"], "no runs")
    protocols = "published and honest protocols" if len(honest) else protocol
    return Document(
        title="User/query-wise metric bounding and neural networks in learning to rank, done again",
        subtitle=f"Every table and figure of both studies, regenerated — {protocols}",
        synthetic=summary["synthetic"],
        sections=(
            Section("findings", "Findings", "", findings=told),
            *claims.sections(),
            Section("table-5-1", "Table 5.1", "", (_table_5_1(table, protocol), *_beside(honest, results / "tables"))),
            *_figure_sections(results / "figures", synthetic=summary["synthetic"]),
            _worked_section(results / "tables"),
            *neural.sections(results / "figures"),
            provenance_section(results, table, manifest),
        ),
    )


def _read_table(path: Path) -> pl.DataFrame:
    if not path.exists():
        raise DataError(
            f"{path} is missing: make it with `rankbound table table_5_1 --runs ... --out-dir {path.parent}`"
        )
    with reading(path):
        return pl.read_csv(path, schema=tables.COLUMNS)


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.exists():
        name = path.name.removesuffix("_summary.json")
        raise DataError(f"{path} is missing: it is written together with {name}.csv by `rankbound table {name}`")
    with reading(path):
        summary: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := {"protocol", "synthetic"} - set(summary):
            raise KeyError(f"without {', '.join(sorted(missing))}")
    return summary


def _table_5_1(table: pl.DataFrame, protocol: str) -> TableBlock:
    sets, rows = table_layout.layout(table)
    cells, rules, previous = [], set(), None
    for index, row in enumerate(rows):
        if row.metric != previous:
            rules.add(index)
        previous = row.metric
        values = (Cell(cell.text, cell.note, cell.best, cell.increase) for cell in row.cells)
        first = Cell("control" if row.control else row.loss, emphasis=row.control)
        cells.append((first, Cell(row.name), Cell(row.metric), *values))
    beside = "Ours, and the thesis' score beside it in small type. " if table["published"].count() else ""
    if table_layout.is_honest(table):
        beside = (
            "In small type half of its 95 % interval, over topics and trainings, with an arrow where a bounded loss "
            f"ranks surely better or worse than the unbounded one ({SURE}). "
        )
    return TableBlock(
        "Table 5.1",
        f"Mean score over the test lists, {protocol}. {beside}Bold: best bounding of its loss; italic: above the "
        "unbounded loss. Controls are not trained.",
        ("trained on", "bounding", "scored by", *(data_set.label for data_set in sets)),
        tuple(cells),
        labels=3,
        rules=frozenset(rules),
        sortable=True,
    )


def _honest_table(folder: Path) -> pl.DataFrame:
    """Table 5.1 by the honest protocol; no rows where it was not made."""
    path = folder / "table_5_1_honest.csv"
    return _read_table(path) if path.exists() else pl.DataFrame(schema=tables.COLUMNS)


def _beside(table: pl.DataFrame, folder: Path) -> Iterator[TableBlock]:
    """Table 5.1 by the honest protocol, what the other one flatters, and how much unstated choices matter."""
    if len(table):
        yield replace(_table_5_1(table, scores.PROTOCOLS["honest"]), name="Table 5.1, honest protocol")
    for of in (flattery, sensitivity):
        path = folder / f"{of.NAME}.csv"
        if path.exists():
            with reading(path):
                rows = tuple(tuple(map(Cell, cells)) for cells in of.rows(pl.read_csv(path, schema=of.COLUMNS)))
            if rows:
                yield TableBlock(of.TITLE, of.CAPTION, of.HEADER, rows, of.LABELS, sortable=True)


def _figure_sections(folder: Path, *, synthetic: bool) -> Iterator[Section]:
    groups: dict[str, tuple[str, tuple[str, ...]]] = {
        "results": ("Figures of the results", ("figure_5_",)),
        "bounds": ("Figures of the bounds", ("figure_1_", "figure_3_")),
        "linear": ("Linear NDCG and pair-wise error", ("figure_linear_",)),
    }
    for anchor, (title, prefixes) in groups.items():
        names = [name for name in FIGURES if name.startswith(prefixes)]
        missing = [name for name in names if not (folder / f"{name}.svg").exists()]
        blocks = tuple(figure_block(name, synthetic=synthetic) for name in names if name not in missing)
        text = f"Not drawn: {', '.join(missing)}." if missing else ""
        yield Section(anchor, title, text, blocks)


def _worked_section(folder: Path) -> Section:
    from rankbound.paper.worked import CAPTIONS, title

    blocks, held, printed = [], 0, 0
    for name, caption in CAPTIONS.items():
        path = folder / f"{name}.csv"
        if not path.exists():
            continue
        with reading(path):
            # Stated, not guessed: some of these texts look like numbers.
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
        f"{held} of {printed} printed values hold: ours rounds to them. A dash marks what cannot be read in the text."
        if blocks
        else "No worked table has been made."
    )
    return Section("worked", "Worked tables", text, tuple(blocks), columns=2)
