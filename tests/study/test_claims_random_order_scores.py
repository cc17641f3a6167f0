"""Claims about distributions over random orders: counted otherwise, and false of planted ones."""

from typing import Any

import numpy as np
import pytest
from brute_force import METRICS, binary_orders

import rankbound as rb
from rankbound_study.claims import thesis_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")


def test_the_distribution_bound_only_nears_zero_and_one() -> None:
    verdict = verdict_on("T17", EVIDENCE)
    assert verdict.verdict == REFUTED
    assert verdict.value == pytest.approx(0.3096014615)
    # 1 / C(9, 4) of the longest list with most orders.
    assert f"{1 / 126:.4f} to 0.50" in verdict.reason


class Curve:
    """A distribution whose curves end at 0 and 1, straight or not."""

    minimum, maximum = 0.0, 2.0
    support = np.array([0.0, 1.0, 2.0])

    def __init__(self, middle: float) -> None:
        self._middle = middle

    def cdf(self, x: Any) -> Any:
        return np.interp(x, self.support, [0.0, self._middle, 1.0])

    smooth_cdf = cdf


@pytest.mark.parametrize(("middle", "verdict"), [(0.7, CONFIRMED), (0.5, REFUTED)])
def test_ends_at_zero_and_one_confirm_unless_the_map_is_straight(
    middle: float, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rb, "score_distribution", lambda metric, n, p: Curve(middle))
    monkeypatch.setattr(thesis_theorems, "_steps_at_extremes", lambda of_orders: (0.0, 1.0))
    assert verdict_on("T17", EVIDENCE).verdict == verdict


def test_distances_are_those_that_are_known() -> None:
    distribution = rb.score_distribution("nDCG", n=8, p=4)
    gains = thesis_theorems._excesses(distribution)
    # The smooth curve of gain 1 spans 0.44 to 0.56; the exact one starts at 1/70 and just before at 0.
    assert gains[0] == pytest.approx(0.4434 - 1 / 140, abs=1e-3)
    assert gains[-1] < 0.01
    whole = thesis_theorems._excesses(rb.score_distribution("nRBP", n=8, p=4))
    assert max(whole) < 0.02


def test_the_gain_of_the_thesis_is_close_where_gain_one_is_poor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thesis_theorems, "DRAWN_LISTS", ((8, 4), (12, 4)))
    verdict = verdict_on("T18", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "for 4 of 6 pairs of a metric and a list" in verdict.reason
    assert "; 0 of them nRBP" in verdict.reason


@pytest.mark.parametrize(
    ("first", "last", "verdict"), [(0.4, 0.01, CONFIRMED), (0.4, 0.06, REFUTED), (0.02, 0.01, REFUTED)]
)
def test_planted_distances_decide(first: float, last: float, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [rb.score_distribution("nRBP", n=n, p=p) for n, p in ((8, 4), (15, 5))]
    monkeypatch.setattr(thesis_theorems, "_distributions", lambda metric: lists)
    monkeypatch.setattr(thesis_theorems, "_excesses", lambda of: [first, 0.3, 0.2, 0.1, last])
    assert verdict_on("T18", EVIDENCE).verdict == verdict


def test_distributions_need_no_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict_on("T19", EVIDENCE).verdict == REFUTED
    exact = rb.score_distribution
    monkeypatch.setattr(
        rb, "score_distribution", lambda metric, n, p: exact(metric, n=n, p=p, method="sampled", samples=1000)
    )
    assert verdict_on("T19", EVIDENCE).verdict == CONFIRMED


def test_long_lists_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thesis_theorems, "_distance_from_counts", lambda *of: 2e-4)
    assert verdict_on("T19", EVIDENCE).verdict == CONFIRMED


@pytest.mark.parametrize("metric", ["nDCG", "nRBP"])
@pytest.mark.parametrize(("n", "p"), [(2, 1), (7, 3), (8, 7), (9, 5)])
def test_orders_are_counted_by_halves(metric: str, n: int, p: int) -> None:
    values = np.array([float(METRICS[metric](order)) for order in binary_orders(n, p)])  # type: ignore[arg-type]
    scores = np.linspace(-0.1, values.max() + 0.1, 37)
    expected = (values[:, None] <= scores).mean(axis=0)
    np.testing.assert_allclose(thesis_theorems.share_of_orders_up_to(metric, n, p, scores), expected, atol=1e-12)
