"""Files that cannot be read: each is refused by a message with the file, the line, the column and what was expected."""

import gzip
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankbound as rb
from rankbound.errors import DataError

ROWS: dict[str, list[Any]] = {
    "topic": ["b", "a", "b", "b"],
    "item": ["x", "x", "y", "z"],
    "relevance": [2, 0, 1, 0],
    "price": [0.5, 1.5, -2.0, 1e-3],
    "sold": [3, 0, 4, 5],
}
LETOR = "2 qid:7 1:0.5 3:2 #docid = x\n0 qid:7 2:-1e-1 #docid = y\n1 qid:8 1:4\n"
RUN = "q1 Q0 a 1 0.5 x\n"
VECTORS = pa.list_(pa.list_(pa.float32(), 2))
FINITE, GRADES = "expected a finite number", "expected grades from 0"
READERS: dict[str, Callable[[Path], Any]] = {"run": rb.read_run, "qrels": rb.read_qrels, "lists": rb.read_lists}


def rows(**changes: Any) -> pl.DataFrame:
    return pl.DataFrame(ROWS | changes, strict=False)


def packed(**changes: Any) -> pa.Table:
    """A row for each topic; without the columns that are None, and with `metadata`."""
    columns: dict[str, Any] = {
        "topic": pa.array(["q1", "q2", "q3"]),
        "items": pa.array([["a", "b"], [], ["c"]], pa.list_(pa.string())),
        "relevance": pa.array([[1, 0], [], [2]]),
        "features": pa.array([[[0.0, 1.0], [2.0, 3.0]], [], [[4.0, 5.0]]], VECTORS),
    }
    metadata = changes.pop("metadata", None)
    table = pa.table({name: column for name, column in (columns | changes).items() if column is not None})
    return table.replace_schema_metadata(metadata)


def with_value(value: float) -> pa.Array:
    return pa.array([[[0, 1], [2, 3]], [], [[4, value]]], VECTORS)


def write(path: Path, content: Any) -> None:
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path) if path.suffix == ".parquet" else content.write_csv(path)
    elif isinstance(content, pa.Table) and path.suffix == ".parquet":
        pq.write_table(content, path)
    elif isinstance(content, pa.Table):
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, content.schema) as writer:
            writer.write_table(content)
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


PACKED: list[tuple[dict[str, Any], str]] = [
    ({"topic": None}, "column 'topic' is missing"),
    ({"topic": pa.array(["q", "r", "q"])}, "topics: found 'q' twice"),
    ({"topic": pa.array([1, 2, 3])}, "column 'topic' is int64, expected string"),
    ({"relevance": pa.array([[0.5, 0], [], [1]])}, "column 'relevance' is list<.*double>, expected list of whole"),
    ({"relevance": pa.array([[1], [], [2, 0]])}, "'q1' has 2 items, but 1 entries in the column 'relevance'"),
    ({"relevance": pa.array([[1, None], [], [2]])}, "column 'relevance' holds 1 nulls"),
    ({"relevance": pa.array([[1, 0], [], [-2]])}, f"item 'c': relevance -2, {GRADES}"),
    ({"features": with_value(np.nan)}, f"item 'c': feature 2 is nan, {FINITE}"),
    ({"features": with_value(np.inf)}, f"item 'c': feature 2 is inf, {FINITE}"),
]

NUMBERS = ("1_0", "\u0661", "0x1p3", "nan", "inf", "1e400", "1e", "--1")
"""Nobody else reads them as finite numbers."""

TWICE = "topic,relevance,f1,f1\nq,1,0.5,0.7\n"

CASES: list[tuple[str, Any, str]] = [
    # Tables with a row per item.
    ("lists.csv", rows(price=[0.5, 1.5, None, 1]), f", line 4: column 'price' is empty, {FINITE}"),
    ("lists.csv", rows(price=["1", "2", "3", "cheap"]), f", line 5: column 'price' holds 'cheap', {FINITE}"),
    ("lists.csv", rows(price=[0.5, np.nan, 1, 1]), ", line 3: column 'price' holds nan"),
    ("lists.csv", rows(price=[0.5, 1e39, 1, 1]), r", line 3: column 'price' holds 1e\+?39"),
    ("lists.csv", rows(relevance=[1, 0, -1, 0]), f", line 4: column 'relevance' holds -1, {GRADES}"),
    ("lists.csv", rows(relevance=[1, 0, None, 0]), ", line 4: column 'relevance' is empty"),
    ("lists.csv", rows(relevance=["good", "bad", "bad", "good"]), ", line 2: column 'relevance' holds 'good'"),
    ("lists.csv", rows(topic=["a", None, "a", "a"]), ", line 3: column 'topic' is empty, expected a name"),
    ("lists.csv", rows(item=["x", "x", "x", "z"]), ": item 'x' occurs more than once in topic 'b'"),
    ("lists.parquet", rows(price=[0.5, None, 1, 1]), ", row 2: column 'price' is empty"),
    ("lists.csv", TWICE, "the column 'f1' occurs twice in the first line"),
    ("lists.tsv", TWICE.replace(",", "\t"), "the column 'f1' occurs twice in the first line"),
    ("lists.csv.gz", gzip.compress(TWICE.encode()), "the column 'f1' occurs twice in the first line"),
    # LETOR text.
    ("lists.txt", LETOR + "1 qid:9 2:x\n", ", line 4: found '2:x', expected a finite number after the colon"),
    ("lists.txt", LETOR + "1 qid:9 1:1 99999999999:1\n", ", line 4: found feature index 99999999999, expected at most"),
    ("lists.txt", LETOR + "1 qid:7 1:1\n", ", line 4: query 7 occurs again .* sort the file by query first"),
    ("lists.txt", "topic,relevance\n1,2\n", ", line 1: "),
    *[
        ("lists.txt", line.format("9" * 5000), "expected|at most")
        for line in ("1 qid:{} 1:1", "1 qid:1 {}:1", "{} qid:1 1:1")
    ],
    # TREC text.
    ("run.txt", RUN + "q1 Q0 b 2 0.4\n", ", line 2: found 5 fields, expected topic Q0 item rank score tag: 'q1 Q0 b 2"),
    ("run.txt", "\n" + RUN + "q1 Q0 b 2 high x\n", f", line 3: found score 'high', {FINITE}"),
    ("run.txt", RUN + "q1 Q0 b 2 nan x\n", f", line 2: found score 'nan', {FINITE}"),
    ("run.txt", RUN + "q1 Q0 b 2 1 x y\n", ", line 2: found 7 fields"),
    ("run.txt", RUN * 2, "item 'a' occurs more than once in topic 'q1'"),
    ("run.txt", "", "there are no lines in it; expected lines of `topic Q0 item rank score tag`"),
    ("qrels.txt", "q1 0 a 1\nq1 0 b 1.5\n", r", line 2: found relevance '1\.5', expected a whole number"),
    ("qrels.txt", "q1 0 a\n", ", line 1: found 3 fields, expected topic iteration item relevance: 'q1 0 a'"),
    *[("run.txt", f"a Q0 d1 1 {number} x\n", FINITE) for number in NUMBERS],
    *[("run.csv", f"topic,item,score\na,d1,{number}\n", f"{FINITE}|could not parse") for number in NUMBERS],
    *[("qrels.txt", f"a 0 d1 {number}\n", "expected a whole number") for number in NUMBERS],
    # A row per topic.
    *[(f"lists.{kind}", packed(**changes), message) for kind in ("parquet", "arrow") for changes, message in PACKED],
    ("lists.arrow", packed(metadata={"rankbound.features": '["a"]'}), "don't name its 2 features; pack the lists ag"),
    ("lists.arrow", packed(metadata={"rankbound.features": "["}), "don't name its 2 features"),
    # Damaged, missing, and of another kind.
    *[
        ("lists.csv", content, "not a readable CSV file" if content == b"" else "cannot be read")
        for content in (b"", None)
    ],
    ("lists.parquet", b"", "not a readable parquet file"),
    ("lists.parquet", None, "there is no such file"),
    ("lists.txt", None, "cannot be read"),
    ("run.txt", None, r"cannot be read \(No such file"),
    ("run.gz", gzip.compress(RUN.encode() * 100, mtime=0)[:30], "cannot be read"),
    ("lists.arrow", None, "there is no such file"),
    *[("lists.arrow", content, "not a readable Arrow file") for content in (b"", b"topic,item\n")],
    *[
        (f"{name}.gz", content, "found packed content, expected text or gzip of text")
        for name, text in {"run.txt": RUN, "lists.txt": LETOR, "lists.csv": "topic,item,relevance,f\n"}.items()
        for data in [text.encode()]
        for content in (zlib.compress(data), b"\x28\xb5\x2f\xfd" + data, gzip.compress(gzip.compress(data)))
    ],
]


@pytest.mark.parametrize(("name", "content", "message"), CASES)
def test_a_file_is_refused_by_name_place_and_expectation(name: str, content: Any, message: str, tmp_path: Path) -> None:
    write(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as caught:
        READERS[name.partition(".")[0]](tmp_path / name)
    assert re.search(re.escape(name), str(caught.value))
    assert len(str(caught.value)) < 1000


def test_an_arrow_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    write(path := tmp_path / "lists.arrow", packed())
    assert rb.read_lists(path).feature_names == ["1", "2"]
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match=r"lists\.arrow: not a readable Arrow file"):
        rb.read_lists(path)
