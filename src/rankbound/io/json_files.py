"""Runs and judgements as JSON: `{topic: {item: number}}`, or `{topic: {intent: {item: relevance}}}`."""

import gzip
import json
import os
from typing import Any

import numpy as np

from rankbound.errors import DataError, naming
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import Qrels, Run, flattened, repeated
from rankbound.io.table_columns import intents_of
from rankbound.io.text_files import read_unpacked
from rankbound.texts import quoted


def read_run(path: File) -> Run:
    """Read a run; DataError for other content, or what no run can hold."""
    with naming(str(path)):
        return Run(**flattened(_content(path), "scores"))


def read_qrels(path: File, intents: bool = False) -> Qrels:
    """Read judgements, or those by intent; DataError as `read_run`."""
    with naming(str(path)):
        return intents_of(_content(path)) if intents else Qrels(**flattened(_content(path), "relevance"))


def _content(path: File) -> dict[str, Any]:
    """Return the dictionaries of a file, in each of which a name occurs once."""

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (twice := repeated(name for name, _ in pairs)) is not None:
            raise DataError(f"{quoted(twice)} occurs more than once in one dictionary; expected each name once")
        return dict(pairs)

    def refuse(constant: str) -> Any:
        raise DataError(f"found {constant}, expected finite numbers")

    try:
        content = json.loads(read_unpacked(path), object_pairs_hook=distinct, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not readable as JSON ({error})") from error
    if not isinstance(content, dict) or not all(isinstance(items, dict) for items in content.values()):
        raise DataError("found other JSON, expected {topic: {item: number}}")
    return content


def write(path: File, lists: Run | Qrels) -> None:
    """Write a run or judgements, those by intent if there are any; unjudged items have relevance 0."""
    values = lists.scores if isinstance(lists, Run) else lists.relevance
    if not np.isfinite(values).all():
        raise DataError(f"{path}: found {values[~np.isfinite(values)][0]}, expected finite numbers")
    content: dict[str, Any] = {topic: {} for topic in lists.topics}
    topic_of, items = np.repeat(lists.topics, np.diff(lists.offsets)).tolist(), list(lists.items)
    if isinstance(lists, Qrels) and lists.intents is not None:
        by = lists.intents
        for item, intent, value in zip(by.item.tolist(), by.intent.tolist(), by.relevance.tolist(), strict=True):
            content[topic_of[item]].setdefault(by.names[intent], {})[items[item]] = value
    else:
        # The fewest digits that identify a number in its own precision.
        numbers = values.tolist() if values.dtype.itemsize == 8 else [json.loads(str(value)) for value in values]
        for topic, item, number in zip(topic_of, items, numbers, strict=True):
            content[topic][str(item)] = number
    with atomic_path(path) as temporary:
        text = json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
        temporary.write_bytes(gzip.compress(text, mtime=0) if temporary.suffix == ".gz" else text)


def is_named(path: Any) -> bool:
    """Return True for a path whose name ends in `.json`; `.gz` may follow."""
    return isinstance(path, str | os.PathLike) and os.fspath(path).endswith((".json", ".json.gz"))
