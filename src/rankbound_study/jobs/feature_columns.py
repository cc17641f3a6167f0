"""A method that sees some of the features: which columns, drawn once for all methods of a data set's fold."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.seeds import derive_seed
from rankbound_study.jobs.method_job import MethodJob
from rankbound_study.jobs.parts import StudyData
from rankbound_study.models.pixels import CHANNELS


@dataclass(frozen=True)
class FeatureColumns:
    """The columns of the features that a method sees, ascending.

    Attributes:
        indices: `(n,)`, int64.
        channels: of pixels, how many of them belong to each channel.
    """

    indices: Tensor
    channels: tuple[int, ...] | None

    def tensors(self) -> dict[str, Tensor]:
        """For a file of tensors: without them nobody could give the model its features."""
        return {"features.columns": self.indices}


def drawn_columns(count: int, width: int, *, study: str, dataset: str, fold: int, seed: int) -> Tensor:
    """`count` of `width` columns, without replacement, ascending: those of a smaller count are among them.

    They depend on nothing but the study, the data set, the fold and the seed, so that all methods see the same. All
    columns are the features in their own order.
    """
    random = np.random.default_rng(derive_seed("features", study, dataset, fold, seed))
    return torch.from_numpy(np.sort(random.permutation(width)[:count]))


def narrowed(job: MethodJob, data: StudyData, fold: int, seed: int) -> tuple[StudyData, FeatureColumns | None]:
    """The data with as many columns of the features as the job's setting `features` says; all, and None, without one.

    Raises:
        ConfigError: the data set has fewer columns than that.
    """
    count = job.settings.get("features")
    if count is None or data.features is None:
        return data, None
    width = data.features.shape[1]
    if not 1 <= count <= width:
        raise ConfigError(
            f"{job.method}: it should see {count} features, and {job.dataset} has {width}; give counts from 1 to "
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
