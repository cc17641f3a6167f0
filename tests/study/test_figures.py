"""The figures: they draw with fixed bytes, say their protocol and kind of data, and show what they should."""

import argparse
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import polars as pl
import pytest
from synthetic_runs import write_runs

from rankbound.errors import ConfigError
from rankbound_study import figures
from rankbound_study.figures import style, topics
from rankbound_study.results.specs import StudyFiles
from rankbound_study.steps import BY_NAME

figure_command = BY_NAME["figure"]

# One figure of each function: those of the same function differ in the loss alone.
OF_RUNS = ["figure_5_1", "figure_5_4", "figure_5_6", "figure_5_8", "figure_cut_offs"]
CLOSED_FORMS = ["figure_1_1", "figure_3_2", "figure_3_3", "figure_3_5", "figure_3_6"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    skip = [("mq2008-label2", "expectation")]
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.parquet", topics=24, skip=skip, controls=False)


def texts(svg: str) -> list[str]:
    """Return the texts of a drawing with glyph paths, which matplotlib leaves as comments."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", svg, re.DOTALL)]


def drawn(name: str, runs: Path | None, folder: Path) -> tuple[str, bytes]:
    svg, pdf = folder / f"{name}.svg", folder / f"{name}.pdf"
    style.save(figures.draw(name, StudyFiles(runs)), [svg, pdf])
    return svg.read_text("utf-8"), pdf.read_bytes()


def svg_of(name: str, runs: Path | None, folder: Path) -> str:
    path = folder / f"{name}.svg"
    style.save(figures.draw(name, StudyFiles(runs)), [path])
    return path.read_text("utf-8")


def test_figures_are_in_the_order_of_their_sources() -> None:
    numbered = ["1_1", *(f"3_{k}" for k in range(1, 8)), *(f"5_{k}" for k in range(1, 11)), "linear_2", "linear_3"]
    expected = [f"figure_{name}" for name in (*numbered, *(f"neural_{k}" for k in range(1, 9)))]
    assert [name for name in figures.figure_specs() if name[-1].isdigit()] == expected
    named = ["features", "gaps", "duplicates", "links"]
    others = [name for name in figures.figure_specs() if name.startswith("figure_neural_") and not name[-1].isdigit()]
    assert others == [f"figure_neural_{name}" for name in named]


def test_finding_the_figures_and_tables_is_light() -> None:
    """The rules read captions and inputs when Snakemake parses them: 0.1 s for polars and pyarrow, nothing slower."""
    find = "from rankbound_study import figures\nfrom rankbound_study.report import tables"
    script = f"import sys\n{find}\nfigures.figure_specs()\ntables.table_specs()\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"torch", "matplotlib", "scipy", "PIL"}.isdisjoint(result.stdout.split())


@pytest.mark.parametrize("name", OF_RUNS)
def test_figures_of_runs_say_their_protocol_and_mark_missing_cells(name: str, runs: Path, tmp_path: Path) -> None:
    svg = svg_of(name, runs, tmp_path)
    ElementTree.fromstring(svg)
    written = " ".join(texts(svg))
    assert "published protocol: epoch picked on the test part" in written
    assert "SYNTHETIC" not in written
    # Figure 5.1 has a line less where the others have an empty panel; the cut-offs show unbounded losses alone.
    assert written.count("no runs") == (0 if name in ("figure_5_1", "figure_cut_offs") else 1)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_figures_of_formulas_draw_without_runs(name: str, tmp_path: Path) -> None:
    svg = svg_of(name, None, tmp_path)
    ElementTree.fromstring(svg)
    assert len(texts(svg)) > 10


@pytest.mark.parametrize("name", ["figure_5_1", "figure_5_5"])
def test_synthetic_data_are_called_synthetic(name: str, tmp_path: Path) -> None:
    sets = (("synthetic-movielens", 1), ("synthetic-mq2008-label1", None))
    svg = svg_of(name, write_runs(tmp_path / "runs.parquet", sets=sets, topics=8), tmp_path)
    assert sum("synthetic" in text for text in texts(svg)) == 2
    assert any("SYNTHETIC DATA" in text for text in texts(svg))


@pytest.mark.parametrize("name", ["figure_5_1", "figure_5_9"])
def test_a_table_without_any_run_gives_empty_panels(name: str, runs: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.parquet"
    pl.read_parquet(runs).clear().write_parquet(empty)
    svg = svg_of(name, empty, tmp_path)
    rows = 3 if name == "figure_5_1" else 4
    assert texts(svg).count("no runs") == 5 * rows


def test_bytes_are_the_same_in_another_process(runs: Path, tmp_path: Path) -> None:
    calls = {
        name: [
            "figure",
            name,
            "--runs",
            str(runs),
            *(f"--out={tmp_path / name}.there.{kind}" for kind in ("svg", "pdf")),
        ]
        for name in ("figure_3_2", "figure_5_8")
    }
    program = f"from rankbound_study.cli import main\nfor words in {list(calls.values())}:\n    assert main(words) == 0"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    for name in calls:
        svg, pdf = drawn(name, runs, tmp_path)
        assert svg == (tmp_path / f"{name}.there.svg").read_text("utf-8")
        assert pdf == (tmp_path / f"{name}.there.pdf").read_bytes()


def test_files_carry_no_date(tmp_path: Path) -> None:
    svg, pdf = drawn("figure_1_1", None, tmp_path)
    assert pdf.startswith(b"%PDF")
    assert "date" not in svg
    assert b"CreationDate" not in pdf


def test_equal_scores_and_tiny_samples_do_not_break_the_density(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", sets=(("movielens", 1),), topics=3, controls=False)
    frame = pl.read_parquet(path)
    frame.with_columns(pl.lit(0.5).alias("nDCG")).write_parquet(path)
    svg_of("figure_5_8", path, tmp_path)
    svg_of("figure_5_10", path, tmp_path)


def test_the_worst_order_of_one_relevant_item_and_of_none_but_relevant_ones() -> None:
    panels = figures.draw("figure_1_1").axes[:2]
    for panel, floor in zip(panels, (lambda n: 1 / np.log2(n + 1), lambda n: 1 / n), strict=True):
        for line, n in zip(panel.get_lines(), (25, 50, 100, 200), strict=True):
            x, y = line.get_data()
            assert (x[0], y[0]) == pytest.approx((1 / n, floor(n)))
            assert (x[-1], y[-1]) == pytest.approx((1, 1))


@pytest.mark.parametrize(
    ("name", "best", "worst"),
    # Negated metrics first: nDCG and AP run from -1 (best), the nRBP loss from 0.
    [("figure_3_1", (-1, 0), (0, 1)), ("figure_3_4", (-1, -1), (None, 1)), ("figure_3_7", (-1, None), (None, 1))],
)
def test_bounded_losses_end_where_the_bound_says(
    name: str, best: tuple[float, float | None], worst: tuple[float | None, float]
) -> None:
    for position, panel in enumerate(figures.draw(name).axes[:6]):
        is_rank_sum = position % 3 == 2
        for line in panel.get_lines():
            x, y = line.get_data()
            low, high = y[np.argmin(x)], y[np.argmax(x)]
            assert np.all(np.diff(y[np.argsort(x)]) >= -1e-12)
            if best[is_rank_sum] is not None:
                assert low == pytest.approx(best[is_rank_sum], abs=1e-9)
            if worst[is_rank_sum] is not None:
                assert high == pytest.approx(worst[is_rank_sum], abs=1e-9)


def test_grey_covers_exactly_where_the_bounded_share_is_lower() -> None:
    grid = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    where = np.array([False, True, True, False, True, False])
    assert np.array(topics._runs_of(where, grid)) == pytest.approx(np.array([(0.2, 0.4), (0.8, 0.2)]))
    assert topics._runs_of(~where & False, grid) == []


def test_groups_of_topics_never_split_a_count() -> None:
    relevant = np.array([1] * 50 + [2] * 3 + [9] * 3)
    centres, means = topics._group_means(relevant, relevant * 0.1)
    assert centres == sorted(set(centres))
    assert means == pytest.approx([centre * 0.1 for centre in centres])


def test_numbers_at_an_axis_of_large_differences_have_room(runs: Path, tmp_path: Path) -> None:
    wide = pl.read_parquet(runs).with_columns(
        AP=pl.when(pl.col("bounding") == "none").then(0.0).otherwise(pl.col("AP") / pl.col("AP").max())
    )
    wide.write_parquet(tmp_path / "wide.parquet")
    figure = figures.draw("figure_5_9", StudyFiles(tmp_path / "wide.parquet"))
    assert figure.axes[0].get_ylim()[1] > 1
    figure.draw_without_rendering()
    numbers = figure.axes[0].get_yticklabels()
    assert len(numbers) >= 5
    middles = [box.y0 + box.height / 2 for box in (number.get_window_extent() for number in numbers)]
    # Digits are three quarters as high as their font.
    assert np.diff(sorted(middles)).min() > 0.9 * numbers[0].get_fontsize() * figure.dpi / 72


def test_only_the_names_of_rows_that_do_not_fit_are_broken(runs: Path) -> None:
    figure = figures.draw("figure_5_3", StudyFiles(runs))
    boundings = topics.BOUNDED
    last_column = [panel for panel in figure.axes if panel.get_subplotspec().is_last_col()]
    assert [panel.get_label() for panel in last_column] == list(boundings)
    written = [panel.texts[-1] for panel in last_column]
    assert [text.get_text() for text in written] == ["min-max", "expectation", "expectation-\nmax", "distribution"]
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in written]
    assert not any(upper.overlaps(lower) for upper, lower in itertools.pairwise(boxes))


@pytest.mark.parametrize("names", [("a", "b"), ("a name of some length", "b") * 4])
def test_a_legend_is_no_wider_than_its_figure(names: tuple[str, ...]) -> None:
    with style.house_style():
        figure, axes = style.panels(1, 1, height=2.0)
        for place, name in enumerate(names):
            axes[0, 0].plot([0, 1], label=f"{name} {place}")
        style.shared_legend(figure, axes, columns=len(names))
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        assert len(legend.texts) == len(names)


def test_a_remark_writes_commands_as_they_are_typed() -> None:
    text = f"Nothing to draw.\nWhat is missing {'is far too long for one line, ' * 6}: `tool weights --help` says more."
    (panel,) = style.remark(text).axes
    lines = [line.get_text() for line in panel.texts]
    assert "tool weights --help" in lines
    assert "`" not in "".join(lines)
    assert " ".join(lines) == text.replace("`", "").replace("\n", " ")


def test_signs_between_the_steps_touch_none_of_them() -> None:
    figure = figures.draw("figure_neural_8")
    figure.draw_without_rendering()
    for panel in figure.axes:
        signs = [text.get_window_extent() for text in panel.texts if text.get_text() in ("<", "≠")]
        shapes = [shape.get_window_extent() for shape in panel.patches]
        assert not any(sign.overlaps(shape) for sign in signs for shape in shapes)
        assert len({box.y0 for box in signs}) <= 1


def test_every_line_differs_without_colour() -> None:
    assert len({(str(look.dashes), look.marker) for look in style.SERIES}) == len(style.SERIES)
    assert len({str(look.dashes) for look in style.BOUNDING_STYLES.values()}) == len(style.BOUNDING_STYLES)


def test_mistakes_are_named(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    figure_command.configure(parser)
    for words, message in (
        (["figure_9_9", "--out", "a.svg"], "there is no 'figure_9_9'; the figures are figure_1_1"),
        (["figure_5_1", "--out", "a.svg"], "give the runs table with --runs FILE"),
        (["figure_1_1", "--out", "a.jpeg"], "not as '.jpeg'"),
        (["figure_1_1", "--out", "a.svg", "--options", "[1]"], "should be a JSON object"),
        (["figure_1_1", "--out", "a.svg", "--options", "{"], "is not valid JSON"),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            figure_command.run(parser.parse_args(words))
