"""Relevance between 0 and 1, which losses and metrics of binary relevance count none of: they say so."""

import warnings

import pytest
import torch

import rankbound as rb

SCORES, OFFSETS = torch.tensor([0.3, 0.1, 0.2, 0.9]), [0, 3, 4]
SHARES = [0.2, 0.7, 0.0, 0.4]
BINARY = ("AP", "RR", "nRBP", "P@2", "RBP(p=0.8)")
OF_GAINS = ("nDCG(gain=linear)", "DCG(gain=linear)", "nDCG")


@pytest.mark.parametrize("text", BINARY)
def test_a_metric_of_binary_relevance_warns_of_fractions(text: str) -> None:
    with pytest.warns(UserWarning, match="relevance: found numbers below 1 alone"):
        values = rb.metric(text)(SCORES, SHARES, OFFSETS)
    assert not values.nan_to_num().any()


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize("text", [*BINARY[:3], "AP, min-max", "multinomial"])
def test_a_loss_of_binary_relevance_warns_of_fractions(text: str, fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", fast)
    name, _, bound = text.partition(", ")
    loss = rb.SmoothLoss(name, bound=bound) if bound else rb.loss(name)
    with pytest.warns(UserWarning, match="finds no relevant item in any list"):
        values = loss(SCORES.requires_grad_(), SHARES, OFFSETS)
    assert not values.any()


@pytest.mark.parametrize("fast", ["0", "1"])
@pytest.mark.parametrize(
    ("text", "relevance"),
    [
        *((text, SHARES) for text in (*OF_GAINS, "softmax", "ListNet", "RankNet", "LambdaRank")),
        # Lists without anything relevant, and some grade of 1 beside fractions, are common.
        *((text, [0.0, 0.0, 0.0, 0.0]) for text in ("AP", "softmax")),
        *((text, [0.2, 1.0, 0.0, 0.4]) for text in ("AP", "nRBP")),
        # No list has two grades.
        *((text, [0.5, 0.5, 0.5, 0.4]) for text in ("RankNet", "LambdaRank", "hinge")),
    ],
)
def test_others_do_not_warn(text: str, relevance: list[float], fast: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOUND_FAST", fast)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rb.loss(text)(SCORES, relevance, OFFSETS)
        if text in (*OF_GAINS, "AP", "nRBP"):
            rb.metric(text)(SCORES, relevance, OFFSETS)
