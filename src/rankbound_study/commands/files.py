"""The files of a study that figures, tables and claims are made from."""

from collections.abc import Mapping
from pathlib import Path

from rankbound.errors import ConfigError
from rankbound_study.config.titles import use_titles
from rankbound_study.options import parse_options
from rankbound_study.results.specs import StudyFiles


def study_files(files: Mapping[str, Path | list[Path] | None]) -> StudyFiles:
    """Return the files that flags name."""
    return StudyFiles(**{name: tuple(own) if isinstance(own, list) else own for name, own in files.items()})  # type: ignore[arg-type]


def use_given_titles(text: str) -> None:
    """Give data sets the titles of a JSON object from now on."""
    titles = parse_options(text, "--titles")
    if not all(isinstance(title, str) for title in titles.values()):
        raise ConfigError(f"--titles: expected a title for each name of a data set, found {text}")
    use_titles(titles)
