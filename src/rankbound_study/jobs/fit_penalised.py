r"""Linear regression with a penalty on the weights, along a path of penalties; the validation part selects one.

$$\min_{w, b} \frac{1}{2n} \sum_i (y_i - w \cdot x_i - b)^2 + \lambda\, \Omega(w)$$

with $\Omega(w) = \sum |w_j|$ for the lasso (Tibshirani 1996) and $\frac12 \sum w_j^2$ for ridge regression.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.errors import ConfigError
from rankbound.training.trainer import Epoch, predict
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import PenalisedKeys
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.fitted import CHUNK, Fitted, StepRecord, input_scale, score_distinct
from rankbound_study.models.layers import Linear

_TOLERANCE = 1e-3  # tolerance of the lasso's duality gap, as a share of the labels' sum of squares


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
    # Stored by feature, as coordinate descent reads them.
    rows = torch.empty(features.shape[1], len(examples.items)).T
    for place in torch.split(torch.arange(len(rows)), CHUNK):
        rows[place] = scale(features.index_select(0, examples.items[place]))
    weights: list[dict[str, Tensor]] = []
    path = lasso_path if job.model.name == "lasso" else ridge_path
    for weight, bias in path(rows, examples.relevance, job.model.penalties):
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


def ridge_path(features: Tensor, labels: Tensor, penalties: Sequence[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weights `(d,)` and bias `()` per penalty, given as a share of the features' mean squared norm (variance).

    Exact, by one product of the features with themselves on their shorter side, and a Cholesky factor per penalty.
    `features` `(n, d)` are centred in place.
    """
    mean = _centre(features)
    targets = (labels - labels.mean()).to(torch.float64)
    tall = features.shape[0] >= features.shape[1]
    product = (features.T @ features if tall else features @ features.T).to(torch.float64)
    # Constant features have no variance: their weights are 0 for any penalty.
    scale = float(product.diagonal().sum()) or 1.0
    right = (features.T @ targets.to(features)).to(torch.float64) if tall else targets
    diagonal, shifted = product.diagonal().clone(), torch.empty_like(product)
    for penalty in penalties:
        product.diagonal().copy_(diagonal + penalty * scale)
        torch.linalg.cholesky(product, out=shifted)
        solved = torch.cholesky_solve(right[:, None], shifted)[:, 0].to(features)
        yield _with_bias(solved if tall else features.T @ solved, mean, labels)


def lasso_path(features: Tensor, labels: Tensor, penalties: Sequence[float]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield weights `(d,)` and bias `()` per penalty, given as a share of the smallest one that leaves no feature in.

    By coordinate descent (scikit-learn), each penalty starting from the previous solution. `features` `(n, d)` are
    centred in place; fastest if their transpose is contiguous.
    """
    from sklearn.linear_model import enet_path  # type: ignore[import-untyped,unused-ignore]

    mean = _centre(features)
    targets = (labels - labels.mean()).to(features)
    largest = float((features.T @ targets).abs().max()) / len(labels)
    start = None
    for penalty in penalties:
        _, coefficients, _ = enet_path(
            np.asfortranarray(features.numpy()),
            targets.numpy(),
            l1_ratio=1.0,
            alphas=[penalty * largest],
            precompute=False,
            copy_X=False,
            check_input=False,
            coef_init=start,
            tol=_TOLERANCE,
            max_iter=10_000,
        )
        start = coefficients[:, 0].copy()
        yield _with_bias(torch.from_numpy(start.copy()).to(features), mean, labels)


def _centre(features: Tensor) -> Tensor:
    mean = features.mean(0, dtype=torch.float64).to(features)
    features -= mean
    return mean


def _with_bias(weights: Tensor, mean: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    return weights, labels.mean().to(weights) - mean @ weights
