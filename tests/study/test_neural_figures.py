"""The figures of the neural-ranking study, and scores by the number of features: what is planted is found and drawn."""

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from polars.testing import assert_frame_equal
from safetensors.torch import save_file

import rankbound as rb
from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import trends
from rankbound_study.figures import formulas, neural, style
from rankbound_study.report.render import inline_svg
from rankbound_study.results.neural import TABLES, FeatureResults, coefficients, feature_results, read_runs
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.templates import template
from tests.study.drawn_files import contents, run, svg_of, texts
from tests.study.neural_studies import QUERIES, SIDE, Planted, draw_pairs, write_study

NEURAL = [name for name in figures.figure_specs() if name.startswith("figure_neural_")]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return write_study(tmp_path_factory.mktemp("study"))


def files_of(study: Evidence) -> StudyFiles:
    beside = {"images": study.images, "predictions": study.predictions, "weights": study.weights}
    return StudyFiles(study.runs, study.epochs, **beside)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NEURAL)
def test_all_are_drawn_from_the_files_of_the_study_and_say_so_without_any(
    name: str, study: Evidence, tmp_path: Path
) -> None:
    svg = svg_of(figures.draw(name, files_of(study)), tmp_path)
    # Nothing has run on VGG16's features.
    assert ("published weights" in " ".join(texts(svg))) == (name == "figure_neural_5")
    if name == "figure_neural_duplicates":
        assert sum(text.endswith(" bits") for text in texts(svg)) >= 5 + 1
        assert {"one group", "not grouped"} <= set(texts(svg))
    if figures.figure_specs()[name].needs:
        pl.read_parquet(study.epochs).clear().write_parquet(tmp_path / "epochs.parquet")
        svg = svg_of(figures.draw(name, StudyFiles(study.runs, tmp_path / "epochs.parquet")), tmp_path)
        assert "No method has run on" in " ".join(texts(svg))


@pytest.mark.parametrize("name", ["figure_neural_2", "figure_neural_3"])
def test_pictures_have_fixed_bytes_and_stand_in_the_page_as_data(name: str, study: Evidence, tmp_path: Path) -> None:
    needed = ("--images", study.images, "--predictions", *study.predictions, "--weights", *study.weights)
    for folder in (tmp_path / "a", tmp_path / "b"):
        run("figure", name, *(f"--out={folder}/figure.{kind}" for kind in ("svg", "pdf")), *needed)
    written = contents(tmp_path / "a")
    assert written == contents(tmp_path / "b")
    page = inline_svg(written["figure.svg"].decode(), name, "pictures")
    sources = re.findall(r'<image[^>]*href="([^"]{0,30})', page)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "img-src data:" in template("page.html")


def test_paths_have_a_line_per_fold_and_the_mean_of_each_part(study: Evidence) -> None:
    figure = figures.draw("figure_neural_1", files_of(study))
    panels = np.array(figure.axes).reshape(2, -1)
    epochs = pl.read_parquet(study.epochs)
    for panel, method in zip(panels[1], ("RankNet", "DirectRanker", "Class-NN"), strict=True):
        assert panels[0, list(panels[1]).index(panel)].get_title(loc="left") == method
        labelled = {line.get_label(): line for line in panel.get_lines() if not line.get_label().startswith("_")}
        assert list(labelled) == ["train", "validation", "test"]
        own = epochs.filter(pl.col("model") == method, pl.col("part") == "test", pl.col("dataset") == "mq2008-label1")
        mean = own.group_by("epoch").agg(pl.col("nDCG@10").mean()).sort("epoch")["nDCG@10"]
        assert labelled["test"].get_ydata() == pytest.approx(mean.to_numpy())
        # Two folds of three parts, their means, and the one epoch that was picked in all folds.
        assert len(panel.get_lines()) == 3 * 2 + 3 + 1


def test_a_loss_that_is_of_training_alone_is_drawn_once(study: Evidence, tmp_path: Path) -> None:
    epochs = pl.read_parquet(study.epochs)
    same = epochs.with_columns(pl.col("mean_loss").first().over("model", "dataset", "fold", "epoch"))
    same.write_parquet(tmp_path / "epochs.parquet")
    figure = figures.draw("figure_neural_4", StudyFiles(study.runs, tmp_path / "epochs.parquet"))
    labels = [[line.get_label() for line in panel.get_lines()] for panel in figure.axes]
    drawn = [[label for label in found if not label.startswith("_")] for found in labels]
    assert drawn == [["train"], ["train", "validation", "test"]]


@pytest.mark.parametrize(("order", "sign"), [("right", 1), ("wrong", -1)])
def test_pairs_are_ordered_as_the_title_says(order: str, sign: int, study: Evidence, tmp_path: Path) -> None:
    found = neural._candidates(files_of(study), order)
    assert len(found) > 0
    assert (np.sign(found["older_score"] - found["younger_score"]) == sign).all()
    assert (found["older_age"] - found["younger_age"] > 5).all()
    figure = figures.draw(f"figure_neural_{6 if sign > 0 else 7}", files_of(study))
    written = " ".join(texts(svg_of(figure, tmp_path)))
    assert f"in the {order} order (pixels)" in written
    assert written.count(" years") == 12


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_pairs_of_pictures_keep_the_margins_of_other_figures(left: float) -> None:
    _, (panels,) = neural.pair_grid(1, 3, "title", lines=1, left=left)
    first, last = (panel.get_position() for panel in (panels[0], panels[-1]))
    assert style.PAGE_WIDTH * first.x0 == pytest.approx(style.MARGIN + left)
    assert style.PAGE_WIDTH * (1 - last.x1) == pytest.approx(style.MARGIN)


def test_coefficients_are_those_of_pixels_from_0_to_1(tmp_path: Path) -> None:
    shape = (3, SIDE, SIDE)
    weight = torch.randn(3 * SIDE * SIDE, generator=torch.Generator().manual_seed(0))
    deviation = torch.tensor([0.5, 0.25, 0.2])
    tensors = {
        "scale.mean": torch.zeros(3),
        "scale.deviation": deviation,
        "target.deviation": torch.tensor(10.0),
        "network.weight": weight,
        "network.bias": torch.zeros(()),
    }
    of_folds = {f"fold-1/seed-0/{name}": tensor for name, tensor in tensors.items()}
    of_folds["fold-2/seed-0/network.weight"] = 0 * weight
    save_file(of_folds, tmp_path / "none.weights.safetensors")
    found = coefficients(tmp_path / "none.weights.safetensors", shape)
    wanted = 10 * weight.reshape(shape) / deviation[:, None, None]
    assert found == pytest.approx(wanted.numpy(), rel=1e-6)
    save_file({"fold-1/seed-0/layers.0.weight": torch.zeros(4, 4)}, tmp_path / "network.safetensors")
    assert coefficients(tmp_path / "network.safetensors", shape) is None


# DirectRanker and RankNet


@pytest.mark.parametrize("name", ["RankNet", "DirectRanker"])
def test_both_losses_are_the_cross_entropy_of_the_drawn_link(name: str) -> None:
    scores = torch.tensor([0.3, -1.2, 2.0, 0.1], dtype=torch.float64)
    relevance, offsets = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 4])
    pairs = [(0, 1), (0, 3), (2, 1), (2, 3)]
    wanted = np.mean([-np.log(formulas.probability(name, float(scores[i] - scores[j]))) for i, j in pairs])
    assert rb.loss(name)(scores, relevance, offsets).item() == pytest.approx(wanted)


def test_directranker_is_ranknet_with_another_odd_link() -> None:
    difference = np.linspace(-6, 6, 241)
    one, other = (formulas.probability(name, difference) for name in ("RankNet", "DirectRanker"))
    for won in (one, other):
        # Antisymmetric: of the two sides of a pair one wins; and increasing, so that both order pairs by the score.
        assert won + won[::-1] == pytest.approx(np.ones(241))
        assert (np.diff(won) > 0).all()
    assert (np.sign(one - 0.5) == np.sign(other - 0.5)).all()
    # One's probability is a function of the other's: the link is all that differs.
    assert other == pytest.approx(1 / (1 + np.exp(-np.tanh(np.log(one / (1 - one))))))


def test_only_score_differences_never_break_antisymmetry_or_transitivity() -> None:
    joined, odd, counterexample, score_difference = map(formulas.violations, formulas.PAIR_MODELS)
    assert score_difference == (0, 0)
    assert min(joined) > 0.1
    assert odd[0] == 0 < odd[1]
    # tanh(w.d (1 + (v.d)^2)) has both properties and is no function of w.d alone: its order is that of w.d.
    assert counterexample == (0, 0)


# Scores by the number of features: planted gaps are found, judged and drawn, whatever else is among the runs

COUNTS = (5, 10, 46)
GROWING = (-0.1, 0.0, 0.1)


def queries(folder: Path, best: str = "Rank-LR") -> Planted:
    """RankNet lies above Rank-LR by the gaps, LambdaMART below both; RankNet and `best` are so on validation."""
    made = Planted(folder)
    for count, gap in zip(COUNTS, GROWING, strict=True):
        for method, mean in (("RankNet", 0.5 + gap), ("Rank-LR", 0.5), ("LambdaMART", 0.3)):
            validation = 0.9 if method in ("RankNet", best) else 0.1
            made.queries({f"{method}-of-{count}": mean}, noise=0.02, validation=validation, features=count)
    return made


def of_faces(made: Planted, *, epochs: int = 3) -> Planted:
    """RankNet and Rank-LR by 30 and 300 pixels, and trained on all of them by `epochs` epochs; with predictions."""
    ages = made.true_ages()
    for method, count in product(("RankNet", "Rank-LR"), (30, 300, None)):
        noise = {30: 25.0, 300: 15.0, None: 5.0}[count] * (0.5 if method == "RankNet" and count != 30 else 1)
        random = np.random.default_rng(len(made.predictions))
        scores = (ages + noise * random.standard_normal(len(ages)) - 41) / 20
        own = {"epochs": 3, "features": count, "learning_rate": 0.1} if count else {"epochs": epochs}
        made.scored({f"{method}-of-{count}" if count else method: scores}, draw_pairs(ages), **own)
    return made


def planted_files(made: Planted) -> tuple[Path, Path, tuple[Path, ...], Path | None]:
    found = made.evidence()
    return found.runs, found.epochs, found.predictions, found.images


def results_of(made: Planted) -> FeatureResults:
    return feature_results(*planted_files(made))


def gap_at(results: FeatureResults, count: int | None) -> dict[str, Any]:
    return results.gaps.filter(pl.col("features").eq_missing(pl.lit(count))).row(0, named=True)


# Tables


def test_planted_gaps_are_found(tmp_path: Path) -> None:
    results = results_of(queries(tmp_path))
    scores = {(row["method"], row["features"]): row for row in results.scores.iter_rows(named=True)}
    assert list(scores) == [(name, count) for name in ("RankNet", "LambdaMART", "Rank-LR") for count in COUNTS]
    assert {row["n"] for row in scores.values()} == {QUERIES - QUERIES // 6}
    assert {name for name, _ in scores if scores[name, 5]["network"]} == {"RankNet"}
    for count, planted in zip(COUNTS, GROWING, strict=True):
        gap = gap_at(results, count)
        assert (gap["network"], gap["other"]) == ("RankNet", "Rank-LR"), "the best of the others by validation"
        assert gap["difference"] == pytest.approx(planted, abs=0.01)
        assert gap["difference"] == pytest.approx(scores["RankNet", count]["ours"] - scores["Rank-LR", count]["ours"])
        assert gap["low"] < gap["difference"] < gap["high"]
    tens = np.log10(COUNTS)
    trend = gap_at(results, None)
    found = [gap_at(results, count)["difference"] for count in COUNTS]
    assert trend["difference"] == pytest.approx(np.polyfit(tens, found, 1)[0])
    assert trend["low"] > 0
    (judged,) = trends(results)
    assert (list(judged.signs), [row["features"] for row in judged.rows]) == ([-1, 1, 1], list(COUNTS))


def test_the_best_of_the_others_is_picked_by_validation(tmp_path: Path) -> None:
    """LambdaMART lies far below Rank-LR on the test part."""
    results = results_of(queries(tmp_path, "LambdaMART"))
    assert set(results.gaps["other"].drop_nulls()) == {"LambdaMART"}
    some = queries(tmp_path)
    some.epochs = [row for row in some.epochs if row["model"] == "RankNet-of-5"]
    with pytest.raises(DataError, match="no validation scores of LambdaMART-of-5, Rank-LR-of-5 on mq2008-label1"):
        results_of(some)


def test_a_trend_needs_two_counts_and_a_gap_every_method(tmp_path: Path) -> None:
    every = queries(tmp_path)
    tables = {table["model"][0].as_py(): table for table in every.runs}
    every.runs = [table for name, table in tables.items() if name.endswith("-of-46")]
    one = results_of(every)
    assert one.gaps["features"].to_list() == [46]
    assert list(trends(one)) == []
    # Without the best of the others a network would seem to gain.
    every.runs = [table for name, table in tables.items() if name != "Rank-LR-of-46"]
    some = results_of(every)
    assert some.gaps["features"].to_list() == [5, 10, None]
    assert len(some.scores) == 3 * 3 - 1
    # Of two queries one has a score: resamples of the other have none, and a warning would fail this test.
    every.runs = [table.slice(0, 2) for table in tables.values()]
    few = results_of(every)
    assert set(few.scores["n"]) == {1}
    assert few.scores["low"].to_list() == few.scores["ours"].to_list() == few.scores["high"].to_list()


def test_tables_of_methods_leave_those_that_see_less_out(tmp_path: Path) -> None:
    study = write_study(tmp_path)
    plain = read_runs(study.runs, TABLES[0], ["nDCG@10"])
    assert feature_results(study.runs, study.epochs, study.predictions, study.images).scores.is_empty()
    both = queries(tmp_path / "both")
    both.runs.append(pa.Table.from_pylist(pa.parquet.read_table(study.runs).to_pylist()))
    assert read_runs(planted_files(both)[0], TABLES[0], ["nDCG@10"]).equals(plain)


def test_the_plain_methods_stand_at_all_pixels(tmp_path: Path) -> None:
    files = planted_files(of_faces(Planted(tmp_path)))
    results = feature_results(*files)
    every = 3 * SIDE * SIDE
    assert results.scores["features"].to_list() == 2 * [30, 300, every]
    assert set(results.scores["method"]) == {"RankNet", "Rank-LR"}
    assert results.gaps["features"].to_list() == [30, 300, every, None]
    assert (results.gaps["low"] <= results.gaps["difference"]).all()
    with pytest.raises(ConfigError, match="--images"):
        feature_results(*files[:3])
    # With other settings, a plain method is another one.
    assert results_of(of_faces(Planted(tmp_path), epochs=4)).scores["features"].to_list() == 2 * [30, 300]


def test_the_command_writes_what_the_document_reads(tmp_path: Path) -> None:
    runs, epochs, predictions, images = planted_files(of_faces(Planted(tmp_path / "made")))
    words = ("--runs", runs, "--epochs", epochs, "--images", images, "--predictions", *predictions)
    for folder in (tmp_path / "a", tmp_path / "b"):
        run("table", "table_neural_features", "--out-dir", folder, *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    read = FeatureResults.read(tmp_path / "a")
    made = feature_results(runs, epochs, predictions, images)
    assert_frame_equal(read.scores, made.scores, abs_tol=1e-6)
    assert_frame_equal(read.gaps, made.gaps, abs_tol=1e-6)
    text = (tmp_path / "a" / "table_neural_features.md").read_text("utf-8")
    assert "| family | method | 30 | 300 | 30,000 |" in text
    assert text.count("| rank | ") == 3


def test_the_figure_tells_networks_by_their_style(tmp_path: Path) -> None:
    runs, epochs, predictions, images = planted_files(of_faces(queries(tmp_path)))
    files = StudyFiles(runs, epochs, images=images, predictions=predictions)
    figure = figures.draw("figure_neural_features", files)
    above, below = np.array(figure.axes).reshape(2, 2)
    assert [panel.get_xscale() for panel in below] == ["log", "log"]
    assert [len(panel.containers) for panel in above] == [3, 2]
    for panel in above:
        for drawn in panel.containers:
            line, network = drawn.lines[0], "no network" not in drawn.get_label()
            assert (line.get_linestyle() == "-") == network
            assert (line.get_markerfacecolor() != "none") == network
    gaps = below[0].containers[0].lines[0].get_ydata()
    assert gaps == pytest.approx(GROWING, abs=0.01)
    assert {"number of features", "30,000"} <= set(texts(svg_of(figure, tmp_path)))
