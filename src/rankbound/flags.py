"""What the flags of command lines have in common: kinds of values, and errors for people."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from rankbound.errors import ConfigError


def names(text: str) -> list[str]:
    """`a,b` as a list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """`64,32` as numbers; argparse says what is wrong with any other text."""
    return tuple(int(part) for part in names(text))


def positive(text: str) -> int:
    """`5` as a number; argparse says what is wrong with what is less than 1."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number}: expected at least 1")
    return number


@contextmanager
def plain_errors() -> Iterator[None]:
    """Wrong values of flags as messages for people, not as traces of calls."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(str(error)) from error
