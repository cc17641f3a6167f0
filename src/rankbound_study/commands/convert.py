"""The step `convert`: raw files as parquet."""

from pathlib import Path

from rankbound.errors import ConfigError, DataError
from rankbound_study.config.messages import of_flag
from rankbound_study.config.sections.description import CONVERTED, LISTS, RATINGS, DescriptionKeys
from rankbound_study.data import sources
from rankbound_study.data.sources import Raw, RawFile, RawSource, find_source, raw_data


def convert(source: str, raw: list[Path], out: Path, description: str) -> None:
    """Convert the files if their content is that of their source."""
    origin = read_description(source, description)
    if origin.described.format not in CONVERTED:
        raise ConfigError(f"{origin.name} is not converted: its format is {origin.described.format}")
    if origin.described.remark:
        print(f"note: {origin.described.remark}")
    _convert(raw_data(origin, raw), out)


def read_description(name: str, text: str) -> RawSource:
    """Return the source of a data set by its description; ConfigError for an unknown one, or one that is wrong."""
    if not text:
        return find_source(name)
    if name in sources.SOURCES:
        raise ConfigError(f"{name} is a data set that the project knows: give data of your own another name")
    return RawSource(name, of_flag(DescriptionKeys, text, "--description"))


def _convert(raw: Raw, out: Path) -> None:
    if raw.source.described.format in LISTS:
        from rankbound_study.data import judged_files

        judged_files.convert(raw, out)
    elif raw.source.described.format == RATINGS:
        from rankbound_study.data import ratings

        ratings.convert(raw, out)
    elif isinstance(raw, RawFile):
        from rankbound_study.data import faces

        faces.convert(raw, out)
    else:
        raise DataError(f"{raw.path}: pictures are read from an archive, .zip or .rar: pack the folder")
