"""Files: whole or not at all, the same bytes for the same content, errors by file and column, and their seals."""

import errno
import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from rankbound.errors import DataError, OutputError, RankboundError
from rankbound.io import atomic as files
from rankbound.io.atomic import atomic_path, is_at, lock
from rankbound.io.models import UNSEALED, check_seal, read_tensors, seal, write_tensors
from rankbound_study.data.contracts import (
    CONTRACTS,
    SCHEMA_KEY,
    contract_of,
    judged_table,
    open_writer,
    read_metadata,
    read_row_groups,
    read_table,
    strings_to_arrow,
    to_arrow,
    to_numpy,
    write_table,
)
from rankbound_study.jobs.running import shards_of
from rankbound_study.results.study_files import scan_runs

VECTOR = "fixed_size_list<float>[d]"
FOLDS = pa.table({"fold": pa.array([1, 2, 3], pa.int8()), "split": ["train"] * 3, "face": ["a", "b", "c"]})


def judged_lists(width: int = 3) -> pa.Table:
    values, offsets = np.arange(3 * width, dtype=np.float32).reshape(3, width), np.array([0, 2, 2, 3])
    return judged_table(["a", "b", "c"], ["x", "y", "z"], np.array([2, 0, 1], np.int8), values, offsets)


def empty_column(data_type: pa.DataType) -> pa.Array:
    vector = pa.list_(pa.float32(), 2)
    of_any_width = {f"list<{VECTOR}>": pa.list_(vector), VECTOR: vector, "fixed_size_binary[d]": pa.binary(2)}
    return pa.array([], of_any_width[data_type] if isinstance(data_type, str) else data_type)


@pytest.mark.parametrize("name", CONTRACTS)
def test_every_contract_round_trips_without_rows(tmp_path: Path, name: str) -> None:
    table = pa.table({column: empty_column(kind) for column, kind in CONTRACTS[name].columns.items()})
    write_table(table, tmp_path / "x.parquet", name)
    assert read_table(tmp_path / "x.parquet", name).column_names == list(CONTRACTS[name].columns)
    assert contract_of(tmp_path / "x.parquet", list(CONTRACTS)) == name


def test_content_metadata_row_groups_and_metrics_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lists.parquet"
    write_table(judged_lists(), path, "lists", row_group_sizes=[2, 0, 1], metadata={"rankbound.dataset": "toy"})
    found = read_table(path, "lists")
    assert found.to_pylist() == judged_lists().to_pylist()
    assert found.column("features").type.value_type.list_size == 3
    assert read_metadata(path, "lists") == {SCHEMA_KEY: "lists/1", "rankbound.dataset": "toy"}
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [2, 0, 1]
    assert {file.metadata.row_group(0).column(0).compression} == {"ZSTD"}
    contract = CONTRACTS["epochs"]
    row = {name: pa.array([0 if kind != pa.string() else "x"], kind) for name, kind in contract.columns.items()}
    row["nsr_train"] = pa.array([None], pa.int8())
    table = pa.table({**row, "nDCG@10": pa.array([np.nan])})
    write_table(table, tmp_path / "x.parquet", "epochs")
    assert read_table(tmp_path / "x.parquet", "epochs", ["nDCG@10", "nsr_train"]).column_names == [
        "nDCG@10",
        "nsr_train",
    ]
    with pytest.raises(DataError, match="metric column 'AP' is int64, not double"):
        write_table(table.append_column("AP", pa.array([1])), tmp_path / "y.parquet", "epochs")
    assert not (tmp_path / "y.parquet").exists()


def test_the_same_content_gives_the_same_bytes_and_types_are_cast(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_table(FOLDS, tmp_path / name, "image-folds", metadata={"b": "2", "a": "1"})
    write_table(
        FOLDS.select(["face", "fold", "split"]), tmp_path / "three", "image-folds", metadata={"a": "1", "b": "2"}
    )
    assert len({(tmp_path / name).read_bytes() for name in ("one", "two", "three")}) == 1
    wide = pa.table({"face": pa.array(["a"], pa.large_string()), "fold": pa.array([5], pa.int64()), "split": ["train"]})
    write_table(wide, tmp_path / "x.parquet", "image-folds")
    assert read_table(tmp_path / "x.parquet", "image-folds").schema.field("fold").type == pa.int8()
    with pytest.raises(DataError, match=r"x\.parquet.*column 'fold' cannot become int8.*300"):
        write_table(pa.table({"face": ["a"], "fold": [300], "split": ["train"]}), tmp_path / "x.parquet", "image-folds")


BROKEN: dict[str, tuple[str, pa.Table, str]] = {
    "a missing column": (
        "image-folds", FOLDS.drop_columns(["fold"]),
        r"column 'fold' is missing; image-folds/1 requires it as int8.*found are split",
    ),
    "an unknown column": (
        "image-folds", FOLDS.append_column("more", pa.array([1, 2, 3])),
        r"column 'more' is not one of image-folds/1: fold, split",
    ),
    "nulls": (
        "image-folds", FOLDS.set_column(0, "fold", pa.array([1, None, 2], pa.int8())), r"column 'fold' holds 1 nulls",
    ),
    "nulls inside lists": (
        "lists", judged_lists().set_column(1, "items", pa.array([["x", None], [], ["z"]])),
        r"column 'items' holds 1 nulls",
    ),
    "another type": (
        "image-folds", FOLDS.set_column(0, "fold", pa.array([1, 2, 3])),
        r"column 'fold' is int64, but image-folds/1 requires int8",
    ),
    "other features": (
        "lists", judged_lists().set_column(3, "features", pa.array([[[1.0]], [], [[2.0]]])),
        r"column 'features' is .*requires list<fixed_size_list<float>\[d\]>",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_tables_that_break_the_contract_are_neither_written_nor_read(tmp_path: Path, name: str) -> None:
    contract, table, message = BROKEN[name]
    # A type that can be cast is cast by the writer.
    if name != "another type":
        with pytest.raises(DataError, match=message):
            write_table(table, tmp_path / "x.parquet", contract)
        assert list(tmp_path.iterdir()) == []
    path = tmp_path / "raw.parquet"
    pq.write_table(table.replace_schema_metadata({SCHEMA_KEY: str(CONTRACTS[contract])}), path)
    with pytest.raises(DataError, match=rf"raw\.parquet: {message}"):
        read_table(path, contract)


def test_another_contract_version_column_or_width_is_refused(tmp_path: Path) -> None:
    write_table(FOLDS, tmp_path / "x.parquet", "image-folds")
    with pytest.raises(DataError, match=r"x\.parquet.*should be lists/1, found 'image-folds/1'"):
        read_table(tmp_path / "x.parquet", "lists")
    with pytest.raises(DataError, match=r"should be lists/1 or interactions/1, found 'image-folds/1'"):
        contract_of(tmp_path / "x.parquet", ("lists", "interactions"))
    with pytest.raises(DataError, match=r"there is no column 'part'; it has fold, split, face"):
        read_table(tmp_path / "x.parquet", "image-folds", ["part"])
    pq.write_table(FOLDS, tmp_path / "foreign.parquet")
    with pytest.raises(DataError, match=r"should be image-folds/1, found 'none'"):
        read_table(tmp_path / "foreign.parquet", "image-folds")
    with pytest.raises(DataError, match=r"none\.parquet: there is no such file"):
        read_table(tmp_path / "none.parquet", "lists")
    with open_writer(tmp_path / "x", "lists") as write:
        write(judged_lists(width=3))
        with pytest.raises(DataError, match="a later part has the columns"):
            write(judged_lists(width=4))
    with pytest.raises(ValueError, match="do not add up"):
        write_table(FOLDS, tmp_path / "x", "image-folds", row_group_sizes=[1, 1])


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_table(FOLDS, path, "image-folds")
    before = path.read_bytes()

    def break_off() -> None:
        with open_writer(path, "image-folds") as write:
            write(FOLDS)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.parquet"]


# Files carry their own checksum: every changed bit of them is found


def write_parquet(path: Path) -> None:
    write_table(FOLDS, path, "image-folds", metadata={"rankbound.dataset": "toy"})


def write_weights(path: Path) -> None:
    write_tensors({"weight": torch.arange(6.0), "bias": torch.ones(1)}, path, "of a test")


WRITERS = {"x.parquet": write_parquet, "x.safetensors": write_weights}


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
    assert UNSEALED.encode() not in whole
    check_seal(path)
    WRITERS[name](path)
    assert path.read_bytes() == whole
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


def test_every_reader_looks_at_the_seal_if_there_is_one(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(path)
    data = bytearray(path.read_bytes())
    place = data.index(b"rankbound.dataset") + 3
    data[place] ^= 1
    path.write_bytes(data)
    for read in (
        lambda: read_table(path, "image-folds"),
        lambda: read_metadata(path, "image-folds"),
        lambda: list(read_row_groups(path, "image-folds", ["fold"])),
        lambda: scan_runs(path),
    ):
        with pytest.raises(DataError, match=r"x\.parquet: damaged: its bytes have the SHA-256 .* delete it and run"):
            read()
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
            assert content_of(tmp_path / name).startswith("refused: ")
            if name.endswith(".parquet"):
                with pytest.raises(DataError, match=name):
                    scan_runs(tmp_path / name)
        (tmp_path / name).unlink()
        assert f"{name}: there is no such file" in content_of(tmp_path / name)
    with pytest.raises(DataError, match="there is no such file"):
        scan_runs(tmp_path / "x.parquet")


# Numbers between NumPy and Arrow: the same values, the same memory


@pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack")  # NumPy tries an older way before it gives up
def test_values_share_memory_and_slices_chunks_and_strides_keep_their_place() -> None:
    for kind in ("int8", "int32", "int64", "float32", "float64"):
        values = np.arange(5).astype(kind)
        array = to_arrow(values)
        array.validate(full=True)
        assert array.type == pa.from_numpy_dtype(values.dtype)
        assert array.to_pylist() == values.tolist()
        assert np.shares_memory(to_numpy(array), values)
    array = pa.array([1, 2, 3, 4], pa.int16())
    assert to_numpy(array.slice(1, 2)).tolist() == [2, 3]
    assert to_numpy(pa.chunked_array([array, array.slice(2)])).tolist() == [1, 2, 3, 4, 3, 4]
    assert to_numpy(pa.chunked_array([], pa.int16())).dtype == np.int16
    assert to_numpy(array.slice(4)).tolist() == []
    assert to_arrow(np.arange(6)[::2]).to_pylist() == [0, 2, 4]
    with pytest.raises(pa.ArrowTypeError, match="no nulls"):
        to_numpy(pa.array([1, None]))
    for texts in ([], ["a"], ["", "zwölf", "x" * 300, ""]):
        array = strings_to_arrow(texts)
        array.validate(full=True)
        assert array.equals(pa.array(texts, pa.string()))


# Files that appear whole or not at all, and what becomes of the traces of killed writers

WRITER = """
import sys
from rankbound.io.atomic import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def other_writer(path: Path) -> "subprocess.Popen[str]":
    """A process in the middle of writing `path`."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def write(path: Path, text: str = "new", error: BaseException | None = None) -> None:
    with atomic_path(path) as temporary:
        assert temporary.name.endswith(path.suffix)
        temporary.write_text(text)
        if error is not None:
            raise error


def test_a_file_appears_when_it_is_on_disk_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, on_disk, flush = tmp_path / "new" / "x.csv", list[tuple[str, bool]](), files._flush_to_disk

    def flushed(temporary: Path) -> None:
        on_disk.append((temporary.read_text(), path.exists()))
        flush(temporary)

    monkeypatch.setattr(files, "_flush_to_disk", flushed)
    write(path)
    with pytest.raises(KeyError):
        write(path, "half", KeyError("x"))
    assert on_disk == [("new", False)]
    assert (names(path.parent), path.read_text()) == (["x.csv"], "new")
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with other_writer(path) as killed, other_writer(path) as living:
        killed.kill()
        killed.wait()
        assert len(names(tmp_path)) == 2
        write(path, "first")
        assert len(names(tmp_path)) == 2, "the living one's file, and ours"
        assert path.read_text() == "first"
        living.communicate("")
        assert living.returncode == 0
    assert names(tmp_path) == ["x.csv"]
    assert path.read_text() == "half"


def test_files_of_others_are_left_alone_and_shards_of_finished_jobs_removed(tmp_path: Path) -> None:
    for name in (".y.abcdefgh.csv", ".x.abcdefgh.txt", ".x.notes.csv", "x.abcdefgh.csv"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    write(tmp_path / "x.csv")
    assert names(tmp_path) == sorted([*before, "x.csv"])
    (tmp_path / "jobs").mkdir()
    with shards_of(tmp_path / "jobs/x.parquet", "options", []) as shards:
        write(shards / "one")
        assert (shards / "one").exists()
    assert names(tmp_path / "jobs") == []


def stumbling() -> AttributeError:
    """The second error of a library that stumbles over a full disk."""
    error = AttributeError("pos")
    error.__context__ = OSError(errno.ENOSPC, "No space left on device")
    return error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Error writing bytes to file. Detail: [errno 28] No space left on device"),
        RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"),
        stumbling(),
    ],
)
def test_a_full_disk_is_said_with_the_file_and_what_to_do(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(OutputError, match=r"x\.csv: could not be written: No space left on device; make room"):
        write(tmp_path / "x.csv", error=error)
    assert names(tmp_path) == []


def test_errors_of_other_files_stay_as_they_are_and_a_file_in_the_place_of_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(PermissionError) as caught:
        write(tmp_path / "x.csv", error=PermissionError(errno.EACCES, "Permission denied", "input.csv"))
    assert not isinstance(caught.value, RankboundError)
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"could not be written: .*; check the folder"):
        write(tmp_path / "file" / "x")


def test_a_lock_is_for_one_open_file_and_ends_with_it(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert lock(first, wait=False)
    assert not lock(second, wait=False)
    os.close(first)
    assert lock(second, wait=False)
    assert is_at(second, tmp_path / "lock")
    (tmp_path / "lock").unlink()
    assert not is_at(second, tmp_path / "lock")
    os.close(second)


HOLDER = """
import os, sys
from rankbound_study.jobs.running import shards_of
with shards_of(sys.argv[1], "", []):
    print("working", flush=True)
    sys.stdin.read()
    if sys.argv[2] == "die":
        os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("end", ["finish", "die"])
def test_a_second_job_waits_for_the_first_however_that_ends(tmp_path: Path, end: str) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "x.parquet"), end]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as first:  # type: ignore[call-overload]
        assert first.stdout.readline() == "working\n"
        command[-1] = "finish"
        with subprocess.Popen(command, **pipes) as second:  # type: ignore[call-overload]
            assert "another process is making it; waiting" in second.stderr.readline()
            first.communicate("")
            assert second.stdout.readline() == "working\n"
            second.communicate("")
            assert second.returncode == 0
    assert names(tmp_path) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_interruption_at_any_instruction_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """As a signal's handler raises it: before, between and after the making, the locking and the renaming."""
    target = tmp_path / "x.txt"
    for last in itertools.count(1):
        target.write_text("old")
        left = itertools.count(last, -1)

        def interrupt(frame: FrameType, event: str, _: object, left: Iterator[int] = left) -> Any:
            if frame.f_code.co_filename != files.__file__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode" and next(left) == 0:
                raise KeyboardInterrupt
            return interrupt

        sys.settrace(interrupt)
        try:
            write(target)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(None)
        assert names(tmp_path) == ["x.txt"], last
        assert target.read_text() in ("old", "new")
    assert last > 200
    assert target.read_text() == "new"


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there, so that nobody removes a living writer's file")
def test_a_file_that_is_taken_for_a_dead_writers_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer may look at the folder between the making of a temporary file and its locking."""
    made = []
    lock = files.lock

    def seen_by_another_writer(handle: int, *, wait: bool) -> bool:
        made.append(handle)
        if len(made) == 1:
            (temporary,) = tmp_path.iterdir()
            temporary.unlink()
        return lock(handle, wait=wait)

    monkeypatch.setattr(files, "lock", seen_by_another_writer)
    write(tmp_path / "a.txt")
    assert len(made) == 2
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").stat().st_mode & 0o600 == 0o600
