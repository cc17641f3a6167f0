"""The data sets that the project knows: one file of facts each, in the folder `known`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rankbound_study.config.sections.description import DescriptionKeys

FOLDER = Path(__file__).parents[1] / "known"


@cache
def known_names() -> tuple[str, ...]:
    """Return the names of the data sets that are described here."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def known_set(name: str) -> DescriptionKeys:
    """Return the description of a data set of that name."""
    import yaml  # type: ignore[import-untyped]

    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    return DescriptionKeys.model_validate(yaml.safe_load(text))


def description_of(name: str, section: Mapping[str, Any]) -> DescriptionKeys:
    """Return what a data set of the configuration is: the description in its section, or the known one."""
    given = section.get("source")
    return known_set(name) if given is None else DescriptionKeys.model_validate(dict(given))
