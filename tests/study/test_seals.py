"""Files that carry their own checksum: every changed bit of them is found."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rankbound.errors import DataError
from rankbound.io.models import UNSEALED, check_seal, read_tensors, seal, write_tensors
from rankbound_study.data.contracts import count_rows, read_metadata, read_row_groups, read_table, write_table
from rankbound_study.results.specs import scan_runs

FOLDS = pa.table({"fold": pa.array([1, 2, 3], pa.int8()), "split": ["train"] * 3, "face": ["a", "b", "c"]})


def write_parquet(path: Path) -> None:
    write_table(FOLDS, path, "image-folds", metadata={"rankbound.dataset": "toy"})


def write_weights(path: Path) -> None:
    write_tensors({"weight": torch.arange(6.0), "bias": torch.ones(1)}, path, "of a test")


WRITERS = {"x.parquet": write_parquet, "x.safetensors": write_weights}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_content_gives_the_same_sealed_bytes(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name)
    before = (tmp_path / name).read_bytes()
    assert UNSEALED.encode() not in before
    check_seal(tmp_path / name)
    WRITERS[name](tmp_path / name)
    assert (tmp_path / name).read_bytes() == before


def content_of(path: Path) -> str:
    """Return a reader's result for a file, or its message."""
    try:
        if path.suffix == ".parquet":
            return str(read_table(path, "image-folds").to_pylist())
        return str(read_tensors(path))
    except DataError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("name", WRITERS)
def test_every_flipped_bit_is_found_or_changes_nothing(tmp_path: Path, name: str) -> None:
    """One bit of every byte: refused, except where it hits the seal's own mark, and then the content is right."""
    path = tmp_path / name
    WRITERS[name](path)
    content, whole, taken = content_of(path), path.read_bytes(), 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        found = content_of(path)
        if found.startswith("refused: "):
            assert name in found
            assert "run the step" in found
        else:
            assert found == content
            taken += 1
    # The mark has 17 bytes.
    assert taken <= 20


def test_every_reader_looks_at_the_seal(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path)
    data = bytearray(path.read_bytes())
    place = data.index(b"rankbound.dataset") + 3
    data[place] ^= 1
    path.write_bytes(data)
    for read in (
        lambda: read_table(path, "image-folds"),
        lambda: read_metadata(path, "image-folds"),
        lambda: count_rows(path, "image-folds"),
        lambda: list(read_row_groups(path, "image-folds", ["fold"])),
        lambda: scan_runs(path),
    ):
        with pytest.raises(DataError, match=r"x\.parquet: damaged: its bytes have the SHA-256 .* delete it and run"):
            read()


def test_a_file_of_another_program_is_taken_as_it_is(tmp_path: Path) -> None:
    pq.write_table(FOLDS, tmp_path / "x.parquet")
    check_seal(tmp_path / "x.parquet")
    assert scan_runs(tmp_path / "x.parquet").collect().shape == (3, 3)
    (tmp_path / "empty").touch()
    check_seal(tmp_path / "empty")
    check_seal(tmp_path / "absent")
    with pytest.raises(ValueError, match="there is no seal to fill in"):
        seal(tmp_path / "x.parquet")


def test_cut_and_missing_files_are_data_errors(tmp_path: Path) -> None:
    for name, write in WRITERS.items():
        write(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for size in range(0, len(whole), 13):
            (tmp_path / name).write_bytes(whole[:size])
            with pytest.raises(DataError, match=name):
                scan_runs(tmp_path / name) if name.endswith(".parquet") else read_tensors(tmp_path / name)
        (tmp_path / name).unlink()
        with pytest.raises(DataError, match=rf"{name}: there is no such file"):
            scan_runs(tmp_path / name) if name.endswith(".parquet") else read_tensors(tmp_path / name)
