"""Generated ratings with planted parameters: the truth holds by construction."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtri

from rankbound.errors import ConfigError
from rankbound_study.cli import main
from rankbound_study.config.sections.planted import PlantedKeys
from rankbound_study.data.contracts import read_metadata, read_table
from rankbound_study.data.synthetic import Population, _ratings, generate

USERS = 200


def population(**parameters: float) -> Population:
    return Population.drawn(np.random.default_rng(0), USERS, PlantedKeys.model_validate(parameters))


@pytest.mark.parametrize("spread", [0, 0.5, 1.0, 1.5])
def test_sizes_have_the_planted_spread_and_one_mean(spread: float) -> None:
    drawn = population(spread=spread)
    assert np.log(drawn.relevant).std() == pytest.approx(spread, abs=0.01)
    assert drawn.relevant.mean() == pytest.approx(175, abs=1)
    assert drawn.relevant.min() >= 5


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_the_minority_is_as_large_as_planted_and_as_correlated(correlation: float) -> None:
    drawn = population(spread=1, correlation=correlation)
    assert drawn.minority.sum() == 50
    place = np.argsort(np.argsort(drawn.relevant))
    if correlation == 1:
        assert (drawn.minority == (place >= 150)).all()
    # The mean normal score of the largest quarter of a standard normal variable is 1.271.
    scores = ndtri((place + 0.5) / USERS)
    assert scores[drawn.minority].mean() == pytest.approx(1.271 * correlation, abs=0.2)


def test_the_two_kinds_of_taste_share_no_dimension() -> None:
    drawn = population(rank=6)
    used = drawn.tastes != 0
    assert used[drawn.minority, :3].all()
    assert not used[drawn.minority, 3:].any()
    assert used[~drawn.minority, 3:].all()
    assert not used[~drawn.minority, :3].any()
    utilities = np.array(list(drawn.utilities()))
    assert np.linalg.matrix_rank(utilities) == 6
    assert np.linalg.matrix_rank(utilities[drawn.minority]) == 3
    assert np.linalg.matrix_rank(np.array(list(population(rank=6, popularity=1).utilities()))) == 7


def test_parameters_change_nothing_else() -> None:
    one, other = population(spread=0, correlation=1), population(spread=1.5, correlation=1)
    assert (one.minority == other.minority).all()
    assert (one.tastes == other.tastes).all()
    assert (one.item_tastes == other.item_tastes).all()
    assert (one.relevant != other.relevant).any()


def relevant_items(utility: np.ndarray, count: int, noise: float, users: int) -> np.ndarray:
    """The share of users of one utility to whom each item is relevant."""
    random = np.random.default_rng(3)
    table = _ratings(random, np.full(users, count), [utility] * users, noise)
    good = table.column("rating").to_numpy() >= 4
    items = (table.column("item").to_numpy()[good] - 1) // 3
    return np.bincount(items, minlength=len(utility)) / users


def test_items_of_larger_utility_are_more_likely_to_be_relevant() -> None:
    utility = np.linspace(2, -2, 9)
    share = relevant_items(utility, 3, 1.0, 4000)
    # The order by utility is Bayes-optimal: 4000 draws separate neighbours that differ by 0.5.
    assert (np.diff(share) < 0).all()
    assert share.sum() == pytest.approx(3)
    loud = relevant_items(utility, 3, 4.0, 4000)
    assert loud.max() - loud.min() < 0.7 * (share.max() - share.min())


def test_without_noise_the_items_of_largest_utility_are_relevant() -> None:
    utility = np.random.default_rng(1).standard_normal(40)
    share = relevant_items(utility, 7, 1e-9, 2)
    assert set(np.flatnonzero(share == 1)) == set(np.argsort(-utility)[:7])


def test_the_step_writes_the_data_set_with_its_parameters(tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    planted = '{"spread": 1, "items": 500, "mean_relevant": 20}'
    main(["generate", "synthetic-wide", "--size", "30", "--seed", "2", "--planted", planted, "--out", str(out)])
    table = read_table(out, "interactions")
    assert len(np.unique(table.column("topic").to_numpy())) == 30
    stated = json.loads(read_metadata(out, "interactions")["rankbound.synthetic"])
    assert stated["planted"] == PlantedKeys(spread=1, items=500, mean_relevant=20).model_dump()
    # A name is no parameter.
    generate("synthetic-other", tmp_path / "y.parquet", 2, "30", PlantedKeys(spread=1, items=500, mean_relevant=20))
    assert table.equals(read_table(tmp_path / "y.parquet", "interactions"))


@pytest.mark.parametrize(
    ("dataset", "planted", "message"),
    [
        ("synthetic-wide", None, "no synthetic data set 'synthetic-wide'"),
        ("synthetic-movielens", PlantedKeys(), "any other name synthetic-"),
        ("wide", PlantedKeys(), "no synthetic data set 'wide'"),
        ("synthetic-wide", PlantedKeys(items=100), "planted.items is 100, but the longest list takes 365 rated items"),
    ],
)
def test_what_cannot_be_generated_is_refused(
    tmp_path: Path, dataset: str, planted: PlantedKeys | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        generate(dataset, tmp_path / "x", 0, "20", planted)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"rank": 3}', "rank: is 3: expected an even number"), ('{"sprad": 1}', "sprad"), ('{"spread": -1}', "spread")],
)
def test_wrong_parameters_are_refused(tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture) -> None:
    status = main(["generate", "synthetic-wide", "--size", "20", "--planted", text, "--out", str(tmp_path / "x")])
    assert status
    assert message in capsys.readouterr().err
