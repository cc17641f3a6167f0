"""The sections of the experiments: trainings of the bounded half with one setting changed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, get_args

from pydantic import Field

from rankbound.texts import split_text
from rankbound_study.config.data_sets import Instances
from rankbound_study.config.experiments import Variant
from rankbound_study.config.lines import listed, nearest
from rankbound_study.config.list_weights import EXPECTED, LIST_WEIGHTS, PATTERN, ListWeights
from rankbound_study.config.samplings import SampledName
from rankbound_study.config.score_distributions import METHODS, needs_distributions
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
    Rate,
    Rates,
    Ratio,
    TrainingSeed,
    Width,
    Widths,
    within,
)
from rankbound_study.config.sections.training import (
    BOUNDED_MODELS,
    LAMBDARANK_NORM,
    Activation,
    Bias,
    MatrixFactorizationKeys,
    TrainerSettings,
    TreeOptions,
)
from rankbound_study.vocabulary import BOOSTED_TREES, HONEST, JUDGED_BY

if TYPE_CHECKING:
    from rankbound_study.config.sections.configuration import Configuration

MODELS = {get_args(model.model_fields["name"].annotation)[0]: model for model in BOUNDED_MODELS}
"""The models whose options a variant may change, or state for another model."""


OF_TRAINER = {*TrainerSettings.model_fields, "scale", LIST_WEIGHTS}
"""The settings of models that are trained by epochs; trees have none of them."""


class ModelOptions(TreeOptions):
    """Options of the model that a variant changes, or another model by its name, with all of its options."""

    name: Annotated[str, Allowed(*MODELS)] | None = Field(
        None, description="Name of the model (absent: that of the data set)"
    )
    rounds: Epochs | None = Field(None, description="Trees to grow, of which the validation part selects the number")
    every: Positive | None = Field(None, description="Trees between measurements")
    learning_rate: Rates | None = Field(None, description="Learning rate of boosting, or a grid of rates")
    lambdarank_norm: bool | None = Field(None, description=LAMBDARANK_NORM)
    factors: Width | None = Field(None, description="Length of a topic's or item's vector")
    bias: Bias | None = Field(
        None, description="A bias of each item, by which it ranks higher or lower for all topics (absent: none)"
    )
    spread: Rate | None = Field(None, description="Largest absolute initial value of the factors, which start uniform")
    hidden: Widths | None = Field(None, description="Width of each hidden layer")
    activation: Activation | None = Field(None, description="Activation after each hidden layer")


class VariantKeys(TrainerSettings):
    """Changed settings of the trainings."""

    model: ModelOptions | None = Field(None, description="Options of the model")
    temperature: Rate | None = Field(None, description="Temperature of the sigmoid in a smooth rank")
    distributions: Annotated[str, Allowed(*METHODS)] | None = Field(
        None, description="How the score distributions of the distribution bounding are made (absent: as usual)"
    )
    validation_share: ProperShare | None = Field(
        None,
        description="For data sets of ratings: share of each user's training ratings for validation "
        "(absent: as sampled)",
    )
    test_nsr: Ratio | None = Field(
        None, description="For data sets of ratings: sampling ratio of the test lists (absent: that of the training)"
    )
    test_relevant: Positive | None = Field(
        None, description="Number of relevant items kept per test list, drawn at random (absent: all)"
    )
    list_weights: Annotated[str, Allowed(pattern=PATTERN, expected=EXPECTED)] | None = Field(
        None, description="Weights of the training lists, with mean 1 (absent: each list counts alike)"
    )
    judged_by: Annotated[str, Allowed("nDCG", "AP", "RR", "P@5", "P@10", "nDCG@10")] | None = Field(
        None, description="The metric that selects an epoch on the validation part (absent: the loss' own)"
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
            yield (
                ("distributions",),
                "is for the bounding distribution, which boundings has not: add it, or remove this",
            )
        if not instances.data_set.sampled:
            for key in [key for key in ("test_nsr", "validation_share") if key in self.model_fields_set]:
                yield (key,), f"is for data sets of ratings only, and {instances.name} has judged lists"
            return
        sampling = SampledName.of(instances.data_set.dataset).sampling
        if self.validation_share is not None and not sampling.draws:
            yield ("validation_share",), f"needs parts without common items, and those of {instances.name} share most"
        ratios = [one for one in config.interactions[instances.source].nsr or () if isinstance(one, int)]
        if self.test_nsr is not None and (not instances.data_set.nsr or sampling.train != sampling.test):
            yield ("test_nsr",), f"needs lists drawn at one ratio, and {instances.name} has others"
        elif self.test_nsr is not None and self.test_nsr not in ratios:
            there = listed([str(ratio) for ratio in ratios])
            yield ("test_nsr",), f"is {self.test_nsr}, but interactions.{instances.source}.nsr has {there}"
        if self.validation_share is not None and sized:
            yield (
                ("validation_share",),
                f"changes the list sizes, for which {sized[0]} needs tables: remove that bounding",
            )

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
        for option in [option for option, field in options.items() if field.is_required() and option not in stated]:
            yield (), f"is {name} without {option}: give it a value"
        reads_topics = MODELS[name] is MatrixFactorizationKeys
        if reads_topics != instances.data_set.sampled:
            reads = "items that recur between topics" if reads_topics else "features"
            yield ("name",), f"is {name}, which reads {reads}: {instances.name} has none"


class ExperimentKeys(Keys):
    """Variants of the trainings of some data sets; unspecified axes are the study's."""

    datasets: Axis[Name] = Field(description="Data sets as training reads them: movielens-nsr2, mq2008-label1")
    losses: Axis[Loss] | None = Field(
        None, description="Losses that models are trained on, as the library names them (absent: those of the study)"
    )
    boundings: Axis[Bounding] | None = Field(None, description="Boundings of each loss (absent: those of the study)")
    folds: Axis[Fold] | None = Field(None, description="Folds that run (absent: those of the study)")
    seeds: Axis[TrainingSeed] | None = Field(
        None, description="Repetitions of every training (absent: the study's of the honest protocol)"
    )
    variants: dict[Name, VariantKeys] = Field(min_length=1, description="The changed settings, by the variant's name")

    def trained(self, name: str, config: "Configuration") -> Iterator[Variant]:
        """Yield every variant with its trainings; unspecified axes are the study's."""
        for variant, changes in self.variants.items():
            yield Variant(
                name,
                variant,
                self.datasets,
                self.losses or config.losses,
                self.boundings or config.boundings,
                self.folds or config.folds,
                self.seeds or config.seeds.get(HONEST, [0]),
                changes,
            )

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
        yield from self._loss_problems(boundings)
        yield from self._weight_problems()

    def _loss_problems(self, boundings: Sequence[str]) -> Iterator[Problem]:
        """Losses other than the study's cannot be bounded, and no metric judges them."""
        for position, loss in enumerate(self.losses or []):
            if loss in JUDGED_BY:
                continue
            if list(boundings) != ["none"]:
                yield ("losses", position), f"is {loss!r}, which cannot be bounded: boundings should be [none]"
            for variant, changes in self.variants.items():
                if changes.judged_by is None:
                    yield ("variants", variant), f"has no judged_by, which {loss!r} needs: it has no metric of its own"

    def _weight_problems(self) -> Iterator[Problem]:
        """Yield weights of a bounding for losses without a metric."""
        without = [loss for loss in self.losses or [] if split_text(loss, "loss")[0] not in METRIC_LOSSES]
        for variant, changes in self.variants.items():
            text = changes.list_weights
            if without and text is not None and ListWeights.of(text).bound:
                problem = f"is {text}, which bounds a metric, and {without[0]!r} is none: use a power, such as pairs^-1"
                yield ("variants", variant, "list_weights"), problem
