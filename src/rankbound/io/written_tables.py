"""Write runs and judgements as tables with a row per item: CSV or parquet."""

import gzip
import os
from pathlib import Path
from typing import Any

import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.csv_text import separator_of
from rankbound.io.grouping import name_column, topic_column
from rankbound.io.intents import rows_of_intents
from rankbound.io.judged import Qrels, Run


def write_scores(path: str | os.PathLike[str], run: Run) -> None:
    """Write a run as a table with the columns topic, item and score, in the run's order."""
    _write(path, _item_rows(run, score=run.scores))


def write_judged(path: str | os.PathLike[str], qrels: Qrels) -> None:
    """Write judgements as a table with the columns topic, item and relevance, and intent if they have intents."""
    by_intent = qrels.intents
    _write(path, rows_of_intents(qrels, by_intent) if by_intent else _item_rows(qrels, relevance=qrels.relevance))


def _item_rows(lists: Run | Qrels, **values: npt.NDArray[Any]) -> pl.DataFrame:
    return pl.DataFrame(
        {"topic": topic_column(lists.topics, lists.offsets), "item": name_column(lists.items), **values}
    )


def _write(path: str | os.PathLike[str], frame: pl.DataFrame) -> None:
    suffix = Path(path).suffix
    if Path(path).name.endswith(".parquet.gz"):
        raise DataError(f"{path}: parquet is already compressed; expected a name that ends in .parquet")
    with atomic_path(path) as temporary:
        if suffix == ".parquet":
            frame.write_parquet(temporary, compression="zstd")
        elif suffix == ".gz":
            temporary.write_bytes(gzip.compress(frame.write_csv(separator=separator_of(path)).encode(), mtime=0))
        else:
            frame.write_csv(temporary, separator=separator_of(path))
