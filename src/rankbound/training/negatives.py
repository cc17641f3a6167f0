"""Draw negatives: items that a topic's list lacks, as items without relevance."""

import numpy as np
import numpy.typing as npt

from rankbound.io.judged import JudgedLists
from rankbound.seeds import Indices, derive_seed
from rankbound.training.vocabulary import Vocabulary

DENSE = 0.5
"""Share of all items from which the rest is listed, since few draws would be new."""


def with_negatives(lists: JudgedLists, per_relevant: int, seed: int) -> JudgedLists:
    """Return the lists, each followed by `per_relevant` drawn items for each of its relevant items.

    The items are drawn from all items of the lists but the topic's own, uniformly and without replacement; all of them
    if they are fewer. Draws depend on names and `seed` alone, not on the order of rows. Features are left out.
    """
    import polars as pl

    from rankbound.io.table_columns import name_column

    vocabulary = Vocabulary.of_lists(lists)
    topic_of_list, items = vocabulary.indices(lists)
    topics = np.repeat(topic_of_list, np.diff(lists.offsets))
    shape = len(vocabulary.topics), len(vocabulary.items)
    relevant = np.bincount(topics, lists.relevance > 0, minlength=shape[0]).astype(np.int64)
    codes = _drawn(topics * shape[1] + items, per_relevant * relevant, shape, seed)
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
    known = np.sort(known)
    sizes = np.bincount(known // n_items, minlength=n_topics)
    wanted = np.minimum(wanted, n_items - sizes)
    dense = sizes + wanted > DENSE * n_items
    listed = [
        _of_the_rest(known, topic, int(wanted[topic]), n_items, generator) for topic in np.flatnonzero(dense).tolist()
    ]
    sparse = np.where(dense, 0, wanted)
    drawn = np.empty(0, np.int64)
    while len(lacking := np.repeat(np.arange(n_topics), sparse - np.bincount(drawn // n_items, minlength=n_topics))):
        codes = lacking * n_items + generator.integers(n_items, size=len(lacking))
        drawn = _distinct(np.concatenate([drawn, codes[~_are_in(codes, known)]]))
    return np.sort(np.concatenate([drawn, *listed]))


def _distinct(codes: Indices) -> Indices:
    """Return distinct codes, which are not negative, sorted; NumPy's own way by hashes takes minutes for such codes."""
    codes = np.sort(codes)
    return codes[np.diff(codes, prepend=-1) > 0]


def _of_the_rest(known: Indices, topic: int, count: int, n_items: int, generator: np.random.Generator) -> Indices:
    start, stop = np.searchsorted(known, [topic * n_items, (topic + 1) * n_items])
    rest = np.delete(np.arange(n_items), known[start:stop] - topic * n_items)
    return topic * n_items + generator.permutation(rest)[:count]


def _are_in(codes: Indices, known: Indices) -> npt.NDArray[np.bool_]:
    """Return a mask of the codes that are among the known ones, which are sorted."""
    place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    found: npt.NDArray[np.bool_] = known[place] == codes
    return found
