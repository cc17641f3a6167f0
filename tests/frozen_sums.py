"""Checksums of what a refactoring must not change: texts, values and gradients, a line each.

python -m tests.frozen_sums before.json     # and after.json; `diff before.json after.json` says what differs

Float sums depend on the processor: record both files on one machine. Only public names are used, so that the program
outlives the modules it watches.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import rankbound as rb
from tests.brute_force import METRICS

SMOOTH = ("nDCG", "nDCG@3", "AP", "AP@4", "RR", "nRBP", "ERR(max=4)", "Kendall", "PairAccuracy", "LinearNDCG", "P@5")
BOUNDS = (
    *("none", "min-max", "expectation", "expectation-max", "distribution", "distribution(gain=sd)"),
    *("distribution(gain=drawn)", "distribution(tilt=4)"),
)
OTHERS = (
    *("squared", "squared(gain=exp2,reduction=sum)", "logistic", "ordinal(grades=5)", "ADR-MSE", "RankNet"),
    *("RankNet(reduction=sum,weight=difference)", "RankNet(method=interpolated)", "DirectRanker", "hinge"),
    *("hinge(margin=2)", "WARP", "WARP(samples=3,seed=1)", "ListNet", "ListNet@2", "ListMLE", "ListMLE@2", "softmax"),
    *("softmax(gain=exp2)", "LambdaRank", "LambdaRank(metric=nDCG@3)", "LambdaLoss"),
)
REDUCTIONS = ("none", "mean", "sum")
SIZES = {"short": [4, 7, 0, 1, 12, 2, 30], "long": [3, 700], "many": [10] * 40}


def batch(sizes: list[int], highest: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return lists with ties, and with relevant items in most of them."""
    random, n = np.random.default_rng([highest, *sizes]), sum(sizes)
    scores = np.where(random.random(n) < 0.2, 0.25, random.normal(size=n))
    relevance = random.integers(0, highest + 1, n) * (random.random(n) < 0.4)
    return torch.tensor(scores, dtype=dtype), torch.tensor(relevance), torch.tensor([0, *np.cumsum(sizes)])


def texts() -> Iterator[tuple[str, str]]:
    """Yield the texts and representations of metrics, losses and bounds."""
    kinds = {"metric": (METRICS, rb.metric), "loss": (OTHERS, rb.loss), "bound": (BOUNDS, rb.bound)}
    for kind, (names, parse) in {**kinds, "smooth loss": (SMOOTH, rb.SmoothLoss)}.items():
        for name in names:
            one = parse(name)
            yield f"{kind} {name}", f"{one}\n{one!r}"


def numbers() -> Iterator[tuple[str, Any]]:
    """Yield metrics, extremes, expectations and score distributions."""
    for name, (size, sizes), highest in product(METRICS, SIZES.items(), (1, 4)):
        lists = batch(sizes, highest, torch.float64)
        yield f"{name} of {size} lists up to {highest}", rb.evaluate(name, *lists)[str(rb.metric(name))]
        if size == "short":
            # Gains beyond a metric's largest grade are refused.
            yield f"extremes of {name} up to {highest}", attempt(lambda: rb.extremes(rb.metric(name), *lists[1:]))  # noqa: B023
    for name in ("nDCG", "nDCG@3", "AP", "nRBP", "RR", "P@5"):
        for n, p in ((1, 1), (5, 2), (40, 7), (300, 120)):
            yield f"range of {name} {n} {p}", [of(name, n, p) for of in (rb.minimum, rb.maximum, rb.expectation)]
    for name, (n, p) in product(("nDCG", "AP", "nRBP", "nRBP(p=0.8)"), ((5, 2), (40, 7), (120, 50))):
        exact = rb.score_distribution(name, n=n, p=p, method="exact")
        yield f"distribution of {name} {n} {p}", [exact.support, exact.probability]
        drawn = rb.score_distribution(name, n=n, p=p, method="sampled", samples=2_000, seed=0)
        yield f"drawn distribution of {name} {n} {p}", [drawn.support, drawn.probability]


def losses() -> Iterator[tuple[str, Callable[[], rb.RankingLoss]]]:
    """Yield the losses by name."""
    for name in OTHERS:
        yield name, lambda name=name: rb.loss(name)  # type: ignore[misc]
    for name, bound in product(SMOOTH, BOUNDS):
        yield f"{name} {bound}", lambda name=name, bound=bound: rb.SmoothLoss(name, bound)  # type: ignore[misc]
    for method, name in product(("direct", "interpolated"), ("nDCG@3", "AP")):
        yield f"{name} {method}", lambda name=name, method=method: rb.SmoothLoss(name, "min-max", method=method)  # type: ignore[misc]
    yield "a sum", lambda: 0.7 * rb.loss("nDCG", "min-max") + 0.3 * rb.loss("RankNet")


def gradients() -> Iterator[tuple[str, Any]]:
    """Yield values and gradients of every loss by reduction, dtype and batch, with compiled kernels and without."""
    for name, build in losses():
        loss = build()
        for (size, sizes), reduction, dtype, fast in product(
            SIZES.items(), REDUCTIONS, (torch.float32, torch.float64), (True, False)
        ):
            if size == "long" and "distribution" in name:
                continue
            lists = batch(sizes, 1 if "distribution" in name else 4, dtype)
            switch = os.environ.get("RANKBOUND_FAST", "1") if fast else "0"
            with patch.dict(os.environ, RANKBOUND_FAST=switch):
                key = f"{name} {size} {reduction} {dtype} {'kernels' if fast else 'formulas'}"
                yield key, attempt(lambda: value_and_gradient(loss, *lists, reduction))  # noqa: B023


def value_and_gradient(loss: Any, scores: Any, relevance: Any, offsets: Any, reduction: str) -> list[torch.Tensor]:
    leaf = scores.clone().requires_grad_()
    value = loss(leaf, relevance, offsets, reduction=reduction)
    return [value, torch.autograd.grad(value.sum(), leaf)[0]]


def attempt(call: Callable[[], Any]) -> Any:
    """Return a call's result, or the text of its refusal."""
    try:
        return call()
    except (ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"


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
