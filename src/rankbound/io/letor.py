"""Parse LETOR text (SVMlight with query ids) into judged lists, a chunk of lines at a time.

A line is `label qid:ID index:value ... [# comment]`, for example `2 qid:10 1:0.03 2:0.5 #docid = GX000 inc = 1`.
A compiled kernel (extra `fast`) parses the regular chunks of files of some megabytes, in a tenth of the time. All
others are parsed line by line, with the same numbers or an error that names line and token. Memory is bounded by the
chunk and the longest list, not by the file.
"""

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.io import letor_compiled, letor_lines
from rankbound.io.letor_compiled import worth_a_kernel
from rankbound.io.letor_lines import LARGEST_LABEL, Chunk, Rows

CHUNK_BYTES = 2**19
"""Bytes read at once. The arrays of a chunk fit the processor's cache; larger chunks are slower."""


def read_lists(
    stream: BinaryIO,
    width: int,
    where: str,
    chunk_bytes: int = CHUNK_BYTES,
    seen: set[str] | None = None,
    largest_label: int = LARGEST_LABEL,
) -> Iterator[pa.Table]:
    """Yield tables of the judged-lists contract: topic, items, relevance, features (`width` float32 each).

    Labels are whole numbers 0 .. `largest_label`, of which 2.0 is one; indices are 1 .. `width`, ascending. Missing
    features are 0. Values are read as double and rounded to float32. An item's name is the comment's docid, else
    `<topic>-<line number>`. The rows of a query must be adjacent; pass one `seen` for several files to check this
    across them.

    Raises:
        DataError: a line is malformed; the message has `where`, the line number and the token.
    """
    seen = set() if seen is None else seen
    rest: Rows | None = None
    bytes_read = 0
    for chunk in _chunks(stream, chunk_bytes):
        bytes_read += len(chunk.text)
        rows = letor_compiled.parse(chunk, width, largest_label) if worth_a_kernel(bytes_read) else None
        if rows is None:
            rows = letor_lines.parse(chunk, width, where, largest_label)
        if not len(rows.query):
            continue
        rows = rows if rest is None else rest.followed_by(rows)
        # The last query may continue in the next chunk.
        cut = int(np.flatnonzero(rows.query != rows.query[-1])[-1]) + 1 if (rows.query != rows.query[-1]).any() else 0
        if cut:
            yield _lists(rows.part(0, cut), where, seen)
        rest = rows.part(cut, len(rows.query))
    if rest is None:
        raise DataError(f"{where}: there are no lines in it; expected lines of `label qid:ID index:value ...`")
    yield _lists(rest, where, seen)


def _chunks(stream: BinaryIO, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield whole lines, about `chunk_bytes` at a time."""
    held: list[bytes] = []
    first = 1
    while block := stream.read(chunk_bytes):
        cut = block.rfind(b"\n") + 1
        if not cut:
            held.append(block)
            continue
        chunk = Chunk(b"".join((*held, memoryview(block)[:cut])), first)
        held = [block[cut:]]
        yield chunk
        first += chunk.n_lines
    yield Chunk(b"".join((*held, b"\n")), first)


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
    columns = {"items": rows.names, "relevance": pa.array(rows.label), "features": vectors}
    lists = {name: pa.ListArray.from_arrays(offsets, values) for name, values in columns.items()}
    return pa.table({"topic": pa.array(topics), **lists})
