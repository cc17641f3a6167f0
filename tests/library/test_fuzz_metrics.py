"""Evaluation by two ways at once: one list has one value, to the last digit, or one error, whatever way it goes.

The ways: with compiled kernels and without, alone and beside other lists, called as a metric, as `rb.evaluate` and as
the evaluation of a run.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from test_run_metrics import OF_INTENTS_ALL

import rankbound as rb
from rankbound.kernels import usable
from rankbound.metrics.base import formula_of, values_of
from tests import brute_force
from tests.library.drawn_arguments import ROUNDS, Drawn, drawn, outcome, require_same
from tests.library.drawn_runs import drawn_run

TEXTS = [*brute_force.METRICS, "RBP(p=0.97)", "nRBP(p=0.999)", "DCG(gain=linear)@40", "nDCG@9007199254740992"]
METRICS = [rb.metric(text) for text in TEXTS]
WITH_FORMULAS = [metric for metric in METRICS if formula_of(metric) is not None]
GAINS = ("nDCG", "nDCG(gain=linear)@3", "DCG@5", "CG(gain=exp2)@2")
# Each draw is of one in so many metrics; the rounds of `make test-faults` go through all.
SHARE = 7
# `make test` takes so many draws of its round, and looks at the lists of so many batches alone.
FEW, FEW_ALONE = 6, 2
HIGHEST = min(metric.max for metric in METRICS if hasattr(metric, "max"))
"""The highest grade that all of them take."""
pytestmark = pytest.mark.filterwarnings("ignore:relevance")
needs_kernels = pytest.mark.skipif(not usable(), reason="needs Numba, and a home folder for compiled code")


def draws(round_: int, flawed: float = 0.4) -> Iterable[Drawn]:
    return itertools.islice(drawn(round_, flawed=flawed), None if round_ else FEW)


def evaluated(metrics: list[rb.Metric], draw: Drawn, by_kernel: bool | None = None) -> Callable[[], Any]:
    return lambda: values_of(metrics, *draw.passed(), by_kernel=by_kernel)


@needs_kernels
@pytest.mark.parametrize("round_", ROUNDS)
def test_values_are_the_same_with_kernels_and_without(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in draws(round_):
        by_kernel, by_reference = (outcome(evaluated(WITH_FORMULAS, draw, one)) for one in (True, False))
        with monkeypatch.context() as patch:
            patch.setenv("RANKBOUND_FAST", "0")
            switched_off = outcome(evaluated(WITH_FORMULAS, draw, by_kernel=True))
        require_same(by_kernel, by_reference, draw, relative=0)
        require_same(by_kernel, switched_off, draw, relative=0)


@pytest.mark.parametrize("round_", ROUNDS)
def test_a_list_has_the_value_that_it_has_alone(round_: int) -> None:
    batches = [batch for draw in draws(round_) if (batch := _valid(draw)) is not None]
    dtypes = np.float64, np.float64, np.int64
    joined = (np.concatenate(parts).astype(to) for parts, to in zip(zip(*batches, strict=True), dtypes, strict=True))
    for scores, relevance, sizes in [tuple(joined), *batches][: None if round_ else FEW_ALONE]:
        offsets = np.concatenate(([0], sizes.cumsum()))
        values = {name: one.numpy() for name, one in rb.evaluate(METRICS, scores, relevance, offsets).items()}
        for place, (start, stop) in enumerate(itertools.pairwise(offsets)):
            own, grades = scores[start:stop], relevance[start:stop]
            shown = f"{own.tolist()} {grades.tolist()}"
            alone = rb.evaluate(METRICS[place % SHARE :: SHARE], own, grades, [0, stop - start])
            for name, value in alone.items():
                np.testing.assert_array_equal(value.numpy(), values[name][place : place + 1], f"{name} of {shown}")


@pytest.mark.parametrize("round_", ROUNDS)
def test_a_topic_of_a_run_has_the_value_of_its_list(round_: int) -> None:
    for place, draw in enumerate(draws(round_)):
        metrics = METRICS[place % SHARE :: SHARE]
        if (batch := _valid(draw)) is None or not (batch[2] > 0).any():
            continue
        scores, relevance, sizes = batch[0], batch[1], batch[2][batch[2] > 0]
        offsets = np.concatenate(([0], sizes.cumsum()))
        columns = {
            "topic": np.repeat(np.arange(len(sizes)), sizes).astype(str),
            "item": [f"d{place}" for place in range(len(scores))],
        }
        run = pl.DataFrame({**columns, "score": scores})
        qrels = pl.DataFrame({**columns, "relevance": relevance})
        expected = outcome(lambda one=(scores, relevance, offsets), metrics=metrics: rb.evaluate(metrics, *one))
        dictionaries = (
            {of["topic"][0]: dict(zip(of["item"], of.to_series(2), strict=True)) for of in frame.partition_by("topic")}
            for frame in (run, qrels)
        )
        for ways in ((run, qrels), tuple(dictionaries)):
            found = rb.evaluate_run(*ways, metrics, missing="error").values
            for name, values in found.items():
                np.testing.assert_array_equal(values, expected.values[name], err_msg=f"{name} {draw}")


REFUSING = "ERR", "SDCG", "INS", "Linear", "Pair", "Kendall"
OF_RUNS = [text for text in TEXTS if rb.metric(text).higher_is_better and not text.startswith(REFUSING)]
OF_RUNS += ["ERR(max=20)", "INSQ(max=20)", "INST(max=20)", "INST(max=20)@4", "SDCG(max=20)@3"]
OF_RUNS += ["Judged@5", "SetF", "infAP"]


@pytest.mark.filterwarnings("ignore:metric .* found one intent")
@pytest.mark.parametrize("round_", ROUNDS)
def test_a_topic_has_one_value_whatever_other_topics_lack(round_: int) -> None:
    """With relevant items that the run lacks, unjudged and tied ones, a topic alone has the value that it has here."""
    for texts, intents in ((OF_RUNS, False), ([*OF_INTENTS_ALL, "StRecall@3", "AP", "Bpref"], True)):
        run, qrels = drawn_run(round_, 12 if round_ else 2, 40, (0, 0, 0, 1, 20, 1, 2, 3), ties=True, intents=intents)
        together = rb.evaluate_run(run, qrels, texts)
        for place, topic in enumerate(together.topics):
            alone = rb.evaluate_run({topic: run[topic]}, {topic: qrels[topic]}, texts)
            for name, values in alone.values.items():
                here, shown = together.values[name][place : place + 1], f"{name} {run[topic]}"
                np.testing.assert_allclose(values, here, rtol=1e-12 if intents else 0, err_msg=shown)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("round_", ROUNDS)
def test_a_gpu_computes_the_values_of_the_cpu(round_: int) -> None:
    for draw in draws(round_, flawed=0.0):
        arrays = draw.scores, draw.relevance.astype(np.int64), draw.offsets.astype(np.int64)
        on_gpu = [torch.from_numpy(array).cuda() for array in arrays]
        found, expected = (outcome(lambda one=one: rb.evaluate(METRICS, *one)) for one in (on_gpu, arrays))
        require_same(found, expected, draw, relative=1e-12, absolute=1e-12)


@pytest.mark.parametrize("round_", ROUNDS)
def test_weighted_lists_have_the_values_that_they_have_alone(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for draw in draws(round_, flawed=0.0):
        random = np.random.default_rng([round_, 7])
        weights = random.choice([0.0, 0.25, 1.0, 3.5], size=len(draw.scores))
        for metric in map(rb.metric, GAINS):
            value = np.asarray(metric(draw.scores, draw.relevance, draw.offsets, weights=weights))
            with monkeypatch.context() as patch:
                patch.setenv("RANKBOUND_FAST", "0")
                plain = metric(draw.scores, draw.relevance, draw.offsets, weights=weights)
            np.testing.assert_array_equal(plain, value, err_msg=f"{metric} {draw}")
            for place, (start, stop) in enumerate(itertools.pairwise(draw.offsets.tolist())):
                own = slice(start, stop)
                alone = metric(draw.scores[own], draw.relevance[own], [0, stop - start], weights=weights[own])
                np.testing.assert_array_equal(alone, value[place : place + 1], err_msg=f"{metric} {draw}")


def _valid(draw: Drawn) -> tuple[Any, Any, Any] | None:
    if draw.relevance.max(initial=0) > HIGHEST or outcome(evaluated([rb.metric("nDCG")], draw)).error is not None:
        return None
    return draw.scores, draw.relevance, np.diff(draw.offsets.astype(np.int64))
