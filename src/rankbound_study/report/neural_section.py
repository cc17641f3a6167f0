"""The report's sections on the neural-ranking study: facts that no claim covers, claims, tables and figures.

Differences are those of the files `table_neural_*_comparisons.csv`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl

from rankbound_study.figures import figure_specs
from rankbound_study.report.blocks import Finding, ReportSection
from rankbound_study.report.claims_section import Claims
from rankbound_study.report.columns import signed
from rankbound_study.report.made_blocks import Figures, table_blocks
from rankbound_study.report.neural_tables import Results, four, read_results
from rankbound_study.report.prose import finding, text
from rankbound_study.results.neural_names import AS_PRINTED, CONTROL, FAMILIES
from rankbound_study.results.neural_pairs import READINGS
from rankbound_study.results.neural_runs import printed_scores

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


def facts(results: Sequence[Results]) -> Iterator[Finding]:
    """Yield the facts of all tables with scores on real data."""
    for table in results:
        if table.synthetic or not table.scores["ours"].count():
            continue
        if table.about.of_faces:
            yield from _readings(table)
        else:
            yield from _above_random(table)
        yield from _same_models(table)
        yield from _as_printed(table)


def _above_random(web: Results) -> Iterator[Finding]:
    """Compare the printed score of LambdaMART and ours with a random ordering."""
    random, lambdamart, printed = web.mean("random"), web.mean("LambdaMART"), web.printed("LambdaMART")
    if random is None or lambdamart is None or printed is None:
        return
    means = [web.mean(method) or 0.0 for family in FAMILIES for method in web.of_family(family)]
    all_printed = printed_scores(web.about)["printed"].to_list()
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
        printed_place=_place(printed, all_printed),
        dataset=web.about.dataset,
        skipped=row["n_skipped"],
        n=row["n"],
    )


def _place(score: float, scores: Sequence[float]) -> str:
    return f"place {1 + sum(other > score for other in scores)} of {len(scores)}"


def _readings(faces: Results) -> Iterator[Finding]:
    """Compare the printed classifiers, which score below 0.5, with two ways of counting a pair (N18 of the errata)."""
    names = faces.of_family("classification")
    by_score, both = ([_known(faces, name, metric) for name in names] for metric in (None, READINGS[0]))
    printed = [value for name in names if (value := faces.printed(name)) is not None]
    if not names or not printed:
        return
    yield finding(
        FILE,
        "readings",
        ("method", "by score", "both labels right", "one label for both", "both wrong", "printed"),
        tuple(
            (
                name,
                *(four(faces.mean(name, metric)) for metric in (None, *READINGS[:3])),
                four(faces.printed(name)),
            )
            for name in names
        ),
        data=faces.data,
        by_score=_span(by_score),
        printed=_span(printed),
        both=_span(both),
    )


def _known(faces: Results, name: str, metric: str | None) -> float:
    return faces.mean(name, metric) or 0.0


def _same_models(table: Results) -> Iterator[Finding]:
    """Compare the differences between tasks, ours and printed."""
    rows = [(pair, comparison) for pair in SAME_MODELS if (comparison := table.compared(*pair)) is not None]
    if not rows:
        return
    printed = [_printed_difference(table, *pair) for pair, _ in rows]
    known = [(comparison, value) for (_, comparison), value in zip(rows, printed, strict=True) if value is not None]
    outside = sum(not comparison["low"] <= value <= comparison["high"] for comparison, value in known)
    yield finding(
        FILE,
        "same-models",
        ("methods", "ours", "95 % interval", "printed"),
        tuple(
            (
                f"{method} − {other}",
                signed(comparison["difference"]),
                f"{signed(comparison['low'])} to {signed(comparison['high'])}",
                signed(value),
            )
            for ((method, other), comparison), value in zip(rows, printed, strict=True)
        ),
        outside=outside,
        known=len(known),
        data=table.data,
        metric=table.about.metric.replace("PairAccuracy", "Pair accuracy"),
        dataset=table.about.dataset,
    )


def _printed_difference(table: Results, method: str, other: str) -> float | None:
    first, second = table.printed(method), table.printed(other)
    return None if first is None or second is None else first - second


def _as_printed(table: Results) -> Iterator[Finding]:
    """Compare the paper's optimiser, learning rate and batches with ours."""
    methods = [name for family in FAMILIES for name in table.of_family(family) if name.endswith(AS_PRINTED)]
    bases = {name: name.removesuffix(AS_PRINTED) for name in methods}
    rows = [
        (name, base, comparison)
        for name, base in bases.items()
        if (comparison := table.compared(name, base)) is not None
    ]
    if not rows:
        return
    changes = [comparison["difference"] for *_, comparison in rows]
    span = signed(changes[0]) if len(changes) == 1 else f"{signed(min(changes))} to {signed(max(changes))}"
    random = 0.5 if table.about.of_faces else table.mean("random")
    yield finding(
        FILE,
        "as-printed",
        ("method", "as printed", "ours", "difference", "95 % interval"),
        tuple(
            (
                base,
                four(table.mean(name)),
                four(table.mean(base)),
                signed(comparison["difference"]),
                f"{signed(comparison['low'])} to {signed(comparison['high'])}",
            )
            for name, base, comparison in rows
        ),
        data=table.data,
        span=span,
        random=four(random),
    )


def _span(values: Sequence[float]) -> str:
    return f"{four(min(values))} to {four(max(values))}" if len(values) > 1 else four(values[0])


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
    names = [name for name in figure_specs() if name.startswith("figure_neural_")]
    drawn = tuple(figures.blocks(names, synthetic=synthetic))
    yield ReportSection("neural-figures", "Figures of neural ranking", "", drawn)
