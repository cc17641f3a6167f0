"""The figures of the neural-ranking study: what they show, what they say when something is missing, and fixed bytes."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from drawn_files import contents, run, svg_of, texts
from safetensors.torch import save_file
from synthetic_comparisons import SIDE, Study, write_study

import rankbound as rb
from rankbound_study import figures
from rankbound_study.figures import faces, illustrations, style
from rankbound_study.report.render import inline_svg
from rankbound_study.results.neural_pairs import coefficients
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.templates import template

NEURAL = [name for name in figures.figure_specs() if name.startswith("figure_neural_")]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return write_study(tmp_path_factory.mktemp("study"))


def files_of(study: Study) -> StudyFiles:
    beside = {"images": study.images, "predictions": study.predictions, "weights": study.weights}
    return StudyFiles(study.runs, study.epochs, **beside)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NEURAL)
def test_all_are_drawn_from_the_files_of_the_study_and_say_so_without_any(
    name: str, study: Study, tmp_path: Path
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
def test_pictures_have_fixed_bytes_and_stand_in_the_page_as_data(name: str, study: Study, tmp_path: Path) -> None:
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


def test_paths_have_a_line_per_fold_and_the_mean_of_each_part(study: Study) -> None:
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


def test_a_loss_that_is_of_training_alone_is_drawn_once(study: Study, tmp_path: Path) -> None:
    epochs = pl.read_parquet(study.epochs)
    same = epochs.with_columns(pl.col("mean_loss").first().over("model", "dataset", "fold", "epoch"))
    same.write_parquet(tmp_path / "epochs.parquet")
    figure = figures.draw("figure_neural_4", StudyFiles(study.runs, tmp_path / "epochs.parquet"))
    labels = [[line.get_label() for line in panel.get_lines()] for panel in figure.axes]
    drawn = [[label for label in found if not label.startswith("_")] for found in labels]
    assert drawn == [["train"], ["train", "validation", "test"]]


@pytest.mark.parametrize(("order", "sign"), [("right", 1), ("wrong", -1)])
def test_pairs_are_ordered_as_the_title_says(order: str, sign: int, study: Study, tmp_path: Path) -> None:
    found = faces._candidates(files_of(study), order)
    assert found is not None
    assert len(found) > 0
    assert (np.sign(found["older_score"] - found["younger_score"]) == sign).all()
    assert (found["older_age"] - found["younger_age"] > 5).all()
    figure = figures.draw(f"figure_neural_{6 if sign > 0 else 7}", files_of(study))
    written = " ".join(texts(svg_of(figure, tmp_path)))
    assert f"in the {order} order (pixels)" in written
    assert written.count(" years") == 12


@pytest.mark.parametrize("left", [0.0, 0.5])
def test_pairs_of_pictures_keep_the_margins_of_other_figures(left: float) -> None:
    _, (panels,) = faces.pair_grid(1, 3, "title", lines=1, left=left)
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
    assert found is not None
    assert found == pytest.approx(wanted.numpy(), rel=1e-6)
    save_file({"fold-1/seed-0/layers.0.weight": torch.zeros(4, 4)}, tmp_path / "network.safetensors")
    assert coefficients(tmp_path / "network.safetensors", shape) is None


# DirectRanker and RankNet


@pytest.mark.parametrize("name", ["RankNet", "DirectRanker"])
def test_both_losses_are_the_cross_entropy_of_the_drawn_link(name: str) -> None:
    scores = torch.tensor([0.3, -1.2, 2.0, 0.1], dtype=torch.float64)
    relevance, offsets = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 4])
    pairs = [(0, 1), (0, 3), (2, 1), (2, 3)]
    wanted = np.mean([-np.log(illustrations.probability(name, float(scores[i] - scores[j]))) for i, j in pairs])
    assert rb.loss(name)(scores, relevance, offsets).item() == pytest.approx(wanted)


def test_directranker_is_ranknet_with_another_odd_link() -> None:
    difference = np.linspace(-6, 6, 241)
    one, other = (illustrations.probability(name, difference) for name in ("RankNet", "DirectRanker"))
    for won in (one, other):
        # Antisymmetric: of the two sides of a pair one wins; and increasing, so that both order pairs by the score.
        assert won + won[::-1] == pytest.approx(np.ones(241))
        assert (np.diff(won) > 0).all()
    assert (np.sign(one - 0.5) == np.sign(other - 0.5)).all()
    # One's probability is a function of the other's: the link is all that differs.
    assert other == pytest.approx(1 / (1 + np.exp(-np.tanh(np.log(one / (1 - one))))))


def test_only_score_differences_never_break_antisymmetry_or_transitivity() -> None:
    joined, odd, counterexample, score_difference = map(illustrations.violations, illustrations.PAIR_MODELS)
    assert score_difference == (0, 0)
    assert min(joined) > 0.1
    assert odd[0] == 0 < odd[1]
    # tanh(w.d (1 + (v.d)^2)) has both properties and is no function of w.d alone: its order is that of w.d.
    assert counterexample == (0, 0)
