"""Parquet files made to do harm: a clear error that names the file, and never more memory than there is."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankbound.errors import DataError
from rankbound.io.files import read_lists, read_qrels, read_run
from rankbound_study.data import reader
from rankbound_study.data.contracts import (
    CONTRACTS,
    SCHEMA_KEY,
    contract_of,
    read_metadata,
    read_row_groups,
    read_table,
)
from rankbound_study.data.images import read_faces, read_pixels
from tests.faults.hostile_files import with_little_memory

MUTATIONS = int(os.environ.get("RANKBOUND_FUZZ", "300"))


def lists_table() -> pa.Table:
    vectors = pa.list_(pa.list_(pa.float32(), 2))
    columns = {
        "topic": pa.array(["1", "2"]),
        "items": pa.array([["a", "b"], ["c"]]),
        "relevance": pa.array([[1, 0], [1]], pa.list_(pa.int8())),
        "features": pa.array([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0]]], vectors),
    }
    return pa.table(columns)


def foreign(path: Path, table: pa.Table, contract: str = "lists", more: Any = (), **options: Any) -> Path:
    """A file that claims to be ours, written by someone else: nothing is cast, checked or sealed."""
    metadata = {SCHEMA_KEY: str(CONTRACTS[contract])} | dict(more)
    pq.write_table(table.replace_schema_metadata(metadata), path, **options)
    return path


READERS: tuple[Callable[[Path], Any], ...] = (
    lambda path: read_table(path, "lists"),
    lambda path: read_metadata(path, "lists"),
    lambda path: list(read_row_groups(path, "lists", ["items", "features"])),
    lambda path: contract_of(path, ["lists", "runs"]),
    *(reader.read_features, reader.read_item_names, read_lists, read_qrels, read_run),
)


def test_a_footer_that_claims_billions_of_rows_is_refused(tmp_path: Path) -> None:
    """Eighty million rows of one value each: half a megabyte that would take as much as memory has."""
    path = tmp_path / "x.parquet"
    schema = pa.schema(
        [("split", pa.string()), ("fold", pa.int8()), ("list", pa.int32())], {SCHEMA_KEY: "list-splits/1"}
    )
    many = pa.array(np.zeros(20_000_000, np.int8))
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000_000, np.int8)), pa.array(["x"]))
    stored = schema.set(0, pa.field("split", texts.type))
    with pq.ParquetWriter(path, stored, compression="zstd", store_schema=False) as writer:
        for _ in range(4):
            writer.write_table(pa.table({"split": texts, "fold": many, "list": many.cast(pa.int32())}, schema=stored))
        writer.add_key_value_metadata({SCHEMA_KEY: "list-splits/1"})
    assert path.stat().st_size < 1_000_000
    code = "from rankbound_study.data.contracts import read_table as read; run = lambda path: read(path, 'list-splits')"
    said = with_little_memory(code, path, megabytes=200)
    assert said.startswith("refused: ")
    assert "x.parquet: not a readable parquet file" in said


def test_a_table_larger_than_the_machine_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = foreign(tmp_path / "x.parquet", lists_table())
    sizes = {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 2 * 4 * 4}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    assert len(read_table(path, "lists")) == 2
    sizes["SC_PHYS_PAGES"] -= 1
    with pytest.raises(DataError, match=r"x\.parquet: its 2 rows take 0 GiB at least, and this machine has 0"):
        read_table(path, "lists")
    with pytest.raises(DataError, match=r"x\.parquet: its 2 rows take"):
        list(read_row_groups(path, "lists", ["topic"]))


def test_texts_that_unpack_to_gigabytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(3_000_000, np.int32)), pa.array(["x" * 1000]))
    table = pa.table({"topic": text, "item": text, "score": np.zeros(3_000_000)})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 1_000_000
    code = "from rankbound.io.tables import read_scores as run"
    said = with_little_memory(code, path, megabytes=800)
    assert said.startswith("refused: ")
    assert "x.parquet" in said


def test_a_foreign_file_is_read_and_an_encrypted_footer_and_other_formats_are_named(tmp_path: Path) -> None:
    foreign(tmp_path / "x.parquet", lists_table())
    whole = (tmp_path / "x.parquet").read_bytes()
    for read in READERS:
        if read is not read_run:
            read(tmp_path / "x.parquet")
    for content in (
        b"",
        b"PAR1",
        b"PAR1PAR1",
        b"PAR1" + b"\xff" * 4 + b"PAR1",
        b"PAR1" + b"\x00" * 100 + b"\x64\x00\x00\x00PAR1",
        b"PARE" + whole[4:-4] + b"PARE",
        whole[:-8] + b"\xff\xff\xff\x7fPAR1",
        whole[:-8] + b"\x00\x00\x00\x00PAR1",
        b"ORC" * 20,
        b"\x15\x04" * 500,
    ):
        path = tmp_path / "x.parquet"
        path.write_bytes(content)
        for read in READERS:
            with pytest.raises(DataError, match=r"x\.parquet: "):
                read(path)


# A damaged name of a column is that of no feature.
@pytest.mark.filterwarnings("ignore::rankbound.errors.ColumnWarning")
@pytest.mark.parametrize("seed", range(4))
def test_damaged_foreign_files_are_read_or_refused(tmp_path: Path, seed: int) -> None:
    """Without a seal, and half of the damage in the footer: thrift garbage, types, indices out of a dictionary."""
    options: dict[str, Any] = [{}, {"compression": "none"}, {"use_dictionary": False}, {"version": "1.0"}][seed]
    whole = foreign(tmp_path / "y.parquet", lists_table(), **options).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    chance = random.Random(seed)
    path, refused = tmp_path / "x.parquet", 0
    for _ in range(MUTATIONS // 4):
        content = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            start = chance.choice([0, len(whole) - footer - 8])
            byte = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            content[chance.randrange(start, len(content))] = byte
        path.write_bytes(content)
        for read in READERS:
            try:
                read(path)
            except DataError:
                refused += 1
    assert refused > MUTATIONS


IMAGES = {
    "face": pa.array(["a", "b"]),
    "number": pa.array([1, 2], pa.int32()),
    "age": pa.array([20, 30], pa.int8()),
    "group": pa.array([1, 2], pa.int32()),
    "pixels": pa.array([b"\0" * 12, b"\1" * 12], pa.binary(12)),
}


@pytest.mark.parametrize(
    "shape",
    ['{"shape": [3, 2, 2.0]}', '{"shape": [3, 1e999, 2]}', '{"shape": [-3, -2, 2]}', '{"shape": [3, 0, 2]}',
     '{"shape": "322"}', '{"shape": [99999999999, 99999999999, 2]}', '{"shape": [true, 6, 2]}',
     "[" * 100_000, "{}", "[3]", '{"shape": [3, 2]}', '{"shape": ' + "9" * 5000 + "}", "", "null"],
)  # fmt: skip
def test_shapes_that_no_picture_has_are_refused(tmp_path: Path, shape: str) -> None:
    path = foreign(tmp_path / "x.parquet", pa.table(IMAGES), "images", {"rankbound.images": shape})
    for read in (read_faces, read_pixels):
        with pytest.raises(DataError, match=r"x\.parquet: (the metadata key 'rankbound\.images'|column 'pixels')"):
            read(path)


@pytest.mark.parametrize("count", ["²", "-1", "1e3", "9" * 5000, "", "0x10", " 3"])
@pytest.mark.parametrize("names", [None, "[", "[" * 100_000, "3", "null", '{"a": 1}'])
def test_counts_and_names_of_items_that_are_none_are_refused(tmp_path: Path, count: str, names: str | None) -> None:
    small = pa.array([1], pa.int8())
    columns = {"dataset": ["d"], "nsr": small, "fold": small, "split": ["train"], "topic": ["1"]}
    columns |= {"items": pa.array([[0, 1]], pa.list_(pa.int64()))}
    table = pa.table(columns | {"relevance": pa.array([[0, 1]], pa.list_(pa.int8()))})
    more = {"rankbound.item_count": count} | ({} if names is None else {"rankbound.item_names": names})
    path = foreign(tmp_path / "x.parquet", table, "instances", more)
    with pytest.raises(DataError, match=r"x\.parquet: the metadata key"):
        reader.read_instances(path)
    if names is not None:
        path = foreign(tmp_path / "x.parquet", table, "instances", more | {"rankbound.item_count": "2"})
        with pytest.raises(DataError, match=r"x\.parquet: the metadata key 'rankbound\.item_names'"):
            reader.read_instances(path)
