"""Optimisers over torch's functional forms.

The classes of `torch.optim` import torch's compiler on their first step, which takes as long as training a small model.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Optimiser(ABC):
    """Updates the parameters of models by their gradients, with one learning rate; each model takes its own steps."""

    def __init__(self, models: Iterable[Iterable[nn.Parameter]], learning_rate: float) -> None:
        self._models = [list(parameters) for parameters in models]
        self._learning_rate = learning_rate

    def zero_gradients(self) -> None:
        """Clear the gradients of the last step."""
        for parameters in self._models:
            for parameter in parameters:
                parameter.grad = None

    def step(self, models: Sequence[int]) -> Tensor:
        """Update every parameter of some models by its gradient, and return the norm of each model's gradient."""
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for place in models
            for parameter in self._models[place]
        ]
        norms = torch.stack(torch._foreach_norm(gradients))
        self._update(models, gradients)
        of_models = torch.split(norms, [len(self._models[place]) for place in models])
        return torch.stack([own.norm() for own in of_models])

    @abstractmethod
    def _update(self, models: Sequence[int], gradients: list[Tensor]) -> None:
        """Update the parameters of some models, to which the gradients belong in order."""


class Adam(Optimiser):
    """Adam (Kingma and Ba, 2015) with the usual constants: decay rates 0.9 and 0.999, epsilon 1e-8, no weight decay."""

    def __init__(self, models: Iterable[Iterable[nn.Parameter]], learning_rate: float) -> None:
        super().__init__(models, learning_rate)
        self._means, self._squares = (
            [[torch.zeros_like(parameter) for parameter in parameters] for parameters in self._models] for _ in range(2)
        )
        self._steps = [
            [torch.zeros((), device=parameter.device) for parameter in parameters] for parameters in self._models
        ]

    @torch.no_grad()
    def _update(self, models: Sequence[int], gradients: list[Tensor]) -> None:
        # In one call for all models, whose cost hardly grows with their number.
        parameters, means, squares, steps = (
            [tensor for place in models for tensor in of_models[place]]
            for of_models in (self._models, self._means, self._squares, self._steps)
        )
        adam(
            parameters,
            gradients,
            means,
            squares,
            max_exp_avg_sqs=[],
            state_steps=steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self._learning_rate,
            weight_decay=0.0,
            eps=1e-8,
            maximize=False,
        )


class SGD(Optimiser):
    """Plain stochastic gradient descent: no momentum, no weight decay."""

    @torch.no_grad()
    def _update(self, models: Sequence[int], gradients: list[Tensor]) -> None:
        parameters: list[Tensor] = [parameter for place in models for parameter in self._models[place]]
        torch._foreach_add_(parameters, gradients, alpha=-self._learning_rate)


OPTIMISERS: Mapping[str, type[Optimiser]] = {"adam": Adam, "sgd": SGD}
