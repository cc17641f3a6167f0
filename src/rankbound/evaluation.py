r"""A run judged by qrels, as trec_eval does it: what was retrieved has ranks, what was judged says what was possible.

An item of the run that nobody judged counts as not relevant. A relevant item that the run does not have counts in what
was possible (the ideal nDCG, the P of AP and recall) and adds nothing: it stands at rank infinity.

A metric reads ranks, so that rank infinity is nothing special to it; the mean over the orders of tied items is the
exception, which knows places only. It is taken with the missing items at the very bottom, whatever they add there is
the same in all of those orders, and so their part can be exchanged for that at infinity in any one order:

$$M = \overline{M}_{\text{bottom}} - M_{\text{bottom}}(\pi) + M_\infty(\pi)$$
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.io.files import needs_extra, read_qrels, read_run
from rankbound.io.judged import Qrels, Run
from rankbound.lists import Lists
from rankbound.metrics import Metric, evaluate, metric
from rankbound.ranks import descending_order, hard_ranks

MISSING = ("skip", "zero")


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a run, a value per topic, NaN where a metric is undefined (nothing is relevant, for most).

    `topics` are those of the qrels that were evaluated, in their order; `missing` those that the run does not have,
    whether they count or not; `unjudged` those of the run that the qrels don't have, which never count.
    """

    topics: Sequence[str]
    values: dict[str, npt.NDArray[np.float64]]
    missing: Sequence[str]
    unjudged: Sequence[str]

    def means(self) -> dict[str, float]:
        """The mean of each metric over the topics where it is defined; NaN if there is none."""
        defined = {name: values[~np.isnan(values)] for name, values in self.values.items()}
        return {name: float(values.mean()) if len(values) else float("nan") for name, values in defined.items()}

    def undefined(self) -> dict[str, int]:
        """How many topics the mean of each metric leaves out."""
        return {name: int(np.isnan(values).sum()) for name, values in self.values.items()}


@dataclass(frozen=True)
class Joined:
    """A run and its qrels as one batch of lists: retrieved items, then relevant ones that were not (score 0)."""

    topics: list[str]
    scores: npt.NDArray[np.float64]
    relevance: npt.NDArray[np.float64]
    retrieved: npt.NDArray[np.bool_]
    offsets: npt.NDArray[np.int64]


def evaluate_run(
    run: Run | str | os.PathLike[str],
    qrels: Qrels | str | os.PathLike[str],
    metrics: Sequence[str | Metric],
    *,
    missing: str = "skip",
) -> Evaluation:
    """Evaluate a run with trec_eval's rules, except that ties count by their mean over all orders.

    Args:
        run: a `Run`, or the path of one (`read_run`).
        qrels: `Qrels` or judged lists, or the path of such (`read_qrels`).
        metrics: metrics or their texts.
        missing: topics of the qrels that the run does not have are left out (`skip`, trec_eval's default), or count as
            topics of which nothing was retrieved (`zero`, trec_eval's `-c`).

    Raises:
        ValueError: for an unknown metric or way with missing topics, scores that are not finite, or a metric that has
            no value where a relevant item was not retrieved, such as a sum of ranks.
        DataError: for a file that cannot be read, or an item that a topic has twice.
    """
    if missing not in MISSING:
        raise ValueError(f"missing: found {missing!r}, expected one of {', '.join(MISSING)}")
    chosen = [metric(one) for one in metrics]
    run = run if isinstance(run, Run) else read_run(run)
    qrels = qrels if isinstance(qrels, Qrels) else read_qrels(qrels)
    in_run, in_qrels = set(run.topics), set(qrels.topics)
    absent = [topic for topic in qrels.topics if topic not in in_run]
    wanted = [topic for topic in qrels.topics if missing == "zero" or topic in in_run]
    return Evaluation(
        topics=wanted,
        values=values_of(chosen, join(run, qrels, wanted)),
        missing=absent,
        unjudged=[topic for topic in run.topics if topic not in in_qrels],
    )


def join(run: Run, qrels: Qrels, topics: Sequence[str]) -> Joined:
    """The lists of `topics`: what the run has, and what it should have had."""
    with needs_extra("data"):
        import polars as pl

        from rankbound.io.grouping import name_column, require_distinct_items

    def frame(lists: Run | Qrels, column: str) -> pl.DataFrame:
        topic = np.repeat(np.arange(len(lists.topics)), np.diff(lists.offsets))
        place = {name: index for index, name in enumerate(topics)}
        chosen = np.array([place.get(name, -1) for name in lists.topics], dtype=np.int64)[topic]
        values = pl.Series(column, getattr(lists, column)).cast(pl.Float64)
        every = pl.DataFrame(
            {"topic": pl.Series(chosen, dtype=pl.Int64), "item": name_column(lists.items), column: values}
        )
        picked = every.filter(pl.col("topic") >= 0)
        require_distinct_items(picked, column, topics)
        return picked

    scored, judged = frame(run, "scores"), frame(qrels, "relevance")
    key = ["topic", "item"]
    both = scored.join(judged, on=key, how="left", maintain_order="left")
    both = both.with_columns(pl.col("relevance").fill_null(0.0), retrieved=pl.lit(True))
    lost = judged.filter(pl.col("relevance") > 0).join(scored, on=key, how="anti", maintain_order="left")
    lost = lost.select(*key, pl.lit(0.0).alias("scores"), "relevance", pl.lit(False).alias("retrieved"))
    # Of the items that are missing the least relevant come first: one fixed order, whatever the files' was.
    every = pl.concat([both, lost.sort("relevance", maintain_order=True)])
    every = every.sort("topic", maintain_order=True)
    sizes = np.bincount(every["topic"].to_numpy(), minlength=len(topics))
    return Joined(
        list(topics),
        every["scores"].to_numpy(),
        every["relevance"].to_numpy(),
        every["retrieved"].to_numpy(),
        np.concatenate(([0], sizes.cumsum())).astype(np.int64),
    )


def values_of(metrics: Sequence[Metric], joined: Joined) -> dict[str, npt.NDArray[np.float64]]:
    """Each metric of each list, `(n_lists,)`."""
    if not np.isfinite(joined.scores).all():
        item = int((~np.isfinite(joined.scores)).argmax())
        topic = joined.topics[int(np.searchsorted(joined.offsets, item, side="right")) - 1]
        raise ValueError(f"scores: found {joined.scores[item]} in topic {topic}, expected finite numbers")
    lists = Lists(torch.from_numpy(joined.offsets))
    relevance, retrieved = torch.from_numpy(joined.relevance.copy()), torch.from_numpy(joined.retrieved.copy())
    scores = _with_missing_below(joined.scores, retrieved)
    values = evaluate(metrics, scores, relevance, lists.offsets)
    incomplete = lists.sum(~retrieved) > 0
    if bool(incomplete.any()):
        order = descending_order(scores, lists)
        values = {
            str(one): _without_missing(one, values[str(one)], order, relevance, retrieved, incomplete, lists)
            for one in metrics
        }
    return {name: value.numpy() for name, value in values.items()}


def _with_missing_below(scores: npt.NDArray[np.float64], retrieved: Tensor) -> Tensor:
    """Numbers that order the items as their scores do, the missing ones below, in the order in which they stand."""
    _, place = np.unique(scores, return_inverse=True)
    below = -1.0 - torch.arange(len(scores), dtype=torch.float64)
    return torch.where(retrieved, torch.from_numpy(place.astype(np.float64)), below)


def _without_missing(
    one: Metric,
    at_bottom: Tensor,
    order: Tensor,
    relevance: Tensor,
    retrieved: Tensor,
    incomplete: Tensor,
    lists: Lists,
) -> Tensor:
    """The value with the missing items at rank infinity, from that with them at the bottom."""
    ranks = hard_ranks(order, lists, one.rank_weights(relevance))
    at_infinity = replace(ranks, position=torch.where(retrieved, ranks.position, torch.inf))
    without = one.of_ranks(at_infinity, relevance, lists)
    value = at_bottom - one.of_ranks(ranks, relevance, lists) + without
    # A metric of the best relevant rank finds none where no relevant item was retrieved at all: that is 0.
    none_retrieved = lists.sum(one.relevant(relevance) & retrieved) == 0
    value = torch.where(none_retrieved & torch.isnan(without) & ~torch.isnan(at_bottom), 0.0, value)
    value = torch.where(incomplete, value, at_bottom)
    defined = torch.isfinite(value) | torch.isnan(at_bottom)
    if not (one.higher_is_better and bool(defined.all()) and _is_worth_nothing_at_infinity(one, relevance.max())):
        raise ValueError(f"metric {one}: has no value where a relevant item was not retrieved")
    return value


def _is_worth_nothing_at_infinity(one: Metric, grade: Tensor) -> bool:
    """Whether a relevant item that stands alone at rank infinity has the value 0, or none."""
    lists, relevance = Lists(torch.tensor([0, 1])), grade.reshape(1)
    alone = hard_ranks(torch.tensor([0]), lists, one.rank_weights(relevance))
    value = one.of_ranks(replace(alone, position=torch.tensor([torch.inf], dtype=torch.float64)), relevance, lists)
    return not bool(torch.nan_to_num(value, nan=0.0).any())
