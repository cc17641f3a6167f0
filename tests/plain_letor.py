"""LETOR text read one line at a time, written from the format's description alone: what the library is checked against.

Nothing here comes from rankbound.
"""

import math
import re
import struct
from contextlib import suppress
from typing import Any


class Refused(Exception):
    """A line, or a text without any, is not that of a LETOR file."""


def read(text: bytes, width: int) -> list[dict[str, Any]]:
    """Return the queries with their items, labels and `width` features."""
    lists: list[dict[str, Any]] = []
    for number, line in enumerate(text.split(b"\n"), start=1):
        body, _, comment = line.partition(b"#")
        if not (tokens := body.split()):
            continue
        if len(tokens) < 2 or not tokens[1].startswith(b"qid:"):
            raise Refused
        # 2.0 is a whole label, as of labels that were once floats.
        label = whole(re.sub(rb"(?<=[0-9])\.0*$", b"", tokens[0]), 0, 127)
        query, row, before = name_of_query(tokens[1][4:]), [0.0] * width, 0
        for key, colon, value in (pair.partition(b":") for pair in tokens[2:]):
            if not colon:
                raise Refused
            before = whole(key, before + 1, width)
            row[before - 1] = single(value)
        named = re.search(rb"docid\s*=\s*(\S+)", comment)
        name = named[1].decode("utf-8", "replace") if named else f"{query}-{number}"
        if not lists or lists[-1]["topic"] != query:
            if query in [one["topic"] for one in lists]:
                raise Refused
            lists.append({"topic": query, "items": [], "relevance": [], "features": []})
        for column, entry in {"items": name, "relevance": label, "features": row}.items():
            lists[-1][column].append(entry)
    if not lists:
        raise Refused
    return lists


def whole(token: bytes, smallest: int, largest: int) -> int:
    if not re.fullmatch(rb"[0-9]+", token) or not smallest <= int(token) <= largest:
        raise Refused
    return int(token)


def name_of_query(token: bytes) -> str:
    """Return a number without leading zeros, or a name in UTF-8."""
    with suppress(UnicodeDecodeError):
        if 0 < len(token) <= 1000:
            return str(int(token)) if token.isdigit() else token.decode()
    raise Refused


def single(token: bytes) -> float:
    try:
        if b"_" in token or not math.isfinite(float(token)):
            raise Refused
        value: float = struct.unpack("<f", struct.pack("<f", float(token)))[0]
    except (ValueError, OverflowError):
        raise Refused from None
    return value
