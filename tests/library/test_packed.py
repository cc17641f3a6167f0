"""Packed parquet files, a row for each topic: whoever wrote them, they are read, and mistakes in them are named."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankbound as rb
from rankbound.errors import DataError

VECTORS = pa.list_(pa.list_(pa.float32(), 2))


def write(path: Path, **columns: Any) -> Path:
    values: dict[str, Any] = {
        "topic": pa.array(["q1", "q2", "q3"]),
        "items": pa.array([["a", "b"], [], ["c"]], pa.list_(pa.string())),
        "relevance": pa.array([[1, 0], [], [2]]),
        "features": pa.array([[[0.0, 1.0], [2.0, 3.0]], [], [[4.0, 5.0]]], VECTORS),
    }
    table = {name: column for name, column in (values | columns).items() if column is not None}
    pq.write_table(pa.table(table), path)
    return path


def test_a_file_of_any_writer_is_read(tmp_path: Path) -> None:
    lists = rb.read_lists(write(tmp_path / "x.parquet", more=pa.array([1, 2, 3])))
    assert (list(lists.topics), list(lists.items)) == (["q1", "q2", "q3"], ["a", "b", "c"])
    np.testing.assert_array_equal(lists.offsets, [0, 2, 2, 3])
    np.testing.assert_array_equal(lists.relevance, [1, 0, 2])
    np.testing.assert_array_equal(lists.features, [[0, 1], [2, 3], [4, 5]])
    assert rb.read_qrels(tmp_path / "x.parquet").relevance.tolist() == [1, 0, 2]


def test_a_file_that_polars_wrote_is_read(tmp_path: Path) -> None:
    """Its texts and lists have 64-bit offsets."""
    pl.DataFrame(pq.read_table(write(tmp_path / "x.parquet"))).write_parquet(tmp_path / "y.parquet")
    assert pa.types.is_large_list(pq.read_schema(tmp_path / "y.parquet").field("items").type)
    expected, lists = (rb.read_lists(tmp_path / name) for name in ("x.parquet", "y.parquet"))
    assert (list(lists.topics), list(lists.items)) == (list(expected.topics), list(expected.items))
    for name in ("offsets", "relevance", "features"):
        np.testing.assert_array_equal(getattr(lists, name), getattr(expected, name))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": None}, "column 'topic' is missing"),
        ({"topic": pa.array([1, 2, 3])}, "column 'topic' is int64, expected string"),
        ({"relevance": pa.array([[0.5, 0], [], [1]])}, "column 'relevance' is list<.*double>, expected list of whole"),
        ({"relevance": pa.array([[1], [], [2, 0]])}, "'q1' has 2 items, but 1 entries in the column 'relevance'"),
        ({"relevance": pa.array([[1, None], [], [2]])}, "column 'relevance' holds 1 nulls"),
        ({"relevance": pa.array([[1, 0], [], [-2]])}, "item 'c': relevance -2, expected grades from 0"),
        (
            {"features": pa.array([[[0, 1], [2, 3]], [], [[4, float("nan")]]], VECTORS)},
            "item 'c': feature 2 is nan, expected a finite number",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        rb.read_lists(write(tmp_path / "x.parquet", **columns))
