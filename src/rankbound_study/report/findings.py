"""The abstract, the findings with which the report begins, the section on Table 5.1, and that on related work.

The findings are those of Table 5.1, the crossed metrics, the distribution variants and the law of list weights. Every
function yields the findings that its table supports, and none if its cells are missing. Claims decide if a difference
is a collapse, an effect or noise; findings quote their verdicts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import comparisons, effects, law
from rankbound_study.claims.comparisons import AFFINE_PREFIX, METRIC_COLUMNS, TRAINED_FOR, VARIANT_COLUMNS
from rankbound_study.claims.evidence import is_distinct, significance
from rankbound_study.claims.law import ALL, BEST, BOUNDS, MISMATCH, SECOND, WEIGHTS
from rankbound_study.claims.rules import FLAT
from rankbound_study.claims.verdicts import CONFIRMED, NOT_RUN
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.report.blocks import Finding, Layout, ReportSection, Row, TableBlock, finding, paragraph
from rankbound_study.report.claims import GENERATED, Claims
from rankbound_study.report.content import table_blocks
from rankbound_study.report.numbers import DASH, between, fixed, four, signed, with_minus
from rankbound_study.report.tables import table_5_1
from rankbound_study.report.tables.effects import METRICS_CROSSED
from rankbound_study.report.tables.table_5_1 import COLUMNS, TOLERANCE
from rankbound_study.results import scores
from rankbound_study.results.scores import UNTRAINED
from rankbound_study.results.study_files import read_made, read_table
from rankbound_study.templates import text
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES, PUBLISHED, UNBOUNDED

FILE = "findings.md"
HONEST_TABLE = "table_5_1_honest"


@dataclass(frozen=True)
class Bounded:
    """The tables of the study on metric bounding.

    Attributes:
        folder: the folder of the tables.
        table: Table 5.1 by the first protocol.
        honest: Table 5.1 by the honest protocol; without rows if it was not made.
    """

    folder: Path
    table: pl.DataFrame
    honest: pl.DataFrame

    @classmethod
    def read(cls, folder: Path) -> "Bounded":
        """Read the tables in a folder; raises DataError if Table 5.1 is missing."""
        honest = read_made(folder / f"{HONEST_TABLE}.csv", COLUMNS)
        return cls(folder, read_table(folder / "table_5_1.csv", COLUMNS), honest)

    @property
    def synthetic(self) -> bool:
        """The data are generated."""
        return bool(self.table["dataset"].str.starts_with(SYNTHETIC).any())

    @property
    def data_sets(self) -> list[DataSet]:
        """The data sets of Table 5.1, in its order."""
        return scores.data_sets(self.table.rename({"nsr": "nsr_test"}))

    @property
    def reproduced(self) -> bool:
        """The study is one of the sources', or has no results yet; not one on other data alone."""
        return any(data_set.of_the_sources for data_set in self.data_sets)

    @property
    def protocols(self) -> str:
        """The protocols of the tables, in words."""
        return "published and honest protocols" if len(self.honest) else self._first

    @property
    def _first(self) -> str:
        return scores.PROTOCOLS[self.table["protocol"][0]] if len(self.table) else "no runs"

    @cached_property
    def tested(self) -> list[Finding]:
        """The effect of bounding, tested on the honest protocol."""
        return list(honest_findings(self.honest, self.table))

    def findings(self, claims: Claims, *, tested: bool = False) -> Iterator[Finding]:
        """Report the other findings of Table 5.1, the most important ones first, with the verdicts on its claims.

        If others have `tested` the effect of bounding, it is not counted without a test.
        """
        trained = _trained(self.table)
        yield from _popularity(self.popularity, self.selected["protocol"][0], claims) if len(self.popularity) else ()
        compared = trained.filter(pl.col("dataset") == "movielens", pl.col("difference").is_not_null())
        if len(compared):
            farthest = compared.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
            counts = {"within": compared["within_0.015"].sum(), "total": len(compared), "tolerance": TOLERANCE}
            mean = compared.select(pl.col("difference").abs().mean()).item()
            yield finding(FILE, "reproduced", **farthest | counts, mean=mean)
        printed = self.table.filter(pl.col("published").is_not_null()).select("nsr", "loss", "bounding").n_unique()
        yield from attempts_findings(self._missed, printed)
        yield from _reading(self.table)
        yield from _collapse(trained, claims)
        stuck = trained.filter(UNTRAINED).to_dicts()
        if named := [row | {"label": DataSet(row["dataset"], row["nsr"]).label} for row in stuck]:
            yield finding(FILE, "untrained", named=named, cells=len(trained))
        yield from () if tested or self.tested else above_unbounded(self.table)
        spread = (pl.col(name).max() - pl.col(name).min() for name in ("ours", "published"))
        alike = trained.filter(pl.col("loss") == "nRBP", pl.col("bounding").is_in(AFFINE))
        spreads = alike.group_by("dataset", "nsr", maintain_order=True).agg(*spread, pl.len().alias("n"))
        if len(whole := spreads.filter(n=len(AFFINE))):
            widest = whole.sort("ours", descending=True, maintain_order=True).row(0, named=True)
            numbers = {"spread": widest["ours"], "printed": spreads["published"].max()}
            label = DataSet(widest["dataset"], widest["nsr"]).label
            yield finding(FILE, "equal-losses", label=label, verdict=claims.quoted("T14"), **numbers)
        first = trained.group_by("dataset", "nsr", maintain_order=True).first().filter(pl.col("n_skipped") > 0)
        if parts := [row | {"label": DataSet(row["dataset"], row["nsr"]).label} for row in first.to_dicts()]:
            yield finding(FILE, "skipped", parts=parts)

    def section(self) -> ReportSection:
        """Return the section with all its tables."""
        blocks = [self.block, *([ATTEMPTS(self._missed)] if self._missed else [])]
        if len(self.honest):
            honest = table_5_1.block(self.honest, scores.PROTOCOLS[HONEST])
            blocks.append(replace(honest, name="Table 5.1, honest protocol"))
        return ReportSection("table-5-1", "Table 5.1", "", (*blocks, *table_blocks("table-5-1", self.folder)))

    @cached_property
    def _missed(self) -> list[dict[str, Any]]:
        return not_reproduced(self.table, self.honest)

    @property
    def block(self) -> TableBlock:
        """Table 5.1 by the first protocol, beside the printed one."""
        return table_5_1.block(self.table, self._first)

    @property
    def selected(self) -> pl.DataFrame:
        """Table 5.1 by the honest protocol, if there is one, or the first."""
        return self.honest if len(self.honest) else self.table

    @property
    def popularity(self) -> pl.DataFrame:
        """The score of popularity beside the best one of trained models, by data set and metric."""
        cell = ["dataset", "nsr", "metric"]
        # A score that trainings did not earn is the best only where there is no other.
        best = pl.col("ours").sort_by(UNTRAINED, "ours", descending=[False, True]).first().alias("best")
        models = _trained(self.selected).group_by(cell, maintain_order=True).agg(best)
        popularity = self.selected.filter(model="popularity").select(*cell, popularity="ours").drop_nulls("popularity")
        return models.join(popularity, on=cell, nulls_equal=True, maintain_order="left")


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
    value, usual = pl.col(column).round(4), pl.col("bounding") == "none"
    base = value.filter(usual).first().over("dataset", "nsr", "loss")
    change = trained.select(~usual, change=value - base).filter("bounding")["change"].drop_nulls()
    above, below = int((change > 1e-9).sum()), int((change < -1e-9).sum())
    return above, len(change) - above - below, below


def _popularity(compared: pl.DataFrame, protocol: str, claims: Claims) -> Iterator[Finding]:
    metrics = dict.fromkeys(compared["metric"], DASH)
    rows: dict[str, dict[str, str]] = {}
    for row in compared.iter_rows(named=True):
        label = DataSet(row["dataset"], row["nsr"]).label
        texts = rows.setdefault(label, {"data set": label, **metrics})
        texts[row["metric"]] = f"{four(row['popularity'])} : {four(row['best'])}"
    beaten = (compared["popularity"] > compared["best"]).sum()
    facts = {"beaten": beaten, "of": len(compared), "verdict": claims.quoted("P01"), "protocol": protocol}
    yield finding(FILE, "popularity", list(rows.values()), **facts)


def _reading(table: pl.DataFrame) -> Iterator[Finding]:
    """Name the reading of the labels of MQ2008 that is nearer to print, by metric."""
    size = pl.col("difference").abs()
    of_queries = table.filter(pl.col("loss") != "none", pl.col("dataset").str.starts_with("mq2008-"))
    means = of_queries.drop_nulls("difference").group_by("metric", "dataset", maintain_order=True).agg(size.mean())
    if means["dataset"].n_unique() < 2:
        return
    means = means.sort("dataset").pivot("dataset", index="metric", values="difference")
    rows = {row.pop("metric"): row for row in means.iter_rows(named=True)}
    fits = {metric: min(own, key=own.__getitem__) for metric, own in rows.items()}
    plain = [metric for metric in ("nDCG", "AP") if metric in fits]
    yield finding(
        FILE,
        "reading",
        [
            {"metric": metric, **{DataSet(name, None).label: four(value) for name, value in rows[metric].items()}}
            for metric in dict.fromkeys(of_queries["metric"])
        ],
        fitting=plain if len({fits[metric] for metric in plain}) == 1 else [],
        reading=DataSet(fits[plain[0]], None).label if plain else "",
    )


def _collapse(trained: pl.DataFrame, claims: Claims) -> Iterator[Finding]:
    """Show the change of nDCG by distribution bounding, by ratio of negatives."""
    bounding = pl.col("bounding")
    change = (
        (pl.col(name).filter(bounding == "distribution").first() - pl.col(name).filter(bounding == "none").first())
        for name in ("ours", "published")
    )
    of_ratios = trained.filter(pl.col("loss") == "nDCG", pl.col("nsr").is_not_null())
    changes = of_ratios.group_by("dataset", "nsr", "protocol", maintain_order=True).agg(*change).drop_nulls("ours")
    if len(changes):
        ours, printed = changes["ours"].to_list(), changes["published"].count()
        yield finding(
            FILE,
            "collapse",
            [
                {"data set": DataSet(row["dataset"], row["nsr"]).label}
                | {"ours" if printed else "change": signed(row["ours"])}
                | ({"printed": signed(row["published"])} if printed else {})
                for row in changes.iter_rows(named=True)
            ],
            span=signed(ours[0]) if len(ours) == 1 else between(min(ours), max(ours)),
            verdict=claims.quoted("T26"),
            protocol=changes["protocol"][0],
        )


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
    return f"{size} ({row['loss']} with {row['bounding']} bounding on {DataSet(row['dataset'], row['nsr']).label})"


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
            missed.append({**nearest, **cell, "n": len(attempts), "random": orders["ours"].to_list()})
    return missed


ATTEMPTS = Layout.of(
    FILE,
    "attempts",
    formats={
        "random": lambda scores: ", ".join(map(fixed(4), sorted(scores, reverse=True))) or DASH,
        "run": lambda protocol, metric, name, nsr: ", ".join(
            [f"{protocol} protocol", metric, *([DataSet(name, None).label] if nsr is None else [])]
        ),
    },
    tolerance=TOLERANCE,
)


def attempts_findings(missed: list[dict[str, Any]], printed: int) -> Iterator[Finding]:
    """Report how many of the printed scores are not reproduced, and how many of those a random ordering beats."""
    if missed and printed:
        below = sum(bool(cell["random"]) and max(cell["random"]) > cell["published"] for cell in missed)
        losses = sorted({f"{cell['loss']} on {DataSet(cell['base'], None).label}" for cell in missed})
        yield finding(FILE, "not-reproduced", missed=missed, printed=printed, losses=losses, below=below)


def abstract(tables: Path, bounded: Bounded, claims: Claims) -> Iterator[ReportSection]:
    """Yield the section; nothing if the tables that it quotes were not made.

    Args:
        tables: the folder of the tables.
        bounded: Table 5.1, with the tests of the effect of bounding.
        claims: the claims with their verdicts.
    """
    cells = read_made(tables / f"{law.NAME}.csv", law.COLUMNS).filter(pl.col("same_as").fill_null("") == "")
    means = read_made(tables / f"{effects.MEANS}.csv", effects.MEAN_COLUMNS).filter(pl.col("loss").is_in(LOSSES))
    found = []
    change = pl.col(f"change_{WEIGHTS}")
    if len(flat := cells.filter(change < FLAT)):
        size = flat.select(pl.col("effect").abs().mean()).item()
        found.append(finding(FILE, "flat", flat=FLAT, size=size, cells=len(flat)))
    affine, distribution = (means.filter(pl.col("bounds") == kind) for kind in ("affine", "distribution"))
    if len(affine):
        bounds = {loss: cells.filter(origin=BOUNDS, loss=loss).select(change.mean()).item() for loss in affine["loss"]}
        variation = {loss: value for loss, value in bounds.items() if value is not None}
        found.append(finding(FILE, "affine", means=affine.to_dicts(), variation=variation))
    # The weights that the second hypothesis named before its runs.
    registered = cells.filter(pl.col("origin") == SECOND, pl.col("weights") == pl.col("loss").replace_strict(BEST))
    if len(registered):
        sizes = registered["effect"]
        counts = {"cases": len(sizes), "ahead": (sizes > 0).sum(), "shown": (registered["low"] > 0).sum()}
        found.append(finding(FILE, "sizes", least=sizes.min(), most=sizes.max(), **counts))
    if len(distribution):
        # The claim that a vanishing gradient explains the collapse of nDCG.
        verdict = claims.verdict("T27").replace(NOT_RUN, "")
        found.append(finding(FILE, "distribution", means=distribution.to_dicts(), verdict=verdict))
    # The claims that bounding raises most means, and that bounded losses do as well.
    most_rise, as_well = claims.verdict("T46"), claims.verdict("T23")
    if not {most_rise, as_well} & {"", NOT_RUN}:
        tested = " ".join(one.headline for one in bounded.tested)
        found.append(finding(FILE, "verdicts", most_rise=most_rise, as_well=as_well, tested=tested))
    if found:
        generated = [GENERATED] if bounded.synthetic else []
        opening = [*generated, text(FILE, "question")]
        # The slope of the law, and the verdict on it.
        lines = read_made(tables / f"{law.LINES}.csv", law.LINE_COLUMNS)
        for line in lines.filter(predictor=MISMATCH, cells=ALL).iter_rows(named=True):
            opening += [text(FILE, "slope", **line), *(one.headline for one in law_findings(tables))]
        yield ReportSection("abstract", "Abstract", " ".join(opening), findings=tuple(found))


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
        yield replace(found, detail=with_minus(found.detail))


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
    paragraphs = []
    upper_lower, min_max = orders.filter(bound="expectation-max"), orders.filter(bound="min-max", metric="nDCG")
    for name, own in (("upper-lower", upper_lower), ("min-max", min_max)):
        if len(own):
            counts = own.select("pairs", "significant", "significant_bounded", "gained", "lost").sum()
            paragraphs.append(paragraph(RELATED, name, found=text(RELATED, "significant", **counts.row(0, named=True))))
    if len(known := orders.filter(pl.col("tau").is_not_null())):
        lowest = known.sort("tau").row(0, named=True)
        sums = known.select("pairs", "inverted", "exchanged").sum().row(0, named=True)
        where, tau = DataSet(lowest["dataset"], lowest["nsr"]).label, with_minus(f"{lowest['tau']:.2f}")
        paragraphs.append(paragraph(RELATED, "inconsistent", **lowest | sums | {"where": where, "tau": tau}))
    if len(trained):
        kinds = {"affine bounds": AFFINE, "distribution bounding": ("distribution",), "no bounding": (UNBOUNDED,)}
        stalled = {
            kind: trained.filter(pl.col("bounding").is_in(names)).select("n_untrained", "n_trainings").sum().row(0)
            for kind, names in kinds.items()
        }
        paragraphs.append(
            paragraph(RELATED, "stalled", counts={kind: pair for kind, pair in stalled.items() if pair[1]})
        )
    plain = {row["loss"]: row for row in gradients.filter(bound=UNBOUNDED).iter_rows(named=True)}
    if plain:
        shares = {loss: 100 * plain[loss]["incoherent"] / plain[loss]["pairs"] for loss in LOSSES if loss in plain}
        rows = gradients.iter_rows(named=True)
        differing = sum(row["incoherent"] != plain[row["loss"]]["incoherent"] for row in rows)
        paragraphs.append(paragraph(RELATED, "incoherent", shares=shares, differing=differing))
    by_metric = {}
    for (metric,), own in ranks.group_by("metric", maintain_order=True):
        differ, changes = own.filter(pl.col("p_value") <= LEVEL)["difference"], own["difference"].sort()
        sides = {"higher": (differ > 0).sum(), "lower": (differ < 0).sum(), "sets": len(own)}
        by_metric[metric] = {"lowest": changes[0], "highest": changes[-1], **sides}
    if by_metric:
        paragraphs.append(paragraph(RELATED, "soft-ranks", by_metric=by_metric))
    title, opening = "Related work and what it predicts here", text(RELATED, "opening")
    yield ReportSection("related", title, opening, (*paragraphs, *table_blocks("related", tables)))
