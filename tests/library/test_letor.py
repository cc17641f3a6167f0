"""LETOR text: what a line means, what is refused and how, and that neither chunks nor the kernel change anything."""

import io
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io import letor
from rankbound.io.letor import CHUNK_BYTES, read_lists, with_query_ids
from rankbound.kernels import usable
from tests import plain_letor
from tests.damages import Damages, damaged, damages
from tests.library.conftest import Program
from tests.library.refusals import problems

needs_kernel = pytest.mark.skipif(not usable(), reason="needs Numba, and a home folder for compiled code")

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
    """Missing features are 0, and items without docid are named by query and line."""
    table = read(REGULAR)
    assert table.select(["topic", "items", "relevance"]).to_pylist() == [
        {"topic": "10", "items": ["GX1-00", "GX2-01"], "relevance": [2, 0]},
        {"topic": "7", "items": ["GX3-02"], "relevance": [1]},
    ]
    expected = np.array([[0.5, 0.25, 0.001], [-1.5, 0, 0.5], [1, 2, 3]], dtype=np.float32)
    np.testing.assert_array_equal(features(table), expected)
    table = read(b"# head\n1 qid:5 2:5\n0 qid:5 # nothing here\n0 qid:5 1:1 3:2 #docid = D\n\n2 qid:6 3:9 \n")
    np.testing.assert_array_equal(features(table), [[0, 5, 0], [0, 0, 0], [1, 0, 2], [0, 0, 9]])
    assert table.column("items").to_pylist() == [["5-2", "5-3", "D"], ["6-6"]]


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
        lambda text: text.replace(b"0 qid", b"0.00 qid").replace(b"1 qid", b"1. qid").replace(b"2 qid", b"2.0 qid"),
    ],
)
def test_harmless_differences_change_nothing(change: Callable[[bytes], bytes]) -> None:
    assert read(change(REGULAR)).equals(read(REGULAR))


FINITE, INDEX, ABOVE = "a finite number after the colon", r"a feature index.*1 \.\. 3", "a feature index above 2"
# Lines with these tokens in them, what is found, if not the token, and what is expected.
MALFORMED: list[tuple[bytes, list[bytes], str | None, str]] = [
    (b"%s qid:1 1:1", [b"x", b"-1", b"1.5", b"128", b"1e0"], None, r"a label: a whole number 0 \.\. 127"),
    (b"%s qid:1 1:1", [b"\xff\xfe"], r"\\xff\\xfe", "a label"),
    (b"%s qid:1 1:1", [b"PK\x03\x04" + b"z" * 500], r"PK\\x03\\x04z{36}", "a label"),
    (b"%s", [b"1"], None, r"`label qid:ID index:value \.\.\.`, but the line ends there"),
    (b"1 %s", [b"1:1 2:2", b"qid 1:1", b":1", b"qix:1 1:1"], r"(1:1|qid|:1|qix:1)", "`qid:`"),
    (b"1 qid:%s 1:1", [b""], None, "the query's number or name after `qid:`"),
    (b"1 qid:%s 1:1", [b"\xff"], r"\\xff", "the query's number or name"),
    (b"1 qid:1 %s 2:1", [b"9:1", b"4:x"], None, "ascending indices, but 2 comes after it: sort the pairs"),
    (b"1 qid:1 1:1 %s", [b"2"], None, "a pair `index:value`"),
    (b"1 qid:1 1:1 %s 3:1", [b"2:", b"2:x"], None, FINITE),
    (b"1 qid:1 %s", [b"1:nan", b"1:inf", b"1:1_0", b"1:1:2"], None, FINITE),
    (b"1 qid:1 %s", [b"1:1\x002:2"], r"1:1\\x002:2", FINITE),
    (b"1 qid:1 %s:1", [b"0", b"4", b"x", b"1.0", b"+1"], None, INDEX),
    (b"1 qid:1 1:1 2:1 %s:1", [b"3."], None, INDEX),
    (b"1 qid:1 %s:1 2:1 3:1", [b"1e0"], None, INDEX),
    (b"1 qid:1 2:1 %s", [b"1:1", b"2:1"], None, ABOVE),
]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (line % token, f"found '{found or re.escape(token.decode())}', expected {expected}")
        for line, tokens, found, expected in MALFORMED
        for token in tokens
    ],
)
@pytest.mark.parametrize("chunk_bytes", [CHUNK_BYTES, 50])
@pytest.mark.parametrize("with_kernel", [False, pytest.param(True, marks=needs_kernel)])
def test_malformed_lines_name_file_line_and_token(
    line: bytes, message: str, chunk_bytes: int, with_kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "worth_a_kernel", lambda bytes_read: with_kernel)
    text = REGULAR + b"\n" + line + b" \n" + b"0 qid:8 1:1 2:1 3:1\n"
    with pytest.raises(DataError, match=rf"^toy\.txt, line 5: {message}"):
        read(text, chunk_bytes=chunk_bytes)


@pytest.mark.parametrize("odd", [b"", b"1 qid:9 03:1\n"])
def test_labels_go_up_to_the_data_sets_largest(odd: bytes) -> None:
    """With and without a line that sends the chunk past the kernel."""
    two, one = (read_lists(io.BytesIO(REGULAR + odd), 3, "toy.txt", largest_label=label) for label in (2, 1))
    assert pa.concat_tables(two).equals(read(REGULAR + odd))
    with pytest.raises(DataError, match=r"^toy\.txt, line 1: found '2', expected a label: a whole number 0 \.\. 1$"):
        list(one)


@pytest.mark.parametrize("chunk_bytes", [CHUNK_BYTES, 30])
def test_rows_of_a_query_must_be_there_and_stand_together(chunk_bytes: int) -> None:
    """In all files that share what was seen."""
    with pytest.raises(DataError, match=r"toy\.txt, line 4: query 10 occurs again after other queries.*sort"):
        read(REGULAR + b"0 qid:10 1:0\n", chunk_bytes=chunk_bytes)
    with pytest.raises(DataError, match=r"toy\.txt: there are no lines in it"):
        read(b"\n\n# only this\n", chunk_bytes=chunk_bytes)
    seen: set[str] = set()
    list(read_lists(io.BytesIO(REGULAR), 3, "one.txt", chunk_bytes, seen))
    with pytest.raises(DataError, match=r"two\.txt, line 1: query 10 occurs again"):
        list(read_lists(io.BytesIO(REGULAR), 3, "two.txt", chunk_bytes, seen))


READ: dict[str, list[Any]] = problems("letor text of other tools") | {
    "queries above 2^53": [
        f"1 qid:{2**53 + 1} 1:1\n0 qid:{2**53 + 2} 1:2\n2 qid:{2**70}\n",
        *([str(2**53 + 1), str(2**53 + 2), str(2**70)], [1, 0, 2], "int8", ["1"], [[1], [2], [0]]),
    ]
}
"""Texts by name, with their topics, labels, type of labels, names of features, and features."""


@pytest.mark.parametrize("with_kernel", [False, pytest.param(True, marks=needs_kernel)])
@pytest.mark.parametrize("case", READ)
def test_files_as_others_write_them(
    case: str, with_kernel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, packed, with the sizes of queries beside the lines, and as judgements."""
    monkeypatch.setattr(letor, "worth_a_kernel", lambda bytes_read: with_kernel)
    text, *expected = READ[case]
    (tmp_path / "lists.txt").write_text(text)
    rb.pack_lists(tmp_path / "lists.txt", tmp_path / "lists.arrow")
    for path in (tmp_path / "lists.txt", tmp_path / "lists.arrow"):
        lists = rb.read_lists(path)
        found = (lists.topics, lists.relevance.tolist(), str(lists.relevance.dtype), lists.feature_names)
        assert [*map(list, found[:2]), *found[2:], lists.features.tolist()] == expected
    qrels = rb.read_qrels(tmp_path / "lists.txt")
    assert (list(qrels.items), qrels.relevance.tolist()) == (list(lists.items), expected[1])
    chosen = rb.read_lists(tmp_path / "lists.txt", features=["0", "5", "1"])
    assert chosen.features.shape[1] == 3
    assert not chosen.features[:, 1].any()


def test_sparse_features_by_the_hundred_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lists").write_text(
        "".join(f"{row % 2} qid:{row // 4} {row + 1}:1 100000:{row}\n" for row in range(12))
    )
    lists = rb.read_lists(tmp_path / "lists")
    assert (lists.features.shape, lists.features.sum()) == ((12, 100_000), 12 + 66)
    monkeypatch.setattr(letor, "memory_bytes", lambda: 2**20)
    with pytest.raises(DataError, match=r"12 lines of 100000 features take .* zeros included.*rankbound pack"):
        rb.read_lists(tmp_path / "lists")


@pytest.mark.long
def test_memory_follows_the_chunk_and_not_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    # Loading the kernel takes memory once.
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    pairs = b" ".join(b"%d:0.123456" % index for index in range(1, 47))

    class Endless(io.RawIOBase):
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


WIDTH = 5
LAYOUT = letor.Layout(letor.Extent(WIDTH))
values = st.one_of(st.integers(-9, 9), st.floats(-1e6, 1e6, width=32), st.floats(-1e-9, 1e-9))
rows = st.tuples(st.integers(0, 4), st.dictionaries(st.integers(1, WIDTH), values), st.sampled_from(["", "#docid = A"]))
queries = st.lists(st.lists(rows, min_size=1, max_size=4), min_size=1, max_size=6)


def text_of(lists: list[list[tuple[int, dict[int, float], str]]]) -> str:
    return "".join(
        f"{label} qid:{query} {' '.join(f'{key}:{pairs[key]!r}' for key in sorted(pairs))} {comment}\n"
        for query, one in enumerate(lists)
        for label, pairs, comment in one
    )


# Bits of lines, and lines of tokens, so that malformed ones come near to well-formed ones.
bits = st.sampled_from(
    ["0", "1", "2", " ", "  ", "\t", ":", "1:", "2:", "qid:", " qid:1", " 1:0.5", " 2:1", "#", "\n", "\r\n", "-", ".",
     "e", "x", "nan", "\0", "\n1 qid:2 1:3", "\n0 qid:1"]
)  # fmt: skip
ODD_NUMBERS = """1e39 3.4028235e38 -3.4028236e38 1e-46 -0 +1 007 1e5 .5 5. 0x1 1_0 nan inf -Infinity 1e999 --1 1,5
\u0663 9007199254740992 9007199254740993"""
decimals = st.from_regex(r"[-+]?[0-9]{0,8}\.?[0-9]{0,12}([eE][-+]?[0-9]{1,2})?", fullmatch=True)
numbers = st.integers(-3, 130).map(str) | st.floats().map(repr) | st.sampled_from(ODD_NUMBERS.split()) | decimals
pairs = st.tuples(st.integers(0, WIDTH + 1) | numbers, numbers).map("{0[0]}:{0[1]}".format) | numbers
comments = st.sampled_from(
    ["", "#", "# docid = A", "#docid = B c", "#docid =", "# docid=é", "#docid = \udcff", "# x # docid = y"]
)
spaces = st.sampled_from([" ", " ", " ", "  ", "\t", " \r", "\x0b", "\x0c"])
lines = st.tuples(
    spaces, numbers, st.integers(0, 4).map("qid:{}".format) | numbers, st.lists(pairs, max_size=6), comments
).map(lambda parts: parts[0].join([*parts[1:3], *parts[3], parts[4]]))
texts = st.one_of(
    queries.map(text_of),
    st.lists(bits, max_size=14).map("".join),
    st.builds(str.join, st.sampled_from(["\n", "\r\n", "\n\n"]), st.lists(lines, max_size=6)),
).map(lambda text: text.encode("utf-8", "surrogateescape"))


@settings(max_examples=5 * settings.default.max_examples)
@given(texts, damages(st.binary(max_size=3), places=400, removed=3, least=0), st.integers(1, 300))
@example(b"1 qid:1 1:1e39", [], 100)
@example(b"1 qid:1 1:-0\n1 qid:1 2:-0.0", [], 100)
@example(b"0 qid:1 1:1e-400 2:4e-46", [], 100)
@example(b"\xef\xbb\xbf0 qid:1", [], 100)
@example(b"1.0 qid:1\n2. qid:1\n.0 qid:1", [], 100)
@example(b"1.5 qid:1", [], 100)
@example(b"1.0 qid:1.0", [], 100)
def test_any_text_is_read_as_line_by_line_or_refused_whatever_the_chunks_and_with_the_kernel_as_without(
    text: bytes, damage: Damages, size: int
) -> None:
    text = damaged(text, damage)

    def attempt(chunk_bytes: int, with_kernel: bool) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor, "worth_a_kernel", lambda bytes_read: with_kernel)
            try:
                return read(text, WIDTH, chunk_bytes).to_pylist()
            except DataError as error:
                return str(error)

    found = attempt(10_000, with_kernel=False)
    try:
        # By their texts, 0 is not -0.
        assert repr(found) == repr(plain_letor.read(text, WIDTH))
    except plain_letor.Refused:
        assert re.match(r"toy\.txt(, line \d+)?: ", str(found))
    assert repr(attempt(size, with_kernel=False)) == repr(found)
    if usable():
        assert repr(attempt(size, with_kernel=True)) == repr(found)


@needs_kernel
@given(queries.map(text_of), st.lists(bits, max_size=4).map("".join), st.integers(1, 90), st.sampled_from(["1", "3"]))
def test_files_read_whole_by_kernels_in_threads_are_those_read_line_by_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, last: str, size: int, threads: str
) -> None:
    """Lists or error, to the last bit, with irregular ends as well."""
    path = tmp_path_factory.mktemp("letor") / "toy.txt"
    path.write_bytes((text + last).encode())
    taken, whole = list[object](), letor._read_regular

    def read_regular(*arguments: Any) -> Any:
        taken.append(whole(*arguments))
        return taken[-1]

    def attempt(with_kernel: bool) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OMP_NUM_THREADS", threads)
            patch.setattr(letor, "CHUNK_BYTES", size)
            patch.setattr(letor, "worth_a_kernel", lambda bytes_read: with_kernel)
            patch.setattr(letor, "_read_regular", read_regular)
            try:
                lists = letor.read_letor(path)
            except DataError as error:
                return str(error)
            arrays = lists.relevance, lists.offsets, lists.features
            return [
                list(lists.topics),
                list(lists.items),
                lists.feature_names,
                *((own.dtype, own.tobytes()) for own in arrays),
            ]

    assert attempt(with_kernel=True) == attempt(with_kernel=False)
    assert len(taken) <= 1


@needs_kernel
def test_a_regular_file_takes_the_short_way_and_a_query_that_occurs_again_the_long_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letor, "worth_a_kernel", lambda bytes_read: True)
    for name, text in (("regular.txt", REGULAR), ("again.txt", REGULAR + REGULAR)):
        (tmp_path / name).write_bytes(text)
    assert letor._read_regular(io.BytesIO(REGULAR), letor.Extent(3, lines=3), [letor.Chunk(len(REGULAR), 3, 3, False)])
    with pytest.raises(DataError, match=r"again\.txt, line 4: query 10 occurs again after other queries"):
        letor.read_letor(tmp_path / "again.txt")
    monkeypatch.setattr(letor, "read_lists", None)
    assert letor.read_letor(tmp_path / "regular.txt").topics == ["10", "7"]


@needs_kernel
@given(st.lists(bits | decimals.map("3:{}".format), max_size=12).map("".join) | lines, st.integers(1, 10**12))
def test_the_kernel_gives_what_the_careful_parser_gives_or_leaves_it_to_it(text: str, first: int) -> None:
    """To the last bit, as Python rounds decimal numbers."""
    lines = bytearray(text.encode("utf-8", "surrogateescape") + b"\n")
    rows = letor.parse_by_kernel(lines, first, LAYOUT)
    assert rows is None or rows.equals(letor.parse_lines(lines, first, LAYOUT, "toy.txt"))


@needs_kernel
@pytest.mark.parametrize(
    "value", ["0.5", "-0", "+1.25e-3", "123456.789012345", ".5", "5.", "1E22", "340282346638528e22"]
)
def test_the_kernel_reads_usual_numbers(value: str) -> None:
    text = f"\n# only a comment\n2 qid:10\t1:{value}  3:7 #docid = GX00 inc = 1\r\n0 qid:10\n"
    rows = letor.parse_by_kernel(bytearray(text.encode()), 8, LAYOUT)
    assert (rows["items"].to_pylist(), rows["number"].to_pylist()) == (["GX00", "10-11"], [10, 11])
    assert rows["features"][0].as_py() == [float(np.float32(float(value))), 0, 7, 0, 0]


# Text without query ids, beside the sizes of its queries, as LightGBM reads it

TEXT = b"2 1:0.5 3:1\n\n0 2:0.25 # a note\n1\n0 1:1\n"


def test_the_short_way_from_lightgbms_files_whose_lines_get_ids(tmp_path: Path, program: Program) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(2, 9, 40)
    rows = random.random((int(sizes.sum()), 3))
    lines = [f"{int(row[0] > 0.6)} " + " ".join(f"{k}:{v:.4f}" for k, v in enumerate(row, start=1)) for row in rows]
    train, groups, model, run = (tmp_path / name for name in ("rank.train", "rank.train.query", "m.safetensors", "run"))
    train.write_text("\n".join(lines) + "\n")
    groups.write_text("".join(f"{size}\n" for size in sizes))
    program(f"train {train} --groups {groups} --epochs 20 --out {model}")
    program(f"score {model} {train} --groups {groups} --out {run}")
    program(f"pack {train} --groups {groups} {tmp_path}/lists.arrow")
    shown = program(f"evaluate {run} {train} --groups {groups} -m P@1")
    assert " 40 " in shown
    assert program(f"evaluate {run} {tmp_path}/lists.arrow -m P@1") == shown
    lines = with_query_ids(io.BytesIO(TEXT), [3, 1], "rank.train").read().split(b"\n")
    ids = [b"2 qid:1 1:0.5 3:1", b"", b"0 qid:1 2:0.25", b"1 qid:1", b"0 qid:2 1:1", b""]
    assert [line.split(b"#")[0].split() for line in lines] == [line.split() for line in ids]
