"""Read and write runs and judgements as TREC text, and as JSON.

Lines of TREC text are `topic Q0 item rank score tag`, or `topic iteration item relevance`. Runs without the tag, of
three columns, and with columns in another order are read as well: their first line names the columns, or the caller
does, or their numbers leave one meaning. Lines that begin with `#` and are no rows are comments. Regular files are
parsed at once by polars, all others line by line, with the same columns or an error that names line and token.

JSON holds `{topic: {item: number}}`, or `{topic: {intent: {item: relevance}}}`, or records, in an array or one a line.
These have the fields of a table's row, or a topic's lists of them, or, as Pyserini's requests and results, a topic and
its candidates: `{"query": {"qid": 1}, "candidates": [{"docid": 2, "score": 0.5}]}`.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError, naming
from rankbound.io.atomic import File, atomic_path
from rankbound.io.judged import Names, Qrels, Run, name_column, of_dictionaries, repeated
from rankbound.io.table_columns import (
    NO_GRADES,
    Columns,
    grouped,
    intents_of,
    named,
    qrels_by_intent,
    qrels_of,
    require_distinct_items,
    require_ranks,
    rows_of_judgements,
    run_of,
)
from rankbound.io.tables import read_intents, read_judged, read_scores
from rankbound.io.text_files import (
    JSON,
    LINES_OF_JSON,
    open_unpacked,
    plain_name,
    read_unpacked,
    write_packed,
    write_rows,
)
from rankbound.texts import LARGEST_EXACT, is_number, quoted


@dataclass(frozen=True)
class _Layout:
    """The fields of a line, and which of them is its number: what the rows of a file of such lines are."""

    fields: Sequence[str]
    number: str = "score"

    def rows(self, data: bytes, path: File) -> pl.DataFrame:
        """Return the fields of the lines, all text, and the column `number`: the score or relevance as a number."""
        # A search for the end of a line is much faster than one for its beginning.
        comment = re.compile(rb"\n[ \t]*#[^\n]*")
        has_hashes = b"#" in data and bool(comment.match(b"\n" + data[:_START_BYTES]) or comment.search(data))

        def without_comment(match: re.Match[bytes]) -> bytes:
            """Return a line that begins with `#` if it is one of a topic whose name does, as a tag of posts."""
            tokens = match[0].decode("utf-8", "replace").split()
            is_row = tokens[0] != "#" and len(tokens) == len(self.fields)
            return match[0] if is_row and is_number(tokens[self.fields.index(self.number)]) else b"\n"

        if has_hashes:
            data = comment.sub(without_comment, b"\n" + data)[1:]
        separator = "\t" if b"\t" in data[: data.find(b"\n") + 1] else " "
        frame = self._regular(data, separator)
        if frame is None:
            tidied = re.sub(rb"^ | (?=\n)| $|^\n", b"", re.sub(rb"[ \t\r]+", b" ", data), flags=re.MULTILINE)
            frame = self._regular(tidied, " ")
        frame = self._line_by_line(data, path) if frame is None else frame
        if frame.is_empty():
            raise DataError(f"{path}: there are no lines in it; expected lines of `{' '.join(self.fields)}`")
        if has_hashes:
            topics = {*frame["topic"].unique(maintain_order=True)}
            for topic in sorted(name for name in topics if name.startswith("#") and name[1:] in topics)[:1]:
                raise DataError(
                    f"{path}: found rows of topics {topic!r} and {topic[1:]!r}: if the first ones are comments, remove "
                    f"them, or write a space after the #; otherwise rename topic {topic!r}"
                )
        return frame

    def columns(self, data: bytes, separator: str, type_of_number: type[pl.DataType]) -> pl.DataFrame | None:
        """Parse the fields that say something of all lines; None if a line is irregular, or one of them empty."""
        content = np.frombuffer(data, np.uint8)
        separators, ends, returns = (np.count_nonzero(content == ord(one)) for one in (separator, "\n", "\r"))
        # A line of more fields is refused, so this many separators leave none of fewer.
        if returns or separators != (ends + (not data.endswith(b"\n"))) * (len(self.fields) - 1):
            return None
        known = {f"column_{place}": name for place, name in enumerate(self.fields, start=1)}
        names = {column: name for column, name in known.items() if name in (*_READ, self.number)}
        schema = {column: type_of_number if name == self.number else pl.String for column, name in known.items()}
        try:
            frame = pl.read_csv(
                data, has_header=False, separator=separator, quote_char=None, schema=schema, columns=list(names)
            )
        except (pl.exceptions.PolarsError, OSError):
            # OSError: text that begins like compressed data, which polars tries to decompress.
            return None
        return None if any(column.null_count() for column in frame.get_columns()) else frame.rename(names)

    def _regular(self, data: bytes, separator: str) -> pl.DataFrame | None:
        """Parse all lines at once, without the fields that say nothing; None if any of them is irregular."""
        frame = self.columns(data, separator, pl.String)
        frame = None if frame is None else self._with_number(frame)
        return None if frame is None or frame["number"].null_count() else frame

    def _line_by_line(self, data: bytes, path: File) -> pl.DataFrame:
        rows: dict[int, list[str]] = {}
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
            if tokens := line.split():
                rows[number] = tokens
                if len(tokens) != len(self.fields):
                    found = f"found {len(tokens)} fields, expected {' '.join(self.fields)}: {line[:80]!r}"
                    advice = "; name other columns, as in format='topic item score tag'" if self is _RUN else ""
                    raise DataError(f"{path}, line {number}: {found}{advice}")
        text = dict.fromkeys(self.fields, pl.String)
        frame = self._with_number(pl.DataFrame(list(rows.values()), schema=text, orient="row"))
        for row in frame["number"].is_null().arg_true().head(1):
            found = f"found {self.number} {quoted(frame[self.number][row])}"
            within = " within 2^53" if self.number == "relevance" else ""
            where = "" if self in (_RUN, _QRELS) else f" in lines of `{' '.join(self.fields)}`"
            raise DataError(f"{path}, line {list(rows)[row]}: {found}, expected a finite number{within}{where}")
        return frame

    def _with_number(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the column `number`, null where the text is none within limits."""
        column, largest = pl.col(self.number), sys.float_info.max
        number = column.cast(pl.Float64, strict=False)
        if self.number == "relevance":
            # Whole numbers beyond 2^53 would be rounded to it.
            whole, largest = column.cast(pl.Int64, strict=False), LARGEST_EXACT
            number = pl.when(whole.is_between(-largest, largest) | whole.is_null()).then(number)
        return frame.with_columns(number=pl.when(number.is_between(-largest, largest)).then(number))


FORMATS = {"msmarco": "topic item rank", "trec": "topic Q0 item rank score tag"}
"""Orders of a run's columns by their names."""

_RUN = _Layout(FORMATS["trec"].split())
_SHORT, _SCORED = _Layout(["topic", "Q0", "item", "rank", "score"]), _Layout(["topic", "item", "score"])
_QRELS = _Layout(["topic", "iteration", "item", "relevance"], "relevance")
_PAIRS = _Layout(["topic", "item", "relevance"], "relevance")
_START_BYTES = 2**10
_READ = ("topic", "Q0", "iteration", "item")

PART_BYTES = 2**24
"""Bytes of text of a run that are parsed at once."""
_NO_ITERATION = ("Q0", "q0", "0")


def read_run(path: File, format: str | None = None) -> Run:
    """Read a run; as in trec_eval, scores decide the order and ranks are ignored. DataError names a malformed line.

    The `format` of text is a key of `FORMATS`, or names all columns; ValueError for another.
    """
    where, data = str(path), read_unpacked(path)
    if plain_name(path).endswith(JSON):
        with naming(where):
            content = _content(data, Columns())
            return read_scores(content) if isinstance(content, list) else of_dictionaries(Run, content)
    if format is None:
        data, layout = _layout_in(data, where, [_RUN, _SHORT, _SCORED], ("score", "rank"))
    else:
        found = _named_layout(FORMATS.get(format, format).split(), "format", ("score", "rank"))
        if found is None:
            raise ValueError(
                f"format: found {format!r}, expected {' or '.join(FORMATS)}, or the names of all columns, among them "
                "topic, item, and score or rank, such as 'topic item score'"
            )
        layout = found
    rows = layout.rows(data, path)
    numbers = rows["number"].to_numpy()
    if layout is _SCORED and (numbers == np.floor(numbers)).all():
        raise DataError(
            f"{where}: found three columns, the last of whole numbers, which may be ranks or scores: say which by "
            "format='msmarco' or format='topic item score' (on the command line: --format), or in a first line that "
            "names the columns, such as `qid pid rank`"
        )
    if layout is _SHORT and not rows["Q0"].is_in(_NO_ITERATION).all():
        raise DataError(
            f"{where}: found five columns, the second not Q0: name all of them, as in format='topic item rank score "
            "tag' (on the command line: --format)"
        )
    if layout.number == "rank":
        return run_of(rows["topic"], rows["item"], -require_ranks(numbers, where), where)
    return run_of(rows["topic"], rows["item"], numbers, where, lambda: rows["score"])


class IrregularFile(Exception):
    """A file of which only all lines together can be read, or refused."""


def read_parts(path: File) -> Iterator[Run]:
    """Yield a run of regular lines in parts, each of whole topics, in the memory of one part.

    IrregularFile for lines of other columns, lines that are not regular, and a topic whose lines are apart.
    """
    known, held = set[str](), pl.DataFrame()
    for rows in _regular_parts(path, _RUN, ("score", "rank")):
        rows = pl.concat([held, rows]) if len(held) else rows
        # The lines of the last topic may go on.
        others = (rows["topic"] != rows["topic"][-1]).arg_true()
        last = int(others[-1]) + 1 if len(others) else 0
        held = rows[last:]
        yield from _whole_topics(rows[:last], known, path)
    yield from _whole_topics(held, known, path)
    if not known:
        raise IrregularFile


def _regular_parts(path: File, layout: _Layout, numbers: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Yield the topic, item and number of a file's rows, some at a time; IrregularFile unless all are of the layout."""
    with open_unpacked(path) as stream:
        for place in count():
            data = stream.read(PART_BYTES) + stream.readline()
            if place == 0:
                data, found = _layout_in(data, str(path), [layout], numbers)
                if (found.number, len(found.fields)) != (layout.number, len(layout.fields)):
                    raise IrregularFile
            if not data:
                return
            separator = "\t" if b"\t" in data[:_START_BYTES] else " "
            rows = None if b"#" in data else found.columns(data, separator, pl.Float64)
            if rows is None or not (rows[found.number].abs() < LARGEST_EXACT).all():
                raise IrregularFile
            yield rows.select("topic", "item", number=found.number)


def _whole_topics(rows: pl.DataFrame, known: set[str], path: File) -> Iterator[Run]:
    if len(rows):
        run = run_of(rows["topic"], rows["item"], rows["number"].to_numpy(), str(path))
        if not known.isdisjoint(run.topics):
            raise IrregularFile
        known.update(run.topics)
        yield run


def read_qrels(path: File, columns: Columns, intents: bool = False) -> Qrels:
    """Read judgements, or those by intent, which the second field of a line names. DataError names a malformed line.

    Negative relevance becomes 0, marked as unjudged. The `columns` are fields of records.
    """
    if plain_name(path).endswith(JSON):
        text = read_unpacked(path)
        with naming(str(path)):
            content = _content(text, columns)
            if isinstance(content, list):
                return read_intents(content, columns) if intents else read_judged(content, columns)
            if columns.grades:
                raise DataError(NO_GRADES)
            return intents_of(content) if intents else of_dictionaries(Qrels, content)
    if intents:
        rows = _judgements(path).select("topic", "item", intent="iteration", relevance="number")
        return qrels_by_intent(rows, str(path))
    # Anything else, such as a pipe, can be read only once.
    if Path(path).is_file():
        with suppress(IrregularFile, DataError):
            return _regular_qrels(path)
    rows = _judgements(path)
    try:
        require_distinct_items(rows, str(path))
    except DataError as error:
        if rows.select(pl.struct("topic", "iteration", "item").is_duplicated().any()).item():
            raise
        raise DataError(
            f"{error}. Its lines differ in their second field: if that is the intent, read the file with intents=True, "
            "as metrics of intents do, such as alpha_nDCG@20"
        ) from None
    return qrels_of(grouped(rows.select("topic", "item", relevance="number")))


def _regular_qrels(path: File) -> Qrels:
    """Return qrels of regular lines, those of a topic together, in little more memory than the result takes."""
    topics, sizes = list[str](), list[int]()
    items, relevance = list[pl.Series](), list[npt.NDArray[Any]]()
    for rows in _regular_parts(path, _QRELS, ("relevance", "score")):
        numbers = rows["number"].to_numpy()
        whole = numbers.astype(np.int64)
        is_whole = (whole == numbers).all()
        if not is_whole and (numbers[whole != numbers] < 0).any():
            raise IrregularFile
        runs = rows["topic"].rle().struct.unnest()
        names, lengths = runs["value"].to_list(), runs["len"].to_list()
        if topics and names[0] == topics[-1]:
            sizes[-1] += lengths.pop(0)
            del names[0]
        topics += names
        sizes += lengths
        items.append(rows["item"])
        relevance.append(whole if is_whole else numbers)
    if not topics or len(set(topics)) < len(topics):
        raise IrregularFile
    frame = pl.DataFrame({"item": pl.concat(items), "relevance": np.concatenate(relevance)})
    items.clear()
    qrels = qrels_of((topics, np.cumsum([0, *sizes]), frame))
    if not qrels.has_distinct_keys:
        raise IrregularFile
    return qrels


def _judgements(path: File) -> pl.DataFrame:
    """Return the rows of qrels, with numbers that are whole if all are."""
    where = str(path)
    data, layout = _layout_in(read_unpacked(path), where, [_QRELS, _PAIRS], ("relevance", "score"))
    rows = layout.rows(data, path)
    for wrong in rows["number"].filter((rows["number"] < 0) & (rows["number"] != rows["number"].floor())).head(1):
        raise DataError(f"{where}: found relevance {wrong}, expected grades from 0, or whole negative ones if unjudged")
    if layout is _PAIRS and rows["item"].is_in(_NO_ITERATION).all():
        raise DataError(
            f"{where}: found three columns, of which the second is {rows['item'][0]} throughout: expected lines of "
            "`topic iteration item relevance`, or of `topic item relevance`"
        )
    if (rows["number"] == rows["number"].floor()).all():
        rows = rows.with_columns(pl.col("number").cast(pl.Int64))
    return rows if "iteration" in rows.columns else rows.with_columns(iteration=pl.lit("0"))


def _layout_in(data: bytes, where: str, layouts: Sequence[_Layout], numbers: Sequence[str]) -> tuple[bytes, _Layout]:
    """Return the text without the line that names its columns, and the layout by that, or by the number of fields."""
    for match in re.finditer(rb"^[ \t]*[^\s#][^\n]*", data, re.MULTILINE):
        tokens = match[0].decode("utf-8", "replace").split()
        if not any(map(is_number, tokens)) and (layout := _named_layout(tokens, where, numbers)) is not None:
            return data[: match.start()] + data[match.end() :], layout
        return data, next((one for one in layouts if len(one.fields) == len(tokens)), layouts[0])
    return data, layouts[0]


def _named_layout(names: Sequence[str], where: str, numbers: Sequence[str]) -> _Layout | None:
    """Return the layout of these names of columns, one of which is of the number; None if some are not there."""
    found = {role: named(role, names, where) for role in ("topic", "item", *numbers)}
    number = next((one for one in numbers if found[one] is not None), None)
    if number is None or found["topic"] is None or found["item"] is None:
        return None
    role_of = {found[role]: role for role in ("topic", "item", number)}
    if sum(name in role_of for name in names) > len(role_of):
        raise DataError(f"{where}: a column's name occurs twice")
    return _Layout([role_of.get(name, f"other {place}") for place, name in enumerate(names)], number)


TEXT: dict[str, Any] = {"separator": " ", "include_header": False, "quote_style": "never"}
"""The options of polars by which rows are TREC's."""


def write(path: File, lists: Run | Qrels, tag: str = "") -> None:
    """Write a run with its name, or judgements, whose relevance labels in text must be whole numbers, as in trec_eval.

    Unjudged items have relevance -1.
    """
    if plain_name(path).endswith(JSON):
        _write_json(path, lists)
        return
    if isinstance(lists, Run):
        rows = rows_of_run(path, lists, tag)
    else:
        rows = rows_of_judgements(lists)
        rows = rows if "intent" in rows.columns else rows.with_columns(intent=pl.lit("0"))
        whole = rows["relevance"].cast(pl.Int64)
        for broken in rows["relevance"].filter(whole != rows["relevance"]).head(1):
            raise DataError(f"{path}: found relevance {broken}, expected whole numbers")
        fields = {name: _names(rows[name], f"{name}s", path) for name in ("topic", "intent", "item")}
        rows = pl.DataFrame({**fields, "relevance": whole})
    with atomic_path(path) as temporary:
        write_rows(temporary, rows, **TEXT)


def rows_of_run(path: File, run: Run, tag: str) -> pl.DataFrame:
    """Return the rows of a run, each topic in descending order of scores, which keep all their digits.

    The `path` is for messages.
    """
    if not np.isfinite(run.scores).all():
        raise DataError(f"{path}: found the score {run.scores[~np.isfinite(run.scores)][0]}, expected finite numbers")
    sizes = np.diff(run.offsets)
    topic = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((-run.scores.astype(np.float64), topic))
    columns = {
        "topic": _names(run.topics, "topics", path)[topic],
        "Q0": pl.repeat("Q0", len(order), eager=True),
        "item": _names(run.items, "items", path)[order],
        "rank": pl.Series(np.arange(len(order)) - np.repeat(run.offsets[:-1], sizes) + 1),
        "score": pl.Series(run.scores[order]),
        "tag": pl.repeat(_names([tag], "tag", path)[0], len(order), eager=True),
    }
    return pl.DataFrame(columns)


def _names(names: Names, what: str, path: File) -> pl.Series:
    """Return names as a column of text; DataError for an empty name or one with white space, which ends a field."""
    column = name_column(names)
    bad = column.filter(column.str.contains(r"\s") | (column == ""))
    if len(bad):
        raise DataError(f"{path}: {what} holds {bad[0]!r}; a name in a TREC file has no white space and is not empty")
    return column


def _content(text: bytes, columns: Columns) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the dictionaries of a text of JSON, in each of which a name occurs once, or its records."""
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
        rows = [row for record in records for row in _rows_of_record(record)]
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


def _rows_of_record(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a record as rows: one for each dictionary of its lists, with the fields of its own and of dictionaries."""
    fields: dict[str, Any] = {}
    rows: list[dict[str, Any]] = [{}]
    for name, value in record.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            rows = [row | one for row in rows for one in value]
        else:
            fields |= value if isinstance(value, dict) else {name: value}
    return [{name: value for name, value in (fields | row).items() if not isinstance(value, dict)} for row in rows]


def _write_json(path: File, lists: Run | Qrels) -> None:
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
    if is_lines := plain_name(path).endswith(LINES_OF_JSON):
        text = "\n".join(json.dumps({topic: items}, ensure_ascii=False) for topic, items in content.items())
    with atomic_path(path) as temporary:
        write_packed(temporary, text.encode() + b"\n" * (bool(content) or not is_lines))
