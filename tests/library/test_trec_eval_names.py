"""Names of trec_eval as metrics of this library, with equal values."""

import pytest
import pytrec_eval

import rankbound as rb

SCORES = [0.9, 0.1, 0.5, 0.4, 0.8, 0.3, 0.7]
RELEVANCE = [0, 2, 1, 0, 0, 0, 3]
NAMES = {
    "ndcg": "nDCG(gain=linear)",
    "ndcg_cut_5": "nDCG(gain=linear)@5",
    "map": "AP",
    "map_cut_5": "AP@5",
    "recip_rank": "RR",
    "P_5": "P@5",
    "recall_5": "Recall@5",
    "success_5": "Hit@5",
    "Rprec": "Rprec",
    "bpref": "Bpref",
    "infAP": "infAP",
    "iprec_at_recall_0.30": "IPrec(recall=0.3)",
}


@pytest.mark.parametrize(("theirs", "ours"), NAMES.items())
def test_meaning_and_value(theirs: str, ours: str) -> None:
    found = rb.metric(theirs, names="trec_eval")
    assert str(found) == ours
    judgements = {"t": {str(item): grade for item, grade in enumerate(RELEVANCE)}}
    run = {"t": {str(item): score for item, score in enumerate(SCORES)}}
    expected = pytrec_eval.RelevanceEvaluator(judgements, pytrec_eval.supported_measures).evaluate(run)["t"][theirs]
    assert found(SCORES, RELEVANCE, [0, 7])[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("theirs", "ours"), [("set_P", "SetP"), ("set_recall", "SetR"), ("set_F", "SetF")])
def test_metrics_of_a_run(theirs: str, ours: str) -> None:
    assert str(rb.metric(theirs, names="trec_eval")) == ours


def test_its_other_spelling_of_cut_offs() -> None:
    assert str(rb.metric("ndcg_cut.20", names="trec_eval")) == "nDCG(gain=linear)@20"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndcg_cut", "expected a cut-off, as in ndcg_cut_10"),
        ("num_ret", "unknown name 'num_ret'"),
        ("ndgc", "Did you mean ndcg"),
        ("P_0", "cut-off 0, expected at least 1"),
        ("map_10", "unknown name 'map'"),
    ],
)
def test_others_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.metric(text, names="trec_eval")
