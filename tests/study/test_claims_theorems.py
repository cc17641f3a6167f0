"""Claims about formulas: decided without runs, as is known, and otherwise where something else is planted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from brute_force import METRICS, binary_orders
from torch import Tensor

import rankbound as rb
from rankbound_study.claims import oracle, theorems
from rankbound_study.claims import other_theorems as others
from rankbound_study.claims import thesis_theorems as thesis
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import decide, in_words, verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, Ruling
from rankbound_study.cli import main

EVIDENCE = Evidence("thesis")

KNOWN = {
    CONFIRMED: "T01 T02 T03 T04 T08 T09 T10 T11 T12 T15 T18 N05 N16 M01 M02 W01 L01 L02 L03",
    REFUTED: "T05 T06 T13 T17 T19 N04",
}

SAID = {
    "T03": ["0.63"],
    # Only lists with one relevant item have an ideal DCG of 1.
    "T04": ["right for 8 of 44 lists"],
    "T05": ["from 5 relevant items on", "AP in 0;"],
    "T06": ["hard ranks, 0 of", "0 with AP, 0 with nRBP"],
    "T08": ["right for 0 of 44"],
    # 1 / C(9, 4) of the longest list with most orders.
    "T17": [f"{1 / 126:.4f} to 0.50"],
    "L02": ["6,678", "200 once half"],
    "M01": ["8 numbers are misprinted (1.887, 0.772, 8.09, 0.9306)", "8.693"],
    "M02": ["1 for equal and 0 for reversed"],
    "N04": ["200,000 of 200,000"],
    "N05": ["50 of 50 differences"],
    "N16": ["first item in 0"],
}
"""Numbers that the reason names."""

VALUES = {"T03": 0.7816511 - 0.6309298, "T17": 0.3096014615, "N04": 2}
"""Values of the deciding statistic."""


@pytest.fixture(scope="module")
def rulings(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Ruling]:
    """The rulings of the step, read back from its file."""
    path = tmp_path_factory.mktemp("theorems") / "theorems.json"
    assert main(["theorems", "--out", str(path)]) == 0
    return theorems.read(path)


def test_the_step_checks_all_of_them(rulings: Mapping[str, Ruling]) -> None:
    assert set(rulings) == {claim for some in KNOWN.values() for claim in some.split()}
    decided = {claim.id: verdict for claim, verdict in decide(EVIDENCE, rulings)}
    assert decided["L03"] == verdict_on("L03", EVIDENCE)


@pytest.mark.parametrize(("claim", "verdict"), [(claim, of) for of, some in KNOWN.items() for claim in some.split()])
def test_they_are_decided(claim: str, verdict: str, rulings: Mapping[str, Ruling]) -> None:
    found = in_words(claim, rulings[claim])
    assert found.verdict == verdict
    for words in SAID.get(claim, ()):
        assert words in found.reason
    if claim in VALUES:
        assert found.value == pytest.approx(VALUES[claim])


def flat(of: str, n: Any, p: Any) -> Any:
    return np.full(np.shape(n), 0.25)


def from_zero(of: str, n: Any, p: Any) -> Any:
    return (np.asarray(p) - 1) / np.asarray(n)


def moving_with_ap(of: str, n: Any, p: Any) -> Any:
    return np.asarray(p) / n / (np.asarray(n) if of == "AP" else 1)


def share(of: str, n: Any, p: Any) -> Any:
    return np.asarray(p) / n


def falling(metric: str, n: Any, p: Any) -> Any:
    return -p.astype(float)


def rising(metric: str, n: Any, p: Any) -> Any:
    return p.astype(float)


def falling_but_for_ap(metric: str, n: Any, p: Any) -> Any:
    return np.where(metric == "AP", 1.0, -1.0) * p


def rising_to_six(metric: str, n: Any, p: Any) -> Any:
    return -np.abs(p - 6.0)


metric, loss, normalised = rb.metric, rb.loss, rb.metric("PairError(norm=max)")
reciprocal_rank, exact, exchanges = rb.metric("RR"), rb.score_distribution, others._exchanges
undivided, printed, differences = oracle.worst_dcg, oracle.expected_ndcg_as_printed, others._of_differences

Change = tuple[Any, str, Any]
"""A module, a name in it, and what stands for it."""


def losses(expected: Any, floors: Any) -> list[Change]:
    return [(thesis, "expected_loss", expected), (thesis, "smallest", floors)]


class InRange:
    """A loss whose bounded metric is always 0."""

    def __init__(self, of: str, bound: str, **settings: Any) -> None:
        pass

    def __call__(self, scores: Any, relevance: Any, offsets: Any) -> Tensor:
        return torch.zeros(len(offsets) - 1, dtype=torch.float64)


def ends(lower: str, upper: str) -> list[Change]:
    """Ends of the bounded losses of nDCG, AP and nRBP: 1, -1 (-), or N / P (x)."""
    kinds: dict[str, Callable[[Any, Any], Any]] = {
        "1": lambda n, p: 1.0,
        "-": lambda n, p: -1.0,
        "x": lambda n, p: n / p,
    }

    def planted(metric: str, bounding: str, n: Any, p: Any) -> thesis.Ends:
        place = ("nDCG", "AP", "nRBP").index(metric)
        return thesis.Ends(*(kinds[end[place]](n, p) * np.ones(len(n)) for end in (lower, upper)))

    return [(thesis, "ends", planted)]


class Curve:
    """A distribution whose curves end at 0 and 1, straight or not."""

    minimum, maximum = 0.0, 2.0
    support = np.array([0.0, 1.0, 2.0])

    def __init__(self, middle: float) -> None:
        self._middle = middle

    def cdf(self, x: Any) -> Any:
        return np.interp(x, self.support, [0.0, self._middle, 1.0])

    smooth_cdf = cdf


def curve(middle: float) -> list[Change]:
    return [
        (rb, "score_distribution", lambda metric, n, p: Curve(middle)),
        (thesis, "_steps_at_extremes", lambda of_orders: (0.0, 1.0)),
    ]


def distances(first: float, last: float) -> list[Change]:
    """Distances of the smooth curves from the steps, with gain 1 and with that of equation 3.13."""
    lists = [exact("nRBP", n=n, p=p) for n, p in ((8, 4), (15, 5))]
    return [
        (thesis, "_distributions", lambda metric: lists),
        (thesis, "_excesses", lambda of: [first, 0.3, 0.2, 0.1, last]),
    ]


def sampled(metric: str, n: int, p: int) -> Any:
    return exact(metric, n=n, p=p, method="sampled", samples=1000)


def of_neighbours(order: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [after for after in exchanges(order) if oracle.linear_dcg(order) - oracle.linear_dcg(after) == 1]


def unweighted(order: Sequence[int]) -> int:
    return sum(above < below for i, above in enumerate(order) for below in order[i:])


def trained(**after: float) -> list[Change]:
    """A linear model's nDCG rises from 0.5, by default to 0.9 with every family."""
    return [(others, "_trained", lambda: (0.5, {**dict.fromkeys(others.FAMILIES, 0.9), **after}))]


def another(old: str, new: str) -> list[Change]:
    """Another metric under the name of one."""
    return [*trained(), (rb, "metric", lambda text: metric(new if text == old else text))]


class Backwards:
    def __call__(self, *arguments: Any) -> Any:
        return -loss("ListMLE")(*arguments)


def unsure(generator: torch.Generator) -> Tensor:
    return differences(generator) + 1e-6


def lopsided(generator: torch.Generator) -> Tensor:
    chances = differences(generator)
    chances[0, 1] += 1e-6
    return chances


def in_a_ring(generator: torch.Generator) -> Tensor:
    return torch.tensor([[0.5, 0.9, 0.1], [0.1, 0.5, 0.9], [0.9, 0.1, 0.5]])


PLANTS: list[tuple[str, str, list[Change]]] = [
    ("T01", REFUTED, [(rb, "minimum", flat)]),
    ("T01", REFUTED, [(rb, "minimum", from_zero)]),
    ("T02", REFUTED, [(rb, "minimum", moving_with_ap)]),
    ("T03", REFUTED, [(rb, "metric", lambda text: reciprocal_rank)]),
    ("T04", REFUTED, [(rb, "minimum", flat)]),
    *(("T04", REFUTED, [(oracle, name, undivided)]) for name in ("smallest_ndcg", "smallest_ap", "largest_nrbp")),
    ("T05", CONFIRMED, losses(falling, rising)),
    ("T05", REFUTED, losses(falling, falling)),
    ("T05", REFUTED, losses(falling_but_for_ap, rising)),
    ("T06", CONFIRMED, [(rb, "SmoothLoss", InRange)]),
    (
        "T06",
        REFUTED,
        [
            (rb, "SmoothLoss", InRange),
            (thesis, "_of_all_orders", lambda metric: np.array([0.0, 1.0, 1.01 if metric == "AP" else 0.5])),
        ],
    ),
    ("T08", REFUTED, [(rb, "expectation", share)]),
    *(("T08", REFUTED, [(oracle, name, printed)]) for name in ("expected_ndcg", "expected_nrbp", "expected_ap")),
    ("T09", REFUTED, losses(rising, rising)),
    ("T09", CONFIRMED, losses(lambda metric, n, p: n / p, rising)),
    ("T10", CONFIRMED, losses(falling, rising)),
    ("T10", REFUTED, losses(rising_to_six, rising)),
    ("T11", CONFIRMED, losses(rising, rising)),
    ("T11", REFUTED, losses(falling, rising)),
    ("T11", REFUTED, losses(rising_to_six, rising)),
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
    ("T19", CONFIRMED, [(thesis, "_distance_from_counts", lambda *of: 2e-4)]),
    # Exchanges that cost too little, and orders that take more of them.
    ("L01", REFUTED, [(others, "linear_dcg", lambda order: oracle.linear_dcg(order) / 2)]),
    ("L01", REFUTED, [(others, "_exchanges", of_neighbours)]),
    ("L02", REFUTED, [(others, "wrong_pairs", unweighted)]),
    ("L02", REFUTED, [(rb, "metric", lambda text: normalised)]),
    # Without the pairs of the better rating.
    ("L03", REFUTED, [(rb, "maximum", lambda of, n, m: np.asarray(m * (n - m)))]),
    ("M01", REFUTED, another("P@3", "P@4")),
    ("M01", REFUTED, another("AP", "AP@3")),
    ("M01", REFUTED, another("nDCG", "nDCG(gain=linear)")),
    ("M01", REFUTED, another("DCG(gain=linear,discount=log2(r))", "DCG")),
    ("M01", REFUTED, [(others, "_agreeing_with_scikit_learn", lambda orders: (1, 2))]),
    ("M02", REFUTED, another("Kendall", "Kendall(weight=difference)")),
    ("M02", REFUTED, another("Kendall(weight=difference)", "PairAccuracy")),
    ("W01", CONFIRMED, trained()),
    ("W01", REFUTED, trained(listwise=0.5)),
    ("W01", REFUTED, another("RR", "RR@1")),
    ("W01", REFUTED, another("CG@5", "CG@4")),
    ("W01", REFUTED, another("nDCG(gain=linear)", "nDCG")),
    (
        "W01",
        REFUTED,
        [*trained(), (rb, "loss", lambda text: loss("hinge(margin=2)" if text == "hinge" else text))],
    ),
    ("W01", REFUTED, [(rb, "loss", lambda text: Backwards() if text == "ListMLE" else loss(text))]),
    ("N05", REFUTED, [(others, "_of_joined_pairs", differences)]),
    *(
        ("N05", REFUTED, [(others, "NETWORKS", 5), (others, "_of_differences", planted)])
        for planted in (unsure, lopsided, in_a_ring)
    ),
    ("N16", REFUTED, [(others, "LINKS", {"RankNet": lambda difference: torch.sigmoid(difference + 0.01)})]),
]
"""A claim, its verdict, and the changes under which it must be given."""


@pytest.mark.parametrize(("claim", "verdict", "changes"), PLANTS)
def test_a_plant_is_found(claim: str, verdict: str, changes: list[Change], monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, planted in changes:
        monkeypatch.setattr(module, name, planted)
    assert verdict_on(claim, EVIDENCE).verdict == verdict


def test_the_printed_numbers_are_found() -> None:
    ranges = [thesis.range_of_floors(metric, 2) for metric in ("nDCG", "AP")]
    assert ranges == pytest.approx([0.481 - 0.370, 0.127 - 0.110], abs=1e-3)
    assert thesis.turning_points() == [5, 5, 4]
    upper = thesis.ends("AP", "expectation", np.array([10, 15, 20]), np.array([5, 5, 5])).upper
    assert upper == pytest.approx([-0.58, -0.50, -0.46], abs=5e-3)
    upper = thesis.ends("nDCG", "expectation", np.array([20, 30, 40]), np.array([10, 10, 10])).upper
    assert upper == pytest.approx([-0.709, -0.695, -0.696], abs=5e-4)


def test_smooth_ndcg_leaves_the_range() -> None:
    assert verdict_on("T06", EVIDENCE).value < -0.36
    tied = rb.SmoothLoss("nDCG", "min-max")(
        torch.tensor([-10.0, -10, 10], dtype=torch.float64), torch.tensor([1, 1, 0]), torch.tensor([0, 3])
    )
    assert float(-tied) == pytest.approx(-0.0486804834)


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
@pytest.mark.parametrize("bounding", ["expectation", "expectation-max"])
def test_short_lists_have_the_librarys_ends(metric: str, bounding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n, p = np.array([(n, p) for n in range(2, 10) for p in range(1, n)]).T
    by_orders = thesis.ends(metric, bounding, n, p)
    monkeypatch.setattr(thesis, "SHORT", 0)
    by_library = thesis.ends(metric, bounding, n, p)
    np.testing.assert_allclose(by_orders.lower, by_library.lower, atol=1e-12)
    np.testing.assert_allclose(by_orders.upper, by_library.upper, atol=1e-12)


def test_all_sizes_of_the_data_are_mixed_and_there() -> None:
    n, p = thesis.sizes_of_the_data()
    sizes = set(zip(n.tolist(), p.tolist(), strict=True))
    assert {(2454, 1227), (4908, 1227), (121, 63), (8, 1)} <= sizes
    assert bool(((p >= 1) & (p < n)).all())


def test_distances_are_those_that_are_known() -> None:
    gains = thesis._excesses(rb.score_distribution("nDCG", n=8, p=4))
    # The smooth curve of gain 1 spans 0.44 to 0.56; the exact one starts at 1/70 and just before at 0.
    assert gains[0] == pytest.approx(0.4434 - 1 / 140, abs=1e-3)
    assert gains[-1] < 0.01
    assert max(thesis._excesses(rb.score_distribution("nRBP", n=8, p=4))) < 0.02


def test_the_gain_of_the_thesis_is_close_where_gain_one_is_poor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thesis, "DRAWN_LISTS", ((8, 4), (12, 4)))
    verdict = verdict_on("T18", EVIDENCE)
    assert verdict.verdict == CONFIRMED
    assert "for 4 of 6 pairs of a metric and a list" in verdict.reason
    assert "; 0 of them nRBP" in verdict.reason


@pytest.mark.parametrize("metric", ["nDCG", "nRBP"])
@pytest.mark.parametrize(("n", "p"), [(2, 1), (7, 3), (8, 7), (9, 5)])
def test_orders_are_counted_by_halves(metric: str, n: int, p: int) -> None:
    values = np.array([float(METRICS[metric](order)) for order in binary_orders(n, p)])  # type: ignore[arg-type]
    scores = np.linspace(-0.1, values.max() + 0.1, 37)
    expected = (values[:, None] <= scores).mean(axis=0)
    np.testing.assert_allclose(thesis.share_of_orders_up_to(metric, n, p, scores), expected, atol=1e-12)


def test_the_fewest_exchanges_of_four_items() -> None:
    once = dict.fromkeys([(1, 0, 1, 0), (1, 0, 0, 1), (0, 1, 1, 0), (0, 1, 0, 1)], 1)
    assert others._fewest_exchanges((1, 1, 0, 0)) == {(1, 1, 0, 0): 0, **once, (0, 0, 1, 1): 2}


def test_two_tied_items_have_half_an_error() -> None:
    assert others._mean_error([0, 0], [1, 0]) == 0.5
    assert others._mean_error([0, 1, 1], [2, 0, 0]) == 4


W = torch.tensor([1.0, -2.0, 0.5, 0.0, 1.0], dtype=torch.float64)
V = torch.tensor([0.5, 1.0, 1.0, -1.0, 0.0], dtype=torch.float64)


@pytest.mark.parametrize(
    "network",
    [
        lambda d: torch.tanh(d @ W),
        lambda d: (d @ W) ** 3 + 5 * (d @ W),
        lambda d: torch.tanh(d @ W * (1 + (d @ V) ** 2)) + 0.1,
        lambda d: torch.tanh(d @ W * (1 + d @ V)),
        lambda d: torch.tanh((d @ W) ** 3 - 8 * (d @ V)),
    ],
    ids=["link of one score", "other link of one score", "not zero at zero", "not odd", "not transitive"],
)
def test_what_is_no_counter_example_shows_nothing(
    network: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(others, "TRIPLES", 20_000)
    generator = torch.Generator().manual_seed(3)
    assert others.ruling_on_second_network(network, "", W, generator).verdict == INCONCLUSIVE


def test_cycles_and_transitivity_of_three_items() -> None:
    ring = in_a_ring(torch.Generator())
    assert others.has_cycle(ring)
    assert others.breaks_transitivity(ring)
    line = torch.tensor([[0.5, 0.9, 0.9], [0.1, 0.5, 0.9], [0.1, 0.1, 0.5]])
    assert not others.has_cycle(line)
    assert not others.breaks_transitivity(line)
    # The first beats the second, that the third, and nobody knows about the ends.
    open_ended = torch.tensor([[0.5, 0.9, 0.5], [0.1, 0.5, 0.9], [0.5, 0.1, 0.5]])
    assert not others.has_cycle(open_ended)
    assert others.breaks_transitivity(open_ended)
    # Everybody beats everybody: odd, but transitive.
    assert not others.breaks_transitivity(torch.full((3, 3), 0.9))
