"""Parse LETOR lines one by one: slow, accepts whatever is unambiguous, and names the token that is not."""

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError

LARGEST_LABEL = 127
LARGEST_EXACT = 2**53
"""The largest query id: as doubles, ids are exact up to here."""

LARGEST_FLOAT = float(np.finfo(np.float32).max)
"""The largest feature value: anything larger is infinite in float32."""

_WHOLE_LABEL = re.compile(rb"^(\d+)\.0*$")
"""A label with a decimal point that is a whole number, as in `1.0 qid:3`."""

_DOCUMENT_NAME = re.compile(rb"docid\s*=\s*(\S+)")
_SHOWN_CHARACTERS = 40
_LONGEST_NUMBER = 1000


@dataclass(frozen=True)
class Chunk:
    """Whole lines of a file; `first` is the number of the first one."""

    text: bytes
    first: int

    @cached_property
    def n_lines(self) -> int:
        """The number of lines, blank ones included."""
        return int(np.count_nonzero(np.frombuffer(self.text, np.uint8) == ord("\n")))


@dataclass(frozen=True)
class Rows:
    """Parsed lines: label, query id, features, item names, line numbers."""

    label: npt.NDArray[np.int8]
    query: npt.NDArray[np.int64]
    features: npt.NDArray[np.float32]
    names: pa.StringArray
    number: npt.NDArray[np.int64]

    def part(self, start: int, stop: int) -> "Rows":
        """Return the rows start .. stop - 1."""
        chosen = slice(start, stop)
        return Rows(
            self.label[chosen],
            self.query[chosen],
            self.features[chosen],
            self.names[chosen],
            self.number[chosen],
        )

    def followed_by(self, other: "Rows") -> "Rows":
        """Return these rows followed by those of `other`."""
        return Rows(
            np.concatenate((self.label, other.label)),
            np.concatenate((self.query, other.query)),
            np.concatenate((self.features, other.features)),
            pa.concat_arrays([self.names, other.names]),
            np.concatenate((self.number, other.number)),
        )


def parse(chunk: Chunk, width: int, where: str, largest_label: int = LARGEST_LABEL) -> Rows:
    """Return the rows of whole lines; DataError names line number and token of a malformed one."""
    numbers, label, query, names = list[int](), list[int](), list[int](), list[str]()
    features = np.zeros((chunk.n_lines, width), np.float32)
    for number, line in enumerate(chunk.text.split(b"\n"), start=chunk.first):
        body, _, comment = line.partition(b"#")
        tokens = body.split()
        if not tokens:
            continue
        try:
            label.append(_whole(_WHOLE_LABEL.sub(rb"\1", tokens[0]), "a label", 0, largest_label))
            query.append(_query(tokens))
            _fill(features[len(numbers)], tokens[2:], width)
        except _Malformed as error:
            raise DataError(f"{where}, line {number}: {error}") from error
        name = _DOCUMENT_NAME.search(comment)
        names.append(name[1].decode("utf-8", "replace") if name else f"{query[-1]}-{number}")
        numbers.append(number)
    return Rows(
        label=np.array(label, np.int8),
        query=np.array(query, np.int64),
        features=features[: len(numbers)],
        names=pa.array(names, pa.string()),
        number=np.array(numbers, np.int64),
    )


class _Malformed(Exception):
    def __init__(self, token: bytes, expected: str) -> None:
        super().__init__(f"found {_shown(token)}, expected {expected}")


def _shown(token: bytes) -> str:
    return repr(token[:_SHOWN_CHARACTERS])[1:]


def _query(tokens: list[bytes]) -> int:
    if len(tokens) < 2:
        raise _Malformed(tokens[0], "`label qid:ID index:value ...`, but the line ends there")
    key, colon, value = tokens[1].partition(b":")
    if key != b"qid" or not colon:
        expected = (
            "`qid:` and the query's number as the second token, or a file with the sizes of the queries beside it"
        )
        raise _Malformed(tokens[1], f"{expected} (groups)")
    return _whole(value, "the query's number after `qid:`", 0, LARGEST_EXACT)


def _fill(features: npt.NDArray[np.float32], pairs: list[bytes], width: int) -> None:
    row, previous = dict[int, float](), 0
    for pair in pairs:
        key, _, value = pair.partition(b":")
        try:
            index, number = int(key), float(value)
            # Only Python reads `+1` as an index, and `1_000` as a number.
            is_regular = key.isdigit() and previous < index <= width and b"_" not in value
        except ValueError:
            is_regular = False
        if not (is_regular and abs(number) <= LARGEST_FLOAT):
            raise _malformed_pair(pair, previous, width)
        row[index - 1], previous = number, index
    # All at once: writing one number into an array takes as long as parsing two.
    features[list(row)] = list(row.values())


def _malformed_pair(pair: bytes, previous: int, width: int) -> _Malformed:
    key, colon, _ = pair.partition(b":")
    if not colon:
        return _Malformed(pair, "a pair `index:value`")
    if _whole(key, f"a feature index before the colon of {_shown(pair)}", 1, width) <= previous:
        return _Malformed(pair, f"a feature index above {previous}, the one before it")
    return _Malformed(pair, f"a finite number after the colon, at most {LARGEST_FLOAT:.4g} in magnitude")


def _whole(token: bytes, what: str, smallest: int, largest: int) -> int:
    expected = f"{what}: a whole number {smallest} .. {largest}"
    # Python parses no more than some thousand digits.
    if not token.isdigit() or len(token) > _LONGEST_NUMBER or not smallest <= int(token) <= largest:
        raise _Malformed(token, expected)
    return int(token)
