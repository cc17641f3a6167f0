"""The columns of a table with a row per item: names, relevance labels and features, checked, and grouped into lists.

A table is a whole one, or a batch of the rows of one that is read in a stream; messages name its rows either way.

Unless features are chosen, they are the columns of numbers, but for those whose names say that they are something else.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.errors import DataError, naming
from rankbound.io.judged import Array, Intents, Qrels, Run, name_column, refuse_rounded
from rankbound.texts import LARGEST_EXACT, LONGEST_VALUE, is_number, quoted, shortened

_SHOWN_NAMES = 8

OTHER_NAMES: Mapping[str, Sequence[Sequence[str]]] = {
    "topic": (("topic", "topic_id", "query_id", "q_id", "qid", "user_id", "session_id"), ("query", "user", "session")),
    "item": (
        ("item", "item_id", "doc_no", "doc_id", "document_id", "corpus_id", "pid", "passage_id", "product_id"),
        ("doc", "document", "passage", "product"),
    ),
    "relevance": (("relevance", "rel", "label", "grade", "relevance_label"),),
    "score": (("score", "pred", "prediction"),),
    "rank": (("rank",),),
    "intent": (("intent", "subtopic", "subtopic_id"), ("iteration",)),
}
"""What other tools call the columns. The first group of which a table has a name decides, so that a query's text may
stand beside its id; two names of a group are refused. Case, `_`, `-` and a plural make no difference."""

RESERVED: Mapping[str, Sequence[str]] = {
    "given by a ranking": ("position", "pos", "rank", "ranking", "score", "pred", "prediction"),
    "a label": (
        *("relevance", "relevance_label", "rel", "label", "grade", "target"),
        *("judgment", "judgement", "click", "clicked"),
    ),
    "a weight": ("weight", "weights", "sample_weight", "propensity", "propensities"),
    "a part of an evaluation": ("fold", "folds", "split", "subset", "seed", "is_train", "is_test"),
    "a time": ("timestamp", "ts", "time", "date", "datetime"),
    "a number of rows": ("index", "none", "row", "row_nr", "row_number", "level_0", "level_1"),
    "a name": (
        *("id", "row_id", "topic", "topic_id", "query", "query_id", "qid", "session", "session_id", "user", "user_id"),
        *("item", "item_id", "doc", "doc_id", "document", "document_id", "product", "product_id", "intent"),
        *("q_id", "doc_no", "corpus_id", "pid", "passage", "passage_id", "subtopic", "subtopic_id"),
    ),
}
"""Names of columns that are features only where they are chosen, with what they usually hold: no property of an item by
which to rank it, or the shadow of its label. Case and `_` don't count. Counts, as in `clicks`, are features."""

_NO_NAME = re.compile(r"|Unnamed: \d+(\.\d+)*(_level_\d+)?|_duplicated_\d+|__index_level_\d+__")
"""The names of columns without one: empty, as pandas writes the index of a frame, or as a reader completes it."""

# At most as many digits as a double has, and Python reads.
_WHOLE = re.compile(r"\s*[+-]?[0-9]{1,400}\s*")

Categories = Collection[str] | Mapping[str, Sequence[str]]
"""The names of categorical features, perhaps with their known categories."""

CATEGORIES = (pl.Categorical, pl.Enum)
"""The types of columns that hold categories whatever their names."""

_MOST_CODES = 2**24
"""Whole numbers up to here are exact in single precision."""

WAYS = (
    "; missing values are kept by missing_features='keep', and filled by a ranker's missing_features (rankbound train: "
    "--missing-features mean, zero or indicator)",
    "; if its values are categories, name the column by `categorical` (rankbound train: --categorical NAMES)",
)
"""What to do about a feature that lacks a value, or has a text."""

WAYS_OF_LABELS = (
    "",
    "; the numbers of other labels are named by `grades` (on the command line: --grades bad,fair,good)",
)
"""What to do about a label that is a text."""

NO_GRADES = "grades: found beside judgements that are no table of rows, whose labels are numbers; expected none"


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns, and what some hold.

    Attributes:
        topic: the topics' names.
        item: the items' names; without such a column, topic and row number identify an item.
        relevance: the relevance labels.
        weights, list_weights: the weights of items and of topics, if there are any.
        grades: the numbers that the labels stand for, by their texts, if labels are no numbers.
        exclude: columns that are no features.
        categorical: features whose values are categories, possibly with the known ones; by default, those of a
            categorical type, and chosen text.
        keep_missing: features may lack values.
        features: the features, if they are chosen, none of which has a role.
        labelled: False for a table that may lack relevance labels, which are then 0; None if they are not read.
        judgements: the labels may be called scores, as in BEIR's, and negative whole numbers are of unjudged items.
    """

    topic: str = "topic"
    item: str | None = None
    relevance: str = "relevance"
    weights: str | None = None
    list_weights: str | None = None
    grades: Mapping[str, float] | None = None
    exclude: Sequence[str] = ()
    categorical: Categories | None = None
    keep_missing: bool = False
    features: Sequence[str] | None = None
    labelled: bool | None = True
    judgements: bool = False

    def found_in(self, names: Sequence[str], where: str) -> "Columns":
        """Return the columns as a table calls them: those that have their default names here may have others there.

        Unless the table is `labelled`, relevance labels have no other name. DataError for two names of one column.
        """
        found: dict[str, Any] = {"topic": self.topic, "item": self.items, "relevance": self.relevance}
        others = [name for name in names if name not in (*(self.features or ()), *found.values())]
        for role, name in found.items():
            if name == role and role not in names and (self.labelled or role != "relevance"):
                other = named(role, others, where)
                if other is None and role == "relevance" and self.judgements:
                    other = named("score", others, where)
                found[role] = other or name
        found["item"] = found["item"] if found["item"] in names else self.item
        return replace(self, **found)

    @property
    def items(self) -> str:
        return "item" if self.item is None else self.item

    @property
    def texts(self) -> Sequence[str]:
        """The columns whose values are read as they are written in a file."""
        return (self.topic, self.items, *([self.relevance] if self.grades else ()), *(self.categorical or ()))

    @property
    def roles(self) -> Mapping[str, str]:
        """The columns that are no features, with what they are."""
        weights = {self.weights: "weights", self.list_weights: "list_weights"}
        named = {name: role for name, role in weights.items() if name is not None}
        return {**named, self.topic: "topic", self.items: "item", self.relevance: "relevance"}


@dataclass(frozen=True)
class Table:
    """A table or a batch of one, with the words by which messages name it and its rows; its columns are checked.

    Attributes:
        frame: the rows.
        where: the name of the table in messages.
        row_name: `row`, or `line` of text.
        first_row: the number of the first row of `frame`.
        written: the `notations` of all columns, if they are known.
    """

    frame: pl.DataFrame
    where: str
    row_name: str
    first_row: int
    written: Mapping[str, set[str]] | None = None

    def row(self, index: int) -> str:
        """Return the name of the row at that place in the frame."""
        return f"{self.where}, {self.row_name} {index + self.first_row}"

    def row_numbers(self) -> npt.NDArray[np.int64]:
        return np.arange(self.first_row, self.first_row + len(self.frame))

    def require(self, columns: Columns) -> None:
        """Raise DataError for a column that is named and not there, and for a feature with a role, or excluded.

        The message says how to name another column.
        """
        roles = {name: getattr(columns, name) for name in ("topic", "item", "relevance", "weights", "list_weights")}
        known, features = set(self.frame.columns), columns.features
        for role, name in roles.items():
            if name is not None and name not in known and (columns.labelled or role != "relevance"):
                flag = f"--{role.replace('_', '-')} NAME"
                advice = f"name the column of the {role} by `{role}` (on the command line: {flag})"
                if role == "relevance":
                    advice += (
                        "; rows without labels, to be scored, are read by labelled=False; if every row is of a "
                        "relevant item, add a column of ones"
                    )
                raise DataError(f"{self._no_column(name)}; {advice}")
        for option, names in (("exclude", columns.exclude), ("categorical", columns.categorical or ())):
            for name in names:
                if name not in known:
                    flag = f"(on the command line: --{option})"
                    raise DataError(f"{self._no_column(name)}, which `{option}` names {flag}")
                if option == "categorical" and features is not None and name not in features:
                    raise DataError(f"{self.where}: `categorical` names {name!r}, which is not among the chosen")
        for name in (*(features or ()), *(columns.categorical or ())):
            if name not in known:
                chosen = shortened(", ".join(features or ()), LONGEST_VALUE)
                raise DataError(f"{self._no_column(name)}; the features to read, such as a ranker's, are {chosen}")
            if name in columns.roles:
                role = columns.roles[name]
                flag = f"--{role.replace('_', '-')} NAME"
                raise DataError(
                    f"{self.where}: the feature {name!r} is the column of the {role}, which a ranker must not see: "
                    f"choose other features, or name another column by `{role}` (on the command line: {flag})"
                )
            if name in columns.exclude:
                raise DataError(f"{self.where}: {name!r} is among the features, and among those that `exclude` has")

    def text(self, name: str) -> pl.Series:
        """Return a column of names, texts or whole numbers, as text; DataError for an empty one."""
        column = self._column(name)
        if column.dtype.is_nested() or column.dtype.is_float():
            raise DataError(f"{self.where}: column {name!r} is {column.dtype}, expected names (text or whole numbers)")
        names = column.cast(pl.String)
        if names.null_count():
            raise DataError(f"{self.row(_first(names.is_null()))}: column {name!r} is empty, expected a name")
        return names

    def item_names(self, columns: Columns) -> pl.Series:
        """Return the names of the items; without a column of them, topic and row number."""
        if columns.item is not None or columns.items in self.frame.columns:
            return self.text(columns.items)
        return self.text(columns.topic) + "-" + pl.Series(self.row_numbers()).cast(pl.String)

    def relevance(self, columns: Columns) -> Array:
        """Return the relevance labels, numbers from 0; those that a table may lack, or that are not read, are 0.

        In judgements, a column of scores holds whole numbers: it may be that of a run.
        """
        if columns.labelled is None or not (columns.labelled or columns.relevance in self.frame.columns):
            return np.zeros(len(self.frame), dtype=np.int8)
        if (grades := columns.grades) is not None:
            labels, known = self.category_texts(columns.relevance), shortened(", ".join(grades), LONGEST_VALUE)
            others = ~labels.is_in(list(grades)).fill_null(False)
            self._refuse_where(others, columns.relevance, labels, f"expected one of the grades {known}")
            place = labels.replace_strict(list(grades), np.arange(len(grades)), return_dtype=pl.Int64).to_numpy()
            relevance: Array = np.array(list(grades.values()))[place]
            return relevance
        relevance = self.numbers(columns.relevance, WAYS_OF_LABELS)
        fraction = relevance != np.floor(relevance)
        wrong, expected = relevance < 0, "grades from 0"
        if columns.judgements:
            wrong, expected = wrong & fraction, f"{expected}, or a negative whole number of an unjudged item"
            if named("score", [columns.relevance], self.where):
                wrong, expected = fraction, "whole numbers, as judgements are; fractions are scores of a run"
        self._refuse_where(wrong, columns.relevance, relevance, f"expected {expected}")
        return relevance

    def weights(self, name: str) -> Array:
        """Return a column of weights, numbers from 0; DataError for another value."""
        weights = self.numbers(name)
        self._refuse_where(weights < 0, name, weights, "expected weights from 0")
        return weights

    def weights_of_topics(
        self, columns: Columns, topics: Sequence[str], offsets: npt.NDArray[np.int64], order: Any
    ) -> Array | None:
        """Return the weight of each topic, if there is a column of them; DataError for one with two different weights.

        `order` are the places of the topics' rows in the table, or None.
        """
        if columns.list_weights is None:
            return None
        weights = self.weights(columns.list_weights)
        rows = np.arange(len(weights)) if order is None else order
        firsts = np.repeat(rows[offsets[:-1]], np.diff(offsets))
        for at in np.flatnonzero(weights[rows] != weights[firsts])[:1].tolist():
            topic = quoted(topics[int(np.searchsorted(offsets, at, side="right")) - 1])
            raise DataError(
                f"{self.row(int(rows[at]))}: column {columns.list_weights!r} holds {weights[rows[at]]}, but topic "
                f"{topic} begins with {weights[firsts[at]]}; expected one weight for all rows of a topic: a weight of "
                "each row is named by `weights` (on the command line: --weights NAME)"
            )
        of_topics: Array = weights[rows[offsets[:-1]]]
        return of_topics

    def numbers(self, name: str, ways: Sequence[str] = ("", "")) -> Array:
        """Return a column of finite numbers, whole ones as int64, others as floats; `ways` as in `refuse`."""
        column = self._numeric(name, ways=ways)
        is_whole = column.dtype.is_integer() or (isinstance(column.dtype, pl.Decimal) and column.dtype.scale == 0)
        target = pl.Int64 if is_whole else pl.Float32 if column.dtype == pl.Float32 else pl.Float64
        if column.null_count() or not column.cast(pl.Float64).is_finite().all():
            refuse([self], name)
        values = column.cast(target, strict=False)
        self._refuse_where(values.is_null(), name, column, "too large a number")
        return values.to_numpy()

    def moments(self, name: str) -> pl.Series:
        """Return a column of times: finite numbers, or dates and times, as texts of ISO 8601 or of such a type."""
        column = self._column(name)
        if column.dtype.is_numeric():
            return pl.Series(self.numbers(name))
        moments = column.str.strip_chars() if column.dtype == pl.String else column
        if column.dtype == pl.String:
            with suppress(pl.exceptions.ComputeError):
                moments = moments.str.to_datetime(time_unit="us", strict=False)
        if moments.dtype == pl.Date:
            moments = moments.cast(pl.Datetime("us"))
        if not isinstance(moments.dtype, pl.Datetime) or moments.null_count():
            row = _first(moments.is_null()) if isinstance(moments.dtype, pl.Datetime) else 0
            raise DataError(
                f"{self.row(row)}: column {name!r} holds {quoted(str(column[row]))}, expected a time: a number, or a "
                "date such as 2026-01-31 or 2026-01-31 12:30:00, in one notation"
            )
        return moments

    def matrix(
        self, names: Sequence[str], categorical: Categories = (), keep_missing: bool = False
    ) -> tuple[npt.NDArray[np.float32], dict[str, list[str]]]:
        """Return columns of finite numbers, `(n_rows, n_names)`, row by row as models read them, and their categories.

        A category is its place among the sorted ones of its column, or among the known ones that `categorical` maps it
        to, beside which others are missing. A missing value is NaN, if they are kept.
        """
        if not names:
            # Polars 1.20 has no array of a frame without columns.
            return np.empty((len(self.frame), 0), dtype=np.float32), {}
        columns, categories = [], dict[str, list[str]]()
        for name in names:
            if name in categorical:
                texts = self.category_texts(name)
                if isinstance(categorical, Mapping):
                    known = pl.Series(categorical[name], dtype=pl.String)
                else:
                    known = texts.drop_nulls().unique().sort()
                if len(known) > _MOST_CODES:
                    raise DataError(f"{self.where}: column {name!r} holds {len(known)} categories, too many")
                categories[name] = known.to_list()
                column = texts.replace_strict(known, np.arange(len(known)), default=None, return_dtype=pl.Float32)
                if not keep_missing:
                    others = texts.is_not_null() & column.is_null()
                    expected = f"expected one of its {len(known)} known categories"
                    way = "missing_features='keep' reads others as missing"
                    self._refuse_where(others, name, texts, f"{expected}; {way}")
            else:
                column = self._numeric(name, keep_missing, WAYS)
            columns.append(column.cast(pl.Float32))
        # Nulls become NaN.
        values: npt.NDArray[np.float32] = pl.DataFrame(columns).to_numpy(order="c")
        wrong = np.isinf(values) if keep_missing else ~np.isfinite(values)
        if wrong.any():
            name = names[int(np.argwhere(wrong)[0, 1])]
            refuse([self], name, WAYS, keep_missing, texts=name in categorical)
        return values, categories

    def category_texts(self, name: str) -> pl.Series:
        """Return categories as text, missing ones as null: texts, truth values, or whole numbers of any type."""
        column, expected = self._column(name), "expected categories: texts or whole numbers"
        if column.dtype.is_float():
            whole = column.fill_nan(None)
            fractions = ((whole != whole.floor()) | whole.is_infinite()).fill_null(False)
            self._refuse_where(fractions, name, column, expected)
            column = whole.cast(pl.Int64)
        if column.dtype.is_nested() or column.dtype.is_temporal() or column.dtype == pl.Object:
            raise DataError(f"{self.where}: column {name!r} is {column.dtype}, {expected}")
        return column.cast(pl.String)

    def categorical(self, columns: Columns, names: Sequence[str]) -> Categories:
        """Return the features whose values are categories.

        Where `categorical` does not name them, a type may say so, and text without any number that is chosen.
        """
        if columns.categorical is not None:
            return columns.categorical
        own, texts = map(self.frame.get_column, names), {"texts", "words"}
        return [column.name for column in own if isinstance(column.dtype, CATEGORIES) or notations(column) == texts]

    def _refuse_where(self, wrong: Any, name: str, values: Any, expected: str) -> None:
        """Raise DataError for the first of a column's values that is wrong."""
        for row in np.flatnonzero(wrong)[:1].tolist():
            value = values[row]
            found = "is empty" if value is None else f"holds {quoted(value) if isinstance(value, str) else value}"
            raise DataError(f"{self.row(row)}: column {name!r} {found}, {expected}")

    def _column(self, name: str) -> pl.Series:
        # `frame.columns` is a new list of all names at each use, which takes long in a loop over them.
        try:
            return self.frame[name]
        except pl.exceptions.ColumnNotFoundError:
            raise DataError(self._no_column(name)) from None

    def _no_column(self, name: str) -> str:
        """Return the message for a column that is not there."""
        columns = self.frame.columns
        some = [shortened(column, LONGEST_VALUE) for column in columns[:_SHOWN_NAMES]]
        shown = ", ".join(some) + (", ..." if len(columns) > _SHOWN_NAMES else "")
        hint = "; the first line must name the columns" if any(map(is_number, columns)) else ""
        return f"{self.where}: there is no column {name!r}; it has {shown or 'none'}{hint}"

    def _numeric(self, name: str, keep_missing: bool = False, ways: Sequence[str] = ("", "")) -> pl.Series:
        column = self._column(name)
        if column.dtype == pl.Boolean:
            return column.cast(pl.Int8)
        if not column.dtype.is_numeric():
            if keep_missing and column.null_count() == len(column):
                return column.cast(pl.Float32, strict=False)
            if column.dtype in (pl.String, pl.Null):
                refuse([self], name, ways, keep_missing)
            raise DataError(f"{self.where}: column {name!r} is {column.dtype}, expected numbers")
        return column


def named(role: str, names: Sequence[str], where: str) -> str | None:
    """Return the column that has a role by one of the names of other tools; DataError if there are two."""
    for group in OTHER_NAMES[role]:
        letters = {_letters(name) for name in group}
        known = [name for name in names if {_letters(name), _letters(name).removesuffix("s")} & letters]
        if len(known) > 1:
            by_flag = f"name one by `{role}` (on the command line: --{role} NAME)"
            advice = by_flag if role in vars(Columns()) else "keep one of them"
            raise DataError(f"{where}: the columns {known[0]!r} and {known[1]!r} may both be the {role}; {advice}")
        if known:
            return known[0]
    return None


def require_ranks(ranks: Array, where: str) -> Array:
    """Return ranks; DataError for other than whole numbers from 0."""
    for wrong in ranks[(ranks < 0) | (ranks != np.floor(ranks))][:1]:
        raise DataError(f"{where}: found rank {wrong}, expected whole numbers from 1")
    return ranks


def notations(column: pl.Series) -> set[str]:
    """Return how the values of a batch of a column are written: as `numbers`, as `words`, or as `texts` of any kind.

    Over all batches, a column without numbers is text; one with words and numbers is numeric, with a mistake in it. So
    is one of texts without words: numbers in another notation, with spaces around them or decimal commas.
    """
    if column.dtype.is_numeric():
        return {"numbers"} if column.null_count() < len(column) else set()
    if column.dtype != pl.String:
        return {"words"}
    if not len(known := column.drop_nulls()):
        return set()
    plain = known.str.strip_chars().str.replace(r"^([+-]?\d*),(\d+)$", "${1}.${2}")
    has_number = not known.cast(pl.Float64, strict=False).is_null().all()
    has_word = plain.cast(pl.Float64, strict=False).null_count()
    return {"texts"} | ({"numbers"} if has_number else set()) | ({"words"} if has_word else set())


def has_no_name(name: str) -> bool:
    """Return True for the name of a column that has none, as the index of a data frame has in a file."""
    return _NO_NAME.fullmatch(name) is not None


def told_apart(
    types: Mapping[str, pl.DataType],
    written: Mapping[str, set[str]],
    roles: Collection[str],
    categorical: Collection[str] = (),
    by_type: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Return the features, numbers with mistakes among them, and what the columns are that are left out by default.

    `written` has the `notations` of the columns, of which those with `roles` are neither. Categories are features where
    `categorical` names them, or, `by_type`, if that is what a column's type says.
    """
    features, left_out = list[str](), dict[str, str]()
    for name, dtype in types.items():
        if name in roles:
            continue
        if name in categorical or (by_type and isinstance(dtype, CATEGORIES)):
            features.append(name)
            continue
        is_number = "numbers" in written[name] or written[name] == {"texts"}
        if has_no_name(name):
            left_out[name] = "without a name"
        elif not (dtype.is_numeric() or dtype == pl.Boolean or (dtype == pl.String and is_number)):
            left_out[name] = "text" if dtype == pl.String else "no numbers"
        elif what := _RESERVED_AS.get(_letters(name)):
            left_out[name] = what
        else:
            features.append(name)
    return features, left_out


def _letters(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


_RESERVED_AS = {_letters(name): what for what, names in RESERVED.items() for name in names}


def refuse(
    tables: Iterable[Table], name: str, ways: Sequence[str] = ("", ""), keep_missing: bool = False, texts: bool = False
) -> None:
    """Raise DataError for the first value of a column, over all batches, that is not a finite number.

    If polars reads all of them as numbers, but takes the column for text, it is the very first one. `ways` are what to
    do about a missing value, and about a text. Missing values may be no mistake, and `texts` none.
    """
    for number, table in enumerate(tables):
        column = table.frame[name]
        column = column.cast(pl.String) if isinstance(column.dtype, CATEGORIES) else column
        values = column.cast(pl.Float32, strict=False)
        mistakes = column.is_null() if texts else values.is_null() | ~values.is_finite()
        if keep_missing:
            mistakes &= column.is_not_null() & ~values.is_nan().fill_null(False)
        if number == 0 or mistakes.any():
            wrong, row = table, _first(mistakes)
        if mistakes.any():
            break
    if not len(wrong.frame):
        raise DataError(f"{wrong.where}: there are no rows in it")
    value = wrong.frame[name][row]
    found = "is empty" if value is None else f"holds {quoted(value)}"
    hint = " with a decimal point" if re.fullmatch(r"\s*[+-]?\d*,\d+\s*", str(value)) else ""
    is_missing = value is None or (isinstance(value, float) and np.isnan(value))
    way = ways[0] if is_missing else ways[1] if isinstance(value, str) and not is_number(value) else ""
    expected = "a category" if texts else f"a finite number{hint}"
    raise DataError(f"{wrong.row(row)}: column {name!r} {found}, expected {expected}{way}")


def _first(mask: pl.Series) -> int:
    index = mask.fill_null(True).arg_max()
    return 0 if index is None else int(index)


def by_topic(topic: pl.Series) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """Return the topics' names, the offsets of their lists, and the order that groups the rows (None if grouped)."""
    starts = topic.ne_missing(topic.shift()).arg_true().to_numpy().astype(np.int64)
    names = topic[starts]
    if len(names) == 0:
        return [], np.zeros(1, np.int64), None
    if names.n_unique() == len(names):
        return names.to_list(), np.append(starts, len(topic)), None
    names = names.unique(maintain_order=True)
    code = topic.replace_strict(names, pl.Series(np.arange(len(names)))).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(np.bincount(code, minlength=len(names))))).astype(np.int64)
    return names.to_list(), offsets, np.argsort(code, kind="stable")


def require_distinct_items(
    frame: pl.DataFrame,
    where: str,
    topics: Sequence[str] | None = None,
    row_name: str = "",
    row_numbers: npt.NDArray[np.int64] | None = None,
) -> None:
    """Raise DataError if a topic has an item twice; `frame` has the columns item and topic (its index in `topics`).

    The message has the numbers of the two rows in their file, if they are given.
    """
    # Hashing is much faster than comparing the pairs, and collisions are rare.
    if frame.select(pl.struct("topic", "item").hash().n_unique()).item() == len(frame):
        return
    if len(twice := frame.filter(pl.struct("topic", "item").is_duplicated())):
        topic, item = twice.select("topic", "item").row(0)
        places = np.flatnonzero(((frame["topic"] == topic) & (frame["item"] == item)).to_numpy())
        which = ""
        if row_numbers is not None:
            first, second = sorted(row_numbers[places[:2]].tolist())
            which = f" ({row_name}s {first} and {second})"
        topic = topic if topics is None else topics[topic]
        found = f"item {quoted(item)} occurs more than once in topic {quoted(topic)}{which}"
        raise DataError(f"{where}: {found}; expected each once")


def grouped(rows: pl.DataFrame) -> tuple[list[str], npt.NDArray[np.int64], pl.DataFrame]:
    """Return the topics' names, the offsets of their lists, and the rows grouped by the column topic."""
    topics, offsets, order = by_topic(rows["topic"])
    return topics, offsets, rows if order is None else rows[order]


def run_of(
    topic: pl.Series, item: pl.Series, scores: Array, where: str, texts: Callable[[], pl.Series] | None = None
) -> Run:
    """Return the run of rows; `texts` returns the scores as they are written in a file.

    DataError for an item twice in a topic, and for scores of one that differ, but are equal in double precision.
    """
    topics, offsets, order = by_topic(topic)
    with naming(where):
        large = np.flatnonzero(np.abs(scores) >= LARGEST_EXACT)
        # Usually no topic has equal scores that large.
        if texts and topic[large].to_frame("topic").with_columns(score=scores[large]).is_duplicated().any():
            written = zip(topic[large], item[large], texts()[large], strict=True)
            refuse_rounded((*names, int(score)) for *names, score in written if _WHOLE.fullmatch(score))
        if order is not None:
            item, scores = item[order], scores[order]
        run = Run(topics=topics, items=item, scores=scores, offsets=offsets)
    if not run.has_distinct_keys:
        require_distinct_items(rows_of(run), where)
    return run


def qrels_of(rows: tuple[Sequence[str], npt.NDArray[np.int64], pl.DataFrame], intents: Intents | None = None) -> Qrels:
    """Return the judgements of `grouped` rows; negative relevance, as in TREC qrels, marks an item as not judged."""
    topics, offsets, frame = rows
    relevance = frame["relevance"].to_numpy()
    return Qrels(
        topics=topics,
        items=frame["item"],
        relevance=relevance.clip(min=0),
        offsets=offsets,
        unjudged=relevance < 0 if (relevance < 0).any() else None,
        intents=intents,
    )


def qrels_by_intent(rows: pl.DataFrame, where: str) -> Qrels:
    """Return the judgements of rows with the columns topic, intent, item (all text) and relevance.

    The relevance of an item is the highest that it has to an intent. DataError for one that an intent judges twice.
    """
    twice = rows.filter(pl.struct("topic", "intent", "item").is_duplicated())
    if len(twice):
        topic, intent, item = twice.select("topic", "intent", "item").row(0)
        raise DataError(
            f"{where}: item {quoted(item)} occurs more than once in intent {quoted(intent)} of topic {quoted(topic)}; "
            "expected each item once an intent"
        )
    key = ["topic", "item"]
    topics, offsets, items = grouped(rows.group_by(key, maintain_order=True).agg(pl.col("relevance").max()))
    numbered = items.select(*key).with_row_index("row")
    intents = rows.select("topic", "intent").unique().sort("topic", "intent").with_row_index("number")
    judged = rows.join(numbered, on=key).join(intents, on=["topic", "intent"]).sort("row", "number")
    by_intent = Intents(
        item=judged["row"].cast(pl.Int64).to_numpy(),
        intent=judged["number"].cast(pl.Int64).to_numpy(),
        relevance=judged["relevance"].to_numpy(),
        names=intents["intent"].to_list(),
    )
    return qrels_of((topics, offsets, items), by_intent)


def intents_of(source: Mapping[Any, Mapping[Any, Any]]) -> Qrels:
    """Return the judgements of `{topic: {intent: {item: relevance}}}`; DataError for another value than a number."""
    rows = []
    for topic, intents in source.items():
        for intent, items in intents.items():
            where = f"topic {topic!r}, intent {intent!r}"
            if not isinstance(items, Mapping):
                raise DataError(
                    f"{where}: found {items!r}, expected {{item: relevance}}: judgements by intent are "
                    "{topic: {intent: {item: relevance}}}"
                )
            for item, value in items.items():
                if not isinstance(value, Real) or not 0 <= float(value) < float("inf"):
                    raise DataError(f"{where}, item {item!r}: found relevance {value!r}, expected grades from 0")
                rows.append((str(topic), str(intent), str(item), float(value)))
    schema = {"topic": pl.String, "intent": pl.String, "item": pl.String, "relevance": pl.Float64}
    return qrels_by_intent(pl.DataFrame(rows, schema=schema, orient="row"), "the judgements")


def rows_of(lists: Run | Qrels, **values: Array) -> pl.DataFrame:
    """Return the items of lists as rows with the columns topic and item, and those of `values`."""
    topic = name_column(lists.topics)[np.repeat(np.arange(len(lists.topics)), np.diff(lists.offsets))]
    return pl.DataFrame({"topic": topic, "item": name_column(lists.items), **values})


def rows_of_judgements(qrels: Qrels) -> pl.DataFrame:
    """Return judgements as rows with the columns topic, intent if there are any, item and relevance."""
    if (intents := qrels.intents) is None:
        return rows_of(qrels, relevance=qrels.marked())
    rows = rows_of(qrels)[intents.item]
    names = pl.Series("intent", list(intents.names), dtype=pl.String)[intents.intent]
    return rows.insert_column(1, names).with_columns(relevance=pl.Series(intents.relevance))
