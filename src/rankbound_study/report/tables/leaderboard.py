"""The leaderboard: all models with all losses and bounds on one metric, with tests, and where they differ."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.leaderboard import (
    ALIKE,
    BASELINE,
    BEST,
    BETTER,
    COLUMNS,
    COMPARISONS,
    WITHIN,
    WORSE,
    Board,
    Choice,
    by_length,
    by_topic,
)
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures.style import bounding_title
from rankbound_study.report import render_latex, render_markdown
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.table_files import TableFiles, TableTexts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed
from rankbound_study.results.scores import SYSTEM, names_of, read_systems, untrained_systems, validation_means
from rankbound_study.results.specs import StudyFiles, described, reading
from rankbound_study.results.trained import MARK

SPECS: dict[str, TableSpec] = {}

NAME = "table_leaderboard"
BESIDE = (".md", ".tex", "_summary.json", "_lengths.csv", "_topics.csv")
MARKS = {BETTER: "▲", WORSE: "▼", ALIKE: "≈"}
LABELS = 4
_TITLES = {BEST: "minus the best", "counterpart": "minus unbounded", BASELINE: "minus {}"}


def leaderboard_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield a table for each data set."""
    yield from blocks_of(read_table(folder / f"{name}.csv", COLUMNS), read_facts(folder)["margin"])


def read_facts(folder: Path) -> dict[str, Any]:
    """Read the leaderboard's summary in the folder of the tables; DataError if it is damaged."""
    path = folder / "table_leaderboard_summary.json"
    with reading(path):
        facts: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if missing := {"margin", "data_sets"} - set(facts):
            raise KeyError(f"missing keys: {', '.join(sorted(missing))}")
    return facts


def blocks_of(table: pl.DataFrame, margin: float) -> Iterator[TableBlock]:
    """Yield a block for each data set of the table."""
    parts = table.partition_by("dataset", "nsr", maintain_order=True)
    for part in parts:
        yield _block(part, margin, several=len(parts) > 1)


def _boards(files: StudyFiles, study: str, choice: Choice) -> list[Board]:
    """Return the board of each data set that has a trained system, in the order of all tables."""
    systems = read_systems(files, study)
    validation = validation_means(files, study, systems, choice.judged_by)
    untrained = untrained_systems(files, study)
    trained = systems.filter(pl.col("loss") != "none").select("dataset", "nsr_test").unique().rows()
    boards = []
    for data_set in sorted(map(DataSet._make, trained), key=lambda data_set: data_set.place):
        own = (pl.col("dataset") == data_set.dataset) & pl.col("nsr_test").eq_missing(pl.lit(data_set.nsr, pl.Int8))
        stuck = {
            tuple(map(str, key)): count for *key, count in untrained.filter(own).select(*SYSTEM, "n_untrained").rows()
        }
        boards.append(Board.of(systems.filter(own), validation.filter(own), choice, stuck))
    return boards


def _joined(tables: Any) -> pl.DataFrame:
    found = list(tables)
    return pl.concat(found) if found else pl.DataFrame()


def _facts(board: Board) -> dict[str, Any]:
    """Return what the data are, and the systems that others are compared with."""
    rows = board.systems[board.order[0]]
    lists = rows.unique(["fold", "topic"], maintain_order=True)
    dataset, nsr = board.data
    partner = board.partner()
    return {
        "dataset": dataset,
        "nsr": nsr,
        "topics": lists["topic"].n_unique(),
        "lists": len(lists),
        "items": int(lists["n"].sum()),
        "relevant": int(lists["p"].sum()),
        "shortest": lists["n"].min(),
        "median": lists["n"].median(),
        "longest": lists["n"].max(),
        "folds": rows["fold"].n_unique(),
        "seeds": rows["seed"].n_unique(),
        "partner": None if partner is None else list(partner),
    }


def _block(table: pl.DataFrame, margin: float, *, several: bool) -> TableBlock:
    first = table.row(0, named=True)
    label = DataSet(first["dataset"], first["nsr"]).label
    names = _models(table)
    of_baseline = next((row["model"] for row in table.iter_rows(named=True) if row["role"] == BASELINE), "")
    shown = [name for name in COMPARISONS if name != BASELINE or of_baseline]
    stuck = f"{MARK} did not train: without a rank, compared with none. " if table["n_untrained"].sum() else ""
    return TableBlock(
        f"Leaderboard, {label}" if several else "Leaderboard",
        f"Mean over the test topics, ordered by the validation score on {first['metric']}: no test score selects the "
        "best, and on the test part another may score higher. In small type: half of the 95 % interval; ▲ "
        f"significantly better, ▼ significantly worse (p at most {LEVEL} after Holm's correction over all systems), ≈ "
        f"alike, within ±{margin:g} by two one-sided tests. Differences are on {first['metric']}, paired by topic; "
        f"controls are not trained and have no rank. {stuck}`tables/{NAME}.csv` has the means on other metrics.",
        ("rank", "model", "loss", "bounding", first["metric"], *(_TITLES[name].format(of_baseline) for name in shown)),
        tuple(_row(row, name, shown) for row, name in zip(table.iter_rows(named=True), names, strict=True)),
        labels=LABELS,
        rules=frozenset({first_control} if (first_control := table["rank"].count()) < len(table) else ()),
        sortable=True,
    )


def _models(table: pl.DataFrame) -> list[str]:
    names = names_of(table)
    return [names[key] for key in table.select("variant", "model", "loss", "bounding").rows()]


def _row(row: Mapping[str, Any], model: str, shown: list[str]) -> tuple[Cell, ...]:
    control, best = row["loss"] == "none", row["role"] == BEST
    half = None if row["low"] is None else (row["high"] - row["low"]) / 2
    return (
        Cell(DASH if row["rank"] is None else str(row["rank"]), strong=best),
        Cell(f"{model}{MARK if row['n_untrained'] else ''}", strong=best, emphasis=control),
        Cell(DASH if control else row["loss"], strong=best),
        Cell(DASH if control else bounding_title(row["bounding"]), strong=best),
        Cell(DASH if row["score"] is None else f"{row['score']:.4f}", _margin(half)),
        *(_difference(row, name) for name in shown),
    )


def _difference(row: Mapping[str, Any], name: str) -> Cell:
    difference, low, high = (row[f"{name}_{what}"] for what in ("difference", "low", "high"))
    if difference is None:
        return Cell(DASH)
    return Cell(signed(difference), f"{_margin((high - low) / 2)}{_mark(row[f'{name}_verdict'])}")


def _mark(verdict: str) -> str:
    """Return the mark of a verdict; a significant difference within the margin has two."""
    found, within, _ = verdict.partition(WITHIN)
    return f"{MARKS.get(found, '')}{MARKS[ALIKE] if within else ''}"


def _margin(half: float | None) -> str:
    return "" if half is None else f"±{half:.4f}"


def _texts(table: pl.DataFrame, margin: float) -> TableTexts:
    _shown = list(blocks_of(table, margin))
    heading = f"Leaderboard. {_shown[0].caption}" if _shown else "Leaderboard: no trained models."
    return TableTexts(
        render_markdown.tables(heading, _shown, titled=True), render_latex.tables("Leaderboard", _shown, dash=DASH)
    )


@described(
    SPECS,
    table_leaderboard=TableSpec(
        "Every model with every loss and bounding, ordered by its validation score: the mean over the test topics with "
        "its 95 % interval, and differences from the best system, the unbounded loss and a baseline, tested in pairs.",
        title="leaderboard",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study", "leaderboard"),
        beside=BESIDE,
        section="leaderboard",
        blocks=leaderboard_blocks,
    ),
)
def make_leaderboard(
    name: str, files: StudyFiles, *, study: str, leaderboard: Mapping[str, Any] | None = None
) -> TableFiles:
    """Return the table of a study; `leaderboard` is that section of the configuration."""
    choice = Choice(**(leaderboard or {}))
    boards = _boards(files, study, choice)
    table = pl.concat([pl.DataFrame(schema=COLUMNS), *(board.table for board in boards)])
    beside: dict[str, pl.DataFrame | dict[str, Any]] = {
        "_summary.json": {"margin": choice.margin, "data_sets": [_facts(board) for board in boards]},
        "_lengths.csv": _joined(map(by_length, boards)),
        "_topics.csv": _joined(map(by_topic, boards)),
    }
    return TableFiles(table, _texts(table, choice.margin), beside)
