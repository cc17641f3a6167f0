"""Tables, facts and figures of the neural-ranking study: arithmetic, printed column, tests, and what is drawn."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
import yaml
from neural_studies import AGES, WEB, method_scores, pictures
from polars.testing import assert_frame_equal
from safetensors.torch import save_file

import rankbound as rb
from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.methods import trends
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.figures import formulas, style
from rankbound_study.figures.neural import pair_grid
from rankbound_study.report.blocks import TableFiles
from rankbound_study.report.numbers import signed
from rankbound_study.report.render import inline_svg
from rankbound_study.report.sections import Results, facts, read_results
from rankbound_study.report.tables import neural
from rankbound_study.results import neural as readers
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.templates import template
from tests.study.drawn_files import contents, run, svg_of, texts
from tests.study.neural_studies import QUERIES as N_QUERIES
from tests.study.neural_studies import SIDE, Planted, draw_pairs, write_study

QUERIES, PIXELS, FEATURES = readers.TABLES


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return write_study(tmp_path_factory.mktemp("study"))


def made_of(
    about: readers.Printed, runs: Path, epochs: Path, predictions: tuple[Path, ...] = (), images: Path | None = None
) -> TableFiles:
    return neural.make_neural(about.name, StudyFiles(runs, epochs, predictions=tuple(predictions), images=images))


@pytest.fixture(scope="module")
def queries(study: Evidence) -> TableFiles:
    return made_of(QUERIES, study.runs, study.epochs)


@pytest.fixture(scope="module")
def pixels(study: Evidence) -> TableFiles:
    return made_of(PIXELS, study.runs, study.epochs, study.predictions, study.images)


def cell(table: TableFiles, method: str, metric: str) -> dict[str, Any]:
    return table.table.filter(pl.col("method") == method, pl.col("metric") == metric).row(0, named=True)


def with_runs(study: Evidence, folder: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> Path:
    """Return the path of the study's runs, changed."""
    change(pl.read_parquet(study.runs)).write_parquet(folder / "runs.parquet")
    return folder / "runs.parquet"


# Table 1


def test_every_printed_method_has_a_row_beside_its_score(queries: TableFiles, study: Evidence, tmp_path: Path) -> None:
    printed = readers.printed_scores(QUERIES)
    assert printed["method"].to_list() == list(WEB)
    rows = queries.table.filter(pl.col("metric") == "nDCG@10")
    beside = rows.filter(pl.col("printed").is_not_null()).select("method", "printed")
    assert dict(beside.rows()) == dict(printed.select("method", "printed").rows())
    assert rows["method"].to_list()[-2:] == ["oracle", "random"]
    # One that is not printed stands with its family.
    other = with_runs(study, tmp_path, lambda runs: runs.with_columns(pl.col("model").replace("Rank-LR", "Rank-new")))
    families = made_of(QUERIES, other, study.epochs).table["family"].rle().struct["value"].to_list()
    assert families == ["rank", "classification", "control"]
    config = yaml.safe_load(Path(__file__).parents[2].joinpath("config.yaml").read_text("utf-8"))
    assert set(printed["method"]) <= set(config["comparisons"]["web-queries"]["methods"])
    # Queries without a relevant document are left out and counted.
    found = cell(queries, "RankNet", "nDCG@10")
    assert (found["n"], found["n_skipped"], found["n_folds"]) == (100, 20, 5)
    runs = pl.read_parquet(study.runs).filter(pl.col("model") == "RankNet", pl.col("dataset") == "mq2008-label1")
    assert found["ours"] == pytest.approx(runs["nDCG@10"].drop_nans().mean())


@pytest.mark.parametrize("best_by_validation", ["LambdaMART", "Class-LR"])
def test_all_are_compared_with_the_best_by_validation(best_by_validation: str, study: Evidence, tmp_path: Path) -> None:
    """Whatever the test part says of it: LambdaMART has the highest mean there, Class-LR the lowest."""
    picked = (pl.col("model") == best_by_validation) & (pl.col("part") == "validation")
    score = pl.when(picked).then(0.99).otherwise("nDCG@10").alias("nDCG@10")
    pl.read_parquet(study.epochs).with_columns(score).write_parquet(tmp_path / "epochs.parquet")
    queries = made_of(QUERIES, study.runs, tmp_path / "epochs.parquet")
    trained = queries.table.filter(pl.col("metric") == "nDCG@10", pl.col("family") != "control")
    assert trained.sort("ours")["method"].to_list()[:: len(trained) - 1] == ["Class-LR", "LambdaMART"]
    best = cell(queries, best_by_validation, "nDCG@10")
    (block,) = neural.score_blocks(queries.table, QUERIES)
    assert [method.text for _, method, *_ in block.rows if method.strong] == [best_by_validation]
    assert best["p_value"] is None
    others = trained.filter(pl.col("method") != best_by_validation)
    assert others["p_holm"].null_count() == 0
    assert others["difference_to_best"].to_list() == pytest.approx((others["ours"] - best["ours"]).to_list())
    assert (others["p_holm"] >= others["p_value"]).all()


MOVED = pl.col("options").str.replace("}", ', "shift": 0.2}', literal=True)


def test_other_epochs_and_moved_pictures_are_in_no_table(queries: TableFiles, study: Evidence, tmp_path: Path) -> None:
    """Only the epoch that validation picked counts; a data set with moved pictures alone has printed scores alone."""

    def mixed(runs: pl.DataFrame) -> pl.DataFrame:
        others = runs.filter(pl.col("selection") == "validation").with_columns(pl.lit(0.0).alias("nDCG@10"))
        moved = runs.filter(pl.col("model") == "RankCNN").with_columns(pl.col("model") + "-shifted", MOVED)
        assert len(moved)
        return pl.concat([runs, moved, *(others.with_columns(selection=pl.lit(name)) for name in ("test", "last"))])

    def of_faces(runs: pl.DataFrame) -> pl.DataFrame:
        found = runs.filter(pl.col("dataset") == "aaf")
        assert (found["loss"] == "none").any()
        options = pl.when(pl.col("loss") == "none").then("options").otherwise(MOVED)
        return found.with_columns(options, pl.lit("neural").alias("study"))

    path = with_runs(study, tmp_path, mixed)
    assert made_of(QUERIES, path, study.epochs).table.equals(queries.table)
    assert readers.read_runs(path, PIXELS, []).equals(readers.read_runs(study.runs, PIXELS, []))
    by_features = [readers.read_runs_by_features(one, PIXELS, 30_000) for one in (path, study.runs)]
    assert by_features[0].equals(by_features[1])
    assert made_of(PIXELS, with_runs(study, tmp_path, of_faces), study.epochs).table["ours"].count() == 0
    with pytest.raises(DataError, match=r"column 'nDCG@10' is missing"):
        made_of(QUERIES, with_runs(study, tmp_path, lambda runs: runs.drop("nDCG@10")), study.epochs)


# Tables 2 and 3


def test_accuracy_by_scores_is_that_of_the_runs_and_is_split_by_age_gap(pixels: TableFiles, study: Evidence) -> None:
    runs = pl.read_parquet(study.runs).filter(pl.col("dataset") == "aaf", pl.col("loss") != "none")
    wanted = dict(runs.group_by("model").agg(pl.col("PairAccuracy").mean()).rows())
    assert set(wanted) == set(AGES)
    assert {method: cell(pixels, method, "PairAccuracy")["ours"] for method in wanted} == pytest.approx(wanted)
    pairs = readers.read_pairs(study.predictions, study.images).filter(pl.col("method") == "RankNet")
    gaps = pixels.beside["_by_age_gap.csv"].filter(pl.col("method") == "RankNet")
    assert gaps["n"].sum() == len(pairs)
    assert (gaps["accuracy"] * gaps["n"]).sum() == pytest.approx(pairs["PairAccuracy"].sum())


def test_readings_of_classifiers_and_fits_of_regressions_follow_scores(pixels: TableFiles) -> None:
    """Both labels right is what gives numbers below one half; R^2 is of the distinct faces."""
    _, ages = pictures()
    pairs = draw_pairs(ages)
    faces = np.unique(pairs)
    older = (ages[pairs] == ages[pairs].max(1, keepdims=True)).astype(bool)
    for method, (family, noise) in AGES.items():
        scores = method_scores(method, family, noise, ages)
        if family == "classification":
            shares = [cell(pixels, method, name)["ours"] for name in ("BothRight", "SameLabel", "BothWrong")]
            assert sum(shares) == pytest.approx(1)
            assert shares[0] < cell(pixels, method, "PairAccuracy")["ours"]
            assert shares[0] == pytest.approx(((scores[pairs] > 0) == older).all(1).mean())
        if family == "regression":
            missed = ((scores[faces] - ages[faces]) ** 2).sum()
            wanted = 1 - missed / ((ages[faces] - ages[faces].mean()) ** 2).sum()
            found = cell(pixels, method, "R2")
            assert (found["ours"], found["n"]) == (pytest.approx(wanted, abs=1e-6), len(faces))
    assert "BothRight" not in pixels.table.filter(pl.col("family") == "rank")["metric"].to_list()


def test_synthetic_data_never_meet_a_printed_score(tmp_path: Path) -> None:
    made = write_study(tmp_path, web="synthetic-mq2008-label1", faces="synthetic-aaf")
    for about in (QUERIES, PIXELS):
        table = made_of(about, made.runs, made.epochs, made.predictions if about.of_faces else (), made.images)
        assert table.table["printed"].null_count() == len(table.table)
        assert table.table["ours"].null_count() == 0
        assert "synthetic" in table.beside[".md"].lower()
        assert list(facts([Results(about, table.table, table.beside["_comparisons.csv"])])) == []


def test_shares_are_even_at_one_half_and_only_pairs_of_two_ages_are_read(study: Evidence, tmp_path: Path) -> None:
    def read(path: Path, *changes: pl.Expr) -> pl.DataFrame:
        """Read the pairs of a file of predictions with changed columns."""
        table = read_table(path, "predictions")
        frame = pl.from_arrow(table).with_columns(*changes)  # type: ignore[union-attr]
        kinds = {"items": pa.list_(pa.int64()), "scores": pa.list_(pa.float32())}
        columns = {
            name: pa.array(frame[name].to_list(), kinds.get(name, table.schema.field(name).type))
            for name in table.column_names
        }
        write_table(pa.table(columns), tmp_path / "none.predictions.parquet", "predictions")
        return readers.read_pairs([tmp_path / "none.predictions.parquet"], study.images)

    source = study.predictions[list(AGES).index("Class-LR")]
    right = read(source, pl.lit("squared").alias("loss"), pl.col("scores") + 0.5)["BothRight"]
    assert right.equals(readers.read_pairs([source], study.images)["BothRight"])
    assert right.sum() > 0
    with pytest.raises(DataError, match="column 'items' should hold pairs"):
        read(source, pl.col("items", "scores").list.concat(pl.lit([0])))
    with pytest.raises(DataError, match="have the same age"):
        read(source, pl.lit([3, 3], pl.List(pl.Int64)).alias("items"))


# Layout, names, facts


def test_data_sets_have_tables_and_methods_without_runs_printed_scores(pixels: TableFiles, study: Evidence) -> None:
    tables = {"mq2008-label1": 1, "mslr-web10k-label2": 1, "aaf": 2, "synthetic-aaf-vgg16": 3}
    assert {name: readers.table_of(name).number for name in tables} == tables
    names = ["mslr-web10k-label2", "mslr-web10k-graded", "mslr-web10k-label1", "mq2008-label2"]
    assert [QUERIES.is_on(name) for name in names] == [True, False, False, False]
    assert readers.data_set_title("mslr-web10k-graded") == "MSLR-WEB10K (graded)"
    missing = pixels.table.filter(pl.col("ours").is_null())
    assert set(missing["method"]) == {"DirectRanker", "Reg-RF", "Reg-Boost", "Class-RF", "Class-Boost"}
    assert missing["printed"].null_count() == 0
    table = made_of(FEATURES, study.runs, study.epochs)
    assert table.table["ours"].null_count() == len(table.table) == 12
    assert "published weights" in table.beside[".md"]
    # RankCNN is printed as a dash.
    assert table.table["printed"].null_count() == 1


@pytest.mark.parametrize(
    ("names", "header", "note"),
    [
        (["mslr-web10k-label2"], ["printed"], None),
        (["mq2008-label1"], ["printed, MSLR-WEB10K"], "is on MSLR-WEB10K, ours is not:"),
        (
            ["mq2008-label1", "mslr-web10k-label2"],
            ["printed, MSLR-WEB10K", "printed"],
            "is on MSLR-WEB10K, MQ2008 (relevant: label ≥ 1) is not:",
        ),
    ],
)
def test_a_table_says_whether_the_printed_scores_are_on_its_data(
    queries: TableFiles, names: list[str], header: list[str], note: str | None
) -> None:
    own = queries.table.filter(pl.col("dataset") == queries.table["dataset"][0])
    scores = pl.concat([own.with_columns(pl.lit(name).alias("dataset")) for name in names])
    assert [block.header[4] for block in neural.score_blocks(scores, QUERIES)] == header
    said = neural.caption(scores, QUERIES)
    assert (note in said) if note else ("The printed column" not in said)


def test_facts_follow_the_numbers(queries: TableFiles, pixels: TableFiles) -> None:
    above_random, same_models = facts([Results(QUERIES, queries.table, queries.beside["_comparisons.csv"])])
    means = {name: cell(queries, name, "nDCG@10")["ours"] for name in (*WEB, "random")}
    assert above_random.headline == (
        f"LambdaMART scores {means['LambdaMART']:.4f} on MQ2008 (relevant: label ≥ 1), place 1 of 8; a random ordering "
        f"scores {means['random']:.4f}."
    )
    assert above_random.detail.startswith("8 of 8 methods have a higher mean than a random ordering.")
    assert [row[0] for row in same_models.rows] == [
        "RankNet − Class-NN", "Rank-LR − Class-LR", "LambdaMART − Class-Boost",
    ]  # fmt: skip
    assert same_models.rows[0][1] == signed(means["RankNet"] - means["Class-NN"])
    readings, same_models = facts([Results(PIXELS, pixels.table, pixels.beside["_comparisons.csv"])])
    assert [row[0] for row in readings.rows] == ["Class-CNN", "Class-LR"]
    # The models that were trained for two tasks.
    assert [row[0] for row in same_models.rows] == ["Rank-LR − Class-LR", "RankNet − Reg-NN", "RankCNN − Class-CNN"]
    printed = dict(readers.printed_scores(PIXELS).select("method", "printed").rows())
    assert same_models.rows[1][3] == signed(printed["RankNet"] - printed["Reg-NN"])


def test_the_command_writes_every_form_twice_the_same(study: Evidence, tmp_path: Path) -> None:
    runs, faces = ("--runs", study.runs, "--epochs", study.epochs), ("--predictions", *study.predictions)
    folders = [tmp_path / name for name in ("a", "b")]
    for about in readers.TABLES:
        more = ("--images", study.images, *faces) if about is PIXELS else ()
        for folder in folders:
            run("table", about.name, *runs, "--out-dir", folder, *more)
    files, again = map(contents, folders)
    assert files == again
    assert len(files) == 3 * 4 + 2
    results = read_results(folders[0])
    assert [one.about for one in results] == list(readers.TABLES)
    assert results[1].mean("RankNet") == pytest.approx(0.9, abs=1e-6)
    assert results[2].mean("RankNet") is None
    # A row per method in Markdown and in LaTeX, the best one in bold.
    rows = [line for line in files["table_neural_2.md"].decode().splitlines() if line.startswith("| ")]
    assert len(rows) == len(set(results[1].scores["method"])) + 1 == files["table_neural_2.tex"].count(rb"\\")
    assert [row.split(" | ")[1] for row in rows if "**" in row] == ["**RankCNN**"]
    for number, words, missing in ((1, (), "--runs"), (1, runs[:2], "--epochs"), (2, (*runs, *faces), "--images")):
        with pytest.raises(ConfigError, match=missing):
            run("table", f"table_neural_{number}", *words, "--out-dir", tmp_path)


# Figures, and scores by the number of features

NEURAL = [name for name in figures.figure_specs() if name.startswith("figure_neural_")]


def files_of(study: Evidence) -> StudyFiles:
    beside = {"images": study.images, "predictions": study.predictions, "weights": study.weights}
    return StudyFiles(study.runs, study.epochs, **beside)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NEURAL)
def test_all_are_drawn_from_files_and_say_so_without_any(name: str, study: Evidence, tmp_path: Path) -> None:
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


def test_paths_have_a_line_per_fold_and_training_losses_one_in_all(study: Evidence, tmp_path: Path) -> None:
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
    same = epochs.with_columns(pl.col("mean_loss").first().over("model", "dataset", "fold", "epoch"))
    same.write_parquet(tmp_path / "epochs.parquet")
    figure = figures.draw("figure_neural_4", StudyFiles(study.runs, tmp_path / "epochs.parquet"))
    labels = [[line.get_label() for line in panel.get_lines()] for panel in figure.axes]
    drawn = [[label for label in found if not label.startswith("_")] for found in labels]
    assert drawn == [["train"], ["train", "validation", "test"]]


@pytest.mark.parametrize(("number", "order", "sign"), [(6, "right", 1), (7, "wrong", -1)])
def test_pairs_are_ordered_as_the_title_says(
    number: int, order: str, sign: int, study: Evidence, tmp_path: Path
) -> None:
    written = texts(svg_of(figures.draw(f"figure_neural_{number}", files_of(study)), tmp_path))
    assert f"in the {order} order (pixels)" in " ".join(written)
    scores = [float(text.split()[1].replace("−", "-")) for text in written if text.startswith("score ")]
    assert len(scores) == 6
    assert (np.sign(scores) == sign).all()
    ages = [int(text.split()[0]) for text in written if text.endswith(" years")]
    assert (np.diff(np.reshape(ages, (6, 2))) > 5).all()


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_pairs_of_pictures_keep_the_margins_of_other_figures(left: float) -> None:
    first, *_, last = (panel.get_position() for panel in pair_grid(2, 3, "title", lines=1, left=left).axes)
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
    found = readers.coefficients(tmp_path / "none.weights.safetensors", shape)
    wanted = 10 * weight.reshape(shape) / deviation[:, None, None]
    assert found == pytest.approx(wanted.numpy(), rel=1e-6)
    save_file({"fold-1/seed-0/layers.0.weight": torch.zeros(4, 4)}, tmp_path / "network.safetensors")
    assert readers.coefficients(tmp_path / "network.safetensors", shape) is None


# DirectRanker and RankNet


@pytest.mark.parametrize("name", ["RankNet", "DirectRanker"])
def test_both_losses_are_the_cross_entropy_of_the_drawn_link(name: str) -> None:
    scores = torch.tensor([0.3, -1.2, 2.0, 0.1], dtype=torch.float64)
    relevance, offsets = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 4])
    pairs = [(0, 1), (0, 3), (2, 1), (2, 3)]
    wanted = np.mean([-np.log(formulas.probability(name, float(scores[i] - scores[j]))) for i, j in pairs])
    assert rb.loss(name)(scores, relevance, offsets).item() == pytest.approx(wanted)


def test_directranker_has_another_odd_link_and_score_differences_break_nothing() -> None:
    difference = np.linspace(-6, 6, 241)
    one, other = (formulas.probability(name, difference) for name in ("RankNet", "DirectRanker"))
    for won in (one, other):
        # Antisymmetric: of the two sides of a pair one wins; and increasing, so that both order pairs by the score.
        assert won + won[::-1] == pytest.approx(np.ones(241))
        assert (np.diff(won) > 0).all()
    assert (np.sign(one - 0.5) == np.sign(other - 0.5)).all()
    # One's probability is a function of the other's: the link is all that differs.
    assert other == pytest.approx(1 / (1 + np.exp(-np.tanh(np.log(one / (1 - one))))))
    joined, odd, counterexample, score_difference = map(formulas.violations, formulas.PAIR_MODELS)
    assert score_difference == (0, 0)
    assert min(joined) > 0.1
    assert odd[0] == 0 < odd[1]
    # tanh(w.d (1 + (v.d)^2)) has both properties and is no function of w.d alone: its order is that of w.d.
    assert counterexample == (0, 0)


# Scores by the number of features: planted gaps are found, judged and drawn, whatever else is among the runs

COUNTS = (5, 10, 46)
GROWING = (-0.1, 0.0, 0.1)


def by_counts(folder: Path, best: str = "Rank-LR") -> Planted:
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


def results_of(made: Planted) -> readers.FeatureResults:
    return readers.feature_results(*planted_files(made))


def gap_at(results: readers.FeatureResults, count: int | None) -> dict[str, Any]:
    return results.gaps.filter(pl.col("features").eq_missing(pl.lit(count))).row(0, named=True)


# Tables


def test_planted_gaps_are_found(tmp_path: Path) -> None:
    results = results_of(by_counts(tmp_path))
    scores = {(row["method"], row["features"]): row for row in results.scores.iter_rows(named=True)}
    assert list(scores) == [(name, count) for name in ("RankNet", "LambdaMART", "Rank-LR") for count in COUNTS]
    assert {row["n"] for row in scores.values()} == {N_QUERIES - N_QUERIES // 6}
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
    assert (judged.facts["signs"], judged.n) == ([-1, 1, 1], len(COUNTS))


def test_the_best_of_the_others_is_picked_by_validation(tmp_path: Path) -> None:
    """LambdaMART lies far below Rank-LR on the test part."""
    results = results_of(by_counts(tmp_path, "LambdaMART"))
    assert set(results.gaps["other"].drop_nulls()) == {"LambdaMART"}
    some = by_counts(tmp_path)
    some.epochs = [row for row in some.epochs if row["model"] == "RankNet-of-5"]
    with pytest.raises(DataError, match="no validation scores of LambdaMART-of-5, Rank-LR-of-5 on mq2008-label1"):
        results_of(some)


def test_a_trend_needs_two_counts_and_a_gap_every_method(tmp_path: Path) -> None:
    every = by_counts(tmp_path)
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
    plain = readers.read_runs(study.runs, readers.TABLES[0], ["nDCG@10"])
    assert readers.feature_results(study.runs, study.epochs, study.predictions, study.images).scores.is_empty()
    both = by_counts(tmp_path / "both")
    both.runs.append(pa.Table.from_pylist(pa.parquet.read_table(study.runs).to_pylist()))
    assert readers.read_runs(planted_files(both)[0], readers.TABLES[0], ["nDCG@10"]).equals(plain)


def test_the_plain_methods_stand_at_all_pixels(tmp_path: Path) -> None:
    files = planted_files(of_faces(Planted(tmp_path)))
    results = readers.feature_results(*files)
    every = 3 * SIDE * SIDE
    assert results.scores["features"].to_list() == 2 * [30, 300, every]
    assert set(results.scores["method"]) == {"RankNet", "Rank-LR"}
    assert results.gaps["features"].to_list() == [30, 300, every, None]
    assert (results.gaps["low"] <= results.gaps["difference"]).all()
    with pytest.raises(ConfigError, match="--images"):
        readers.feature_results(*files[:3])
    # With other settings, a plain method is another one.
    assert results_of(of_faces(Planted(tmp_path), epochs=4)).scores["features"].to_list() == 2 * [30, 300]


def test_the_command_writes_what_the_document_reads(tmp_path: Path) -> None:
    runs, epochs, predictions, images = planted_files(of_faces(Planted(tmp_path / "made")))
    words = ("--runs", runs, "--epochs", epochs, "--images", images, "--predictions", *predictions)
    for folder in (tmp_path / "a", tmp_path / "b"):
        run("table", "table_neural_features", "--out-dir", folder, *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    read = readers.FeatureResults.read(tmp_path / "a")
    made = readers.feature_results(runs, epochs, predictions, images)
    assert_frame_equal(read.scores, made.scores, abs_tol=1e-6)
    assert_frame_equal(read.gaps, made.gaps, abs_tol=1e-6)
    text = (tmp_path / "a" / "table_neural_features.md").read_text("utf-8")
    assert "| family | method | 30 | 300 | 30,000 |" in text
    assert text.count("| rank | ") == 3


def test_the_figure_tells_networks_by_their_style(tmp_path: Path) -> None:
    runs, epochs, predictions, images = planted_files(of_faces(by_counts(tmp_path)))
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
