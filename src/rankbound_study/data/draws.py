"""Choose the irrelevant items of a user's lists: some at random, the user's own, or all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.texts import derive_seed
from rankbound_study.config.samplings import FULL, OWN, PLAIN, UNIFORM, Sampling
from rankbound_study.data.folds import FOLDS
from rankbound_study.data.instances import SPLITS

Items = npt.NDArray[np.int64]

TRAIN, VALIDATION, TEST = range(len(SPLITS))
"""Places in `SPLITS`."""


@dataclass(frozen=True)
class Ratings:
    """All ratings of a data set, of any value, sorted by topic: topic id, and dense item index."""

    topic: npt.NDArray[np.int32]
    item: Items

    def items_of(self, topic: int) -> Items:
        """Return the items that a topic rated."""
        start, stop = np.searchsorted(self.topic, (topic, topic + 1)).tolist()
        return self.item[start:stop]


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

    def has_validation(self, fold: int) -> bool:
        """Return whether the fold has pairs for validation, which are otherwise drawn from the training pairs."""
        return self.split is not None and bool(((self.fold == fold) & (self.split == VALIDATION)).any())

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
    draw, relevant = _Draw(pairs.name(rows.start), fold, pairs, drawing), pairs.item[rows]
    if drawing.nsr == OWN:
        return _own(draw, int(pairs.topic[rows.start]), relevant, counts)
    others = _Others(np.unique(relevant), pairs.item_count)
    if drawing.nsr is None:
        return [_all(others.all(), count) for count in counts]
    needed = [draw.ratio * count for count in counts]
    if sum(needed) > len(others):
        raise DataError(
            f"{drawing.dataset}: user {draw.user} has {sum(counts)} relevant items and needs {sum(needed)} negatives "
            f"at NSR {draw.ratio}, but only {len(others)} of the {pairs.item_count} rated items are left: lower nsr"
        )
    if drawing.sampling == PLAIN:
        places = draw.random("negatives").choice(len(others), sum(needed), replace=False)
        return _dealt(others.at(places), needed)
    train, test = drawing.sampling
    candidates = others.all()
    drawn = _drawn(draw, train, "negatives", candidates, needed)
    if test == FULL:
        drawn[-1] = _all(candidates, counts[-1])
    elif test != train:
        left = np.setdiff1d(candidates, np.concatenate(drawn[:-1]), assume_unique=True)
        drawn[-1:] = _drawn(draw, test, "test-negatives", left, needed[-1:])
    return drawn


@dataclass(frozen=True)
class _Others:
    """The items that are not relevant to a user, ascending.

    Attributes:
        relevant: the relevant items, ascending.
        item_count: number of items.
    """

    relevant: Items
    item_count: int

    def __len__(self) -> int:
        return self.item_count - len(self.relevant)

    def at(self, places: Items) -> Items:
        """Return those at these places, in time that does not depend on the number of items."""
        # Before the k-th relevant item lie as many others as it has smaller items, less k.
        before = self.relevant - np.arange(len(self.relevant))
        items: Items = places + np.searchsorted(before, places, side="right")
        return items

    def all(self) -> Items:
        """Return all of them."""
        is_other = np.ones(self.item_count, dtype=bool)
        is_other[self.relevant] = False
        return np.flatnonzero(is_other)


@dataclass(frozen=True)
class _Draw:
    """The draws of one user in one fold."""

    user: str | int
    fold: int
    pairs: RelevantPairs
    drawing: Drawing

    @property
    def ratio(self) -> int:
        """The user's ratio; one of several is the same in all folds."""
        nsr = self.drawing.nsr
        if isinstance(nsr, tuple):
            seed = derive_seed("ratio", self.drawing.dataset, *nsr, self.drawing.seed, self.user)
            return int(np.random.default_rng(seed).choice(nsr))
        return nsr or OWN

    def random(self, *purpose: str) -> np.random.Generator:
        """Return the generator of the draws for a purpose."""
        drawing = self.drawing
        return np.random.default_rng(
            derive_seed(*purpose, drawing.dataset, self.ratio, self.fold, drawing.seed, self.user)
        )


def _all(candidates: Items, count: int) -> Items:
    """Return all candidates for a list with relevant items: a user without any in a part has no list there."""
    return candidates if count else candidates[:0]


def _drawn(draw: _Draw, sampling: str, purpose: str, candidates: Items, needed: Sequence[int]) -> list[Items]:
    """Return so many of the candidates for each list, without replacement."""
    if sampling == UNIFORM:
        drawn = draw.random(purpose).choice(candidates, sum(needed), replace=False)
    else:
        random = draw.random(purpose, sampling)
        chosen = weighted_draw(random, draw.pairs.popularity[candidates], sum(needed))
        # In random order: the first ones drawn are the more popular, and would all be in one part.
        drawn = random.permutation(candidates[chosen])
    return _dealt(drawn, needed)


def _dealt(items: Items, counts: Sequence[int]) -> list[Items]:
    """Return so many of the items for each list, in their order."""
    ends = [0, *accumulate(counts)]
    return [items[start:stop] for start, stop in pairwise(ends)]


def _own(draw: _Draw, topic: int, relevant: Items, counts: Sequence[int]) -> list[Items]:
    """Return the user's rated items that are not relevant, dealt to the lists in proportion to their relevant items."""
    own = np.setdiff1d(draw.pairs.ratings.items_of(topic), relevant)
    ends = np.rint(len(own) * np.cumsum(counts) / sum(counts)).astype(np.int64)
    return np.split(draw.random("negatives").permutation(own), ends[:-1])


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
