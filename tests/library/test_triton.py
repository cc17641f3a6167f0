"""Kernels in Triton: their tests in its interpreter, their compilation for a GPU that is not there, and their absence.

On a GPU, `test_a_gpu_computes_the_losses_of_the_cpu` compares them with the formulas.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rankbound as rb
from rankbound import kernels

CASES = Path(__file__).with_name("interpreted_kernels.py")

needs_triton = pytest.mark.skipif(not kernels.has("triton"), reason="Triton is not installed; it has wheels for Linux")

PAIRS = {"TILE": 32}
CONSTANTS = [
    *(("_cross_entropy", {"TARGET": kind, "WEIGHTED": bool(kind), "BLOCK": 512}) for kind in range(4)),
    *(("_terms", {"KIND": 0, "DISCOUNT": one, "CUTOFF": 5 * one, "NORMALISED": one < 2} | PAIRS) for one in range(3)),
    *(("_terms", {"KIND": 1, "DISCOUNT": 2, "CUTOFF": cutoff, "NORMALISED": False} | PAIRS) for cutoff in (0, 5)),
    ("_terms", {"KIND": 2, "DISCOUNT": 2, "CUTOFF": 0, "NORMALISED": False} | PAIRS),
    *(("_slopes", {"KIND": kind, "NORMALISED": kind < 2} | PAIRS) for kind in range(3)),
]
COMPILED = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rankbound.kernels import gpu

seen = set()
for name, constants in eval(sys.argv[1]):
    kernel = getattr(gpu, name)
    for dtype in ("fp32",) if name in seen else ("fp32", "fp64"):
        seen.add(name)
        types = {"scores": f"*{dtype}", "slopes": f"*{dtype}", "offsets": "*i64", "tiles": "*i64"}
        signature = {one: "constexpr" if one in constants else types.get(one, "*fp64") for one in kernel.arg_names}
        places = {(kernel.arg_names.index(one),): value for one, value in constants.items()}
        compiled = triton.compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 80, 32))
        assert ".target sm_80" in compiled.asm["ptx"]
        print(name, dtype)
"""


def run(*arguments: str, **variables: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | variables
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return done.stdout


@pytest.mark.slow
@needs_triton
def test_the_interpreter_computes_what_the_formulas_do() -> None:
    printed = run("-m", "pytest", str(CASES), "-p", "no:xdist", TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    assert "passed" in printed


@pytest.mark.slow
@needs_triton
def test_all_kernels_compile_for_a_gpu(tmp_path: Path) -> None:
    printed = run("-c", COMPILED, repr(CONSTANTS), TRITON_INTERPRET="0", TRITON_CACHE_DIR=str(tmp_path))
    # Each kernel for scores in double precision once.
    assert len(printed.splitlines()) == len(CONSTANTS) + len({name for name, _ in CONSTANTS})


def test_without_triton_and_by_default_tensors_take_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    for choice, of_gpu, of_cpu in (
        (None, True, False),
        ("1", True, False),
        ("0", False, False),
        ("triton", True, True),
    ):
        monkeypatch.setattr(kernels, "has", lambda _: True)
        monkeypatch.delenv("RANKBOUND_FAST", raising=False)
        if choice is not None:
            monkeypatch.setenv("RANKBOUND_FAST", choice)
        assert (kernels.usable_on_gpu(True), kernels.usable_on_gpu(False)) == (of_gpu, of_cpu), choice
        monkeypatch.setattr(kernels, "has", lambda _: False)
        assert not kernels.usable_on_gpu(True)


def test_a_changed_loss_has_no_kernel_of_the_loss_that_it_changes() -> None:
    class Halved(type(rb.loss("softmax"))):  # type: ignore[misc]
        def targets(self, *arguments: object) -> torch.Tensor:
            targets: torch.Tensor = super().targets(*arguments) / 2
            return targets

    assert Halved()._gpu_kernel() is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_computes_the_losses_of_the_cpu() -> None:
    lists, place = rb.Lists.of_sizes(torch.tensor([3, 1, 0, 300, 70, 5000])), torch.arange(5374)
    relevance = (place * 7 % 11 > 8).long() * (place % 3)
    for text in ("softmax", "softmax(gain=exp2)", "ListNet@1", "ListMLE", "ListMLE@5", "nDCG", "nDCG@10", "AP", "nRBP"):
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.float64, 1e-6)):
            results = []
            for device in ("cpu", "cuda"):
                scores = torch.sin(place * 1.7).to(device, dtype).requires_grad_()
                losses = rb.loss(text)(scores, relevance.to(device), rb.Lists(lists.offsets.to(device)))
                losses.sum().backward()
                results.append((losses.detach().cpu(), scores.grad.cpu()))  # type: ignore[union-attr]
            for one, other in zip(*results, strict=True):
                torch.testing.assert_close(one, other, rtol=0, atol=tolerance * float(one.abs().max()))
