"""The data sets that the project knows: one file of facts each, in the folder `known`."""

from functools import cache
from pathlib import Path

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
