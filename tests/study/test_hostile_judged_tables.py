"""Files in any state: converted, or refused with line or row, and nothing is left behind."""

import datetime
import decimal
import gzip
import re
import zipfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rankbound.errors import ConfigError, DataError, SourceError
from rankbound.io import tables, text_files
from rankbound.io.table_columns import Columns
from rankbound_study.config.sections.description import DescriptionKeys, own_files
from rankbound_study.data import judged_files, ratings
from rankbound_study.data.contracts import read_table
from rankbound_study.data.inspection import inspect
from rankbound_study.data.sources import RawFiles, RawSource
from tests.library.refusals import problems
from tests.row_batches import batches_of
from tests.study.described_steps import Run, convert

HEAD = b"topic,relevance,f\n"
BODY = b"".join(b"t%d,%d,0.5\n" % (row // 3, row % 3) for row in range(90))

TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"not a readable CSV file \(empty CSV\)"),
    "names alone": (HEAD, r"there are no rows in it"),
    "names twice": (HEAD + BODY + HEAD, r"line 92: column 'relevance' holds 'relevance', expected a finite number"),
    "no features": (b"topic,relevance,note\na,1,x\n", r"there are no features in it"),
    "a long row": (HEAD + BODY + b"a,1,2,3\n" + BODY, r"line 92: found 4 fields, expected 3 as in the first line"),
    "a short row": (HEAD + BODY + b"a,1\n", r"line 92: column 'f' is empty, expected a finite number"),
    "an empty line": (HEAD + BODY + b"\n" + BODY, r"line 92: column 'topic' is empty, expected a name"),
    "a zero byte": (HEAD + BODY + b"a,1,\0\n", r"line 92: column 'f' holds '.*', expected a finite number"),
    "Latin-1": (HEAD + BODY + b"caf\xe9,1,1\n", r"line 92: found the byte 0xe9, expected text in UTF-8"),
    "UTF-16": ((HEAD + BODY).decode().encode("utf-16"), r"found text in UTF-16"),
    "an open quote": (HEAD + BODY + b'"a,1,1\n' + 9 * BODY, r"line 92: found a row of more than \d+ MiB: look for a"),
    "a huge field": (HEAD + BODY + b"a,1," + b"z" * 900 + b"\n", r"line 92: column 'f' holds 'zzz.*more char.*zzz'"),
    "an item twice": (b"topic,item,relevance,f\na,x,1,1\nb,x,1,1\na,x,0,2\n", r"item 'x' .*'a' \(lines 2 and 4\)"),
    "a large label": (HEAD + BODY + b"a,128,1\n", r"found relevance 128, expected whole numbers 0 \.\. 127"),
    "decimal commas": (HEAD + BODY + b'a,1,"0,5"\n', r"line 92: column 'f' holds '0,5', .* with a decimal point"),
}  # fmt: skip


def described(path: Path) -> dict[str, Any]:
    return {"format": "table", "path": str(path), "random_parts": 3}


@pytest.mark.parametrize("size", [64, 2**23])
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz"])
@pytest.mark.parametrize("case", TEXTS)
def test_text_is_refused_with_its_line(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, case: str, name: str, size: int
) -> None:
    content, message = TEXTS[case]
    if name.endswith("tsv"):
        if case in ("decimal commas", "UTF-16"):
            pytest.skip("commas are part of the case")
        content = content.replace(b",", b"\t")
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    monkeypatch.setattr(text_files, "LONGEST_ROW", 1000)
    with batches_of(size):
        told = convert(run, described(tmp_path / name), status=2)
    pattern = re.compile(message)
    assert pattern.search(told), told
    assert not Path("data.parquet").exists()


def columns(**changes: Any) -> dict[str, Any]:
    topics = [f"t{row % 7}" for row in range(50)]
    return {"topic": topics, "relevance": np.arange(50) % 3, "f": np.arange(50) / 8, **changes}


def with_last(value: Any, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([*range(49), value], kind)


PARQUETS: dict[str, tuple[dict[str, Any], str]] = {
    "an empty feature": (columns(f=with_last(None)), r"row 50: column 'f' is empty, expected a finite number"),
    "NaN": (columns(f=with_last(float("nan"), pa.float64())), r"row 50: column 'f' holds nan, expected a finite"),
    "an empty topic": (columns(topic=with_last(None)), r"row 50: column 'topic' is empty, expected a name"),
    "an empty label": (columns(relevance=with_last(None)), r"row 50: column 'relevance' is empty"),
    "a word": (columns(f=[*map(str, range(49)), "x"]), r"row 50: column 'f' holds 'x', expected a finite number"),
    "labels that are times": (
        columns(relevance=[datetime.datetime(2026, 1, 1)] * 50), r"column 'relevance' is Datetime.*, expected numbers"
    ),
    "nested labels": (columns(relevance=[[1]] * 50), r"column 'relevance' is List.*, expected numbers"),
    "nested topics": (columns(topic=[{"a": 1}] * 50), r"column 'topic' is Struct.*, expected names"),
    "topics that are fractions": (columns(topic=np.arange(50) / 2), r"column 'topic' is Float64, expected names"),
    "text that is not UTF-8": (
        columns(topic=pa.array([b"\xff"] * 50, pa.binary()).view(pa.string())), r"not a readable parquet file"
    ),
    "only other types": (columns(f=[datetime.date(2026, 1, 1)] * 50), r"there are no features in it"),
    "no rows": ({key: pa.array([], pa.int64()) for key in columns()}, r"there are no rows in it"),
    "a column that is missing": ({"topic": ["a"], "f": [1.0]}, r"there is no column 'relevance'; it has topic, f"),
}  # fmt: skip


@pytest.mark.parametrize("size", [64, 2**23])
@pytest.mark.parametrize("case", PARQUETS)
def test_parquet_is_refused_with_its_row(tmp_path: Path, run: Run, case: str, size: int) -> None:
    content, message = PARQUETS[case]
    pq.write_table(pa.table(content), tmp_path / "x.parquet", row_group_size=16)
    with batches_of(size):
        told = convert(run, described(tmp_path / "x.parquet"), status=2)
    assert re.search(message, told), told
    assert not Path("data.parquet").exists()


def test_other_types_of_parquet_are_numbers_names_or_left_out(tmp_path: Path, run: Run) -> None:
    """Topics span row groups and batches, and their rows are not adjacent."""
    names = pa.array([f"t{row % 7}" for row in range(50)])
    more = {
        "topic": names.dictionary_encode(),
        "price": pa.array([decimal.Decimal(row) / 4 for row in range(50)], pa.decimal128(9, 2)),
        "flag": [row % 2 == 0 for row in range(50)],
        "when": [datetime.datetime(2026, 1, 1)] * 50,
        "nested": [[1.0]] * 50,
        "kind": names.dictionary_encode(),
        "nothing": pa.nulls(50),
    }
    pq.write_table(pa.table(columns(**more)), tmp_path / "x.parquet", row_group_size=16)
    with batches_of(64):
        convert(run, described(tmp_path / "x.parquet"))
    made = read_table("data.parquet", "lists")
    assert made["topic"].to_pylist() == [f"t{topic}" for topic in range(7)]
    for topic, lists in enumerate(made.to_pylist()):
        rows = range(topic, 50, 7)
        assert lists["items"] == [f"t{topic}-{row + 1}" for row in rows]
        assert lists["relevance"] == [row % 3 for row in rows]
        assert lists["features"] == [[row / 8, row / 4, row % 2 == 0] for row in rows]


def test_parquet_that_is_cut_or_too_large_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table(columns()), tmp_path / "y.parquet", row_group_size=16)
    whole = (tmp_path / "y.parquet").read_bytes()
    for content in (b"", b"PAR1", whole[:-9], whole[: len(whole) // 2], whole[:4] + b"\0" * 200 + whole[204:]):
        (tmp_path / "x.parquet").write_bytes(content)
        told = convert(run, described(tmp_path / "x.parquet"), status=2)
        assert "x.parquet: not a readable parquet file" in told
        assert not Path("data.parquet").exists()
    pq.write_table(pa.table(columns(topic=["all"] * 50)), tmp_path / "x.parquet")
    monkeypatch.setattr(tables, "memory_bytes", lambda: 1000)
    told = convert(run, described(tmp_path / "x.parquet"), status=2)
    assert "x.parquet: topic 'all' has 50 rows, which need" in told


def test_a_table_is_never_whole_in_memory(tmp_path: Path) -> None:
    """Batches of rows and parts of lists stay small, whether the topics' rows are adjacent or not."""
    for name, topics in {
        "adjacent": [row // 5 for row in range(5000)],
        "apart": [row % 1000 for row in range(5000)],
    }.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("topic,relevance,f\n" + "".join(f"{topic},1,{row}\n" for row, topic in enumerate(topics)))
        with batches_of(2000):
            stream = tables.TableStream(path, Columns())
            batches = [len(table.frame) for table in stream._file.batches(["f"])]
            parts = [len(part.items) for part in stream]
        assert max(*batches, *parts) < 600
        assert sum(batches) == sum(parts) == 5000


# Files of somebody's own in any state: converted, or refused with a message, and nothing is left behind

WHOLE = problems("whole files")
# Bits of lines, so that malformed files come near to well-formed ones.
bits = st.sampled_from(
    ["1", "0", "-", ".", "e9", "nan", "x", ",", "::", ":", "\t", " ", "\n", "\r\n", '"', "\0", "\ufeff", "é", "qid:1",
     "9" * 25, "\x1f", "1:1", "topic", "user"]
)  # fmt: skip
damages = st.lists(st.tuples(st.floats(0, 1), bits), max_size=4)


@pytest.mark.parametrize("layout", WHOLE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages, sizes=st.sampled_from(["2\n", "1\n1\n", "3\n", "", "x\n"]), packed=st.booleans())
def test_any_file_is_converted_or_refused(
    tmp_path: Path, layout: str, damage: list[tuple[float, str]], sizes: str, packed: bool
) -> None:
    folder = tmp_path / "files"
    path, out = folder / ("x.csv" if layout == "table" else "x"), tmp_path / "out.parquet"
    out.unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    (folder / "y").write_text("user,item\n1,9\n")
    keys, text = WHOLE[layout]
    for share, bit in damage:
        place = round(share * len(text))
        text = text[:place] + bit + text[place + 1 :]
    path.write_text(text, encoding="utf-8")
    Path(f"{path}.query").write_text(sizes)
    where = folder if layout == "splits" else path
    if packed:
        where = tmp_path / "x.zip"
        with zipfile.ZipFile(where, "w") as archive:
            for file in [*folder.iterdir()] if layout in ("splits", "grouped") else [path]:
                archive.write(file, file.name)
    named = {"files": ["x"]} if layout == "grouped" and packed else {}
    described = DescriptionKeys(**keys, **named, path=str(where))
    convert = ratings.convert if described.format == "ratings" else judged_files.convert
    message = ""
    try:
        raw = RawFiles(RawSource("mine", described), list(map(Path, own_files(described))))
        convert(raw, out)
    except (DataError, SourceError) as error:
        message = str(error)
    assert out.exists() == (not message)
    assert {file.name for file in tmp_path.iterdir()} <= {"files", "x.zip", "out.parquet"}
    assert "rankbound-" not in message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=2 * settings.default.max_examples)
@given(
    text=st.lists(bits, max_size=12).map("".join),
    name=st.sampled_from(["x", "x.csv", "x.tsv", "x.dat", "fold_0/train.csv", "Fold1/test.txt"]),
    packed=st.booleans(),
)
def test_any_file_is_described_or_refused(tmp_path: Path, text: str, name: str, packed: bool) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        path = Path(folder, name)
        path.parent.mkdir(exist_ok=True)
        for file in {path, path.with_name(path.name.replace("train", "test").replace("test", "train"))}:
            file.write_text(text, encoding="utf-8")
        looked_at = path if path.parent == Path(folder) else Path(folder)
        if packed:
            looked_at = tmp_path / "x.zip"
            with zipfile.ZipFile(looked_at, "w") as archive:
                for file in path.parent.iterdir():
                    archive.write(file, file.relative_to(folder))
        with suppress(ConfigError, DataError):
            description = inspect(looked_at).description
            assert DescriptionKeys(**description)
