"""Compute the findings with which the report begins, from Table 5.1, the crossed metrics and the distribution variants.

Every function yields the findings that its table supports, and none if its cells are missing. Claims decide if a
difference is a collapse, an effect or noise; findings quote their verdicts.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from rankbound.texts import quantity
from rankbound_study.claims.cells import is_distinct, significance
from rankbound_study.claims.comparisons import AFFINE_PREFIX, METRIC_COLUMNS, TRAINED_FOR, VARIANT_COLUMNS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Finding
from rankbound_study.report.columns import DASH, signed
from rankbound_study.report.table_5_1_summary import cell_name
from rankbound_study.report.table_files import read_table
from rankbound_study.report.tables.crossed import METRICS_CROSSED
from rankbound_study.results.trained import UNTRAINED
from rankbound_study.vocabulary import AFFINE, HONEST, LOSSES, PUBLISHED

ON_COLLAPSE, ON_EQUAL_LOSSES, ON_POPULARITY = "T26", "T14", "P01"
"""The claims on the collapse of nDCG under distribution bounding, on three boundings that should perform alike, and on
popularity."""

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
    detail = f"Equal to four decimals: {ours[1]}; below: {ours[2]}."
    if sum(printed):
        detail += (
            f" In print, {printed[0]} of {sum(printed)} lie above, {printed[1]} are equal, {printed[2]} lie below."
        )
    yield Finding(f"{ours[0]} of {sum(ours)} bounded losses score above their unbounded loss.", detail)


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
    beaten, of_all = sum(values["popularity"] > values["best"] for values in pairs), quantity(len(pairs), "comparison")
    if beaten:
        headline = f"Plain popularity scores above every trained model in {beaten} of {of_all}."
    else:
        headline = f"A trained model scores above plain popularity in {len(pairs)} of {of_all}."
    metrics = list(dict.fromkeys(metric for of_set in compared.values() for metric in of_set))
    yield Finding(
        headline,
        f"Popularity counts how often an item is relevant in training. {verdict} Its score and the highest mean over "
        f"boundings, {summary['protocol']} protocol:".replace("  ", " "),
        ("data set", *metrics),
        tuple(
            (
                data_set_label(name),
                *(
                    f"{of_set[m]['popularity']:.{_DIGITS}f} : {of_set[m]['best']:.{_DIGITS}f}" if m in of_set else "–"
                    for m in metrics
                ),
            )
            for name, of_set in compared.items()
            if of_set
        ),
    )


def _both(values: dict[str, Any], control: str) -> bool:
    return values.get(control) is not None and values["best"] is not None


def _reproduced(trained: pl.DataFrame, summary: dict[str, Any]) -> Iterator[Finding]:
    cells = summary["cells"].get("movielens")
    if not cells:
        return
    compared = trained.filter(pl.col("dataset") == "movielens", pl.col("difference").is_not_null())
    farthest = compared.sort(pl.col("difference").abs(), descending=True).row(0, named=True)
    yield Finding(
        f"{cells['within']} of {cells['total']} MovieLens scores of Table 5.1 are reproduced to within "
        f"{summary['tolerance']}.",
        f"The largest difference is that of {farthest['loss']} with {_bounding(farthest['bounding'])} at NSR "
        f"{farthest['nsr']}: {farthest['ours']:.{_DIGITS}f} here, {farthest['published']:.{_DIGITS}f} printed. The "
        f"mean absolute difference is {compared.select(pl.col('difference').abs().mean()).item():.{_DIGITS}f}.",
    )


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
    if plain and len({fits[metric] for metric in plain}) == 1:
        headline = f"The printed MQ2008 scores of {' and '.join(plain)} fit {data_set_label(fits[plain[0]])}."
    else:
        headline = "No single reading of the MQ2008 labels fits the printed scores."
    readings = sorted({name for values in distances.values() for name in values})
    yield Finding(
        headline,
        "The thesis says that only the highest label counts as relevant. Mean absolute difference between our scores "
        "and the printed ones, by reading:",
        ("metric", *(data_set_label(name) for name in readings)),
        tuple(
            (metric, *(f"{values[name]:.{_DIGITS}f}" if name in values else "–" for name in readings))
            for metric, values in distances.items()
        ),
    )


def _collapse(trained: pl.DataFrame, summary: dict[str, Any], verdict: str) -> Iterator[Finding]:
    changes = {name: value for name, value in summary["distribution_on_ndcg"].items() if "-nsr" in name}
    if not changes:
        return
    printed = _printed_changes(trained)
    yield Finding(
        f"Distribution bounding changes mean nDCG by {_span(list(changes.values()))} where negatives are sampled "
        f"({summary['protocol']} protocol).",
        f"{verdict} Change of the mean nDCG against the unbounded loss, {summary['protocol']} protocol:".lstrip(),
        ("data set", "ours", "printed") if printed else ("data set", "change"),
        tuple(
            (
                data_set_label(name),
                signed(value),
                *([signed(printed[name])] if name in printed else [""] * bool(printed)),
            )
            for name, value in changes.items()
        ),
    )


def _untrained(table: pl.DataFrame) -> Iterator[Finding]:
    """Name the cells with trainings that did not train."""
    cells, named = _trained(table), _trained(table).filter(UNTRAINED)
    if named.is_empty():
        return
    texts = [
        f"{row['loss']} with {_bounding(row['bounding'])} on {DataSet(row['dataset'], row['nsr']).label} "
        f"({row['n_untrained']} of {row['n_trainings']})"
        for row in named.iter_rows(named=True)
    ]
    yield Finding(
        f"{len(named)} of {len(cells)} losses and boundings of Table 5.1 did not train.",
        "Their gradients vanish, or they rank as a random ordering does. They are not compared with the others. "
        f"Trainings that did not train: {'; '.join(texts)}.",
    )


def _span(changes: list[float]) -> str:
    return signed(changes[0]) if len(changes) == 1 else f"{signed(min(changes))} to {signed(max(changes))}"


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
    largest: float | None = of_print.select(pl.col("d").max()).item()
    in_print = "" if largest is None else f"; in print it is {largest:.{_DIGITS}f}"
    yield Finding(
        f"On nRBP, min-max, expectation and expectation-max end within {spreads[name]:.{_DIGITS}f} of each other.",
        "For this loss the three weigh the lists alike, up to a common factor. The largest difference is on "
        f"{data_set_label(name)}{in_print}. {verdict}".rstrip(),
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
        yield Finding("A control fails: something is wrong with these runs.", "; ".join(broken) + ".")


def _skipped(summary: dict[str, Any]) -> Iterator[Finding]:
    parts = [
        f"{data_set_label(name)}: {counts['skipped']} of {counts['skipped'] + counts['lists']}"
        for name, counts in summary["skipped"].items()
        if counts["skipped"]
    ]
    if parts:
        yield Finding(
            "Test lists without relevant items are left out of every mean.", f"Lists left out: {'; '.join(parts)}."
        )


def _bounding(name: str) -> str:
    return "no bounding" if name == "none" else f"{name} bounding"


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
        f"and count as one cell. {_untrained_left_out(untrained)}{_extremes(tested)}{_untested(published)}",
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


def _untrained_left_out(untrained: int) -> str:
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
    yield Finding(
        "Losses trained for another metric score significantly higher than the loss trained for it in "
        f"{better} of {quantity(len(table), 'comparison')}, and significantly lower in {worse}.",
        "Each comparison has one data set and one judging metric: two unbounded losses, or each with its best bounding "
        "by validation. Holm's correction is over all differences of the table.",
        ("judged by", "trained on", "comparisons", "higher", "lower", "mean difference"),
        tuple(
            (str(metric), str(loss), str(len(part)), *map(str, _sides(part)), signed(_mean_difference(part)))
            for (metric, loss), part in table.group_by("metric", "loss", maintain_order=True)
        ),
    )


def _sides(table: pl.DataFrame) -> tuple[int, int]:
    """Count the differences that are significantly above and below zero."""
    sides = [significance(*row) for row in table.select("difference", "p_holm").rows()]
    return sides.count(1), sides.count(-1)


def _mean_difference(table: pl.DataFrame) -> float:
    mean: float = table.select(pl.col("difference").mean()).item()
    return mean


VARIANTS_FILE = "table_sensitivity_distribution.csv"


class _Variant(NamedTuple):
    """A loss with a variant of the bound: counts of data sets on which it is significantly better or worse."""

    loss: str
    bounding: str
    data_sets: int
    untrained: int
    higher: int
    lower: int
    mean: float | None
    above_affine: int
    below_affine: int

    def __str__(self) -> str:
        return f"{self.loss} with {self.bounding}"

    @property
    def helps(self) -> bool:
        """Significantly better than the unbounded loss on some data set, and neither worse nor untrained on any."""
        return self.higher > 0 and not self.lower and not self.untrained


def distribution_findings(folder: Path) -> Iterator[Finding]:
    """Name the variants that help and harm nowhere, and those that beat the best affine bounding; nothing without any.

    A variant should be used if it ranks better than the best affine bounding, too, on some data set, and nowhere worse.
    """
    if not (folder / VARIANTS_FILE).exists():
        return
    table = read_table(folder / VARIANTS_FILE, VARIANT_COLUMNS)
    if table.is_empty():
        return
    variants = [_variant(part) for part in table.partition_by("loss", "bounding", maintain_order=True)]
    variants.sort(key=lambda one: LOSSES.index(one.loss))
    helping = [one for one in variants if one.helps]
    best = [one for one in helping if one.above_affine and not one.below_affine]
    yield Finding(
        f"Distribution bounding should be used for {_named(best)}: it ranks significantly better than no bounding and "
        "the best affine one on some data set, and significantly worse on none."
        if best
        else "No variant of distribution bounding should be used: none ranks significantly better than no bounding and "
        "the best affine one without ranking worse, or not training, on another data set.",
        f"Better than no bounding and nowhere worse: {_named(helping)}. Data sets on which each variant is "
        "significantly higher or lower (Holm) than the unbounded loss, and than the affine bounding that the "
        "validation part picks:",
        ("loss", "bounding", "data sets", "did not train", "higher", "lower", "mean change", "above affine", "below"),
        tuple(_variant_row(one) for one in variants),
    )


def _variant(part: pl.DataFrame) -> _Variant:
    loss, bounding = part.select("loss", "bounding").row(0)
    sides, affine = (
        [significance(*row) for row in part.select(f"{prefix}difference", f"{prefix}p_holm").rows()]
        for prefix in ("", AFFINE_PREFIX)
    )
    mean: float | None = part.select(pl.col("difference").mean()).item()
    untrained = int((~part["trained"]).sum())
    counts = (sides.count(1), sides.count(-1))
    return _Variant(loss, bounding, len(part), untrained, *counts, mean, affine.count(1), affine.count(-1))


def _variant_row(one: _Variant) -> tuple[str, ...]:
    mean = DASH if one.mean is None else signed(one.mean)
    numbers = (one.data_sets, one.untrained, one.higher, one.lower)
    return (one.loss, one.bounding, *map(str, numbers), mean, str(one.above_affine), str(one.below_affine))


def _named(variants: list[_Variant]) -> str:
    return ", ".join(map(str, variants)) or "none"
