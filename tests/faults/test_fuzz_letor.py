"""The LETOR reader against a plain one of thirty lines: the same values, or the same refusal, for any bytes."""

import io
import math
import os
import re
import string
import struct
import warnings
from contextlib import suppress

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound.io.letor import read_lists

WIDTH = 5
EXAMPLES = int(os.environ.get("RANKBOUND_FUZZ", "300"))

SPACE = string.whitespace.encode()
Items = list[tuple[str, list[str], list[int], list[list[float]]]]


class Refused(Exception):
    """Return the number of the line that the plain reader refuses."""


def plain_reader(text: bytes) -> Items:
    """Slow, one line at a time, written from the format's description alone."""
    lists: Items = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        body, _, comment = line.partition(b"#")
        tokens = body.split()
        if not tokens:
            continue
        row = [0.0] * WIDTH
        if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
            raise Refused(number)
        # 2.0 is a whole label, as of labels that were once floats.
        label = whole(re.sub(rb"(?<=[0-9])\.0*$", b"", tokens[0]), 0, 127, number)
        query = name_of_query(tokens[1][4:], number)
        before = 0
        for pair in tokens[2:]:
            key, colon, value = pair.partition(b":")
            if not colon:
                raise Refused(number)
            index = whole(key, before + 1, WIDTH, number)
            row[index - 1], before = single(value, number), index
        named = re.search(rb"docid\s*=\s*(\S+)", comment)
        name = named[1].decode("utf-8", "replace") if named else f"{query}-{number}"
        if not lists or lists[-1][0] != query:
            if query in {topic for topic, *_ in lists}:
                raise Refused(number)
            lists.append((query, [], [], []))
        for column, entry in zip(lists[-1][1:], (name, label, row), strict=True):
            column.append(entry)  # type: ignore[arg-type]
    if not lists:
        raise Refused(0)
    return lists


def whole(token: bytes, smallest: int, largest: int, line: int) -> int:
    if not re.fullmatch(rb"[0-9]+", token) or not smallest <= int(token) <= largest:
        raise Refused(line)
    return int(token)


def name_of_query(token: bytes, line: int) -> str:
    """A number without leading zeros, or a name in UTF-8."""
    with suppress(UnicodeDecodeError):
        if 0 < len(token) <= 1000:
            return str(int(token)) if token.isdigit() else token.decode()
    raise Refused(line)


def single(token: bytes, line: int) -> float:
    try:
        if b"_" in token or not math.isfinite(float(token)):
            raise Refused(line)
        value: float = struct.unpack("<f", struct.pack("<f", float(token)))[0]
    except (ValueError, OverflowError):
        raise Refused(line) from None
    return value


def attempt(text: bytes, chunk_bytes: int) -> Items | int:
    """Return the reader's result, or the number of the line that it refuses (0: no particular one)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tables = list(read_lists(io.BytesIO(text), WIDTH, "fuzz.txt", chunk_bytes))
    except DataError as error:
        told = str(error)
    else:
        rows = [row for table in tables for row in table.to_pylist()]
        return [(row["topic"], row["items"], row["relevance"], row["features"]) for row in rows]
    said = re.match(r"fuzz\.txt(?:, line (\d+))?: ", told)
    assert said, told
    return int(said[1] or 0)


def compare(text: bytes, chunk_bytes: int) -> None:
    wanted: Items | int
    try:
        wanted = plain_reader(text)
    except Refused as refused:
        wanted = int(refused.args[0])
    found = attempt(text, chunk_bytes)
    if isinstance(found, int) or isinstance(wanted, int):
        # Chunks are checked one after the other: of two wrong lines either may be told.
        assert isinstance(found, int), f"read what should be refused in line {wanted}"
        assert isinstance(wanted, int), f"refused line {found} of what is well-formed"
        return
    # As bits: -0.0 is not 0.0 here.
    bits = [[(*row[:3], np.array(row[3], np.float32).tobytes()) for row in lists] for lists in (found, wanted)]
    assert bits[0] == bits[1]


number = st.one_of(
    st.integers(-3, 130).map(str),
    st.floats(width=64).map(repr),
    st.floats(width=32).map(str),
    st.sampled_from(
        ["1e39", "3.4028235e38", "-3.4028236e38", "1e-46", "-0", "+1", "007", "1e5", ".5", "5.", "0x1", "1_0"]
    ),
    st.sampled_from(
        ["nan", "inf", "-Infinity", "1e999", "9007199254740992", "9007199254740993", "٣", "1,5", "", "--1"]
    ),
)
pair = st.one_of(
    st.tuples(st.integers(0, WIDTH + 1), number).map(lambda both: f"{both[0]}:{both[1]}"),
    st.tuples(number, number).map(":".join),
    number,
)
comment = st.sampled_from(
    ["", "#", "# docid = A", "#docid = B c", "#docid =", "# docid=é", "#docid = \udcff", "# x # docid = y"]
)
space = st.sampled_from([" ", " ", " ", "  ", "\t", " \r", "\x0b", "\x0c"])
line = st.tuples(
    number, space, st.integers(0, 4).map("qid:{}".format) | number, st.lists(pair, max_size=6), space, comment
)
lines = st.lists(
    line.map(lambda part: part[0] + part[1] + part[2] + part[4] + part[4].join(part[3]) + part[5]), max_size=6
)
regular = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.dictionaries(st.integers(1, WIDTH), st.floats(-9, 9))),
    max_size=8,
).map(
    lambda rows: [
        " ".join([str(label), f"qid:{query}", *(f"{key}:{pairs[key]!r}" for key in sorted(pairs))])
        for label, query, pairs in rows
    ]
)
ends = st.sampled_from(["\n", "\r\n", "\n\n"])


def joined(parts: tuple[list[str], str, bool]) -> bytes:
    text = parts[1].join(parts[0]) + (parts[1] if parts[2] else "")
    return text.encode("utf-8", "surrogateescape")


@settings(max_examples=EXAMPLES)
@given(st.tuples(lines | regular, ends, st.booleans()).map(joined), st.integers(1, 300))
@example(b"1 qid:1 1:1e39", 100)
@example(b"1 qid:1 1:-0\n1 qid:1 2:-0.0", 100)
@example(b"0 qid:1 1:1e-400 2:4e-46", 100)
@example(b"\xef\xbb\xbf0 qid:1", 100)
@example(b"1.0 qid:1\n2. qid:1\n.0 qid:1", 100)
@example(b"1.5 qid:1", 100)
@example(b"1.0 qid:1.0", 100)
def test_lines_that_are_nearly_right_are_read_as_the_plain_reader_does(text: bytes, chunk_bytes: int) -> None:
    compare(text, chunk_bytes)


@settings(max_examples=EXAMPLES)
@given(
    st.tuples(regular, ends, st.booleans()).map(joined),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4),
    st.integers(1, 300),
)
def test_damaged_text_is_read_as_the_plain_reader_does(
    text: bytes, damage: list[tuple[int, int, bytes]], chunk_bytes: int
) -> None:
    for place, removed, put in damage:
        start = place % (len(text) + 1)
        text = text[:start] + put + text[start + removed :]
    compare(text, chunk_bytes)
