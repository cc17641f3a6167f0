"""Runs and judgements as other tools write and hold them: a table of contents and of what is read, or why it is not."""

import bz2
import gzip
import importlib
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
from tests.library.refusals import refusals

Table = dict[str, dict[str, float]]

RUN: Table = {"q1": {"a": 1.5, "b": 0.25}, "02": {"c": 500.0}}
TREC = "q1 Q0 a 1 1.5 x\nq1 Q0 b 2 0.25 x\n02 Q0 c 1 500 x\n"
CSV = "qid,docno,score\nq1,a,1.5\nq1,b,0.25\n02,c,500\n"
RANKED: Table = {"q1": {"a": -1, "b": -2}, "02": {"c": -1}}
RANKS = "q1 a 1\nq1 b 2\n02 c 1\n"
JUDGED: Table = {"q1": {"a": 2, "b": 0}, "02": {"c": 1}}
QRELS = "q1 0 a 2\nq1 0 b 0\n02 0 c 1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t0\n02\tc\t1\n"


def table_of(lists: Any) -> Table:
    values = (lists.scores if isinstance(lists, rb.Run) else lists.marked()).tolist()
    pairs = list(zip(lists.items, values, strict=True))
    limits = zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
    return {topic: dict(pairs[start:stop]) for topic, (start, stop) in zip(lists.topics, limits, strict=True)}


def of_ranx(kind: str, table: Table | dict[str, dict[str, int]]) -> Any:
    """Return an object of ranx, whose functions take half a minute to compile; uncompiled ones do as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", True)
        return getattr(importlib.import_module("ranx"), kind)(table)


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
    ("tabs", "r.txt", TREC.replace(" ", "\t")),
    ("several spaces", "r.txt", TREC.replace(" ", "   ")),
    ("tabs and spaces", "r.txt", TREC.replace(" Q0 ", "\t Q0 \t")),
    ("the ends of lines of Windows", "r.txt", TREC.replace("\n", "\r\n")),
    ("no last end of line", "r.txt", TREC[:-1]),
    ("a byte order mark", "r.txt", "\ufeff" + TREC),
    ("comments", "r.txt", f"# made by a tool\n#q9 q9\n{TREC}  # 1 2 3 4 5\n"),
    ("a comment of as many words", "r.txt", f"# as a comment may be\n{TREC}"),
    ("blank lines", "r.txt", f"\n{TREC}\n\n"),
    ("exponents", "r.txt", TREC.replace("500", "5E+2").replace("0.25", "2.5e-1").replace("1.5", "+1.5")),
    ("no tag", "r.txt", TREC.replace(" x", "")),
    ("no tag, 0 for Q0", "r.txt", TREC.replace(" x", "").replace("Q0", "0")),
    ("another name", "run.bm25.trec_eval", TREC),
    ("a .tsv without names", "r.tsv", TREC.replace(" ", "\t")),
    ("three columns with fractions", "r.txt", "q1 a 1.5\nq1 b 0.25\n02 c 500\n"),
    ("three columns with names", "r.txt", "qid docno score\nq1 a 1.5\nq1 b 0.25\n02 c 500\n"),
    ("names in another order", "r.txt", "# names\nScore\tquery_id doc_id\n1.5 q1 a\n.25 q1 b\n5e2 02 c\n"),
    ("names of ir_measures", "r.csv", "query_id,doc_id,score\nq1,a,1.5\nq1,b,0.25\n02,c,500\n"),
    ("names of PyTerrier", "r.csv", "qid,docno,rank,score,query\nq1,a,0,1.5,x\nq1,b,1,0.25,x\n02,c,0,500,y\n"),
    ("names of ranx", "r.csv", "q_id,doc_id,score\nq1,a,1.5\nq1,b,0.25\n02,c,500\n"),
    ("names of recommenders", "r.csv", "userID,itemID,prediction\nq1,a,1.5\nq1,b,0.25\n02,c,500\n"),
    ("names in capitals", "r.tsv", "Topic\tItem\tScore\nq1\ta\t1.5\nq1\tb\t0.25\n02\tc\t500\n"),
    ("JSON of dictionaries", "r.json", json.dumps(RUN)),
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

ORDERED: list[tuple[str, str, str, str | None]] = [
    ("MS MARCO's ranks", "r.tsv", RANKS.replace(" ", "\t"), "msmarco"),
    ("MS MARCO's ranks, packed", "r.txt.gz", RANKS, "msmarco"),
    ("ranks with names", "r.tsv", "qid\tpid\trank\n" + RANKS.replace(" ", "\t"), None),
    ("ranks with names in text", "r.txt", "qid pid rank\n" + RANKS, None),
    ("ranks in a table", "r.csv", "query,doc,rank\n" + RANKS.replace(" ", ","), None),
    ("four columns", "r.txt", RANKS.replace("\n", " tag\n"), "topic item rank tag"),
    ("names of other tools", "r.txt", RANKS, "qid pid rank"),
]

QRELS_FILES: list[tuple[str, str, Any]] = [
    ("tabs", "q.txt", QRELS.replace(" ", "\t")),
    ("spaces, Windows and a mark", "q.txt", "\ufeff" + QRELS.replace(" ", "  ").replace("\n", "\r\n")),
    ("tabs and spaces", "q.txt", " q1  0 a   2 \r\n\r\nq1 0\tb +0\r\n02 0 c 1"),
    ("topics in turn", "q.txt", "q1 0 a 2\n02 0 c 1\nq1 0 b 0\n"),
    ("comments", "q.txt", f"# qrels\n#x\n{QRELS}"),
    ("whole numbers with a point", "q.txt", QRELS.replace(" 2\n", " 2.0\n").replace(" 1\n", " 1e0\n")),
    ("MS MARCO's .tsv", "qrels.dev.small.tsv", QRELS.replace(" ", "\t")),
    ("a .tsv with spaces", "q.tsv", QRELS),
    ("three columns", "q.txt", QRELS.replace(" 0 ", " ")),
    ("three columns in a .tsv", "q.tsv", QRELS.replace(" 0 ", " ").replace(" ", "\t")),
    ("BEIR's", "qrels.tsv", BEIR),
    ("BEIR's under another name", "qrels.txt", BEIR),
    ("a table after a mark", "q.csv", "\ufeff" + BEIR.replace("\t", ",")),
    ("a packed table under another name", "q.csv", gzip.compress(BEIR.replace("\t", ",").encode())),
    ("BEIR's, packed", "qrels.tsv.bz2", bz2.compress(BEIR.encode())),
    ("names of ir_measures", "q.csv", "query_id,doc_id,relevance,iteration\nq1,a,2,0\nq1,b,0,0\n02,c,1,0\n"),
    ("names of ranx", "q.csv", "q_id,doc_id,score\nq1,a,2\nq1,b,0\n02,c,1\n"),
    ("labels", "q.csv", "qid,query,docno,label\nq1,x,a,2\nq1,x,b,0\n02,y,c,1\n"),
    ("JSON", "q.json", json.dumps(JUDGED)),
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


@pytest.mark.parametrize(("name", "text", "format"), [row[1:] for row in ORDERED], ids=[row[0] for row in ORDERED])
def test_ranks_are_read_where_it_is_said_that_they_are(
    name: str, text: str, format: str | None, tmp_path: Path
) -> None:
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


SAY = r": found three columns, .* ranks or scores: .* format='msmarco' or format='topic item score' .*--format"
REFUSED: list[tuple[Callable[[Path], Any], str, str, str]] = [
    (rb.read_run, "r.txt", RANKS, SAY),
    (rb.read_run, "r.tsv", RANKS.replace(" ", "\t"), SAY),
    (rb.read_run, "r.txt", "q a 1 0.5 7\n", ": found five columns, the second not Q0: name all of them, as in format="),
    (rb.read_run, "r.txt", "q a 1 0.5 bm25\n", ", line 1: found score 'bm25', .* in lines of `topic Q0 item rank sco"),
    (rb.read_run, "r.txt", "q a 1 0.5\n", ", line 1: found 4 fields, .*; name other columns, as in format="),
    (rb.read_run, "r.txt", f"{TREC}#q1 Q0 z 9 0 x\n", ": found rows of topics '#q1' and 'q1': if the first ones are"),
    (rb.read_run, "r.txt", TREC.replace("500", "inf"), ", line 3: found score 'inf', expected a finite number"),
    (rb.read_run, "r.csv", "q,a,1\nq,b,2\n", ": there is no column 'topic'; .* the first line must name the columns"),
    (rb.read_run, "r.csv", "qid,user_id,doc,score\n1,2,a,1\n", "columns 'qid' and 'user_id' may both be the topic"),
    (rb.read_run, "r.csv", "qid,doc_id,docno,score\n1,2,a,1\n", "columns 'doc_id' and 'docno' may both be the item"),
    (rb.read_run, "r.csv", "qid,doc,pred,prediction\n1,2,1,1\n", "'pred' and 'prediction' may both be the score; keep"),
    (rb.read_run, "r.csv", "qid,doc,rank\n1,2,1.5\n", r": found rank 1\.5, expected whole numbers from 1"),
    (rb.read_run, "r.jsonl", '{"q": {"a": 1}}\n{"q": {"b": 1}}\n', "'q' occurs more than once in one dictionary"),
    (rb.read_run, "r.jsonl", '{"qid": 1, "docid": 2, "score": 1}\n{"qid": 1\n', "line 2: not readable as JSON"),
    (rb.read_run, "r.jsonl", '{"qid": 1, "docid": 2, "score": NaN}\n', "found NaN, expected finite numbers"),
    (rb.read_run, "r.json", '[{"qid": 1, "docids": [2, 3], "scores": [1]}]', "'docids' holds 2 entries, column 'scor"),
    (rb.read_run, "r.json", "[]", "found other JSON, expected {topic: {item: number}}, or records"),
    (rb.read_qrels, "q.tsv", BEIR.replace("\t2", "\t2.5"), ", line 2: column 'score' holds 2.5, expected whole"),
    (rb.read_qrels, "q.txt", "q 0 1\nq 0 2\n", ": found three columns, of which the second is 0 throughout"),
    (rb.read_qrels, "q.txt", "q 0 a 9007199254740993\n", r", line 1: found relevance '9007199254740993', .* 2\^53"),
    (rb.read_qrels, "q.csv", "qid,docno,rel\n1,a,-0.5\n", ", line 2: column 'rel' holds -0.5, expected grades from 0"),
    (rb.read_qrels, "q.csv", "qid,docno,rel,label\n1,a,1,1\n", "'rel' and 'label' may both be the relevance; name one"),
    (lambda path: rb.read_run(path, format="msmarco"), "r.csv", "1,2,3\n", "format: found 'msmarco', but only text"),
    (lambda path: rb.read_run(path, format="beir"), "r.txt", RANKS, "format: found 'beir', expected msmarco or trec"),
    (lambda path: rb.read_run(path, format="topic item"), "r.txt", RANKS, "among them topic, item, and score or rank"),
    (lambda path: rb.write_run(path, rb.read_run(RUN)), "r.parquet.zst", "", "parquet is already compressed"),
]  # fmt: skip


@pytest.mark.parametrize(("read", "name", "text", "message"), REFUSED)
def test_two_meanings_are_refused_with_both(read: Any, name: str, text: str, message: str, tmp_path: Path) -> None:
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
    "ranx": lambda: of_ranx("Run", RUN),
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
    "ranx": lambda: of_ranx("Qrels", {topic: {i: int(v) for i, v in items.items()} for topic, items in JUDGED.items()}),
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
