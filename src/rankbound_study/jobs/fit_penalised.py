"""Fit penalised linear regressions along a path of penalties; the validation part selects one."""

from collections import OrderedDict
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.training.trainer import Epoch, predict
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import PenalisedKeys
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.fitted import CHUNK, Fitted, StepRecord, input_scale, score_distinct
from rankbound_study.models.layers import Linear
from rankbound_study.models.penalised_linear import lasso_path, ridge_path

PATHS = {"lasso": lasso_path, "ridge": ridge_path}


def fit_penalised(job: TrainingJob, training: FoldTraining, on_epoch: Callable[[Epoch], None]) -> Fitted:
    """Fit the examples' values for every penalty of the job's model; a step's number is the penalty's position."""
    assert isinstance(job.model, PenalisedKeys)
    if training.values is None:
        raise ConfigError(f"model {job.model.name}: it learns values, expected target: value")
    features, examples = training.features, training.lists
    scale = input_scale(job.settings.scale or "standard", features, examples.items, training.channels)
    linear = Linear(features.shape[1])
    model, scorer = nn.Sequential(OrderedDict(scale=scale, network=linear)), score_distinct(features)
    record = StepRecord(job, training, on_epoch)
    rows = _scaled_rows(scale, features, examples.items)
    weights: list[dict[str, Tensor]] = []
    for weight, bias in PATHS[job.model.name](rows, examples.relevance, job.model.penalties):
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        weights.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        # The rows are centred by now: neither their scores nor the labels, whose mean is 0, include the bias.
        residual = rows @ weight - (examples.relevance - examples.relevance.mean())
        record.add(len(weights), float(residual.square().mean()), predict(model, scorer, record.measured))

    def chosen(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        model.load_state_dict(weights[number - 1])
        return predict(model, scorer, training.parts.test), weights[number - 1]

    return record.fitted(chosen)


def _scaled_rows(scale: nn.Module, features: Tensor, items: Tensor) -> Tensor:
    """Return the scaled features of `items` `(n, d)`, stored by feature, as coordinate descent reads them."""
    rows = torch.empty(features.shape[1], len(items)).T
    for place in torch.split(torch.arange(len(items)), CHUNK):
        rows[place] = scale(features.index_select(0, items[place]))
    return rows
