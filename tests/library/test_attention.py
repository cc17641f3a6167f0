"""Attention between the items of a list: what changes a score and what must not, and rankers that have it."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.training import models
from rankbound.training.models import AttentionScorer
from tests.library.planted_ratings import lists_of
from tests.library.refusals import refusals

SIZES = torch.tensor([3, 0, 5, 1, 3, 8])
LISTS = rb.Lists.of_sizes(SIZES)
QUICK: dict[str, Any] = {"model": "attention", "hidden": (8,), "blocks": 1, "learning_rate": 0.01, "loss": "softmax"}


def scorer(**options: Any) -> AttentionScorer:
    return AttentionScorer(4, (6, 8), generator=torch.Generator().manual_seed(3), **options)


def features() -> Tensor:
    return torch.randn(LISTS.n_items, 4, generator=torch.Generator().manual_seed(4))


def planted(n_topics: int, seed: int) -> rb.JudgedLists:
    """The best item has the highest or the lowest second feature of its list, as the sum of the first ones says."""
    generator = np.random.default_rng(seed)
    sizes = generator.integers(3, 8, n_topics)
    offsets = np.append(0, sizes.cumsum())
    rows = generator.normal(size=(offsets[-1], 2)).astype(np.float32)
    sign = np.sign(np.add.reduceat(rows[:, 0], offsets[:-1])).repeat(sizes)
    height = sign * rows[:, 1]
    best = height == np.maximum.reduceat(height, offsets[:-1]).repeat(sizes)
    topics = [f"{seed}.{topic}" for topic in range(n_topics)]
    return lists_of(sizes.tolist(), best.astype(np.int64), rows, ["sign", "height"], topics=topics)


@pytest.mark.parametrize("heads", [1, 4])
def test_permuting_the_items_of_lists_permutes_their_scores(heads: int) -> None:
    model, rows = scorer(heads=heads), features()
    order = torch.cat([torch.arange(start, stop).flip(0).roll(1) for start, stop in LISTS.offsets.unfold(0, 2, 1)])
    torch.testing.assert_close(model(rows[order], LISTS), model(rows, LISTS)[order], rtol=1e-6, atol=1e-6)


def test_another_item_changes_a_score_and_another_list_does_not() -> None:
    model, rows = scorer(), features()
    scores = model(rows, LISTS).detach()
    for changed in (0, 5, 12):
        other = rows.clone()
        other[changed] += 1
        moved = (model(other, LISTS).detach() - scores).abs() > 1e-6
        own = LISTS.segment == LISTS.segment[changed]
        assert bool(moved[own].all())
        assert not bool(moved[~own].any())
    for own in LISTS.each():
        alone = model(rows[own], rb.Lists.of_sizes([own.stop - own.start]))
        torch.testing.assert_close(alone, scores[own], rtol=1e-6, atol=1e-6)
    assert model(rows[:0], rb.Lists.of_sizes([0, 0])).shape == (0,)


def test_a_block_is_that_of_a_transformer() -> None:
    """PyTorch's encoder layer, normalised first, with the same weights."""
    model, width = scorer(blocks=1), 8
    layer = torch.nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, norm_first=True, batch_first=True)
    own = model.blocks[0].state_dict()
    names = {
        "self_attn.in_proj_": "inputs.",
        "self_attn.out_proj.": "output.",
        "linear1.": "each.0.",
        "linear2.": "each.2.",
        "norm1.": "norms.0.",
        "norm2.": "norms.1.",
    }
    layer.load_state_dict(
        {f"{one}{kind}": own[f"{ours}{kind}"] for one, ours in names.items() for kind in ("weight", "bias")}
    )
    for rows in torch.split(features(), SIZES.tolist()):
        if len(rows):
            expected = model.last(model.norm(layer(model.layers(rows)[None])))[0, :, 0]
            found = model(rows, rb.Lists.of_sizes([len(rows)]))
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_rankers_learn_what_needs_the_list_and_score_whole_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = planted(300, 0), planted(100, 1)
    ranker = rb.train_ranker(train, epochs=12, **QUICK)
    network = rb.train_ranker(train, epochs=12, **QUICK | {"model": "mlp"})
    run = ranker.score_lists(test)
    found, other = (rb.evaluate_run(one, test, "RR").means()["RR"] for one in (run, network.score_lists(test)))
    assert found > other + 0.1
    # Blocks are of whole lists, whatever their size.
    for rows in (1, 7, 100):
        monkeypatch.setattr(models, "SCORED_AT_ONCE", rows)
        np.testing.assert_allclose(ranker.score(test.features, test.offsets), run.scores, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"^offsets: found none, expected those of the lists: a model with attention"):
        ranker.score(test.features)
    assert ranker.score(test.features[:3], [0, 3]).shape == (3,)


test_refusals = refusals(
    [
        ({"hidden": ()}, r"^hidden: found \(\) beside 2 heads"),
        ({"hidden": (8, 5)}, r"^hidden: found \(8, 5\) beside 2 heads of attention, .* a multiple of 2"),
        ({"blocks": 0}, "^blocks: found 0, expected a number above 0"),
        ({"heads": 0}, "^heads: found 0, expected a number above 0"),
    ],
    lambda changed: rb.Recipe(model="attention", **changed),
)
