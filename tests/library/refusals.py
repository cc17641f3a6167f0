"""Tests that are tables of calls that raise."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankbound.errors import DataError

REFERENCE = Path(__file__).parents[1] / "reference"
TABLES: dict[str, Any] = {
    name: rows
    for file in ("refusals.yaml", "names.yaml")
    for name, rows in yaml.safe_load((REFERENCE / file).read_text("utf-8")).items()
}


def problems(name: str) -> Any:
    """Return the rows of a table, or rows by name, of what is refused or read, and what it says."""
    return TABLES[name]


def refusals(
    rows: Iterable[tuple[Any, str]],
    call: Callable[[Any], object] = lambda attempt: attempt(),
    error: type[Exception] | tuple[type[Exception], ...] = (ValueError, DataError),
    start: str = "",
) -> Callable[..., None]:
    """Return a test: for each row, `call` of its first entry raises an error whose text the second one matches.

    `start` stands before each of the patterns.
    """

    @pytest.mark.parametrize(("given", "message"), list(rows))
    def test(given: Any, message: str) -> None:
        with pytest.raises(error, match=start + message):
            call(given)

    return test
