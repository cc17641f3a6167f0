"""Losses that exchange places: planted orders kept, turned, and lost in noise; agreement against scipy's tau."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from rankbound_study.claims.varied import least_tau, least_tau_of_seeds, order_kept
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence

LOSSES = 5


def rows(levels: np.ndarray, *, seeds: int = 3, topics: int = 60, noise: float = 0.01, start: int = 0) -> pl.DataFrame:
    """A score per topic, seed and loss: the loss' level, the topic's own, and noise."""
    seed, loss, topic = (part.ravel() for part in np.indices((seeds, LOSSES, topics)))
    own = np.random.default_rng(9).normal(0, 0.1, topics)
    scores = levels[loss] + own[topic] + np.random.default_rng(start).normal(0, noise, len(loss))
    names = {"loss": [f"loss{one}" for one in loss], "seed": seed, "topic": topic.astype(str), "nDCG": scores}
    return pl.DataFrame(names).with_columns(bounding=pl.lit("none"), fold=pl.lit(1))


UP = np.linspace(0.4, 0.6, LOSSES)


def means(frame: pl.DataFrame) -> np.ndarray:
    return frame.group_by("loss").agg(pl.col("nDCG").mean()).sort("loss")["nDCG"].to_numpy()


def test_agreement_is_the_least_tau_of_mean_scores() -> None:
    choices = [rows(UP, noise=0.5, start=start) for start in (1, 2, 3)]
    orders = [means(one) for one in choices]
    taus = [stats.kendalltau(orders[a], orders[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    seeds = [means(choices[0].filter(seed=seed)) for seed in (0, 1, 2)]
    of_seeds = [stats.kendalltau(seeds[a], seeds[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    assert least_tau(choices, "nDCG") == pytest.approx(min(taus))
    assert least_tau_of_seeds(choices[:1], "nDCG") == pytest.approx(min(of_seeds))
    assert least_tau_of_seeds([rows(UP, seeds=1)], "nDCG") is None


def test_topics_without_a_score_and_the_order_of_rows_change_no_agreement() -> None:
    choices = [rows(UP, noise=0.5, start=start) for start in (8, 9)]
    holes = pl.col("topic").is_in(["3", "4"])
    empty = [one.with_columns(nDCG=pl.when(~holes).then("nDCG").otherwise(float("nan"))) for one in choices]
    without = [one.filter(~holes).sample(fraction=1, shuffle=True, seed=1) for one in choices]
    assert least_tau(empty, "nDCG") == least_tau(without, "nDCG")
    assert np.isnan(least_tau([one.with_columns(nDCG=float("nan")) for one in choices], "nDCG"))


SWAPPED = UP[[1, 0, 2, 3, 4]]
CLOSE = UP + np.array([0.025, -0.025, 0, 0, 0])
"""Two losses at one level."""


@pytest.mark.parametrize(
    ("other", "noise", "verdict"),
    [
        (UP, 0.005, CONFIRMED),
        (UP + 0.1, 0.005, CONFIRMED),
        (CLOSE, 0.005, CONFIRMED),
        (UP[::-1], 0.005, REFUTED),
        (SWAPPED, 0.005, REFUTED),
        (UP, 0.5, INCONCLUSIVE),
        (UP[::-1], 8.0, INCONCLUSIVE),
    ],
)
def test_planted_orders_are_told_apart_and_noise_is_not(other: np.ndarray, noise: float, verdict: str) -> None:
    found = order_kept([rows(levels, noise=noise, start=start) for start, levels in ((4, UP), (5, other))], "nDCG")
    assert found.verdict == verdict
    assert found.pairs == LOSSES * (LOSSES - 1) // 2


def test_pairs_are_named_left_open_and_counted_once() -> None:
    choices = [rows(UP, start=4), rows(SWAPPED, start=5)]
    found = order_kept(choices, "nDCG")
    assert found.exchanged == ["loss0 / none and loss1 / none"]
    assert "1 of 10 pairs of losses exchange places significantly" in str(found)
    # A loss without a tuned rate leaves its pairs open.
    found = order_kept(choices, "nDCG", untuned=[("loss0", "none")])
    assert (found.verdict, found.open) == (INCONCLUSIVE, LOSSES - 1)
    # Boundings of nRBP that repeat each other are one.
    names = {"loss0": "min-max", "loss1": "expectation", "loss2": "expectation-max"}
    frame = rows(UP).filter(pl.col("loss") != "loss4")
    boundings = pl.col("loss").replace_strict(names, default="none").alias("bounding")
    assert order_kept([frame.with_columns(boundings, pl.lit("nRBP").alias("loss"))] * 2, "nDCG").pairs == 1


def test_one_seed_and_a_single_loss_say_nothing() -> None:
    found = order_kept([rows(UP, seeds=1, start=start) for start in (6, 7)], "nDCG")
    assert found.verdict == INCONCLUSIVE
    assert "with one seed" in str(found)
    assert replace(found, has_seeds=True).verdict == CONFIRMED
    with pytest.raises(MissingEvidence, match="the experiment has 1: add others"):
        order_kept([rows(UP).filter(loss="loss0")] * 2, "nDCG")
