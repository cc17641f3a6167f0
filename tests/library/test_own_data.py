"""One's own files as judged lists: LETOR, CSV, parquet and data frames, and what is said of wrong ones."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankbound.errors import ColumnWarning, DataError
from rankbound.io import letor
from rankbound.io.files import pack_lists, read_lists, read_qrels
from rankbound.io.judged import JudgedLists

# Topic b's rows do not stand together.
ROWS: dict[str, list[Any]] = {
    "topic": ["b", "a", "b", "b"],
    "item": ["x", "x", "y", "z"],
    "relevance": [2, 0, 1, 0],
    "price": [0.5, 1.5, -2.0, 1e-3],
    "sold": [3, 0, 4, 5],
}
LETOR = "2 qid:7 1:0.5 3:2 #docid = x\n0 qid:7 2:-1e-1 #docid = y\n1 qid:8 1:4\n"


def frame(**changes: Any) -> pl.DataFrame:
    return pl.DataFrame({name: changes.get(name, values) for name, values in (ROWS | changes).items()}, strict=False)


def content(lists: JudgedLists) -> tuple[Any, ...]:
    return (
        list(lists.topics),
        list(lists.items),
        lists.relevance.tolist(),
        lists.offsets.tolist(),
        lists.features.tolist(),
        list(lists.feature_names),
    )


EXPECTED = (
    ["b", "a"],
    ["x", "y", "z", "x"],
    [2, 1, 0, 0],
    [0, 3, 4],
    np.array([[0.5, 3], [-2, 4], [1e-3, 5], [1.5, 0]], np.float32).tolist(),
    ["price", "sold"],
)


@pytest.mark.parametrize("name", ["lists.csv", "lists.csv.gz", "lists.tsv", "lists.parquet"])
def test_a_row_per_item_in_any_order(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        frame().write_parquet(path)
    else:
        text = frame().write_csv(separator="\t" if "tsv" in name else ",").encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert content(read_lists(path)) == EXPECTED


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame, pa.table], ids=["polars", "pandas", "arrow"])
def test_data_frames_are_taken_as_they_are(make: Any) -> None:
    assert content(read_lists(make(ROWS))) == EXPECTED


def test_columns_may_have_other_names_and_features_may_be_chosen(tmp_path: Path) -> None:
    frame().rename({"topic": "query", "item": "url", "relevance": "clicked"}).write_csv(tmp_path / "x.csv")
    lists = read_lists(tmp_path / "x.csv", topic="query", item="url", relevance="clicked", features=["sold"])
    assert content(lists)[:4] == EXPECTED[:4]
    assert (lists.features.tolist(), list(lists.feature_names)) == ([[3], [4], [5], [0]], ["sold"])


def test_names_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("topic,item,relevance,f\n007,1e5,1,2\n7,0x1,0,3\n")
    lists = read_lists(tmp_path / "x.csv")
    assert (list(lists.topics), list(lists.items)) == (["007", "7"], ["1e5", "0x1"])


def test_items_without_names_are_called_by_topic_and_line(tmp_path: Path) -> None:
    frame().drop("item").write_csv(tmp_path / "x.csv")
    assert list(read_lists(tmp_path / "x.csv").items) == ["b-2", "b-4", "b-5", "a-3"]


def test_text_is_left_out_and_named(tmp_path: Path) -> None:
    frame(title=["one", "two", "three", None]).write_csv(tmp_path / "x.csv")
    with pytest.warns(ColumnWarning, match=r"x\.csv: columns that are no features unless .*: title \(text\)"):
        lists = read_lists(tmp_path / "x.csv")
    assert (lists.feature_names, lists.left_out) == (["price", "sold"], {"title": "text"})


def test_yes_and_no_are_one_and_zero(tmp_path: Path) -> None:
    frame(sold=[True, False, False, True]).write_csv(tmp_path / "x.csv")
    assert read_lists(tmp_path / "x.csv").features[:, 1].tolist() == [1, 0, 1, 0]


def test_relevance_need_not_be_there_for_scoring(tmp_path: Path) -> None:
    frame().drop("relevance").write_csv(tmp_path / "x.csv")
    assert read_lists(tmp_path / "x.csv", labelled=False).relevance.tolist() == [0, 0, 0, 0]
    with pytest.raises(DataError, match=r"x\.csv: there is no column 'relevance'; it has topic, item, price, sold"):
        read_lists(tmp_path / "x.csv")


def test_fractions_of_relevance_are_kept(tmp_path: Path) -> None:
    frame(relevance=[0.5, 0, 1, 2]).write_csv(tmp_path / "x.csv")
    assert read_lists(tmp_path / "x.csv").relevance.tolist() == [0.5, 1, 2, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": ["weight"]}, r"there is no column 'weight'; it has topic, item, relevance, price, sold"),
        ({"item": "url"}, r"there is no column 'url'"),
        ({"topic": "price"}, r"column 'price' is Float64, expected names \(text or whole numbers\)"),
    ],
)
def test_columns_that_are_not_there_or_are_something_else(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_lists(frame(), **arguments)


def test_a_table_without_numbers_has_no_features(tmp_path: Path) -> None:
    frame().select("topic", "item", "relevance").write_csv(tmp_path / "x.csv")
    lists = read_lists(tmp_path / "x.csv")
    assert content(lists)[:4] == EXPECTED[:4]
    assert lists.features.shape == (4, 0)
    assert lists.feature_names == []
    with pytest.raises(DataError, match=r"x\.csv: there are no features in it"):
        pack_lists(tmp_path / "x.csv", tmp_path / "x.arrow")


def test_what_is_neither_path_nor_frame() -> None:
    with pytest.raises(DataError, match=r"^source: found int, expected a path or a data frame"):
        read_lists(3)


# LETOR and the workflow's own files


@pytest.mark.parametrize("name", ["lists.txt", "lists.letor", "lists.txt.gz"])
def test_letor_files(tmp_path: Path, name: str) -> None:
    text = LETOR.encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    assert content(read_lists(tmp_path / name)) == (
        ["7", "8"],
        ["x", "y", "8-3"],
        [2, 0, 1],
        [0, 2, 3],
        np.array([[0.5, 0, 2], [0, -0.1, 0], [4, 0, 0]], np.float32).tolist(),
        ["1", "2", "3"],
    )


def test_letor_files_in_many_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor.read_lists, "__defaults__", (64, *letor.read_lists.__defaults__[1:]))
    lines = [f"{row % 3} qid:{row // 5} 1:{row} 2:{row / 8}\n" for row in range(200)]
    (tmp_path / "x.txt").write_text("".join(lines))
    lists = read_lists(tmp_path / "x.txt")
    assert lists.offsets.tolist() == list(range(0, 201, 5))
    assert lists.features[:, 0].tolist() == list(range(200))
    assert lists.relevance.tolist() == [row % 3 for row in range(200)]


def test_letor_features_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(LETOR)
    lists = read_lists(tmp_path / "x.txt", features=["3", "1"])
    assert lists.features.tolist() == [[2, 0.5], [0, 0], [0, 4]]
    # A ranker that was trained with more features than some file happens to name.
    assert read_lists(tmp_path / "x.txt", features=["1", "2", "3", "4"]).features[:, 3].tolist() == [0, 0, 0]
    with pytest.raises(DataError, match="there is no feature 'price'; those of a LETOR file are numbers from 1"):
        read_lists(tmp_path / "x.txt", features=["price"])


def test_packed_files_hold_the_same_lists(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(LETOR)
    with (tmp_path / "x.txt").open("rb") as stream:
        tables = list(letor.read_lists(stream, 3, "x"))
    pq.write_table(pa.concat_tables(tables), tmp_path / "x.parquet")
    assert content(read_lists(tmp_path / "x.parquet")) == content(read_lists(tmp_path / "x.txt"))
    assert read_lists(tmp_path / "x.parquet", features=["2"]).features.tolist() == [[0], [np.float32(-0.1)], [0]]


# Judgements alone


@pytest.mark.parametrize("name", ["qrels.txt", "x.txt", "x.csv", "x.parquet"])
def test_qrels_are_read_from_any_file_that_has_judgements(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = pl.DataFrame({"topic": ["7", "7", "8"], "item": ["x", "y", "8-3"], "relevance": [2, 0, 1]})
    if name == "qrels.txt":
        path.write_text("7 0 x 2\n7 0 y 0\n8 0 8-3 1\n")
    elif name == "x.txt":
        path.write_text(LETOR)
    elif name == "x.csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)
    qrels = read_qrels(path)
    assert (list(qrels.topics), list(qrels.items)) == (["7", "8"], ["x", "y", "8-3"])
    assert (qrels.relevance.tolist(), qrels.offsets.tolist()) == ([2, 0, 1], [0, 2, 3])


def test_features_must_fit_the_items() -> None:
    with pytest.raises(ValueError, match=r"^features: found shape \(1, 2\), expected \(2, 2\)"):
        JudgedLists(
            topics=["a"],
            items=["x", "y"],
            relevance=[0, 1],
            offsets=[0, 2],
            features=np.zeros((1, 2), np.float32),
            feature_names=["f", "g"],
        )


def test_two_columns_of_one_name_in_a_data_frame_are_refused() -> None:
    frame = pd.DataFrame([["q", 1, 0.5, 0.7]], columns=["topic", "relevance", "f1", "f1"])
    with pytest.raises(DataError, match="unique"):
        read_lists(frame)
