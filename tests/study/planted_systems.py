"""Runs and epochs of a study with planted scores: systems that are as good as asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import EPOCH_METRICS, RUN_METRICS
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import CONTROLS

STUDY = "mine"
TOPICS = 60

System = tuple[str, str, str, str]
"""Variant, model, loss and bounding."""


@dataclass
class PlantedSystems:
    """Scores of systems by topic; those of validation decide the order.

    Every tenth topic has no relevant item. Folds share out the topics; list lengths grow with their number.
    """

    folder: Path
    seeds: Sequence[int] = (0,)
    dataset: str = "web-label1"
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    epochs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(
        self, system: System, scores: Sequence[float], validation: float = 0.5, *, options: str = "{}", **changes: Any
    ) -> "PlantedSystems":
        """Add a system with a score per topic, the same on all metrics and in all seeds."""
        variant, control = system[0], system[2] == "none"
        for seed in (0,) if control else self.seeds:
            for topic in range(TOPICS):
                key = self._key(system, topic % 2 + 1, seed, options) | changes
                score = float("nan") if topic % 10 == 9 else float(scores[topic])
                row = {**key, "selection": "last" if control else "validation", "topic": f"q{topic:02}"}
                row |= {"n": 5 + topic // 6, "p": 0 if topic % 10 == 9 else 2, "epoch": 0 if control else 3}
                self.runs.setdefault(variant, []).append({**row, **dict.fromkeys(RUN_METRICS, score)})
            for fold in () if control else (1, 2):
                for epoch, at_it in ((2, validation + 0.3), (3, validation)):
                    key = self._key(system, fold, seed, options) | changes
                    row = {**key, "epoch": epoch, "part": "validation", "mean_loss": 0.0, "gradient_norm": 1.0}
                    self.epochs.setdefault(variant, []).append({**row, **dict.fromkeys(EPOCH_METRICS, at_it)})
        return self

    def files(self) -> StudyFiles:
        """Write the tables, those of variants apart, as the workflow does."""
        kinds: Mapping[str, dict[str, list[dict[str, Any]]]] = {"runs": self.runs, "epochs": self.epochs}
        paths: dict[str, Path] = {}
        for contract, rows in kinds.items():
            usual, varied = rows.get("", []), [row for variant, own in rows.items() if variant for row in own]
            for name, of_name in ((contract, usual), (_VARIED[contract], varied)):
                if of_name:
                    paths[name] = self.folder / f"{name}.parquet"
                    write_table(pa.Table.from_pylist(of_name), paths[name], contract)
        return StudyFiles(**paths)

    def _key(self, system: System, fold: int, seed: int, options: str) -> dict[str, Any]:
        variant, model, loss, bounding = system
        return {
            "study": f"{STUDY}@{variant}" if variant else STUDY,
            "protocol": "honest",
            "dataset": self.dataset,
            "nsr_train": None,
            "nsr_test": None,
            "model": model,
            "options": options,
            "loss": loss,
            "bounding": bounding,
            "fold": fold,
            "seed": seed,
        }


def control(name: str) -> System:
    """A control as a system."""
    assert name in CONTROLS
    return "", name, "none", "none"


def noise(seed: int, size: float = 0.02) -> np.ndarray:
    """Noise of one system's scores."""
    return np.random.default_rng(seed).normal(0, size, TOPICS)


_VARIED = {"runs": "experiments", "epochs": "experiment_epochs"}
