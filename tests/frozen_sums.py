"""Checksums of what a refactoring must not change: texts, values and gradients, a line each.

python -m tests.frozen_sums before.json     # and after.json; `diff before.json after.json` says what differs

Float sums depend on the processor: record both files on one machine. Metrics and losses are those that the tests list.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rankbound as rb
from tests.brute_force import METRICS

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "library")]

from drawn_arguments import outcome
from test_fuzz_losses import LOSSES, computed

SIZES = {"short": [4, 7, 0, 1, 12, 2, 30], "long": [3, 700], "many": [10] * 40}


def batch(sizes: list[int], highest: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return lists with ties, and with relevant items in most of them."""
    random, n = np.random.default_rng([highest, *sizes]), sum(sizes)
    scores = np.where(random.random(n) < 0.2, 0.25, random.normal(size=n))
    relevance = random.integers(0, highest + 1, n) * (random.random(n) < 0.4)
    return torch.tensor(scores, dtype=dtype), torch.tensor(relevance), torch.tensor([0, *np.cumsum(sizes)])


def texts() -> Iterator[tuple[str, Any]]:
    """Yield the representations of metrics and losses, with their bounds."""
    for name in METRICS:
        yield f"metric {name}", f"{rb.metric(name)}\n{rb.metric(name)!r}"
    for name, make in LOSSES.items():
        yield f"loss {name}", f"{make()}\n{make()!r}"


def numbers() -> Iterator[tuple[str, Any]]:
    """Yield metrics, extremes, expectations and score distributions."""
    for name, (size, sizes), highest in product(METRICS, SIZES.items(), (1, 4)):
        lists = batch(sizes, highest, torch.float64)
        yield f"{name} of {size} lists up to {highest}", rb.evaluate(name, *lists)[str(rb.metric(name))]
        if size == "short":
            # Gains beyond a metric's largest grade are refused.
            yield f"extremes of {name} up to {highest}", str(outcome(lambda: rb.extremes(rb.metric(name), *lists[1:])))  # noqa: B023
    for name in ("nDCG", "nDCG@3", "AP", "nRBP", "RR", "P@5"):
        for n, p in ((1, 1), (5, 2), (40, 7), (300, 120)):
            yield f"range of {name} {n} {p}", [of(name, n, p) for of in (rb.minimum, rb.maximum, rb.expectation)]
    for name, (n, p) in product(("nDCG", "AP", "nRBP", "nRBP(p=0.8)"), ((5, 2), (40, 7), (120, 50))):
        exact = rb.score_distribution(name, n=n, p=p, method="exact")
        yield f"distribution of {name} {n} {p}", [exact.support, exact.probability]
        drawn = rb.score_distribution(name, n=n, p=p, method="sampled", samples=2_000, seed=0)
        yield f"drawn distribution of {name} {n} {p}", [drawn.support, drawn.probability]


def gradients() -> Iterator[tuple[str, Any]]:
    """Yield values and gradients of every loss by reduction, dtype and batch, with compiled kernels and without."""
    for (name, make), (size, sizes) in product(LOSSES.items(), SIZES.items()):
        if size == "long" and "distribution" in name:
            continue
        for reduction, dtype, fast in product(("none", "mean", "sum"), (torch.float32, torch.float64), (True, False)):
            scores, *judged = batch(sizes, 1 if "distribution" in name else 4, dtype)
            found = computed(make(), (scores.requires_grad_(), *judged), {"reduction": reduction}, fast=fast)
            key = f"{name} {size} {reduction} {dtype} {'kernels' if fast else 'formulas'}"
            yield key, [*found.values.values(), found.error or ""]


def checksum(value: Any) -> str:
    """Return the SHA-256 of a text, bytes, or the bytes, types and shapes of arrays."""
    digest = hashlib.sha256()
    parts = value if isinstance(value, list | tuple) else [value]
    for part in parts:
        if isinstance(part, bytes | str):
            digest.update(part if isinstance(part, bytes) else part.encode())
            continue
        array = np.ascontiguousarray(part.detach().numpy() if isinstance(part, torch.Tensor) else part)
        # Negative zeros are zeros.
        digest.update(f"{array.dtype}{array.shape}".encode() + (array + 0 if array.dtype != bool else array).tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    torch.set_num_threads(1)
    sums = {
        f"{group}: {name}": checksum(value)
        for group, values in (("text", texts()), ("number", numbers()), ("loss", gradients()))
        for name, value in values
    }
    Path(sys.argv[1]).write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{sys.argv[1]}: {len(sums)} checksums")
