"""The two commands that compare, run as their users run them, and the same numbers by scipy."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

QUICK = ["--flips", "999", "--resamples", "499"]


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
