"""Networks for pictures: written-out arithmetic, published sizes and names, and weights that are checked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rankbound.errors import DataError, SourceError
from rankbound_study import cli
from rankbound_study.data.contracts import read_table
from rankbound_study.data.images import Faces, read_faces, read_image_features, read_pixels
from rankbound_study.data.sources import SOURCES, RawFile
from rankbound_study.data.synthetic import generate
from rankbound_study.jobs import vgg16
from rankbound_study.jobs.cnn import FrequencyConv2d, RankCNN, RectifiedPool
from rankbound_study.jobs.models import PixelScale
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

SMALL = ((2, 2), (3, 2), (4, 3), (5, 3), (6, 3))
CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)
"""Places of the convolutions among torchvision's layers."""

Floats = npt.NDArray[np.float64]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


def by_layers(images: Tensor, layers: nn.Module) -> Floats:
    """What the layers give, written out: convolutions, linear layers, ReLU, and pooling of squares."""
    values = numbers(images)
    for layer in layers:  # type: ignore[attr-defined]
        if isinstance(layer, nn.Conv2d):
            values = convolved(values, layer)
        elif isinstance(layer, nn.Linear):
            values = values @ numbers(layer.weight).T + numbers(layer.bias)
        if isinstance(layer, nn.ReLU | RectifiedPool):
            values = np.maximum(values, 0)
        if isinstance(layer, nn.MaxPool2d | RectifiedPool):
            height, width = (side // 2 for side in values.shape[2:])
            even = values[..., : 2 * height, : 2 * width]
            values = even.reshape(*values.shape[:2], height, 2, width, 2).max((3, 5))
    return values


# RankCNN


def small_cnn(**changes: Any) -> RankCNN:
    return RankCNN(
        **{"side": 20, "channels": (3, 4, 5), "kernel": 3, "hidden": (7, 6), "generator": generator(), **changes}
    )


def test_rank_cnn_has_the_published_size_and_starts_by_its_generator_within_its_reach() -> None:
    first, same, other = (RankCNN(generator=generator(seed)) for seed in (1, 1, 2))
    assert sum(parameter.numel() for parameter in first.parameters()) == 862_589
    assert (first.n_features, first.n_flat) == (30_000, 2704)
    assert first(torch.zeros(2, 30_000)).shape == (2,)
    for one, equal, different in zip(first.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, equal)
        assert not torch.equal(one, different)
    for place, inputs in ((0, 3 * 17**2), (2, 6 * 17**2)):
        assert 0.9 * inputs**-0.5 < first.convolutions[place].weight.abs().max() <= inputs**-0.5
    with pytest.raises(ValueError, match=r"^side: found 30, too small for 2 filters of side 17"):
        RankCNN(side=30)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rank_cnn_is_layer_by_layer_arithmetic(dtype: torch.dtype) -> None:
    model, images = small_cnn().to(dtype), noise(4, 3, 20, 20, dtype=dtype)
    flat = torch.from_numpy(by_layers(images, model.convolutions).reshape(4, -1))
    expected = torch.from_numpy(by_layers(flat, model.scores.layers)).squeeze(1).to(dtype)
    torch.testing.assert_close(model(images), expected)
    torch.testing.assert_close(model(images.reshape(4, -1)), expected)  # rows of an images file
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), expected)
    model(images).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(21, 18), (40, 40), (7, 5)])  # 231, 840 and 21 frequencies; blocks have 512
def test_the_convolution_by_frequencies_is_the_direct_one(dtype: torch.dtype, size: tuple[int, int]) -> None:
    ours, direct = FrequencyConv2d(2, 4, (7, 5)).to(dtype), nn.Conv2d(2, 4, (7, 5)).to(dtype)
    direct.load_state_dict(ours.state_dict())
    images = noise(3, 2, *size, dtype=dtype)
    found = assert_same_gradients(ours, direct, images)
    assert dtype != torch.float32 or found.grad_fn.name().startswith("_FilteredBackward")  # type: ignore[union-attr]
    # A network's input needs no gradient.
    for inputs in (images, images.clone().requires_grad_()):
        for network in (ours, direct):
            network.zero_grad()
            network(inputs).square().sum().backward()
        for one, other in zip(ours.parameters(), direct.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad, atol=1e-3, rtol=1e-5)


@pytest.mark.parametrize("size", [(6, 8), (7, 5), (2, 2)])
def test_pooling_is_that_of_rectified_values_with_ties_and_without(size: tuple[int, int]) -> None:
    whole = torch.randint(-2, 3, (5, 3, *size), generator=generator()).float()
    for images in (whole, noise(5, 3, *size)):
        assert_same_gradients(RectifiedPool(), nn.Sequential(nn.ReLU(), nn.MaxPool2d(2)), images)
    assert RectifiedPool()(torch.full((1, 1, 2, 2), torch.nan)).isnan().all()


def assert_same_gradients(ours: nn.Module, other: nn.Module, images: Tensor) -> Tensor:
    """Compare values and gradients by the input; return our value."""
    found, expected = images.clone().requires_grad_(), images.clone().requires_grad_()
    one, another = ours(found), other(expected)
    torch.testing.assert_close(one, another, atol=1e-5, rtol=1e-5)
    slope = noise(*one.shape, seed=2, dtype=one.dtype)
    one.backward(slope)
    another.backward(slope)
    torch.testing.assert_close(found.grad, expected.grad, atol=1e-4, rtol=1e-5)
    return one


# Pixels


def test_pixels_are_scaled_channel_by_channel() -> None:
    pixels = torch.randint(0, 256, (5, 3 * 4), dtype=torch.uint8, generator=generator())
    as_numbers = pixels.to(torch.float32)
    for one in (pixels, as_numbers):
        torch.testing.assert_close(PixelScale()(one), pixels / 255)
    assert torch.equal(as_numbers, pixels.to(torch.float32))  # scaling works in place, on a copy
    scaled = PixelScale((0.5, 0.25, 0.0), (1.0, 0.5, 2.0))(pixels).reshape(5, 3, 4)
    mean, deviation = torch.tensor([0.5, 0.25, 0.0])[:, None], torch.tensor([1.0, 0.5, 2.0])[:, None]
    torch.testing.assert_close(scaled, (pixels.reshape(5, 3, 4) / 255 - mean) / deviation)


def test_standardised_pixels_have_mean_0_and_deviation_1() -> None:
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
    shapes = {name: tensor.shape for name, tensor in VGG16(SMALL, width=8).state_dict().items()}
    return {name: noise(*shape, seed=0) / 4 for name, shape in shapes.items()}


def test_vgg16_is_layer_by_layer_arithmetic() -> None:
    model, images = VGG16.of_weights(small_weights()), noise(2, 3, 64, 70)
    maps = torch.from_numpy(by_layers(images, model.features)).float()
    flat = nn.functional.adaptive_avg_pool2d(maps, 7).reshape(2, -1)
    layers = (model.classifier["0"], nn.ReLU(), model.classifier["3"], nn.ReLU())
    found = model(images)
    torch.testing.assert_close(found, torch.from_numpy(by_layers(flat, layers)).float(), atol=1e-4, rtol=1e-4)  # type: ignore[arg-type]
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


def test_pictures_are_scaled_as_the_weights_expect() -> None:
    images = imagenet_images(torch.full((1, 3, 10, 10), 255, dtype=torch.uint8), 16)
    expected = [(1 - mean) / deviation for mean, deviation in ((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))]
    torch.testing.assert_close(images, torch.tensor(expected)[None, :, None, None].expand(1, 3, 16, 16))


# Files of weights


class Payload:
    """A pickle of this runs a function when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_tensors_are_read_and_nothing_else(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "x.pth"

    def save(content: object) -> bytes:
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        return path.read_bytes()

    whole, found = save(small_weights()), read_pickled_tensors(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in small_weights().items())
    unreadable = r"x.pth: not a readable file of tensors \(.+\)"
    for content, message in (
        (save({"weight": Payload(tmp_path / "touched")}), unreadable),
        (save([torch.zeros(2)]), r"x.pth: expected a dictionary of tensors by name, found list"),
        *((content, unreadable) for content in (b"", b"<html>not found</html>", whole[: len(whole) // 2])),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_pickled_tensors(path)
    assert not (tmp_path / "touched").exists()


def test_weights_become_safetensors_once_their_sum_and_shapes_are_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, out = tmp_path / "x.pth", tmp_path / "x.safetensors"
    torch.save(small_weights(), raw)
    with pytest.raises(SourceError, match=r"expected the SHA-256 397923af.*, found"):
        RawFile(SOURCES["vgg16"], raw)
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


def test_features_are_what_the_network_gives_also_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a few drawn faces, by a narrow network, in small chunks."""
    images, weights, out = (tmp_path / name for name in ("images.parquet", "weights.safetensors", "features.parquet"))
    generate("synthetic-aaf", images, 0, "20")
    generate_weights(weights, 0)
    monkeypatch.setattr(vgg16, "CHUNK", 8)
    vgg16.features(images, weights, out, side=32)
    faces, whole = read_faces(images), out.read_bytes()
    found, pixels = read_image_features(out, faces), torch.from_numpy(read_pixels(images)).reshape(20, 3, 100, 100)
    expected = read_weights(weights)(imagenet_images(pixels, 32))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert found.shape == (20, 64)
    assert found.std(0).max() > 0.01
    with pytest.raises(DataError, match=r"its faces are not those of the images file"):
        read_image_features(out, Faces(faces.names[::-1], faces.ages, faces.groups, faces.shape, {}))
    out.unlink()
    compute, done = vgg16.imagenet_images, list[str]()

    def dies_at_the_third(*arguments: Any) -> object:
        done.append("dead" if len(done) == 2 else "chunk")
        if done[-1] == "dead":
            raise KeyboardInterrupt
        return compute(*arguments)

    monkeypatch.setattr(vgg16, "imagenet_images", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        vgg16.features(images, weights, out, side=32)
    assert not out.exists()
    vgg16.features(images, weights, out, side=32)
    assert done == ["chunk", "chunk", "dead", "chunk"]
    assert out.read_bytes() == whole
    assert not list(tmp_path.glob("features.parquet.shards/**/*"))


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
