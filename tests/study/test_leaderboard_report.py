"""What the report and the figures show of a leaderboard."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest
from browser_pages import BROWSER
from drawn_files import svg_of, texts
from planted_systems import STUDY, TOPICS, PlantedSystems, control, noise
from test_page_in_browser import seen, with_probe

from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.figures import style
from rankbound_study.report import document, render
from rankbound_study.report.blocks import ReportSection, TableBlock
from rankbound_study.report.content import Figures
from rankbound_study.report.sections import Leaderboard
from rankbound_study.report.tables import leaderboard, make
from rankbound_study.results.study_files import StudyFiles

LEVEL = np.linspace(0.3, 0.8, TOPICS)
SCORED = [topic for topic in range(TOPICS) if topic % 10 != 9]
FIGURES = tuple(f"figure_leaderboard_{name}" for name in ("scores", "epochs", "lengths", "topics"))


def made(scores: PlantedSystems, folder: Path) -> StudyFiles:
    """Make the leaderboard in a results folder; return the files that its figures are drawn from."""
    files = scores.files()
    leaderboard.make_leaderboard(leaderboard.NAME, files, study=STUDY).write(folder / "tables", leaderboard.NAME)
    names = (f"{leaderboard.NAME}{end}.csv" for end in ("", "_lengths", "_topics"))
    return replace(files, leaderboard=tuple(folder / "tables" / name for name in names))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with Table 5.1, the leaderboard and its figures.

    Min-max bounding helps by 0.05; trees of an experiment are far worse; the best feature is behind.
    """
    folder = tmp_path_factory.mktemp("results")
    scores = PlantedSystems(folder).add(("", "mlp", "nDCG", "none"), LEVEL + noise(1), 0.6)
    scores.add(("", "mlp", "nDCG", "min-max"), LEVEL + 0.05 + noise(2), 0.7)
    scores.add(("models-trees", "boosted-trees", "nDCG", "none"), LEVEL - 0.1 + noise(3), 0.4)
    scores.add(control("random"), LEVEL - 0.25 + noise(4)).add(control("best-feature"), LEVEL - 0.1 + noise(5))
    files = made(scores.add(control("oracle"), np.ones(TOPICS)), folder)
    make("table_5_1", StudyFiles(files.runs), {"protocol": "honest"}).write(folder / "tables", "table_5_1")
    for name in FIGURES:
        paths = [folder / "figures" / f"{name}{suffix}" for suffix in (".svg", ".pdf")]
        style.save(figures.draw(name, files), paths)
    return folder


def sections(folder: Path) -> dict[str, ReportSection]:
    return {section.anchor: section for section in document.build(folder).sections}


def test_the_first_finding_says_what_is_best_and_by_how_much(results: Path) -> None:
    first, second, *_ = sections(results)["findings"].findings
    best = LEVEL + 0.05 + noise(2)
    assert first.headline.startswith("web-label1: mlp trained on nDCG with min-max bounding ranks best by validation")
    assert f"its mean nDCG over the test topics is {best[SCORED].mean():.4f}" in first.headline
    assert first.detail.startswith("60 test topics with 570 items (5 to 14 in a list), 19 % of them relevant, in 2 fo")
    assert "Left out, without a defined score: 6 topics." in first.detail
    assert "2 other trained systems, compared with it on the test part: 2 significantly worse." in first.detail
    assert "It also has the highest test score." in first.detail
    rows = {row[0]: row[1:] for row in first.rows}
    assert list(rows) == ["mlp, nDCG, unbounded (rank 2)", "random", "best-feature (baseline)"]
    assert all(row[-1] == "better" for row in rows.values())
    difference = (best - LEVEL - noise(1))[SCORED].mean()
    assert rows["mlp, nDCG, unbounded (rank 2)"][0] == f"+{difference:.4f}"
    assert second.headline == "Bounding improves 1 of 1 case significantly and degrades 0."


def test_both_means_of_a_system_are_named_where_they_stand(results: Path) -> None:
    found = sections(results)
    board, table = found["leaderboard"].blocks[0], found["table-5-1"].blocks[0]
    assert "Every topic counts once here, and every fold once in Table 5.1, which has the mean of the folds' means" in (
        board.caption
    )
    assert table.caption.startswith("Mean of the folds' mean scores over their test lists, ")


ADVICE: dict[str, tuple[list[tuple[float, float]], float, str, str]] = {
    "all others are worse": ([(0.1, 0.02), (0, 0.02)], 0.2, "take mlp trained on nDCG without a bound.",
                             "It is significantly better than every other trained system (1)."),
    "alike": ([(0, 0.001), (0, 0.001)], 0.2, "no other trained system differs significantly from mlp trained on nDCG",
              "1 other ranks alike within ±0.01: the cheapest of them will do."),
    "too few topics": ([(0, 0.15), (0, 0.15)], 0.2, "no other trained system differs significantly from mlp trained on",
                       r"1 comparison with it is inconclusive: about ([\d,]+) test topics would tell differences in "
                       r"nDCG of 0\.01; there are 54\."),
    "alone": ([(0, 0.02)], 0.2, "take mlp", "No other trained system is compared with it."),
    "worse than validation says": ([(0, 0.02), (0.1, 0.02)], 0.2, "take mlp trained on nDCG",
                                   "Validation selects it, although 1 other ranks signif"),
    "no better than chance": ([(0, 0.02)], -0.1, "take mlp", "It is not significantly better than random, which needs"),
}  # fmt: skip
"""Shifts and noise of systems in the order of their validation scores, the random order's loss, and what is said."""


@pytest.mark.parametrize("name", ADVICE)
def test_the_page_ends_with_what_to_do(tmp_path: Path, name: str) -> None:
    systems, behind, headline, detail = ADVICE[name]
    scores = PlantedSystems(tmp_path).add(control("random"), LEVEL - behind + noise(9))
    for place, (shift, spread) in enumerate(systems):
        values = LEVEL + shift + spread * np.random.default_rng(place).normal(size=TOPICS)
        scores.add(("", "mlp", ("nDCG", "AP")[place], "none"), values, 0.9 - place / 10)
    made(scores, tmp_path)
    (section,) = Leaderboard.read(tmp_path / "tables", None).advice()
    (found,) = section.findings
    assert headline in found.headline
    assert re.search(detail.replace("(1)", r"\(1\)") if "(1)" in detail else detail, found.detail), found.detail
    assert "None" not in found.detail
    if needed := re.search(r"about ([\d,]+) test topics", found.detail):
        # As many as make the standard error of 0.15 x sqrt(2) small beside 0.01.
        assert 0.6 < int(needed[1].replace(",", "")) / (2 * (0.15 / 0.01 * 2.93) ** 2) < 1.6


def test_a_board_of_one_system_has_room(tmp_path: Path) -> None:
    board = PlantedSystems(tmp_path, dataset="synthetic-mq2008-label1")
    files = made(board.add(("", "mlp", "nDCG", "none"), LEVEL, 0.6), tmp_path)
    # Without room, matplotlib warns, which is an error here.
    svg = svg_of(figures.draw("figure_leaderboard_scores", files), tmp_path)
    assert "mlp, nDCG, unbounded" in texts(svg)


def test_a_board_without_a_model_that_trained_says_so(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path)
    for place, loss in enumerate(("nDCG", "AP")):
        scores.add(("", "mlp", loss, "none"), LEVEL + noise(place), 0.9)
    files = made(scores.add(control("random"), LEVEL), tmp_path)
    (found,) = Leaderboard.read(tmp_path / "tables", None).findings()
    assert found.headline.endswith(": no model trained, so none ranks best.")
    assert "2 systems" in found.detail
    assert [section.findings for section in Leaderboard.read(tmp_path / "tables", None).advice()] == [(found,)]
    for name in FIGURES:
        assert figures.draw(name, files)


def test_the_highest_test_score_is_named_if_it_is_not_the_best(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path).add(("", "mlp", "nDCG", "none"), LEVEL + 0.1, 0.4)
    made(scores.add(("", "mlp", "AP", "none"), LEVEL + noise(1), 0.6).add(control("random"), LEVEL - 0.2), tmp_path)
    (first,) = Leaderboard.read(tmp_path / "tables", None).findings()
    assert "mlp trained on AP without a bound ranks best by validation" in first.headline
    highest = f"{(LEVEL + 0.1)[SCORED].mean():.4f}"
    expected = f"The highest test score, {highest}, is that of mlp trained on nDCG without a bound (rank 2)."
    assert expected in first.detail
    assert "1 significantly better" in first.detail


def test_the_section_stands_after_the_findings_with_its_figures(results: Path) -> None:
    found = sections(results)
    assert list(found)[:3] == ["findings", "leaderboard", "leaderboard-figures"]
    assert list(found)[-1] == "advice", "of other data than the sources'"
    board, topics, settings = (block for block in found["leaderboard"].blocks if isinstance(block, TableBlock))
    assert board.header == ("rank", "model", "loss", "bounding", "nDCG", "minus the best", "minus unbounded",
                            "minus best-feature")  # fmt: skip
    assert [row[0].text for row in board.rows] == ["1", "2", "3", "–", "–", "–"]
    assert board.rows[1][5].note.endswith("▼")
    assert topics.name == "Topics that gain and lose"
    assert len(topics.rows) == 20
    assert settings.name == "Settings of the experiments"
    assert [block.name for block in found["leaderboard-figures"].blocks] == list(FIGURES)
    files = {suffix: (results / f"tables/{leaderboard.NAME}{suffix}").read_text("utf-8") for suffix in (".md", ".tex")}
    assert "| **1** | **mlp** | **nDCG** | **min-max** |" in files[".md"]
    assert r"$\downarrow$" in files[".tex"]
    assert files[".tex"].count(r"\\") == 1 + len(pl.read_csv(results / f"tables/{leaderboard.NAME}.csv")) == 1 + 6


def test_a_missing_board_has_no_section_and_a_damaged_one_is_named(results: Path, tmp_path: Path) -> None:
    shutil.copytree(results / "tables", tmp_path / "tables")
    for name, text in ((leaderboard.SUMMARY, "{}"), (f"{leaderboard.NAME}.csv", "rank\nfirst\n")):
        (tmp_path / "tables" / name).write_text(text, "utf-8")
        with pytest.raises(DataError, match=f"{name}: not as the step wrote it"):
            document.build(tmp_path)
    for path in tmp_path.glob(f"tables/{leaderboard.NAME}*"):
        path.unlink()
    assert not {"leaderboard", "leaderboard-figures"} & set(sections(tmp_path))


def test_costs_are_those_of_the_records(results: Path) -> None:
    def step(variant: str, model: str, bounding: str, seconds: float, protocol: str = "honest") -> Any:
        options = {"dataset": "web-label1", "nsr": None, "variant": variant, "model": {"name": model}, "loss": "nDCG"}
        options |= {"bounding": bounding, "protocol": protocol}
        return SimpleNamespace(subcommand="job", arguments={"options": options}, cpu_seconds=seconds)

    steps = [step("", "mlp", "none", 2.0), step("", "mlp", "min-max", 3.25), step("", "mlp", "none", 99.0, "published")]
    steps += [step("models-trees", "boosted-trees", "none", 200), SimpleNamespace(subcommand="table", arguments={})]
    board = Leaderboard.read(results / "tables", cast(Any, SimpleNamespace(steps=steps)))
    first = next(board.findings())
    assert "Training all of them took 3.4 minutes of a processor, the best one 3.2 seconds." in first.detail
    (section, _) = board.sections(results, Figures(results), synthetic=False)
    block = section.blocks[0]
    assert [row[-1].text for row in block.rows] == ["3.2", "2.0", "200.0", "–", "–", "–"]


def test_the_figures_name_what_they_show(results: Path, tmp_path: Path) -> None:
    drawn = ("\n".join(texts((results / "figures" / f"{name}.svg").read_text("utf-8"))) for name in FIGURES)
    scores, epochs, lengths, topics = drawn
    for system in ("mlp, nDCG, min-max", "mlp, nDCG, unbounded", "boosted-trees, nDCG, unbounded", "best-feature"):
        assert system in scores
    assert "oracle" not in scores
    assert {"mlp", "boosted-trees"} <= set(re.split(r"\W(?<!-)", epochs))
    assert "trees" in epochs
    assert "best: mlp, nDCG, min-max" in lengths
    assert "same model and loss: mlp, nDCG, unbounded" in lengths
    assert "minus best-feature" in topics
    assert "100 % gain" in topics
    for name in FIGURES:
        svg = svg_of(figures.draw(name), tmp_path)
        assert re.search("There is nothing to draw|There are no validation scores", svg), name


@pytest.mark.skipif(BROWSER is None, reason="no browser here: `apt-get install chromium` for these tests")
def test_the_table_fits_a_page_in_a_browser(results: Path, tmp_path: Path) -> None:
    probe = """<script>addEventListener("load", () => {
      const table = document.querySelector("#leaderboard table.sortable");
      table.querySelectorAll("th button")[4].click();
      const found = {overflow: table.scrollWidth - table.parentElement.clientWidth,
                     scores: [...table.tBodies[0].rows].map(row => parseFloat(row.cells[4].textContent)),
                     drawings: document.querySelectorAll("#leaderboard-figures svg.figure").length};
      const told = document.createElement("script");
      told.type = "application/json"; told.id = "found"; told.textContent = JSON.stringify(found);
      document.body.append(told);
    });</script></head>"""
    page = tmp_path / "page.html"
    page.write_text(with_probe(render.html(document.build(results), results), probe), "utf-8")
    found = seen(page, tmp_path / "profile", "--window-size=1400,900")
    assert found["overflow"] <= 0
    assert found["scores"] in (sorted(found["scores"]), sorted(found["scores"], reverse=True))
    assert found["drawings"] == 4
