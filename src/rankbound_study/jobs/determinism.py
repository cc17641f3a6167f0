"""The same numbers from the same input: algorithms whose sums have a fixed order, at full precision."""

import torch


def use_fixed_algorithms() -> None:
    """Let this process choose algorithms that repeat to the last digit, where there are such; say where there are none.

    On a processor there always are, given the number of threads. On a GPU a few operations have no such algorithm
    (running sums of fractions are one); PyTorch warns of those that occur. cuBLAS also needs the environment variable
    CUBLAS_WORKSPACE_CONFIG, which the workflow sets. Convolutions on a GPU would round their factors to 10 bits.
    """
    # The same setting as use_deterministic_algorithms, which loads all of torch's compiler for it: over a second.
    torch.set_deterministic_debug_mode("warn")
    # That would fill fresh memory with NaN as well, at a cost: nothing here reads it before writing.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
