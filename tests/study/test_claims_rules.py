"""From tests to a verdict: families, statistics beside scipy's, kept orders, and the sample that would decide."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

from rankbound.compare.comparison import LEVEL
from rankbound.compare.scores import Pair, PairedScores, per_unit
from rankbound.compare.statistics import over_trainings
from rankbound_study.claims import lists, registry, verdicts
from rankbound_study.claims.effects import resampled_means
from rankbound_study.claims.evidence import Cell, Contrast, estimate
from rankbound_study.claims.lists import PEARSON, SPEARMAN, correlation, distance
from rankbound_study.claims.rules import REACH, RULES, Family, Sample, collapsed, sample_of_most, share_of, together
from rankbound_study.claims.varied import least_tau, least_tau_of_seeds, order_kept
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Ruling
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.claims import Claims
from tests.library.refusals import problems
from tests.study.planted import ONE_SEED, STILL, blurred, drawn, main_runs, of_bounded, study


def difference(mean: float, error: float = 0.01, margin: float = 0.002) -> Contrast:
    return Contrast(mean, error, 100.0, margin, 101)


UP, DOWN, OPEN, ALIKE = difference(0.1), difference(-0.1), difference(0.01), difference(0.0, margin=0.1)
FAR, NONE, AT = difference(0.3), difference(0.0, error=0.0001), difference(0.05)
OVER, WIDE = difference(0.3, margin=0.1), difference(0.0)
SMALL = difference(0.001, error=0.001)  # not shown to rise, nor to rise by less than what matters

VERDICTS = problems("rules")


@pytest.mark.parametrize("rule", VERDICTS)
def test_rules_follow_from_the_tests_of_all_differences(rule: str) -> None:
    """The limit, of rules that have one, is 0.05."""
    for verdict, families in VERDICTS[rule].items():
        for names in families:
            family = Family(dict(enumerate(globals()[name] for name in names.split())), 0.05)
            assert RULES[rule](family) == verdict, names


def test_differences_have_their_places_and_are_compared_with_what_matters() -> None:
    family = Family({"up": UP, "down": DOWN, "open": OPEN, "alike": ALIKE})
    assert (family.higher, family.lower, family.alike) == (["up"], ["down"], ["alike"])
    assert tuple(map(family.facts({}).__getitem__, ("at_least", "at_most"))) == ("down", "up")
    assert family.p_values["alike"] == 1
    # Holm counts the tests.
    alone, among_many = ({place: difference(0.022) for place in range(count)} for count in (1, 20))
    assert (Family(alone).higher, Family(among_many).higher) == ([0], [])
    assert collapsed({"a": UP, "b": difference(-0.02), "c": DOWN}) == ["c"]
    cases = {CONFIRMED: [ALIKE], INCONCLUSIVE: [ALIKE, difference(0.0)], REFUTED: [ALIKE, OVER]}
    for verdict, some in cases.items():
        assert RULES["all are within"](Family(dict(enumerate(some)))) == verdict


def test_parts_of_a_claim_and_shares_of_cases() -> None:
    assert together(CONFIRMED, CONFIRMED) == CONFIRMED
    assert together(CONFIRMED, INCONCLUSIVE) == INCONCLUSIVE
    assert together(INCONCLUSIVE, REFUTED) == REFUTED
    shown, open_ = [1e-6] * 3, [0.5] * 2
    assert share_of(shown + open_, [1.0] * 5, 3) == CONFIRMED
    assert share_of([0.02] * 3 + open_, [1.0] * 5, 3) == INCONCLUSIVE, "three times 0.02"
    assert share_of([1.0] * 4, [1e-6] * 2 + [1.0] * 2, 3) == REFUTED
    assert share_of([1e-6] + [0.9] * 2, [1.0] * 3, 1) == CONFIRMED
    assert share_of([1.0] * 3, [1e-6] * 2 + [0.9], 1) == INCONCLUSIVE


NOISY = main_runs(losses=("AP",), chance=0.05, controls={})


@pytest.mark.parametrize("seeds", [1, 8])
def test_resamples_spread_as_the_standard_error_says(seeds: int) -> None:
    evidence = drawn(replace(NOISY, seeds=seeds, folds=5))
    pairs = {cell: evidence.pair(cell) for cell in evidence.cells(["AP"])}
    found = resampled_means(pairs)
    for number, one in enumerate(pairs.values()):
        assert found[:, number].mean() == pytest.approx(Contrast.of(one).mean, abs=5e-4)
        ratio = found[:, number].std() / Contrast.of(one).standard_error
        assert 0.7 < ratio < math.sqrt(3) * 1.2


def test_readings_of_one_source_share_topics() -> None:
    evidence = drawn(replace(NOISY, seeds=1))
    cell = next(one for one in evidence.cells(["AP"]) if one.column.nsr is None)
    other = cell._replace(column=DataSet("mq2008-label2", None))
    found = resampled_means({cell: evidence.pair(cell), other: evidence.pair(cell)})
    assert np.corrcoef(found.T)[0, 1] > 0.1, "topics are the same, trainings are not"


def test_contrasts_find_what_is_planted_and_average_replicas() -> None:
    evidence = drawn(study(of_bounded(0.03, of="AP", bounding="min-max", nsr=2)))
    found = evidence.contrasts(evidence.cells(["AP"]))
    planted = Cell("AP", "min-max", DataSet("movielens", 2), "AP")
    assert found[planted].mean == pytest.approx(0.03, abs=1e-3)
    assert all(abs(one.mean) < 1e-3 for cell, one in found.items() if cell != planted)
    assert {one.margin for one in found.values()} == {0.002}
    # The affine boundings of nRBP are one training: one that scores higher does not stand for all.
    evidence = drawn(study(of_bounded(0.03, of="nRBP", bounding="min-max", nsr=2)))
    cell = Cell("nRBP", "min-max", DataSet("movielens", 2), "nRBP(p=0.95)")
    assert Contrast.of(evidence.pair(cell)).mean == pytest.approx(0.01, abs=1e-3)
    assert Contrast.of(evidence.pair(cell, "expectation")).mean == pytest.approx(0.03, abs=1e-3)
    assert str(cell) == "nRBP with affine bounding on MovieLens at ratio 2"


def test_neither_rounding_nor_one_training_shows_anything() -> None:
    """Two folds with one seed have no spread of trainings, and topics alone do not show that losses are alike."""
    evidence = drawn(ONE_SEED)
    found = evidence.contrasts(evidence.cells())
    assert not any(one.is_repeated or one.p_within() <= LEVEL for one in found.values())
    assert RULES["none falls"](Family(found)) == INCONCLUSIVE
    assert estimate(np.full((5, 2, 3), 1e-17)).p_value() == 1
    assert {cell.column.dataset for cell in drawn(STILL).cells()} == {"movielens", "mq2008-label1"}


# The statistics that claims are decided by, compared with scipy's: distances, correlations, Kendall's tau


def test_the_largest_distance_is_scipys_and_chance_is_not_significant() -> None:
    evidence = drawn(study(of_bounded(0.05, of="AP", bounding="min-max"), topics=30))
    of = evidence.pair(Cell("AP", "min-max", DataSet("movielens", 1), "AP"))
    expected = stats.ks_2samp(of.a.ravel(), of.b.ravel()).statistic
    found = distance(of)
    assert found.value == pytest.approx(expected)
    assert found.p_value < 0.01
    assert found.value < found.upper
    of = drawn(replace(ONE_SEED, chance=0.05)).pair(Cell("AP", "expectation", DataSet("movielens", 1), "AP"))
    assert distance(of).p_value > 0.05


X, NOISE = np.random.default_rng(3).normal(0, 1, (2, 500))
Y = X + NOISE


def test_a_correlation_is_scipys_with_fishers_interval() -> None:
    assert correlation(X, Y, PEARSON).mean == pytest.approx(stats.pearsonr(X, Y).statistic)
    assert correlation(X, Y, SPEARMAN).mean == pytest.approx(stats.spearmanr(X, Y).statistic)
    found = correlation(X, Y)
    assert found.interval() == pytest.approx(stats.pearsonr(X, Y).confidence_interval(), abs=0.015)
    assert found.p_above(0.5) < 0.05 < found.p_above(found.mean)
    assert found.p_below(0.9) < 0.05
    found = correlation(X, X)
    assert found.mean == pytest.approx(1)
    assert found.p_above(0.7) < 1e-9


def test_lists_of_one_topic_count_once_and_what_has_none_is_named() -> None:
    alone = correlation(X, Y)
    repeated = correlation(np.repeat(X[:, None], 5, 1), np.repeat(Y[:, None], 5, 1))
    assert repeated.mean == pytest.approx(alone.mean)
    assert repeated.standard_error == pytest.approx(alone.standard_error)
    with pytest.raises(MissingEvidence, match="the same in all lists"):
        correlation(np.ones(9), np.arange(9.0))
    with pytest.raises(MissingEvidence, match="over 2 topics"):
        correlation(np.arange(2.0), np.arange(2.0))


def test_taus_are_scipys_and_their_errors_the_bootstraps(monkeypatch: pytest.MonkeyPatch) -> None:
    column, names = DataSet("movielens", 2), ("nDCG", "nRBP(p=0.8)", "nRBP(p=0.9)")
    evidence = drawn(study(blurred(p8=0.2, p9=0.1), of=main_runs(losses=("AP",), boundings=("none",))))
    monkeypatch.setattr(lists, "LOSSES", ("AP",))
    found = lists._agreements(evidence, column)
    for both in found:
        values = [per_unit(evidence.scores(name, "AP", column).values[0]) for name in both]
        assert found[both][0] == pytest.approx(stats.kendalltau(*values).statistic)
    target, low, high = (per_unit(evidence.scores(name, "AP", column).values[0]) for name in names)
    random, leads = np.random.default_rng(0), []
    for _ in range(400):
        chosen = random.integers(0, len(target), len(target))
        taus = [stats.kendalltau(target[chosen], of[chosen]).statistic for of in (high, low)]
        leads.append(taus[0] - taus[1])
    moved = found[names[0], names[2]][1] - found[names[0], names[1]][1]
    assert np.linalg.norm(moved) == pytest.approx(np.std(leads), rel=0.2)


# Losses that exchange places: planted orders kept, turned, and lost in noise; agreement against scipy's tau

LOSSES = 5


def rows(levels: np.ndarray, *, seeds: int = 3, topics: int = 60, noise: float = 0.01, start: int = 0) -> pl.DataFrame:
    """A score per topic, seed and loss: the loss' level, the topic's own, and noise."""
    seed, loss, topic = (part.ravel() for part in np.indices((seeds, LOSSES, topics)))
    own = np.random.default_rng(9).normal(0, 0.1, topics)
    scores = levels[loss] + own[topic] + np.random.default_rng(start).normal(0, noise, len(loss))
    names = {"loss": [f"loss{one}" for one in loss], "seed": seed, "topic": topic.astype(str), "nDCG": scores}
    return pl.DataFrame(names).with_columns(bounding=pl.lit("none"), fold=pl.lit(1))


RISING = np.linspace(0.4, 0.6, LOSSES)


def means(frame: pl.DataFrame) -> np.ndarray:
    return frame.group_by("loss").agg(pl.col("nDCG").mean()).sort("loss")["nDCG"].to_numpy()


def test_agreement_is_the_least_tau_of_mean_scores_whatever_topics_have_none() -> None:
    choices = [rows(RISING, noise=0.5, start=start) for start in (1, 2, 3)]
    orders = [means(one) for one in choices]
    taus = [stats.kendalltau(orders[a], orders[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    seeds = [means(choices[0].filter(seed=seed)) for seed in (0, 1, 2)]
    of_seeds = [stats.kendalltau(seeds[a], seeds[b]).statistic for a, b in ((0, 1), (0, 2), (1, 2))]
    assert least_tau(choices, "nDCG") == pytest.approx(min(taus))
    assert least_tau_of_seeds(choices[:1], "nDCG") == pytest.approx(min(of_seeds))
    assert least_tau_of_seeds([rows(RISING, seeds=1)], "nDCG") is None
    choices = [rows(RISING, noise=0.5, start=start) for start in (8, 9)]
    holes = pl.col("topic").is_in(["3", "4"])
    empty = [one.with_columns(nDCG=pl.when(~holes).then("nDCG").otherwise(float("nan"))) for one in choices]
    without = [one.filter(~holes).sample(fraction=1, shuffle=True, seed=1) for one in choices]
    assert least_tau(empty, "nDCG") == least_tau(without, "nDCG")
    assert np.isnan(least_tau([one.with_columns(nDCG=float("nan")) for one in choices], "nDCG"))


SWAPPED = RISING[[1, 0, 2, 3, 4]]
CLOSE = RISING + np.array([0.025, -0.025, 0, 0, 0])  # two losses at one level


@pytest.mark.parametrize(
    ("other", "noise", "verdict"),
    [
        (RISING, 0.005, CONFIRMED),
        (RISING + 0.1, 0.005, CONFIRMED),
        (CLOSE, 0.001, CONFIRMED),
        (RISING[::-1], 0.005, REFUTED),
        (SWAPPED, 0.005, REFUTED),
        (RISING, 0.5, INCONCLUSIVE),
        (RISING[::-1], 8.0, INCONCLUSIVE),
    ],
)
def test_planted_orders_are_told_apart_and_noise_is_not(other: np.ndarray, noise: float, verdict: str) -> None:
    found = order_kept([rows(levels, noise=noise, start=start) for start, levels in ((4, RISING), (5, other))], "nDCG")
    assert found.verdict == verdict
    assert found.n == LOSSES * (LOSSES - 1) // 2


def test_pairs_are_named_left_open_and_counted_once() -> None:
    choices = [rows(RISING, start=4), rows(SWAPPED, start=5)]
    found = order_kept(choices, "nDCG")
    assert found.facts["exchanged"] == ["loss0 / none and loss1 / none"]
    assert "1 of 10 pairs of losses exchange places significantly" in found.reason
    # A loss without a tuned rate leaves its pairs open.
    found = order_kept(choices, "nDCG", untuned=[("loss0", "none")])
    assert (found.verdict, found.facts["open"]) == (INCONCLUSIVE, LOSSES - 1)
    # Boundings of nRBP that repeat each other are one.
    names = {"loss0": "min-max", "loss1": "expectation", "loss2": "expectation-max"}
    frame = rows(RISING).filter(pl.col("loss") != "loss4")
    boundings = pl.col("loss").replace_strict(names, default="none").alias("bounding")
    assert order_kept([frame.with_columns(boundings, pl.lit("nRBP").alias("loss"))] * 2, "nDCG").n == 1
    found = order_kept([rows(RISING, seeds=1, start=start) for start in (6, 7)], "nDCG")
    assert found.verdict == INCONCLUSIVE
    assert "with one seed" in found.reason
    assert order_kept([rows(RISING, seeds=2, start=start) for start in (6, 7)], "nDCG").verdict == CONFIRMED
    with pytest.raises(MissingEvidence, match="the experiment has 1: add others"):
        order_kept([rows(RISING).filter(loss="loss0")] * 2, "nDCG")


# The sample that would decide a claim: a study of that size does decide, and smaller ones do so less often

MARGIN = 0.01
FOLDS = 5
OF_TOPICS, OF_TRAININGS = 0.05, 0.008
"""Standard deviations of a topic's difference, and of that of a training (a seed in a fold)."""


def differences(random: np.random.Generator, topics: int, seeds: int, mean: float = 0.0) -> np.ndarray:
    """Topics in all folds."""
    own = random.normal(0, OF_TOPICS, (topics, 1, 1))
    return mean + own + random.normal(0, OF_TRAININGS, (1, FOLDS, seeds))


def true_sample(topics: int, seeds: int) -> Sample:
    return Sample(MARGIN, topics, seeds, OF_TOPICS**2 / topics, OF_TRAININGS**2 / FOLDS / seeds)


def shares(topics: int, seeds: int, repetitions: int = 400) -> tuple[float, float]:
    """How often a difference of the margin is significant, and none is alike."""
    random = np.random.default_rng(1)
    found = {}
    for mean in (MARGIN, 0.0):
        drawn = [over_trainings(differences(random, topics, seeds, mean)) for _ in range(repetitions)]
        found[mean] = [one for one in drawn if one is not None]
    significant = np.mean([one.p_value() <= LEVEL for one in found[MARGIN]])
    alike = [max(one.p_above(-MARGIN), one.p_below(MARGIN)) <= LEVEL for one in found[0.0]]
    return float(significant), float(np.mean(alike))


def test_the_topics_and_the_seeds_needed_decide_in_80_of_100_studies() -> None:
    """Neither depends on the present number."""
    needed = true_sample(60, 8).topics_needed
    assert needed is not None
    assert needed == true_sample(150, 8).topics_needed
    assert min(shares(needed, 8)) > 0.72
    assert min(shares(needed // 3, 8)) < 0.5
    needed = true_sample(400, 3).seeds_needed
    assert needed is not None
    assert needed == true_sample(400, 30).seeds_needed
    assert min(shares(400, needed)) > 0.72


def test_no_topics_outweigh_too_few_seeds_and_intervals_have_standard_errors() -> None:
    assert true_sample(50, 1).topics_needed is None
    assert true_sample(50, 1000).seeds_needed is None
    assert replace(true_sample(50, 1000), of_trainings=0.0).seeds_needed is None, "trainings are no source of error"
    error = 0.004
    one = Sample.of_interval(-1.959964 * error, 1.959964 * error, 500, MARGIN)
    assert one.of_topics == pytest.approx(error**2, rel=1e-6)
    assert one.topics_needed == int(np.ceil(500 * (error * REACH / MARGIN) ** 2))


def pair_of(drawn: np.ndarray) -> Pair:
    names = [list(map(str, range(size))) for size in drawn.shape]
    return PairedScores(["a", "b"], names[0], np.stack([drawn, 0 * drawn]), names[1], names[2]).pair("a", "b")


def test_a_contrast_knows_its_parts() -> None:
    random = np.random.default_rng(2)
    many = [Contrast.of(pair_of(differences(random, 100, 5))) for _ in range(300)]
    assert {(one.n, one.seeds) for one in many} == {(100, 5)}
    assert np.mean([one.training_variance for one in many]) == pytest.approx(OF_TRAININGS**2 / FOLDS / 5, rel=0.1)
    one_seed = Contrast.of(pair_of(differences(random, 100, 1)))
    assert (one_seed.training_variance, one_seed.seeds) == (0.0, 1)
    assert Sample.of(one_seed, MARGIN).of_topics == pytest.approx(one_seed.standard_error**2)
    of_most = sample_of_most(dict(enumerate(many[:5])))
    errors = sorted(one.standard_error for one in many[:5])
    assert of_most.of_topics + of_most.of_trainings == pytest.approx(errors[2] ** 2)


def test_only_inconclusive_claims_have_a_sample(tmp_path: Path) -> None:
    decided = {"T46": INCONCLUSIVE, "T45": CONFIRMED, "T21": INCONCLUSIVE}
    samples = {"T46": true_sample(100, 4), "T45": true_sample(100, 4), "T21": true_sample(10**6, 8)}
    table = verdicts.frame(
        (one, Ruling(decided.get(one.id, CONFIRMED), reason="Because.", sample=samples.get(one.id)))
        for one in registry.claims()
    )
    table.write_csv(tmp_path / f"{verdicts.NAME}.csv")
    assert verdicts.read(tmp_path / f"{verdicts.NAME}.csv").equals(table)
    known = table.drop_nulls("margin")
    assert known["id"].to_list() == ["T46", "T21"]
    (section,) = Claims(table).sections()
    assert "Inconclusive claims number 2. For 2 of these" in section.text
    notes = {row[0].text: row[3].note for block in section.blocks for row in block.rows}  # type: ignore[union-attr]
    needed = samples["T46"].topics_needed
    assert f"to decide for ±0.01: {needed:,} topics instead of 100" in notes["T46"]
    assert notes["T21"].startswith("the sample decides for ±0.01")
    assert "decide" not in notes["T45"]
