"""The two commands that compare, run as their users run them, and the same numbers by scipy."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

Nested = dict[str, dict[str, Any]]
QUICK = ["--flips", "999", "--resamples", "499"]


def judged_runs(seed: int, noise: Mapping[str, float], topics: int, items: int, highest: int) -> tuple[Nested, Any]:
    """Judgements of topics, each with a relevant item, and runs by name, whose scores are the grades and noise."""
    random = np.random.default_rng(seed)
    qrels: Nested = {}
    runs: dict[str, Nested] = {name: {} for name in noise}
    for topic in (f"t{place:02}" for place in range(topics)):
        drawn = random.integers(0, highest + 1, items) * (random.random(items) < 0.4)
        grades = np.maximum(drawn, [1] + [0] * (items - 1))
        qrels[topic] = {f"d{item}": int(grade) for item, grade in enumerate(grades)}
        for name, deviation in noise.items():
            scores = grades + deviation * random.normal(size=items)
            runs[name][topic] = {f"d{item}": float(score) for item, score in enumerate(scores)}
    return qrels, runs


class Compare:
    """Runs the subcommand `compare` of a program, and keeps what it printed."""

    def __init__(self, main: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]) -> None:
        self._main, self._capsys = main, capsys

    def __call__(self, *arguments: object, status: int = 0) -> str:
        self._capsys.readouterr()
        found = self._main(["compare", *map(str, arguments), *QUICK])
        printed = self._capsys.readouterr()
        assert found == status, printed.err
        return printed.err if status else printed.out

    def json(self, *arguments: object) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self(*arguments, "--json"))
        return found


def assert_as_scipy_says(row: Mapping[str, Any], a: Any, b: Any) -> None:
    """Difference, interval, p-value and margin of a row, from the same scores by scipy."""
    differences = a - b
    assert row["difference"] == pytest.approx(differences.mean())
    theirs = stats.bootstrap((differences,), np.mean, rng=1, n_resamples=4999).confidence_interval
    width = theirs.high - theirs.low
    assert (row["low"], row["high"]) == pytest.approx(tuple(theirs), abs=0.12 * width)
    p_value = stats.permutation_test(
        (differences,), lambda x, axis: x.mean(axis), permutation_type="samples", vectorized=True, rng=1
    ).pvalue
    assert row["p_value"] == pytest.approx(p_value, abs=4 * math.sqrt(p_value * (1 - p_value) / 999) + 1e-3)
    assert row["effect"]["wins"] == (differences > 1e-9).sum()
    if row["margin"] and row["margin"]["covers"] == "topics":
        margin = row["margin"]["margin"]
        above = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
        assert row["margin"]["p_not_worse"] == pytest.approx(above)
