"""Models of pairs of a topic and an item: what they read, what they recommend of all items, and metrics of that.

Pairs go by the places of topic and item in a vocabulary. The items of a topic are parted for validation and for folds:
sorted by relevance, at random within a label, they are dealt one after another, so that each part has its share of
every label, and of the topic, up to one item.

The items that a ranker was trained on are the catalogue that all topics choose from. No table of pairs is made: scores
of a block of topics by all items are in memory at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.evaluation import POLICIES, Evaluation, judged_by, needs_intents, values_of
from rankbound.io.judged import JudgedLists, Qrels, Run, name_column, repeated
from rankbound.io.ragged import Indices
from rankbound.kernels.formulas import Array, Floats, Mask, cases_of
from rankbound.lazy import pa, pl
from rankbound.lists import Lists, as_tensor, on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.base import NOT_POOLED, POOLED
from rankbound.metrics.runs import JudgedRun
from rankbound.names import ByText
from rankbound.texts import derive_seed, quantity, quoted, require_one_of
from rankbound.training import models
from rankbound.training.inputs import require_apart
from rankbound.training.recipe import CHOICES, PAIR_MODELS, Recipe, build_factors
from rankbound.training.trainer import Draw, Part, worth_a_kernel

if TYPE_CHECKING:
    from rankbound.training.ranker import Ranker

Excluded = Qrels | Sequence[Qrels]
DENSE = 0.5
"""Share of all items from which the rest is listed, since few draws would be new."""

TRIES = 32
"""How often a draw of an epoch is repeated that hits one of the topic's own items; then it is left out."""

UNSEEN = -1
"""The place of a name that is not known."""


def pair_inputs(
    lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe, generator: torch.Generator
) -> tuple[Part, Draw | None, Part | None, models.Factorization, "Vocabulary"]:
    """Return the lists to train on and to select the epoch on, a model with initial weights, and its vocabulary.

    With negatives of every epoch, the lists to train on are those of the first, beside the draws of all.

    A share of each topic's items is held out without validation lists. Topics and items are sorted by name: the order
    of rows changes nothing. DataError if a factorisation could not learn from the lists, or if they do not fit each
    other.
    """
    _require_recurring(lists, recipe.model)
    label = float(lists.relevance[0])
    if bool((lists.relevance == label).all()) and not (recipe.negatives and label > 0):
        more = "add rows of items with relevance 0, or draw some by negatives=3 (on the command line: --negatives 3)"
        advice = more if label > 0 else "expected relevant items, with labels above 0"
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


def counted_model(
    lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe
) -> tuple[models.Counted, "Vocabulary"]:
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
        return models.Popularity(counts=torch.bincount(pairs[1], minlength=n_items).to(torch.float32)), vocabulary
    if recipe.model == "ease":
        return models.fit_ease(*pairs, n_topics, n_items, recipe.ridge), vocabulary
    return models.fit_neighbours(*pairs, n_topics, n_items, recipe.neighbours), vocabulary


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
    assert isinstance(model, models.Factorization)
    topics = part.topics.index_select(0, part.lists.segment)
    return model(topics, part.items) if torch.is_grad_enabled() else models.score_pairs(model, topics, part.items)


@on_cpu
@torch.inference_mode(mode=False)
@torch.no_grad()
def recommend(
    ranker: "Ranker", topics: Sequence[str] | Qrels | None, k: int, exclude: Excluded, unknown: str | None
) -> Run:
    """Return the best items of all, as `Ranker.recommend` says."""
    vocabulary = _vocabulary(ranker)
    if k < 1:
        raise ValueError(f"k: found {k}, expected a number of items from 1")
    given = vocabulary.topics if topics is None else topics.topics if isinstance(topics, Qrels) else topics
    if isinstance(given, str):
        raise ValueError(f"topics: found the text {given!r}, expected a sequence of names, as in [{given!r}]")
    names = [str(name) for name in given]
    if (twice := repeated(names)) is not None:
        raise ValueError(f"topics: found {twice!r} twice, expected each once")
    count = min(k, len(vocabulary.items))
    sizes, places, values = [], [], []
    for _, scores in _blocks(ranker, vocabulary, names, exclude, unknown):
        best = models.first_of(scores, count)
        own = scores.gather(1, best)
        kept = own > -torch.inf
        sizes.append(kept.sum(1))
        places.append(best[kept])
        values.append(own[kept])
    offsets = np.append(0, torch.cat(sizes).cumsum(0).numpy()) if sizes else np.zeros(1, np.int64)
    items = vocabulary.items[torch.cat(places).numpy() if places else []]
    return Run(topics=names, items=items, scores=torch.cat(values).numpy() if values else [], offsets=offsets)


@on_cpu
@torch.inference_mode(mode=False)
@torch.no_grad()
def evaluate_catalogue(
    ranker: "Ranker",
    test: Qrels,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    exclude: Qrels | Sequence[Qrels] = (),
    unknown: str | None = None,
    undefined: str = "skip",
) -> Evaluation:
    """Evaluate a ranker on a ranking of all items that it was trained on, for each topic (user) of the test.

    The values are those of `rankbound.evaluate_run` for the run `ranker.recommend(test, k, exclude=exclude)` of all
    items, which is not made: items that the test lacks are not relevant, and a metric is averaged over all orders of
    tied items. A relevant item that is excluded, or that the ranker was not trained on, is not retrieved: it counts in
    the normaliser, and contributes nothing.

    Metrics over samples of irrelevant items may order models otherwise than these (Krichene and Rendle 2020).

    Args:
        ranker: a ranker of topics and items, such as a `matrix-factorization`.
        test: judged lists of the topics to evaluate.
        metrics: one or more metrics or their texts.
        exclude: judged lists, one or several, whose items are not ranked for their topics: the training lists.
        unknown: `refuse` for topics and items of the test that the ranker was not trained on; `mean` scores topics as
            `Ranker.recommend` does, and takes items as not retrieved. By default, the recipe's.
        undefined: as in `rankbound.evaluate_run`.

    Returns:
        The values of each topic of the test; `means()` averages them.

    Raises:
        ValueError: for a ranker of features, a metric of intents, an unknown metric, or another value of `unknown` or
            `undefined`.
        DataError: a topic or item is unknown, or none of the items is known; the message names one.

    >>> ranker = rb.load("films.safetensors")  # doctest: +SKIP
    >>> test = rb.read_lists("later.csv", topic="user")  # doctest: +SKIP
    >>> rb.evaluate_catalogue(ranker, test, ["nDCG@10", "Recall@20"]).means()  # doctest: +SKIP
    """
    require_one_of("undefined", undefined, POLICIES)
    vocabulary = _vocabulary(ranker)
    chosen, judged = judged_by(metrics, test)
    if needs_intents(chosen):
        raise ValueError("metrics: found a metric of intents, which is not of a catalogue; use rankbound.evaluate_run")
    items = vocabulary.known_indices(test, policy_of(ranker, unknown))[1]
    relevance = np.asarray(judged.relevance, np.float64)
    if judged.unjudged is not None:
        relevance = np.where(judged.unjudged, POOLED, relevance)
    topics = np.repeat(np.arange(len(test.topics)), np.diff(test.offsets))
    values: dict[str, list[Floats]] = {str(one): [] for one in chosen}
    for block, scores in _blocks(ranker, vocabulary, test.topics, exclude, unknown):
        rows = slice(*test.offsets[[block.start, block.stop]])
        run = _judged(test.topics[block], scores, topics[rows] - block.start, items[rows], relevance[rows])
        for name, own in values_of(chosen, run, undefined).items():
            values[name].append(own)
    joined = ByText({name: np.concatenate(own) if own else np.zeros(0) for name, own in values.items()})
    return Evaluation(list(test.topics), joined, [], [])


def _judged(names: Sequence[str], scores: Tensor, topics: Indices, items: Indices, relevance: Floats) -> JudgedRun:
    """Return the rankings of all items with their judgements; excluded and unknown judged items come last.

    Items without a judgement are alike, so that their scores are sorted without their places, which is fast.
    """
    count, judged = len(names), np.flatnonzero(items >= 0)
    keys = np.negative(scores.numpy())
    own = np.full(len(items), np.inf, keys.dtype)
    own[judged] = keys[topics[judged], items[judged]]
    keys[topics[judged], items[judged]] = np.inf
    keys.sort(axis=1)
    # By score, so that those between the same two others are in order; the lost ones in ascending relevance.
    order = np.lexsort((np.where(own < np.inf, 0, relevance), own, topics))
    topics, own, relevance = topics[order], own[order], relevance[order]
    n_judged = np.bincount(topics, minlength=count)
    sought, place = np.full((count, n_judged.max(initial=0)), np.inf, keys.dtype), cases_of(n_judged)
    sought[place] = own
    above = torch.searchsorted(torch.from_numpy(keys), torch.from_numpy(sought)).numpy()[place]
    others = keys < np.inf
    sizes = others.sum(1)
    where = (np.cumsum(sizes) - sizes)[topics] + above
    # The items with a judgement stand `above` others of their topic, and are in the order of topics.
    return JudgedRun(
        list(names),
        np.insert(-keys[others].astype(np.float64), where, np.where(own < np.inf, -own.astype(np.float64), 0.0)),
        np.insert(np.full(sizes.sum(), NOT_POOLED), where, relevance),
        np.insert(np.ones(sizes.sum(), np.bool_), where, own < np.inf),
        np.append(0, np.cumsum(sizes + n_judged)),
    )


def _vocabulary(ranker: "Ranker") -> "Vocabulary":
    if ranker.vocabulary is None:
        raise ValueError(
            f"ranker: found a {ranker.recipe.model} model of features, which new items have as well; expected one of "
            f"{', '.join(PAIR_MODELS)}, whose catalogue is the items that it was trained on, or score_lists(lists)"
        )
    return ranker.vocabulary


def policy_of(ranker: "Ranker", unknown: str | None) -> str:
    """Return what becomes of unknown topics and items, by default as the recipe says; ValueError for another policy."""
    policy = ranker.recipe.unknown if unknown is None else unknown
    require_one_of("unknown", policy, CHOICES["unknown"])
    return policy


def _blocks(
    ranker: "Ranker", vocabulary: "Vocabulary", names: Sequence[str], exclude: Excluded, unknown: str | None
) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of topics, and their scores of all items: finite numbers, or negative infinity if excluded."""
    assert isinstance(ranker.model, models.Factorization | models.Counted)
    index = places_of(names, vocabulary.topics)
    new, policy = np.flatnonzero(index < 0), policy_of(ranker, unknown)
    if len(new) and policy == "refuse":
        others = f" (and {quantity(len(new) - 1, 'other topic')})" if len(new) > 1 else ""
        raise DataError(
            f"found topic {quoted(names[new[0]])}{others}, which the ranker was not trained on: leave it out, or rank "
            "items for unknown topics by the mean over all others with unknown='mean'"
        )
    n_items, model = len(vocabulary.items), ranker.model.cpu()
    pairs = [np.zeros((2, 0), np.int64)]
    for lists in [exclude] if isinstance(exclude, Qrels) else exclude:
        of_items = np.repeat(places_of(lists.topics, names), np.diff(lists.offsets))
        pairs.append(np.stack([of_items, vocabulary.indices(lists)[1]]))
    rows, items = np.concatenate(pairs, axis=1)
    known = (rows >= 0) & (items >= 0)
    rows, items = rows[known], items[known]
    order = np.argsort(rows, kind="stable")
    rows, items = rows[order], items[order]
    size = max(models.SCORES_AT_ONCE // max(n_items, 1), 1)
    for first in range(0, len(names), size):
        block = slice(first, min(first + size, len(names)))
        scores = model.of_topics(torch.from_numpy(index[block])).clone()
        if not bool(torch.isfinite(scores).all()):
            raise ValueError("scores: found some that are not finite: the model's weights are too large; train again")
        own = slice(*np.searchsorted(rows, [block.start, block.stop]).tolist())
        scores[torch.from_numpy(rows[own] - first), torch.from_numpy(items[own])] = -torch.inf
        yield block, scores


def places_of(names: Any, known: Any) -> Indices:
    """Return the places of names among distinct known ones; those of others are -1."""
    return name_column(names).replace_strict(known, np.arange(len(known)), default=UNSEEN).to_numpy().astype(np.int64)


def sorted_pairs(lists: JudgedLists, vocabulary: "Vocabulary") -> tuple[Indices, Indices, Indices]:
    """Return the topics and items of all pairs by index, sorted by them, and the pairs' rows; all names are known."""
    topics, items = vocabulary.indices(lists)
    topics = np.repeat(topics, np.diff(lists.offsets))
    order = np.lexsort((items, topics))
    return topics[order], items[order], order


@dataclass(frozen=True)
class Vocabulary:
    """Names of topics and items, each distinct and sorted: a name's place is the index of its factors."""

    topics: "pl.Series"
    items: "pl.Series"

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


def folds_within(topics: Indices, relevance: Array, folds: int, seed: int) -> Indices:
    """Return the fold of each pair, from 0; every topic begins at a random one. Draws depend on the pairs' order."""
    generator = np.random.default_rng(derive_seed("folds within topics", seed))
    order, place = _dealt(topics, relevance, generator)
    first = generator.integers(folds, size=int(topics.max(initial=-1)) + 1)
    fold = np.empty(len(order), np.int64)
    fold[order] = (place + first[topics[order]]) % folds
    return fold


def held_out_within(topics: Indices, items: Indices, relevance: Array, share: float, seed: int) -> Mask:
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


def _dealt(topics: Indices, relevance: Array, generator: np.random.Generator) -> tuple[Indices, Indices]:
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
