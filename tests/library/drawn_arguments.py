"""Arguments drawn at random, in the forms and with the flaws that callers pass, for two ways to the same result.

Each draw is a batch of ragged lists, the forms in which its arrays are passed (dtype, container, memory layout), and
at most one flaw. A differential test calls a function in two ways and compares `outcome`s: the same values within a
tolerance, or errors of the library with the same text.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from rankbound.errors import RankboundError

Array = npt.NDArray[Any]

PER_ROUND = 60
ROUNDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 16))]
"""Values of a parameter: `make test` draws one round, `make test-faults` the others."""

SCORE_FLAWS = {"NaN score": np.nan, "infinite score": np.inf, "score of minus infinity": -np.inf, "huge score": 1e300}
RELEVANCE_FLAWS = {
    "NaN relevance": np.nan,
    "infinite relevance": np.inf,
    "negative relevance": -1.0,
    "huge relevance": 1e6,
    "fractional relevance": 0.5,
}
OFFSET_FLAWS: dict[str, Callable[[Array, int], Array]] = {
    "offsets from 1": lambda offsets, n: np.append(1, offsets[1:]),
    "offsets beyond the items": lambda offsets, n: np.append(offsets[:-1], n + 1),
    "descending offsets": lambda offsets, n: offsets[::-1],
    "no offsets": lambda offsets, n: offsets[:0],
}
LENGTH_FLAWS = ("relevance too short", "relevance too long")
FLAWS = (*SCORE_FLAWS, *RELEVANCE_FLAWS, *OFFSET_FLAWS, *LENGTH_FLAWS)

# Forms in which an array can be passed; each keeps the numbers that its dtype can hold.
LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "array": lambda values: values,
    "tensor": torch.from_numpy,
    "strided array": lambda values: np.repeat(values, 2)[::2],
    "strided tensor": lambda values: torch.from_numpy(np.repeat(values, 2))[::2],
    "read-only array": lambda values: np.frombuffer(values.tobytes(), values.dtype),
    "reversed array": lambda values: np.ascontiguousarray(values[::-1])[::-1],
    "list": lambda values: values.tolist(),
}
SCORE_DTYPES = (np.float64, np.float64, np.float32, np.float32, np.float16, np.int64, np.int8, np.bool_)
RELEVANCE_DTYPES = (np.int64, np.int64, np.float64, np.float32, np.int8, np.uint8, np.uint32, np.bool_)
OFFSET_DTYPES = (np.int64, np.int64, np.int32, np.uint64, np.int16)


@dataclass(frozen=True)
class Drawn:
    """One draw. `scores`, `relevance` and `offsets` are arrays; `passed()` returns them in the drawn forms."""

    scores: Array
    relevance: Array
    offsets: Array
    layouts: tuple[str, str, str]
    flaw: str | None

    def passed(self) -> tuple[Any, Any, Any]:
        """Return scores, relevance and offsets in new memory, as a caller would pass them."""
        arrays = self.scores, self.relevance, self.offsets
        return tuple(LAYOUTS[layout](array.copy()) for layout, array in zip(self.layouts, arrays, strict=True))  # type: ignore

    def __str__(self) -> str:
        arrays = zip((self.scores, self.relevance, self.offsets), self.layouts, strict=True)
        forms = "; ".join(f"{layout} of {array.dtype} {array.tolist()}" for array, layout in arrays)
        return f"{self.flaw or 'no flaw'}; scores, relevance, offsets: {forms}"


def drawn(round_: int, *, score_tensors: bool = False, flawed: float = 0.4) -> Iterator[Drawn]:
    """Yield the draws of a round; `score_tensors`: scores are floating-point tensors, as losses expect."""
    for place in range(PER_ROUND):
        random = np.random.default_rng([round_, place])
        yield _draw(random, score_tensors, random.random() < flawed)


def _draw(random: np.random.Generator, score_tensors: bool, flawed: bool) -> Drawn:
    sizes = random.choice([0, 1, 2, 3, 5, 8, 13, 40], size=random.integers(0, 6))
    n = int(sizes.sum())
    scale = random.choice([1e-3, 1.0, 1.0, 30.0])
    scores = np.where(random.random(n) < 0.3, 0.25, random.normal(size=n)) * scale
    highest = int(random.choice([1, 1, 2, 4, 20]))
    relevance = random.integers(0, highest + 1, n) * (random.random(n) < random.choice([0.0, 0.3, 0.3, 1.0]))
    scores = scores.astype(random.choice(SCORE_DTYPES[:4] if score_tensors else SCORE_DTYPES))
    relevance = relevance.astype(random.choice(RELEVANCE_DTYPES))
    offsets = np.concatenate(([0], sizes.cumsum())).astype(random.choice(OFFSET_DTYPES))
    flaw = str(random.choice(FLAWS)) if flawed else None
    if flaw is not None:
        scores, relevance, offsets = _with_flaw(flaw, scores, relevance, offsets, random)
    layouts = [str(random.choice(list(LAYOUTS))) for _ in range(3)]
    if score_tensors:
        layouts[0] = str(random.choice(["tensor", "tensor", "strided tensor"]))
    return Drawn(scores, relevance, offsets, (layouts[0], layouts[1], layouts[2]), flaw)


def _with_flaw(
    flaw: str, scores: Array, relevance: Array, offsets: Array, random: np.random.Generator
) -> tuple[Array, Array, Array]:
    place = int(random.integers(0, max(len(scores), 1)))
    if flaw in SCORE_FLAWS and len(scores):
        scores = scores.astype(scores.dtype if scores.dtype.kind == "f" else np.float64)
        largest = float(np.finfo(scores.dtype).max) / 2
        scores[place] = min(SCORE_FLAWS[flaw], largest) if "huge" in flaw else SCORE_FLAWS[flaw]
    elif flaw in RELEVANCE_FLAWS and len(relevance):
        relevance = relevance.astype(np.float64 if relevance.dtype.kind != "f" else relevance.dtype)
        relevance[place] = RELEVANCE_FLAWS[flaw]
    elif flaw in OFFSET_FLAWS:
        offsets = OFFSET_FLAWS[flaw](offsets, len(scores)).astype(offsets.dtype)
    elif flaw in LENGTH_FLAWS:
        longer = np.concatenate((relevance, relevance[-1:], np.ones(1, relevance.dtype)))
        relevance = relevance[:-1] if "short" in flaw else longer
    return scores, relevance, offsets


@dataclass(frozen=True)
class Outcome:
    """The values that a call returned, by name, or the error that it raised."""

    values: dict[str, Array]
    error: str | None

    def __str__(self) -> str:
        return self.error or "; ".join(f"{name}: {array.tolist()}" for name, array in self.values.items())


def outcome(call: Callable[[], Any]) -> Outcome:
    """Return what a call returns: a tensor, an array or a dictionary of them; or its error, if it is one of ours.

    Other errors than `ValueError`, `NotImplementedError` and the library's own are not caught: a message from inside
    PyTorch or NumPy is a fault.
    """
    try:
        result = call()
    except (ValueError, NotImplementedError, RankboundError) as error:
        return Outcome({}, f"{type(error).__name__}: {error}")
    values = result if isinstance(result, dict) else {"": result}
    values = {name: one.detach().cpu().double() if isinstance(one, Tensor) else one for name, one in values.items()}
    return Outcome({name: np.asarray(one) for name, one in values.items()}, None)


def require_same(one: Outcome, other: Outcome, context: object, *, relative: float, absolute: float = 0.0) -> None:
    """Fail unless both have the same error, or values that are equal within the tolerances, NaN in the same places.

    `relative` 0 requires equality to the last digit.
    """
    message = f"\n{one}\n{other}\nfor {context}"
    assert one.error == other.error, message
    assert one.values.keys() == other.values.keys(), message
    for name, values in one.values.items():
        np.testing.assert_allclose(
            values, other.values[name], rtol=relative, atol=absolute, equal_nan=True, err_msg=f"{name}{message}"
        )
