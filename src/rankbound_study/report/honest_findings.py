"""Compute the report's first finding: the effect of bounding, from Table 5.1 of the honest protocol."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from rankbound.texts import quantity
from rankbound_study.claims.cells import is_distinct, significance
from rankbound_study.report.findings import Finding, above_unbounded, data_set_label
from rankbound_study.report.table_5_1_summary import cell_name
from rankbound_study.report.typeset_numbers import signed
from rankbound_study.results.trained import UNTRAINED
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES, PUBLISHED


def honest_findings(table: pl.DataFrame, published: pl.DataFrame) -> Iterator[Finding]:
    """Compare the bounded losses with the unbounded ones; yields nothing for a table without tests.

    `published` is the table by the published protocol, whose differences are counted without a test.
    """
    tested = _distinct(table.filter(pl.col("protocol") == HONEST, pl.col("p_holm").is_not_null()))
    if tested.is_empty():
        return
    sides = pl.Series([significance(*row) for row in tested.select("change", "p_holm").rows()])
    better, worse = tested.filter(sides == 1), tested.filter(sides == -1)
    untrained = table.filter(pl.col("as_printed"), UNTRAINED).height
    seeds: int = tested.select(pl.col("n_seeds").max()).item()
    yield Finding(
        f"Bounding improves {len(better)} of {quantity(len(tested), 'cell')} significantly and degrades {len(worse)}; "
        f"for {len(tested) - len(better) - len(worse)} the difference is not significant.",
        "Each cell compares a bounded loss with the unbounded one, with epochs picked by validation, "
        f"{quantity(seeds, 'seed')} and Holm's correction over these cells. The affine bounds of nRBP train one model "
        f"and count as one cell. {_left_out(untrained)}{_extremes(tested)}{_untested(published)}",
        ("loss", "cells", "better", "worse", "mean change"),
        tuple(
            (
                loss,
                str(len(of_loss)),
                str(len(better.filter(pl.col("loss") == loss))),
                str(len(worse.filter(pl.col("loss") == loss))),
                signed(of_loss.select(pl.col("change").mean()).item()),
            )
            for loss in LOSSES
            if len(of_loss := tested.filter(pl.col("loss") == loss))
        ),
    )


def _distinct(tested: pl.DataFrame) -> pl.DataFrame:
    """Keep one of the boundings that train the same model (`is_distinct`): they are one piece of evidence."""
    pairs = tested.select("loss", "bounding").rows()
    training = pl.Series("training", [one if is_distinct(loss, one) else AFFINE[0] for loss, one in pairs], pl.String)
    key = ["dataset", "nsr", "model", "loss", "training"]
    return tested.with_columns(training).unique(key, keep="first", maintain_order=True).drop("training")


def _left_out(untrained: int) -> str:
    if not untrained:
        return ""
    cells = "1 cell that did not train is" if untrained == 1 else f"{untrained} cells that did not train are"
    return f"{cells} left out. "


def _extremes(tested: pl.DataFrame) -> str:
    rows = tested.sort("change")
    least, most = (_change(rows.row(place, named=True)) for place in (0, -1))
    return f"The largest gain is {most}, the largest loss {least}."


def _change(row: dict[str, Any]) -> str:
    size = f"{signed(row['change'])} ± {row['change_margin']:.4f}"
    return f"{size} ({row['loss']} with {row['bounding']} bounding on {data_set_label(cell_name(row))})"


def _untested(published: pl.DataFrame) -> str:
    published = published.filter(pl.col("protocol") == PUBLISHED)
    return "".join(
        f" By the published protocol, and without a test, {finding.headline} {finding.detail}"
        for finding in above_unbounded(published)
    )
