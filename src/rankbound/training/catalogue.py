"""A catalogue of items that all topics choose from: recommended lists, and metrics over all items.

No table of pairs is made: scores of a block of topics by all items are in memory at once.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.errors import DataError
from rankbound.evaluation import POLICIES, Evaluation, judged_by, needs_intents, values_of
from rankbound.io.judged import Qrels, Run, repeated
from rankbound.io.ragged import Indices
from rankbound.lists import on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.base import NOT_POOLED, POOLED
from rankbound.metrics.runs import JudgedRun
from rankbound.names import ByText
from rankbound.texts import quantity, quoted, require_one_of
from rankbound.training.models import Factorization
from rankbound.training.neighbours import PAIRS_AT_ONCE, Counted, first_of
from rankbound.training.recipe import PAIR_MODELS, UNKNOWN

if TYPE_CHECKING:
    from rankbound.training.factorisation import Vocabulary
    from rankbound.training.ranker import Ranker

Excluded = Qrels | Sequence[Qrels]


@on_cpu
@torch.inference_mode(mode=False)
@torch.no_grad()
def recommend(
    ranker: "Ranker", topics: Sequence[str] | Qrels | None, k: int, exclude: Excluded, unknown: str | None
) -> Run:
    """Return the best items of all, as `Ranker.recommend` says."""
    vocabulary = _vocabulary(ranker)
    if k < 1:
        raise ValueError(f"k: found {k}, expected a number of items from 1")
    given = vocabulary.topics if topics is None else topics.topics if isinstance(topics, Qrels) else topics
    if isinstance(given, str):
        raise ValueError(f"topics: found the text {given!r}, expected a sequence of names, as in [{given!r}]")
    names = [str(name) for name in given]
    if (twice := repeated(names)) is not None:
        raise ValueError(f"topics: found {twice!r} twice, expected each once")
    count = min(k, len(vocabulary.items))
    sizes, places, values = [], [], []
    for _, scores in _blocks(ranker, vocabulary, names, exclude, unknown):
        best = first_of(scores, count)
        own = scores.gather(1, best)
        kept = own > -torch.inf
        sizes.append(kept.sum(1))
        places.append(best[kept])
        values.append(own[kept])
    offsets = np.append(0, torch.cat(sizes).cumsum(0).numpy()) if sizes else np.zeros(1, np.int64)
    items = vocabulary.items[torch.cat(places).numpy() if places else []]
    return Run(topics=names, items=items, scores=torch.cat(values).numpy() if values else [], offsets=offsets)


@on_cpu
@torch.inference_mode(mode=False)
@torch.no_grad()
def evaluate_catalogue(
    ranker: "Ranker",
    test: Qrels,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    exclude: Qrels | Sequence[Qrels] = (),
    unknown: str | None = None,
    undefined: str = "skip",
) -> Evaluation:
    """Evaluate a ranker on a ranking of all items that it was trained on, for each topic (user) of the test.

    The values are those of `rankbound.evaluate_run` for the run `ranker.recommend(test, k, exclude=exclude)` of all
    items, which is not made: items that the test lacks are not relevant, and a metric is averaged over all orders of
    tied items. A relevant item that is excluded, or that the ranker was not trained on, is not retrieved: it counts in
    the normaliser, and contributes nothing.

    Metrics over samples of irrelevant items may order models otherwise than these (Krichene and Rendle 2020).

    Args:
        ranker: a ranker of topics and items, such as a `matrix-factorization`.
        test: judged lists of the topics to evaluate.
        metrics: one or more metrics or their texts.
        exclude: judged lists, one or several, whose items are not ranked for their topics: the training lists.
        unknown: `refuse` for topics and items of the test that the ranker was not trained on; `mean` scores topics as
            `Ranker.recommend` does, and takes items as not retrieved. By default, the recipe's.
        undefined: as in `rankbound.evaluate_run`.

    Returns:
        The values of each topic of the test; `means()` averages them.

    Raises:
        ValueError: for a ranker of features, a metric of intents, an unknown metric, or another value of `unknown` or
            `undefined`.
        DataError: a topic or item is unknown, or none of the items is known; the message names one.

    >>> ranker = rb.load("films.safetensors")  # doctest: +SKIP
    >>> test = rb.read_lists("later.csv", topic="user")  # doctest: +SKIP
    >>> rb.evaluate_catalogue(ranker, test, ["nDCG@10", "Recall@20"]).means()  # doctest: +SKIP
    """
    require_one_of("undefined", undefined, POLICIES)
    vocabulary = _vocabulary(ranker)
    chosen, judged = judged_by(metrics, test)
    if needs_intents(chosen):
        raise ValueError("metrics: found a metric of intents, which is not of a catalogue; use rankbound.evaluate_run")
    items = vocabulary.known_indices(test, _policy(ranker, unknown))[1]
    relevance = np.asarray(judged.relevance, np.float64)
    if judged.unjudged is not None:
        relevance = np.where(judged.unjudged, POOLED, relevance)
    topics = np.repeat(np.arange(len(test.topics)), np.diff(test.offsets))
    values: dict[str, list[npt.NDArray[np.float64]]] = {str(one): [] for one in chosen}
    for block, scores in _blocks(ranker, vocabulary, test.topics, exclude, unknown):
        rows = slice(*test.offsets[[block.start, block.stop]])
        run = _judged(test.topics[block], scores, topics[rows] - block.start, items[rows], relevance[rows])
        for name, own in values_of(chosen, run, undefined).items():
            values[name].append(own)
    joined = ByText({name: np.concatenate(own) if own else np.zeros(0) for name, own in values.items()})
    return Evaluation(list(test.topics), joined, [], [])


def _judged(
    names: Sequence[str], scores: Tensor, topics: Indices, items: Indices, relevance: npt.NDArray[np.float64]
) -> JudgedRun:
    """Return the rankings of all items with their judgements; excluded and unknown judged items come last.

    Items without a judgement are alike, so that their scores are sorted without their places, which is fast.
    """
    count, judged = len(names), np.flatnonzero(items >= 0)
    keys = np.negative(scores.numpy())
    own = np.full(len(items), np.inf, keys.dtype)
    own[judged] = keys[topics[judged], items[judged]]
    keys[topics[judged], items[judged]] = np.inf
    keys.sort(axis=1)
    # By score, so that those between the same two others are in order; the lost ones in ascending relevance.
    order = np.lexsort((np.where(own < np.inf, 0, relevance), own, topics))
    topics, own, relevance = topics[order], own[order], relevance[order]
    n_judged = np.bincount(topics, minlength=count)
    sought = np.full((count, n_judged.max(initial=0)), np.inf, keys.dtype)
    place = topics, np.arange(len(topics)) - np.repeat(np.cumsum(n_judged) - n_judged, n_judged)
    sought[place] = own
    above = torch.searchsorted(torch.from_numpy(keys), torch.from_numpy(sought)).numpy()[place]
    others = keys < np.inf
    sizes = others.sum(1)
    where = (np.cumsum(sizes) - sizes)[topics] + above
    # The items with a judgement stand `above` others of their topic, and are in the order of topics.
    return JudgedRun(
        list(names),
        np.insert(-keys[others].astype(np.float64), where, np.where(own < np.inf, -own.astype(np.float64), 0.0)),
        np.insert(np.full(sizes.sum(), NOT_POOLED), where, relevance),
        np.insert(np.ones(sizes.sum(), np.bool_), where, own < np.inf),
        np.append(0, np.cumsum(sizes + n_judged)),
    )


def _vocabulary(ranker: "Ranker") -> "Vocabulary":
    if ranker.vocabulary is None:
        raise ValueError(
            f"ranker: found a {ranker.recipe.model} model of features, which new items have as well; expected one of "
            f"{', '.join(PAIR_MODELS)}, whose catalogue is the items that it was trained on, or score_lists(lists)"
        )
    return ranker.vocabulary


def _policy(ranker: "Ranker", unknown: str | None) -> str:
    policy = ranker.recipe.unknown if unknown is None else unknown
    require_one_of("unknown", policy, UNKNOWN)
    return policy


def _blocks(
    ranker: "Ranker", vocabulary: "Vocabulary", names: Sequence[str], exclude: Excluded, unknown: str | None
) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of topics, and their scores of all items: finite numbers, or negative infinity if excluded."""
    from rankbound.training.factorisation import places_of

    assert isinstance(ranker.model, Factorization | Counted)
    index = places_of(names, vocabulary.topics)
    new, policy = np.flatnonzero(index < 0), _policy(ranker, unknown)
    if len(new) and policy == "refuse":
        others = f" (and {quantity(len(new) - 1, 'other topic')})" if len(new) > 1 else ""
        raise DataError(
            f"found topic {quoted(names[new[0]])}{others}, which the ranker was not trained on: leave it out, or rank "
            "items for unknown topics by the mean over all others with unknown='mean'"
        )
    n_items, model = len(vocabulary.items), ranker.model.cpu()
    excluded = [_places(lists, names, vocabulary) for lists in ([exclude] if isinstance(exclude, Qrels) else exclude)]
    rows, items = np.concatenate(excluded, axis=1) if excluded else np.zeros((2, 0), np.int64)
    order = np.argsort(rows, kind="stable")
    rows, items = rows[order], items[order]
    size = max(PAIRS_AT_ONCE // max(n_items, 1), 1)
    for first in range(0, len(names), size):
        block = slice(first, min(first + size, len(names)))
        scores = model.of_topics(torch.from_numpy(index[block])).clone()
        if not bool(torch.isfinite(scores).all()):
            raise ValueError(
                "scores: found numbers that are not finite: the model's weights are too large; train again"
            )
        own = slice(*np.searchsorted(rows, [block.start, block.stop]).tolist())
        scores[torch.from_numpy(rows[own] - first), torch.from_numpy(items[own])] = -torch.inf
        yield block, scores


def _places(lists: Qrels, names: Sequence[str], vocabulary: "Vocabulary") -> Any:
    """Return the places of lists' topics among `names`, and of their items in the vocabulary, where both are known."""
    from rankbound.training.factorisation import places_of

    rows = np.repeat(places_of(lists.topics, names), np.diff(lists.offsets))
    items = vocabulary.indices(lists)[1]
    known = (rows >= 0) & (items >= 0)
    return rows[known], items[known]
