"""The leaderboard: all models with all losses and bounds on one metric, with tests, and where they differ."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
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
from rankbound_study.report.blocks import Cell, TableBlock
from rankbound_study.report.columns import DASH, Column, Layout, Row, with_margin
from rankbound_study.report.prose import text
from rankbound_study.report.table_files import TableFiles, read_table, texts_of
from rankbound_study.report.tables import TableSpec
from rankbound_study.results.scores import SYSTEM, names_of, read_systems, untrained_systems, validation_means
from rankbound_study.results.specs import StudyFiles, described, reading
from rankbound_study.results.trained import MARK

SPECS: dict[str, TableSpec] = {}

NAME = "table_leaderboard"
BESIDE = (".md", ".tex", "_summary.json", "_lengths.csv", "_topics.csv")
MARKS = {BETTER: "▲", WORSE: "▼", ALIKE: "≈"}
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
    names = names_of(table)
    of_baseline = next((row["model"] for row in table.iter_rows(named=True) if row["role"] == BASELINE), "")
    shown = [name for name in COMPARISONS if name != BASELINE or of_baseline]
    stuck = bool(table["n_untrained"].sum())
    layout = Layout(
        f"Leaderboard, {label}" if several else "Leaderboard",
        text("table_leaderboard.md", "caption", metric=first["metric"], margin=margin, level=LEVEL, stuck=stuck),
        (
            _label("rank", lambda row: DASH if row["rank"] is None else str(row["rank"])),
            _label("model", lambda row: names[tuple(row[name] for name in SYSTEM)] + MARK * bool(row["n_untrained"])),
            _label("loss", lambda row: str(row["loss"])),
            _label("bounding", lambda row: bounding_title(row["bounding"])),
            Column(first["metric"], ("score", "low", "high"), _score, null=True),
            *(
                Column(
                    _TITLES[name].format(of_baseline),
                    tuple(f"{name}_{what}" for what in ("difference", "low", "high", "verdict")),
                    lambda difference, low, high, verdict: with_margin(difference, low, high, _mark(verdict)),
                )
                for name in shown
            ),
        ),
        labels=4,
        sortable=True,
    )
    first_control = table["rank"].count()
    return replace(layout(table), rules=frozenset({first_control} if first_control < len(table) else ()))


def _label(title: str, write: Callable[[Row], str]) -> Column:
    """Return a column of texts, in bold for the best system; controls have a model alone, in italics."""

    def cell(row: Row) -> Cell:
        control, is_model = row["loss"] == "none", title == "model"
        dash = title in ("loss", "bounding") and control
        return Cell(DASH if dash else write(row), strong=row["role"] == BEST, emphasis=is_model and control)

    return Column(title, None, cell)


def _score(score: float | None, low: float | None, high: float | None) -> Cell:
    margin = "" if low is None or high is None else f"±{(high - low) / 2:.4f}"
    return Cell(DASH if score is None else f"{score:.4f}", margin)


def _mark(verdict: str) -> str:
    """Return the mark of a verdict; a significant difference within the margin has two."""
    found, within, _ = verdict.partition(WITHIN)
    return f"{MARKS.get(found, '')}{MARKS[ALIKE] if within else ''}"


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
    shown = list(blocks_of(table, choice.margin))
    heading = f"Leaderboard. {shown[0].caption}" if shown else "Leaderboard: no trained models."
    return TableFiles(table, texts_of(heading, shown, "Leaderboard", dash=DASH), beside)
