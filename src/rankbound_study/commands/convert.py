"""The step `convert`: raw files as parquet."""

from pathlib import Path

from rankbound.errors import ConfigError, DataError
from rankbound_study.config.messages import of_flag
from rankbound_study.config.sections.description import CONVERTED, LISTS, RATINGS, DescriptionKeys
from rankbound_study.config.sections.known_sets import known_set
from rankbound_study.data import sources
from rankbound_study.data.sources import Raw, RawFile, RawSource, find_source, raw_data


def convert(source: str, raw: list[Path], out: Path, description: str) -> None:
    """Convert the files if their content is that of their source."""
    described, origin = read_description(source, description)
    if described.format not in CONVERTED:
        raise ConfigError(f"{origin.name} is not converted: its format is {described.format}")
    if described.remark:
        print(f"note: {described.remark}")
    _convert(raw_data(origin, raw, own=described.path is not None), described, out)


def read_description(name: str, text: str) -> tuple[DescriptionKeys, RawSource]:
    """Return the description of a data set, and its source; ConfigError for an unknown one, or one that is wrong."""
    if not text:
        return known_set(find_source(name).name), sources.SOURCES[name]
    if name in sources.SOURCES:
        raise ConfigError(f"{name} is a data set that the project knows: give data of your own another name")
    described = of_flag(DescriptionKeys, text, "--description")
    return described, RawSource(name, described)


def _convert(raw: Raw, described: DescriptionKeys, out: Path) -> None:
    if described.format in LISTS:
        from rankbound_study.data import judged_files

        judged_files.convert(raw, described, out)
    elif described.format == RATINGS:
        from rankbound_study.data import ratings

        ratings.convert(raw, described, out)
    elif isinstance(raw, RawFile):
        from rankbound_study.data import faces

        faces.convert(raw, out)
    else:
        raise DataError(f"{raw.path}: pictures are read from an archive, .zip or .rar: pack the folder")
