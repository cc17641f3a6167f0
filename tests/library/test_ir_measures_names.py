"""Texts of ir_measures as metrics of this library; their values side by side are in `test_metric_peers.py`."""

import pytest

import rankbound as rb


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
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
        ("IPrec@0", "IPrec(recall=0)"),
        ("IPrec(rel=2)@0.25", "IPrec(rel=2,recall=0.25)"),
        ("IPrec(recall=0.5)", "IPrec(recall=0.5)"),
    ],
)
def test_what_they_mean_here(theirs: str, ours: str) -> None:
    assert str(rb.metric(theirs, names="ir_measures")) == ours


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
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
    ],
)
def test_what_has_no_counterpart_is_refused(theirs: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.metric(theirs, names="ir_measures")


def test_only_known_names_are_read() -> None:
    with pytest.raises(ValueError, match=r"^names: found 'terrier', expected one of rankbound, ir_measures"):
        rb.metric("AP", names="terrier")
    assert rb.metric(rb.metric("nDCG"), names="ir_measures") == rb.metric("nDCG")
