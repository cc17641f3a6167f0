"""The comparisons of a configuration: named methods on data sets, one training job for each pair."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankbound_study.config.data_sets import SYNTHETIC, Instances
from rankbound_study.vocabulary import HONEST

STUDY = "neural"
"""The study's name in the keys and seeds of comparison runs: methods are paired, whatever the study's own name."""

PROTOCOL = HONEST
"""The validation part selects the epoch: the publication does not say how the methods were tuned."""

OF_FEATURES = "-of-"
"""Separates a method's name from its number of features: `RankNet-of-10`."""

VGG16_FILE = "vgg16-397923af.pth"
VGG16_WEIGHTS = "<data>/weights/vgg16.safetensors"


@dataclass(frozen=True)
class Compared:
    """One training job: all folds and seeds of a method on a data set."""

    comparison: str
    instances: Instances
    method: str
    loss: str
    features: int | None = None
    """Number of features used, if the comparison varies it; None: all."""
    shift: float | None = None
    """Maximal random shift of its pictures, as a share of their side; None: no shift."""

    @property
    def base(self) -> str:
        """The method's name in the comparison, without the number of features."""
        return self.method if self.features is None else self.method.removesuffix(f"{OF_FEATURES}{self.features}")

    @property
    def stem(self) -> str:
        """The path of its files without suffix."""
        return f"<results>/runs/{PROTOCOL}/{self.instances.name}/{self.method}/{self.loss}/none"


def with_feature_counts(section: Mapping[str, Any]) -> dict[str, Any]:
    """Expand a comparison's `feature_counts` into its methods: one per count, with a name and a key `features`.

    >>> with_feature_counts({"feature_counts": [5, 46], "methods": {"Rank-LR": {"family": "rank"}}})["methods"]
    {'Rank-LR-of-5': {'family': 'rank', 'features': 5}, 'Rank-LR-of-46': {'family': 'rank', 'features': 46}}
    """
    counts = section.get("feature_counts")
    if not counts:
        return dict(section)
    methods = {
        f"{name}{OF_FEATURES}{count}": {**own, "features": count}
        for name, own in section["methods"].items()
        for count in counts
    }
    return {**section, "methods": methods}


def method_options(section: Mapping[str, Any], instances: Instances, method: str) -> dict[str, Any]:
    """Return the options of a method's job: its own section merged over the comparison's settings."""
    own = section["methods"][method]
    return {
        "study": STUDY,
        "protocol": PROTOCOL,
        **instances.data_set._asdict(),
        "method": method,
        "family": own["family"],
        "model": own["model"],
        "loss": own["loss"],
        "bounding": "none",
        "target": own.get("target", "relevance"),
        "settings": method_settings(section, own),
        **{key: section[key] for key in ("judged_by", "folds", "seeds")},
    }


def method_settings(section: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trainer's settings, and the feature count and shift if the method has them."""
    seen = {"features": method["features"]} if "features" in method else {}
    moved = {"shift": shift} if (shift := _merged_settings(section, method).get("shift")) is not None else {}
    return {**_trainer_settings(section, method), **seen, **moved}


def _trainer_settings(section: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison's settings with the method's own merged over them; null removes one.

    Trees and penalised regressions have no trainer; only the scale of the features applies to them.
    """
    kept = _merged_settings(section, method)
    name = method["model"]["name"]
    if name in ("boosted-trees", "random-forest"):
        return {}
    return {"scale": kept["scale"]} if name in ("lasso", "ridge") and "scale" in kept else kept


def _merged_settings(section: Mapping[str, Any], method: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**(section.get("settings") or {}), **(method.get("settings") or {})}
    return {key: value for key, value in merged.items() if value is not None}


def vgg16_at(config: Mapping[str, Any]) -> Path | None:
    """Return the path of VGG16's published weights (converted, downloaded or at a mirror's folder), or None."""
    data = Path(config["pathvars"]["data"])
    mirror = os.environ.get("RANKBOUND_MIRROR") or config.get("mirror") or ""
    places = [data / "weights/vgg16.safetensors", data / "raw" / VGG16_FILE]
    if mirror and "://" not in mirror:
        places.append(Path(mirror) / VGG16_FILE)
    return next((place for place in places if place.is_file()), None)


def missing_weights(config: Mapping[str, Any], comparison: str) -> str:
    """Return why a comparison on VGG16's features does not run, and what to do."""
    raw = Path(config["pathvars"]["data"]) / "raw" / VGG16_FILE
    return (
        f"comparisons.{comparison} is left out: the published weights of VGG16 are missing. To run it, use "
        f"`python -m rankbound_study download vgg16 --out {raw}`, or save {VGG16_FILE} there by hand."
    )


def needs_vgg16(instances: Instances) -> bool:
    """Return whether the features come from VGG16's published weights."""
    return instances.features is not None and not instances.source.startswith(SYNTHETIC)
