"""Texts of losses and metrics, other tools' names of them, and messages for input that a newcomer tries."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS, RankingLoss, SmoothLoss
from rankbound.losses.lambda_loss import LambdaLoss, LambdaRankLoss
from rankbound.metrics import metric
from rankbound.metrics.cumulative_gain import NDCG
from tests.library.conftest import Program
from tests.library.pages import text_of
from tests.library.refusals import refusals


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


test_a_text_that_names_no_loss_is_answered = refusals(
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
        ("LambdaRank(metric=AP)", r"^metric: found AP, expected one that adds up over items, such as nDCG@10"),
        ("LambdaRank(metric=ndgc)", r"metric 'ndgc': unknown name 'ndgc'.* Did you mean nDCG\?"),
        ("LambdaRank(metric=nDCG@0)", "metric 'nDCG@0': found cut-off 0"),
        ("LambdaLoss(scheme=ndcg-loss3)", "^scheme: found ndcg-loss3, expected one of lambdarank, ndcg-loss1"),
        ("LambdaLoss(mu=-1)", "^mu: found -1.0, expected a number from 0"),
        ("RankNet(reduction=max)", "^reduction: found max, expected one of mean, sum"),
        ("hinge(weight=gain)", "^weight: found gain, expected one of uniform, difference"),
        ("DirectRanker(method=fast)", "^method: found fast"),
        ("RankNet(temperature=0)", "^temperature: found 0.0, expected a number above 0"),
        ("hinge(margin=-1)", "^margin: found -1.0, expected a number from 0"),
        ("WARP(margin=0)", "^margin: found 0.0, expected a number above 0"),
        ("WARP(alpha=linear)", "^alpha: found linear, expected one of harmonic, constant"),
        ("WARP(rel=0)", "^rel: found 0.0, expected a grade above 0"),
        ("WARP(samples=-1)", "^samples: found -1"),
    ],
    rb.loss,
)


def test_losses_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KINDS:
        with pytest.raises(ValueError, match=r"^bound: found min-max for the loss"):
            rb.loss(name, bound="min-max")
        with pytest.raises(ValueError, match=r"^temperature: found 0.5 beside the loss"):
            rb.loss(name, temperature=0.5)
    for name in ("ListNet", "ListMLE", "WARP"):
        with pytest.raises(ValueError, match=r"^cutoff: found 0, expected at least 1"):
            KINDS[name](cutoff=0)
    losses: list[RankingLoss] = [LambdaRankLoss(metric=metric("nDCG@5")), LambdaLoss(metric=metric("nDCG@5"))]
    assert [loss.text for loss in losses] == ["LambdaRank(metric=nDCG@5)", "LambdaLoss(metric=nDCG@5)"]

    class Own(RankingLoss):
        name = "own"

        def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
            return lists.sum(scores)

    monkeypatch.setitem(KINDS, "own", Own)
    assert rb.loss("own").text == "own"
    with pytest.raises(ValueError, match="own"):
        rb.loss("own(temperature=2)")


def test_the_page_lists_every_loss() -> None:
    """One row each, by a text that builds it; and the texts in its prose build too."""
    page, table = text_of("losses.md"), text_of("losses.md", "All others")
    rows = re.findall(r"^\| `(\S+)` \|", table, flags=re.MULTILINE)
    assert sorted(type(rb.loss(text)).name for text in rows) == sorted(KINDS)
    for text in re.findall(rf"`((?:{'|'.join(KINDS)})\([^`]*\))`", page):
        assert rb.loss(text).text == text


MEANINGS = {
    "ir_measures": {
        "NDCG(cutoff=10)": "nDCG(gain=linear)@10",
        "nDCG(dcg='log2')@10": "nDCG(gain=linear)@10",
        'nDCG(dcg="exp-log2")': "nDCG",
        "nDCG(dcg='exp-log2')@10": "nDCG@10",
        "MAP(rel=2)@10": "AP(rel=2)@10",
        "MRR@10": "RR@10",
        "Precision(rel=2)@5": "P(rel=2)@5",
        "P(rel=2,judged_only=False)@5": "P(rel=2)@5",
        "Recall(rel=2)@10": "Recall(rel=2)@10",
        "RBP(rel=1)": "RBP(p=0.8)",
        "RBP(p=0.5,rel=2)": "RBP(rel=2,p=0.5)",
        "ERR@20": "ERR(max=4)@20",
        "RPrec(rel=2)": "Rprec(rel=2)",
        "BPref(rel=2)": "Bpref(rel=2)",
        "IPrec(rel=2)@0.25": "IPrec(rel=2,recall=0.25)",
        "IPrec(recall=0.5)": "IPrec(recall=0.5)",
        "SetP(relative=True)": "SetRelP",
        "SetP(relative=False)": "SetP",
        "Compat(normalize=True)": "Compat",
        "SDCG(dcg='log2',max_rel=3)@10": "SDCG(max=3)@10",
        "INST(T=2.0,max_rel=3)": "INST(max=3,T=2)@1000",
        "NRBP(beta=0.8)": "novelty_RBP(beta=0.8)",
        "nNRBP": "novelty_nRBP",
    },
    "trec_eval": {"ndcg_cut.20": "nDCG(gain=linear)@20", "set_P": "SetP", "set_recall": "SetR", "set_F": "SetF"},
}
REFUSED = {
    "ir_measures": {
        "BPM(max_rel=3)@10": "without a counterpart: a better item in place of another can worsen it",
        "NERR8(max_rel=3)@10": "without a counterpart: it approximates ERR",
        "Compat(normalize=False)": "found normalize=False, expected True",
        "INSQ(min_rel=1,max_rel=3)": "expected grades from 0",
        "SDCG(max_rel=3)": "SDCG needs a cut-off",
        "INST": "INST needs max",
        "SetF(beta=-1)": "beta=-1.0, expected a finite number above 0",
        "IPrec": "IPrec needs recall",
        "IPrec@10": "recall=10.0, expected a recall from 0 to 1",
        "Accuracy": "PairAccuracy compares grades",
        "RBP(p=0.8)": "without rel it has graded gains",
        "RBP(p=0.8,rel=1)@10": "takes no cut-off",
        "nDCG(gains={0:1})@10": "no other gains",
        "nDCG(dcg='ln')@10": "expected dcg='log2' or dcg='exp-log2'",
        "P(judged_only=True)@5": "found judged_only",
        "P@0": "cut-off 0, expected at least 1",
        "nDCG(cutoff=0)": "cut-off 0, expected at least 1",
        "NDGC@10": "Did you mean nDCG",
    },
    "trec_eval": {
        "ndcg_cut": "unknown name 'ndcg_cut'",
        "num_ret": "a name of trec_eval, ranx without a counterpart",
        "ndgc": "Did you mean nDCG",
        "P_0": "unknown name 'P_0'",
    },
    "terrier": {"AP": r"^names: found 'terrier', expected one of rankbound, trec_eval, ir_measures"},
}


def test_what_they_mean_here() -> None:
    for names, meanings in MEANINGS.items():
        assert {theirs: str(rb.metric(theirs, names=names)) for theirs in meanings} == meanings
    assert rb.metric(rb.metric("nDCG"), names="ir_measures") == rb.metric("nDCG")


test_what_has_no_counterpart_is_refused = refusals(
    [((theirs, names), message) for names, rows in REFUSED.items() for theirs, message in rows.items()],
    lambda given: rb.metric(given[0], names=given[1]),
)


SCORES, RELEVANCE, OFFSETS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), torch.tensor([0, 3])
FRAME = pl.DataFrame({"topic": [1, 1, 2, 2], "relevance": [0, 1, 1, 0], "f": [0.1, 0.2, 0.5, 0.4]})

CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: rb.loss("nDCG")(np.zeros(3), RELEVANCE, OFFSETS), "scores: found ndarray, expected a torch.Tensor"),
    (lambda: rb.loss("RankNet")([0.1, 0.2, 0.3], [1, 0, 0], [0, 3]), "scores: found list, expected a torch.Tensor"),
    (lambda: rb.SmoothLoss("nDCG", temperature=-1), "temperature: found -1, expected a number above 0"),
    (lambda: rb.loss("nDCG", temperature=torch.nn.Parameter(torch.tensor(0.5))), "temperature: found Parameter"),
    (lambda: rb.SmoothLoss("nDCG", temperature="0.5"), "temperature: found 0.5, expected a number above 0"),
    (lambda: rb.metric("num_ret"), "a name of trec_eval, ranx without a counterpart: it counts what the data hold"),
    (lambda: rb.loss("nDCG")(torch.zeros(2, 3), torch.zeros(2, 3), [0, 3, 6]),
     r"scores: found shape \(2, 3\), expected a flat \(n_items,\) array; rankbound\.from_padded returns one"),
    (lambda: NDCG(cutoff=2.5), "metric nDCG: found cut-off 2.5, expected a whole number"),
    (lambda: rb.SmoothLoss("nDCG", method="fast"), "method: found fast, expected one of"),
    (lambda: rb.loss(None), "loss: found None, expected a text such as nDCG@10"),
    (lambda: rb.metric(None), "metric: found None, expected a text such as"),
    (lambda: rb.metric(3), "metric: found 3, expected a text"),
    (lambda: rb.metric("AP(divisor=found)"), r"found divisor=found, expected a cut-off, as in AP\(divisor=found\)@10"),
    (lambda: rb.evaluate("ERR@20", SCORES, RELEVANCE + 2, OFFSETS), r"ERR needs max, .* these items: ERR\(max=3\)@20"),
    (lambda: rb.evaluate("ndcg@10", SCORES, RELEVANCE + 2, OFFSETS), "found a name with two meanings"),
    (lambda: rb.metric("nDCG(gains=linear)"), "unknown parameter 'gains'; nDCG takes: gain"),
    (lambda: rb.loss("rank_xendcg"), "without a counterpart: LightGBM's own objective, with terms of higher order"),
    (lambda: rb.train_ranker("lists.csv"),
     "lists: found str, expected judged lists, which read_lists returns"),
    (lambda: rb.train_ranker(FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), loss=rb.loss("nDCG")),
     r"loss: found SmoothLoss\(nDCG.*\), expected a text"),
    (lambda: rb.evaluate_run("no/run.txt", {"q": {"d": 1}}, "nDCG"), "no/run.txt: cannot be read"),
]  # fmt: skip


test_the_message_says_what_was_found_and_expected = refusals(CASES)


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="device: found cuda, but PyTorch finds no GPU here; expected auto or cpu"):
        rb.train_ranker(rb.read_lists(FRAME), device="cuda")


def test_an_output_that_cannot_be_written_is_refused_before_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program
) -> None:
    monkeypatch.chdir(tmp_path)
    # The second module, imported here first, would keep the patch of the first.
    for name in ("splits.cross_validate", "ranker.train_ranker"):
        monkeypatch.setattr(f"rankbound.training.{name}", Mock(side_effect=AssertionError("a training began")))
    FRAME.write_csv("x.csv")
    Path("runs/judgements.csv").mkdir(parents=True)
    for command in ("train x.csv --out .", "cross-validate x.csv -m AP --runs runs"):
        assert "could not be written: found a folder, expected the name of a file" in program(command, status=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs", "x.csv"]
