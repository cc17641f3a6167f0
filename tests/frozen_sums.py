"""Checksums of what a refactoring must not change: texts, values, gradients, and the demo's outputs.

python -m tests.frozen_sums before.json                 # record
python -m tests.frozen_sums after.json --than before.json   # record, and list what differs; status 1 if anything does
python -m tests.frozen_sums before.json --demo results/demo # also the files of a finished demo

Float sums depend on the processor: record both files on one machine. Only public names are used, so that the program
outlives the modules it watches.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import rankbound as rb

METRICS = (
    *("nDCG", "nDCG@3", "nDCG(gain=linear)@10", "nDCG(gain=linear,discount=log2(r))@5", "DCG", "DCG@4", "CG@4"),
    *("AP", "AP@3", "AP(rel=2)", "RR", "RR@2", "nRBP(p=0.8)", "nRBP", "RBP(p=0.8)", "RBP(p=0.95)", "P@5", "Recall@3"),
    *("Hit@2", "ERR(max=4)", "ERR(max=4)@3", "Kendall", "Kendall(weight=difference)", "PairAccuracy", "PairError"),
    *("LinearDCG", "LinearNDCG", "Rprec", "IPrec(recall=0.3)", "Bpref"),
)
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
DEMO = ("runs", "tables", "figures", "distributions")
PROVENANCE = re.compile(r'<section id="provenance".*?</section>', re.DOTALL)
"""The report's section on provenance and costs, which differs from run to run."""


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


def files(demo: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the demo's outputs, the page without its section on provenance and costs."""
    for path in (*(path for folder in DEMO for path in demo.joinpath(folder).rglob("*")), *demo.glob("*.parquet")):
        if path.is_file():
            yield str(path.relative_to(demo)), path.read_bytes()
    page = (demo / "paper" / "index.html").read_text("utf-8")
    without, count = PROVENANCE.subn("", page)
    if count != 1:
        raise ValueError(f"{demo}/paper/index.html: found {count} sections on provenance, expected 1")
    yield "paper/index.html", without.encode()


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


def main() -> int:
    """Record the checksums, and compare them with earlier ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--than", type=Path, help="earlier checksums to compare with")
    parser.add_argument("--demo", type=Path, help="the folder of a finished demo, such as results/demo")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sums = {
        f"{group}: {name}": checksum(value)
        for group, values in (("text", texts()), ("number", numbers()), ("loss", gradients()))
        for name, value in values
    }
    if options.demo is not None:
        sums |= {f"demo: {name}": checksum(content) for name, content in files(options.demo)}
    options.out.write_text(json.dumps(sums, indent=1, sort_keys=True) + "\n", "utf-8")
    print(f"{options.out}: {len(sums)} checksums")
    if options.than is None:
        return 0
    earlier = json.loads(options.than.read_text("utf-8"))
    different = sorted(name for name in earlier.keys() | sums.keys() if earlier.get(name) != sums.get(name))
    for name in different:
        state = "gone" if name not in sums else "new" if name not in earlier else "differs"
        print(f"{state}: {name}")
    print(f"{len(different)} of {len(earlier.keys() | sums.keys())} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
