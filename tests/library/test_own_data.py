"""One's own files as judged lists: LETOR, CSV, parquet and data frames, in the layouts that people have."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankbound.errors import ColumnWarning
from rankbound.io import letor
from rankbound.io.files import read_lists, read_qrels, read_run
from rankbound.io.judged import JudgedLists
from tests.library.test_refused_files import LETOR, ROWS, rows, write


def content(lists: JudgedLists) -> tuple[Any, ...]:
    names = list(lists.topics), list(lists.items), list(lists.feature_names)
    return (*names, lists.relevance.tolist(), lists.offsets.tolist(), lists.features.tolist())


# Topic b's rows do not stand together.
FEATURES = np.array([[0.5, 3], [-2, 4], [1e-3, 5], [1.5, 0]], np.float32)
EXPECTED = (["b", "a"], ["x", "y", "z", "x"], ["price", "sold"], [2, 1, 0, 0], [0, 3, 4], FEATURES.tolist())
OF_LETOR = np.array([[0.5, 0, 2], [0, -0.1, 0], [4, 0, 0]], np.float32)


def of_letor(names: Any, values: Any) -> tuple[Any, ...]:
    return (["7", "8"], ["x", "y", "8-3"], names, [2, 0, 1], [0, 2, 3], values.tolist())


LETOR_LISTS = of_letor([*"123"], OF_LETOR)
TEXT = rows().write_csv().encode()


@pytest.mark.parametrize(
    ("name", "written"),
    [
        *[("lists.csv", TEXT), ("lists.csv.gz", gzip.compress(TEXT)), ("lists.tsv", TEXT.replace(b",", b"\t"))],
        ("lists.parquet", rows()),
        *[("", make(ROWS)) for make in (pl.DataFrame, pd.DataFrame, pa.table)],
        *[("lists.txt", LETOR), ("lists.letor", LETOR), ("lists.txt.gz", gzip.compress(LETOR.encode()))],
    ],
)
def test_lists_are_the_same_from_every_kind_of_file_and_frame(tmp_path: Path, name: str, written: Any) -> None:
    if name:
        write(tmp_path / name, written)
    is_letor = ".letor" in name or ".txt" in name
    assert content(read_lists(tmp_path / name if name else written)) == (LETOR_LISTS if is_letor else EXPECTED)


@pytest.mark.parametrize(
    ("text", "attribute", "expected"),
    [
        ("topic,item,relevance,f\n007,1e5,1,2\n7,0x1,0,3\n", "topics", ["007", "7"]),
        ("topic,item,relevance,f\n007,1e5,1,2\n7,0x1,0,3\n", "items", ["1e5", "0x1"]),
        (rows().drop("item"), "items", ["b-2", "b-4", "b-5", "a-3"]),
        (rows(sold=[True, False, False, True]), "features", np.c_[FEATURES[:, 0], [1, 0, 1, 0]].tolist()),
        (rows(relevance=[0.5, 0, 1, 2]), "relevance", [0.5, 1, 2, 0]),
    ],
    ids=["names of topics stay as written", "of items", "items without names", "yes and no", "fractions"],
)
def test_what_values_mean(text: Any, attribute: str, expected: Any, tmp_path: Path) -> None:
    write(tmp_path / "x.csv", text)
    found = getattr(read_lists(tmp_path / "x.csv"), attribute)
    assert (found.tolist() if hasattr(found, "tolist") else list(found)) == expected


def test_text_is_left_out_and_named(tmp_path: Path) -> None:
    """Text with commas, too."""
    rows(title=["one", "two", "three", None], tags=["1,2", "new,3", "", ""]).write_csv(tmp_path / "x.csv")
    with pytest.warns(ColumnWarning, match=r"x\.csv: columns that are no features unless .*: title \(text\), tags \(t"):
        lists = read_lists(tmp_path / "x.csv")
    assert (lists.feature_names, lists.left_out) == (["price", "sold"], {"title": "text", "tags": "text"})


@pytest.mark.parametrize(
    ("written", "options", "expected"),
    [
        (
            rows().rename({"topic": "query", "item": "url", "relevance": "clicked"}),
            {"topic": "query", "item": "url", "relevance": "clicked", "features": ["sold"]},
            (*EXPECTED[:2], ["sold"], *EXPECTED[3:5], FEATURES[:, 1:].tolist()),
        ),
        (rows().drop("relevance"), {"labelled": False}, (*EXPECTED[:3], [0] * 4, *EXPECTED[4:])),
        (rows().drop("price", "sold"), {}, (*EXPECTED[:2], [], *EXPECTED[3:5], [[]] * 4)),
        # A ranker may be trained with more features than some file happens to name.
        (LETOR, {"features": ["3", "1"]}, of_letor(["3", "1"], OF_LETOR[:, [2, 0]])),
        (LETOR, {"features": [*"1234"]}, of_letor([*"1234"], np.pad(OF_LETOR, ((0, 0), (0, 1))))),
    ],
    ids=["other names", "without labels", "without features", "some of LETOR", "more than in LETOR"],
)
def test_columns_may_have_other_names_or_be_missing_and_features_may_be_chosen(
    written: Any, options: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / ("x.txt" if written is LETOR else "x.csv")
    write(path, written)
    assert content(read_lists(path, **options)) == expected


def test_packed_files_hold_the_same_lists(tmp_path: Path) -> None:
    write(tmp_path / "x.txt", LETOR)
    with (tmp_path / "x.txt").open("rb") as stream:
        pq.write_table(pa.concat_tables(letor.read_lists(stream, 3, "x")), tmp_path / "x.parquet")
    assert content(read_lists(tmp_path / "x.parquet")) == LETOR_LISTS
    assert read_lists(tmp_path / "x.parquet", features=["2"]).features.tolist() == OF_LETOR[:, 1:2].tolist()


JUDGED = pl.DataFrame({"topic": ["7", "7", "8"], "item": ["x", "y", "8-3"], "relevance": [2, 0, 1]})


@pytest.mark.parametrize("packed", [bytes, b"\xef\xbb\xbf".__add__, gzip.compress], ids=["plain", "BOM", "gzip"])
@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("qrels.txt", b"7 0 x 2\n7 0 y 0\n8 0 8-3 1\n"),
        ("qrels.txt", b"7 0 x 2\n7\t0 y  +0\n8 0 8-3 1\n"),
        ("x.txt", LETOR.encode()),
        ("x.csv", JUDGED.write_csv().encode()),
        ("x.parquet", None),
    ],
    ids=["qrels", "untidy qrels", "letor", "csv", "parquet"],
)
def test_qrels_are_read_from_any_file_that_has_judgements(
    name: str, written: bytes | None, packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """With a byte order mark, as Windows' programs write it, and packed whatever the name says."""
    write(tmp_path / name, JUDGED if written is None else packed(written))
    qrels = read_qrels(tmp_path / name)
    assert (list(qrels.topics), list(qrels.items)) == (["7", "8"], ["x", "y", "8-3"])
    assert (qrels.relevance.tolist(), qrels.offsets.tolist()) == ([2, 0, 1], [0, 2, 3])


@pytest.mark.parametrize("number", ["1", "-1.5", "+2", ".5", "3.", "1e-3", "-2E+4"])
def test_usual_numbers_are_read_line_by_line_as_well(number: str, tmp_path: Path) -> None:
    # The tab between the lines' fields makes them irregular.
    write(tmp_path / "run.txt", f"a Q0 d1 1 {number} x\na\tQ0  d2 2 0.0 x\n")
    assert read_run(tmp_path / "run.txt").scores[0] == float(number)
