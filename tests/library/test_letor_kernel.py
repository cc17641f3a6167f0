"""The compiled parser of LETOR text against the one that it stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbound.errors import DataError
from rankbound.io import letor, letor_compiled, letor_lines
from rankbound.io.letor_lines import Chunk
from rankbound.kernels import usable
from tests.library.test_letor_properties import WIDTH, bits, read

pytestmark = pytest.mark.skipif(not usable(), reason="needs Numba, and a home folder for compiled code")


decimals = st.from_regex(r"[-+]?[0-9]{0,8}\.?[0-9]{0,12}([eE][-+]?[0-9]{1,2})?", fullmatch=True)
bodies_of_lines = st.lists(bits | decimals.map("3:{}".format), max_size=12).map("".join)


@given(bodies_of_lines, st.integers(1, 10**12))
def test_the_kernel_gives_what_the_careful_parser_gives_or_leaves_it_to_it(text: str, first: int) -> None:
    chunk = Chunk(text.encode() + b"\n", first)
    rows = letor_compiled.parse(chunk, WIDTH, letor_lines.LARGEST_LABEL)
    if rows is not None:
        assert as_lists(rows) == as_lists(letor_lines.parse(chunk, WIDTH, "toy.txt", letor_lines.LARGEST_LABEL))


@given(st.lists(decimals, min_size=1, max_size=WIDTH))
def test_the_kernel_rounds_decimal_numbers_as_python_does(texts: list[str]) -> None:
    pairs = " ".join(f"{place}:{text}" for place, text in enumerate(texts, start=1))
    rows = letor_compiled.parse(Chunk(f"1 qid:7 {pairs}\n".encode(), 1), WIDTH, letor_lines.LARGEST_LABEL)
    if rows is not None:
        expected = np.zeros((1, WIDTH), np.float32)
        expected[0, : len(texts)] = [float(text) for text in texts]
        assert rows.features.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "value", ["0.5", "-0", "+1.25e-3", "123456.789012345", ".5", "5.", "1E22", "340282346638528e22"]
)
def test_the_kernel_reads_usual_numbers(value: str) -> None:
    chunk = Chunk(f"\n# only a comment\n2 qid:10\t1:{value}  3:7 #docid = GX00 inc = 1\r\n0 qid:10\n".encode(), 8)
    rows = letor_compiled.parse(chunk, WIDTH, letor_lines.LARGEST_LABEL)
    assert rows is not None
    assert (rows.names.to_pylist(), rows.number.tolist()) == (["GX00", "10-11"], [10, 11])
    assert rows.features[0].tolist() == [float(np.float32(float(value))), 0, 7, 0, 0]


@given(st.lists(bits, max_size=14).map("".join), st.integers(1, 20))
def test_any_text_is_read_or_refused_with_the_kernel_as_without(text: str, chunk_bytes: int) -> None:
    def attempt(with_kernel: bool) -> object:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(letor, "worth_a_kernel", lambda bytes_read: with_kernel)
            try:
                return read(text.encode(), chunk_bytes).to_pylist()
            except DataError as error:
                return str(error)

    assert attempt(with_kernel=True) == attempt(with_kernel=False)


def as_lists(rows: letor_lines.Rows) -> list[list[object]]:
    return [
        rows.label.tolist(),
        rows.query.tolist(),
        rows.features.tolist(),
        rows.names.to_pylist(),
        rows.number.tolist(),
    ]
