"""Metrics, bounds and losses by name: a class in any module of their package is known, and stands in no list."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

Kind = TypeVar("Kind")


def named_kinds(package: str, base: Callable[..., Kind]) -> Iterator[tuple[str, type[Kind]]]:
    """Yield the classes below `base` that a package's modules define and give a `name`, each with it.

    Args:
        package: the package ("rankbound.metrics"), whose modules are imported in alphabetical order; those that begin
            with an underscore are left alone.
        base: the class that they inherit from.
    """
    names = sorted(one.name for one in iter_modules(import_module(package).__path__) if not one.name.startswith("_"))
    for module in [f"{package}.{name}" for name in names]:
        for kind in vars(import_module(module)).values():
            if isinstance(kind, type) and kind.__module__ == module and base in kind.__mro__ and "name" in vars(kind):
                yield vars(kind)["name"], kind
