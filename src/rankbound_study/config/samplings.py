"""The samplings of irrelevant items for data sets of ratings, and the names of the data sets that they make."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

UNIFORM, POPULARITY, FULL = "uniform", "popularity", "full"
SAMPLINGS = (UNIFORM, POPULARITY, FULL)

OWN = 0
"""The ratio at which nothing is drawn: a user's irrelevant items are the own ratings below the threshold."""

TRAIN, TEST = "train", "test"


class Sampling(NamedTuple):
    """The way in which a user's irrelevant items are chosen.

    Attributes:
        train: for the training and the validation part.
        test: for the test part.
    """

    train: str = UNIFORM
    test: str = UNIFORM

    @classmethod
    def of(cls, value: str | Mapping[str, str]) -> "Sampling":
        """Return the sampling of the configuration: one name for all parts, or one each for `train` and `test`."""
        return cls(value, value) if isinstance(value, str) else cls(value[TRAIN], value[TEST])

    @property
    def draws(self) -> bool:
        """Return whether some part has a number of drawn items; otherwise all parts have the whole catalogue."""
        return self.train != FULL

    @property
    def suffix(self) -> str:
        """The end of its data sets' names; empty for uniform draws."""
        if self.train == self.test == UNIFORM:
            return ""
        return f"-{self.train}" if self.train == self.test else f"-{self.train}-{self.test}"


PLAIN = Sampling()

EVERY = tuple(Sampling(train, test) for train in SAMPLINGS for test in SAMPLINGS if train != FULL or test == FULL)
"""All samplings. After a training on the whole catalogue, no other items are left to draw for a test part."""

_MIXED = "-mixed-"
_NAME = re.compile(
    rf"(?P<base>.*?)(?P<suffix>{'|'.join(re.escape(one.suffix) for one in EVERY)})"
    rf"({_MIXED}(?P<ratios>[0-9]+(-[0-9]+)+))?",
    re.DOTALL,
)


def sampled_name(source: str, sampling: Sampling, nsr: int | Sequence[int] | None) -> tuple[str, int | None]:
    """Return the name of a data set and its ratio in the results; None if there is not one ratio.

    Each user's ratio is one of several (`nsr`): `movielens-mixed-1-2-3`. The whole catalogue has none:
    `movielens-full`.
    """
    name = f"{source}{sampling.suffix}"
    if nsr is None or isinstance(nsr, int):
        return name, nsr
    return f"{name}{_MIXED}{'-'.join(map(str, nsr))}", None


class SampledName(NamedTuple):
    """The parts of a data set's name, which `sampled_name` joined."""

    source: str
    sampling: Sampling
    ratios: tuple[int, ...]

    @classmethod
    def of(cls, name: str) -> "SampledName":
        """Return the parts of any data set's name."""
        match = _NAME.fullmatch(name)
        assert match is not None
        sampling = next(one for one in EVERY if one.suffix == match["suffix"])
        ratios = tuple(map(int, (match["ratios"] or "").split("-"))) if match["ratios"] else ()
        return cls(match["base"], sampling, ratios)

    @property
    def is_plain(self) -> bool:
        """Return whether the name is that of its source: judged lists, or uniform draws at one ratio."""
        return self.sampling == PLAIN and not self.ratios

    def described(self, nsr: int | None) -> str:
        """Return the sampling for a title: `NSR 1`, `popularity NSR 1`, `full catalogue`, `NSR 1, full test`."""
        train, test = self.sampling
        if not self.sampling.draws:
            return "full catalogue"
        if nsr == OWN:
            return "own negatives"
        ratio = f"NSR\N{NO-BREAK SPACE}{_or(self.ratios or (nsr,))}"
        drawn = ratio if train == UNIFORM else f"{train} {ratio}"
        return drawn if train == test else f"{drawn}, {test} test"


def _or(values: Sequence[object]) -> str:
    *most, last = map(str, values)
    return f"{', '.join(most)} or {last}" if most else last


def samplings_of(
    values: Iterable[str | Mapping[str, str]] | None, ratios: Iterable[int | Sequence[int]] | None
) -> Iterator[tuple[Sampling, int | tuple[int, ...] | None]]:
    """Yield every sampling of a data set of ratings with its ratio, or the ratios of which each user has one."""
    for value in values or [UNIFORM]:
        sampling = Sampling.of(value)
        if not sampling.draws:
            yield sampling, None
            continue
        for nsr in ratios or ():
            if nsr != OWN or sampling == PLAIN:
                yield sampling, nsr if isinstance(nsr, int) else tuple(nsr)


def sampling_options(sampling: Sampling, nsr: int | Sequence[int] | None) -> dict[str, Any]:
    """Return the options of the step `sample`: uniform draws are its default."""
    ratio = {"nsr": nsr} if nsr is None or isinstance(nsr, int) else {"nsr": list(nsr)}
    return ratio if sampling == PLAIN else {**ratio, "sampling": sampling._asdict()}
