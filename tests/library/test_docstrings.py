"""The docstrings of the public functions and classes have one shape, and their examples run."""

import doctest
import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound import clicks, preferences, recommendations
from rankbound.bounds.base import kinds as bounds
from rankbound.losses import KINDS as LOSSES
from rankbound.metrics import KINDS as METRICS
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP

FUNCTIONS = [name for name in rb.__all__ if inspect.isfunction(getattr(rb, name))]
EXPORTED: list[type] = [getattr(rb, name) for name in rb.__all__ if inspect.isclass(getattr(rb, name))]
REGISTERED: list[type] = [*METRICS.values(), NormalizedRBP, RankSum, *LOSSES.values(), *bounds().values()]
CLASSES = [*EXPORTED, *REGISTERED]
OF_MODULES = [
    member
    for module in (clicks, preferences, recommendations)
    for name, member in vars(module).items()
    if not name.startswith("_") and getattr(member, "__module__", "") == module.__name__ and inspect.getdoc(member)
]

SECTIONS = ("Args", "Attributes", "Returns", "Raises")
SOURCE = re.compile(r"\([^()]*\b(?:19|20)\d\d\b[^()]*\)|\(thesis (?:eqs?|sec)\.")

WITHOUT_SOURCE = {
    "Judged": "a count that evaluation tools print, without a paper that defines it",
    "Unbounded": "the identity",
}

# Bases whose constructors accept any arguments, for subclasses.
ABSTRACT = (rb.RankingLoss,)


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the class's own public methods and properties by name; the call counts as public."""
    for name, member in vars(kind).items():
        member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        is_method = inspect.isfunction(member) and member.__name__ == name
        is_public = name == "__call__" or not name.startswith("_")
        if is_public and (is_method or isinstance(member, property | cached_property)):
            yield name, member


METHODS = [
    pytest.param(kind, name, member, id=f"{kind.__name__}.{name}")
    for kind in EXPORTED
    for name, member in methods(kind)
]


def named(classes: list[Any]) -> Any:
    return pytest.mark.parametrize("kind", classes, ids=lambda kind: kind.__name__)


def parts(text: str) -> dict[str, str]:
    names = ["", *re.findall(rf"^({'|'.join(SECTIONS)}):$", text, re.MULTILINE)]
    return dict(zip(names, re.split(rf"^(?:{'|'.join(SECTIONS)}):$", text, flags=re.MULTILINE), strict=True))


def listed(section: str) -> list[str]:
    lines = re.findall(r"^    (\w[\w, ]*): *\S", section, re.MULTILINE)
    return [name for line in lines for name in line.split(", ")]


def parameters(of: Any) -> list[str]:
    return [name for name in inspect.signature(of).parameters if name != "self" and name != "cls"]


def require_summary(text: str) -> None:
    """The first line is a sentence of its own, and the sections follow in their order."""
    first, _, rest = text.partition("\n")
    assert first.endswith(".")
    assert not rest or rest.startswith("\n")
    known = list(parts(text))
    assert known == ["", *[section for section in SECTIONS if section in known]]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_has_every_section_and_every_argument(name: str) -> None:
    function = getattr(rb, name)
    text = inspect.getdoc(function) or ""
    require_summary(text)
    sections = parts(text)
    gives = inspect.signature(function).return_annotation not in (None, "None")
    assert list(sections) == ["", "Args", *(["Returns"] if gives else []), "Raises"]
    assert listed(sections["Args"]) == parameters(function)
    assert ">>> " in sections["Raises"]


@named(CLASSES)
def test_a_class_has_a_summary_an_example_and_every_field(kind: type) -> None:
    text = inspect.cleandoc(vars(kind)["__doc__"] or "")
    require_summary(text)
    assert "\n\n>>> " in text
    sections = parts(inspect.getdoc(kind) or "")
    fields = [] if kind in ABSTRACT else parameters(kind)
    assert listed(sections.get("Args", "")) == fields
    if kind in EXPORTED:
        # Annotations may name what is imported by type checkers alone.
        known = {name: str(of) for name, of in inspect.get_annotations(kind).items() if not name.startswith("_")}
        of_class = [name for name, of in known.items() if of.removeprefix("typing.").startswith("ClassVar")]
        assert listed(sections.get("Attributes", "")) == of_class


@named(REGISTERED)
def test_a_metric_loss_or_bound_names_its_source_and_its_errors(kind: type) -> None:
    text = inspect.getdoc(kind) or ""
    assert bool(SOURCE.search(text)) is not (kind.__name__ in WITHOUT_SOURCE)
    assert ("Raises" in parts(text)) is bool(parameters(kind))


@pytest.mark.parametrize(("kind", "name", "member"), METHODS)
def test_a_method_explains_its_arguments_and_result(kind: type, name: str, member: Any) -> None:
    text = inspect.getdoc(getattr(kind, name) if inspect.isfunction(member) else member) or ""
    require_summary(text)
    overrides = any(hasattr(base, name) for base in kind.__mro__[1:] if base in EXPORTED)
    if not inspect.isfunction(member) or not parameters(member) or overrides:
        return
    # What several methods take or return is explained once, by the class.
    of_class = " ".join((inspect.getdoc(kind) or "").split())
    sections = parts(text)
    explained = listed(sections.get("Args", ""))
    assert explained in (parameters(member), [name for name in parameters(member) if f"`{name}`" not in of_class])
    gives = inspect.signature(member).return_annotation not in (None, "None")
    assert ("Returns" in sections) is gives or "The results are" in of_class


@named([*(getattr(rb, name) for name in FUNCTIONS), *CLASSES, *OF_MODULES])
def test_examples_run(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"rb": rb, "np": np, "torch": torch}
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(kind) or "", known, kind.__name__, None, 0)
    printed: list[str] = []
    doctest.DocTestRunner(verbose=False).run(example, out=printed.append)
    assert not printed, "".join(printed)
