"""LETOR text: what a line means, what is refused and how, and that chunks change nothing."""

import io
import tracemalloc
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from rankbound.errors import DataError
from rankbound.io.letor import CHUNK_BYTES, read_lists

REGULAR = (
    b"2 qid:10 1:0.5 2:0.25 3:1e-3 #docid = GX1-00 inc = 1 prob = 0.08\n"
    b"0 qid:10 1:-1.5 2:0 3:.5 #docid = GX2-01 inc = -1 prob = 0.1\n"
    b"1 qid:7 1:1 2:2. 3:3 #docid = GX3-02 inc = 1 prob = 0.5\n"
)


def read(text: bytes, width: int = 3, chunk_bytes: int = CHUNK_BYTES) -> pa.Table:
    return pa.concat_tables(read_lists(io.BytesIO(text), width, "toy.txt", chunk_bytes)).combine_chunks()


def features(table: pa.Table) -> npt.NDArray[np.float32]:
    width = table.column("features").type.value_type.list_size
    flat = [chunk.flatten().flatten().to_numpy() for chunk in table.column("features").chunks]
    return np.concatenate(flat).reshape(-1, width)


def test_lines_become_lists() -> None:
    table = read(REGULAR)
    assert table.select(["topic", "items", "relevance"]).to_pylist() == [
        {"topic": "10", "items": ["GX1-00", "GX2-01"], "relevance": [2, 0]},
        {"topic": "7", "items": ["GX3-02"], "relevance": [1]},
    ]
    expected = np.array([[0.5, 0.25, 0.001], [-1.5, 0, 0.5], [1, 2, 3]], dtype=np.float32)
    np.testing.assert_array_equal(features(table), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: text + b"\n\n  \n# the end\n",
        lambda text: b"# LETOR\n\n" + text,
        lambda text: text.replace(b" 2:", b"   2:"),
        lambda text: text.replace(b" ", b"\t"),
        lambda text: b"  " + text.replace(b" #", b"   #"),
        lambda text: text.replace(b" #", b"#"),
        lambda text: text.replace(b"docid = ", b"x = 1 docid="),
        lambda text: text.replace(b"1:0.5", b"1:+0.5"),
        lambda text: text.replace(b"qid:10", b"qid:010"),
        lambda text: text.replace(b" 3:1e-3", b" 03:1e-3"),
    ],
)
def test_harmless_differences_change_nothing(change: Callable[[bytes], bytes]) -> None:
    assert read(change(REGULAR)).equals(read(REGULAR))


def test_features_not_named_are_zero() -> None:
    table = read(b"1 qid:1 2:5\n0 qid:1\n0 qid:1 1:1 3:2 #docid = a\n2 qid:2 3:9 \n")
    np.testing.assert_array_equal(features(table), [[0, 5, 0], [0, 0, 0], [1, 0, 2], [0, 0, 9]])


def test_lines_without_docid_are_named_by_query_and_line() -> None:
    table = read(b"# head\n1 qid:5 1:1\n0 qid:5 1:1 # nothing here\n0 qid:5 1:2 #docid = D\n\n0 qid:6 1:2\n")
    assert table.column("items").to_pylist() == [["5-2", "5-3", "D"], ["6-6"]]


def test_values_are_exactly_the_nearest_floats() -> None:
    random = np.random.default_rng(0)
    values = np.concatenate((random.random(300), 10.0 ** random.uniform(-30, 30, 300)))
    text = b"".join(b"0 qid:1 1:%s 2:%.6f\n" % (repr(float(value)).encode(), value % 1) for value in values)
    expected = [[float(repr(float(value))), float(f"{value % 1:.6f}")] for value in values]
    np.testing.assert_array_equal(features(read(text, 2)), np.array(expected).astype(np.float32))


def test_whole_labels_may_have_a_decimal_point() -> None:
    text = REGULAR.replace(b"0 qid", b"0.00 qid").replace(b"1 qid", b"1. qid").replace(b"2 qid", b"2.0 qid")
    assert read(text).equals(read(REGULAR))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"x qid:1 1:1", r"found 'x', expected a label: a whole number 0 \.\. 127"),
        (b"-1 qid:1 1:1", r"found '-1', expected a label"),
        (b"1.5 qid:1 1:1", r"found '1\.5', expected a label"),
        (b"128 qid:1 1:1", r"found '128', expected a label"),
        (b"1e0 qid:1 1:1", r"found '1e0', expected a label"),
        (b"1", r"found '1', expected `label qid:ID index:value \.\.\.`, but the line ends there"),
        (b"1 1:1 2:2", r"found '1:1', expected `qid:`"),
        (b"1 qid 1:1", r"found 'qid', expected `qid:`"),
        (b"1 :1", r"found ':1', expected `qid:`"),
        (b"1 qix:1 1:1", r"found 'qix:1', expected `qid:`"),
        (b"1 qid: 1:1", r"found '', expected the query's number"),
        (b"1 qid:a 1:1", r"found 'a', expected the query's number"),
        (b"1 qid:99999999999999999 1:1", r"found '99999999999999999', expected the query's number"),
        (b"1 qid:1 1:1 2", r"found '2', expected a pair `index:value`"),
        (b"1 qid:1 1:1 2: 3:1", r"found '2:', expected a finite number after the colon"),
        (b"1 qid:1 1:1 2:x", r"found '2:x', expected a finite number after the colon"),
        (b"1 qid:1 1:nan", r"found '1:nan', expected a finite number"),
        (b"1 qid:1 1:inf", r"found '1:inf', expected a finite number"),
        (b"1 qid:1 1:1_0", r"found '1:1_0', expected a finite number"),
        (b"1 qid:1 1:1:2", r"found '1:1:2', expected a finite number"),
        (b"1 qid:1 0:1", r"found '0', expected a feature index.*1 \.\. 3"),
        (b"1 qid:1 4:1", r"found '4', expected a feature index.*1 \.\. 3"),
        (b"1 qid:1 x:1", r"found 'x', expected a feature index"),
        (b"1 qid:1 1.0:1", r"found '1\.0', expected a feature index"),
        (b"1 qid:1 1:1 2:1 3.:1", r"found '3\.', expected a feature index"),
        (b"1 qid:1 1e0:1 2:1 3:1", r"found '1e0', expected a feature index"),
        (b"1 qid:1 2:1 1:1", r"found '1:1', expected a feature index above 2"),
        (b"1 qid:1 2:1 2:1", r"found '2:1', expected a feature index above 2"),
        (b"1 qid:1 1:1\x002:2", r"found '1:1\\x002:2', expected a finite number"),
        (b"\xff\xfe qid:1 1:1", r"found '\\xff\\xfe', expected a label"),
        (b"PK\x03\x04" + b"z" * 500, r"found 'PK\\x03\\x04z{36}', expected a label"),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [CHUNK_BYTES, 50])
def test_malformed_lines_name_file_line_and_token(line: bytes, message: str, chunk_bytes: int) -> None:
    text = REGULAR + b"\n" + line + b" \n" + b"0 qid:8 1:1 2:1 3:1\n"
    with pytest.raises(DataError, match=rf"^toy\.txt, line 5: {message}"):
        read(text, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("odd", [b"", b"1 qid:9 03:1\n"])
def test_labels_go_up_to_the_data_sets_largest(odd: bytes) -> None:
    """With and without a line that sends the chunk past the kernel."""

    def read_up_to(largest: int) -> pa.Table:
        return pa.concat_tables(read_lists(io.BytesIO(REGULAR + odd), 3, "toy.txt", largest_label=largest))

    assert read_up_to(2).equals(read(REGULAR + odd))
    with pytest.raises(DataError, match=r"^toy\.txt, line 1: found '2', expected a label: a whole number 0 \.\. 1$"):
        read_up_to(1)


def test_rows_of_a_query_must_stand_together() -> None:
    with pytest.raises(DataError, match=r"toy\.txt, line 4: query 10 occurs again after other queries.*sort"):
        read(REGULAR + b"0 qid:10 1:0\n")
    with pytest.raises(DataError, match=r"line 4: query 10 occurs again"):
        read(REGULAR + b"0 qid:10 1:0\n", chunk_bytes=30)


def test_a_query_in_two_files_is_found_where_they_share_what_was_seen() -> None:
    seen: set[str] = set()
    list(read_lists(io.BytesIO(REGULAR), 3, "one.txt", seen=seen))
    with pytest.raises(DataError, match=r"two\.txt, line 1: query 10 occurs again"):
        list(read_lists(io.BytesIO(REGULAR), 3, "two.txt", seen=seen))


@pytest.mark.parametrize("text", [b"", b"\n\n", b"# only this\n"])
def test_a_file_without_lines_is_refused(text: bytes) -> None:
    with pytest.raises(DataError, match=r"toy\.txt: there are no lines in it"):
        read(text)


def test_memory_follows_the_chunk_and_not_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loading the kernel takes memory once.
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    pairs = b" ".join(b"%d:0.123456" % index for index in range(1, 47))

    class Endless(io.RawIOBase):
        """`queries` lists of ten lines each, made while they are read."""

        def __init__(self, queries: int) -> None:
            self.lines = (b"1 qid:%d %s #docid = D\n" % (row // 10, pairs) for row in range(10 * queries))
            self.held = b""

        def read(self, size: int = -1) -> bytes:
            while len(self.held) < size and (line := next(self.lines, b"")):
                self.held += line
            data, self.held = self.held[:size], self.held[size:]
            return data

    def peak(queries: int) -> int:
        tracemalloc.start()
        rows = sum(len(table) for table in read_lists(Endless(queries), 46, "toy.txt", 2**16))  # type: ignore[arg-type]
        assert rows == queries
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    small, large = peak(100), peak(1000)
    assert large < 1.5 * small + 2**18
