"""Fit penalised linear regressions along a path of penalties; the validation part selects one."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from rankbound.metrics import metric
from rankbound.training.epochs import Epoch
from rankbound.training.linear import Linear
from rankbound.training.parts import Part, predict
from rankbound_study.jobs.fitted import Fitted, Steps
from rankbound_study.jobs.method_job import MethodJob
from rankbound_study.jobs.parts import FoldParts
from rankbound_study.jobs.scorers import CHUNK, input_scale, score_distinct
from rankbound_study.models.penalised_linear import lasso_path, ridge_path

PATHS = {"lasso": lasso_path, "ridge": ridge_path}


def fit_penalised(
    job: MethodJob,
    features: Tensor,
    parts: FoldParts,
    examples: Part,
    on_epoch: Callable[[Epoch], None],
    channels: Sequence[int] | None = None,
) -> Fitted:
    """Fit the values of `examples` for every penalty of the job's model; a step's number is the penalty's position.

    `channels`: for pictures that lack some pixels, the number of remaining pixels per channel.
    """
    scale = input_scale(job.settings.get("scale", "standard"), features, examples.items, channels)
    linear = Linear(features.shape[1])
    model, scorer = nn.Sequential(OrderedDict(scale=scale, network=linear)), score_distinct(features)
    steps = Steps(parts, [metric(name) for name in job.epoch_metrics], job.judge, on_epoch)
    rows = _scaled_rows(scale, features, examples.items)
    weights: list[dict[str, Tensor]] = []
    for weight, bias in PATHS[job.model["name"]](rows, examples.relevance, job.model["penalties"]):
        with torch.no_grad():
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
        weights.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        # The rows are centred by now: neither their scores nor the labels, whose mean is 0, include the bias.
        residual = rows @ weight - (examples.relevance - examples.relevance.mean())
        steps.add(len(weights), float(residual.square().mean()), predict(model, scorer, steps.measured))

    def chosen(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        model.load_state_dict(weights[number - 1])
        return predict(model, scorer, parts.test), weights[number - 1]

    return steps.fitted(chosen)


def _scaled_rows(scale: nn.Module, features: Tensor, items: Tensor) -> Tensor:
    """Return the scaled features of `items` `(n, d)`, stored by feature, as coordinate descent reads them."""
    rows = torch.empty(features.shape[1], len(items)).T
    for place in torch.split(torch.arange(len(items)), CHUNK):
        rows[place] = scale(features.index_select(0, items[place]))
    return rows
