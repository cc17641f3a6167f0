"""Discovery of metrics, bounds and losses: every named class in a module of their package is registered."""

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import TypeVar

Kind = TypeVar("Kind")


def named_kinds(package: str, base: Callable[..., Kind]) -> Iterator[tuple[str, type[Kind]]]:
    """Yield the name and class of each subclass of `base` that a package's modules define with a `name`.

    Args:
        package: the package ("rankbound.metrics"), whose modules are imported in alphabetical order; modules that begin
            with an underscore are skipped.
        base: the base class.
    """
    names = sorted(
        module.name for module in iter_modules(import_module(package).__path__) if not module.name.startswith("_")
    )
    for module in [f"{package}.{name}" for name in names]:
        for kind in vars(import_module(module)).values():
            if isinstance(kind, type) and kind.__module__ == module and base in kind.__mro__ and "name" in vars(kind):
                yield vars(kind)["name"], kind
