"""Numbers between NumPy and Arrow: the same values, the same memory."""

import numpy as np
import pyarrow as pa
import pytest

from rankbound_study.data.contracts import strings_to_arrow, to_arrow, to_numpy


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "float32", "float64"])
def test_there_and_back_shares_memory(kind: str) -> None:
    values = np.arange(5).astype(kind)
    array = to_arrow(values)
    array.validate(full=True)
    assert array.type == pa.from_numpy_dtype(values.dtype)
    assert array.to_pylist() == values.tolist()
    assert np.shares_memory(to_numpy(array), values)


def test_slices_and_chunks_keep_their_place() -> None:
    array = pa.array([1, 2, 3, 4], pa.int16())
    assert to_numpy(array.slice(1, 2)).tolist() == [2, 3]
    assert to_numpy(pa.chunked_array([array, array.slice(2)])).tolist() == [1, 2, 3, 4, 3, 4]
    assert to_numpy(pa.chunked_array([], pa.int16())).dtype == np.int16
    assert to_numpy(array.slice(4)).tolist() == []


def test_strided_values_are_copied_in_order() -> None:
    assert to_arrow(np.arange(6)[::2]).to_pylist() == [0, 2, 4]


@pytest.mark.parametrize("texts", [[], ["a"], ["", "zwölf", "x" * 300, ""]])
def test_texts_are_arrow_strings(texts: list[str]) -> None:
    array = strings_to_arrow(texts)
    array.validate(full=True)
    assert array.equals(pa.array(texts, pa.string()))


def test_nulls_are_refused() -> None:
    with pytest.raises(ValueError, match="found 1 nulls"):
        to_numpy(pa.array([1, None]))
