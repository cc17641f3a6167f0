"""Cross-validation: rankers for parts of the topics, each part scored by one that was not trained on it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists, Run
from rankbound.io.ragged import Indices, rows_of_lists
from rankbound.seeds import derive_seed
from rankbound.training.epochs import Epoch
from rankbound.training.ranker import Ranker
from rankbound.training.ranker_training import train_ranker

FEWEST_FOLDS = 2


@dataclass(frozen=True)
class CrossValidated:
    """What `cross_validate` returns.

    Args:
        run: scores of the topics of all test parts, each by the ranker of its fold.
        rankers: one for each fold.
        folds: the names of the topics that each of them was tested on.

    >>> tested = rb.cross_validate(rb.read_lists("lists.csv"), folds=10)  # doctest: +SKIP
    >>> tested.rankers[0].save("first.safetensors")  # doctest: +SKIP
    """

    run: Run
    rankers: Sequence[Ranker]
    folds: Sequence[Sequence[str]]


def cross_validate(
    lists: JudgedLists,
    folds: int | Sequence[Sequence[str]] = 5,
    *,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    **recipe: Any,
) -> CrossValidated:
    """Train a ranker for each fold on the topics outside of it, and score the fold's topics by it.

    A share of the training topics selects the epoch (`validation_share`), so that no ranker has seen the topics that
    it scores. Scores of different topics may come from different rankers, so that only those of one topic are
    comparable. The features of a fold's training topics are in memory.

    Args:
        lists: judged lists, such as `read_lists` returns.
        folds: the number of parts to which the topics are dealt at random, by the recipe's `seed`; or the names of the
            test topics of each fold, which may leave out topics to train on in all folds.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        on_epoch: called after every epoch of each fold, to show progress.
        recipe: the fields of `rankbound.Recipe`.

    Returns:
        The run of all test topics, in the order of `lists`, and the rankers.

    Raises:
        ValueError: fewer than two folds or more than topics, a topic in two folds or in none of `lists`, or as
            `train_ranker`.
        DataError, TrainingError: as `train_ranker`; the message names the fold.

    >>> tested = rb.cross_validate(rb.read_lists("lists.csv"), loss="nDCG")  # doctest: +SKIP
    >>> rb.evaluate_run(tested.run, rb.read_qrels("lists.csv"), [rb.metric("nDCG@10")])  # doctest: +SKIP
    """
    from rankbound.io.grouping import name_column

    parts = _dealt(len(lists), folds, int(recipe.get("seed", 0))) if isinstance(folds, int) else _named(lists, folds)
    scores = np.full(len(lists.items), np.nan, np.float32)
    rankers = []
    for number, part in enumerate(parts, start=1):
        others = np.setdiff1d(np.arange(len(lists)), part)
        try:
            ranker = train_ranker(_topics(lists, others), device=device, on_epoch=on_epoch, **recipe)
        except DataError as error:
            raise DataError(f"fold {number}: {error}") from error
        scores[rows_of_lists(lists.offsets, part)[0]] = ranker.score_lists(_topics(lists, part)).scores
        rankers.append(ranker)
    tested = np.sort(np.concatenate(parts))
    rows, limits = rows_of_lists(lists.offsets, tested)
    run = Run(
        topics=[lists.topics[topic] for topic in tested.tolist()],
        items=name_column(lists.items)[rows],
        scores=scores[rows],
        offsets=limits,
    )
    return CrossValidated(run, rankers, [[lists.topics[topic] for topic in part.tolist()] for part in parts])


def _dealt(count: int, folds: int, seed: int) -> list[Indices]:
    if not FEWEST_FOLDS <= folds <= count:
        raise ValueError(f"folds: found {folds}, expected {FEWEST_FOLDS} to {count}, the number of topics")
    shuffled = np.random.default_rng(derive_seed("folds", seed)).permutation(count)
    return [np.sort(part) for part in np.array_split(shuffled, folds)]


def _named(lists: JudgedLists, folds: Sequence[Sequence[str]]) -> list[Indices]:
    place = {name: index for index, name in enumerate(lists.topics)}
    names = [name for fold in folds for name in fold]
    unknown = next((name for name in names if name not in place), None)
    if unknown is not None:
        raise ValueError(f"folds: found topic {unknown!r}, which the lists do not have")
    if len(set(names)) < len(names):
        raise ValueError("folds: a topic is tested in two folds, but a run has it once: cross-validate them separately")
    if not folds or not all(map(len, folds)) or max(map(len, folds)) == len(place):
        raise ValueError("folds: found one without topics, or with all of them; expected some to train on, too")
    return [np.sort([place[name] for name in fold]) for fold in folds]


def _topics(lists: JudgedLists, topics: Indices) -> JudgedLists:
    from rankbound.io.grouping import name_column

    rows, limits = rows_of_lists(lists.offsets, topics)
    return JudgedLists(
        topics=[lists.topics[topic] for topic in topics.tolist()],
        items=name_column(lists.items)[rows],
        relevance=lists.relevance[rows],
        offsets=limits,
        features=lists.features[rows],
        feature_names=lists.feature_names,
    )
