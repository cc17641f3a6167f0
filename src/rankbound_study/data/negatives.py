"""Negative sampling: a number of irrelevant items per relevant one, drawn once per user, fold and seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.seeds import derive_seed
from rankbound_study.data.folds import FOLDS
from rankbound_study.data.instances import SPLITS, FoldLists, lists_table

_TRAIN, _VALIDATION, _TEST = range(len(SPLITS))


@dataclass(frozen=True)
class RelevantPairs:
    """Relevant pairs sorted by topic, and then by item.

    Attributes:
        topic: number of the topic.
        item: dense index of the item, 0 .. item_count - 1.
        fold: the fold 1 .. 5 that tests on the pair, and in which it is; with `split`, the fold in which it is.
        item_count: number of items.
        split: the place in `SPLITS` of each pair in its fold, of which a pair may have several rows.
        topic_names: the topics' names by number, unless these are the numbers.
    """

    topic: npt.NDArray[np.int32]
    item: npt.NDArray[np.int64]
    fold: npt.NDArray[np.int8]
    item_count: int
    split: npt.NDArray[np.int8] | None = None
    topic_names: Sequence[str] | None = None

    @property
    def folds(self) -> list[int]:
        """The numbers of the folds."""
        return [*range(1, FOLDS + 1)] if self.split is None else np.unique(self.fold).tolist()

    def has_validation(self, fold: int) -> bool:
        """Return whether the fold has pairs for validation, which are otherwise drawn from the training pairs."""
        return self.split is not None and bool(((self.fold == fold) & (self.split == _VALIDATION)).any())

    def name(self, row: int) -> str | int:
        """Return what the topic of a row is called."""
        topic = int(self.topic[row])
        return topic if self.topic_names is None else self.topic_names[topic]

    def of_fold(self, rows: slice, fold: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]:
        """Return the items of a topic's rows that are in a fold, and their splits."""
        item, here = self.item[rows], self.fold[rows] == fold
        if self.split is None:
            return item, np.where(here, np.int8(_TEST), np.int8(_TRAIN))
        return item[here], self.split[rows][here]


@dataclass(frozen=True)
class Drawing:
    """The way to draw: `nsr` negatives per positive, the share of training positives for validation, the seed."""

    dataset: str
    nsr: int
    validation_share: float
    seed: int


def sampled_instances(pairs: RelevantPairs, drawing: Drawing) -> Iterator[FoldLists]:
    """Yield the lists of every fold and split: each user's positives of that split, and NSR times as many negatives.

    A user's negatives are drawn without replacement from all rated items that are not relevant to that user in any fold
    (low-rated ones included), so the splits share none. Where a fold has no pairs for validation, a share of each
    user's training pairs becomes them. Items are in ascending order within a list, which is independent of
    relevance. Raises DataError if a user has too few items to draw from.
    """
    starts = np.flatnonzero(np.diff(pairs.topic, prepend=pairs.topic[0] - 1))
    users = list(map(slice, starts.tolist(), [*starts[1:].tolist(), len(pairs.topic)]))
    for fold in pairs.folds:
        given = pairs.has_validation(fold)
        lists: dict[str, list[tuple[str, _List]]] = {split: [] for split in SPLITS}
        for rows in users:
            item, place = pairs.of_fold(rows, fold)
            if not len(item):
                continue
            topic = pairs.name(rows.start)
            positives = [item[place == split] for split in range(len(SPLITS))]
            if not given:
                positives[_TRAIN], positives[_VALIDATION] = _cut(positives[_TRAIN], topic, fold, drawing)
            drawn = _draw_user(topic, positives, pairs.item[rows], fold, pairs.item_count, drawing)
            for split, one in zip(SPLITS, drawn, strict=True):
                lists[split].append((str(topic), one))
        for split in SPLITS:
            yield fold, split, _flatten(lists[split])


_List = tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]


def _draw_user(
    topic: str | int,
    positives: Sequence[npt.NDArray[np.int64]],
    relevant: npt.NDArray[np.int64],
    fold: int,
    item_count: int,
    drawing: Drawing,
) -> list[_List]:
    """Return items and relevance of one user's training, validation and test list.

    `relevant` are the user's relevant items in all folds, none of which is drawn.
    """
    is_candidate = np.ones(item_count, dtype=bool)
    is_candidate[relevant] = False
    candidates = np.flatnonzero(is_candidate)
    count = sum(map(len, positives))
    needed = drawing.nsr * count
    if needed > len(candidates):
        raise DataError(
            f"{drawing.dataset}: user {topic} has {count} relevant items and needs {needed} negatives at NSR "
            f"{drawing.nsr}, but only {len(candidates)} of the {item_count} rated items are left: lower nsr"
        )
    seed = derive_seed("negatives", drawing.dataset, drawing.nsr, fold, drawing.seed, topic)
    negatives = np.random.default_rng(seed).choice(candidates, needed, replace=False)
    cuts = np.cumsum([drawing.nsr * len(part) for part in positives])
    return [_join(*both) for both in zip(positives, np.split(negatives, cuts[:-1]), strict=True)]


def _cut(
    positives: npt.NDArray[np.int64], topic: str | int, fold: int, drawing: Drawing
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
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


def _join(positives: npt.NDArray[np.int64], negatives: npt.NDArray[np.int64]) -> _List:
    items = np.concatenate((positives, negatives))
    relevance = np.zeros(len(items), dtype=np.int8)
    relevance[: len(positives)] = 1
    order = np.argsort(items)
    return items[order], relevance[order]


def _flatten(lists: list[tuple[str, _List]]) -> pa.Table:
    # A user without items in a split has no list there.
    kept = [(name, *one) for name, one in lists if len(one[0])]
    names, items, relevance = zip(*kept, strict=True) if kept else ((), (), ())
    ends = np.cumsum([0, *map(len, items)])
    none = np.empty(0, np.int64)
    return lists_table(names, np.concatenate([none, *items]), np.concatenate([none, *relevance]).astype(np.int8), ends)
