"""Write the abstract, the findings on the law of list weights, and the section on related work, if there are tables."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import comparisons, effects, law
from rankbound_study.claims.law import ALL, BEST, BOUNDS, MISMATCH, SECOND, WEIGHTS
from rankbound_study.claims.rules import FLAT
from rankbound_study.claims.verdicts import CONFIRMED, NOT_RUN
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.claims_section import GENERATED, Claims
from rankbound_study.report.columns import with_minus, with_minus_signs
from rankbound_study.report.content import Finding, Paragraph, ReportSection, finding, paragraph, table_blocks
from rankbound_study.report.findings import Bounded
from rankbound_study.results.study_files import read_made, read_table
from rankbound_study.templates import text
from rankbound_study.vocabulary import AFFINE, LOSSES, UNBOUNDED

FILE = "abstract.md"
_MOST_RISE, _AS_WELL, _VANISHING = "T46", "T23", "T27"
"""The claims that bounding raises most means, that bounded losses do as well, and that a vanishing gradient explains
the collapse of nDCG under distribution bounding."""


def abstract(tables: Path, bounded: Bounded, claims: Claims) -> Iterator[ReportSection]:
    """Yield the section; nothing if the tables that it quotes were not made.

    Args:
        tables: the folder of the tables.
        bounded: Table 5.1, with the tests of the effect of bounding.
        claims: the claims with their verdicts.
    """
    cells = read_made(tables / f"{law.NAME}.csv", law.COLUMNS).filter(pl.col("same_as").fill_null("") == "")
    means = read_made(tables / f"{effects.MEANS}.csv", effects.MEAN_COLUMNS).filter(pl.col("loss").is_in(LOSSES))
    found = tuple(_findings(cells, means, bounded, claims))
    if found:
        generated = [GENERATED] if bounded.summary["synthetic"] else []
        opening = [*generated, text(FILE, "question")]
        # The slope of the law, and the verdict on it.
        lines = read_made(tables / f"{law.LINES}.csv", law.LINE_COLUMNS)
        for line in lines.filter(predictor=MISMATCH, cells=ALL).iter_rows(named=True):
            opening += [text(FILE, "slope", **line), *(one.headline for one in law_findings(tables))]
        yield ReportSection("abstract", "Abstract", " ".join(opening), findings=found)


def _findings(cells: pl.DataFrame, means: pl.DataFrame, bounded: Bounded, claims: Claims) -> Iterator[Finding]:
    """Yield the findings: `cells` are those of the law that count, `means` the mean effects by loss."""
    change = pl.col(f"change_{WEIGHTS}")
    if len(flat := cells.filter(change < FLAT)):
        size = flat.select(pl.col("effect").abs().mean()).item()
        yield finding(FILE, "flat", flat=FLAT, size=size, cells=len(flat))
    affine, distribution = (means.filter(pl.col("bounds") == kind) for kind in ("affine", "distribution"))
    if len(affine):
        bounds = {loss: cells.filter(origin=BOUNDS, loss=loss).select(change.mean()).item() for loss in affine["loss"]}
        variation = {loss: value for loss, value in bounds.items() if value is not None}
        yield finding(FILE, "affine", means=affine.to_dicts(), variation=variation)
    # The weights that the second hypothesis named before its runs.
    registered = cells.filter(pl.col("origin") == SECOND, pl.col("weights") == pl.col("loss").replace_strict(BEST))
    if len(registered):
        effects = registered["effect"]
        counts = {"cases": len(effects), "ahead": (effects > 0).sum(), "shown": (registered["low"] > 0).sum()}
        yield finding(FILE, "sizes", least=effects.min(), most=effects.max(), **counts)
    if len(distribution):
        verdict = claims.verdict(_VANISHING)
        verdict = "" if verdict == NOT_RUN else verdict
        yield finding(FILE, "distribution", means=distribution.to_dicts(), verdict=verdict)
    most_rise, as_well = claims.verdict(_MOST_RISE), claims.verdict(_AS_WELL)
    if not {most_rise, as_well} & {"", NOT_RUN}:
        tested = " ".join(one.headline for one in bounded.tested)
        yield finding(FILE, "verdicts", most_rise=most_rise, as_well=as_well, tested=tested)


def law_outcomes(folder: Path) -> dict[str, Any] | None:
    """Return the verdicts on the law and its fit with what was found, and how many predictions were made and hold.

    None if they were not decided.
    """
    predictions = read_made(folder / f"{law.PREDICTIONS}.csv", law.PREDICTION_COLUMNS)
    if predictions.is_empty() or predictions["outcome"][0] == NOT_RUN:
        return None
    (_, direction, slopes), (_, fit, cells), *others = predictions.rows()
    second = [outcome for name, outcome, _ in others if name.startswith(law.SECOND_HYPOTHESIS)]
    experiment = [outcome for name, outcome, _ in others if not name.startswith(law.SECOND_HYPOTHESIS)]
    counts = {
        name: (len(outcomes), outcomes.count(CONFIRMED)) if outcomes else None
        for name, outcomes in (("experiment", experiment), ("second", second))
    }
    return {"direction": direction, "fit": fit, "slopes": slopes, "cells": cells, **counts}


def law_findings(folder: Path) -> Iterator[Finding]:
    """Report the verdicts on the law, with its slope; nothing if they were not decided."""
    if outcomes := law_outcomes(folder):
        found = finding(FILE, "law-finding", **outcomes)
        yield replace(found, detail=with_minus_signs(found.detail))


RELATED = "related.md"


def related_sections(tables: Path, honest: pl.DataFrame) -> Iterator[ReportSection]:
    """Yield the section on what each paper finds, what it predicts here, and our number, if its table was made.

    Args:
        tables: the folder of the tables.
        honest: Table 5.1 of the honest protocol, which counts trainings.
    """
    if not (tables / f"{comparisons.RELATED}.csv").exists():
        return
    orders = read_table(tables / f"{comparisons.RELATED}.csv", comparisons.ORDER_COLUMNS)
    gradients = read_table(tables / f"{comparisons.GRADIENTS}.csv", comparisons.GRADIENT_COLUMNS)
    ranks = read_table(tables / f"{comparisons.RANKS}.csv", comparisons.RANK_COLUMNS)
    trained = honest.filter(pl.col("as_printed"), pl.col("loss") != "none", pl.col("n_trainings") > 0)
    paragraphs = _findings_of_others(orders, trained, gradients, ranks)
    title, opening = "Related work and what it predicts here", text(RELATED, "opening")
    yield ReportSection("related", title, opening, (*paragraphs, *table_blocks("related", tables)))


def _findings_of_others(
    orders: pl.DataFrame, trained: pl.DataFrame, gradients: pl.DataFrame, ranks: pl.DataFrame
) -> Iterator[Paragraph]:
    """Yield what others found beside our numbers: orders of systems, trainings, gradients, and soft ranks."""
    upper_lower, min_max = orders.filter(bound="expectation-max"), orders.filter(bound="min-max", metric="nDCG")
    for name, own in (("upper-lower", upper_lower), ("min-max", min_max)):
        if len(own):
            counts = own.select("pairs", "significant", "significant_bounded", "gained", "lost").sum()
            yield paragraph(RELATED, name, found=text(RELATED, "significant", **counts.row(0, named=True)))
    if len(known := orders.filter(pl.col("tau").is_not_null())):
        lowest = known.sort("tau").row(0, named=True)
        sums = known.select("pairs", "inverted", "exchanged").sum().row(0, named=True)
        where, tau = DataSet(lowest["dataset"], lowest["nsr"]).label, with_minus(f"{lowest['tau']:.2f}")
        yield paragraph(RELATED, "inconsistent", **lowest | sums | {"where": where, "tau": tau})
    if len(trained):
        kinds = {"affine bounds": AFFINE, "distribution bounding": ("distribution",), "no bounding": (UNBOUNDED,)}
        stalled = {
            kind: trained.filter(pl.col("bounding").is_in(names)).select("n_untrained", "n_trainings").sum().row(0)
            for kind, names in kinds.items()
        }
        yield paragraph(RELATED, "stalled", counts={kind: pair for kind, pair in stalled.items() if pair[1]})
    plain = {row["loss"]: row for row in gradients.filter(bound=UNBOUNDED).iter_rows(named=True)}
    if plain:
        shares = {loss: 100 * plain[loss]["incoherent"] / plain[loss]["pairs"] for loss in LOSSES if loss in plain}
        rows = gradients.iter_rows(named=True)
        differing = sum(row["incoherent"] != plain[row["loss"]]["incoherent"] for row in rows)
        yield paragraph(RELATED, "incoherent", shares=shares, differing=differing)
    by_metric = {}
    for (metric,), own in ranks.group_by("metric", maintain_order=True):
        differ, changes = own.filter(pl.col("p_value") <= LEVEL)["difference"], own["difference"].sort()
        sides = {"higher": (differ > 0).sum(), "lower": (differ < 0).sum(), "sets": len(own)}
        by_metric[metric] = {"lowest": changes[0], "highest": changes[-1], **sides}
    if by_metric:
        yield paragraph(RELATED, "soft-ranks", by_metric=by_metric)
