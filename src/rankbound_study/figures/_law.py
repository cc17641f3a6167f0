"""What the figures of the law share: its tables, and the colours of losses."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rankbound_study.claims.law import COLUMNS, LINE_COLUMNS, LINES, NAME
from rankbound_study.figures import style
from rankbound_study.results.made_files import reading
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import LOSSES

NOTHING = "There is nothing to draw: add table_law to the tables of the configuration, and runs of the honest protocol."

COLORS = dict(zip(LOSSES, (style.BLUE, style.VERMILION, style.GREEN), strict=True))


def read_cells(files: StudyFiles) -> pl.DataFrame:
    """Read the cells of the law; no rows if the table was not made."""
    return _read(files, NAME, COLUMNS)


def read_lines(files: StudyFiles) -> pl.DataFrame:
    """Read the lines through the cells, likewise."""
    return _read(files, LINES, LINE_COLUMNS)


def _read(files: StudyFiles, stem: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    for path in files.law:
        if path.stem == stem:
            with reading(path):
                return pl.read_csv(path, schema=columns)
    return pl.DataFrame(schema=columns)
