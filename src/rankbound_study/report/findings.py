"""Compute the findings with which the report begins, and the section on Table 5.1, which most of them are about.

The findings are those of Table 5.1, the crossed metrics and the distribution variants. Every function yields the
findings that its table supports, and none if its cells are missing. Claims decide if a difference is a collapse, an
effect or noise; findings quote their verdicts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.claims.comparisons import AFFINE_PREFIX, METRIC_COLUMNS, TRAINED_FOR, VARIANT_COLUMNS
from rankbound_study.claims.evidence import is_distinct, significance
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.columns import DASH, Layout, Row, TableBlock, between, fixed, four, signed
from rankbound_study.report.content import Finding, ReportSection, finding, table_blocks
from rankbound_study.report.tables import table_5_1
from rankbound_study.report.tables.crossed import METRICS_CROSSED
from rankbound_study.report.tables.table_5_1 import COLUMNS, TOLERANCE, cell_name
from rankbound_study.results import scores
from rankbound_study.results.scores import UNTRAINED
from rankbound_study.results.study_files import read_facts, read_made, read_table
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES, PUBLISHED

ON_COLLAPSE, ON_EQUAL_LOSSES, ON_POPULARITY = "T26", "T14", "P01"
"""The claims on the collapse of nDCG under distribution bounding, on three boundings that should perform alike, and on
popularity."""

FILE = "findings.md"
HONEST_TABLE = "table_5_1_honest"
_DIGITS = 4


@dataclass(frozen=True)
class Bounded:
    """The tables of the study on metric bounding.

    Attributes:
        folder: the folder of the tables.
        table, summary: Table 5.1 by the first protocol.
        honest, honest_summary: Table 5.1 by the honest protocol; without rows, and None, if it was not made.
    """

    folder: Path
    table: pl.DataFrame
    summary: dict[str, Any]
    honest: pl.DataFrame
    honest_summary: dict[str, Any] | None

    @classmethod
    def read(cls, folder: Path) -> "Bounded":
        """Read the tables in a folder; raises DataError if Table 5.1 or a summary is missing."""

        def of(name: str) -> tuple[pl.DataFrame, dict[str, Any]]:
            table = read_table(folder / f"{name}.csv", COLUMNS)
            return table, read_facts(folder / f"{name}_summary.json", ("protocol", "synthetic"))

        made = (folder / f"{HONEST_TABLE}.csv").exists()
        return cls(folder, *of("table_5_1"), *(of(HONEST_TABLE) if made else (pl.DataFrame(schema=COLUMNS), None)))

    @property
    def data_sets(self) -> list[DataSet]:
        """The data sets of Table 5.1, in its order."""
        return scores.data_sets(self.table.rename({"nsr": "nsr_test"}))

    @property
    def reproduced(self) -> bool:
        """The study is one of the sources', or has no results yet; not one on other data alone."""
        return not self.data_sets or any(data_set.of_the_sources for data_set in self.data_sets)

    @property
    def protocols(self) -> str:
        """The protocols of the tables, in words."""
        return "published and honest protocols" if len(self.honest) else self._protocol

    @cached_property
    def tested(self) -> list[Finding]:
        """The effect of bounding, tested on the honest protocol."""
        return list(honest_findings(self.honest, self.table))

    def findings(self, claims: Claims, *, tested: bool = False) -> Iterator[Finding]:
        """Report the other findings of Table 5.1, the most important ones first, with the verdicts on its claims.

        If others have `tested` the effect of bounding, it is not counted without a test.
        """
        trained, summary = _trained(self.table), self.summary
        printed = self.table.filter(pl.col("published").is_not_null()).select("nsr", "loss", "bounding").n_unique()
        yield from _popularity(self.popularity, self._selected["protocol"], claims)
        yield from _reproduced(trained, summary)
        yield from attempts_findings(self._missed, printed)
        yield from _reading(summary["mq2008"])
        yield from _collapse(trained, summary, claims)
        yield from _untrained(trained)
        yield from () if tested or self.tested else above_unbounded(self.table)
        yield from _equal_losses(trained, summary["nrbp_spread"], claims)
        yield from _controls(summary)

    def section(self) -> ReportSection:
        """Return the section with all its tables."""
        return ReportSection("table-5-1", "Table 5.1", "", tuple(self._blocks()))

    @property
    def _protocol(self) -> str:
        return scores.PROTOCOLS.get(self.summary["protocol"], "no runs")

    @cached_property
    def _missed(self) -> list[dict[str, Any]]:
        return not_reproduced(self.table, self.honest)

    @property
    def block(self) -> TableBlock:
        """Table 5.1 by the first protocol, beside the printed one."""
        return table_5_1.block(self.table, self._protocol)

    @property
    def popularity(self) -> dict[tuple[str, str], tuple[float, float]]:
        """Data set and metric -> the scores of popularity and of the best model, honestly selected if there are."""
        return {
            (name, metric): (values["popularity"], values["best"])
            for name, metrics in self._selected["controls"].items()
            for metric, values in metrics.items()
            if values.get("popularity") is not None and values["best"] is not None
        }

    @property
    def _selected(self) -> dict[str, Any]:
        return (self.honest_summary if len(self.honest) else None) or self.summary

    def _blocks(self) -> Iterator[TableBlock]:
        yield self.block
        if self._missed:
            yield ATTEMPTS.of_rows(self._missed)
        if len(self.honest):
            honest = table_5_1.block(self.honest, scores.PROTOCOLS[HONEST])
            yield replace(honest, name="Table 5.1, honest protocol")
        yield from table_blocks("table-5-1", self.folder)


def data_set_label(name: str) -> str:
    """Return a data set's label: `movielens-nsr1` is MovieLens NSR 1."""
    stem, separator, nsr = name.rpartition("-nsr")
    return DataSet(stem, int(nsr)).label if separator else DataSet(name, None).label


def _trained(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("loss") != "none", pl.col("as_printed"), pl.col("ours").is_not_null())


def above_unbounded(table: pl.DataFrame) -> Iterator[Finding]:
    """Count the bounded losses that score above their unbounded loss, in our runs and in print, without a test."""
    trained = _trained(table)
    ours = _directions(trained.filter(~UNTRAINED), "ours")
    if sum(ours):
        printed = _directions(trained.filter(pl.col("dataset") != "mq2008-label2"), "published")
        yield finding(FILE, "above-unbounded", ours=ours, printed=printed)


def _directions(trained: pl.DataFrame, column: str) -> tuple[int, int, int]:
    """Count the bounded means above, equal to and below that of the unbounded loss, to four decimals."""
    value, usual = pl.col(column).round(_DIGITS), pl.col("bounding") == "none"
    base = value.filter(usual).first().over("dataset", "nsr", "loss")
    change = trained.select(~usual, change=value - base).filter("bounding")["change"].drop_nulls()
    above, below = int((change > 1e-9).sum()), int((change < -1e-9).sum())
    return above, len(change) - above - below, below


def _popularity(
    compared: dict[tuple[str, str], tuple[float, float]], protocol: str, claims: Claims
) -> Iterator[Finding]:
    if not compared:
        return
    texts = {key: f"{one:.{_DIGITS}f} : {best:.{_DIGITS}f}" for key, (one, best) in compared.items()}
    names, metrics = (dict.fromkeys(key[place] for key in compared) for place in (0, 1))
    yield finding(
        FILE,
        "popularity",
        [
            {"data set": data_set_label(name), **{metric: texts.get((name, metric), DASH) for metric in metrics}}
            for name in names
        ],
        beaten=sum(popularity > best for popularity, best in compared.values()),
        of=len(compared),
        verdict=claims.quoted(ON_POPULARITY),
        protocol=protocol,
    )


def _reproduced(trained: pl.DataFrame, summary: dict[str, Any]) -> Iterator[Finding]:
    if cells := summary["cells"].get("movielens"):
        compared = trained.filter(pl.col("dataset") == "movielens", pl.col("difference").is_not_null())
        farthest = compared.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
        mean = compared.select(pl.col("difference").abs().mean()).item()
        yield finding(FILE, "reproduced", **farthest | cells | {"tolerance": summary["tolerance"], "mean": mean})


def _reading(mq2008: dict[str, Any]) -> Iterator[Finding]:
    fits = {metric: name for metric, name in mq2008["fits"].items() if name}
    distances = {metric: values for metric, values in mq2008["mean_absolute_difference"].items() if metric in fits}
    if not distances:
        return
    plain = [metric for metric in ("nDCG", "AP") if metric in fits]
    readings = sorted({name for values in distances.values() for name in values})

    def distance(values: dict[str, float], name: str) -> str:
        return f"{values[name]:.{_DIGITS}f}" if name in values else DASH

    yield finding(
        FILE,
        "reading",
        [
            {"metric": metric, **{data_set_label(name): distance(values, name) for name in readings}}
            for metric, values in distances.items()
        ],
        fitting=plain if len({fits[metric] for metric in plain}) == 1 else [],
        reading=data_set_label(fits[plain[0]]) if plain else "",
    )


def _collapse(trained: pl.DataFrame, summary: dict[str, Any], claims: Claims) -> Iterator[Finding]:
    changes = {name: value for name, value in summary["distribution_on_ndcg"].items() if "-nsr" in name}
    if not changes:
        return
    rows = trained.filter(pl.col("loss") == "nDCG", pl.col("nsr").is_not_null(), pl.col("published").is_not_null())
    scores = {(cell_name(row), row["bounding"]): row["published"] for row in rows.iter_rows(named=True)}
    printed = {
        name: signed(scores[name, "distribution"] - scores[name, "none"])
        for name, bounding in scores
        if bounding == "none" and (name, "distribution") in scores
    }
    values = list(changes.values())
    yield finding(
        FILE,
        "collapse",
        [
            {"data set": data_set_label(name)}
            | ({"ours": signed(one), "printed": printed.get(name, "")} if printed else {"change": signed(one)})
            for name, one in changes.items()
        ],
        span=signed(values[0]) if len(values) == 1 else between(min(values), max(values)),
        verdict=claims.quoted(ON_COLLAPSE),
        protocol=summary["protocol"],
    )


def _untrained(trained: pl.DataFrame) -> Iterator[Finding]:
    """Name the cells with trainings that did not train."""
    rows = trained.filter(UNTRAINED).to_dicts()
    if named := [row | {"label": DataSet(row["dataset"], row["nsr"]).label} for row in rows]:
        yield finding(FILE, "untrained", named=named, cells=len(trained))


def _equal_losses(trained: pl.DataFrame, spreads: dict[str, float], claims: Claims) -> Iterator[Finding]:
    if spreads:
        name = max(spreads, key=lambda key: spreads[key])
        own = trained.filter(pl.col("loss") == "nRBP", pl.col("bounding").is_in(AFFINE))
        published = pl.col("published")
        of_print = own.group_by("dataset", "nsr").agg((published.max() - published.min()).alias("d"))
        numbers = {"spread": spreads[name], "printed": of_print.select(pl.col("d").max()).item()}
        verdict = claims.quoted(ON_EQUAL_LOSSES)
        yield finding(FILE, "equal-losses", label=data_set_label(name), verdict=verdict, **numbers)


def _controls(summary: dict[str, Any]) -> Iterator[Finding]:
    """Report controls whose scores show that something is wrong, and lists that are left out."""
    broken = []
    for name, metrics in summary["controls"].items():
        for metric, values in metrics.items():
            if values.get("oracle") is not None and values["best"] is not None and values["best"] > values["oracle"]:
                broken.append(f"{data_set_label(name)} {metric}: the best model is above the oracle")
            if values.get("random") is not None and (values["unbounded"] or 0) < values["random"]:
                broken.append(f"{data_set_label(name)} {metric}: the unbounded model is below the random ordering")
    if broken:
        yield finding(FILE, "broken-controls", broken=broken)
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
    tested = table.filter(pl.col("protocol") == HONEST, pl.col("p_holm").is_not_null())
    # Boundings that train the same model are one piece of evidence.
    pairs = tested.select("loss", "bounding").rows()
    training = pl.Series("training", [one if is_distinct(loss, one) else AFFINE[0] for loss, one in pairs], pl.String)
    key = ["dataset", "nsr", "model", "loss", "training"]
    tested = tested.with_columns(training).unique(key, keep="first", maintain_order=True)
    if tested.is_empty():
        return
    better, worse = _sides(tested, "change", "p_holm")
    by_change = tested.sort("change")
    yield finding(
        FILE,
        "tested",
        [
            {"loss": loss, "cells": len(own), "mean change": own["change"].mean()}
            | dict(zip(("better", "worse"), _sides(own, "change", "p_holm"), strict=True))
            for loss in LOSSES
            if len(own := tested.filter(pl.col("loss") == loss))
        ],
        better=better,
        worse=worse,
        cells=len(tested),
        seeds=tested["n_seeds"].max(),
        untrained=table.filter(pl.col("as_printed"), UNTRAINED).height,
        gain=_change(by_change.row(-1, named=True)),
        loss=_change(by_change.row(0, named=True)),
        untested=list(above_unbounded(published.filter(pl.col("protocol") == PUBLISHED))),
    )


def _sides(table: pl.DataFrame, difference: str = "difference", p_holm: str = "p_holm") -> tuple[int, int]:
    """Count the differences that are significantly above and below zero."""
    sides = [significance(*row) for row in table.select(difference, p_holm).rows()]
    return sides.count(1), sides.count(-1)


def _change(row: Row) -> str:
    size = f"{signed(row['change'])} ± {row['change_margin']:.4f}"
    return f"{size} ({row['loss']} with {row['bounding']} bounding on {data_set_label(cell_name(row))})"


def crossed_findings(folder: Path) -> Iterator[Finding]:
    """Count the losses that rank better or worse than the one trained for the metric; nothing without the table."""
    table = read_made(folder / f"{METRICS_CROSSED}.csv", METRIC_COLUMNS)
    table = table.filter(pl.col("metric").is_in(list(TRAINED_FOR)), pl.col("p_holm").is_not_null())
    if table.is_empty():
        return
    rows = []
    for (metric, loss), own in table.group_by("metric", "loss", maintain_order=True):
        sides = dict(zip(("higher", "lower"), _sides(own), strict=True))
        rows.append({"metric": metric, "loss": loss, "n": len(own), **sides, "mean": own["difference"].mean()})
    better, worse = _sides(table)
    yield finding(FILE, "crossed", rows, better=better, worse=worse, comparisons=len(table))


VARIANTS_FILE = "table_sensitivity_distribution.csv"


def distribution_findings(folder: Path) -> Iterator[Finding]:
    """Name the variants that help and harm nowhere, and those that beat the best affine bounding; nothing without any.

    A variant helps if it is significantly better than the unbounded loss on some data set, and neither worse nor
    untrained on any. It should be used if it ranks better than the best affine bounding, too, and nowhere worse.
    """
    table = read_made(folder / VARIANTS_FILE, VARIANT_COLUMNS)
    helping, best, rows = [], [], []
    parts = table.partition_by("loss", "bounding", maintain_order=True) if len(table) else []
    for part in sorted(parts, key=lambda part: LOSSES.index(part["loss"][0])):
        loss, bounding = part.select("loss", "bounding").row(0)
        untrained = int((~part["trained"]).sum())
        (higher, lower), (above, below) = (
            _sides(part, f"{prefix}difference", f"{prefix}p_holm") for prefix in ("", AFFINE_PREFIX)
        )
        if higher and not lower and not untrained:
            helping.append(f"{loss} with {bounding}")
            best += helping[-1:] if above and not below else []
        sides = {"higher": higher, "lower": lower, "above": above, "below": below}
        counts = {"n": len(part), "untrained": untrained, **sides, "mean": part["difference"].mean()}
        rows.append({"loss": loss, "bounding": bounding, **counts})
    if rows:
        yield finding(FILE, "variants", rows, best=best, helping=helping)


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
            on_data = pl.col("base") == cell["base"], pl.col("nsr").eq_missing(cell["nsr"])
            orders = randoms.filter(*on_data, pl.col("metric") == as_print["metric"][0])
            missed.append({**cell, "n": len(attempts), "nearest": nearest, "random": orders["ours"].to_list()})
    return missed


def _run(nearest: Row) -> str:
    reading = f", {DataSet(nearest['dataset'], None).label}" if nearest["nsr"] is None else ""
    return f"{nearest['protocol']} protocol, {nearest['metric']}{reading}"


ATTEMPTS = Layout.of(
    FILE,
    "attempts",
    formats={
        "random": lambda scores: ", ".join(map(fixed(4), sorted(scores, reverse=True))) or DASH,
        "score": lambda nearest: four(nearest["ours"]),
        "difference": lambda nearest: signed(nearest["difference"]),
        "run": _run,
    },
    tolerance=TOLERANCE,
)


def attempts_findings(missed: list[dict[str, Any]], printed: int) -> Iterator[Finding]:
    """Report how many of the printed scores are not reproduced, and how many of those a random ordering beats."""
    if missed and printed:
        below = sum(bool(cell["random"]) and max(cell["random"]) > cell["published"] for cell in missed)
        losses = sorted({f"{cell['loss']} on {DataSet(cell['base'], None).label}" for cell in missed})
        yield finding(FILE, "not-reproduced", missed=missed, printed=printed, losses=losses, below=below)
