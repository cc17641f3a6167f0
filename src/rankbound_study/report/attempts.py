"""Find the printed scores of Table 5.1 that are not reproduced, with the number of attempts and the nearest one.

An attempt is a combination of a reading of the labels, a persistence of nRBP and a protocol. Nothing is tuned to the
printed score.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report import prose
from rankbound_study.report.blocks import Finding, TableBlock, plain_rows
from rankbound_study.report.columns import signed
from rankbound_study.report.table_5_1_scores import TOLERANCE
from rankbound_study.vocabulary import PUBLISHED

NAME = "Printed scores that are not reproduced"
HEADER = ("data set", "loss", "bounding", "printed", "random ordering", "attempts", "nearest", "difference", "by")
LABELS = 3
FILE = "findings.md"
_SENTENCES = frozenset({len(HEADER) - 1})
_PRINTED_CELL = ("base", "nsr", "loss", "bounding", "published")


def not_reproduced(*by_protocol: pl.DataFrame) -> list[dict[str, Any]]:
    """Return one record per printed score that is not reproduced, from Table 5.1 by one or more protocols."""
    table = pl.concat(by_protocol).with_columns(base=pl.col("dataset").str.replace(r"-label\d$", ""))
    tried = table.filter(pl.col("published").is_not_null(), pl.col("ours").is_not_null())
    randoms = table.filter(pl.col("model") == "random", pl.col("protocol") == PUBLISHED)
    missed = []
    for key, attempts in tried.group_by(_PRINTED_CELL, maintain_order=True):
        as_print = attempts.filter(pl.col("protocol") == PUBLISHED, pl.col("as_printed"))
        if len(as_print) and not as_print["within_0.015"].any():
            cell = dict(zip(_PRINTED_CELL, key, strict=True))
            nearest = attempts.sort(pl.col("difference").abs(), maintain_order=True).row(0, named=True)
            metric = as_print["metric"][0]
            orders = randoms.filter(
                pl.col("base") == cell["base"], pl.col("nsr").eq_missing(cell["nsr"]), pl.col("metric") == metric
            )
            missed.append({**cell, "n": len(attempts), "nearest": nearest, "random": orders["ours"].to_list()})
    return missed


def block(missed: list[dict[str, Any]]) -> TableBlock:
    """Return the table for the report."""
    caption = prose.text(FILE, "attempts", tolerance=TOLERANCE)
    return TableBlock(NAME, caption, HEADER, plain_rows(_cells(missed)), LABELS, sortable=True, prose=_SENTENCES)


def _cells(missed: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for cell in missed:
        nearest = cell["nearest"]
        label = DataSet(cell["base"], cell["nsr"]).label
        orders = ", ".join(f"{value:.4f}" for value in sorted(cell["random"], reverse=True)) or "–"
        yield (
            *(label, cell["loss"], bounding_title(cell["bounding"])),
            *(f"{cell['published']:.4f}", orders, str(cell["n"])),
            *(f"{nearest['ours']:.4f}", signed(nearest["difference"]), _words(nearest)),
        )


def finding(missed: list[dict[str, Any]], printed: int) -> Iterator[Finding]:
    """Report how many of the printed scores are not reproduced, and how many of those a random ordering beats."""
    if not missed or not printed:
        return
    below = sum(bool(cell["random"]) and max(cell["random"]) > cell["published"] for cell in missed)
    losses = sorted({f"{cell['loss']} on {DataSet(cell['base'], None).label}" for cell in missed})
    yield prose.finding(FILE, "not-reproduced", missed=missed, printed=printed, losses=losses, below=below)


def _words(attempt: dict[str, Any]) -> str:
    reading = f", {DataSet(attempt['dataset'], None).label}" if attempt["nsr"] is None else ""
    return f"{attempt['protocol']} protocol, {attempt['metric']}{reading}"
