"""A catalogue of items that all topics choose from: recommended lists, metrics over all items, and rankers by counts.

Popularity, nearest neighbours and a linear regression have no factors, but what topics have in common. Like
`Factorization`, they score items for topics by the places of both in a vocabulary; place -1 is an unknown topic, whose
scores are the means over all topics.

No table of pairs is made: scores of a block of topics by all items are in memory at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rankbound.errors import DataError
from rankbound.evaluation import POLICIES, Evaluation, judged_by, needs_intents, values_of
from rankbound.io.judged import Qrels, Run, name_column, repeated
from rankbound.io.ragged import Indices
from rankbound.kernels.ties import cases_of
from rankbound.lists import Lists, on_cpu
from rankbound.metrics import Metric
from rankbound.metrics.base import NOT_POOLED, POOLED
from rankbound.metrics.runs import JudgedRun
from rankbound.names import ByText
from rankbound.texts import quantity, quoted, require_one_of
from rankbound.training.models import Factorization, Given
from rankbound.training.recipe import PAIR_MODELS, UNKNOWN

if TYPE_CHECKING:
    from rankbound.training.factorisation import Vocabulary
    from rankbound.training.ranker import Ranker

Excluded = Qrels | Sequence[Qrels]

UNSEEN = -1
"""The place of a name that is not known."""

PAIRS_AT_ONCE = 2**21
"""The number of scores of topics by items that are in memory at once."""

MOST_ITEMS_OF_EASE = 20_000
"""The weights between so many items take 1.6 GB, and their computation in double precision 10 GB."""


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
    items = vocabulary.known_indices(test, policy_of(ranker, unknown))[1]
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
    sought, place = np.full((count, n_judged.max(initial=0)), np.inf, keys.dtype), cases_of(n_judged)
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


def policy_of(ranker: "Ranker", unknown: str | None) -> str:
    """Return what becomes of unknown topics and items, by default as the recipe says; ValueError for another policy."""
    policy = ranker.recipe.unknown if unknown is None else unknown
    require_one_of("unknown", policy, UNKNOWN)
    return policy


def _blocks(
    ranker: "Ranker", vocabulary: "Vocabulary", names: Sequence[str], exclude: Excluded, unknown: str | None
) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of topics, and their scores of all items: finite numbers, or negative infinity if excluded."""
    assert isinstance(ranker.model, Factorization | Counted)
    index = places_of(names, vocabulary.topics)
    new, policy = np.flatnonzero(index < 0), policy_of(ranker, unknown)
    if len(new) and policy == "refuse":
        others = f" (and {quantity(len(new) - 1, 'other topic')})" if len(new) > 1 else ""
        raise DataError(
            f"found topic {quoted(names[new[0]])}{others}, which the ranker was not trained on: leave it out, or rank "
            "items for unknown topics by the mean over all others with unknown='mean'"
        )
    n_items, model = len(vocabulary.items), ranker.model.cpu()
    pairs = [np.zeros((2, 0), np.int64)]
    for lists in [exclude] if isinstance(exclude, Qrels) else exclude:
        of_items = np.repeat(places_of(lists.topics, names), np.diff(lists.offsets))
        pairs.append(np.stack([of_items, vocabulary.indices(lists)[1]]))
    rows, items = np.concatenate(pairs, axis=1)
    known = (rows >= 0) & (items >= 0)
    rows, items = rows[known], items[known]
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


def places_of(names: Any, known: Any) -> Indices:
    """Return the places of names among distinct known ones; those of others are -1."""
    return name_column(names).replace_strict(known, np.arange(len(known)), default=UNSEEN).to_numpy().astype(np.int64)


class Popularity(Given):
    """Scores an item, for all topics alike, by the number of topics that it is relevant to, its `counts`."""

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        return self.get_buffer("counts").expand(len(topics), -1)


class ItemNeighbours(Given):
    r"""Scores an item by its similarity to a topic's relevant items (Deshpande and Karypis 2004; Sarwar et al. 2001).

    $$s(t, i) = \sum_{j \in R_t,\ i \in N_j} \frac{|T_i \cap T_j|}{\sqrt{|T_i|\,|T_j|}}$$

    $R_t$ are the items that are relevant to topic $t$, $T_i$ the topics to which item $i$ is, and $N_j$ the `k` items
    other than $j$ with the highest cosine, by name on ties.

    Args:
        near: `(n_items, k)`, the neighbours of each item.
        cosines: `(n_items, k)`, their similarities; 0 where there are fewer.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        near, cosines, offsets, items = (self.get_buffer(name) for name in ("near", "cosines", "offsets", "items"))
        n_items = len(near)
        row, own = _of_lists(offsets, items, topics)
        scores = torch.zeros(len(topics) * n_items)
        # The copies of neighbours take no more memory than the scores of a block.
        size = max(PAIRS_AT_ONCE // max(near.shape[1], 1), 1)
        for rows, some in zip(torch.split(row, size), torch.split(own, size), strict=True):
            scores.index_add_(0, (rows[:, None] * n_items + near[some]).flatten(), cosines[some].flatten())
        scores = scores.view(len(topics), n_items)
        if bool((topics < 0).any()):
            share = torch.bincount(items, minlength=n_items) / max(len(offsets) - 1, 1)
            shares = (share[:, None] * cosines).flatten()
            scores[topics < 0] = torch.zeros(n_items).index_add_(0, near.flatten(), shares)
        return scores


def fit_neighbours(topics: Tensor, items: Tensor, n_topics: int, n_items: int, k: int) -> ItemNeighbours:
    """Return the model of relevant pairs, both `(n,)`, sorted by topic.

    The similarities of a block of items to all others are in memory at once. They are counted by the pairs of items
    that topics have in common: products of sparse tensors of PyTorch warn that they are in beta.
    """
    k = min(k, n_items - 1)
    counts = torch.bincount(topics, minlength=n_topics), torch.bincount(items, minlength=n_items)
    offsets, of_items = (Lists.of_sizes(own).offsets for own in counts)
    by_item = topics[torch.sort(items, stable=True).indices]
    lengths = counts[1].to(torch.float64).clamp(min=1)
    at_once = max(PAIRS_AT_ONCE // max(int(offsets.diff().max()), 1), 1)
    near = torch.zeros(n_items, k, dtype=torch.int64)
    cosines = torch.zeros(n_items, k)
    for block in torch.split(torch.arange(n_items), max(PAIRS_AT_ONCE // max(n_items, 1), 1)):
        common = torch.zeros(len(block) * n_items)
        blocks = (torch.split(pairs, at_once) for pairs in _of_lists(of_items, by_item, block))
        for rows, shared in zip(*blocks, strict=True):
            place, others = _of_lists(offsets, items, shared)
            common.index_add_(0, rows[place] * n_items + others, torch.ones(len(others)))
        # Equal fractions are equal in single precision, too, so that ties are found.
        products = (lengths[block, None] * lengths).sqrt()
        similar = (common.view(len(block), n_items).to(torch.float64) / products).to(torch.float32)
        similar[torch.arange(len(block)), block] = -1.0
        near[block] = first_of(similar, k)
        cosines[block] = similar.gather(1, near[block]).clamp(min=0)
    return ItemNeighbours(near=near, cosines=cosines, offsets=offsets, items=items)


class Ease(Given):
    r"""Scores an item by weights of a topic's relevant items, the autoencoder EASE (Steck, WWW 2019).

    $$s(t, i) = \sum_{j \in R_t} B_{ji}, \qquad B_{ji} = -\frac{P_{ji}}{P_{ii}}, \quad B_{ii} = 0, \quad
      P = (X^T X + \lambda I)^{-1}$$

    $X_{ti}$ is 1 if item $i$ is relevant to topic $t$. $B$ is the minimum of $\|X - XB\|^2 + \lambda \|B\|^2$ with a
    diagonal of 0.

    Args:
        weights: $B$, `(n_items, n_items)`.
        offsets, items: the relevant items of each topic, one topic after another.
    """

    def of_topics(self, topics: Tensor) -> Tensor:
        """Return the scores of all items for some topics, `(n, n_items)`."""
        weights, offsets, items = (self.get_buffer(name) for name in ("weights", "offsets", "items"))
        chosen = _indicators(offsets, items, topics, len(weights)).to(weights)
        if bool((topics < 0).any()):
            chosen[topics < 0] = torch.bincount(items, minlength=len(weights)).to(weights) / max(len(offsets) - 1, 1)
        return chosen @ weights


Counted = Popularity | ItemNeighbours | Ease
"""The models without epochs."""


def fit_ease(topics: Tensor, items: Tensor, n_topics: int, n_items: int, ridge: float) -> Ease:
    """Return the model of relevant pairs, both `(n,)`, sorted by topic; DataError for too many items."""
    if n_items > MOST_ITEMS_OF_EASE:
        raise DataError(
            f"found {n_items} items, but model ease has a weight for each pair of items: expected at most "
            f"{MOST_ITEMS_OF_EASE}; keep the most frequent items, or train model item-knn"
        )
    offsets = Lists.of_sizes(torch.bincount(topics, minlength=n_topics)).offsets
    products = torch.zeros(n_items, n_items, dtype=torch.float64)
    for block in torch.split(torch.arange(n_topics), max(PAIRS_AT_ONCE // max(n_items, 1), 1)):
        rows = _indicators(offsets, items, block, n_items)
        products += rows.T @ rows
    products.diagonal().add_(ridge)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(products))
    weights = -inverse / inverse.diagonal()
    weights.fill_diagonal_(0.0)
    return Ease(weights=weights.to(torch.float32).contiguous(), offsets=offsets, items=items)


def _indicators(offsets: Tensor, items: Tensor, topics: Tensor, n_items: int) -> Tensor:
    """Return 1 for the relevant items of each topic, `(n_topics, n_items)`, float64; 0 for others."""
    chosen = torch.zeros(len(topics), n_items, dtype=torch.float64)
    chosen[_of_lists(offsets, items, topics)] = 1.0
    return chosen


def _of_lists(offsets: Tensor, items: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the items of the chosen lists, one list after another, and each one's place in `chosen`; -1 has none."""
    sizes = torch.where(chosen < 0, 0, offsets[chosen + 1] - offsets[chosen])
    row = torch.repeat_interleave(torch.arange(len(chosen)), sizes)
    moved = offsets[chosen] - (sizes.cumsum(0) - sizes)
    return row, items[torch.arange(len(row)) + moved[row]]


def restored(kind: str, tensors: Mapping[str, Tensor], n_topics: int, n_items: int) -> Counted:
    """Return the model of a file; ValueError for tensors that fit neither each other nor the vocabulary."""
    if kind == "popularity":
        if (counts := tensors["counts"]).shape != (n_items,):
            raise ValueError(f"counts: found shape {tuple(counts.shape)}, expected ({n_items},)")
        return Popularity(counts=counts)
    offsets, items = tensors["offsets"], tensors["items"]
    if kind == "ease":
        near, values = items, tensors["weights"]
        shapes = values.shape == (n_items, n_items)
    else:
        near, values = tensors["near"], tensors["cosines"]
        shapes = near.shape == values.shape and len(near) == n_items
    whole = all(tensor.dtype == torch.int64 for tensor in (near, offsets, items))
    if not (whole and shapes and offsets.shape == (n_topics + 1,) and items.dim() == 1):
        raise ValueError("the neighbours do not fit the topics and items")
    for name, indices in (("near", near), ("items", items)):
        if indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < n_items:
            raise ValueError(f"{name}: found an index that is none of {n_items} items")
    if int(offsets[0]) != 0 or int(offsets[-1]) != len(items) or bool((offsets.diff() < 0).any()):
        raise ValueError("offsets: expected the limits of all items")
    lists = {"offsets": offsets, "items": items}
    return Ease(weights=values, **lists) if kind == "ease" else ItemNeighbours(near=near, cosines=values, **lists)


def first_of(scores: Tensor, k: int) -> Tensor:
    """Return the places of the `k` highest scores of each row, `(n_rows, k)`, the highest first and ties by place."""
    values, places = scores.topk(k, dim=1)
    if not k:
        return places
    lowest = values[:, -1:]
    # Which of the ties with the last one `topk` takes is not specified.
    cut = torch.nonzero((scores == lowest).sum(1) > (values == lowest).sum(1)).squeeze(1)
    if len(cut):
        tied = scores[cut] == lowest[cut]
        room = k - (scores[cut] > lowest[cut]).sum(1, keepdim=True)
        kept = (scores[cut] > lowest[cut]) | (tied & (tied.cumsum(1) <= room))
        places[cut] = torch.nonzero(kept)[:, 1].view(len(cut), k)
    places = places.sort(1).values
    order = torch.sort(scores.gather(1, places), dim=1, descending=True, stable=True).indices
    return places.gather(1, order)


def score_listed(model: nn.Module, topics: Tensor, items: Tensor, offsets: Tensor) -> Tensor:
    """Return the scores of the items of lists, by the places of the lists' topics and of the items; -1 is unknown.

    The score of an unknown item is the mean over all others, for its topic.
    """
    assert isinstance(model, Counted | Factorization)
    some, scores = topics.new_zeros(1), []
    width = model.of_topics(some).shape[1]
    for block in torch.split(torch.arange(len(topics)), max(PAIRS_AT_ONCE // max(width, 1), 1)):
        first, last = int(offsets[block[0]]), int(offsets[block[-1] + 1])
        of_all = model.of_topics(topics[block])
        own = items[first:last]
        row = torch.repeat_interleave(torch.arange(len(block)), offsets[block + 1] - offsets[block])
        of_known = of_all[row, own.clamp(min=0)]
        scores.append(torch.where(own < 0, of_all.mean(1)[row], of_known))
    return torch.cat(scores) if scores else torch.zeros(0)
