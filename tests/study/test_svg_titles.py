"""Parts of a figure in words, as its SVG file has them: all labelled ones, with the data's values, and no others."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from drawn_files import svg_of

from rankbound_study import figures
from rankbound_study.figures import style
from rankbound_study.figures.style import marked
from rankbound_study.report.render import inline_svg

SVG = "{http://www.w3.org/2000/svg}"
X = np.arange(1.0, 21.0)
CURVE = 0.3 + 0.02 * X - 0.0003 * X**2
TOPICS = (np.array([3.0, 40.0, 250.0, 7.0, 90.0]), np.array([0.2, -0.004, 0.0061, 0.035, -0.4]))
STEPS = ((1.0, 0.2), (8.0, 0.35), (20.0, 0.45))
POINTS, LOW, HIGH = np.array([0.71, 0.523]), np.array([0.68, 0.5012]), np.array([0.7444, 0.55])
BARS = (0.125, 0.5)


def told_figure() -> Any:
    """Curves on linear and on symlog axes, points with intervals, bars, an area, a line without a label."""
    figure, axes = style.panels(2, 2, height=4.0)
    style.line(axes[0, 0], X, CURVE, style.SERIES[1], label="a < b", marks=3)
    axes[0, 0].plot(X, CURVE - 0.1)
    axes[0, 0].step(*zip(*STEPS, strict=True), where="post", label="steps")
    axes[0, 0].axhspan(0.05, 0.1, color=style.SHADE, label="_low & grey")
    axes[0, 0].set_title("first set")
    axes[0, 0].set_ylabel("mean")
    axes[0, 1].set(xscale="log", title="second set", xlabel="items")
    axes[0, 1].set_yscale("symlog", linthresh=0.01, linscale=1.0)
    axes[0, 1].set_ylabel("difference")
    style.points(axes[0, 1], *TOPICS, label="topic")
    axes[0, 1].axhline(0, label="_nothing")
    axes[1, 0].errorbar([0.05, 1.05], POINTS, (POINTS - LOW, HIGH - POINTS), marker="o", label="method")
    axes[1, 0].set_xticks([0, 1], ["few", "many"])
    axes[1, 0].set_xlabel("years")
    axes[1, 0].set_ylabel("accuracy")
    axes[1, 1].barh([0.2, 1.2], BARS, 0.3, label="share")
    axes[1, 1].set_yticks([0, 1], ["one\nline", "$w\\cdot d\\,x^2$"])
    style.row_titles(axes, ["above", "below"])
    return figure


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    with style.house_style():
        style.save(told_figure(), [folder / "a.svg", folder / "a.pdf"])
        figure = told_figure()
        figure.savefig(folder / "untold.svg")
    style.save(figure, [folder / "untold.pdf"])
    return folder


@pytest.fixture(scope="module")
def svg(folder: Path) -> str:
    return (folder / "a.svg").read_text("utf-8")


def titles(svg: str) -> list[tuple[str, str]]:
    """Kind of element and its title, sorted."""
    found = ((element, element.find(f"{SVG}title")) for element in ElementTree.fromstring(svg).iter())
    named = [(element.tag.removeprefix(SVG), title.text or "") for element, title in found if title is not None]
    return sorted(pair for pair in named if pair[1] != "rankbound")


def test_every_labelled_part_is_told_with_its_panel_and_values(svg: str) -> None:
    points = [
        "method, first set, below\nyears few, accuracy 0.7100, interval 0.6800 to 0.7444",
        "method, first set, below\nyears many, accuracy 0.5230, interval 0.5012 to 0.5500",
    ]
    assert titles(svg) == sorted([
        ("g", "a < b, first set, above\nmean from 0.3197 to 0.5800, years from 1 to 20"),
        ("g", "steps, first set, above\nmean from 0.2000 to 0.4500, years from 1 to 20"),
        ("g", "low & grey, first set, above"),
        *[("g", "topic, second set, above")] * 4,
        ("g", "nothing, second set, above"),
        ("path", "method, first set, below"),
        *[("path", text) for text in points],
        *[("use", text) for text in points],
        ("g", "share, second set, below\none line: 0.1250"),
        ("g", "share, second set, below\nw·d x²: 0.5000"),
    ])  # fmt: skip


def test_a_pdf_and_the_drawing_itself_do_not_depend_on_the_titles(folder: Path, svg: str) -> None:
    assert (folder / "a.pdf").read_bytes() == (folder / "untold.pdf").read_bytes()
    assert "part-" not in svg
    figure = told_figure()
    with marked(figure) as told:
        assert len(told) == len({part.artist.get_gid() for part in told})
    assert all(artist.get_gid() is None for artist in figure.findobj())


def test_the_page_says_each_part_once_and_never_hides_them_behind_an_image(svg: str) -> None:
    page = inline_svg(svg, "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="group"', page)
    told = re.findall(r'<(?:g|path|use) role="img"[^>]*><title>([^<]*)', page)
    assert sorted(told) == sorted(set(told))
    assert len(re.findall("<title>", page)) == len(told) + page.count('aria-hidden="true"') == len(titles(svg))
    without = inline_svg(re.sub("<title>.*?</title>", "", svg, flags=re.DOTALL), "figure_1_1", "All of it")
    assert re.match(r'<svg [^>]*role="img"', without)


@pytest.mark.parametrize("name", ["figure_3_2", "figure_neural_links"])
def test_titles_take_little_room(name: str, tmp_path: Path) -> None:
    text = svg_of(figures.draw(name), tmp_path)
    plainly = re.sub(r"<title>[^<]*</title>", "", text)
    assert len(plainly) < len(text) < 1.06 * len(plainly)


def test_undefined_points_and_intervals_shift_no_other_text_and_no_label_is_no_title(tmp_path: Path) -> None:
    figure, axes = style.panels(1, 1, height=2.0)
    nothing = float("nan")
    reach = ([0.125, 0.1, nothing, 0.25], [0.25, 0.1, nothing, 0.125])
    axes[0, 0].errorbar([0, 1, 2, 3], [0.5, nothing, 0.75, 0.25], reach, marker="o", label="method")
    axes[0, 0].set(title="set", xlabel="x", ylabel="y")
    found = titles(svg_of(figure, tmp_path))
    first = "method, set\nx 0, y 0.5000, interval 0.3750 to 0.7500"
    last = "method, set\nx 3, y 0.2500, interval 0.0000 to 0.3750"
    assert [text for kind, text in found if kind == "use"] == [first, "method, set\nx 2, y 0.7500", last]
    assert [text for kind, text in found if kind == "path"] == ["method, set", first, last]
    axes[0, 0].clear()
    axes[0, 0].plot([0, 1, 2], [0, 1, 0])
    assert titles(svg_of(figure, tmp_path)) == []
