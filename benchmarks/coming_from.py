"""Metrics of CatBoost and RecBole, which the tests do without, and ours: `python -m benchmarks.coming_from`.

Prints a table of docs/coming_from.md for each of the two that is installed, and writes it there if asked to.
"""

import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import torch

import rankbound as rb
from benchmarks import asked, rows_of
from benchmarks.data import Array
from benchmarks.page import table, write_between
from benchmarks.runner import ROOT, versions

PAGE = ROOT / "docs" / "coming_from.md"

Lists = tuple[Array, Array, Array]


def lists(form: str = "graded") -> Lists:
    """Return scores that differ, grades from 0 to 4 or labels, and offsets of 40 lists with a relevant item, or 1."""
    random = np.random.default_rng(1)
    offsets = np.cumsum([0, *random.integers(5, 31, 40)])
    grades = random.choice(5, size=offsets[-1], p=[0.5, 0.2, 0.15, 0.1, 0.05])
    grades[offsets[:-1]], grades[offsets[1:] - 1] = 2, 0
    scores = random.permutation(int(offsets[-1])) / 400
    end = offsets[1] if "first" in form else offsets[-1]
    labels = (grades > 0).astype(int) if "binary" in form else grades
    return scores[:end], labels[:end], offsets[offsets <= end]


def of_catboost(text: str, given: Lists) -> float:
    """Return CatBoost's value of a metric or loss; the latter is a mean over the pairs or items of all lists."""
    from catboost.utils import eval_metric

    scores, grades, offsets = given
    groups = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    better = [(i, j) for a, b in pairwise(offsets) for i in range(a, b) for j in range(a, b) if grades[i] > grades[j]]
    more = {"pairs": better} if text == "PairLogit" else {}
    (value,) = eval_metric(grades.astype(float), scores, text, group_id=groups, **more)
    return float(value)


def of_recbole(text: str, given: Lists) -> float:
    """Return RecBole's value of a metric, by its collector and evaluator; a list is a user's."""
    # RecBole 1.2.1 uses it, and NumPy lacks it since 1.24.
    vars(np).setdefault("float", float)
    from recbole.evaluator.collector import Collector
    from recbole.evaluator.evaluator import Evaluator

    name, _, cutoff = text.partition("@")
    config: dict[str, Any] = {"metrics": [name], "topk": [int(cutoff or 1)], "metric_decimal_place": 12}
    config |= {"device": "cpu", "eval_args": {"mode": "full"}}
    scores, labels, offsets = given
    # Item 0 is its padding, and items that a user lacks have the lowest score.
    every = torch.full((len(offsets) - 1, int(np.diff(offsets).max()) + 1), -torch.inf, dtype=torch.float64)
    for user, (a, b) in enumerate(pairwise(offsets)):
        every[user, 1 : b - a + 1] = torch.tensor(scores[a:b])
    users = np.repeat(np.arange(len(every)), np.diff(offsets))
    items = np.arange(len(scores)) - offsets[users] + 1
    collector = Collector(config)
    collector.eval_batch_collect(every, None, *(torch.tensor(one[labels > 0]) for one in (users, items)))
    (value,) = Evaluator(config).evaluate(collector.get_data_struct()).values()
    return float(value)


_THEIRS: Mapping[str, Callable[[str, Lists], float]] = {"CatBoost": of_catboost, "RecBole": of_recbole}
OF: Mapping[str, Mapping[str, str]] = rows_of("coming_from")
"""Tool -> its texts, with the form of the lists that they are tried on."""
LOSSES = ("PairLogit", "RMSE", "QuerySoftMax", "Logloss")


def ours(tool: str, text: str, given: Lists) -> tuple[str, float]:
    """Return the text here that a tool's one is, and its mean over lists (of GAUC, weighted by relevant items)."""
    scores, grades, offsets = given
    if text in LOSSES:
        loss = rb.loss(text, names=tool)
        value = float(loss(torch.tensor(scores), grades, offsets))
        return loss.text, value**0.5 if text == "RMSE" else value
    metric = rb.metric(text, names=tool)
    weights = np.add.reduceat(grades, offsets[:-1]) if text == "GAUC" else None
    return str(metric), float(np.average(metric(scores, grades, offsets), weights=weights))


def main(arguments: list[str] | None = None) -> int:
    """Print the tables of the tools that are installed, and write them into the page if asked to."""
    chosen = asked("benchmarks.coming_from", __doc__, arguments, only=OF)
    for tool in chosen.only:
        rows = []
        try:
            for text, form in OF[tool].items():
                (here, value), theirs = ours(tool, text, lists(form)), _THEIRS[tool](text, lists(form))
                rows.append([f"`{text}`", f"{theirs:.9f}", f"`{here}`", f"{value:.9f}"])
        except ModuleNotFoundError as error:
            print(f"coming_from: {tool} is left out: {error.name} is not installed", file=sys.stderr)
            continue
        found = versions([tool.lower(), "rankbound"])
        text = f"With {found}:\n\n" + table([tool, "value", "here", "value"], rows)
        print(text)
        if chosen.write_docs:
            write_between(PAGE, f"benchmarks.coming_from --only {tool}", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
