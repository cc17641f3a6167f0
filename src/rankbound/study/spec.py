"""A study's configuration as the work it asks for: data sets, training jobs, and the files of both.

The workflow's targets come from here. Paths begin with a path variable of the workflow (`<data>`, `<results>`), which
the configuration's `pathvars` resolve.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankbound.study.config import SYNTHETIC


@dataclass(frozen=True)
class Instances:
    """A data set as training reads it: a source at one sampling ratio, or with one reading of its labels.

    Attributes:
        name: of its file, and `dataset` and `nsr` in one: movielens-nsr2, mq2008-label1.
        source: the data set of the configuration that it is made from: movielens, mq2008.
        dataset: as the results name it: movielens, mq2008-label1.
        nsr: sampled negatives per relevant item; None for judged lists.
        judged: whether its lists, features and folds come with the data.
        options: what `rankbound sample` gets.
    """

    name: str
    source: str
    dataset: str
    nsr: int | None
    judged: bool
    options: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Its file."""
        return f"<data>/instances/{self.name}.parquet"


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

    @cached_property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The data sets that run, by name, each with its section of the configuration."""
        sections = {**(self.config.get("interactions") or {}), **(self.config.get("lists") or {})}
        return {name: sections[name] for name in self.config["datasets"]}

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
        """The data set of each archive, by the archive's file name."""
        return {self.sources[name]["archive"]: name for name in self.fetched}

    @cached_property
    def instances(self) -> dict[str, Instances]:
        """Every data set as training reads it, by name."""
        made = [one for source in self.sources for one in self._instances_of(source)]
        return {one.name: one for one in made}

    @cached_property
    def runs(self) -> list[Run]:
        """Every training job, in the configuration's order."""
        return [
            Run(protocol, one, self.training(one, protocol)["model"]["name"], loss, bounding)
            for protocol in self.config["protocols"]
            for one in self.instances.values()
            for loss in self.config["losses"]
            for bounding in self.config["bounds"]
        ]

    @cached_property
    def models(self) -> list[str]:
        """The models that are trained, once each."""
        return sorted({run.model for run in self.runs})

    @cached_property
    def needs_distributions(self) -> bool:
        """Whether any bounding reads score distributions."""
        return any(reads_distributions(bounding) for bounding in self.config["bounds"])

    # Targets

    def data_files(self) -> list[str]:
        """What the target `data` asks for."""
        return [one.path for one in self.instances.values()]

    def distribution_files(self) -> list[str]:
        """What the target `tables` asks for."""
        return [distributions_path(loss) for loss in self.config["losses"]] if self.needs_distributions else []

    def run_files(self) -> list[str]:
        """The runs of every training job, and of the controls."""
        return [f"{run.stem}.parquet" for run in self.runs] + self._control_files()

    def epoch_files(self) -> list[str]:
        """The epochs beside the training jobs' runs."""
        return [f"{run.stem}.epochs.parquet" for run in self.runs]

    def table_files(self) -> list[str]:
        """The tables as CSV files."""
        return [f"<results>/tables/{name}.csv" for name in self.config["tables"]]

    def figure_files(self) -> list[str]:
        """The figures, as SVG and as PDF."""
        return [f"<results>/figures/{name}.{suffix}" for name in self.config["figures"] for suffix in ("svg", "pdf")]

    # Lookups

    def is_judged(self, source: str) -> bool:
        """Whether a data set has judged lists, not ratings."""
        return source in (self.config.get("lists") or {})

    def converted_path(self, source: str) -> str:
        """The parquet file of a data set."""
        return f"<data>/{'lists' if self.is_judged(source) else 'interactions'}/{source}.parquet"

    def training(self, instances: Instances, protocol: str) -> dict[str, Any]:
        """How a data set's model is trained: its section of the configuration, with the protocol's learning rate."""
        section: Mapping[str, Any] = self.config["training"][instances.source]
        return {**section, "learning_rate": section["learning_rate"][protocol]}

    # Pieces

    def _instances_of(self, source: str) -> list[Instances]:
        section = self.sources[source]
        if self.is_judged(source):
            readings = {f"{source}-label{threshold}": threshold for threshold in section["thresholds"]}
            return [
                Instances(name, source, name, None, True, {"threshold": threshold})
                for name, threshold in readings.items()
            ]
        shared = {key: section[key] for key in ("threshold", "min_relevant", "validation_share", "seed")}
        return [
            Instances(f"{source}-nsr{nsr}", source, source, nsr, False, {**shared, "nsr": nsr})
            for nsr in section["nsr"]
        ]

    def _control_files(self) -> list[str]:
        if not self.config["controls"]:
            return []
        return [
            f"<results>/runs/{protocol}/{one.name}/controls.parquet"
            for protocol in self.config["protocols"]
            for one in self.instances.values()
        ]


def reads_distributions(bounding: str) -> bool:
    """Whether a bounding reads score distributions."""
    return bounding.startswith("distribution")


def distributions_path(loss: str) -> str:
    """The score distributions of a loss' metric."""
    return f"<results>/tables/distributions/{loss}.parquet"
