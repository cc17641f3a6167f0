"""The lists of ratings: each user's relevant items of a part beside irrelevant ones, drawn once per fold and seed."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankbound.errors import DataError
from rankbound.texts import derive_seed
from rankbound_study.config.samplings import FULL
from rankbound_study.data.draws import TRAIN, VALIDATION, Drawing, RelevantPairs, negatives_of
from rankbound_study.data.instances import LARGEST_PART, SPLITS, FoldLists, lists_table


def sampled_instances(pairs: RelevantPairs, drawing: Drawing) -> Iterator[FoldLists]:
    """Yield the lists of every fold and split: each user's positives of that split, and negatives (`negatives_of`).

    Negatives are drawn without replacement, NSR times as many as positives, so the splits share none; whole catalogues
    have all of them in every split. Where a fold has no pairs for validation, a share of each user's training pairs
    becomes them. Items are in ascending order within a list, which is independent of relevance. Raises DataError if a
    user has too few items to draw from, or if whole catalogues are too large for a file.
    """
    _require_space(pairs, drawing)
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
                positives[TRAIN], positives[VALIDATION] = _cut(positives[TRAIN], topic, fold, drawing)
            negatives = negatives_of(rows, list(map(len, positives)), fold, pairs, drawing)
            drawn = [_join(*both) for both in zip(positives, negatives, strict=True)]
            for split, one in zip(SPLITS, drawn, strict=True):
                lists[split].append((str(topic), one))
        for split in SPLITS:
            # Lists of whole catalogues are not kept beside their table.
            yield fold, split, _flatten(lists.pop(split))


def _require_space(pairs: RelevantPairs, drawing: Drawing) -> None:
    users = len(np.unique(pairs.topic))
    if FULL in drawing.sampling and users * pairs.item_count > LARGEST_PART:
        raise DataError(
            f"{drawing.dataset}: lists of all {pairs.item_count:,} items for {users:,} users would have "
            f"{users * pairs.item_count:,} items in a part, and a file holds {LARGEST_PART:,}: sample negatives "
            "(uniform or popularity), or raise min_relevant"
        )


_List = tuple[npt.NDArray[np.int64], npt.NDArray[np.int8]]


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
