"""Claims about the ends of bounded losses: true of the bounds, false of planted ends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound_study.claims import thesis_theorems
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.thesis_theorems import Ends
from rankbound_study.claims.verdict import CONFIRMED, REFUTED

EVIDENCE = Evidence("thesis")


def test_only_smooth_ndcg_leaves_the_range() -> None:
    assert verdict_on("T06", EVIDENCE).value < -0.36
    tied = rb.SmoothLoss("nDCG", "min-max")(
        torch.tensor([-10.0, -10, 10], dtype=torch.float64), torch.tensor([1, 1, 0]), torch.tensor([0, 3])
    )
    assert float(-tied) == pytest.approx(-0.0486804834)


class InRange:
    """A loss whose bounded metric is always 0."""

    def __init__(self, of: str, bound: str, **settings: Any) -> None:
        pass

    def __call__(self, scores: Any, relevance: Any, offsets: Any) -> torch.Tensor:
        return torch.zeros(len(offsets) - 1, dtype=torch.float64)


def test_values_in_range_confirm_and_one_order_outside_refutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rb, "SmoothLoss", InRange)
    assert verdict_on("T06", EVIDENCE).verdict == CONFIRMED

    def of_orders(metric: str) -> Any:
        return np.array([0.0, 1.0, 1.01 if metric == "AP" else 0.5])

    monkeypatch.setattr(thesis_theorems, "_of_all_orders", of_orders)
    assert verdict_on("T06", EVIDENCE).verdict == REFUTED


def planted(lower: dict[str, Any], upper: dict[str, Any]) -> Callable[..., Ends]:
    """Ends by metric, as functions of N and P."""

    def ends(metric: str, bounding: str, n: Any, p: Any) -> Ends:
        return Ends(lower[metric](n, p) * np.ones(len(n)), upper[metric](n, p) * np.ones(len(n)))

    return ends


def one(n: Any, p: Any) -> float:
    return 1.0


def minus_one(n: Any, p: Any) -> float:
    return -1.0


def by_size(n: Any, p: Any) -> Any:
    return n / p


def of(ndcg: Any, ap: Any, nrbp: Any) -> dict[str, Any]:
    return {"nDCG": ndcg, "AP": ap, "nRBP": nrbp}


@pytest.mark.parametrize(
    ("claim", "lower", "upper", "verdict"),
    [
        ("T12", of(by_size, by_size, one), of(by_size, by_size, one), CONFIRMED),
        ("T12", of(by_size, by_size, one), of(by_size, by_size, by_size), REFUTED),
        ("T12", of(one, by_size, one), of(by_size, by_size, one), REFUTED),
        ("T13", of(one, one, one), of(by_size, by_size, by_size), CONFIRMED),
        ("T13", of(one, one, one), of(by_size, by_size, one), REFUTED),
        ("T15", of(minus_one, minus_one, minus_one), of(by_size, by_size, one), CONFIRMED),
        ("T15", of(minus_one, minus_one, one), of(by_size, by_size, one), REFUTED),
        ("T15", of(minus_one, minus_one, minus_one), of(by_size, one, one), REFUTED),
    ],
)
def test_planted_ends_decide(
    claim: str, lower: dict[str, Any], upper: dict[str, Any], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thesis_theorems, "ends", planted(lower, upper))
    assert verdict_on(claim, EVIDENCE).verdict == verdict


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
@pytest.mark.parametrize("bounding", ["expectation", "expectation-max"])
def test_short_lists_have_the_librarys_ends(metric: str, bounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, p = np.array([(n, p) for n in range(2, 10) for p in range(1, n)]).T
    by_orders = thesis_theorems.ends(metric, bounding, n, p)
    monkeypatch.setattr(thesis_theorems, "SHORT", 0)
    by_library = thesis_theorems.ends(metric, bounding, n, p)
    np.testing.assert_allclose(by_orders.lower, by_library.lower, atol=1e-12)
    np.testing.assert_allclose(by_orders.upper, by_library.upper, atol=1e-12)


def test_the_upper_ends_that_the_thesis_could_have_printed() -> None:
    upper = thesis_theorems.ends("AP", "expectation", np.array([10, 15, 20]), np.array([5, 5, 5])).upper
    assert upper == pytest.approx([-0.58, -0.50, -0.46], abs=5e-3)
    upper = thesis_theorems.ends("nDCG", "expectation", np.array([20, 30, 40]), np.array([10, 10, 10])).upper
    assert upper == pytest.approx([-0.709, -0.695, -0.696], abs=5e-4)


def test_all_sizes_of_the_data_are_mixed_and_there() -> None:
    n, p = thesis_theorems.sizes_of_the_data()
    sizes = set(zip(n.tolist(), p.tolist(), strict=True))
    assert {(2454, 1227), (4908, 1227), (121, 63), (8, 1)} <= sizes
    assert bool(((p >= 1) & (p < n)).all())
