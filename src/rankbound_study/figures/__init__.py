"""The figures by name: a module draws a family of figures, a function each, in the module's `Catalogue`.

A module is known by lying here and stands in no list. All are imported to find their figures, so they import matplotlib
and scipy inside their functions.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.figures.catalogue import FigureSpec, found_specs
from rankbound_study.results.study_files import StudyFiles

NO_FILES = StudyFiles()


@cache
def figure_specs() -> Mapping[str, FigureSpec]:
    """Return all figures by name, in the order of the document."""
    return dict(sorted(found_specs(__name__, __path__, FigureSpec).items(), key=_place))


def title(name: str) -> str:
    """Return a figure's title: "Figure 5.1" of the thesis, or the figure's number in another source."""
    return figure_specs()[name].title or name.replace("figure_", "Figure ").replace("_", ".")


def figure_file(results: Path, name: str, suffix: str) -> Path:
    """Return the path of a figure's file; figures with pictures of a data set have its licence, and lie apart."""
    folder = "licensed" if figure_specs()[name].shows_pictures else "figures"
    return results / folder / f"{name}{suffix}"


def draw(name: str, files: StudyFiles = NO_FILES, options: Mapping[str, Any] | None = None) -> Any:
    """Draw a figure.

    Args:
        name: its name, "figure_5_1".
        files: what it is drawn from. Where a file other than the runs table is missing, the figure shows a remark
            instead of a drawing.
        options: the choice among the runs of the runs table.

    Raises:
        ConfigError: no figure has that name, or the runs table is missing.
    """
    if name not in figure_specs():
        raise ConfigError(f"there is no {name!r}; the figures are {', '.join(figure_specs())}")
    from rankbound_study.figures.style import house_style
    from rankbound_study.results.scores import RunsChoice

    spec = figure_specs()[name]
    with house_style():
        if not spec.options:
            return spec.make(files, **spec.arguments) if spec.needs else spec.make(**spec.arguments)
        if files.runs is None:
            raise ConfigError(f"{name} is drawn from runs: give the runs table with --runs FILE")
        return spec.make(files.runs, RunsChoice.from_options(options or {}), epochs=files.epochs, **spec.arguments)


def _place(figure: tuple[str, FigureSpec]) -> tuple[Any, ...]:
    """Sort numbers by value and before words: chapters, then other sources."""
    first, group, *last = ((not part.isdigit(), int(part) if part.isdigit() else part) for part in figure[0].split("_"))
    return (first, group, figure[1].order, last)
