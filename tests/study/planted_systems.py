"""Runs and epochs of a study with planted scores: systems that are as good as asked for."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from planted import joined, repeated

from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import EPOCH_METRICS, RUN_METRICS
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
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def add(
        self, system: System, scores: Sequence[float], validation: float = 0.5, *, options: str = "{}", **changes: Any
    ) -> "PlantedSystems":
        """Add a system with a score per topic, the same on all metrics and in all seeds; `changes` are other keys.

        With a `selection` of its own, these are the runs of other epochs of a system that has been added.
        """
        variant, model, loss, bounding = system
        study = {"study": f"{STUDY}@{variant}" if variant else STUDY, "protocol": "honest"}
        data = {"dataset": self.dataset, "nsr_train": None, "nsr_test": None}
        key = {**study, **data, "model": model, "options": options, "loss": loss, "bounding": bounding}
        topics, is_control = np.arange(TOPICS), loss == "none"
        known = topics % 10 != 9
        lists = {"fold": topics % 2 + 1, "topic": [f"q{topic:02}" for topic in topics], "n": 5 + topics // 6}
        lists |= {"p": 2 * known, **dict.fromkeys(RUN_METRICS, np.where(known, scores, np.nan))}
        last = {"selection": "last" if is_control else "validation", "epoch": 0 if is_control else 3, "drawing": 0}
        course = {"part": "validation", "mean_loss": 0.0, "gradient_norm": 1.0}
        steps = {"fold": [1, 1, 2, 2], "epoch": [2, 3] * 2}
        steps |= dict.fromkeys(EPOCH_METRICS, [validation + 0.3, validation] * 2)
        for seed in (0,) if is_control else self.seeds:
            row = key | {"seed": seed}
            self.tables["experiments" if variant else "runs"].append(repeated(row | last | changes, lists))
            if not (is_control or "selection" in changes):
                epochs = self.tables["experiment_epochs" if variant else "epochs"]
                epochs.append(repeated(row | course | changes, steps))
        return self

    def files(self) -> StudyFiles:
        """Write the tables, those of variants apart, as the workflow does."""
        paths = {name: self.folder / f"{name}.parquet" for name in self.tables}
        for name, path in paths.items():
            write_table(joined(self.tables[name]), path, "epochs" if "epochs" in name else "runs")
        return StudyFiles(**paths)


def control(name: str) -> System:
    """A control as a system."""
    assert name in CONTROLS
    return "", name, "none", "none"


def noise(seed: int, size: float = 0.02) -> np.ndarray:
    """Noise of one system's scores."""
    return np.random.default_rng(seed).normal(0, size, TOPICS)
