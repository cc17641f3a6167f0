"""The flag for the description of a data set that the project does not know."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.config.sections.description import DescriptionKeys
    from rankbound_study.data.sources import RawSource


def add_description_flag(parser: argparse.ArgumentParser) -> None:
    """Declare the flag."""
    parser.add_argument(
        "--description",
        default="",
        metavar="JSON",
        help="what the data set is (docs/data.md), unless it is a known one",
    )


def read_description(name: str, text: str) -> "tuple[DescriptionKeys, RawSource]":
    """Return the description of a data set, and its source; ConfigError for an unknown one, or one that is wrong."""
    from pydantic import ValidationError

    from rankbound.errors import ConfigError
    from rankbound_study.config.sections.description import DescriptionKeys
    from rankbound_study.config.sections.known_sets import known_set
    from rankbound_study.data.sources import SOURCES, RawSource, find_source
    from rankbound_study.options import parse_options

    if not text:
        return known_set(find_source(name).name), SOURCES[name]
    if name in SOURCES:
        raise ConfigError(f"{name} is a data set that the project knows: give data of your own another name")
    try:
        described = DescriptionKeys.model_validate(parse_options(text))
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--description: {'.'.join(map(str, first['loc']))}: {first['msg']}: {text}") from error
    return described, RawSource(name, described)
