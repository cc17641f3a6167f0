"""The leaderboard: all models with all losses and bounds on one metric, with tests, and where they differ."""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import leaderboard as claimed
from rankbound_study.claims.leaderboard import ALIKE, BASELINE, BEST, BETTER, WORSE, Board
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import Catalogue
from rankbound_study.figures.style import bounding_title
from rankbound_study.report.blocks import Cell, Layout, TableBlock, TableFiles, texts, with_margin
from rankbound_study.report.numbers import DASH
from rankbound_study.report.tables import TableSpec
from rankbound_study.results import scores
from rankbound_study.results.scores import MARK, SYSTEM, names_of, of_data_set
from rankbound_study.results.study_files import StudyFiles, read_facts, read_table
from rankbound_study.vocabulary import HONEST

FILE = "table_leaderboard.md"
TABLES = Catalogue(TableSpec, FILE)

NAME = "table_leaderboard"
SUMMARY = f"{NAME}_summary.json"
FACTS = ("margin", "data_sets")
"""What the summary beside the table holds."""

MARKS = {BETTER: "▲", WORSE: "▼", ALIKE: "≈"}


def blocks_of(table: pl.DataFrame, margin: float) -> Iterator[TableBlock]:
    """Yield a block for each data set of the table, with a column of processor `seconds`, if some are known."""
    parts = table.partition_by("dataset", "nsr", maintain_order=True)
    for part in parts:
        names, rows = names_of(part), part.to_dicts()
        for row in rows:
            control = row["loss"] == "none"
            row["name"] = names[tuple(row[name] for name in SYSTEM)] + MARK * bool(row["n_untrained"])
            row |= {"loss": None, "bounding": None} if control else {"bounding": bounding_title(row["bounding"])}
            row |= {"control": control, "ranked": row["rank"] is not None}
        layout = Layout.of(
            FILE,
            "leaderboard",
            formats={"label": _label, "score": _score, "compared": _compared},
            data_set=DataSet(rows[0]["dataset"], rows[0]["nsr"]).label if len(parts) > 1 else "",
            baseline=next((row["model"] for row in rows if row["role"] == BASELINE), ""),
            metric=rows[0]["metric"],
            margin=margin,
            level=LEVEL,
            stuck=part["n_untrained"].sum(),
            folds=part["n_folds"].to_numpy().max(),
            timed=any(row.get("seconds") is not None for row in rows),
        )
        yield layout(rows)


def _label(value: object, role: str, emphasis: bool = False) -> Cell:
    """Return a text, in bold for the best system; a control's model is in italics."""
    return Cell(DASH if value is None else str(value), strong=role == BEST, emphasis=emphasis)


def _score(score: float | None, low: float | None, high: float | None) -> Cell:
    margin = "" if low is None or high is None else f"±{(high - low) / 2:.4f}"
    return Cell(DASH if score is None else f"{score:.4f}", margin)


def _compared(difference: float, low: float, high: float, verdict: str) -> Cell:
    """Return a difference with its margin; a significant one within the margin that matters has two marks."""
    found, within, _ = verdict.partition(claimed.WITHIN)
    return with_margin(difference, low, high, f"{MARKS.get(found, '')}{MARKS[ALIKE] if within else ''}")


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
    return TableFiles(table, {**texts(heading, shown, "Leaderboard", titled=True), **beside})


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
