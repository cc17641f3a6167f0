"""One's own files as judged lists: LETOR, CSV, parquet and data frames in the layouts of others; packed files.

Tables in batches: the lists and messages of the whole table, however its rows fall into batches. A stranger's model or
names: refused before a file is written, or shown so that they cannot steer a terminal.
"""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.files import read_lists, read_run
from rankbound.io.judged import JudgedLists
from rankbound.io.table_columns import Columns
from rankbound.io.tables import TableStream, read_judged
from rankbound.texts import printable, printable_message, shortened
from rankbound.training.models import ROWS_AT_ONCE
from tests.library.conftest import Program
from tests.library.test_ranker import letor_of, planted
from tests.library.test_refused_files import LETOR, ROWS, packed, rows, write
from tests.row_batches import batches_of


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
)
def test_what_values_mean(text: Any, attribute: str, expected: Any, tmp_path: Path) -> None:
    write(tmp_path / "x.csv", text)
    found = getattr(read_lists(tmp_path / "x.csv"), attribute)
    assert (found.tolist() if hasattr(found, "tolist") else list(found)) == expected


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
)
def test_other_names_missing_columns_chosen_features(
    written: Any, options: dict[str, Any], expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / ("x.txt" if written is LETOR else "x.csv")
    write(path, written)
    assert content(read_lists(path, **options)) == expected


def test_packed_files_of_any_writer_hold_the_same_lists(tmp_path: Path) -> None:
    """Texts and lists that polars wrote have 64-bit offsets."""
    write(tmp_path / "x.txt", LETOR)
    with (tmp_path / "x.txt").open("rb") as stream:
        pq.write_table(pa.concat_tables(letor.read_lists(stream, 3, "x")), tmp_path / "x.parquet")
    assert content(read_lists(tmp_path / "x.parquet")) == LETOR_LISTS
    assert read_lists(tmp_path / "x.parquet", features=["2"]).features.tolist() == OF_LETOR[:, 1:2].tolist()
    pq.write_table(table := packed(more=pa.array([1, 2, 3])), tmp_path / "x.parquet")
    pl.DataFrame(table).write_parquet(tmp_path / "y.parquet")
    assert pa.types.is_large_list(pq.read_schema(tmp_path / "y.parquet").field("items").type)
    columns = {"topics": ["q1", "q2", "q3"], "items": ["a", "b", "c"], "offsets": [0, 2, 2, 3], "relevance": [1, 0, 2]}
    features = np.float32([[0, 1], [2, 3], [4, 5]])
    for path in (tmp_path / "x.parquet", tmp_path / "y.parquet"):
        expected = rb.JudgedLists(**columns, features=features, feature_names=["1", "2"])
        assert content(rb.read_lists(path)) == content(expected)
        assert rb.read_qrels(path).relevance.tolist() == [1, 0, 2]


@pytest.mark.parametrize("number", ["1", "-1.5", "+2", ".5", "3.", "1e-3", "-2E+4"])
def test_usual_numbers_are_read_line_by_line_as_well(number: str, tmp_path: Path) -> None:
    # The tab between the lines' fields makes them irregular.
    write(tmp_path / "run.txt", f"a Q0 d1 1 {number} x\na\tQ0  d2 2 0.0 x\n")
    assert read_run(tmp_path / "run.txt").scores[0] == float(number)


FRAME = pl.DataFrame(
    {"topic": ["b", "a", "b"], "item": ["x", "y", "z"], "relevance": [2, 0, 1], "f": [0.5, 1.5, 2.5], "g": [1, 2, 3]}
)


def letor_text(path: Path, topics: int) -> Path:
    path.write_text(letor_of(planted(n_topics=topics)))
    return path


def test_what_is_packed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of columns, topics whose rows aren't adjacent, and text of many chunks, too."""
    packed = rb.pack_lists(FRAME.rename({"topic": "query"}), tmp_path / "x.arrow", topic="query")
    assert (packed.n_topics, packed.n_items, packed.n_features) == (2, 3, 2)
    assert content(rb.read_lists(tmp_path / "x.arrow")) == content(rb.read_lists(FRAME))
    assert rb.read_lists(tmp_path / "x.arrow", features=["g"]).features.tolist() == [[1], [3], [2]]
    assert rb.read_qrels(tmp_path / "x.arrow").relevance.tolist() == [2, 1, 0]
    rb.pack_lists(tmp_path / "x.arrow", tmp_path / "y.arrow", features=["g", "f"])
    assert content(rb.read_lists(tmp_path / "y.arrow")) == content(rb.read_lists(FRAME, features=["g", "f"]))
    monkeypatch.setattr(letor.read_lists, "__defaults__", (1000, None, 127))
    seen: list[int] = []
    path = letor_text(tmp_path / "x.txt", topics=40)
    packed = rb.pack_lists(path, tmp_path / "x.arrow", on_topics=seen.append)
    assert sum(seen) == packed.n_topics == 40
    assert len(seen) > 5
    assert content(rb.read_lists(tmp_path / "x.arrow")) == content(rb.read_lists(path))


def test_features_stay_in_the_file_which_cannot_be_written_to(tmp_path: Path) -> None:
    rb.pack_lists(FRAME, tmp_path / "x.arrow")
    before = pa.total_allocated_bytes()
    lists = rb.read_lists(tmp_path / "x.arrow", features=["f", "g"])
    assert pa.total_allocated_bytes() - before < lists.features.nbytes
    assert not lists.features.flags.owndata
    assert str(tmp_path / "x.arrow") in Path("/proc/self/maps").read_text()
    with pytest.raises(ValueError, match="read-only"):
        lists.features[0, 0] = 7
    topic = lists[0]
    topic.features.add_(1)
    assert topic.features.tolist() == [[1.5, 2], [3.5, 4]]
    assert content(lists) == content(rb.read_lists(FRAME))


def test_a_model_learns_the_same_from_text_and_from_a_packed_file(tmp_path: Path, program: Program) -> None:
    text = letor_text(tmp_path / "x.txt", topics=30)
    program("pack", text, tmp_path / "x.arrow")
    for scale in ("standard", "query", "none"):
        found, expected = (
            rb.train_ranker(rb.read_lists(path), loss="AP", scale=scale, epochs=3)
            for path in (tmp_path / "x.arrow", text)
        )
        for name, weights in expected.model.state_dict().items():
            assert torch.equal(found.model.state_dict()[name], weights)
        scores = [ranker.score_lists(rb.read_lists(path)).scores for ranker in (found, expected) for path in (text,)]
        np.testing.assert_array_equal(*scores)


def test_what_cannot_be_packed_leaves_no_file(tmp_path: Path) -> None:
    """A number that is not finite is named in any block of rows."""
    features = np.zeros((ROWS_AT_ONCE + 3, 1), np.float32)
    ranker = rb.train_ranker(rb.read_lists(FRAME.drop("g")), validation_share=0, epochs=1)
    features[ROWS_AT_ONCE + 1] = np.nan
    with pytest.raises(ValueError, match=rf"found nan at item {ROWS_AT_ONCE + 1}, feature 'f'"):
        ranker.score(features)
    text = letor_text(tmp_path / "x.txt", topics=3)
    with text.open("a") as file:
        file.write("1 qid:4 2:nan\n")
    with pytest.raises(DataError, match="line 37: found '2:nan'"):
        rb.pack_lists(text, tmp_path / "x.arrow")
    with pytest.raises(DataError, match=r"found relevance 0\.5, but packed files hold whole numbers"):
        rb.pack_lists(FRAME.with_columns(relevance=pl.lit(0.5)), tmp_path / "x.arrow")
    with pytest.raises(DataError, match=r"x\.parquet: expected a name that ends in \.arrow"):
        rb.pack_lists(FRAME, tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


@pytest.mark.parametrize("name", ["topic", "relevance"])
def test_a_column_without_a_name_is_refused_before_it_is_searched(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}: found None, expected the name of a column"):
        rb.read_lists(rows(), **{name: None})  # type: ignore[arg-type]


# A stranger's model or names
@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "lists.csv"
    path.write_text("topic,item,relevance,f1,f2\na,1,0,5,.1\na,2,1,.1,.1\nb,1,1,.3,.1\nb,2,0,.4,.1\n")
    return path


@pytest.mark.parametrize(
    ("names", "weight", "out", "message"),
    [
        (["f1", "relevance"], 1.0, "run.txt", "the feature 'relevance' is the column of the relevance"),
        (["f1", "f2"], 3e38, "run.txt", "scores: found inf at item 0, expected finite numbers"),
        (["f1", "f2"], 3e38, "run.csv", "scores: found inf at item 0, expected finite numbers"),
        (["f1", "z" * 3_000_000], 1.0, "run.csv", "there is no column 'zzz"),
    ],
)
def test_a_model_that_reads_the_label_or_gives_no_scores_is_refused(
    names: list[str], weight: float, out: str, message: str, table: Path, program: Program
) -> None:
    lists, model = rb.read_lists(table, features=[]), table.with_name("m.safetensors")
    lists = replace(lists, features=np.ones((4, len(names)), np.float32), feature_names=names)
    ranker = rb.train_ranker(lists, scale="none", epochs=1, batch_size=2, validation_share=0)
    for weights in ranker.model.parameters():
        weights.data.fill_(weight)
    ranker.save(model)
    shown = program(f"score {model} {table} --out {table.with_name(out)}", status=2)
    assert message in shown
    assert len(shown) < 3000
    assert not table.with_name(out).exists()


STEER = "\x1b]0;x\x07\x1b[2J"


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "compare", "compare --markdown", "compare --latex", "compare --json"]
)
def test_names_cannot_steer_a_terminal(command: str, table: Path, program: Program) -> None:
    name, *form = command.split()
    folder, long = table.parent, STEER + 5000 * "y"
    if name == "train":
        pl.read_csv(table).with_columns(pl.lit("word").alias(f"te{STEER}xt")).write_csv(table)
        arguments = f"{table} --epochs 1 --out {folder}/m.safetensors"
    elif name == "evaluate":
        (folder / "run.txt").write_text(f"{long} Q0 d1 1 1.0 x\n")
        (folder / "qrels.txt").write_text(f"{long} 0 d1 1\n")
        arguments = f"{folder}/run.txt {folder}/qrels.txt -m AP --per-topic"
    else:
        arguments = f"{folder}/a.csv {folder}/b.csv"
        for place, file in enumerate(arguments.split()):
            scores = [0.1 * place * (topic % 2) + 0.05 * topic for topic in range(8)]
            pl.DataFrame({"topic": list("abcdefgh"), f"AP{STEER}\nmore": scores}).write_csv(file)
    shown = program(f"{name} {arguments}", *form)
    assert shown.replace("\n", "").isprintable()
    assert "[2J" in shown
    assert name == "compare" or r"\x1b]0;x\x07\x1b[2J" in shown
    assert name == "compare" or len(shown) < 2000
    assert not any(line.startswith("more") for line in shown.splitlines())


def test_texts_of_others_are_escaped_and_lose_their_middle_but_keep_their_lines(program: Program) -> None:
    for text in ("plain", "Grüße 漢字 ≥ 1", "a\N{NO-BREAK SPACE}b", ""):
        assert printable(text) == text
    assert printable("a\x1b[2J\r\n\t\u202e\u2028\udcff\0") == r"a\x1b[2J\r\n\t\u202e\u2028\udcff\x00"
    assert shortened("a" * 10, 10) == "a" * 10
    assert shortened("start" + "x" * 1000 + "end..", 10) == "start ... (1000 more characters) ... end.."
    message = printable_message("first\n  second \x1b[0m\n" + "x" * 9000, 100)
    assert message.split("\n")[:2] == ["first", r"  second \x1b[0m"]
    assert len(message) < 200
    told = program("evaluate", "b.txt", "a\x1b[2J.txt", "-m", "AP", status=2)
    assert r"a\x1b[2J.txt: " in told
    assert "\x1b" not in told


# Tables read in batches
many = settings(suppress_health_check=list(HealthCheck), max_examples=3 * settings.default.max_examples)
sizes = st.sampled_from([1, 7, 40, 200, 2**23])


def streamed(path: Path, size: int, features: Sequence[str] | None = None) -> list[JudgedLists]:
    with batches_of(size):
        return list(TableStream(path, Columns(features=features)))


def content_of_parts(parts: list[JudgedLists]) -> tuple[Any, ...]:
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
        return content_of_parts(read())
    except DataError as error:
        return str(error)


NUMBERS = "0 1 2.5 -3 1e-3 16777217 9007199254740993 0.1 true 3. +5 5.e3 nan " + "9" * 25
numbers = st.sampled_from([*NUMBERS.split(), " 5"])
texts = st.sampled_from(["a", "red, shoe", 'with "quotes"', "two\nlines", "é", " ", "7"])
random_rows = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(0, 3), numbers, numbers, texts | numbers), min_size=1, max_size=30
)


@many
@given(random_rows, sizes, st.booleans())
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
@given(random_rows, sizes, st.integers(1, 9))
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
