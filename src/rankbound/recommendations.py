r"""Measures of recommended lists over a whole run: which items they show, and how alike, new and unexpected these are.

They take the first k items of each topic (user), and are means over all orders of tied items, in closed form: an item
is among the first k with a probability $w_{ui}$, which is 1 above the block of ties at rank k and 0 below it. (The Gini
index is that of the mean numbers.) A measure of a whole run is a number; one of each topic is an array in the order of
the run's topics, NaN where undefined.

| measure | value | source |
|---|---|---|
| `coverage` | share of the items that any list shows | Ge et al., RecSys 2010 |
| `gini` | inequality of how often items are shown, 0 if equal | Fleder and Hosanagar 2009 |
| `novelty` | mean of $-\log_2$ of an item's share of training users | Zhou et al., PNAS 2010 |
| `diversity` | mean of 1 - cosine over the pairs of items of a list | Ziegler et al., WWW 2005 |
| `serendipity` | share of relevant items that were not expected | Ge et al., RecSys 2010 |
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rankbound.io.files import read_qrels, read_run
from rankbound.io.judged import Qrels, Run, repeated
from rankbound.kernels.formulas import Array, Floats, Integers, Mask
from rankbound.lazy import pl
from rankbound.metrics.base import ratio


def coverage(run: Any, items: Sequence[str], *, k: int) -> float:
    r"""Return the share of a catalogue's items that are among the first k of any topic.

    $$\frac{1}{|I|} \sum_{i \in I} \left(1 - \prod_u (1 - w_{ui})\right)$$

    Args:
        run: the lists, a `Run` or what `read_run` reads.
        items: the names of all items of the catalogue.
        k: the number of items of a list that count, from 1.

    Returns:
        A number from 0 to 1.

    Raises:
        ValueError: for `k` below 1, a catalogue without items or with one twice, or a recommended item that it lacks.

    >>> rb.recommendations.coverage({"u": {"a": 1.0, "b": 1.0}}, ["a", "b"], k=1)
    0.5
    """
    first = _First(run, k)
    with np.errstate(divide="ignore"):
        left = np.bincount(first.place(items), np.log1p(-first.weight), len(items))
    return float(-np.expm1(left).mean())


def gini(run: Any, items: Sequence[str], *, k: int) -> float:
    r"""Return the Gini index of the numbers of lists whose first k items show each item of a catalogue.

    $$\frac{\sum_{j=1}^{|I|} (2j - |I| - 1)\, e_j}{|I| \sum_j e_j}, \qquad e_1 \le e_2 \le \dots$$

    of the expected numbers $e_i = \sum_u w_{ui}$ in ascending order: 0 if all items are shown equally often, near 1 if
    one item is shown alone.

    Args:
        run, items, k: as in `coverage`.

    Returns:
        A number from 0 to 1; NaN if nothing is recommended.

    Raises:
        ValueError: as `coverage`.

    >>> rb.recommendations.gini({"u": {"a": 2.0}, "v": {"a": 1.0}}, ["a", "b"], k=1)
    0.5
    """
    first = _First(run, k)
    shown = np.sort(np.bincount(first.place(items), first.weight, len(items)))
    total = len(items) * shown.sum()
    return float((2 * np.arange(1, len(items) + 1) - len(items) - 1) @ shown / total) if total else float("nan")


def novelty(run: Any, training: Any, *, k: int) -> Floats:
    r"""Return the mean self-information of the first k items of each topic, in bits.

    $$\frac{1}{\sum_i w_{ui}} \sum_i w_{ui} \log_2 \frac{|U|}{|U_i|}$$

    with U the topics of the training, and $U_i$ those of them to which item i is relevant.

    Args:
        run: as in `coverage`.
        training: the training lists, `Qrels` or what `read_qrels` reads.
        k: as in `coverage`.

    Returns:
        An array `(n_topics,)`, from 0; NaN without recommended items.

    Raises:
        ValueError: for `k` below 1, or a recommended item that is relevant to no topic of the training.

    >>> rb.recommendations.novelty({"u": {"a": 1.0}}, {"v": {"a": 1}, "w": {"b": 1}}, k=1)
    array([1.])
    """
    first, lists = _First(run, k), training if isinstance(training, Qrels) else read_qrels(training)
    counts = lists.names.filter(np.asarray(lists.relevance) > 0).value_counts(name="count")
    place = first.place(counts.to_series(0).to_list())
    information = np.log2(len(lists.topics) / counts["count"].to_numpy())
    return first.mean(information[place])


def diversity(run: Any, items: Sequence[str], vectors: Any, *, k: int) -> Floats:
    r"""Return the intra-list diversity of the first k items of each topic.

    $$1 - \frac{\sum_{i < j} w_{uij} \cos(v_i, v_j)}{\sum_{i < j} w_{uij}}$$

    with $w_{uij}$ the probability that both items are among the first k.

    Args:
        run, items, k: as in `coverage`.
        vectors: `(n_items, n_features)`, one for each of `items`, such as genres or factors; finite and not all 0.

    Returns:
        An array `(n_topics,)`, from 0 to 2; NaN with fewer than two recommended items.

    Raises:
        ValueError: as `coverage`, or for vectors of another shape, that are not finite or all 0.

    >>> rb.recommendations.diversity({"u": {"a": 2.0, "b": 1.0}}, ["a", "b"], [[1, 0], [0, 1]], k=2)
    array([1.])
    """
    first, rows = _First(run, k), np.asarray(vectors, np.float64)
    if rows.ndim != 2 or len(rows) != len(items):
        raise ValueError(f"vectors: found shape {rows.shape}, expected one row for each of {len(items)} items")
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if len(wrong := np.flatnonzero(~(np.isfinite(norms) & (norms > 0)))):
        at = int(wrong[0])
        raise ValueError(f"vectors: found {rows[at]} for item {items[at]!r}, expected finite numbers, not all 0")
    units = (rows / norms)[first.place(items)]
    # The cosines of ordered pairs of items above the block at rank k, of one above and one in it, and of two in it.
    above, tied = first.places == first.size, (first.places > 0) & (first.places < first.size)
    sums = np.zeros((2, len(first.run.topics), rows.shape[1]))
    for total, part in zip(sums, (above, tied), strict=True):
        np.add.at(total, first.topic[part], units[part])
    n_above, n_tied, count = (np.rint(first.sum(1.0 * part)) for part in (above, tied, first.weight))
    (of_above, of_tied), places = (sums**2).sum(axis=2) - [n_above, n_tied], count - n_above
    one, two = places / n_tied.clip(1), places * (places - 1) / (n_tied * (n_tied - 1)).clip(1)
    alike = of_above + 2 * one * (sums[0] * sums[1]).sum(axis=1) + two * of_tied
    mean: Floats = ratio(alike, np.where(count > 1, count * (count - 1), 0.0))
    return 1 - mean


def serendipity(run: Any, test: Any, expected: Any, *, k: int) -> Floats:
    r"""Return the share of relevant and unexpected items among the first k of each topic.

    $$\frac{1}{\sum_i w_{ui}} \sum_{i \in T_u \setminus E_u} w_{ui}$$

    with $T_u$ the relevant items of the test and $E_u$ those that a simple recommender, such as `popularity`, shows.

    Args:
        run: as in `coverage`.
        test: the test lists, `Qrels` or what `read_qrels` reads.
        expected: the simple recommender's lists, all of whose items count, a `Run` or what `read_run` reads.
        k: as in `coverage`.

    Returns:
        An array `(n_topics,)`, from 0 to 1; NaN without recommended items.

    Raises:
        ValueError: for `k` below 1.

    >>> rb.recommendations.serendipity({"u": {"a": 2.0, "b": 1.0}}, {"u": {"a": 1, "b": 1}}, {"u": {"a": 1.0}}, k=2)
    array([0.5])
    """
    first, lists = _First(run, k), test if isinstance(test, Qrels) else read_qrels(test)
    relevant = first.among(lists, np.asarray(lists.relevance) > 0)
    known = expected if isinstance(expected, Run) else read_run(expected)
    return first.mean(1.0 * (relevant & ~first.among(known, np.ones(len(known.scores), np.bool_))))


class _First:
    """The items of a run with the probability `weight` that each is among the first k of its topic.

    `topic` `(n_items,)` is the index of an item's topic, `size` that of its block of ties, and `places` how many of the
    block's ranks are up to k.
    """

    def __init__(self, run: Any, k: int) -> None:
        if k < 1:
            raise ValueError(f"k: found {k}, expected a number of items from 1")
        self.run = run if isinstance(run, Run) else read_run(run)
        sizes = np.diff(self.run.offsets)
        self.topic: Integers = np.repeat(np.arange(len(sizes)), sizes)
        scores = self.run.scores.astype(np.float64)
        if not np.isfinite(scores).all():
            at = int(np.argmin(np.isfinite(scores)))
            raise ValueError(f"scores: found {scores[at]} in topic {self.run.topics[self.topic[at]]}, expected numbers")
        order = np.lexsort((-scores, self.topic))
        begins = (np.diff(self.topic[order], prepend=-1) != 0) | (np.diff(scores[order], prepend=np.nan) != 0)
        starts, block = np.flatnonzero(begins), np.empty_like(order)
        block[order] = np.cumsum(begins) - 1
        lengths = np.diff(np.append(starts, len(order)))
        above = starts - self.run.offsets[self.topic[order][starts]]
        self.size: Integers = lengths[block]
        self.places: Integers = np.clip(k - above, 0, lengths)[block]
        self.weight: Floats = self.places / self.size

    def place(self, items: Sequence[str]) -> Integers:
        """Return the place of each item among the `items`, 0 for one of weight 0; ValueError for another one."""
        if not len(items):
            raise ValueError("items: found none, expected the names of the catalogue's items")
        if (twice := repeated(items)) is not None:
            raise ValueError(f"items: found {twice!r} twice, expected each once")
        place = self.run.names.replace_strict(list(map(str, items)), np.arange(len(items)), default=-1).to_numpy()
        if len(unknown := np.flatnonzero((place < 0) & (self.weight > 0))):
            topic = self.run.topics[self.topic[unknown[0]]]
            raise ValueError(
                f"items: found none for the recommended item {self.run.names[int(unknown[0])]!r} of topic {topic!r}, "
                "expected all that are recommended"
            )
        return np.asarray(place.clip(0), np.int64)

    def among(self, lists: Run | Qrels, kept: Mask) -> Mask:
        """Return a mask of the items that are in the kept rows of their topic in other lists."""
        rows = np.repeat(np.arange(len(lists.topics)), np.diff(lists.offsets))[kept]
        topics = pl.Series(lists.topics, dtype=pl.String)
        known = pl.DataFrame({"topic": topics[rows], "item": lists.names.filter(kept)}).unique()
        own = pl.DataFrame({"topic": pl.Series(self.run.topics, dtype=pl.String)[self.topic], "item": self.run.names})
        found = own.join(known.with_columns(found=True), on=["topic", "item"], how="left", maintain_order="left")
        return found["found"].fill_null(False).to_numpy()

    def sum(self, values: Array) -> Floats:
        """Return the sum of the items' values of each topic."""
        return np.bincount(self.topic, values, len(self.run.topics)).astype(np.float64)

    def mean(self, values: Array) -> Floats:
        """Return the mean of the items' values of each topic, weighted; NaN without items."""
        total, count = self.sum(self.weight * values), self.sum(self.weight)
        return ratio(total, count)
