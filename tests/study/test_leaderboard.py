"""The leaderboard on planted scores: its order, arithmetic and verdicts, and what report and figures show of it."""

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from browser_pages import seen, with_probe
from drawn_files import svg_of, texts
from scipy import stats

from rankbound.compare.statistics import corrected
from rankbound.errors import DataError
from rankbound_study import figures
from rankbound_study.claims.leaderboard import ALIKE, BETTER, UNDECIDED, WITHIN, WORSE, groups_of, verdict
from rankbound_study.cli import main
from rankbound_study.data.contracts import SPLITS, lists_table, write_table
from rankbound_study.data.sampling import write_instances
from rankbound_study.figures import style
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.report import document, render
from rankbound_study.report.blocks import ReportSection, TableBlock
from rankbound_study.report.content import Figures
from rankbound_study.report.sections import Leaderboard
from rankbound_study.report.tables import leaderboard, make
from rankbound_study.results.scores import SYSTEM
from rankbound_study.results.study_files import StudyFiles
from tests.library.refusals import problems
from tests.study.planted import MINE, TOPICS, PlantedSystems, control, noise

LEVEL = np.linspace(0.3, 0.8, TOPICS)
MLP, BOUNDED = ("", "mlp", "nDCG", "none"), ("", "mlp", "nDCG", "min-max")
LINEAR = ("models-linear", "linear", "nDCG", "none")
SCORED = [topic for topic in range(TOPICS) if topic % 10 != 9]

SCORES = {
    MLP: LEVEL + noise(1),
    BOUNDED: LEVEL + 0.05 + noise(2),
    LINEAR: LEVEL + 0.1 + noise(3),
    control("random"): LEVEL - 0.2 + noise(4),
    control("best-feature"): LEVEL - 0.1 + noise(5),
    control("oracle"): np.ones(TOPICS),
}
"""A bounded loss that helps, a linear model whose test scores are higher than its validation scores, controls."""
VALIDATION = {MLP: 0.6, BOUNDED: 0.7}


def planted(folder: Path) -> PlantedSystems:
    made = PlantedSystems(folder)
    for system, scores in SCORES.items():
        made.add(system, scores, VALIDATION.get(system, 0.5))
    return made


def table_of(scores: PlantedSystems, **choice: object) -> pl.DataFrame:
    return leaderboard.make_leaderboard(leaderboard.NAME, scores.files(), study=MINE, leaderboard=choice).table


def row_of(table: pl.DataFrame, system: tuple[str, ...]) -> dict[str, object]:
    return table.filter(*(pl.col(name) == value for name, value in zip(SYSTEM, system, strict=True))).row(0, named=True)


def test_validation_scores_of_the_selected_epochs_decide_the_order(tmp_path: Path) -> None:
    table = table_of(planted(tmp_path))
    assert table["model"].to_list() == ["mlp", "mlp", "linear", "random", "best-feature", "oracle"]
    assert table["rank"].to_list() == [1, 2, 3, None, None, None]
    assert table["validation"].to_list()[:3] == pytest.approx([0.7, 0.6, 0.5])
    assert table["role"].to_list() == ["best", "", "", "", "baseline", ""]
    # No test score selects the best: the linear model's is higher.
    assert row_of(table, LINEAR)["score"] > row_of(table, BOUNDED)["score"]


def test_means_intervals_and_tests_are_those_of_the_written_out_arithmetic(tmp_path: Path) -> None:
    table = table_of(planted(tmp_path))
    own = {system: values[SCORED] for system, values in SCORES.items() if system != control("oracle")}
    for system, values in own.items():
        row = row_of(table, system)
        reach = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        found = [row[name] for name in ("score", "low", "high")]
        assert found == pytest.approx([values.mean(), values.mean() - reach, values.mean() + reach])
        assert (row["n_topics"], row["n_skipped"]) == (54, 6)
    for comparison, other, compared in (
        ("best", BOUNDED, [MLP, LINEAR, control("random"), control("best-feature")]),
        ("counterpart", MLP, [BOUNDED]),
        ("baseline", control("best-feature"), [BOUNDED, MLP, LINEAR, control("random")]),
    ):
        tests = [stats.ttest_rel(own[system], own[other]) for system in compared]
        for system, test, p_value in zip(compared, tests, corrected([test.pvalue for test in tests]), strict=True):
            row = row_of(table, system)
            assert row[f"{comparison}_difference"] == pytest.approx((own[system] - own[other]).mean())
            assert row[f"{comparison}_low"] == pytest.approx(test.confidence_interval(0.95).low)
            assert row[f"{comparison}_p_holm"] == pytest.approx(p_value)
        untested = set(own) - set(compared)
        assert all(row_of(table, system)[f"{comparison}_difference"] is None for system in untested)
    assert row_of(table, BOUNDED)["counterpart_verdict"] == BETTER
    assert row_of(table, control("random"))["best_verdict"] == WORSE


def test_without_a_signal_nothing_is_significant(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path)
    for place, bounding in enumerate(("none", "min-max", "expectation", "distribution")):
        scores.add(("", "mlp", "nDCG", bounding), LEVEL + noise(place, 0.1), 0.5 + place / 100)
    # Beside a random ordering that scores alike, all of them count as models that did not train.
    table = table_of(scores.add(control("best-feature"), LEVEL + noise(9, 0.1)))
    verdicts = [
        verdict for name in ("best", "counterpart", "baseline") for verdict in table[f"{name}_verdict"].drop_nulls()
    ]
    assert set(verdicts) == {UNDECIDED}
    assert len(verdicts) == 4 + 3 + 4
    stuck = table_of(scores.add(control("random"), LEVEL + noise(8, 0.1)))
    assert "best" not in stuck["role"].to_list(), "none that trained"


def test_systems_within_the_margin_are_alike_by_their_p_values(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path).add(MLP, LEVEL + noise(1, 0.003), 0.6).add(BOUNDED, LEVEL + noise(2, 0.003), 0.7)
    scores.add(control("random"), LEVEL + 0.004)
    table = table_of(scores, margin=0.01)
    assert row_of(table, MLP)["best_verdict"] == ALIKE
    assert row_of(table, control("random"))["best_verdict"] == BETTER + WITHIN
    assert row_of(table_of(scores, margin=0.0005), MLP)["best_verdict"] == UNDECIDED
    cases = ((0.1, 0.01, 0.9), (-0.1, 0.05, 0.9), (0.1, 0.06, 0.05), (0.1, 0.06, 0.06))
    assert [verdict(*case) for case in cases] == [BETTER, WORSE, ALIKE, UNDECIDED]


def test_a_named_baseline_and_metric(tmp_path: Path) -> None:
    scores = planted(tmp_path)
    table = table_of(scores, baseline="random", judged_by="AP")
    assert table["metric"].unique().to_list() == ["AP"]
    assert row_of(table, control("random"))["role"] == "baseline"
    expected = (SCORES[MLP] - SCORES[control("random")])[SCORED].mean()
    assert row_of(table, MLP)["baseline_difference"] == pytest.approx(expected)
    # Variants that are tested on other lists are left out.
    scores.add(("few-one", "mlp", "nDCG", "none"), LEVEL, options='{"test_relevant": 1}')
    assert "few-one" not in table_of(scores)["variant"].to_list()


def test_several_seeds_widen_the_interval_by_their_own_variance(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path, seeds=(0, 1, 2)).add(MLP, LEVEL, 0.6).add(BOUNDED, LEVEL + 0.05 + noise(2), 0.7)
    table = table_of(scores.add(control("random"), LEVEL - 0.1))
    assert row_of(table, MLP)["n_seeds"] == 3
    assert row_of(table, control("random"))["n_seeds"] == 1
    assert row_of(table, MLP)["best_difference"] == pytest.approx(-(0.05 + noise(2)[SCORED]).mean())


def test_groups_of_lengths_hold_every_list_and_need_trained_models(tmp_path: Path) -> None:
    for lengths in ([3], [2, 2, 2], list(range(1, 100)), [1] * 50 + [7, 7, 90]):
        groups = groups_of(np.array(lengths))
        assert all(sum(low <= length <= high for low, high in groups) == 1 for length in lengths)
        assert len(groups) <= 6
    scores = PlantedSystems(tmp_path).add(control("random"), LEVEL)
    made = leaderboard.make_leaderboard(leaderboard.NAME, scores.files(), study=MINE)
    assert made.table.is_empty()
    assert made.beside["_summary.json"] == {"margin": 0.01, "data_sets": []}


def test_topics_and_lengths_stand_beside_the_table(tmp_path: Path) -> None:
    made = leaderboard.make_leaderboard(leaderboard.NAME, planted(tmp_path).files(), study=MINE)
    topics, lengths = made.beside["_topics.csv"], made.beside["_lengths.csv"]
    partner = topics.filter(pl.col("role") == "partner")
    expected = {f"q{topic:02}": (SCORES[BOUNDED] - SCORES[MLP])[topic] for topic in SCORED}
    assert dict(partner.select("topic", "difference").rows()) == pytest.approx(expected)
    assert partner["difference"].is_sorted()
    assert partner["place"].to_list() == list(range(1, 55))
    best = lengths.filter(pl.col("role") == "best")
    assert best["n_topics"].sum() == 54
    weighted = (best["mean"] * best["n_topics"]).sum() / 54
    assert weighted == pytest.approx(SCORES[BOUNDED][SCORED].mean())


# Trainings on lists whose truth is known, up to the leaderboard: a linear signal is found

DRAWN_TOPICS, ITEMS, FEATURES = 50, 12, 4
DATASET = "planted-label1"
MODELS = {
    "": {"name": "mlp", "hidden": [8]},
    "models-linear": {"name": "linear"},
    "models-trees": {"name": "boosted-trees", "rounds": 20, "every": 4, "leaves": 8, "learning_rate": 0.2},
}


def write_lists(folder: Path) -> tuple[Path, Path]:
    """Two folds of lists in which each of three features tells a third of the relevance, with noise."""
    random = np.random.default_rng(5)
    count = 2 * len(SPLITS) * DRAWN_TOPICS * ITEMS
    features = random.normal(size=(count, FEATURES)).astype(np.float32)
    utility = features[:, :3].sum(1) + random.normal(size=count)
    relevance = (utility > np.quantile(utility, 0.7)).astype(np.int8)
    features[:, 1] = 1000 * features[:, 1] + 77
    parts, first = [], 0
    for fold in (1, 2):
        for split in SPLITS:
            items = np.arange(first, first := first + DRAWN_TOPICS * ITEMS)
            offsets = np.arange(0, DRAWN_TOPICS * ITEMS + 1, ITEMS)
            names = [f"{split}-{fold}-{topic}" for topic in range(DRAWN_TOPICS)]
            parts.append((fold, split, lists_table(names, items, relevance[items], offsets)))
    write_instances(folder / "instances.parquet", DATASET, None, parts, item_count=count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES)
    offsets = pa.array([0, count], pa.int32())
    columns = {
        "items": pa.array([f"d{row}" for row in range(count)]),
        "relevance": pa.array(relevance),
        "features": vectors,
    }
    table = {name: pa.ListArray.from_arrays(offsets, column) for name, column in columns.items()}
    write_table(pa.table({"topic": pa.array(["all"]), **table}), folder / "lists.parquet", "lists")
    return folder / "instances.parquet", folder / "lists.parquet"


def trained(folder: Path) -> pl.DataFrame:
    """Train every model with and without a bound, measure the controls, and return the leaderboard."""
    instances, lists = write_lists(folder)
    shared = {"protocol": "honest", "dataset": DATASET, "nsr": None, "study": MINE, "folds": [1, 2]}
    controls = {**shared, "controls": ["random", "best-feature", "oracle"]}
    run_controls(json.dumps(controls), instances, folder / "controls.parquet", lists)
    trainer = {"optimiser": "adam", "learning_rate": 0.05, "epochs": 12, "batch_size": 16, "scale": "standard"}
    made: dict[str, list[Path]] = {"runs": [folder / "controls.parquet"], "experiments": []}
    for variant, model in MODELS.items():
        for bounding in ("none", "min-max"):
            options = {**shared, "model": model, "loss": "nDCG", "bounding": bounding, "seeds": [0], "temperature": 1.0}
            options |= {"variant": variant} | ({} if model["name"] == "boosted-trees" else trainer)
            out = folder / f"{variant}-{bounding}.parquet"
            arguments = ["job", "--instances", str(instances), "--lists", str(lists), "--out", str(out)]
            assert main([*arguments, "--device", "cpu", "--options", json.dumps(options)]) == 0
            made["experiments" if variant else "runs"].append(out)
    epochs = {"runs": "epochs", "experiments": "experiment_epochs"}
    for name, paths in made.items():
        collect(paths, *(folder / f"{one}.parquet" for one in (name, epochs[name], f"rates of {name}")))
    files = StudyFiles(**{name: folder / f"{name}.parquet" for name in (*epochs, *epochs.values())})
    return leaderboard.make_leaderboard(leaderboard.NAME, files, study=MINE).table


def test_models_beat_the_best_feature_which_beats_a_random_order(tmp_path: Path) -> None:
    with_signal = trained(tmp_path)
    models = with_signal.filter(pl.col("rank").is_not_null())
    assert len(models) == 6
    assert set(models["baseline_verdict"]) == {BETTER}
    random = with_signal.filter(pl.col("model") == "random").row(0, named=True)
    assert random["baseline_verdict"] == WORSE
    assert random["best_verdict"] == WORSE
    best = with_signal.filter(pl.col("model") == "best-feature").row(0, named=True)
    assert all(abs(place) in (1, 2, 3) for place in json.loads(best["options"])["features"])
    # The signal is linear: no other model is better than a linear one.
    linear = with_signal.filter(pl.col("model") == "linear")["score"].max()
    assert linear > 0.97 * float(with_signal.filter(pl.col("rank") == 1)["score"][0])  # type: ignore[operator]


# What the report and the figures show of a leaderboard

FIGURES = tuple(f"figure_leaderboard_{name}" for name in ("scores", "epochs", "lengths", "topics"))


def made(scores: PlantedSystems, folder: Path) -> StudyFiles:
    """Make the leaderboard in a results folder; return the files that its figures are drawn from."""
    files = scores.files()
    leaderboard.make_leaderboard(leaderboard.NAME, files, study=MINE).write(folder / "tables", leaderboard.NAME)
    names = (f"{leaderboard.NAME}{end}.csv" for end in ("", "_lengths", "_topics"))
    return replace(files, leaderboard=tuple(folder / "tables" / name for name in names))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with Table 5.1, the leaderboard and its figures.

    Min-max bounding helps by 0.05; trees of an experiment are far worse; the best feature is behind.
    """
    folder = tmp_path_factory.mktemp("results")
    scores = PlantedSystems(folder).add(MLP, SCORES[MLP], 0.6).add(BOUNDED, SCORES[BOUNDED], 0.7)
    scores.add(("models-trees", "boosted-trees", "nDCG", "none"), LEVEL - 0.1 + noise(3), 0.4)
    scores.add(control("random"), LEVEL - 0.25 + noise(4)).add(control("best-feature"), LEVEL - 0.1 + noise(5))
    files = made(scores.add(control("oracle"), np.ones(TOPICS)), folder)
    make("table_5_1", StudyFiles(files.runs), {"protocol": "honest"}).write(folder / "tables", "table_5_1")
    for name in FIGURES:
        style.save(figures.draw(name, files), [folder / "figures" / f"{name}.svg"])
    return folder


def sections(folder: Path) -> dict[str, ReportSection]:
    return {section.anchor: section for section in document.build(folder).sections}


def test_the_first_finding_says_what_is_best_and_both_means_are_named(results: Path) -> None:
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
    found = sections(results)
    board, table = found["leaderboard"].blocks[0], found["table-5-1"].blocks[0]
    assert "Every topic counts once here, and every fold once in Table 5.1, which has the mean of the folds' means" in (
        board.caption
    )
    assert table.caption.startswith("Mean of the folds' mean scores over their test lists, ")


ADVICE = problems("leaderboards")


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
    assert re.search(detail, found.detail), found.detail
    assert "None" not in found.detail
    if needed := re.search(r"about ([\d,]+) test topics", found.detail):
        # As many as make the standard error of 0.15 x sqrt(2) small beside 0.01.
        assert 0.6 < int(needed[1].replace(",", "")) / (2 * (0.15 / 0.01 * 2.93) ** 2) < 1.6


def test_a_board_of_one_system_has_room(tmp_path: Path) -> None:
    board = PlantedSystems(tmp_path, dataset="synthetic-mq2008-label1")
    files = made(board.add(MLP, LEVEL, 0.6), tmp_path)
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
    scores = PlantedSystems(tmp_path).add(MLP, LEVEL + 0.1, 0.4)
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
    (section, _) = board.sections(results, Figures(results))
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


def test_the_table_fits_a_page_in_a_browser(results: Path, tmp_path: Path) -> None:
    probe = """
      const table = document.querySelector("#leaderboard table.sortable");
      table.querySelectorAll("th button")[4].click();
      found.overflow = table.scrollWidth - table.parentElement.clientWidth;
      found.scores = [...table.tBodies[0].rows].map(row => parseFloat(row.cells[4].textContent));
      found.drawings = document.querySelectorAll("#leaderboard-figures svg.figure").length;
    """
    page = tmp_path / "page.html"
    page.write_text(with_probe(render.html(document.build(results), results), probe), "utf-8")
    found = seen(page, tmp_path / "profile", "--window-size=1400,900")
    assert found["overflow"] <= 0
    assert found["scores"] in (sorted(found["scores"]), sorted(found["scores"], reverse=True))
    assert found["drawings"] == 4
