"""Metrics as values: their texts, what they refuse, and their numbers against written-out arithmetic."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.metrics import KINDS
from rankbound.metrics.average_precision import AveragePrecision
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP, Precision

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
    "CG@3": 3 + 0 + 1,
    "CG(gain=exp2)@5": 7 + 1 + 3,
    "AP": (1 / 1 + 2 / 3 + 3 / 5) / 3,
    "AP@3": (1 / 1 + 2 / 3) / 3,
    "AP(rel=2)@4": (1 / 1) / 2,
    "AP(rel=2)": (1 / 1 + 2 / 5) / 2,
    "RR": 1.0,
    "RR@1": 1.0,
    "Recall@3": 2 / 3,
    "Recall(rel=2)@3": 1 / 2,
    "Hit@1": 1,
    "Rprec": 2 / 3,
    "Rprec(rel=3)": 1,
    "IPrec(recall=0.3)": 1 / 1,
    "IPrec(recall=0.4)": 2 / 3,
    "IPrec(recall=1)": 3 / 5,
    "Hit(rel=4)@5": 0,
    "ERR(max=4)": 7 / 16 + (9 / 16) * (1 / 16) / 3 + (9 / 16) * (15 / 16) * (3 / 16) / 5,
    "ERR(max=3)@3": 7 / 8 + (1 / 8) * (1 / 8) / 3,
    "P@3": 2 / 3,
    "P@10": 3 / 10,
    "P(rel=2)@5": 2 / 5,
    "RBP(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4),
    "nRBP(p=0.8)": 0.2 * (1 + 0.8**2 + 0.8**4) / (1 - 0.8**3),
    "nRBP": (1 - 1) + (3 - 1) + (5 - 1) - (0 + 1 + 2),
    "nRBP(rel=3)": 0,
    "LinearDCG": 3 * 4 + 1 * 2 + 2 * 0,
    "LinearNDCG": (3 * 4 + 1 * 2) / (3 * 4 + 2 * 3 + 1 * 2),
    # Wrong pairs: 0 above 1, 0 above 2 twice, 1 above 2. Of the ten pairs one is of equal grade.
    "PairError": 1 + 2 + 2 + 1,
    "PairError(norm=pairs)": 6 / 9,
    "PairError(norm=max)": 6 / ((3 - 1) + (3 - 2) + 2 * 3 + (2 - 1) + 2 * 2 + 2 * 1),
    "PairAccuracy": 5 / 9,
    "Kendall": (5 + 1 / 2) / 10,
    "Kendall(weight=difference)": 1 - 6 / 16,
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
        "CG@6",
        "CG(gain=exp2)@6",
        "AP@5",
        "RR(rel=3)@5",
        "Recall(rel=2)@5",
        "Hit@1",
        "ERR(max=4)",
        "ERR(max=2)@20",
        "PairError(norm=max)",
        "PairAccuracy",
        "Kendall(weight=difference)",
        "LinearDCG",
        "LinearNDCG",
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
        ("MAP", "whose mean over lists is MAP"),
        ("mrr@10", "RR, whose mean over lists is MRR"),
        ("R@10", "Did you mean Recall, as in Recall@10"),
        ("HitRate@10", "Did you mean Hit"),
        ("AUC", "Did you mean PairAccuracy"),
        ("Precision@5", "Did you mean P, as in P@10"),
        ("Compat", "unknown name 'Compat'; known are AP, infAP, Bpref, ERR, CG, DCG, nDCG, RR, Hit, "),
        ("IPrec", "IPrec needs recall"),
        ("IPrec(recall=1.5)", "recall=1.5, expected a recall from 0 to 1"),
        ("AP(rel=0)", "rel=0, expected a grade from 1"),
        ("Hit(rel=-1)@3", "rel=-1, expected a grade from 1"),
        ("AP@0", "cut-off 0, expected at least 1"),
        ("CG", "CG needs a cut-off, as in CG@10"),
        ("Recall", "Recall needs a cut-off"),
        ("ERR", "ERR needs max"),
        ("ERR(max=0)", "max=0, expected the highest grade, 1 to 20"),
        ("ERR(max=21)", "max=21, expected the highest grade, 1 to 20"),
        ("PairError(norm=mean)", "norm=mean, expected one of none, pairs, max"),
        ("Kendall(weight=top)", "weight=top, expected one of uniform, difference"),
        ("CG(gain=square)@3", "gain=square, expected one of exp2, linear"),
        ("nDCG@0", "cut-off 0, expected at least 1"),
        ("P@0", "cut-off 0, expected at least 1"),
        ("nDCG@-1", "expected a text such as"),
        ("nDCG@", "expected a text such as"),
        ("", "expected a text such as"),
        ("P", "needs a cut-off"),
        ("RBP", "needs p"),
        ("PairAccuracy@5", "takes no cut-off"),
        ("nRBP(p=0.9)@5", "takes no cut-off"),
        ("AP(relevance=2)", "unknown parameter 'relevance'; AP takes: rel"),
        ("nDCG(cutoff=3)", "unknown parameter 'cutoff'; nDCG takes: gain, discount; a cut-off is written nDCG@10"),
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
@pytest.mark.parametrize("name", ["nDCG", "DCG", "CG", "P", "Recall", "Hit", "AP", "RR"])
def test_a_cutoff_below_1_is_refused_by_name(name: str, cutoff: int) -> None:
    with pytest.raises(ValueError, match=f"cut-off {cutoff}, expected at least 1"):
        KINDS[name](cutoff=cutoff)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (([float("nan"), 1], [1, 0], [0, 2]), "scores"),
        (([float("inf"), 1], [1, 0], [0, 2]), "scores"),
        (([[1.0, 2.0]], [1, 0], [0, 2]), "scores"),
        (([1.0, 2.0], [1, -1], [0, 2]), "relevance"),
        (([1.0, 2.0], [1.0, float("nan")], [0, 2]), "relevance"),
        (([1.0, 2.0], [1.0, float("inf")], [0, 2]), "relevance"),
        (([1.0, 2.0], [1], [0, 2]), "relevance"),
        (([1.0, 2.0], [1, 0], [0, 1]), "offsets"),
        (([1.0, 2.0], [1, 0], [0, 2, 1, 2]), "offsets"),
        (([1.0, 2.0], [1, 0], [0.0, 2.0]), "offsets"),
    ],
)
@pytest.mark.parametrize("metric", ["nDCG", "AP", "PairAccuracy", "ERR(max=4)"])
def test_bad_arguments_are_named(arguments: tuple[Any, ...], name: str, metric: str) -> None:
    with pytest.raises(ValueError, match=f"^{name}: "):
        rb.metric(metric)(*map(np.array, arguments))


@pytest.mark.parametrize("name", ["relevance", "offsets"])
def test_a_tensor_on_another_device_is_named(name: str) -> None:
    arguments = {"scores": torch.zeros(2), "relevance": torch.tensor([1, 0]), "offsets": torch.tensor([0, 2])}
    arguments[name] = arguments[name].to("meta")
    with pytest.raises(ValueError, match=f"^{name}: found on meta, expected on cpu beside the scores"):
        rb.metric("AP")(*arguments.values())
    with pytest.raises(ValueError, match=f"^{name}: found on meta, expected on cpu beside the scores"):
        rb.SmoothLoss("AP")(*arguments.values())


def test_gains_that_do_not_fit_are_refused() -> None:
    scores, offsets = np.array([2.0, 1.0]), np.array([0, 2])
    for name in ("nDCG", "DCG@1", "CG(gain=exp2)@2"):
        with pytest.raises(ValueError, match=r"^relevance: found grade 2000, .*expected grades up to 1004"):
            rb.metric(name)(scores, np.array([2000, 1]), offsets)
    large = rb.metric("nDCG")(scores, np.array([1004, 1003]), offsets)
    assert large[0] == pytest.approx(1)
    assert rb.metric("nDCG(gain=linear)")(scores, np.array([2000, 1]), offsets)[0] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^relevance: found grade 200, .*torch.float32 scores; expected .* up to 108"):
        rb.SmoothLoss("nDCG")(torch.tensor([2.0, 1.0]), torch.tensor([200, 1]), torch.tensor([0, 2]))


def test_grades_above_the_scale_of_err_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^relevance: found grade 3, expected grades up to 2, the max of ERR"):
        rb.metric("ERR(max=2)")(SCORES, GRADES, ONE_LIST)
    with pytest.raises(ValueError, match=r"^relevance: found grade 3, expected grades up to 2"):
        rb.SmoothLoss("ERR(max=2)@3")(torch.tensor([2.0, 1.0]), torch.tensor([3, 1]), torch.tensor([0, 2]))


def test_long_lists_keep_their_digits() -> None:
    """Sums over a million ranks, written out."""
    n, p = 10**6, 7
    worst = math.fsum(i / (n - p + i) for i in range(1, p + 1)) / p
    assert float(rb.minimum("AP", n, p)) == pytest.approx(worst, rel=1e-12)
    scores, relevance = np.zeros(n), np.zeros(n)
    relevance[:p] = 1
    none = math.fsum(math.log1p(-p / (n - rank + 1)) for rank in range(1, 11))
    hit = rb.metric("Hit@10")(scores, relevance, np.array([0, n]))[0]
    assert hit == pytest.approx(-math.expm1(none), rel=1e-12)
    assert rb.metric("Recall@10")(scores, relevance, np.array([0, n]))[0] == pytest.approx(10 / n, rel=1e-12)
    assert rb.metric("PairAccuracy")(scores, relevance, np.array([0, n]))[0] == 0.5


@pytest.mark.parametrize("k", [None, 30])
def test_err_of_a_long_block_of_ties(k: int | None) -> None:
    """500 items, 200 of them of grades 1 to 3: the user stops at rank j if they go on after j - 1 and not after j."""
    n, held = 500, {1: 120, 2: 50, 3: 30}
    grades = np.repeat([0, *held], [n - sum(held.values()), *held.values()])
    # The mean product of j of the items' 1 - S, item after item: a new one is among the j with the chance j / i.
    products = np.ones(1)
    for i, grade in enumerate(grades[::-1], start=1):
        q, j = 1 - (2.0**grade - 1) / 16, np.arange(i + 1) / i
        products = j * q * np.append(0, products) + (1 - j) * np.append(products, 0)
    ranks = np.arange(1, n + 1)
    expected = ((products[:-1] - products[1:]) / ranks)[:k].sum()
    name = "ERR(max=4)" if k is None else f"ERR(max=4)@{k}"
    assert rb.metric(name)(np.zeros(n), grades, np.array([0, n]))[0] == pytest.approx(expected, rel=1e-10)


UNDEFINED = (
    *("nDCG", "nDCG@3", "AP", "AP@2", "RR", "RR@1", "Recall@2", "nRBP(p=0.8)", "nRBP", "PairError", "LinearNDCG"),
    *("Rprec", "IPrec(recall=0)", "IPrec(recall=1)"),
)
ZERO = ("P@3", "RBP(p=0.8)", "DCG", "DCG@2", "CG@3", "Hit@3", "ERR(max=4)", "LinearDCG")


# Lists: nothing relevant, empty, relevant and not, nothing relevant.
LISTS = (np.arange(8.0), np.array([0, 0, 0, 1, 0, 0, 0, 0]), np.array([0, 3, 3, 5, 8]))


@pytest.mark.parametrize("name", UNDEFINED)
def test_lists_without_relevant_items_are_nan(name: str) -> None:
    assert np.isnan(rb.metric(name)(*LISTS)).tolist() == [True, True, False, True]


@pytest.mark.parametrize("name", ["PairAccuracy", "PairError(norm=max)", "Kendall(weight=difference)"])
def test_lists_of_one_grade_have_no_pairs(name: str) -> None:
    value = rb.metric(name)(np.arange(7.0), np.array([0, 1, 2, 2, 2, 1, 0]), np.array([0, 2, 5, 6, 6, 7]))
    assert np.isnan(value).tolist() == [False, True, True, True, True]


def test_kendall_needs_two_items() -> None:
    value = rb.metric("Kendall")(np.arange(5.0), np.array([0, 0, 0, 3, 1]), np.array([0, 2, 3, 3, 5]))
    np.testing.assert_array_equal(value, [0.5, np.nan, np.nan, 0])


@pytest.mark.parametrize("name", ZERO)
def test_lists_without_relevant_items_are_0_where_that_is_defined(name: str) -> None:
    scores, relevance, offsets = LISTS
    assert (rb.metric(name)(-scores, relevance, offsets) == 0).tolist() == [True, True, False, True]


@pytest.mark.parametrize("name", [*UNDEFINED, *ZERO])
def test_a_batch_without_lists_has_no_values(name: str) -> None:
    value = rb.metric(name)(np.zeros(0), np.zeros(0, dtype=np.int64), np.array([0]))
    assert value.shape == (0,)


def test_the_threshold_decides_what_is_relevant() -> None:
    nothing_above = rb.metric("AP(rel=4)")(SCORES, GRADES, ONE_LIST)
    assert math.isnan(nothing_above[0])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.bool_])
@pytest.mark.parametrize(
    "name",
    ["nDCG", "AP", "nRBP", "P@2", "RR", "CG@2", "ERR(max=4)", "PairAccuracy", "Kendall", "PairError", "LinearNDCG"],
)
def test_relevance_may_be_any_number(name: str, dtype: type) -> None:
    binary = np.array([0, 1, 0, 0, 1])
    value = rb.metric(name)(SCORES, binary.astype(dtype), ONE_LIST)
    assert value[0] == pytest.approx(rb.metric(name)(SCORES, binary, ONE_LIST)[0], rel=1e-7)


@pytest.mark.parametrize("name", ["PairAccuracy", "PairError(norm=max)", "Kendall", "LinearNDCG", "nDCG(gain=linear)"])
def test_grades_may_be_fractions(name: str) -> None:
    """Metrics that only compare grades, or whose gain is linear over its best, don't see their unit."""
    halves = rb.metric(name)(SCORES, GRADES / 2, ONE_LIST)
    assert halves == pytest.approx(rb.metric(name)(SCORES, GRADES, ONE_LIST), rel=1e-12)
    smooth, other = (
        rb.SmoothLoss(name)(*map(torch.from_numpy, (SCORES, grades, ONE_LIST))) for grades in (GRADES / 2, GRADES)
    )
    torch.testing.assert_close(smooth, other, rtol=1e-12, atol=0)


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
