"""Flags for the recipe of a ranker."""

import argparse
from collections.abc import Sequence
from typing import Any

from rankbound.texts import names, widths

# Omitted flags keep the defaults of `rankbound.training.recipe.Recipe`, which the help repeats.
_NUMBERS = {
    "temperature": (float, "T", "temperature of the smooth ranks, in units of the scores (default: 1.0)"),
    "factors": (int, "N", "factors of each topic and item of a matrix factorisation (default: 32)"),
    "negatives": (
        int,
        "N",
        "for a matrix factorisation, items drawn for each relevant one, as not relevant (default: 0)",
    ),
    "epochs": (int, "N", "passes over the training topics (default: 100)"),
    "learning_rate": (float, "RATE", "learning rate of Adam (default: 0.01)"),
    "batch_size": (int, "N", "topics per step (default: 16)"),
    "seed": (int, "N", "seed of initial weights, order of topics and validation topics (default: 0)"),
}


def add_recipe_flags(parser: argparse.ArgumentParser) -> None:
    """Declare the flags, but for the loss."""
    parser.add_argument("--bound", metavar="BOUND", help="none (default), min-max, expectation, expectation-max, ...")
    # Other smooth steps are gone; commands that name the sigmoid still run.
    parser.add_argument("--kernel", choices=("sigmoid",), help=argparse.SUPPRESS)
    parser.add_argument("--model", help="linear (default), mlp, or matrix-factorization (without features)")
    parser.add_argument("--hidden", type=widths, metavar="WIDTHS", help="widths of the mlp's layers (default: 64,32)")
    parser.add_argument("--scale", help="scaling of features: standard (default), query (within each list) or none")
    parser.add_argument(
        "--features", type=names, metavar="NAMES", help="feature columns, as in a,b (default: those of numbers)"
    )
    parser.add_argument("--bias", help="bias of a matrix factorisation: item (default) or none")
    add_unknown_flag(parser, "refuse (default)")
    parser.add_argument(
        "--validation-share",
        type=float,
        metavar="SHARE",
        help="share of topics, or of each topic's items for a matrix factorisation, held out for validation without a "
        "file of them (default: 0.2)",
    )
    parser.add_argument("--metric", metavar="METRIC", help="metric that selects the epoch (default: nDCG@10)")
    for name, (kind, shown, meaning) in _NUMBERS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=shown, help=meaning)
    parser.add_argument(
        "--device", default="auto", choices=("auto", "cpu", "cuda"), help="auto (default) takes a GPU if there is one"
    )


def add_unknown_flag(parser: argparse.ArgumentParser, default: str) -> None:
    """Declare the flag for topics and items that a factorisation does not know."""
    parser.add_argument(
        "--unknown", help=f"topics and items that a matrix factorisation was not trained on: {default}, or mean"
    )


def features_of(arguments: argparse.Namespace) -> Sequence[str] | None:
    """Return the features to read, none for a factorisation; ConfigError if flags name some beside one."""
    from rankbound.errors import ConfigError
    from rankbound.training.recipe import FACTORIZATION

    if arguments.model != FACTORIZATION:
        features: Sequence[str] | None = arguments.features
        return features
    if arguments.features:
        raise ConfigError(
            f"--features: found {','.join(arguments.features)} beside --model {FACTORIZATION}, which reads topics and "
            "items alone; expected no features, or --model linear or mlp"
        )
    return []


def recipe_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of the recipe that flags set."""
    from dataclasses import fields

    from rankbound.training.recipe import Recipe

    flags = {setting.name: getattr(arguments, setting.name, None) for setting in fields(Recipe)}
    return {name: value for name, value in flags.items() if value is not None}
