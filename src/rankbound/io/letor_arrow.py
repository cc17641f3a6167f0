"""Parse a chunk of LETOR lines: regular ones all at once with Arrow and NumPy, else each by itself."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.io import letor_lines
from rankbound.io.letor_lines import LARGEST_EXACT, LARGEST_FLOAT, Chunk, Parsed, Rows

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


def parse(chunk: Chunk, width: int, where: str, largest_label: int) -> Rows:
    """Return the rows of whole lines, numbered from `first`; DataError for a malformed one."""
    lines = _split(chunk)
    label, query, features = _parse(lines, width, where, largest_label)
    names = [
        f"{topic}-{number}" if name is None else name.decode("utf-8", "replace")
        for name, topic, number in zip(lines.names, query.tolist(), lines.numbers.tolist(), strict=True)
    ]
    return Rows(label, query, features, pa.array(names, pa.string()), lines.numbers)


def _parse(lines: _Lines, width: int, where: str, largest_label: int) -> Parsed:
    if not lines.bodies:
        return np.empty(0, np.int8), np.empty(0, np.int64), np.empty((0, width), np.float32)
    parsed = parse_regular(b"\n".join((*lines.bodies, b"")), width, largest_label)
    if parsed is None:
        tidied = (b" ".join(letor_lines.WHOLE_LABEL.sub(rb"\1", body).split()) for body in lines.bodies)
        parsed = parse_regular(b"\n".join((*tidied, b"")), width, largest_label)
    if parsed is None:
        parsed = letor_lines.parse(lines.bodies, lines.numbers.tolist(), width, where, largest_label)
    return parsed


def _split(chunk: Chunk) -> _Lines:
    text = chunk.text
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == _NEWLINE)
    starts = np.concatenate(([0], ends[:-1] + 1))
    hashes = np.append(np.flatnonzero(data == _HASH), len(data))
    comments = np.minimum(hashes[np.searchsorted(hashes, starts)], ends)
    bodies = [text[start:end].strip() for start, end in zip(starts.tolist(), comments.tolist(), strict=True)]
    names = _document_names(text, data, comments, ends)
    numbers = np.arange(chunk.first, chunk.first + len(ends))
    if not all(bodies):
        kept = [row for row, body in enumerate(bodies) if body]
        bodies, names, numbers = [bodies[row] for row in kept], [names[row] for row in kept], numbers[kept]
    return _Lines(bodies, names, numbers)


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


def parse_regular(text: bytes, width: int, largest_label: int) -> Parsed | None:
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
