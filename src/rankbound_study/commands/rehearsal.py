"""Try the first steps of a study on somebody's own files, so that what is accepted runs.

The steps are those of the workflow's rules, with the same arguments, in a temporary folder: conversion, folds and
lists. Of large files, the beginning is converted.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbound_study.config.sections.description import DescriptionKeys
    from rankbound_study.config.study import Study
    from rankbound_study.data.reader import FoldedLists

WHOLE, PACKED = 2**23, 2**20
"""Bytes of files, and of archives or packed files, that are tried whole."""

ROWS = 1000
"""Rows of a large table in parquet that are converted."""

BINARY = ("AP", "nRBP", "RR")
"""Losses that count every label above 0 as relevant."""

FEW_TOPICS = 6
"""With fewer pairs, no sign test is significant at 5 %: 2 / 2^5 > 0.05."""


def rehearse(study: "Study", config_files: Sequence[Path] = ()) -> list[str]:
    """Convert, split and sample the data sets that are described by a path; return a sentence about each.

    Raises:
        ConfigError: a line for each data set that a step refuses, with its place in the configuration.
    """
    from rankbound.errors import ConfigError, DataError, SourceError
    from rankbound_study.config.lines import ConfigLines

    notes: list[str] = []
    problems: list[tuple[str, str]] = []
    for name in study.converted:
        described = study.described(name)
        if described.path is None:
            continue
        with TemporaryDirectory(prefix="rankbound-") as folder:
            try:
                notes += _tried(study, name, described, Path(folder))
            except (ConfigError, DataError, SourceError) as error:
                problems.append((name, _without(folder, str(error), described.path)))
    if problems:
        lines = ConfigLines(config_files)
        keys = [(study.kind_of(name), name, "source") for name, _ in problems]
        places = [f"{lines.locate(key)}{'.'.join(key)}: " if config_files else "" for key in keys]
        several = "several data sets cannot be used:\n  " if len(problems) > 1 else ""
        texts = (f"{place}{text}" for place, (_, text) in zip(places, problems, strict=True))
        raise ConfigError(several + "\n  ".join(texts))
    return notes


def _tried(study: "Study", name: str, described: "DescriptionKeys", folder: Path) -> Iterator[str]:
    from rankbound_study.commands.convert import convert
    from rankbound_study.commands.sample import sample
    from rankbound_study.commands.split import split
    from rankbound_study.config.own_files import own_files
    from rankbound_study.config.sections.known_sets import known_names
    from rankbound_study.config.steps import as_json
    from rankbound_study.data.reader import read_instances
    from rankbound_study.data.sources import is_archive

    files = list(map(Path, own_files(described)))
    is_packed = any(file.suffix == ".gz" or is_archive(file) for file in files)
    data, folds, out = (folder / f"{part}.parquet" for part in ("data", "folds", "instances"))
    if sum(file.stat().st_size for file in files) > (PACKED if is_packed else WHOLE):
        if not is_packed and described.format != "lightgbm":
            started = _beginnings(described, files, folder)
            text = started.model_dump_json(exclude_defaults=True)
            with redirect_stdout(io.StringIO()):
                convert(name, list(map(Path, own_files(started))), data, text)
        return
    text = "" if name in known_names() else described.model_dump_json(exclude_defaults=True)
    with redirect_stdout(io.StringIO()):
        convert(name, files, data, text)
        split(name, data, folds, as_json(study.requests[f"<data>/folds/{name}.parquet"].options))
    for instances in study.instances.values():
        if instances.source == name:
            with redirect_stdout(io.StringIO()):
                sample(name, data, folds, out, as_json(instances.options))
            made = read_instances(out)
            _require_some_irrelevant(study, instances.name, made)
            yield f"{instances.name}: {_told(made)}"


def _beginnings(described: "DescriptionKeys", files: Sequence[Path], folder: Path) -> "DescriptionKeys":
    """Write the beginnings of files to a folder; return the description of these."""
    import polars as pl

    from rankbound_study.data.inspection import beginning_of

    path = Path(described.path or "")
    for file in files:
        to = folder / "raw" / (file.relative_to(path) if path.is_dir() else file.name)
        to.parent.mkdir(parents=True, exist_ok=True)
        if file.read_bytes()[:4] == b"PAR1":
            pl.scan_parquet(file).head(ROWS).collect().write_parquet(to)
        else:
            to.write_bytes(beginning_of(file)[0])
    at = folder / "raw" if path.is_dir() else folder / "raw" / path.name
    return described.model_copy(update={"path": str(at), "sizes": None, "content": None, "copies": {}})


def _require_some_irrelevant(study: "Study", name: str, made: "FoldedLists") -> None:
    """Raise ConfigError for losses that count every grade above 0 as relevant, where training lists have no other."""
    from rankbound.errors import ConfigError
    from rankbound_study.config.lines import listed

    used = set(study.config.losses) if name in study.bounded_instances else set()
    used |= {loss for variant in study.variants if name in variant.datasets for loss in variant.losses}
    losses = sorted(used & set(BINARY))
    for fold in made.folds if losses else ():
        part = made.split(fold, "train")
        if not ((part.positives > 0) & (part.positives < part.sizes)).any():
            raise ConfigError(
                f"{listed(losses)} count every label above 0 as relevant, and no training list of fold {fold} has such "
                "labels beside 0: set a threshold of relevant labels, write grades from 0 on, or leave these losses out"
            )


def _told(made: "FoldedLists") -> str:
    """Say in words how many lists there are, and of which sizes."""
    import numpy as np

    from rankbound.texts import quantity

    parts = made.splits.values()
    sizes = np.concatenate([part.sizes for part in parts])
    relevant = sum(int(part.positives.sum()) for part in parts) / max(int(sizes.sum()), 1)
    tested = sorted({int(topic) for (_, name), part in made.splits.items() if name == "test" for topic in part.topics})
    few = " (too few for any difference to be significant)" if len(tested) < FEW_TOPICS else ""
    length = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else str(sizes.max())
    return f"{quantity(len(tested), 'test topic')}{few}, lists of {length} items, {relevant:.0%} relevant"


def _without(folder: str, text: str, path: str) -> str:
    """Return a message without the names of temporary files, which are those of what was made from `path`."""
    text = text.replace(f"{folder}/raw/{Path(path).name}", path).replace(f"{folder}/raw", path)
    return re.sub(rf"{re.escape(folder)}/\w+\.parquet", path, text)
