"""Turn judged lists into what a model reads: features of items, or the places of topics and items in a vocabulary."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.files import needs_extra
from rankbound.io.judged import JudgedLists, Names, Qrels, no_features
from rankbound.io.ragged import Indices
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed, quantity, quoted
from rankbound.training.models import ROWS_AT_ONCE, ScaledFeatures, Scaling
from rankbound.training.recipe import FACTORIZATION, Recipe
from rankbound.training.splits import require_apart
from rankbound.training.trainer import Part, Scorer

if TYPE_CHECKING:
    import polars as pl

UNSEEN = -1
"""The index of a name that is not known."""


@dataclass(frozen=True)
class Inputs:
    """A model with initial weights, and the judged lists as it reads them.

    Attributes:
        training, held_out: the lists to train on, and those that select the epoch, if any.
        model, scorer: the model, on its device, and its scorer of parts.
        feature_names, scaling: the features that the model reads, and their scaling.
        vocabulary: the topics and items that a factorisation reads instead of features.
    """

    training: Part
    held_out: Part | None
    model: nn.Module
    scorer: Scorer
    feature_names: list[str]
    scaling: Scaling
    vocabulary: "Vocabulary | None" = None


def feature_inputs(
    lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe, generator: torch.Generator, device: torch.device
) -> Inputs:
    """Return the inputs of a model of scaled features; a share of the topics is held out without validation lists.

    The items of the parts are rows of the features of their own lists. DataError if the lists do not fit each other.
    """
    if not lists.feature_names:
        raise DataError(
            no_features(lists.left_out, f", which model {recipe.model} reads")
            + f"; from topics and items alone, train model {FACTORIZATION}"
        )
    training, held_out = _parts(lists, validation, recipe)
    scaling = Scaling.fitted(recipe.scale, column_tensor(lists.features, "features"), training.items)
    trained_on = _scaled(scaling, lists, device)
    measured_on = trained_on if validation is None else _scaled(scaling, validation, device)

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            scores: Tensor = model(trained_on.of_rows(part.items))
            return scores
        return torch.cat([model(measured_on.of_rows(rows)) for rows in torch.split(part.items, ROWS_AT_ONCE)])

    model = recipe.build(len(lists.feature_names), generator).to(device)
    return Inputs(training, held_out, model, score, list(lists.feature_names), scaling)


def _parts(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the training part, and the one that is held out, if any."""
    whole = _part(lists)
    if validation is not None:
        if list(validation.feature_names) != list(lists.feature_names):
            raise DataError("the validation lists have other features than the training lists")
        require_apart({"training": lists, "validation": validation}, by_item=False)
        return whole, _part(validation)
    if recipe.validation_share == 0:
        return whole, None
    count = len(whole.lists)
    if count < 2:
        raise DataError(
            f"found {quantity(count, 'topic')}, expected two or more, to train and to validate; or a share of 0"
        )
    held = min(max(round(recipe.validation_share * count), 1), count - 1)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed("validation", recipe.seed)))
    training, held_out = (
        replace(whole.batch(index), names=[whole.names[at] for at in index.tolist()])
        for index in (shuffled[held:].sort().values, shuffled[:held].sort().values)
    )
    return training, held_out


def _part(lists: JudgedLists) -> Part:
    relevance, topics = as_tensor(lists.relevance, "relevance"), torch.arange(len(lists.topics))
    limits = Lists(as_tensor(lists.offsets, "offsets"))
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, limits)


def _scaled(scaling: Scaling, lists: JudgedLists, device: torch.device) -> ScaledFeatures:
    limits = Lists(as_tensor(lists.offsets, "offsets").to(device))
    return ScaledFeatures(scaling, column_tensor(lists.features, "features").to(device), limits)


@dataclass(frozen=True)
class Vocabulary:
    """Names of topics and items, each distinct and sorted: a name's place is the index of its factors."""

    topics: "pl.Series"
    items: "pl.Series"

    @classmethod
    def of_lists(cls, lists: Qrels) -> "Vocabulary":
        """Return the vocabulary of all topics and items of some lists."""
        return cls(_names(lists.topics).sort(), _names(lists.items).unique().sort())

    def indices(self, lists: Qrels) -> tuple[Indices, Indices]:
        """Return the indices of the lists' topics `(n_lists,)` and of their items `(n_items,)`; unknown ones are -1."""
        topics, items = (
            _names(names).replace_strict(known, np.arange(len(known)), default=UNSEEN).to_numpy().astype(np.int64)
            for known, names in ((self.topics, lists.topics), (self.items, lists.items))
        )
        return topics, items

    def count_unknown(self, lists: Qrels) -> int:
        """Return the number of the lists' items that are unknown, or whose topic is."""
        topics, items = self.indices(lists)
        return int(((np.repeat(topics, np.diff(lists.offsets)) == UNSEEN) | (items == UNSEEN)).sum())

    def known_indices(self, lists: Qrels, unknown: str, where: str = "") -> tuple[Indices, Indices]:
        """Return `indices`; DataError for unknown names, unless `unknown` is `mean` and at least one item is known.

        `where` precedes the message.
        """
        topics, items = self.indices(lists)
        if unknown == "refuse" and (message := _first_unknown(lists, topics, items)):
            raise DataError(
                f"{where}{message}, which the ranker was not trained on: train it on a table with all topics and "
                "items, or score unknown ones by the mean of the others with unknown='mean' (on the command line: "
                "--unknown mean)"
            )
        if len(items) and (items == UNSEEN).all():
            raise DataError(
                f"{where}none of the {len(items)} items is one that the ranker was trained on: found "
                f"{quoted(lists.items[0])}, expected names such as {quoted(self.items[0])}"
            )
        return topics, items

    def tensors(self) -> dict[str, Tensor]:
        """Return the names as tensors, to be saved: their text in UTF-8, and where each name ends in it."""
        tensors = {}
        for kind, names in (("topics", self.topics), ("items", self.items)):
            text = np.frombuffer(bytearray(names.str.join("").item().encode()), np.uint8)
            tensors[f"known.{kind}.text"] = torch.from_numpy(text)
            ends = names.str.len_bytes().cast(int).cum_sum().to_numpy()
            tensors[f"known.{kind}.ends"] = torch.from_numpy(ends.copy())
        return tensors

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor]) -> "Vocabulary":
        """Restore the names that `tensors` returned; ValueError if they are damaged."""
        kinds = ("topics", "items")
        return cls(*(_restored(tensors[f"known.{kind}.text"], tensors[f"known.{kind}.ends"], kind) for kind in kinds))


def _names(names: Names) -> "pl.Series":
    with needs_extra("data"):
        from rankbound.io.table_columns import name_column
    return name_column(names)


def _first_unknown(lists: Qrels, topics: Indices, items: Indices) -> str:
    """Name the first unknown topic, or else the first unknown item, with the number of others."""
    if (unseen := np.flatnonzero(topics == UNSEEN)).size:
        others = f" (and {quantity(len(unseen) - 1, 'other topic')})" if len(unseen) > 1 else ""
        return f"found topic {quoted(lists.topics[unseen[0]])}{others}"
    if (unseen := np.flatnonzero(items == UNSEEN)).size:
        topic = lists.topics[int(np.searchsorted(lists.offsets, unseen[0], side="right")) - 1]
        others = f" (and {quantity(len(unseen) - 1, 'other row')} of unknown items)" if len(unseen) > 1 else ""
        return f"found item {quoted(lists.items[int(unseen[0])])} of topic {quoted(topic)}{others}"
    return ""


def _restored(text: Tensor, ends: Tensor, kind: str) -> "pl.Series":
    """Return names from their text and ends; the file that they come from may be damaged."""
    with needs_extra("data"):
        import polars as pl
        import pyarrow as pa
    if text.dtype != torch.uint8 or ends.dtype != torch.int64 or text.dim() != 1 or ends.dim() != 1:
        raise ValueError(f"the names of its {kind} should be bytes, and whole numbers where they end")
    buffers = [None, pa.py_buffer(np.append(0, ends.numpy())), pa.py_buffer(text.numpy())]
    array = pa.Array.from_buffers(pa.large_string(), len(ends), buffers)
    array.validate(full=True)
    names = pl.Series(kind, pl.from_arrow(array), dtype=pl.String)
    if len(text) != (int(ends[-1]) if len(ends) else 0) or not bool((names[1:] > names[:-1]).all()):
        raise ValueError(f"the names of its {kind} should be distinct and sorted")
    return names
