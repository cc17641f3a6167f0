"""Descriptions of figures and tables, which are the `SPECS` of their modules, and the files that they are made from."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar


@dataclass(frozen=True)
class Spec:
    """A figure or a table: its caption, and the keyword arguments of the function that makes it."""

    caption: str
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
    make: Callable[..., Any] | None = None
    """The function that makes it; set by `described`."""
    module: str = ""
    """The module that describes and makes it; set where the module is found."""


@dataclass(frozen=True)
class StudyFiles:
    """The files of a study that a figure or a table is made from."""

    runs: Path | None = None
    epochs: Path | None = None
    experiments: Path | None = None
    experiment_epochs: Path | None = None
    rates: Path | None = None
    leaderboard: tuple[Path, ...] = ()
    law: tuple[Path, ...] = ()
    effects: tuple[Path, ...] = ()
    instances: tuple[Path, ...] = ()
    regimes: Path | None = None
    images: Path | None = None
    predictions: tuple[Path, ...] = ()
    weights: tuple[Path, ...] = ()


S = TypeVar("S", bound=Spec)


def described(specs: dict[str, S], **described: S) -> Callable[[Any], Any]:
    """Return a decorator that enters the figures or tables of a function, by name, in the `SPECS` of its module.

    Raises:
        ValueError: the module has another one of that name.
    """

    def entered(make: Any) -> Any:
        for name, spec in described.items():
            if name in specs:
                raise ValueError(f"two functions make {name}")
            specs[name] = replace(spec, make=make)
        return make

    return entered


def found_specs(package: str, folders: Iterable[str]) -> dict[str, Any]:
    """Return all specs of a package by name: of every module whose name does not begin with an underscore.

    Raises:
        ValueError: two modules describe one name.
    """
    specs: dict[str, Spec] = {}
    for module in sorted(info.name for info in iter_modules(folders) if not info.name.startswith("_")):
        described: Mapping[str, Spec] = getattr(import_module(f"{package}.{module}"), "SPECS", {})
        for name, spec in described.items():
            if name in specs:
                raise ValueError(f"two modules describe {name}: {specs[name].module} and {module}")
            specs[name] = replace(spec, module=module)
    return specs
