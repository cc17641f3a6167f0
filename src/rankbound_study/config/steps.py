"""The inputs and options of single steps: input and parameter functions for the workflow's rules.

A step's options are one JSON text with sorted keys. It holds exactly the part of the configuration that the step
depends on, so a change elsewhere never reruns the step.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any

from rankbound_study.config.code_digests import CodeDigests
from rankbound_study.config.comparisons import PROTOCOL, STUDY, VGG16_WEIGHTS, method_options
from rankbound_study.config.data_sets import SYNTHETIC, DataSet
from rankbound_study.config.own_files import own_files
from rankbound_study.config.score_distributions import DistributionFile
from rankbound_study.config.sections.known_sets import known_names
from rankbound_study.config.sections.planted import PlantedKeys
from rankbound_study.config.study import Study, TrainingRun

NOT_CONVERTED = {"homepage", "terms", "citation", "archives", "addresses", "validation_share", "seed", "by_time"}
"""Keys of a description on which no converted file depends."""


def one_of(names: Iterable[object]) -> str:
    """Return a regular expression that matches exactly `names` (and nothing if there are none)."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


class Steps:
    """Functions of a rule's wildcards, for the study of one configuration."""

    def __init__(self, study: Study, codes: CodeDigests) -> None:
        self.study, self.codes = study, codes
        self.config = study.config

    def code(self, step: str, *modules: str) -> Callable[[Any], str]:
        """Return a parameter function: the digest of a step's code, read only if the step is in the plan."""
        return lambda wildcards: self.codes.of_step(step, modules=modules)

    # Data

    def source_of_archive(self, wildcards: Any) -> str:
        """Return the data set that an archive belongs to."""
        return self.study.archives[wildcards.archive]

    def raw_files(self, wildcards: Any) -> list[str]:
        """Return the raw files of a data set: its archive, or files that lie elsewhere."""
        section = self.study.sources[wildcards.source]
        if section.get("archive"):
            return [f"<data>/raw/{section['archive']}"]
        return own_files(self.study.described(wildcards.source))

    def described(self, wildcards: Any) -> str:
        """Return what conversion depends on in a data set's description."""
        return as_json(self.study.described(wildcards.source).model_dump(exclude_defaults=True, exclude=NOT_CONVERTED))

    def description_flag(self, name: str) -> str:
        """Return the flag for the description of a data set that the project does not know."""
        if name in known_names():
            return ""
        return f"--description {quote(as_json(self.study.described(name).model_dump(exclude_defaults=True)))}"

    def converted(self, wildcards: Any) -> str:
        """Return the parquet file from which a data set's folds are made."""
        return self.study.converted_path(wildcards.source)

    def generate_flags(self, wildcards: Any) -> str:
        """Return the flags for seed, size and planted parameters of a generated data set."""
        section = self.study.sources[wildcards.source]
        flags = [f"--{flag} {section[flag]}" for flag in ("seed", "size") if flag in section]
        return " ".join(
            [*flags, *([f"--planted {quote(as_json(section['planted']))}"] if "planted" in section else [])]
        )

    def split_options(self, wildcards: Any) -> str:
        """Return the options for users, part sizes or files of folds, and the folds' seed."""
        keys = {
            "interactions": ("threshold", "min_relevant", "seed"),
            "images": ("folds", "validation_share", "test_share", "seed"),
        }
        section, kind = self.study.sources[wildcards.source], self.study.kind_of(wildcards.source)
        several = ("repeats",) if self.study.repeats_of(wildcards.source) > 1 else ()
        chosen = _chosen(section, *keys.get(kind, ()), *several)
        if wildcards.source.startswith(SYNTHETIC) or kind == "images":
            return as_json(chosen)
        splitting = self.study.described(wildcards.source).splitting
        # A split by time takes the validation items from the latest ones, which sampling could not know.
        later = _chosen(section, "validation_share") if "by_time" in splitting else {}
        return as_json({**chosen, **splitting, **later})

    def source_of_instances(self, wildcards: Any) -> str:
        """Return the data set that instances are sampled from."""
        return self.study.instances[wildcards.instances].source

    def sampled_from(self, wildcards: Any) -> dict[str, str]:
        """Return the inputs of sampling: the data set's parquet file, and its folds."""
        source = self.source_of_instances(wildcards)
        return {"data": self.study.converted_path(source), "folds": f"<data>/folds/{source}.parquet"}

    def sample_options(self, wildcards: Any) -> str:
        """Return the options of sampling."""
        return as_json(self.study.instances[wildcards.instances].options)

    # Features of pictures

    def features_from(self, wildcards: Any) -> dict[str, str]:
        """Return the inputs of feature extraction: pictures, and the weights of a network."""
        generated = wildcards.source.startswith(SYNTHETIC)
        weights = "<data>/weights/synthetic-vgg16.safetensors" if generated else VGG16_WEIGHTS
        return {"images": self.study.converted_path(wildcards.source), "weights": weights}

    def features_side(self, wildcards: Any) -> int:
        """Return the side that pictures are enlarged to."""
        return int(self.study.sources[wildcards.source]["vgg16_side"])

    # Runs

    def tabulated_from(self, wildcards: Any) -> list[str]:
        """Return the instances whose list sizes need score distributions."""
        return self.study.tabulated(DistributionFile(wildcards.loss, wildcards.kind))

    def distribution_options(self, wildcards: Any) -> str:
        """Return the options of the score distributions."""
        return as_json(DistributionFile(wildcards.loss, wildcards.kind).options(self.config))

    def distribution_code(self, wildcards: Any) -> str:
        """Return the digest of the code that computes the distributions of a loss' metric."""
        return self.codes.of_step("distributions", wildcards.loss)

    def trained_from(self, wildcards: Any) -> dict[str, str]:
        """Return a training job's inputs: instances, lists with features, distributions of its metric."""
        return self.study.inputs(self._run(wildcards))

    def train_flags(self, wildcards: Any, input: Any) -> str:
        """Return the flags for the inputs that only some training jobs have."""
        return _flags(self.trained_from(wildcards), input)

    def train_options(self, wildcards: Any) -> str:
        """Return everything that a training job depends on, apart from its input files."""
        return as_json(self.study.options(self._run(wildcards)))

    def train_code(self, wildcards: Any) -> str:
        """Return the digest of a training job's code."""
        return self.codes.of_step("job", self.train_options(wildcards))

    def compared_from(self, wildcards: Any) -> dict[str, str]:
        """Return the inputs of a method's job: instances, and the file with the items' features."""
        return self.study.instances[wildcards.instances].inputs

    def compare_flags(self, wildcards: Any, input: Any) -> str:
        """Return the flags for the inputs that only some of the methods' jobs have."""
        return _flags(self.compared_from(wildcards), input)

    def compare_options(self, wildcards: Any) -> str:
        """Return everything that a method's job depends on, apart from its input files."""
        return as_json(self._compared(wildcards))

    def compare_code(self, wildcards: Any) -> str:
        """Return the digest of a method's code."""
        return self.codes.of_step("job", self.compare_options(wildcards))

    def compare_memory(self, wildcards: Any) -> int:
        """Return the megabytes of a method's job: penalised regressions hold all pixels, networks many weights."""
        return 6000 if self.study.instances[wildcards.instances].kind == "images" else 3000

    def compare_together(self, wildcards: Any) -> int:
        """Return how many folds and seeds are trained together; for networks of pictures, memory limits it."""
        return 1 if self.study.instances[wildcards.instances].kind == "images" else 5

    def controlled(self, wildcards: Any) -> dict[str, str]:
        """Return the inputs of the controls: instances, and the lists with the features of which one is the best."""
        return self.study.control_inputs(wildcards.instances)

    def control_flags(self, wildcards: Any, input: Any) -> str:
        """Return the flags for the inputs that only some controls have."""
        return _flags(self.controlled(wildcards), input)

    def control_options(self, wildcards: Any) -> str:
        """Return the controls, their folds and, if these are drawn several times, the trainings' seeds."""
        key = self._key(wildcards)
        repeats = self.study.repeats_of(self.study.instances[wildcards.instances].source)
        seeds = {"seeds": self.config["seeds"][wildcards.protocol]} if repeats > 1 else {}
        return as_json({**key, **_chosen(self.config, "controls", "folds"), **seeds})

    def compared_control_options(self, wildcards: Any) -> str:
        """Return the controls for the methods of the comparisons on a data set."""
        instances = self.study.instances[wildcards.instances]
        sections = [one for one in self.study.comparisons.values() if wildcards.instances in one["datasets"]]
        folds = sorted({fold for section in sections for fold in section["folds"]})
        key = {"study": STUDY, "protocol": PROTOCOL, **instances.data_set._asdict()}
        return as_json({**key, **_chosen(self.config, "controls"), "folds": folds})

    # Results

    def result_options(self, *keys: str) -> str:
        """Return these options of tables, figures and claims, as far as the configuration has them.

        The protocol is the first one of the configuration; experiments have their data sets.
        """
        protocol, study = self.config["protocols"][0], self.config["study"]
        known = {"protocol": protocol, "study": study, "experiments": self._measured_experiments()}
        known["planted"] = self._planted()
        if "leaderboard" in self.config:
            known["leaderboard"] = self.config["leaderboard"]
        return as_json({key: known[key] for key in keys if key in known})

    def titles_flag(self) -> list[str]:
        """Return the flag for the titles that descriptions give; nothing if there are none."""
        return [f"--titles {quote(as_json(self.study.titles))}"] if self.study.titles else []

    def study_options(self, wildcards: Any) -> str:
        """Return the whole configuration except the archives' origin; their content is checked."""
        return as_json({key: value for key, value in self.config.items() if key != "mirror"})

    def _measured_experiments(self) -> dict[str, list[DataSet]]:
        """Return the experiments that are measured like the study, each with its data sets."""
        instances = self.study.varied_instances
        ran = {variant.experiment: variant.datasets for variant in self.study.variants if variant.is_a_choice}
        return {name: [instances[one].data_set for one in sets] for name, sets in ran.items()}

    def _planted(self) -> dict[str, dict[str, Any]]:
        """Return the planted parameters of every generated data set that has some, defaults among them."""
        stated = {name: section.get("planted") for name, section in self.study.sources.items()}
        return {name: PlantedKeys(**keys).model_dump() for name, keys in stated.items() if keys is not None}

    def _run(self, wildcards: Any) -> TrainingRun:
        return self.study.run_at(wildcards.protocol, wildcards.instances, wildcards.loss, wildcards.bounding)

    def _compared(self, wildcards: Any) -> dict[str, Any]:
        names = (wildcards.instances, wildcards.model, wildcards.loss)
        job = next(
            compared
            for compared in self.study.compared
            if (compared.instances.name, compared.method, compared.loss) == names
        )
        return method_options(self.study.comparisons[job.comparison], job.instances, job.method)

    def _key(self, wildcards: Any) -> dict[str, Any]:
        instances = self.study.instances[wildcards.instances]
        return {
            "study": self.config["study"],
            "protocol": wildcards.protocol,
            **instances.data_set._asdict(),
        }


def as_json(options: Mapping[str, Any]) -> str:
    """Return the text of a step's options; equal options give equal bytes."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _flags(files: Mapping[str, str], input: Any) -> str:
    names = [name for name in files if name != "instances"]
    return " ".join(f"--{name.replace('_', '-')} {quote(str(getattr(input, name)))}" for name in names)


def _chosen(section: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: section[key] for key in keys}
