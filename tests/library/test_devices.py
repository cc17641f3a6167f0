"""Another default device: what is computed on the CPU stays there, as after `torch.set_default_device("cuda")`.

The device `meta`, on which no number can be read, stands for it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.metrics.base import values_of

SCORES, RELEVANCE, OFFSETS = np.array([0.5, 0.1, 0.5, 0.2, 0.7]), np.array([0, 1, 2, 1, 0]), np.array([0, 3, 5])
LEAF = torch.from_numpy(SCORES)
RUN = {"q": {"a": 2.0, "b": 1.0, "c": 1.0}}
JUDGED = {"q": {"b": 1, "d": 1}}
BY_INTENT = {"q": {"1": {"a": 1, "b": 1}, "2": {"b": 1}}}
METRICS = ("nDCG@2", "AP", "RR", "ERR(max=2)", "RBP(p=0.8)", "Kendall", "infAP", "IPrec(recall=0.5)")
OF_RUNS = ("nDCG@2", "AP", "RR", "infAP", "IPrec(recall=0.5)", "SetF", "Judged@2", "Bpref")
LOSSES = (
    *("nDCG", "AP", "RR", "ordinal", "WARP", "WARP(samples=3)", "hinge", "RankNet(method=interpolated)", "ADR-MSE"),
    *("LambdaRank", "ListMLE", "ListNet@2"),
)
BOUNDS = ("min-max", "expectation", "distribution")


def topic() -> rb.Topic:
    return rb.Topic(LEAF[:, None], torch.from_numpy(RELEVANCE), "a")


OF_NAMES: dict[str, tuple[Sequence[str], Callable[[str], Any]]] = {
    "metric": (METRICS, lambda name: rb.metric(name)(SCORES, RELEVANCE, OFFSETS)),
    "metric of a list": (METRICS, lambda name: rb.metric(name)([0.2, 0.1], [0, 1], [0, 2])),
    "loss": (LOSSES, lambda name: rb.loss(name)(LEAF, RELEVANCE, OFFSETS)),
    "bounded loss": (BOUNDS, lambda by: rb.loss("nDCG", by)(LEAF, RELEVANCE, OFFSETS)),
    "bounded metric": (BOUNDS, lambda by: rb.bounded("infAP", by)(SCORES, RELEVANCE, OFFSETS)),
    "minimum": (METRICS, lambda name: rb.minimum(name, 5, 2)),
    "expectation": (METRICS, lambda name: rb.expectation(name, relevance=RELEVANCE, offsets=OFFSETS)),
    "distribution": (("AP", "RR", "P@3", "RBP(p=0.8)"), lambda name: rb.score_distribution(name, 50, 20).sd),
}
CASES: dict[str, Callable[[], Any]] = {
    **{f"{what} {name}": partial(call, name) for what, (names, call) in OF_NAMES.items() for name in names},
    "metrics by a kernel": lambda: values_of([rb.metric("nDCG@2")], SCORES, RELEVANCE, OFFSETS, by_kernel=True)[
        "nDCG@2"
    ],
    "graded distribution": lambda: rb.score_distribution("nDCG", relevance=[2, 1, 0]).cdf([0.7]),
    "tilted distribution": lambda: rb.score_distribution("RR", 10, 2, tilt=2.0).cdf([0.3]),
    "smooth ranks": lambda: rb.smooth_rank(SCORES, OFFSETS),
    "padded": lambda: rb.to_padded(LEAF, OFFSETS),
    "collated": lambda: rb.collate([topic(), topic()])[:3],
    "run": lambda: [*rb.evaluate_run(RUN, JUDGED, OF_RUNS).means().values()],
    "intents": lambda: [*rb.evaluate_run(RUN, BY_INTENT, ["alpha_nDCG@2", "ERR_IA@2"]).means().values()],
    "objective": lambda: rb.boosting_objective("nDCG")(RELEVANCE, SCORES, None, np.diff(OFFSETS)),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_on_the_cpu_does_not_depend_on_the_default_device(case: str, empty_caches: None) -> None:
    with torch.device("meta"):
        found = CASES[case]()
    for one, other in zip(parts(found), parts(CASES[case]()), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


def parts(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.fixture
def empty_caches() -> None:
    """Forget tensors that an earlier test has left."""
    from rankbound.bounds import profiles, sums
    from rankbound.interpolation import kernel_matrix
    from rankbound.metrics import cumulative_gain, first_relevant

    cached = (
        *(
            profiles.mean_over_orders,
            sums.is_sum,
            sums._discounts,
            profiles._graded_key,
            profiles.counted_grade,
        ),
        *(kernel_matrix, cumulative_gain._totals_of, first_relevant._log_factorials),
    )
    for function in cached:
        function.cache_clear()
