"""Tables of distributions: look-up of a batch of lists, and what has no table."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.bounds.extremes import Facts
from rankbound.bounds.score_distribution import score_distribution, score_distributions
from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError

METRICS = ("nDCG", "AP", "nRBP")
GAINS = ("distinct", "drawn", "sd")
PAIRS = [(2, 1), (8, 4), (20, 10), (40, 3), (100, 50), (300, 100), (6, 6), (400, 200)]


@pytest.fixture(scope="module", params=METRICS)
def tables(request: pytest.FixtureRequest) -> DistributionTables:
    return DistributionTables.collect(one.binned() for one in score_distributions(request.param, PAIRS))


def batch(tables: DistributionTables, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values over the whole range and beyond, in an order unlike the tables'."""
    generator = np.random.default_rng(seed)
    pairs = [pair for pair in PAIRS if pair[0] != pair[1]] * 8
    generator.shuffle(pairs)
    known = [tables.of(n, p) for n, p in pairs]
    values = [
        one.expectation + one.sd * generator.normal() * 3 if index % 3 else generator.uniform(one.minimum, one.maximum)
        for index, one in enumerate(known)
    ]
    return torch.tensor(values), *(torch.tensor(column) for column in zip(*pairs, strict=True))  # type: ignore


def smooth(tables: DistributionTables, values: Tensor, n: Tensor, p: Tensor, gain: Any = "distinct") -> Tensor:
    return tables.smooth(values, Facts.of_counts(rb.metric(tables.metric), n, p), gain)


@pytest.mark.parametrize("gain", GAINS)
def test_a_batch_equals_the_lists_one_by_one(tables: DistributionTables, gain: str) -> None:
    values, n, p = batch(tables)
    found = smooth(tables, values.double(), n, p, gain)  # type: ignore[arg-type]
    expected = [
        float(tables.of(int(items), int(relevant)).smooth_cdf(float(value), gain))  # type: ignore[arg-type]
        for value, items, relevant in zip(values, n, p, strict=True)
    ]
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("gain", GAINS)
def test_the_gradient_is_the_slope(tables: DistributionTables, gain: str) -> None:
    values, n, p = batch(tables, seed=1)
    values = values.double().requires_grad_()
    gains = torch.tensor([tables.of(int(a), int(b)).gain(gain) for a, b in zip(n, p, strict=True)])  # type: ignore
    smooth(tables, values, n, p, gain).sum().backward()  # type: ignore[no-untyped-call, arg-type]
    step = 1e-3 / gains
    with torch.no_grad():
        above, below = (smooth(tables, values + sign * step, n, p, gain) for sign in (1, -1))  # type: ignore
    assert values.grad is not None
    np.testing.assert_allclose((values.grad / gains).numpy(), ((above - below) / (2 * step * gains)).numpy(), atol=1e-6)


def test_gradcheck(tables: DistributionTables) -> None:
    # A unit of distance for every list, so that gradcheck's step suits all: 1 / gain.
    values, n, p = batch(tables, seed=2)
    scale = torch.tensor([1 / tables.of(int(a), int(b)).gain() for a, b in zip(n, p, strict=True)]).double()
    units = (values.double() / scale).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: smooth(tables, u * scale, n, p), (units,), eps=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_outside_the_scores_are_finite(tables: DistributionTables, dtype: torch.dtype) -> None:
    values = torch.tensor([-1e30, -5.0, 2.0, 1e30], dtype=dtype, requires_grad=True)
    result = smooth(tables, values, torch.full((4,), 100), torch.full((4,), 50))
    result.sum().backward()  # type: ignore[no-untyped-call]
    result = result.detach()
    assert result.dtype == dtype
    assert values.grad is not None
    assert values.grad.isfinite().all()
    assert float(result[0]) == pytest.approx(0, abs=1e-6)
    assert float(result[3]) == pytest.approx(1, abs=1e-6)


def test_nan_stays_nan_and_an_empty_batch_empty(tables: DistributionTables) -> None:
    one = smooth(tables, torch.tensor([float("nan"), 0.5]), torch.tensor([8, 8]), torch.tensor([4, 4]))
    assert one.isnan().tolist() == [True, False]
    none = torch.empty(0, dtype=torch.int64)
    assert smooth(tables, torch.empty(0), none, none).shape == (0,)


def test_lists_do_not_depend_on_their_batch(tables: DistributionTables) -> None:
    values, n, p = batch(tables)
    whole = smooth(tables, values, n, p)
    for index in (0, 7, 20):
        part = slice(index, index + 1)
        torch.testing.assert_close(smooth(tables, values[part], n[part], p[part]), whole[part])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_agrees(tables: DistributionTables) -> None:
    values, n, p = batch(tables)
    found = smooth(tables, values.cuda(), n.cuda(), p.cuda())
    torch.testing.assert_close(found.cpu(), smooth(tables, values, n, p))


def test_missing_and_undefined_lists_are_named(tables: DistributionTables) -> None:
    two = torch.tensor([0.5, 0.5])
    with pytest.raises(ConfigError, match=r"7 items with 3 relevant .* tabulate it as well"):
        smooth(tables, two, torch.tensor([8, 7]), torch.tensor([4, 3]))
    with pytest.raises(ValueError, match="6 items with 6 relevant"):
        smooth(tables, two, torch.tensor([8, 6]), torch.tensor([4, 6]))
    with pytest.raises(ConfigError, match="gain 'wide'"):
        smooth(tables, two, torch.tensor([8, 8]), torch.tensor([4, 4]), "wide")  # type: ignore[arg-type]


def test_a_table_equals_the_distribution_it_was_made_of() -> None:
    ones = [score_distribution("AP", 9, 4), score_distribution("AP", 7, 2)]
    tables = DistributionTables.collect(ones)
    assert list(zip(tables.n, tables.p, strict=True)) == [(7, 2), (9, 4)]
    assert tables.of(9, 4).gain() == ones[0].gain()
    for gain in GAINS:
        assert tables.gains(gain)[1] == ones[0].gain(gain)  # type: ignore[arg-type]
    for wrong in ([ones[0], ones[0]], [ones[0], score_distribution("nDCG", 9, 3)], []):
        with pytest.raises(ValueError, match="expected one metric and each list once"):
            DistributionTables.collect(wrong)
