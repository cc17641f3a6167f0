"""The sample that would decide a claim: a study of that size does decide, and smaller ones do so less often."""

from dataclasses import replace

import numpy as np
import pytest

from rankbound.compare.margins import LEVEL
from rankbound.compare.scores import Pair, PairedScores
from rankbound.compare.statistics import Estimate, over_trainings
from rankbound_study.claims import registry, verdict_table
from rankbound_study.claims.cells import contrast
from rankbound_study.claims.rules import REACH, Sample, sample_of_most
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, Verdict
from rankbound_study.report.claims_section import Claims

MARGIN = 0.01
FOLDS = 2
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
    return float(significant), float(np.mean([_is_alike(one) for one in found[0.0]]))


def _is_alike(one: Estimate) -> bool:
    return max(one.p_above(-MARGIN), one.p_below(MARGIN)) <= LEVEL


@pytest.mark.parametrize(("topics", "seeds"), [(60, 8), (150, 8)])
def test_the_topics_needed_decide_in_80_of_100_studies(topics: int, seeds: int) -> None:
    needed = true_sample(topics, seeds).topics_needed
    assert needed is not None
    assert min(shares(needed, seeds)) > 0.72
    assert min(shares(needed // 3, seeds)) < 0.5


def test_the_seeds_needed_decide_in_80_of_100_studies() -> None:
    topics = 400
    needed = true_sample(topics, 3).seeds_needed
    assert needed is not None
    assert min(shares(topics, needed)) > 0.72
    assert needed == true_sample(topics, 30).seeds_needed, "it does not depend on the present number"


def test_no_number_of_topics_outweighs_too_few_seeds() -> None:
    assert true_sample(50, 2).topics_needed is None
    assert true_sample(50, 1000).seeds_needed is None
    assert replace(true_sample(50, 1000), of_trainings=0.0).seeds_needed is None, "trainings are no source of error"


def test_an_interval_has_the_standard_error_of_its_estimate() -> None:
    error = 0.004
    one = Sample.of_interval(-1.959964 * error, 1.959964 * error, 500, MARGIN)
    assert one.of_topics == pytest.approx(error**2, rel=1e-6)
    assert one.topics_needed == int(np.ceil(500 * (error * REACH / MARGIN) ** 2))


def pair_of(drawn: np.ndarray) -> Pair:
    names = [list(map(str, range(size))) for size in drawn.shape]
    return PairedScores(["a", "b"], names[0], np.stack([drawn, 0 * drawn]), names[1], names[2]).pair("a", "b")


def test_a_contrast_knows_its_parts() -> None:
    random = np.random.default_rng(2)
    many = [contrast(pair_of(differences(random, 100, 5))) for _ in range(300)]
    assert {(one.n, one.seeds) for one in many} == {(100, 5)}
    assert np.mean([one.training_variance for one in many]) == pytest.approx(OF_TRAININGS**2 / FOLDS / 5, rel=0.1)
    one_seed = contrast(pair_of(differences(random, 100, 1)))
    assert (one_seed.training_variance, one_seed.seeds) == (0.0, 1)
    assert Sample.of(one_seed, MARGIN).of_topics == pytest.approx(one_seed.estimate.standard_error**2)
    of_most = sample_of_most(dict(enumerate(many[:5])), MARGIN)
    errors = sorted(one.estimate.standard_error for one in many[:5])
    assert of_most.of_topics + of_most.of_trainings == pytest.approx(errors[2] ** 2)


def test_only_inconclusive_claims_have_a_sample(tmp_path) -> None:  # type: ignore[no-untyped-def]
    decided = {"T46": INCONCLUSIVE, "T45": CONFIRMED, "T21": INCONCLUSIVE}
    samples = {"T46": true_sample(100, 4), "T45": true_sample(100, 4), "T21": true_sample(10**6, 8)}
    table = verdict_table.frame(
        (one, Verdict(decided.get(one.id, CONFIRMED), "Because.", sample=samples.get(one.id)))
        for one in registry.claims()
    )
    table.write_csv(tmp_path / f"{verdict_table.NAME}.csv")
    assert verdict_table.read(tmp_path / f"{verdict_table.NAME}.csv").equals(table)
    known = table.drop_nulls("margin")
    assert known["id"].to_list() == ["T46", "T21"]
    (section,) = Claims(table).sections()
    assert "Inconclusive claims number 2. For 2 of these" in section.text
    notes = {row[0].text: row[3].note for block in section.blocks for row in block.rows}  # type: ignore[union-attr]
    needed = samples["T46"].topics_needed
    assert f"to decide for ±0.01: {needed:,} topics instead of 100" in notes["T46"]
    assert notes["T21"].startswith("the sample decides for ±0.01")
    assert "decide" not in notes["T45"]
