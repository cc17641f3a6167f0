"""A job of a comparison: a named method, which is a model, a loss and its settings, on one data set."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rankbound.errors import ConfigError
from rankbound.metrics import Metric, metric
from rankbound_study.options import parse_options

# The targets of a comparison's methods: the lists' relevance labels, or each item's own value (an age).
TARGETS = ("relevance", "value")

# Metrics whose means are kept for every epoch and part.
METHOD_EPOCH_METRICS = ("nDCG@10", "AP", "PairAccuracy")

BATCHES = ("lists", "pairs", "items")


@dataclass(frozen=True, kw_only=True)
class MethodJob:
    """The request of `python -m rankbound_study job`, from options that name a method.

    Attributes:
        method: its name, the `model` of its rows in the results.
        family: `rank`, `class` or `reg`: the kind of problem that it solves.
        model: name and options: `mlp`, `linear`, `cnn`, `boosted-trees`, `random-forest`, `lasso`, `ridge`.
        target: of `TARGETS`.
        settings: of the trainer, for models that it trains: `optimiser`, `learning_rate`, `epochs`, `batch_size`,
            `scale` of the features, content of a batch (`batches`, of `BATCHES`), and number of `pairs` per epoch. For
            any model: number of `features` (default: all), and random shift of pictures (`shift`, a share of their
            side; default: none).
        judged_by: the metric that selects an epoch, and that tables show.
    """

    study: str
    protocol: str
    dataset: str
    nsr: int | None
    method: str
    family: str
    model: Mapping[str, Any]
    loss: str
    bounding: str
    target: str
    settings: Mapping[str, Any]
    judged_by: str
    folds: tuple[int, ...]
    seeds: tuple[int, ...]

    @classmethod
    def from_json(cls, text: str) -> "MethodJob":
        """Return the job of a JSON object with exactly these keys; ConfigError names missing and unknown ones."""
        values = parse_options(text)
        known = {field.name for field in fields(cls)}
        if wrong := known.symmetric_difference(values):
            raise ConfigError(f"options: found {sorted(values)}, expected {sorted(known)}; differing: {sorted(wrong)}")
        return cls(**{**values, "folds": tuple(values["folds"]), "seeds": tuple(values["seeds"])})

    @property
    def judge(self) -> Metric:
        """The metric of `judged_by`."""
        return metric(self.judged_by)

    @property
    def epoch_metrics(self) -> tuple[str, ...]:
        """Metrics whose means are kept for every epoch and part."""
        return tuple(dict.fromkeys((*METHOD_EPOCH_METRICS, self.judged_by)))

    @property
    def trains_on_validation(self) -> bool:
        """Return False: the validation part selects the epoch."""
        return False

    def key(self, fold: int, seed: int) -> dict[str, Any]:
        """Return the key columns that all rows of a training share."""
        settings = {
            "family": self.family,
            "judged_by": self.judged_by,
            "model": self.model["name"],
            "target": self.target,
            **{name: value for name, value in self.model.items() if name != "name"},
            **{name: value for name, value in self.settings.items() if name not in self.model},
        }
        return {
            "study": self.study,
            "protocol": self.protocol,
            "dataset": self.dataset,
            "nsr_train": self.nsr,
            "nsr_test": self.nsr,
            "model": self.method,
            "options": json.dumps(settings, sort_keys=True),
            "loss": self.loss,
            "bounding": self.bounding,
            "fold": fold,
            "seed": seed,
        }
