"""The sections of what is trained: the bounded half's models, the comparisons, and experiments that change a setting.

The runs of experiments have a separate table, and their variant is part of the study's name, so they never mix with the
study's own runs. Their random seeds are the study's, so both are paired.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import Field

from rankbound.texts import split_text
from rankbound_study.config.comparisons import OF_FEATURES, TESTING
from rankbound_study.config.data_sets import Instances, SampledName
from rankbound_study.config.lines import listed, nearest
from rankbound_study.config.list_weights import EXPECTED, LIST_WEIGHTS, PATTERN, ListWeights
from rankbound_study.config.score_distributions import METHODS, needs_distributions
from rankbound_study.config.sections import training as models
from rankbound_study.config.sections.base import (
    METRIC_LOSSES,
    Allowed,
    Axis,
    Bounding,
    Epochs,
    Fold,
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
    TrainingSeed,
    Width,
    Widths,
    optional,
    within,
)
from rankbound_study.config.sections.data import ImageKeys
from rankbound_study.vocabulary import BOOSTED_TREES, HONEST, JUDGED_BY

if TYPE_CHECKING:
    from rankbound_study.config.sections.configuration import Configuration


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

    def problems(self) -> Iterator[Problem]:
        """Yield a scale of features for a model that reads none."""
        if self.scale is not None and self.model.name == "matrix-factorization":
            yield ("scale",), "is for models that read features: remove it"


OWN_LOSS = "hinge"
"""What stands for the loss of a ranker that has its own; it trains on the lists that this loss can learn from."""


class MethodKeys(Keys):
    """A model, a loss and settings."""

    family: Annotated[str, Allowed("rank", "class", "reg")] = Field(
        description="Ranks items, classifies them as relevant or not, or estimates their values"
    )
    model: Annotated[models.Method, Field(discriminator="name")] = Field(description="The model to fit")
    loss: Loss = Field(description="The loss, as the library names it")
    target: Annotated[str, Allowed("relevance", "value")] | None = optional(
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
    judged_by: Annotated[str, Allowed("nDCG", "nDCG@10", "AP", "PairAccuracy")] = Field(
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
            Allowed(
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
                yield where, f"is {name!r}, which nothing defines{nearest(name, list(defined))}"
                continue
            instances = defined[name]
            if instances.data_set.sampled:
                yield where, f"is {name!r}: methods read features, and ratings have none"
            if moved and (instances.kind != "images" or instances.features):
                yield ("methods", moved[0]), f"has the setting shift, which moves pictures: {name} has no pixels"
            if instances.kind == "images":
                there = images[instances.source].folds
                if max(self.folds) > there:
                    yield ("folds",), f"has {max(self.folds)}, but images.{instances.source} makes {there}"
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


MODELS = {get_args(model.model_fields["name"].annotation)[0]: model for model in models.BOUNDED_MODELS}
"""The models whose options a variant may change, or state for another model."""

OF_TRAINER = {*models.TrainerSettings.model_fields, "scale", LIST_WEIGHTS}
"""The settings of models that are trained by epochs; trees have none of them."""


class ModelOptions(models.TreeOptions):
    """Options of the model that a variant changes, or another model by its name, with all of its options."""

    name: Annotated[str, Allowed(*MODELS)] | None = optional("Name of the model (absent: that of the data set)")
    rounds: Epochs | None = optional("Trees to grow, of which the validation part selects the number")
    every: Positive | None = optional("Trees between measurements")
    learning_rate: Rates | None = optional("Learning rate of boosting, or a grid of rates")
    lambdarank_norm: bool | None = optional(models.LAMBDARANK_NORM)
    factors: Width | None = optional("Length of a topic's or item's vector")
    bias: models.Bias | None = optional(
        "A bias of each item, by which it ranks higher or lower for all topics (absent: none)"
    )
    spread: Rate | None = optional("Largest absolute initial value of the factors, which start uniform")
    hidden: Widths | None = optional("Width of each hidden layer")
    activation: models.Activation | None = optional("Activation after each hidden layer")


class VariantKeys(models.TrainerSettings):
    """Changed settings of the trainings."""

    model: ModelOptions | None = optional("Options of the model")
    temperature: Rate | None = optional("Temperature of the sigmoid in a smooth rank")
    distributions: Annotated[str, Allowed(*METHODS)] | None = optional(
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
    list_weights: Annotated[str, Allowed(pattern=PATTERN, expected=EXPECTED)] | None = optional(
        "Weights of the training lists, with mean 1 (absent: each list counts alike)"
    )
    judged_by: Annotated[str, Allowed("nDCG", "AP", "RR", "P@5", "P@10", "nDCG@10")] | None = optional(
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
        usual = training.model.name
        name = (self.model and self.model.name) or usual
        if name == BOOSTED_TREES:
            for key in sorted(self.model_fields_set & OF_TRAINER):
                yield (key,), f"is for models that are trained by epochs, not for {name}: remove it"
        elif HONEST not in training.learning_rate and self.learning_rate is None:
            yield (), f"has no learning_rate, nor has training.{instances.source} one for honest runs"
        yield from within(("model",), self._model_problems(name, usual, instances))
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

    def _model_problems(self, name: str, usual: str, instances: Instances) -> Iterator[Problem]:
        """Yield options that a model does not have, those that another one lacks, and models that nothing fits."""
        stated = self.model.model_fields_set - {"name"} if self.model else set()
        options = {option: field for option, field in MODELS[name].model_fields.items() if option != "name"}
        owner = f", the model of {instances.name}" if name == usual else ""
        for option in sorted(stated - set(options)):
            its = f"its options: {listed(list(options))}" if options else "it has no options"
            yield (option,), f"is not an option of {name}{owner} ({its})"
        if name == usual:
            return
        for option, field in options.items():
            if field.is_required() and option not in stated:
                yield (), f"is {name} without {option}: give it a value"
        reads_topics = MODELS[name] is models.MatrixFactorizationKeys
        if reads_topics != instances.data_set.sampled:
            reads = "items that recur between topics" if reads_topics else "features"
            yield ("name",), f"is {name}, which reads {reads}: {instances.name} has none"


@dataclass(frozen=True)
class Variant:
    """One setting of an experiment.

    Attributes:
        experiment, name: `factors`, `16`.
        datasets, losses, boundings, folds, seeds, crossed: the trainings of the variant.
        changes: the changed settings of the training; those of the model are merged.
    """

    experiment: str
    name: str
    datasets: list[str]
    losses: list[str]
    boundings: list[str]
    folds: list[int]
    seeds: list[int]
    crossed: bool
    changes: VariantKeys

    @property
    def id(self) -> str:
        """`factors-16`."""
        return f"{self.experiment}-{self.name}"

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
            yield Variant(name, variant, self.datasets, *axes, seeds, self.crossed, changes)

    def study_problems(self, name: str, config: "Configuration", defined: Mapping[str, Instances]) -> Iterator[Problem]:
        """Yield what contradicts the rest of the study."""
        boundings = self.boundings or config.boundings
        for position, dataset in enumerate(self.datasets):
            where = ("datasets", position)
            if dataset not in defined:
                hint = f"{nearest(dataset, list(defined))} (or leave {name} out of `experiment`)"
                yield where, f"is {dataset!r}, which nothing defines{hint}"
            elif (source := defined[dataset].source) not in config.training:
                trained = listed(list(config.training)) or "none"
                yield where, f"is {dataset!r}, but training has no entry for {source!r} (it has {trained})"
            else:
                for variant, changes in self.variants.items():
                    problems = changes.data_problems(defined[dataset], boundings, config)
                    yield from within(("variants", variant), problems)
        for position, loss in enumerate(self.losses or []):
            # Losses other than the study's cannot be bounded, and no metric judges them.
            if loss not in JUDGED_BY and list(boundings) != ["none"]:
                yield ("losses", position), f"is {loss!r}, which cannot be bounded: boundings should be [none]"
            for variant, changes in self.variants.items():
                if loss not in JUDGED_BY and changes.judged_by is None:
                    yield ("variants", variant), f"has no judged_by, which {loss!r} needs: it has no metric of its own"
        without = [loss for loss in self.losses or [] if split_text(loss, "loss")[0] not in METRIC_LOSSES]
        for variant, changes in self.variants.items():
            text = changes.list_weights
            if without and text is not None and ListWeights.of(text).bound:
                problem = f"is {text}, which bounds a metric, and {without[0]!r} is none: use a power, such as pairs^-1"
                yield ("variants", variant, "list_weights"), problem
