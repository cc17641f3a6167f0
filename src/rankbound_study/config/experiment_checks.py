"""Check the experiments across keys: data sets that exist and are trained, options that their model has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rankbound.texts import split_text
from rankbound_study.config.comparison_checks import loss_names
from rankbound_study.config.data_sets import Instances, defined_instances
from rankbound_study.config.lines import KeyPath
from rankbound_study.config.words import listed, named, nearest
from rankbound_study.vocabulary import HONEST

Problem = tuple[KeyPath, str]

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "matrix-factorization": ("factors", "spread"),
    "mlp": ("hidden", "activation"),
}
"""The options of each model that a variant may change."""

WITH_JUDGE = ("nDCG", "AP", "nRBP")
"""The losses of the study: they can be bounded, and each has a metric that judges it."""


def check_experiments(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield every problem between the keys of the experiments that run."""
    experiments = config.get("experiments") or {}
    running = config.get("experiment", list(experiments))
    for position, name in enumerate(running):
        if name in experiments:
            yield from _of_one(("experiments", name), experiments[name], config)
            yield from _losses(("experiments", name), experiments[name], config)
        else:
            hint = nearest(name, list(experiments))
            yield ("experiment", position), f"experiment names {name!r}, which experiments does not define{hint}"


def _of_one(path: KeyPath, section: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Problem]:
    defined = defined_instances(config)
    bounds = section.get("bounds", config["bounds"])
    for position, dataset in enumerate(section["datasets"]):
        where = (*path, "datasets", position)
        if dataset not in defined:
            hint = f"{nearest(dataset, list(defined))} (or leave {path[-1]} out of `experiment`)"
            yield where, f"{named(where)} is {dataset!r}, which nothing defines{hint}"
            continue
        source = defined[dataset].source
        if source not in config["training"]:
            trained = listed(list(config["training"])) or "none"
            yield where, f"{named(where)} is {dataset!r}, but training has no entry for {source!r} (it has {trained})"
            continue
        for variant, overrides in section["variants"].items():
            inside = (*path, "variants", variant)
            yield from _other_ratio((*inside, "test_nsr"), overrides, defined[dataset], config)
            yield from _other_share((*inside, "validation_share"), overrides, defined[dataset], bounds)
        rates = config["training"][source]["learning_rate"]
        model = config["training"][source]["model"]["name"]
        for variant, overrides in section["variants"].items():
            inside = (*path, "variants", variant)
            if HONEST not in rates and "learning_rate" not in overrides:
                yield inside, f"{named(inside)} has no learning_rate, nor has training.{source} one for honest runs"
            for option in set(overrides.get("model", {})) - set(OPTIONS[model]):
                at = (*inside, "model", option)
                known = listed(OPTIONS[model])
                yield at, f"{named(at)} is not an option of {model}, the model of {dataset} (its options: {known})"


def _other_ratio(
    path: KeyPath, overrides: Mapping[str, Any], instances: Instances, config: Mapping[str, Any]
) -> Iterator[Problem]:
    nsr = overrides.get("test_nsr")
    if nsr is None:
        return
    if instances.nsr is None:
        yield path, f"{named(path)} is set for {instances.name}: only lists of ratings have a ratio"
    elif nsr not in (ratios := config["interactions"][instances.source]["nsr"]):
        there = listed([str(ratio) for ratio in ratios])
        yield path, f"{named(path)} is {nsr}, but interactions.{instances.source}.nsr has {there}"


def _other_share(
    path: KeyPath, overrides: Mapping[str, Any], instances: Instances, bounds: Sequence[str]
) -> Iterator[Problem]:
    if "validation_share" not in overrides:
        return
    if instances.nsr is None:
        yield path, f"{named(path)} is set for {instances.name}: only ratings are split by a share"
    elif sized := [bound for bound in bounds if bound.startswith("distribution")]:
        yield path, f"{named(path)} changes the list sizes, for which {sized[0]} needs tables: remove that bound"


def _losses(path: KeyPath, section: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Problem]:
    """Check losses other than the study's: the library has them, they are unbounded, and a metric judges them."""
    bounds = section.get("bounds", config["bounds"])
    for position, loss in enumerate(section.get("losses", [])):
        where = (*path, "losses", position)
        try:
            name = split_text(loss, "loss")[0]
        except ValueError as error:
            yield where, f"{named(where)}: {error}"
            continue
        if name not in loss_names():
            hint = nearest(name, loss_names())
            yield where, f"{named(where)} is {loss!r}: expected one of {listed(loss_names())}{hint}"
        elif loss not in WITH_JUDGE:
            if list(bounds) != ["none"]:
                wrong = named((*path, "bounds"))
                yield where, f"{named(where)} is {loss!r}, which cannot be bounded: {wrong} should be [none]"
            for variant, overrides in section["variants"].items():
                if "judged_by" not in overrides:
                    inside = (*path, "variants", variant)
                    yield inside, f"{named(inside)} has no judged_by, which {loss!r} needs: it has no metric of its own"
