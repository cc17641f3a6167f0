"""A training repeats: what its process is set to before it begins, and that the settings reach every step."""

import pytest
import torch

from rankbound_study.jobs.determinism import subnormals_as_zero
from tests.forks import run_with_torch

_JOB = """
import sys, warnings
warnings.simplefilter("error")
import torch
from rankbound_study.cli import main
from rankbound_study.jobs import train_job, vgg16

def tell(*arguments, **named):
    # Below the smallest normal number: zero, where the processor can make it so.
    tiny = float(torch.tensor(1e-38) / 1e3)
    print(
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        tiny == 0 or not torch.set_flush_denormal(True),
        "torch._dynamo" in sys.modules,  # Torch's compiler, which nobody here needs: half of a job's start.
    )
    sys.exit()

train_job.run_job = vgg16.read_weights = tell
train_job.known_job = lambda options: None
torch.set_num_threads(2)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "threads", "flushed"),
    [
        (["job", "--instances", "a", "--out", "b", "--options", "{}"], "1", "True"),
        (["features", "--images", "a", "--weights", "b", "--out", "c"], "2", "False"),
    ],
)
def test_steps_that_compute_with_networks_use_fixed_algorithms(
    arguments: list[str], threads: str, flushed: str
) -> None:
    result = run_with_torch(_JOB, *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [threads, "True", "False", "False", "False", flushed, "False"]


def test_small_numbers_are_themselves_again_after_a_training() -> None:
    tiny = torch.tensor(1e-38) / 1e3
    with subnormals_as_zero():
        inside = float(torch.tensor(1e-38) / 1e3)
    assert inside == 0 or not torch.set_flush_denormal(False)
    assert torch.tensor(1e-38) / 1e3 == tiny > 0
