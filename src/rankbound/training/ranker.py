"""A trained ranker: scores items by their features, or by topic and item, and is saved as one file.

The file is safetensors: weights, feature scaling and the names of topics and items are tensors, everything else is JSON
in the header. Loading it executes no code from the file.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.lists import ArrayLike, Lists
from rankbound.printable import LONGEST_VALUE, shortened
from rankbound.texts import require_one_of
from rankbound.training.factorization import Factorization, score_pairs
from rankbound.training.feature_scaling import ROWS_AT_ONCE, ScaledFeatures, Scaling
from rankbound.training.recipe import UNKNOWN, Recipe
from rankbound.training.vocabulary import Vocabulary

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists, Run

HEADER = "rankbound"
"""The key of the header in a file's metadata."""

FORMAT = "ranker/1"
"""The version of the header's content."""

WEIGHTS = "model."
"""The prefix of the names of the model's tensors."""


@dataclass(frozen=True, eq=False)
class Ranker:
    """A trained model with what it reads, as `rankbound.train_ranker` and `rankbound.load` return it.

    Args:
        recipe: the settings of the training.
        feature_names: the features' names, in the order of the model's inputs.
        scaling: the scaling of the features.
        model: the model of scaled features, or of the indices of topics and items.
        record: epoch, validation metric, counts and versions of the training.
        vocabulary: the topics and items of a factorisation, which has no features; otherwise none.

    >>> columns = {"topics": ["q"], "items": ["a", "b"], "relevance": [2, 0], "offsets": [0, 2]}
    >>> lists = rb.JudgedLists(**columns, features=np.float32([[1], [0]]), feature_names=["length"])
    >>> ranker = rb.train_ranker(lists, learning_rate=0.1, validation_share=0)
    >>> ranker.score(lists.features).argsort()
    array([1, 0])
    """

    recipe: Recipe
    feature_names: Sequence[str]
    scaling: Scaling
    model: nn.Module
    record: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None

    def score(self, features: Any, offsets: ArrayLike | None = None) -> Any:
        """Return the scores of items; higher is better.

        Args:
            features: `(n_items, d)`, an array with columns in the order of `feature_names`, or a data frame (polars or
                pandas), whose columns are matched by name; others are not read.
            offsets: `(n_lists + 1,)`, the lists' limits; only `query` scaling needs them.

        Returns:
            A NumPy array `(n_items,)`, or a tensor if `features` is one.

        Raises:
            ValueError: wrong number of features, a column that is missing, features or scores that are not finite,
                missing offsets, or a ranker that is a factorisation.
        """
        if self.vocabulary is not None:
            raise ValueError(
                "features: this ranker is a factorisation, which reads topics and items; expected score_lists(lists)"
            )
        if hasattr(features, "columns") and not hasattr(features, "column_names"):
            rows = self._rows_by_name(features)
        else:
            rows = features if isinstance(features, Tensor) else column_tensor(features, "features")
        if rows.dim() != 2 or rows.shape[1] != len(self.feature_names):
            raise ValueError(
                f"features: found shape {tuple(rows.shape)}, expected (n_items, {len(self.feature_names)})"
            )
        lists = None if offsets is None else Lists.checked(offsets, len(rows), rows.device)
        scaled = ScaledFeatures(self.scaling, rows.to(torch.float32), lists)
        self.model.eval().to(rows.device)
        with torch.no_grad():
            blocks = [self._score_block(rows, scaled, first) for first in range(0, max(len(rows), 1), ROWS_AT_ONCE)]
        scores = _finite(torch.cat(blocks))
        return scores if isinstance(features, Tensor) else scores.numpy()

    def _rows_by_name(self, frame: Any) -> Tensor:
        names = {str(name): name for name in frame.columns}
        missing = [name for name in self.feature_names if name not in names]
        if missing:
            known = shortened(", ".join(self.feature_names), LONGEST_VALUE)
            raise ValueError(
                f"features: the data frame has no column {missing[0]!r}; expected columns with the names of the "
                f"ranker's features ({known}), or an array with columns in that order"
            )
        return column_tensor(frame[[names[name] for name in self.feature_names]], "features").contiguous()

    def _score_block(self, rows: Tensor, scaled: ScaledFeatures, first: int) -> Tensor:
        block = slice(first, first + ROWS_AT_ONCE)
        finite = torch.isfinite(rows[block])
        if not bool(finite.all()):
            item, column = torch.nonzero(~finite)[0].tolist()
            name, found = self.feature_names[column], rows[first + item, column].item()
            raise ValueError(
                f"features: found {found} at item {first + item}, feature {name!r}, expected finite numbers"
            )
        scores: Tensor = self.model(scaled.of_rows(block))
        return scores

    def score_lists(self, lists: "JudgedLists", unknown: str | None = None) -> "Run":
        """Return the run of judged lists, whose features, or topics and items, are matched by name.

        Args:
            lists: judged lists with all features of the ranker, in any order; a factorisation reads no features.
            unknown: for a factorisation, `refuse` or `mean` for topics and items that it was not trained on, as in
                `rankbound.Recipe`; by default, the recipe's.

        Returns:
            The run, with the topics and items of the lists.

        Raises:
            DataError: a feature, topic or item is missing; the message names it.
            ValueError: as `score`, or another value of `unknown`.
        """
        from rankbound.io.judged import Run

        scores = self._score_features(lists) if self.vocabulary is None else self._score_pairs(lists, unknown)
        return Run(topics=lists.topics, items=lists.items, scores=scores, offsets=lists.offsets)

    def _score_pairs(self, lists: "JudgedLists", unknown: str | None) -> Any:
        policy = self.recipe.unknown if unknown is None else unknown
        require_one_of("unknown", policy, UNKNOWN)
        assert self.vocabulary is not None
        assert isinstance(self.model, Factorization)
        topics, items = self.vocabulary.known_indices(lists, policy)
        topic_of_item = torch.from_numpy(np.repeat(topics, np.diff(lists.offsets)))
        return _finite(score_pairs(self.model.cpu(), topic_of_item, torch.from_numpy(items))).numpy()

    def _score_features(self, lists: "JudgedLists") -> Any:
        place = {name: index for index, name in enumerate(lists.feature_names)}
        missing = [name for name in self.feature_names if name not in place]
        if missing:
            raise DataError(
                f"lists: there is no feature {missing[0]!r}, which the ranker was trained with: read them by "
                "read_lists(source, features=ranker.feature_names)"
            )
        features = lists.features
        if list(lists.feature_names) != list(self.feature_names):
            # Restore row-major order: the memory layout affects the last digits of scores.
            features = np.ascontiguousarray(features[:, [place[name] for name in self.feature_names]])
        return self.score(features, lists.offsets)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker as one safetensors file, atomically.

        Args:
            path: the file, `.safetensors`.
        """
        from rankbound.io.models import UNSEALED, write_sealed

        header = {
            "format": FORMAT,
            "recipe": asdict(self.recipe),
            "feature_names": list(self.feature_names),
            "record": dict(self.record),
            "seal": UNSEALED,
        }
        weights = {f"{WEIGHTS}{name}": tensor.cpu() for name, tensor in self.model.state_dict().items()}
        known = {} if self.vocabulary is None else self.vocabulary.tensors()
        tensors = weights | self.scaling.tensors() | known
        write_sealed(tensors, path, {HEADER: json.dumps(header, sort_keys=True)})


def _finite(scores: Tensor) -> Tensor:
    """Return the scores; ValueError for the first that is not finite."""
    if not bool(torch.isfinite(scores).all()):
        item = int(torch.nonzero(~torch.isfinite(scores))[0])
        raise ValueError(
            f"scores: found {scores[item].item()} at item {item}, expected finite numbers: the model's weights are "
            "too large for these features, or the features for the model; train it again"
        )
    return scores
