"""The data sets that a study uses, and the comparisons and experiments that run on them."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from rankbound_study.config.comparisons import (
    VGG16_FILE,
    missing_weights,
    needs_vgg16,
    vgg16_at,
    with_feature_counts,
)
from rankbound_study.config.data_sets import KINDS, SYNTHETIC, Instances, converted_path, defined_instances
from rankbound_study.config.experiments import Variant, variants_of
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.config.sections.known_sets import description_of
from rankbound_study.config.titles import THESIS


class StudyData:
    """The data sets of a valid configuration, as training reads them and as they are converted."""

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
