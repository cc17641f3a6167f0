"""The figures by name: a module draws a family of figures, a function each, in the module's `Catalogue`.

Tables have catalogues, too (`report.tables`). A module is known by lying here and stands in no list; captions are those
of its file of prose. All modules are imported to find their figures, so they import matplotlib and scipy inside their
functions.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar

from rankbound.errors import ConfigError
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.templates import text, titled


@dataclass(frozen=True)
class Spec:
    """A figure or a table: its caption, the function that makes it, and the function's keyword arguments."""

    caption: str
    make: Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    needs: tuple[str, ...] = ()
    """Fields of `StudyFiles` that it is made from."""
    uses: tuple[str, ...] = ()
    """Fields that it is also made from where they are given: epochs, by whose gradients some trainings are known not to
    have trained."""
    data: tuple[int, ...] = ()
    """The tables of the neural-ranking study whose data sets these files are of."""
    methods: tuple[str, ...] = ()
    """The methods whose predictions or weights are read; all if empty."""
    by_features: bool = False
    """Use the comparisons by the number of features, which all others leave out."""
    part: str = ""
    """The runs among those, epochs and rates with them: of a protocol (the configuration's first one: `first`), of the
    comparisons (`compared`), or all."""
    options: tuple[str, ...] = ()
    """The keys of its options, which the configuration determines."""
    module: str = ""
    """The module that makes it; set where the module is found."""

    def check_options(self, name: str, options: Mapping[str, Any]) -> None:
        """Raise ConfigError for an option that it does not have."""
        if unknown := sorted(set(options) - set(self.options)):
            expected = f"only {', '.join(self.options)}" if self.options else "none"
            raise ConfigError(f"{name}: found the option {unknown[0]!r}, expected {expected}")


@dataclass(frozen=True)
class FigureSpec(Spec):
    """A figure."""

    shows_pictures: bool = False
    """The figure contains pictures of a data set, whose licence then applies to it."""
    order: int = 0
    """Place among the figures of a source that have no number."""


FIRST = "first"
OF_RUNS: Mapping[str, Any] = {"needs": ("runs",), "uses": ("epochs",), "part": FIRST, "options": ("protocol", "study")}
"""Fields of a figure whose function takes the table of runs, the selection of its rows, and epochs if there are any."""


class Catalogue(dict[str, Spec]):
    """The figures or tables that the functions of a module make, by name."""

    def __init__(self, kind: type[Spec], file: str = "") -> None:
        self._kind, self._file = kind, file

    def add(self, name: str, caption: str = "", **fields: Any) -> Callable[[Any], Any]:
        """Return a decorator that enters what a function makes.

        Args:
            name: the name of the figure or table.
            caption: its caption; the piece of that name in the file of prose if empty, which may begin with the title.
            fields: other fields of its spec.

        Raises:
            ValueError: the module has another one of that name.
        """

        def entered(make: Any) -> Any:
            if name in self:
                raise ValueError(f"two functions make {name}")
            piece = caption or text(self._file, name)
            title, rest = titled(self._file, name) if piece.startswith("**") else ("", piece)
            self[name] = self._kind(rest, make, **{"title": title, **fields})
            return make

        return entered


@cache
def figure_specs() -> Mapping[str, FigureSpec]:
    """Return all figures by name, in the order of the document."""

    def place(figure: tuple[str, FigureSpec]) -> tuple[Any, ...]:
        """Sort numbers by value and before words: chapters, then other sources."""
        words = figure[0].split("_")
        first, group, *last = ((not word.isdigit(), int(word) if word.isdigit() else word) for word in words)
        return (first, group, figure[1].order, last)

    return dict(sorted(found_specs(__name__, __path__, FigureSpec).items(), key=place))


def title(name: str) -> str:
    """Return a figure's title: "Figure 5.1" of the thesis, or the figure's number in another source."""
    numbered = name.replace("figure_neural_", "Neural networks in ranking, Figure ").replace("figure_", "Figure ")
    return figure_specs()[name].title or numbered.replace("_", ".")


def figure_file(results: Path, name: str, suffix: str) -> Path:
    """Return the path of a figure's file; figures with pictures of a data set have its licence, and lie apart."""
    folder = "licensed" if figure_specs()[name].shows_pictures else "figures"
    return results / folder / f"{name}{suffix}"


def draw(name: str, files: StudyFiles | None = None, options: Mapping[str, Any] | None = None) -> Any:
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

    spec, files = figure_specs()[name], files or StudyFiles()
    with house_style():
        if not spec.options:
            return spec.make(files, **spec.arguments) if spec.needs else spec.make(**spec.arguments)
        if files.runs is None:
            raise ConfigError(f"{name} is drawn from runs: give the runs table with --runs FILE")
        spec.check_options(name, options or {})
        return spec.make(files.runs, RunsChoice(**(options or {})), epochs=files.epochs, **spec.arguments)


S = TypeVar("S", bound=Spec)


def found_specs(package: str, folders: Iterable[str], kind: type[S]) -> dict[str, S]:
    """Return all specs of a package by name: of every module whose name does not begin with an underscore.

    Raises:
        ValueError: two modules describe one name.
    """
    specs: dict[str, S] = {}
    for module in sorted(info.name for info in iter_modules(folders) if not info.name.startswith("_")):
        catalogues = (one for one in vars(import_module(f"{package}.{module}")).values() if isinstance(one, Catalogue))
        for name, spec in (item for catalogue in catalogues for item in catalogue.items()):
            if name in specs:
                raise ValueError(f"two modules describe {name}: {specs[name].module} and {module}")
            assert isinstance(spec, kind)
            specs[name] = replace(spec, module=module)
    return specs
