"""Write the section on related work: what each paper finds, what it predicts for this study, and our number."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.related import COLUMNS, GRADIENT_COLUMNS, GRADIENTS, NAME, RANK_COLUMNS, RANKS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Paragraph, ReportSection
from rankbound_study.report.columns import with_minus
from rankbound_study.report.made_blocks import table_blocks
from rankbound_study.report.prose import paragraph, text
from rankbound_study.report.table_files import read_table
from rankbound_study.vocabulary import AFFINE, LOSSES, UNBOUNDED

FILE = "related.md"


def related_sections(tables: Path, honest: pl.DataFrame) -> Iterator[ReportSection]:
    """Yield the section, if its table was made.

    Args:
        tables: the folder of the tables.
        honest: Table 5.1 of the honest protocol, which counts trainings.
    """
    if not (tables / f"{NAME}.csv").exists():
        return
    orders = read_table(tables / f"{NAME}.csv", COLUMNS)
    gradients = read_table(tables / f"{GRADIENTS}.csv", GRADIENT_COLUMNS)
    ranks = read_table(tables / f"{RANKS}.csv", RANK_COLUMNS)
    paragraphs = (
        *_significant("upper-lower", orders.filter(bound="expectation-max")),
        *_significant("min-max", orders.filter(bound="min-max", metric="nDCG")),
        *_inverted(orders),
        *_stalled(honest),
        *_incoherent(gradients),
        *_losses_of_ranks(ranks),
    )
    title, opening = "Related work and what it predicts here", text(FILE, "opening")
    yield ReportSection("related", title, opening, (*paragraphs, *table_blocks("related", tables)))


def _significant(name: str, orders: pl.DataFrame) -> Iterator[Paragraph]:
    if len(orders):
        counts = orders.select("pairs", "significant", "significant_bounded", "gained", "lost").sum()
        yield paragraph(FILE, name, found=text(FILE, "significant", **counts.row(0, named=True)))


def _inverted(orders: pl.DataFrame) -> Iterator[Paragraph]:
    known = orders.filter(pl.col("tau").is_not_null())
    if len(known):
        lowest = known.sort("tau").row(0, named=True)
        counts = known.select("pairs", "inverted", "exchanged").sum().row(0, named=True)
        where, tau = DataSet(lowest["dataset"], lowest["nsr"]).label, with_minus(f"{lowest['tau']:.2f}")
        yield paragraph(FILE, "inconsistent", **lowest | counts | {"where": where, "tau": tau})


def _stalled(honest: pl.DataFrame) -> Iterator[Paragraph]:
    trained = honest.filter(pl.col("as_printed"), pl.col("loss") != "none", pl.col("n_trainings") > 0)
    if len(trained):
        kinds = {"affine bounds": AFFINE, "distribution bounding": ("distribution",), "no bounding": (UNBOUNDED,)}
        counts = {
            kind: trained.filter(pl.col("bounding").is_in(names)).select("n_untrained", "n_trainings").sum().row(0)
            for kind, names in kinds.items()
        }
        yield paragraph(FILE, "stalled", counts={kind: pair for kind, pair in counts.items() if pair[1]})


def _incoherent(gradients: pl.DataFrame) -> Iterator[Paragraph]:
    plain = {row["loss"]: row for row in gradients.filter(bound=UNBOUNDED).iter_rows(named=True)}
    if plain:
        shares = {loss: 100 * plain[loss]["incoherent"] / plain[loss]["pairs"] for loss in LOSSES if loss in plain}
        rows = gradients.iter_rows(named=True)
        differing = sum(row["incoherent"] != plain[row["loss"]]["incoherent"] for row in rows)
        yield paragraph(FILE, "incoherent", shares=shares, differing=differing)


def _losses_of_ranks(ranks: pl.DataFrame) -> Iterator[Paragraph]:
    by_metric = {}
    for (metric,), own in ranks.group_by("metric", maintain_order=True):
        differ, changes = own.filter(pl.col("p_value") <= LEVEL)["difference"], own["difference"].sort()
        counts = {"higher": (differ > 0).sum(), "lower": (differ < 0).sum(), "sets": len(own)}
        by_metric[metric] = {"lowest": changes[0], "highest": changes[-1], **counts}
    if by_metric:
        yield paragraph(FILE, "soft-ranks", by_metric=by_metric)
