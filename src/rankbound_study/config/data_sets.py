"""The data sets that a configuration defines, as training reads them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

SYNTHETIC = "synthetic-"
"""Prefix of the names of generated data sets; all others are fetched."""

KINDS = ("interactions", "lists", "images")
"""The sections that define data sets, and the folders of their parquet files."""

GRADED = "graded"
"""Among the thresholds of judged lists: use the labels themselves."""

VGG16 = "vgg16"


@dataclass(frozen=True)
class Instances:
    """A data set as training reads it: a source at one sampling ratio, with one reading of its labels, or as pairs.

    Attributes:
        name: of its file, combining `dataset` and `nsr`: movielens-nsr2, mq2008-label1, aaf.
        source: the data set of the configuration that it is made from: movielens, mq2008, aaf.
        kind: the section that defines the source, of `KINDS`.
        dataset: its name in the results: movielens, mq2008-label1, mslr-web10k-graded, aaf-vgg16.
        nsr: sampled negatives per relevant item; None for judged lists and images.
        options: the options of `python -m rankbound_study sample`.
        features: `vgg16` if a network's features are read instead of an image's pixels.
    """

    name: str
    source: str
    kind: str
    dataset: str
    nsr: int | None
    options: Mapping[str, Any]
    features: str | None = None

    @property
    def path(self) -> str:
        """Its file; pixels and features of the same images share their pairs."""
        return f"<data>/instances/{self.source if self.features else self.name}.parquet"

    @property
    def inputs(self) -> dict[str, str]:
        """The files that training reads, by flag: the instances, and the file with the items' features."""
        files = {"instances": self.path}
        if self.kind != "interactions":
            files[self.kind] = converted_path(self.kind, self.source)
        if self.features:
            files["image_features"] = features_path(self.source)
        return files


def defined_instances(config: Mapping[str, Any]) -> dict[str, Instances]:
    """Return every data set that the configuration defines, as training reads it, by name."""
    defined = [
        instances
        for kind in KINDS
        for source, section in (config.get(kind) or {}).items()
        for instances in _instances_of(kind, source, section)
    ]
    return {instances.name: instances for instances in defined}


def converted_path(kind: str, source: str) -> str:
    """The parquet file of a data set."""
    return f"<data>/{kind}/{source}.parquet"


def features_path(source: str) -> str:
    """Return the file of VGG16's features for the images of a data set."""
    return f"<data>/features/{source}-{VGG16}.parquet"


def _instances_of(kind: str, source: str, section: Mapping[str, Any]) -> Iterator[Instances]:
    if kind == "lists":
        for threshold in section["thresholds"]:
            graded = threshold == GRADED
            name = f"{source}-{GRADED if graded else f'label{threshold}'}"
            yield Instances(name, source, kind, name, None, {GRADED: True} if graded else {"threshold": threshold})
    elif kind == "images":
        options = {"above": section["above"], "seed": section["seed"]}
        options |= {f"{part}_pairs": count for part, count in section["pairs"].items()}
        yield Instances(source, source, kind, source, None, options)
        with_features = f"{source}-{VGG16}"
        yield Instances(with_features, source, kind, with_features, None, options, VGG16)
    else:
        shared = {key: section[key] for key in ("threshold", "min_relevant", "validation_share", "seed")}
        for nsr in section["nsr"]:
            yield Instances(f"{source}-nsr{nsr}", source, kind, source, nsr, {**shared, "nsr": nsr})
