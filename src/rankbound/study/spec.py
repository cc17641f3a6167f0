"""A study's configuration as the work it asks for: data sets, training jobs, and the files of both.

The workflow's targets come from here. Paths begin with a path variable of the workflow (`<data>`, `<results>`), which
the configuration's `pathvars` resolve.

A study has two halves. The *bounded* one trains every loss with every bounding on its data sets; the *comparisons* set
methods beside each other. They share data, rules and the table of runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankbound.study.comparisons import (
    PROTOCOL,
    VGG16_FILE,
    Compared,
    missing_weights,
    needs_vgg16,
    vgg16_at,
    with_feature_counts,
)
from rankbound.study.data_sets import KINDS, SYNTHETIC, Instances, converted_path, defined_instances


@dataclass(frozen=True)
class Run:
    """One training job: all folds and seeds of a model, loss and bounding on one data set."""

    protocol: str
    instances: Instances
    model: str
    loss: str
    bounding: str

    @property
    def stem(self) -> str:
        """Its files without their suffix."""
        return f"<results>/runs/{self.protocol}/{self.instances.name}/{self.model}/{self.loss}/{self.bounding}"


class Study:
    """What a valid configuration asks for."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    # Data sets

    @cached_property
    def bounded_instances(self) -> dict[str, Instances]:
        """The data sets of the bounded half as training reads them, by name."""
        every = defined_instances(self.config)
        chosen = [one for name in self.config["datasets"] for one in every.values() if one.source == name]
        return {one.name: one for one in chosen}

    @cached_property
    def compared_instances(self) -> dict[str, Instances]:
        """The data sets of the comparisons that run, by name."""
        every = defined_instances(self.config)
        return {name: every[name] for section in self.comparisons.values() for name in section["datasets"]}

    @cached_property
    def instances(self) -> dict[str, Instances]:
        """The data sets of both halves, by name."""
        return self.bounded_instances | self.compared_instances

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """What all of them are made from, by name, each with its section of the configuration."""
        kinds = {one.source: one.kind for one in self.instances.values()}
        return {name: self.config[kind][name] for name, kind in kinds.items()}

    @cached_property
    def fetched(self) -> list[str]:
        """Data sets that come from an archive."""
        return [name for name in self.sources if not name.startswith(SYNTHETIC)]

    @cached_property
    def generated(self) -> list[str]:
        """Data sets that are generated."""
        return [name for name in self.sources if name.startswith(SYNTHETIC)]

    @cached_property
    def archives(self) -> dict[str, str]:
        """The data set of each raw file, by the file's name; VGG16's weights are one."""
        files = {self.sources[name]["archive"]: name for name in self.fetched}
        return files | ({VGG16_FILE: "vgg16"} if any(map(needs_vgg16, self.instances.values())) else {})

    # Training jobs

    @cached_property
    def runs(self) -> list[Run]:
        """Every training job of the bounded half, in the configuration's order."""
        return [
            Run(protocol, one, self.training(one, protocol)["model"]["name"], loss, bounding)
            for protocol in self.config["protocols"]
            for one in self.bounded_instances.values()
            for loss in self.config["losses"]
            for bounding in self.config["bounds"]
        ]

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

    @cached_property
    def compared(self) -> list[Compared]:
        """Every training job of the comparisons, in the configuration's order."""
        return [
            Compared(name, self.instances[dataset], method, options["loss"], options.get("features"))
            for name, section in self.comparisons.items()
            for dataset in section["datasets"]
            for method, options in section["methods"].items()
        ]

    @cached_property
    def models(self) -> list[str]:
        """The models that the bounded half trains, once each."""
        return sorted({run.model for run in self.runs})

    @cached_property
    def methods(self) -> list[str]:
        """The methods that the comparisons train, once each."""
        return sorted({job.method for job in self.compared})

    @cached_property
    def protocols(self) -> list[str]:
        """The protocols of both halves."""
        return list(dict.fromkeys([*self.config["protocols"], *([PROTOCOL] if self.compared else [])]))

    @cached_property
    def losses(self) -> list[str]:
        """The losses of both halves."""
        return list(dict.fromkeys([*self.config["losses"], *(job.loss for job in self.compared)]))

    @cached_property
    def boundings(self) -> list[str]:
        """The boundings of both halves."""
        return list(dict.fromkeys([*self.config["bounds"], *(["none"] if self.compared else [])]))

    @cached_property
    def needs_distributions(self) -> bool:
        """Whether any bounding reads score distributions."""
        return any(reads_distributions(bounding) for bounding in self.config["bounds"])

    # Targets

    def data_files(self) -> list[str]:
        """What the target `data` asks for."""
        return list(dict.fromkeys(one.path for one in self.instances.values()))

    def bounded_files(self) -> list[str]:
        """The instances whose lists' sizes the score distributions are of."""
        return [one.path for one in self.bounded_instances.values()]

    def distribution_files(self) -> list[str]:
        """What the target `tables` asks for."""
        return [distributions_path(loss) for loss in self.config["losses"]] if self.needs_distributions else []

    def run_files(self) -> list[str]:
        """The runs of every training job, and of the controls."""
        return [f"{stem}.parquet" for stem in self._stems()] + self._control_files()

    def epoch_files(self) -> list[str]:
        """The epochs beside the training jobs' runs."""
        return [f"{stem}.epochs.parquet" for stem in self._stems()]

    def table_files(self) -> list[str]:
        """The tables as CSV files."""
        return [f"<results>/tables/{name}.csv" for name in self.config["tables"]]

    def figure_files(self) -> list[str]:
        """The figures, as SVG and as PDF."""
        return [f"<results>/figures/{name}.{suffix}" for name in self.config["figures"] for suffix in ("svg", "pdf")]

    # Lookups

    def kind_of(self, source: str) -> str:
        """Which section of the configuration defines a data set."""
        return next(kind for kind in KINDS if source in (self.config.get(kind) or {}))

    def converted_path(self, source: str) -> str:
        """The parquet file of a data set."""
        return converted_path(self.kind_of(source), source)

    def training(self, instances: Instances, protocol: str) -> dict[str, Any]:
        """How a data set's model is trained: its section of the configuration, with the protocol's learning rate."""
        section: Mapping[str, Any] = self.config["training"][instances.source]
        return {**section, "learning_rate": section["learning_rate"][protocol]}

    # Pieces

    @property
    def _comparisons(self) -> dict[str, dict[str, Any]]:
        defined = self.config.get("comparisons") or {}
        return {name: with_feature_counts(defined[name]) for name in self.config.get("compare", defined)}

    def _stems(self) -> list[str]:
        return [run.stem for run in self.runs] + [job.stem for job in self.compared]

    def _control_files(self) -> list[str]:
        if not self.config["controls"]:
            return []
        bounded = [
            f"<results>/runs/{protocol}/{one.name}/controls.parquet"
            for protocol in self.config["protocols"]
            for one in self.bounded_instances.values()
        ]
        compared = [f"<results>/runs/{PROTOCOL}/{name}/compared/controls.parquet" for name in self.compared_instances]
        return bounded + compared


def reads_distributions(bounding: str) -> bool:
    """Whether a bounding reads score distributions."""
    return bounding.startswith("distribution")


def distributions_path(loss: str) -> str:
    """The score distributions of a loss' metric."""
    return f"<results>/tables/distributions/{loss}.parquet"
