"""Make a file of instances, the lists that training reads, from data and folds: the step `sample`.

Judged lists are taken whole; ratings get negatives (`negatives`); of faces, pairs are drawn, of which the older face is
relevant.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.errors import ConfigError, DataError
from rankbound.io.ragged import rows_of_lists
from rankbound.texts import derive_seed, quantity
from rankbound_study.config.data_sets import OWN, sampled_name
from rankbound_study.data.contracts import (
    CONTRACTS,
    DATASET_KEY,
    ITEM_COUNT_KEY,
    ITEM_NAMES_KEY,
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
    repeated,
)
from rankbound_study.data.images import read_faces
from rankbound_study.data.negatives import Drawing, Ratings, RelevantPairs, sampled_instances
from rankbound_study.data.splits import digest_of, read_image_folds

Path = str | os.PathLike[str]
Integers = npt.NDArray[np.int64]

GRADED = "graded"  # suffix of judged lists whose labels are the relevance, without a threshold

LARGEST_GRADE = 108
"""The largest label that is read as a grade: sums of larger gains 2^y - 1 may exceed single precision."""

_READING = re.compile(rf"(.+)-(label\d+|{GRADED})")

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
    types = CONTRACTS["instances"].columns
    with open_writer(out, "instances", notes) as write:
        for fold, split, lists in parts:
            key = {"dataset": dataset, "nsr": nsr, "fold": fold, "split": split}
            keyed = {name: repeated(value, types[name], len(lists)) for name, value in key.items()}
            write(pa.table({**keyed, **{name: lists.column(name) for name in lists.column_names}}))
        if left_out:
            write.note(LEFT_OUT_KEY, json.dumps(dict(left_out), sort_keys=True))


def origin_of(data: Path, contract: str, dataset: str) -> dict[str, str]:
    """Return how a file of data was generated, if it was; ConfigError if the data set's name does not say so."""
    origin = {key: value for key, value in read_metadata(data, contract).items() if key == SYNTHETIC_KEY}
    if origin and not dataset.startswith("synthetic-"):
        raise ConfigError(f"{data} is synthetic, so its data set cannot be named {dataset!r}: name it synthetic-...")
    return origin


def label_dataset(name: str, threshold: int | None) -> str:
    """Return the name of judged lists with that threshold: `mq2008-label2` for `mq2008` or for itself.

    Each threshold makes another data set, and so do the labels themselves (None): `mslr-web10k-graded`. Raises
    ConfigError if the name implies another reading.
    """
    match = _READING.fullmatch(name)
    base, given = match.groups() if match else (name, None)
    reading = GRADED if threshold is None else f"label{threshold}"
    if given not in (None, reading):
        raise ConfigError(f"the data set is named {name!r}, but its labels are read as {reading}")
    return f"{base}-{reading}"


def sample_lists(lists: Path, folds: Path, out: Path, *, dataset: str, threshold: int | None) -> None:
    """Write whole judged lists, relevant from `threshold` on; without one, the labels are the relevance.

    `dataset` is the name in the file; items are row indices of `lists`. Lists without relevant items are kept; metrics
    and the trainer handle them. Raises DataError if the folds do not have the same topics in the same order, or if no
    list, or none of a fold's training part, has items of different relevance.
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

    origin = origin_of(lists, "lists", dataset)
    write_instances(out, dataset, None, parts(), item_count=len(labels), origin=origin)


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
    rated, metadata = (
        read_table(interactions, "interactions", ["topic", "item"]),
        read_metadata(interactions, "interactions"),
    )
    topic, item = (rated.column(name).to_numpy() for name in ("topic", "item"))
    if PARTS_KEY in metadata:
        # Files of folds may repeat some ratings.
        distinct = np.unique((topic.astype(np.int64) << 32) + item)
        topic, item = (distinct >> 32).astype(np.int32), (distinct & (2**32 - 1)).astype(np.int32)
    ids, places = np.unique(item, return_inverse=True)
    order = np.argsort(topic, kind="stable")
    ratings = Ratings(topic[order], places[order])
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
    pairs = RelevantPairs(topic, np.searchsorted(ids, item), fold, len(ids), split, topic_names, ratings)
    left_out: dict[str, int] = {}
    if drawing.nsr == OWN:
        pairs, left_out["users"] = _with_own_negatives(pairs, drawing.dataset)
        left_out["lists"] = 0
    parts = sampled_instances(pairs, drawing, left_out)
    name, nsr = sampled_name(drawing.dataset, drawing.sampling, drawing.nsr)
    origin = origin_of(interactions, "interactions", drawing.dataset)
    origin |= {REPEATS_KEY: str(pairs.repeats)} if pairs.repeats > 1 else {}
    write_instances(out, name, nsr, parts, item_count=len(ids), item_names=item_names, origin=origin, left_out=left_out)
    return left_out


def _with_own_negatives(pairs: RelevantPairs, dataset: str) -> tuple[RelevantPairs, int]:
    """Return the pairs of the users who rated some item that is not relevant, and the number of the others."""
    # A pair may have several rows, one after the other.
    is_new = np.append(True, (np.diff(pairs.topic) != 0) | (np.diff(pairs.item) != 0))
    users, relevant = np.unique(pairs.topic[is_new], return_counts=True)
    rated = np.searchsorted(pairs.ratings.topic, users, "right") - np.searchsorted(pairs.ratings.topic, users)
    kept = users[rated > relevant]
    if not len(kept):
        raise DataError(
            f"{dataset}: no user rated an item below the threshold, so there are no negatives at ratio {OWN}: draw some"
        )
    mask = np.isin(pairs.topic, kept)
    split = None if pairs.split is None else pairs.split[mask]
    chosen = replace(pairs, topic=pairs.topic[mask], item=pairs.item[mask], fold=pairs.fold[mask], split=split)
    return chosen, len(users) - len(kept)


def _is_informative(offsets: npt.NDArray[Any], relevance: npt.NDArray[np.int8]) -> bool:
    """Return whether some list has items of different relevance."""
    differs = np.diff(relevance) != 0
    # Between two lists, items may differ.
    differs[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(relevance))] - 1] = False
    return bool(differs.any())


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
    partners = Partners(ages, groups, above)
    if partners.n_pairs < 2 * count:
        raise DataError(
            f"{partners.n_pairs} pairs of {len(ages)} faces differ by more than {above} years, but drawing {count} "
            "distinct ones requires twice as many: lower pairs or above, or use more faces"
        )
    drawn = np.empty(0, dtype=np.int64)
    times = np.zeros(len(ages), dtype=np.int64)
    while len(drawn) < count:
        waiting = np.flatnonzero(times < partners.counts)
        least = waiting[np.lexsort((random.random(len(waiting)), times[waiting]))]
        first = least[: min(count - len(drawn), 1 + len(waiting) // _ROUNDS_PER_FACE)]
        second, fits = partners.draw(first, random)
        keys = np.minimum(first[:, None], second) * len(ages) + np.maximum(first[:, None], second)
        fits &= ~np.isin(keys, drawn)
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


class Partners:
    """The possible partners of each face: ages more than `above` years apart, another group.

    `counts` has the number of partners of each face, `n_pairs` the number of pairs.
    """

    def __init__(self, ages: npt.NDArray[np.int8], groups: npt.NDArray[np.int32], above: int) -> None:
        wide, self._groups = ages.astype(np.int64), groups
        self._by_age = np.argsort(wide, kind="stable")
        ordered = wide[self._by_age]
        self._younger = np.searchsorted(ordered, wide - above, side="left")
        self._not_older = np.searchsorted(ordered, wide + above, side="right")
        self._far = self._younger + len(ages) - self._not_older
        self.counts: Integers = self._far.copy()
        names, sizes = np.unique(groups, return_counts=True)
        for name in names[sizes > 1]:
            own = np.flatnonzero(groups == name)
            self.counts[own] -= (np.abs(wide[own, None] - wide[own]) > above).sum(1)
        self.n_pairs = int(self.counts.sum()) // 2

    def draw(self, faces: Integers, random: np.random.Generator) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Draw faces `(n, 8)` of sufficient age difference for each face, with repeats; flag those of another group."""
        place = random.integers(self._far[faces, None], size=(len(faces), _CHOICES))
        younger, gap = self._younger[faces, None], (self._not_older - self._younger)[faces, None]
        found: Integers = self._by_age[np.where(place < younger, place, place + gap)]
        return found, self._groups[found] != self._groups[faces, None]
