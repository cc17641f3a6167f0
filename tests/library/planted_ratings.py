"""Ratings with a planted structure: users and items of few factors, and items that are better for all."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rankbound.io.judged import JudgedLists, Run

FACTORS = 3


@dataclass(frozen=True)
class Ratings:
    """Utilities and labels of all pairs `(n_users, n_items)`, and masks of the known and of the tested ones."""

    utility: npt.NDArray[np.float64]
    relevant: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_]
    tested: npt.NDArray[np.bool_]

    def lists(self, mask: npt.NDArray[np.bool_], **columns: Any) -> JudgedLists:
        """Lists of a user's items."""
        user, item = np.nonzero(mask)
        made: dict[str, Any] = {
            "topics": [f"u{place}" for place in np.unique(user)],
            "items": [f"i{place}" for place in item],
            "relevance": self.relevant[user, item],
            "offsets": np.append(0, np.cumsum(mask.sum(1)[mask.any(1)])),
            "features": np.empty((len(item), 0), np.float32),
            "feature_names": [],
        }
        return JudgedLists(**(made | columns))

    def run(self, scores: npt.NDArray[np.float64]) -> Run:
        """The run of the tested pairs with these scores of all pairs."""
        lists = self.lists(self.tested)
        return Run(topics=lists.topics, items=lists.items, scores=scores[self.tested], offsets=lists.offsets)


def ratings(seed: int = 0, users: int = 100, items: int = 60) -> Ratings:
    random = np.random.default_rng(seed)
    of_users, of_items = random.normal(size=(users, FACTORS)), random.normal(size=(items, FACTORS))
    utility = of_users @ of_items.T + 0.8 * random.normal(size=items)
    relevant = (utility + 0.3 * random.normal(size=utility.shape) > 0.8).astype(np.int64)
    judged = random.random(utility.shape) < 0.6
    tested = judged & (random.random(utility.shape) < 0.25)
    return Ratings(utility, relevant, judged & ~tested, tested)
