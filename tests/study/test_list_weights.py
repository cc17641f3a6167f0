"""List weights: what affine bounds amount to, and what a training does with weights."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import SmoothLoss
from rankbound.training.trainer import LAST, Learner, Part, Trained, joined, train
from rankbound_study.data.list_weights import bound_weights, list_ranges

RELEVANCE = [[0, 1, 0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 1], [1, 0, 0, 0, 0, 1, 0], [1, 1, 1, 0], [0, 1]]
FLAT = torch.tensor([grade for grades in RELEVANCE for grade in grades])
LISTS = Lists.of_sizes(torch.tensor([len(grades) for grades in RELEVANCE]))
AFFINE = ("min-max", "expectation", "expectation-max")
METRICS = ("nDCG", "AP", "RR", "nRBP", "nDCG@2")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("bound", AFFINE)
def test_a_bounds_weights_are_the_ratio_of_gradients(metric: str, bound: str) -> None:
    weights = bound_weights(metric, bound, FLAT, LISTS.offsets)
    scores = torch.linspace(-1, 1, len(FLAT), dtype=torch.float64, requires_grad=True)

    def gradient(by: str) -> Tensor:
        return torch.autograd.grad(SmoothLoss(metric, by)(scores, FLAT, LISTS.offsets).sum(), scores)[0]

    bounded, unbounded = gradient(bound), gradient("none")
    expected = LISTS.spread(torch.from_numpy(weights)) * unbounded
    torch.testing.assert_close(bounded, expected)


@pytest.mark.parametrize("metric", METRICS)
def test_min_max_equalises_the_influence_of_informative_lists(metric: str) -> None:
    ranges = list_ranges(metric, FLAT, LISTS.offsets)
    influence = ranges * bound_weights(metric, "min-max", FLAT, LISTS.offsets)
    assert influence[ranges > 0] == pytest.approx(1)
    assert (influence[ranges == 0] == 0).all()
    assert (bound_weights(metric, "none", FLAT, LISTS.offsets) == (ranges > 0)).all()


def test_graded_lists_have_weights() -> None:
    relevance, offsets = [2, 0, 1, 2, 2, 0, 0, 1], [0, 3, 5, 8]
    low, high = rb.extremes("nDCG", relevance, offsets)
    weights = bound_weights("nDCG", "min-max", relevance, offsets)
    assert weights[[0, 2]] == pytest.approx(1 / (high - low)[[0, 2]])
    assert weights[1] == 0, "all orders of two items of one grade are alike"


def test_the_distribution_bound_has_no_weights() -> None:
    with pytest.raises(ValueError, match=r"bound distribution: found no list weights; expected an affine bound"):
        bound_weights("nDCG", "distribution", FLAT, LISTS.offsets)


class Table(nn.Module):
    """One free score per item."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.linspace(1, -1, len(FLAT), dtype=torch.float64))


def scores_of(model: nn.Module, part: Part) -> Tensor:
    assert isinstance(model, Table)
    return model.scores[part.items]


def part_with(weights: object = None, relevance: Tensor = FLAT) -> Part:
    names = [f"topic-{index}" for index in range(len(LISTS))]
    own = None if weights is None else torch.as_tensor(weights, dtype=torch.float64)
    return Part(names, torch.arange(len(LISTS)), torch.arange(len(FLAT)), relevance, LISTS, own)


def trained(part: Part, loss: SmoothLoss, optimiser: str = "sgd", rate: float = 0.5) -> tuple[Tensor, Trained]:
    model = Table()
    learner = Learner(model, scores_of, part, {"test": part_with()}, torch.Generator().manual_seed(0))
    judge = rb.metric("nDCG")
    settings = {"learning_rate": rate, "epochs": 5, "batch_size": 2, "optimiser": optimiser}
    (record,) = train([learner], loss, **settings, monitored=[judge], selections={"test": judge})
    return record.selected[LAST].weights["scores"], record


@pytest.mark.parametrize("bound", AFFINE)
def test_a_bounds_weights_train_the_bounded_losss_model(bound: str) -> None:
    """With mean weight 1, the steps of plain gradients differ by the common factor alone, and Adam's hardly at all."""
    weights = bound_weights("nDCG", bound, FLAT, LISTS.offsets)
    factor = weights[weights > 0].mean()
    weighted = part_with(weights / factor)
    by_sgd = trained(weighted, SmoothLoss("nDCG"))[0]
    torch.testing.assert_close(by_sgd, trained(part_with(), SmoothLoss("nDCG", bound), rate=0.5 / factor)[0])
    by_adam = trained(weighted, SmoothLoss("nDCG"), "adam", 0.1)[0]
    torch.testing.assert_close(
        by_adam, trained(part_with(), SmoothLoss("nDCG", bound), "adam", 0.1)[0], rtol=1e-5, atol=1e-5
    )
    unweighted = trained(part_with(), SmoothLoss("nDCG"))[0]
    assert float((by_sgd - unweighted).abs().max()) > 1e-3


def test_weights_of_one_change_nothing() -> None:
    plain, ones = (trained(part_with(weights), SmoothLoss("nDCG"))[0] for weights in (None, np.ones(len(LISTS))))
    assert torch.equal(plain, ones)


def test_a_list_of_weight_zero_is_left_out_like_an_uninformative_one() -> None:
    weights = np.ones(len(LISTS))
    weights[4] = 0
    without = FLAT.clone()
    without[LISTS.segment == 4] = 0
    scores, record = trained(part_with(weights), SmoothLoss("nDCG"))
    expected, of_others = trained(part_with(None, without), SmoothLoss("nDCG"))
    assert torch.equal(scores, expected)
    assert [epoch.loss for epoch in record.epochs] == [epoch.loss for epoch in of_others.epochs]


def test_batches_splits_and_joined_parts_keep_their_lists_weights() -> None:
    weights = np.arange(len(LISTS), dtype=np.float64)
    part = part_with(weights)
    assert part.list_weights is not None
    for piece, expected in (
        (part.batch(torch.tensor([4, 1])), [4.0, 1.0]),
        (part.split([2, 5])[1], weights[2:].tolist()),
        (joined([part_with(), part]), [*[1.0] * len(LISTS), *weights.tolist()]),
    ):
        assert piece.list_weights is not None
        assert piece.list_weights.tolist() == expected
    assert joined([part_with(), part_with()]).list_weights is None
