"""Restrict a method to some feature columns, drawn once for all methods of a data set's fold."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import StudyData
from rankbound_study.models.pixels import CHANNELS


@dataclass(frozen=True)
class FeatureColumns:
    """The feature columns of a method, ascending.

    Attributes:
        indices: `(n,)`, int64.
        channels: for pixels, how many of them belong to each channel.
    """

    indices: Tensor
    channels: tuple[int, ...] | None


def drawn_columns(count: int, width: int, *, study: str, dataset: str, fold: int, seed: int) -> Tensor:
    """Draw `count` of `width` columns, without replacement, ascending; smaller counts are subsets of larger ones.

    They depend only on the study, the data set, the fold and the seed, so all methods use the same. If all columns are
    drawn, the features keep their order.
    """
    random = np.random.default_rng(derive_seed("features", study, dataset, fold, seed))
    return torch.from_numpy(np.sort(random.permutation(width)[:count]))


def narrowed(job: TrainingJob, data: StudyData, fold: int, seed: int) -> tuple[StudyData, FeatureColumns | None]:
    """Return the data with the number of feature columns in the job's setting `features`; all, and None, without one.

    Raises:
        ConfigError: the data set has fewer columns.
    """
    count = job.settings.get("features")
    if count is None or data.features is None:
        return data, None
    width = data.features.shape[1]
    if not 1 <= count <= width:
        raise ConfigError(
            f"{job.name}: it requires {count} features, but {job.dataset} has {width}; set counts from 1 to "
            f"{width} under feature_counts of its comparison"
        )
    indices = drawn_columns(count, width, study=job.study, dataset=job.dataset, fold=fold, seed=seed)
    columns = FeatureColumns(indices, _of_channels(indices, data.features))
    if count == width:
        return data, columns
    return replace(data, features=data.features.index_select(1, indices.to(data.device))), columns


def _of_channels(indices: Tensor, features: Tensor) -> tuple[int, ...] | None:
    if features.dtype != torch.uint8:
        return None
    channel = indices // (features.shape[1] // CHANNELS)
    return tuple(torch.bincount(channel, minlength=CHANNELS).tolist())
