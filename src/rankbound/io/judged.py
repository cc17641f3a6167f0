"""Runs, judgements and judged lists in memory: flat columns plus offsets, one list per topic."""

import os
import warnings
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, pairwise
from math import inf
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from rankbound.errors import ColumnWarning, DataError
from rankbound.lazy import pl
from rankbound.texts import LARGEST_EXACT, LONGEST, printable, quoted, shortened

if TYPE_CHECKING:
    from rankbound.lists import Topic

    Names = Sequence[str] | pl.Series
else:
    Names = Sequence

Array = npt.NDArray[Any]
NamedItems = TypeVar("NamedItems", bound="_NamedItems")

# An odd number whose digits are those of the golden ratio, as in Fibonacci hashing.
_MIXING = np.uint64(0x9E3779B97F4A7C15)

_COUNTED_AT_ONCE = 2**18

_USUAL_TYPES = ("b1", "i1", "u1", "i2", "i4", "i8", "f4", "f8")


def name_column(names: Names) -> "pl.Series":
    """Return names, text or numbers, as a column of text."""
    return (names if isinstance(names, pl.Series) else pl.Series(names)).cast(pl.String)


class _NamedItems:
    """Lists of items that have names in their topics, which are hashed once."""

    topics: Sequence[str]
    items: Names
    offsets: Any

    by_name: Sequence[Mapping[str, float]] | None = None
    """The dictionaries that the lists were made of, if they are still the same."""

    @cached_property
    def names(self) -> "pl.Series":
        """The items' names as a column of text."""
        return name_column(self.items)

    def indices_of(self, topics: Iterable[str]) -> npt.NDArray[np.int64]:
        """Return the indices of topics by their names; -1 for others."""
        return np.array([self._index_of.get(topic, -1) for topic in topics], dtype=np.int64)

    @cached_property
    def _index_of(self) -> Mapping[str, int]:
        return {topic: index for index, topic in enumerate(self.topics)}

    @cached_property
    def keys(self) -> npt.NDArray[np.uint64]:
        """A number for each item `(n_items,)`: the same for the same names of topic and item, and rarely otherwise."""
        return self.keys_of(0)

    @cached_property
    def has_distinct_keys(self) -> bool:
        """Whether the keys of each topic differ, so that none has an item twice; if not, it may have."""
        if self.by_name is not None:
            return True
        # As many keys as a processor's cache holds are counted faster than all at once, and in less memory.
        places = np.arange(0, len(self.keys) + _COUNTED_AT_ONCE, _COUNTED_AT_ONCE)
        limits = np.unique(self.offsets[np.searchsorted(self.offsets, places.clip(max=len(self.keys)))]).tolist()
        return all(pl.Series(self.keys[a:b]).n_unique() == b - a for a, b in pairwise([0, *limits]))

    def keys_of(self, seed: int) -> npt.NDArray[np.uint64]:
        """Return keys that rarely are the same for two items of which those of another seed are."""
        topics: npt.NDArray[np.uint64] = name_column(self.topics).hash(seed).to_numpy()
        items: npt.NDArray[np.uint64] = self.names.hash(seed).to_numpy()
        return np.repeat(topics * _MIXING, np.diff(self.offsets)) + items


@dataclass(frozen=True, kw_only=True, eq=False)
class Run(_NamedItems):
    """A ranker's output: the scored items of each topic, in any order.

    List t has the items `offsets[t]` .. `offsets[t + 1] - 1` and belongs to topic `topics[t]`. Arrays, tensors and
    columns of other libraries are converted to NumPy arrays.

    Args:
        topics: the topics' names, one per list.
        items: `(n_items,)`, the items' names.
        scores: `(n_items,)`; higher is better.
        offsets: `(n_lists + 1,)`, the lists' limits.

    Raises:
        ValueError: the columns' lengths do not match, or a topic occurs twice.
        DataError: two scores of a topic differ, but are equal in double precision, in which runs are evaluated.

    >>> rb.Run(topics=["q"], items=["a", "b"], scores=[0.5, 0.25], offsets=[0, 2]).scores
    array([0.5 , 0.25])
    """

    topics: Sequence[str]
    items: Names
    scores: Any
    offsets: Any

    def __post_init__(self) -> None:
        _settle(self, "scores")
        scores = self.scores
        if scores.dtype.kind in "iu" and len(scores) and max(int(scores.max()), -int(scores.min())) > LARGEST_EXACT:
            topic = np.repeat(np.arange(len(self.topics)), np.diff(self.offsets))
            refuse_rounded(
                (self.topics[topic[place]], self.items[place], int(scores[place]))
                for place in np.flatnonzero(np.abs(scores.astype(np.float64)) >= LARGEST_EXACT).tolist()
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Intents:
    """Judgements by intent (TREC: subtopic): row r gives item `item[r]` of the qrels the `relevance[r]` to an intent.

    `intent` numbers the intents over all topics, in order of their names. Each array has shape `(n_rows,)`.
    """

    item: npt.NDArray[np.int64]
    intent: npt.NDArray[np.int64]
    relevance: npt.NDArray[Any]
    names: Sequence[str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Qrels(_NamedItems):
    """Judgements: the judged items of each topic with their relevance labels, laid out as in `Run`.

    Args:
        topics, items: as in `Run`.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.
        unjudged: `(n_items,)`, a mask of the items that were pooled but not judged, whose relevance is 0; by default,
            all are judged.
        intents: the judgements by intent, if there are any; `relevance` has the highest of each item.

    Raises:
        ValueError: the columns' lengths do not match, or a topic occurs twice.

    >>> rb.Qrels(topics=["q"], items=["a", "b"], relevance=[2, 0], offsets=[0, 2]).relevance
    array([2, 0])
    """

    topics: Sequence[str]
    items: Names
    relevance: Any
    offsets: Any
    unjudged: Any = None
    intents: Intents | None = None

    def __post_init__(self) -> None:
        _settle(self, "relevance")
        if self.unjudged is not None:
            mask = _array_of(self.unjudged, "unjudged", len(self.items))
            object.__setattr__(self, "unjudged", mask.astype(np.bool_))

    def marked(self) -> Array:
        """Return the relevance of the items as files have it: -1 for unjudged ones."""
        relevance: Array = self.relevance
        return relevance if self.unjudged is None else np.where(self.unjudged, -1, relevance)


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgedLists(Qrels):
    """Judged lists whose items have features, a dataset of topics for PyTorch's `DataLoader`.

    Args:
        topics, items, relevance, offsets, unjudged, intents: as in `Qrels`.
        features: `(n_items, d)`, float32. A missing value is NaN, and a category its place among those of its feature.
        feature_names: the features' names, `d` of them.
        weights: `(n_items,)`, numbers from 0 by which a training multiplies the items' terms of the loss, as in
            `rankbound.RankingLoss`; by default, ones.
        list_weights: `(n_lists,)`, numbers from 0 by which it multiplies the lists' losses.
        categories: the categories of the features that have some, by the features' names.
        left_out: the columns of a table that are no features unless they are chosen, with what they are.
        doubtful: the features that number the rows or follow from the relevance label, with which of these they do.

    Raises:
        ValueError: as `Qrels`, for features of another shape, or for weights that are negative, NaN or infinite.

    >>> columns = {"topics": ["q"], "items": ["a", "b"], "relevance": [2, 0], "offsets": [0, 2]}
    >>> lists = rb.JudgedLists(**columns, features=np.float32([[1], [0]]), feature_names=["length"])
    >>> lists[0].relevance
    tensor([2, 0])
    """

    features: npt.NDArray[np.float32]
    feature_names: Sequence[str]
    weights: Any = None
    list_weights: Any = None
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    doubtful: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        expected = (len(self.items), len(self.feature_names))
        if self.features.shape != expected:
            raise ValueError(f"features: found shape {self.features.shape}, expected {expected}: items, feature names")
        for name, count in (("weights", len(self.items)), ("list_weights", len(self.topics))):
            if (values := getattr(self, name)) is not None:
                column = _array_of(values, name, count)
                for wrong in column[~(np.isfinite(column) & (column >= 0))][:1]:
                    raise ValueError(f"{name}: found {wrong}, expected finite numbers from 0")
                object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.topics)

    def __getitem__(self, index: int) -> "Topic":
        """Return one topic, so that the lists are a dataset for `torch.utils.data.DataLoader` (`rankbound.collate`).

        Read-only features are copied, since a tensor that shares their memory could be written to.
        """
        from rankbound.columns import column_tensor
        from rankbound.lists import Topic

        start, stop = self.offsets[range(len(self))[index] :][:2]
        columns = np.require(self.features[start:stop], requirements="W"), self.relevance[start:stop]
        features, relevance = (column_tensor(column, "lists") for column in columns)
        return Topic(features, relevance, self.topics[index])


def no_features(left_out: Mapping[str, str], reader: str = " in it") -> str:
    """Return the message for a table without features; `reader` is where, or who needs them."""
    rest = f"; left out are {listed(left_out)}: choose some by `features` (on the command line: --features)"
    expected = "expected a column of numbers, or one that `categorical` names, besides topic, item and relevance"
    return f"there are no features{reader}: {expected}{rest if left_out else ''}"


def listed(columns: Mapping[str, str]) -> str:
    """Return columns in printable words, each with what it is or does.

    >>> listed({"title": "text", "": "without a name"})
    "title (text), '' (without a name)"
    """
    names = (f"{name if name.strip() else repr(name)} ({what})" for name, what in columns.items())
    return shortened(printable(", ".join(names)), LONGEST)


def warn_of_columns(where: Any, left_out: Mapping[str, str], doubtful: Mapping[str, str]) -> None:
    """Warn, in the name of the caller's caller, of columns that are no features, and of doubtful features.

    `where` is a path, or a frame.
    """
    name = os.fspath(where) if isinstance(where, str | os.PathLike) else "table"
    if left_out:
        warnings.warn(
            f"{name}: columns that are no features unless they are chosen: {listed(left_out)}; choose the features by "
            "`features`, these or others, name text of categories by `categorical`, or leave columns out by `exclude`, "
            "which also ends this warning",
            ColumnWarning,
            stacklevel=3,
        )
    if doubtful:
        warnings.warn(f"{name}: {doubt(doubtful)}", ColumnWarning, stacklevel=3)


def doubt(features: Mapping[str, str]) -> str:
    """Return the message for doubtful features."""
    return (
        f"features by which a ranker may look better than it is: {listed(features)}; if they are not known of new "
        "lists, choose the others by `features`; choosing these, too, ends this warning (on the command line: "
        "--features)"
    )


def chosen_features(lists: JudgedLists, names: Sequence[str], where: str) -> JudgedLists:
    """Return the lists with only the features of `names`, in that order; DataError if one is missing.

    All features in the file's order are not copied: they may be larger than memory.
    """
    if list(names) == list(lists.feature_names):
        return lists
    place = {name: index for index, name in enumerate(lists.feature_names)}
    missing = [name for name in names if name not in place]
    if missing:
        raise DataError(f"{where}: there is no feature {missing[0]!r}; it has {', '.join(lists.feature_names[:8])} ...")
    picked = np.ascontiguousarray(lists.features[:, [place[name] for name in names]])
    return replace(lists, features=picked, feature_names=list(names))


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def as_nested(source: Any) -> Any:
    """Return a ranx `Run` or `Qrels` as `{topic: {item: number}}`, and anything else as it is."""
    return source.to_dict() if type(source).__module__.partition(".")[0] == "ranx" else source


def is_nested(source: Any) -> bool:
    """Return true for dictionaries in a dictionary, by topic and item."""
    return isinstance(source, Mapping) and all(isinstance(items, Mapping) for items in source.values())


def of_dictionaries(
    kind: type[NamedItems], source: Mapping[Any, Mapping[Any, float]], *, for_one_call: bool = False
) -> NamedItems:
    """Return `{topic: {item: number}}` as a `Run` or `Qrels`; topics may be without items.

    As in TREC qrels, items whose relevance is a negative whole number are unjudged. If the result is used in one call
    only, during which nobody changes the dictionaries, it refers to them, by which it is joined faster.

    Raises:
        DataError: for a value that isn't a number, scores of a topic that differ, but not in double precision, or
            relevance that is a negative fraction, NaN or infinite.
    """
    column, topics = "scores" if kind is Run else "relevance", source.values()
    values = list(chain.from_iterable(items.values() for items in topics))
    numbers = np.zeros(0)
    with suppress(TypeError, OverflowError):
        # Unlike NumPy, it does not read text.
        numbers = np.asarray(array("d", values))
    plain = np.abs(numbers) < LARGEST_EXACT
    if column == "relevance":
        plain &= (numbers >= 0) | (numbers == np.floor(numbers))
    if len(numbers) < len(values) or not plain.all():
        _require_numbers(source, column)
        numbers = np.array(values, dtype=np.float64)
    unjudged = {}
    if column == "relevance" and (numbers < 0).any():
        numbers, unjudged = numbers.clip(min=0), {"unjudged": numbers < 0}
    names = list(chain.from_iterable(topics))
    are_texts = False
    with suppress(TypeError):
        # The fastest look at the type of each.
        "".join(names)
        are_texts = True
    items = names if are_texts else list(map(str, names))
    offsets = np.cumsum([0, *map(len, topics)])
    columns: dict[str, Any] = {"topics": list(source), "items": items, column: numbers, "offsets": offsets, **unjudged}
    lists = kind(**columns)
    if for_one_call and are_texts:
        object.__setattr__(lists, "by_name", list(topics))
    return lists


def _require_numbers(source: Mapping[Any, Mapping[Any, float]], column: str) -> None:
    """Raise what `of_dictionaries` raises, one value after the other."""
    large: list[tuple[Any, Any, float]] = []
    for topic, items in source.items():
        for item, value in items.items():
            wrong = None
            if not isinstance(value, Real):
                wrong = f"{value!r}, expected a number"
            elif column == "relevance" and not (0 <= value < inf or (-inf < value < 0 and value == int(value))):
                wrong = f"relevance {value}, expected grades from 0"
            elif abs(value) >= LARGEST_EXACT:
                is_whole = isinstance(value, Integral)
                if column == "relevance" and is_whole and value > LARGEST_EXACT:
                    wrong = f"relevance {quoted(value)}, expected grades up to 2^53 ({LARGEST_EXACT})"
                try:
                    large.append((topic, item, int(value) if is_whole and float(value) else float(value)))
                except OverflowError:
                    wrong = wrong or "a score above 1.8e308, expected numbers within the range of double precision"
            if wrong:
                raise DataError(f"topic {topic!r}, item {item!r}: found {wrong}")
    refuse_rounded(large)


def refuse_rounded(rows: Iterable[tuple[Any, Any, Any]]) -> None:
    """Raise DataError for two scores of a topic that differ, but not as doubles; `rows` are topic, item and score.

    Double precision holds whole numbers up to 2^53, such as times in nanoseconds, whose order would be lost.
    """
    first: dict[tuple[Any, float], tuple[Any, Any]] = {}
    for topic, item, score in rows:
        other, known = first.setdefault((topic, float(score)), (item, score))
        if known != score:
            raise DataError(
                f"topic {topic!r}, items {other!r} and {item!r}: found the scores {known} and {score}, which are equal "
                "in double precision, in which scores are compared; subtract a number from all of them, so that whole "
                "scores are within 2^53"
            )


def _settle(lists: Any, column: str) -> None:
    """Check the columns' lengths and convert them to NumPy arrays; numeric topics become text, as in files."""
    n_items = len(lists.items)
    object.__setattr__(lists, "topics", [str(topic) for topic in lists.topics])
    values, offsets = _array_of(getattr(lists, column), column, n_items), lists.offsets
    is_plain = type(offsets) is np.ndarray and offsets.dtype == np.int64 and offsets.ndim == 1 and len(offsets) > 0
    if not is_plain or offsets[0] != 0 or offsets[-1] != n_items or (offsets[1:] < offsets[:-1]).any():
        from rankbound.lists import Lists

        offsets = Lists.checked(offsets, n_items).offsets.cpu().numpy()
    if len(lists.topics) != len(offsets) - 1:
        raise ValueError(f"topics: found {len(lists.topics)} names, expected {len(offsets) - 1}, one per list")
    if (twice := repeated(lists.topics)) is not None:
        raise ValueError(f"topics: found {twice!r} twice, expected one list per topic")
    object.__setattr__(lists, column, values)
    object.__setattr__(lists, "offsets", offsets)


def _array_of(values: Any, name: str, n_items: int) -> Array:
    """Return a column as an array of one number per item; arrays of usual types, as readers make them, as they are."""
    if type(values) is np.ndarray and values.dtype.isnative and values.shape == (n_items,):
        array: Array = values
        if array.dtype.str[1:] in _USUAL_TYPES:
            return array
    import torch

    from rankbound.lists import as_tensor

    tensor = as_tensor(values, name, n_items).detach().cpu()
    # NumPy has no such type.
    return (tensor.to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor).numpy()
