"""The report's sections on the neural-ranking study: facts that no claim covers, claims, tables and figures.

Differences are those of the files `table_neural_*_comparisons.csv`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.columns import between, four, signed
from rankbound_study.report.content import Figures, Finding, ReportSection, figures_named, finding, table_blocks
from rankbound_study.report.tables.neural import COLUMNS, COMPARISON_COLUMNS
from rankbound_study.results.neural import (
    AS_PRINTED,
    CONTROL,
    FAMILIES,
    READINGS,
    TABLES,
    Printed,
    data_set_title,
    printed_scores,
)
from rankbound_study.results.study_files import read_table
from rankbound_study.templates import text

FILE = "neural.md"
SAME_MODELS = (
    ("RankNet", "Class-NN"),
    ("Rank-LR", "Class-LR"),
    ("LambdaMART", "Class-Boost"),
    ("RankNet", "Reg-NN"),
    ("Reg-NN", "Class-NN"),
    ("RankCNN", "Class-CNN"),
)
"""Pairs of methods that fit one model to the same lists and features for two of the three tasks."""


@dataclass(frozen=True)
class Results:
    """One table on one data set, from its files: scores, and comparisons of pairs of methods."""

    about: Printed
    scores: pl.DataFrame
    comparisons: pl.DataFrame

    @property
    def synthetic(self) -> bool:
        """True if the data are generated."""
        return str(self.scores["dataset"][0] or "").startswith(SYNTHETIC)

    @property
    def data(self) -> str:
        """The title of the data set."""
        pixels = self.about.number == TABLES[1].number and not self.synthetic
        return f"{data_set_title(self.scores['dataset'][0] or '')}{', pixels' * pixels}"

    def mean(self, method: str, metric: str | None = None) -> float | None:
        """Return a method's mean; None if it has not run."""
        own = pl.col("method") == method, pl.col("metric") == (metric or self.about.metric)
        return next(iter(self.scores.filter(*own)["ours"]), None)

    def printed(self, method: str) -> float | None:
        """Return the score that the paper prints for a method, on any data set."""
        own = printed_scores(self.about).filter(pl.col("method") == method.removesuffix(AS_PRINTED))
        return next(iter(own["printed"]), None)

    def of_families(self, *families: str) -> list[str]:
        """Return the methods of families that have run, by family."""
        ran = self.scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == self.about.metric)
        return [name for one in families for name in ran.filter(pl.col("family") == one)["method"]]

    def compared(self, method: str, other: str) -> dict[str, Any] | None:
        """Return the difference of two methods and its interval (difference, low, high); None unless both have run."""
        for first, second, sign in ((method, other, 1), (other, method, -1)):
            rows = self.comparisons.filter(pl.col("method") == first, pl.col("other") == second)
            for row in rows.iter_rows(named=True):
                low, high = sorted((sign * row["low"], sign * row["high"]))
                return {"difference": sign * row["difference"], "low": low, "high": high}
        return None


def read_results(folder: Path) -> list[Results]:
    """Read the study's tables in a folder, one per table and data set, in the paper's order."""
    results = []
    for about in TABLES:
        if (folder / f"{about.name}.csv").exists():
            comparisons = read_table(folder / f"{about.name}_comparisons.csv", COMPARISON_COLUMNS)
            scores = read_table(folder / f"{about.name}.csv", COLUMNS)
            for own in scores.partition_by("dataset", maintain_order=True):
                beside = comparisons.filter(pl.col("dataset").eq_missing(pl.lit(own["dataset"][0])))
                results.append(Results(about, own, beside))
    return results


def facts(results: Sequence[Results]) -> Iterator[Finding]:
    """Yield the facts of all tables with scores on real data."""
    for table in results:
        if table.synthetic or not table.scores["ours"].count():
            continue
        yield from _readings(table) if table.about.of_faces else _above_random(table)
        yield from _same_models(table)
        yield from _as_printed(table)


def _above_random(web: Results) -> Iterator[Finding]:
    """Compare the printed score of LambdaMART and ours with a random ordering."""
    random, lambdamart, printed = web.mean("random"), web.mean("LambdaMART"), web.printed("LambdaMART")
    if random is None or lambdamart is None or printed is None:
        return
    means = [web.mean(method) or 0.0 for method in web.of_families(*FAMILIES)]
    row = web.scores.filter(pl.col("ours").is_not_null(), pl.col("family") != CONTROL).row(0, named=True)
    yield finding(
        FILE,
        "above-random",
        ours=lambdamart,
        data=web.data,
        place=_place(lambdamart, means),
        random=random,
        above=sum(mean > random for mean in means),
        methods=len(means),
        printed=printed,
        printed_place=_place(printed, printed_scores(web.about)["printed"].to_list()),
        dataset=web.about.dataset,
        skipped=row["n_skipped"],
        n=row["n"],
    )


def _place(score: float, scores: Sequence[float]) -> str:
    return f"place {1 + sum(other > score for other in scores)} of {len(scores)}"


def _readings(faces: Results) -> Iterator[Finding]:
    """Compare the printed classifiers, which score below 0.5, with two ways of counting a pair (N18 of the errata)."""
    names = faces.of_families("classification")
    by_score, both = ([faces.mean(name, metric) or 0.0 for name in names] for metric in (None, READINGS[0]))
    printed = [value for name in names if (value := faces.printed(name)) is not None]
    if not names or not printed:
        return
    metrics = {"score": None, **dict(zip(("right", "same", "wrong"), READINGS, strict=False))}
    rows = [
        {"method": name, "printed": faces.printed(name)}
        | {title: faces.mean(name, metric) for title, metric in metrics.items()}
        for name in names
    ]
    spans = {"by_score": _span(by_score), "printed": _span(printed), "both": _span(both)}
    yield finding(FILE, "readings", rows, data=faces.data, **spans)


def _span(values: Sequence[float]) -> str:
    return f"{four(min(values))} to {four(max(values))}" if len(values) > 1 else four(values[0])


def _same_models(table: Results) -> Iterator[Finding]:
    """Compare the differences between tasks, ours and printed."""
    rows, inside = [], []
    for method, other in SAME_MODELS:
        if (ours := table.compared(method, other)) is None:
            continue
        first, second = table.printed(method), table.printed(other)
        printed = None if first is None or second is None else first - second
        inside += [] if printed is None else [ours["low"] <= printed <= ours["high"]]
        rows.append({"methods": f"{method} − {other}", "printed": printed, **ours})
    if rows:
        metric, dataset = table.about.metric.replace("PairAccuracy", "Pair accuracy"), table.about.dataset
        counts = {"outside": inside.count(False), "known": len(inside)}
        yield finding(FILE, "same-models", rows, data=table.data, metric=metric, dataset=dataset, **counts)


def _as_printed(table: Results) -> Iterator[Finding]:
    """Compare the paper's optimiser, learning rate and batches with ours."""
    rows = []
    for name in table.of_families(*FAMILIES):
        base = name.removesuffix(AS_PRINTED)
        if base == name or (change := table.compared(name, base)) is None:
            continue
        rows.append({"method": base, "theirs": table.mean(name), "ours": table.mean(base), **change})
    if changes := [row["difference"] for row in rows]:
        span = signed(changes[0]) if len(changes) == 1 else between(min(changes), max(changes))
        random = four(0.5 if table.about.of_faces else table.mean("random"))
        yield finding(FILE, "as-printed", rows, data=table.data, span=span, random=random)


SOURCE = "N"
"""First letter of the ids of this study's claims."""


def neural_sections(tables: Path, figures: Figures, claims: Claims) -> Iterator[ReportSection]:
    """Yield the study's sections; nothing if the study has no tables."""
    results = read_results(tables)
    if not results:
        return
    synthetic = any(table.synthetic for table in results)
    listed = () if all(table.synthetic for table in results) else claims.of_source(SOURCE)
    opening = " ".join(text(FILE, name) for name in ("opening", *["generated"] * synthetic))
    shown = (*listed, *table_blocks("neural", tables))
    yield ReportSection("neural", "Neural networks in ranking", opening, shown, tuple(facts(results)))
    drawn = tuple(figures.blocks(figures_named("figure_neural_"), synthetic=synthetic))
    yield ReportSection("neural-figures", "Figures of neural ranking", "", drawn)
