"""Our optimisers take the very steps of torch's."""

from typing import Any

import pytest
import torch
from torch import nn

from rankbound.training.trainer import Optimiser
from tests.forks import run_with_torch


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("adam", lambda parameters: torch.optim.Adam(parameters, lr=0.1, fused=True)),
        ("sgd", lambda parameters: torch.optim.SGD(parameters, lr=0.1)),
    ],
    ids=["adam", "sgd"],
)
def test_steps_are_those_of_torch(kind: str, reference: Any) -> None:
    """A parameter without a gradient stays."""
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 2, generator=generator), torch.randn(4, generator=generator), torch.ones(2)]
    ours, theirs = ([nn.Parameter(values.clone()) for values in start] for _ in range(2))
    optimiser, peer = Optimiser(kind, [ours], 0.1), reference(theirs)
    for _ in range(5):
        for parameters, step in ((ours, lambda: optimiser.step([0])), (theirs, peer.step)):
            for parameter in parameters if parameters is theirs else ():
                parameter.grad = None
            (parameters[0].square().sum() + (parameters[1] - 1).abs().sum()).backward()
            step()
    for parameter, expected, first in zip(ours, theirs, start, strict=True):
        assert torch.equal(parameter, expected)
        assert torch.equal(parameter, first) == (first is start[2])
        assert parameter.grad is None


def test_a_step_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch; from rankbound.training.trainer import Optimiser; p = torch.nn.Parameter(torch.ones(2)); "
        "p.sum().backward(); Optimiser('adam', [[p]], 0.1).step([0]); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert run_with_torch(code).returncode == 0
