"""What no single key of an experiment can say: data sets that exist and are trained, options that their model has."""

from collections.abc import Iterator, Mapping
from typing import Any

from rankbound.study.config_lines import KeyPath
from rankbound.study.config_words import listed, named, nearest
from rankbound.study.data_sets import defined_instances

Problem = tuple[KeyPath, str]

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "matrix-factorization": ("factors", "spread"),
    "mlp": ("hidden", "activation"),
}
"""The options of each model that a variant may change."""


def check_experiments(config: Mapping[str, Any]) -> Iterator[Problem]:
    """Every problem between the keys of the experiments that run."""
    experiments = config.get("experiments") or {}
    running = config.get("experiment", list(experiments))
    for position, name in enumerate(running):
        if name in experiments:
            yield from _of_one(("experiments", name), experiments[name], config)
        else:
            hint = nearest(name, list(experiments))
            yield ("experiment", position), f"experiment names {name!r}, which experiments does not define{hint}"


def _of_one(path: KeyPath, section: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Problem]:
    defined = defined_instances(config)
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
        rates = config["training"][source]["learning_rate"]
        model = config["training"][source]["model"]["name"]
        for variant, overrides in section["variants"].items():
            inside = (*path, "variants", variant)
            if "honest" not in rates and "learning_rate" not in overrides:
                yield inside, f"{named(inside)} has no learning_rate, nor has training.{source} one for honest runs"
            for option in set(overrides.get("model", {})) - set(OPTIONS[model]):
                at = (*inside, "model", option)
                known = listed(OPTIONS[model])
                yield at, f"{named(at)} is no option of {model}, which {dataset} trains (it has {known})"
