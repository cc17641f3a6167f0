"""The training lists of a job whose settings give them weights."""

from dataclasses import replace

import numpy as np
import torch

from rankbound.texts import derive_seed
from rankbound.training.trainer import Part
from rankbound_study.config.list_weights import LIST_WEIGHTS, ListWeights
from rankbound_study.data.list_weights import list_weights
from rankbound_study.jobs.job import TrainingJob


def weighted(job: TrainingJob, part: Part, fold: int, seed: int) -> Part:
    """Return the training lists of a fold with the weights of the job's settings, if it has any.

    A permutation depends on the study, the data set, the fold and the seed alone, so that losses are paired.
    """
    text = job.settings.get(LIST_WEIGHTS)
    if text is None:
        return part
    random = np.random.default_rng(derive_seed("list-weights", job.study, job.dataset, job.nsr, fold, seed))
    relevance, offsets = part.relevance.cpu(), part.lists.offsets.cpu()
    found = list_weights(ListWeights.of(text), job.loss, relevance, offsets, random)
    return replace(part, list_weights=torch.from_numpy(found).to(part.lists.device))
