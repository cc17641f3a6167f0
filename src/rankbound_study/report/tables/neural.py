"""Tables of the neural-ranking study: 1 to 3, a row per method, and the scores by the number of features.

The tables are in long form, with a row per data set, method and metric. Folds are pooled: every test list counts once,
its seeds averaged first; lists on which a metric is undefined are left out and counted. Every method is compared with
the best trained method of its table on the same lists; the printed metric picks the best one on the validation part.
P-values are adjusted by Holm over these comparisons.

The paper's Table 1 is on MSLR-WEB10K; on other data, its printed scores are for orientation only.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.statistics import corrected
from rankbound.errors import DataError
from rankbound.texts import quantity
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.figures import Catalogue
from rankbound_study.report import blocks
from rankbound_study.report.blocks import Across, Cell, Format, Layout, Row, TableBlock, TableFiles
from rankbound_study.report.numbers import with_minus
from rankbound_study.report.tables import TableSpec
from rankbound_study.results import neural
from rankbound_study.results.scores import best_of, scores_of_methods
from rankbound_study.results.study_files import StudyFiles, read_table, schema
from rankbound_study.templates import text
from rankbound_study.vocabulary import COMPARED

FILE = "table_neural.md"
TABLES = Catalogue(TableSpec, FILE)

_DIFFERENCE = ("difference_to_best", "difference_low", "difference_high")
COLUMNS: Mapping[str, Any] = {
    **schema("text: dataset family method loss metric; float: ours low high printed; int: n n_skipped n_folds n_seeds"),
    **dict.fromkeys((*_DIFFERENCE, "p_value", "p_holm"), pl.Float64),
}
COMPARISON_COLUMNS = schema("text: dataset metric method other; float: difference low high p_value")
R_SQUARED = "R2"


def make_neural(name: str, files: StudyFiles) -> TableFiles:
    """Return the scores, the comparisons of all pairs of methods (unadjusted) and, for faces, accuracy by age gap.

    Tables of faces need the predictions of their methods and, for the ages, the images file. Methods that the paper
    prints but that have not run have a row with the printed score only.

    Raises:
        ConfigError: there are predictions, but no images file.
        DataError: the table of epochs lacks validation scores of the methods.
    """
    table, runs, epochs = neural.table_named(name), files.needed("runs"), files.needed("epochs")
    frame = neural.read_runs(runs, table, table.metrics)
    pairs = neural.read_pairs(files.predictions, files.images) if files.predictions else None
    rows: list[dict[str, Any]] = []
    comparisons: list[tuple[Any, ...]] = []
    gaps = [pl.DataFrame(schema={"dataset": pl.String, **neural.AGE_GAP_COLUMNS})]
    for own in frame.partition_by("dataset", maintain_order=True):
        dataset = own["dataset"][0]
        own_pairs = None if pairs is None else pairs.filter(pl.col("dataset") == dataset)
        trained = own.filter(pl.col("family") != neural.CONTROL)["method"].unique().sort().to_list()
        best = best_of(trained, scores_of_methods(epochs, dataset, table.metric))
        if best is None:
            lacking = f"no validation scores of methods on {dataset}"
            raise DataError(f"{epochs}: {lacking}; they are needed to pick the best one")
        for metric in table.metrics:
            methods, means = neural.method_means(own, metric, own_pairs)
            places = [place for place, method in enumerate(methods) if method in trained]
            rows += _rows(own, metric, methods, means, places, methods.index(best))
            # Without correction: claims adjust their own.
            for one, other in combinations(places, 2) if metric == table.metric else ():
                comparisons.append((dataset, metric, methods[one], methods[other], *means.difference(one, other)))
        rows += [] if own_pairs is None else _readings(own, own_pairs)
    for own in [] if pairs is None else pairs.partition_by("dataset", maintain_order=True):
        gaps.append(neural.by_gap(own).select(pl.lit(own["dataset"][0]).alias("dataset"), pl.all()))
    scores = _beside_print(rows, table)
    beside = {"_comparisons.csv": pl.DataFrame(comparisons, schema=COMPARISON_COLUMNS, orient="row")}
    beside |= {"_by_age_gap.csv": pl.concat(gaps)} if table.of_faces else {}
    title = f"Table {table.number} of the neural-ranking study: {table.title}"
    written = _texts(title, caption(scores, table), list(score_blocks(scores, table)))
    return TableFiles(scores, {**written, **beside})


def _rows(
    frame: pl.DataFrame, metric: str, methods: Sequence[str], means: neural.MethodMeans, trained: list[int], best: int
) -> Iterator[dict[str, Any]]:
    others = [place for place in trained if place != best and math.isfinite(means.means[place])]
    tested = {place: means.difference(place, best) for place in others}
    adjusted = dict(zip(others, corrected([p_value for *_, p_value in tested.values()]), strict=True))
    for place, method in enumerate(methods):
        row = _facts(frame, method, metric, float(means.means[place]), *means.interval(place))
        if place in adjusted:
            numbers = *tested[place], adjusted[place]
            row |= dict(zip((*_DIFFERENCE, "p_value", "p_holm"), numbers, strict=True))
        yield row


def _facts(
    frame: pl.DataFrame, method: str, metric: str, ours: float, low: float, high: float, *, counted: bool = True
) -> dict[str, Any]:
    """Return a row: the mean and its interval, and of how many lists; without a metric, all lists are `counted`."""
    own = frame.filter(pl.col("method") == method)
    lists = own.group_by("fold", "topic").agg(pl.col(metric).mean() if counted else pl.lit(0.0).alias("known"))
    skipped = lists.select(pl.last()).to_series().null_count()
    key = own.select("dataset", "family", "method", "loss").row(0, named=True)
    counts = {"n": len(lists) - skipped, "n_skipped": skipped}
    counts |= {"n_folds": own["fold"].n_unique(), "n_seeds": own["seed"].n_unique()}
    return key | counts | {"metric": metric, "ours": ours, "low": low, "high": high}


def _readings(frame: pl.DataFrame, pairs: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Compute what needs the scores: R^2 of regressions, both labels of classifiers, ties of all methods."""
    families = dict(frame.select("method", "family").unique().rows())
    for method in pairs["method"].unique().sort():
        own = pairs.filter(pl.col("method") == method)
        for name in neural.READINGS if families[method] == "classification" else neural.READINGS[-1:]:
            _, means = neural.compared(own, name)
            yield _facts(frame, method, name, float(means.means[0]), *means.interval(0), counted=False)
        if families[method] == "regression":
            *numbers, faces = neural.explained(own)[method]
            yield _facts(frame, method, R_SQUARED, *numbers, counted=False) | {"n": faces}


def _beside_print(rows: Sequence[Mapping[str, Any]], table: neural.Printed) -> pl.DataFrame:
    """Add the printed scores, and rows for printed methods that have not run.

    Only the metric that the paper names has printed scores; synthetic data have none. Methods stand by family, as
    printed in the paper, then others by name; controls come last.
    """
    printed = neural.printed_scores(table).to_dicts()
    ours = pl.DataFrame(rows, schema=COLUMNS)
    real = ~pl.col("dataset").str.starts_with(SYNTHETIC)
    by_name = {row["method"]: row["printed"] for row in printed}
    plain = pl.col("method").str.strip_suffix(neural.AS_PRINTED)
    score = plain.replace_strict(by_name, default=None, return_dtype=pl.Float64)
    ours = ours.with_columns(pl.when(real & (pl.col("metric") == table.metric)).then(score).alias("printed"))
    ran = set(ours.select("dataset", "method").rows())
    absent = [
        {**row, "dataset": dataset, "metric": table.metric}
        for dataset in ours["dataset"].unique().sort().to_list() or [""]
        for row in printed
        if (dataset, row["method"]) not in ran and not dataset.startswith(SYNTHETIC)
    ]
    both = pl.concat([ours, pl.DataFrame(absent, schema=COLUMNS)])

    def place(column: pl.Expr, names: Sequence[str]) -> pl.Expr:
        places = {name: place for place, name in enumerate(names)}
        return column.replace_strict(places, default=len(names), return_dtype=pl.Int64)

    by_family = place(pl.col("family"), [*neural.FAMILIES, neural.CONTROL])
    metric = place(pl.col("metric"), [*table.metrics, R_SQUARED, *neural.READINGS])
    ordered = both.sort("dataset", by_family, place(plain, list(by_name)), "method", metric)
    return ordered.with_columns(pl.col(pl.Float64).fill_nan(None))


def neural_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    about = neural.table_named(name)
    for own in read_table(folder / f"{name}.csv", COLUMNS).partition_by("dataset", maintain_order=True):
        (block,) = score_blocks(own, about)
        shown = f"{block.name}. {caption(own, about)}"
        yield replace(block, name=f"Table {about.number}, {about.title}", caption=shown)


_FORMATS: dict[str, Format] = {
    "method": lambda method, strong: Cell(method, strong=strong),
    "interval": lambda low, high: with_minus(f"{low:.3f}…{high:.3f}"),
    "p": lambda p: "<0.001" if p < 0.001 else f"{p:.3f}",
}


def score_blocks(scores: pl.DataFrame, table: neural.Printed) -> Iterator[TableBlock]:
    """Yield one table per data set, without columns that have no numbers; the best method by validation is bold."""
    for (dataset,), own in scores.group_by("dataset", maintain_order=True):
        on_data = table.of_faces or table.is_on(str(dataset))
        by_metric = own.pivot("metric", index="method", values=("ours", "low", "high"))
        rows = own.filter(metric=table.metric).join(by_metric, on="method", maintain_order="left")
        trained = pl.col("ours").is_not_null() & (pl.col("family") != neural.CONTROL)
        layout = Layout.of(
            FILE,
            "scores",
            formats=_FORMATS,
            title=neural.data_set_title(str(dataset)) if dataset else "not run",
            of_faces=table.of_faces,
            printed=("printed" if on_data else f"printed, {table.dataset}") if own["printed"].count() else "",
            tested=rows["p_holm"].count(),
            present=set(own.filter(pl.col("ours").is_not_null())["metric"]),
        )
        yield layout(rows.with_columns(best=trained & pl.col("difference_to_best").is_null()))


def caption(scores: pl.DataFrame, table: neural.Printed) -> str:
    """Return the caption: the data, the intervals, the tests, and what can be compared with the printed scores."""
    if not scores["ours"].count():
        return text(FILE, "not-run", missing=neural.what_is_missing(table))
    ran = scores.filter(pl.col("ours").is_not_null(), pl.col("metric") == table.metric)
    first = ran.group_by("dataset", maintain_order=True).first()
    counts = [row | {"title": neural.data_set_title(row["dataset"])} for row in first.iter_rows(named=True)]
    others, metrics = [row["title"] for row in counts if not table.is_on(row["dataset"])], set(scores["metric"])
    return text(
        FILE,
        "caption",
        counts=counts,
        of_faces=table.of_faces,
        r_squared=R_SQUARED in metrics,
        both_right=neural.READINGS[0] in metrics,
        as_printed=ran["method"].str.ends_with(neural.AS_PRINTED).any(),
        synthetic=table.of_faces and scores["dataset"].str.starts_with(SYNTHETIC).all(),
        beside_print=not table.of_faces and scores["printed"].count() and (others or not counts),
        dataset=table.dataset,
        others=others,
        every=len(others) == len(counts),
        on_mq2008="mq2008-label1" in first["dataset"],
    )


def _texts(title: str, caption: str, shown: Sequence[TableBlock]) -> dict[str, str]:
    capitalised = [replace(block, header=("Family", "Method", *block.header[2:])) for block in shown]
    return blocks.texts(f"{title}. {caption}", shown, title, titled=True, in_latex=capitalised)


for _about in neural.TABLES:
    TABLES.add(
        _about.name,
        text(FILE, "table"),
        title=f"{_about.number}, {_about.title}",
        needs=("runs", "epochs", *(("predictions", "images") if _about.of_faces else ())),
        part=COMPARED,
        data=(_about.number,),
        beside=(".md", ".tex", "_comparisons.csv", *(("_by_age_gap.csv",) if _about.of_faces else ())),
        section="neural",
        blocks=neural_blocks,
    )(make_neural)


FEATURES_TITLE = "Scores by the number of features"
FEATURES_CAPTION = text(FILE, "features")


def features_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table per data set."""
    results = neural.FeatureResults.read(folder)
    for dataset in results.datasets:
        block = _features_block(results, dataset, lambda count: quantity(count, "feature"))
        yield replace(block, name=FEATURES_TITLE, caption=f"{block.name}. {FEATURES_CAPTION}")


def _features_block(
    results: neural.FeatureResults, dataset: str, title: Callable[[int], str] = "{:,}".format
) -> TableBlock:
    """Return the methods of a data set, then the gaps of its families; `title` is that of a number of features."""
    scores = results.scores.filter(pl.col("dataset") == dataset)
    gaps = results.gaps.filter(pl.col("dataset") == dataset, pl.col("features").is_not_null())

    def cell(row: Row) -> Cell:
        mean = f"{row['difference']:+.4f}" if row["gap"] else f"{row['ours']:.4f}"
        interval = "({low:+.3f}…{high:+.3f})" if row["gap"] else "({low:.3f}…{high:.3f})"
        return Cell(with_minus(f"{mean} {interval.format_map(row)}"))

    titles = {count: title(count) for count in scores["features"].unique().sort()}
    across = Across(("family", "method"), ("features",), titles, cell)
    rows = [row | {"gap": False} for row in scores.to_dicts()]
    rows += [row | {"gap": True, "method": "gap"} for row in gaps.to_dicts()]
    name = neural.data_set_title(dataset)
    return Layout.of(FILE, "features-by-method", formats=_FORMATS, across=across, title=name)(rows)


@TABLES.add(
    "table_neural_features",
    needs=("runs", "epochs", "predictions", "images"),
    part=COMPARED,
    data=(1, 2, 3),
    by_features=True,
    beside=(".md", ".tex", "_gaps.csv"),
    section="neural",
    blocks=features_blocks,
)
def make_neural_features(name: str, files: StudyFiles) -> TableFiles:
    """Return the scores and the gaps."""
    results = neural.feature_results(files.needed("runs"), files.needed("epochs"), files.predictions, files.images)
    shown = [_features_block(results, dataset) for dataset in results.datasets]
    caption = FEATURES_CAPTION if shown else neural.NOT_RUN
    return TableFiles(results.scores, {**_texts(FEATURES_TITLE, caption, shown), "_gaps.csv": results.gaps})
