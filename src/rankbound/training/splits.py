"""Splits of judged lists into training, validation and test, and cross-validation: rankers that are tested on splits.

The parts of a split have no topic, or no item of one, in common. In cross-validation, each part of the lists is scored
by a ranker that was not trained on it.

Interactions may be split by their times: at one moment for all topics, or before the last items of each topic. Random
splits train on interactions that are later than those of the test, so that a model knows what will be popular, and what
a user will do next. Values by a random split are therefore mostly higher than those of a model in use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.evaluation import Evaluation, evaluate_run
from rankbound.io.files import kind_of, needs_extra, read_lists
from rankbound.io.judged import JudgedLists, Qrels, Run, name_column
from rankbound.io.ragged import FEWEST_FOLDS, Indices, dealt_lists, rows_of_lists
from rankbound.lazy import pl
from rankbound.metrics import Metric
from rankbound.texts import quantity

if TYPE_CHECKING:
    from rankbound.lists import ArrayLike
    from rankbound.training.ranker import Ranker
    from rankbound.training.trainer import Epoch

Mask = npt.NDArray[np.bool_]
OnEpoch = Callable[["Epoch"], None]


@dataclass(frozen=True, kw_only=True)
class Split:
    """Judged lists to train on, to select the epoch on, and to test on.

    Args:
        training: the lists to train on.
        validation: those that select the epoch; by default, a share of the training lists is held out.
        test: the lists to score and evaluate.
        name: how messages call the split, such as the names of its files.

    >>> split = rb.Split(training=rb.read_lists("train.csv"), test=rb.read_lists("test.csv"))  # doctest: +SKIP
    """

    training: JudgedLists
    validation: JudgedLists | None = None
    test: JudgedLists
    name: str = ""


@dataclass(frozen=True)
class CrossValidated:
    """The result of `cross_validate` and `cross_validate_splits`.

    Args:
        run: scores of all tested lists, each by the ranker of its fold. If some topic is tested in several folds, the
            lists are called `topic/fold`.
        rankers: one for each fold.
        folds: the names of the topics that each of them was tested on.
        judged: the judgements of the run's lists, by the same names.
        tests: the topic and the fold (from 1) of each list of the run.
        seconds: for each fold, of training and scoring.
        unknown: for each fold, the number of items scored by means of other topics or items (factorisations alone).

    >>> tested = rb.cross_validate(rb.read_lists("lists.csv"), folds=10)  # doctest: +SKIP
    >>> print(tested.evaluate("nDCG@10"), tested.evaluate_folds("nDCG@10"))  # doctest: +SKIP
    >>> tested.rankers[0].save("first.safetensors")  # doctest: +SKIP
    """

    run: Run
    rankers: Sequence["Ranker"]
    folds: Sequence[Sequence[str]]
    judged: Qrels
    tests: Sequence[tuple[str, int]]
    seconds: Sequence[float]
    unknown: Sequence[int]

    def evaluate(self, metrics: str | Metric | Sequence[str | Metric]) -> Evaluation:
        """Return the metrics of each topic, the mean over the folds that test it and in which the metric is defined.

        Args:
            metrics: one or more metrics or their texts.

        Returns:
            The evaluation, one value per topic.
        """
        by_list = evaluate_run(self.run, self.judged, metrics)
        topics = list(dict.fromkeys(topic for topic, _ in self.tests))
        place = {topic: index for index, topic in enumerate(topics)}
        owner = np.array([place[topic] for topic, _ in self.tests], np.int64)
        values = {name: _means(own, owner, len(topics)) for name, own in by_list.values.items()}
        return Evaluation(topics, values, [], [])

    def evaluate_folds(self, metrics: str | Metric | Sequence[str | Metric]) -> dict[str, list[float]]:
        """Return the mean of each metric over the lists of each fold; NaN where it is undefined on all of them.

        Args:
            metrics: one or more metrics or their texts.

        Returns:
            By metric, a mean for each fold.
        """
        by_list = evaluate_run(self.run, self.judged, metrics)
        fold = np.array([number - 1 for _, number in self.tests], np.int64)
        return {name: _means(own, fold, len(self.folds)).tolist() for name, own in by_list.values.items()}


def picked(lists: JudgedLists, rows: Mask, topics: Mask | None = None) -> JudgedLists:
    """Return the lists of some rows: these topics', by default those that have any of the rows."""
    sizes = np.diff(np.append(0, np.cumsum(rows))[lists.offsets])
    kept = np.flatnonzero(sizes if topics is None else topics)
    return JudgedLists(
        topics=[lists.topics[topic] for topic in kept.tolist()],
        items=name_column(lists.items).filter(rows),
        relevance=lists.relevance[rows],
        offsets=np.append(0, np.cumsum(sizes[kept])),
        features=lists.features[rows],
        feature_names=lists.feature_names,
        weights=None if lists.weights is None else lists.weights[rows],
        list_weights=None if lists.list_weights is None else lists.list_weights[kept],
        categories=lists.categories,
    )


def split_by_time(
    source: Any,
    *,
    time: str,
    share: float = 0.2,
    at: float | str | date | datetime | None = None,
    validation_share: float = 0.0,
    topic: str = "topic",
    item: str | None = None,
    relevance: str | None = "relevance",
    features: Sequence[str] = (),
) -> Split:
    r"""Split a table of interactions at a moment: training before it, test from it on.

    Rows of one time stay together. With $n$ rows in the order of time, the cut is the time of row $\lceil n (1 - s)
    \rceil$, counted from 0: the test has at least the share $s$ of the rows, up to ties and rounding. The rows before
    it are cut once more for the validation lists.

    Nothing leaks: whatever is trained on is earlier than whatever is tested. Topics and items that begin after the cut
    are in the test alone, where a model does not know them (`unknown` of `rankbound.Recipe`); topics that end before it
    are in the training alone.

    Args:
        source: a path to CSV or parquet, or a data frame, with a row per interaction.
        time: the column of times: numbers, dates or datetimes; text in ISO 8601 is read as these.
        share: the share of the rows to test on, the latest ones; without `at`.
        at: the moment of the cut, as the column has it; the rows at this moment are tested.
        validation_share: the share of the other rows to select the epoch on, the latest ones.
        topic, item: the columns, as in `read_lists`.
        relevance: the column of relevance labels; None takes every row as an interaction, of relevance 1.
        features: the columns of features; none by default.

    Returns:
        The split; without a `validation_share`, its validation is None.

    Raises:
        ValueError: for shares out of range, or a moment that is no time of such a column.
        DataError: as `read_lists`, for a time that is missing or cannot be read, or if a part would be empty.

    >>> rows = {"topic": ["a", "a", "b"], "item": ["x", "y", "x"], "relevance": [1, 1, 1], "day": [1, 3, 2]}
    >>> split = rb.split_by_time(rows, time="day", at=3)
    >>> list(split.training.items), list(split.test.items)
    (['x', 'x'], ['y'])
    """
    for name, value, lowest in (("share", share, "(0"), ("validation_share", validation_share, "[0")):
        if not (0 < value < 1 or (value == 0 and lowest == "[0")):
            raise ValueError(f"{name}: found {value}, expected a share in {lowest}, 1)")
    lists, moments = _read(source, time, topic, item, relevance, features)
    values = moments.to_physical().to_numpy()
    cut = _cut(values, share, "test") if at is None else _moment(at, moments, time)
    tested = values >= cut
    rest = values[~tested]
    held = ~tested & (values >= _cut(rest, validation_share, "validation")) if validation_share else None
    if at is not None and tested.all() | ~tested.any():
        side = "before" if tested.all() else "at or after"
        raise DataError(f"at: found {at}, but no row is {side} it; expected a moment between the times of {time!r}")
    return _split(lists, tested, held, f"by {time}")


def leave_last_out(
    source: Any,
    *,
    time: str,
    last: int = 1,
    validation: int = 0,
    topic: str = "topic",
    item: str | None = None,
    relevance: str | None = "relevance",
    features: Sequence[str] = (),
) -> Split:
    """Split a table of interactions within each topic: its `last` rows are tested, and those before them trained on.

    Rows of one time are in the order of their items' names, whatever the order of the table. A topic with too few rows
    to leave one for training, at most `last + validation`, is in the training lists alone.

    The time of other topics leaks: a topic is trained on rows that are later than another one's test, so that the model
    knows what will be popular then. `split_by_time` has no such leak, but topics that are new in its test.

    Args:
        source, time: as in `split_by_time`.
        last: the number of each topic's latest rows to test on.
        validation: the number of rows before those to select the epoch on.
        topic, item, relevance, features: as in `split_by_time`.

    Returns:
        The split; without `validation`, its validation is None.

    Raises:
        ValueError: for numbers of rows out of range.
        DataError: as `split_by_time`; no topic has enough rows.

    >>> rows = {"topic": ["a", "a", "b"], "item": ["x", "y", "x"], "relevance": [1, 1, 1], "day": [1, 3, 2]}
    >>> split = rb.leave_last_out(rows, time="day")
    >>> list(split.training.items), list(split.test.items)
    (['x', 'x'], ['y'])
    """
    for name, value, lowest in (("last", last, 1), ("validation", validation, 0)):
        if value < lowest:
            raise ValueError(f"{name}: found {value}, expected a number of rows from {lowest}")
    lists, moments = _read(source, time, topic, item, relevance, features)
    sizes = np.diff(lists.offsets)
    topics = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((name_column(lists.items).rank("dense").to_numpy(), moments.to_physical().to_numpy(), topics))
    # Rows of a topic that are later, by the place in this order.
    later = np.empty(len(order), np.int64)
    later[order] = np.repeat(lists.offsets[1:], sizes) - 1 - np.arange(len(order))
    enough = np.repeat(sizes > last + validation, sizes)
    tested = enough & (later < last)
    if not tested.any():
        raise DataError(
            f"no topic has more than {quantity(last + validation, 'row')}, expected some to train on: the largest of "
            f"{quantity(len(sizes), 'topic')} has {sizes.max(initial=0)}"
        )
    return _split(lists, tested, enough & ~tested & (later < last + validation) if validation else None, "last out")


def cross_validate(
    lists: JudgedLists,
    folds: int = 5,
    *,
    weights: "ArrayLike | None" = None,
    list_weights: "ArrayLike | None" = None,
    device: str = "auto",
    on_epoch: OnEpoch = lambda epoch: None,
    **recipe: Any,
) -> CrossValidated:
    """Train a ranker for each fold on the topics outside of it, and score the fold's topics by it.

    A share of the training topics selects the epoch (`validation_share`), so that no ranker has seen the topics that
    it scores. Scores of different topics may come from different rankers, so that only those of one topic are
    comparable. The features of a fold's training topics are in memory.

    A `matrix-factorization` knows topics, as all models without features do: folds are parts of each topic's items,
    with their share of every relevance label. Negatives are drawn before items are dealt: test
    lists have some, too. Items and topics that are in no other fold are scored by the mean of the others (`unknown`,
    which is `mean` here unless given).

    Args:
        lists: judged lists, such as `read_lists` returns.
        folds: the number of parts to which the topics, or each topic's items, are dealt at random, by the recipe's
            `seed`. For given parts, use `cross_validate_splits`.
        weights, list_weights: those of the items and of the lists, as in `train_ranker`.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        on_epoch: called after every epoch of each fold, to show progress.
        recipe: the fields of `rankbound.Recipe`.

    Returns:
        The run of all test topics, in the order of `lists`, the rankers, and judgements to evaluate the run by.

    Raises:
        ValueError: fewer than two folds or more than topics (for a factorisation, than items of the largest topic), or
            as `train_ranker`.
        DataError, TrainingError: as `train_ranker`; the message names the fold.

    >>> tested = rb.cross_validate(rb.read_lists("lists.csv"), loss="nDCG")  # doctest: +SKIP
    >>> tested.evaluate("nDCG@10").means()  # doctest: +SKIP
    """
    from rankbound.training.inputs import weighted
    from rankbound.training.recipe import FACTORIZATIONS, PAIR_MODELS, recipe_of

    chosen = recipe_of(recipe)
    lists = weighted(lists, weights, list_weights, chosen)
    if chosen.model not in PAIR_MODELS:
        masks = (np.isin(np.arange(len(lists)), part) for part in dealt_lists(len(lists), folds, chosen.seed))
        own = ((mask, np.repeat(mask, np.diff(lists.offsets))) for mask in masks)
        splits = (Split(training=picked(lists, ~rows, ~mask), test=picked(lists, rows, mask)) for mask, rows in own)
        return _tested(splits, recipe, device, on_epoch, lists.topics)
    from rankbound.training.pairs import Vocabulary, folds_within, sorted_pairs, with_negatives

    drawn = with_negatives(lists, chosen.negatives, chosen.seed) if chosen.negatives else lists
    largest = int(np.diff(drawn.offsets).max(initial=0))
    if not FEWEST_FOLDS <= folds <= largest:
        raise ValueError(f"folds: found {folds}, expected {FEWEST_FOLDS} to {largest}, the items of the largest topic")
    # Which fold a row is in depends on names, not on the order of rows.
    topics, _, order = sorted_pairs(drawn, Vocabulary.of_lists(drawn))
    fold = np.empty(len(order), np.int64)
    fold[order] = folds_within(topics, drawn.relevance[order], folds, chosen.seed)
    # What was drawn stands behind a topic's own items; unless it is drawn once, trainings draw their own.
    trained, settings = np.ones(len(order), bool), {"negatives": 0}
    if chosen.model in FACTORIZATIONS and chosen.negative_sampling != "once":
        sizes = np.diff(drawn.offsets)
        place = np.arange(len(order)) - np.repeat(drawn.offsets[:-1], sizes)
        trained, settings = place < np.repeat(np.diff(lists.offsets), sizes), {}
    splits = (
        Split(training=picked(drawn, (fold != number) & trained), test=picked(drawn, fold == number))
        for number in range(int(fold.max(initial=-1)) + 1)
    )
    return _tested(splits, {"unknown": "mean"} | recipe | settings, device, on_epoch, lists.topics)


def cross_validate_splits(
    splits: Iterable[Split], *, device: str = "auto", on_epoch: OnEpoch = lambda epoch: None, **recipe: Any
) -> CrossValidated:
    """Train a ranker on each of some given splits, and score the split's test lists by it.

    Args:
        splits: the splits, one at a time in memory if this is a generator. Test lists of different splits may have
            topics in common (repeated random splits).
        device, on_epoch, recipe: as in `cross_validate`.

    Returns:
        The run of all test lists, the rankers, and judgements to evaluate the run by.

    Raises:
        ValueError: no splits, negatives (which test lists would lack), or as `train_ranker`.
        DataError, TrainingError: as `train_ranker`; or a topic is in two parts of a split, for a factorisation an item
            of a topic. The message names the split.

    >>> split = rb.Split(training=rb.read_lists("train.csv"), test=rb.read_lists("test.csv"))  # doctest: +SKIP
    >>> rb.cross_validate_splits([split], loss="nDCG").evaluate("nDCG@10").means()  # doctest: +SKIP
    """
    from rankbound.training.recipe import recipe_of

    if recipe_of(recipe).negatives:
        raise ValueError(
            f"negatives: found {recipe['negatives']} beside given splits, whose test lists would have none; expected "
            "0, and files whose rows with relevance 0 are the negatives"
        )
    return _tested(splits, recipe, device, on_epoch)


def _tested(
    splits: Iterable[Split], recipe: Mapping[str, Any], device: str, on_epoch: OnEpoch, topics: Sequence[str] = ()
) -> CrossValidated:
    """Train and score in each split; the lists of the result are in the order of `topics`, others of appearance."""
    from rankbound.training.inputs import require_apart
    from rankbound.training.ranker import train_ranker
    from rankbound.training.recipe import PAIR_MODELS

    rankers, runs, judged, seconds, unknown = [], [], [], [], []
    for number, split in enumerate(splits, start=1):
        started = perf_counter()
        try:
            parts = {name: getattr(split, name) for name in ("training", "validation", "test")}
            require_apart(parts, by_item=recipe.get("model") in PAIR_MODELS)
            ranker = train_ranker(split.training, split.validation, device=device, on_epoch=on_epoch, **recipe)
            runs.append(ranker.score_lists(split.test))
        except DataError as error:
            raise DataError(f"fold {number}{f' ({split.name})' if split.name else ''}: {error}") from error
        rankers.append(ranker)
        judged.append(split.test)
        unknown.append(0)
        if ranker.vocabulary is not None:
            of_topics, of_items = ranker.vocabulary.indices(split.test)
            unknown[-1] = int(((np.repeat(of_topics, np.diff(split.test.offsets)) < 0) | (of_items < 0)).sum())
        seconds.append(perf_counter() - started)
    if not rankers:
        raise ValueError("splits: found none, expected at least one")
    tests = [(topic, number) for number, run in enumerate(runs, start=1) for topic in run.topics]
    place = {topic: index for index, topic in enumerate(dict.fromkeys([*topics, *(topic for topic, _ in tests)]))}
    order = np.array(sorted(range(len(tests)), key=lambda at: (place[tests[at][0]], tests[at][1])), np.int64)
    in_order = [tests[at] for at in order.tolist()]
    distinct = len({topic for topic, _ in tests}) == len(tests)
    names = [topic if distinct else f"{topic}/{number}" for topic, number in in_order]
    sizes = np.concatenate([np.diff(run.offsets) for run in runs])
    rows, limits = rows_of_lists(np.append(0, np.cumsum(sizes)), order)
    items = pl.concat([name_column(run.items) for run in runs])[rows]
    columns: dict[str, Any] = {"topics": names, "items": items, "offsets": limits}
    run = Run(**columns, scores=np.concatenate([run.scores for run in runs])[rows])
    judgements = Qrels(**columns, relevance=np.concatenate([part.relevance for part in judged])[rows])
    folds = [list(run.topics) for run in runs]
    return CrossValidated(run, rankers, folds, judgements, in_order, seconds, unknown)


def _means(values: Any, group: Indices, count: int) -> Any:
    """Return the means of the values of each group that are not NaN; NaN for a group without any."""
    defined = ~np.isnan(values)
    total = np.bincount(group[defined], values[defined], minlength=count)
    with np.errstate(invalid="ignore"):
        return total / np.bincount(group[defined], minlength=count)


def _split(lists: JudgedLists, tested: Mask, held: Mask | None, name: str) -> Split:
    known = ~tested if held is None else ~(tested | held)
    validation = None if held is None else picked(lists, held)
    return Split(training=picked(lists, known), validation=validation, test=picked(lists, tested), name=name)


def _read(
    source: Any, time: str, topic: str, item: str | None, relevance: str | None, features: Sequence[str]
) -> tuple[JudgedLists, Any]:
    """Return the lists of a table with the times of their rows."""
    with needs_extra("data"):
        from rankbound.io.table_columns import Columns
        from rankbound.io.tables import read_moments
    if kind_of(source) in ("text", "packed"):
        raise DataError(f"{source}: found no table with a row per interaction; expected CSV, parquet or a data frame")
    label = "relevance" if relevance is None else relevance
    names, labelled = list(features), relevance is not None
    lists = read_lists(source, topic=topic, item=item, relevance=label, features=names, labelled=labelled)
    if relevance is None:
        lists = replace(lists, relevance=np.ones(len(lists.items), np.int8))
    return lists, read_moments(source, Columns(topic, item, label, labelled=False), time)


def _cut(values: npt.NDArray[Any], share: float, part: str) -> Any:
    """Return the time from which on at least about a share of the rows are; DataError if these are all of them."""
    if len(values) == 0:
        raise DataError(f"the {part} part would be empty: there are no rows")
    ordered = np.sort(values)
    cut = ordered[min(int(np.ceil(len(values) * (1 - share))), len(values) - 1)]
    if cut == ordered[0]:
        raise DataError(
            f"the {part} part would have all of {quantity(len(values), 'row')}, as too many are of one time, which "
            "stay together; expected times that differ, or a smaller share"
        )
    return cut


def _moment(at: Any, moments: Any, time: str) -> Any:
    """Return a moment as the times of a column are in memory."""
    from rankbound.io.table_columns import Table

    try:
        moment = Table(pl.DataFrame({time: [at]}), "at", "row", 0).moments(time)
    except DataError:
        moment = pl.Series([None])
    zones = [getattr(one.dtype, "time_zone", None) is None for one in (moment, moments)]
    if moment.dtype.is_numeric() != moments.dtype.is_numeric() or moment.has_nulls() or zones[0] != zones[1]:
        zone = "without" if zones[1] else "with"
        expected = f"a date or time {zone} a time zone, such as 2026-01-31 12:30:00{'' if zones[1] else 'Z'}"
        expected = "a number" if moments.dtype.is_numeric() else expected
        raise ValueError(f"at: found {at!r}, expected {expected}, as the column {time!r} has")
    return (moment if moments.dtype.is_numeric() else moment.cast(moments.dtype)).to_physical()[0]
