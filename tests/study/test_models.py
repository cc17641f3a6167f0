"""Models: shapes, written-out arithmetic, reproducible starts, and networks for pictures with published weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import rankbound as rb
from rankbound.errors import DataError, SourceError
from rankbound.lists import Lists
from rankbound.training.models import INITIAL_RANGE, MLP, Factorization
from rankbound.training.trainer import Part
from rankbound_study import cli
from rankbound_study.data.contracts import read_table
from rankbound_study.data.images import Faces, read_faces, read_image_features, read_pixels
from rankbound_study.data.sources import SOURCES, RawFiles
from rankbound_study.data.synthetic import generate
from rankbound_study.jobs import vgg16
from rankbound_study.jobs.cnn import FrequencyConv2d, RankCNN
from rankbound_study.jobs.fit_by_steps import (
    FOREST,
    TableRows,
    TreeEnsemble,
    growth,
    lasso_path,
    pooled_rows,
    ridge_path,
)
from rankbound_study.jobs.models import Linear, PixelScale, input_scale
from rankbound_study.jobs.vgg16 import (
    VGG16,
    check_published,
    convert_weights,
    generate_weights,
    imagenet_images,
    read_pickled_tensors,
    read_weights,
)
from tests.raw_files import raw_file


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("reach", "build"),
    [
        (INITIAL_RANGE, lambda generator: Factorization(30, 50, 4, generator=generator)),
        (0.1, lambda generator: MLP(100, (100,), generator=generator)),
        ((3 * 17**2) ** -0.5, lambda generator: RankCNN(generator=generator).convolutions[0]),
        ((6 * 17**2) ** -0.5, lambda generator: RankCNN(generator=generator).convolutions[2]),
    ],
)
def test_models_start_by_their_generator_within_their_reach(reach: float, build: Callable[..., nn.Module]) -> None:
    for first, same, other in zip(*(build(generator(seed)).parameters() for seed in (1, 1, 2)), strict=True):
        assert torch.equal(first, same)
        assert not torch.equal(first, other)
        assert reach / 2 < first.abs().max() <= reach


def test_network_is_layer_by_layer_arithmetic() -> None:
    model = MLP(2, hidden=(3,), activation="tanh", generator=generator())
    features = torch.tensor([[1.0, -2.0], [0.5, 0.0]])
    first, _, last = model.layers
    expected = torch.tanh(features @ first.weight.T + first.bias) @ last.weight.T + last.bias
    torch.testing.assert_close(model(features), expected.squeeze(1))
    with pytest.raises(ValueError, match=r"activation: found 'gelu', expected one of relu"):
        MLP(2, activation="gelu")


def test_scaled_features_are_standard_and_linear_models_need_examples() -> None:
    features = torch.tensor([[1.0, 5.0, 1e6], [2.0, 5.0, 1e6 + 1], [6.0, 5.0, 1e6 + 2]])
    scale = input_scale("standard", features, torch.arange(3))
    scaled = scale(features)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 0.0, 1.0]), atol=1e-5, rtol=0)
    again = input_scale("standard", torch.zeros(2, 3), torch.arange(2))
    again.load_state_dict(scale.state_dict())
    assert torch.equal(again(features), scaled)
    # More features than examples: its weights stay a combination of the examples, from zero on.
    features = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]])
    model = Linear(3)
    assert torch.equal(model(features), torch.zeros(2))
    for _ in range(3):
        model.zero_grad()
        (model(features) - torch.tensor([1.0, -1.0])).square().sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
    weight = model.weight.detach()
    assert float(weight[2]) == 0
    assert float(weight[0]) != 0


# Penalised regressions against their optimality conditions


def problem(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    features = torch.randn(n, d, generator=generator) + 3
    return features, features[:, 0] - 2 * features[:, 1] + 0.1 * torch.randn(n, generator=generator)


@pytest.mark.parametrize(("n", "d"), [(40, 6), (6, 40), (12, 12)])
def test_ridge_weights_have_no_gradient_left(n: int, d: int) -> None:
    features, labels = problem(n, d)
    for penalty, (weight, bias) in zip((1.0, 0.01), ridge_path(features.clone(), labels, (1.0, 0.01)), strict=True):
        exact, targets = features.double(), labels.double()
        weight, bias = weight.double().requires_grad_(), bias.double().requires_grad_()
        centred = exact - exact.mean(0)
        scale = penalty * centred.square().sum()
        ((exact @ weight + bias - targets).square().sum() + scale * weight.square().sum()).backward()
        size = (centred.T @ targets).abs().max()
        assert float(weight.grad.abs().max() / size) < 1e-4  # type: ignore[union-attr]
        assert float(bias.grad.abs() / n) < 1e-4  # type: ignore[union-attr]


def test_the_strongest_lasso_penalty_keeps_nothing_and_weaker_ones_meet_the_conditions() -> None:
    features, labels = problem(50, 8)
    penalties = (1.0, 0.3, 0.05)
    centred, targets = features - features.mean(0), labels - labels.mean()
    largest = (centred.T @ targets).abs().max() / len(labels)
    kept = []
    for penalty, (weight, bias) in zip(penalties, lasso_path(features.clone(), labels, penalties), strict=True):
        kept.append(int((weight != 0).sum()))
        correlation = centred.T @ (targets - centred @ weight) / len(labels)
        active = weight != 0
        limit = penalty * largest
        torch.testing.assert_close(correlation[active], limit * weight[active].sign(), atol=2e-2, rtol=0)
        assert bool((correlation.abs() <= limit + 2e-2).all())
        torch.testing.assert_close(bias, labels.mean() - features.mean(0) @ weight, atol=1e-4, rtol=1e-4)
    assert kept[0] == 0
    assert kept == sorted(kept)
    assert {0, 1} <= set(torch.nonzero(weight)[:, 0].tolist())


@pytest.mark.parametrize("path", [ridge_path, lasso_path])
def test_no_features_that_matter_give_the_mean(path: Callable[..., Any]) -> None:
    """Features without variance have no weight at all."""
    labels, features = torch.tensor([1.0, 2.0, 6.0]), torch.eye(3) * 1e-3 + 5
    weight, bias = next(iter(path(features.clone(), labels, (1e3,))))
    assert float((features @ weight + bias - 3).abs().max()) < 0.01
    for shape in ((4, 2), (2, 4)) if path is ridge_path else ():
        labels = torch.arange(float(shape[0]))
        for weight, bias in path(torch.full(shape, 7.0), labels, (1e-3, 1.0)):
            assert weight.tolist() == [0.0] * shape[1]
            assert float(bias) == float(labels.mean())


# Trees: what they say while they grow is what they say at the end, and the same every time

ROUNDS, SMALL = 6, {"leaves": 5, "min_rows": 2}
WATCHED = torch.arange(70, 120)


def table(n: int = 120, d: int = 4, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randint(0, 256, (n, d), generator=generator).to(dtype)
    signal = features[:, 0].to(torch.float64) / 255 + 0.2 * torch.rand(n, generator=generator)
    return features, (signal > 0.6).to(torch.float64)


def grown(kind: str = "boosted-trees", loss: str = "squared", **changes: Any) -> TreeEnsemble:
    features, labels = table(dtype=changes.pop("dtype", torch.float32))
    lists = Lists(torch.arange(0, 81, 20)) if loss in ("LambdaRank", "RankNet") else None
    rows = TableRows(torch.arange(80), labels[:80], None, lists, torch.arange(80))
    trees = TreeEnsemble(growth(kind, SMALL | changes, 3), rb.loss(loss), features, rows, WATCHED)
    for _ in range(ROUNDS):
        trees.grow()
    return trees


BOOSTED = ("squared", "logistic", "LambdaRank", "RankNet")
"""LightGBM's own objectives, the third of lists, and one that is boosted by its gradient and Hessian."""


@pytest.mark.parametrize(("kind", "loss"), [*(("boosted-trees", loss) for loss in BOOSTED), (FOREST, "squared")])
def test_scores_heard_while_growing_are_those_of_the_grown_trees(kind: str, loss: str) -> None:
    trees = grown(kind, loss)
    watched, (_, labels) = trees.scores(WATCHED, ROUNDS), table()
    torch.testing.assert_close(trees.watched_scores(), watched, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(trees.training_scores(), trees.scores(torch.arange(80), 6), atol=1e-5, rtol=1e-4)
    assert watched[labels[70:] > 0].mean() > watched[labels[70:] == 0].mean() + 0.1
    fixed = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "seed": 5}
    assert fixed.items() <= growth(kind, SMALL, 5).items()


def test_forests_score_means_of_labels_and_trees_are_the_same_every_time() -> None:
    scores = grown(FOREST).scores(torch.arange(120), ROUNDS)
    assert -1e-6 <= float(scores.min()) < 0.5 < float(scores.max()) <= 1 + 1e-6
    with pytest.raises(ValueError, match="loss: found logistic for a forest, expected squared"):
        grown(FOREST, "logistic")
    first, second, pixels = grown(), grown(), grown(dtype=torch.uint8)
    assert torch.equal(first.tensors(6)["lightgbm"], second.tensors(6)["lightgbm"])
    assert torch.equal(first.tensors(6)["lightgbm"], pixels.tensors(6)["lightgbm"])
    assert len(first.tensors(2)["lightgbm"]) < len(first.tensors(6)["lightgbm"])
    booster = lightgbm.Booster(model_str=bytes(first.tensors(4)["lightgbm"].tolist()).decode())
    expected = first.scores(torch.arange(120), 4).numpy()
    np.testing.assert_allclose(booster.predict(table()[0].numpy()), expected, rtol=1e-6)


def test_pooled_rows_stand_for_all_occurrences() -> None:
    """The gradient of the logistic loss with respect to each item's score is that of all its occurrences."""
    items, grades = torch.tensor([4, 7, 4, 2, 4, 7]), torch.tensor([1, 0, 0, 2, 1, 0])
    part = Part(["a", "b"], torch.tensor([0, 1]), items, grades, Lists(torch.tensor([0, 3, 6])))
    rows = pooled_rows(part, least=1)
    assert rows.items.tolist() == [2, 4, 7]
    assert rows.weights is not None
    scores = torch.randn(8, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    entropy(scores[items], (grades >= 1).to(torch.float64), reduction="sum").backward()
    expected = scores.grad
    scores.grad = None
    entropy(scores[rows.items], rows.labels, weight=rows.weights, reduction="sum").backward()
    torch.testing.assert_close(scores.grad, expected)
    assert rows.items[rows.spread].tolist() == items.tolist()
    assert pooled_rows(part, least=None).labels.tolist() == pytest.approx([2, 2 / 3, 0])


def test_normalisation_by_query_is_lambdaranks_own_and_the_default() -> None:
    """Without it trees are others; it changes no objective but LightGBM's own lambdarank."""
    scores = {}
    for loss in ("LambdaRank", "RankNet"):
        for normalised in (None, True, False):
            trees = grown(loss=loss, **({} if normalised is None else {"lambdarank_norm": normalised}))
            scores[loss, normalised] = trees.training_scores()
    for loss, differs in (("LambdaRank", True), ("RankNet", False)):
        assert torch.equal(scores[loss, None], scores[loss, True])
        assert torch.equal(scores[loss, True], scores[loss, False]) != differs


# Networks for pictures

SMALL_VGG16 = ((2, 2), (3, 2), (4, 3), (5, 3), (6, 3))
CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
"""Places of the convolutions among torchvision's layers."""

Floats = npt.NDArray[np.float64]


def noise(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def numbers(tensor: Tensor) -> Floats:
    return tensor.detach().double().numpy()


def convolved(images: Floats, layer: nn.Conv2d) -> Floats:
    """Convolution at stride 1, as the sum that it is."""
    margin = int(layer.padding[0])
    images, weight = np.pad(images, ((0, 0), (0, 0), (margin,) * 2, (margin,) * 2)), numbers(layer.weight)
    side = weight.shape[-1]
    height, width = (size - side + 1 for size in images.shape[2:])
    result = np.zeros((len(images), len(weight), height, width)) + numbers(layer.bias)[:, None, None]  # type: ignore[arg-type]
    for row, column in np.ndindex(height, width):
        window = images[:, :, row : row + side, column : column + side]
        result[:, :, row, column] += np.tensordot(window, weight, axes=((1, 2, 3), (1, 2, 3)))
    return result


def by_layers(images: Tensor, network: nn.Module) -> Floats:
    """What the layers give, written out: convolutions, linear layers, ReLU, and pooling of squares."""
    values = numbers(images)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            values = convolved(values, layer)
        elif isinstance(layer, nn.Linear):
            values = values @ numbers(layer.weight).T + numbers(layer.bias)
        elif isinstance(layer, nn.ReLU):
            values = np.maximum(values, 0)
        elif isinstance(layer, nn.MaxPool2d):
            height, width = (side // 2 for side in values.shape[2:])
            even = values[..., : 2 * height, : 2 * width]
            values = even.reshape(*values.shape[:2], height, 2, width, 2).max((3, 5))
    return values


# RankCNN


def test_rank_cnn_has_the_published_size() -> None:
    model = RankCNN()
    assert sum(parameter.numel() for parameter in model.parameters()) == 862_589
    assert (model.n_features, model.n_flat) == (30_000, 2704)
    assert model(torch.zeros(2, 30_000)).shape == (2,)
    with pytest.raises(ValueError, match=r"^side: found 30, too small for 2 filters of side 17"):
        RankCNN(side=30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_cnn_is_layer_by_layer_arithmetic(dtype: torch.dtype) -> None:
    model, images = RankCNN(20, (3, 4, 5), 3, (7, 6), generator()).to(dtype), noise(4, 3, 20, 20, dtype=dtype)
    flat = torch.from_numpy(by_layers(images, model.convolutions).reshape(4, -1))
    expected = torch.from_numpy(by_layers(flat, model.scores.layers)).squeeze(1).to(dtype)
    torch.testing.assert_close(model(images), expected)
    torch.testing.assert_close(model(images.reshape(4, -1)), expected)  # rows of an images file
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), expected)
    model(images).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(21, 18), (40, 40), (7, 5)])
def test_the_convolution_by_frequencies_is_the_direct_one(dtype: torch.dtype, size: tuple[int, int]) -> None:
    ours, direct = FrequencyConv2d(2, 4, (7, 5)).to(dtype), nn.Conv2d(2, 4, (7, 5)).to(dtype)
    direct.load_state_dict(ours.state_dict())
    images, found = noise(3, 2, *size, dtype=dtype), list[list[Tensor | None]]()
    # A network's input needs no gradient.
    for inputs in (images, images.clone().requires_grad_()):
        for network in (ours, direct):
            network.zero_grad()
            filtered, inputs.grad = network(inputs), None
            (filtered * noise(*filtered.shape, seed=2, dtype=dtype)).sum().backward()
            found.append([filtered, inputs.grad, *(parameter.grad for parameter in network.parameters())])
            assert ("Convolution" in filtered.grad_fn.name()) == (network is direct)
    for one, other in zip(found[::2], found[1::2], strict=True):
        for value, expected in zip(one, other, strict=True):
            torch.testing.assert_close(value, expected, atol=1e-3, rtol=1e-5)


# Pixels


def test_pixels_are_scaled_by_channel_as_published_and_standardised() -> None:
    pixels = torch.randint(0, 256, (5, 3 * 4), dtype=torch.uint8, generator=generator())
    as_numbers = pixels.to(torch.float32)
    for one in (pixels, as_numbers):
        torch.testing.assert_close(PixelScale()(one), pixels / 255)
    assert torch.equal(as_numbers, pixels.to(torch.float32))  # scaling works in place, on a copy
    scaled = PixelScale((0.5, 0.25, 0.0), (1.0, 0.5, 2.0))(pixels).reshape(5, 3, 4)
    mean, deviation = torch.tensor([0.5, 0.25, 0.0])[:, None], torch.tensor([1.0, 0.5, 2.0])[:, None]
    torch.testing.assert_close(scaled, (pixels.reshape(5, 3, 4) / 255 - mean) / deviation)
    images = imagenet_images(torch.full((1, 3, 10, 10), 255, dtype=torch.uint8), 16)
    expected = [(1 - mean) / deviation for mean, deviation in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
    torch.testing.assert_close(images, torch.tensor(expected)[None, :, None, None].expand(1, 3, 16, 16))
    pixels = torch.randint(0, 256, (40, 3 * 25), dtype=torch.uint8, generator=generator())
    pixels[:, 50:] = 7  # a channel that never changes
    scale, again = PixelScale.of_pixels(pixels), PixelScale()
    scaled = scale(pixels).reshape(40, 3, 25).double()
    torch.testing.assert_close(scaled.mean((0, 2)), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    deviation = scaled.std((0, 2), correction=0)
    torch.testing.assert_close(deviation, torch.tensor([1, 1, 0], dtype=torch.float64), atol=1e-6, rtol=0)
    again.load_state_dict(scale.state_dict())
    torch.testing.assert_close(again(pixels), scale(pixels))


# VGG16


def small_weights() -> dict[str, Tensor]:
    shapes = {name: tensor.shape for name, tensor in VGG16(SMALL_VGG16, width=8).state_dict().items()}
    return {name: noise(*shape, seed=0) / 4 for name, shape in shapes.items()}


def test_vgg16_is_layer_by_layer_arithmetic() -> None:
    model, images = VGG16.of_weights(small_weights()), noise(2, 3, 64, 70)
    maps = torch.from_numpy(by_layers(images, model.features)).float()
    flat = nn.functional.adaptive_avg_pool2d(maps, 7).reshape(2, -1)
    layers = nn.Sequential(model.classifier["0"], nn.ReLU(), model.classifier["3"], nn.ReLU())
    found = model(images)
    torch.testing.assert_close(found, torch.from_numpy(by_layers(flat, layers)).float(), atol=1e-4, rtol=1e-4)
    assert found.shape == (2, 8)
    assert (found > 0).any()
    assert not found.requires_grad
    places = [place for place, layer in enumerate(model.features) if isinstance(layer, nn.Conv2d)]
    assert tuple(places) == CONVOLUTIONS
    for shape in ((3, 32, 32), (1, 1, 32, 32), (1, 3, 31, 64)):
        with pytest.raises(ValueError, match=r"^images: found shape .*, expected \(n, 3, h, w\) with sides from 32"):
            model(torch.zeros(shape))


def test_published_weights_have_the_published_names_and_shapes_and_nothing_else() -> None:
    with torch.device("meta"):
        weights = dict(VGG16().state_dict())
        classes = {"classifier.6.weight": torch.zeros(1000, 4096), "classifier.6.bias": torch.zeros(1000)}
    names = [f"features.{place}" for place in CONVOLUTIONS] + ["classifier.0", "classifier.3"]
    assert list(weights) == [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]
    assert weights["classifier.0.weight"].shape == (4096, 512 * 7 * 7)
    assert sum(tensor.numel() for tensor in (weights | classes).values()) == 138_357_544
    check_published(weights | classes)
    for wrong, message in (
        (weights, r"'classifier.6.weight' is missing, expected a tensor of shape \(1000, 4096\)"),
        (weights | classes | {"features.1.mean": torch.zeros(64)}, "^weights: found 'features.1.mean', which VGG16"),
        (small_weights(), r"'features.0.weight' is torch.float32 of shape \(2, 3, 3, 3\)"),
    ):
        with pytest.raises(ValueError, match=message):
            check_published(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features.7.bias": None}, r"^weights: 'features.7.bias' is missing"),
        (
            {"classifier.3.weight": torch.zeros(8, 9)},
            r"^weights: 'classifier.3.weight' is torch.float32 of shape \(8, 9\), expected .* of shape \(8, 8\)",
        ),
        ({"features.0.bias": torch.zeros(2, dtype=torch.float16)}, r"^weights: 'features.0.bias' is torch.float16"),
    ],
)
def test_weights_that_do_not_fit_are_named(change: dict[str, Tensor | None], message: str) -> None:
    weights = {name: tensor for name, tensor in (small_weights() | change).items() if tensor is not None}
    with pytest.raises(ValueError, match=message):
        VGG16.of_weights(weights)


# Files of weights


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_tensors_are_read_and_nothing_else(tmp_path: Path, zipped: bool) -> None:
    """Pickles that would run something: `tests/faults/test_hostile_tensors.py`."""
    path = tmp_path / "x.pth"

    def save(content: object) -> bytes:
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        return path.read_bytes()

    whole, found = save(small_weights()), read_pickled_tensors(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in small_weights().items())
    unreadable = r"x.pth: not a readable file of tensors \(.+\)"
    for content, message in (
        (save([torch.zeros(2)]), r"x.pth: expected a dictionary of tensors by name, found list"),
        *((content, unreadable) for content in (b"", b"<html>not found</html>", whole[: len(whole) // 2])),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_pickled_tensors(path)


def test_weights_are_converted_if_sum_and_shapes_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, out = tmp_path / "x.pth", tmp_path / "x.safetensors"
    torch.save(small_weights(), raw)
    with pytest.raises(SourceError, match=r"expected the SHA-256 397923af.*, found"):
        RawFiles(SOURCES["vgg16"], [raw])
    known = raw_file("vgg16", raw)
    with pytest.raises(
        DataError, match=r"x.pth: weights: 'features.0.weight' is torch.float32 of shape \(2, 3, 3, 3\)"
    ):
        convert_weights(known, out)
    steps = r"there is no such file.*python -m rankbound_study download vgg16.*by hand.*weights vgg16"
    with pytest.raises(SourceError, match=steps):
        read_weights(out)
    monkeypatch.setattr(vgg16, "check_published", lambda weights: None)
    convert_weights(known, out)
    assert all(torch.equal(load_file(out)[name], tensor) for name, tensor in small_weights().items())
    images = noise(1, 3, 32, 32)
    torch.testing.assert_close(read_weights(out)(images), VGG16.of_weights(small_weights())(images))
    out.write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"x.safetensors: not a readable safetensors file.*delete it"):
        read_weights(out)


# Features as files


def test_features_are_the_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a few drawn faces, by a narrow network, in small chunks."""
    images, weights, out = (tmp_path / name for name in ("images.parquet", "weights.safetensors", "features.parquet"))
    generate("synthetic-aaf", images, 0, "20")
    generate_weights(weights, 0)
    monkeypatch.setattr(vgg16, "CHUNK", 8)
    vgg16.features(images, weights, out, side=32)
    faces = read_faces(images)
    found, pixels = read_image_features(out, faces), torch.from_numpy(read_pixels(images)).reshape(20, 3, 100, 100)
    expected = read_weights(weights)(imagenet_images(pixels, 32))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert found.shape == (20, 64)
    assert found.std(0).max() > 0.01
    with pytest.raises(DataError, match=r"its faces are not those of the images file"):
        read_image_features(out, Faces(faces.names[::-1], faces.ages, faces.groups, faces.shape, {}))


def test_features_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, weights, out = (str(tmp_path / name) for name in ("x.parquet", "w.safetensors", "f.parquet"))
    arguments = ["features", "--images", images, "--weights", weights, "--out", out, "--side", "32", "--device", "cpu"]
    assert cli.main(["generate", "synthetic-aaf", "--size", "10", "--out", images]) == 0
    assert cli.main(arguments) == 2
    assert "run `python -m rankbound_study download vgg16" in capsys.readouterr().err
    assert cli.main(["weights", "vgg16", "--out", weights]) == 2
    assert "vgg16 needs --raw" in capsys.readouterr().err
    assert cli.main(["weights", "synthetic-vgg16", "--out", weights]) == 0
    assert cli.main(arguments) == 0
    assert len(read_table(out, "image-features")) == 10
