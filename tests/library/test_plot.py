"""Pictures show the numbers of the results that they are of, notebooks the tables, and those of the pages run."""

import ast
import json
import re
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound.errors import RankboundError
from rankbound.evaluation import Evaluation
from rankbound.plot import _alike
from tests.comparing import judged_runs
from tests.library.pages import DOCS, text_of
from tests.library.refusals import refusals
from tests.library.test_ranker import planted

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")
matplotlib = pytest.importorskip("matplotlib", reason="pictures need Matplotlib")

NOISE = {"old": 1.3, "new": 0.5, "<b>$x$": 1.2, "poor": 4.0}


@pytest.fixture(autouse=True)
def no_window() -> Any:
    matplotlib.use("agg")
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def judged() -> tuple[dict[str, Any], dict[str, Any]]:
    return judged_runs(3, NOISE, topics=40, items=12, highest=3)[::-1]


@pytest.fixture(scope="module")
def board(judged: Any) -> Any:
    return rb.evaluate_runs(*judged, ["nDCG@10", "AP"], baseline="old")


def dots(ax: Any) -> list[tuple[float, float, bool]]:
    """Return places and heights of the dots, and whether they are filled."""
    lines = [line for line in ax.get_lines() if line.get_marker() == "o"]
    filled = [line.get_markerfacecolor() != "white" for line in lines]
    return [
        (x, y, fill)
        for line, fill in zip(lines, filled, strict=True)
        for x, y in zip(*map(np.ravel, line.get_data()), strict=True)
    ]


def spans(ax: Any) -> Any:
    """Return the ends of the lines that are collections."""
    return np.array([segment for one in ax.collections for segment in one.get_segments()])


def labels(ax: Any) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def evaluation(**values: list[float]) -> Evaluation:
    length = len(next(iter(values.values())))
    return Evaluation([f"q{place}" for place in range(length)], {n: np.array(v) for n, v in values.items()}, [], [])


def test_intervals_are_those_of_the_report_and_filled_dots_are_significant(judged: Any, board: Any) -> None:
    for report in (board.report, rb.compare_runs({"a": judged[0]["new"], "b": judged[0]["old"]}, judged[1], "AP")):
        ax = report.plot()
        found = [row.found for row in report.rows]
        expected = [(one.difference, place, one.p_adjusted <= 0.05) for place, one in enumerate(found)]
        assert dots(ax) == expected
        assert {fill for *_, fill in expected} == ({True, False} if len(found) > 1 else {True})
        np.testing.assert_array_equal(spans(ax)[:, :, 0], [(one.low, one.high) for one in found])
    assert ax.get_xlabel() == "a - b in AP (filled: p ≤ 0.05)"
    (single,) = dots(report.rows[0].found.plot())
    assert single == expected[0]


def test_systems_are_in_the_order_of_their_means_within_their_intervals(board: Any) -> None:
    for metric, ax in (("nDCG@10", board.plot()), ("AP", board.plot("AP"))):
        means = sorted((one[metric] for one in board.means().values()), reverse=True)
        assert [x for x, _, _ in dots(ax)] == means
        low, high = spans(ax)[:, :, 0].T
        assert ((low < means) & (means < high)).all()
        assert labels(ax)[0] == "new †"
        assert labels(ax)[-1] == "poor ‡"
        assert r"<b>\$x\$" in labels(ax)
    losing = rb.evaluate_runs({"a": {"q": {"x": 2, "y": 1}}, "b": {"q": {"x": 1, "y": 2}}}, {"q": {"x": 1}}, "nRBP")
    assert labels(losing.plot()) == ["a", "b"]
    with pytest.raises(ValueError, match="metric: found RR"):
        board.plot("RR")


NAN = np.nan
A, B = evaluation(AP=[0.5, 0.25, NAN, 1, 1], RR=[1.0] * 5), evaluation(AP=[0.25, 0.5, 1, 0, 1])


def test_topics_are_bars_in_ascending_order_and_undefined_ones_are_left_out() -> None:
    ax = rb.plot.topics(A, B)
    assert [bar.get_height() for bar in ax.patches] == [-0.25, 0, 0.25, 1]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["q1", "q4", "q0", "q3"]
    assert ax.get_xlabel() == "4 topics (A higher: 2, B higher: 1, equal: 1)"
    assert ax.get_ylabel() == "AP, A - B"


test_what_cannot_be_drawn_is_refused = refusals(
    [
        (lambda: rb.plot.topics(A, B, "RR"), "expected one of both evaluations: AP"),
        (lambda: rb.plot.topics(evaluation(RR=[1.0]), B), "expected one in common"),
        (lambda: rb.plot.topics(evaluation(AP=[NAN]), B), "none on which AP is defined for both"),
        (lambda: rb.plot.distribution("nDCG", 10, 0), "expected a list on which nDCG is defined"),
        (lambda: rb.plot.learning_curves([]), "found 0 pairs"),
        *(
            (lambda systems=systems: rb.plot.critical_differences(systems, "AP"), "expected two or more with one")
            for systems in ({}, {"a": evaluation(AP=[1.0])}, dict.fromkeys("ab", evaluation(AP=[NAN])))
        ),
    ]
)


@pytest.mark.parametrize(
    ("metric", "n", "p"), [("P@5", 20, 6), ("DCG@5", 12, 4), ("nDCG", 20, 5), ("nRBP", 30, 10), ("AP", 60, 20)]
)
def test_a_distribution_has_the_mass_of_the_scores(metric: str, n: int, p: int) -> None:
    found = rb.score_distribution(metric, n, p)
    ax = rb.plot.distribution(metric, n, p)
    if ax.get_ylabel() == "probability":
        np.testing.assert_array_equal(spans(ax)[:, 1], np.stack([found.support, found.probability], 1))
    else:
        heights, edges, _ = ax.patches[0].get_data()
        below = np.append(0, np.cumsum(heights * np.diff(edges)))
        np.testing.assert_allclose(below[1:], found.cdf(edges[1:]), rtol=0, atol=1e-12)
        assert below[-1] == pytest.approx(1, abs=1e-9)
        assert edges[0] <= found.minimum < found.maximum <= edges[-1]
    assert [line.get_xdata()[0] for line in ax.get_lines()] == [found.minimum, found.expectation, found.maximum]


@pytest.mark.parametrize(
    ("validation_share", "options", "loss_text"),
    [
        (0.25, {"learning_rate": 0.5, "bound": "min-max"}, "nDCG (bound: min-max)"),
        (0.0, {"learning_rate": 0.5}, "nDCG"),
        (0.25, {"model": "rankboost"}, "rankboost"),
        (0.25, {"model": "adarank", "loss": "AP"}, "AP"),
    ],
)
def test_curves_are_those_of_the_epochs_and_a_file_keeps_them(
    validation_share: float, options: dict[str, Any], loss_text: str, tmp_path: Any
) -> None:
    seen: list[Any] = []
    how: dict[str, Any] = {"epochs": 6, "validation_share": validation_share, **options}
    rb.train_ranker(planted(), on_epoch=seen.append, **how).save(tmp_path / "model.safetensors")
    ranker = rb.load(tmp_path / "model.safetensors")
    ax = rb.plot.learning_curves(ranker)
    (loss,), (curve, dot) = (one.get_lines() for one in ax.figure.axes)
    np.testing.assert_array_equal(loss.get_ydata(), [epoch.loss for epoch in seen])
    values = [next(iter(epoch.metrics.values()))["nDCG@10"] for epoch in seen]
    np.testing.assert_array_equal(curve.get_ydata(), values)
    epoch = ranker.record["epoch"]
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (epoch, values[epoch - 1])
    assert ax.get_ylabel() == f"training loss, {loss_text}"
    part = "validation" if validation_share else "training"
    assert ax.figure.axes[1].get_ylabel() == f"nDCG@10, {part} topics (dashed)"
    assert len(rb.plot.learning_curves([ranker, ranker]).get_lines()) == 2


def test_rankers_without_curves_or_of_several_losses_are_refused() -> None:
    one, other = (rb.train_ranker(planted(), loss=loss, epochs=1) for loss in ("nDCG", "AP"))
    del one.record["curves"]
    for rankers, message in (([one], "train it again"), ([one, other], "found 2 pairs")):
        with pytest.raises(ValueError, match=message):
            rb.plot.learning_curves(rankers)


# Demšar 2006, table 5 (a): q at level 0.05 of this many systems.
@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_critical_differences_are_those_of_the_published_table(k: int, q: float) -> None:
    values = np.random.default_rng(k).integers(0, 5, (k, 30)) / 4.0
    systems = {f"s{place}": evaluation(AP=row.tolist()) for place, row in enumerate(values)}
    ax = rb.plot.critical_differences(systems, "AP")
    ranks = np.sort(stats.rankdata(-values, axis=0).mean(1))
    np.testing.assert_allclose([x for x, _, _ in dots(ax)], ranks)
    distance = q * (k * (k + 1) / 180) ** 0.5
    assert float(ax.get_xlabel().split()[-1][:-1]) == pytest.approx(distance, abs=0.0051)
    covered = (
        {
            pair
            for span in spans(ax)
            for pair in [(a, b) for a in range(k) for b in range(a) if span[0, 1] <= b and a <= span[1, 1]]
        }
        if len(ax.collections)
        else set()
    )
    assert covered == {(a, b) for a in range(k) for b in range(a) if ranks[a] - ranks[b] < distance}


def test_groups_are_the_largest_ones() -> None:
    assert _alike(np.array([1.0, 1.5, 1.9, 2.6, 5.0]), 1.0) == [(0, 2), (2, 3)]


def test_axes_that_are_given_are_drawn_on_and_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    ax = Figure().subplots()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert rb.plot.distribution("AP", 5, 2, ax=ax) is ax
    with pytest.raises(RankboundError, match=r"matplotlib is not installed: run pip install 'rankbound\[plots\]'"):
        rb.plot.distribution("AP", 5, 2)


def cells(page: str) -> list[list[str]]:
    """Return the texts of the cells of tables, row by row; tags in a text are escaped, or missing here."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [[unescape(re.sub("<.*?>", "", one)) for one in re.findall(r"<t[hd].*?>(.*?)</t", row)] for row in rows]


def test_notebooks_show_the_tables_of_the_texts(board: Any) -> None:
    rows = cells(board._repr_html_())
    assert [row[0] for row in rows] == ["System", *NOISE]
    assert rows[0][1:] == ["nDCG@10", "AP"]
    for name, *numbers in rows[1:]:
        assert [float(one.rstrip("†‡")) for one in numbers] == [round(x, 4) for x in board.means()[name].values()]
    assert board._repr_html_().count("<td") == 4 * 3
    (header, *rows), report = cells(board.report._repr_html_()), board.report
    assert [float(row[header.index("A - B")]) for row in rows] == [
        round(row.found.difference, 4) for row in report.rows
    ]
    single = cells(report.rows[0].found._repr_html_())
    assert len(single) == 2
    assert single[1] == rows[0][2:]
    alone = cells(board.evaluations["new"]._repr_html_())
    assert [row[:1] + row[2:] for row in alone] == [
        ["metric", "topics", "undefined"],
        *([m, "40", "0"] for m in ("nDCG@10", "AP")),
    ]


# The notebooks of the pages, from top to bottom
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def cells_of(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


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
    assert max(len(cell["source"]) for cell in code) <= 25
    assert f"(notebooks/{path.name})" in text_of("notebooks.md")


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
