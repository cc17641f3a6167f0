"""Other tools' names of metrics: what they mean here, and what is refused.

`test_metric_peers.py` compares the values of most names; here are the other ways to write them.
"""

import pytest

import rankbound as rb

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
    },
    "trec_eval": {"ndcg_cut.20": "nDCG(gain=linear)@20", "set_P": "SetP", "set_recall": "SetR", "set_F": "SetF"},
}
REFUSED = {
    "ir_measures": {
        "Compat": "no counterpart: no metric here computes it",
        "SetP(relative=True)": "unknown parameter 'relative'",
        "SetF(beta=-1)": "beta=-1.0, expected a finite number above 0",
        "IPrec": "IPrec needs recall",
        "IPrec@10": "recall=10.0, expected a recall from 0 to 1",
        "nERR_IA@10": "no counterpart: of the measures of intents there are alpha_nDCG and ERR_IA",
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
        "ndcg_cut": "expected a cut-off, as in ndcg_cut_10",
        "num_ret": "unknown name 'num_ret'",
        "ndgc": "Did you mean ndcg",
        "P_0": "cut-off 0, expected at least 1",
        "map_10": "unknown name 'map'",
    },
    "terrier": {"AP": r"^names: found 'terrier', expected one of rankbound, ir_measures"},
}


def test_what_they_mean_here() -> None:
    for names, meanings in MEANINGS.items():
        assert {theirs: str(rb.metric(theirs, names=names)) for theirs in meanings} == meanings
    assert rb.metric(rb.metric("nDCG"), names="ir_measures") == rb.metric("nDCG")


@pytest.mark.parametrize(
    ("names", "theirs", "message"), [(names, *row) for names, rows in REFUSED.items() for row in rows.items()]
)
def test_what_has_no_counterpart_is_refused(names: str, theirs: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.metric(theirs, names=names)
