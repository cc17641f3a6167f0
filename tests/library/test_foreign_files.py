"""Runs and judgements as other tools write and hold them: a table of contents and of what is read, or why it is not."""

import bz2
import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import ir_measures
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.text_files import PACKINGS
from tests.library.conftest import Program
from tests.library.planted_ratings import table_of
from tests.library.refusals import problems, refusals

Table = dict[str, dict[str, float]]

RUN: Table = {"q1": {"a": 1.5, "b": 0.25}, "02": {"c": 500.0}}
TREC = "q1 Q0 a 1 1.5 x\nq1 Q0 b 2 0.25 x\n02 Q0 c 1 500 x\n"
CSV = "qid,docno,score\nq1,a,1.5\nq1,b,0.25\n02,c,500\n"
RANKED: Table = {"q1": {"a": -1, "b": -2}, "02": {"c": -1}}
RANKS = "q1 a 1\nq1 b 2\n02 c 1\n"
JUDGED: Table = {"q1": {"a": 2, "b": 0}, "02": {"c": 1}}
QRELS = "q1 0 a 2\nq1 0 b 0\n02 0 c 1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n02\tc\t1\n"


def lines(*records: Any) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def candidates() -> str:
    """Pyserini's and RankLLM's requests."""
    return lines(
        *(
            {
                "query": {"qid": topic, "text": "how"},
                "candidates": [{"docid": item, "score": score, "doc": {"text": "so"}} for item, score in items.items()],
            }
            for topic, items in RUN.items()
        )
    )


def records(table: Table, topic: str, item: str, value: str) -> list[dict[str, Any]]:
    return [{topic: name, item: one, value: number} for name, items in table.items() for one, number in items.items()]


RUNS: list[tuple[str, str, Any]] = [
    *((what, *row) for what, row in problems("runs of other tools").items()),
    ("a byte order mark", "r.txt", "\ufeff" + TREC),
    ("JSON of records", "r.json", json.dumps(records(RUN, "qid", "docid", "score"))),
    ("JSON of a record with lists", "r.json", '[{"qid": "q1", "docids": ["a", "b"], "scores": [1.5, 0.25]}, '
     '{"qid": "02", "docids": ["c"], "scores": [500]}]'),
    ("JSON lines of dictionaries", "r.jsonl", lines(*({topic: items} for topic, items in RUN.items()))),
    ("JSON lines of records", "r.jsonl", lines(*records(RUN, "query_id", "docno", "score"))),
    ("JSON lines by the name .json", "r.json", lines(*records(RUN, "query_id", "docno", "score"))),
    ("JSON lines of Pyserini", "r.jsonl", candidates()),
    ("parquet", "r.parquet", pa.Table.from_pylist(records(RUN, "qid", "docno", "score"))),
    ("parquet with lists", "r.parquet", pa.table({"topic": ["q1", "e", "02"], "items": [["a", "b"], [], ["c"]],
                                                 "scores": [[1.5, 0.25], [], [500.0]]})),
    *((f"{kind} packed {ending}", f"{name}{ending}", packing.packed(text.encode()))
      for ending, packing in PACKINGS.items()
      for kind, name, text in (("TREC", "r.txt", TREC), ("a table", "r.csv", CSV),
                               ("JSON", "r.jsonl", lines(RUN)))),
    ("packed under another name", "r.txt", bz2.compress(TREC.encode())),
]  # fmt: skip
QRELS_FILES: list[tuple[str, str, Any]] = [
    *((what, *row) for what, row in problems("judgements of other tools").items()),
    ("spaces, Windows and a mark", "q.txt", "\ufeff" + QRELS.replace(" ", "  ").replace("\n", "\r\n")),
    ("a table after a mark", "q.csv", "\ufeff" + BEIR.replace("\t", ",")),
    ("a packed table under another name", "q.csv", gzip.compress(BEIR.replace("\t", ",").encode())),
    ("BEIR's, packed", "qrels.tsv.bz2", bz2.compress(BEIR.encode())),
    ("JSON lines of records", "q.jsonl", lines(*records(JUDGED, "qid", "docid", "rel"))),
    ("JSON of a line a topic", "q.ndjson.gz", gzip.compress(lines(*({t: i} for t, i in JUDGED.items())).encode())),
    ("parquet with lists", "q.parquet", pa.table({"query_id": ["q1", "02"], "items": [["a", "b"], ["c"]],
                                                 "labels": [[2, 0], [1]]})),
]  # fmt: skip


def written(path: Path, content: Any) -> Path:
    if isinstance(content, pa.Table):
        pq.write_table(content, path)
    else:
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" and content[:1] != b"\x1f" else content)
    return path


@pytest.mark.parametrize(("name", "content"), [row[1:] for row in RUNS], ids=[row[0] for row in RUNS])
def test_runs_as_others_write_them(name: str, content: Any, tmp_path: Path) -> None:
    assert table_of(rb.read_run(written(tmp_path / name, content))) == RUN


@pytest.mark.parametrize(("name", "text", "format"), problems("ranks of other tools").values())
def test_ranks_are_read_where_it_is_said_that_they_are(name: str, text: str, format: Any, tmp_path: Path) -> None:
    assert table_of(rb.read_run(written(tmp_path / name, text), format=format)) == RANKED


@pytest.mark.parametrize(("name", "content"), [row[1:] for row in QRELS_FILES], ids=[row[0] for row in QRELS_FILES])
def test_judgements_as_others_write_them(name: str, content: Any, tmp_path: Path) -> None:
    found = table_of(rb.read_qrels(written(tmp_path / name, content)))
    assert (found, list(found)) == (JUDGED, list(JUDGED))
    (tmp_path / "qrels").mkdir()
    (tmp_path / name).rename(tmp_path / "qrels" / name)
    assert table_of(rb.read_qrels(tmp_path)) == table_of(rb.read_qrels(tmp_path / "qrels")) == JUDGED


UNJUDGED = {"q": {"a": -1, "b": 2, "c": 0}}


@pytest.mark.parametrize("name", ["q.txt", "q.csv", "q.tsv.zst", "q.parquet", "q.json", "q.jsonl.bz2"])
def test_unjudged_items_stay_unjudged_in_every_format(name: str, tmp_path: Path) -> None:
    """Their value is that of any negative whole number."""
    qrels = rb.read_qrels({"q": {"a": -2, "b": 2, "c": 0}})
    assert (table_of(qrels), qrels.relevance.tolist()) == (UNJUDGED, [0, 2, 0])
    rb.write_qrels(tmp_path / name, qrels)
    back = rb.read_qrels(tmp_path / name)
    assert table_of(back) == UNJUDGED
    bpref = rb.evaluate_run({"q": {"a": 3, "b": 2, "c": 1}}, back, "Bpref").means()
    assert bpref == {"Bpref": 1.0}


@pytest.mark.parametrize("ending", PACKINGS)
@pytest.mark.parametrize("name", ["r.txt", "r.csv", "r.json", "r.jsonl"])
def test_what_a_name_says_is_packed_is_packed(name: str, ending: str, tmp_path: Path) -> None:
    rb.write_run(tmp_path / f"{name}{ending}", rb.read_run(RUN))
    assert PACKINGS[ending].start.match((tmp_path / f"{name}{ending}").read_bytes())
    assert table_of(rb.read_run(tmp_path / f"{name}{ending}")) == RUN


def test_fractions_are_grades(tmp_path: Path) -> None:
    assert table_of(rb.read_qrels(written(tmp_path / "q", "q 0 a 0.5\nq 0 b -2\n"))) == {"q": {"a": 0.5, "b": -1}}


@pytest.mark.parametrize(
    ("read", "name", "text", "message"),
    [
        *problems("two meanings of a file"),
        (lambda path: rb.read_run(path, format="msmarco"), "r.csv", "1,2,3\n", "found 'msmarco', but only text"),
        (lambda path: rb.read_run(path, format="beir"), "r.txt", RANKS, "found 'beir', expected msmarco or trec"),
        (lambda path: rb.read_run(path, format="topic item"), "r.txt", RANKS, "topic, item, and score or rank"),
        (lambda path: rb.write_run(path, rb.read_run(RUN)), "r.parquet.zst", "", "parquet is already compressed"),
    ],
)
def test_two_meanings_are_refused_with_both(read: Any, name: str, text: str, message: str, tmp_path: Path) -> None:
    read = getattr(rb, read) if isinstance(read, str) else read
    with pytest.raises((DataError, ValueError), match=message):
        read(written(tmp_path / name, text))


def test_a_folder_of_several_splits_names_them(tmp_path: Path) -> None:
    for part in ("dev", "test"):
        written(tmp_path / f"{part}.tsv", BEIR)
    with pytest.raises(DataError, match=r"found a folder of 2 files \(dev.tsv, test.tsv\), expected a file"):
        rb.read_qrels(tmp_path)


# What is held in memory.

ROWS = records(RUN, "query_id", "doc_id", "score")
GRADES = records(JUDGED, "query_id", "doc_id", "relevance")
LISTS = {"user": ["q1", "02"], "items": [["a", "b"], ["c"]], "scores": [[1.5, 0.25], [500.0]]}


NAMES = {"q_id": "doc_id", "qid": "docno", "user": "item", "User_Id": "itemId", "query-id": "pid"}


def renamed(topic: str, item: str) -> pd.DataFrame:
    return pd.DataFrame(ROWS).rename(columns={"query_id": topic, "doc_id": item})


HELD: dict[str, Callable[[], Any]] = {
    "dictionaries": lambda: RUN,
    "scored docs": lambda: [ir_measures.ScoredDoc(*row.values()) for row in ROWS],
    "a generator of scored docs": lambda: (ir_measures.ScoredDoc(*row.values()) for row in ROWS),
    "records": lambda: ROWS,
    "columns": lambda: pd.DataFrame(ROWS).to_dict("list"),
    **{
        f"pandas with {topic}": lambda topic=topic, item=item: renamed(topic, item)
        for topic, item in NAMES.items()
    },
    "pandas with an index": lambda: pd.DataFrame(ROWS).set_index(["query_id", "doc_id"]),
    "pandas with other rows' numbers": lambda: pd.DataFrame(ROWS, index=[5, 7, 3]),
    "pandas of Arrow": lambda: pd.DataFrame(ROWS).convert_dtypes(dtype_backend="pyarrow"),
    "pandas with categories": lambda: pd.DataFrame(ROWS).astype({"query_id": "category"}),
    "pandas with lists": lambda: pd.DataFrame(LISTS),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars, lazily": lambda: pl.DataFrame(ROWS).lazy(),
    "polars with lists": lambda: pl.DataFrame(LISTS),
    "Arrow": lambda: pa.Table.from_pylist(ROWS),
    "Arrow with lists": lambda: pa.table(LISTS),
    "Hugging Face": lambda: datasets.Dataset.from_list(ROWS),
    "Hugging Face, chosen rows": lambda: datasets.Dataset.from_list([*ROWS, *ROWS]).select([3, 1, 5]),
    "Hugging Face, in a stream": lambda: datasets.Dataset.from_list(ROWS).to_iterable_dataset(),
    "Hugging Face with lists": lambda: datasets.Dataset.from_dict(LISTS),
}  # fmt: skip
HELD_QRELS: dict[str, Callable[[], Any]] = {
    "dictionaries": lambda: JUDGED,
    "qrels of ir_measures": lambda: [ir_measures.Qrel(*row.values()) for row in GRADES],
    "a frame of ir_measures": lambda: pd.DataFrame([ir_measures.Qrel(*row.values()) for row in GRADES]),
    "a frame of ranx": lambda: pd.DataFrame(records(JUDGED, "q_id", "doc_id", "score")),
    "a frame of PyTerrier": lambda: pd.DataFrame(records(JUDGED, "qid", "docno", "label")),
    "polars": lambda: pl.DataFrame(GRADES),
    "Hugging Face, as BEIR": lambda: datasets.Dataset.from_list(records(JUDGED, "query-id", "corpus-id", "score")),
}


@pytest.mark.parametrize("way", HELD)
def test_runs_as_others_hold_them(way: str) -> None:
    assert table_of(rb.read_run(HELD[way]())) == RUN
    assert rb.evaluate_run(HELD[way](), JUDGED, "RR").means() == {"RR": 1.0}


@pytest.mark.parametrize("way", HELD_QRELS)
def test_judgements_as_others_hold_them(way: str) -> None:
    qrels = rb.read_qrels(HELD_QRELS[way]())
    assert table_of(qrels) == JUDGED
    assert rb.evaluate_run({"q1": {"b": 2, "a": 1}}, HELD_QRELS[way](), "AP", missing="skip").means() == {"AP": 0.5}


def test_objects_of_ranx_are_read(ranx: Any) -> None:
    assert table_of(rb.read_run(ranx.Run(RUN))) == RUN
    grades = {topic: {item: int(value) for item, value in items.items()} for topic, items in JUDGED.items()}
    assert table_of(rb.read_qrels(ranx.Qrels(grades))) == JUDGED
    assert rb.evaluate_run(ranx.Run(RUN), ranx.Qrels(grades), "RR").means() == {"RR": 1.0}


def test_judgements_that_can_be_read_once_decide_the_meaning_of_a_name() -> None:
    with pytest.warns(UserWarning, match="evaluated as nDCG@10"):
        found = rb.evaluate_run(RUN, iter(row for row in GRADES if row["relevance"] < 2), "ndcg@10", missing="skip")
    assert found.means()["nDCG@10"] == 1


def test_lists_are_read_by_other_names_as_well(tmp_path: Path) -> None:
    rows = {"qid": [1, 1, 2], "docno": list("abc"), "label": [0, 1, 2], "price": [0.5, 1.5, 2.5]}
    pl.DataFrame(rows).write_csv(tmp_path / "lists.csv")
    for source in (pl.DataFrame(rows), pd.DataFrame(rows), tmp_path / "lists.csv"):
        lists = rb.read_lists(source)
        assert (lists.topics, list(lists.items), list(lists.feature_names)) == (["1", "2"], list("abc"), ["price"])
        assert lists.relevance.tolist() == [0, 1, 2]
    assert rb.pack_lists(tmp_path / "lists.csv", tmp_path / "lists.arrow").n_features == 1
    by_topic = pl.DataFrame(rows).group_by("qid", maintain_order=True).all()
    by_topic.write_parquet(tmp_path / "lists.parquet")
    assert rb.read_lists(by_topic).features.tolist() == [[0.5], [1.5], [2.5]]
    assert rb.pack_lists(tmp_path / "lists.parquet", tmp_path / "lists.arrow").n_items == 3
    # A chosen feature is no name of an item.
    assert rb.read_lists(pd.DataFrame(rows | {"docno": [1, 1, 1]}), features=["docno"]).feature_names == ["docno"]


test_what_is_held_with_two_meanings_is_refused = refusals(
    [
        (lambda: rb.read_run(datasets.DatasetDict({"dev": datasets.Dataset.from_list(ROWS)})), "of the splits 'dev'"),
        (lambda: rb.read_run(pd.DataFrame(ROWS).assign(user_id=1)), "columns 'query_id' and 'user_id' may both be"),
        (lambda: rb.read_qrels(pd.DataFrame(ROWS)), "row 0: column 'score' holds 1.5, expected whole numbers"),
        (lambda: rb.read_run({"q": ["a", "b"]}), "^source: found a dictionary without a column of topics, exp"),
        (lambda: rb.read_qrels({"q": {"a", "b"}}), "^source: found a dictionary without a column of topics"),
        (lambda: rb.read_run([("q", "a", 0.5)]), "^source: found list, expected a path or a data frame"),
        (lambda: rb.read_qrels({"q": {"a": -0.5}}), "found relevance -0.5, expected grades from 0"),
    ]
)  # fmt: skip


# The command line.

FILES = {"r.txt": TREC, "q.txt": QRELS, "r.csv": CSV, "q.tsv": BEIR,
         "r.json": json.dumps(RUN), "q.jsonl": lines(JUDGED),
         "q.letor": "2 qid:1 1:1 #docid = a\n0 qid:1 1:2 #docid = b\n",
         "r1.tsv": "1\tQ0\ta\t1\t0.5\tx\n"}  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("run", "qrels"),
    [("r.txt", "q.txt"), ("r.csv", "q.txt"), ("r.json", "q.tsv"), ("r.txt", "q.jsonl"), ("r1.tsv", "q.letor")],
)
@pytest.mark.parametrize("piped", [0, 1])
def test_one_file_may_be_standard_input(
    run: str, qrels: str, piped: int, packed: bool, tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [written(tmp_path / name, FILES[name]) for name in (run, qrels)]
    expected = program(f"evaluate {paths[0]} {paths[1]} -m RR")
    content = paths[piped].read_bytes()
    stream = io.TextIOWrapper(io.BytesIO(bz2.compress(content) if packed else content))
    monkeypatch.setattr(sys, "stdin", stream)
    names = [str(path) for path in paths]
    names[piped] = "-"
    assert program(f"evaluate {' '.join(names)} -m RR") == expected


def test_standard_input_is_named_and_read_once(
    tmp_path: Path, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    qrels, run = written(tmp_path / "q", QRELS), written(tmp_path / "r", RANKS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"q1 Q0 a 1 high x\n")))
    assert "standard input, line 1: found score 'high'" in program(f"evaluate - {qrels} -m RR", status=2)
    assert "-: found twice among the files to read" in program("evaluate - - -m RR", status=2)
    assert "1.0000       2" in program(f"evaluate {run} {qrels} -m RR --format msmarco")
    assert "by format='msmarco'" in program(f"evaluate {run} {qrels} -m RR", status=2)
    assert "RR" in program(f"compare {run} {run} --qrels {qrels} -m RR --format msmarco")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text("query\tdoc\tscore\nq1\ta b\t2\nq1\ta\t1\n"))
    writer.start()
    assert "0.5000       1" in program(f"evaluate {pipe} {qrels} -m RR --missing skip")
    writer.join()
