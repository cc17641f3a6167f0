"""The numbers of a comparison against scipy's and against arithmetic that is written out; what a unit is."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rankbound.compare import Comparison, Pair, PairedScores, Settings, adjust, compare, statistics
from rankbound.compare.comparison import REPEATABILITY, Effect, against_margin, detectable, noise_margin
from rankbound.compare.scores import scores_of_frame

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

FEW = np.array([0.3, -0.1, 0.25, 0.2, -0.05, 0.4, 0.0, 0.15, -0.2, 0.1])
RANDOM = np.random.default_rng(20)
A, B = RANDOM.beta(4, 2, 60), RANDOM.beta(4, 2.4, 60)
D = A - B
QUICK = Settings(resamples=999, flips=999)


def pair_of(a: np.ndarray, b: np.ndarray) -> Pair:
    values = np.stack([a, b]).astype(float)
    values = values[:, :, None, None] if values.ndim == 2 else values
    names = [[str(place) for place in range(size)] for size in values.shape[1:]]
    return PairedScores(["A", "B"], names[0], values, names[1], names[2]).pair("A", "B")


def compared(a: object, b: object) -> Comparison:
    return compare(pair_of(np.array(a), np.array(b)), replace(QUICK, margin=0.1))


class TestSignFlips:
    # 14 units are the first that are sampled: not a multiple of eight.
    @pytest.mark.parametrize(("values", "error"), [(FEW, 1e-12), (np.linspace(-0.1, 0.3, 14), 0.01)])
    def test_few_units_agree_with_scipy(self, values: np.ndarray, error: float) -> None:
        exact = stats.permutation_test((values,), np.sum, permutation_type="samples", n_resamples=np.inf)
        assert statistics.sign_flip(values) == pytest.approx(exact.pvalue, abs=error)

    def test_degenerate_samples(self) -> None:
        assert statistics.sign_flip(np.concatenate([FEW, [math.nan, 0.0, 0.0]])) == statistics.sign_flip(FEW)
        assert statistics.sign_flip(np.zeros(30)) == 1.0
        assert math.isnan(statistics.sign_flip(np.array([math.nan])))
        assert statistics.sign_flip(np.full(40, 0.1), flips=499) == 1 / 500, "the smallest p-value is one of all draws"


@pytest.mark.parametrize("correction", ["holm", "bonferroni", "bh"])
def test_corrections_do_not_depend_on_order_or_tests_that_were_not_made(correction: str) -> None:
    p_values = np.array([0.04, 0.001, 0.3, 0.04, 0.9, 0.013])
    found = np.array(statistics.corrected(p_values, correction=correction))
    expected = {
        "holm": [0.16, 0.006, 0.6, 0.16, 0.9, 0.065],
        "bonferroni": [0.24, 0.006, 1, 0.24, 1, 0.078],
        "bh": stats.false_discovery_control(p_values),
    }
    assert found == pytest.approx(expected[correction])
    order = [3, 5, 0, 4, 1, 2]
    assert statistics.corrected(p_values[order], correction=correction) == found[order].tolist()
    assert statistics.corrected([*p_values, math.nan], correction) == pytest.approx([*found, math.nan], nan_ok=True)


class TestOtherTests:
    @pytest.mark.parametrize("values", [D, D[:9], np.round(D, 1), np.round(D[:9], 1), FEW])
    def test_they_are_those_of_scipy(self, values: np.ndarray) -> None:
        zeros = np.zeros(len(values))
        student = statistics.p_value_of_mean(values, test="t")
        assert student == pytest.approx(stats.ttest_rel(values, zeros).pvalue, rel=1e-12)
        ranks = statistics.p_value_of_mean(values, test="wilcoxon")
        assert ranks == pytest.approx(stats.wilcoxon(values, zero_method="wilcox").pvalue, rel=1e-12)
        for same in (-values, values[::-1], np.append(values, math.nan)):
            for test, found in (("t", student), ("wilcoxon", ranks)):
                assert statistics.p_value_of_mean(same, test=test) == pytest.approx(found, rel=1e-12)

    def test_zeros_are_left_out_of_ranks_and_rounding_errors_are_zeros_and_ties(self) -> None:
        values = np.array([0.1, 0.1, -0.1, 0.2, 0.3, -0.4, 0.0, 0.3, 0.3, 0.2, 0.5, 0.4, 0.6, 0.7, 0.8])
        blurred = values + 1e-13 * RANDOM.normal(size=len(values))
        assert statistics.wilcoxon(blurred) == statistics.wilcoxon(values) == stats.wilcoxon(values).pvalue
        assert statistics.wilcoxon(values) != stats.wilcoxon(blurred).pvalue, "scipy itself takes them for ranks"
        assert statistics.wilcoxon(np.zeros(9)) == 1
        for test in ("t", "wilcoxon"):
            assert math.isnan(statistics.p_value_of_mean(np.array([math.nan]), test=test))
        assert math.isnan(statistics.p_value_of_mean(np.array([0.1]), test="t"))

    def test_only_five_topics_that_differ_may_be_significant_by_the_t_test(self) -> None:
        a, b = np.array([0.5, 0.61, 0.72, 0.8, 0.9]), np.array([0.1, 0.2, 0.3, 0.4, 0.5])
        for test, said in (("t", ""), ("flips", ", and no difference could be significant")):
            found = compare(pair_of(a, b), Settings(test=test))
            assert f"no interval{said}: the scores differ in only 5 topics" in found.notes
            assert (found.p_value < 0.05) == (test == "t")


class TestIntervals:
    def test_they_are_scipys(self) -> None:
        theirs = stats.bootstrap((D,), np.mean, n_resamples=9999, rng=3).confidence_interval
        width = theirs.high - theirs.low
        assert statistics.interval_of_mean(D) == pytest.approx(tuple(theirs), abs=0.03 * width)

    def test_the_t_interval_and_both_tests_against_a_margin_are_scipys(self) -> None:
        theirs, found = stats.ttest_rel(A, B), against_margin(statistics.over_units(D), 0.05, "topics")
        assert statistics.interval_of_mean(D, method="t") == pytest.approx(
            tuple(theirs.confidence_interval()), abs=1e-12
        )
        assert statistics.over_units(D).p_value() == pytest.approx(theirs.pvalue)
        above = stats.ttest_1samp(D, -0.05, alternative="greater").pvalue
        below = stats.ttest_1samp(D, 0.05, alternative="less").pvalue
        assert found.p_not_worse == pytest.approx(above)
        assert found.p_alike == pytest.approx(max(above, below))
        assert (found.low, found.high) == pytest.approx(tuple(theirs.confidence_interval(0.9)))

    def test_columns_of_the_same_units_skewed_differences_and_no_spread(self) -> None:
        def correlation(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
            x, y = (one - one.mean(axis, keepdims=True) for one in (x, y))
            return (x * y).sum(axis) / np.sqrt((x**2).sum(axis) * (y**2).sum(axis))

        low, high = statistics.bootstrap(correlation, np.stack([A, A + B]), resamples=999)
        assert low < np.corrcoef(A, A + B)[0, 1] < high
        skewed = RANDOM.exponential(1, 60) ** 2
        plain = statistics.percentiles(statistics.drawn_means(skewed, 9999, 0), 0.955)
        assert all(one > other for one, other in zip(statistics.interval_of_mean(skewed), plain, strict=True))
        assert statistics.interval_of_mean(np.full(5, 0.25)) == (0.25, 0.25)
        assert all(map(math.isnan, statistics.interval_of_mean(np.array([0.25]))))


class TestEffects:
    def test_written_out(self) -> None:
        effect = Effect.of(np.array([0.2, 0.1, 0.0, 1e-12, -0.3]))
        assert (effect.wins, effect.ties, effect.losses) == (2, 2, 1)
        assert effect.superiority == 0.6
        assert effect.standardised == pytest.approx(0.0, abs=1e-9)
        assert Effect.of(D).standardised == pytest.approx(D.mean() / D.std(ddof=1))
        assert Effect.of(np.array([0.2, 0.1, -0.3]), higher_is_better=False).wins == 1

    @pytest.mark.parametrize("freedom", [4, 30, 700, math.inf])
    def test_the_detectable_difference_is_found_with_its_power(self, freedom: float) -> None:
        shift = detectable(statistics.Estimate(0.0, 2.0, freedom)) / 2.0
        critical = stats.t.isf(0.025, freedom)
        power = stats.norm.sf(critical - shift) if math.isinf(freedom) else stats.nct.sf(critical, freedom, shift)
        assert power == pytest.approx(0.8, abs=1e-6)
        assert shift > 1.959964 + 0.841621 - 1e-5, "that of the normal distribution, of the textbooks"


class TestMargins:
    def test_alike_is_the_interval_inside_the_margin_and_noise_a_change_of_seed(self) -> None:
        verdicts = {0.0: "alike", 0.05: "no worse", -0.05: "worse", -0.01: "undecided"}
        for mean, verdict in verdicts.items():
            assert against_margin(statistics.Estimate(mean, 0.002, 50), 0.01, "topics").verdict == verdict
            assert against_margin(statistics.Estimate(-mean, 0.002, 50), 0.01, "topics", False).verdict == verdict
        for mean in np.linspace(-0.012, 0.012, 25):
            found = against_margin(statistics.Estimate(float(mean), 0.004, 20), 0.01, "topics")
            assert (found.p_alike <= 0.05) == (found.low >= -0.01 and found.high <= 0.01)
        for margin in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="margin"):
                against_margin(statistics.over_units(D), margin, "topics")
        a, b = RANDOM.normal(size=(2, 30, 1, 4))
        means = [values[:, 0].mean(0).std(ddof=1) for values in (a, b)]
        assert noise_margin(pair_of(a, b)) == pytest.approx(REPEATABILITY * math.hypot(*means) / math.sqrt(2))
        assert pytest.approx(2.7718, abs=1e-4) == REPEATABILITY


class TestDesigns:
    def test_seeds_are_averaged_within_lists_and_lists_within_units(self) -> None:
        values = np.full((1, 2, 2, 2), math.nan)
        values[0, 0] = [[0.2, 0.4], [0.9, 0.9]]
        values[0, 1, 1] = [0.5, math.nan]
        assert PairedScores(["x"], ["u", "v"], values, "12", "01").matrix[:, 0] == pytest.approx([0.6, 0.5])

        a, b = RANDOM.normal(size=(2, 12, 5, 3))
        assert pair_of(a, b).differences == pytest.approx((a - b).mean((1, 2))), "crossed users are one unit each"
        a, b = np.full((2, 5, 2, 1), math.nan)
        a[:4, 0] = b[1:4, 0] = a[4, 1] = 0.5
        a[0, 0] = math.nan
        b[0, 0], a[0, 1], b[4, 1] = 0.4, 0.5, 0.5
        assert compare(pair_of(a, b), QUICK).notes[0] == ("left out: 1 topic with no common training of A and B")

    def test_what_only_one_has_is_left_out_and_named(self) -> None:
        a, b = RANDOM.normal(size=(2, 10, 2, 2))
        b[:, 1, 1] = math.nan
        a[3] = math.nan
        b[4, 0, 0] = math.nan
        a[5] = b[5] = math.nan
        found = compare(pair_of(a, b), QUICK)
        assert found.n_units == 8
        assert found.n_undefined == 1
        assert "left out: 1 training (fold 1, seed 1) that B does not have" in found.notes
        assert "left out: 1 topic (3) without a score of A" in found.notes
        assert "left out: 1 test list for which one of the two has no score" in found.notes
        assert [note for note in found.notes if "no common training" in note] == []
        kept = [0, 1, 2, 4, 6, 7, 8, 9]
        both = np.where(np.isfinite(a) & np.isfinite(b), a - b, math.nan)[kept]
        assert found.difference == pytest.approx(np.nanmean(np.nanmean(both, 2), 1).mean())

    def test_what_does_not_fit_is_refused(self) -> None:
        scores = PairedScores.of_matrix(np.zeros((3, 2)), ["x", "y"])
        for changes, message in (
            ({"systems": ["x", "y", "z"]}, "shape"),
            ({"systems": ["x", "x"]}, "'x' twice"),
            ({"values": np.full((2, 3, 1, 1), math.inf)}, "inf"),
            ({"members": np.zeros((2, 2), np.int64)}, "members"),
            ({}, "'z' is not one of x, y"),
        ):
            with pytest.raises(ValueError, match=message):
                replace(scores, **changes).pair("x", "z")


class TestTrainings:
    def test_the_noise_floor_is_the_spread_of_means_of_folds_that_vary_by_themselves(self) -> None:
        """Scores that are additive give the effects of seeds, whatever is missing."""
        for n_folds in (1, 3):
            cells = RANDOM.normal(size=(40, n_folds, 5))
            assert statistics.seed_deviation(cells) ** 2 == pytest.approx(
                cells.mean(0).var(1, ddof=1).sum() / n_folds**2
            )
        units, seeds = RANDOM.normal(size=(12, 1)), np.array([0.0, 0.5, 2.0])
        cells = (units + seeds)[:, None]
        whole = statistics.seed_deviation(cells)
        cells[:4, 0, 0] = cells[4:8, 0, 1] = cells[8:, 0, 2] = math.nan
        assert statistics.seed_deviation(cells) == pytest.approx(whole) == pytest.approx(seeds.std(ddof=1))

    @pytest.mark.parametrize("axis", [0, 2], ids=["seeds, if units agree", "units, if seeds agree"])
    def test_what_varies_decides(self, axis: int) -> None:
        values = RANDOM.normal(size=8)
        found = statistics.over_trainings(np.repeat(np.expand_dims(values, (axis, 1)), 30 if axis == 0 else 3, axis))
        theirs = stats.ttest_1samp(values, 0.0)
        assert found.interval(0.95) == pytest.approx(tuple(theirs.confidence_interval()))
        assert found.degrees_of_freedom == pytest.approx(7)

    def test_a_margin_is_held_against_new_trainings_too_but_seeds_that_change_nothing_give_none(self) -> None:
        a, b = RANDOM.normal(size=(2, 30, 2, 3)) + RANDOM.normal(size=(2, 1, 2, 3))
        margin, expected = compare(pair_of(a, b), replace(QUICK, margin=0.1)).margin, statistics.over_trainings(a - b)
        assert (margin.low, margin.high) == pytest.approx(expected.interval(0.9))
        assert margin.covers == "topics and trainings"
        cells = np.repeat(RANDOM.random((2, 30, 1, 1)), 3, 3)
        found = compare(pair_of(*cells), replace(QUICK, margin="noise"))
        assert found.margin is None
        assert "not tested against a margin: no score changes with the seed" in found.notes

    def test_complete_designs_have_the_variance_of_the_textbook(self) -> None:
        """MS(units) + MS(seeds) - MS(residual), over the number of scores."""
        cells = RANDOM.normal(size=(30, 1, 4)) + 3 * RANDOM.normal(size=(30, 1, 1)) + 3 * RANDOM.normal(size=(1, 1, 4))
        table = cells[:, 0]
        units, seeds = table.mean(1), table.mean(0)
        residuals = table - units[:, None] - seeds + table.mean()
        squares = 4 * units.var(ddof=1) + 30 * seeds.var(ddof=1) - (residuals**2).sum() / (29 * 3)
        found = statistics.over_trainings(cells)
        assert found.standard_error**2 == pytest.approx(squares / table.size)

    @pytest.mark.parametrize("missing", [0.0, 0.3, 0.5])
    def test_missing_scores_change_neither_the_noise_floor_nor_the_error(self, missing: float) -> None:
        """Filled by the mean of the other seeds, they would: .054, .036 and .022 with 0, 30 and 50 % missing."""
        random, deviations, errors = np.random.default_rng(1), [], []
        for _ in range(200):
            cells = random.normal(0, 0.02, (40, 1, 1)) + random.normal(0, 0.05, (1, 1, 4))
            cells = cells + random.normal(0, 0.02, (40, 1, 4))
            cells[random.random(cells.shape) < missing] = math.nan
            estimate = statistics.over_trainings(cells[np.isfinite(cells).any((1, 2))])
            deviations.append(statistics.seed_deviation(cells) ** 2)
            errors.append(estimate.standard_error**2)
        assert math.sqrt(np.mean(deviations)) == pytest.approx(0.05, rel=0.08)
        assert math.sqrt(np.mean(errors)) == pytest.approx(math.sqrt(0.05**2 / 4 + 0.02**2 / 40), rel=0.08)

    @pytest.mark.parametrize(
        ("scored", "deviation", "interval", "note"),
        [
            (np.ones((8, 1, 3)), True, True, "approximate: with 3 trainings"),
            (np.ones((8, 2, 2)), True, True, "approximate: with 4 trainings"),
            (np.ones((8, 1, 2)), True, False, "two trainings: an interval that covers new trainings takes at least"),
            (np.eye(4)[[0, 0, 1, 1, 2, 2, 3, 3]][:, None], False, False, "seeds of a fold have no topic in common"),
            (np.ones((8, 5, 1)), False, False, "one seed: the variance between trainings is unknown, and there is no"),
        ],
    )
    def test_trainings_that_say_little(self, scored: np.ndarray, deviation: bool, interval: bool, note: str) -> None:
        cells = np.where(scored > 0, RANDOM.normal(size=(2, *scored.shape)), math.nan)
        found = compare(pair_of(*cells), replace(QUICK, margin="noise"))
        assert [text for text in found.notes if note in text]
        assert (found.margin is None) != deviation
        assert math.isnan(found.trainings.low) != interval
        assert math.isnan(found.trainings.deviation) != deviation
        assert math.isnan(found.trainings.low) == math.isnan(found.trainings.p_value) != interval


class TestPairsThatShareMembers:
    def test_interval_and_test_are_of_the_t_distribution_or_members_say_nothing_of_others(self) -> None:
        faces = np.stack([RANDOM.permutation(20)[:2] for _ in range(60)])
        scores = PairedScores.of_matrix(np.stack([A, B], 1), "AB", members=faces)
        found, estimate = compare(scores.pair("A", "B"), QUICK), statistics.over_members(D, faces)
        assert estimate.degrees_of_freedom < 19
        theirs = stats.t(estimate.degrees_of_freedom, D.mean(), estimate.standard_error)
        assert (found.low, found.high) == pytest.approx(theirs.interval(0.95))
        assert found.p_value == pytest.approx(2 * min(theirs.cdf(0), theirs.sf(0)))
        assert found.notes[0].startswith("the pairs share 20 members: intervals and p are of the t distribution")
        assert found.notes[1].startswith("approximate: with 20 members, 95 % intervals cover ")
        assert compare(scores.pair("A", "B"), Settings(test="t", resamples=999)) == found
        with pytest.raises(ValueError, match="test: found wilcoxon for pairs that share members, expected t"):
            compare(scores.pair("A", "B"), Settings(test="wilcoxon"))
        few = PairedScores.of_matrix(np.stack([B + (np.arange(60) < 3), B], 1), "AB", members=faces)
        assert not math.isnan(compare(few.pair("A", "B"), QUICK).low), "pairs that tie count, too"
        for faces, reason in (
            ([(i, j) for i in range(4) for j in range(i)] * 10, "the pairs have only 4 members, and a test takes 5"),
            ([(0, i) for i in range(1, 61)], "one member is in all pairs"),
        ):
            scores = PairedScores.of_matrix(np.stack([A, B], 1), "AB", members=np.array(faces))
            found = compare(scores.pair("A", "B"), replace(QUICK, margin=0.1))
            assert f"not tested: {reason}" in found.notes
            assert all(map(math.isnan, (found.low, found.high, found.p_value, found.detectable)))
            assert found.margin is None


NO_DIFFERENCE = "no interval, and no difference could be significant: the scores differ in only {} topics"


class TestWhatIsNotTested:
    @pytest.mark.parametrize(
        ("a", "b", "n", "difference", "interval", "note"),
        [
            ([0.5], [0.4], 1, 0.1, False, "not tested: a test takes more than one topic"),
            ([math.nan, 0.2], [0.3, math.nan], 0, math.nan, False, "not compared: there is no topic for which both"),
            ([1.0] * 30, B[:30], 30, 1 - B[:30].mean(), True, "not tested: A scores 1 in every topic"),
            (B, B, 60, 0.0, False, "not tested: A and B score the same"),
            (B + 0.25, B, 60, 0.25, True, "not tested: A and B differ by 0.25"),
        ],
    )
    def test_few_or_constant(self, a: object, b: object, n: int, difference: float, interval: bool, note: str) -> None:
        found = compared(a, b)
        assert (found.n_units, found.effect is None) == (n, n == 0)
        assert found.difference == pytest.approx(difference, nan_ok=True)
        assert [one for one in found.notes if one.startswith(note)]
        assert all(map(math.isnan, (found.p_value, found.detectable)))
        assert math.isnan(found.low) == math.isnan(found.high) != interval
        assert found.margin is None

    @pytest.mark.parametrize(
        ("differing", "others", "confidence", "note"),
        [
            (2, 3, 0.95, NO_DIFFERENCE.format(2)),
            *((5, n, level, NO_DIFFERENCE.format(5)) for n, level in ((0, 0.95), (0, 0.8), (95, 0.95))),
            (6, 0, 0.99, "no 99 % interval: the scores differ in only 6 topics"),
            (6, 0, 0.95, ""),
            (8, 0, 0.99, ""),
        ],
    )
    def test_too_few_topics_to_find_anything(self, differing: int, others: int, confidence: float, note: str) -> None:
        """All differences are of one sign: an interval without 0 would contradict the p-value."""
        b = np.linspace(0.1, 0.6, differing + others)
        a = b + np.where(np.arange(len(b)) < differing, np.linspace(0.2, 0.3, len(b)), 0.0)
        cells = [np.tile(one[:, None, None], 3) + 0.01 * RANDOM.random((1, 1, 3)) for one in (a, b)]
        cells[0][differing:] = cells[1][differing:]
        found = compare(pair_of(*cells), replace(QUICK, confidence=confidence, margin=0.1))
        assert found.p_value == pytest.approx(2.0 ** (1 - differing))
        assert [text for text in found.notes if text.startswith("no ")] == ([note] if note else [])
        assert math.isnan(found.low) == bool(note)
        assert found.low > 0 or note
        undecided = "significant" in note
        assert math.isnan(found.detectable) == math.isnan(found.trainings.p_value) == undecided
        assert (found.margin is None) == undecided

    def test_a_family_counts_the_tests_that_were_made_and_settings_make_sense(self) -> None:
        rows = [compared(A, B), compared([1.0] * 60, B), compared(A, B)]
        found = adjust(rows)
        assert found[0].p_adjusted == pytest.approx(2 * rows[0].p_value)
        assert math.isnan(found[1].p_adjusted)
        for name, value in {"confidence": 95, "resamples": 3, "flips": 0, "interval": "bca", "margin": "seed"}.items():
            with pytest.raises(ValueError, match=name):
                Settings(**{name: value})


def test_folds_of_other_drawings_are_other_folds() -> None:
    """Seeds of a drawing are averaged first: three seeds of one drawing weigh as much as two of another."""
    pl = pytest.importorskip("polars")
    rows = [
        {"system": name, "topic": topic, "fold": 1, "seed": seed, "drawing": seed % 2, "AP": 0.5 + (seed % 2 == better)}
        for name, better in (("a", 0), ("b", 2))
        for topic in ("x", "y")
        for seed in range(5)
    ]
    found = scores_of_frame(pl.DataFrame(rows), "AP")
    assert list(found.folds) == ["1 of drawing 0", "1 of drawing 1"]
    assert found.values.shape == (2, 2, 2, 5)
    pair = found.pair("a", "b")
    assert pair.drawings is not None
    assert (pair.drawings.tolist(), pair.metric) == ([0, 1], "AP")
    assert pair.differences.tolist() == [0.5, 0.5], "not three fifths"
    with pytest.raises(ValueError, match="drawings: found shape"):
        replace(found, drawings=np.array([0]))
