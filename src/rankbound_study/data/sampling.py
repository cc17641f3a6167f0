"""Make a file of instances, the lists that training reads, from data and folds: the step `sample`.

Judged lists are taken whole. Of ratings, a list has a user's relevant items of a part beside irrelevant ones, chosen
once per fold and seed: drawn at random, uniformly or by popularity, the user's own, or all. Of faces, pairs are drawn,
of which the older face is relevant.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.errors import ConfigError, DataError
from rankbound.io.ragged import rows_of_lists
from rankbound.texts import derive_seed, quantity
from rankbound_study.config.data_sets import FULL, GRADED, OWN, PLAIN, UNIFORM, Sampling, sampled_name
from rankbound_study.data.contracts import (
    DATASET_KEY,
    FOLDS,
    ITEM_COUNT_KEY,
    ITEM_NAMES_KEY,
    LARGEST_PART,
    LEFT_OUT_KEY,
    OPTIONS_KEY,
    PARTS_KEY,
    REPEATS_KEY,
    SPLITS,
    SYNTHETIC_KEY,
    TOPIC_NAMES_KEY,
    TOPICS_KEY,
    FoldLists,
    contract_of,
    list_to_numpy,
    lists_table,
    open_writer,
    read_metadata,
    read_table,
    with_key,
)
from rankbound_study.data.images import read_faces
from rankbound_study.data.splits import digest_of, read_image_folds

Path = str | os.PathLike[str]
Integers = npt.NDArray[np.int64]

TRAIN, VALIDATION, TEST = range(len(SPLITS))  # places in `SPLITS`
_NONE = np.empty(0, np.int64)

LARGEST_GRADE = 108
"""The largest label that is read as a grade: sums of larger gains 2^y - 1 may exceed single precision."""

_CHOICES = 8  # number of candidate partners: more make the selection more even
_ROUNDS_PER_FACE = 8  # maximal number of rounds per face


def write_instances(
    out: Path,
    dataset: str,
    nsr: int | None,
    parts: Iterable[FoldLists],
    *,
    item_count: int,
    item_names: Sequence[Any] | None = None,
    origin: Mapping[str, str] | None = None,
    left_out: Mapping[str, int] | None = None,
) -> None:
    """Write the lists of all folds and splits as they come, one row group each.

    `origin` is that of the data (see `origin_of`); `left_out` counts what is not written, until the last part came.
    """
    names = {} if item_names is None else {ITEM_NAMES_KEY: json.dumps(list(item_names))}
    notes = {**(origin or {}), **names, ITEM_COUNT_KEY: str(item_count), DATASET_KEY: dataset}
    with open_writer(out, "instances", notes) as write:
        for fold, split, lists in parts:
            key = {"dataset": dataset, "nsr": nsr, "fold": fold, "split": split}
            write(with_key(key, dict(zip(lists.column_names, lists.columns, strict=True)), "instances", len(lists)))
        if left_out:
            write.note(LEFT_OUT_KEY, json.dumps(dict(left_out), sort_keys=True))


def origin_of(data: Path, contract: str, dataset: str) -> dict[str, str]:
    """Return how a file of data was generated, if it was; ConfigError if the data set's name does not say so."""
    origin = {key: value for key, value in read_metadata(data, contract).items() if key == SYNTHETIC_KEY}
    if origin and not dataset.startswith("synthetic-"):
        raise ConfigError(f"{data} is synthetic, so its data set cannot be named {dataset!r}: name it synthetic-...")
    return origin


def sample_lists(lists: Path, folds: Path, out: Path, *, dataset: str, threshold: int | None) -> None:
    """Write whole judged lists, relevant from `threshold` on; without one, the labels are the relevance.

    Each reading makes another data set, `mq2008-label2` or `mq2008-graded` of the `dataset` `mq2008`. Items are row
    indices of `lists`. Lists without relevant items are kept; metrics and the trainer handle them. Raises DataError if
    the folds do not have the same topics in the same order, or if no list, or none of a fold's training part, has items
    of different relevance.
    """
    table = read_table(lists, "lists", ["topic", "relevance"])
    splits = read_table(folds, "list-splits")
    names = table.column("topic").to_pylist()
    if read_metadata(folds, "list-splits").get(TOPICS_KEY) != digest_of(names):
        raise DataError(f"{folds}: its topics are not those of {lists}, in the same order; make the folds anew")
    offsets, labels = list_to_numpy(table.column("relevance"))
    relevance = labels if threshold is None else (labels >= threshold).astype(np.int8)
    if not _is_informative(offsets, relevance):
        if (np.diff(offsets) <= 1).all():
            raise DataError(f"{lists}: every topic has a single item, so that there is nothing to rank; expected lists")
        reading = "" if threshold is None else f" at the threshold {threshold}"
        raise DataError(
            f"{lists}: in no list is an item more relevant than another{reading}; the labels are {labels.min()} .. "
            f"{labels.max()}: check which column or field holds them, and thresholds"
        )
    if threshold is None and labels.max() > LARGEST_GRADE:
        raise DataError(
            f"{lists}: the labels are {labels.min()} .. {labels.max()}, grades at most {LARGEST_GRADE}, because "
            "their gain is 2^y - 1: set a threshold of relevant labels, or write fewer grades"
        )
    of_fold, of_split = (np.array(splits.column(name).to_pylist()) for name in ("fold", "split"))
    rows = splits.column("list").to_numpy().astype(np.int64)

    def parts() -> Iterator[FoldLists]:
        for fold in np.unique(of_fold).tolist():
            for split in SPLITS:
                chosen = rows[(of_fold == fold) & (of_split == split)]
                items, ends = rows_of_lists(offsets, chosen)
                if split == "train" and not _is_informative(ends, relevance[items]):
                    raise DataError(
                        f"{lists}: in none of the {quantity(len(chosen), 'training list')} of fold {fold} is an item "
                        "more relevant than another, so that nothing can be trained: check the files of the folds, or "
                        "choose other thresholds or fewer parts"
                    )
                yield fold, split, lists_table([names[row] for row in chosen.tolist()], items, relevance[items], ends)

    name, origin = GRADED if threshold is None else f"label{threshold}", origin_of(lists, "lists", dataset)
    write_instances(out, f"{dataset}-{name}", None, parts(), item_count=len(labels), origin=origin)


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
        rated: the topics and items of all ratings, of any value, sorted by topic; draws by popularity and ratio 0 need
            them.
    """

    topic: npt.NDArray[np.int32]
    item: Integers
    fold: npt.NDArray[np.int8]
    item_count: int
    split: npt.NDArray[np.int8] | None = None
    topic_names: Sequence[str] | None = None
    rated: tuple[npt.NDArray[np.int32], Integers] = (np.empty(0, np.int32), np.empty(0, np.int64))

    @cached_property
    def popularity(self) -> Integers:
        """The number of ratings of each item."""
        return np.bincount(self.rated[1], minlength=self.item_count)

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

    def own_negatives(self, rows: slice) -> Integers:
        """Return the items that the topic of these rows rated, but that are not relevant to it in any fold."""
        topics, items = self.rated
        start, stop = (np.searchsorted(topics, self.topic[rows.start], side) for side in ("left", "right"))
        return np.setdiff1d(items[start:stop], self.item[rows])

    def of_fold(self, rows: slice, fold: int) -> tuple[Integers, npt.NDArray[np.int8]]:
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


def sample_interactions(
    interactions: Path, folds: Path, out: Path, *, drawing: Drawing, checked: dict[str, float]
) -> dict[str, int]:
    """Write instances with sampled negatives; `checked` options must be those that the folds were made with.

    Returns:
        The numbers of `users` and `lists` that were left out because they have no irrelevant item (ratio 0 alone).
    """
    contract = contract_of(folds, ("interaction-folds", "interaction-splits"))
    made_with = json.loads(read_metadata(folds, contract).get(OPTIONS_KEY, "{}"))
    for key, value in checked.items():
        if made_with.get(key) != value:
            raise DataError(
                f"{folds}: the folds were made with {key} {made_with.get(key)}, but the options have {value}: "
                "make the folds anew"
            )
    metadata = read_metadata(interactions, "interactions")
    table = read_table(interactions, "interactions", ["topic", "item"])
    topic, item = (table.column(name).to_numpy() for name in ("topic", "item"))
    if PARTS_KEY in metadata:
        # Files of folds may repeat some ratings.
        distinct = np.unique((topic.astype(np.int64) << 32) + item)
        topic, item = (distinct >> 32).astype(np.int32), (distinct & (2**32 - 1)).astype(np.int32)
    ids, places = np.unique(item, return_inverse=True)
    order = np.argsort(topic, kind="stable")
    rated = topic[order], places[order]
    item_names = json.loads(metadata[ITEM_NAMES_KEY]) if ITEM_NAMES_KEY in metadata else ids.tolist()
    topic_names = json.loads(metadata[TOPIC_NAMES_KEY]) if TOPIC_NAMES_KEY in metadata else None
    table = read_table(folds, contract).sort_by([("topic", "ascending"), ("item", "ascending")])
    topic, item, fold = (table.column(name).to_numpy() for name in ("topic", "item", "fold"))
    if not len(topic) or not np.isin(item, ids).all():
        raise DataError(f"{folds}: empty, or with items missing from {interactions}; make the folds anew")
    split = None
    if contract == "interaction-splits":
        parts_of = pc.index_in(table.column("split"), pa.array(SPLITS))
        if parts_of.null_count:
            raise DataError(f"{folds}: column 'split' has other names than {', '.join(SPLITS)}; make the folds anew")
        split = parts_of.to_numpy().astype(np.int8)
    pairs = RelevantPairs(topic, np.searchsorted(ids, item), fold, len(ids), split, topic_names, rated)
    left_out: dict[str, int] = {}
    parts = sampled_instances(pairs, drawing, left_out)
    name, nsr = sampled_name(drawing.dataset, drawing.sampling, drawing.nsr)
    origin = origin_of(interactions, "interactions", drawing.dataset)
    origin |= {REPEATS_KEY: str(pairs.repeats)} if pairs.repeats > 1 else {}
    write_instances(out, name, nsr, parts, item_count=len(ids), item_names=item_names, origin=origin, left_out=left_out)
    return left_out


def sampled_instances(
    pairs: RelevantPairs, drawing: Drawing, left_out: MutableMapping[str, int] | None = None
) -> Iterator[FoldLists]:
    """Yield the lists of every fold and split: each user's positives of that split, and negatives (`negatives_of`).

    Negatives are drawn without replacement, NSR times as many as positives, so the splits share none; whole catalogues
    have all of them in every split. Where a fold has no pairs for validation, a share of each user's training pairs
    becomes them. Items are in ascending order within a list, which is independent of relevance. Users without own
    negatives, and lists of others, are left out; `left_out` counts them as `users` and `lists`. Raises DataError if a
    user has too few items to draw from, or if whole catalogues are too large for a file.
    """
    left_out = {} if left_out is None else left_out
    starts = np.flatnonzero(np.diff(pairs.topic, prepend=pairs.topic[0] - 1))
    users = list(map(slice, starts.tolist(), [*starts[1:].tolist(), len(pairs.topic)]))
    largest = len(users) * pairs.item_count
    if FULL in drawing.sampling and largest > LARGEST_PART:
        raise DataError(
            f"{drawing.dataset}: lists of all {pairs.item_count:,} items for {len(users):,} users would have "
            f"{largest:,} items in a part, and a file holds {LARGEST_PART:,}: sample negatives (uniform or "
            "popularity), or raise min_relevant"
        )
    if drawing.nsr == OWN:
        kept = [rows for rows in users if len(pairs.own_negatives(rows))]
        if not kept:
            raise DataError(
                f"{drawing.dataset}: no user rated an item below the threshold, so there are no negatives at ratio "
                f"{OWN}: draw some"
            )
        left_out["users"], left_out["lists"], users = len(users) - len(kept), 0, kept
    for fold in pairs.folds:
        # Pairs for validation are otherwise drawn from the training pairs.
        given = pairs.split is not None and ((pairs.fold == fold) & (pairs.split == VALIDATION)).any()
        lists: dict[str, list[tuple[str, Integers, npt.NDArray[np.int8]]]] = {split: [] for split in SPLITS}
        for rows in users:
            item, place = pairs.of_fold(rows, fold)
            if not len(item):
                continue
            topic = pairs.name(rows.start)
            positives = [item[place == split] for split in range(len(SPLITS))]
            if not given:
                known, share = positives[TRAIN], drawing.validation_share
                count = max(1, round(share * len(known))) if share > 0 else 0
                if count >= len(known):
                    raise DataError(
                        f"{drawing.dataset}: user {topic} has {len(known)} training positives in fold {fold}, and "
                        f"validation would take {count}: lower validation_share or raise min_relevant"
                    )
                # The same at every NSR: the seed does not depend on it.
                seed = derive_seed("validation", drawing.dataset, fold, drawing.seed, topic)
                shuffled = np.random.default_rng(seed).permutation(known)
                positives[TRAIN], positives[VALIDATION] = shuffled[count:], shuffled[:count]
            negatives = negatives_of(rows, list(map(len, positives)), fold, pairs, drawing)
            for split, *both in zip(SPLITS, positives, negatives, strict=True):
                items = np.concatenate(both)
                if drawing.nsr == OWN and len(both[0]) == len(items):
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


def negatives_of(
    rows: slice, counts: Sequence[int], fold: int, pairs: RelevantPairs, drawing: Drawing
) -> list[Integers]:
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
        own = pairs.own_negatives(rows)
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
        # By their places among all candidates, so that the time does not depend on the number of items. Before the k-th
        # relevant item lie as many candidates as it has smaller items, less k.
        places = random("negatives").choice(count, sum(needed), replace=False)
        before = np.searchsorted(relevant - np.arange(len(relevant)), places, side="right")
        return np.split(places + before, np.cumsum(needed)[:-1])

    def drawn(sampling: str, purpose: str, candidates: Integers, needed: Sequence[int]) -> list[Integers]:
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


def weighted_draw(random: np.random.Generator, weights: npt.NDArray[np.int64], count: int) -> Integers:
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


def _is_informative(offsets: npt.NDArray[Any], relevance: npt.NDArray[np.int8]) -> bool:
    """Return whether some list has items of different relevance."""
    list_of_item = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return bool(((np.diff(relevance) != 0) & (np.diff(list_of_item) == 0)).any())


def sample_pairs(
    images: Path, folds: Path, out: Path, dataset: str, *, pairs: Mapping[str, int], above: int, seed: int
) -> None:
    """Write the pairs of every fold and part as instances: topics named by both faces, items rows of `images`.

    Relevance is 1 for the older face and 0 for the younger one. `pairs` is the number of pairs by split; ages differ by
    more than `above` years. Raises DataError if near duplicates are in two parts, or if a part has too few pairs to
    draw from.
    """
    for split in SPLITS:
        if pairs[split] < 1:
            raise ConfigError(f"{split}_pairs is {pairs[split]}: expected 1 or more, an empty set trains nothing")
    if above < 0:
        raise ConfigError(f"above is {above}: expected 0 years or more")
    origin = origin_of(images, "images", dataset)
    faces = read_faces(images)
    part_of_fold = read_image_folds(folds, faces)

    def parts() -> Iterator[FoldLists]:
        for fold, part in part_of_fold.items():
            for index, split in enumerate(SPLITS):
                rows = np.flatnonzero(part == index)
                random = np.random.default_rng(derive_seed("face-pairs", dataset, split, fold, seed, above))
                try:
                    drawn = rows[draw_pairs(faces.ages[rows], faces.groups[rows], pairs[split], above, random)]
                except DataError as error:
                    raise DataError(f"{dataset}, fold {fold}, {split}: {error}") from error
                older = (faces.ages[drawn] == faces.ages[drawn].max(1, keepdims=True)).astype(np.int8)
                names = [f"{faces.names[first]} {faces.names[second]}" for first, second in drawn.tolist()]
                offsets = 2 * np.arange(len(drawn) + 1)
                yield fold, split, lists_table(names, drawn.reshape(-1), older.reshape(-1), offsets)

    write_instances(out, dataset, None, parts(), item_count=len(faces), item_names=faces.names, origin=origin)


def draw_pairs(
    ages: npt.NDArray[np.int8], groups: npt.NDArray[np.int32], count: int, above: int, random: np.random.Generator
) -> Integers:
    """Draw `count` distinct pairs of faces `(count, 2)` whose ages differ by more than `above` years.

    "Evenly selected" (Li and Wu section 5) is read as: every face about equally often, so that no single person
    dominates and the ages keep their shares. In each round, the faces drawn least often so far get a partner: among
    random faces of sufficient age difference that are neither near duplicates nor already paired with them, the one
    drawn least often. The side of the older face is random.

    Raises DataError if there are fewer than twice as many such pairs.
    """
    wide, by_age = ages.astype(np.int64), np.argsort(ages, kind="stable")
    # In the order of ages, the partners of a face are those before the first place and from the second on, but for the
    # pictures of its group.
    younger = np.searchsorted(wide[by_age], wide - above, side="left")
    not_older = np.searchsorted(wide[by_age], wide + above, side="right")
    far = younger + len(ages) - not_older
    partners = far.copy()
    names, sizes = np.unique(groups, return_counts=True)
    for name in names[sizes > 1]:
        own = np.flatnonzero(groups == name)
        partners[own] -= (np.abs(wide[own, None] - wide[own]) > above).sum(1)
    if (possible := int(partners.sum()) // 2) < 2 * count:
        raise DataError(
            f"{possible} pairs of {len(ages)} faces differ by more than {above} years, but drawing {count} distinct "
            "ones requires twice as many: lower pairs or above, or use more faces"
        )
    drawn = np.empty(0, dtype=np.int64)
    times = np.zeros(len(ages), dtype=np.int64)
    while len(drawn) < count:
        waiting = np.flatnonzero(times < partners)
        least = waiting[np.lexsort((random.random(len(waiting)), times[waiting]))]
        first = least[: min(count - len(drawn), 1 + len(waiting) // _ROUNDS_PER_FACE)]
        place = random.integers(far[first, None], size=(len(first), _CHOICES))
        second = by_age[np.where(place < younger[first, None], place, place + (not_older - younger)[first, None])]
        keys = np.minimum(first[:, None], second) * len(ages) + np.maximum(first[:, None], second)
        fits = (groups[second] != groups[first, None]) & ~np.isin(keys, drawn)
        chosen = np.where(fits, times[second] + random.random(second.shape), np.inf).argmin(1)
        taken = np.flatnonzero(np.take_along_axis(fits, chosen[:, None], 1)[:, 0])
        # No face is chosen twice in a round.
        taken = taken[np.unique(second[taken, chosen[taken]], return_index=True)[1]]
        new = np.unique(keys[taken, chosen[taken]])
        times += np.bincount(np.concatenate(np.divmod(new, len(ages))), minlength=len(ages))
        drawn = np.append(drawn, new)
    pairs = random.permutation(np.stack(np.divmod(drawn, len(ages)), 1))
    sides: Integers = random.permuted(pairs, axis=1)
    return sides
