"""The description of a figure, and the files that a figure is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankbound_study.vocabulary import JUDGED_BY, LOSSES

_SCORES = "Columns are data sets, rows boundings; one score per topic, the mean over its test lists (folds, seeds)."


@dataclass(frozen=True)
class FigureSpec:
    """A figure: its caption, and the keyword arguments of the `draw` of its module."""

    caption: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs_runs: bool = False
    title: str = ""
    needs: tuple[str, ...] = ()
    """Fields of `StudyFiles` that a figure of the neural-ranking study is drawn from; its `draw` takes the files."""
    data: tuple[int, ...] = ()
    """The tables of that study whose data sets these files are of."""
    methods: tuple[str, ...] = ()
    """The methods whose predictions or weights are read; all if empty."""
    by_features: bool = False
    """Use the comparisons by the number of features, which all other figures leave out."""
    shows_pictures: bool = False
    """The figure contains pictures of a data set, whose licence then applies to it."""
    order: int = 0
    """Place among the figures of a source that have no number."""
    module: str = ""
    """The module that describes and draws it; set where the module is found."""


@dataclass(frozen=True)
class StudyFiles:
    """The files of the neural-ranking study that a figure is drawn from."""

    runs: Path | None = None
    epochs: Path | None = None
    images: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()


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
