"""One training job: a data set, a model, a loss and a bound, with folds and seeds inside."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from rankbound.errors import ConfigError
from rankbound.metrics import Metric, metric
from rankbound_study.config.experiments import VARIANT
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import JUDGED_BY, PUBLISHED

# Metric columns of the runs table, one value per topic.
RUN_METRICS = (
    "nDCG",
    "AP",
    "RR",
    "nRBP(p=0.8)",
    "nRBP(p=0.9)",
    "nRBP(p=0.95)",
    "P@5",
    "P@10",
    "PairAccuracy",
    *(f"nDCG@{k}" for k in range(1, 21)),
)

# Metrics whose means are kept for every epoch and part.
EPOCH_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """The request of `python -m rankbound_study job`, from its options.

    Attributes:
        test_nsr: the ratio of the test lists, if it differs from that of the training.
        test_relevant: largest number of relevant items in a test list, if limited.
        judged_by: the metric that selects an epoch, if it is not the loss' own.
        validation_share: the share of each user's training ratings for validation, if it differs from the instances'.
    """

    study: str
    variant: str
    protocol: str
    dataset: str
    nsr: int | None
    model: Mapping[str, Any]
    loss: str
    bounding: str
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    optimiser: str
    learning_rate: float
    epochs: int
    batch_size: int
    temperature: float
    test_nsr: int | None = None
    test_relevant: int | None = None
    judged_by: str = ""
    validation_share: float | None = None

    @classmethod
    def from_json(cls, text: str) -> "TrainingJob":
        """Return the job of a JSON object with these keys; ConfigError names missing and unknown ones."""
        values = parse_options(text)
        known = {field.name: field.default is MISSING for field in fields(cls)}
        needed = {name for name, is_needed in known.items() if is_needed}
        if wrong := (needed - values.keys()) | (values.keys() - known.keys()):
            raise ConfigError(f"options: found {sorted(values)}, expected {sorted(needed)}; differing: {sorted(wrong)}")
        return cls(**{**values, "folds": tuple(values["folds"]), "seeds": tuple(values["seeds"])})

    @property
    def judge(self) -> Metric:
        """The metric that selects an epoch, and that tables show."""
        return metric(self.judged_by or JUDGED_BY.get(self.loss, self.loss))

    @property
    def epoch_metrics(self) -> tuple[str, ...]:
        """Metrics whose means are kept for every epoch and part."""
        return tuple(dict.fromkeys((*EPOCH_METRICS, *([self.judged_by] if self.judged_by else []))))

    @property
    def trains_on_validation(self) -> bool:
        """Return whether the validation part joins the training: the published protocol splits in two only.

        Judged lists keep it apart, because LETOR's folds have a separate validation part.
        """
        return self.protocol == PUBLISHED and self.nsr is not None

    def key(self, fold: int, seed: int) -> dict[str, Any]:
        """Return the key columns that all rows of a training share."""
        return {
            "study": f"{self.study}{VARIANT}{self.variant}" if self.variant else self.study,
            "protocol": self.protocol,
            "dataset": self.dataset,
            "nsr_train": self.nsr,
            "nsr_test": self.nsr if self.test_nsr is None else self.test_nsr,
            "model": self.model["name"],
            "options": self._options(),
            "loss": self.loss,
            "bounding": self.bounding,
            "fold": fold,
            "seed": seed,
        }

    def _options(self) -> str:
        settings = {
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "learning_rate": self.learning_rate,
            "optimiser": self.optimiser,
            "temperature": self.temperature,
            **{name: value for name, value in self.model.items() if name != "name"},
            **{
                name: value
                for name in ("judged_by", "test_relevant", "validation_share")
                if (value := getattr(self, name))
            },
        }
        return json.dumps(settings, sort_keys=True)
