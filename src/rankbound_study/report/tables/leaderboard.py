"""The leaderboard: all models with all losses and bounds on one metric, with tests, and where they differ."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import leaderboard as claimed
from rankbound_study.claims.leaderboard import ALIKE, BASELINE, BEST, BETTER, WORSE, Board
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, Column, Layout, Row, TableBlock, TableFiles, texts, with_margin
from rankbound_study.report.numbers import DASH
from rankbound_study.report.tables import TableSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import MARK, SYSTEM, names_of, of_data_set
from rankbound_study.results.study_files import StudyFiles, read_facts, read_table
from rankbound_study.templates import text
from rankbound_study.vocabulary import HONEST

FILE = "table_leaderboard.md"
TABLES = Catalogue(TableSpec, FILE)

NAME = "table_leaderboard"
SUMMARY = f"{NAME}_summary.json"
FACTS = ("margin", "data_sets")
"""What the summary beside the table holds."""

MARKS = {BETTER: "▲", WORSE: "▼", ALIKE: "≈"}
_TITLES = {BEST: "minus the best", "counterpart": "minus unbounded", BASELINE: "minus {}"}


def blocks_of(
    table: pl.DataFrame, margin: float, seconds: Callable[[Row], float | None] = lambda row: None
) -> Iterator[TableBlock]:
    """Yield a block for each data set of the table, with a column of processor seconds, if some are known."""
    parts = table.partition_by("dataset", "nsr", maintain_order=True)
    for part in parts:
        yield _block(part, margin, seconds, several=len(parts) > 1)


def _block(table: pl.DataFrame, margin: float, seconds: Callable[[Row], float | None], *, several: bool) -> TableBlock:
    first, names = table.row(0, named=True), names_of(table)
    label = DataSet(first["dataset"], first["nsr"]).label
    of_baseline = next((row["model"] for row in table.iter_rows(named=True) if row["role"] == BASELINE), "")
    stuck, folds = bool(table["n_untrained"].sum()), table["n_folds"].to_numpy().max()
    timed = any(seconds(row) is not None for row in table.iter_rows(named=True))
    caption = text(FILE, "caption", metric=first["metric"], margin=margin, level=LEVEL, stuck=stuck, folds=folds)

    def model(row: Row) -> str:
        return names[tuple(row[name] for name in SYSTEM)] + MARK * bool(row["n_untrained"])

    def processor(row: Row) -> str:
        cost = seconds(row)
        return DASH if cost is None else f"{cost:.1f}"

    def score(score: float | None, low: float | None, high: float | None) -> Cell:
        margin = "" if low is None or high is None else f"±{(high - low) / 2:.4f}"
        return Cell(DASH if score is None else f"{score:.4f}", margin)

    def compared(difference: float, low: float, high: float, verdict: str) -> Cell:
        """A significant difference within the margin has two marks."""
        found, within, _ = verdict.partition(claimed.WITHIN)
        return with_margin(difference, low, high, f"{MARKS.get(found, '')}{MARKS[ALIKE] if within else ''}")

    layout = Layout(
        f"Leaderboard, {label}" if several else "Leaderboard",
        f"{caption} Processor seconds are those of all folds and seeds." if timed else caption,
        (
            _label("rank", lambda row: DASH if row["rank"] is None else str(row["rank"])),
            _label("model", model),
            _label("loss", lambda row: str(row["loss"])),
            _label("bounding", lambda row: bounding_title(row["bounding"])),
            Column(first["metric"], ("score", "low", "high"), score, null=True),
            *(
                Column(
                    _TITLES[name].format(of_baseline),
                    tuple(f"{name}_{what}" for what in ("difference", "low", "high", "verdict")),
                    compared,
                )
                for name in claimed.COMPARISONS
                if name != BASELINE or of_baseline
            ),
            *([Column("processor s", None, processor)] if timed else ()),
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


@TABLES.add(
    "table_leaderboard",
    needs=("runs", "epochs", "experiments", "experiment_epochs"),
    part=HONEST,
    options=("study", "leaderboard"),
    beside=(".md", ".tex", "_summary.json", "_lengths.csv", "_topics.csv"),
    section="leaderboard",
    blocks=lambda name, folder: blocks_of(
        read_table(folder / f"{name}.csv", claimed.COLUMNS), read_facts(folder / SUMMARY, FACTS)["margin"]
    ),
)
def make_leaderboard(
    name: str, files: StudyFiles, *, study: str, leaderboard: Mapping[str, Any] | None = None
) -> TableFiles:
    """Return the table of a study; `leaderboard` is that section of the configuration."""
    choice = claimed.Choice(**(leaderboard or {}))
    systems = scores.read_systems(files, study)
    validation = scores.validation_means(files, study, systems, choice.judged_by)
    untrained = scores.untrained_systems(files, study)
    # Of the data sets that have a trained system.
    trained = systems.filter(pl.col("loss") != "none").select("dataset", "nsr_test").unique().rows()
    boards = []
    for data_set in sorted(map(DataSet._make, trained), key=lambda data_set: data_set.place):
        counts = of_data_set(untrained, data_set).select(*SYSTEM, "n_untrained").rows()
        stuck = {tuple(map(str, key)): count for *key, count in counts}
        boards.append(Board(of_data_set(systems, data_set), of_data_set(validation, data_set), choice, stuck))
    table = pl.concat([pl.DataFrame(schema=claimed.COLUMNS), *(board.table for board in boards)])
    beside: dict[str, pl.DataFrame | dict[str, Any]] = {
        "_summary.json": {"margin": choice.margin, "data_sets": [_facts(board) for board in boards]},
        "_lengths.csv": pl.concat(list(map(claimed.by_length, boards))) if boards else pl.DataFrame(),
        "_topics.csv": pl.concat(list(map(claimed.by_topic, boards))) if boards else pl.DataFrame(),
    }
    shown = list(blocks_of(table, choice.margin))
    heading = f"Leaderboard. {shown[0].caption}" if shown else "Leaderboard: no trained models."
    return TableFiles(table, texts(heading, shown, "Leaderboard", titled=True, dash=DASH), beside)


def _facts(board: Board) -> dict[str, Any]:
    """Return what the data are, and the systems that others are compared with."""
    rows = board.systems[board.order[0]]
    lists = rows.unique(["fold", "topic"], maintain_order=True)
    dataset, nsr = board.data
    partner = board.partner()
    counts = {"topics": lists["topic"].n_unique(), "lists": len(lists)}
    counts |= {"items": int(lists["n"].sum()), "relevant": int(lists["p"].sum())}
    sizes = {"shortest": lists["n"].min(), "median": lists["n"].median(), "longest": lists["n"].max()}
    trainings = {"folds": rows["fold"].n_unique(), "seeds": rows["seed"].n_unique()}
    others = {"partner": None if partner is None else list(partner)}
    return {"dataset": dataset, "nsr": nsr} | counts | sizes | trainings | others
