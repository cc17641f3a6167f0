"""Inputs of a factorisation: judged pairs of a topic and an item, and the negatives that are drawn beside them."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.io.ragged import Indices
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed
from rankbound.training.inputs import Inputs, Vocabulary
from rankbound.training.models import Factorization, Scaling, score_pairs
from rankbound.training.recipe import Recipe
from rankbound.training.splits import Mask, Pairs, held_out_within, require_apart
from rankbound.training.trainer import Part, worth_a_kernel

DENSE = 0.5
"""Share of all items from which the rest is listed, since few draws would be new."""


def pair_inputs(
    lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe, generator: torch.Generator, device: torch.device
) -> Inputs:
    """Return the inputs of a factorisation; a share of each topic's items is held out without validation lists.

    Topics and items are sorted by name: the order of rows changes nothing. DataError if a factorisation could not
    learn from the lists, or if they do not fit each other.
    """
    _require_something_to_learn(lists, recipe)
    drawn = with_negatives(lists, recipe.negatives, recipe.seed) if recipe.negatives else lists
    vocabulary = Vocabulary.of_lists(drawn)
    pairs, _ = sorted_pairs(drawn, vocabulary)
    held, held_out = np.zeros(len(pairs.topics), bool), None
    if validation is not None:
        held_out = _validation_part(lists, validation, vocabulary, recipe)
    elif recipe.validation_share:
        held = held_out_within(pairs, recipe.validation_share, recipe.seed)
        held_out = _part(pairs, held, vocabulary)
    training = _part(pairs, ~held, vocabulary)
    model = Factorization(
        len(vocabulary.topics),
        len(vocabulary.items),
        recipe.factors,
        generator=generator,
        bias=recipe.bias,
        by_kernel=worth_a_kernel(recipe.epochs, training.lists.n_items),
    )
    none = torch.zeros(0, dtype=torch.float32)
    return Inputs(training, held_out, model.to(device), _score, [], Scaling("none", none, none), vocabulary)


def sorted_pairs(lists: JudgedLists, vocabulary: Vocabulary) -> tuple[Pairs, Indices]:
    """Return the judged pairs by index, sorted by topic and item, and their rows; all of them are known."""
    topics, items = vocabulary.indices(lists)
    topics = np.repeat(topics, np.diff(lists.offsets))
    order = np.lexsort((items, topics))
    return Pairs(topics[order], items[order], lists.relevance[order]), order


def _require_something_to_learn(lists: JudgedLists, recipe: Recipe) -> None:
    """Raise DataError if no item is in two topics, of which one teaches nothing of another, or all labels are one."""
    from rankbound.io.table_columns import name_column

    if not len(lists.items):
        raise DataError("there are no items in the training lists; expected judged items")
    if name_column(lists.items).n_unique() == len(lists.items):
        raise DataError(
            "no item is in two topics, but a factorisation learns from items that recur: name the column of the items "
            "by `item` (on the command line: --item NAME), or train a model of features"
        )
    label = float(lists.relevance[0])
    if bool((lists.relevance == label).all()) and not (recipe.negatives and label > 0):
        advice = (
            "add rows of items with relevance 0, or draw some for each relevant item by negatives=3 (on the command "
            "line: --negatives 3)"
            if label > 0
            else "expected relevant items, with labels above 0"
        )
        raise DataError(f"all {len(lists.items)} relevance labels are {label:g}, so that no order is better: {advice}")


def _validation_part(lists: JudgedLists, validation: JudgedLists, vocabulary: Vocabulary, recipe: Recipe) -> Part:
    if recipe.negatives:
        raise DataError(
            f"found negatives={recipe.negatives} beside validation lists, whose items might be drawn as negatives: "
            "expected a share of the lists for validation, or rows of relevance 0 instead of drawn ones"
        )
    require_apart({"training": lists, "validation": validation}, by_item=True)
    topics, items = vocabulary.known_indices(validation, recipe.unknown, "validation lists: ")
    relevance, offsets = as_tensor(validation.relevance, "relevance"), as_tensor(validation.offsets, "offsets")
    return Part(validation.topics, torch.from_numpy(topics), torch.from_numpy(items), relevance, Lists(offsets))


def _part(pairs: Pairs, mask: Mask, vocabulary: Vocabulary) -> Part:
    counts = np.bincount(pairs.topics[mask])
    topics = np.flatnonzero(counts)
    return Part(
        vocabulary.topics[topics].to_list(),
        torch.from_numpy(topics),
        torch.from_numpy(pairs.items[mask]),
        torch.from_numpy(pairs.relevance[mask]),
        Lists.of_sizes(torch.from_numpy(counts[topics])),
    )


def _score(model: nn.Module, part: Part) -> Tensor:
    assert isinstance(model, Factorization)
    topics = part.topics.index_select(0, part.lists.segment)
    return model(topics, part.items) if torch.is_grad_enabled() else score_pairs(model, topics, part.items)


def with_negatives(lists: JudgedLists, per_relevant: int, seed: int) -> JudgedLists:
    """Return the lists, each followed by `per_relevant` drawn items for each of its relevant items.

    The items are drawn from all items of the lists but the topic's own, uniformly and without replacement; all of them
    if they are fewer. Their relevance is 0. Draws depend on names and `seed` alone, not on the order of rows. Features
    are left out.
    """
    import polars as pl

    from rankbound.io.table_columns import name_column

    vocabulary = Vocabulary.of_lists(lists)
    topic_of_list, items = vocabulary.indices(lists)
    topics = np.repeat(topic_of_list, np.diff(lists.offsets))
    shape = len(vocabulary.topics), len(vocabulary.items)
    relevant = np.bincount(topics, lists.relevance > 0, minlength=shape[0]).astype(np.int64)
    codes = _drawn(np.sort(topics * shape[1] + items), per_relevant * relevant, shape, seed)
    drawn_topics, drawn_items = np.divmod(codes, shape[1])
    place = np.argsort(topic_of_list)
    owner = np.concatenate([place[topics], place[drawn_topics]])
    order = np.argsort(owner, kind="stable")
    names = pl.concat([name_column(lists.items), vocabulary.items[drawn_items]])
    relevance = np.concatenate([lists.relevance, np.zeros(len(codes), lists.relevance.dtype)])
    return JudgedLists(
        topics=lists.topics,
        items=names[order],
        relevance=relevance[order],
        offsets=np.append(0, np.cumsum(np.bincount(owner, minlength=len(lists)))),
        features=np.empty((len(order), 0), np.float32),
        feature_names=[],
    )


def _drawn(known: Indices, wanted: Indices, shape: tuple[int, int], seed: int) -> Indices:
    """Return the drawn pairs as sorted codes, topic times number of items plus item; `known` are those of the lists."""
    n_topics, n_items = shape
    generator = np.random.default_rng(derive_seed("negatives", seed))
    sizes = np.bincount(known // n_items, minlength=n_topics)
    wanted = np.minimum(wanted, n_items - sizes)
    dense = sizes + wanted > DENSE * n_items
    listed = []
    for topic in np.flatnonzero(dense).tolist():
        start, stop = np.searchsorted(known, [topic * n_items, (topic + 1) * n_items])
        rest = np.delete(np.arange(n_items), known[start:stop] - topic * n_items)
        listed.append(topic * n_items + generator.permutation(rest)[: wanted[topic]])
    sparse = np.where(dense, 0, wanted)
    drawn = np.empty(0, np.int64)
    while len(lacking := np.repeat(np.arange(n_topics), sparse - np.bincount(drawn // n_items, minlength=n_topics))):
        codes = lacking * n_items + generator.integers(n_items, size=len(lacking))
        # Distinct by sorting: NumPy's own way by hashes takes minutes for such codes.
        drawn = np.sort(np.concatenate([drawn, codes[~_are_in(codes, known)]]))
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
    return np.sort(np.concatenate([drawn, *listed]))


def _are_in(codes: Indices, known: Indices) -> npt.NDArray[np.bool_]:
    """Return a mask of the codes that are among the known ones, which are sorted."""
    place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[place] == codes
    return found
