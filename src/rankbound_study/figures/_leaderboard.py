"""What the figures of a leaderboard share: the tables that they are drawn from, and the names of systems."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rankbound_study.claims.leaderboard import BASELINE, BEST, COLUMNS, LENGTHS, PARTNER, TOPICS
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.results.made_files import reading
from rankbound_study.results.specs import StudyFiles

NOTHING = "There is no leaderboard to draw: add table_leaderboard to the tables of the configuration."

_PARTS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "scores": ("table_leaderboard", COLUMNS),
    "lengths": ("table_leaderboard_lengths", LENGTHS),
    "topics": ("table_leaderboard_topics", TOPICS),
}


def read_part(files: StudyFiles, part: str) -> pl.DataFrame:
    """Read one of the leaderboard's tables: scores, lengths or topics; no rows if it was not made."""
    stem, columns = _PARTS[part]
    for path in files.leaderboard:
        if path.stem == stem:
            with reading(path):
                return pl.read_csv(path, schema=columns)
    return pl.DataFrame(schema=columns)


def data_sets(frame: pl.DataFrame) -> list[tuple[DataSet, pl.DataFrame]]:
    """Return the data sets of a table in its order, each with its rows."""
    parts = frame.partition_by("dataset", "nsr", maintain_order=True)
    return [(DataSet(*part.select("dataset", "nsr").row(0)), part) for part in parts]


def system_text(row: Mapping[str, Any]) -> str:
    """Return a system's name in figures: `mlp, AP, min-max`."""
    if row["loss"] == "none":
        return str(row["model"])
    return f"{row['model']}, {row['loss']}, {style.bounding_title(row['bounding'])}"


ROLES = {BEST: "best", PARTNER: "same model and loss", BASELINE: "baseline", "random": "random"}
"""Roles of systems in words."""
