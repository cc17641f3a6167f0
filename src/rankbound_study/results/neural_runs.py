"""Readers of the neural-ranking study (Li and Wu): its runs, its epochs and its printed scores.

Its methods are trained under the honest protocol only: a validation part picks the epoch.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.config.comparisons import OF_FEATURES, STUDY
from rankbound_study.results.neural_names import AS_PRINTED, CONTROL, CONTROLS, FAMILIES, Printed, table_of
from rankbound_study.results.runs_file import scan_runs

NETWORKS = ("mlp", "cnn")
"""Models that are networks; others are linear or trees."""

_BY_VALIDATION = "validation"
_KEY = ("study", "dataset", "model", "options", "loss", "fold", "seed", "selection", "topic")
FAMILY_NAMES = {"class": "classification", "reg": "regression"}
"""Family by its name in runs, where the names differ."""


def printed_scores(table: Printed) -> pl.DataFrame:
    """Return the printed cells of a table in its order: our method name, family, printed score (null for a dash)."""
    resource = files("rankbound_study.reference").joinpath("neural_ranking_tables.csv")
    printed = pl.read_csv(resource.read_bytes(), schema_overrides={"score": pl.Float64})
    return printed.filter(pl.col("table") == table.number).select(
        pl.col("model").map_elements(method_of, pl.String).alias("method"), "family", pl.col("score").alias("printed")
    )


def method_of(printed: str) -> str:
    """Map a printed name to ours: `Reg. LR-l1` is Reg-l1, `Rank LR` is Rank-LR, `LambdaMart` is LambdaMART."""
    return re.sub(r"\.? ", "-", printed.replace("LR-l", "l").replace("Mart", "MART"))


def read_runs(path: Path, table: Printed, metrics: Sequence[str]) -> pl.DataFrame:
    """Read test lists of one table's data sets, a row per method, fold, seed and topic; undefined scores are null.

    Columns are dataset, method, family, loss, fold, seed, topic, n, p, epoch and the metrics. Controls may come from
    any study, since they are not trained.

    Raises:
        DataError: a column is missing.
    """
    columns = [*_KEY, "n", "p", "epoch", *metrics]
    scan = scan_runs(path, columns)
    control = pl.col("model").is_in(CONTROLS) & (pl.col("loss") == "none")
    trained = (pl.col("study") == STUDY) & ~control & (pl.col("selection") == _BY_VALIDATION) & _sees(every=True)
    frame = scan.filter(trained | control).select(columns).collect()
    names = [name for name in frame["dataset"].unique().sort() if table_of(name) == table]
    # Where all methods see moved pictures or some features alone, controls have nothing beside them.
    names = frame.filter(pl.col("dataset").is_in(names), ~control)["dataset"].unique().sort().to_list()
    return (
        frame.filter(pl.col("dataset").is_in(names))
        .with_columns(pl.col(list(metrics)).fill_nan(None), _family(frame).alias("family"))
        .rename({"model": "method"})
        .unique(["dataset", "method", "loss", "options", "fold", "seed", "topic"], maintain_order=True)
        .drop("study", "options", "selection")
        .sort("dataset", "method", "fold", "seed", "topic")
    )


def read_runs_by_features(path: Path, table: Printed, width: int | None) -> pl.DataFrame:
    """Read test lists of methods that see some of the features, for one table's data sets; undefined scores are null.

    Columns are dataset, method (without the count in its name), run (its full name), family, network (a flag),
    features, fold, seed, topic and the table's metric. With `width`, the number of all features, the runs on all of
    them with the same model, loss and settings (except the learning rate) are included.

    Raises:
        DataError: a column is missing.
    """
    scan = scan_runs(path, [*_KEY, table.metric])
    chosen = (pl.col("study") == STUDY) & (pl.col("selection") == _BY_VALIDATION)
    frame = (
        scan.filter(chosen & (_sees(every=False) | (_sees(every=True) & (width is not None))))
        .select(*_KEY, table.metric)
        .collect()
    )
    of_table = [name for name in frame["dataset"].unique() if table_of(name) == table]
    frame = frame.filter(pl.col("dataset").is_in(of_table)).with_columns(
        pl.col(table.metric).fill_nan(None),
        _family(frame).alias("family"),
        _option(frame, lambda options: options.get("model") in NETWORKS, pl.Boolean).alias("network"),
        _option(frame, lambda options: options.get("features"), pl.Int64).alias("features"),
        _option(frame, _settings_text, pl.String).alias("settings"),
        pl.col("model").alias("run"),
        pl.col("model").str.replace(f"{OF_FEATURES}\\d+$", "").alias("method"),
    )
    some = frame.filter(pl.col("features").is_not_null())
    alike = ["dataset", "method", "loss", "settings", "fold", "seed"]
    every = frame.filter(pl.col("features").is_null()).join(some.select(alike).unique(), on=alike, how="semi")
    every = every.with_columns(pl.lit(width, pl.Int64).alias("features"))
    # A count of all features repeats the training without a count.
    every = every.join(
        some.select("dataset", "method", "features").unique(), on=["dataset", "method", "features"], how="anti"
    )
    columns = ["dataset", "method", "run", "family", "network", "features", "fold", "seed", "topic"]
    return pl.concat([some, every]).select(*columns, table.metric).sort(columns)


def read_epochs(path: Path, methods: Sequence[str]) -> pl.DataFrame:
    """Read the epochs of these methods: dataset, method, loss, fold, seed, epoch, part, and all numeric columns."""
    frame = scan_runs(path).filter(pl.col("study") == STUDY, pl.col("model").is_in(list(methods))).collect()
    numbers = [name for name, kind in frame.schema.items() if kind == pl.Float64]
    key = ["dataset", "model", "loss", "fold", "seed", "epoch", "part"]
    return (
        frame.select(*key, pl.col(numbers).fill_nan(None))
        .rename({"model": "method"})
        .sort("dataset", "method", *key[2:])
    )


def in_print_order(methods: Sequence[str], families: Sequence[str], table: Printed) -> list[int]:
    """Return the order of the methods: by family, as printed in the paper, then others by name; controls last."""
    printed = printed_scores(table)["method"].to_list()
    order = [*FAMILIES, CONTROL]

    def place(index: int) -> tuple[int, int, str]:
        method, family = methods[index], families[index]
        base = method.removesuffix(AS_PRINTED)
        return order.index(family), printed.index(base) if base in printed else len(printed), method

    return sorted(range(len(methods)), key=place)


def _sees(*, every: bool) -> pl.Expr:
    """Select runs that see every feature of their data set, or those whose options give a number of features.

    Runs on moved pictures are neither.
    """
    count, moved = (pl.col("options").str.json_path_match(f"$.{name}") for name in ("features", "shift"))
    return moved.is_null() & (count.is_null() if every else count.is_not_null())


def _option(frame: pl.DataFrame, read: Callable[[dict[str, Any]], Any], kind: Any) -> pl.Expr:
    """Apply `read` to a run's options."""
    found = {text: read(json.loads(text)) for text in frame["options"].unique()}
    return pl.col("options").replace_strict(found, default=None, return_dtype=kind)


def _settings_text(options: Mapping[str, Any]) -> str:
    """Return a run's options without those that depend on the number of features."""
    kept = {name: value for name, value in options.items() if name not in ("features", "learning_rate")}
    return json.dumps(kept, sort_keys=True)


def _family(frame: pl.DataFrame) -> pl.Expr:
    """Return the family in a run's options; controls are a family of their own."""
    named = {text: json.loads(text).get("family", "") for text in frame["options"].unique()}
    families = {text: FAMILY_NAMES.get(name, name) for text, name in named.items()}
    of_options = pl.col("options").replace_strict(families, default="", return_dtype=pl.String)
    guessed = pl.col("model").str.extract(r"^(Reg|Class)").replace({"Reg": FAMILIES[1], "Class": FAMILIES[2]})
    return (
        pl.when(pl.col("model").is_in(CONTROLS))
        .then(pl.lit(CONTROL))
        .when(of_options != "")
        .then(of_options)
        .otherwise(guessed.fill_null(FAMILIES[0]))
    )
