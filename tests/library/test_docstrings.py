"""The docstrings of all public functions have one shape, and their examples run."""

import doctest
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import rankbound as rb

FUNCTIONS = [name for name in rb.__all__ if inspect.isfunction(getattr(rb, name))]
SECTIONS = ("Args", "Returns", "Raises")


def parts(function: Callable[..., Any]) -> dict[str, str]:
    """The sections of a docstring by name; the summary has none."""
    text = inspect.getdoc(function) or ""
    names = ["", *re.findall(rf"^({'|'.join(SECTIONS)}):$", text, re.MULTILINE)]
    return dict(zip(names, re.split(rf"^(?:{'|'.join(SECTIONS)}):$", text, flags=re.MULTILINE), strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_has_every_section_and_every_argument(name: str) -> None:
    function = getattr(rb, name)
    found = parts(function)
    gives = inspect.signature(function).return_annotation not in (None, "None")
    assert list(found) == ["", *[section for section in SECTIONS if section != "Returns" or gives]]
    told = [one for line in re.findall(r"^    (\w[\w, ]*):", found["Args"], re.MULTILINE) for one in line.split(", ")]
    assert told == list(inspect.signature(function).parameters)
    assert ">>> " in found["Raises"]


@pytest.mark.parametrize("name", rb.__all__)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"rb": rb, "torch": torch}
    text = inspect.getdoc(getattr(rb, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, known, name, None, 0)
    printed: list[str] = []
    doctest.DocTestRunner().run(example, out=printed.append)
    assert not printed, "".join(printed)
