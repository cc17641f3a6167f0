"""The configuration of a study: what is trained, its axes and data sets, and the checks across all sections.

Trained are the bounded half's models, the methods of comparisons, and experiments that change a setting. The runs of
experiments have a separate table, and their variant is part of the study's name, so they never mix with the study's own
runs. Their random seeds are the study's, so both are paired.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError, ValidationInfo

from rankbound.texts import split_text
from rankbound_study.config.data_sets import GRADED, SYNTHETIC, Instances, SampledName
from rankbound_study.config.sections import training as models
from rankbound_study.config.sections.base import (
    METRIC_LOSSES,
    Axis,
    Bounding,
    Distinct,
    Epochs,
    Fold,
    Folder,
    KeyPath,
    Keys,
    Loss,
    Name,
    Positive,
    Problem,
    ProperShare,
    Protocol,
    Rate,
    Rates,
    Ratio,
    Section,
    Seed,
    Share,
    TrainingSeed,
    allowed,
    expecting,
    explained,
    listed,
    nearest,
    optional,
    problem,
    shown,
    undefined,
    within,
)
from rankbound_study.config.sections.data import ImageKeys, InteractionKeys, ListKeys, SourceKeys
from rankbound_study.vocabulary import (
    BOOSTED_TREES,
    CONTROLS,
    EXACT,
    HONEST,
    JUDGED_BY,
    LIST_WEIGHTS,
    LOSSES,
    METHODS,
    OF_FEATURES,
    PUBLISHED,
    SAMPLED,
    ListWeights,
    needs_distributions,
)

REQUIRED_TABLE = "table_5_1"
"""The table without which there is no document."""


class TrainingKeys(Keys):
    """The model of a data set and its budget, the same for all losses and boundings."""

    model: Annotated[models.MatrixFactorizationKeys | models.NetworkKeys, Field(discriminator="name")] = Field(
        description="The model to train"
    )
    learning_rate: dict[Protocol, Rates] = Field(
        min_length=1, description="Adam's learning rate, or a grid from which every fold selects one, by protocol"
    )
    epochs: Epochs = Field(description="Number of epochs, of which the protocol selects one")
    batch_size: Positive = Field(description="Lists in a batch")
    scale: models.Scale | None = optional("Features standardised by the training items, or (absent, none) as they are")

    def model_with(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the model with some options changed, or another one, by its name and with all of its options."""
        usual = self.model.given()
        return {**usual, **changes} if changes.get("name", usual["name"]) == usual["name"] else dict(changes)

    def problems(self) -> Iterator[Problem]:
        """Yield a scale of features for a model that reads none."""
        if self.scale is not None and self.model.name == "matrix-factorization":
            yield ("scale",), "is for models that read features: remove it"


OWN_LOSS = "hinge"
"""What stands for the loss of a ranker that has its own; it trains on the lists that this loss can learn from."""


class MethodKeys(Keys):
    """A model, a loss and settings."""

    family: Annotated[str, allowed("rank", "class", "reg")] = Field(
        description="Ranks items, classifies them as relevant or not, or estimates their values"
    )
    model: Annotated[models.Method, Field(discriminator="name")] = Field(description="The model to fit")
    loss: Loss = Field(description="The loss, as the library names it")
    target: Annotated[str, allowed("relevance", "value")] | None = optional(
        "The training target: relevance labels, or the items' own values (ages)"
    )
    settings: models.MethodSettings | None = optional(
        "Settings that take precedence over the comparison's; null removes one"
    )

    def problems(self) -> Iterator[Problem]:
        """Yield losses and targets that the model does not take."""
        if isinstance(self.model, models.RandomForestKeys | models.PenalisedKeys) and self.loss != "squared":
            yield ("loss",), f"is {self.loss!r}: {self.model.name} requires squared"
        if (
            isinstance(self.model, models.RankerKeys)
            and self.model.name not in models.OF_METRICS
            and self.loss != OWN_LOSS
        ):
            yield ("loss",), f"is {self.loss!r}: {self.model.name} has its own, which {OWN_LOSS} stands for"
        if isinstance(self.model, models.PenalisedKeys) and self.target != "value":
            yield (), "is a regression: it needs target: value"


class ComparisonKeys(Keys):
    """Methods that are compared on data sets."""

    datasets: Axis[Name] = Field(description="Data sets as training reads them: mq2008-label1, aaf, aaf-vgg16")
    judged_by: Annotated[str, allowed("nDCG", "nDCG@10", "AP", "PairAccuracy")] = Field(
        description="The metric that selects an epoch on the validation part"
    )
    feature_counts: Axis[Positive] | None = optional(
        "Numbers of randomly drawn feature columns; every method runs once per number; ascending"
    )
    folds: Axis[Fold] = Field(description="Folds that run")
    seeds: Axis[TrainingSeed] = Field(description="Repetitions of every training")
    settings: models.MethodSettings | None = optional("Settings of the trainer, unless a method has its own")
    methods: dict[
        Annotated[
            str,
            allowed(
                pattern="[A-Z][A-Za-z0-9]*(-[A-Za-z0-9]+)*",
                expected="a name of letters, digits and hyphens that starts with a capital, such as Rank-LR",
            ),
        ],
        MethodKeys,
    ] = Field(min_length=1, description="Models and losses by name")

    def problems(self) -> Iterator[Problem]:
        """Yield numbers of features out of order, and networks without settings of their trainer."""
        counts = self.feature_counts or []
        if counts != sorted(counts):
            yield ("feature_counts",), f"is {counts}: expected ascending numbers, {sorted(counts)}"
        for name, method in self.methods.items():
            where = ("methods", name)
            if counts and isinstance(method.model, models.ConvolutionKeys):
                text = "is a cnn, which reads whole pictures, not some of their pixels (feature_counts)"
                yield where, f"{text}: remove it from this comparison"
            if isinstance(method.model, models.NetworkKeys | models.LinearKeys | models.ConvolutionKeys):
                settings = self.settings_of(method)
                for key in (key for key in models.TrainerSettings.model_fields if key not in settings):
                    yield where, f"is trained without {key}: neither its settings nor the comparison's have one"

    def data_problems(self, defined: Mapping[str, Instances], images: Mapping[str, ImageKeys]) -> Iterator[Problem]:
        """Yield data sets that nothing defines, and those that the methods cannot use."""
        moved = [name for name, method in self.methods.items() if self.settings_of(method).get("shift")]
        for position, name in enumerate(self.datasets):
            where = ("datasets", position)
            if name not in defined:
                yield where, undefined(name, defined)
                continue
            instances = defined[name]
            if instances.data_set.sampled:
                yield where, f"is {name!r}: methods read features, and ratings have none"
            if moved and (instances.kind != "images" or instances.features):
                yield ("methods", moved[0]), f"has the setting shift, which moves pictures: {name} has no pixels"
            if instances.kind == "images":
                if instances.features and images[instances.source].vgg16_side is None:
                    yield where, f"is {name!r}, which needs images.{instances.source}.vgg16_side"
                continue
            for method in (method for method, own in self.methods.items() if own.target == "value"):
                yield ("methods", method, "target"), f"is value: items of {name} have only relevance labels"

    def trained(self) -> Iterator[tuple[str, str, MethodKeys, int | None]]:
        """Yield each method with its names in the results and here; with `feature_counts`, once for each count."""
        counts: Sequence[int | None] = self.feature_counts or (None,)
        for (name, method), count in product(self.methods.items(), counts):
            yield name if count is None else f"{name}{OF_FEATURES}{count}", name, method, count

    def settings_of(self, method: MethodKeys) -> dict[str, Any]:
        """Return the comparison's settings with the method's own merged over them; null removes one.

        Trees and penalised regressions have no trainer; only moved pictures and the features' scale apply to them.
        """
        merged = {key: value for own in (self.settings, method.settings) if own for key, value in own.given().items()}
        kept = {
            models.RankerKeys: ("scale", "epochs"),
            models.PenalisedKeys: ("scale", "shift"),
            models.BoostedTreeKeys: ("shift",),
            models.RandomForestKeys: ("shift",),
        }
        names = kept.get(type(method.model), tuple(merged))
        return {key: value for key, value in merged.items() if value is not None and key in names}


_BOUNDED: TypeAdapter[models.Bounded] = TypeAdapter(Annotated[models.Bounded, Field(discriminator="name")])

TESTING = ("test_nsr", "test_relevant", "judged_by")
"""The settings that change how a training is measured, not how it is done."""

OF_TRAINER = {*models.TrainerSettings.model_fields, "scale", LIST_WEIGHTS}
"""The settings of models that are trained by epochs; trees have none of them."""


# Only with those of the data set's own model are they whole, and can be validated.
ModelOptions = Annotated[dict[str, Any], BeforeValidator(lambda value: value, json_schema_input_type=models.Bounded)]


class VariantKeys(models.TrainerSettings):
    """Changed settings of the trainings."""

    model: ModelOptions | None = optional("Options of the model, or another one by its name, with all of its options")
    temperature: Rate | None = optional("Temperature of the sigmoid in a smooth rank")
    distributions: Annotated[str, allowed(*METHODS)] | None = optional(
        "How the score distributions of the distribution bounding are made (absent: as usual)"
    )
    validation_share: ProperShare | None = optional(
        "For data sets of ratings: share of each user's training ratings for validation (absent: as sampled)"
    )
    test_nsr: Ratio | None = optional(
        "For data sets of ratings: sampling ratio of the test lists (absent: that of the training)"
    )
    test_relevant: Positive | None = optional(
        "Number of relevant items kept per test list, drawn at random (absent: all)"
    )
    list_weights: Annotated[str, allowed(pattern=ListWeights.PATTERN, expected=ListWeights.EXPECTED)] | None = optional(
        "Weights of the training lists, with mean 1 (absent: each list counts alike)"
    )
    judged_by: Annotated[str, allowed("nDCG", "AP", "RR", "P@5", "P@10", "nDCG@10")] | None = optional(
        "The metric that selects an epoch on the validation part (absent: the loss' own)"
    )

    def problems(self) -> Iterator[Problem]:
        """Yield that nothing is changed."""
        if not self.model_fields_set:
            yield (), "changes no setting"

    def data_problems(
        self, instances: Instances, boundings: Sequence[str], config: "Configuration"
    ) -> Iterator[Problem]:
        """Yield settings that a data set, or its model, does not have."""
        training = config.training[instances.source]
        usual, model = training.model.name, training.model_with(self.model or {})
        if (name := model["name"]) == BOOSTED_TREES:
            for key in sorted(self.model_fields_set & OF_TRAINER):
                yield (key,), f"is for models that are trained by epochs, not for {name}: remove it"
        elif HONEST not in training.learning_rate and self.learning_rate is None:
            yield (), f"has no learning_rate, nor has training.{instances.source} one for honest runs"
        try:
            reads_topics = isinstance(_BOUNDED.validate_python(model), models.MatrixFactorizationKeys)
            if name != usual and reads_topics != instances.data_set.sampled:
                reads = "items that recur between topics" if reads_topics else "features"
                yield ("model", "name"), f"is {name}, which reads {reads}: {instances.name} has none"
        except ValidationError as error:
            yield from within(("model",), explained(error, model, models.Bounded))
        sized = [bounding for bounding in boundings if needs_distributions(bounding)]
        if self.distributions is not None and not sized:
            text = "is for the bounding distribution, which boundings has not: add it, or remove this"
            yield ("distributions",), text
        if not instances.data_set.sampled:
            for key in sorted({"test_nsr", "validation_share"} & self.model_fields_set):
                yield (key,), f"is for data sets of ratings only, and {instances.name} has judged lists"
            return
        sampling = SampledName.of(instances.data_set.dataset).sampling
        if self.validation_share is not None and not sampling.draws:
            yield ("validation_share",), f"needs parts without common items, and those of {instances.name} share most"
        ratios = [one for one in config.interactions[instances.source].nsr or () if isinstance(one, int)]
        if self.test_nsr is not None and (not instances.data_set.nsr or sampling.train != sampling.test):
            yield ("test_nsr",), f"needs lists drawn at one ratio, and {instances.name} has others"
        elif self.test_nsr is not None and self.test_nsr not in ratios:
            there = listed(list(map(str, ratios)))
            yield ("test_nsr",), f"is {self.test_nsr}, but interactions.{instances.source}.nsr has {there}"
        if self.validation_share is not None and sized:
            text = f"changes the list sizes, for which {sized[0]} needs tables: remove that bounding"
            yield ("validation_share",), text


@dataclass(frozen=True)
class Variant:
    """One setting of an experiment.

    Attributes:
        id, experiment: `factors-16`, `factors`.
        datasets, losses, boundings, folds, seeds, crossed: the trainings of the variant.
        changes: the changed settings of the training; those of the model are merged.
    """

    id: str
    experiment: str
    datasets: list[str]
    losses: list[str]
    boundings: list[str]
    folds: list[int]
    seeds: list[int]
    crossed: bool
    changes: VariantKeys

    @property
    def is_a_choice(self) -> bool:
        """True if it changes a choice of the training, not the weights of lists, and is evaluated like the study."""
        return not self.changes.model_fields_set & {*TESTING, LIST_WEIGHTS}

    @property
    def instances(self) -> list[str]:
        """All data sets that it reads."""
        others = [other for dataset in self.datasets if (other := self.tested_on(dataset))]
        return list(dict.fromkeys([*self.datasets, *others]))

    def tested_on(self, dataset: str) -> str | None:
        """Return the data set with the test lists, if not its own: `movielens-nsr1` for `movielens-nsr3`."""
        nsr = self.changes.test_nsr
        return None if nsr is None else f"{dataset.rpartition('-nsr')[0]}-nsr{nsr}"


class ExperimentKeys(Keys):
    """Variants of the trainings of some data sets; unspecified axes are the study's."""

    datasets: Axis[Name] = Field(description="Data sets as training reads them: movielens-nsr2, mq2008-label1")
    losses: Axis[Loss] | None = optional(
        "Losses that models are trained on, as the library names them (absent: those of the study)"
    )
    boundings: Axis[Bounding] | None = optional("Boundings of each loss (absent: those of the study)")
    folds: Axis[Fold] | None = optional("Folds that run (absent: those of the study)")
    seeds: Axis[TrainingSeed] | None = optional(
        "Repetitions of every training (absent: the study's of the honest protocol)"
    )
    crossed: bool = Field(
        True, description="Train every fold with every seed; false: they take turns, fold 1 with the first seed, ..."
    )
    variants: dict[Name, VariantKeys] = Field(min_length=1, description="The changed settings, by the variant's name")

    def trained(self, name: str, config: "Configuration") -> Iterator[Variant]:
        """Yield every variant with its trainings; unspecified axes are the study's."""
        axes = (self.losses or config.losses, self.boundings or config.boundings, self.folds or config.folds)
        seeds = self.seeds or config.seeds.get(HONEST, [0])
        for variant, changes in self.variants.items():
            yield Variant(f"{name}-{variant}", name, self.datasets, *axes, seeds, self.crossed, changes)

    def study_problems(self, name: str, config: "Configuration", defined: Mapping[str, Instances]) -> Iterator[Problem]:
        """Yield what contradicts the rest of the study."""
        boundings = self.boundings or config.boundings
        for position, dataset in enumerate(self.datasets):
            where = ("datasets", position)
            if dataset not in defined:
                yield where, f"{undefined(dataset, defined)} (or leave {name} out of `experiment`)"
            elif (source := defined[dataset].source) not in config.training:
                trained = listed(list(config.training)) or "none"
                yield where, f"is {dataset!r}, but training has no entry for {source!r} (it has {trained})"
            else:
                for variant, changes in self.variants.items():
                    problems = changes.data_problems(defined[dataset], boundings, config)
                    yield from within(("variants", variant), problems)
        # Losses other than the study's cannot be bounded, and no metric judges them.
        others = {loss: position for position, loss in enumerate(self.losses or []) if loss not in JUDGED_BY}
        for loss, position in others.items() if list(boundings) != ["none"] else ():
            yield ("losses", position), f"is {loss!r}, which cannot be bounded: boundings should be [none]"
        without = [loss for loss in others if split_text(loss, "loss")[0] not in METRIC_LOSSES]
        for variant, changes in self.variants.items():
            for loss in others if changes.judged_by is None else ():
                yield ("variants", variant), f"has no judged_by, which {loss!r} needs: it has no metric of its own"
            text = changes.list_weights
            if without and text is not None and ListWeights.of(text).bound:
                text = f"is {text}, which bounds a metric, and {without[0]!r} is none: use a power, such as pairs^-1"
                yield ("variants", variant, "list_weights"), text


class PathvarKeys(Keys):
    """Folders that the workflow writes to."""

    data: Folder = Field(description="Raw archives and data derived from them")
    results: Folder = Field(description="Distributions, runs, tables, figures, paper")
    logs: Folder = Field(description="Output of every step")


Method = Annotated[str, allowed(*METHODS)]


_EXAMPLE = f"{{{PUBLISHED}: {SAMPLED}, {HONEST}: {EXACT}}}"
Methods = Annotated[
    Method | Annotated[dict[Protocol, Method], Field(min_length=1)],
    expecting(f"{listed(METHODS)}, or one for each protocol: {_EXAMPLE}"),
]


class DistributionKeys(Keys):
    """Score distributions over random orders."""

    method: Methods = Field(description="Recursion over ranks, or random orders; one for all protocols, or one each")
    datasets: dict[Name, Method] = Field({}, description="The method for a data set's lists, if it differs")
    samples: Positive = Field(description="Number of random orders; also used by the thesis' gain if exact")
    seed: Seed = Field(description="Seed of the random orders")

    @property
    def usual(self) -> str:
        """The method whose files are named by the loss alone: the only one, or `exact`."""
        return self.method if isinstance(self.method, str) else EXACT


class LeaderboardKeys(Keys):
    """Settings of the leaderboard, which shows all models on one metric."""

    judged_by: Annotated[str, allowed(*JUDGED_BY.values())] | None = optional(
        "The metric of all scores and tests (absent: nDCG)"
    )
    baseline: Annotated[str, allowed(*(name for name in CONTROLS if name != "oracle"))] | None = optional(
        "The control of all differences (absent: best-feature, popularity or random, if it runs)"
    )
    margin: Share | None = optional("Differences within it do not matter, in units of the metric (absent: 0.01)")


def _known(kind: str) -> AfterValidator:
    """Check a name against those of the context, if it has any: figures and tables are known by their modules."""

    def checked(name: str, info: ValidationInfo) -> str:
        names = (info.context or {}).get(kind)
        if names and name not in names:
            raise problem(f"is {shown(name)}: expected one of {listed(names)}{nearest(name, names)}")
        return name

    return AfterValidator(checked)


class Configuration(Keys):
    """The configuration of a study."""

    study: Name = Field(description="Name of the study, part of every run's key and of its random seeds")
    mirror: str = Field("", description="Folder or base URL with the raw archives by file name")
    pathvars: PathvarKeys = Field(description="Folders that the workflow writes to")
    protocols: Axis[Protocol] = Field(description="The part that selects the epoch; outputs show the first")
    datasets: Axis[Name] = Field(description="Names of entries of interactions and lists that run")
    losses: Axis[Annotated[str, allowed(*LOSSES)]] = Field(description="Losses that models are trained on")
    boundings: Axis[Bounding] = Field(description="Boundings of each loss")
    folds: Axis[Fold] = Field(description="Folds that run")
    seeds: dict[Protocol, Axis[TrainingSeed]] = Field(description="Repetitions of every training, by protocol")
    controls: Distinct[Annotated[str, allowed(*CONTROLS)]] = Field(description="Models without a loss")
    interactions: dict[Name, InteractionKeys] = Field({}, description="Data sets of ratings by name")
    lists: dict[Name, ListKeys] = Field({}, description="Data sets of judged lists by name")
    images: dict[Name, ImageKeys] = Field({}, description="Data sets of pictures by name")
    training: dict[str, TrainingKeys] = Field(description="Model and budget of each data set")
    compare: Distinct[Name] | None = optional("Names of entries of comparisons that run (absent: all)")
    comparisons: dict[Name, ComparisonKeys] = Field({}, description="Named methods, compared on data sets")
    experiment: Distinct[Name] | None = optional("Names of entries of experiments that run (absent: all)")
    experiments: dict[Name, ExperimentKeys] = Field(
        {}, description="Trainings of the bounded half with one setting changed"
    )
    leaderboard: LeaderboardKeys | None = optional("Metric, baseline and margin of table_leaderboard")
    temperature: Rate = Field(description="Temperature of the sigmoid in a smooth rank")
    distributions: DistributionKeys = Field(description="Score distributions over random orders")
    figures: Distinct[Annotated[str, _known("figures")]] = Field(description="Figures to draw")
    tables: Distinct[Annotated[str, _known("tables")]] = Field(description="Tables to make")

    def problems(self) -> Iterator[Problem]:
        """Yield what contradicts each other, such as data sets that run and have no training."""
        yield from _for_all(self.protocols, ("seeds",), "list", self.seeds)
        kinds, titles, archives = dict[str, str](), dict[str, str](), dict[str, str]()
        named = [(kind, name, entry) for kind, entries in self.sources.items() for name, entry in entries.items()]
        for kind, name, entry in named:
            yield from within((kind, name), entry.origin_problems(name))
            if (first := kinds.setdefault(name, kind)) != kind:
                yield (kind, name), f"is also defined under {first}: give one of them another name"
            title = entry.source and entry.source.title
            if title and (other := titles.setdefault(title, name)) != name:
                yield (kind, name, "source", "title"), f"is also that of {other}: tables would show two alike"
            if entry.archive and (owner := archives.setdefault(entry.archive, name)) != name:
                yield (kind, name, "archive"), f"is also that of {owner}: every data set has an archive of its own"
        for position, name in enumerate(self.datasets):
            yield from self._trained_problems(("datasets", position), name)
        baseline = self.leaderboard and self.leaderboard.baseline
        if baseline and baseline not in self.controls:
            yield ("leaderboard", "baseline"), f"is {baseline!r}, which controls does not have: add it there"
        if REQUIRED_TABLE not in self.tables:
            yield ("tables",), f"lacks {REQUIRED_TABLE}, from which the document is made: add it"
        for position, name in enumerate(self.compare or ()):
            if name not in self.comparisons:
                yield ("compare", position), undefined(name, self.comparisons, "comparisons do not define")
        for position, name in enumerate(self.experiment or ()):
            if name not in self.experiments:
                yield ("experiment", position), undefined(name, self.experiments, "experiments do not define")
        yield from self._comparison_problems()
        yield from self._experiment_problems()
        if isinstance(method := self.distributions.method, dict):
            protocols = dict.fromkeys([*self.protocols, *([HONEST] if self.varying else [])])
            yield from _for_all(protocols, ("distributions", "method"), "method", method)
        defined = [*self.interactions, *self.lists]
        for name in [name for name in self.distributions.datasets if name not in defined]:
            yield ("distributions", "datasets", name), undefined(name, defined, "interactions and lists do not define")

    @property
    def sources(self) -> dict[str, Mapping[str, SourceKeys]]:
        """The data sets by section and name."""
        return {"interactions": self.interactions, "lists": self.lists, "images": self.images}

    @cached_property
    def instances(self) -> dict[str, Instances]:
        """Every data set that is defined, as training reads it, by name."""
        named = ((name, section) for sections in self.sources.values() for name, section in sections.items())
        return {one.name: one for name, section in named for one in section.instances(name)}

    @property
    def running(self) -> dict[str, ComparisonKeys]:
        """The comparisons that run, by name."""
        return _chosen(self.compare, self.comparisons)

    @property
    def varying(self) -> dict[str, ExperimentKeys]:
        """The experiments that run, by name."""
        return _chosen(self.experiment, self.experiments)

    def _trained_problems(self, where: KeyPath, name: str) -> Iterator[Problem]:
        """Check a data set of the bounded half."""
        defined: dict[str, SourceKeys] = {**self.interactions, **self.lists}
        if name in self.images:
            yield where, f"is {name!r}, which has pictures: name it in a comparison instead"
            return
        if name not in defined:
            yield where, undefined(name, defined, "interactions and lists do not define")
            return
        if name not in self.training:
            trained = listed(list(self.training)) or "none"
            yield ("training",), f"has no entry for the data set {name!r} (it has {trained})"
        else:
            training, path = self.training[name], ("training", name, "model", "name")
            yield from _for_all(self.protocols, (*path[:2], "learning_rate"), "rate", training.learning_rate)
            if name in self.lists and training.model.name == "matrix-factorization":
                yield path, "is matrix-factorization: it learns items that recur between topics; judged lists need mlp"
            if name in self.interactions and training.model.name == "mlp":
                yield path, "is mlp: it reads features, and ratings have none; use matrix-factorization"
        if max(self.folds) > (there := defined[name].n_folds(name)):
            yield ("folds",), f"has {max(self.folds)}, but {name} has {there}"
        sized = [bounding for bounding in self.boundings if needs_distributions(bounding)]
        if sized and name in self.lists and GRADED in self.lists[name].thresholds:
            yield (
                ("lists", name, "thresholds", self.lists[name].thresholds.index(GRADED)),
                f"is {GRADED}, but boundings has {sized[0]}, whose tables need binary relevance: remove one of them, "
                f"or name {name}-{GRADED} in a comparison instead of {name} in datasets",
            )

    def _comparison_problems(self) -> Iterator[Problem]:
        """Yield what contradicts a comparison, or two of them, or one table that shows them."""
        taken, shown_first = dict[tuple[str, str], str](), dict[tuple[str, str | None], str]()
        for name, section in {**self.running, **self.comparisons}.items():
            where = ("comparisons", name)
            yield from within(where, section.data_problems(self.instances, self.images))
            for position, dataset in enumerate(section.datasets):
                if (instances := self.instances.get(dataset)) is None:
                    continue
                there = self.sources[instances.kind][instances.source].n_folds(instances.source)
                if max(section.folds) > there:
                    yield (*where, "folds"), f"has {max(section.folds)}, but {dataset} has {there}"
                for method, base, _, _ in section.trained():
                    if (other := taken.setdefault((dataset, method), name)) != name:
                        text = f"also runs on {dataset} in comparisons.{other} as {method}: give it another name"
                        yield (*where, "methods", base), text
                table = (instances.kind, instances.features)
                beside = shown_first.setdefault(table, dataset) if name in self.running else dataset
                if beside.startswith(SYNTHETIC) != dataset.startswith(SYNTHETIC):
                    yield (
                        (*where, "datasets", position),
                        f"is {dataset!r} beside {beside!r}: a table shows generated data or real ones, not both; "
                        "make two studies of them",
                    )

    def _experiment_problems(self) -> Iterator[Problem]:
        for name, section in self.varying.items():
            # Results name a variant `study@experiment-variant`.
            for other in [other for other in self.varying if other.startswith(f"{name}-")]:
                yield (
                    ("experiments", other),
                    f"begins with the name of another experiment, {name!r}, and a hyphen: its variants would count "
                    "as variants of that one; give it another name",
                )
            yield from within(("experiments", name), section.study_problems(name, self, self.instances))


def _chosen(names: Sequence[str] | None, sections: Mapping[str, Section]) -> dict[str, Section]:
    """Return the entries of these names, as far as they are defined; without names, all."""
    return {name: sections[name] for name in (sections if names is None else names) if name in sections}


def _for_all(protocols: Iterable[str], path: KeyPath, what: str, section: Mapping[str, object]) -> Iterator[Problem]:
    for protocol in [protocol for protocol in protocols if protocol not in section]:
        yield path, f"has no {what} for the protocol {protocol} (it has {listed(list(section))})"
