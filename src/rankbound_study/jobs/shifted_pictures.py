"""Shift pictures at random, so that faces are no longer centred."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import StudyData
from rankbound_study.models.pixels import CHANNELS

CHUNK = 256
"""Number of pictures that are shifted together."""


def shifted(job: TrainingJob, data: StudyData) -> StudyData:
    """Return the data with every picture shifted by up to the setting `shift`, a share of its side, if set.

    Raises:
        ConfigError: the features are not square pictures.
    """
    share = job.settings.get("shift")
    if share is None:
        return data
    side = _side(data.features)
    if data.features is None or not side:
        raise ConfigError(
            f"{job.name}: shift moves pictures, but the features of {job.dataset} are not square pictures"
        )
    moves = drawn_shifts(len(data.features), reach_of(share, side), study=job.study, dataset=job.dataset)
    return replace(data, features=moved(data.features, moves.to(data.device), side))


def drawn_shifts(count: int, reach: int, *, study: str, dataset: str) -> Tensor:
    """Draw the shift of each of `count` pictures, down and right, `(count, 2)`: from -`reach` to `reach` pixels.

    They depend only on the study, the data set and the picture: all methods have the same, in training and in test.
    """
    random = np.random.default_rng(derive_seed("shifts", study, dataset))
    return torch.from_numpy(random.integers(-reach, reach, (count, 2), endpoint=True))


def reach_of(share: float, side: int) -> int:
    """Return the largest shift in pixels: a share of the side, rounded down."""
    return int(share * side + 1e-9)


def moved(pixels: Tensor, moves: Tensor, side: int) -> Tensor:
    """Shift each picture `(3 * side * side,)` of `pixels` by its row of `moves`; the edge is repeated."""
    shifted_pixels = torch.empty_like(pixels)
    places = torch.arange(side, device=pixels.device)
    channels = torch.arange(CHANNELS, device=pixels.device)
    for start in range(0, len(pixels), CHUNK):
        chunk = pixels[start : start + CHUNK].reshape(-1, CHANNELS, side, side)
        rows, columns = ((places - moves[start : start + CHUNK, axis, None]).clamp(0, side - 1) for axis in (0, 1))
        each = torch.arange(len(chunk), device=pixels.device)
        taken = chunk[
            each[:, None, None, None], channels[None, :, None, None], rows[:, None, :, None], columns[:, None, None, :]
        ]
        shifted_pixels[start : start + CHUNK] = taken.reshape(len(chunk), -1)
    return shifted_pixels


def _side(features: Tensor | None) -> int:
    """Return the side of square pictures in bytes; 0 for anything else."""
    if features is None or features.dtype != torch.uint8:
        return 0
    side = round((features.shape[1] / CHANNELS) ** 0.5)
    return side if CHANNELS * side * side == features.shape[1] else 0
