"""Texts of metrics and losses: what they mean, in the words of this library and of other tools, and what is refused.

`test_metric_peers.py` compares the values of most names. And messages for input that a newcomer tries.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

import rankbound as rb
from rankbound.lists import Lists
from rankbound.losses import KINDS, RankingLoss, SmoothLoss
from rankbound.losses.lambda_loss import LambdaLoss, LambdaRankLoss
from rankbound.metrics import KINDS as METRICS
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP
from rankbound.names import table
from tests.library.conftest import Program
from tests.library.pages import text_of
from tests.library.refusals import problems, refusals

MEANINGS = problems("meanings")


def written(value: Any) -> str:
    return value.text if isinstance(value, RankingLoss) else str(value)


@pytest.mark.parametrize("by", MEANINGS)
def test_a_name_with_one_meaning_is_read(by: str) -> None:
    kind, tool = by.split()
    read, words = getattr(rb, kind), MEANINGS[by].split()
    for theirs, ours in zip(words[::2], words[1::2], strict=True):
        found = read(theirs, names=tool)
        assert written(found) == written(read(ours)) == ours, theirs
        assert kind == "loss" or found == read(ours), theirs


def test_defaults_and_blanks_do_not_make_another_metric_or_loss() -> None:
    assert rb.metric(" nDCG( gain = exp2 )@10 ") == rb.metric("nDCG@10")
    assert rb.metric("AP(rel=1)") == METRICS["AP"]()
    assert rb.metric("nRBP(p=0.9)") == NormalizedRBP(p=0.9)
    assert rb.metric("nRBP") == RankSum()
    assert rb.metric("P@5") != METRICS["P"](cutoff=6)
    assert rb.metric(rb.metric("nDCG"), names="ir_measures") == rb.metric("nDCG")
    assert rb.loss(" squared( reduction = sum ) ").text == "squared(reduction=sum)"
    assert rb.loss("LambdaLoss(scheme=ndcg-loss2++, mu=5)").text == "LambdaLoss(mu=5)"


def test_losses_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for smooth in (rb.loss("nRBP(p=0.95)", "min-max", temperature=0.5), rb.loss(rb.metric("nRBP(p=0.95)"))):
        assert isinstance(smooth, SmoothLoss)
        assert smooth.text == "nRBP(p=0.95)"
    assert rb.loss("RR", temperature=0.5).temperature == 0.5
    for name in KINDS:
        with pytest.raises(ValueError, match=r"^bound: found min-max for the loss"):
            rb.loss(name, bound="min-max")
        with pytest.raises(ValueError, match=r"^temperature: found 0.5 beside the loss"):
            rb.loss(name, temperature=0.5)
    losses: list[RankingLoss] = [LambdaRankLoss(metric=rb.metric("nDCG@5")), LambdaLoss(metric=rb.metric("nDCG@5"))]
    assert [loss.text for loss in losses] == ["LambdaRank(metric=nDCG@5)", "LambdaLoss(metric=nDCG@5)"]

    class Own(RankingLoss):
        name = "own"

        def of_lists(self, scores: Tensor, relevance: Tensor, lists: Lists) -> Tensor:
            return lists.sum(scores)

    monkeypatch.setitem(KINDS, "own", Own)
    assert rb.loss("own").text == "own"
    with pytest.raises(ValueError, match="own"):
        rb.loss("own(temperature=2)")


SEVERAL = problems("several meanings")


@pytest.mark.parametrize("kind", SEVERAL)
def test_a_name_with_several_meanings_says_how_to_write_each(kind: str) -> None:
    read = getattr(rb, kind)
    for theirs, ours in SEVERAL[kind].items():
        with pytest.raises(ValueError, match="meanings: ") as caught:
            read(theirs)
        assert re.findall(r"write (.+?)(?:;|$)", str(caught.value)) == ours
        if "(p=" not in theirs:  # a parameter that tells which one is meant
            assert [written(read(text)) for text in ours] == ours


NAMELESS = ["foo", "rank:x", "mop_", "@10", "ndcg@x", "", "MAP(", "map(rel)", "P_0", "hit@", "10", "a" * 500]
IN_WORDS = "^(metric|loss) '.*': (unknown name|expected a text such as|expected parameters as|found cut-off 0)"
test_a_text_that_means_nothing_is_refused_in_words = refusals(
    [
        *(
            ((kind, tool, text), message)
            for kind, tools in problems("texts").items()
            for tool, texts in tools.items()
            for text, message in texts.items()
        ),
        *(((kind, "rankbound", text), IN_WORDS) for kind in ("metric", "loss") for text in NAMELESS),
    ],
    lambda given: getattr(rb, given[0])(given[2], names=given[1]),
)
test_a_cutoff_below_1_is_refused_by_name = refusals(
    [
        ((kinds[name], cutoff), rf"cut-?off:?.* {cutoff}, expected .*1")
        for kinds, names in ((METRICS, "nDCG DCG CG P Recall Hit AP RR Judged ERR_IA"), (KINDS, "ListNet ListMLE WARP"))
        for name in names.split()
        for cutoff in (0, -1)
    ],
    lambda given: given[0](cutoff=given[1]),
)


def test_the_page_lists_every_loss() -> None:
    """One row each, by a text that builds it; and the texts in its prose build too."""
    page, rows = text_of("losses.md"), text_of("losses.md", "All others")
    texts = re.findall(r"^\| `(\S+)` \|", rows, flags=re.MULTILINE)
    assert sorted(type(rb.loss(text)).name for text in texts) == sorted(KINDS)
    for text in re.findall(rf"`((?:{'|'.join(KINDS)})\([^`]*\))`", page):
        assert rb.loss(text).text == text


SCORES, RELEVANCE, OFFSETS = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([1, 0, 0]), torch.tensor([0, 3])
FRAME = pl.DataFrame({"topic": [1, 1, 2, 2], "relevance": [0, 1, 1, 0], "f": [0.1, 0.2, 0.5, 0.4]})

CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: rb.loss("nDCG")(np.zeros(3), RELEVANCE, OFFSETS), "scores: found ndarray, expected a torch.Tensor"),
    (lambda: rb.loss("RankNet")([0.1, 0.2, 0.3], [1, 0, 0], [0, 3]), "scores: found list, expected a torch.Tensor"),
    (lambda: rb.SmoothLoss("nDCG", temperature=-1), "temperature: found -1, expected a number above 0"),
    (lambda: rb.loss("nDCG", temperature=torch.nn.Parameter(torch.tensor(0.5))), "temperature: found Parameter"),
    (lambda: rb.SmoothLoss("nDCG", temperature="0.5"), "temperature: found 0.5, expected a number above 0"),
    (lambda: rb.loss("nDCG")(torch.zeros(2, 3), torch.zeros(2, 3), [0, 3, 6]),
     r"scores: found shape \(2, 3\), expected a flat \(n_items,\) array; rankbound\.from_padded returns one"),
    (lambda: METRICS["nDCG"](cutoff=2.5), "metric nDCG: found cut-off 2.5, expected a whole number"),
    (lambda: rb.SmoothLoss("nDCG", method="fast"), "method: found fast, expected one of"),
    (lambda: rb.loss(None), "loss: found None, expected a text such as nDCG@10"),
    (lambda: rb.metric(None), "metric: found None, expected a text such as"),
    (lambda: rb.metric(3), "metric: found 3, expected a text"),
    (lambda: rb.evaluate("ERR@20", SCORES, RELEVANCE + 2, OFFSETS), r"ERR needs max, .* these items: ERR\(max=3\)@20"),
    (lambda: rb.evaluate("ndcg@10", SCORES, RELEVANCE + 2, OFFSETS), "found a name with two meanings"),
    (lambda: rb.train_ranker("lists.csv"),
     "lists: found str, expected judged lists, which read_lists returns"),
    (lambda: rb.train_ranker(FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), FRAME), "lists: found DataFrame, expected judged lists"),
    (lambda: rb.train_ranker(rb.read_lists(FRAME), loss=rb.loss("nDCG")),
     r"loss: found SmoothLoss\(nDCG.*\), expected a text"),
    (lambda: rb.evaluate_run("no/run.txt", {"q": {"d": 1}}, "nDCG"), "no/run.txt: cannot be read"),
]  # fmt: skip


test_the_message_says_what_was_found_and_expected = refusals(CASES)


def test_every_row_of_the_table_has_a_meaning_that_can_be_written() -> None:
    rows = table()
    assert len({(row.kind, row.tools, row.name, row.ours) for row in rows}) == len(rows)
    for row in rows:
        assert row.tools
        if not row.ours:
            assert row.note
            continue
        text = row.ours.replace("[@k]", "@3").replace("@k", "@3").replace("{x}", "0.5").replace(".0.5", "0.5")
        read = rb.metric(text) if row.kind == "metric" else rb.loss(text)
        assert (str(read) if row.kind == "metric" else read.text) == text.removesuffix("0.5)") + "0.5)" * text.endswith(
            "0.5)"
        )


BINARY = [0.3, 0.1, 0.2], [0, 1, 0], [0, 3]


def test_grades_of_0_and_1_tell_what_a_name_means_and_results_are_found_by_either_text() -> None:
    with pytest.warns(UserWarning, match="metric 'ndcg@10': all grades are 0 or 1, .* evaluated as nDCG@10"):
        values = rb.evaluate(["MAP", "ndcg@10", "mrr"], *BINARY)
    assert list(values) == ["AP", "nDCG@10", "RR"]
    assert values["MAP"] is values["AP"] is values["map"]
    assert values["ndcg@10"] is values["nDCG@10"] is values["NDCG@10"]
    with pytest.raises(KeyError, match="recall"):
        values["recall@5"]
    run, qrels = {"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}
    with pytest.warns(UserWarning, match="evaluated as nDCG"):
        found = rb.evaluate_run(run, qrels, ["ndcg", "Recall@5", "alpha_nDCG@3"][:2])
    means = found.means()
    assert list(means) == ["nDCG", "Recall@5"]
    assert (means["R@5"], found.values["recall@5"].tolist(), found.undefined()["recall@5"]) == (1.0, [1.0], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        both = rb.evaluate(["nDCG", "nDCG(gain=linear)"], *BINARY)
    with pytest.raises(KeyError):
        both["ndcg"]
    for texts, message in (("ndcg", "two meanings"), ("map@3", "several meanings"), ("ERR", r"ERR\(max=2\)$")):
        with pytest.raises(ValueError, match=message):
            rb.evaluate_run(run, {"q": {"b": 2}}, texts)


def test_the_command_line_reads_the_same_names(tmp_path: Path, program: Program) -> None:
    run, qrels = tmp_path / "run.txt", tmp_path / "qrels.txt"
    run.write_text("q Q0 a 1 2 x\nq Q0 b 2 1 x\n")
    qrels.write_text("q 0 b 1\n")
    with pytest.warns(UserWarning, match="evaluated as nDCG@10"):
        table = program(f"evaluate {run} {qrels} -m MAP -m ndcg@10 -m recall@100")
    assert [line.split()[0] for line in table.splitlines()] == ["metric", "AP", "nDCG@10", "Recall@100"]
    assert "write AP(divisor=cutoff)@10" in program(f"evaluate {run} {qrels} -m map@10", status=2)
    assert "AP(divisor=cutoff)@10 " in program(f"evaluate {run} {qrels} -m map@10 --names LightGBM")
    assert "expected one of rankbound, trec_eval, ir_measures" in program(
        f"evaluate {run} {qrels} -m map --names cats", status=2
    )


def test_the_command_line_trains_by_a_tool_s_names(
    tmp_path: Path, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    lists, model = tmp_path / "lists.csv", tmp_path / "model.safetensors"
    lists.write_text(
        "topic,relevance,a\n" + "".join(f"{t},{i % 2},{i % 2 + t / 9}\n" for t in range(6) for i in range(4))
    )
    recipe = f"{lists} --names catboost --loss PairLogit --metric NDCG --epochs 2"
    assert "loss RankNet, linear model" in program(f"train {recipe} --out {model}")
    assert rb.load(model).recipe.metric == "nDCG(gain=linear)"
    assert "RankNet" in program(f"cross-validate {recipe} --folds 2 -m MAP:top=3")
    assert "draws orderings" in program(f"train {lists} --names catboost --loss YetiRank --out {model}", status=2)
    with pytest.raises(SystemExit, match="0"):
        program("train --help")
    assert "not here" not in capsys.readouterr().out
