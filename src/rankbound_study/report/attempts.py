"""Printed scores of Table 5.1 that are not reproduced: everything that was tried, and which attempt comes nearest.

An attempt is a reading of the labels, a persistence of nRBP and a protocol. Nothing is tuned to the printed score.
"""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import TableBlock, plain_rows
from rankbound_study.report.findings import Finding
from rankbound_study.report.tables import TOLERANCE
from rankbound_study.report.typeset_numbers import signed
from rankbound_study.results.scores import DataSet
from rankbound_study.vocabulary import PUBLISHED

NAME = "Printed scores that are not reproduced"
HEADER = ("data set", "loss", "bounding", "printed", "random order", "attempts", "nearest", "distance", "by")
LABELS = 3
CAPTION = (
    f"Scores of Table 5.1 that no run of the published protocol comes within {TOLERANCE} of. Attempts are all readings "
    "of the labels, persistences of nRBP and protocols that ran; “nearest” is the one that comes closest to print. A "
    "random order is scored as the thesis says that the printed score was."
)
_PRINTED_CELL = ("base", "nsr", "loss", "bounding", "published")


def not_reproduced(*by_protocol: pl.DataFrame) -> list[dict[str, Any]]:
    """A row per printed score that is not reproduced, from Table 5.1 by one or more protocols."""
    table = pl.concat(by_protocol).with_columns(base=pl.col("dataset").str.replace(r"-label\d$", ""))
    tried = table.filter(pl.col("published").is_not_null(), pl.col("ours").is_not_null())
    randoms = table.filter(pl.col("model") == "random", pl.col("protocol") == PUBLISHED)
    found = []
    for key, attempts in tried.group_by(_PRINTED_CELL, maintain_order=True):
        as_print = attempts.filter(pl.col("protocol") == PUBLISHED, pl.col("as_printed"))
        if len(as_print) and not as_print["within_0.015"].any():
            cell = dict(zip(_PRINTED_CELL, key, strict=True))
            nearest = attempts.sort(pl.col("difference").abs(), maintain_order=True).row(0, named=True)
            metric = as_print["metric"][0]
            orders = randoms.filter(
                pl.col("base") == cell["base"], pl.col("nsr").eq_missing(cell["nsr"]), pl.col("metric") == metric
            )
            found.append({**cell, "n": len(attempts), "nearest": nearest, "random": orders["ours"].to_list()})
    return found


def block(found: list[dict[str, Any]]) -> TableBlock:
    """Return the table for the report."""
    prose = frozenset({len(HEADER) - 1})
    return TableBlock(NAME, CAPTION, HEADER, plain_rows(_cells(found)), LABELS, prose=prose, sortable=True)


def _cells(found: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for cell in found:
        nearest = cell["nearest"]
        label = DataSet.of(cell["base"], cell["nsr"]).label
        orders = ", ".join(f"{value:.4f}" for value in sorted(cell["random"], reverse=True)) or "–"
        yield (
            *(label, cell["loss"], bounding_title(cell["bounding"])),
            *(f"{cell['published']:.4f}", orders, str(cell["n"])),
            *(f"{nearest['ours']:.4f}", signed(nearest["difference"]), _words(nearest)),
        )


def finding(found: list[dict[str, Any]], printed: int) -> Iterator[Finding]:
    """How many are not reproduced, and which of them a random order beats."""
    if not found or not printed:
        return
    below = [cell for cell in found if cell["random"] and max(cell["random"]) > cell["published"]]
    losses = sorted({f"{cell['loss']} on {_data_set(cell)}" for cell in found})
    yield Finding(
        f"{len(found)} of {printed} printed scores of Table 5.1 are not reproduced: {'; '.join(losses)}.",
        f"The section Table 5.1 shows every attempt. {len(below)} of them lie below what a random order scores by the "
        "metric and one of the two readings of relevance that the thesis may have used: such a score cannot be of "
        "that metric and reading."
        if below
        else "The section Table 5.1 shows every attempt.",
    )


def _data_set(cell: dict[str, Any]) -> str:
    return DataSet.of(cell["base"], None).label


def _words(attempt: dict[str, Any]) -> str:
    reading = f", {DataSet.of(attempt['dataset'], None).label}" if attempt["nsr"] is None else ""
    return f"{attempt['protocol']} protocol, {attempt['metric']}{reading}"
