"""The weights of training lists that a variant of an experiment sets, as texts: `pairs^-1`, `permuted(min-max)`."""

import re
from dataclasses import dataclass

from rankbound.errors import ConfigError
from rankbound_study.vocabulary import AFFINE

LIST_WEIGHTS = "list_weights"
"""The name of the setting."""

QUANTITIES = ("pairs", "relevant", "items")
"""Numbers of a list of N items, P of them relevant, to whose powers weights are proportional: P(N - P), P and N."""

_PLAIN = rf"(?:{'|'.join(AFFINE)}|(?:{'|'.join(QUANTITIES)})\^-?[0-9](?:\.[0-9]{{1,3}})?)"
PATTERN = rf"{_PLAIN}|permuted\({_PLAIN}\)"
EXPECTED = (
    "an affine bounding (min-max, expectation, expectation-max), a power of a number (pairs^-1, relevant^-1, "
    "items^0.5), or permuted(...) of one of these"
)


@dataclass(frozen=True)
class ListWeights:
    """Weights of training lists.

    Attributes:
        bound: an affine bounding, whose weights 1 / unit are taken; empty for a power.
        quantity, power: one of `QUANTITIES`, and its exponent.
        permuted: the weights are permuted at random between the lists.
    """

    bound: str = ""
    quantity: str = ""
    power: float = 0.0
    permuted: bool = False

    @classmethod
    def of(cls, text: str) -> "ListWeights":
        """Return the weights that a text names; ConfigError if it names none."""
        if not re.fullmatch(PATTERN, text):
            raise ConfigError(f"{LIST_WEIGHTS}: found {text!r}, expected {EXPECTED}")
        plain = text.removeprefix("permuted(").removesuffix(")")
        quantity, _, power = plain.partition("^")
        if not power:
            return cls(bound=plain, permuted=plain != text)
        return cls(quantity=quantity, power=float(power), permuted=plain != text)

    def __str__(self) -> str:
        text = self.bound or f"{self.quantity}^{self.power:g}"
        return f"permuted({text})" if self.permuted else text
