"""The inputs and options of single steps: what the workflow's rules use as input and parameter functions.

A step's options are one JSON text with sorted keys that holds exactly the configuration that the step depends on, so
that another value elsewhere in the configuration never reruns it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

from rankbound.study.spec import Study, distributions_path, reads_distributions


def one_of(names: Iterable[object]) -> str:
    """The regular expression of a wildcard that is one of `names` (nothing matches it if there are none)."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


class Steps:
    """Functions of a rule's wildcards, for the study of one configuration."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.config = study.config

    # Data

    def source_of_archive(self, wildcards: Any) -> str:
        """The data set that an archive belongs to."""
        return self.study.archives[wildcards.archive]

    def archive(self, wildcards: Any) -> str:
        """The raw file of a data set."""
        return f"<data>/raw/{self.study.sources[wildcards.source]['archive']}"

    def converted(self, wildcards: Any) -> str:
        """The parquet file that the folds of a data set are made from."""
        return self.study.converted_path(wildcards.source)

    def generate_flags(self, wildcards: Any) -> str:
        """Seed and size of a generated data set."""
        section = self.study.sources[wildcards.source]
        return " ".join(f"--{flag} {section[flag]}" for flag in ("seed", "size") if flag in section)

    def split_options(self, wildcards: Any) -> str:
        """Which users are kept, and the folds' seed; judged lists come with their folds."""
        if self.study.is_judged(wildcards.source):
            return as_json({})
        section = self.study.sources[wildcards.source]
        return as_json(_chosen(section, "threshold", "min_relevant", "seed"))

    def source_of_instances(self, wildcards: Any) -> str:
        """The data set that instances are sampled from."""
        return self.study.instances[wildcards.instances].source

    def sampled_from(self, wildcards: Any) -> dict[str, str]:
        """What instances are sampled from: their data set's parquet file, and its folds."""
        source = self.source_of_instances(wildcards)
        return {"data": self.study.converted_path(source), "folds": f"<data>/folds/{source}.parquet"}

    def sample_options(self, wildcards: Any) -> str:
        """How instances are sampled."""
        return as_json(self.study.instances[wildcards.instances].options)

    # Runs

    def distribution_options(self, wildcards: Any) -> str:
        """How score distributions are computed."""
        return as_json(self.config["distributions"])

    def trained_from(self, wildcards: Any) -> dict[str, str]:
        """What a training job reads: instances, the lists that hold their features, the distributions of its metric."""
        instances = self.study.instances[wildcards.instances]
        files = {"instances": instances.path}
        if instances.judged:
            files["lists"] = self.study.converted_path(instances.source)
        if reads_distributions(wildcards.bounding):
            files["distributions"] = distributions_path(wildcards.loss)
        return files

    def train_flags(self, wildcards: Any, input: Any) -> str:
        """The flags for those inputs that only some training jobs have."""
        return " ".join(
            f"--{name} {quote(str(getattr(input, name)))}"
            for name in self.trained_from(wildcards)
            if name != "instances"
        )

    def train_options(self, wildcards: Any) -> str:
        """Everything that a training job depends on, apart from its input files."""
        instances = self.study.instances[wildcards.instances]
        return as_json(
            {
                **self._key(wildcards),
                **self.study.training(instances, wildcards.protocol),
                **_chosen(self.config, "folds", "seeds", "temperature"),
                "loss": wildcards.loss,
                "bounding": wildcards.bounding,
            }
        )

    def controlled(self, wildcards: Any) -> str:
        """What the controls rank."""
        return self.study.instances[wildcards.instances].path

    def control_options(self, wildcards: Any) -> str:
        """Which controls run, on which folds."""
        return as_json({**self._key(wildcards), **_chosen(self.config, "controls", "folds")})

    # Results

    def result_options(self, wildcards: Any) -> str:
        """Which protocol the tables and figures show: the first one of the configuration."""
        return as_json({"protocol": self.config["protocols"][0]})

    def _key(self, wildcards: Any) -> dict[str, Any]:
        instances = self.study.instances[wildcards.instances]
        return {
            "study": self.config["study"],
            "protocol": wildcards.protocol,
            "dataset": instances.dataset,
            "nsr": instances.nsr,
        }


def as_json(options: Mapping[str, Any]) -> str:
    """The one text of a step's options: equal options give equal bytes."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _chosen(section: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: section[key] for key in keys}
