"""A stranger's model, run or table: refused by a short message that says why, or read in a time that fits its size."""

import gzip
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankbound as rb
from rankbound import cli
from rankbound.errors import DataError
from rankbound.io import text_files
from rankbound.io.judged import JudgedLists, repeated

ROWS = {"topic": ["a", "a", "b", "b"], "item": ["1", "2", "1", "2"], "relevance": [0, 1, 1, 0]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pl.DataFrame(ROWS | {"f1": [0.1, 0.2, 0.3, 0.4]}).write_csv(tmp_path / "lists.csv")
    return tmp_path / "lists.csv"


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The message of a command that must fail."""
    assert cli.main([str(argument) for argument in arguments]) == 2
    told = capsys.readouterr().err
    assert len(told) < 3000
    assert told.replace("\n", "").isprintable()
    return told


@pytest.mark.parametrize("name", ["relevance", "topic", "item"])
def test_a_column_with_another_role_is_no_feature(
    name: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(capsys, "train", table, "--features", f"f1,{name}", "--out", tmp_path / "m.safetensors")
    assert f"lists.csv: the feature {name!r} is the column of the {name}, which a ranker must not see" in told
    assert not (tmp_path / "m.safetensors").exists()


def test_the_label_under_another_name_is_no_feature_either(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--relevance", "f1", "--features", "f1", "--out", tmp_path / "m.safetensors")
    assert "the feature 'f1' is the column of the relevance" in refused(capsys, "train", table, *flags)


def ranker(names: list[str], weight: float) -> rb.Ranker:
    lists = JudgedLists(
        topics=["a", "b"],
        items=ROWS["item"],
        relevance=np.array(ROWS["relevance"]),
        offsets=[0, 2, 4],
        features=np.ones((4, len(names)), np.float32),
        feature_names=names,
    )
    trained = rb.train_ranker(lists, scale="none", epochs=1, batch_size=2, validation_share=0)
    for weights in trained.model.parameters():
        weights.data.fill_(weight)
    return trained


def test_a_model_that_reads_the_label_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranker(["f1", "relevance"], 1.0).save(tmp_path / "m.safetensors")
    told = refused(capsys, "score", tmp_path / "m.safetensors", table, "--out", tmp_path / "run.txt")
    assert "the feature 'relevance' is the column of the relevance" in told


def test_scores_that_are_not_finite_are_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ranker(["f1", "f2"], 3e38).save(tmp_path / "m.safetensors")
    pl.DataFrame(ROWS | {"f1": [5.0, 0.1, 0.3, 0.4], "f2": [0.1] * 4}).write_csv(table)
    for out in ("run.txt", "run.csv"):
        told = refused(capsys, "score", tmp_path / "m.safetensors", table, "--out", tmp_path / out)
        assert "scores: found inf at item 0, expected finite numbers" in told
        assert not (tmp_path / out).exists()


@pytest.mark.parametrize("names", [["f1", "f1"], ["1", "1"]])
def test_a_feature_is_chosen_once(names: list[str], table: Path, tmp_path: Path) -> None:
    (tmp_path / "lists.txt").write_text("0 qid:1 1:0.5 2:1\n1 qid:1 1:0.25 2:1\n")
    with pytest.raises(DataError, match="twice, expected each once"):
        rb.read_lists(table if names[0] == "f1" else tmp_path / "lists.txt", features=names)


@pytest.mark.parametrize("number", ["1", "-1.5", "+2", ".5", "3.", "1e-3", "-2E+4"])
def test_usual_numbers_are_read_line_by_line_as_well(number: str, tmp_path: Path) -> None:
    # The tab between the lines' fields makes them irregular.
    (tmp_path / "run.txt").write_text(f"a Q0 d1 1 {number} x\na\tQ0  d2 2 0.0 x\n")
    assert rb.read_run(tmp_path / "run.txt").scores[0] == float(number)


def test_names_of_topics_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x1b]0;x\x07" + 5000 * "y"
    (tmp_path / "run.txt").write_text(f"{name} Q0 d1 1 1.0 x\n")
    (tmp_path / "qrels.txt").write_text(f"{name} 0 d1 1\n")
    files = (str(tmp_path / "run.txt"), str(tmp_path / "qrels.txt"))
    assert cli.main(["evaluate", *files, "-m", "AP", "--per-topic"]) == 0
    told = capsys.readouterr().out
    assert told.replace("\n", "").isprintable()
    assert r"a\x1b]0;x\x07yyy" in told
    assert len(told) < 2000


@pytest.mark.parametrize("form", ["", "--markdown", "--latex", "--json"])
def test_names_in_a_comparison_cannot_steer_a_terminal(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for place, file in enumerate(files):
        scores = [0.1 * place * (topic % 2) + 0.05 * topic for topic in range(8)]
        pl.DataFrame({"topic": list("abcdefgh"), "AP\x1b[31m\nmore": scores}).write_csv(file)
    assert cli.main(["compare", *map(str, files), *filter(None, [form])]) == 0
    told = capsys.readouterr().out
    assert told.replace("\n", "").isprintable()
    assert "31m" in told
    assert not any(line.startswith("more") for line in told.splitlines())


def test_names_of_columns_cannot_steer_a_terminal(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(table).with_columns(pl.lit("word").alias("te\x1b[2Jxt")).write_csv(table)
    assert cli.main(["train", str(table), "--epochs", "1", "--out", str(tmp_path / "m.safetensors")]) == 0
    assert r"left out, as --features does not name them: te\x1b[2Jxt (text)" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["f1", "relevance", "topic"])
def test_a_large_cell_makes_no_large_message(
    place: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = "\x1b[2J" + "z" * 3_000_000
    rows: dict[str, list[Any]] = {**ROWS, "f1": [0.1, 0.2, 0.3, 0.4]}
    rows[place] = [rows[place][0], cell, cell, rows[place][3]]
    rows["item"] = ["1", "1", "1", "1"] if place == "topic" else rows["item"]
    pl.DataFrame({name: list(map(str, column)) for name, column in rows.items()}).write_csv(table)
    with pytest.raises(DataError) as caught:
        rb.read_lists(table)
    assert len(str(caught.value)) < 1000
    refused(capsys, "train", table, "--out", tmp_path / "m.safetensors")


def test_large_tokens_make_no_large_message(tmp_path: Path) -> None:
    for name, line in (("run.txt", "a Q0 d 1 {} x"), ("lists.txt", "1 qid:{} 1:1"), ("more.txt", "1 qid:1 {}:1")):
        (tmp_path / name).write_text(line.format("9" * 3_000_000 + "_") + "\n")
        with pytest.raises(DataError) as caught:
            (rb.read_run if name == "run.txt" else rb.read_lists)(tmp_path / name)
        assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["9" * 5000, "60000000", "\u00b2", "0", "-1", "price"])
def test_a_chosen_feature_of_letor_text_is_an_index_within_limits(name: str, tmp_path: Path) -> None:
    (tmp_path / "lists.txt").write_text("1 qid:1 1:1\n")
    with pytest.raises(DataError, match="those of a LETOR file are numbers from 1 to 65536") as caught:
        rb.read_lists(tmp_path / "lists.txt", features=["1", name])
    assert len(str(caught.value)) < 1000


def test_finding_a_repeated_name_reads_each_once() -> None:
    """A list of names was searched for each of them, which took minutes."""

    class Names(list[str]):
        reads = 0

        def __iter__(self) -> Any:
            Names.reads += 1
            return super().__iter__()

        def __getitem__(self, place: Any) -> Any:
            raise AssertionError("a part of the names was copied")

    assert repeated(Names(["a", "b", "b", "a"])) == "b"
    assert repeated(Names(["a", "b", ""])) is None
    assert Names.reads == 2


def test_a_wide_table_asks_for_its_names_a_fixed_number_of_times(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Polars makes a new list of all names each time."""
    asked = []
    names = pl.DataFrame.columns.fget
    assert names is not None
    monkeypatch.setattr(pl.DataFrame, "columns", property(lambda frame: asked.append(1) or names(frame)))
    counts = []
    for width in (10, 1000):
        asked.clear()
        features = {f"f{place}": [0.5, 1.5, 2.5, 3.5] for place in range(width)}
        pl.DataFrame(ROWS | features).write_csv(tmp_path / "wide.csv")
        assert rb.read_lists(tmp_path / "wide.csv").features.shape == (4, width)
        counts.append(len(asked))
    assert counts[0] == counts[1]


BOMBS = {
    "run.txt": b"a Q0 d1 1 1.0 x\n",
    "lists.txt": b"1 qid:1 1:1\n",
    "lists.csv": b"topic,item,relevance,f\n",
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_fills_the_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "ALWAYS_ALLOWED", 2**20)
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(BOMBS[name] + b" " * 2**26))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"unpacks to more than .* MiB, 100 times its size or more.*gunzip"):
        (rb.read_run if name == "run.txt" else rb.read_lists)(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_gzip_within_the_limits_is_read(tmp_path: Path, table: Path) -> None:
    (tmp_path / "lists.csv.gz").write_bytes(gzip.compress(table.read_bytes()))
    assert rb.read_lists(tmp_path / "lists.csv.gz").features.shape == (4, 1)
    (tmp_path / "lists.txt.gz").write_bytes(gzip.compress(b"1 qid:1 1:1\n"))
    assert rb.read_lists(tmp_path / "lists.txt.gz").features.shape == (1, 1)


def test_a_parquet_file_larger_than_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({"topic": pa.array([1] * 100_000), "relevance": pa.array([1] * 100_000)}), path)
    monkeypatch.setattr("os.sysconf", lambda name: 1024 if name == "SC_PAGE_SIZE" else 100)
    with pytest.raises(DataError, match=r"rows take .* GiB at least"):
        rb.read_lists(path)


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("lists.txt", b"1 qid:1 1:1\n0 qid:1 1:2\n"),
        ("lists.csv", b"topic,item,relevance,f\n1,1-1,1,1\n1,1-2,0,2\n"),
        ("qrels.txt", b"1 0 1-1 1\n1\t0 1-2  +0\n"),
    ],
)
def test_a_byte_order_mark_is_no_text(
    name: str, content: bytes, packed: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """As Windows' programs write it."""
    (tmp_path / name).write_bytes(packed(b"\xef\xbb\xbf" + content))
    found = rb.read_qrels(tmp_path / name)
    assert found.topics == ["1"]
    assert list(found.items) == ["1-1", "1-2"]
    assert found.relevance.tolist() == [1, 0]
