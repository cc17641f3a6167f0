"""Preserved orders: against scipy's tau, planted orders that are kept, turned, and lost in noise."""

from dataclasses import astuple

import numpy as np
import polars as pl
import pytest
from scipy import stats

from rankbound_study.claims.orders import order_kept
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED

LOSSES = 8


def rows(levels: np.ndarray, *, seeds: int = 2, topics: int = 60, noise: float = 0.01, start: int = 0) -> pl.DataFrame:
    """A score per topic, seed and loss: the loss' level, the topic's own, and noise."""
    random = np.random.default_rng(start)
    own = np.random.default_rng(9).normal(0, 0.1, topics)
    return pl.DataFrame(
        [
            {
                "loss": f"loss{loss}",
                "bounding": "none",
                "fold": 1,
                "seed": seed,
                "topic": str(topic),
                "nDCG": levels[loss] + own[topic] + random.normal(0, noise),
            }
            for seed in range(seeds)
            for loss in range(LOSSES)
            for topic in range(topics)
        ]
    )


UP = np.linspace(0.4, 0.6, LOSSES)


def means(frame: pl.DataFrame) -> np.ndarray:
    return frame.group_by("loss").agg(pl.col("nDCG").mean()).sort("loss")["nDCG"].to_numpy()


def test_agreement_is_the_least_tau_of_mean_scores() -> None:
    choices = [rows(UP, noise=0.5, start=start) for start in (1, 2, 3)]
    found = order_kept(choices, choices[:1], "nDCG")
    orders = [means(one) for one in choices]
    taus = [stats.kendalltau(orders[a], orders[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    seeds = [means(choices[0].filter(seed=seed)) for seed in (0, 1)]
    assert found.between_choices == pytest.approx(min(taus))
    assert found.between_seeds == pytest.approx(stats.kendalltau(*seeds).statistic)


def test_agreement_is_what_is_resampled_and_does_not_depend_on_who_is_first() -> None:
    choices = [rows(UP, noise=0.5, start=start) for start in (1, 2, 3)]
    found, kept = order_kept(choices, choices, "nDCG", 0), order_kept(choices, choices, "nDCG")
    assert (found.between_choices, found.between_seeds) == (kept.between_choices, kept.between_seeds)
    np.testing.assert_equal(astuple(order_kept(choices[::-1], choices[::-1], "nDCG", 0)), astuple(found))
    assert order_kept(choices[:2], choices[:1], "nDCG", 0).between_choices >= found.between_choices


@pytest.mark.parametrize(
    ("other", "noise", "verdict"), [(UP, 0.001, CONFIRMED), (UP[::-1], 0.001, REFUTED), (UP[::-1], 8.0, INCONCLUSIVE)]
)
def test_planted_orders_are_told_apart_and_noise_is_not(other: np.ndarray, noise: float, verdict: str) -> None:
    choices = [rows(levels, noise=noise, start=start) for start, levels in ((4, UP), (5, other))]
    found = order_kept(choices, choices[:1], "nDCG")
    if verdict == INCONCLUSIVE:
        assert found.low < 0 < found.high
    else:
        assert found.verdict == verdict


def test_one_seed_says_nothing_of_chance() -> None:
    choices = [rows(UP, seeds=1, start=start) for start in (6, 7)]
    found = order_kept(choices, choices, "nDCG")
    assert found.verdict == INCONCLUSIVE
    assert "with one seed" in str(found)


def test_topics_without_a_score_and_the_order_of_rows_change_nothing() -> None:
    choices = [rows(UP, noise=0.05, start=start) for start in (8, 9)]
    holes = pl.col("topic").is_in(["3", "4"])
    empty = [one.with_columns(nDCG=pl.when(~holes).then("nDCG").otherwise(float("nan"))) for one in choices]
    without = [one.filter(~holes).sample(fraction=1, shuffle=True, seed=1) for one in choices]
    assert order_kept(empty, empty, "nDCG") == order_kept(without, without, "nDCG")
    nothing = [one.with_columns(nDCG=float("nan")) for one in choices]
    assert order_kept(nothing, nothing, "nDCG").verdict == INCONCLUSIVE
    assert np.isnan(order_kept(nothing, nothing, "nDCG", 0).between_choices)
