"""Runs and judgements as JSON: `{topic: {item: number}}`, or `{topic: {intent: {item: relevance}}}`; or as records.

Records, in an array or one a line, have the fields of a table's row, or a topic's lists of them, or, as Pyserini's
requests and results, a topic and its candidates: `{"query": {"qid": 1}, "candidates": [{"docid": 2, "score": 0.5}]}`.
"""

import json
import os
from typing import Any

import numpy as np

from rankbound.errors import DataError, naming
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import Qrels, Run, of_dictionaries, repeated
from rankbound.io.table_columns import NO_GRADES, Columns, intents_of
from rankbound.io.tables import read_intents, read_judged, read_scores
from rankbound.io.text_files import plain_name, read_unpacked, write_packed
from rankbound.texts import quoted

_LINES = (".jsonl", ".ndjson")


def read_run(path: File) -> Run:
    """Read a run; DataError for other content, or what no run can hold."""
    with naming(str(path)):
        content = _content(path, Columns())
        return read_scores(content) if isinstance(content, list) else of_dictionaries(Run, content)


def read_qrels(path: File, columns: Columns, intents: bool = False) -> Qrels:
    """Read judgements, or those by intent; DataError as `read_run`. The `columns` are fields of records."""
    with naming(str(path)):
        content = _content(path, columns)
        if isinstance(content, list):
            if intents:
                return read_intents(content, columns)
            return read_judged(content, columns, features=(), judgements=True)
        if columns.grades:
            raise DataError(NO_GRADES)
        return intents_of(content) if intents else of_dictionaries(Qrels, content)


def _content(path: File, columns: Columns) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the dictionaries of a file, in each of which a name occurs once, or its records."""
    text = read_unpacked(path)
    try:
        content = _parsed(text)
    except (ValueError, RecursionError) as error:
        lines = [line for line in text.splitlines() if line.strip()]
        if isinstance(error, RecursionError) or len(lines) < 2 or not lines[0].rstrip().endswith(b"}"):
            raise DataError(f"not readable as JSON ({error})") from error
        content = []
        for number, line in enumerate(text.splitlines(), start=1):
            try:
                content += [_parsed(line)] if line.strip() else []
            except (ValueError, RecursionError) as error_of_line:
                raise DataError(f"line {number}: not readable as JSON ({error_of_line})") from error_of_line
    records = content if isinstance(content, list) else [content]
    if records and all(isinstance(record, dict) for record in records):
        if all(isinstance(items, dict) for record in records for items in record.values()):
            return _distinct([pair for record in records for pair in record.items()])
        rows = [row for record in records for row in _rows(record)]
        if columns.found_in(list(rows[0]), "record 1").topic in rows[0]:
            return rows
    raise DataError("found other JSON, expected {topic: {item: number}}, or records with fields such as topic and item")


def _parsed(text: bytes) -> Any:
    def refuse(constant: str) -> Any:
        raise DataError(f"found {constant}, expected finite numbers")

    return json.loads(text, object_pairs_hook=_distinct, parse_constant=refuse)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (twice := repeated(name for name, _ in pairs)) is not None:
        raise DataError(f"{quoted(twice)} occurs more than once in one dictionary; expected each name once")
    return dict(pairs)


def _rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a record as rows: one for each dictionary of its lists, with the fields of its own and of dictionaries."""
    fields: dict[str, Any] = {}
    rows: list[dict[str, Any]] = [{}]
    for name, value in record.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            rows = [row | one for row in rows for one in value]
        else:
            fields |= value if isinstance(value, dict) else {name: value}
    return [{name: value for name, value in (fields | row).items() if not isinstance(value, dict)} for row in rows]


def write(path: File, lists: Run | Qrels) -> None:
    """Write a run or judgements, those by intent if there are any; unjudged items have relevance -1."""
    values = lists.scores if isinstance(lists, Run) else lists.marked()
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
    text = json.dumps(content, indent=1, ensure_ascii=False)
    if is_lines := plain_name(path).endswith(_LINES):
        text = "\n".join(json.dumps({topic: items}, ensure_ascii=False) for topic, items in content.items())
    with atomic_path(path) as temporary:
        write_packed(temporary, text.encode() + b"\n" * (bool(content) or not is_lines))


def is_named(path: Any) -> bool:
    """Return True for a path whose name ends in `.json` or that of JSON lines; an ending of compression may follow."""
    return isinstance(path, str | os.PathLike) and plain_name(path).endswith((".json", *_LINES))
