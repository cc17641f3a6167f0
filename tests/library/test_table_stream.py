"""Tables read in batches: the lists and messages of the whole table, however its rows fall into batches."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.io.table_columns import Columns
from rankbound.io.tables import TableStream, read_judged
from tests.row_batches import batches_of

many = settings(suppress_health_check=list(HealthCheck), max_examples=3 * settings.default.max_examples)
sizes = st.sampled_from([1, 7, 40, 200, 2**23])


def streamed(path: Path, size: int, features: Sequence[str] | None = None) -> list[JudgedLists]:
    with batches_of(size):
        return list(TableStream(path, Columns(), features))


def content(parts: list[JudgedLists]) -> tuple[Any, ...]:
    """The lists of all parts, and the types of their numbers."""
    ends = [0]
    for part in parts:
        ends += (part.offsets[1:] + ends[-1]).tolist()
    relevance = np.concatenate([part.relevance for part in parts])
    return (
        [name for part in parts for name in part.topics],
        [name for part in parts for name in part.items],
        (relevance.dtype, relevance.tolist()),
        ends,
        np.concatenate([part.features for part in parts]).tobytes(),
        parts[0].feature_names,
    )


def outcome(read: Any) -> Any:
    try:
        return content(read())
    except DataError as error:
        return str(error)


NUMBERS = "0 1 2.5 -3 1e-3 16777217 9007199254740993 0.1 true 3. +5 5.e3 nan " + "9" * 25
numbers = st.sampled_from([*NUMBERS.split(), " 5"])
texts = st.sampled_from(["a", "red, shoe", 'with "quotes"', "two\nlines", "é", " ", "7"])
rows = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 3), numbers, numbers, texts | numbers), min_size=1, max_size=30
)


@many
@given(rows, sizes, st.booleans())
@example([("a", 1, "1", "1", "7"), ("b", 0, "2.5", "9007199254740993", "é"), ("a", 2, "0", "1", "2")], 1, False)
@example([("a", 1, "2.5", "1", "x"), ("a", 1, "9" * 25, "9" * 25, "y"), ("b", 1, "1", "0.5", "z")], 1, False)
def test_batches_of_text_are_the_whole_table(
    tmp_path: Path, table: list[tuple[Any, ...]], size: int, packed: bool
) -> None:
    frame = pl.DataFrame(
        [(*row, 0.5) for row in table], schema=["topic", "relevance", "f", "g", "note", "h"], orient="row"
    )
    text = frame.write_csv().encode()
    path = tmp_path / ("x.csv.gz" if packed else "x.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    assert outcome(lambda: streamed(path, size)) == outcome(lambda: [read_judged(path, Columns())])


@many
@given(rows, sizes, st.integers(1, 9))
def test_batches_of_parquet_are_the_whole_table(
    tmp_path: Path, table: list[tuple[Any, ...]], size: int, group: int
) -> None:
    path = tmp_path / "x.parquet"
    columns = list(zip(*table, strict=True))
    values = {"topic": columns[0], "relevance": columns[1], "f": [float(len(text)) for text in columns[2]]}
    pq.write_table(pa.table({**values, "note": columns[4]}), path, row_group_size=group)
    assert outcome(lambda: streamed(path, size)) == outcome(lambda: [read_judged(path, Columns())])


pieces = st.sampled_from(
    ["a,1,2\n", "b,0,2.5\n", "a,2,x\n", "a,1\n", "a,1,2,3\n", "\n", '"a",0,1\n', '"a\n', 'a",1,1\n', "a,0,\r\n",
     "b, 1, 1\n", "c,true,1\n", "c,0.5,1\n", "c,-1,1\n", "c,1,nan\n", "c,1,99999999999999999999\n", "a,1,é\0\n",
     ",1,1\n", 'c,1,"x\ny"\n']
)  # fmt: skip


@many
@given(st.lists(pieces, min_size=1, max_size=8), sizes)
@example(["a,1,2\n", "a,1,2,3\n"], 1)
@example(["a,0,\r\n", "\n", "a,1,2,3\n"], 1)
def test_a_file_is_refused_in_batches_if_it_is_refused_whole(tmp_path: Path, lines: list[str], size: int) -> None:
    """Of several mistakes, another one may be named; a file with one of them has the same message."""
    path = tmp_path / "x.csv"
    path.write_bytes(("topic,relevance,f\n" + "".join(lines)).encode())
    found, expected = outcome(lambda: streamed(path, size)), outcome(lambda: [read_judged(path, Columns())])
    if isinstance(expected, str) and isinstance(found, str):
        assert "x.csv" in found
    elif not (isinstance(found, str) and "no features" in found):
        assert found == expected
