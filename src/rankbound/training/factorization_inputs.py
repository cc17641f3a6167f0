"""Names of topics and items as the input of a factorisation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.lists import Lists, as_tensor
from rankbound.seeds import Indices
from rankbound.training.factorization import Factorization, score_pairs
from rankbound.training.feature_scaling import Scaling
from rankbound.training.inputs import Inputs
from rankbound.training.negatives import with_negatives
from rankbound.training.parts import Part, Scorer
from rankbound.training.ranker import Ranker
from rankbound.training.recipe import Recipe
from rankbound.training.splits import require_apart
from rankbound.training.trainer import worth_a_kernel
from rankbound.training.vocabulary import Vocabulary
from rankbound.training.within_topics import Mask, Pairs, held_out_within

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists


class FactorizationInputs(Inputs):
    """Indices of topics and items; a share of each topic's items is held out, unless there are validation lists.

    Topics and items are sorted by name: the order of rows changes nothing.
    """

    def __init__(self, lists: "JudgedLists", validation: "JudgedLists | None", recipe: Recipe) -> None:
        self.recipe = recipe
        _require_recurring(lists)
        _require_two_labels(lists, recipe)
        drawn = with_negatives(lists, recipe.negatives, recipe.seed) if recipe.negatives else lists
        self._vocabulary = Vocabulary.of_lists(drawn)
        pairs, _ = sorted_pairs(drawn, self._vocabulary)
        held = np.zeros(len(pairs.topics), bool)
        if validation is None:
            held = held_out_within(pairs, recipe.validation_share, recipe.seed)
            self.held_out = self._part(pairs, held) if recipe.validation_share else None
        else:
            _require_no_negatives(recipe)
            require_apart({"training": lists, "validation": validation}, by_item=True)
            self.held_out = _validation_part(validation, self._vocabulary, recipe.unknown)
        self.training = self._part(pairs, ~held)

    def build(self, generator: torch.Generator, device: torch.device) -> tuple[nn.Module, Scorer]:
        by_kernel = worth_a_kernel(self.recipe.epochs, self.training.lists.n_items)
        model = Factorization(
            len(self._vocabulary.topics),
            len(self._vocabulary.items),
            self.recipe.factors,
            generator=generator,
            bias=self.recipe.bias,
            by_kernel=by_kernel,
        )
        return model.to(device), _score

    def ranker(self, model: nn.Module, record: Mapping[str, Any]) -> Ranker:
        none = torch.zeros(0, dtype=torch.float32)
        unscaled = Scaling("none", none, none)
        return Ranker(self.recipe, [], unscaled, model, record, self._vocabulary)

    def _part(self, pairs: Pairs, mask: Mask) -> Part:
        counts = np.bincount(pairs.topics[mask])
        topics = np.flatnonzero(counts)
        return Part(
            self._vocabulary.topics[topics].to_list(),
            torch.from_numpy(topics),
            torch.from_numpy(pairs.items[mask]),
            torch.from_numpy(pairs.relevance[mask]),
            Lists.of_sizes(torch.from_numpy(counts[topics])),
        )


def sorted_pairs(lists: "JudgedLists", vocabulary: Vocabulary) -> tuple[Pairs, Indices]:
    """Return the judged pairs by index, sorted by topic and item, and their rows; all of them are known."""
    topics, items = vocabulary.indices(lists)
    topics = np.repeat(topics, np.diff(lists.offsets))
    order = np.lexsort((items, topics))
    return Pairs(topics[order], items[order], lists.relevance[order]), order


def _validation_part(validation: "JudgedLists", vocabulary: Vocabulary, unknown: str) -> Part:
    topics, items = vocabulary.known_indices(validation, unknown, "validation lists: ")
    relevance, offsets = as_tensor(validation.relevance, "relevance"), as_tensor(validation.offsets, "offsets")
    return Part(validation.topics, torch.from_numpy(topics), torch.from_numpy(items), relevance, Lists(offsets))


def _score(model: nn.Module, part: Part) -> Tensor:
    assert isinstance(model, Factorization)
    topics = part.topics.index_select(0, part.lists.segment)
    return model(topics, part.items) if torch.is_grad_enabled() else score_pairs(model, topics, part.items)


def _require_recurring(lists: "JudgedLists") -> None:
    """Raise DataError if no item is in two topics: a factorisation would learn nothing from one topic for another."""
    from rankbound.io.table_columns import name_column

    if not len(lists.items):
        raise DataError("there are no items in the training lists; expected judged items")
    if name_column(lists.items).n_unique() == len(lists.items):
        raise DataError(
            "no item is in two topics, but a factorisation learns from items that recur: name the column of the items "
            "by `item` (on the command line: --item NAME), or train a model of features"
        )


def _require_no_negatives(recipe: Recipe) -> None:
    if recipe.negatives:
        raise DataError(
            f"found negatives={recipe.negatives} beside validation lists, whose items might be drawn as negatives: "
            "expected a share of the lists for validation, or rows of relevance 0 instead of drawn ones"
        )


def _require_two_labels(lists: "JudgedLists", recipe: Recipe) -> None:
    """Raise DataError for one label of all items, unless negatives are drawn beside relevant ones."""
    label = float(lists.relevance[0])
    if bool((lists.relevance == label).all()) and not (recipe.negatives and label > 0):
        advice = (
            "add rows of items with relevance 0, or draw some for each relevant item by negatives=3 (on the command "
            "line: --negatives 3)"
            if label > 0
            else "expected relevant items, with labels above 0"
        )
        raise DataError(f"all {len(lists.items)} relevance labels are {label:g}, so that no order is better: {advice}")
