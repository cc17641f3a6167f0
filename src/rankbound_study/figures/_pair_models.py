"""Random models of a pair of items, and the properties that they break."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Beats = Callable[[Floats, Floats], npt.NDArray[np.bool_]]

WIDTH = 6
"""Width of the items' embeddings."""

TRIPLES = 500
MODELS = 60
HIDDEN = 16


def probability(link: str, difference: Any) -> Any:
    """Return the probability that the first item of a pair wins, given the difference of the scores."""
    inner = np.tanh(difference) if link == "DirectRanker" else difference
    return 1 / (1 + np.exp(-inner))


def violations(name: str) -> tuple[float, float]:
    """Return the shares of pairs with the same winner in both orders and of cyclic triples, over random models."""
    broken, cycles = 0, 0
    for model in range(MODELS):
        random = np.random.default_rng([model, WIDTH])
        beats = PAIR_MODELS[name](random)
        items = random.standard_normal((3, TRIPLES, WIDTH))
        forward = np.stack([beats(items[one], items[(one + 1) % 3]) for one in range(3)])
        backward = np.stack([beats(items[(one + 1) % 3], items[one]) for one in range(3)])
        broken += int((forward == backward).sum())
        cycles += int((forward.all(0) | ~forward.any(0)).sum())
    return broken / (3 * MODELS * TRIPLES), cycles / (MODELS * TRIPLES)


def _joined(random: np.random.Generator) -> Beats:
    """A network of one hidden layer on both items side by side."""
    inner, bias = random.standard_normal((2 * WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    outer = random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh(np.concatenate([one, other], 1) @ inner + bias) @ outer > 0


def _odd(random: np.random.Generator) -> Beats:
    """An odd network of one hidden layer on the difference: no biases, tanh."""
    inner, outer = random.standard_normal((WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh((one - other) @ inner) @ outer > 0


def _score_difference(random: np.random.Generator) -> Beats:
    """The order of RankNet and DirectRanker: an odd, monotone link of the difference of two scores."""
    inner, outer = random.standard_normal((WIDTH, HIDDEN)), random.standard_normal(HIDDEN)
    return lambda one, other: np.tanh(np.tanh(one @ inner) @ outer - np.tanh(other @ inner) @ outer) > 0


def _counterexample(random: np.random.Generator) -> Beats:
    """N2(d) = tanh(w.d (1 + (v.d)^2)): not a function of w.d alone, but of the same sign."""
    w, v = random.standard_normal((2, WIDTH))
    return lambda one, other: np.tanh(((one - other) @ w) * (1 + ((one - other) @ v) ** 2)) > 0


PAIR_MODELS: dict[str, Callable[[np.random.Generator], Beats]] = {
    "network on\nboth items": _joined,
    "odd network on\nthe difference": _odd,
    "$w\\cdot d\\,(1+(v\\cdot d)^2)$": _counterexample,
    "difference\nof scores": _score_difference,
}
"""Models of a pair by name: from a random generator to a function that returns True where the first item wins."""
