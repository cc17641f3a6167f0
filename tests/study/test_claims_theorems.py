"""Claims about formulas: the oracle is that of the tests, and theorems are decided as known or as planted."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn.metrics
import torch
import yaml
from brute_force import METRICS, binary_orders, kendall, linear_dcg, pair_error
from torch import Tensor

import rankbound as rb
from rankbound_study.claims import theorems as others
from rankbound_study.claims import thesis_theorems as thesis
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decide, in_words, verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED, Ruling

EVIDENCE = Evidence("thesis")

# The oracle


def test_metrics_by_hand_are_those_of_the_tests() -> None:
    by_hand = others.MURPHY | others.WIKI | {"nRBP": thesis.wrong_pairs}
    orders = [order for n in range(1, 7) for order in product((0, 1), repeat=n) if any(order)]
    for text in ("nDCG", "AP", "nRBP", "RR", "DCG(gain=linear)", "P@3", "CG@5"):
        reference = METRICS.get(text) or (lambda order: sum(order[:5]))
        assert [by_hand[text](order) for order in orders] == pytest.approx(list(map(reference, orders)), abs=1e-12)  # type: ignore[arg-type]
    # Binary gains are their own exponentials.
    from_two = by_hand["DCG(gain=linear,discount=log2(r))"]
    assert list(map(from_two, orders)) == pytest.approx(list(map(METRICS["DCG(discount=log2(r))"], orders)))  # type: ignore[arg-type]
    for order in [order for n in range(2, 6) for order in product(range(3), repeat=n) if len(set(order)) > 1]:
        assert thesis.linear_dcg(order) == linear_dcg(order)
        assert thesis.wrong_pairs(order) == pair_error()(order)
        assert others.kendall(order) == kendall()(order)
        assert others.kendall(order, by_difference=True) == kendall("difference")(order)


def test_short_lists_never_ask_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("minimum", "maximum", "expectation"):
        monkeypatch.setattr(rb, name, lambda of, n, p: np.full(np.shape(n), 0.25))
    n, p = np.array([3, 9, 10]), np.array([2, 3, 3])
    assert thesis.smallest("AP", n, p) == pytest.approx([7 / 12, 61 / 252, 0.25])
    assert thesis.expected_loss("AP", n, p) == pytest.approx([-29 / 36, -thesis.EQUATIONS["3.10"](9, 3), -0.25])
    assert thesis.expected_loss("nRBP", n, p) == pytest.approx([1, 9, 0.25])

    # Agreement is relative to large values alone.
    assert thesis.agree([1e12 + 1, Fraction(1, 3), 0.0, 2.0], [1e12, 1 / 3, 1e-10, 2.001]) == 3


# The theorems, as they are

RULED = yaml.safe_load((Path(__file__).parents[1] / "reference/theorems.yaml").read_text("utf-8"))
KNOWN = {claim: (verdict, row or {}) for verdict, rows in RULED.items() for claim, row in rows.items()}


@pytest.fixture(scope="module")
def rulings(theorems_file: Path) -> Mapping[str, Ruling]:
    """The rulings of the step, read back from its file."""
    return others.read(theorems_file)


def test_the_step_checks_all_of_them(rulings: Mapping[str, Ruling]) -> None:
    assert rulings.keys() == KNOWN.keys()
    decided = {claim.id: verdict for claim, verdict in decide(EVIDENCE, rulings)}
    assert decided["L03"] == verdict_on("L03", EVIDENCE)


@pytest.mark.parametrize("claim", KNOWN)
def test_they_are_decided(claim: str, rulings: Mapping[str, Ruling]) -> None:
    (verdict, row), found = KNOWN[claim], in_words(claim, rulings[claim])
    assert found.verdict == verdict
    assert [words for words in row.get("words", ()) if words not in found.reason] == []
    if "value" in row:
        assert found.value == pytest.approx(row["value"], abs=1e-4)


# The theorems, with something else planted

Change = tuple[Any, str, Any]  # a module or a dictionary, a name in it, and what stands for it

FORMULAS: dict[str, Callable[[str, Any, Any], Any]] = {
    "flat": lambda of, n, p: np.full(np.shape(n), 0.25),
    "from zero": lambda of, n, p: (np.asarray(p) - 1) / np.asarray(n),
    "moving with AP": lambda of, n, p: np.asarray(p) / n / (np.asarray(n) if of == "AP" else 1),
    "share": lambda of, n, p: np.asarray(p) / n,
    "falling": lambda of, n, p: -p.astype(float),
    "rising": lambda of, n, p: p.astype(float),
    "falling but for AP": lambda of, n, p: np.where(of == "AP", 1.0, -1.0) * p,
    "rising to six": lambda of, n, p: -np.abs(p - 6.0),
    "ratio": lambda of, n, p: n / p,
    "1": lambda of, n, p: np.ones(len(n)),
    "-": lambda of, n, p: -np.ones(len(n)),
    "x": lambda of, n, p: n / p,
}

metric, loss, normalised, reciprocal_rank = rb.metric, rb.loss, rb.metric("PairError(norm=max)"), rb.metric("RR")
exact, equations = rb.score_distribution, thesis.EQUATIONS
differences = others._of_differences


def losses(expected: str, floors: str) -> list[Change]:
    return [(thesis, "expected_loss", FORMULAS[expected]), (thesis, "smallest", FORMULAS[floors])]


def formula(name: str, planted: str) -> list[Change]:
    return [(rb, name, FORMULAS[planted])]


def ends(lower: str, upper: str) -> list[Change]:
    """Ends of the bounded losses of nDCG, AP and nRBP: 1, -1 (-), or N / P (x)."""

    def planted(metric: str, bounding: str, n: Any, p: Any) -> Any:
        return np.array([FORMULAS[end[thesis.METRICS.index(metric)]](metric, n, p) for end in (lower, upper)])

    return [(thesis, "ends", planted)]


def in_range(*hard: float) -> list[Change]:
    """Smooth metrics of 0, and these values of all orders, if any."""

    def smooth(*arguments: Any, **settings: Any) -> Any:
        return lambda scores, relevance, offsets: torch.zeros(len(offsets) - 1, dtype=torch.float64)

    of_orders = (thesis, "values_of_library", lambda metric, orders: np.array(hard))
    return [(rb, "SmoothLoss", smooth), *[of_orders] * bool(hard)]


def curve(middle: float) -> list[Change]:
    """A distribution whose curves end at 0 and 1, straight or not."""

    def cdf(x: Any) -> Any:
        return np.interp(x, [0.0, 1.0, 2.0], [0.0, middle, 1.0])

    made = SimpleNamespace(minimum=0.0, maximum=2.0, support=np.array([0.0, 1.0, 2.0]), cdf=cdf, smooth_cdf=cdf)
    of_orders = (thesis, "_steps_at_extremes", lambda metric, n, p: (0.0, 1.0))
    return [(rb, "score_distribution", lambda metric, n, p: made), of_orders]


def distances(first: float, last: float) -> list[Change]:
    """Distances of the smooth curves from the steps, with gain 1 and with that of equation 3.13."""
    of_gains = (thesis, "_excesses", lambda of: [first, 0.3, 0.2, 0.1, last])
    return [(thesis, "score_distributions", lambda metric, lists: [None, None]), of_gains]


def sampled(metric: str, n: int, p: int) -> Any:
    return exact(metric, n=n, p=p, method="sampled", samples=1000)


def trained(**after: float) -> list[Change]:
    """A linear model's nDCG rises from 0.5, by default to 0.9 with every family."""
    return [(others, "_trained", lambda: (0.5, {**dict.fromkeys(others.FAMILIES, 0.9), **after}))]


def another(old: str, new: str) -> list[Change]:
    """Another metric under the name of one."""
    return [*trained(), (rb, "metric", lambda text: metric(new if text == old else text))]


def other_loss(name: str, planted: Callable[[str], Any]) -> list[Change]:
    return [(rb, "loss", lambda text: planted(text) if text == name else loss(text))]


def shifted(place: Any, by: float) -> Callable[[torch.Generator], Tensor]:
    """Differences of scores, with one of the chances moved."""

    def planted(generator: torch.Generator) -> Tensor:
        chances = differences(generator)
        chances[place] += by
        return chances

    return planted


RING, LINE, OPEN, EVERYBODY = (
    torch.tensor([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]]),
    torch.tensor([[0.5, 0.9, 0.9], [0.1, 0.5, 0.9], [0.1, 0.1, 0.5]]),
    # The first beats the second, that the third, and nobody knows about the ends.
    torch.tensor([[0.5, 0.9, 0.5], [0.1, 0.5, 0.9], [0.5, 0.1, 0.5]]),
    torch.full((3, 3), 0.9),
)

PLANTS: list[tuple[str, str, list[Change]]] = [
    ("T01", REFUTED, formula("minimum", "flat")),
    ("T01", REFUTED, formula("minimum", "from zero")),
    ("T02", REFUTED, formula("minimum", "moving with AP")),
    ("T03", REFUTED, [(rb, "metric", lambda text: reciprocal_rank)]),
    ("T04", REFUTED, formula("minimum", "flat")),
    *(("T04", REFUTED, [(equations, name, equations["3.2 as printed"])]) for name in ("3.2", "3.3", "3.4")),
    ("T05", CONFIRMED, losses("falling", "rising")),
    ("T05", REFUTED, losses("falling", "falling")),
    ("T05", REFUTED, losses("falling but for AP", "rising")),
    ("T06", CONFIRMED, in_range()),
    ("T06", REFUTED, in_range(0.0, 1.0, 1.01)),
    ("T06", REFUTED, in_range(-0.01, 0.0, 1.0)),
    ("T08", REFUTED, formula("expectation", "share")),
    *(("T08", REFUTED, [(equations, name, equations["3.8 as printed"])]) for name in ("3.8", "3.9", "3.10")),
    ("T09", REFUTED, losses("rising", "rising")),
    ("T09", CONFIRMED, losses("ratio", "rising")),
    ("T10", CONFIRMED, losses("falling", "rising")),
    ("T10", REFUTED, losses("rising to six", "rising")),
    ("T11", CONFIRMED, losses("rising", "rising")),
    ("T11", REFUTED, losses("falling", "rising")),
    ("T11", REFUTED, losses("rising to six", "rising")),
    ("T12", CONFIRMED, ends("xx1", "xx1")),
    ("T12", REFUTED, ends("xx1", "xxx")),
    ("T12", REFUTED, ends("1x1", "xx1")),
    ("T13", CONFIRMED, ends("111", "xxx")),
    ("T13", REFUTED, ends("111", "xx1")),
    ("T15", CONFIRMED, ends("---", "xx1")),
    ("T15", REFUTED, ends("--1", "xx1")),
    ("T15", REFUTED, ends("---", "x11")),
    # Ends at zero and one confirm, unless the map is straight.
    ("T17", CONFIRMED, curve(0.7)),
    ("T17", REFUTED, curve(0.5)),
    ("T18", CONFIRMED, distances(0.4, 0.01)),
    ("T18", REFUTED, distances(0.4, 0.06)),
    ("T18", REFUTED, distances(0.02, 0.01)),
    ("T19", CONFIRMED, [(rb, "score_distribution", sampled)]),
    # Long lists count, too.
    ("T19", CONFIRMED, [(thesis, "share_of_orders_up_to", lambda of, n, p, x: exact(of, n=n, p=p).cdf(x) + 2e-4)]),
    # Exchanges that cost too little, and orders that take more of them: of neighbours alone.
    ("L01", REFUTED, [(others, "linear_dcg", lambda order: thesis.linear_dcg(order) / 2)]),
    ("L01", REFUTED, [(others, "combinations", lambda ranks, two: pairwise(ranks))]),
    # Wrong pairs without weights.
    (
        "L02",
        REFUTED,
        [(others, "wrong_pairs", lambda order: sum(a < b for i, a in enumerate(order) for b in order[i:]))],
    ),
    ("L02", REFUTED, [(rb, "metric", lambda text: normalised)]),
    # Without the pairs of the better rating.
    ("L03", REFUTED, [(rb, "maximum", lambda of, n, m: np.asarray(m * (n - m)))]),
    ("M01", REFUTED, another("P@3", "P@4")),
    ("M01", REFUTED, another("AP", "AP@3")),
    ("M01", REFUTED, another("nDCG", "nDCG(gain=linear)")),
    ("M01", REFUTED, another("DCG(gain=linear,discount=log2(r))", "DCG")),
    ("M01", REFUTED, [(sklearn.metrics, "ndcg_score", lambda *of: 0.0)]),
    ("M02", REFUTED, another("Kendall", "Kendall(weight=difference)")),
    ("M02", REFUTED, another("Kendall(weight=difference)", "PairAccuracy")),
    ("W01", CONFIRMED, trained()),
    ("W01", REFUTED, trained(listwise=0.5)),
    ("W01", REFUTED, another("RR", "RR@1")),
    ("W01", REFUTED, another("CG@5", "CG@4")),
    ("W01", REFUTED, another("nDCG(gain=linear)", "nDCG")),
    ("W01", REFUTED, [*trained(), *other_loss("hinge", lambda text: loss("hinge(margin=2)"))]),
    ("W01", REFUTED, other_loss("ListMLE", lambda text: lambda *given: -loss(text)(*given))),
    # No counter-examples: links of one score, one that is not zero at zero, not odd, and not transitive.
    *(
        ("N04", INCONCLUSIVE, [(others, "TRIPLES", 20_000), (others, "counter_example", planted)])
        for planted in (
            lambda d, w, v: torch.tanh(d @ w),
            lambda d, w, v: (d @ w) ** 3 + 5 * (d @ w),
            lambda d, w, v: torch.tanh(d @ w * (1 + (d @ v) ** 2)) + 0.1,
            lambda d, w, v: torch.tanh(d @ w * (1 + d @ v)),
            lambda d, w, v: torch.tanh((d @ w) ** 3 - 8 * (d @ v)),
        )
    ),
    ("N05", REFUTED, [(others, "_of_joined_pairs", differences)]),
    # Unsure of itself, lopsided, and in a ring.
    *(
        ("N05", REFUTED, [(others, "NETWORKS", 5), (others, "_of_differences", planted)])
        for planted in (shifted(..., 1e-6), shifted((0, 1), 1e-6), lambda generator: RING)
    ),
    ("N16", REFUTED, [(others, "LINKS", {"RankNet": lambda difference: torch.sigmoid(difference + 0.01)})]),
]
"""A claim, its verdict, and the changes under which it must be given."""


@pytest.mark.parametrize(("claim", "verdict", "changes"), PLANTS)
def test_a_plant_is_found(claim: str, verdict: str, changes: list[Change], monkeypatch: pytest.MonkeyPatch) -> None:
    for home, name, planted in changes:
        (monkeypatch.setitem if isinstance(home, dict) else monkeypatch.setattr)(home, name, planted)
    assert verdict_on(claim, EVIDENCE).verdict == verdict


# Their parts


def test_the_printed_numbers_are_found() -> None:
    ranges = [thesis.range_of_floors(metric, 2) for metric in ("nDCG", "AP")]
    assert ranges == pytest.approx([0.481 - 0.370, 0.127 - 0.110], abs=1e-3)
    assert thesis.turning_points() == [5, 5, 4]
    _, upper = thesis.ends("AP", "expectation", np.array([10, 15, 20]), np.array([5, 5, 5]))
    assert upper == pytest.approx([-0.58, -0.50, -0.46], abs=5e-3)
    _, upper = thesis.ends("nDCG", "expectation", np.array([20, 30, 40]), np.array([10, 10, 10]))
    assert upper == pytest.approx([-0.709, -0.695, -0.696], abs=5e-4)
    tied = rb.SmoothLoss("nDCG", "min-max")(
        torch.tensor([-10.0, -10, 10], dtype=torch.float64), torch.tensor([1, 1, 0]), torch.tensor([0, 3])
    )
    assert float(-tied) == pytest.approx(-0.0486804834)
    # All sizes of the data are there, and mixed.
    n, p, *_ = thesis.ends_of_the_data("expectation")
    assert {(2454, 1227), (4908, 1227), (121, 63), (8, 1)} <= set(zip(n.tolist(), p.tolist(), strict=True))
    assert bool(((p >= 1) & (p < n)).all())


@pytest.mark.parametrize(("metric", "bounding"), [*product(thesis.METRICS, ["expectation", "expectation-max"])])
def test_short_lists_have_the_librarys_ends(metric: str, bounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, p = np.array(thesis.MIXED).T
    by_orders = thesis.ends(metric, bounding, n, p)
    monkeypatch.setattr(thesis, "SHORT", 0)
    np.testing.assert_allclose(by_orders, thesis.ends(metric, bounding, n, p), atol=1e-12)


def test_the_gain_of_the_thesis_is_close_where_gain_one_is_poor(monkeypatch: pytest.MonkeyPatch) -> None:
    gains = thesis._excesses(rb.score_distribution("nDCG", n=8, p=4))
    # The smooth curve of gain 1 spans 0.44 to 0.56; the exact one starts at 1/70 and just before at 0.
    assert gains[0] == pytest.approx(0.4434 - 1 / 140, abs=1e-3)
    assert gains[-1] < 0.01
    assert max(thesis._excesses(rb.score_distribution("nRBP", n=8, p=4))) < 0.02
    monkeypatch.setattr(thesis, "DRAWN_LISTS", ((8, 4), (12, 4)))
    verdict = verdict_on("T18", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "for 4 of 6 pairs of a metric and a list" in verdict.reason
    assert "; 0 of them nRBP" in verdict.reason


@pytest.mark.parametrize(
    ("metric", "n", "p"), [(m, *size) for m in ("nDCG", "nRBP") for size in ((2, 1), (8, 7), (9, 5))]
)
def test_orders_are_counted_by_halves(metric: str, n: int, p: int) -> None:
    values = np.array([float(METRICS[metric](order)) for order in binary_orders(n, p)])  # type: ignore[arg-type]
    scores = np.linspace(-0.1, values.max() + 0.1, 37)
    expected = (values[:, None] <= scores).mean(axis=0)
    np.testing.assert_allclose(thesis.share_of_orders_up_to(metric, n, p, scores), expected, atol=1e-12)


def test_exchanges_and_cycles_of_few_items() -> None:
    once = dict.fromkeys([(1, 0, 1, 0), (1, 0, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1)], 1)
    assert others.fewest_exchanges((1, 1, 0, 0)) == {(1, 1, 0, 0): 0, **once, (0, 0, 1, 1): 2}
    found = [others.intransitive(chances) for chances in (RING, LINE, OPEN, EVERYBODY)]
    assert found == [(True, True), (False, False), (True, False), (False, False)]
