"""The sections of data sets: ratings, judged lists, pictures, and generated ones; how negatives are sampled."""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from rankbound_study.config.data_sets import (
    EVERY,
    FULL,
    GRADED,
    OWN,
    PLAIN,
    SAMPLINGS,
    SMALLEST_GENERATED,
    SYNTHETIC,
    TEST,
    TRAIN,
    UNIFORM,
    VGG16,
    DataSet,
    Instances,
    SampledName,
    Sampling,
    sampled_name,
    samplings_of,
)
from rankbound_study.config.sections.base import (
    LARGEST_RATIO,
    Ascending,
    AsWritten,
    Axis,
    Distinct,
    FileName,
    Fold,
    Keys,
    Positive,
    Problem,
    ProperShare,
    Ratio,
    Seed,
    allowed,
    expecting,
    listed,
    optional,
    problem,
)
from rankbound_study.config.sections.description import (
    FACES,
    LISTS,
    ORDINARY_FOLDS,
    RATINGS,
    DescriptionKeys,
    known_sets,
)

LARGEST_SPREAD = 3.0
"""Beyond it, the shortest lists of any affordable data set are empty."""


class PlantedKeys(Keys):
    """Ratings by utilities of planted tastes (`data/synthetic.py` has the formulas)."""

    spread: Annotated[float, Field(ge=0, le=LARGEST_SPREAD), AsWritten] = Field(
        0, description="Standard deviation of log P, P relevant items a user"
    )
    correlation: Annotated[float, Field(ge=0, le=1), AsWritten] = Field(
        0, description="Correlation of list size and kind of taste: 1 gives long lists to the minority"
    )
    rank: int = Field(4, ge=2, le=1000, multiple_of=2, description="Dimensions of tastes, one half for each kind")
    popularity: Annotated[float, Field(ge=0, le=1_000_000), AsWritten] = Field(
        0, description="Standard deviation of utilities that all users share"
    )
    mean_relevant: Positive = Field(175, description="Mean of P, the same at every spread")
    items: Positive = Field(3000, description="Items of the catalogue")


def _drawable(value: Any) -> Any:
    if isinstance(value, dict) and value[TRAIN] == value[TEST]:
        raise problem(f"has {value[TRAIN]} for both parts: write {value[TRAIN]} alone")
    if Sampling.of(value) not in EVERY:
        raise problem(f"trains on all irrelevant items, so that none is left to draw for {TEST}: use {FULL} there, too")
    return value


_Part = Annotated[str, allowed(*SAMPLINGS)]
SamplingValue = Annotated[
    _Part | Annotated[dict[Annotated[str, allowed(TRAIN, TEST)], _Part], Field(min_length=2)],
    expecting(f"one of {listed(SAMPLINGS)}, or one for each part: {{{TRAIN}: {UNIFORM}, {TEST}: {FULL}}}"),
    AfterValidator(_drawable),
]
Ratios = Annotated[
    Annotated[int, Field(ge=OWN, le=LARGEST_RATIO)] | Annotated[Distinct[Ratio], Field(min_length=2)],
    expecting(
        f"a whole number of at most {LARGEST_RATIO}, {OWN} for the user's own irrelevant items, or a list of different "
        "ratios from 1 on, of which each user has one"
    ),
    Ascending,
]


class SourceKeys(Keys):
    """The keys of every data set: known ones have an archive, others a source, generated ones a name `synthetic-*`."""

    kind: ClassVar[str]
    """The section that defines such data sets, and the folder of their parquet files."""
    formats: ClassVar[tuple[str, ...]]
    """The formats of descriptions that belong into this section."""

    archive: FileName | None = optional("File name of the raw archive, below the data folder's raw/")
    source: DescriptionKeys | None = optional("What the data set is, unless the project knows it")
    size: Annotated[int, Field(ge=SMALLEST_GENERATED, le=1_000_000)] | None = optional(
        "Users, queries or pictures to generate (synthetic data only)"
    )
    seed: Seed | None = optional("Seed of synthetic lists")

    def origin_problems(self, name: str) -> Iterator[Problem]:
        """Yield what contradicts the data set's name."""
        if not (parts := SampledName.of(name)).is_plain:
            yield (), f"ends like the name of a sampling ({name.removeprefix(parts.source)}): give it another name"
        if name.startswith(SYNTHETIC):
            for key in ("archive", "source"):
                if getattr(self, key) is not None:
                    yield (key,), f"is set for generated data (the name starts with {SYNTHETIC}): remove it"
            if self.seed is None:
                yield (), "is generated: give it a seed"
            return
        if self.size is not None:
            yield ("size",), f"is for generated data, whose names start with {SYNTHETIC}"
        if name in known_sets():
            if self.source is not None:
                yield ("source",), f"is set, but the project knows {name}: give data of your own another name"
            if self.archive is None:
                yield (), f"needs an archive: the raw file's name (generated data have names in {SYNTHETIC}*)"
        elif self.source is None:
            known = listed([one for one, keys in known_sets().items() if keys.format in self.formats])
            yield (), f"is not known (known are {known}): describe it under source, as docs/data.md says"
        elif (self.source.path is None) == (self.archive is None):
            found = "has an archive beside" if self.archive else "has neither an archive nor"
            yield (), f"{found} source.path: name the archive to fetch, or the path of files of yours"
        described = self.described(name)
        if described is not None and described.format not in self.formats:
            where = ("source", "format") if self.source else ()
            yield where, f"is {described.format}, which does not belong here: expected {listed(self.formats)}"

    def instances(self, name: str) -> Iterator[Instances]:
        """Yield what training reads of the data set of that name."""
        raise NotImplementedError

    def n_folds(self, name: str) -> int:
        """Return the number of folds of the data set of that name."""
        return described.n_folds if (described := self.described(name)) else ORDINARY_FOLDS

    def described(self, name: str) -> DescriptionKeys | None:
        """Return the description of the data set of that name; None for generated data."""
        return self.source or known_sets().get(name)


STAND_IN = f"{SYNTHETIC}movielens"
"""The generated ratings whose parameters are fixed."""


class InteractionKeys(SourceKeys):
    """A data set of ratings."""

    kind, formats = "interactions", (RATINGS,)

    threshold: Annotated[float, Field(ge=-1_000_000, le=1_000_000), AsWritten] = Field(
        description="Smallest relevant rating"
    )
    min_relevant: int = Field(ge=5, le=1_000_000, description="Smallest number of relevant items of a user, 1 per fold")
    nsr: Axis[Ratios] | None = optional(
        "Negatives per relevant item; 0: the user's own; a list: each user has one of these ratios"
    )
    sampling: Axis[SamplingValue] = Field(
        [UNIFORM], description="How negatives are chosen, by part if they differ; full: all irrelevant items"
    )
    validation_share: Annotated[float, Field(ge=0, lt=1), AsWritten] = Field(
        description="Share of a user's training positives for validation"
    )
    seed: Seed = Field(description="Seed of folds and negatives (and of synthetic ratings)")
    repeats: Annotated[int, Field(ge=1, le=25)] | None = optional(
        "Times that random folds and their negatives are drawn; training seeds take turns (absent: 1)"
    )
    planted: PlantedKeys | None = optional(
        "Sizes and tastes of generated ratings (absent: those of synthetic-movielens)"
    )

    def problems(self) -> Iterator[Problem]:
        """Yield ratios without draws, and draws without ratios."""
        samplings = [Sampling.of(value) for value in self.sampling]
        drawn = [one for one in samplings if one.draws]
        if drawn and self.nsr is None:
            yield (), f"needs nsr: negatives are drawn ({drawn[0].train}), so say how many per relevant item"
        if self.nsr is not None and not drawn:
            yield ("nsr",), f"is set, but sampling has {FULL} alone, which draws nothing: remove it"
        if OWN in (self.nsr or ()) and PLAIN not in samplings:
            yield ("nsr",), f"has {OWN}, at which nothing is drawn, so it needs {UNIFORM} in sampling"

    def origin_problems(self, name: str) -> Iterator[Problem]:
        """Yield what contradicts the data set's name, repeats of given folds, and planted parameters."""
        yield from super().origin_problems(name)
        if self.planted is not None and (name == STAND_IN or not name.startswith(SYNTHETIC)):
            yield ("planted",), f"is for generated data of your own, with other names in {SYNTHETIC}*: remove it"
        described = self.described(name)
        if self.repeats is not None and described and described.splitting:
            yield ("repeats",), f"draws random folds again, but the folds of {name} are given: remove it"

    def instances(self, name: str) -> Iterator[Instances]:
        """Yield its lists by every way of choosing irrelevant items."""
        shared = {key: getattr(self, key) for key in ("threshold", "min_relevant", "validation_share", "seed")}
        for sampling, nsr in samplings_of(self.sampling, self.nsr):
            sampled, ratio = sampled_name(name, sampling, nsr)
            file = sampled if ratio is None else f"{sampled}-nsr{ratio}"
            options = {**shared, "nsr": list(nsr) if isinstance(nsr, tuple) else nsr}
            # Uniform draws are the default of the step `sample`.
            options |= {} if sampling == PLAIN else {"sampling": sampling._asdict()}
            yield Instances(file, name, self.kind, DataSet(sampled, ratio), options)


_LARGEST_LABEL = 2**7 - 1
"""Tables store labels in 8 bits."""


Threshold = Annotated[
    Annotated[int, Field(ge=1, le=_LARGEST_LABEL)] | Annotated[str, allowed(GRADED)],
    expecting(f"the smallest relevant label, 1 to {_LARGEST_LABEL}, or {GRADED}"),
]


class ListKeys(SourceKeys):
    """A data set of judged lists."""

    kind, formats = "lists", LISTS

    thresholds: Axis[Threshold] = Field(
        description="Smallest relevant label, one data set each; graded: the labels themselves"
    )

    def instances(self, name: str) -> Iterator[Instances]:
        """Yield its lists by every reading of their labels."""
        for threshold in self.thresholds:
            read = f"{name}-{GRADED if threshold == GRADED else f'label{threshold}'}"
            options: dict[str, Any] = {GRADED: True} if threshold == GRADED else {"threshold": threshold}
            yield Instances(read, name, self.kind, DataSet(read, None), options)


class PairKeys(Keys):
    """The numbers of pairs of a data set of pictures."""

    train: Positive = Field(description="Pairs of the training part")
    validation: Positive = Field(description="Pairs of the validation part")
    test: Positive = Field(description="Pairs of the test part")


class ImageKeys(SourceKeys):
    """A data set of pictures."""

    kind, formats = "images", (FACES,)

    folds: Fold = Field(description="Random splits in training, validation and test part")
    validation_share: ProperShare = Field(description="Share of the pictures for validation")
    test_share: ProperShare = Field(description="Share of the pictures for testing")
    above: int = Field(ge=0, le=1000, description="Years by which the ages of a pair must differ at least, exclusive")
    pairs: PairKeys = Field(description="Pairs to draw from each part")
    seed: Seed = Field(description="Seed of splits and pairs (and of synthetic pictures)")
    vgg16_side: int | None = Field(
        None, ge=32, le=4096, description="Side of VGG16's input pictures (224 as published)"
    )

    def n_folds(self, name: str) -> int:
        """Return the number of splits."""
        return self.folds

    def instances(self, name: str) -> Iterator[Instances]:
        """Yield its pairs with pixels, and with a network's features."""
        options = {"above": self.above, "seed": self.seed}
        options |= {f"{part}_pairs": count for part, count in self.pairs.given().items()}
        for read, features in ((name, None), (f"{name}-{VGG16}", VGG16)):
            yield Instances(read, name, self.kind, DataSet(read, None), options, features)
