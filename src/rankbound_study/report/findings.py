"""Compute the findings with which the report begins, from Table 5.1, the crossed metrics and the distribution variants.

Every function yields the findings that its table supports, and none if its cells are missing. Claims decide if a
difference is a collapse, an effect or noise; findings quote their verdicts.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.cells import is_distinct, significance
from rankbound_study.claims.comparisons import AFFINE_PREFIX, METRIC_COLUMNS, TRAINED_FOR, VARIANT_COLUMNS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Finding, TableBlock, plain_rows
from rankbound_study.report.columns import DASH, between, signed
from rankbound_study.report.prose import finding, text
from rankbound_study.report.table_5_1_scores import TOLERANCE, cell_name
from rankbound_study.report.table_files import read_table
from rankbound_study.report.tables.crossed import METRICS_CROSSED
from rankbound_study.results.trained import UNTRAINED
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES, PUBLISHED

ON_COLLAPSE, ON_EQUAL_LOSSES, ON_POPULARITY = "T26", "T14", "P01"
"""The claims on the collapse of nDCG under distribution bounding, on three boundings that should perform alike, and on
popularity."""


FILE = "findings.md"
_DIGITS = 4


def findings(
    table: pl.DataFrame,
    summary: dict[str, Any],
    honest: dict[str, Any] | None = None,
    not_reproduced: Iterable[Finding] = (),
    quoted: Callable[[str], str] = lambda claim: "",
    *,
    tested: bool = False,
) -> list[Finding]:
    """Return all findings of Table 5.1, the most important ones first.

    Args:
        table, summary: Table 5.1.
        honest: the summary of Table 5.1 by the honest protocol.
        not_reproduced: the finding about printed scores that no attempt reproduces.
        quoted: returns the verdict on a claim as a sentence; empty if there is none.
        tested: another finding reports which bounded losses score significantly higher.
    """
    trained = _trained(table)
    return [
        *_popularity(honest or summary, quoted(ON_POPULARITY)),
        *_reproduced(trained, summary),
        *not_reproduced,
        *_reading(summary),
        *_collapse(trained, summary, quoted(ON_COLLAPSE)),
        *_untrained(table),
        *([] if tested else above_unbounded(table)),
        *_equal_losses(trained, summary, quoted(ON_EQUAL_LOSSES)),
        *_broken_controls(summary),
        *_skipped(summary),
    ]


def above_unbounded(table: pl.DataFrame) -> Iterator[Finding]:
    """Count the bounded losses that score above their unbounded loss, in our runs and in print, without a test."""
    trained = _trained(table)
    ours = _directions(trained.filter(~UNTRAINED), "ours")
    if not sum(ours):
        return
    printed = _directions(trained.filter(pl.col("dataset") != "mq2008-label2"), "published")
    yield finding(FILE, "above-unbounded", ours=ours, printed=printed)


def data_set_label(name: str) -> str:
    """Return a data set's label: `movielens-nsr1` is MovieLens NSR 1."""
    stem, separator, nsr = name.rpartition("-nsr")
    return DataSet(stem, int(nsr)).label if separator else DataSet(name, None).label


def _trained(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("loss") != "none", pl.col("as_printed"), pl.col("ours").is_not_null())


def _popularity(summary: dict[str, Any], verdict: str) -> Iterator[Finding]:
    compared = {
        name: {metric: values for metric, values in metrics.items() if _both(values, "popularity")}
        for name, metrics in summary["controls"].items()
    }
    pairs = [values for metrics in compared.values() for values in metrics.values()]
    if not pairs:
        return
    metrics = list(dict.fromkeys(metric for of_set in compared.values() for metric in of_set))
    yield finding(
        FILE,
        "popularity",
        ("data set", *metrics),
        tuple(
            (
                data_set_label(name),
                *(
                    f"{of_set[m]['popularity']:.{_DIGITS}f} : {of_set[m]['best']:.{_DIGITS}f}" if m in of_set else DASH
                    for m in metrics
                ),
            )
            for name, of_set in compared.items()
            if of_set
        ),
        beaten=sum(values["popularity"] > values["best"] for values in pairs),
        of=len(pairs),
        verdict=verdict,
        protocol=summary["protocol"],
    )


def _both(values: dict[str, Any], control: str) -> bool:
    return values.get(control) is not None and values["best"] is not None


def _reproduced(trained: pl.DataFrame, summary: dict[str, Any]) -> Iterator[Finding]:
    cells = summary["cells"].get("movielens")
    if not cells:
        return
    compared = trained.filter(pl.col("dataset") == "movielens", pl.col("difference").is_not_null())
    farthest = compared.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
    mean = compared.select(pl.col("difference").abs().mean()).item()
    yield finding(FILE, "reproduced", **farthest | cells | {"tolerance": summary["tolerance"], "mean": mean})


def _reading(summary: dict[str, Any]) -> Iterator[Finding]:
    distances = {
        metric: values
        for metric, values in summary["mq2008"]["mean_absolute_difference"].items()
        if summary["mq2008"]["fits"].get(metric)
    }
    if not distances:
        return
    fits = {metric: summary["mq2008"]["fits"][metric] for metric in distances}
    plain = [metric for metric in ("nDCG", "AP") if metric in fits]
    readings = sorted({name for values in distances.values() for name in values})
    yield finding(
        FILE,
        "reading",
        ("metric", *map(data_set_label, readings)),
        tuple(
            (metric, *(f"{values[name]:.{_DIGITS}f}" if name in values else DASH for name in readings))
            for metric, values in distances.items()
        ),
        fitting=plain if len({fits[metric] for metric in plain}) == 1 else [],
        reading=data_set_label(fits[plain[0]]) if plain else "",
    )


def _collapse(trained: pl.DataFrame, summary: dict[str, Any], verdict: str) -> Iterator[Finding]:
    changes = {name: value for name, value in summary["distribution_on_ndcg"].items() if "-nsr" in name}
    if not changes:
        return
    printed = _printed_changes(trained)
    values = list(changes.values())
    yield finding(
        FILE,
        "collapse",
        ("data set", "ours", "printed") if printed else ("data set", "change"),
        tuple(
            (
                data_set_label(name),
                signed(value),
                *([signed(printed[name])] if name in printed else [""] * bool(printed)),
            )
            for name, value in changes.items()
        ),
        span=signed(values[0]) if len(values) == 1 else between(min(values), max(values)),
        verdict=verdict,
        protocol=summary["protocol"],
    )


def _untrained(table: pl.DataFrame) -> Iterator[Finding]:
    """Name the cells with trainings that did not train."""
    cells = _trained(table)
    named = [
        row | {"label": DataSet(row["dataset"], row["nsr"]).label}
        for row in cells.filter(UNTRAINED).iter_rows(named=True)
    ]
    if named:
        yield finding(FILE, "untrained", named=named, cells=len(cells))


def _printed_changes(trained: pl.DataFrame) -> dict[str, float]:
    rows = trained.filter(pl.col("loss") == "nDCG", pl.col("nsr").is_not_null(), pl.col("published").is_not_null())
    scores = {(row["dataset"], row["nsr"], row["bounding"]): row["published"] for row in rows.iter_rows(named=True)}
    return {
        f"{dataset}-nsr{nsr}": scores[dataset, nsr, "distribution"] - scores[dataset, nsr, "none"]
        for dataset, nsr, bounding in scores
        if bounding == "none" and (dataset, nsr, "distribution") in scores
    }


def _directions(trained: pl.DataFrame, column: str) -> tuple[int, int, int]:
    """Count the bounded means above, equal to and below that of the unbounded loss, to four decimals."""
    cell = ["dataset", "nsr", "loss"]
    scores = trained.filter(pl.col(column).is_not_null()).with_columns(pl.col(column).round(_DIGITS))
    base = scores.filter(pl.col("bounding") == "none").select(*cell, pl.col(column).alias("base"))
    bounded = scores.filter(pl.col("bounding") != "none").join(base, on=cell, nulls_equal=True)
    change = bounded[column] - bounded["base"]
    above, below = int((change > 1e-9).sum()), int((change < -1e-9).sum())
    return above, len(change) - above - below, below


def _equal_losses(trained: pl.DataFrame, summary: dict[str, Any], verdict: str) -> Iterator[Finding]:
    spreads = summary["nrbp_spread"]
    if not spreads:
        return
    name = max(spreads, key=lambda key: spreads[key])
    printed = trained.filter(pl.col("loss") == "nRBP", pl.col("bounding").is_in(AFFINE))
    of_print = printed.group_by("dataset", "nsr").agg(
        (pl.col("published").max() - pl.col("published").min()).alias("d")
    )
    yield finding(
        FILE,
        "equal-losses",
        spread=spreads[name],
        label=data_set_label(name),
        printed=of_print.select(pl.col("d").max()).item(),
        verdict=verdict,
    )


def _broken_controls(summary: dict[str, Any]) -> Iterator[Finding]:
    broken = []
    for name, metrics in summary["controls"].items():
        for metric, values in metrics.items():
            if values.get("oracle") is not None and values["best"] is not None and values["best"] > values["oracle"]:
                broken.append(f"{data_set_label(name)} {metric}: the best model is above the oracle")
            if values.get("random") is not None and (values["unbounded"] or 0) < values["random"]:
                broken.append(f"{data_set_label(name)} {metric}: the unbounded model is below the random ordering")
    if broken:
        yield finding(FILE, "broken-controls", broken=broken)


def _skipped(summary: dict[str, Any]) -> Iterator[Finding]:
    parts = [
        f"{data_set_label(name)}: {counts['skipped']} of {counts['skipped'] + counts['lists']}"
        for name, counts in summary["skipped"].items()
        if counts["skipped"]
    ]
    if parts:
        yield finding(FILE, "skipped", parts=parts)


def honest_findings(table: pl.DataFrame, published: pl.DataFrame) -> Iterator[Finding]:
    """Compare the bounded losses with the unbounded ones; yields nothing for a table without tests.

    `published` is the table by the published protocol, whose differences are counted without a test.
    """
    tested = _distinct(table.filter(pl.col("protocol") == HONEST, pl.col("p_holm").is_not_null()))
    if tested.is_empty():
        return
    sides = pl.Series([significance(*row) for row in tested.select("change", "p_holm").rows()])
    better, worse = tested.filter(sides == 1), tested.filter(sides == -1)
    by_change = tested.sort("change")
    yield finding(
        FILE,
        "tested",
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
        better=len(better),
        worse=len(worse),
        cells=len(tested),
        seeds=tested["n_seeds"].max(),
        untrained=table.filter(pl.col("as_printed"), UNTRAINED).height,
        gain=_change(by_change.row(-1, named=True)),
        loss=_change(by_change.row(0, named=True)),
        untested=list(above_unbounded(published.filter(pl.col("protocol") == PUBLISHED))),
    )


def _distinct(tested: pl.DataFrame) -> pl.DataFrame:
    """Keep one of the boundings that train the same model (`is_distinct`): they are one piece of evidence."""
    pairs = tested.select("loss", "bounding").rows()
    training = pl.Series("training", [one if is_distinct(loss, one) else AFFINE[0] for loss, one in pairs], pl.String)
    key = ["dataset", "nsr", "model", "loss", "training"]
    return tested.with_columns(training).unique(key, keep="first", maintain_order=True).drop("training")


def _change(row: dict[str, Any]) -> str:
    size = f"{signed(row['change'])} ± {row['change_margin']:.4f}"
    return f"{size} ({row['loss']} with {row['bounding']} bounding on {data_set_label(cell_name(row))})"


def crossed_findings(folder: Path) -> Iterator[Finding]:
    """Count the losses that rank better or worse than the one trained for the metric; nothing without the table."""
    path = folder / f"{METRICS_CROSSED}.csv"
    if not path.exists():
        return
    table = read_table(path, METRIC_COLUMNS).filter(
        pl.col("metric").is_in(list(TRAINED_FOR)), pl.col("p_holm").is_not_null()
    )
    if table.is_empty():
        return
    better, worse = _sides(table)
    yield finding(
        FILE,
        "crossed",
        ("judged by", "trained on", "comparisons", "higher", "lower", "mean difference"),
        tuple(
            (str(metric), str(loss), str(len(part)), *map(str, _sides(part)), signed(_mean(part)))
            for (metric, loss), part in table.group_by("metric", "loss", maintain_order=True)
        ),
        better=better,
        worse=worse,
        comparisons=len(table),
    )


def _sides(table: pl.DataFrame, prefix: str = "") -> tuple[int, int]:
    """Count the differences that are significantly above and below zero."""
    sides = [significance(*row) for row in table.select(f"{prefix}difference", f"{prefix}p_holm").rows()]
    return sides.count(1), sides.count(-1)


def _mean(table: pl.DataFrame) -> float | None:
    mean: float | None = table.select(pl.col("difference").mean()).item()
    return mean


VARIANTS_FILE = "table_sensitivity_distribution.csv"


def distribution_findings(folder: Path) -> Iterator[Finding]:
    """Name the variants that help and harm nowhere, and those that beat the best affine bounding; nothing without any.

    A variant helps if it is significantly better than the unbounded loss on some data set, and neither worse nor
    untrained on any. It should be used if it ranks better than the best affine bounding, too, and nowhere worse.
    """
    if not (folder / VARIANTS_FILE).exists():
        return
    table = read_table(folder / VARIANTS_FILE, VARIANT_COLUMNS)
    if table.is_empty():
        return
    helping, best, rows = [], [], []
    parts = table.partition_by("loss", "bounding", maintain_order=True)
    for part in sorted(parts, key=lambda part: LOSSES.index(part["loss"][0])):
        loss, bounding = part.select("loss", "bounding").row(0)
        untrained = int((~part["trained"]).sum())
        (higher, lower), (above, below) = _sides(part), _sides(part, AFFINE_PREFIX)
        if higher and not lower and not untrained:
            helping.append(f"{loss} with {bounding}")
            best += helping[-1:] if above and not below else []
        counts = map(str, (len(part), untrained, higher, lower))
        rows.append((loss, bounding, *counts, signed(_mean(part)), str(above), str(below)))
    counted = ("data sets", "did not train", "higher", "lower", "mean change", "above affine", "below")
    yield finding(FILE, "variants", ("loss", "bounding", *counted), tuple(rows), best=best, helping=helping)


_OF_CELL = ("data set", "loss", "bounding", "printed", "random ordering")
ATTEMPTS_HEADER = (*_OF_CELL, "attempts", "nearest", "difference", "by")
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


def attempts_block(missed: list[dict[str, Any]]) -> TableBlock:
    """Return the table for the report."""
    return TableBlock(
        "Printed scores that are not reproduced",
        text(FILE, "attempts", tolerance=TOLERANCE),
        ATTEMPTS_HEADER,
        plain_rows(_attempt_cells(missed)),
        labels=3,
        sortable=True,
        prose=frozenset({len(ATTEMPTS_HEADER) - 1}),
    )


def _attempt_cells(missed: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for cell in missed:
        nearest = cell["nearest"]
        label = DataSet(cell["base"], cell["nsr"]).label
        orders = ", ".join(f"{value:.4f}" for value in sorted(cell["random"], reverse=True)) or "–"
        yield (
            *(label, cell["loss"], bounding_title(cell["bounding"])),
            *(f"{cell['published']:.4f}", orders, str(cell["n"])),
            *(f"{nearest['ours']:.4f}", signed(nearest["difference"]), _words(nearest)),
        )


def attempts_findings(missed: list[dict[str, Any]], printed: int) -> Iterator[Finding]:
    """Report how many of the printed scores are not reproduced, and how many of those a random ordering beats."""
    if not missed or not printed:
        return
    below = sum(bool(cell["random"]) and max(cell["random"]) > cell["published"] for cell in missed)
    losses = sorted({f"{cell['loss']} on {DataSet(cell['base'], None).label}" for cell in missed})
    yield finding(FILE, "not-reproduced", missed=missed, printed=printed, losses=losses, below=below)


def _words(attempt: dict[str, Any]) -> str:
    reading = f", {DataSet(attempt['dataset'], None).label}" if attempt["nsr"] is None else ""
    return f"{attempt['protocol']} protocol, {attempt['metric']}{reading}"
