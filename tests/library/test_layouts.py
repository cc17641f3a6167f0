"""Lists as people hold them, one value whichever way: in layouts, and in arrays of other libraries and devices.

Flat, padded, one list, one sequence a list, groups and ids; and the same numbers, without a copy where memory allows.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import rankbound as rb
from rankbound import smooth_ranks
from rankbound.bounds import orders, sums
from rankbound.columns import column_tensor, from_list_column
from rankbound.lists import Lists, as_tensor
from rankbound.metrics import cumulative_gain
from rankbound.metrics.base import values_of
from tests.library.refusals import refusals

SCORES = [[0.3, 0.1, 0.2], [0.9, 0.4], [0.5]]
GRADES = [[0, 1, 0], [1, 0], [1]]
MASK = [[True, True, True], [True, True, False], [True, False, False]]
FLAT = torch.tensor([0.3, 0.1, 0.2, 0.9, 0.4, 0.5]), torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 3, 5, 6])


def padded(rows: list[list[Any]], fill: float) -> torch.Tensor:
    return torch.tensor([[*row, *[fill] * (3 - len(row))] for row in rows])


def jagged(rows: list[list[Any]]) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


PADDED = padded(SCORES, float("nan")), padded(GRADES, -9)
FORMS: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "flat": lambda: (FLAT, {}),
    "mask": lambda: (PADDED, {"mask": torch.tensor(MASK)}),
    "mask of arrays": lambda: ([one.numpy() for one in PADDED], {"mask": np.array(MASK)}),
    "mask in Python": lambda: (PADDED, {"mask": MASK}),
    "lengths": lambda: (PADDED, {"lengths": torch.tensor([3, 2, 1])}),
    "lengths in Python": lambda: (PADDED, {"lengths": [3, 2, 1]}),
    "jagged": lambda: (tuple(map(jagged, (SCORES, GRADES))), {}),
    "ragged tensors": lambda: (([torch.tensor(row) for row in rows] for rows in (SCORES, GRADES)), {}),
    "ragged lists": lambda: ((SCORES, GRADES), {}),
    "object arrays": lambda: ((np.array([np.array(row) for row in rows], object) for rows in (SCORES, GRADES)), {}),
    "groups": lambda: ((*FLAT[:2], rb.Lists.from_groups([3, 2, 1]).offsets), {}),
    "ids": lambda: ((*FLAT[:2], rb.Lists.from_ids([7, 7, 7, 2, 2, 9]).offsets), {}),
    "ids as texts": lambda: ((*FLAT[:2], rb.Lists.from_ids(pd.Series(list("bbbaac"))).offsets), {}),
    "ids in polars": lambda: ((*FLAT[:2], rb.Lists.from_ids(pl.Series([1, 1, 1, 0, 0, 5])).offsets), {}),
    "ids in Arrow": lambda: ((*FLAT[:2], rb.Lists.from_ids(pa.array([1, 1, 1, 0, 0, 5])).offsets), {}),
    "ids as a tensor": lambda: ((*FLAT[:2], rb.Lists.from_ids(torch.tensor([1, 1, 1, 0, 0, 5])).offsets), {}),
    "lists for offsets": lambda: ((*FLAT[:2], rb.Lists.from_groups([3, 2, 1])), {}),
    "polars' lists": lambda: ((pl.Series(SCORES), pl.Series(GRADES)), {}),
    "Arrow's lists": lambda: ((pa.array(SCORES), pa.array(GRADES)), {}),
    "Arrow's lists in chunks": lambda: ((pa.chunked_array([[row] for row in rows]) for rows in (SCORES, GRADES)), {}),
    "pandas' lists": lambda: ((pd.Series(rows, index=[4, 9, 2]) for rows in (SCORES, GRADES)), {}),
    "lists of Arrow in pandas": lambda: (
        (pl.Series(rows).to_pandas(use_pyarrow_extension_array=True) for rows in (SCORES, GRADES)),
        {},
    ),
    "pandas of other types": lambda: (
        (
            pd.Series(FLAT[0].numpy(), index=[*range(6, 0, -1)], dtype="Float64"),
            pd.Series(FLAT[1].numpy(), dtype="boolean"),
            [0, 3, 5, 6],
        ),
        {},
    ),
    "lists of mixed libraries": lambda: ((pl.Series(SCORES), GRADES), {}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("text", ["nDCG", "AP", "RR@2", "PairAccuracy"])
def test_metrics_and_bounds_have_one_value_in_every_layout(form: str, text: str) -> None:
    expected = rb.metric(text)(*FLAT)
    arguments, keywords = FORMS[form]()
    arguments = tuple(arguments)
    found = rb.metric(text)(*arguments, **keywords)
    assert isinstance(found, torch.Tensor) is isinstance(arguments[0], torch.Tensor)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    np.testing.assert_allclose(rb.evaluate(text, *arguments, **keywords)[text], expected, rtol=1e-7)
    bounded = rb.bounded(text, "expectation")
    np.testing.assert_allclose(bounded(*arguments, **keywords), bounded(*FLAT), rtol=1e-6)


@pytest.mark.parametrize("form", ["mask", "mask in Python", "lengths", "lengths in Python", "ragged tensors"])
@pytest.mark.parametrize("text", ["nDCG", "RankNet", "softmax", "hinge"])
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_and_their_gradients_are_those_of_flat_lists(form: str, text: str, weighted: bool) -> None:
    loss, factors = rb.loss(text), torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0])
    flat = FLAT[0].clone().requires_grad_()
    own = {"weights": factors, "list_weights": torch.tensor([1.0, 2.0, 3.0])} if weighted else {}
    expected = loss(flat, *FLAT[1:], **own)
    expected.sum().backward()
    arguments, keywords = FORMS[form]()
    scores, grades = arguments
    leaves = [one.clone().requires_grad_() for one in ([scores] if isinstance(scores, torch.Tensor) else scores)]
    if weighted:
        rows = list(torch.split(factors, [3, 2, 1]))
        own["weights"] = rows if form == "ragged tensors" else padded([row.tolist() for row in rows], 0)
    found = loss(leaves[0] if isinstance(scores, torch.Tensor) else leaves, grades, **keywords, **own)
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    items = torch.cat([leaf.grad for leaf in leaves]) if len(leaves) > 1 else leaves[0].grad  # type: ignore[misc]
    torch.testing.assert_close(items if items.dim() == 1 else items[torch.tensor(MASK)], flat.grad)


def test_one_list_needs_no_offsets_and_full_rows_no_mask() -> None:
    assert rb.metric("RR")([0.9, 0.5, 0.1], [0, 1, 0]).tolist() == [0.5]
    assert rb.evaluate("RR", torch.tensor([0.9, 0.5]), [0, 1])["RR"].tolist() == [0.5]
    assert rb.loss("squared")(torch.tensor([0.5, 1.0]), [0, 1]).tolist() == [0.125]
    assert rb.metric("RR")(np.array([[0.9, 0.5], [0.1, 0.2]]), np.array([[0, 1], [0, 1]])).tolist() == [0.5, 1.0]
    assert rb.metric("RR")(np.empty((0, 3)), np.empty((0, 3))).tolist() == []
    assert np.isnan(rb.metric("RR")([], [])).tolist() == [True]
    assert rb.Lists.from_ids([]).offsets.tolist() == [0]
    assert rb.metric("RR")(*COLUMN, lengths=[1, 1]).tolist()[0] == rb.metric("RR")([[0.5]], [[1]]).tolist()[0] == 1


COLUMN = torch.tensor([[0.5], [0.1]]), torch.tensor([[1], [0]])

test_two_layouts_at_once_are_refused = refusals(
    [
        (lambda: rb.metric("RR")(*FLAT, mask=MASK), "^mask: found beside offsets, expected one of them"),
        (lambda: rb.metric("RR")(*PADDED, mask=MASK, lengths=[3, 2, 1]), "^lengths: found beside mask"),
        (
            lambda: rb.metric("RR")(*FLAT[:2], mask=MASK),
            r"^mask: found beside scores of shape \(6,\), expected \(n_lists",
        ),
        (lambda: rb.metric("RR")(PADDED[0], FLAT[1], mask=MASK), r"^relevance: found shape \(6,\), expected \(3, 3\)"),
        (lambda: rb.metric("RR")(SCORES, GRADES[:2]), "^relevance: expected 3 lists, each as long as that of scores"),
        (lambda: rb.metric("RR")(SCORES, [0, 1, 0, 1, 0, 1]), "^relevance: expected 3 lists"),
        (lambda: rb.metric("RR")(*PADDED, mask=[[True]]), r"^mask: found torch.bool of shape \(1, 1\)"),
        (lambda: rb.metric("RR")(*PADDED, lengths=[4, 0, 0]), "^lengths: found 4, expected numbers from 0 to 3"),
        (lambda: rb.metric("RR")(*PADDED), "^scores: found nan at item 5"),
        (lambda: rb.metric("RR")(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3)), r"^scores: found shape \(1, 2, 3\)"),
        (lambda: rb.loss("RankNet")([0.1, 0.2], [0, 1]), "^scores: found list, expected a torch.Tensor"),
        (lambda: rb.loss("RankNet")(*FLAT, lengths=[6]), "^lengths: found beside offsets"),
        (
            lambda: rb.metric("RR")([[0.5], [0.1]], [[1], [0]]).tolist() + rb.metric("RR")(*COLUMN),
            r"^scores: found shape \(2, 1\), which may be one list or 2 lists of one item: pass one list flat",
        ),
        (lambda: rb.loss("RankNet")(*COLUMN), "^scores: found shape .*which may be one list or 2 lists"),
        (lambda: rb.metric("RR")(pl.Series(SCORES), pl.Series(GRADES[:2])), "^relevance: expected 3 lists"),
        (lambda: rb.metric("RR")([0.5, 0.7, 0.1], [1, 0, 1], [2, 1]), r"these are sizes of lists.*Lists\.of_sizes"),
        (lambda: rb.metric("RR")([0.5, 0.7, 0.1], [1, 0, 1], [4, 4, 7]), r"one per item.*Lists\.from_ids\(ids\)"),
        (lambda: rb.Lists.from_ids([1, 1, 2, 1]), r"^ids: found 1 again at item 3 after others.*numpy\.argsort\(ids"),
        (lambda: rb.Lists.from_ids([[1], [1]]), r"^ids: found shape \(2, 1\)"),
    ]
)


# Arrays of other libraries and on other devices
NUMBERS = [0.5, -1.0, 3.0]
DTYPES = [np.float32, np.float64, np.int8, np.int32, np.int64, np.uint8]


def _address(values: Any) -> int:
    start: int = values.buffers()[1].address + values.offset * values.type.bit_width // 8
    return start


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_copy_is_made(dtype: Any) -> None:
    array = np.arange(5).astype(dtype)
    arrow = pa.array(array)
    series = pl.Series(array)
    frame = pd.Series(array)
    for values, address in (
        (array, array.ctypes.data),
        (array[1:], array[1:].ctypes.data),
        (arrow, _address(arrow)),
        (arrow.slice(2, 2), _address(arrow.slice(2, 2))),
        (pa.chunked_array([arrow]), _address(arrow)),
        (series, series.to_numpy(allow_copy=False).ctypes.data),
        (frame, frame.to_numpy().ctypes.data),
    ):
        tensor = as_tensor(values, "scores")
        assert tensor.data_ptr() == address
        assert tensor.numpy().dtype == dtype
        assert tensor.tolist() == list(values if not hasattr(values, "to_pylist") else values.to_pylist())


# In single precision, these two scores would be a tie.
NEAR = [1.0, 1.0 + 1e-9]
COPIED: list[tuple[Any, list[Any], torch.dtype]] = [
    *(
        (values, NUMBERS, torch.float64)
        for values in (
            NUMBERS,
            np.array(NUMBERS[::-1])[::-1],
            np.array(NUMBERS * 2).reshape(2, 3).T[:, 0],
            pa.chunked_array([NUMBERS[:1], [], NUMBERS[1:]]),
            pl.concat([pl.Series(NUMBERS[:1]), pl.Series(NUMBERS[1:])], rechunk=False),
            pd.Series(NUMBERS, dtype="Float64"),
            pd.Series(NUMBERS, dtype="double[pyarrow]"),
            pd.Series(NUMBERS, index=[7, 3, 5]),
            memoryview(np.array(NUMBERS)),
        )
    ),
    *((values, NEAR, torch.float64) for values in (NEAR, tuple(NEAR), list(torch.tensor(NEAR, dtype=torch.float64)))),
    *((make([True, False]), [True, False], torch.bool) for make in (np.array, pa.array, pl.Series, pd.Series)),
    (pa.array([True, True, False])[1:], [True, False], torch.bool),
    (pl.Series([], dtype=pl.Float32), [], torch.float32),
    *(
        (values, [], torch.from_numpy(np.empty(0, kind.to_pandas_dtype())).dtype)
        for kind in (pa.float32(), pa.float64(), pa.int16())
        for values in (pa.array([], kind), pa.chunked_array([], kind), pa.array([None, 1], kind)[:0])
    ),
]


@pytest.mark.parametrize(("values", "numbers", "dtype"), COPIED)
def test_copies_have_the_same_numbers_and_types(values: Any, numbers: list[Any], dtype: torch.dtype) -> None:
    tensor = as_tensor(values, "scores")
    assert (tensor.tolist(), tensor.dtype) == (numbers, dtype)
    if numbers is NEAR:
        assert rb.metric("RR")(values, [0, 1], [0, 2]).tolist() == [1]


@pytest.mark.parametrize("make", [pl.DataFrame, pd.DataFrame])
def test_data_frames_are_matrices(make: Any) -> None:
    frame = make({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert column_tensor(frame, "features").tolist() == [[1, 3], [2, 4]]
    with pytest.raises(ValueError, match=r"^features: found 2 nulls"):
        column_tensor(make({"a": [1.0, None], "b": [None, 4.0]}), "features")


def test_anything_with_dlpack_is_taken() -> None:
    memory = torch.tensor(NUMBERS)
    elsewhere: Any = SimpleNamespace(__dlpack__=memory.__dlpack__, __dlpack_device__=memory.__dlpack_device__)
    assert as_tensor(elsewhere, "scores").data_ptr() == memory.data_ptr()


NULLS = [pa.array([1.0, None]), pa.chunked_array([[1], [None]]), pl.Series([1, None]), pd.Series([1.0, None])]
NULLS += [pd.Series([1, None], dtype="Int64"), np.ma.array([1.0, 2.0], mask=[False, True])]
NO_NUMBERS = [pa.array(["a"]), pl.Series(["a"]), pd.Series(["a"]), np.array(["a"]), ["a"], pa.array([[1]]), None]


test_what_is_no_column_of_numbers_is_refused_by_the_arguments_name = refusals(
    [
        *((values, "found 1 nulls, expected a number for every item") for values in NULLS),
        *((values, "found .*, expected numbers") for values in NO_NUMBERS),
        (np.array([1, 2**63 + 5], dtype=np.uint64), r"found 9223372036854775813, expected integers below 2\^63"),
        (pd.DataFrame({"a": [1.0], "b": [3.0]}), r"found shape \(1, 2\), expected a flat"),
    ],
    lambda values: as_tensor(values, "relevance"),
    start="^relevance: ",
)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("make", [np.array, pa.array, pl.Series, pd.Series, torch.from_numpy])
def test_metrics_and_losses_take_columns(make: Any, dtype: Any) -> None:
    scores = np.array([3, 1, 7, 7, 0], dtype)
    whole = np.int64 if dtype == np.float64 else dtype
    columns = [np.array(values, whole) for values in ([0, 2, 1, 0, 1], [0, 3, 5])]
    expected = rb.metric("nDCG")(scores.astype(np.float64), *(column.astype(np.int64) for column in columns))
    np.testing.assert_array_equal(rb.metric("nDCG")(make(scores), *map(make, columns)), expected)
    leaf, loss = torch.tensor([0.3, 0.1, 0.2, 0.5, 0.4]), rb.loss("nDCG", "min-max")
    assert torch.equal(loss(leaf, *map(make, columns)), loss(leaf, *(column.astype(np.int64) for column in columns)))


RAGGED = [[0.5, 1.5], [], [2.5], [3.5, 4.5, 5.5]]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(RAGGED),
        pa.array([[9.0], *RAGGED]).slice(1),
        pa.array(RAGGED, pa.large_list(pa.float64())),
        pa.chunked_array([pa.array(RAGGED)]),
        pa.chunked_array([pa.array(RAGGED[:1]), pa.array(RAGGED[1:])]),
        pl.Series(RAGGED),
        pd.Series(RAGGED, dtype=pd.ArrowDtype(pa.list_(pa.float64()))),
        pa.array([], pa.list_(pa.int64())),
        pl.Series([], dtype=pl.List(pl.Int64)),
    ],
    ids=lambda column: type(column).__name__,
)
def test_a_list_column_is_flat_values_and_offsets(column: Any) -> None:
    flat, offsets = from_list_column(column)
    assert flat.tolist() == [value for values in RAGGED[: len(column)] for value in values]
    assert offsets.tolist() == ([0, 2, 2, 3, 6] if len(column) else [0])
    Lists.checked(offsets, len(flat))


def test_a_list_column_is_not_copied_and_one_of_vectors_is_a_matrix() -> None:
    arrow = pa.array(RAGGED)
    flat, offsets = from_list_column(arrow)
    assert (flat.data_ptr(), offsets.data_ptr()) == (_address(arrow.values), _address(arrow.offsets))
    series = pl.Series(RAGGED)
    again = [from_list_column(series)[0].data_ptr() for _ in range(2)]
    assert again[0] == again[1]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6.0)), 2)
    column = pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), vectors)
    flat, offsets = from_list_column(column)
    assert flat.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert offsets.tolist() == [0, 1, 3]
    assert from_list_column(column.slice(1))[0].tolist() == [[2, 3], [4, 5]]


test_a_column_without_lists_of_numbers_is_refused = refusals(
    [
        *((make(one), "found 1 nulls") for make in (pa.array, pl.Series) for one in ([[1], None], [[1, None]])),
        *((column, "found .*expected") for column in (pa.array([1]), pl.Series([1]), [[1]], pa.array([["a"]]))),
    ],
    from_list_column,
    start="^column: ",
)


ARRAY, RELEVANCE, OFFSETS = np.array([0.5, 0.1, 0.5, 0.2, 0.7]), np.array([0, 1, 2, 1, 0]), np.array([0, 3, 5])
LEAF = torch.from_numpy(ARRAY)
RUN = {"q": {"a": 2.0, "b": 1.0, "c": 1.0}}
JUDGED = {"q": {"b": 1, "d": 1}}
BY_INTENT = {"q": {"1": {"a": 1, "b": 1}, "2": {"b": 1}}}
METRICS = ("nDCG@2", "AP", "RR", "ERR(max=2)", "RBP(p=0.8)", "Kendall", "infAP", "IPrec(recall=0.5)")
OF_RUNS = ("nDCG@2", "AP", "RR", "infAP", "IPrec(recall=0.5)", "SetF", "Judged@2", "Bpref")
LOSSES = (
    *("nDCG", "AP", "RR", "ordinal", "WARP", "WARP(samples=3)", "hinge", "RankNet(method=interpolated)", "ADR-MSE"),
    *("LambdaRank", "ListMLE", "ListNet@2"),
)
BOUNDS = ("min-max", "expectation", "distribution")


CASES: dict[str, Callable[[], Sequence[Any]]] = {
    "metrics": lambda: [rb.metric(name)(ARRAY, RELEVANCE, OFFSETS) for name in METRICS],
    "metrics of a list": lambda: [rb.metric(name)([0.2, 0.1], [0, 1], [0, 2]) for name in METRICS],
    "metrics by a kernel": lambda: [
        *values_of([rb.metric("nDCG@2")], ARRAY, RELEVANCE, OFFSETS, by_kernel=True).values()
    ],
    "losses": lambda: [rb.loss(name)(LEAF, RELEVANCE, OFFSETS) for name in LOSSES],
    "bounded losses": lambda: [rb.loss("nDCG", by)(LEAF, RELEVANCE, OFFSETS) for by in BOUNDS],
    "bounded metrics": lambda: [rb.bounded("infAP", by)(ARRAY, RELEVANCE, OFFSETS) for by in BOUNDS],
    "minima": lambda: [rb.minimum(name, 5, 2) for name in METRICS],
    "expectations": lambda: [rb.expectation(name, relevance=RELEVANCE, offsets=OFFSETS) for name in METRICS],
    "distributions": lambda: [rb.score_distribution(name, 50, 20).sd for name in ("AP", "RR", "P@3", "RBP(p=0.8)")],
    "graded distribution": lambda: rb.score_distribution("nDCG", relevance=[2, 1, 0]).cdf([0.7]),
    "tilted distribution": lambda: rb.score_distribution("RR", 10, 2, tilt=2.0).cdf([0.3]),
    "smooth ranks": lambda: rb.smooth_rank(ARRAY, OFFSETS),
    "padded": lambda: rb.to_padded(LEAF, OFFSETS),
    "collated": lambda: rb.collate([rb.Topic(LEAF[:, None], torch.from_numpy(RELEVANCE), "a")] * 2)[:3],
    "run": lambda: [*rb.evaluate_run(RUN, JUDGED, OF_RUNS).means().values()],
    "intents": lambda: [*rb.evaluate_run(RUN, BY_INTENT, ["alpha_nDCG@2", "ERR_IA@2"]).means().values()],
    "objective": lambda: rb.boosting_objective("nDCG")(RELEVANCE, ARRAY, None, np.diff(OFFSETS)),
}


CACHING = (orders, sums, smooth_ranks, cumulative_gain)


@pytest.mark.parametrize("case", CASES)
def test_what_is_on_the_cpu_does_not_depend_on_the_default_device(case: str) -> None:
    # Tensors that an earlier test has left are forgotten.
    for function in (one for module in CACHING for one in vars(module).values() if hasattr(one, "cache_clear")):
        function.cache_clear()
    with torch.device("meta"):
        found = CASES[case]()
    for one, other in zip(found, CASES[case](), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
