"""Flags that select rows of a runs table, shared by several subcommands."""

import argparse

SELECTION = {
    "study": "study",
    "protocol": "protocol",
    "dataset": "data set",
    "nsr": "negative sampling ratio of the test part",
    "nsr_train": "negative sampling ratio of the training part",
    "model": "model",
    "options": "options, as in the table",
    "loss": "loss",
    "bounding": "bounding",
    "selection": "the part that selected the epoch: validation, test or last",
    "fold": "fold",
    "seed": "seed",
}


def add_selection_flags(parser: argparse.ArgumentParser, title: str) -> "argparse._ArgumentGroup":
    """Add a flag for each key of a runs table, in a group with this `title`."""
    group = parser.add_argument_group(title)
    for key, what in SELECTION.items():
        group.add_argument(f"--{key.replace('_', '-')}", dest=f"key_{key}", metavar="VALUE", help=what)
    return group


def given_selection(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the flags that were set, by key."""
    flags = {key: getattr(arguments, f"key_{key}") for key in SELECTION}
    return {key: value for key, value in flags.items() if value is not None}
