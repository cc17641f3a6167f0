"""The work that a study's configuration requests: data sets, training jobs, and their files.

The workflow's targets come from here. Paths begin with a path variable of the workflow (`<data>`, `<results>`), which
the configuration's `pathvars` resolve.

A study has two halves. The *bounded* half trains every loss with every bounding on its data sets; the *comparisons*
compare methods. They share data, rules and the table of runs. The *experiments* repeat the bounded half with some
setting changed, and have a separate table.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.config.comparisons import (
    PROTOCOL,
    VGG16_FILE,
    Compared,
    method_settings,
    missing_weights,
    needs_vgg16,
    vgg16_at,
    with_feature_counts,
)
from rankbound_study.config.data_sets import KINDS, SYNTHETIC, Instances, converted_path, defined_instances
from rankbound_study.config.experiments import PROTOCOL as OF_EXPERIMENTS
from rankbound_study.config.experiments import VARIANT, Variant, variants_of
from rankbound_study.config.samplings import OWN
from rankbound_study.config.score_distributions import DistributionFile, method_of, needs_distributions, usual_method
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.sections.known_sets import description_of
from rankbound_study.config.titles import THESIS
from rankbound_study.vocabulary import BEST_FEATURE, POPULARITY


@dataclass(frozen=True)
class TrainingRun:
    """One training job: all folds and seeds of a model, loss and bounding on one data set."""

    protocol: str
    instances: Instances
    model: str
    loss: str
    bounding: str
    variant: Variant | None = None

    @property
    def place(self) -> str:
        """The first folder of its files: the protocol, with the variant of an experiment."""
        return self.protocol if self.variant is None else f"{self.protocol}{VARIANT}{self.variant.id}"

    @property
    def stem(self) -> str:
        """The path of its files without suffix."""
        return f"<results>/runs/{self.place}/{self.instances.name}/{self.model}/{self.loss}/{self.bounding}"


class Study:
    """The data sets, jobs and files of a valid configuration."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    @cached_property
    def bounded_instances(self) -> dict[str, Instances]:
        """The data sets of the bounded half as training reads them, by name."""
        every = defined_instances(self.config)
        chosen = [
            data_set for name in self.config["datasets"] for data_set in every.values() if data_set.source == name
        ]
        return {data_set.name: data_set for data_set in chosen}

    @cached_property
    def compared_instances(self) -> dict[str, Instances]:
        """The data sets of the comparisons that run, by name."""
        every = defined_instances(self.config)
        return {name: every[name] for section in self.comparisons.values() for name in section["datasets"]}

    @cached_property
    def varied_instances(self) -> dict[str, Instances]:
        """The data sets of the experiments, by name."""
        every = defined_instances(self.config)
        return {name: every[name] for variant in self.variants for name in variant.instances}

    @cached_property
    def instances(self) -> dict[str, Instances]:
        """The data sets of both halves and of the experiments, and those whose pairs features share, by name."""
        used = self.bounded_instances | self.compared_instances | self.varied_instances
        sharing = [one.source for one in used.values() if one.features]
        return used | {name: defined_instances(self.config)[name] for name in sharing}

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The configuration's section of every data set that the instances are made from, by name."""
        kinds = {data_set.source: data_set.kind for data_set in self.instances.values()}
        return {name: self.config[kind][name] for name, kind in kinds.items()}

    @cached_property
    def converted(self) -> list[str]:
        """The data sets that are converted from raw files."""
        return [name for name in self.sources if not name.startswith(SYNTHETIC)]

    @cached_property
    def generated(self) -> list[str]:
        """The data sets that are generated."""
        return [name for name in self.sources if name.startswith(SYNTHETIC)]

    @cached_property
    def archives(self) -> dict[str, str]:
        """The data set of each raw file, by the file's name; VGG16's weights are one."""
        files = {self.sources[name]["archive"]: name for name in self.converted if self.sources[name].get("archive")}
        return files | ({VGG16_FILE: "vgg16"} if any(map(needs_vgg16, self.instances.values())) else {})

    @cached_property
    def titles(self) -> dict[str, str]:
        """The titles that descriptions give to data sets, by name; those of the thesis have others."""
        described = {name: self.described(name).title for name in self.converted if name not in THESIS}
        return {name: title for name, title in described.items() if title}

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants of the experiments that run."""
        return list(variants_of(self.config))

    @cached_property
    def comparisons(self) -> dict[str, dict[str, Any]]:
        """The comparisons that run, by name."""
        return {name: section for name, section in self._comparisons.items() if name not in self.left_out}

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The comparisons that cannot run here, by name, each with the reason and what to do."""
        every = defined_instances(self.config)
        missing = vgg16_at(self.config) is None
        return {
            name: missing_weights(self.config, name)
            for name, section in self._comparisons.items()
            if missing and any(needs_vgg16(every[dataset]) for dataset in section["datasets"])
        }

    def kind_of(self, source: str) -> str:
        """Return the section of the configuration that defines a data set."""
        return next(kind for kind in KINDS if source in (self.config.get(kind) or {}))

    def repeats_of(self, source: str) -> int:
        """Return the number of times that the folds of a data set are drawn."""
        return self.sources[source].get("repeats") or 1

    def described(self, source: str) -> DescriptionKeys:
        """Return what a data set is that is not generated."""
        return description_of(source, self.sources[source])

    def converted_path(self, source: str) -> str:
        """Return the parquet file of a data set."""
        return converted_path(self.kind_of(source), source)

    @property
    def _comparisons(self) -> dict[str, dict[str, Any]]:
        defined = self.config.get("comparisons") or {}
        return {name: with_feature_counts(defined[name]) for name in self.config.get("compare", defined)}

    # Training jobs

    @cached_property
    def runs(self) -> list[TrainingRun]:
        """Every training job of the bounded half, in the configuration's order."""
        return [
            TrainingRun(protocol, data_set, self.training(data_set, protocol)["model"]["name"], loss, bounding)
            for protocol in self.config["protocols"]
            for data_set in self.bounded_instances.values()
            for loss in self.config["losses"]
            for bounding in self.config["boundings"]
        ]

    @cached_property
    def experiments(self) -> list[TrainingRun]:
        """Every training job of the experiments, in the configuration's order."""
        return [
            TrainingRun(
                OF_EXPERIMENTS, data_set, self._varied(data_set, variant)["model"]["name"], loss, bounding, variant
            )
            for variant in self.variants
            for data_set in map(self.varied_instances.__getitem__, variant.datasets)
            for loss in variant.losses
            for bounding in variant.boundings
        ]

    @cached_property
    def compared(self) -> list[Compared]:
        """Every training job of the comparisons, in the configuration's order."""
        return [
            Compared(
                name,
                self.instances[dataset],
                method,
                options["loss"],
                options.get("features"),
                method_settings(section, options).get("shift"),
            )
            for name, section in self.comparisons.items()
            for dataset in section["datasets"]
            for method, options in section["methods"].items()
        ]

    @cached_property
    def models(self) -> list[str]:
        """The models that the bounded half trains, once each."""
        return sorted({run.model for run in self._bounded})

    @cached_property
    def methods(self) -> list[str]:
        """The methods that the comparisons train, once each."""
        return sorted({job.method for job in self.compared})

    @cached_property
    def places(self) -> list[str]:
        """The first folders of all runs: protocols and variants."""
        places = [*self.config["protocols"], *(run.place for run in self.experiments)]
        return list(dict.fromkeys([*places, *([PROTOCOL] if self.compared else [])]))

    @property
    def place_pattern(self) -> str:
        """A regular expression of the places.

        It doesn't list the variants: Snakemake reads it again for every path, of which a sweep has thousands.
        """
        places = [re.escape(place) for place in self.places if VARIANT not in place]
        return "|".join([*places, *([f"{re.escape(OF_EXPERIMENTS + VARIANT)}[^/]+"] if self.experiments else [])])

    @cached_property
    def losses(self) -> list[str]:
        """The losses of all runs."""
        return list(dict.fromkeys([*(run.loss for run in self._bounded), *(job.loss for job in self.compared)]))

    @cached_property
    def boundings(self) -> list[str]:
        """The boundings of all runs."""
        return list(dict.fromkeys([*(run.bounding for run in self._bounded), *(["none"] if self.compared else [])]))

    @cached_property
    def distributions(self) -> dict[DistributionFile, list[str]]:
        """File of score distributions -> the instances of the runs that read it."""
        readers: dict[DistributionFile, list[str]] = {}
        for run in self._bounded:
            if file := self._read_by(run):
                readers.setdefault(file, []).append(run.instances.path)
        return {file: list(dict.fromkeys(instances)) for file, instances in readers.items()}

    # Targets

    def data_files(self) -> list[str]:
        """Return the files of the target `data`."""
        return list(dict.fromkeys(data_set.path for data_set in self.instances.values()))

    def own_negatives(self) -> list[str]:
        """Return the instances whose lists have the user's own negatives, which not every user has."""
        return [one.path for one in self.instances.values() if one.data_set.nsr == OWN]

    def distribution_files(self) -> list[str]:
        """Return the files of the target `tables`."""
        return [file.path for file in self.distributions]

    def tabulated(self, file: DistributionFile) -> list[str]:
        """Return the instances whose list sizes a file of score distributions has: those of the runs that read it.

        Files of one method have all data sets that use it, whatever their boundings, so that they are alike.
        """
        if file.kind:
            return self.distributions[file]
        usual = usual_method(self.config)
        used = {
            **dict.fromkeys(self.bounded_instances, self.config["protocols"]),
            **{
                name: [OF_EXPERIMENTS, *(self.config["protocols"] if name in self.bounded_instances else ())]
                for name in self.varied_instances
            },
        }
        return [
            self.instances[name].path
            for name, protocols in used.items()
            if usual in {method_of(self.config, protocol, self.instances[name].source) for protocol in protocols}
        ]

    def run_files(self) -> list[str]:
        """Return the runs of every training job and of the controls."""
        return [f"{stem}.parquet" for stem in self._stems()] + self._control_files()

    def beside_runs(self) -> list[str]:
        """Return the epochs and the rates of every training job."""
        return _collected_beside(self._stems())

    def experiment_files(self) -> list[str]:
        """Return the runs of the experiments."""
        return [f"{run.stem}.parquet" for run in self.experiments]

    def beside_experiments(self) -> list[str]:
        """Return the epochs and the rates of the experiments."""
        return _collected_beside(run.stem for run in self.experiments)

    def experiment_tables(self) -> list[str]:
        """Return the tables of all the experiments' runs, epochs and rates."""
        names = ("experiments", "experiment_epochs", "experiment_rates") if self.experiments else ()
        return [f"<results>/{name}.parquet" for name in names]

    def table_files(self) -> list[str]:
        """Return the tables as CSV files."""
        return [f"<results>/tables/{name}.csv" for name in self.config["tables"]]

    # Lookups

    def training(self, instances: Instances, protocol: str) -> dict[str, Any]:
        """Return a data set's training settings, with the protocol's learning rate."""
        section: Mapping[str, Any] = self.config["training"][instances.source]
        rate = section["learning_rate"].get(protocol)
        return {**section, "optimiser": "adam", "temperature": self.config["temperature"], "learning_rate": rate}

    def options(self, run: TrainingRun) -> dict[str, Any]:
        """Return everything that a training job of the bounded half depends on, apart from its input files."""
        variant, usual = run.variant, self.training(run.instances, run.protocol)
        return {
            "study": self.config["study"],
            "variant": variant.id if variant else "",
            "protocol": run.protocol,
            **run.instances.data_set._asdict(),
            "loss": run.loss,
            "bounding": run.bounding,
            "folds": list(variant.folds) if variant else self.config["folds"],
            "seeds": list(variant.seeds) if variant else self.config["seeds"][run.protocol],
            **(variant.applied(usual) if variant else usual),
        }

    def inputs(self, run: TrainingRun) -> dict[str, str]:
        """Return the inputs of a training job of the bounded half, by flag."""
        files = run.instances.inputs
        if distributions := self._read_by(run):
            files["distributions"] = distributions.path
        if run.variant and (other := run.variant.tested_on(run.instances.name)):
            files["test_instances"] = self.varied_instances[other].path
        return files

    def control_inputs(self, instances: str) -> dict[str, str]:
        """Return the inputs of the controls on a data set, by flag."""
        used, inputs = self.instances[instances], self.instances[instances].inputs
        with_features = BEST_FEATURE in self.config["controls"] and used.kind == "lists"
        return {name: path for name, path in inputs.items() if name == "instances" or with_features}

    def run_at(self, place: str, instances: str, loss: str, bounding: str) -> TrainingRun:
        """Return the training job of the bounded half with these files; ConfigError if there is none."""
        key = (place, instances, loss, bounding)
        if key not in self._by_place:
            raise ConfigError(
                f"{'/'.join(key)} is no training of this configuration: its protocols, data sets, losses, boundings "
                "and experiments name none. `snakemake -n` lists those that are to be made."
            )
        return self._by_place[key]

    # Pieces

    @cached_property
    def _bounded(self) -> list[TrainingRun]:
        return self.runs + self.experiments

    def _read_by(self, run: TrainingRun) -> DistributionFile | None:
        if not needs_distributions(run.bounding):
            return None
        varied = run.variant.overrides.get("distributions") if run.variant else None
        method = varied or method_of(self.config, run.protocol, run.instances.source)
        return DistributionFile.read_by(self.config, method, run.loss, run.bounding)

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, str], TrainingRun]:
        return {(run.place, run.instances.name, run.loss, run.bounding): run for run in self._bounded}

    def _varied(self, instances: Instances, variant: Variant) -> dict[str, Any]:
        return variant.applied(self.training(instances, OF_EXPERIMENTS))

    def _stems(self) -> list[str]:
        return [run.stem for run in self.runs] + [job.stem for job in self.compared]

    def _control_files(self) -> list[str]:
        bounded = [
            f"<results>/runs/{protocol}/{name}/controls.parquet"
            for protocol in self.config["protocols"]
            for name in self._controlled(self.bounded_instances)
        ]
        compared = self._controlled(self.compared_instances)
        return bounded + [f"<results>/runs/{PROTOCOL}/{name}/compared/controls.parquet" for name in compared]

    def _controlled(self, instances: Mapping[str, Instances]) -> list[str]:
        """Return the data sets that a control ranks."""
        return [
            name
            for name, one in instances.items()
            if any(ranked_by(control, one.kind) for control in self.config["controls"])
        ]


def _collected_beside(stems: Iterable[str]) -> list[str]:
    """Return the files beside runs that are collected with them."""
    return [f"{stem}.{name}.parquet" for stem in stems for name in ("epochs", "rates")]


def ranked_by(control: str, kind: str) -> bool:
    """Return whether a control ranks such data: popularity takes recurring items, the best feature judged lists."""
    return {POPULARITY: kind == "interactions", BEST_FEATURE: kind == "lists"}.get(control, True)
