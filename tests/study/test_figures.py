"""The figures: they draw with fixed bytes, say their protocol and kind of data, and show what they should."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from drawn_files import contents, run, svg_of, texts
from planted import write_runs

from rankbound.errors import ConfigError
from rankbound_study import figures
from rankbound_study.figures import style
from rankbound_study.figures.runs import FEWEST, means_by_size
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import BOUNDED
from tests.library.refusals import problems, refusals


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sets, skip = (("movielens", 1), ("mq2008-label2", None)), [("mq2008-label2", "expectation")]
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    return write_runs(path, sets=sets, topics=16, skip=skip, controls=False)


def drawing(name: str, folder: Path, runs: Path | None = None) -> list[str]:
    """Draw a figure, and return its texts."""
    return texts(svg_of(figures.draw(name, StudyFiles(runs)), folder))


def changed(runs: Path, folder: Path, **columns: pl.Expr) -> StudyFiles:
    pl.read_parquet(runs).with_columns(**columns).write_parquet(folder / "changed.parquet")
    return StudyFiles(folder / "changed.parquet")


def test_figures_are_in_the_order_of_their_sources_and_found_lightly() -> None:
    names = list(figures.figure_specs())
    numbered = ["1_1", *(f"3_{k}" for k in range(1, 8)), *(f"5_{k}" for k in range(1, 11)), "linear_2", "linear_3"]
    numbered += [f"neural_{k}" for k in range(1, 9)]
    assert [name for name in names if name[-1].isdigit()] == [f"figure_{name}" for name in numbered]
    others = [name for name in names if name.startswith("figure_neural_") and not name[-1].isdigit()]
    assert others == [f"figure_neural_{name}" for name in ("features", "gaps", "duplicates", "links")]
    # The rules read captions and inputs when Snakemake parses them: 0.1 s for polars and pyarrow, nothing slower.
    find = "from rankbound_study import figures\nfrom rankbound_study.report import tables"
    script = f"import sys\n{find}\nfigures.figure_specs()\ntables.table_specs()\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"torch", "matplotlib", "scipy", "PIL"}.isdisjoint(result.stdout.split())


@pytest.mark.parametrize(
    ("name", "missing", "empty"),
    # One figure of each function: those of the same function differ in the loss alone. Figure 5.1 has a line less where
    # the others have an empty panel; the cut-offs show unbounded losses alone.
    [
        ("figure_5_1", 0, 15),
        ("figure_5_4", 1, 20),
        ("figure_5_8", 1, 20),
        pytest.param("figure_5_6", 1, 20, marks=pytest.mark.long),
        pytest.param("figure_cut_offs", 0, 10, marks=pytest.mark.long),
    ],
)
def test_figures_say_protocols_and_mark_gaps(name: str, missing: int, empty: int, runs: Path, tmp_path: Path) -> None:
    written = drawing(name, tmp_path, runs)
    assert any("published protocol: epoch picked on the test part" in text for text in written)
    assert not any("SYNTHETIC" in text for text in written)
    assert written.count("no runs") == missing
    pl.read_parquet(runs).clear().write_parquet(tmp_path / "empty.parquet")
    assert drawing(name, tmp_path, tmp_path / "empty.parquet").count("no runs") == empty
    if name == "figure_5_1":
        sets = (("synthetic-movielens", 1), ("synthetic-mq2008-label1", None))
        written = drawing(name, tmp_path, write_runs(tmp_path / "runs.parquet", sets=sets, topics=8))
        assert sum("synthetic" in text for text in written) == 2
        assert any("SYNTHETIC DATA" in text for text in written)


def test_boundings_that_no_data_set_has_get_no_row(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", boundings=("none", "min-max"), topics=8)
    written = drawing("figure_5_8", tmp_path, path)
    assert "min-max" in written
    assert not {"no runs", "distribution"} & set(written)


@pytest.mark.parametrize("name", ["figure_1_1", "figure_3_2", "figure_3_3", "figure_3_5", "figure_3_6"])
def test_figures_of_formulas_draw_without_runs_and_date(name: str, tmp_path: Path) -> None:
    svg = svg_of(figures.draw(name), tmp_path)
    assert len(texts(svg)) > 10
    assert "date" not in svg


@pytest.mark.long
def test_bytes_are_the_same_in_another_process(runs: Path, tmp_path: Path) -> None:
    names = ("figure_3_2", "figure_5_8")
    for name in names:
        (tmp_path / "there" / name).mkdir(parents=True)
        (tmp_path / name).mkdir()
    calls = [
        ["figure", name, f"--runs={runs}", *(f"--out={tmp_path}/there/{name}/figure.{kind}" for kind in ("svg", "pdf"))]
        for name in names
    ]
    program = f"from rankbound_study.cli import main\nfor words in {calls}:\n    assert main(words) == 0"
    environment = {**os.environ, "PYTHONHASHSEED": "7", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    for name in names:
        drawing(name, tmp_path / name, runs)
        assert contents(tmp_path / name) == contents(tmp_path / "there" / name)


def test_scores_that_differ_in_their_last_digits_lie_on_no_side(runs: Path, tmp_path: Path) -> None:
    """Sums of the same scores in another order differ by rounding."""
    noise = pl.when(pl.col("bounding") == "none").then(0.0).otherwise(pl.col("fold") * 1e-16 + 1e-15)
    drawn = drawing("figure_5_6", tmp_path, changed(runs, tmp_path, AP=0.3 + noise).runs)
    assert {text for text in drawn if re.fullmatch(r"\d+ (above|below)", text)} == {"0 above", "0 below"}


def test_equal_scores_and_tiny_samples_do_not_break_the_density(tmp_path: Path) -> None:
    path = write_runs(tmp_path / "runs.parquet", sets=(("movielens", 1),), topics=3, controls=False)
    for name in ("figure_5_8", "figure_5_10"):
        drawing(name, tmp_path, changed(path, tmp_path, nDCG=pl.lit(0.5)).runs)


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
def test_bounded_losses_end_where_the_bound_says(name: str, best: tuple[Any, Any], worst: tuple[Any, Any]) -> None:
    for position, panel in enumerate(figures.draw(name).axes[:6]):
        is_rank_sum = position % 3 == 2
        for line in panel.get_lines():
            x, y = line.get_data()
            assert np.all(np.diff(y[np.argsort(x)]) >= -1e-12)
            for end, wanted in ((np.argmin(x), best[is_rank_sum]), (np.argmax(x), worst[is_rank_sum])):
                assert wanted is None or y[end] == pytest.approx(wanted, abs=1e-9)


def test_grey_covers_exactly_where_the_bounded_share_is_lower(runs: Path) -> None:
    found = 0
    for panel in figures.draw("figure_5_2", StudyFiles(runs)).axes:
        lines = {line.get_label(): line for line in panel.get_lines()}
        if not lines:
            continue
        grid, unbounded = lines["unbounded"].get_data()
        lower = lines["bounded"].get_ydata() < unbounded
        (grey,) = (one for one in panel.collections if one.get_label() == "bounded share is lower")
        stretches = [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in grey.get_paths()]
        middles = (grid[:-1] + grid[1:]) / 2
        covered = np.array([any(low < middle < high for low, high in stretches) for middle in middles])
        assert (covered == lower[:-1]).all()
        assert all(one[1] < other[0] for one, other in itertools.pairwise(stretches))
        found += len(stretches)
    assert found > 20


def test_means_of_groups_split_no_count_and_numbers_of_large_differences_have_room(runs: Path, tmp_path: Path) -> None:
    """Differences that grow with the number of relevant items lie on a line, and so do the means of groups."""
    few = pl.col("topic").hash() % 3
    p = pl.when(few == 0).then(9).when(few == 1).then(2).otherwise(1)
    unbounded = pl.when(pl.col("bounding") == "none")
    bounded = unbounded.then(0.1).otherwise(0.1 + 0.01 * p)
    for panel in figures.draw("figure_5_9", changed(runs, tmp_path, p=p.cast(pl.Int32), AP=bounded)).axes:
        for line in (one for one in panel.get_lines() if one.get_label() == "mean of a group"):
            x, y = line.get_data()
            assert set(np.round(x, 9)) == {1, 2, 9}
            assert y == pytest.approx(0.01 * x)
    large = unbounded.then(0.0).otherwise(pl.col("AP") / pl.col("AP").max())
    figure = figures.draw("figure_5_9", changed(runs, tmp_path, AP=large))
    assert figure.axes[0].get_ylim()[1] > 1
    figure.draw_without_rendering()
    numbers = figure.axes[0].get_yticklabels()
    assert len(numbers) >= 5
    middles = [box.y0 + box.height / 2 for box in (number.get_window_extent() for number in numbers)]
    # Digits are three quarters as high as their font.
    assert np.diff(sorted(middles)).min() > 0.9 * numbers[0].get_fontsize() * figure.dpi / 72


def test_only_the_names_of_rows_that_do_not_fit_are_broken(runs: Path) -> None:
    figure = figures.draw("figure_5_3", StudyFiles(runs))
    last_column = [panel for panel in figure.axes if panel.get_subplotspec().is_last_col()]
    assert [panel.get_label().rpartition(", ")[2] for panel in last_column] == list(BOUNDED)
    written = [panel.texts[-1] for panel in last_column]
    assert [text.get_text() for text in written] == ["min-max", "expectation", "expectation-\nmax", "distribution"]
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in written]
    assert not any(upper.overlaps(lower) for upper, lower in itertools.pairwise(boxes))


@pytest.mark.parametrize(
    ("sizes", "counts", "means"),
    [
        ([1, 2, 3, 5, 6, 20, 21, 200], FEWEST, {0: 0.015, 1: 0.04, 2: 0.06, 3: 0.2, 4: 1.105}),
        ([1, 8], [FEWEST, FEWEST - 1], {0: 0.01}),
    ],
)
def test_lists_are_in_groups_by_size_without_small_ones(sizes: list[int], counts: Any, means: dict[int, float]) -> None:
    """The nDCG@1 of a list is its number of relevant items over 100, changed by the seed up and down."""
    lists = enumerate(np.repeat(sizes, counts).tolist())
    rows = [(str(topic), 1, seed, p, 2 * p, p / 100 + 0.2 * seed - 0.1) for topic, p in lists for seed in (0, 1)]
    frame = pl.DataFrame(rows, schema=["topic", "fold", "seed", "p", "n", "nDCG@1"], orient="row")
    assert {number: one for number, (one,) in means_by_size(frame, ["nDCG@1"], "p")} == pytest.approx(means)


def test_the_cut_offs_show_groups_and_random_orderings(tmp_path: Path) -> None:
    figure = figures.draw("figure_cut_offs", StudyFiles(write_runs(tmp_path / "runs.parquet", topics=40)))
    (legend,) = figure.legends
    assert {"1–2 relevant", "≥ 81 items"} <= {text.get_text() for text in legend.get_texts()}
    for panel in figure.axes:
        drawn = [line.get_label() for line in panel.lines]
        assert sum(label.startswith("_random ordering") for label in drawn) == len(drawn) / 2 > 0


@pytest.mark.parametrize("names", [("a", "b"), ("a name of some length", "b") * 4])
def test_a_legend_is_no_wider_than_its_figure(names: tuple[str, ...]) -> None:
    with style.house_style():
        figure, axes = style.panels(1, 1, height=2.0)
        for place, name in enumerate(names):
            axes[0, 0].plot([0, 1], label=f"{name} {place}")
        style.finish(figure, axes, legend=len(names))
        (legend,) = figure.legends
        assert legend.get_window_extent().width <= figure.bbox.width
        assert len(legend.texts) == len(names)


def test_signs_touch_no_step_lines_differ_and_remarks_show_commands() -> None:
    figure = figures.draw("figure_neural_8")
    figure.draw_without_rendering()
    for panel in figure.axes:
        signs = [text.get_window_extent() for text in panel.texts if text.get_text() in ("<", "≠")]
        assert not any(sign.overlaps(shape.get_window_extent()) for sign in signs for shape in panel.patches)
        assert len({box.y0 for box in signs}) <= 1
    assert len({(str(look.dashes), look.marker) for look in style.SERIES}) == len(style.SERIES)
    assert len({str(look.dashes) for look in style.BOUNDING_STYLES.values()}) == len(style.BOUNDING_STYLES)
    text = f"Nothing to draw.\nWhat is missing {'is far too long for one line, ' * 6}: `tool weights --help` says more."
    ((shown,),) = (panel.texts for panel in style.remark(text).axes)
    lines = shown.get_text().splitlines()
    assert "tool weights --help" in lines
    assert " ".join(lines) == text.replace("`", "").replace("\n", " ")


test_mistakes_are_named = refusals(problems("figures"), lambda words: run("figure", *words.split()), ConfigError)
