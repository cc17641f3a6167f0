"""The study's terms: protocols, boundings, losses and the metrics that judge them, names in results, list weights."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rankbound.errors import ConfigError

PUBLISHED, HONEST = "published", "honest"
"""The protocols: one for comparison with the printed scores, where the test part selects the epoch, and one where a
validation part does. The thesis states neither a number of epochs nor a validation part. The code of the paper that it
builds on (Li, Urbano and Hanjalic, SIGIR 2021) selects the epoch by the test part. That the printed scores were
computed in this way is an assumption."""

SELECTIONS = {PUBLISHED: "test", HONEST: "validation"}
"""Protocol -> the part that selects the epoch."""

COMPARED, EXPERIMENTS = "compared", "experiments"
"""Parts of a study's runs that are collected by themselves, like those of each protocol."""

LAST = "last"
"""The selection of the last epoch."""

LOSSES = ("nDCG", "AP", "nRBP")
"""The losses that the thesis bounds."""

JUDGED_BY = {"nDCG": "nDCG", "AP": "AP", "nRBP": "nRBP(p=0.95)"}
"""Loss -> the metric that judges models trained on it (thesis section 5.1); any other loss is judged by itself."""

UNBOUNDED = "none"
AFFINE = ("min-max", "expectation", "expectation-max")
"""Boundings that are list weights; for nRBP they differ by a factor common to all lists."""
BOUNDED = (*AFFINE, "distribution")
BOUNDINGS = (UNBOUNDED, *BOUNDED)

EXACT, SAMPLED = METHODS = ("exact", "sampled")
"""How score distributions over random orders are made: by recursion over ranks, or by drawing orders."""

POPULARITY = "popularity"
"""The control that ranks items by the number of training topics to which they are relevant."""

BEST_FEATURE = "best-feature"
"""The control that ranks items by the single feature, ascending or descending, that is best on the training part."""

CONTROLS = ("random", POPULARITY, BEST_FEATURE, "oracle")
"""Models without a loss."""

BOOSTED_TREES = "boosted-trees"

STUDY = "neural"
"""The study's name in the keys and seeds of comparison runs: methods are paired, whatever the study's own name."""

OF_FEATURES = "-of-"
"""Separates a method's name from its number of features: `RankNet-of-10`."""

VARIANT = "@"
"""Separates the study's name from the variant's, in runs and folders: `thesis@factors-16`."""

VGG16_FILE = "vgg16-397923af.pth"

LIST_WEIGHTS = "list_weights"
"""The setting of the weights of training lists, as texts: `pairs^-1`, `permuted(min-max)`."""

QUANTITIES = ("pairs", "relevant", "items")
"""Numbers of a list of N items, P of them relevant, to whose powers weights are proportional: P(N - P), P and N."""

_PLAIN = rf"(?:{'|'.join(AFFINE)}|(?:{'|'.join(QUANTITIES)})\^-?[0-9](?:\.[0-9]{{1,3}})?)"


@dataclass(frozen=True)
class ListWeights:
    """Weights of training lists.

    Attributes:
        bound: an affine bounding, whose weights 1 / unit are taken; empty for a power.
        quantity, power: one of `QUANTITIES`, and its exponent.
        permuted: the weights are permuted at random between the lists.
    """

    PATTERN: ClassVar = rf"{_PLAIN}|permuted\({_PLAIN}\)"
    EXPECTED: ClassVar = (
        "an affine bounding (min-max, expectation, expectation-max), a power of a number (pairs^-1, relevant^-1, "
        "items^0.5), or permuted(...) of one of these"
    )

    bound: str = ""
    quantity: str = ""
    power: float = 0.0
    permuted: bool = False

    @classmethod
    def of(cls, text: str) -> "ListWeights":
        """Return the weights that a text names; ConfigError if it names none."""
        if not re.fullmatch(cls.PATTERN, text):
            raise ConfigError(f"{LIST_WEIGHTS}: found {text!r}, expected {cls.EXPECTED}")
        plain = text.removeprefix("permuted(").removesuffix(")")
        quantity, _, power = plain.partition("^")
        if not power:
            return cls(bound=plain, permuted=plain != text)
        return cls(quantity=quantity, power=float(power), permuted=plain != text)

    def __str__(self) -> str:
        text = self.bound or f"{self.quantity}^{self.power:g}"
        return f"permuted({text})" if self.permuted else text


def needs_distributions(bounding: str) -> bool:
    """Return whether trainings with a bounding read score distributions."""
    return bounding.startswith("distribution")


def method_of(method: str | Mapping[str, str], datasets: Mapping[str, str], protocol: str, source: str) -> str:
    """Return the method for the lists of a data set in a protocol; that of the data set takes precedence."""
    own = datasets.get(source, method)
    return own if isinstance(own, str) else own[protocol]
