"""The notebooks run from top to bottom, and show what their text says."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.library.pages import DOCS, text_of

matplotlib = pytest.importorskip("matplotlib", reason="pictures need Matplotlib")
pytest.importorskip("scipy", reason="the statistics need scipy")

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


@pytest.fixture(autouse=True)
def _backend() -> Iterator[None]:
    from matplotlib import pyplot

    before = matplotlib.get_backend()
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def run(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Return the variables of a notebook, and the values that its cells show: those of their last expressions."""
    names: dict[str, Any] = {}
    shown = []
    for cell in cells_of(DOCS / "notebooks" / name):
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, name, "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), name, "eval"), names))
    return names, shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_outputs_and_linked(path: Path) -> None:
    code = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert max(len("".join(cell["source"]).splitlines()) for cell in code) <= 25
    assert f"(notebooks/{path.name})" in text_of("notebooks.md")
    for cell in cells_of(path):
        assert all(len(line.rstrip("\n")) <= 130 for line in cell["source"])


def test_rankers_are_compared() -> None:
    names, shown = run("compare_rankers.ipynb")
    systems, report, rankers = names["systems"], names["report"], names["rankers"]
    means = {system: values["nDCG@10"] for system, values in systems.means().items()}
    assert max(means, key=means.__getitem__) == "network"
    rows = {row["cell"]: row for row in report.to_polars().to_dicts()}
    assert rows["network - linear"]["low"] > 0.05
    assert rows["Ranking SVM - linear"]["low"] < 0 < rows["Ranking SVM - linear"]["high"]
    curves, table, bars, report_shown, differences, topics, ranks = shown
    assert (table, report_shown) == (systems, report)
    assert all("<table" in one._repr_html_() for one in (systems, report))
    (losses,) = curves.lines
    assert len(losses.get_xdata()) == rankers["network"].record["epochs"]
    assert all(axes.has_data() for axes in (bars, differences, topics, ranks))
    assert {text.get_text() for text in bars.get_yticklabels()} >= {"linear", "network †"}


def test_bounds_are_shown() -> None:
    _, shown = run("bounds.ipynb")
    ranges, few, many, beaten, worst, (factors, expected) = shown
    assert ranges["maximum"] == [1.0] * 4
    assert ranges["minimum"][0] == pytest.approx(1 / 20)
    assert ranges["minimum"][3] > 0.75
    assert np.all(np.array(ranges["minimum"]) < ranges["expectation"])
    for axes, relevant in ((few, 5), (many, 18)):
        assert f"20 items, {relevant} of them relevant" in axes.get_xlabel()
        assert axes.has_data()
    assert beaten[5] > 0.99
    assert beaten[18] < 0.05
    np.testing.assert_allclose(worst["AP min-max"], 0, atol=1e-12)
    assert (worst["AP expectation-max"] < 0).all()
    np.testing.assert_allclose(factors, expected, rtol=1e-9)
