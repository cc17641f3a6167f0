"""The lists of ratings: each user's relevant items of a part beside irrelevant ones, chosen once per fold and seed.

The irrelevant items are drawn at random, uniformly or by popularity, or are the user's own, or all.
"""

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import FULL, OWN, PLAIN, UNIFORM, Sampling
from rankbound_study.data.contracts import FOLDS, LARGEST_PART, SPLITS, FoldLists, lists_table

Items = npt.NDArray[np.int64]

TRAIN, VALIDATION, TEST = range(len(SPLITS))  # places in `SPLITS`


@dataclass(frozen=True)
class Ratings:
    """All ratings of a data set, of any value, sorted by topic: topic id, and dense item index."""

    topic: npt.NDArray[np.int32]
    item: Items


@dataclass(frozen=True)
class RelevantPairs:
    """Relevant pairs sorted by topic, and then by item.

    Attributes:
        topic: number of the topic.
        item: dense index of the item, 0 .. item_count - 1.
        fold: the fold that tests on the pair, of 1 .. 5 or, if pairs are split several times, of each five more, when
            a pair has a row for each time; with `split`, the fold in which it is.
        item_count: number of items.
        split: the place in `SPLITS` of each pair in its fold, of which a pair may have several rows.
        topic_names: the topics' names by number, unless these are the numbers.
        ratings: all ratings, which draws by popularity and ratio 0 need.
    """

    topic: npt.NDArray[np.int32]
    item: Items
    fold: npt.NDArray[np.int8]
    item_count: int
    split: npt.NDArray[np.int8] | None = None
    topic_names: Sequence[str] | None = None
    ratings: Ratings = Ratings(np.empty(0, np.int32), np.empty(0, np.int64))

    @cached_property
    def popularity(self) -> Items:
        """The number of ratings of each item."""
        return np.bincount(self.ratings.item, minlength=self.item_count)

    @property
    def folds(self) -> list[int]:
        """The numbers of the folds."""
        return [*range(1, self.repeats * FOLDS + 1)] if self.split is None else np.unique(self.fold).tolist()

    @property
    def repeats(self) -> int:
        """The number of times that the pairs are split into folds."""
        return 1 if self.split is not None else -(-int(self.fold.max()) // FOLDS)

    def name(self, row: int) -> str | int:
        """Return what the topic of a row is called."""
        topic = int(self.topic[row])
        return topic if self.topic_names is None else self.topic_names[topic]

    def of_fold(self, rows: slice, fold: int) -> tuple[Items, npt.NDArray[np.int8]]:
        """Return the items of a topic's rows that are in a fold, and their splits."""
        item, folds = self.item[rows], self.fold[rows]
        here = folds == fold
        if self.split is None:
            same_time = (folds - 1) // FOLDS == (fold - 1) // FOLDS
            return item[same_time], np.where(here[same_time], np.int8(TEST), np.int8(TRAIN))
        return item[here], self.split[rows][here]


@dataclass(frozen=True)
class Drawing:
    """The way to draw.

    Attributes:
        dataset: the ratings' data set.
        nsr: negatives per positive; several ratios, of which each user has one at random; 0 for the user's own rated
            items that are not relevant; None without draws.
        validation_share: the share of training positives for validation.
        seed: of all draws.
        sampling: how negatives are chosen.
    """

    dataset: str
    nsr: int | tuple[int, ...] | None
    validation_share: float
    seed: int
    sampling: Sampling = PLAIN


def sampled_instances(
    pairs: RelevantPairs, drawing: Drawing, left_out: MutableMapping[str, int] | None = None
) -> Iterator[FoldLists]:
    """Yield the lists of every fold and split: each user's positives of that split, and negatives (`negatives_of`).

    Negatives are drawn without replacement, NSR times as many as positives, so the splits share none; whole catalogues
    have all of them in every split. Where a fold has no pairs for validation, a share of each user's training pairs
    becomes them. Items are in ascending order within a list, which is independent of relevance. Lists without own
    negatives are left out, and counted in `left_out["lists"]`. Raises DataError if a user has too few items to draw
    from, or if whole catalogues are too large for a file.
    """
    starts = np.flatnonzero(np.diff(pairs.topic, prepend=pairs.topic[0] - 1))
    users = list(map(slice, starts.tolist(), [*starts[1:].tolist(), len(pairs.topic)]))
    largest = len(users) * pairs.item_count
    if FULL in drawing.sampling and largest > LARGEST_PART:
        raise DataError(
            f"{drawing.dataset}: lists of all {pairs.item_count:,} items for {len(users):,} users would have "
            f"{largest:,} items in a part, and a file holds {LARGEST_PART:,}: sample negatives (uniform or "
            "popularity), or raise min_relevant"
        )
    for fold in pairs.folds:
        # Pairs for validation are otherwise drawn from the training pairs.
        given = pairs.split is not None and ((pairs.fold == fold) & (pairs.split == VALIDATION)).any()
        lists: dict[str, list[tuple[str, Items, npt.NDArray[np.int8]]]] = {split: [] for split in SPLITS}
        for rows in users:
            item, place = pairs.of_fold(rows, fold)
            if not len(item):
                continue
            topic = pairs.name(rows.start)
            positives = [item[place == split] for split in range(len(SPLITS))]
            if not given:
                positives[TRAIN], positives[VALIDATION] = _cut(positives[TRAIN], topic, fold, drawing)
            negatives = negatives_of(rows, list(map(len, positives)), fold, pairs, drawing)
            for split, *both in zip(SPLITS, positives, negatives, strict=True):
                items = np.concatenate(both)
                if drawing.nsr == OWN and len(both[0]) == len(items) and left_out is not None:
                    left_out["lists"] += bool(len(items))
                # A user without items in a split has no list there.
                elif len(items):
                    order = np.argsort(items)
                    lists[split].append((str(topic), items[order], (order < len(both[0])).astype(np.int8)))
        for split in SPLITS:
            # Lists of whole catalogues are not kept beside their table.
            names, every, relevance = zip(*lists.pop(split), strict=True) if lists[split] else ((), (), ())
            flat, grades = np.concatenate([_NONE, *every]), np.concatenate([_NONE, *relevance]).astype(np.int8)
            yield fold, split, lists_table(names, flat, grades, np.cumsum([0, *map(len, every)]))


def _cut(positives: Items, topic: str | int, fold: int, drawing: Drawing) -> tuple[Items, Items]:
    """Return training and validation positives, the same at every NSR: the seed does not depend on it."""
    count = max(1, round(drawing.validation_share * len(positives))) if drawing.validation_share > 0 else 0
    if count >= len(positives):
        raise DataError(
            f"{drawing.dataset}: user {topic} has {len(positives)} training positives in fold {fold}, and "
            f"validation would take {count}: lower validation_share or raise min_relevant"
        )
    seed = derive_seed("validation", drawing.dataset, fold, drawing.seed, topic)
    shuffled = np.random.default_rng(seed).permutation(positives)
    return shuffled[count:], shuffled[:count]


def negatives_of(rows: slice, counts: Sequence[int], fold: int, pairs: RelevantPairs, drawing: Drawing) -> list[Items]:
    """Return the irrelevant items of one user's training, validation and test list.

    Candidates are all rated items that are not relevant to the user in any fold, low-rated ones included. The seeds of
    draws depend on data set, ratio, fold, seed and user; a user of several ratios has the lists of the drawn one.

    Args:
        rows: the rows of the user among the pairs.
        counts: the numbers of relevant items in the three lists.
        fold, pairs, drawing: as in `sampled_instances`.

    Raises:
        DataError: the user has too few candidates.
    """
    user, relevant, ratio = pairs.name(rows.start), pairs.item[rows], drawing.nsr or OWN
    if isinstance(ratio, tuple):
        # The same in all folds.
        seed = derive_seed("ratio", drawing.dataset, *ratio, drawing.seed, user)
        ratio = int(np.random.default_rng(seed).choice(ratio))

    def random(*purpose: str) -> np.random.Generator:
        return np.random.default_rng(derive_seed(*purpose, drawing.dataset, ratio, fold, drawing.seed, user))

    if drawing.nsr == OWN:
        # Dealt to the lists in proportion to their relevant items.
        topic, ratings = int(pairs.topic[rows.start]), pairs.ratings
        start, stop = np.searchsorted(ratings.topic, (topic, topic + 1)).tolist()
        own = np.setdiff1d(ratings.item[start:stop], relevant)
        ends = np.rint(len(own) * np.cumsum(counts) / sum(counts)).astype(np.int64)
        return np.split(random("negatives").permutation(own), ends[:-1])
    relevant = np.unique(relevant)
    if drawing.nsr is None:
        others = np.delete(np.arange(pairs.item_count), relevant)
        return [others if count else _NONE for count in counts]
    count = pairs.item_count - len(relevant)
    needed = [ratio * count for count in counts]
    if sum(needed) > count:
        raise DataError(
            f"{drawing.dataset}: user {user} has {sum(counts)} relevant items and needs {sum(needed)} negatives "
            f"at NSR {ratio}, but only {count} of the {pairs.item_count} rated items are left: lower nsr"
        )
    if drawing.sampling == PLAIN:
        places = random("negatives").choice(count, sum(needed), replace=False)
        return np.split(other_items(places, relevant), np.cumsum(needed)[:-1])

    def drawn(sampling: str, purpose: str, candidates: Items, needed: Sequence[int]) -> list[Items]:
        """Return so many of the candidates for each list, without replacement."""
        if sampling == UNIFORM:
            items = random(purpose).choice(candidates, sum(needed), replace=False)
        else:
            generator = random(purpose, sampling)
            chosen = weighted_draw(generator, pairs.popularity[candidates], sum(needed))
            # In random order: the first ones drawn are the more popular, and would all be in one part.
            items = generator.permutation(candidates[chosen])
        return np.split(items, np.cumsum(needed)[:-1])

    train, test = drawing.sampling
    candidates = np.delete(np.arange(pairs.item_count), relevant)
    lists = drawn(train, "negatives", candidates, needed)
    if test == FULL:
        # A user without relevant items in a part has no list there.
        lists[-1] = candidates if counts[-1] else _NONE
    elif test != train:
        left = np.setdiff1d(candidates, np.concatenate(lists[:-1]), assume_unique=True)
        lists[-1:] = drawn(test, "test-negatives", left, needed[-1:])
    return lists


_NONE = np.empty(0, np.int64)


def other_items(places: Items, relevant: Items) -> Items:
    """Return the items at these places among those that are not in `relevant`, which ascend.

    The time does not depend on the number of items.
    """
    # Before the k-th relevant item lie as many others as it has smaller items, less k.
    before = relevant - np.arange(len(relevant))
    items: Items = places + np.searchsorted(before, places, side="right")
    return items


def weighted_draw(random: np.random.Generator, weights: npt.NDArray[np.int64], count: int) -> Items:
    r"""Return the ascending places of `count` items, drawn one after another without replacement.

    Each draw takes one of the remaining items with probability proportional to its weight. These are the items with the
    smallest keys $E_i / w_i$, where the $E_i$ are independent standard exponentials (Efraimidis and Spirakis,
    Information Processing Letters 97, 2006). An item without weight is never drawn before one with weight.
    """
    with np.errstate(divide="ignore"):
        keys = random.standard_exponential(len(weights)) / weights
    if count >= len(weights):
        return np.arange(len(weights))
    # Sorted, because the order within the smallest depends on the processor.
    return np.sort(np.argpartition(keys, count)[:count])
