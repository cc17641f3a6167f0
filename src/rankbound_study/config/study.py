"""The work that a study's configuration requests: data sets, training jobs, and what every file is made from.

The workflow's targets come from here. Paths begin with a path variable of the workflow (`<data>`, `<results>`), which
the configuration's `pathvars` resolve.

A study has two halves. The *bounded* half trains every loss with every bounding on its data sets; the *comparisons*
compare methods. They share data, rules and the table of runs. The *experiments* repeat the bounded half with some
setting changed, and have a separate table.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from rankbound.texts import split_text
from rankbound_study.config.data_sets import OWN, SYNTHETIC, THESIS, Instances, converted_path, features_path
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.configuration import OF_TRAINER, ComparisonKeys, Configuration, Variant
from rankbound_study.config.sections.data import ImageKeys, InteractionKeys, SourceKeys
from rankbound_study.config.sections.description import DescriptionKeys, known_sets
from rankbound_study.vocabulary import (
    BEST_FEATURE,
    BOOSTED_TREES,
    COMPARED,
    EXPERIMENTS,
    HONEST,
    METHODS,
    POPULARITY,
    STUDY,
    VARIANT,
    VGG16_FILE,
    method_of,
    needs_distributions,
)

PROTOCOL = HONEST
"""That of the comparisons: the publication does not say how the methods were tuned."""


KIND = rf"(-({'|'.join(METHODS)}))?(-tilt[0-9]+(\.[0-9]+)?)?"
"""Regular expression of the kind of a file of score distributions."""


class DistributionFile(NamedTuple):
    """A file of score distributions: of a loss' metric, by the usual method or another one, with a tilt or none."""

    loss: str
    method: str = ""
    tilt: str = ""

    @property
    def path(self) -> str:
        """Its path, such as `AP.parquet`, `AP-sampled.parquet` or `AP-sampled-tilt4.parquet`."""
        method, tilt = self.method and f"-{self.method}", self.tilt and f"-tilt{self.tilt}"
        return f"<results>/distributions/{self.loss}{method}{tilt}.parquet"


@dataclass(frozen=True)
class Job:
    """One training job: all folds and seeds of a model, loss and bounding, or of a method, on one data set.

    Attributes:
        request: what its step gets as options.
        instances: the data set.
        variant: of an experiment.
        comparison: its name, for a method.
        base: the method's name in the comparison, without the number of features.
    """

    request: TrainingJob
    instances: Instances
    variant: Variant | None = None
    comparison: str = ""
    base: str = ""

    @property
    def model(self) -> str:
        """The name of the method, or of the model."""
        return self.request.method or self.request.model.name

    @property
    def place(self) -> str:
        """The first folder of its files: the protocol, with the variant of an experiment."""
        protocol = self.request.protocol
        return protocol if self.variant is None else f"{protocol}{VARIANT}{self.variant.id}"

    @property
    def stem(self) -> str:
        """The path of its files without suffix."""
        loss, bounding = self.request.loss, self.request.bounding
        return f"<results>/runs/{self.place}/{self.instances.name}/{self.model}/{loss}/{bounding}"


@dataclass(frozen=True)
class Request:
    """What a file is made from: the options of its step, and the input files by flag."""

    options: Mapping[str, Any]
    inputs: Mapping[str, str | list[str]] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The input files."""
        return [path for paths in self.inputs.values() for path in ([paths] if isinstance(paths, str) else paths)]


class Collected(NamedTuple):
    """Files that are collected in one table of runs, with those of epochs and rates beside them."""

    runs: list[str]
    beside: list[str]


class Study:
    """The data sets, jobs and files of a configuration."""

    def __init__(self, config: Configuration | Mapping[str, Any]) -> None:
        """Take a configuration, or a mapping that states one; pydantic's error if it states none."""
        self.config = Configuration.model_validate(config)

    # Data

    @cached_property
    def bounded_instances(self) -> dict[str, Instances]:
        """The data sets of the bounded half as training reads them, by name."""
        every = self.config.instances.values()
        return {one.name: one for name in self.config.datasets for one in every if one.source == name}

    @cached_property
    def compared_instances(self) -> dict[str, Instances]:
        """The data sets of the comparisons that run, by name."""
        return {name: self.config.instances[name] for one in self.comparisons.values() for name in one.datasets}

    @cached_property
    def varied_instances(self) -> dict[str, Instances]:
        """The data sets of the experiments, by name."""
        return {name: self.config.instances[name] for variant in self.variants for name in variant.instances}

    @cached_property
    def instances(self) -> dict[str, Instances]:
        """The data sets of both halves and of the experiments, and those whose pairs features share, by name."""
        used = self.bounded_instances | self.compared_instances | self.varied_instances
        return used | {one.source: self.config.instances[one.source] for one in used.values() if one.features}

    @cached_property
    def sources(self) -> dict[str, SourceKeys]:
        """The configuration's section of every data set that the instances are made from, by name."""
        kinds = {one.source: one.kind for one in self.instances.values()}
        return {name: self.config.sources[kind][name] for name, kind in kinds.items()}

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
        files = {archive: name for name in self.converted if (archive := self.sources[name].archive)}
        return files | ({VGG16_FILE: "vgg16"} if any(map(_needs_vgg16, self.instances.values())) else {})

    @property
    def of_the_sources(self) -> bool:
        """A data set of the bounded half is one of the reproduced sources', or generated like it."""
        return any(name.removeprefix(SYNTHETIC) in THESIS for name in self.config.datasets)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The titles that descriptions give to data sets, by name; those of the thesis have others."""
        described = {name: self.described(name).title for name in self.converted if name not in THESIS}
        return {name: title for name, title in described.items() if title}

    def repeats_of(self, source: str) -> int:
        """Return the number of times that the folds of a data set are drawn."""
        return getattr(self.sources[source], "repeats", None) or 1

    def described(self, source: str) -> DescriptionKeys:
        """Return what a data set is that is not generated."""
        return self.sources[source].described(source) or known_sets()[source]

    # Training jobs

    @cached_property
    def variants(self) -> list[Variant]:
        """The variants of the experiments that run."""
        varying = self.config.varying.items()
        return [variant for name, section in varying for variant in section.trained(name, self.config)]

    @cached_property
    def comparisons(self) -> dict[str, ComparisonKeys]:
        """The comparisons that run, by name."""
        return {name: section for name, section in self.config.running.items() if name not in self.left_out}

    @cached_property
    def left_out(self) -> dict[str, str]:
        """The comparisons that cannot run here, by name, each with the reason and what to do."""
        data, every = self.config.pathvars.data, self.config.instances
        mirror = os.environ.get("RANKBOUND_MIRROR") or self.config.mirror
        places = [Path(data, "weights/vgg16.safetensors"), Path(data, "raw", VGG16_FILE)]
        places += [Path(mirror, VGG16_FILE)] if mirror else []
        if any(place.is_file() for place in places):
            return {}
        return {
            name: f"comparisons.{name} is left out: the published weights of VGG16 are missing. To run it, use "
            f"`python -m rankbound_study download vgg16 --out {Path(data, 'raw', VGG16_FILE)}`, or save {VGG16_FILE} "
            "there by hand."
            for name, section in self.config.running.items()
            if any(_needs_vgg16(every[dataset]) for dataset in section.datasets)
        }

    @cached_property
    def runs(self) -> list[Job]:
        """Every training job of the bounded half, in the configuration's order."""
        axes = (self.config.protocols, self.bounded_instances.values(), self.config.losses, self.config.boundings)
        return [self._bounded(*choices) for choices in product(*axes)]

    @cached_property
    def experiments(self) -> list[Job]:
        """Every training job of the experiments, in the configuration's order."""
        return [
            self._bounded(HONEST, self.varied_instances[dataset], loss, bounding, variant)
            for variant in self.variants
            for dataset, loss, bounding in product(variant.datasets, variant.losses, variant.boundings)
        ]

    @cached_property
    def compared(self) -> list[Job]:
        """Every training job of the comparisons, in the configuration's order."""
        jobs = []
        for comparison, section in self.comparisons.items():
            shared = {key: getattr(section, key) for key in ("judged_by", "folds", "seeds")}
            for dataset, (name, base, method, count) in product(section.datasets, list(section.trained())):
                # A method's own settings are merged over the comparison's.
                options = {
                    "study": STUDY,
                    "protocol": PROTOCOL,
                    **self.instances[dataset].data_set._asdict(),
                    "method": name,
                    **{key: getattr(method, key) for key in ("family", "model", "loss")},
                    "bounding": "none",
                    "target": method.target or "relevance",
                    "settings": section.settings_of(method) | ({} if count is None else {"features": count}),
                    **shared,
                }
                request = TrainingJob.model_validate(options)
                jobs.append(Job(request, self.instances[dataset], None, comparison, base))
        return jobs

    @cached_property
    def jobs(self) -> list[Job]:
        """Every training job."""
        return [*self.runs, *self.experiments, *self.compared]

    @cached_property
    def places(self) -> list[str]:
        """The first folders of all runs: protocols and variants."""
        return list(dict.fromkeys([*self.config.protocols, *(job.place for job in self.jobs)]))

    @property
    def place_pattern(self) -> str:
        """A regular expression of the places.

        It doesn't list the variants: Snakemake reads it again for every path, of which a sweep has thousands.
        """
        places = [re.escape(place) for place in self.places if VARIANT not in place]
        return "|".join([*places, *([f"{re.escape(HONEST + VARIANT)}[^/]+"] if self.experiments else [])])

    def _bounded(
        self, protocol: str, instances: Instances, loss: str, bounding: str, variant: Variant | None = None
    ) -> Job:
        """Return a job of the bounded half, with the settings of a variant merged over the usual ones."""
        config, training = self.config, self.config.training[instances.source]
        changes = variant.changes.given() if variant else {}
        model = training.model_with(changes.pop("model", {}))
        merged = {**training.given("model", "learning_rate"), "optimiser": "adam", "temperature": config.temperature}
        merged |= {"learning_rate": training.learning_rate[protocol]} if protocol in training.learning_rate else {}
        merged |= changes
        if model["name"] == BOOSTED_TREES:
            merged = {name: value for name, value in merged.items() if name not in OF_TRAINER}
        request = TrainingJob.model_validate(
            {
                "study": config.study,
                "variant": variant.id if variant else "",
                "protocol": protocol,
                **instances.data_set._asdict(),
                "model": model,
                "loss": loss,
                "bounding": bounding,
                "folds": variant.folds if variant else config.folds,
                "seeds": variant.seeds if variant else config.seeds[protocol],
                **({"crossed": False} if variant and not variant.crossed else {}),
                **merged,
            }
        )
        return Job(request, instances, variant)

    # Files

    @cached_property
    def requests(self) -> dict[str, Request]:
        """What every file of generated data, folds, lists, features, distributions and runs is made from, by path."""
        return dict([*self._data_requests(), *self._control_requests(), *self._run_requests()])

    @cached_property
    def distributions(self) -> dict[DistributionFile, list[str]]:
        """File of score distributions -> the instances whose list sizes it has: those of the runs that read it.

        Files of one method have all data sets that use it, whatever their boundings, so that they are alike.
        """
        readers: dict[DistributionFile, dict[str, None]] = {}
        for job in (*self.runs, *self.experiments):
            if file := self._read_by(job):
                readers.setdefault(file, {})[job.instances.path] = None
        section = self.config.distributions
        used = [*product(self.bounded_instances.values(), self.config.protocols)]
        used += [(one, HONEST) for one in self.varied_instances.values()]
        methods = section.method, section.datasets
        alike = dict.fromkeys(
            one.path for one, protocol in used if method_of(*methods, protocol, one.source) == section.usual
        )
        return {file: list(paths if file.method or file.tilt else alike) for file, paths in readers.items()}

    def own_negatives(self) -> list[str]:
        """Return the instances whose lists have the user's own negatives, which not every user has."""
        return [one.path for one in self.instances.values() if one.data_set.nsr == OWN]

    @cached_property
    def collected(self) -> dict[str, Collected]:
        """What is collected together, by part: the runs of a protocol, of the comparisons, of the experiments."""
        parts: dict[str, list[Job]] = {}
        for job in self.jobs:
            part = COMPARED if job.comparison else EXPERIMENTS if job.variant else job.request.protocol
            parts.setdefault(part, []).append(job)
        runs = {part: [f"{job.stem}.parquet" for job in jobs] for part, jobs in parts.items()}
        for path, request in self._control_requests():
            part = COMPARED if request.options["study"] == STUDY else request.options["protocol"]
            if part in runs:
                runs[part].append(path)
        return {part: Collected(runs[part], _beside(job.stem for job in jobs)) for part, jobs in parts.items()}

    @cached_property
    def joined(self) -> Collected:
        """The collected parts that are one table: all but the experiments."""
        stems = [f"<results>/collected/{part}" for part in self.collected if part != EXPERIMENTS]
        return Collected([f"{stem}.parquet" for stem in stems], _beside(stems))

    def experiment_tables(self) -> list[str]:
        """Return the tables of all the experiments' runs, epochs and rates."""
        names = ("experiments", "experiment_epochs", "experiment_rates") if self.experiments else ()
        return [f"<results>/{name}.parquet" for name in names]

    def _data_requests(self) -> Iterator[tuple[str, Request]]:
        for name, section in self.sources.items():
            path = converted_path(section.kind, name)
            yield f"<data>/folds/{name}.parquet", Request(self._split_options(name, section), {"data": path})
            if name in self.generated:
                given = section.given()
                yield path, Request({key: given[key] for key in ("seed", "size", "planted") if key in given})
            if isinstance(section, ImageKeys) and section.vgg16_side is not None:
                weights = f"<data>/weights/{SYNTHETIC if name in self.generated else ''}vgg16.safetensors"
                yield features_path(name), Request({"side": section.vgg16_side}, {"images": path, "weights": weights})
        for one in self.instances.values():
            folds = f"<data>/folds/{one.source}.parquet"
            yield one.path, Request(one.options, {"data": converted_path(one.kind, one.source), "folds": folds})
        settings = self.config.distributions
        for file, instances in self.distributions.items():
            tilt = {"tilt": float(file.tilt)} if file.tilt else {}
            options = {"method": file.method or settings.usual, "samples": settings.samples, "seed": settings.seed}
            yield file.path, Request(options | tilt, {"instances": instances})

    def _split_options(self, name: str, section: SourceKeys) -> dict[str, Any]:
        """Return the options for users, part sizes or files of folds, and the folds' seed."""
        if isinstance(section, ImageKeys):
            return {key: getattr(section, key) for key in ("folds", "validation_share", "test_share", "seed")}
        chosen: dict[str, Any] = {}
        if isinstance(section, InteractionKeys):
            chosen = {key: getattr(section, key) for key in ("threshold", "min_relevant", "seed")}
            chosen |= {"repeats": section.repeats} if self.repeats_of(name) > 1 else {}
        splitting = {} if name in self.generated else self.described(name).splitting
        # A split by time takes the validation items from the latest ones, which sampling could not know.
        later = {"validation_share": getattr(section, "validation_share", None)} if "by_time" in splitting else {}
        return {**chosen, **splitting, **later}

    def _control_requests(self) -> Iterator[tuple[str, Request]]:
        """Yield the controls on every data set that one of them ranks, for the bounded half and for the methods."""
        controls, config = self.config.controls, self.config
        ranked: list[tuple[str, Instances, dict[str, Any]]] = []
        for protocol, one in product(config.protocols, self.bounded_instances.values()):
            options = {"study": config.study, "protocol": protocol, "folds": config.folds}
            options |= {"seeds": config.seeds[protocol]} if self.repeats_of(one.source) > 1 else {}
            ranked.append((f"{protocol}/{one.name}", one, options))
        for name, one in self.compared_instances.items():
            folds = {fold for own in self.comparisons.values() if name in own.datasets for fold in own.folds}
            options = {"study": STUDY, "protocol": PROTOCOL, "folds": sorted(folds)}
            ranked.append((f"{PROTOCOL}/{name}/compared", one, options))
        for place, one, options in ranked:
            # Popularity ranks recurring items, the best feature judged lists.
            ranks = {POPULARITY: one.kind == "interactions", BEST_FEATURE: one.kind == "lists"}
            if any(ranks.get(control, True) for control in controls):
                inputs = one.inputs if BEST_FEATURE in controls and one.kind == "lists" else {"instances": one.path}
                options = {**options, **one.data_set._asdict(), "controls": controls}
                yield f"<results>/runs/{place}/controls.parquet", Request(options, inputs)

    def _run_requests(self) -> Iterator[tuple[str, Request]]:
        for job in self.jobs:
            files = job.instances.inputs
            if distributions := self._read_by(job):
                files["distributions"] = distributions.path
            if job.variant and (other := job.variant.tested_on(job.instances.name)):
                files["test_instances"] = self.varied_instances[other].path
            yield f"{job.stem}.parquet", Request(job.request.options(), files)

    def _read_by(self, job: Job) -> DistributionFile | None:
        request, section = job.request, self.config.distributions
        if job.comparison or not needs_distributions(request.bounding):
            return None
        usual = method_of(section.method, section.datasets, request.protocol, job.instances.source)
        method = request.distributions or usual
        tilt = split_text(request.bounding, "bound")[1].get("tilt", "")
        return DistributionFile(request.loss, "" if method == section.usual else method, str(tilt))


def _beside(stems: Iterable[str]) -> list[str]:
    """Return the files of epochs and rates beside those of runs."""
    return [f"{stem}.{name}.parquet" for stem in stems for name in ("epochs", "rates")]


def _needs_vgg16(instances: Instances) -> bool:
    """Return whether the features come from VGG16's published weights."""
    return instances.features is not None and not instances.source.startswith(SYNTHETIC)
