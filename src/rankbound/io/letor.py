"""Read LETOR text (SVMlight with query ids) as judged lists, a chunk of lines at a time.

A line is `label qid:ID index:value ... [# comment]`, for example `2 qid:10 1:0.03 2:0.5 #docid = GX000 inc = 1`.
A compiled kernel (extra `fast`) parses the regular chunks of files of some megabytes, in a tenth of the time. All
others are parsed line by line, with the same numbers or an error that names line and token. Memory is bounded by the
chunk and the longest list, not by the file.

LightGBM's files lack the query ids; beside them is a file with the number of lines of each query (`groups`).
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound import kernels
from rankbound.errors import DataError
from rankbound.io.atomic import File
from rankbound.io.judged import JudgedLists, chosen_features
from rankbound.io.models import memory_bytes
from rankbound.io.packed import joined, packed_table, vectors, whole_topics
from rankbound.io.text_files import BlockStream, open_unpacked
from rankbound.lazy import pa
from rankbound.texts import LARGEST_EXACT, quoted, shortened

LARGEST_LABEL = 127
"""The largest label of int8, which labels have unless a file has larger ones; the study's files have none."""

LARGEST_INDEX = 2**20
"""Features are stored densely, zeros included: a larger index is more likely a mistake than a feature."""

LARGEST_GROUP = 2**31 - 1

CHUNK_BYTES = 2**19
"""Bytes read at once. The arrays of a chunk fit the processor's cache; larger chunks are slower."""

_WIDE_CHUNK = 2**29
"""Bytes of a chunk times features: lines of many features, most of them left out, take much more memory than text."""
_SMALLEST_CHUNK = 2**12

_LARGEST_FLOAT = float(np.finfo(np.float32).max)
_LONGEST_NUMBER = 1000
"""Digits that are read of a number, and bytes of a query's name; Python parses only some thousand."""
_LONGEST_INDEX = 100
_FIRST_CODE = -2
_SHOWN_CHARACTERS = 40
_LINES_AT_ONCE = 4096
_WHOLE_LABEL = re.compile(rb"^(\d+)(?:\.0*)?$")
"""A label that is a whole number, perhaps with a decimal point, as in `1.0 qid:3`."""
_DOCUMENT_NAME = re.compile(rb"docid\s*=\s*(\S+)")

_ZERO = (b" 0", b"\t0")
_MOST_THREADS = 16
"""More threads wait for the one that reads the file."""
_KERNEL = "rankbound.kernels.text"
_WORTH_LOADING = 2**22
"""Bytes of text whose reading line by line takes about as long as loading the kernel, half a second."""
_LONGEST_MADE_NAME = 40
"""Digits of a query and of a line, and what is between them."""


def read_letor(path: File, features: Sequence[str] | None = None, groups: File | None = None) -> JudgedLists:
    """Read a LETOR file; its features are named 1, 2, ... up to the largest index.

    `features` selects some of them; selected features that no line has are 0. `groups` is a file with the numbers of
    lines of each query, whose ids the lines then lack. DataError names line and token of a malformed line.
    """
    try:
        chunks: list[Chunk] = []
        with open_unpacked(path) as stream:
            known = extent(stream, str(path), chunks)
        names = None if features is None else list(features)
        for name in names or ():
            if not (name.isascii() and name.isdigit() and len(name) <= _LONGEST_INDEX and int(name) <= LARGEST_INDEX):
                shown = shortened(repr(name), _LONGEST_INDEX)
                raise DataError(
                    f"{path}: there is no feature {shown}; those of a LETOR file are numbers from 0 to {LARGEST_INDEX}"
                )
        known = known.covering(map(int, names or ()))
        needed = 4 * known.lines * known.width
        if needed > memory_bytes():
            raise DataError(
                f"{path}: {known.lines} lines of {known.width} features take {needed / 2**30:.0f} GiB, zeros included, "
                "more than this machine has: pack them by pack_lists (`rankbound pack`)"
            )
        lists = None
        usable = groups is None and worth_a_kernel(sum(chunk.size for chunk in chunks))
        if usable and not any(chunk.is_irregular for chunk in chunks):
            with open_unpacked(path) as stream:
                lists = _read_regular(stream, known, chunks)
        if lists is None:
            with open_judged(path, groups) as stream:
                lists = joined(list(read_lists(stream, known, str(path))), known.feature_names)
        return chosen_features(lists, known.feature_names if names is None else names, str(path))
    except DataError as error:
        if not Path(path).exists() or is_letor(path):
            raise
        raise DataError(
            f"{error}; if this is a table, not LETOR text, name it .csv (commas) or .tsv (tabs), with the names of the "
            "columns in the first line"
        ) from error


@contextmanager
def open_judged(path: File, groups: File | None = None) -> Iterator[BinaryIO]:
    """Open LETOR text, whose lines get the ids of their queries if there is a file with the queries' sizes."""
    with open_unpacked(path) as stream:
        if groups is None:
            yield stream
            return
        with open_unpacked(groups) as lines:
            sizes = group_sizes(lines, str(groups))
        yield with_query_ids(stream, sizes, str(path))


@dataclass(frozen=True)
class Extent:
    """The smallest index of features, 0 or 1, and the largest; the largest label; and the number of lines.

    Where an index is 0, as those that scikit-learn writes, all are as they stand: the names of features.
    """

    largest: int
    smallest: int = 1
    label: int = 0
    lines: int = 0

    @property
    def width(self) -> int:
        return self.largest + 1 - self.smallest

    @property
    def feature_names(self) -> list[str]:
        return [str(index) for index in range(self.smallest, self.largest + 1)]

    def covering(self, indices: Iterable[int]) -> Extent:
        """Return the extent with these indices, and at least one feature."""
        every = [self.smallest, self.largest, *indices]
        return replace(self, smallest=min(every), largest=max(*every, 1))


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file: their bytes and number, how many are rows, and whether a kernel refused them."""

    size: int
    lines: int
    rows: int
    is_irregular: bool


def extent(stream: BinaryIO, where: str, chunks: list[Chunk] | None = None) -> Extent:
    """Return what the first and last pairs and the labels of all lines need; malformed lines are left to the parser.

    If given a list, the chunks are appended to it.
    """
    known, first, kept = Extent(0), 1, list[Chunk]() if chunks is None else chunks

    def texts() -> Iterator[tuple[bytearray, bool]]:
        bytes_read = 0
        while text := _whole_lines(stream, CHUNK_BYTES):
            bytes_read += len(text)
            yield text, worth_a_kernel(bytes_read)

    def found(text: bytearray, by_kernel: bool) -> tuple[bytearray, bool, tuple[Extent, int] | None]:
        """Return the extent and the number of lines beside the arguments; None for what a kernel cannot read."""
        if not by_kernel:
            return text, by_kernel, None
        from rankbound.kernels.text import extent as kernel

        numbers = np.empty(4, np.int64)
        rows = kernel(np.frombuffer(text, np.uint8), numbers)
        smallest, largest, label, lines = numbers.tolist()
        is_irregular = rows < 0 or largest > LARGEST_INDEX
        return text, by_kernel, None if is_irregular else (Extent(largest, smallest, label, rows), lines)

    for text, by_kernel, made in _in_threads(found, texts()):
        own, lines = made or (_extent_of_lines(text, first, where), text.count(b"\n"))
        kept.append(Chunk(len(text), lines, own.lines, by_kernel and made is None))
        smallest, label = min(known.smallest, own.smallest), max(known.label, own.label)
        known = Extent(max(known.largest, own.largest), smallest, label, known.lines + own.lines)
        first += lines
    return known


def _extent_of_lines(text: bytearray, first: int, where: str) -> Extent:
    largest, smallest, labels, count = 0, 1, set[bytes](), 0
    for number, line in enumerate(bytes(text).split(b"\n"), start=first):
        body = line.partition(b"#")[0]
        label = body.partition(b" ")[0]
        if not label.isdigit() and not (label := body.strip().partition(b" ")[0].partition(b"\t")[0]):
            continue
        key = body.rsplit(None, 1)[-1].partition(b":")[0]
        index = int(key[:_LONGEST_INDEX]) if key.isdigit() else 0
        if index > LARGEST_INDEX:
            raise DataError(f"{where}, line {number}: found feature index {index}, expected at most {LARGEST_INDEX}")
        largest, count = max(largest, index), count + 1
        # Indices ascend: 0 can only be the first, before the first colon of the line or that after the query's.
        colon = body.find(b":")
        second = body.find(b":", colon + 1)
        if body[colon - 2 : colon] in _ZERO or body[second - 2 : second] in _ZERO:
            smallest = 0
        labels.add(label)
    whole = [int(match[1]) for match in map(_WHOLE_LABEL.match, labels) if match and len(match[1]) <= _LONGEST_NUMBER]
    return Extent(largest, smallest, max((label for label in whole if label <= LARGEST_EXACT), default=0), count)


def is_letor(path: File) -> bool:
    """Return True if the second token of the first non-blank line is a query id."""
    with open_unpacked(path) as stream:
        for line in stream:
            if tokens := line.partition(b"#")[0].split():
                return len(tokens) > 1 and tokens[1].startswith(b"qid:")
    return False


def group_sizes(lines: Iterable[bytes], where: str) -> list[int]:
    """Return the numbers of lines of each query, one on a line of text; DataError for other lines than blank ones."""
    sizes = []
    for number, line in enumerate(lines, start=1):
        if not (text := line.strip()):
            continue
        if not (text.isdigit() and len(text) <= len(str(LARGEST_GROUP)) and 1 <= int(text) <= LARGEST_GROUP):
            raise DataError(
                f"{where}, line {number}: found {quoted(text)[1:]}, expected the number of lines of one query"
            )
        sizes.append(int(text))
    if not sizes:
        raise DataError(f"{where}: there are no numbers in it; expected the number of lines of each query")
    return sizes


def with_query_ids(stream: BinaryIO, sizes: list[int], where: str, first: int = 1) -> BinaryIO:
    """Return the text with `qid:1`, `qid:2`, ... (from `first` on) behind the labels; lines keep their numbers.

    Reading it raises DataError for a line that has a query's id already, and for more or fewer lines than the sizes
    add up to.
    """

    def numbered() -> Iterator[bytes]:
        queries = itertools.chain.from_iterable(itertools.starmap(itertools.repeat, enumerate(sizes, start=first)))
        for number, line in enumerate(stream, start=1):
            body, hash_mark, comment = line.partition(b"#")
            if not (tokens := body.split(None, 1)):
                yield line
                continue
            label, rest = tokens[0], b"".join(tokens[1:]).rstrip()
            if rest.startswith(b"qid:"):
                raise DataError(f"{where}, line {number}: it names its query, beside sizes of groups: omit them")
            if (query := next(queries, None)) is None:
                raise DataError(f"{where}, line {number}: expected no more lines, by the sizes of its groups")
            yield b"%s qid:%d %s %s%s\n" % (label, query, rest, hash_mark, comment.rstrip(b"\n"))
        if (left := sum(1 for _ in queries)) > 0:
            raise DataError(f"{where}: the group sizes add up to {sum(sizes)} lines, but {left} of them are missing")

    lines = numbered()
    return io.BufferedReader(BlockStream(iter(lambda: b"".join(itertools.islice(lines, _LINES_AT_ONCE)), b"")))


def read_lists(
    stream: BinaryIO,
    known: Extent | int,
    where: str,
    chunk_bytes: int = CHUNK_BYTES,
    seen: set[str] | None = None,
    largest_label: int | None = None,
) -> Iterator[pa.Table]:
    """Yield tables of the judged-lists contract: topic, items, relevance, features (float32 each).

    `known` is the `extent` of the file, or the number of features from 1 on. Labels are whole numbers, of which 2.0 is
    one, up to `largest_label`; they are int8 unless the extent has larger ones than 127, which are read as int64.
    Indices ascend. Missing features are 0. Values are read as double and rounded to float32. Queries may have any
    name. An item's name is the comment's docid, else `<topic>-<line number>`. The rows of a query must be adjacent;
    pass one `seen` for several files to check this across them.

    Raises:
        DataError: a line is malformed; the message has `where`, the line number and the token.
    """
    if isinstance(known, int):
        known, largest_label = Extent(known), LARGEST_LABEL if largest_label is None else largest_label
    layout = Layout(known, LARGEST_EXACT if largest_label is None else largest_label)
    chunk_bytes = min(chunk_bytes, max(_WIDE_CHUNK // known.width, _SMALLEST_CHUNK))
    seen, is_empty = set[str]() if seen is None else seen, True

    def batches() -> Iterator[pa.Table]:
        bytes_read, first = 0, 1
        while text := _whole_lines(stream, chunk_bytes):
            bytes_read += len(text)
            rows = parse_by_kernel(text, first, layout) if worth_a_kernel(bytes_read) else None
            rows = parse_lines(text, first, layout, where) if rows is None else rows
            first += text.count(b"\n")
            if len(rows):
                yield rows

    for rows in whole_topics(batches()):
        is_empty, query = False, rows.column("topic").to_numpy()
        starts = np.flatnonzero(np.diff(query, prepend=-1))
        topics = [layout.name_of(code) for code in query[starts].tolist()]
        for topic, start in zip(topics, starts.tolist(), strict=True):
            if topic in seen:
                raise DataError(
                    f"{where}, line {rows.column('number')[start]}: query {shortened(topic, _SHOWN_CHARACTERS)} occurs "
                    "again after other queries; the rows of a query must be adjacent: sort the file by query first"
                )
            seen.add(topic)
        columns = {name: rows.column(name).combine_chunks() for name in ("items", "relevance", "features")}
        yield packed_table(pa.array(topics), np.append(starts, len(rows)), columns)
    if is_empty:
        raise DataError(f"{where}: there are no lines in it; expected lines of `label qid:ID index:value ...`")


@dataclass(frozen=True)
class Layout:
    """What the lines of a file may hold, and the names of queries that are no whole numbers, or large ones."""

    known: Extent
    largest_label: int = LARGEST_LABEL
    names: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def code_of(self, token: bytes) -> int:
        """Return the number of a query, or a code below -1, which is no number."""
        if token.isdigit() and len(token) <= _LONGEST_NUMBER:
            if (number := int(token)) <= LARGEST_EXACT:
                return number
            token = b"%d" % number
        name = token.decode(errors="replace")
        if not 0 < len(token) <= _LONGEST_NUMBER or name.encode() != token:
            raise _malformed(token, f"the query's number or name after `qid:`, at most {_LONGEST_NUMBER} bytes")
        if name not in self.codes:
            self.codes[name] = _FIRST_CODE - len(self.names)
            self.names.append(name)
        return self.codes[name]

    def name_of(self, code: int) -> str:
        return str(code) if code >= 0 else self.names[_FIRST_CODE - code]

    def rows(self, label: Any, query: Any, number: Any, features: npt.NDArray[np.float32], names: Any) -> pa.Table:
        """Return parsed lines, with the codes of their queries and their own numbers in the file."""
        is_small = min(self.largest_label, self.known.label) <= LARGEST_LABEL
        columns = {
            "topic": pa.array(query, pa.int64()),
            "number": pa.array(number, pa.int64()),
            "relevance": pa.array(label, pa.int8() if is_small else pa.int64()),
        }
        return pa.table({**columns, "items": names, "features": vectors(features, features.shape[1])})


def worth_a_kernel(bytes_read: int) -> bool:
    """Return true where the kernel is usable, and loaded already or worth it after as many bytes as were read."""
    return (_KERNEL in sys.modules or bytes_read >= _WORTH_LOADING) and kernels.usable()


def _whole_lines(stream: BinaryIO, chunk_bytes: int) -> bytearray:
    """Return about so many bytes as whole lines, of which the last one ends as well; none at the end."""
    # An array of its own, as the kernels' arguments are writable.
    text = bytearray(stream.read(chunk_bytes))
    text += stream.readline()
    if text and not text.endswith(b"\n"):
        text += b"\n"
    return text


def _in_threads(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the results of kernels in the order of their tasks, of which a few are held at once.

    As many threads work as polars has (`POLARS_MAX_THREADS`), or `OMP_NUM_THREADS` if that is less.
    """
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = min(pl.thread_pool_size(), max(int(given), 1) if given.isdecimal() else _MOST_THREADS)
    if threads == 1:
        yield from itertools.starmap(work, tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Any]]()
        for task in tasks:
            waiting.append(pool.submit(work, *task))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _read_regular(stream: BinaryIO, known: Extent, chunks: Sequence[Chunk]) -> JudgedLists | None:
    """Return all lists of chunks that kernels can read, without copies; None where a line or a query is irregular."""
    n = known.lines
    labels, queries, lines = np.empty(n, np.int8), np.empty(n, np.int64), np.empty(n, np.int64)
    features, names = np.zeros((n, known.width), np.float32), list[pa.Array]()

    def tasks() -> Iterator[tuple[bytearray, int, slice]]:
        first, row = 1, 0
        for chunk in chunks:
            text = bytearray(stream.read(chunk.size))
            # The last line of a file may lack its end.
            text += b"" if text.endswith(b"\n") else b"\n"
            yield text, first, slice(row, row + chunk.rows)
            first, row = first + chunk.lines, row + chunk.rows

    def parsed(text: bytearray, first: int, rows: slice) -> pa.Array | None:
        arrays = labels[rows], queries[rows], lines[rows], features[rows]
        return _parsed(text, first, LARGEST_LABEL, known.smallest, *arrays)

    for made, chunk in zip(_in_threads(parsed, tasks()), chunks, strict=True):
        if made is None or len(made) != chunk.rows:
            return None
        names.append(made)
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    topics = queries[starts]
    if n == 0 or len(np.unique(topics)) < len(topics):
        return None
    return JudgedLists(
        topics=list(map(str, topics.tolist())),
        items=pl.Series(pl.from_arrow(pa.chunked_array(names, pa.string()))),
        relevance=labels,
        offsets=np.append(starts, n),
        features=features,
        feature_names=known.feature_names,
    )


def parse_by_kernel(text: bytearray, first: int, layout: Layout) -> pa.Table | None:
    """Return the rows of whole lines, numbered from `first`; None if any of them is irregular."""
    n = text.count(b"\n")
    labels, queries, lines = np.empty(n, np.int8), np.empty(n, np.int64), np.empty(n, np.int64)
    features, largest = np.zeros((n, layout.known.width), np.float32), min(layout.largest_label, LARGEST_LABEL)
    made = _parsed(text, first, largest, layout.known.smallest, labels, queries, lines, features)
    if made is None:
        return None
    count = len(made)
    return layout.rows(labels[:count], queries[:count], lines[:count], features[:count], made)


def _parsed(text: bytearray, first: int, largest: int, smallest: int, *arrays: npt.NDArray[Any]) -> pa.Array | None:
    """Write labels, queries, line numbers and features of lines, and return their names; None if any is irregular."""
    from rankbound.kernels.text import parse as kernel

    n = len(arrays[0])
    names, ends = np.empty(len(text) + _LONGEST_MADE_NAME * n, np.uint8), np.zeros(n + 1, np.int32)
    count = kernel(np.frombuffer(text, np.uint8), first, largest, smallest, *arrays, names, ends)
    if count < 0:
        return None
    buffers = pa.py_buffer(ends[: count + 1]), pa.py_buffer(names[: ends[count]].copy())
    return pa.StringArray.from_buffers(count, *buffers)


def parse_lines(text: bytes | bytearray, first: int, layout: Layout, where: str) -> pa.Table:
    """Return the rows of whole lines, numbered from `first`; slow, and accepts whatever is unambiguous.

    DataError names the number and the token of a malformed line.
    """
    numbers, label, query, names = list[int](), list[int](), list[int](), list[str]()
    features = np.zeros((text.count(b"\n"), layout.known.width), np.float32)
    for number, line in enumerate(bytes(text).split(b"\n"), start=first):
        body, _, comment = line.partition(b"#")
        tokens = body.split()
        if not tokens:
            continue
        try:
            label.append(_whole(_WHOLE_LABEL.sub(rb"\1", tokens[0]), "a label", 0, layout.largest_label))
            if len(tokens) < 2:
                raise _malformed(tokens[0], "`label qid:ID index:value ...`, but the line ends there")
            if not tokens[1].startswith(b"qid:"):
                beside = "a file with the sizes of the queries beside it (groups)"
                raise _malformed(tokens[1], f"`qid:` and the query's number as the second token, or {beside}")
            query.append(layout.code_of(tokens[1][4:]))
            _fill(features[len(numbers)], tokens[2:], layout.known.smallest)
        except DataError as error:
            raise DataError(f"{where}, line {number}: {error}") from error
        name = _DOCUMENT_NAME.search(comment)
        made = name[1].decode("utf-8", "replace") if name else f"{layout.name_of(query[-1])}-{number}"
        names.append(made)
        numbers.append(number)
    return layout.rows(label, query, numbers, features[: len(numbers)], pa.array(names, pa.string()))


def _malformed(token: bytes, expected: str) -> DataError:
    return DataError(f"found {_shown(token)}, expected {expected}")


def _shown(token: bytes) -> str:
    return repr(token[:_SHOWN_CHARACTERS])[1:]


def _whole(token: bytes, what: str, smallest: int, largest: int) -> int:
    if not token.isdigit() or len(token) > _LONGEST_NUMBER or not smallest <= int(token) <= largest:
        raise _malformed(token, f"{what}: a whole number {smallest} .. {largest}")
    return int(token)


def _fill(features: npt.NDArray[np.float32], pairs: list[bytes], smallest: int) -> None:
    """Write the values of a line's pairs into its row, which begins with the feature of the smallest index."""
    row, previous, largest = dict[int, float](), smallest - 1, smallest + len(features) - 1
    for place, pair in enumerate(pairs, start=1):
        key, colon, value = pair.partition(b":")
        try:
            index, number = int(key), float(value)
            # Only Python reads `+1` as an index, and `1_000` as a number.
            is_regular = key.isdigit() and previous < index <= largest and b"_" not in value
        except ValueError:
            is_regular = False
        if not (is_regular and abs(number) <= _LARGEST_FLOAT):
            if not colon:
                raise _malformed(pair, "a pair `index:value`")
            later = [int(one) for one in (other.partition(b":")[0] for other in pairs[place:]) if one.isdigit()]
            if key.isdigit() and len(key) <= _LONGEST_INDEX and min(later, default=int(key) + 1) <= int(key):
                raise _malformed(pair, f"ascending indices, but {min(later)} comes after it: sort the pairs of lines")
            if _whole(key, f"a feature index before the colon of {_shown(pair)}", smallest, largest) <= previous:
                raise _malformed(pair, f"a feature index above {previous}, the one before it")
            raise _malformed(pair, f"a finite number after the colon, at most {_LARGEST_FLOAT:.4g} in magnitude")
        row[index - smallest], previous = number, index
    # All at once: writing one number into an array takes as long as parsing two.
    features[list(row)] = list(row.values())
