"""The models that jobs build, their layers, the functions that score items by them, and the results of a training."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.training.models import MLP, Factorization, Scaling
from rankbound.training.trainer import Epoch, Part, Scorer
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import LinearKeys, MatrixFactorizationKeys, NetworkKeys
from rankbound_study.data.images import CHANNELS
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.parts import StudyData

CHUNK = 512  # number of items that are scored together; for pictures, limited by memory
LARGEST_BYTE = 255


def build_model(
    job: TrainingJob, data: StudyData, training: FoldTraining, generator: torch.Generator
) -> tuple[nn.Module, Scorer]:
    """Return the job's model, with fresh weights from `generator`, and its scorer.

    A factorisation reads a part's topics and items. A network reads the items' features: as they are in a bounded run
    without a scale, scaled by its first layer in all others.
    """
    if isinstance(job.model, MatrixFactorizationKeys):
        factors = Factorization(
            len(data.instances.topics),
            data.instances.item_count,
            **job.model.given("name"),
            generator=generator,
            by_kernel=training.by_kernel(job),
        )
        return factors, lambda model, part: model(part.topics.index_select(0, part.lists.segment), part.items)
    features = training.features
    width, options = features.shape[1], {**job.model.given("name"), "generator": generator}
    if isinstance(job.model, LinearKeys):
        network: nn.Module = Linear(width)
    elif isinstance(job.model, NetworkKeys):
        network = MLP(width, **options)
    else:
        from rankbound_study.jobs.cnn import RankCNN

        network = RankCNN(**options)
        if network.n_features != width:
            raise ConfigError(f"model cnn: it reads {network.n_features} values per picture, but these have {width}")

    def score(model: nn.Module, part: Part) -> Tensor:
        scores: Tensor = model(features.index_select(0, part.items))
        return scores

    scorer = score_distinct(features) if job.method else score
    if not job.method and job.settings.scale is None:
        return network, scorer
    distinct = torch.unique(training.parts.training.items)
    scale = input_scale(job.settings.scale or "none", features, distinct, training.channels)
    return nn.Sequential(OrderedDict(scale=scale, network=network)), scorer


def input_scale(scale: str, features: Tensor, training: Tensor, channels: Sequence[int] | None = None) -> nn.Module:
    """Return the first layer of a network over `features` `(n_rows, d)`, bytes of pictures or floating point.

    Args:
        scale: `standard` (by means and deviations of the rows `training`; per channel for pixels) or `none` (pixels: 0
            .. 1).
        channels: for pictures that lack some pixels, the number of remaining pixels per channel.
    """
    if features.dtype == torch.uint8:
        if scale == "none":
            return PixelScale(widths=channels)
        return PixelScale.of_pixels(features.index_select(0, training), widths=channels)
    return nn.Identity() if scale == "none" else StandardScale(features.index_select(0, training))


def score_distinct(features: Tensor) -> Scorer:
    """Score every distinct item once, even if it is in several lists: pictures take long."""

    def score(model: nn.Module, part: Part) -> Tensor:
        distinct, place = torch.unique(part.items, return_inverse=True)
        chunks = [model(features.index_select(0, chunk)) for chunk in torch.split(distinct, CHUNK)]
        return torch.cat(chunks).index_select(0, place)

    return score


class Linear(nn.Module):
    """Scores $w \\cdot x + b$; `weight` `(n_features,)` and `bias` `()` are initialised with 0.

    With more features than examples, the data do not determine all directions of the weights; those keep their initial
    value. From 0, an image of the weights shows only what was learnt.
    """

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_features, dtype=torch.float32))
        self.bias = nn.Parameter(torch.zeros((), dtype=torch.float32))

    def forward(self, features: Tensor) -> Tensor:
        """Return the scores `(n,)` of items with `features` `(n, n_features)`."""
        return features @ self.weight + self.bias


class StandardScale(nn.Module):
    r"""Features $(x - m) / d$ with the means $m$ and deviations $d$ of training items; constant ones become 0.

    Both are buffers, so saved weights include them.

    Args:
        features: `(n, d)`, of the training part; pass no others.
    """

    shift: Tensor
    factor: Tensor

    def __init__(self, features: Tensor) -> None:
        super().__init__()
        fitted = Scaling.fitted("standard", features)
        self.register_buffer("shift", fitted.shift)
        self.register_buffer("factor", fitted.factor)

    def forward(self, features: Tensor) -> Tensor:
        """Return scaled `features` `(n, d)`, of the same shape."""
        return (features - self.shift) * self.factor


class PixelScale(nn.Module):
    r"""Bytes to single precision, channel by channel: $(x / 255 - m_c) / d_c$, of shape `(n, channels * h * w)`.

    The default keeps 0 .. 1 (m = 0, d = 1). `of_pixels` takes means and deviations from the training part's pixels;
    pass no others. They are buffers, so saved weights include them. Put it before a network:
    `nn.Sequential(PixelScale(), MLP(30_000, (1000, 500, 100)))` reads rows of an images file as they are.

    Args:
        widths: number of pixels of each channel, for rows that lack some pixels; equal numbers if not given.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(
        self,
        mean: Sequence[float] = (0.0,) * CHANNELS,
        deviation: Sequence[float] = (1.0,) * CHANNELS,
        widths: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32))
        self.register_buffer("deviation", torch.tensor(deviation, dtype=torch.float32))
        equal = widths is None or len(set(widths)) == 1
        self._widths = None if equal else torch.tensor(widths)

    @classmethod
    def of_pixels(cls, pixels: Tensor, widths: Sequence[int] | None = None) -> "PixelScale":
        """Return the scale of `pixels` `(n, channels * h * w)`, bytes, over all pictures and places.

        A constant or missing channel keeps the deviation 1. The sums are counts of byte values: exact, in any order.
        """
        means, deviations = [], []
        levels = torch.arange(LARGEST_BYTE + 1, dtype=torch.float64) / LARGEST_BYTE
        for part in torch.split(pixels, list(widths or [pixels.shape[1] // CHANNELS] * CHANNELS), dim=1):
            counts = torch.bincount(part.reshape(-1), minlength=LARGEST_BYTE + 1).cpu().to(torch.float64)
            share = counts / counts.sum().clamp(min=1)
            mean = (share * levels).sum()
            means.append(float(mean))
            deviations.append(float((share * (levels - mean) ** 2).sum().sqrt()) or 1.0)
        return cls(means, deviations, widths)

    def forward(self, pixels: Tensor) -> Tensor:
        """Return scaled `pixels` `(n, channels * h * w)`, of the same shape, float32."""
        mean, deviation = self.mean, self.deviation
        if self._widths is not None:
            mean, deviation = (each.repeat_interleave(self._widths.to(each.device)) for each in (mean, deviation))
        # In place: every copy of the pictures takes as long as the arithmetic.
        by_channel = pixels.to(torch.float32, copy=True).reshape(len(pixels), len(mean), pixels.shape[1] // len(mean))
        by_channel.div_(LARGEST_BYTE).sub_(mean[:, None]).div_(deviation[:, None])
        return by_channel.flatten(1)


@dataclass(frozen=True)
class Chosen:
    """A selection's model: its epoch, the scores of the test part's items, and its numbers by name."""

    epoch: int
    scores: Tensor
    weights: Mapping[str, Tensor]


@dataclass(frozen=True)
class Fitted:
    """All epochs of a training, and the choice of each selection among them."""

    epochs: list[Epoch]
    chosen: dict[str, Chosen]

    @classmethod
    def of(cls, training: FoldTraining, epochs: list[Epoch], chosen: Mapping[str, Chosen]) -> "Fitted":
        """Return them with scores in the unit of the trained values, and all numbers that they depend on."""
        scale, added, completed = training.values, dict[str, Tensor](), {}
        if scale:
            added |= {"target.mean": torch.tensor(scale.mean), "target.deviation": torch.tensor(scale.deviation)}
        if training.columns:
            added["features.columns"] = training.columns.indices
        for name, one in chosen.items():
            scores = scale.restored(one.scores) if scale else one.scores
            completed[name] = Chosen(one.epoch, scores, {**one.weights, **added})
        return cls(epochs, completed)
