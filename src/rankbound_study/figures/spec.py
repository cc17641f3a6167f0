"""What the modules of figures share: descriptions of figures, and the tables that some are drawn from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound_study.results.specs import Spec, reading
from rankbound_study.vocabulary import JUDGED_BY, LOSSES

_SCORES = "Columns are data sets, rows boundings; one score per topic, the mean over its test lists (folds, seeds)."


@dataclass(frozen=True)
class FigureSpec(Spec):
    """A figure."""

    needs_runs: bool = False
    """`draw` takes the runs table, the selection of its rows, and the epochs if there are any, instead of files."""
    shows_pictures: bool = False
    """The figure contains pictures of a data set, whose licence then applies to it."""
    order: int = 0
    """Place among the figures of a source that have no number."""


def read_made(paths: Iterable[Path], stem: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read the table of that name among CSV files; no rows if it was not made."""
    for path in paths:
        if path.stem == stem:
            with reading(path):
                return pl.read_csv(path, schema=columns)
    return pl.DataFrame(schema=columns)


def one_per_loss(chapter: int, first: int, caption: str) -> dict[str, FigureSpec]:
    """Return three figures of runs, one per loss, numbered from `first`; `caption` contains {loss} and {metric}."""
    return {
        f"figure_{chapter}_{number}": FigureSpec(
            f"{caption.format(loss=loss, metric=JUDGED_BY[loss])} {_SCORES}", {"loss": loss}, needs_runs=True
        )
        for number, loss in enumerate(LOSSES, start=first)
    }


def neural_title(number: int) -> str:
    """Return the title of a figure that the neural-ranking study numbers itself."""
    return f"Neural networks in ranking, Figure {number}"
