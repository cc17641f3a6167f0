"""The data sets that a configuration defines, as training reads them: samplings, names, and titles for people."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
        *most, last = map(str, self.ratios or (nsr,))
        ratio = f"NSR\N{NO-BREAK SPACE}{', '.join(most)} or {last}" if most else f"NSR\N{NO-BREAK SPACE}{last}"
        drawn = ratio if train == UNIFORM else f"{train} {ratio}"
        return drawn if train == test else f"{drawn}, {test} test"


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


SYNTHETIC = "synthetic-"
"""Prefix of the names of generated data sets; all others are fetched."""

SMALLEST_GENERATED = 10
"""Fewest topics or faces of a generated data set: every fold and part of it has some."""

GRADED = "graded"
"""Among the thresholds of judged lists: use the labels themselves."""

VGG16 = "vgg16"

_READING = re.compile(r"(.+)-(?:label([0-9]+)|graded)")


THESIS = {
    "movielens": "MovieLens",
    "mq2008-label1": "MQ2008 label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}1",
    "mq2008-label2": "MQ2008 label\N{NO-BREAK SPACE}2",
    "mq2008": "MQ2008",
}
"""In the order of Table 5.1."""

TITLES: dict[str, str] = {}
"""Those of described data sets. One mapping for a process: a step shows one study, and titles are asked for in some
twenty places that know no more than a data set's name."""


def use_titles(titles: Mapping[str, str]) -> None:
    """Show these titles of described data sets, by name, from now on, instead of others that were shown before."""
    TITLES.clear()
    TITLES.update(titles)


class DataSet(NamedTuple):
    """A data set of the results, at one ratio of negatives if its lists are sampled: a column of Table 5.1.

    Attributes:
        dataset: its name: movielens, movielens-full, mq2008-label1, mslr-web10k-graded, aaf-vgg16.
        nsr: sampled negatives per relevant item, 0 if the lists have the user's own; None for judged lists, images,
            whole catalogues, and ratios that differ between users.
    """

    dataset: str
    nsr: int | None

    def __str__(self) -> str:
        if not SampledName.of(self.dataset).is_plain:
            return self.label
        return "MQ2008" if self.nsr is None else f"MovieLens at ratio {self.nsr}"

    @property
    def place(self) -> tuple[int, str, int]:
        """Its place in the fixed order: MovieLens, MQ2008 (label >= 1, label 2), others; synthetic last."""
        real = SampledName.of(self.dataset.removeprefix(SYNTHETIC)).source
        rank = list(THESIS).index(real) if real in THESIS else len(THESIS)
        return rank + self.synthetic * (len(THESIS) + 1), self.dataset, self.nsr or 0

    @property
    def source(self) -> str:
        """What it is made from: the readings of one source's labels, and its samplings, have the same topics."""
        name = SampledName.of(self.dataset).source
        return reading[1] if (reading := _READING.fullmatch(name)) else name

    @property
    def synthetic(self) -> bool:
        """The data are generated."""
        return self.dataset.startswith(SYNTHETIC)

    @property
    def sampled(self) -> bool:
        """Its lists are made of ratings."""
        return self.nsr is not None or not SampledName.of(self.dataset).is_plain

    @property
    def of_the_sources(self) -> bool:
        """It is one that the reproduced sources rank, or generated like it."""
        return self.dataset.removeprefix(SYNTHETIC) in THESIS

    @property
    def label(self) -> str:
        """Text for one line of a table."""
        return self.title.replace("\n", " ")

    @property
    def title(self) -> str:
        """Text above a panel, on two lines where it is long: the reading of labels, or the sampling, stands below."""
        name = SampledName.of(self.dataset.removeprefix(SYNTHETIC))
        reading, known = _READING.fullmatch(name.source), THESIS.get(name.source, name.source)
        if self.sampled:
            title = f"{TITLES.get(name.source) or known}\n{name.described(self.nsr)}"
        elif reading and (described := TITLES.get(reading[1])):
            level = f"label\N{NO-BREAK SPACE}≥\N{NO-BREAK SPACE}{reading[2]}" if reading[2] else "graded"
            title = f"{described}\n{level}"
        else:
            title = TITLES.get(name.source) or known.replace(" ", "\n", 1)
        return f"synthetic\n{title}" if self.synthetic else title


@dataclass(frozen=True)
class Instances:
    """A data set as training reads it: a source at one sampling ratio, with one reading of its labels, or as pairs.

    Attributes:
        name: of its file: movielens-nsr2, mq2008-label1, aaf.
        source: the data set of the configuration that it is made from: movielens, mq2008, aaf.
        kind: the section that defines the source, and the folder of its parquet file: interactions, lists or images.
        data_set: as it is called in the results.
        options: the options of `python -m rankbound_study sample`.
        features: `vgg16` if a network's features are read instead of an image's pixels.
    """

    name: str
    source: str
    kind: str
    data_set: DataSet
    options: Mapping[str, Any]
    features: str | None = None

    @property
    def path(self) -> str:
        """Its file; pixels and features of the same images share their pairs."""
        return f"<data>/instances/{self.source if self.features else self.name}.parquet"

    @property
    def inputs(self) -> dict[str, str]:
        """The files that training reads, by flag: the instances, and the file with the items' features."""
        files = {"instances": self.path}
        if self.kind != "interactions":
            files[self.kind] = converted_path(self.kind, self.source)
        if self.features:
            files["image_features"] = features_path(self.source)
        return files


def converted_path(kind: str, source: str) -> str:
    """Return the parquet file of a data set."""
    return f"<data>/{kind}/{source}.parquet"


def features_path(source: str) -> str:
    """Return the file of VGG16's features for the images of a data set."""
    return f"<data>/features/{source}-{VGG16}.parquet"
