"""Cross-validation: rankers for parts of the lists, each part scored by one that was not trained on it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from rankbound.errors import DataError
from rankbound.evaluation import Evaluation, evaluate_run
from rankbound.io.judged import JudgedLists, Qrels, Run
from rankbound.io.ragged import FEWEST_FOLDS, Indices, dealt_lists, rows_of_lists
from rankbound.lists import ArrayLike
from rankbound.metrics import Metric
from rankbound.training.inputs import weighted
from rankbound.training.ranker import Ranker, train_ranker
from rankbound.training.recipe import FACTORIZATIONS, PAIR_MODELS, recipe_of
from rankbound.training.splits import Split, picked, require_apart
from rankbound.training.trainer import Epoch


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
    rankers: Sequence[Ranker]
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


def cross_validate(
    lists: JudgedLists,
    folds: int = 5,
    *,
    weights: ArrayLike | None = None,
    list_weights: ArrayLike | None = None,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
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
    chosen = recipe_of(recipe)
    lists = weighted(lists, weights, list_weights, chosen)
    if chosen.model not in PAIR_MODELS:
        masks = (np.isin(np.arange(len(lists)), part) for part in dealt_lists(len(lists), folds, chosen.seed))
        own = ((mask, np.repeat(mask, np.diff(lists.offsets))) for mask in masks)
        splits = (Split(training=picked(lists, ~rows, ~mask), test=picked(lists, rows, mask)) for mask, rows in own)
        return _tested(splits, recipe, device, on_epoch, lists.topics)
    from rankbound.training.factorisation import Vocabulary, folds_within, sorted_pairs, with_negatives

    drawn = with_negatives(lists, chosen.negatives, chosen.seed) if chosen.negatives else lists
    largest = int(np.diff(drawn.offsets).max(initial=0))
    if not FEWEST_FOLDS <= folds <= largest:
        raise ValueError(
            f"folds: found {folds}, expected {FEWEST_FOLDS} to {largest}, the number of items of the largest topic"
        )
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
    splits: Iterable[Split],
    *,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    **recipe: Any,
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
    if recipe_of(recipe).negatives:
        raise ValueError(
            f"negatives: found {recipe['negatives']} beside given splits, whose test lists would have none; expected "
            "0, and files whose rows with relevance 0 are the negatives"
        )
    return _tested(splits, recipe, device, on_epoch)


def _tested(
    splits: Iterable[Split],
    recipe: Mapping[str, Any],
    device: str,
    on_epoch: Callable[[Epoch], None],
    topics: Sequence[str] = (),
) -> CrossValidated:
    """Train and score in each split; the lists of the result are in the order of `topics`, others of appearance."""
    import polars as pl

    from rankbound.io.judged import name_column

    rankers, runs, judged, seconds, unknown = [], [], [], [], []
    for number, split in enumerate(splits, start=1):
        started = perf_counter()
        try:
            require_apart(split.parts, by_item=recipe.get("model") in PAIR_MODELS)
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
