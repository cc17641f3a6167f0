r"""Evaluation of runs against qrels with the rules of trec_eval.

An unjudged item of the run counts as not relevant, unless the metric takes it otherwise (`Metric.unjudged`). A relevant
item that the run lacks counts in the normaliser (the ideal DCG, the P of AP and recall) and contributes nothing: its
rank is infinite.

A metric is a function of ranks, which may be infinite. A closed form of the mean over the orders of tied items,
however, is for finite ranks only. It is therefore computed with the missing items at the bottom, where their
contribution is the same in all of those orders, and is then corrected by the difference between bottom and infinity in
any one order $\pi$:

$$M = \overline{M}_{\text{bottom}} - M_{\text{bottom}}(\pi) + M_\infty(\pi)$$

A metric without a closed form is averaged over orders with the missing items at infinity.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rankbound.errors import DataError
from rankbound.io.files import needs_extra, read_qrels, read_run
from rankbound.io.judged import Intents, Qrels, Run
from rankbound.kernels.formulas import RankedItems
from rankbound.kernels.formulas import values_of as values_of_formulas
from rankbound.lists import Lists, on_cpu, require_grades
from rankbound.metrics import Metric, metrics_of
from rankbound.metrics.base import NOT_POOLED, POOLED, TIE_BREAKS, Unjudged, formula_of, values_of_blocks
from rankbound.metrics.intents import IntentMetric
from rankbound.metrics.sets import JudgedIntents, JudgedRun, RunMetric
from rankbound.ranks import TieBlocks, hard_ranks, orders_of_ties, ranks_in_order, tie_blocks
from rankbound.texts import quantity, require_one_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

POLICIES = ("skip", "zero")
MISSING = (*POLICIES, "error")


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The metrics of a run, one value per topic.

    Args:
        topics: the evaluated topics, in the order of the qrels.
        values: by metric, the values of the topics `(n_topics,)`; NaN where a metric is undefined (mostly for lack of
            relevant items).
        missing: the topics of the qrels that the run lacks, whether they count or not.
        unjudged: the topics of the run that the qrels lack, which never count.

    >>> rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "RR").means()
    {'RR': 0.5}
    """

    topics: Sequence[str]
    values: dict[str, npt.NDArray[np.float64]]
    missing: Sequence[str]
    unjudged: Sequence[str]

    def means(self) -> dict[str, float]:
        """Return the mean of each metric over the topics where it is defined; NaN if there are none."""
        defined = {name: values[~np.isnan(values)] for name, values in self.values.items()}
        return {name: float(values.mean()) if len(values) else float("nan") for name, values in defined.items()}

    def undefined(self) -> dict[str, int]:
        """Return the number of topics that the mean of each metric skips."""
        return {name: int(np.isnan(values).sum()) for name, values in self.values.items()}

    def to_polars(self) -> "pl.DataFrame":
        """Return the values as a polars data frame with a row per topic and a column per metric."""
        with needs_extra("data"):
            import polars as pl
        return pl.DataFrame({"topic": list(self.topics), **self.values})

    def to_pandas(self) -> "pd.DataFrame":
        """Return the values as a pandas data frame with a row per topic and a column per metric."""
        import pandas as pd

        return pd.DataFrame({"topic": list(self.topics), **self.values})

    def __str__(self) -> str:
        """Return a table of the means, with the numbers of topics that they are of."""
        means, undefined = self.means(), self.undefined()
        rows = [(name, shown(means[name]), len(self.topics) - undefined[name], undefined[name]) for name in means]
        notes = [
            f"topics of the qrels that the run lacks: {len(self.missing)}" if self.missing else "",
            f"topics of the run that the qrels lack: {len(self.unjudged)}" if self.unjudged else "",
        ]
        return "\n".join([aligned([("metric", "mean", "topics", "undefined"), *rows]), *filter(None, notes)])


@dataclass(frozen=True)
class Joined:
    """A run joined with its qrels in one batch of lists: retrieved items, then judged ones that it lacks (score 0).

    The relevance of unjudged items is `POOLED` or `NOT_POOLED`, both negative. `intents` are the qrels', if any.
    """

    topics: list[str]
    scores: npt.NDArray[np.float64]
    relevance: npt.NDArray[np.float64]
    retrieved: npt.NDArray[np.bool_]
    offsets: npt.NDArray[np.int64]
    intents: JudgedIntents | None = None

    def treated(self, unjudged: Unjudged) -> "Joined":
        """Return the lists with their unjudged items as a metric of this `Metric.unjudged` takes them.

        Missing items that are not relevant remain for `left out`, which counts the judged items.
        """
        relevance = self.relevance if unjudged == "marked" else self.relevance.clip(min=0)
        kept = self.relevance >= 0 if unjudged == "left out" else self.retrieved | (self.relevance > 0)
        if kept.all():
            return replace(self, relevance=relevance)
        before = np.concatenate(([0], kept.cumsum()))
        lists = (self.topics, self.scores[kept], relevance[kept], self.retrieved[kept], before[self.offsets])
        return Joined(*lists, None if self.intents is None else self.intents.of(torch.from_numpy(kept)))


def needs_intents(metrics: Sequence[Metric]) -> bool:
    """Return true if one of the metrics is of judgements by intent."""
    return any(isinstance(one, IntentMetric) for one in metrics)


def evaluate_run(
    run: Any,
    qrels: Any,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    missing: str | None = None,
    undefined: str = "skip",
) -> Evaluation:
    """Evaluate a run with trec_eval's rules, except that a metric is averaged over all orders of tied items.

    Args:
        run: a `Run`, or what `read_run` reads: a path, a data frame or dictionaries `{topic: {item: score}}`.
        qrels: `Qrels` or judged lists, or what `read_qrels` reads: a path, a data frame, `{topic: {item: relevance}}`;
            for metrics of intents, what it reads as judgements by intent.
        metrics: one or more metrics or their texts.
        missing: topics of the qrels that the run lacks are skipped (`skip`, trec_eval's default), count as topics
            without retrieved items (`zero`, trec_eval's `-c`), or are refused (`error`). By default, they are skipped
            with a warning.
        undefined: the value of a metric on topics where it is undefined: NaN, which means skip (`skip`), or 0 (`zero`).

    Returns:
        The values of each topic; `means()` averages them.

    Raises:
        ValueError: for an unknown metric or value of `missing` or `undefined`, scores that aren't finite, or a metric
            that is undefined where a relevant item was not retrieved, such as a sum of ranks.
        DataError: for a file that can't be read, an item that occurs twice in a topic, different whole scores of a
            topic that are equal in double precision, a run and qrels without a topic in common, or, by `error`, a
            topic that the run lacks.

    >>> print(rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "RR"))
    metric    mean  topics  undefined
    RR      0.5000       1          0
    """
    if missing is not None:
        require_one_of("missing", missing, MISSING)
    require_one_of("undefined", undefined, POLICIES)
    chosen = metrics_of(metrics)
    run = run if isinstance(run, Run) else read_run(run)
    qrels = qrels if isinstance(qrels, Qrels) else read_qrels(qrels, intents=needs_intents(chosen))
    in_run, in_qrels = set(run.topics), set(qrels.topics)
    if not in_run & in_qrels:
        raise DataError(
            f"the run and the qrels have no topic in common: the run has {_some(run.topics)}, the qrels have "
            f"{_some(qrels.topics)}; compare the topics' names"
        )
    absent = [topic for topic in qrels.topics if topic not in in_run]
    lacks = f"the run lacks {len(absent)} of {quantity(len(in_qrels), 'topic')} of the qrels ({_some(absent)})"
    if absent and missing == "error":
        raise DataError(
            f"{lacks}, expected all of them by missing=error: complete the run, or leave such topics out of the means "
            "(missing=skip), or count them as topics without retrieved items (missing=zero)"
        )
    wanted = [topic for topic in qrels.topics if missing == "zero" or topic in in_run]
    joined = join(run, qrels, wanted, complete=any(one.unjudged == "left out" for one in chosen))
    values = values_of(chosen, joined, undefined)
    if absent and missing is None:
        warnings.warn(
            f"{lacks}, which are left out of the means; trec_eval's -c and most leaderboards count them as topics "
            'without retrieved items: pass missing="zero" to do so, missing="error" to refuse such runs, or '
            'missing="skip" to leave them out without this warning',
            stacklevel=2,
        )
    return Evaluation(
        topics=wanted,
        values=values,
        missing=absent,
        unjudged=[topic for topic in run.topics if topic not in in_qrels],
    )


def shown(value: float) -> str:
    """Return a mean as it is printed."""
    return "-" if np.isnan(value) else f"{value:.4f}"


def aligned(rows: Sequence[Sequence[object]]) -> str:
    """Return rows of cells as a table, the first column aligned to the left and the others to the right."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return "\n".join(
        "  ".join([first.ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(rest, widths[1:], strict=True))])
        for first, *rest in texts
    )


def _some(topics: Sequence[str]) -> str:
    """Return the first topics, for a message."""
    return ", ".join(repr(topic) for topic in topics[:3]) + (", ..." if len(topics) > 3 else "") or "none"


def join(run: Run, qrels: Qrels, topics: Sequence[str], *, complete: bool) -> Joined:
    """Join the retrieved items of `topics` with the relevant ones that the run lacks; `complete`: all judged ones."""
    with needs_extra("data"):
        import polars as pl

        from rankbound.io.table_columns import name_column, require_distinct_items

    def frame(lists: Run | Qrels, column: str, values: npt.NDArray[Any], **others: Any) -> pl.DataFrame:
        topic = np.repeat(np.arange(len(lists.topics)), np.diff(lists.offsets))
        place = {name: index for index, name in enumerate(topics)}
        chosen = np.array([place.get(name, -1) for name in lists.topics], dtype=np.int64)[topic]
        every = pl.DataFrame(
            {
                "topic": pl.Series(chosen, dtype=pl.Int64),
                "item": name_column(lists.items),
                column: pl.Series(values).cast(pl.Float64),
                **others,
            }
        )
        picked = every.filter(pl.col("topic") >= 0)
        require_distinct_items(picked, column, topics)
        return picked

    require_grades(torch.from_numpy(qrels.relevance))
    relevance = qrels.relevance if qrels.unjudged is None else np.where(qrels.unjudged, POOLED, qrels.relevance)
    scored = frame(run, "scores", run.scores)
    judged = frame(qrels, "relevance", relevance, row=np.arange(len(relevance)))
    key = ["topic", "item"]
    both = scored.join(judged, on=key, how="left", maintain_order="left")
    both = both.with_columns(pl.col("relevance").fill_null(NOT_POOLED), retrieved=pl.lit(True))
    needed = pl.col("relevance") >= 0 if complete else pl.col("relevance") > 0
    lost = judged.filter(needed).join(scored, on=key, how="anti", maintain_order="left")
    lost = lost.select(*key, pl.lit(0.0).alias("scores"), "relevance", "row", pl.lit(False).alias("retrieved"))
    # Missing items in ascending relevance: an order that doesn't depend on that of the files.
    every = pl.concat([both, lost.sort("relevance", maintain_order=True)])
    every = every.sort("topic", maintain_order=True)
    sizes = np.bincount(every["topic"].to_numpy(), minlength=len(topics))
    return Joined(
        list(topics),
        every["scores"].to_numpy(),
        every["relevance"].to_numpy(),
        every["retrieved"].to_numpy(),
        np.concatenate(([0], sizes.cumsum())).astype(np.int64),
        None if qrels.intents is None else _joined_intents(qrels, qrels.intents, every["row"], every["item"]),
    )


def _joined_intents(qrels: Qrels, intents: Intents, row: "pl.Series", names: "pl.Series") -> JudgedIntents:
    """Return the judgements by intent of the joined items, of which `row` has the place in the qrels, if any."""
    import polars as pl

    known = row.is_not_null().to_numpy()
    place = np.full(len(qrels.items), -1, dtype=np.int64)
    place[row.drop_nulls().to_numpy()] = np.flatnonzero(known)
    item = place[intents.item]
    precedence = names.rank("ordinal", descending=True).cast(pl.Int64).to_numpy()
    columns = (item, intents.intent, intents.relevance, precedence)
    of_all = JudgedIntents(*(torch.from_numpy(np.array(column)) for column in columns))
    return of_all.rows(of_all.item >= 0)


@on_cpu
def values_of(metrics: Sequence[Metric], joined: Joined, undefined: str = "skip") -> dict[str, npt.NDArray[np.float64]]:
    """Return the values of each metric, `(n_lists,)`, by its text; NaN where undefined, or 0 by the policy `zero`."""
    if not np.isfinite(joined.scores).all():
        item = int((~np.isfinite(joined.scores)).argmax())
        topic = joined.topics[int(np.searchsorted(joined.offsets, item, side="right")) - 1]
        raise ValueError(f"scores: found {joined.scores[item]} in topic {topic}, expected finite numbers")
    values: dict[str, Tensor] = {}
    for unjudged in get_args(Unjudged):
        if chosen := [one for one in metrics if one.unjudged == unjudged]:
            values |= _values_of_treated(chosen, joined.treated(unjudged))
    if undefined == "zero":
        values = {name: torch.nan_to_num(value, nan=0.0) for name, value in values.items()}
    return {str(one): values[str(one)].numpy() for one in metrics}


def _values_of_treated(metrics: Sequence[Metric], joined: Joined) -> dict[str, Tensor]:
    """Return the values of metrics that take unjudged items alike."""
    lists = Lists(torch.from_numpy(joined.offsets))
    relevance, retrieved = torch.from_numpy(joined.relevance.copy()), torch.from_numpy(joined.retrieved.copy())
    blocks = tie_blocks(_with_missing_below(joined.scores, retrieved), lists)
    run = JudgedRun(blocks, relevance, retrieved, lists, joined.intents)
    values = {str(one): one.of_run(run) for one in metrics if isinstance(one, RunMetric)}
    others = [one for one in metrics if not isinstance(one, RunMetric)]
    if others:
        values |= values_of_blocks(others, blocks, relevance, lists)
    if not joined.retrieved.all():
        values |= {str(one): _without_missing(one, values[str(one)], run) for one in others}
    return values


def _with_missing_below(scores: npt.NDArray[np.float64], retrieved: Tensor) -> Tensor:
    """Return numbers that order retrieved items as their scores do, and missing items below in their given order."""
    _, place = np.unique(scores, return_inverse=True)
    below = -1.0 - torch.arange(len(scores), dtype=torch.float64)
    return torch.where(retrieved, torch.from_numpy(place.astype(np.float64)), below)


def _without_missing(metric: Metric, at_bottom: Tensor, run: JudgedRun) -> Tensor:
    """Return the value with the missing items at rank infinity, given that with them at the bottom."""
    blocks, relevance, retrieved, lists = run.blocks, run.relevance, run.retrieved, run.lists
    if metric.has_formula_for_ties:
        bottom, without = _in_one_order(metric, run)
        value = at_bottom - metric.in_range(bottom) + without
    else:
        value = without = _mean_at_infinity(metric, blocks, relevance, retrieved, lists)
    # Metrics of the best relevant rank are NaN where no relevant item was retrieved; their value is 0.
    none_retrieved = lists.sum(metric.relevant(relevance) & retrieved) == 0
    value = torch.where(none_retrieved & torch.isnan(without) & ~torch.isnan(at_bottom), 0.0, value)
    value = torch.where(lists.sum(~retrieved) > 0, value, at_bottom)
    defined = torch.isfinite(value) | torch.isnan(at_bottom)
    if not (metric.higher_is_better and bool(defined.all()) and _is_worth_nothing_at_infinity(metric, relevance.max())):
        raise ValueError(f"metric {metric}: is undefined where a relevant item was not retrieved")
    return metric.in_range(value)


def _in_one_order(metric: Metric, run: JudgedRun) -> tuple[Tensor, Tensor]:
    """Return the values of one order of the tied items, with the missing items at the bottom and at infinity."""
    order = run.blocks.order
    if (formula := formula_of(metric)) is not None:
        # Without ties, the first is the value that `values_of_blocks` returns, to the last digit.
        ranked, offsets = run.relevance[order].numpy(), run.lists.offsets.numpy()
        bottom = RankedItems.of(ranked, offsets)
        infinity = RankedItems.of(ranked, offsets, missing=~run.retrieved[order].numpy())
        (first,), (second,) = values_of_formulas([formula], bottom), values_of_formulas([formula], infinity)
        return torch.from_numpy(first), torch.from_numpy(second)
    ranks = hard_ranks(order, run.lists, metric.rank_weights(run.relevance))
    at_infinity = replace(ranks, position=torch.where(run.retrieved, ranks.position, torch.inf))
    return metric.of_ranks(ranks, run.relevance, run.lists), metric.of_ranks(at_infinity, run.relevance, run.lists)


def _mean_at_infinity(metric: Metric, blocks: TieBlocks, relevance: Tensor, retrieved: Tensor, lists: Lists) -> Tensor:
    """Return the mean over the orders of `Metric.of_blocks`, with the missing items, which are last, at infinity."""
    retrieved_count = lists.spread(lists.sum(retrieved))
    mean = torch.zeros(len(lists), dtype=torch.float64)
    for ranked, weight in orders_of_ties(blocks, relevance, lists, TIE_BREAKS):
        ranks = ranks_in_order(lists, metric.rank_weights(ranked))
        position = torch.where(ranks.position <= retrieved_count, ranks.position, torch.inf)
        values = metric.of_ranks(replace(ranks, position=position), ranked, lists)
        mean = mean + torch.where(weight > 0, weight * values, 0.0)
    return mean


def _is_worth_nothing_at_infinity(metric: Metric, grade: Tensor) -> bool:
    """Return true if the value of a list with one relevant item at rank infinity is 0 or NaN."""
    lists, relevance = Lists(torch.tensor([0, 1])), grade.reshape(1)
    alone = hard_ranks(torch.tensor([0]), lists, metric.rank_weights(relevance))
    value = metric.of_ranks(replace(alone, position=torch.tensor([torch.inf], dtype=torch.float64)), relevance, lists)
    return not bool(torch.nan_to_num(value, nan=0.0).any())
