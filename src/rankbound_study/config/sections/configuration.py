"""The whole configuration: its axes, its sections, and the checks across them."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo

from rankbound_study.config.data_sets import GRADED, SYNTHETIC, Instances
from rankbound_study.config.lines import KeyPath, listed, nearest, shown
from rankbound_study.config.score_distributions import EXACT, METHODS, SAMPLED, method_of, needs_distributions
from rankbound_study.config.sections.base import (
    Allowed,
    Axis,
    Bounding,
    Distinct,
    Fold,
    Folder,
    Keys,
    Name,
    Positive,
    Problem,
    Protocol,
    Rate,
    Seed,
    Share,
    TrainingSeed,
    optional,
    problem,
    within,
)
from rankbound_study.config.sections.data import ImageKeys, InteractionKeys, ListKeys, SourceKeys
from rankbound_study.config.sections.halves import ComparisonKeys, ExperimentKeys, TrainingKeys
from rankbound_study.vocabulary import CONTROLS, HONEST, JUDGED_BY, LOSSES, PUBLISHED

REQUIRED_TABLE = "table_5_1"
"""The table without which there is no document."""


class PathvarKeys(Keys):
    """Folders that the workflow writes to."""

    data: Folder = Field(description="Raw archives and data derived from them")
    results: Folder = Field(description="Distributions, runs, tables, figures, paper")
    logs: Folder = Field(description="Output of every step")


Method = Annotated[str, Allowed(*METHODS)]


def _methods(value: Any) -> Any:
    by_protocol = value if isinstance(value, dict) else {PUBLISHED: value}
    if not by_protocol or any(method not in METHODS for method in by_protocol.values()):
        raise problem(f"is {shown(value)}: expected {listed(METHODS)}, or one for each protocol: {_EXAMPLE}")
    if unknown := [name for name in by_protocol if name not in (PUBLISHED, HONEST)]:
        raise problem(f"has {shown(unknown[0])}: expected the protocols {PUBLISHED} and {HONEST}, as in {_EXAMPLE}")
    return value


_EXAMPLE = f"{{{PUBLISHED}: {SAMPLED}, {HONEST}: {EXACT}}}"
Methods = Annotated[Any, PlainValidator(_methods, json_schema_input_type=Method | dict[Protocol, Method])]


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

    def method_of(self, protocol: str, source: str) -> str:
        """Return the method for the lists of a data set in a protocol."""
        return method_of(self.method, self.datasets, protocol, source)


class LeaderboardKeys(Keys):
    """Settings of the leaderboard, which shows all models on one metric."""

    judged_by: Annotated[str, Allowed(*JUDGED_BY.values())] | None = optional(
        "The metric of all scores and tests (absent: nDCG)"
    )
    baseline: Annotated[str, Allowed(*(name for name in CONTROLS if name != "oracle"))] | None = optional(
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
    losses: Axis[Annotated[str, Allowed(*LOSSES)]] = Field(description="Losses that models are trained on")
    boundings: Axis[Bounding] = Field(description="Boundings of each loss")
    folds: Axis[Fold] = Field(description="Folds that run")
    seeds: dict[Protocol, Axis[TrainingSeed]] = Field(description="Repetitions of every training, by protocol")
    controls: Distinct[Annotated[str, Allowed(*CONTROLS)]] = Field(description="Models without a loss")
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
        yield from self._for_all_protocols(("seeds",), "list", self.seeds)
        yield from self._data_problems()
        for position, name in enumerate(self.datasets):
            yield from self._trained_problems(("datasets", position), name)
        baseline = self.leaderboard and self.leaderboard.baseline
        if baseline and baseline not in self.controls:
            yield ("leaderboard", "baseline"), f"is {baseline!r}, which controls does not have: add it there"
        if REQUIRED_TABLE not in self.tables:
            yield ("tables",), f"lacks {REQUIRED_TABLE}, from which the document is made: add it"
        yield from self._comparison_problems()
        yield from self._experiment_problems()
        yield from self._distribution_problems()

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
        return {name: self.comparisons[name] for name in (self.comparisons if self.compare is None else self.compare)}

    @property
    def varying(self) -> dict[str, ExperimentKeys]:
        """The experiments that run, by name."""
        return {name: self.experiments[name] for name in self._chosen_experiments}

    @property
    def _chosen_experiments(self) -> list[str]:
        return list(self.experiments) if self.experiment is None else self.experiment

    def _fold_count(self, name: str) -> int | None:
        """Return the number of folds of a data set of ratings or judged lists; None if nothing defines it."""
        keys = self.interactions.get(name) or self.lists.get(name)
        return keys.n_folds(name) if keys else None

    def _for_all_protocols(self, path: KeyPath, what: str, section: Mapping[str, object]) -> Iterator[Problem]:
        for protocol in [protocol for protocol in self.protocols if protocol not in section]:
            yield path, f"has no {what} for the protocol {protocol} (it has {listed(list(section))})"

    def _data_problems(self) -> Iterator[Problem]:
        """Yield what contradicts a data set's name, and what two data sets have in common."""
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

    def _distribution_problems(self) -> Iterator[Problem]:
        """Yield protocols without a method, and methods of data sets that nothing defines."""
        method = self.distributions.method
        of_experiments = [HONEST] if self._chosen_experiments else []
        for protocol in dict.fromkeys([*self.protocols, *of_experiments]) if isinstance(method, dict) else ():
            if protocol not in method:
                yield ("distributions", "method"), f"has no method for the protocol {protocol}: add it"
        defined = [*self.interactions, *self.lists]
        for name in [name for name in self.distributions.datasets if name not in defined]:
            hint = nearest(name, defined)
            yield ("distributions", "datasets", name), f"is not defined under interactions or lists{hint}"

    def _trained_problems(self, where: KeyPath, name: str) -> Iterator[Problem]:
        """Check a data set of the bounded half."""
        defined = [name for entries in self.sources.values() for name in entries]
        if name not in defined:
            yield where, f"is {name!r}, which neither interactions nor lists defines{nearest(name, defined)}"
        elif name in self.images:
            yield where, f"is {name!r}, which has pictures: name it in a comparison instead"
        elif name not in self.training:
            trained = listed(list(self.training)) or "none"
            yield ("training",), f"has no entry for the data set {name!r} (it has {trained})"
        else:
            training, path = self.training[name], ("training", name, "model", "name")
            yield from self._for_all_protocols(("training", name, "learning_rate"), "rate", training.learning_rate)
            if name in self.lists and training.model.name == "matrix-factorization":
                yield path, "is matrix-factorization: it learns items that recur between topics; judged lists need mlp"
            if name in self.interactions and training.model.name == "mlp":
                yield path, "is mlp: it reads features, and ratings have none; use matrix-factorization"
        there = self._fold_count(name)
        if there is not None and max(self.folds) > there:
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
        running = list(self.comparisons if self.compare is None else self.compare)
        taken, shown_first = dict[tuple[str, str], str](), dict[tuple[str, str | None], str]()
        for name in dict.fromkeys((*running, *self.comparisons)):
            if name not in self.comparisons:
                hint = nearest(name, list(self.comparisons))
                yield ("compare", running.index(name)), f"is {name!r}, which comparisons does not define{hint}"
                continue
            section, where = self.comparisons[name], ("comparisons", name)
            yield from within(where, section.data_problems(self.instances, self.images))
            for position, dataset in enumerate(section.datasets):
                if (instances := self.instances.get(dataset)) is None:
                    continue
                there = self._fold_count(instances.source)
                if there is not None and max(section.folds) > there:
                    yield (*where, "folds"), f"has {max(section.folds)}, but {dataset} has {there}"
                for method, base, _, _ in section.trained():
                    if (other := taken.setdefault((dataset, method), name)) != name:
                        text = f"also runs on {dataset} in comparisons.{other} as {method}: give it another name"
                        yield (*where, "methods", base), text
                table = (instances.kind, instances.features)
                beside = shown_first.setdefault(table, dataset) if name in running else dataset
                if beside.startswith(SYNTHETIC) != dataset.startswith(SYNTHETIC):
                    yield (
                        (*where, "datasets", position),
                        f"is {dataset!r} beside {beside!r}: a table shows generated data or real ones, not both; "
                        "make two studies of them",
                    )

    def _experiment_problems(self) -> Iterator[Problem]:
        chosen = self._chosen_experiments
        for position, name in enumerate(chosen):
            # Results name a variant `study@experiment-variant`.
            for other in [other for other in chosen if other.startswith(f"{name}-")]:
                yield (
                    ("experiments", other),
                    f"begins with the name of another experiment, {name!r}, and a hyphen: its variants would count "
                    "as variants of that one; give it another name",
                )
            if name in self.experiments:
                problems = self.experiments[name].study_problems(name, self, self.instances)
                yield from within(("experiments", name), problems)
            else:
                hint = nearest(name, list(self.experiments))
                yield ("experiment", position), f"is {name!r}, which experiments does not define{hint}"
