"""What a factorisation reads: pairs of a topic and an item by their places in a vocabulary, and drawn negatives.

The items of a topic are parted for validation and for folds: sorted by relevance, at random within a label, they are
dealt one after another, so that each part has its share of every label, and of the topic, up to one item.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.io.files import needs_extra
from rankbound.io.judged import JudgedLists, Qrels
from rankbound.io.ragged import Indices
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed, quantity, quoted
from rankbound.training.catalogue import UNSEEN, Counted, Popularity, fit_ease, fit_neighbours, places_of
from rankbound.training.inputs import require_apart
from rankbound.training.models import Factorization, score_pairs
from rankbound.training.recipe import Recipe, build_factors
from rankbound.training.trainer import Draw, Part, worth_a_kernel

with needs_extra("data"):
    import polars as pl
    import pyarrow as pa

    from rankbound.io.judged import name_column

Mask = npt.NDArray[np.bool_]

DENSE = 0.5
"""Share of all items from which the rest is listed, since few draws would be new."""

TRIES = 32
"""How often a draw of an epoch is repeated that hits one of the topic's own items; then it is left out."""


def pair_inputs(
    lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe, generator: torch.Generator
) -> tuple[Part, Draw | None, Part | None, Factorization, "Vocabulary"]:
    """Return the lists to train on and to select the epoch on, a model with initial weights, and its vocabulary.

    With negatives of every epoch, the lists to train on are those of the first, beside the draws of all.

    A share of each topic's items is held out without validation lists. Topics and items are sorted by name: the order
    of rows changes nothing. DataError if a factorisation could not learn from the lists, or if they do not fit each
    other.
    """
    _require_recurring(lists, recipe.model)
    label = float(lists.relevance[0])
    if bool((lists.relevance == label).all()) and not (recipe.negatives and label > 0):
        advice = (
            "add rows of items with relevance 0, or draw some for each relevant item by negatives=3 (on the command "
            "line: --negatives 3)"
            if label > 0
            else "expected relevant items, with labels above 0"
        )
        raise DataError(f"all {len(lists.items)} relevance labels are {label:g}, so that no order is better: {advice}")
    once = recipe.negative_sampling == "once"
    drawn = with_negatives(lists, recipe.negatives, recipe.seed) if recipe.negatives and once else lists
    vocabulary = Vocabulary.of_lists(drawn)
    n_items = len(vocabulary.items)
    if recipe.negatives >= n_items:
        raise DataError(
            f"negatives: found {recipe.negatives} for each relevant item, but the training lists have {n_items} items; "
            "expected a number far below, such as 4"
        )
    topics, items, order = sorted_pairs(drawn, vocabulary)
    relevance = drawn.relevance[order]

    def part(mask: Mask) -> Part:
        counts = np.bincount(topics[mask])
        own = np.flatnonzero(counts)
        of_topics, of_items, labels = map(torch.from_numpy, (own, items[mask], relevance[mask]))
        names, limits = vocabulary.topics[own].to_list(), Lists.of_sizes(torch.from_numpy(counts[own]))
        return Part(names, of_topics, of_items, labels, limits)

    def with_drawn(held_out: Part, known: Indices) -> Part:
        """Add drawn negatives to the lists of validation; `known` are the codes of all pairs."""
        if not recipe.negatives or once:
            return held_out
        own, segment = held_out.topics.numpy(), held_out.lists.segment.numpy()
        relevant = (held_out.relevance.numpy() > 0) & (own[segment] >= 0)
        wanted = np.bincount(own[segment[relevant]], minlength=len(vocabulary.topics))
        of_topics, of_items = np.divmod(_drawn(known, recipe.negatives * wanted, n_items, recipe.seed), n_items)
        place = np.zeros(len(vocabulary.topics), np.int64)
        place[own[own >= 0]] = np.flatnonzero(own >= 0)
        order = np.argsort(place[of_topics], kind="stable")
        return _joined(held_out, place[of_topics][order], of_items[order])

    held, held_out = np.zeros(len(topics), bool), None
    if validation is not None:
        if recipe.negatives and once:
            raise DataError(
                f"found negatives={recipe.negatives} drawn once beside validation lists, whose items might be among "
                "them: expected another negative_sampling, a share of the lists for validation, or rows of relevance 0"
            )
        require_apart({"training": lists, "validation": validation}, by_item=True)
        known = vocabulary.known_indices(validation, recipe.unknown, "validation lists: ")
        of_topics, of_items = map(torch.from_numpy, known)
        labels, limits = as_tensor(validation.relevance, "relevance"), as_tensor(validation.offsets, "offsets")
        held_out = Part(validation.topics, of_topics, of_items, labels, Lists(limits))
        own = of_topics.index_select(0, held_out.lists.segment)
        codes = (own * n_items + of_items)[(own >= 0) & (of_items >= 0)].numpy()
        held_out = with_drawn(held_out, np.sort(np.append(topics * n_items + items, codes)))
    elif recipe.validation_share:
        held = held_out_within(topics, items, relevance, recipe.validation_share, recipe.seed)
        held_out = with_drawn(part(held), topics * n_items + items)
    training, draw = part(~held), None
    if recipe.negatives and not once:
        epochs = epoch_negatives(training, n_items, recipe)
        training = next(epochs)
        draw = chain([training], epochs).__next__
    by_kernel = worth_a_kernel(recipe.epochs, training.lists.n_items)
    model = build_factors(recipe, len(vocabulary.topics), n_items, generator, by_kernel=by_kernel)
    return training, draw, held_out, model, vocabulary


def counted_model(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> tuple[Counted, "Vocabulary"]:
    """Return the model of the relevant pairs of lists, and its vocabulary, which has the other items as well."""
    _require_recurring(lists, recipe.model)
    if not bool((lists.relevance > 0).any()):
        raise DataError(f"all {len(lists.items)} relevance labels are 0; expected relevant items, with labels above 0")
    require_apart({"training": lists, "validation": validation}, by_item=True)
    vocabulary = Vocabulary.of_lists(lists)
    topics, items, order = sorted_pairs(lists, vocabulary)
    relevant = lists.relevance[order] > 0
    pairs = torch.from_numpy(topics[relevant]), torch.from_numpy(items[relevant])
    n_topics, n_items = len(vocabulary.topics), len(vocabulary.items)
    if recipe.model == "popularity":
        return Popularity(counts=torch.bincount(pairs[1], minlength=n_items).to(torch.float32)), vocabulary
    if recipe.model == "ease":
        return fit_ease(*pairs, n_topics, n_items, recipe.ridge), vocabulary
    return fit_neighbours(*pairs, n_topics, n_items, recipe.neighbours), vocabulary


def _require_recurring(lists: JudgedLists, model: str) -> None:
    """Raise DataError for lists without items, or without any item of two topics."""
    if not len(lists.items):
        raise DataError("there are no items in the training lists; expected judged items")
    if name_column(lists.items).n_unique() == len(lists.items):
        raise DataError(
            f"no item is in two topics, but model {model} learns from items that recur: name the column of the items "
            "by `item` (on the command line: --item NAME), or train a model of features"
        )


def score_part(model: nn.Module, part: Part) -> Tensor:
    """Return the scores of a part's items under a factorisation."""
    assert isinstance(model, Factorization)
    topics = part.topics.index_select(0, part.lists.segment)
    return model(topics, part.items) if torch.is_grad_enabled() else score_pairs(model, topics, part.items)


def sorted_pairs(lists: JudgedLists, vocabulary: "Vocabulary") -> tuple[Indices, Indices, Indices]:
    """Return the topics and items of all pairs by index, sorted by them, and the pairs' rows; all names are known."""
    topics, items = vocabulary.indices(lists)
    topics = np.repeat(topics, np.diff(lists.offsets))
    order = np.lexsort((items, topics))
    return topics[order], items[order], order


@dataclass(frozen=True)
class Vocabulary:
    """Names of topics and items, each distinct and sorted: a name's place is the index of its factors."""

    topics: pl.Series
    items: pl.Series

    @classmethod
    def of_lists(cls, lists: Qrels) -> "Vocabulary":
        """Return the vocabulary of all topics and items of some lists."""
        return cls(name_column(lists.topics).sort(), name_column(lists.items).unique().sort())

    def indices(self, lists: Qrels) -> tuple[Indices, Indices]:
        """Return the indices of the lists' topics `(n_lists,)` and of their items `(n_items,)`; unknown ones are -1."""
        return places_of(lists.topics, self.topics), places_of(lists.items, self.items)

    def known_indices(self, lists: Qrels, unknown: str, where: str = "") -> tuple[Indices, Indices]:
        """Return `indices`; DataError for unknown names, unless `unknown` is `mean` and at least one item is known.

        `where` precedes the message, which names the first unknown topic, or else item, and the number of others.
        """
        topics, items = self.indices(lists)
        new_topics, new_items = (np.flatnonzero(index == UNSEEN) for index in (topics, items))
        if unknown == "refuse" and (count := len(new_topics) or len(new_items)):
            if len(new_topics):
                found, others = f"topic {quoted(lists.topics[new_topics[0]])}", quantity(count - 1, "other topic")
            else:
                topic = lists.topics[int(np.searchsorted(lists.offsets, new_items[0], side="right")) - 1]
                found = f"item {quoted(lists.items[int(new_items[0])])} of topic {quoted(topic)}"
                others = f"{quantity(count - 1, 'other row')} of unknown items"
            raise DataError(
                f"{where}found {found}{f' (and {others})' if count > 1 else ''}, which the ranker was not trained on: "
                "train it on a table with all topics and items, or score unknown ones by the mean of the others with "
                "unknown='mean' (on the command line: --unknown mean)"
            )
        if len(items) and len(new_items) == len(items):
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
        """Restore the names that `tensors` returned; ValueError if the file that they come from is damaged."""
        known = []
        for kind in ("topics", "items"):
            text, ends = tensors[f"known.{kind}.text"], tensors[f"known.{kind}.ends"]
            if text.dtype != torch.uint8 or ends.dtype != torch.int64 or text.dim() != 1 or ends.dim() != 1:
                raise ValueError(f"the names of its {kind} should be bytes, and whole numbers where they end")
            buffers = [None, pa.py_buffer(np.append(0, ends.numpy())), pa.py_buffer(text.numpy())]
            array = pa.Array.from_buffers(pa.large_string(), len(ends), buffers)
            array.validate(full=True)
            names = pl.Series(kind, pl.from_arrow(array), dtype=pl.String)
            if len(text) != (int(ends[-1]) if len(ends) else 0) or not bool((names[1:] > names[:-1]).all()):
                raise ValueError(f"the names of its {kind} should be distinct and sorted")
            known.append(names)
        return cls(*known)


def folds_within(topics: Indices, relevance: npt.NDArray[np.generic], folds: int, seed: int) -> Indices:
    """Return the fold of each pair, from 0; every topic begins at a random one. Draws depend on the pairs' order."""
    generator = np.random.default_rng(derive_seed("folds within topics", seed))
    order, place = _dealt(topics, relevance, generator)
    first = generator.integers(folds, size=int(topics.max(initial=-1)) + 1)
    fold = np.empty(len(order), np.int64)
    fold[order] = (place + first[topics[order]]) % folds
    return fold


def held_out_within(
    topics: Indices, items: Indices, relevance: npt.NDArray[np.generic], share: float, seed: int
) -> Mask:
    """Return a mask of pairs to hold out, about `share` of each topic's. Draws depend on the pairs' order.

    Pairs whose topic or item would have no other pair left to learn from are not held out.
    """
    generator = np.random.default_rng(derive_seed("validation within topics", seed))
    order, place = _dealt(topics, relevance, generator)
    start = generator.random(int(topics.max(initial=-1)) + 1)[topics[order]]
    held = np.empty(len(order), bool)
    held[order] = np.floor((place + 1) * share + start) > np.floor(place * share + start)
    for index in (items, topics):
        left = np.bincount(index[~held], minlength=int(index.max(initial=-1)) + 1)
        held &= left[index] > 0
    return held


def _dealt(
    topics: Indices, relevance: npt.NDArray[np.generic], generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return the order by topic, label and chance, and each pair's place in its topic in that order."""
    order = np.lexsort((generator.random(len(topics)), relevance, topics))
    sizes = np.bincount(topics)
    return order, np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)


def with_negatives(lists: JudgedLists, per_relevant: int, seed: int) -> JudgedLists:
    """Return the lists, each followed by `per_relevant` drawn items for each of its relevant items.

    The items are drawn from all items of the lists but the topic's own, uniformly and without replacement; all of them
    if they are fewer. Their relevance is 0. Draws depend on names and `seed` alone, not on the order of rows. Features
    are left out.
    """
    vocabulary = Vocabulary.of_lists(lists)
    topic_of_list, items = vocabulary.indices(lists)
    topics = np.repeat(topic_of_list, np.diff(lists.offsets))
    n_topics, n_items = len(vocabulary.topics), len(vocabulary.items)
    relevant = np.bincount(topics, lists.relevance > 0, minlength=n_topics).astype(np.int64)
    codes = _drawn(np.sort(topics * n_items + items), per_relevant * relevant, n_items, seed)
    drawn_topics, drawn_items = np.divmod(codes, n_items)
    place = np.argsort(topic_of_list)
    owner = np.concatenate([place[topics], place[drawn_topics]])
    order = np.argsort(owner, kind="stable")
    relevance = np.concatenate([lists.relevance, np.zeros(len(codes), lists.relevance.dtype)])
    return JudgedLists(
        topics=lists.topics,
        items=pl.concat([name_column(lists.items), vocabulary.items[drawn_items]])[order],
        relevance=relevance[order],
        offsets=np.append(0, np.cumsum(np.bincount(owner, minlength=len(lists)))),
        features=np.empty((len(order), 0), np.float32),
        feature_names=[],
    )


def epoch_negatives(part: Part, n_items: int, recipe: Recipe) -> Iterator[Part]:
    """Yield the lists of every epoch with new negatives: of `n_items`, those of a recipe, which the list lacks.

    The lists of the part have no negatives, and are on the CPU; their items ascend. For `in-batch`, they come in the
    order of the batches.
    """
    generator, count = np.random.default_rng(derive_seed("negatives of epochs", recipe.seed)), len(part.lists)
    known = (part.topics.index_select(0, part.lists.segment) * n_items + part.items).numpy()
    epoch, size = part, recipe.batch_size
    while True:
        if recipe.negative_sampling == "in-batch":
            order = generator.permutation(count)
            epoch = replace(part.batch(torch.from_numpy(order)), names=[part.names[at] for at in order.tolist()])
        relevant = epoch.relevance.numpy() > 0
        of_lists = np.bincount(epoch.lists.segment.numpy()[relevant], minlength=count)
        pool = np.arange(n_items) if recipe.negative_sampling == "uniform" else epoch.items.numpy()[relevant]
        low, width = np.zeros(count, np.int64), np.full(count, len(pool))
        if recipe.negative_sampling == "in-batch":
            limits = np.append(0, np.cumsum(of_lists))
            first = np.arange(count) // size * size
            low = limits[first]
            width = limits[np.minimum(first + size, count)] - low
        owner = np.repeat(np.arange(count), recipe.negatives * of_lists)
        drawn, lacking, topics = np.empty(len(owner), np.int64), np.arange(len(owner)), epoch.topics.numpy()
        for _ in range(TRIES):
            if not len(lacking):
                break
            own = owner[lacking]
            place = low[own] + (generator.random(len(own)) * width[own]).astype(np.int64)
            drawn[lacking] = pool[place]
            codes = topics[own] * n_items + drawn[lacking]
            at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            lacking = lacking[known[at] == codes]
        kept = np.ones(len(owner), bool)
        kept[lacking] = False
        yield _joined(epoch, owner[kept], drawn[kept])


def _joined(part: Part, owner: Indices, items: Indices) -> Part:
    """Return the lists, each followed by its items of relevance 0; `owner`, their lists, ascends."""
    more = np.bincount(owner, minlength=len(part.lists))
    lists = Lists.of_sizes(part.lists.sizes + torch.from_numpy(more))
    before = np.append(0, np.cumsum(more))
    of_all = torch.empty(lists.n_items, dtype=torch.int64)
    relevance = torch.zeros(lists.n_items, dtype=part.relevance.dtype)
    own = torch.arange(part.lists.n_items) + torch.from_numpy(before)[part.lists.segment]
    new = np.arange(len(items)) + part.lists.offsets.numpy()[owner + 1]
    of_all[own], relevance[own], of_all[torch.from_numpy(new)] = part.items, part.relevance, torch.from_numpy(items)
    return Part(part.names, part.topics, of_all, relevance, lists)


def _drawn(known: Indices, wanted: Indices, n_items: int, seed: int) -> Indices:
    """Return the drawn pairs as sorted codes, topic times number of items plus item; `known` are those of the lists."""
    n_topics = len(wanted)
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
        # `known` is sorted.
        codes = codes[known[np.minimum(np.searchsorted(known, codes), len(known) - 1)] != codes]
        # Distinct by sorting: NumPy's own way by hashes takes minutes for such codes.
        drawn = np.sort(np.concatenate([drawn, codes]))
        drawn = drawn[np.diff(drawn, prepend=-1) > 0]
    return np.sort(np.concatenate([drawn, *listed]))
