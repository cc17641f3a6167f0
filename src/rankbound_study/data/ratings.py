"""Ratings in files of any known layout, converted to interactions.

Folds that are given by files may share ratings, as repeated random splits do. The ratings of each file are then stored
apart, and the metadata note which are whose, as for judged lists; `rankbound_study.data.rating_splits` makes the folds.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rankbound.errors import DataError
from rankbound_study.config.sections.description import TEXTS, DescriptionKeys, ScaleKeys
from rankbound_study.data.arrow import to_arrow
from rankbound_study.data.contracts import write_table
from rankbound_study.data.instances import ITEM_NAMES_KEY, TOPIC_NAMES_KEY
from rankbound_study.data.plain_files import Raw
from rankbound_study.data.rating_files import IDS, RatingFile
from rankbound_study.data.schemas import DATASET_KEY, PARTS_KEY
from rankbound_study.data.sizes import require_sizes

_NAMES_KEYS = dict(zip(IDS, (TOPIC_NAMES_KEY, ITEM_NAMES_KEY), strict=True))


def convert(raw: Raw, described: DescriptionKeys, out: str | os.PathLike[str]) -> None:
    """Write the ratings of `raw` to `out` as interactions, sorted by user and item; file by file if folds are given.

    Files are read in blocks; the numbers are in memory. Users and items that are texts become numbers in the order of
    the texts, which the metadata hold.

    Raises DataError for missing columns, a malformed row, a rating that is not of the description's scale, an item that
    a user rates twice or in two splits of a fold, or files that disagree on a rating.
    """
    files = {wanted: RatingFile(raw, name, described) for wanted, name in _members(raw, described).items()}
    tables = [_whole(file, described.scale) for file in files.values()]
    names: dict[str, list[str]] = {}
    if described.ids == TEXTS:
        _check_texts(list(files.values()), tables)
        tables, names = _numbered(tables)
    rated = {wanted: _sorted(file, table, names) for (wanted, file), table in zip(files.items(), tables, strict=True)}
    del tables
    notes = {DATASET_KEY: raw.source.name, **{_NAMES_KEYS[key]: json.dumps(texts) for key, texts in names.items()}}
    if described.given_folds:
        _check_folds(rated, described.given_folds)
        notes[PARTS_KEY] = json.dumps(_places(rated))
    whole = pa.concat_tables([one.table for one in rated.values()])
    if described.sizes is not None:
        pairs = np.unique(np.concatenate([one.pair for one in rated.values()]))
        require_sizes(described, len(np.unique(pairs >> 32)), len(pairs), str(raw.path))
    write_table(whole, out, "interactions", [len(one.table) for one in rated.values()], notes)


def _members(raw: Raw, described: DescriptionKeys) -> dict[str, str]:
    """Return the members to read by the names that the description gives them: one, or those of the folds."""
    named = {wanted: raw.find(wanted) for wanted in described.wanted} or {
        member.name: member.name for member in raw.members
    }
    if len(named) != 1 and not described.given_folds:
        raise DataError(f"{raw.path}: it has {len(named)} files: name the one with the ratings (files)")
    return named


def _whole(file: RatingFile, scale: ScaleKeys | None) -> pa.Table:
    parts = list(file.tables())
    table = pa.concat_tables(parts) if parts else None
    if table is None or not table.num_rows:
        raise DataError(f"{file.where}: it has no ratings")
    _check_scale(file, table, scale)
    return table


def _check_scale(file: RatingFile, table: pa.Table, scale: ScaleKeys | None) -> None:
    rating = table.column("rating").to_numpy()
    wrong = ~np.isfinite(rating)
    expected = "a finite number"
    if scale is not None:
        wrong |= (rating < scale.lowest) | (rating > scale.highest) | ((rating - scale.lowest) % scale.step != 0)
        expected = f"{scale.lowest:g}, {scale.lowest + scale.step:g}, .. {scale.highest:g}"
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"{file.row(row)}: user {table['topic'][row]} rates item {table['item'][row]} with {rating[row]:.4g}; "
            f"expected {expected}"
        )


def _check_texts(files: Sequence[RatingFile], tables: Sequence[pa.Table]) -> None:
    for file, table in zip(files, tables, strict=True):
        for key, what in zip(IDS, ("user", "item"), strict=True):
            row = pc.index(table.column(key).cast(pa.string()), "").as_py()
            if row >= 0:
                raise DataError(f"{file.row(row)}: the name of the {what} is empty; expected a text")


def _numbered(tables: Sequence[pa.Table]) -> tuple[list[pa.Table], dict[str, list[str]]]:
    """Return the tables with numbers for users and items, and the texts by number, in ascending order."""
    names: dict[str, list[str]] = {}
    whole = pa.concat_tables(tables).unify_dictionaries()
    for key in IDS:
        column = whole.column(key).combine_chunks()
        texts = column.dictionary
        order = pc.sort_indices(texts).to_numpy()
        number = np.empty(len(texts), np.int32)
        number[order] = np.arange(len(texts), dtype=np.int32)
        names[key] = texts.take(pa.array(order)).to_pylist()
        numbers = to_arrow(number[column.indices.to_numpy()])
        whole = whole.set_column(whole.column_names.index(key), key, numbers)
    sizes = [len(table) for table in tables]
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    return [whole.slice(start, size) for start, size in zip(starts, sizes, strict=True)], names


@dataclass(frozen=True)
class _Rated:
    """The ratings of a file, sorted by user and item.

    Attributes:
        file: where they are from.
        table: the columns of interactions.
        pair: user and item as one number, ascending.
        order: the row in the file of each; None if the file is sorted.
        names: of users and items that are texts, by number.
    """

    file: RatingFile
    table: pa.Table
    pair: npt.NDArray[np.int64]
    order: npt.NDArray[np.int64] | None
    names: Mapping[str, Sequence[str]]

    def row(self, place: int) -> str:
        """Return what the row in the file of a rating is called in messages."""
        return self.file.row(place if self.order is None else int(self.order[place]))

    def text(self, place: int) -> str:
        """Return a rating in words."""
        user, item = (self.table[key][place].as_py() for key in IDS)
        if self.names:
            user, item = repr(self.names["topic"][user]), repr(self.names["item"][item])
        return f"user {user} rates item {item}"


def _sorted(file: RatingFile, table: pa.Table, names: Mapping[str, Sequence[str]]) -> _Rated:
    topic, item = (table.column(key).to_numpy() for key in IDS)
    pair = (topic.astype(np.int64) << 32) + item
    order = None
    if not (pair[1:] > pair[:-1]).all():
        order = np.argsort(pair, kind="stable")
        pair, table = pair[order], table.take(to_arrow(order))
    rated = _Rated(file, table.combine_chunks(), pair, order, names)
    twice = pair[1:] == pair[:-1]
    if twice.any():
        place = int(twice.argmax())
        raise DataError(
            f"{rated.row(place + 1)}: {rated.text(place)} more than once, first in {rated.row(place)}; "
            "keep one of the rows"
        )
    return rated


def _check_folds(rated: Mapping[str, _Rated], folds: Sequence[Mapping[str, Sequence[str]]]) -> None:
    """Check that no pair is in two files of a fold, and that files agree on the ratings that they share."""
    for number, named in enumerate(folds, start=1):
        of_fold = [(split, name) for split, names in named.items() for name in names]
        for (split, name), (other_split, other_name) in combinations(of_fold, 2):
            shared = _shared(rated[name], rated[other_name])
            if shared is not None:
                first, second = rated[name], rated[other_name]
                raise DataError(
                    f"{second.row(shared[1])}: {second.text(shared[1])} in {other_split} of fold {number}, and in "
                    f"{split}, {first.row(shared[0])}; remove one of the rows"
                )
    _check_same(list(rated.values()))


def _shared(first: _Rated, second: _Rated) -> tuple[int, int] | None:
    """Return the places of a pair that both have, if there is one."""
    common, left, right = np.intersect1d(first.pair, second.pair, assume_unique=True, return_indices=True)
    return (int(left[0]), int(right[0])) if len(common) else None


def _check_same(rated: Sequence[_Rated]) -> None:
    """Check that files agree on the ratings that they share, as those of one edition do."""
    pair = np.concatenate([one.pair for one in rated])
    order = np.argsort(pair, kind="stable")
    shared = np.diff(pair[order]) == 0
    ends = np.cumsum([len(one.pair) for one in rated])
    for key in ("rating", "timestamp"):
        values = np.concatenate([one.table.column(key).to_numpy() for one in rated])
        differs = shared & (np.diff(values[order]) != 0)
        if not differs.any():
            continue
        places = order[int(differs.argmax()) :][:2]
        of_files = np.searchsorted(ends, places, side="right")
        first, second = (rated[file] for file in of_files.tolist())
        left, right = (places - np.concatenate(([0], ends))[of_files]).tolist()
        raise DataError(
            f"{second.row(right)}: {second.text(right)} with the {key} {values[places[1]]:.10g}, but {first.row(left)} "
            f"has {values[places[0]]:.10g}: these files are of two editions; expected those of one"
        )


def _places(rated: Mapping[str, _Rated]) -> dict[str, Any]:
    """Return the range of rows of each file."""
    ends = np.cumsum([len(one.table) for one in rated.values()]).tolist()
    return {name: [[end - len(one.table), end]] for (name, one), end in zip(rated.items(), ends, strict=True)}
