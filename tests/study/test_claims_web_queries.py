"""Claims about web queries: planted means decide them on MSLR-WEB10K, and are told of MQ2008."""

from pathlib import Path

import pytest
from planted_methods import Planted

from rankbound_study.claims.networks import WEB10K
from rankbound_study.claims.registry import verdict_on

HIGH, LOW = 0.7, 0.6
BOTH_WAYS = ("Class-NN", "RankNet", "Class-LR", "Rank-LR")


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((HIGH, LOW, HIGH, LOW), "confirmed"),
        ((LOW, HIGH, HIGH, LOW), "refuted"),
        ((HIGH, LOW, LOW, LOW), "refuted"),
    ],
)
def test_classification_beats_ranking_in_both_models(tmp_path: Path, means: tuple[float, ...], verdict: str) -> None:
    """One model that ranks better, or as well, refutes it."""
    planted = Planted(tmp_path).queries(dict(zip(BOTH_WAYS, means, strict=True)) | {"random": 0.4}, WEB10K, 0.01)
    found = verdict_on("N01", planted.evidence())
    assert found.verdict == verdict
    assert found.n == 100, "queries without relevant documents don't count"
    assert "random order scores 0.4" in found.reason


def test_too_few_certain_differences_leave_it_open(tmp_path: Path) -> None:
    means = {"Class-NN": HIGH, "RankNet": LOW, "Class-LR": LOW + 0.02, "Rank-LR": LOW}
    planted = Planted(tmp_path).queries(means, WEB10K, noise=0.4)
    assert verdict_on("N01", planted.evidence()).verdict == "inconclusive"


@pytest.mark.parametrize("dataset", ["mq2008-label1", "synthetic-mq2008-label1"])
def test_other_queries_are_told_and_decide_nothing(tmp_path: Path, dataset: str) -> None:
    planted = Planted(tmp_path).queries(dict(zip(BOTH_WAYS, (HIGH, LOW, HIGH, LOW), strict=True)), dataset)
    found = verdict_on("N01", planted.evidence())
    assert found.verdict == "not testable here"
    assert "MQ2008 (relevant: label ≥ 1) the same claim would be confirmed" in found.reason
    assert "Class-NN minus RankNet +0." in found.reason
    assert "MQ2008 (relevant: label ≥ 1): mean nDCG@10" in found.statistic
    assert ("synthetic" in found.reason) == ("synthetic" in dataset)


def test_without_any_queries_it_is_not_testable(tmp_path: Path) -> None:
    evidence = Planted(tmp_path).pairs({"RankNet": 0.6}).evidence()
    for decide in (
        "N01",
        "N02",
        "N06",
    ):
        assert verdict_on(decide, evidence).verdict == "not testable here"


OTHERS = ("RankNet", "DirectRanker", "Rank-LR", "LambdaMART", "Class-NN", "Class-LR", "Class-RF")


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((LOW, LOW - 0.1, HIGH, HIGH, LOW, HIGH, HIGH), "confirmed"),
        ((LOW - 0.1, LOW, HIGH, HIGH, LOW, HIGH, HIGH), "confirmed"),
        ((LOW, LOW + 0.2, HIGH, HIGH, LOW, HIGH, HIGH), "refuted"),
        ((LOW, LOW, HIGH, HIGH, LOW, HIGH, LOW - 0.1), "refuted"),
    ],
)
def test_the_best_network_of_each_family_counts(tmp_path: Path, means: tuple[float, ...], verdict: str) -> None:
    planted = Planted(tmp_path).queries(dict(zip(OTHERS, means, strict=True)), WEB10K, noise=0.01)
    found = verdict_on("N02", planted.evidence())
    assert found.verdict == verdict
    assert "of 4 other models" in found.reason


def test_a_small_lead_of_others_is_open(tmp_path: Path) -> None:
    means = dict(zip(OTHERS, (LOW, LOW, HIGH, LOW + 0.02, LOW, HIGH, HIGH), strict=True))
    planted = Planted(tmp_path).queries(means, WEB10K, noise=0.2)
    assert verdict_on("N02", planted.evidence()).verdict == "inconclusive"


@pytest.mark.parametrize(
    ("adam", "sgd", "noise", "verdict"),
    [
        (0.4, 0.6, 0.005, "confirmed"),
        (0.6, 0.6, 0.01, "refuted"),
        (0.4, 0.4, 0.005, "refuted"),
        (0.42, 0.6, 0.3, "inconclusive"),
    ],
)
def test_optimisers(tmp_path: Path, adam: float, sgd: float, noise: float, verdict: str) -> None:
    means = {"random": 0.4, "RankNet": adam, "Class-NN": adam, "RankNet-as-printed": sgd, "Class-NN-as-printed": sgd}
    planted = Planted(tmp_path).queries(means, WEB10K, noise)
    assert verdict_on("N06", planted.evidence()).verdict == verdict
