"""Optimisers over torch's functional forms.

The classes of `torch.optim` import torch's compiler on their first step, which takes as long as training a small model.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Optimiser(ABC):
    """Updates parameters by their gradients, with one learning rate."""

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> None:
        self._parameters = list(parameters)
        self._learning_rate = learning_rate

    def zero_gradients(self) -> None:
        """Clear the gradients of the last step."""
        for parameter in self._parameters:
            parameter.grad = None

    def gradients(self) -> list[Tensor]:
        """Return the parameters' gradients; zeros for parameters without one."""
        return [torch.zeros_like(p) if p.grad is None else p.grad for p in self._parameters]

    @abstractmethod
    def step(self) -> None:
        """Update every parameter by its gradient."""


class Adam(Optimiser):
    """Adam (Kingma and Ba, 2015) with the usual constants: decay rates 0.9 and 0.999, epsilon 1e-8, no weight decay."""

    def __init__(self, parameters: Iterable[nn.Parameter], learning_rate: float) -> None:
        super().__init__(parameters, learning_rate)
        self._means = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self._parameters]
        self._steps = [torch.zeros((), device=parameter.device) for parameter in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        adam(
            list(self._parameters),
            self.gradients(),
            self._means,
            self._squares,
            max_exp_avg_sqs=[],
            state_steps=self._steps,
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
    def step(self) -> None:
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.sub_(parameter.grad, alpha=self._learning_rate)


OPTIMISERS: Mapping[str, type[Optimiser]] = {"adam": Adam, "sgd": SGD}
