"""The data sets that the project knows: those of the library's table, and a file each in the folder `known`."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rankbound_study.config.sections.description import DescriptionKeys

FOLDER = Path(__file__).parents[1] / "known"


@cache
def known_names() -> tuple[str, ...]:
    """Return the names of the data sets that are described there."""
    return tuple(sorted(_rows()))


@cache
def known_set(name: str) -> DescriptionKeys:
    """Return the description of a data set of that name."""
    return DescriptionKeys.model_validate(_rows()[name])


@cache
def _rows() -> Mapping[str, Any]:
    import tomllib
    from importlib.resources import files

    import yaml  # type: ignore[import-untyped]

    public = tomllib.loads(files("rankbound").joinpath("datasets.toml").read_text("utf-8"))
    return public | {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FOLDER.glob("*.yaml")}
