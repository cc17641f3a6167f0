"""Our optimisers take the very steps of torch's."""

import torch
from torch import nn

from rankbound.training.trainer import Optimiser
from tests.forks import run_with_torch


def test_steps_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 2, generator=generator), torch.randn(4, generator=generator)]
    ours, theirs = ([nn.Parameter(values.clone()) for values in start] for _ in range(2))
    adam, reference = Optimiser("adam", [ours], 0.1), torch.optim.Adam(theirs, lr=0.1, fused=True)
    for _ in range(5):
        for parameters, step in ((ours, lambda: adam.step([0])), (theirs, reference.step)):
            for parameter in parameters:
                parameter.grad = None
            (parameters[0].square().sum() + (parameters[1] - 1).abs().sum()).backward()
            step()
    for parameter, expected in zip(ours, theirs, strict=True):
        assert torch.equal(parameter, expected)


def test_a_parameter_without_a_gradient_stays() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    adam = Optimiser("adam", [[used, unused]], 0.1)
    used.sum().backward()
    adam.step([0])
    assert torch.equal(unused, torch.ones(2))
    assert not torch.equal(used, torch.ones(2))
    assert used.grad is None


def test_a_step_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch; from rankbound.training.trainer import Optimiser; p = torch.nn.Parameter(torch.ones(2)); "
        "p.sum().backward(); Optimiser('adam', [[p]], 0.1).step([0]); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert run_with_torch(code).returncode == 0


def test_gradient_descent_is_torchs() -> None:
    ours, theirs = nn.Parameter(torch.tensor([1.0, -2.0])), nn.Parameter(torch.tensor([1.0, -2.0]))
    descent, reference = Optimiser("sgd", [[ours]], 0.1), torch.optim.SGD([theirs], lr=0.1)
    for _ in range(3):
        for parameter, step in ((ours, lambda: descent.step([0])), (theirs, reference.step)):
            parameter.grad = None
            parameter.square().sum().backward()
            step()
    assert torch.equal(ours, theirs)
