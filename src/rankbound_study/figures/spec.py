"""What a figure is, as the package lists it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FigureSpec:
    """A figure: the module of this package whose `draw` makes it, its keyword arguments, and its caption."""

    module: str
    caption: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs_runs: bool = False
    title: str = ""
    needs: tuple[str, ...] = ()
    """What a figure of the neural-ranking study is drawn from: fields of `StudyFiles`; its `draw` takes the files."""
    data: tuple[int, ...] = ()
    """The tables of that study whose data sets these files are of."""
    methods: tuple[str, ...] = ()
    """The methods whose predictions or weights are read; all if empty."""
    by_features: bool = False
    """Whether it is drawn of comparisons by the number of features; others never are."""
    shows_pictures: bool = False
    """Whether pictures of a data set are on it, which are as licensed as the data set."""


@dataclass(frozen=True)
class StudyFiles:
    """The files that figures of the study are drawn from: those that a figure needs are given."""

    runs: Path | None = None
    epochs: Path | None = None
    images: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()
