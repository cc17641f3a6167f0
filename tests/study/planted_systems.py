"""Runs and epochs of a study with planted scores: systems that are as good as asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import EPOCH_METRICS, RUN_METRICS
from rankbound_study.results.study_files import StudyFiles
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
        """Add a system with a score per topic, the same on all metrics and in all seeds; `changes` are other keys.

        With a `selection` of its own, these are the runs of other epochs of a system that has been added.
        """
        variant, is_control = system[0], system[2] == "none"
        last = {"selection": "last" if is_control else "validation", "epoch": 0 if is_control else 3}
        for seed in (0,) if is_control else self.seeds:
            for topic in range(TOPICS):
                known = topic % 10 != 9
                row = self._key(system, topic % 2 + 1, seed, options) | last | changes
                row |= {"topic": f"q{topic:02}", "drawing": 0, "n": 5 + topic // 6, "p": 2 * known}
                score = float(scores[topic]) if known else float("nan")
                self.runs.setdefault(variant, []).append({**row, **dict.fromkeys(RUN_METRICS, score)})
            for fold in () if is_control or "selection" in changes else (1, 2):
                for epoch, at_it in ((2, validation + 0.3), (3, validation)):
                    row = self._key(system, fold, seed, options) | changes
                    row |= {"epoch": epoch, "part": "validation", "mean_loss": 0.0, "gradient_norm": 1.0}
                    self.epochs.setdefault(variant, []).append({**row, **dict.fromkeys(EPOCH_METRICS, at_it)})
        return self

    def files(self) -> StudyFiles:
        """Write the tables, those of variants apart, as the workflow does."""
        paths: dict[str, Path] = {}
        for contract, rows in (("runs", self.runs), ("epochs", self.epochs)):
            usual, varied = rows.get("", []), [row for variant, own in rows.items() if variant for row in own]
            for name, of_name in ((contract, usual), (_VARIED[contract], varied)):
                if of_name:
                    paths[name] = self.folder / f"{name}.parquet"
                    write_table(pa.Table.from_pylist(of_name), paths[name], contract)
        return StudyFiles(**paths)

    def _key(self, system: System, fold: int, seed: int, options: str) -> dict[str, Any]:
        variant, model, loss, bounding = system
        study = {"study": f"{STUDY}@{variant}" if variant else STUDY, "protocol": "honest"}
        data = {"dataset": self.dataset, "nsr_train": None, "nsr_test": None}
        names = {"model": model, "options": options, "loss": loss, "bounding": bounding}
        return {**study, **data, **names, "fold": fold, "seed": seed}


def control(name: str) -> System:
    """A control as a system."""
    assert name in CONTROLS
    return "", name, "none", "none"


def noise(seed: int, size: float = 0.02) -> np.ndarray:
    """Noise of one system's scores."""
    return np.random.default_rng(seed).normal(0, size, TOPICS)


_VARIED = {"runs": "experiments", "epochs": "experiment_epochs"}
