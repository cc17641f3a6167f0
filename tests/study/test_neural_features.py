"""Scores by the number of features: planted gaps are found, judged and drawn, whatever else is among the runs."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from drawn_files import contents, run, svg_of, texts
from planted_methods import QUERIES, Planted
from polars.testing import assert_frame_equal
from synthetic_comparisons import SIDE, _pair_rows, _write_predictions, draw_pairs, write_study

from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims.methods import trends
from rankbound_study.results.neural_names import TABLES
from rankbound_study.results.neural_runs import FeatureResults, feature_results, read_runs
from rankbound_study.results.study_files import StudyFiles

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


def faces(made: Planted, *, epochs: int = 3) -> Planted:
    """RankNet and Rank-LR by 30 and 300 pixels, and trained on all of them by `epochs` epochs; with predictions."""
    ages = made.true_ages()
    pairs = draw_pairs(ages)
    for method, count in product(("RankNet", "Rank-LR"), (30, 300, None)):
        name = method if count is None else f"{method}-of-{count}"
        noise = {30: 25.0, 300: 15.0, None: 5.0}[count] * (0.5 if method == "RankNet" and count != 30 else 1)
        own = {"epochs": 3, "features": count, "learning_rate": 0.1} if count else {"epochs": epochs}
        text = json.dumps({"family": "rank", "model": "mlp" if method == "RankNet" else "linear", **own})
        random = np.random.default_rng(len(made.predictions))
        scores = (ages + noise * random.standard_normal(len(ages)) - 41) / 20
        rows = [{**row, "options": text} for row in _pair_rows("aaf", name, "rank", pairs, scores, ages)]
        made.runs.append(pa.Table.from_pylist(rows))
        path = made.folder / name / "none.predictions.parquet"
        made.predictions.append(_write_predictions(path, "aaf", name, "rank", pairs, scores))
        made._epochs("aaf", name, 0.9)
    return made


def files_of(made: Planted) -> tuple[Path, Path, tuple[Path, ...], Path | None]:
    found = made.evidence()
    assert found.runs is not None
    assert found.epochs is not None
    return found.runs, found.epochs, found.predictions, found.images


def results_of(made: Planted) -> FeatureResults:
    return feature_results(*files_of(made))


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
    assert read_runs(files_of(both)[0], TABLES[0], ["nDCG@10"]).equals(plain)


def test_the_plain_methods_stand_at_all_pixels(tmp_path: Path) -> None:
    files = files_of(faces(Planted(tmp_path)))
    results = feature_results(*files)
    every = 3 * SIDE * SIDE
    assert results.scores["features"].to_list() == 2 * [30, 300, every]
    assert set(results.scores["method"]) == {"RankNet", "Rank-LR"}
    assert results.gaps["features"].to_list() == [30, 300, every, None]
    assert (results.gaps["low"] <= results.gaps["difference"]).all()
    with pytest.raises(ConfigError, match="--images"):
        feature_results(*files[:3])
    # With other settings, a plain method is another one.
    assert results_of(faces(Planted(tmp_path), epochs=4)).scores["features"].to_list() == 2 * [30, 300]


def test_the_command_writes_what_the_document_reads(tmp_path: Path) -> None:
    runs, epochs, predictions, images = files_of(faces(Planted(tmp_path / "made")))
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
    runs, epochs, predictions, images = files_of(faces(queries(tmp_path)))
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
