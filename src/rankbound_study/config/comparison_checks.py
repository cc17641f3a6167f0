"""Check the comparisons across keys: losses and data sets that exist, options that a model has."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rankbound.texts import split_text
from rankbound_study.config.code_digests import defined_names
from rankbound_study.config.comparisons import OF_FEATURES, method_settings, with_feature_counts
from rankbound_study.config.data_sets import Instances, defined_instances
from rankbound_study.config.lines import KeyPath
from rankbound_study.config.words import listed, named, nearest

MODEL_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "mlp": ("hidden",),
    "linear": (),
    "cnn": ("side", "channels", "kernel", "hidden"),
    "boosted-trees": ("rounds", "every", "leaves", "min_rows", "feature_share", "bins", "learning_rate"),
    "random-forest": ("rounds", "every", "leaves", "min_rows", "feature_share", "row_share", "bins"),
    "lasso": ("penalties",),
    "ridge": ("penalties",),
}
"""The options of each model, besides its name."""

_NEEDED = {"mlp": ("hidden",), "boosted-trees": ("rounds", "every"), "random-forest": ("rounds", "every")}
_NEEDED |= {"lasso": ("penalties",), "ridge": ("penalties",)}
_TRAINED = ("mlp", "linear", "cnn")
_TRAINER = ("optimiser", "learning_rate", "epochs", "batch_size")

Problem = tuple[KeyPath, str]


@cache
def loss_names() -> tuple[str, ...]:
    """Return the names of the losses that methods may have, without importing torch to find them."""
    return (*defined_names("rankbound.losses"), "nDCG", "AP", "RR", "nRBP")


def check_comparisons(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield every problem between the keys of the comparisons."""
    defined = defined_instances(config)
    comparisons = config.get("comparisons") or {}
    for position, name in enumerate(config.get("compare", [])):
        if name not in comparisons:
            hint = nearest(name, list(comparisons))
            yield ("compare", position), f"compare names {name!r}, which comparisons does not define{hint}"
    taken: dict[tuple[str, str], str] = {}
    for name, section in comparisons.items():
        path: KeyPath = ("comparisons", name)
        for position, dataset in enumerate(section["datasets"]):
            where = (*path, "datasets", position)
            if dataset not in defined:
                yield where, f"{named(where)} is {dataset!r}, which nothing defines{nearest(dataset, list(defined))}"
                continue
            yield from _folds_that_are_there(path, section, defined[dataset], config)
            for method in with_feature_counts(section)["methods"]:
                other = taken.setdefault((dataset, method), name)
                if other != name:
                    base = method if method in section["methods"] else method.rpartition(OF_FEATURES)[0]
                    message = f"{named((*path, 'methods', method))} also runs on {dataset} in comparisons.{other}"
                    yield (*path, "methods", base), f"{message}: give it another name"
        yield from _feature_counts(path, section)
        yield from _shifts(path, section, defined)
        instances = [defined[dataset] for dataset in section["datasets"] if dataset in defined]
        for method, own in section["methods"].items():
            yield from _method((*path, "methods", method), section, own, instances)


def _folds_that_are_there(
    path: KeyPath, section: Mapping[str, Any], instances: Instances, config: Mapping[str, Any]
) -> Iterator[Problem]:
    if instances.kind == "images":
        there = config["images"][instances.source]["folds"]
        if max(section["folds"]) > there:
            where = (*path, "folds")
            yield where, f"{named(where)} has {max(section['folds'])}, but images.{instances.source} makes {there}"
        if instances.features and "vgg16_side" not in config["images"][instances.source]:
            where = ("images", instances.source)
            yield where, f"{named(where)} has no vgg16_side, which {instances.name} needs"
    elif instances.nsr is not None:
        where = (*path, "datasets")
        yield where, f"{named(where)} has {instances.name}: methods read features, and ratings have none"


def _feature_counts(path: KeyPath, section: Mapping[str, Any]) -> Iterator[Problem]:
    counts = section.get("feature_counts", [])
    if counts != sorted(counts):
        where = (*path, "feature_counts")
        yield where, f"{named(where)} is {counts}: expected ascending numbers, {sorted(counts)}"
    for method, own in section["methods"].items() if counts else ():
        if own["model"]["name"] == "cnn":
            where = (*path, "methods", method)
            yield (
                where,
                (
                    f"{named(where)} is a cnn, which reads whole pictures, not some of their pixels "
                    f"({named((*path, 'feature_counts'))}): remove it from this comparison"
                ),
            )


def _shifts(path: KeyPath, section: Mapping[str, Any], defined: Mapping[str, Instances]) -> Iterator[Problem]:
    """Check that `shift` is set only for pixels: neither tables nor network features can be shifted."""
    moving = [name for name, own in section["methods"].items() if method_settings(section, own).get("shift")]
    found = [defined[dataset] for dataset in section["datasets"] if dataset in defined]
    for instances in found if moving else []:
        if instances.kind != "images" or instances.features:
            where = (*path, "methods", moving[0])
            yield where, f"{named(where)} has the setting shift, which moves pictures: {instances.name} has no pixels"


def _method(
    path: KeyPath, section: Mapping[str, Any], own: Mapping[str, Any], data: list[Instances]
) -> Iterator[Problem]:
    loss = (*path, "loss")
    try:
        name = split_text(own["loss"], "loss")[0]
    except ValueError as error:
        yield loss, f"{named(loss)}: {error}"
    else:
        if name not in loss_names():
            hint = nearest(name, loss_names())
            yield loss, f"{named(loss)} is {own['loss']!r}: expected one of {listed(loss_names())}{hint}"
        elif name != "squared" and own["model"]["name"] in ("random-forest", "lasso", "ridge"):
            yield loss, f"{named(loss)} is {own['loss']!r}: {own['model']['name']} requires squared"
    yield from _model((*path, "model"), own)
    if own["model"]["name"] in _TRAINED:
        settings = method_settings(section, own)
        for key in [key for key in _TRAINER if key not in settings]:
            yield path, f"{named(path)} is trained without {key}: neither its settings nor the comparison's have one"
    if own.get("target") == "value":
        for instances in data:
            if instances.kind != "images":
                where = (*path, "target")
                yield where, f"{named(where)} is value: items of {instances.name} have only relevance labels"
    elif own["model"]["name"] in ("lasso", "ridge"):
        yield path, f"{named(path)} is a regression: it needs target: value"


def _model(path: KeyPath, own: Mapping[str, Any]) -> Iterator[Problem]:
    model = own["model"]
    allowed = MODEL_OPTIONS[model["name"]]
    for key in [key for key in model if key not in ("name", *allowed)]:
        takes = listed(allowed) or "none"
        yield (*path, key), f"{named((*path, key))} is not an option of {model['name']} (its options: {takes})"
    for key in [key for key in _NEEDED.get(model["name"], ()) if key not in model]:
        yield path, f"the key {named((*path, key))} is missing"
