"""Texts of losses: those that `rankbound.loss` reads, and its messages for those that it refuses."""

import re
from pathlib import Path

import pytest
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS, RankingLoss, SmoothLoss
from rankbound.losses.lambda_loss import LambdaLoss, LambdaRankLoss
from rankbound.metrics import metric


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("ListNet", "ListNet@1"),
        ("ListMLE", "ListMLE"),
        ("ListMLE @3", None),
        (" softmax ", "softmax"),
        ("softmax(gain=linear)", "softmax"),
        ("squared( reduction = sum )", "squared(reduction=sum)"),
        ("ordinal(learn=true, grades=5)", "ordinal(grades=5,learn=true)"),
        ("LambdaRank(metric=nDCG(gain=exp2)@10)", "LambdaRank(metric=nDCG@10)"),
        ("LambdaRank(metric=nDCG(gain=linear)@10)", "LambdaRank(metric=nDCG(gain=linear)@10)"),
        ("LambdaRank(metric=nDCG,temperature=1.0)", "LambdaRank"),
        ("LambdaLoss(scheme=ndcg-loss2++, mu=5)", "LambdaLoss(mu=5)"),
        (
            "LambdaLoss(metric=RBP(p=0.8,rel=2),scheme=ndcg-loss1)",
            "LambdaLoss(metric=RBP(rel=2,p=0.8),scheme=ndcg-loss1)",
        ),
    ],
)
def test_a_text_is_written_in_one_way(given: str, written: str | None) -> None:
    if written is None:
        with pytest.raises(ValueError, match="expected a text such as"):
            rb.loss(given)
    else:
        assert rb.loss(given).text == rb.loss(written).text == written


@pytest.mark.parametrize("text", ["nDCG", "nDCG@10", "AP(rel=2)", "nRBP", "nRBP(p=0.95)", "RR"])
def test_a_metric_is_its_smooth_loss(text: str) -> None:
    loss = rb.loss(text, bound="min-max", temperature=0.5)
    assert isinstance(loss, SmoothLoss)
    assert loss.text == text
    assert loss.temperature == 0.5
    assert isinstance(rb.loss(metric(text)), SmoothLoss)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lisnet", r"loss 'lisnet': unknown name 'lisnet'.* Did you mean ListNet\?"),
        ("LambdaMART", "LambdaRank, which boosts trees"),
        ("ndcg", r"two meanings: .*write nDCG\(gain=linear\);.*: write nDCG$"),
        ("softmax@3", "loss 'softmax@3': softmax takes no cut-off"),
        ("LambdaRank@10", r"LambdaRank takes no cut-off: write LambdaRank\(metric=nDCG@10\)"),
        ("ListNet@0", "found cut-off 0, expected at least 1"),
        ("ListMLE@-1", "expected a text such as"),
        ("softmax(gain=log)", "^gain: found log, expected one of linear, exp2"),
        ("softmax(rel=1)", r"unknown parameter 'rel'; softmax takes: gain"),
        ("squared(gain=log)", "^gain: found log, expected one of linear, exp2"),
        ("squared(reduction=max)", "^reduction: found max, expected one of mean, sum"),
        ("logistic(rel=high)", "found rel=high, expected int"),
        ("ordinal(grades=1)", "^grades: found 1, expected at least 2"),
        ("ordinal(learn=yes)", "found learn=yes, expected true or false"),
        ("LambdaRank(temperature=0)", "^temperature: found 0.0, expected a number above 0"),
        ("LambdaRank(temperature=nan)", "^temperature: found nan, expected a number above 0"),
        ("LambdaRank(metric=AP)", r"^metric: found AP, expected one that adds up over items, such as nDCG@10"),
        ("LambdaRank(metric=ndgc)", r"metric 'ndgc': unknown name 'ndgc'.* Did you mean nDCG\?"),
        ("LambdaRank(metric=nDCG@0)", "metric 'nDCG@0': found cut-off 0"),
        ("LambdaLoss(scheme=ndcg-loss3)", "^scheme: found ndcg-loss3, expected one of lambdarank, ndcg-loss1"),
        ("LambdaLoss(mu=-1)", "^mu: found -1.0, expected a number from 0"),
        ("RankNet(reduction=max)", "^reduction: found max, expected one of mean, sum"),
        ("hinge(weight=gain)", "^weight: found gain, expected one of uniform, difference"),
        ("DirectRanker(method=fast)", "^method: found 'fast'"),
        ("RankNet(temperature=0)", "^temperature: found 0.0, expected a number above 0"),
        ("hinge(margin=-1)", "^margin: found -1.0, expected a number from 0"),
        ("WARP(margin=0)", "^margin: found 0.0, expected a number above 0"),
        ("WARP(alpha=linear)", "^alpha: found linear, expected one of harmonic, constant"),
        ("WARP(rel=0)", "^rel: found 0.0, expected a grade above 0"),
        ("WARP(samples=-1)", "^samples: found -1"),
        ("hinge@3", "hinge takes no cut-off"),
    ],
)
def test_a_text_that_names_no_loss_is_answered(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.loss(text)


@pytest.mark.parametrize("name", KINDS)
def test_bounds_and_temperatures_beside_the_text_are_for_metrics(name: str) -> None:
    with pytest.raises(ValueError, match=r"^bound: found min-max for the loss"):
        rb.loss(name, bound="min-max")
    with pytest.raises(ValueError, match=r"^temperature: found 0.5 beside the loss"):
        rb.loss(name, temperature=0.5)


def test_a_cutoff_must_be_positive_in_python_too() -> None:
    for name in ("ListNet", "ListMLE", "WARP"):
        with pytest.raises(ValueError, match=r"^cutoff: found 0, expected at least 1"):
            KINDS[name](cutoff=0)


def test_a_metric_may_be_given_as_an_object() -> None:
    losses: list[RankingLoss] = [LambdaRankLoss(metric=metric("nDCG@5")), LambdaLoss(metric=metric("nDCG@5"))]
    assert [loss.text for loss in losses] == ["LambdaRank(metric=nDCG@5)", "LambdaLoss(metric=nDCG@5)"]


def test_the_page_lists_every_loss() -> None:
    """One row each, by a text that builds it; and the texts in its prose build too."""
    page = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
    table = page.partition("## All others")[2].partition("## ")[0]
    rows = re.findall(r"^\| `(\S+)` \|", table, flags=re.MULTILINE)
    assert sorted(type(rb.loss(text)).name for text in rows) == sorted(KINDS)
    for text in re.findall(rf"`((?:{'|'.join(KINDS)})\([^`]*\))`", page):
        assert rb.loss(text).text == text


def test_a_loss_without_parameters_needs_no_constructor(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(RankingLoss):
        name = "own"

        def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
            return lists.sum(scores)

    monkeypatch.setitem(KINDS, "own", Own)
    assert rb.loss("own").text == "own"
    with pytest.raises(ValueError, match="own"):
        rb.loss("own(temperature=2)")
