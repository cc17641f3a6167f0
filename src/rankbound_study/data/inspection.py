"""Look at somebody's files, and say what they are: the layout, the columns, the folds, the labels.

Only the beginning of a file is read. What is not clear is refused with what to write instead; nothing is guessed that
would change results without a word.
"""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError, DataError
from rankbound.io.letor import LARGEST_LABEL
from rankbound.texts import is_number
from rankbound_study.config.new_study import FEWEST_RELEVANT, MOST_RELEVANT, list_threshold
from rankbound_study.config.sections.description import FEWEST_PARTS, DescriptionKeys
from rankbound_study.data.archives import list_members, open_member
from rankbound_study.data.plain_files import is_archive
from rankbound_study.data.rar import Member
from rankbound_study.data.table_inspection import (
    DEALT,
    LOOK,
    PARTS,
    Inspected,
    beginning_of,
    inspect_table,
    upper_quarter,
)

LARGEST_THRESHOLD = 1_000_000
GROUPS = ".query"
_SPLITS = {"train": "train", "training": "train", "vali": "validation", "valid": "validation",
           "validation": "validation", "dev": "validation", "test": "test"}  # fmt: skip
_ORDER = ("train", "validation", "test")
_FOLD = re.compile(r"(.*?)(\d+)$")
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[A-Za-z_-]*\d+\.(txt|letor|dat)(\.gz)?")
_QUERY = re.compile(rb"qid:(\S+)")
_MOST_MEMBERS, _UNPACKED = 500, 2**28
"""Members of an archive that are looked at, and bytes of a parquet file among them, which is read whole."""


def inspect(path: Path) -> Inspected:
    """Return what a file, a folder or an archive is; ConfigError if that is not clear, with what was found."""
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise ConfigError(f"{path}: there is no such file or folder")
    return _archive(path) if is_archive(path) else _file(path)


def with_relevance(found: Inspected, threshold: float | None, *, implicit: bool) -> tuple[Inspected, dict[str, Any]]:
    """Decide what is relevant, and into how many parts topics are dealt.

    Args:
        found: what the files are.
        threshold: the smallest relevant label or rating; None: labels are grades, and of ratings the upper quarter of
            their range is relevant.
        implicit: every pair of a user and an item is relevant.

    Returns:
        What the files are then, and the arguments `threshold` and `min_relevant` of `new_study`.

    Raises:
        ConfigError: numbers that may be counts or ratings, with the ways to say which; a threshold beyond all labels;
            too few topics.
    """
    if threshold is not None and not -LARGEST_THRESHOLD <= threshold <= LARGEST_THRESHOLD:
        raise ConfigError(f"--threshold {threshold:g}: expected a number of at most {LARGEST_THRESHOLD:,} in magnitude")
    if found.kind == "lists":
        return _of_lists(found, threshold, implicit)
    columns = dict(found.description["columns"])
    if implicit and columns.pop("rating", None) is not None:
        notes = [*found.notes, "every pair of a user and an item is relevant, whatever its number"]
        described = {**found.description, "columns": columns}
        found = replace(found, description=described, labels=[1.0], rated=_all_relevant(found.rated), notes=notes)
    elif found.counts and threshold is None:
        raise ConfigError(
            f"{found.description['path']}: {found.counts}: these may be counts (of plays, clicks, purchases, hours) or "
            "ratings on a scale. Say which: --implicit if every pair of a user and an item is relevant, whatever its "
            f"number; --threshold {_median(found.rated):g} (say) if it is relevant from that count or rating on"
        )
    smallest = upper_quarter(found.labels) if threshold is None else threshold
    if smallest > found.labels[-1] and found.topics is not None:
        raise ConfigError(
            f"--threshold {smallest:g}: the largest rating is {found.labels[-1]:g}, so that nothing would be relevant"
        )
    return found, {"threshold": smallest, "min_relevant": _relevant_items(found, smallest)}


def _of_lists(found: Inspected, threshold: float | None, implicit: bool) -> tuple[Inspected, dict[str, Any]]:
    if implicit:
        raise ConfigError("--implicit is for ratings, but these are judged lists, whose labels say what is relevant")
    if threshold is not None and (threshold != int(threshold) or not 1 <= threshold <= LARGEST_LABEL):
        raise ConfigError(f"--threshold {threshold:g}: expected a whole number 1 .. {LARGEST_LABEL}, a label")
    if threshold is None and found.labels and found.labels[0] > 0:
        raise ConfigError(
            f"{found.description['path']}: the smallest label is {found.labels[0]:g}: it may be that of irrelevant "
            "items, or all items may be relevant, by grades. Say which: --threshold N if labels from N on are "
            "relevant; or write grades from 0 on, because AP and nRBP count every label above 0"
        )
    parts = found.description.get("random_parts")
    if parts is not None and found.topics is not None and FEWEST_PARTS <= found.topics < parts:
        described = {**found.description, "random_parts": found.topics}
        notes = [note for note in found.notes if note != DEALT]
        notes.append(f"there are {found.topics} topics, so each is a part of its own: differences will hardly be found")
        found = replace(found, description=described, notes=notes)
    return found, {"threshold": list_threshold(found.labels) if threshold is None else threshold}


def _relevant_items(found: Inspected, threshold: float) -> int:
    """Return the number of relevant items that a user needs: fewer if less than half of all users have as many."""
    import polars as pl

    if found.topics is None:
        return MOST_RELEVANT
    counts = found.rated.filter(pl.col("rating") >= threshold).group_by("topic").len()["len"]
    return MOST_RELEVANT if (counts >= MOST_RELEVANT).sum() * 2 >= len(counts) > 0 else FEWEST_RELEVANT


def _all_relevant(rated: Any) -> Any:
    import polars as pl

    return rated.with_columns(pl.lit(1.0).alias("rating"))


def _median(rated: Any) -> float:
    return float(rated["rating"].median())


def _file(path: Path) -> Inspected:
    if _is_letor(path):
        return _dealt(path, "letor")
    return _dealt(path, "lightgbm") if Path(f"{path}{GROUPS}").is_file() else inspect_table(path)


def _dealt(path: Path, layout: str) -> Inspected:
    described = {"format": layout, "path": str(path), "random_parts": PARTS}
    text, whole = beginning_of(path)
    topics = None
    if whole:
        groups = Path(f"{path}{GROUPS}")
        topics = len(set(_QUERY.findall(text))) if layout == "letor" else len(groups.read_bytes().split())
    return Inspected("lists", described, _labels(path), [DEALT], topics)


def _archive(path: Path) -> Inspected:
    """Return what the beginnings of an archive's members are."""
    with tempfile.TemporaryDirectory(prefix="rankbound-") as name:
        folder = Path(name)
        members = [member for member in list_members(path) if not member.name.endswith(".gz")]
        for member in members[:_MOST_MEMBERS]:
            _write_start(path, member, folder / member.name)
        try:
            found = _folder(folder, alone=len(members) == 1)
        except (ConfigError, DataError) as error:
            raise ConfigError(str(error).replace(name, str(path))) from error
        return replace(found, description={**found.description, "path": str(path)})


def _write_start(archive: Path, member: Member, to: Path) -> None:
    whole = to.suffix == ".parquet" and member.size <= _UNPACKED
    with open_member(archive, member.name) as stream:
        start = stream.read(member.size if whole else 2 * LOOK)
    if not whole and len(start) < member.size:
        # Half a line could be anything.
        start = start[: start.rfind(b"\n") + 1]
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(start)


def _folder(path: Path, alone: bool = False) -> Inspected:
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    for names in (_fold_pattern(files), _one_split(files)):
        if names is not None and (found := _of_splits(path, names, files)) is not None:
            return found
    if (parts := _parts(path, files)) is not None:
        return Inspected("lists", {"format": "letor", "path": str(path), "parts": parts}, _labels(path / parts[0]))
    return _only_one(path, files, alone)


def _fold_pattern(files: Sequence[str]) -> dict[str, Any] | None:
    """Folders Fold1, Fold2, ..., or from fold_0 on, with a file for each split."""
    patterns: dict[str, str] = {}
    numbers: set[int] = set()
    for file in files:
        folder, _, name = file.rpartition("/")
        fold, split = _FOLD.fullmatch(folder), _split_of(name)
        if fold and split:
            numbers.add(int(fold[2]))
            patterns[split] = f"{fold[1]}{{fold}}/{name}"
    first, count = min(numbers, default=1), len(numbers)
    if not {"train", "test"} <= set(patterns) or first > 1 or numbers != set(range(first, first + count)):
        return None
    of_splits = {split: [patterns[split]] for split in _ORDER if split in patterns}
    return {"fold_pattern": {"count": count, **({} if first else {"first": 0}), **of_splits}}


def _one_split(files: Sequence[str]) -> dict[str, Any] | None:
    """One training and one test file."""
    named = {split: file for file in files if (split := _split_of(file)) and not file.endswith(GROUPS)}
    if not {"train", "test"} <= set(named):
        return None
    return {"folds": [{split: [named[split]] for split in _ORDER if split in named}]}


def _of_splits(path: Path, names: Mapping[str, Any], files: Sequence[str]) -> Inspected | None:
    """Return what the files of folds are; None if they are no data or not all there."""
    # The format is of no account to the names.
    described = DescriptionKeys.model_validate({"format": "letor", **names})
    first = path / described.wanted[0]
    if not set(described.wanted) <= set(files):
        return None
    lists = {"path": str(path), **names}
    if all(_is_letor(path / file) for file in described.wanted):
        return Inspected("lists", {"format": "letor", **lists}, _labels(first))
    if all(f"{file}{GROUPS}" in files for file in described.wanted):
        return Inspected("lists", {"format": "lightgbm", **lists}, _labels(first))
    try:
        table = inspect_table(first)
    except (ConfigError, DataError):
        return None
    kept = {key: value for key, value in table.description.items() if key not in ("path", "random_parts")}
    notes = [note for note in table.notes if note != DEALT]
    return replace(table, description={**kept, **lists}, notes=notes, topics=None)


def _parts(path: Path, files: Sequence[str]) -> list[str] | None:
    """Files of disjoint queries whose names end in numbers."""
    parts = [file for file in files if _PART.fullmatch(file) and _is_letor(path / file)]
    parts.sort(key=lambda file: int(_DIGITS.findall(file)[0]))
    return parts if len(parts) >= 3 and len(parts) == len(files) else None


def _only_one(path: Path, files: Sequence[str], alone: bool) -> Inspected:
    """Return what the only file with data is, such as the ratings beside the titles of the items."""
    found = {}
    for file in files:
        try:
            found[file] = _file(path / file)
        except (ConfigError, DataError):
            if alone:
                raise
    if len(found) == 1:
        (name, one), *_ = found.items()
        return replace(one, description={**one.description, "path": str(path), **({} if alone else {"files": [name]})})
    shown = ", ".join([*found, *(file for file in files if file not in found)][:8]) or "nothing"
    raise ConfigError(
        f"{path}: found {shown}{', of which several have data' if found else ''}; expected LETOR text as "
        "Fold1/train.txt, Fold1/vali.txt, Fold1/test.txt, ..., as parts S1.txt, S2.txt, ..., or as one train and test "
        "file, ratings in such folders or files, or a single file with data: name it, or write the description by hand "
        "(docs/data.md)"
    )


def _split_of(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((_SPLITS[word] for word in words if word in _SPLITS), None)


def _is_letor(path: Path) -> bool:
    lines = (line.partition(b"#")[0].split() for line in beginning_of(path)[0].splitlines())
    tokens: list[bytes] = next(filter(None, lines), [])
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def _labels(path: Path) -> list[float]:
    """Return the labels in the first lines of LETOR text; the converter names those that are no numbers."""
    first = {line.split(None, 1)[0] for line in beginning_of(path)[0].splitlines() if line.partition(b"#")[0].strip()}
    numbers = [float(token) for token in first if is_number(token.decode("utf-8", "replace"))]
    return sorted(filter(math.isfinite, numbers))
