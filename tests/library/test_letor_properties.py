"""LETOR text against what it was written from, whatever the chunks."""

import io

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound.io.letor import read_lists

WIDTH = 5
values = st.one_of(st.integers(-9, 9), st.floats(-1e6, 1e6, width=32), st.floats(-1e-9, 1e-9))
rows = st.tuples(st.integers(0, 4), st.dictionaries(st.integers(1, WIDTH), values), st.sampled_from(["", "#docid = A"]))
queries = st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=6)

# Bits of lines, so that malformed ones come near to well-formed ones.
bits = st.sampled_from(
    ["0", "1", "2", " ", "  ", "\t", ":", "1:", "2:", "qid:", " qid:1", " 1:0.5", " 2:1", "#", "\n", "\r\n", "-", ".",
     "e", "x", "nan", "\0", "\n1 qid:2 1:3", "\n0 qid:1"]
)  # fmt: skip


def write(lists: list[list[tuple[int, dict[int, float], str]]]) -> str:
    return "".join(
        f"{label} qid:{query} {' '.join(f'{key}:{pairs[key]!r}' for key in sorted(pairs))} {comment}\n"
        for query, one in enumerate(lists)
        for label, pairs, comment in one
    )


def read(text: bytes, chunk_bytes: int) -> pa.Table:
    return pa.concat_tables(read_lists(io.BytesIO(text), WIDTH, "toy.txt", chunk_bytes)).combine_chunks()


@given(queries, st.integers(1, 200))
def test_text_gives_what_it_was_written_from(
    lists: list[list[tuple[int, dict[int, float], str]]], chunk_bytes: int
) -> None:
    table = read(write(lists).encode(), chunk_bytes)
    assert table.column("topic").to_pylist() == [str(query) for query in range(len(lists))]
    assert table.column("relevance").to_pylist() == [[label for label, _, _ in one] for one in lists]
    flat = np.array(
        [[pairs.get(key, 0) for key in range(1, WIDTH + 1)] for one in lists for _, pairs, _ in one], dtype=np.float64
    )
    found = np.concatenate([np.array(vectors) for vectors in table.column("features").to_pylist()])
    np.testing.assert_array_equal(found.astype(np.float32), flat.astype(np.float32))


@given(st.lists(bits, max_size=14).map("".join), st.integers(1, 20))
def test_any_text_is_read_or_refused_whatever_the_chunks(text: str, chunk_bytes: int) -> None:
    def attempt(size: int) -> object:
        try:
            return read(text.encode(), size).to_pylist()
        except DataError as error:
            return str(error)

    assert attempt(chunk_bytes) == attempt(10_000)
