"""Lists as people hold them: flat, padded, one list, one sequence a list, groups and ids; one value whichever way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import rankbound as rb
from tests.library.refusals import refusals

SCORES = [[0.3, 0.1, 0.2], [0.9, 0.4], [0.5]]
GRADES = [[0, 1, 0], [1, 0], [1]]
MASK = [[True, True, True], [True, True, False], [True, False, False]]
FLAT = torch.tensor([0.3, 0.1, 0.2, 0.9, 0.4, 0.5]), torch.tensor([0, 1, 0, 1, 0, 1]), torch.tensor([0, 3, 5, 6])


def padded(rows: list[list[Any]], fill: float) -> torch.Tensor:
    return torch.tensor([[*row, *[fill] * (3 - len(row))] for row in rows])


def jagged(rows: list[list[Any]]) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def arrow_in_pandas(rows: list[list[Any]]) -> pd.Series:
    return pl.Series(rows).to_pandas(use_pyarrow_extension_array=True)


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
    "lists of Arrow in pandas": lambda: (map(arrow_in_pandas, (SCORES, GRADES)), {}),
    "pandas of other types": lambda: (
        (
            pd.Series(FLAT[0].numpy(), index=[*range(6, 0, -1)], dtype="Float64"),
            pd.Series(FLAT[1].numpy(), dtype="boolean"),
            [0, 3, 5, 6],
        ),
        {},
    ),
    "lists of mixed libraries": lambda: ((pl.Series(SCORES), GRADES), {}),
    "pandas": lambda: ((pd.Series(FLAT[0].numpy()), pd.Series(FLAT[1].numpy()), [0, 3, 5, 6]), {}),
    "polars": lambda: ((pl.Series(FLAT[0].numpy()), pl.Series(FLAT[1].numpy()), pl.Series([0, 3, 5, 6])), {}),
    "Arrow": lambda: ((pa.array(FLAT[0].numpy()), pa.array(FLAT[1].numpy()), pa.array([0, 3, 5, 6])), {}),
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
