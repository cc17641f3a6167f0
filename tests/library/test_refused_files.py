"""Files that cannot be read: each is refused by a message with the file, the line, the column and what was expected."""

import bz2
import gzip
import re
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io import text_files
from rankbound.io.judged import repeated
from tests.library.refusals import problems

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
    table = pa.table({name: pa.array(column) for name, column in (columns | changes).items() if column is not None})
    return table.replace_schema_metadata(metadata)


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


def cut_off(path: Path) -> None:
    write(path, packed())
    path.write_bytes(path.read_bytes()[:-40])


PACKED: list[tuple[dict[str, Any], str]] = [
    *map(tuple, problems("packed files")),
    *(
        ({"features": pa.array([[[0, 1], [2, 3]], [], [[4, x]]], VECTORS)}, f"item 'c': feature 2 is {x}, {FINITE}")
        for x in (np.nan, np.inf, -np.inf)
    ),
]

NUMBERS = ("1_0", "\u0661", "0x1p3", "nan", "inf", "1e400", "1e", "--1")
"""Nobody else reads them as finite numbers."""

LARGE = "\x1b[2J" + "z" * 3_000_000
DIRECTORY = "cannot be read: found a directory, expected a file: name a file in it"

CASES: list[tuple[str, Any, str]] = [
    *map(tuple, problems("refused files")),
    *((name, rows(**changes), message) for name, changes, message in problems("refused values")),
    (
        "lists.csv.gz",
        gzip.compress(b"topic,relevance,f1,f1\nq,1,0.5,0.7\n"),
        "the column 'f1' occurs twice in the first line",
    ),
    # Large cells and tokens make no large message.
    ("lists.csv", rows(price=["1", LARGE, "2", "3"]), f", line 3: column 'price' holds .*, {FINITE}"),
    ("lists.csv", rows(relevance=["1", LARGE, LARGE, "3"]), ", line 3: column 'relevance' holds "),
    ("lists.csv", rows(topic=[LARGE] * 4), r"item 'x' occurs more than once in topic '.* more characters"),
    ("run.txt", f"a Q0 d 1 {'9' * 3_000_000}_ x\n", ", line 1: found score"),
    ("lists.txt", f"1 qid:{'9' * 3_000_000}_ 1:1\n", ", line 1: "),
    ("lists.txt", f"1 qid:1 {'9' * 3_000_000}_:1\n", ", line 1: "),
    *[
        ("lists.txt", line.format("9" * 5000), "expected|at most")
        for line in ("1 qid:{} 1:1", "1 qid:1 {}:1", "{} qid:1 1:1")
    ],
    *[("run.txt", f"a Q0 d1 1 {number} x\n", FINITE) for number in NUMBERS],
    *[("run.csv", f"topic,item,score\na,d1,{number}\n", f"{FINITE}|could not parse") for number in NUMBERS],
    *[("qrels.txt", f"a 0 d1 {number}\n", "expected a finite number within") for number in NUMBERS],
    *[("run.json", text, "not readable as JSON") for text in ('{"q": {"a": 1', "[" * 100_000)],
    # A row per topic.
    *[(f"lists.{kind}", packed(**changes), message) for kind in ("parquet", "arrow") for changes, message in PACKED],
    ("lists.arrow", packed(metadata={"rankbound.features": '["a"]'}), "don't name its 2 features; pack the lists ag"),
    ("lists.arrow", packed(metadata={"rankbound.features": "["}), "don't name its 2 features"),
    # Damaged, and of another kind.
    ("lists.csv", b"", r"not a readable CSV file \(empty CSV\)"),
    *[(f"{kind}{end}", Path.mkdir, DIRECTORY) for kind in READERS for end in ("", ".csv", ".parquet")],
    ("run.gz", gzip.compress(RUN.encode() * 100, mtime=0)[:30], "cannot be read"),
    ("lists.parquet", b"", "not a readable parquet file"),
    *[("lists.arrow", content, "not a readable Arrow file") for content in (b"", b"topic,item\n", cut_off)],
    *[
        (f"{name}.gz", content, message)
        for name, text in {"run.txt": RUN, "lists.txt": LETOR, "lists.csv": "topic,item,relevance,f\n"}.items()
        for data in [text.encode()]
        for content, message in {
            zlib.compress(data): "found packed content, expected text, or text packed once by gzip, bzip2 or zstd",
            b"\x28\xb5\x2f\xfd" + data: r"cannot be read \(ZSTD decompress failed",
            gzip.compress(gzip.compress(data)): "found packed content, expected text, or text packed once by gzip",
            gzip.compress(bz2.compress(data)): "found packed content, expected text, or text packed once by gzip",
            bz2.compress(data)[:-9]: "cannot be read",
        }.items()
    ],
]


# Layouts of tables that others write: of lists, judgements and runs

CSV = {"lists": "topic,item,relevance,f\n1,a,0,0.5\n1,b,1,1.5\n", "run": "topic,item,score\n1,a,0.5\n1,b,1.5\n"}
CSV["qrels"] = CSV["lists"]
COMMA = "expected a finite number with a decimal point"


def replaced(*pairs: Sequence[str]) -> Callable[[str], str]:
    return lambda text: reduce(lambda changed, pair: changed.replace(*pair), pairs, text)


LAYOUTS: list[tuple[str, Callable[[str], str | bytes], str]] = [
    *((end, replaced(*pairs), message) for end, pairs, message in problems("layouts of tables")),
    ("csv", lambda text: text.encode("utf-16"), ": found text in UTF-16, expected UTF-8: save the file"),
    ("csv", lambda text: text.encode("utf-16-le"), ": found text in UTF-16, expected UTF-8: .* iconv"),
    ("csv.gz", lambda text: gzip.compress(text.encode("utf-16")), ": found text in UTF-16, expected UTF-8"),
    ("txt", lambda text: text.encode("utf-16"), ": found text in UTF-16, expected UTF-8"),
    (
        "csv",
        lambda text: text.replace(",b,", ",\xe9,").encode("latin-1"),
        ", line 3: found the byte 0xe9, expected text",
    ),
    (
        "csv",
        lambda text: text.split("\n")[0],
        ": there are no rows in it below the names; expected one",
    ),
    (
        "csv",
        "{}2,c,1,1,1,1\n".format,
        r", line 4: found 6 fields, expected \d as .*put names with commas in double quo",
    ),
    ("csv", '{}2,"c,1,1\n2,d,1,1\n'.format, ", line 4: found a double quote that nothing closes"),
]


# Judgements are read without the features.
CASES += [
    (f"{kind}.{end}", change(CSV[kind]), f"{kind}.{end}{message}")
    for end, change, message in LAYOUTS
    for kind in READERS
    if kind != "qrels" or COMMA not in message
]


@pytest.mark.parametrize(("name", "content", "message"), CASES)
def test_a_file_is_refused_by_name_place_and_expectation(name: str, content: Any, message: str, tmp_path: Path) -> None:
    content(tmp_path / name) if callable(content) else write(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as caught:
        READERS[name.partition(".")[0]](tmp_path / name)
    assert re.search(re.escape(name), str(caught.value))
    assert len(str(caught.value)) < 1000


# What is asked of a file

ASKED: list[tuple[Any, dict[str, Any], str]] = [
    *map(tuple, problems("what is asked of a file")),
    *((rows(), options, message) for options, message in problems("what is asked of a table")),
    (pd.DataFrame([["q", 1, 0.5, 0.7]], columns=["topic", "relevance", "f1", "f1"]), {}, "unique"),
    *(
        (
            LETOR,
            {"features": ["1", name]},
            "there is no feature .*; those of a LETOR file are numbers from 0 to 1048576",
        )
        for name in ("9" * 5000, "60000000", "\u00b2", "-1", "price")
    ),
]


@pytest.mark.parametrize(("source", "options", "message"), ASKED)
def test_what_a_source_lacks_is_named(source: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    if isinstance(source, str):
        write(tmp_path / "lists.txt", source)
        write(tmp_path / "groups", options.get("groups"))
        source = tmp_path / "lists.txt"
        options = options | ({"groups": tmp_path / "groups"} if "groups" in options else {})
    with pytest.raises(DataError, match=message) as caught:
        rb.read_lists(source, **options)
    assert len(str(caught.value)) < 1000


# Harm: more memory or time than the file is worth
@pytest.mark.parametrize("name", ["run.txt", "lists.txt", "lists.csv"])
def test_a_bomb_does_not_fill_the_memory(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED", 2**20)
    text = {"run.txt": RUN, "lists.txt": LETOR, "lists.csv": CSV["lists"]}[name].encode()
    write(path := tmp_path / f"{name}.gz", gzip.compress(text + b" " * 2**26))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"unpacks to more than .* MiB, 100 times its size or more.*gunzip"):
        READERS[name.partition(".")[0]](path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_a_parquet_file_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        path := tmp_path / "wide.parquet", pa.table({name: pa.array([1] * 100_000) for name in ("topic", "relevance")})
    )
    monkeypatch.setattr("os.sysconf", lambda name: 1024 if name == "SC_PAGE_SIZE" else 100)
    with pytest.raises(DataError, match=r"rows take .* GiB at least"):
        rb.read_lists(path)


def test_finding_a_repeated_name_reads_each_once() -> None:
    """A list of names was searched for each of them, which took minutes."""

    class Names(list[str]):
        reads = 0

        def __iter__(self) -> Any:
            Names.reads += 1
            return super().__iter__()

        def __getitem__(self, place: Any) -> Any:
            raise AssertionError("a part of the names was copied")

    assert (repeated(Names(["a", "b", "b", "a"])), repeated(Names(["a", "b", ""])), Names.reads) == ("b", None, 2)


def test_a_wide_table_asks_for_its_names_a_few_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Polars makes a new list of all names each time."""
    asked: list[int] = []
    names = pl.DataFrame.columns.fget
    monkeypatch.setattr(pl.DataFrame, "columns", property(lambda frame: asked.append(1) or names(frame)))
    counts = []
    for width in (10, 1000):
        rows(**{f"f{place}": [0.5, 1.5, 2.5, 3.5] for place in range(width)}).write_csv(tmp_path / "wide.csv")
        asked.clear()
        assert rb.read_lists(tmp_path / "wide.csv").features.shape == (4, width + 2)
        counts.append(len(asked))
    assert counts[0] == counts[1]
