"""Parse LETOR text (SVMlight with query ids) into judged lists, a chunk of lines at a time.

A line is `label qid:ID index:value ... [# comment]`, for example `2 qid:10 1:0.03 2:0.5 #docid = GX000 inc = 1`.
Regular chunks are parsed at once with Arrow and NumPy. All others are parsed line by line, with the same numbers or
an error that names line and token. Memory is bounded by the chunk and the longest list, not by the file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io import letor_lines
from rankbound.io.letor_lines import LARGEST_EXACT, LARGEST_FLOAT, LARGEST_LABEL, Rows

CHUNK_BYTES = 2**19
"""Bytes read at once. The arrays of a chunk fit the processor's cache; larger chunks are slower."""
_SPACE, _NEWLINE, _COLON, _HASH = ord(" "), ord("\n"), ord(":"), ord("#")
_QUERY_KEY = b"qid:"
_USUAL_COMMENT = b"#docid = "
_DOCUMENT_NAME = re.compile(rb"docid\s*=\s*(\S+)")


@dataclass(frozen=True)
class _Lines:
    """The non-blank lines of a chunk without their comments; `numbers` are line numbers of the file, from 1."""

    bodies: list[bytes]
    names: list[bytes | None]
    numbers: npt.NDArray[np.int64]


def read_lists(
    stream: BinaryIO,
    width: int,
    where: str,
    chunk_bytes: int = CHUNK_BYTES,
    seen: set[str] | None = None,
    largest_label: int = LARGEST_LABEL,
) -> Iterator[pa.Table]:
    """Yield tables of the judged-lists contract: topic, items, relevance, features (`width` float32 each).

    Labels are whole numbers 0 .. `largest_label`, indices 1 .. `width` ascending. Missing features are 0. Values are
    read as double and rounded to float32. An item's name is the comment's docid, else `<topic>-<line number>`. The
    rows of a query must be adjacent; pass one `seen` for several files to check this across them.

    Raises:
        DataError: a line is malformed; the message has `where`, the line number and the token.
    """
    seen = set() if seen is None else seen
    rest: Rows | None = None
    for lines in _chunks(stream, chunk_bytes):
        if not lines.bodies:
            continue
        rows = _parse(lines, width, where, largest_label)
        rows = rows if rest is None else rest.followed_by(rows)
        # The last query may continue in the next chunk.
        cut = int(np.flatnonzero(rows.query != rows.query[-1])[-1]) + 1 if (rows.query != rows.query[-1]).any() else 0
        if cut:
            yield _lists(rows.part(0, cut), where, seen)
        rest = rows.part(cut, len(rows.query))
    if rest is None:
        raise DataError(f"{where}: there are no lines in it; expected lines of `label qid:ID index:value ...`")
    yield _lists(rest, where, seen)


def _chunks(stream: BinaryIO, chunk_bytes: int) -> Iterator[_Lines]:
    """Yield whole lines, about `chunk_bytes` at a time."""
    held: list[bytes] = []
    first = 1
    while block := stream.read(chunk_bytes):
        cut = block.rfind(b"\n") + 1
        if not cut:
            held.append(block)
            continue
        text = b"".join((*held, memoryview(block)[:cut]))
        held = [block[cut:]]
        lines, count = _split(text, first)
        yield lines
        first += count
    yield _split(b"".join((*held, b"\n")), first)[0]


def _split(text: bytes, first: int) -> tuple[_Lines, int]:
    """Return the lines of `text`, numbered from `first`, and their count including blank lines."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    hashes = np.append(np.flatnonzero(data == _HASH), len(data))
    comments = np.minimum(hashes[np.searchsorted(hashes, starts)], ends)
    bodies = [text[start:end].strip() for start, end in zip(starts.tolist(), comments.tolist(), strict=True)]
    names = _document_names(text, data, comments, ends)
    numbers = np.arange(first, first + len(ends))
    if not all(bodies):
        kept = [row for row, body in enumerate(bodies) if body]
        bodies, names, numbers = [bodies[row] for row in kept], [names[row] for row in kept], numbers[kept]
    return _Lines(bodies, names, numbers), len(ends)


def _document_names(
    text: bytes, data: npt.NDArray[np.uint8], comments: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> list[bytes | None]:
    """Return the docid of each line's comment, which spans `comments` to `ends`; None without one."""
    usual = np.frombuffer(_USUAL_COMMENT, dtype=np.uint8)
    begins = comments + len(usual)
    is_usual = (data.take(comments[:, None] + np.arange(len(usual)), mode="clip") == usual).all(axis=1)
    if is_usual.all() and (begins < ends).all() and (data[begins] > _SPACE).all():
        # The format of LETOR's own files; a pattern search takes three times as long.
        slices = zip(begins.tolist(), ends.tolist(), strict=True)
        return [text[begin:end].split(None, 1)[0] for begin, end in slices]
    slices = zip(comments.tolist(), ends.tolist(), strict=True)
    matches = [_DOCUMENT_NAME.search(text, start, end) if start < end else None for start, end in slices]
    return [match[1] if match else None for match in matches]


def _parse(lines: _Lines, width: int, where: str, largest_label: int) -> Rows:
    parsed = _parse_regular(b"\n".join((*lines.bodies, b"")), width, largest_label)
    if parsed is None:
        tidied = (b" ".join(body.split()) for body in lines.bodies)
        parsed = _parse_regular(b"\n".join((*tidied, b"")), width, largest_label)
    if parsed is None:
        parsed = letor_lines.parse(lines.bodies, lines.numbers.tolist(), width, where, largest_label)
    label, query, features = parsed
    names = [
        f"{topic}-{number}" if name is None else name.decode("utf-8", "replace")
        for name, topic, number in zip(lines.names, query.tolist(), lines.numbers.tolist(), strict=True)
    ]
    return Rows(label, query, features, names, lines.numbers)


def _parse_regular(text: bytes, width: int, largest_label: int) -> letor_lines.Parsed | None:
    """Parse all lines at once; None if any of them is irregular."""
    tokens = _tokens(text)
    if tokens is None:
        return None
    numbers, lengths, first = tokens
    label, query = numbers[first], numbers[first + 2]
    per_line = np.diff(first, append=len(numbers))
    if not (
        _plain_whole(label, lengths[first], largest_label) and _plain_whole(query, lengths[first + 2], LARGEST_EXACT)
    ):
        return None
    features = _features(numbers, lengths, first, per_line, width)
    if features is None:
        return None
    return label.astype(np.int8), query.astype(np.int64), features


def _tokens(
    text: bytes,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """Return every token as a number (`qid` as 0), its length, and the index of each line's first token.

    The separators of a regular line alternate between space and colon, as in `0 qid:10 1:0.5 2:0.25`; None otherwise.
    """
    data = np.frombuffer(text, dtype=np.uint8)
    is_colon = data == _COLON
    separator = np.flatnonzero(is_colon | (data == _NEWLINE) | (data == _SPACE))
    last = np.flatnonzero(data[separator] == _NEWLINE)
    first = np.concatenate(([0], last[:-1] + 1))
    if ((last - first) < 2).any():
        return None
    # The odd separators of a line are colons, and the last one ends the line.
    if not np.array_equal(is_colon[separator], _odd_places(first, last, len(separator))):
        return None
    key_start = separator[first] + 1
    key = data.take(key_start[:, None] + np.arange(len(_QUERY_KEY)), mode="clip")
    if (key != np.frombuffer(_QUERY_KEY, dtype=np.uint8)).any():
        return None
    # The text without its separators is an Arrow array of strings; nulls are not cast.
    offsets = np.zeros(len(separator) + 1, dtype=np.int32)
    np.subtract(separator, np.arange(len(separator)), out=offsets[1:], casting="same_kind")
    is_number = np.ones(len(separator), dtype=bool)
    is_number[first + 1] = False
    buffers = (np.packbits(is_number, bitorder="little"), offsets, text.translate(None, b" :\n"))
    array = pa.StringArray.from_buffers(
        len(separator), pa.py_buffer(buffers[1]), pa.py_buffer(buffers[2]), pa.py_buffer(buffers[0])
    )
    try:
        numbers = array.cast(pa.float64()).fill_null(0).to_numpy()
    except pa.ArrowInvalid:
        return None
    # The line parser reports numbers that are not finite in single precision.
    return (numbers, np.diff(offsets), first) if (np.abs(numbers) <= LARGEST_FLOAT).all() else None


def _odd_places(first: npt.NDArray[np.int64], last: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the `count` separators that have an odd index within their line."""
    parity: npt.NDArray[np.int64] = (np.arange(count) - np.repeat(first, last - first + 1)) & 1
    return parity.astype(bool)


def _plain_whole(numbers: npt.NDArray[np.float64], lengths: npt.NDArray[np.int64], largest: int) -> bool:
    """Return True if the tokens are whole numbers 0 .. `largest` without sign, leading zeros or decimal point."""
    if numbers.min() < 0 or numbers.max() > largest or (numbers != np.floor(numbers)).any():
        return False
    digits = np.searchsorted(10.0 ** np.arange(1, 17), numbers, side="right") + 1
    return bool((digits == lengths).all())


def _features(
    numbers: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    per_line: npt.NDArray[np.int64],
    width: int,
) -> npt.NDArray[np.float32] | None:
    """Return the feature matrix `(n_lines, width)`, 0 for missing features; None if a line is irregular."""
    rows = len(first)
    if (per_line == per_line[0]).all():
        table = numbers.reshape(rows, per_line[0])
        keys = table[:, 3::2]
        if keys.shape[1] == width and (keys == np.arange(1, width + 1)).all():
            spelled = lengths.reshape(table.shape)[:, 3::2]
            if (spelled != spelled[0]).any() or not _plain_whole(keys[0], spelled[0], width):
                return None
            return table[:, 4::2].astype(np.float32)
    is_key = _odd_places(first, first + per_line - 1, len(numbers))
    is_key[first + 1] = False
    place = np.flatnonzero(is_key)
    features = np.zeros((rows, width), dtype=np.float32)
    if not len(place):
        return features
    keys, row = numbers[place], np.repeat(np.arange(rows), (per_line - 3) // 2)
    ascending = (np.diff(keys) > 0) | (np.diff(row) > 0)
    if keys.min() < 1 or not ascending.all() or not _plain_whole(keys, lengths[place], width):
        return None
    features[row, keys.astype(np.int64) - 1] = numbers[place + 1]
    return features


def _lists(rows: Rows, where: str, seen: set[str]) -> pa.Table:
    """Return rows of complete queries as a table with one row per query."""
    starts = np.concatenate(([0], np.flatnonzero(np.diff(rows.query)) + 1))
    topics = [str(query) for query in rows.query[starts].tolist()]
    for topic, start in zip(topics, starts.tolist(), strict=True):
        if topic in seen:
            raise DataError(
                f"{where}, line {rows.number[start]}: query {topic} occurs again after other queries; the rows of "
                "a query must be adjacent: sort the file by query first"
            )
        seen.add(topic)
    offsets = pa.array(np.append(starts, len(rows.query)).astype(np.int32))
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.features.ravel()), rows.features.shape[1])
    columns = {"items": pa.array(rows.names), "relevance": pa.array(rows.label), "features": vectors}
    lists = {name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()}
    return pa.table({"topic": pa.array(topics), **lists})
