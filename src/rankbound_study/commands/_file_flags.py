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
    "rates": "the table of the rates of all grids",
    "regimes": "the table of regimes (CSV)",
    "images": "the images file, for the ages of the faces",
}
_SEVERAL = {
    "leaderboard": "the leaderboard's CSV files",
    "law": "the CSV files of table_law",
    "effects": "the CSV files of table_effects",
    "instances": "the instances files of the study's data sets",
    "predictions": "the predictions of methods on faces",
    "weights": "the weights of methods on faces",
}


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    """Declare a flag for each kind of file, and for the data sets' titles."""
    add_titles_flag(parser)
    for name, meaning in _ONE.items():
        parser.add_argument(_flag(name), type=Path, metavar="FILE", help=meaning)
    for name, meaning in _SEVERAL.items():
        parser.add_argument(_flag(name), type=Path, metavar="FILE", nargs="*", default=[], help=meaning)


def given_files(arguments: argparse.Namespace) -> "StudyFiles":
    """Return the files that the flags name; from now on, data sets have their titles."""
    from rankbound_study.results.specs import StudyFiles

    use_given_titles(arguments)
    one = {name: getattr(arguments, name) for name in _ONE}
    several = {name: tuple(getattr(arguments, name)) for name in _SEVERAL}
    return StudyFiles(**{**one, **several})


def add_titles_flag(parser: argparse.ArgumentParser) -> None:
    """Declare the flag for the data sets' titles."""
    parser.add_argument("--titles", default="{}", metavar="JSON", help="titles of data sets by name, as described")


def use_given_titles(arguments: argparse.Namespace) -> None:
    """Give data sets the titles of the flag."""
    from rankbound.errors import ConfigError
    from rankbound_study.config.titles import use_titles
    from rankbound_study.options import parse_options

    titles = parse_options(arguments.titles)
    if not all(isinstance(title, str) for title in titles.values()):
        raise ConfigError(f"--titles: expected a title for each name of a data set, found {arguments.titles}")
    use_titles(titles)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
