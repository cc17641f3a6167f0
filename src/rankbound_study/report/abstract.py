"""Write the abstract and the section on the law of list weights, as far as their tables were made."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from rankbound_study.claims import effects, law
from rankbound_study.claims.law import ALL, BOUNDS, MISMATCH, WEIGHTS
from rankbound_study.claims.rules import FLAT
from rankbound_study.claims.verdict import CONFIRMED, NOT_RUN
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.report.blocks import Finding, ReportSection
from rankbound_study.report.bounded_section import Bounded
from rankbound_study.report.claims_section import GENERATED, Claims
from rankbound_study.report.columns import signed, with_minus_signs
from rankbound_study.report.made_blocks import Figures, table_blocks
from rankbound_study.report.prose import finding, text
from rankbound_study.report.table_files import read_table
from rankbound_study.vocabulary import LOSSES

FILE = "abstract.md"
FIGURES = ("figure_law", "figure_weight_powers")
_MOST_RISE, _AS_WELL, _VANISHING = "T46", "T23", "T27"
"""The claims that bounding raises most means, that bounded losses do as well, and that a vanishing gradient explains
the collapse of nDCG under distribution bounding."""

_CHANGE = f"change_{WEIGHTS}"


def abstract(tables: Path, bounded: Bounded, claims: Claims) -> Iterator[ReportSection]:
    """Yield the section; nothing if the tables that it quotes were not made.

    Args:
        tables: the folder of the tables.
        bounded: Table 5.1, with the tests of the effect of bounding.
        claims: the claims with their verdicts.
    """
    law, means = _law_cells(tables), _means(tables)
    found = (
        *_where_weights_hardly_vary(law),
        *_affine(means, law),
        *_without_a_bound(law),
        *_distribution(means, claims),
        *_verdicts(bounded, claims),
    )
    if found:
        generated = [GENERATED] if bounded.summary["synthetic"] else []
        opening = " ".join([*generated, text(FILE, "question"), *_slope(tables)])
        yield ReportSection("abstract", "Abstract", opening, findings=found)


def _law_cells(tables: Path) -> pl.DataFrame:
    """Read the cells of the law that count; no rows if the table was not made."""
    table = _read(tables, law.NAME, law.COLUMNS)
    return table.filter(pl.col("same_as").fill_null("") == "")


def _means(tables: Path) -> pl.DataFrame:
    return _read(tables, effects.MEANS, effects.MEAN_COLUMNS)


def _read(tables: Path, name: str, columns: dict[str, pl.DataType]) -> pl.DataFrame:
    path = tables / f"{name}.csv"
    return read_table(path, columns) if path.exists() else pl.DataFrame(schema=columns)


def _slope(tables: Path) -> Iterator[str]:
    """Yield the slope of the law, and the verdict on it."""
    lines = _read(tables, law.LINES, law.LINE_COLUMNS)
    for line in lines.filter(predictor=MISMATCH, cells=ALL).iter_rows(named=True):
        yield text(FILE, "slope", **line)
        yield from (one.headline for one in law_findings(tables))


def _where_weights_hardly_vary(law: pl.DataFrame) -> Iterator[Finding]:
    flat = law.filter(pl.col(_CHANGE) < FLAT)
    if len(flat):
        size = flat.select(pl.col("effect").abs().mean()).item()
        yield finding(FILE, "flat", flat=FLAT, size=size, cells=len(flat))


def _affine(means: pl.DataFrame, law: pl.DataFrame) -> Iterator[Finding]:
    """Yield the mean effects of affine bounds by loss, beside the mean variation of their weights."""
    if rows := _by_loss(means, "affine"):
        bounds = {loss: law.filter(origin=BOUNDS, loss=loss).select(pl.col(_CHANGE).mean()).item() for loss in rows}
        variation = {loss: value for loss, value in bounds.items() if value is not None}
        yield finding(FILE, "affine", means=_listed(rows), variation=variation)


def _without_a_bound(law: pl.DataFrame) -> Iterator[Finding]:
    """Count the losses and data sets for which other weights, not permuted ones, score higher than every bound's."""
    leads = []
    for own in law.partition_by("dataset", "nsr", "loss", maintain_order=True):
        rows = own.select("origin", "weights", "effect").rows()
        of_bounds = [effect for origin, _, effect in rows if origin == BOUNDS]
        of_sizes = [effect for origin, one, effect in rows if origin != BOUNDS and not ListWeights.of(one).permuted]
        if of_bounds and of_sizes:
            leads.append(max(of_sizes) - max(0.0, *of_bounds))
    if leads:
        yield finding(FILE, "sizes", ahead=sum(lead > 0 for lead in leads), cases=len(leads), largest=max(leads))


def _distribution(means: pl.DataFrame, claims: Claims) -> Iterator[Finding]:
    if rows := _by_loss(means, "distribution"):
        verdict = claims.verdict(_VANISHING)
        yield finding(FILE, "distribution", means=_listed(rows), verdict=verdict if verdict != NOT_RUN else "")


def _verdicts(bounded: Bounded, claims: Claims) -> Iterator[Finding]:
    """Yield the verdicts on the two main claims, with the number of cells that differ significantly."""
    most_rise, as_well = claims.verdict(_MOST_RISE), claims.verdict(_AS_WELL)
    if not {most_rise, as_well} & {"", NOT_RUN}:
        tested = " ".join(one.headline for one in bounded.first_findings())
        yield finding(FILE, "verdicts", most_rise=most_rise, as_well=as_well, tested=tested)


def _by_loss(means: pl.DataFrame, bounds: str) -> dict[str, dict[str, float]]:
    rows = means.filter(pl.col("bounds") == bounds, pl.col("loss").is_in(LOSSES))
    return {row["loss"]: row for row in rows.iter_rows(named=True)}


def _listed(rows: dict[str, dict[str, float]]) -> str:
    return ", ".join(
        f"{signed(row['mean'])} [{signed(row['low'])}, {signed(row['high'])}] ({loss})" for loss, row in rows.items()
    )


def law_findings(folder: Path) -> Iterator[Finding]:
    """Report the verdicts on the law, with its slope; nothing if they were not decided."""
    predictions = _read(folder, law.PREDICTIONS, law.PREDICTION_COLUMNS)
    if predictions.is_empty() or predictions["outcome"][0] == NOT_RUN:
        return
    (_, direction, slopes), (_, fit, cells), *others = predictions.rows()
    second = [row for row in others if row[0].startswith(law.SECOND_HYPOTHESIS)]
    experiment = [row for row in others if row not in second]
    counts = {
        name: (len(rows), [outcome for _, outcome, _ in rows].count(CONFIRMED)) if rows else None
        for name, rows in (("experiment", experiment), ("second", second))
    }
    found = finding(FILE, "law-finding", direction=direction, fit=fit, slopes=slopes, cells=cells, **counts)
    yield replace(found, detail=with_minus_signs(found.detail))


def law_sections(tables: Path, figures: Figures, *, synthetic: bool) -> Iterator[ReportSection]:
    """Return the section on the law of list weights, if any of its tables or figures was made."""
    if blocks := (*figures.blocks(FIGURES, synthetic=synthetic), *table_blocks("law", tables)):
        yield ReportSection("law", "The law of list weights", text(FILE, "law"), blocks)
