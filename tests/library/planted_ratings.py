"""Ratings with a planted structure: users and items of few factors, and items that are better for all.

And what the tests of rankers share: tables of lists, the command line, and files whose content is changed.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from rankbound.io.judged import JudgedLists, Qrels, Run

FACTORS = 3


@dataclass(frozen=True)
class Ratings:
    """Utilities and labels of all pairs `(n_users, n_items)`, and masks of the known and of the tested ones."""

    utility: npt.NDArray[np.float64]
    relevant: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]
    tested: npt.NDArray[np.bool_]

    def lists(self, mask: npt.NDArray[np.bool_], **columns: Any) -> JudgedLists:
        user, item = np.nonzero(mask)
        names = {"topics": [f"u{place}" for place in np.unique(user)], "items": [f"i{place}" for place in item]}
        given = {"relevance": self.relevant[user, item]} | names | columns
        return lists_of(mask.sum(1)[mask.any(1)], features=np.empty((len(item), 0)), names=(), **given)


def ratings(seed: int = 0, users: int = 100, items: int = 60) -> Ratings:
    random = np.random.default_rng(seed)
    of_users, of_items = random.normal(size=(users, FACTORS)), random.normal(size=(items, FACTORS))
    utility = of_users @ of_items.T + 0.8 * random.normal(size=items)
    relevant = (utility + 0.3 * random.normal(size=utility.shape) > 0.8).astype(np.int64)
    judged = random.random(utility.shape) < 0.6
    tested = judged & (random.random(utility.shape) < 0.25)
    return Ratings(utility, relevant, judged & ~tested, tested)


def lists_of(sizes: Sequence[int], relevance: Any, features: Any, names: Sequence[str], **columns: Any) -> JudgedLists:
    """Lists q0, q1, ... of so many items each, which are d0, d1, ..."""
    made: dict[str, Any] = {
        "topics": [f"q{topic}" for topic in range(len(sizes))],
        "items": [f"d{row}" for row in range(len(features))],
        "offsets": np.append(0, np.cumsum(sizes)),
    }
    features = np.asarray(features, np.float32)
    return JudgedLists(**(made | columns), relevance=relevance, features=features, feature_names=list(names))


def frame(lists: JudgedLists) -> pl.DataFrame:
    columns = {name: lists.features[:, at] for at, name in enumerate(lists.feature_names)}
    topic = np.repeat(np.array(lists.topics), np.diff(lists.offsets))
    return pl.DataFrame({"topic": topic, "item": list(lists.items), "relevance": lists.relevance, **columns})


def table_of(lists: Run | Qrels) -> dict[str, dict[str, float]]:
    """Return scores, or labels with -1 for unjudged items, by topic and item."""
    values = (lists.scores if isinstance(lists, Run) else lists.marked()).tolist()
    pairs = list(zip(lists.items, values, strict=True))
    limits = zip(lists.offsets[:-1], lists.offsets[1:], strict=True)
    return {topic: dict(pairs[start:stop]) for topic, (start, stop) in zip(lists.topics, limits, strict=True)}


def orders_of(run: dict[str, dict[str, float]]) -> Iterator[dict[str, list[str]]]:
    """All orders of ties of all topics."""
    each = [
        [order for order in permutations(scores) if list(order) == sorted(order, key=lambda item: -scores[item])]
        for scores in run.values()
    ]
    for chosen in product(*each):
        yield dict(zip(run, map(list, chosen), strict=True))


def rewrite(path: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], object]) -> None:
    """Change the header and the tensors of a ranker's file in place, and leave its seal out."""
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["rankbound"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    header.pop("seal", None)
    change(header, tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"rankbound": json.dumps(header)})
