"""Networks for pictures: written-out arithmetic, published sizes and names, and weights that are checked."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from rankbound.errors import DataError, SourceError
from rankbound_study import cli
from rankbound_study.data.contracts import read_table
from rankbound_study.data.images import Faces, read_faces, read_image_features, read_pixels
from rankbound_study.data.sources import SOURCES, RawFile
from rankbound_study.data.synthetic import generate
from rankbound_study.jobs import vgg16
from rankbound_study.jobs.vgg16 import (
    convert_weights,
    extract_features,
    generate_weights,
    read_pickled_tensors,
    read_weights,
)
from rankbound_study.models.cnn import FrequencyConv2d, RankCNN, RectifiedPool
from rankbound_study.models.layers import PixelScale
from rankbound_study.models.vgg16 import VGG16, check_published, imagenet_images
from tests.raw_files import raw_file

SMALL = ((2, 2), (3, 2), (4, 3), (5, 3), (6, 3))
TORCHVISION_CONVOLUTIONS = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def convolve(images: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Convolution without padding at stride 1, as the sum that it is."""
    n, _, height, width = images.shape
    out, _, side, _ = weight.shape
    result = np.zeros((n, out, height - side + 1, width - side + 1)) + bias[:, None, None]
    for row in range(result.shape[2]):
        for column in range(result.shape[3]):
            window = images[:, :, row : row + side, column : column + side]
            result[:, :, row, column] += np.tensordot(window, weight, axes=((1, 2, 3), (1, 2, 3)))
    return result


# RankCNN


def test_rank_cnn_has_the_parameters_of_the_seed() -> None:
    model = RankCNN()
    assert sum(parameter.numel() for parameter in model.parameters()) == 862_589
    assert (model.n_features, model.n_flat) == (30_000, 2704)
    assert model(torch.zeros(2, 30_000)).shape == (2,)


def test_rank_cnn_is_layer_by_layer_arithmetic() -> None:
    model = RankCNN(side=20, channels=(3, 4, 5), kernel=3, hidden=(7, 6), generator=generator())
    images = torch.randn(4, 3, 20, 20, generator=generator(1))
    first, second = model.convolutions[0], model.convolutions[2]
    values = functional.max_pool2d(torch.relu(functional.conv2d(images, first.weight, first.bias)), 2)
    values = functional.max_pool2d(torch.relu(functional.conv2d(values, second.weight, second.bias)), 2)
    values = values.reshape(4, -1)
    *hidden, last = [layer for layer in model.scores.layers if isinstance(layer, nn.Linear)]
    for layer in hidden:
        values = torch.relu(values @ layer.weight.T + layer.bias)
    expected = (values @ last.weight.T + last.bias).squeeze(1)
    torch.testing.assert_close(model(images), expected)
    torch.testing.assert_close(model(images.reshape(4, -1)), expected)  # rows of an images file
    torch.testing.assert_close(torch.cat([model(image[None]) for image in images]), expected)


def test_its_first_layer_is_the_written_out_sum() -> None:
    model = RankCNN(side=20, channels=(3, 4, 5), kernel=5, generator=generator()).double()
    images = torch.randn(2, 3, 20, 20, dtype=torch.float64, generator=generator(1))
    layer = model.convolutions[0]
    expected = convolve(images.numpy(), layer.weight.detach().numpy(), layer.bias.detach().numpy())
    np.testing.assert_allclose(layer(images).detach().numpy(), expected, atol=1e-12)


def test_rank_cnn_starts_by_its_generator_within_its_reach() -> None:
    first, same, other = (RankCNN(generator=generator(seed)) for seed in (1, 1, 2))
    for one, equal, different in zip(first.parameters(), same.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, equal)
        assert not torch.equal(one, different)
    for place, inputs in ((0, 3 * 17**2), (2, 6 * 17**2)):
        weight = first.convolutions[place].weight
        assert 0.9 * inputs**-0.5 < weight.abs().max() <= inputs**-0.5


def test_rank_cnn_passes_gradients_to_all_layers() -> None:
    model = RankCNN(side=20, channels=(3, 4, 5), kernel=3, hidden=(7,), generator=generator())
    model(torch.rand(8, 1200, generator=generator(1))).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in model.parameters())


def test_rank_cnn_refuses_pictures_that_are_too_small() -> None:
    with pytest.raises(ValueError, match=r"^side: found 30, too small for 2 filters of side 17"):
        RankCNN(side=30)


# Pixels


def test_pixels_are_scaled_channel_by_channel() -> None:
    pixels = torch.randint(0, 256, (5, 3 * 4), dtype=torch.uint8, generator=generator())
    torch.testing.assert_close(PixelScale()(pixels), pixels / 255)
    scaled = PixelScale((0.5, 0.25, 0.0), (1.0, 0.5, 2.0))(pixels).reshape(5, 3, 4)
    mean, deviation = torch.tensor([0.5, 0.25, 0.0])[:, None], torch.tensor([1.0, 0.5, 2.0])[:, None]
    torch.testing.assert_close(scaled, (pixels.reshape(5, 3, 4) / 255 - mean) / deviation)
    assert scaled.dtype == torch.float32
    as_numbers = pixels.to(torch.float32)
    torch.testing.assert_close(PixelScale()(as_numbers), pixels / 255)
    assert torch.equal(as_numbers, pixels.to(torch.float32))  # scaling works in place, on a copy


def test_standardised_pixels_have_mean_0_and_deviation_1() -> None:
    pixels = torch.randint(0, 256, (40, 3 * 25), dtype=torch.uint8, generator=generator())
    pixels[:, 50:] = 7  # a channel that never changes
    scale = PixelScale.of_pixels(pixels)
    scaled = scale(pixels).reshape(40, 3, 25).double()
    torch.testing.assert_close(scaled.mean((0, 2)), torch.zeros(3, dtype=torch.float64), atol=1e-6, rtol=0)
    deviation = scaled.std((0, 2), correction=0)
    torch.testing.assert_close(deviation, torch.tensor([1, 1, 0], dtype=torch.float64), atol=1e-6, rtol=0)
    again = PixelScale()
    again.load_state_dict(scale.state_dict())
    torch.testing.assert_close(again(pixels), scale(pixels))


def test_a_deviation_of_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^deviation: found \(1.0, 0.0, 1.0\) beside the mean"):
        PixelScale(deviation=(1.0, 0.0, 1.0))


# VGG16


def small_weights(seed: int = 0) -> dict[str, Tensor]:
    model = VGG16(SMALL, width=8)
    return {
        name: torch.randn(tensor.shape, generator=generator(seed)) / 4 for name, tensor in model.state_dict().items()
    }


def test_vgg16_has_the_published_names_and_parameters() -> None:
    with torch.device("meta"):
        weights = VGG16().state_dict()
    names = [f"features.{place}" for place in TORCHVISION_CONVOLUTIONS] + ["classifier.0", "classifier.3"]
    assert list(weights) == [f"{name}.{kind}" for name in names for kind in ("weight", "bias")]
    classes = 1000 * 4096 + 1000
    assert sum(tensor.numel() for tensor in weights.values()) + classes == 138_357_544
    assert weights["classifier.0.weight"].shape == (4096, 512 * 7 * 7)


def test_vgg16_is_layer_by_layer_arithmetic() -> None:
    weights = small_weights()
    images = torch.randn(2, 3, 64, 70, generator=generator(1))
    values = images
    for place in TORCHVISION_CONVOLUTIONS:
        if place in (5, 10, 17, 24):
            values = functional.max_pool2d(values, 2)
        weight, bias = weights[f"features.{place}.weight"], weights[f"features.{place}.bias"]
        values = functional.conv2d(values, weight, bias, padding=1).clamp(min=0)
    values = functional.adaptive_avg_pool2d(functional.max_pool2d(values, 2), 7).reshape(2, -1)
    for name in ("classifier.0", "classifier.3"):
        values = (values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]).clamp(min=0)
    found = VGG16.of_weights(weights)(images)
    torch.testing.assert_close(found, values)
    assert found.shape == (2, 8)
    assert (found > 0).any()
    assert not found.requires_grad


def test_each_stage_of_vgg16_is_the_written_out_sum() -> None:
    model = VGG16.of_weights(small_weights())
    values = torch.randn(1, 3, 8, 8, generator=generator(1))
    for layer in model.features:
        if isinstance(layer, nn.Conv2d):
            padded = np.pad(values.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)))
            expected = convolve(padded, layer.weight.numpy(), layer.bias.numpy())
        elif isinstance(layer, nn.ReLU):
            expected = np.maximum(values.numpy(), 0)
        elif min(values.shape[2:]) > 1:
            n, channels, height, width = values.shape
            expected = values.numpy().reshape(n, channels, height // 2, 2, width // 2, 2).max((3, 5))
        else:
            break
        values = layer(values)
        np.testing.assert_allclose(values.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 1, 32, 32), (1, 3, 31, 64)])
def test_vgg16_refuses_other_shapes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^images: found shape .*, expected \(n, 3, h, w\) with sides from 32"):
        VGG16.of_weights(small_weights())(torch.zeros(shape))


Change = Callable[[dict[str, Tensor]], object]
BAD_WEIGHTS: dict[str, tuple[Change, str]] = {
    "missing": (lambda weights: weights.pop("features.7.bias"), r"^weights: 'features.7.bias' is missing"),
    "another shape": (
        lambda weights: weights.update({"classifier.3.weight": torch.zeros(8, 9)}),
        r"^weights: 'classifier.3.weight' is torch.float32 of shape \(8, 9\), expected .* of shape \(8, 8\)",
    ),
    "another type": (
        lambda weights: weights.update({"features.0.bias": torch.zeros(2, dtype=torch.float16)}),
        r"^weights: 'features.0.bias' is torch.float16",
    ),
}


@pytest.mark.parametrize("name", BAD_WEIGHTS)
def test_weights_that_do_not_fit_are_named(name: str) -> None:
    weights, (change, message) = small_weights(), BAD_WEIGHTS[name]
    change(weights)
    with pytest.raises(ValueError, match=message):
        VGG16.of_weights(weights)


def test_published_weights_have_the_published_shapes_and_nothing_else() -> None:
    with torch.device("meta"):
        weights = dict(VGG16().state_dict())
        with pytest.raises(
            ValueError, match=r"'classifier.6.weight' is missing, expected a tensor of shape \(1000, 4096\)"
        ):
            check_published(weights)
        weights |= {"classifier.6.weight": torch.zeros(1000, 4096), "classifier.6.bias": torch.zeros(1000)}
    check_published(weights)
    with pytest.raises(ValueError, match=r"^weights: found 'features.1.running_mean', which VGG16 does not have"):
        check_published({**weights, "features.1.running_mean": torch.zeros(64)})
    with pytest.raises(ValueError, match=r"'features.0.weight' is torch.float32 of shape \(2, 3, 3, 3\)"):
        check_published(small_weights())


def test_pictures_are_scaled_as_the_weights_expect() -> None:
    pixels = torch.full((1, 3, 10, 10), 255, dtype=torch.uint8)
    images = imagenet_images(pixels, 16)
    assert images.shape == (1, 3, 16, 16)
    for channel, (mean, deviation) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))):
        torch.testing.assert_close(images[0, channel], torch.full((16, 16), (1 - mean) / deviation))


# Files of weights


@pytest.mark.parametrize("zipped", [True, False])
def test_pickled_tensors_are_read(tmp_path: Path, zipped: bool) -> None:
    torch.save(small_weights(), tmp_path / "x.pth", _use_new_zipfile_serialization=zipped)
    found = read_pickled_tensors(tmp_path / "x.pth")
    assert all(torch.equal(found[name], tensor) for name, tensor in small_weights().items())


class Payload:
    """A pickle of this runs a function when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_would_run_code_does_not(tmp_path: Path, zipped: bool) -> None:
    torch.save({"weight": Payload(tmp_path / "touched")}, tmp_path / "x.pth", _use_new_zipfile_serialization=zipped)
    with pytest.raises(DataError, match=r"x.pth: not a readable file of tensors"):
        read_pickled_tensors(tmp_path / "x.pth")
    assert not (tmp_path / "touched").exists()


def test_what_is_no_dictionary_of_tensors_is_refused(tmp_path: Path) -> None:
    torch.save([torch.zeros(2)], tmp_path / "list.pth")
    with pytest.raises(DataError, match=r"expected a dictionary of tensors by name, found list"):
        read_pickled_tensors(tmp_path / "list.pth")
    torch.save(small_weights(), tmp_path / "x.pth")
    (tmp_path / "x.pth").write_bytes((tmp_path / "x.pth").read_bytes()[:3000])
    for content in (b"", b"<html>not found</html>", (tmp_path / "x.pth").read_bytes()):
        (tmp_path / "bad.pth").write_bytes(content)
        with pytest.raises(DataError, match=r"bad.pth: not a readable file of tensors \(.+\)"):
            read_pickled_tensors(tmp_path / "bad.pth")


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
    assert not out.exists()
    monkeypatch.setattr(vgg16, "check_published", lambda weights: None)
    convert_weights(known, out)
    assert all(torch.equal(load_file(out)[name], tensor) for name, tensor in small_weights().items())
    images = torch.randn(1, 3, 32, 32, generator=generator())
    torch.testing.assert_close(read_weights(out)(images), VGG16.of_weights(small_weights())(images))


def test_missing_or_damaged_weights_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"there is no such file.*python -m rankbound_study download vgg16.*by hand.*weights vgg16"
    ):
        read_weights(tmp_path / "x.safetensors")
    (tmp_path / "x.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"x.safetensors: not a readable safetensors file.*delete it"):
        read_weights(tmp_path / "x.safetensors")


# Features as files


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A few drawn faces, the weights of a narrow network, and small chunks."""
    generate("synthetic-aaf", tmp_path / "images.parquet", 0, "20")
    generate_weights(tmp_path / "weights.safetensors", 0)
    monkeypatch.setattr(vgg16, "CHUNK", 8)
    return tmp_path / "images.parquet", tmp_path / "weights.safetensors"


def test_features_are_what_the_network_gives(files: tuple[Path, Path], tmp_path: Path) -> None:
    images, weights = files
    out = tmp_path / "features.parquet"
    extract_features(images, weights, out, side=32)
    faces = read_faces(images)
    found = read_image_features(out, faces)
    pixels = torch.from_numpy(read_pixels(images)).reshape(20, 3, 100, 100)
    expected = read_weights(weights)(imagenet_images(pixels, 32))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert found.shape == (20, 64)
    assert found.std(0).max() > 0.01
    with pytest.raises(DataError, match=r"its faces are not those of the images file"):
        read_image_features(out, Faces(faces.names[::-1], faces.ages, faces.groups, faces.shape, {}))


def test_an_interrupted_extraction_goes_on_where_it_stopped(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, weights = files
    extract_features(images, weights, tmp_path / "whole.parquet", side=32)
    out, done = tmp_path / "features.parquet", []
    compute = vgg16._features

    def dies_at_the_third(*arguments: object) -> object:
        if len(done) == 2:
            done.append("dead")
            raise KeyboardInterrupt
        done.append("chunk")
        return compute(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(vgg16, "_features", dies_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        extract_features(images, weights, out, side=32)
    assert not out.exists()
    extract_features(images, weights, out, side=32)
    assert done == ["chunk", "chunk", "dead", "chunk"]
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()
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


# The convolution by frequencies, and pooling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [(21, 18), (40, 40), (7, 5)])  # 231, 840 and 21 frequencies; blocks have 512
def test_the_convolution_by_frequencies_is_the_direct_one(dtype: torch.dtype, size: tuple[int, int]) -> None:
    ours, direct = FrequencyConv2d(2, 4, (7, 5)).to(dtype), nn.Conv2d(2, 4, (7, 5)).to(dtype)
    direct.load_state_dict(ours.state_dict())
    images = torch.randn(3, 2, *size, generator=generator(), dtype=dtype)
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
    of_torch = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2))
    whole = torch.randint(-2, 3, (5, 3, *size), generator=generator()).float()
    for images in (whole, torch.randn(5, 3, *size, generator=generator())):
        assert_same_gradients(RectifiedPool(), of_torch, images)
    assert RectifiedPool()(torch.full((1, 1, 2, 2), torch.nan)).isnan().all()


def assert_same_gradients(ours: nn.Module, other: nn.Module, images: Tensor) -> Tensor:
    """Compare values and gradients by the input; return our value."""
    found, expected = images.clone().requires_grad_(), images.clone().requires_grad_()
    one, another = ours(found), other(expected)
    torch.testing.assert_close(one, another, atol=1e-5, rtol=1e-5)
    slope = torch.randn(one.shape, generator=generator(2), dtype=one.dtype)
    one.backward(slope)
    another.backward(slope)
    torch.testing.assert_close(found.grad, expected.grad, atol=1e-4, rtol=1e-5)
    return one
