"""Flags for the files of a study that figures, tables and claims are made from."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.results.specs import StudyFiles

_ONE = {
    "runs": "the runs table",
    "epochs": "the table of epochs, whose validation scores select the best methods",
    "experiments": "the experiments' runs",
    "experiment_epochs": "the table of the experiments' epochs",
    "images": "the images file, for the ages of the faces",
}
_SEVERAL = {
    "leaderboard": "the leaderboard's CSV files",
    "predictions": "the predictions of methods on faces",
    "weights": "the weights of methods on faces",
}


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for each kind of file."""
    for name, meaning in _ONE.items():
        parser.add_argument(_flag(name), type=Path, metavar="FILE", help=meaning)
    for name, meaning in _SEVERAL.items():
        parser.add_argument(_flag(name), type=Path, metavar="FILE", nargs="*", default=[], help=meaning)


def given_files(arguments: argparse.Namespace) -> "StudyFiles":
    """Return the files that the flags name."""
    from rankbound_study.results.specs import StudyFiles

    one = {name: getattr(arguments, name) for name in _ONE}
    several = {name: tuple(getattr(arguments, name)) for name in _SEVERAL}
    return StudyFiles(**{**one, **several})


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
