"""Weights of training lists: what a setting's text means, and what a job does with it."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.numpy import load_file
from study_files import write_instances
from test_train_job import options

import rankbound as rb
from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.training.trainer import Part
from rankbound_study.cli import main
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.contracts import read_table
from rankbound_study.data.list_weights import coefficient_of_variation, list_weights
from rankbound_study.data.reader import read_instances
from rankbound_study.jobs.examples import weighted
from rankbound_study.jobs.files import WEIGHTS, beside

SIZES = ((5, 2), (3, 1), (3, 0), (2, 2), (40, 7), (12, 11))
RELEVANCE = np.concatenate([np.arange(n) < p for n, p in SIZES]).astype(np.int8)
OFFSETS = np.concatenate([[0], np.cumsum([n for n, _ in SIZES])])
INFORMATIVE = [0, 1, 4, 5]
N, P = np.array(SIZES, np.float64)[INFORMATIVE].T

POWERS = {"pairs^-1": 1 / (P * (N - P)), "pairs^0.5": (P * (N - P)) ** 0.5, "relevant^-1": 1 / P, "items^-1.5": N**-1.5}
BOUNDS = ("min-max", "expectation", "expectation-max")


def weights(text: str, loss: str = "nDCG", seed: int = 0) -> np.ndarray:
    return list_weights(ListWeights.of(text), loss, RELEVANCE, OFFSETS, np.random.default_rng(seed))


@pytest.mark.parametrize("text", [*POWERS, *BOUNDS, "permuted(pairs^-1)", "permuted(min-max)"])
def test_weights_have_mean_one_over_the_informative_lists_and_are_zero_elsewhere(text: str) -> None:
    assert str(ListWeights.of(text)) == text
    found = weights(text)
    assert found[INFORMATIVE].mean() == pytest.approx(1)
    assert (found[INFORMATIVE] > 0).all()
    assert found[[2, 3]].tolist() == [0, 0]


@pytest.mark.parametrize("text", POWERS)
def test_powers_are_proportional_to_their_numbers(text: str) -> None:
    assert weights(text)[INFORMATIVE] == pytest.approx(POWERS[text] / POWERS[text].mean())


@pytest.mark.parametrize("loss", ["nDCG", "AP", "nRBP"])
def test_a_boundings_weights_are_one_over_its_unit(loss: str) -> None:
    n, p = N.astype(int), P.astype(int)
    low, high, mean = rb.minimum(loss, n, p), rb.maximum(loss, n, p), rb.expectation(loss, n, p)
    for bound, unit in zip(BOUNDS, (high - low, mean, high - mean), strict=True):
        assert weights(bound, loss)[INFORMATIVE] == pytest.approx(1 / unit / (1 / unit).mean())


def test_those_of_all_boundings_of_nrbp_are_the_inverse_number_of_pairs() -> None:
    for bound in BOUNDS:
        assert weights(bound, "nRBP") == pytest.approx(weights("pairs^-1"))


@pytest.mark.parametrize("text", ["pairs^-1", "expectation-max"])
def test_a_permutation_keeps_the_weights_and_moves_them_with_the_seed(text: str) -> None:
    plain = weights(text)
    drawn = [weights(f"permuted({text})", seed=seed) for seed in range(6)]
    for one in drawn:
        assert sorted(one) == pytest.approx(sorted(plain))
        assert coefficient_of_variation(one[INFORMATIVE]) == pytest.approx(coefficient_of_variation(plain[INFORMATIVE]))
    assert np.array_equal(drawn[3], weights(f"permuted({text})", seed=3))
    assert len({tuple(one) for one in drawn}) > 1


@pytest.mark.parametrize(
    "text", ["", "pair^-1", "pairs^", "pairs^-11", "permuted(min-max", "min-max^2", "distribution"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"list_weights: found .*, expected an affine bounding"):
        ListWeights.of(text)


def test_lists_of_which_none_is_informative_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"list_weights: pairs\^-1 has no weights for AP: no training list is inform"):
        list_weights(ListWeights.of("pairs^-1"), "AP", [1, 1, 0], [0, 2, 3], np.random.default_rng(0))


def train(folder: Path, instances: Path, name: str, **changes: object) -> Path:
    out = folder / f"{name}.parquet"
    text = json.dumps(options(protocol="honest", **changes))
    assert main(["job", "--instances", str(instances), "--out", str(out), "--options", text, "--device", "cpu"]) == 0
    return out


def model_of(runs: Path) -> dict[str, np.ndarray]:
    return load_file(beside(runs, WEIGHTS))


def test_a_job_with_a_boundings_weights_trains_the_bounded_losss_model(tmp_path: Path) -> None:
    instances = write_instances(tmp_path / "movielens-nsr1.parquet")
    model = {"name": "matrix-factorization", "factors": 4, "spread": 0.5}
    settings = {"loss": "nDCG", "optimiser": "sgd", "folds": [1], "model": model, "epochs": 8}
    bounded = train(tmp_path, instances, "bounded", bounding="min-max", learning_rate=5, **settings)
    split = read_instances(instances).split(1, "train")
    n, p = split.sizes, split.positives
    factor = (1 / (rb.maximum("nDCG", n, p) - rb.minimum("nDCG", n, p))).mean()
    weighted = train(
        tmp_path, instances, "weighted", bounding="none", learning_rate=5 * factor, list_weights="min-max", **settings
    )
    plain = train(tmp_path, instances, "plain", bounding="none", learning_rate=5 * factor, **settings)
    for name, values in model_of(bounded).items():
        np.testing.assert_allclose(model_of(weighted)[name], values, rtol=1e-4, atol=1e-6)
    assert any(np.abs(model_of(plain)[name] - model_of(weighted)[name]).max() > 1e-4 for name in model_of(plain))


def drawn(fold: int, seed: int, loss: str = "nDCG", dataset: str = "movielens") -> list[float]:
    """The permuted weights of the lists above in a training."""
    text = options(loss=loss, dataset=dataset, bounding="none", list_weights="permuted(pairs^-1)")
    lists = Lists(torch.from_numpy(OFFSETS))
    topics, items = torch.arange(len(lists)), torch.arange(len(RELEVANCE))
    part = Part([""] * len(lists), topics, items, torch.from_numpy(RELEVANCE), lists)
    found = weighted(TrainingJob.parse(json.dumps(text)), part, fold, seed).list_weights
    assert found is not None
    return list(found.tolist())


def test_a_permutation_is_shared_by_losses_and_drawn_anew_for_folds_seeds_and_data_sets() -> None:
    assert drawn(1, 0) == drawn(1, 0, loss="AP")
    # Four weights have few permutations: some of several draws differ.
    assert any(drawn(1, 0) != drawn(1, seed) for seed in range(1, 5))
    assert any(drawn(1, 0) != drawn(fold, 0) for fold in range(2, 6))
    assert any(drawn(1, seed) != drawn(1, seed, dataset="mq2008") for seed in range(4))


def test_the_options_of_runs_state_the_weights(tmp_path: Path) -> None:
    instances = write_instances(tmp_path / "movielens-nsr1.parquet")
    runs = train(tmp_path, instances, "permuted", bounding="none", list_weights="permuted(items^1.5)", folds=[1])
    frame = pl.from_arrow(read_table(runs, "runs"))
    assert isinstance(frame, pl.DataFrame)
    assert {json.loads(text)["list_weights"] for text in frame["options"]} == {"permuted(items^1.5)"}
