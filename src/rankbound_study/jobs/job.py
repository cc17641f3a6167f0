"""A training job: a model, a loss and its settings on one data set, with folds and seeds inside."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rankbound.errors import ConfigError
from rankbound.metrics import Metric, metric
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.experiments import VARIANT
from rankbound_study.config.list_weights import LIST_WEIGHTS
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import BOOSTED_TREES, JUDGED_BY, PUBLISHED

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

# Metrics whose means are kept for every epoch and part, of bounded runs and of methods.
EPOCH_METRICS = ("nDCG", "AP", "nRBP(p=0.95)")
METHOD_EPOCH_METRICS = ("nDCG@10", "AP", "PairAccuracy")

TRAINER = ("optimiser", "learning_rate", "epochs", "batch_size", "temperature")
"""The settings that a bounded run's options hold side by side, and a method's under `settings`."""
OF_TREES = ("temperature",)
"""Those of trees, which no optimiser trains."""
RATE = "learning_rate"
"""A setting of the trainer, or of the model of trees; a list is a grid, from which every fold selects one."""
SOME = ("scale", LIST_WEIGHTS)
"""The settings that some bounded runs have."""

# Keys of the options, in the order in which a result's metadata has them.
_OF_RUN = ("study", "variant", "protocol", "dataset", "nsr", "model", "loss", "bounding", "folds", "seeds")
_VARIED = {"test_nsr": None, "test_relevant": None, "judged_by": "", "validation_share": None, "distributions": ""}
_OF_METHOD = (
    *("study", "protocol", "dataset", "nsr", "method", "family", "model", "loss", "bounding", "target"),
    *("settings", "judged_by", "folds", "seeds"),
)


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """The request of `python -m rankbound_study job`, from its options: a bounded run, or a method of a comparison.

    Attributes:
        model: name and options: `matrix-factorization`, `mlp`, `linear`, `cnn`, `boosted-trees`, `random-forest`,
            `lasso`, `ridge`.
        settings: of the trainer, for models that it trains: `optimiser`, `learning_rate`, `epochs`, `batch_size`,
            `temperature` of a smooth loss, `scale` of the features, `list_weights`, content of a batch (`batches`),
            and number of `pairs` per epoch. For any model: number of `features` (default: all), and random shift of
            pictures (`shift`, a share of their side; default: none).
        requested: the options as JSON, with defaults, for the results' metadata.
        judged_by: the metric that selects an epoch and that tables show, if it is not the loss' own.
        method: the name of a method, the `model` of its rows in the results; empty for a bounded run.
        family: of a method: `rank`, `class` or `reg`: the kind of problem that it solves.
        target: `relevance` labels, or each item's own `value` (an age).
        test_nsr: the ratio of the test lists, if it differs from that of the training.
        test_relevant: largest number of relevant items in a test list, if limited.
        validation_share: the share of each user's training ratings for validation, if it differs from the instances'.
        distributions: how the score distributions that it reads are made, if not as usual, for the record.
    """

    study: str
    protocol: str
    dataset: str
    nsr: int | None
    model: Mapping[str, Any]
    loss: str
    bounding: str
    folds: tuple[int, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    requested: str = ""
    judged_by: str = ""
    method: str = ""
    family: str = ""
    target: str = "relevance"
    variant: str = ""
    test_nsr: int | None = None
    test_relevant: int | None = None
    validation_share: float | None = None
    distributions: str = ""

    @classmethod
    def from_json(cls, text: str) -> "TrainingJob":
        """Return the job of a JSON object, a method's if it names one; ConfigError lists missing and unknown keys."""
        values = parse_options(text)
        needed, varied = (_OF_METHOD, {}) if "method" in values else ((*_OF_RUN, *_trainer(values)), _VARIED)
        if wrong := (set(needed) - values.keys()) | (values.keys() - {*needed, *varied}):
            raise ConfigError(f"options: found {sorted(values)}, expected {sorted(needed)}; differing: {sorted(wrong)}")
        requested = json.dumps({name: values.get(name, varied.get(name)) for name in (*needed, *varied)})
        if "settings" not in values:
            values["settings"] = {name: values.pop(name) for name in _trainer(values)}
        values |= {"folds": tuple(values["folds"]), "seeds": tuple(values["seeds"])}
        return cls(**values, requested=requested)

    @property
    def name(self) -> str:
        """The method's name, or loss and bounding, for messages and progress."""
        return self.method or f"{self.loss} {self.bounding}"

    @property
    def rates(self) -> tuple[float, ...]:
        """The grid of learning rates, from which every fold selects one; empty without a grid."""
        return tuple(getattr(self, self._rate_holder)[RATE]) if self._rate_holder else ()

    def at(self, rate: float | None) -> "TrainingJob":
        """Return the job with one rate of its grid; None, for a job without a grid, changes nothing."""
        changed = {} if rate is None else {RATE: rate}
        if self._rate_holder == "model":
            return replace(self, model={**self.model, **changed})
        return replace(self, settings={**self.settings, **changed})

    @property
    def judge(self) -> Metric:
        """The metric that selects an epoch, and that tables show."""
        return metric(self.judged_by or JUDGED_BY.get(self.loss, self.loss))

    @property
    def epoch_metrics(self) -> list[Metric]:
        """Metrics whose means are kept for every epoch and part."""
        usual = METHOD_EPOCH_METRICS if self.method else EPOCH_METRICS
        return [metric(name) for name in dict.fromkeys((*usual, *filter(None, [self.judged_by])))]

    @property
    def trains_on_validation(self) -> bool:
        """Return whether the validation part joins the training: the published protocol splits in two only.

        Judged lists keep it apart, because LETOR's folds have a separate validation part.
        """
        return self.protocol == PUBLISHED and DataSet(self.dataset, self.nsr).sampled

    def key(self, fold: int, seed: int) -> dict[str, Any]:
        """Return the key columns that all rows of a training share."""
        return {
            "study": f"{self.study}{VARIANT}{self.variant}" if self.variant else self.study,
            "protocol": self.protocol,
            "dataset": self.dataset,
            "nsr_train": self.nsr,
            "nsr_test": self.nsr if self.test_nsr is None else self.test_nsr,
            "model": self.method or self.model["name"],
            "options": self._options(),
            "loss": self.loss,
            "bounding": self.bounding,
            "fold": fold,
            "seed": seed,
        }

    @property
    def _rate_holder(self) -> str:
        """The attribute that has the grid of learning rates; empty without one."""
        return next((name for name in ("settings", "model") if isinstance(getattr(self, name).get(RATE), list)), "")

    def _options(self) -> str:
        stated: dict[str, Any] = {
            name: getattr(self, name) for name in ("judged_by", "test_relevant", "validation_share", "distributions")
        }
        if self.method:
            stated |= {"family": self.family, "model": self.model["name"], "target": self.target}
        chosen = {name: value for name, value in stated.items() if value}
        of_model = {name: value for name, value in self.model.items() if name != "name"}
        return json.dumps({**self.settings, **chosen, **of_model}, sort_keys=True)


def _trainer(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings among the options of a bounded run."""
    model = values.get("model")
    if isinstance(model, Mapping) and model.get("name") == BOOSTED_TREES:
        return OF_TREES
    return (*TRAINER, *(name for name in SOME if name in values))
