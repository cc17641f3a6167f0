"""The trainer: what it learns, keeps, divides by, repeats and refuses."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import SmoothLoss
from rankbound.training.trainer import LAST, Learner, Optimiser, Part, Trained, TrainingError, predict, train
from tests.forks import run_with_torch


class Table(nn.Module):
    """One free score per item."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores.clone())


def score(model: nn.Module, part: Part) -> Tensor:
    assert isinstance(model, Table)
    return model.scores[part.items]


def part_of(relevance: list[list[int]]) -> Part:
    sizes = torch.tensor([len(grades) for grades in relevance])
    flat = torch.tensor([grade for grades in relevance for grade in grades])
    lists = Lists(torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]))
    names = [f"topic-{index}" for index in range(len(relevance))]
    return Part(names, torch.arange(len(names)), torch.arange(len(flat)), flat, lists)


RELEVANCE = [[0, 1, 0, 0, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0, 0, 0, 1, 0]]


def run(part: Part, loss: str = "nDCG", epochs: int = 30, seed: int = 0, **keywords: object) -> tuple[Table, Trained]:
    model = Table(keywords.pop("start", torch.zeros(len(part.items))))  # type: ignore[arg-type]
    arguments = {
        "learning_rate": 0.1,
        "epochs": epochs,
        "batch_size": 2,
        "monitored": [rb.metric("nDCG"), rb.metric("AP")],
        "selections": {"test": rb.metric("nDCG")},
        **keywords,
    }
    learner = Learner(model, score, part, {"test": part}, torch.Generator().manual_seed(seed))
    (trained,) = train([learner], SmoothLoss(loss), **arguments)  # type: ignore[arg-type]
    return model, trained


@pytest.mark.parametrize("loss", ["nDCG", "AP", "nRBP"])
def test_kernels_train_as_the_formulas_do(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of the two a training takes depends on its size, and must not show beyond rounding."""
    found = []
    for worth in (0, 10**12):
        monkeypatch.setattr("rankbound.training.trainer.WORTH_A_KERNEL", worth)
        start = torch.linspace(-1, 1, sum(map(len, RELEVANCE)))
        model, trained = run(part_of(RELEVANCE), loss, start=start)
        found.append((model.scores.detach(), torch.tensor([epoch.loss for epoch in trained.epochs])))
    for by_kernel, by_formula in zip(*found, strict=True):
        torch.testing.assert_close(by_kernel, by_formula, rtol=1e-5, atol=1e-5)


def test_free_scores_learn_the_ideal_order_and_the_first_best_epoch_and_the_last_are_kept() -> None:
    part = part_of(RELEVANCE)
    model, trained = run(part, start=-part.relevance.to(torch.float32))
    values = [epoch.metrics["test"]["nDCG"] for epoch in trained.epochs]
    assert values[0] < values[-1] == 1
    assert trained.epochs[-1].loss < trained.epochs[0].loss
    assert [epoch.number for epoch in trained.epochs] == list(range(1, 31))
    chosen = trained.selected["test"]
    assert chosen.epoch == 1 + values.index(max(values))
    assert chosen.score == max(values)
    model.load_state_dict(chosen.weights)
    value = rb.metric("nDCG")(predict(model, score, part), part.relevance, part.lists.offsets)
    assert float(value.nanmean()) == pytest.approx(chosen.score)
    assert trained.selected[LAST].epoch == 30


def test_lists_without_relevant_items_change_nothing() -> None:
    """They stay in the batches, but the mean is over the others, and their scores get no gradient."""
    part = part_of([[0, 0, 0], [0, 0]])
    model, trained = run(part, epochs=3)
    assert torch.equal(model.scores.detach(), torch.zeros(5))
    assert math.isnan(trained.epochs[-1].metrics["test"]["nDCG"])
    whole = {"epochs": 1, "batch_size": 8}
    _, with_empty = run(part_of(RELEVANCE), **whole)
    _, without = run(part_of([grades for grades in RELEVANCE if any(grades)]), **whole)
    assert with_empty.epochs[0].loss == pytest.approx(without.epochs[0].loss)
    assert with_empty.epochs[0].gradient_norm == pytest.approx(without.epochs[0].gradient_norm)


def test_a_batch_holds_the_asked_lists_in_the_asked_order_and_splits_into_its_lists() -> None:
    whole = part_of(RELEVANCE)
    batch = whole.batch(torch.tensor([3, 1]))
    assert (batch.lists.offsets.tolist(), batch.topics.tolist()) == ([0, 7, 10], [3, 1])
    assert batch.relevance.tolist() == RELEVANCE[3] + RELEVANCE[1]
    assert batch.items.tolist() == [*range(11, 18), 5, 6, 7]
    first, none, rest = whole.split([1, 0, 3])
    assert (first.items.tolist(), none.items.tolist(), rest.items.tolist()) == ([*range(5)], [], [*range(5, 18)])
    assert (first.relevance.tolist(), rest.topics.tolist()) == (RELEVANCE[0], [1, 2, 3])
    assert [part.lists.offsets.tolist() for part in (first, none, rest)] == [[0, 5], [0], [0, 3, 6, 13]]


def test_scores_and_losses_that_are_no_numbers_stop_the_run_by_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in (math.nan, math.inf):
        parts = [part_of(RELEVANCE), replace(part_of(RELEVANCE), names=["first", "second", "third", "fourth"])]
        starts = [torch.zeros(len(part.items)) for part in parts]
        starts[1][6] = bad
        learners = [
            Learner(Table(start), score, part, {"test": part}, torch.Generator())
            for start, part in zip(starts, parts, strict=True)
        ]
        with pytest.raises(TrainingError, match=r"epoch 1: the score of topic second is not a finite.*learning rate"):
            train(learners, SmoothLoss("nDCG"), learning_rate=0.1, epochs=1, batch_size=8, monitored=[], selections={})

    def broken(self: SmoothLoss, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
        return torch.where(lists.sizes == 7, math.nan, scores.sum())

    monkeypatch.setattr(SmoothLoss, "of_lists", broken)
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    with pytest.raises(TrainingError, match=r"the loss of topic topic-3 is not a finite number"):
        run(part_of(RELEVANCE))


def test_every_epoch_may_draw_its_own_lists() -> None:
    parts = [part_of([[0, 1, 0]]), part_of([[1, 0, 0]]), part_of([[0, 0, 0]])]
    drawn: list[Part] = []

    def draw() -> Part:
        drawn.append(parts[len(drawn)])
        return drawn[-1]

    learner = Learner(Table(torch.zeros(3)), score, draw, {"test": parts[0]}, torch.Generator().manual_seed(0))
    settings = {"learning_rate": 0.1, "epochs": 3, "batch_size": 2, "optimiser": "sgd"}
    (trained,) = train([learner], SmoothLoss("nDCG"), **settings, monitored=[], selections={})  # type: ignore[arg-type]
    assert drawn == parts
    assert trained.epochs[0].gradient_norm > 0
    assert trained.epochs[2].gradient_norm == 0, "which lists are informative is asked of each drawing"


@pytest.mark.parametrize("loss", ["nDCG", "nRBP"])
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_learners_that_train_together_learn_what_they_would_alone(loss: str, optimiser: str) -> None:
    """Also with other numbers of batches: who has none left stands still while the others go on."""
    parts = [part_of(RELEVANCE), part_of(RELEVANCE[:1]), part_of([*RELEVANCE, [0, 1], [1, 0, 0]])]
    settings = {"learning_rate": 0.1, "epochs": 6, "batch_size": 2, "optimiser": optimiser}

    def learners() -> list[Learner]:
        starts = [torch.linspace(-1, 1, len(part.items)) for part in parts]
        return [
            Learner(Table(start), score, part, {"test": part}, torch.Generator().manual_seed(place))
            for place, (start, part) in enumerate(zip(starts, parts, strict=True))
        ]

    def fit(some: list[Learner]) -> list[Trained]:
        judge = rb.metric("nDCG")
        return train(some, SmoothLoss(loss), **settings, monitored=[judge], selections={"test": judge})

    together, alone = fit(learners()), [fit([one])[0] for one in learners()]
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one.selected[LAST].weights, other.selected[LAST].weights)
        assert [epoch.loss for epoch in one.epochs] == pytest.approx([epoch.loss for epoch in other.epochs], rel=1e-5)
        assert [e.gradient_norm for e in one.epochs] == pytest.approx([e.gradient_norm for e in other.epochs], rel=1e-4)
        assert [epoch.metrics for epoch in one.epochs] == [epoch.metrics for epoch in other.epochs]


@pytest.mark.parametrize(("kind", "peer"), [("adam", partial(torch.optim.Adam, fused=True)), ("sgd", torch.optim.SGD)])
def test_steps_are_those_of_torch(kind: str, peer: Any) -> None:
    """A parameter without a gradient stays."""
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 2, generator=generator), torch.randn(4, generator=generator), torch.ones(2)]
    ours, theirs = ([nn.Parameter(values.clone()) for values in start] for _ in range(2))
    optimiser, their_optimiser = Optimiser(kind, [ours], 0.1), peer(theirs, lr=0.1)
    for _ in range(5):
        for parameters, step in ((ours, lambda: optimiser.step([0])), (theirs, their_optimiser.step)):
            for parameter in parameters if parameters is theirs else ():
                parameter.grad = None
            (parameters[0].square().sum() + (parameters[1] - 1).abs().sum()).backward()
            step()
    for parameter, expected, first in zip(ours, theirs, start, strict=True):
        assert torch.equal(parameter, expected)
        assert torch.equal(parameter, first) == (first is start[2])
        assert parameter.grad is None


def test_a_step_does_not_load_the_compiler() -> None:
    code = (
        "import sys, torch; from rankbound.training.trainer import Optimiser; p = torch.nn.Parameter(torch.ones(2)); "
        "p.sum().backward(); Optimiser('adam', [[p]], 0.1).step([0]); "
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert run_with_torch(code).returncode == 0
