"""Metrics as values: their texts, what they refuse, and their numbers against written-out arithmetic."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.metrics import AveragePrecision, NormalizedRBP, Precision, RankSum

# Items by descending score have grades 3, 0, 1, 0, 2.
SCORES = np.array([0.4, 0.9, -0.3, 0.1, 2.0])
GRADES = np.array([1, 0, 2, 0, 3])
ONE_LIST = np.array([0, 5])
LOG3, LOG6 = math.log2(3), math.log2(6)
WRITTEN_OUT = {
    "DCG": 7 / 1 + 1 / 2 + 3 / LOG6,
    "DCG(gain=linear)": 3 / 1 + 1 / 2 + 2 / LOG6,
    "DCG(gain=linear,discount=log2(r))": 3 / 1 + 1 / LOG3 + 2 / math.log2(5),
    "DCG@3": 7 / 1 + 1 / 2,
    "nDCG": (7 / 1 + 1 / 2 + 3 / LOG6) / (7 / 1 + 3 / LOG3 + 1 / 2),
    "nDCG@2": 7 / (7 + 3 / LOG3),
    "nDCG(gain=linear)@3": (3 + 1 / 2) / (3 + 2 / LOG3 + 1 / 2),
    "AP": (1 / 1 + 2 / 3 + 3 / 5) / 3,
    "AP(rel=2)": (1 / 1 + 2 / 5) / 2,
    "RR": 1.0,
    "P@3": 2 / 3,
    "P@10": 3 / 10,
    "P(rel=2)@5": 2 / 5,
    "RBP(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4),
    "nRBP(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4) / (1 - 0.8**3),
    "nRBP": (1 - 1) + (3 - 1) + (5 - 1) - (0 + 1 + 2),
    "nRBP(rel=3)": 0,
}


@pytest.mark.parametrize(("name", "expected"), WRITTEN_OUT.items())
def test_value_against_written_out_arithmetic(name: str, expected: float) -> None:
    value = rb.metric(name)(SCORES, GRADES, ONE_LIST)
    assert value.shape == (1,)
    assert value.dtype == np.float64
    assert value[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    "text",
    [
        "nDCG",
        "nDCG@10",
        "nDCG(gain=linear)@10",
        "nDCG(gain=linear,discount=log2(r))",
        "DCG@3",
        "AP",
        "AP(rel=2)",
        "RR",
        "P@5",
        "P(rel=2)@5",
        "RBP(p=0.8)",
        "nRBP(p=0.95)",
        "nRBP",
    ],
)
def test_a_text_is_its_metrics_name(text: str) -> None:
    metric = rb.metric(text)
    assert str(metric) == text
    assert rb.metric(str(metric)) == metric
    assert hash(rb.metric(text)) == hash(metric)
    assert rb.metric(metric) is metric


def test_defaults_and_blanks_do_not_make_another_metric() -> None:
    assert rb.metric(" nDCG( gain = exp2 )@10 ") == rb.metric("nDCG@10")
    assert rb.metric("AP(rel=1)") == AveragePrecision()
    assert rb.metric("nRBP(p=0.9)") == NormalizedRBP(p=0.9)
    assert rb.metric("nRBP") == RankSum()
    assert rb.metric("P@5") != Precision(cutoff=6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndcg", "Did you mean nDCG"),
        ("NDGC@10", "Did you mean nDCG"),
        ("MAP", "Did you mean AP"),
        ("MRR", "Did you mean RR"),
        ("rbp(p=0.8)", "Did you mean RBP"),
        ("Recall@5", "unknown name 'Recall'; known are nDCG, DCG, AP, RR, P, RBP, nRBP"),
        ("nDCG@0", "cut-off 0, expected at least 1"),
        ("P@0", "cut-off 0, expected at least 1"),
        ("nDCG@-1", "expected a text such as"),
        ("nDCG@", "expected a text such as"),
        ("", "expected a text such as"),
        ("P", "needs a cut-off"),
        ("RBP", "needs p"),
        ("AP@5", "takes no cut-off"),
        ("nRBP(p=0.9)@5", "takes no cut-off"),
        ("AP(relevance=2)", "unknown parameter 'relevance'; AP takes: rel"),
        ("nDCG(cutoff=3)", "unknown parameter 'cutoff'; nDCG takes: gain, discount"),
        ("nDCG(gain=square)", "gain=square, expected one of exp2, linear"),
        ("nDCG(discount=log)", "discount=log, expected one of"),
        ("nDCG(linear)", "expected parameters as name=value"),
        ("RBP(p=much)", "p=much, expected float"),
        ("RBP(p=1)", r"p=1.0, expected a persistence in \[0, 1\)"),
        ("nRBP(p=-0.1)", r"p=-0.1, expected a persistence in \[0, 1\)"),
        ("RBP(p=nan)", r"p=nan, expected a persistence in \[0, 1\)"),
        ("AP(rel=1.5)", "rel=1.5, expected int"),
    ],
)
def test_wrong_texts_are_refused_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.metric(text)


@pytest.mark.parametrize("cutoff", [0, -1])
@pytest.mark.parametrize("kind", ["NDCG", "DCG", "Precision"])
def test_a_cutoff_below_1_is_refused_by_name(kind: str, cutoff: int) -> None:
    from rankbound import metrics

    with pytest.raises(ValueError, match=f"cut-off {cutoff}, expected at least 1"):
        getattr(metrics, kind)(cutoff=cutoff)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([float("nan"), 1], [1, 0], [0, 2]), "scores"),
        (([float("inf"), 1], [1, 0], [0, 2]), "scores"),
        (([[1.0, 2.0]], [1, 0], [0, 2]), "scores"),
        (([1.0, 2.0], [1, -1], [0, 2]), "relevance"),
        (([1.0, 2.0], [1.0, float("nan")], [0, 2]), "relevance"),
        (([1.0, 2.0], [1], [0, 2]), "relevance"),
        (([1.0, 2.0], [1, 0], [0, 1]), "offsets"),
        (([1.0, 2.0], [1, 0], [0, 2, 1, 2]), "offsets"),
        (([1.0, 2.0], [1, 0], [0.0, 2.0]), "offsets"),
    ],
)
@pytest.mark.parametrize("metric", ["nDCG", "AP"])
def test_bad_arguments_are_named(arguments: tuple[Any, ...], name: str, metric: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        rb.metric(metric)(*map(np.array, arguments))


UNDEFINED = ("nDCG", "nDCG@3", "AP", "RR", "nRBP(p=0.8)", "nRBP")
ZERO = ("P@3", "RBP(p=0.8)", "DCG", "DCG@2")


@pytest.mark.parametrize("name", UNDEFINED)
def test_lists_without_relevant_items_are_nan(name: str) -> None:
    value = rb.metric(name)(np.arange(7.0), np.array([0, 0, 0, 1, 0, 0, 0]), np.array([0, 3, 3, 4, 7]))
    assert np.isnan(value).tolist() == [True, True, False, True]


@pytest.mark.parametrize("name", ZERO)
def test_lists_without_relevant_items_are_0_where_that_is_defined(name: str) -> None:
    value = rb.metric(name)(np.arange(7.0), np.array([0, 0, 0, 1, 0, 0, 0]), np.array([0, 3, 3, 4, 7]))
    assert (value == 0).tolist() == [True, True, False, True]


@pytest.mark.parametrize("name", [*UNDEFINED, *ZERO])
def test_a_batch_without_lists_has_no_values(name: str) -> None:
    value = rb.metric(name)(np.zeros(0), np.zeros(0, dtype=np.int64), np.array([0]))
    assert value.shape == (0,)


def test_the_threshold_decides_what_is_relevant() -> None:
    nothing_above = rb.metric("AP(rel=4)")(SCORES, GRADES, ONE_LIST)
    assert math.isnan(nothing_above[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.bool_])
@pytest.mark.parametrize("name", ["nDCG", "AP", "nRBP", "P@2", "RR"])
def test_relevance_may_be_any_number(name: str, dtype: type) -> None:
    binary = np.array([0, 1, 0, 0, 1])
    value = rb.metric(name)(SCORES, binary.astype(dtype), ONE_LIST)
    assert value[0] == pytest.approx(rb.metric(name)(SCORES, binary, ONE_LIST)[0], rel=1e-7)


def test_large_grades_do_not_overflow_their_type() -> None:
    """2^7 - 1 and the sums of such gains don't fit into int8."""
    grades = np.array([7, 7, 6], dtype=np.int8)
    value = rb.metric("DCG")(np.array([3.0, 2.0, 1.0]), grades, np.array([0, 3]))
    assert value[0] == pytest.approx(127 + 127 / LOG3 + 63 / 2)


def test_tensors_in_tensors_out_and_arrays_in_arrays_out() -> None:
    tensors = [torch.from_numpy(array) for array in (SCORES, GRADES, ONE_LIST)]
    value = rb.metric("nDCG")(*tensors)
    assert isinstance(value, torch.Tensor)
    assert value.dtype == torch.float64
    array = rb.metric("nDCG")(SCORES, GRADES, ONE_LIST)
    assert isinstance(array, np.ndarray)
    assert value.tolist() == array.tolist()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int32])
def test_scores_of_any_precision_give_float64(dtype: torch.dtype) -> None:
    scores = torch.tensor([3, 1, 2]).to(dtype)
    value = rb.metric("AP")(scores, torch.tensor([0, 1, 1]), torch.tensor([0, 3]))
    assert value.dtype == torch.float64
    assert value.tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2])


def test_scores_that_need_gradients_evaluate_without_them() -> None:
    scores = torch.tensor([1.0, 2.0], requires_grad=True)
    assert not rb.metric("nDCG")(scores, torch.tensor([1, 0]), torch.tensor([0, 2])).requires_grad


def test_several_metrics_of_one_sort_are_the_same_as_one_by_one() -> None:
    metrics = [rb.metric(name) for name in WRITTEN_OUT]
    together = rb.evaluate(metrics, SCORES, GRADES, ONE_LIST)
    assert list(together) == [str(metric) for metric in metrics]
    for metric in metrics:
        assert together[str(metric)].tolist() == metric(SCORES, GRADES, ONE_LIST).tolist()
