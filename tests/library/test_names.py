"""Other tools' names of metrics: what they mean here, and what is refused; `test_metric_peers.py` compares values."""

import pytest

import rankbound as rb

IR_MEASURES = [
    ("nDCG", "nDCG(gain=linear)"),
    ("nDCG@10", "nDCG(gain=linear)@10"),
    ("NDCG(cutoff=10)", "nDCG(gain=linear)@10"),
    ("nDCG(dcg='log2')@10", "nDCG(gain=linear)@10"),
    ("nDCG(dcg='exp-log2')@10", "nDCG@10"),
    ('nDCG(dcg="exp-log2")', "nDCG"),
    ("AP", "AP"),
    ("MAP(rel=2)@10", "AP(rel=2)@10"),
    ("RR", "RR"),
    ("MRR@10", "RR@10"),
    ("P@5", "P@5"),
    ("Precision(rel=2)@5", "P(rel=2)@5"),
    ("P(rel=2,judged_only=False)@5", "P(rel=2)@5"),
    ("R@10", "Recall@10"),
    ("Recall(rel=2)@10", "Recall(rel=2)@10"),
    ("Success@5", "Hit@5"),
    ("RBP(rel=1)", "RBP(p=0.8)"),
    ("RBP(p=0.5,rel=2)", "RBP(rel=2,p=0.5)"),
    ("ERR@20", "ERR(max=4)@20"),
    ("RPrec(rel=2)", "Rprec(rel=2)"),
    ("BPref(rel=2)", "Bpref(rel=2)"),
    ("infAP", "infAP"),
    ("SetP(rel=2)", "SetP(rel=2)"),
    ("SetR", "SetR"),
    ("SetF(beta=4.0)", "SetF(beta=2)"),
    ("Judged@10", "Judged@10"),
    ("alpha_nDCG(alpha=0.3,rel=2)@5", "alpha_nDCG(rel=2,alpha=0.3)@5"),
    ("ERR_IA@10", "ERR_IA@10"),
    ("IPrec@0", "IPrec(recall=0)"),
    ("IPrec(rel=2)@0.25", "IPrec(rel=2,recall=0.25)"),
    ("IPrec(recall=0.5)", "IPrec(recall=0.5)"),
]
TREC_EVAL = [
    ("ndcg", "nDCG(gain=linear)"),
    ("ndcg_cut_5", "nDCG(gain=linear)@5"),
    ("ndcg_cut.20", "nDCG(gain=linear)@20"),
    ("map", "AP"),
    ("map_cut_5", "AP@5"),
    ("recip_rank", "RR"),
    ("P_5", "P@5"),
    ("recall_5", "Recall@5"),
    ("success_5", "Hit@5"),
    ("Rprec", "Rprec"),
    ("bpref", "Bpref"),
    ("infAP", "infAP"),
    ("iprec_at_recall_0.30", "IPrec(recall=0.3)"),
    ("set_P", "SetP"),
    ("set_recall", "SetR"),
    ("set_F", "SetF"),
]
REFUSED_OF_IR_MEASURES = [
    ("Compat", "no counterpart: no metric here computes it"),
    ("SetP(relative=True)", "unknown parameter 'relative'"),
    ("SetF(beta=-1)", "beta=-1.0, expected a finite number above 0"),
    ("IPrec", "IPrec needs recall"),
    ("IPrec@10", "recall=10.0, expected a recall from 0 to 1"),
    ("nERR_IA@10", "no counterpart: of the measures of intents there are alpha_nDCG and ERR_IA"),
    ("Accuracy", "PairAccuracy compares grades"),
    ("RBP(p=0.8)", "without rel it has graded gains"),
    ("RBP(p=0.8,rel=1)@10", "takes no cut-off"),
    ("nDCG(gains={0:1})@10", "no other gains"),
    ("nDCG(dcg='ln')@10", "expected dcg='log2' or dcg='exp-log2'"),
    ("P(judged_only=True)@5", "found judged_only"),
    ("P", "needs a cut-off"),
    ("P@0", "cut-off 0, expected at least 1"),
    ("nDCG(cutoff=0)", "cut-off 0, expected at least 1"),
    ("NDGC@10", "Did you mean nDCG"),
    ("AP(gain=2)", "unknown parameter 'gain'"),
]
REFUSED_OF_TREC_EVAL = [
    ("ndcg_cut", "expected a cut-off, as in ndcg_cut_10"),
    ("num_ret", "unknown name 'num_ret'"),
    ("ndgc", "Did you mean ndcg"),
    ("P_0", "cut-off 0, expected at least 1"),
    ("map_10", "unknown name 'map'"),
]


def of_tool(names: str, rows: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
    return [(names, *row) for row in rows]


@pytest.mark.parametrize(
    ("names", "theirs", "ours"), [*of_tool("ir_measures", IR_MEASURES), *of_tool("trec_eval", TREC_EVAL)]
)
def test_what_they_mean_here(names: str, theirs: str, ours: str) -> None:
    assert str(rb.metric(theirs, names=names)) == ours


@pytest.mark.parametrize(
    ("names", "theirs", "message"),
    [*of_tool("ir_measures", REFUSED_OF_IR_MEASURES), *of_tool("trec_eval", REFUSED_OF_TREC_EVAL)],
)
def test_what_has_no_counterpart_is_refused(names: str, theirs: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.metric(theirs, names=names)


def test_only_known_names_are_read() -> None:
    with pytest.raises(ValueError, match=r"^names: found 'terrier', expected one of rankbound, ir_measures"):
        rb.metric("AP", names="terrier")
    assert rb.metric(rb.metric("nDCG"), names="ir_measures") == rb.metric("nDCG")
