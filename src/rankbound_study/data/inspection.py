"""Look at somebody's files, and say what they are: the layout, the columns, the folds, the labels.

Only the beginning of a file is read. What is not clear is refused with what to write instead; nothing is guessed that
would change results without a word.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError
from rankbound.io.letor import LARGEST_LABEL
from rankbound.texts import LONGEST_VALUE, is_number, quantity, shortened
from rankbound_study.config.sections.description import DescriptionKeys
from rankbound_study.data.sources import is_archive
from rankbound_study.data.table_layout import (
    ANY,
    PARTS,
    Inspected,
    Said,
    beginning_of,
    look_at_table,
    upper_quarter,
)

MOST_RELEVANT, FEWEST_RELEVANT = 10, 5
"""The relevant items of a user that a study of ratings asks for: the first, or the second if few users have as many."""

LARGEST_THRESHOLD = 1_000_000
GROUPS = ".query"
DEALT = f"topics are dealt to {PARTS} parts at random; files of folds can be named instead (docs/data.md)"
_WORDS = {"train": "train training", "validation": "vali valid validation dev", "test": "test"}
"""Words in the names of the files of each split, in the order of descriptions."""

_FOLD = re.compile(r"(.*?)(\d+)$")
_DIGITS = re.compile(r"\d+")
_PART = re.compile(r"[A-Za-z_-]*\d+\.(txt|letor|dat)(\.gz)?")
_QUERY = re.compile(rb"qid:(\S+)")


def inspect(path: Path, said: Said | None = None) -> Inspected:
    """Return what a file or a folder is; ConfigError if that is not clear, with what was found."""
    said = said or Said()
    if not path.exists():
        raise ConfigError(f"{path}: there is no such file or folder")
    if path.is_file() and is_archive(path):
        raise ConfigError(f"{path}: it is an archive: unpack it, and give the folder")
    if path.is_dir():
        found = _folder(path, said)
    elif (is_letor := _is_letor(path)) or Path(f"{path}{GROUPS}").is_file():
        if flags := [name for name, value in vars(said).items() if value is not None and name != "threshold"]:
            text = f"it is LETOR text, whose lines say what they hold: leave out --{' --'.join(flags)}"
            raise ConfigError(f"{path}: {text}")
        described = {"format": "letor" if is_letor else "lightgbm", "path": str(path), "random_parts": PARTS}
        found = _of_text(path, described)
    else:
        found = look_at_table(path, said)
    if "random_parts" in found.description:
        found.notes.append(DEALT)
    return found


def relevance_of(found: Inspected, text: str | None) -> tuple[float | None, int]:
    """Return the smallest relevant label or rating (None: labels are grades), and the fewest relevant items of users.

    Args:
        found: what the files are.
        text: the smallest relevant label or rating, as a number, a label or a quantile of the ratings such as `q0.8`;
            `any`: every pair of a user and an item is relevant; None: labels are grades, and of ratings the upper
            quarter of their range is relevant.

    Raises:
        ConfigError: a threshold beyond all labels, or one that is none of lists.
    """
    path, labels = found.description["path"], found.labels
    threshold = _threshold(found, text)
    if found.kind == "lists":
        if text == ANY:
            raise ConfigError(
                "--threshold any is for ratings, but these are judged lists, whose labels say what is relevant"
            )
        if threshold is not None and (threshold != int(threshold) or not 1 <= threshold <= LARGEST_LABEL):
            raise ConfigError(f"--threshold {threshold:g}: expected a whole number 1 .. {LARGEST_LABEL}, a label")
        if threshold is None and labels and labels[0] > 0:
            raise ConfigError(
                f"{path}: the smallest label is {labels[0]:g}: it may be that of irrelevant items, or all items may be "
                "relevant, by grades. Say which: --threshold N if labels from N on are relevant; or write grades from "
                "0 on, because AP and nRBP count every label above 0"
            )
        is_binary = len(labels) <= 2 and 0.0 in labels
        return 1.0 if threshold is None and is_binary else threshold, 0
    if threshold is None:
        threshold = upper_quarter(labels) if "rating" in found.description["columns"] else 1.0
    if threshold > labels[-1] and found.whole:
        raise ConfigError(
            f"--threshold {threshold:g}: the largest rating is {labels[-1]:g}, so that nothing would be relevant"
        )
    fewest = MOST_RELEVANT
    if found.whole:
        counts = found.rated.filter(pl.col("rating") >= threshold).group_by("topic").len()["len"]
        # Fewer if less than half of all users have as many.
        fewest = MOST_RELEVANT if (counts >= MOST_RELEVANT).sum() * 2 >= len(counts) > 0 else FEWEST_RELEVANT
    return threshold, fewest


def _threshold(found: Inspected, text: str | None) -> float | None:
    """Return the number that a threshold stands for; ConfigError if it is none."""
    if text is None:
        return None
    labels, is_quantile = found.description.get("labels") or (), re.fullmatch(r"q(0?\.\d+)", text)
    if text == ANY:
        return 1.0
    if text in labels:
        return float(labels.index(text))
    if is_quantile and found.rated is not None:
        return float(found.rated["rating"].quantile(float(is_quantile[1]), "nearest"))
    number = float(text) if is_number(text) else math.nan
    if not -LARGEST_THRESHOLD <= number <= LARGEST_THRESHOLD:
        words = f", or one of {', '.join(labels)}" if labels else ""
        raise ConfigError(
            f"--threshold {text}: expected any, a quantile such as q0.8, or a number of at most "
            f"{LARGEST_THRESHOLD:,} in magnitude{words}"
        )
    return number


def _folder(path: Path, said: Said) -> Inspected:
    files = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    for names in _named_splits(files):
        # The format is of no account to the names.
        wanted = DescriptionKeys.model_validate({"format": "letor", **names}).wanted
        if not set(wanted) <= set(files):
            continue
        first, lists = path / wanted[0], {"path": str(path), **names}
        is_letor = all(_is_letor(path / file) for file in wanted)
        if is_letor or all(f"{file}{GROUPS}" in files for file in wanted):
            return _of_text(first, {"format": "letor" if is_letor else "lightgbm", **lists})
        table = look_at_table(first, said)
        kept = {key: value for key, value in table.description.items() if key != "random_parts"}
        return replace(table, description=kept | lists, whole=False)
    # Files of disjoint queries whose names end in numbers.
    parts = [file for file in files if _PART.fullmatch(file) and _is_letor(path / file)]
    parts.sort(key=lambda file: int(_DIGITS.findall(file)[0]))
    if len(parts) == len(files) >= 3:
        return _of_text(path / parts[0], {"format": "letor", "path": str(path), "parts": parts})
    raise ConfigError(
        f"{path}: found {', '.join(files[:8]) or 'nothing'}; expected LETOR text as Fold1/train.txt, Fold1/vali.txt, "
        "Fold1/test.txt, ..., as parts S1.txt, S2.txt, ..., or as one train and test file, or ratings in such folders "
        "or files: name a single file with data, or write the description by hand (docs/data.md)"
    )


def _named_splits(files: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the keys of folders Fold1, Fold2, ..., or from fold_0 on, with a file a split; and of one file a split."""
    patterns: dict[str, list[str]] = {}
    numbers: set[int] = set()
    for file in files:
        folder, _, name = file.rpartition("/")
        if (fold := _FOLD.fullmatch(folder)) and (split := _split_of(name)):
            numbers.add(int(fold[2]))
            patterns[split] = [f"{fold[1]}{{fold}}/{name}"]
    single = {split: [file] for file in files if (split := _split_of(file)) and not file.endswith(GROUPS)}
    in_folds, alone = ({split: named[split] for split in _WORDS if split in named} for named in (patterns, single))
    first, count = min(numbers, default=1), len(numbers)
    if {"train", "test"} <= set(in_folds) and first <= 1 and numbers == set(range(first, first + count)):
        yield {"fold_pattern": {"count": count, **({} if first else {"first": 0}), **in_folds}}
    if {"train", "test"} <= set(alone):
        yield {"folds": [alone]}


def _split_of(name: str) -> str | None:
    words = re.split(r"[^a-z]+", name.lower())
    return next((split for word in words for split, usual in _WORDS.items() if word in usual.split()), None)


def _is_letor(path: Path) -> bool:
    lines = (line.partition(b"#")[0].split() for line in beginning_of(path)[0].splitlines())
    tokens: list[bytes] = next(filter(None, lines), [])
    return len(tokens) > 1 and tokens[1].startswith(b"qid:")


def _of_text(path: Path, described: dict[str, Any]) -> Inspected:
    """Return what LETOR text is: label, query and features by number. The converter names labels that are no numbers.

    Labels, and the rows of the plan, are those of the first lines.
    """
    text, whole = beginning_of(path)
    lines = [line.decode("utf-8", "replace") for line in text.splitlines() if line.partition(b"#")[0].strip()]
    labels = [float(token) for token in {line.split(None, 1)[0] for line in lines} if is_number(token)]
    found = len(set(_QUERY.findall(text)))
    queries = f": {quantity(found, 'query', 'queries')}" if found else ""
    rows = f"{quantity(len(lines), 'row')}, the whole of {path.name}" if whole else f"the first rows of {path.name}"
    shown = [f"row {number}: {shortened(line, LONGEST_VALUE)}" for number, line in enumerate(lines[:3], start=1)]
    plan = [f"{rows}{queries}", "a label, the query by qid, and features by number, in each line", *shown]
    return Inspected(described, sorted(filter(math.isfinite, labels)), plan=plan)
