"""Other tools' names of metrics and losses: what they mean here, and what is refused.

`test_metric_peers.py` compares the values of most names, and `test_loss_texts.py` has the names of one tool alone.
"""

import re
import warnings
from pathlib import Path

import pytest

import rankbound as rb
from rankbound.names import table
from tests.library.conftest import Program

ONE_MEANING = {
    "metric": """
        MAP AP  map AP  ap@5 AP@5  map_cut_5 AP@5  MAP(rel=2) AP(rel=2)  RetrievalMAP@3 AP(divisor=found)@3
        MRR@10 RR@10  mrr RR  recip_rank RR  mrr_10 RR@10  reciprocal-rank@3 RR@3
        recall@100 Recall@100  R@100 Recall@100  RecallAt@5 Recall@5  recall_5 Recall@5
        precision@5 P@5  P_10 P@10  p.10 P@10  PrecisionAt@5 P@5  Precision(rel=2)@5 P(rel=2)@5
        hit_rate@10 Hit@10  HR@10 Hit@10  HitRate@1 Hit@1  Success@5 Hit@5  hit@3 Hit@3
        ndcg_cut_10 nDCG(gain=linear)@10  NDCG_score@5 nDCG(gain=linear)@5  ndcg_burges nDCG
        rprec Rprec  R-Precision Rprec  r_precision Rprec  bpref Bpref  infap infAP
        iprec_at_recall_0.30 IPrec(recall=0.3)  set_P SetP  set_recall SetR  set_f SetF
        dcg_score DCG(gain=linear)  dcg_burges@3 DCG@3  gauc PairAccuracy  err(max=4)@20 ERR(max=4)@20
        ndcg(gain=linear)@10 nDCG(gain=linear)@10  NDCG(gain=exp2) nDCG
        ndcg_cut(discount=log2(r))@5 nDCG(gain=linear,discount=log2(r))@5
        NDCG:top=10 nDCG(gain=linear)@10  NDCG:type=Base nDCG(gain=linear)  NDCG:top=10;type=Exp nDCG@10
        ndcg:type=exp;denominator=LogPosition;top=-1 nDCG  DCG:top=3 DCG(gain=linear)@3  DCG:type=Exp DCG
        MAP:top=10 AP(divisor=cutoff)@10  MAP:top=10;border=0.5 AP(divisor=cutoff)@10  MRR:top=5 RR@5
        PrecisionAt:top=3 P@3  RecallAt:top=3 Recall@3  MRR:hints=skip_train~false RR  QueryAUC PairAccuracy
        QueryAUC:type=Ranking PairAccuracy  average_precision_score AP  roc_auc_score PairAccuracy
        label_ranking_average_precision_score AP
        f1@5 F@5  set_map SetAP  linear-ndcg LinearNDCG  kendall Kendall
    """,
    "loss": """
        listnet ListNet@1  LISTNET@2 ListNet@2  ListNetLoss ListNet@1  listmle_loss ListMLE
        ranknet RankNet  rank:pairwise RankNet  BPR RankNet  bpr_loss RankNet  PairLogit RankNet
        rankNet_weightByGTDiff RankNet(weight=difference)  pairwise_logistic_loss RankNet(reduction=sum)
        softmax_loss softmax  QuerySoftMax softmax  InfoNCE softmax  MSE squared  mse_loss squared
        BCELoss logistic  SigmoidCrossEntropyLoss logistic  PairwiseHingeLoss hinge(reduction=sum)
        PairLogitPairwise RankNet  Logloss logistic  binary logistic  reg:squarederror squared  RMSE squared
        QuerySoftMax:beta=1 softmax  NDCG:type=Exp;top=5 nDCG@5
        warp@2 WARP@2  adrmse ADR-MSE  lambda_loss LambdaLoss  Hinge(margin=2) hinge(margin=2)
        ApproxNDCG@10 nDCG@10  approx_ndcg_loss nDCG  ApproxNDCG(gain=linear) nDCG(gain=linear)
        ApproxMRRLoss RR  map AP  mrr@10 RR@10  ndcg_cut_10 nDCG(gain=linear)@10
    """,
}
"""Names and what they mean here, in turn."""


@pytest.mark.parametrize(
    ("kind", "theirs", "ours"),
    [(kind, *row) for kind, words in ONE_MEANING.items() for row in zip(*[iter(words.split())] * 2, strict=True)],
)
def test_a_name_with_one_meaning_is_read(kind: str, theirs: str, ours: str) -> None:
    if kind == "metric":
        assert str(rb.metric(theirs)) == ours
        assert rb.metric(ours) == rb.metric(theirs)
    else:
        assert rb.loss(theirs).text == rb.loss(ours).text == ours


SEVERAL = [
    ("metric", "ndcg@10", ["nDCG(gain=linear)@10", "nDCG@10"]),
    ("metric", "NDCG", ["nDCG(gain=linear)", "nDCG"]),
    ("metric", "dcg@5", ["DCG(gain=linear)@5", "DCG@5"]),
    ("metric", "map@10", ["AP@10", "AP(divisor=cutoff)@10", "AP(divisor=found)@10"]),
    ("metric", "hits@10", ["Hit@10"]),
    ("metric", "NRBP", ["novelty_RBP", "nRBP"]),
    ("metric", "nrbp(p=0.9)", ["novelty_RBP(p=0.9)", "nRBP(p=0.9)"]),
    ("metric", "AUC", ["PairAccuracy"]),
    ("loss", "lambdarank", ["LambdaRank"]),
    ("loss", "rank:ndcg", ["LambdaRank"]),
    ("loss", "CrossEntropy", ["softmax", "logistic"]),
    ("loss", "ndcg", ["nDCG(gain=linear)", "nDCG"]),
]


@pytest.mark.parametrize(("kind", "theirs", "ours"), SEVERAL)
def test_a_name_with_several_meanings_says_how_to_write_each(kind: str, theirs: str, ours: list[str]) -> None:
    read = getattr(rb, kind)
    with pytest.raises(ValueError, match="meanings: ") as caught:
        read(theirs)
    assert re.findall(r"write (.+?)(?:;|$)", str(caught.value)) == ours
    if "(p=" not in theirs:  # a parameter that tells which one is meant
        assert [read(text).text if kind == "loss" else str(read(text)) for text in ours] == ours


WITHOUT = {
    "metric": {
        "PFound": "probabilities",
        "pfound:top=5;decay=0.85": "probabilities",
        "ERR:top=5": "of labels 0 and 1 it is RR",
        "AUC:type=Ranking": "all groups together",
        "QueryAverage:top=3": "mean label",
        "FilteredDCG": "scores above 0",
        "NDCG:denominator=Position": "options without a counterpart, expected NDCG:.* or NDCG:type=Exp",
        "NDCG:top=x": "options without a counterpart",
        "NDCG:top=0": "options without a counterpart",
        "MRR:border=2": r"expected MRR:\[top=k;border=0.5\]",
        "nothing:top=3": "expected a text such as",
    },
    "loss": {
        "YetiRank": "draws orderings at random",
        "YetiRank:mode=NDCG;permutations=10": "draws orderings at random",
        "YetiRankPairwise": "draws orderings at random",
        "StochasticRank:metric=NDCG": "draws scores at random",
        "LambdaMart:metric=NDCG": "boosting_objective",
        "QueryRMSE": "mean of a list",
        "QueryCrossEntropy": "shifts the scores",
        "rank:map": "draws pairs",
        "rank_xendcg": "with terms of higher order",
        "PairLogit:max_pairs=100": "expected PairLogit alone",
        "QuerySoftMax:beta=2": "expected QuerySoftMax",
        "LambdaRank@10": r"write LambdaRank\(metric=nDCG@10\)",
    },
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WITHOUT.items() for text in texts])
def test_a_name_without_a_counterpart_says_why(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=WITHOUT[kind][text]):
        getattr(rb, kind)(text)


# What one tool means by a name that several share, by one that only others have, and by a text of ours.
OF_TOOLS = """
    metric LightGBM ndcg@10 nDCG@10  metric xgboost ndcg nDCG  metric ranx nDCG@10 nDCG(gain=linear)@10
    metric CatBoost NDCG nDCG(gain=linear)  metric scikit-learn dcg DCG(gain=linear)  metric Rax dcg@5 DCG@5
    metric ranx map@10 AP@10  metric RecBole map@10 AP(divisor=cutoff)@10
    metric torchmetrics map@3 AP(divisor=found)@3
    metric XGBoost auc PairAccuracy  metric LightGBM R@5 Recall@5
    metric XGBoost nDCG(gain=linear)@3 nDCG(gain=linear)@3
    metric ranx ERR(max=4)@20 ERR(max=4)@20  metric ir_measures nDCG@5 nDCG(gain=linear)@5  metric trec_eval P_5 P@5
    loss XGBoost rank:pairwise RankNet  loss PyTorch CrossEntropy softmax  loss CatBoost CrossEntropy logistic
    loss ranx ndcg@10 nDCG(gain=linear)@10  loss XGBoost ndcg nDCG  loss ranx LambdaRank LambdaRank
    loss rax hinge(margin=2) hinge(margin=2)
"""


@pytest.mark.parametrize(("kind", "tool", "theirs", "ours"), [*zip(*[iter(OF_TOOLS.split())] * 4, strict=True)])
def test_a_tool_decides_what_its_names_mean(kind: str, tool: str, theirs: str, ours: str) -> None:
    found = getattr(rb, kind)(theirs, names=tool)
    assert (str(found) if kind == "metric" else found.text) == ours


def test_a_tool_s_name_may_have_no_counterpart_and_tools_are_known() -> None:
    for kind, tool, text, message in [
        ("metric", "LightGBM", "auc", "of the items of all lists together"),
        ("metric", "LightGBM", "hits@3", "two meanings"),
        ("metric", "nobody", "AP", "names: found 'nobody', expected one of rankbound, .*, CatBoost"),
        ("loss", "lightgbm", "lambdarank", "LightGBM's own objective"),
        ("loss", "lightgbm", "LambdaRank", "LightGBM's own objective"),
        ("loss", "papers on cats", "AP", "names: found"),
    ]:
        with pytest.raises(ValueError, match=message):
            getattr(rb, kind)(text, names=tool)


@pytest.mark.parametrize("kind", ["metric", "loss"])
@pytest.mark.parametrize(
    "text", ["foo", "rank:x", "mop_", "@10", "ndcg@x", "", "MAP(", "map(rel)", "P_0", "hit@", "10", "a" * 500]
)
def test_what_names_nothing_is_refused_in_words(kind: str, text: str) -> None:
    # A loss may be that of a metric.
    words = "unknown name|expected a text such as|expected parameters as|found cut-off 0"
    with pytest.raises(ValueError, match=rf"^({kind}|metric) '.*': ({words})"):
        getattr(rb, kind)(text)


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
