"""Deterministic computation: algorithms whose sums have a fixed order, at full precision."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def use_fixed_algorithms() -> None:
    """Use deterministic algorithms in this process where they exist; warn where they do not.

    On a CPU they always exist, for a given number of threads. On a GPU a few operations have none (cumulative sums of
    fractions, for example); PyTorch warns of those that occur. cuBLAS also needs the environment variable
    CUBLAS_WORKSPACE_CONFIG, which the workflow sets. Convolutions on a GPU would otherwise round their factors to 10
    bits.
    """
    # The same setting as use_deterministic_algorithms, which takes over a second to load torch's compiler.
    torch.set_deterministic_debug_mode("warn")
    # This would also fill fresh memory with NaN, at a cost; nothing here reads memory before writing it.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Set numbers below the smallest normal one to zero, where the processor can.

    Trainings whose scores are far apart would spend half of their time on such numbers.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
