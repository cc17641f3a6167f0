"""Random orders: uniform among all sets of ranks, the same for every metric, compiled or not."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rankbound.bounds.sampled import OF_THESIS, RandomOrders, sample_orders, sums_of_orders
from rankbound.kernels import usable

SIZES = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@given(size=SIZES, seed=st.integers(0, 2**40), name=st.sampled_from(["nDCG", "AP", "nRBP"]))
def test_compiled_and_plain_code_draw_the_same_orders(size: tuple[int, int], seed: int, name: str) -> None:
    if not usable():
        pytest.skip("nothing is compiled here")
    drawn = [sample_orders(OF_THESIS[name], RandomOrders(*size), 500, seed)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKBOUND_FAST", "0")
        drawn.append(sample_orders(OF_THESIS[name], RandomOrders(*size), 500, seed))
    (compiled, shares, _), (plain, of_plain, _) = drawn
    np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(shares, of_plain)


@pytest.mark.parametrize(("n", "p"), [(5, 2), (7, 4), (6, 6), (9, 1)])
@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("counts", [False, True])
def test_every_set_of_ranks_is_equally_likely(
    n: int, p: int, fast: str, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", fast)
    counted = np.zeros(n) if counts else None
    sets = {float(sum(2**rank for rank in chosen)) for chosen in combinations(range(n), p)}
    drawn, counts = np.unique(sums_of_orders(2.0 ** np.arange(n), counted, p, 50_000, 7), return_counts=True)
    assert set(drawn) == sets
    assert len(sets) == 1 or stats.chisquare(counts).pvalue > 0.001


def test_metrics_share_their_orders_and_seeds_do_not() -> None:
    """The rank sum decides nRBP, and the same ranks decide nDCG."""
    ranks = np.arange(1.0, 31.0)
    one, other = (sums_of_orders(fixed, None, 1, 200, 3) for fixed in (ranks, 1 / ranks))
    np.testing.assert_allclose(one * other, 1.0)
    assert not np.array_equal(one, sums_of_orders(ranks, None, 1, 200, 4))
