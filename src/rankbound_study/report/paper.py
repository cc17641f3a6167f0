"""The paper: a few pages that say what was asked, what was found, and what speaks against it, from the tables alone.

The full report, with every table, figure and claim, is its supplement (`rankbound_study.report.document`).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import effects, law, verdicts
from rankbound_study.claims.comparisons import CITEULIKE_COLUMNS
from rankbound_study.claims.comparisons import POPULARITY_COLUMNS as SAMPLING_COLUMNS
from rankbound_study.claims.evidence import is_distinct
from rankbound_study.claims.law import REGISTERED_COLUMNS
from rankbound_study.claims.rules import FLAT
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.blocks import Document, Layout, Paragraph, ReportSection, paragraph
from rankbound_study.report.claims import Claims
from rankbound_study.report.content import Figures
from rankbound_study.report.findings import Bounded, law_findings, law_outcomes
from rankbound_study.report.methods import methods_section
from rankbound_study.report.numbers import between, signed
from rankbound_study.report.tables.effects import REGISTERED_FORMATS, replicas_block
from rankbound_study.report.tables.table_5_1 import TOLERANCE
from rankbound_study.results.study_files import read_made
from rankbound_study.templates import titled
from rankbound_study.vocabulary import AFFINE, LOSSES, UNBOUNDED

FILE = "paper.md"
FIGURES = ("figure_effects", "figure_law", "figure_weight_powers")

TABLES = ("table_5_1", "table_5_1_honest", "table_effects", "table_law")
"""The tables that it is made from, beside that of claims; those that figures are drawn from come first."""

OTHER_TABLES = (
    "citeulike/tables/table_citeulike.csv",
    "evaluation/tables/table_samplings.csv",
    "mixed-ratios/tables/table_regimes.csv",
    "regimes/tables/table_regimes.csv",
    "predictions/tables/table_predictions.csv",
)
"""The tables of other profiles that have counter-examples, and that of predictions, below a folder of their results."""


def paper(results: Path, *, figures: Figures | None = None, elsewhere: Path | None = None) -> Document:
    """Return the paper of a results folder.

    Args:
        results: the folder, with the tables of a study of the sources.
        figures: figures of another folder.
        elsewhere: a folder with those of other profiles (`OTHER_TABLES`), each by its name, for counter-examples and
            registered predictions.

    Raises:
        DataError: a table is damaged, or Table 5.1 is missing.
    """
    tables = results / "tables"
    bounded, claims = Bounded.read(tables), Claims.read(tables)
    figures = replace(figures or Figures(results), synthetic=bounded.synthetic)
    cells = read_made(tables / f"{effects.NAME}.csv", effects.CELL_COLUMNS)
    means = _counted(read_made(tables / f"{effects.MEANS}.csv", effects.MEAN_COLUMNS), cells)
    pairs = read_made(tables / "table_effects_replicas.csv", effects.REPLICA_COLUMNS)
    predictions = read_made(tables / f"{law.PREDICTIONS}.csv", law.PREDICTION_COLUMNS)
    second = predictions.with_columns(shown=pl.col("prediction").str.strip_prefix(f"{law.SECOND_HYPOTHESIS}: "))
    registered = pl.DataFrame(schema=REGISTERED_COLUMNS)
    others: list[dict[str, Any]] = []
    if elsewhere is not None:
        registered = read_made(elsewhere / OTHER_TABLES[-1], REGISTERED_COLUMNS)
        others += counter_examples(elsewhere)
    ends = [row[key] for row in others if row["bounds"] == "affine" for key in ("lowest", "highest")] or [None]
    facts: dict[str, Any] = {
        "names": list(dict.fromkeys(map(_source, bounded.data_sets))),
        "seeds": bounded.honest.filter(pl.col("n_trainings") > 0)["n_seeds"].max() or 1,
        **_printed(bounded),
        "means": means.to_dicts(),
        "law": list(law_findings(tables)),
        "others": others,
        "worst": min(ends),
        "best": max(ends),
        "predictions": len(registered),
        "outcomes": dict(registered.group_by("outcome", maintain_order=True).len().rows()),
        "commit": registered["registered"].str.head(8).first(),
    }

    def section(anchor: str, *blocks: Any) -> ReportSection:
        """Return the section of a piece, whose title is in bold."""
        title, opening = titled(FILE, anchor, **facts)
        return ReportSection(anchor, title.removesuffix("."), opening, blocks)

    sections = [
        section("abstract"),
        section("answers", Layout.of(FILE, "questions")(_answers(means, law_outcomes(tables), bounded, claims, facts))),
        section("methods", *_methods(bounded, cells, facts)),
        section("effects", *figures.blocks("figure_effects"), *([replicas_block(pairs)] if len(pairs) else [])),
    ]
    if facts["law"]:
        of_second = Layout.of(FILE, "second")(second.filter(pl.col("shown") != pl.col("prediction")))
        sections.append(section("law", of_second, *figures.blocks("figure_law", "figure_weight_powers")))
    if others:
        sections.append(section("elsewhere", Layout.of(FILE, "counter-examples")(others)))
    if len(registered):
        # Fewer columns than in the report.
        layout = Layout.of(FILE, "predictions", formats=REGISTERED_FORMATS)
        sections.append(section("predicted", layout(registered)))
    limits = ("limits-data", "limits-noise", "limits-print", "limits-selection")
    sections += [
        section("table-5-1", bounded.block),
        section("practice", *_advice(means)),
        section("limits", *(paragraph(FILE, name, **facts) for name in limits)),
        section("data"),
        section("references", *references()),
    ]
    return Document(*titled(FILE, "title"), figures.synthetic, tuple(sections))


_BOUNDS = (
    pl.when(pl.col("bounding").is_in(AFFINE)).then(pl.lit("affine")).otherwise(pl.lit("distribution")).alias("bounds")
)
"""The kind of bounds of a cell."""


def _counted(means: pl.DataFrame, cells: pl.DataFrame) -> pl.DataFrame:
    """Return the mean effects of the losses, with how many of their cells are significantly lower, and higher."""
    shown = cells.filter(
        pl.col("p_holm") < LEVEL, [is_distinct(*pair) for pair in cells.select("loss", "bounding").rows()]
    )
    counts = shown.group_by(_BOUNDS, "loss").agg(
        lower=(pl.col("effect") < 0).sum(), higher=(pl.col("effect") > 0).sum()
    )
    rows = means.filter(pl.col("loss").is_in(LOSSES)).join(
        counts, on=["bounds", "loss"], how="left", maintain_order="left"
    )
    return rows.with_columns(pl.col("lower", "higher").fill_null(0))


def _source(one: DataSet) -> str:
    """Return the name of what a data set is made from."""
    return re.split(r"\s(?:NSR|label)\b", one.label)[0]


def _methods(bounded: Bounded, cells: pl.DataFrame, facts: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the data and models of the tables, and of the report's methods what holds for every configuration."""
    models = bounded.table.filter(pl.col("loss").is_in(LOSSES)).select("dataset", "nsr", "model").rows()
    topics = cells.select("dataset", "nsr", "n_topics").rows()
    yield paragraph(
        FILE,
        "methods-data",
        models={_source(DataSet(*key)): model for *key, model in models},
        topics={DataSet(*key).label: count for *key, count in topics},
    )
    yield paragraph(FILE, "methods-trainings", **facts)
    shown = ("Losses", "Boundings", "Protocols", "Statistics")
    for block in methods_section(None).blocks:
        if (block.title if isinstance(block, Paragraph) else block.name) in shown:
            yield block


def _printed(bounded: Bounded) -> dict[str, Any]:
    """Return how many printed scores, and signs of the effects of bounding, come out.

    The labels of MQ2008 are read in the way that fits more of its scores; `otherwise` is the number by the other way.
    """
    every = bounded.table.filter(pl.col("as_printed"), pl.col("published").is_not_null())
    count = pl.col("within_0.015").sum()
    of_queries = every.filter(pl.col("dataset").str.starts_with("mq2008"), pl.col("ours").is_not_null())
    within = dict(of_queries.group_by("dataset").agg(count).sort("dataset").rows())
    fitting = sorted(within, key=within.__getitem__, reverse=True)
    rows = every.filter(~pl.col("dataset").is_in(fitting[1:]))
    by_metric = rows.group_by("metric", maintain_order=True).agg(count.alias("within"), pl.len().alias("total")).rows()
    cell = ["dataset", "nsr", "loss", "metric"]
    plain = rows.filter(bounding=UNBOUNDED).select(*cell, theirs="published", own="ours")
    effects = rows.filter(pl.col("bounding") != UNBOUNDED).join(plain, on=cell, nulls_equal=True)
    signs = effects.select((pl.col("published") - "theirs").round(6).sign(), ours=(pl.col("ours") - "own").sign())
    signs = signs.filter(pl.col("published") != 0)
    return {
        "within": rows.select(count).item(),
        "total": len(rows),
        "otherwise": every.filter(~pl.col("dataset").is_in(fitting[:-1])).select(count).item() if fitting[1:] else None,
        "by_metric": by_metric,
        "signs": signs.filter(published=pl.col("ours")).height,
        "compared": len(signs),
        "tolerance": TOLERANCE,
    }


def _answers(
    means: pl.DataFrame, outcomes: Any, bounded: Bounded, claims: Claims, facts: Mapping[str, Any]
) -> Iterator[dict[str, str | None]]:
    """Yield the questions with their answers, as far as the tables have them."""

    def row(piece: str, where: str = "supplement", effect: str | None = None, **own: Any) -> dict[str, str | None]:
        question, answer = titled(FILE, piece, **facts, **own)
        return {"question": question, "answer": answer, "effect": effect, "where": where}

    for one in means.iter_rows(named=True):
        effect = f"{signed(one['mean'])} ({between(one['low'], one['high'])})"
        yield row("raises", "What bounding does", effect, **one)
    if outcomes and outcomes["second"]:
        yield row("second-answer", "Why", written=outcomes["second"][0], held=outcomes["second"][1])
    if outcomes:
        yield row("law-answer", "Why", **outcomes)
    if facts["predictions"]:
        yield row("predicted-answer", "Predicted before the runs")
    if facts["total"]:
        yield row("reproduced-answer", "What is reproduced")
    if len(compared := bounded.popularity):
        yield row("popularity-answer", beaten=(compared["popularity"] > compared["best"]).sum(), of=len(compared))
    if len(claims.table):
        empirical = claims.table.filter(kind="empirical")
        counts = verdicts.counts(empirical)
        yield row("claims-answer", counts=counts, theorems=len(claims.table) - len(empirical))
        yield row("second-study-answer", counts=verdicts.counts(verdicts.of_source(empirical, "N")))


def _advice(means: pl.DataFrame) -> Iterator[Paragraph]:
    """Yield what follows for practice from the mean effects."""
    affine, other = (means.filter(bounds=kind) for kind in ("affine", "distribution"))
    gaining = affine.filter(pl.col("low") > 0)["loss"].to_list()
    plain = [loss for loss in affine["loss"] if loss not in gaining]
    if plain:
        yield paragraph(FILE, "take-none", losses=plain)
    if gaining:
        yield paragraph(FILE, "take-weights", losses=gaining)
    if len(other):
        yield paragraph(FILE, "take-distribution", gaining=other.filter(pl.col("low") > 0)["loss"].to_list())
    yield paragraph(FILE, "check-first", flat=FLAT)


def counter_examples(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lowest and highest effects of bounds in the tables of other profiles, by data and loss."""
    of_citeulike, of_samplings, *of_regimes = (folder / name for name in OTHER_TABLES[:-1])
    citeulike = read_made(of_citeulike, CITEULIKE_COLUMNS)
    # Its runs are scored by nDCG and AP alone.
    score = pl.when(loss="AP").then("AP").otherwise("nDCG").alias("score")
    yield from _summarised("CiteULike-a", _differences(citeulike.with_columns(score), ["nsr", "temperature", "loss"]))
    samplings = read_made(of_samplings, SAMPLING_COLUMNS)
    samplings = samplings.filter(pl.col("loss").is_in(LOSSES), pl.col("dataset") != "movielens")
    yield from _summarised("MovieLens, other negatives", _differences(samplings, ["dataset", "nsr", "loss"]))
    for path, title in zip(of_regimes, ("MovieLens, mixed ratios", "generated lists"), strict=True):
        table = read_made(path, effects.REGIME_COLUMNS)
        yield from _summarised(title, table.filter(pl.col("n_untrained") == 0))


def _differences(table: pl.DataFrame, cell: list[str]) -> pl.DataFrame:
    """Return the effect of each bounded loss: its score without that of the unbounded loss, untested."""
    unbounded = table.filter(bounding=UNBOUNDED).select(*cell, unbounded="score")
    paired = table.filter(pl.col("bounding") != UNBOUNDED).join(unbounded, on=cell, nulls_equal=True)
    none = pl.lit(None, pl.Float64)
    return paired.with_columns(effect=pl.col("score") - pl.col("unbounded"), low=none, high=none)


def _summarised(data: str, cells: pl.DataFrame) -> Iterator[dict[str, Any]]:
    distinct = [is_distinct(*pair) for pair in cells.select("loss", "bounding").rows()]
    cells = cells.filter(distinct).with_columns(_BOUNDS, pl.col("loss").cast(pl.Enum(LOSSES)))
    for (loss, bounds), own in cells.sort("loss", "bounds").group_by("loss", "bounds", maintain_order=True):
        tested = own["low"].null_count() < len(own)
        yield {
            "data": data,
            "loss": loss,
            "bounds": bounds,
            "cells": len(own),
            "lowest": own["effect"].min(),
            "highest": own["effect"].max(),
            "lower": int((own["high"] < 0).sum()) if tested else None,
            "higher": int((own["low"] > 0).sum()) if tested else None,
        }


def references() -> Iterator[Paragraph]:
    """Yield the entries of `references.bib`, by their first authors."""
    content = files("rankbound_study.reference").joinpath("references.bib").read_text("utf-8").replace(r"\&", "&")
    bodies = re.findall(r"@\w+\{\w+,\n(.*?)\n\}", content, re.S)
    entries = [dict(re.findall(r"(\w+) = \{(.*)\}", body)) for body in bodies]
    for one in sorted(entries, key=lambda one: (one["author"].split(" and ")[0].split()[-1], one["title"])):
        authors = re.sub(r", others$", " et al", one["author"].replace(" and ", ", "))
        place = next((one[key] for key in ("journal", "booktitle", "school", "howpublished") if key in one), "")
        rest = " ".join(filter(None, [place, one.get("volume", "")]))
        year = f" {one['year']}." if "year" in one else ""
        yield Paragraph(f"{authors}.{year}".rstrip("."), f"{one['title']}. {rest}.")
