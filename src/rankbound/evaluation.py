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

import math
import warnings
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, groupby, repeat
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt

from rankbound.errors import DataError
from rankbound.io.files import ROW_OF_QRELS, evaluated_in_parts, read_qrels, rows_of_small
from rankbound.io.judged import Intents, Qrels, Run, as_nested, is_nested, of_dictionaries
from rankbound.kernels.formulas import Floats, Integers, values_of_ranking
from rankbound.lazy import Lists, Tensor, pl, torch
from rankbound.metrics import Metric, metrics_of
from rankbound.metrics.base import HIGHEST_GRADE, NOT_POOLED, POOLED, TIE_BREAKS, Unjudged, formula_of, values_in_order
from rankbound.metrics.intents import IntentMetric
from rankbound.metrics.runs import JudgedIntents, JudgedRun, RunMetric
from rankbound.names import ByText
from rankbound.texts import html, html_table, quantity, require_one_of

if TYPE_CHECKING:
    import pandas as pd

POLICIES = ("skip", "zero")
MISSING = (*POLICIES, "error")

LEFT_OUT = (
    "which are left out of the means; trec_eval's -c and most leaderboards count them as topics without retrieved "
    'items: pass missing="zero" to do so, "error" to refuse such runs, or "skip" to leave them out without this '
    "warning (on the command line: --missing)"
)
"""What a warning says of topics of the qrels that a run lacks."""

JOINED_AT_ONCE = 2**18
"""Items of a run that are joined with their judgements at once: arrays of this size stay in a processor's cache."""


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
    values: Mapping[str, npt.NDArray[np.float64]]
    missing: Sequence[str]
    unjudged: Sequence[str]

    def means(self) -> dict[str, float]:
        """Return the mean of each metric over the topics where it is defined; NaN if there are none.

        Other tools' names of the same metrics find them as well: `means()["MAP"]` is that of AP.
        """
        defined = {name: values[~np.isnan(values)] for name, values in self.values.items()}
        return ByText({name: float(values.mean()) if len(values) else float("nan") for name, values in defined.items()})

    def undefined(self) -> dict[str, int]:
        """Return the number of topics that the mean of each metric skips."""
        return ByText({name: int(np.isnan(values).sum()) for name, values in self.values.items()})

    def to_polars(self) -> "pl.DataFrame":
        """Return the values as a polars data frame with a row per topic and a column per metric."""
        return pl.DataFrame({"topic": list(self.topics), **self.values})

    def to_pandas(self) -> "pd.DataFrame":
        """Return the values as a pandas data frame with a row per topic and a column per metric."""
        import pandas as pd

        return pd.DataFrame({"topic": list(self.topics), **self.values})

    def __str__(self) -> str:
        """Return a table of the means, with the numbers of topics that they are of."""
        return "\n".join([aligned(self._rows()), *self._notes()])

    def _repr_html_(self) -> str:
        """Return the table in HTML, as notebooks show it."""
        rows = [[html(str(cell)) for cell in row] for row in self._rows()]
        return html_table(rows, rows[0][:1]) + "".join(f"<p>{note}</p>" for note in self._notes())

    def _rows(self) -> list[tuple[object, ...]]:
        means, undefined = self.means(), self.undefined()
        rows = [(name, shown(means[name]), len(self.topics) - undefined[name], undefined[name]) for name in means]
        return [("metric", "mean", "topics", "undefined"), *rows]

    def _notes(self) -> list[str]:
        counts = {"qrels that the run lacks": self.missing, "run that the qrels lack": self.unjudged}
        return [f"topics of the {where}: {len(topics)}" for where, topics in counts.items() if topics]


def needs_intents(metrics: Sequence[Metric]) -> bool:
    """Return true if one of the metrics is of judgements by intent."""
    return any(isinstance(one, IntentMetric) for one in metrics)


def judged_by(metrics: str | Metric | Sequence[str | Metric], qrels: Any, **columns: Any) -> tuple[list[Metric], Qrels]:
    """Return metrics and the judgements that they need, by intent or not; `columns` as in `read_qrels`."""

    # The names of metrics may need the labels first.
    qrels = list(qrels) if isinstance(qrels, Iterator) else qrels

    def judged(known: Sequence[Metric]) -> Qrels:
        if isinstance(qrels, Qrels):
            return qrels
        intents = needs_intents(known)
        if not columns and not intents and is_nested(nested := as_nested(qrels)):
            return of_dictionaries(Qrels, nested, for_one_call=True)
        is_plain = not intents and columns.get("grades") is columns.get("groups") is None
        if is_plain and (small := rows_of_small(qrels, ROW_OF_QRELS)) is not None:
            return of_dictionaries(Qrels, small, for_one_call=True)
        return read_qrels(qrels, **columns, intents=intents)

    chosen = metrics_of(metrics, lambda known: judged(known).relevance)
    return chosen, judged(chosen)


def evaluate_run(
    run: Any,
    qrels: Any,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    missing: str | None = None,
    undefined: str = "skip",
    format: str | None = None,
    topics: Iterable[str] | None = None,
) -> Evaluation:
    """Evaluate a run with trec_eval's rules, except that a metric is averaged over all orders of tied items.

    A run in a TREC file, in which the lines of each topic are adjacent, may be larger than memory.

    Args:
        run: a `Run`, or what `read_run` reads: a path, a data frame or dictionaries `{topic: {item: score}}`.
        qrels: `Qrels` or judged lists, or what `read_qrels` reads: a path, a data frame, `{topic: {item: relevance}}`;
            for metrics of intents, what it reads as judgements by intent.
        metrics: one or more metrics or their texts.
        missing: topics of the qrels that the run lacks are skipped (`skip`, trec_eval's default), count as topics
            without retrieved items (`zero`, trec_eval's `-c`), or are refused (`error`). By default, they are skipped
            with a warning.
        undefined: the value of a metric on topics where it is undefined: NaN, which means skip (`skip`), or 0 (`zero`).
        format: the columns of a run's text, as in `read_run`.
        topics: the names of the topics to evaluate; by default all of the qrels.

    Returns:
        The values of each topic; `means()` averages them.

    Raises:
        ValueError: for an unknown metric or value of `missing` or `undefined`, no topics, scores that aren't finite, or
            a metric that is undefined where a relevant item was not retrieved, such as a sum of ranks.
        DataError: for a file that can't be read, an item that occurs twice in a topic, different whole scores of a
            topic that are equal in double precision, a run and qrels without a topic in common, one of `topics` that
            the qrels lack, or, by `error`, a topic that the run lacks.

    >>> print(rb.evaluate_run({"q": {"a": 2.0, "b": 1.0}}, {"q": {"b": 1}}, "RR"))
    metric    mean  topics  undefined
    RR      0.5000       1          0
    """
    if missing is not None:
        require_one_of("missing", missing, MISSING)
    require_one_of("undefined", undefined, POLICIES)
    chosen, qrels = judged_by(metrics, qrels)
    if not (qrels.relevance.min(initial=0) >= 0 and qrels.relevance.max(initial=0) <= HIGHEST_GRADE):
        from rankbound.lists import require_grades

        require_grades(torch.from_numpy(qrels.relevance))
    evaluated = chosen_topics(topics, qrels.topics, "the qrels")
    place = {topic: index for index, topic in enumerate(evaluated)}

    def evaluate(parts: Iterable[Run]) -> tuple[list[str], dict[str, Floats]]:
        """Return the topics of the run, and the values of those of the qrels: NaN if the run lacks them."""
        in_run = list[str]()
        values = {str(one): np.full(len(place), np.nan) for one in chosen}
        for part in parts:
            in_run += part.topics
            size = dict(zip(part.topics, np.diff(part.offsets).tolist(), strict=True))
            shared = sorted(filter(place.__contains__, part.topics), key=place.__getitem__)
            batch = (np.cumsum([size[topic] for topic in shared]) // JOINED_AT_ONCE).tolist()
            for _, pairs in groupby(zip(batch, shared, strict=True), itemgetter(0)):
                put(values, part, [topic for _, topic in pairs])
        return in_run, values

    def put(values: dict[str, Floats], part: Run, topics: Sequence[str]) -> None:
        rows = [place[topic] for topic in topics]
        for name, of_part in values_of(chosen, join(part, qrels, topics, chosen), undefined).items():
            values[name][rows] = of_part

    in_run, values = evaluate([run]) if isinstance(run, Run) else evaluated_in_parts(run, evaluate, format=format)
    known = set(in_run)
    absent = [topic for topic in evaluated if topic not in known]
    if len(absent) == len(place):
        raise DataError(
            f"the run and the qrels have no topic in common: the run has {_some(in_run)}, the qrels have "
            f"{_some(evaluated)}; compare the topics' names"
        )
    lacks = f"the run lacks {len(absent)} of {quantity(len(place), 'topic')} of the qrels ({_some(absent)})"
    if absent and missing == "error":
        raise DataError(
            f"{lacks}, expected all of them by missing=error: complete the run, or leave such topics out of the means "
            "(missing=skip), or count them as topics without retrieved items (missing=zero)"
        )
    if absent and missing == "zero":
        put(values, Run(topics=[], items=[], scores=np.zeros(0), offsets=np.zeros(1, np.int64)), absent)
    wanted = [topic for topic in evaluated if missing == "zero" or topic in known]
    rows = [place[topic] for topic in wanted]
    if absent and missing is None:
        warnings.warn(f"{lacks}, {LEFT_OUT}", stacklevel=2)
    judged = set(qrels.topics)
    unjudged = [topic for topic in in_run if topic not in judged]
    return Evaluation(wanted, ByText({name: value[rows] for name, value in values.items()}), absent, unjudged)


def chosen_topics(topics: Iterable[str] | None, known: Sequence[str], whose: str) -> Sequence[str]:
    """Return the known topics that are chosen, by default all; DataError for one that they, `whose`, lack."""
    if topics is None:
        return known
    wanted = dict.fromkeys([topics] if isinstance(topics, str) else map(str, topics))
    if not wanted:
        raise ValueError("topics: found none, expected one or more names")
    present = set(known)
    if lacking := [topic for topic in wanted if topic not in present]:
        raise DataError(f"topics: found {_some(lacking)}, expected topics of {whose}, which have {_some(known)}")
    return [topic for topic in known if topic in wanted]


def summary(evaluation: Evaluation) -> dict[str, Any]:
    """Return the numbers of topics, the means and the numbers of undefined values for JSON: null for no mean."""
    means = {name: None if np.isnan(mean) else mean for name, mean in evaluation.means().items()}
    topics = {"evaluated": evaluation.topics, "missing_in_run": evaluation.missing, "not_in_qrels": evaluation.unjudged}
    counts = {name: len(several) for name, several in topics.items()}
    return {"topics": counts, "means": means, "undefined": evaluation.undefined()}


def shown(value: float) -> str:
    """Return a mean as it is printed."""
    return "-" if np.isnan(value) else f"{value:.4f}"


def aligned(rows: Sequence[Sequence[object]], words: Collection[str] | None = None) -> str:
    """Return rows of cells, the header first, as a table; columns of `words`, by default the first, align left."""
    texts = [[str(cell) for cell in row] for row in rows]
    lefts = texts[0][:1] if words is None else words
    sides = [str.ljust if name in lefts else str.rjust for name in texts[0]]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = [[side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)] for row in texts]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _some(topics: Sequence[str]) -> str:
    """Return the first topics, for a message."""
    return ", ".join(repr(topic) for topic in topics[:3]) + (", ..." if len(topics) > 3 else "") or "none"


def join(run: Run, qrels: Qrels, topics: Sequence[str], metrics: Sequence[Metric]) -> JudgedRun:
    """Join the retrieved items of `topics` with those of the judged items that the run lacks that the metrics count."""
    in_run, in_qrels = run.indices_of(topics), qrels.indices_of(topics)
    _require_distinct(run, "scores", in_run, topics)
    _require_distinct(qrels, "relevance", in_qrels, topics)
    kinds = {one.unjudged for one in metrics}
    counts_from = 0.0 if "left out" in kinds else math.ulp(0.0)
    taken, sizes = _items_of(run.offsets, in_run)
    if run.by_name is not None and qrels.by_name is not None:
        of_run, relevance, topic = _matched_by_name(run, qrels, in_run, in_qrels, counts_from)
        lost = np.arange(len(relevance))
    else:
        rows, n_judged = _items_of(qrels.offsets, in_qrels)
        topic, relevance = np.repeat(np.arange(len(topics)), n_judged), qrels.relevance[rows].astype(np.float64)
        if qrels.unjudged is not None:
            relevance[qrels.unjudged[rows]] = POOLED
        if not kinds - {"not relevant"}:
            # Unless a metric tells judged items from others, those that are not relevant make no difference.
            kept = np.flatnonzero(relevance > 0)
            rows, topic, relevance = rows[kept], topic[kept], relevance[kept]
        place = _places(run, qrels, taken, np.append(0, np.cumsum(sizes)), rows, topic)
        found = place >= 0
        of_run = np.full(len(taken), NOT_POOLED)
        of_run[place[found]] = relevance[found]
        lost = np.flatnonzero(~found & (relevance >= counts_from))
    # Missing items in ascending relevance: an order that doesn't depend on that of the files.
    lost = lost[np.lexsort((relevance[lost], topic[lost]))]
    n_lost = np.bincount(topic[lost], minlength=len(topics))
    offsets = np.concatenate(([0], np.cumsum(sizes + n_lost))).astype(np.int64)
    moved = _places_from(offsets[:-1], sizes)
    below = _places_from(offsets[:-1] + sizes, n_lost)
    scores, judged, retrieved = np.zeros(offsets[-1]), np.empty(offsets[-1]), np.zeros(offsets[-1], dtype=np.bool_)
    scores[moved], judged[moved], judged[below], retrieved[moved] = run.scores[taken], of_run, relevance[lost], True
    intents = None
    if qrels.intents is not None:
        at = np.append(moved[place[found]], below)
        row = rows[np.append(np.flatnonzero(found), lost)]
        source = np.full(offsets[-1], -1)
        source[at] = len(run.items) + row
        source[moved] = taken
        names = pl.concat([run.names, qrels.names])[source]
        intents = _joined_intents(qrels.intents, len(qrels.items), row, at, names)
    return JudgedRun(list(topics), scores, judged, retrieved, offsets, intents)


def _matched_by_name(
    run: Run, qrels: Qrels, in_run: Integers, in_qrels: Integers, counts_from: float
) -> tuple[Floats, Floats, Integers]:
    """Return the relevance of the run's items, topic by topic, and that of the items it lacks, with their topics."""
    items, judged = (
        [{} if index < 0 else (lists.by_name or ())[index] for index in chosen.tolist()]
        for lists, chosen in ((run, in_run), (qrels, in_qrels))
    )
    sought = map(map, map(attrgetter("get"), judged), items, repeat(repeat(math.nan)))
    of_run = np.asarray(array("d", list(chain.from_iterable(sought))))
    of_run = np.where(np.isnan(of_run), NOT_POOLED, np.where(of_run < 0, POOLED, of_run))
    rows, sizes = _items_of(qrels.offsets, in_qrels)
    counted = qrels.relevance[rows] >= counts_from
    if qrels.unjudged is not None:
        counted &= ~qrels.unjudged[rows]
    number = np.diff(np.append(0, counted.cumsum())[np.append(0, np.cumsum(sizes))])
    found = np.diff(np.append(0, (of_run >= counts_from).cumsum())[np.cumsum([0, *map(len, items)])])
    lost, topic = list[float](), list[int]()
    for place in np.flatnonzero(found < number).tolist():
        retrieved = items[place]
        lost += [x for item, x in judged[place].items() if x >= counts_from and item not in retrieved]
        topic += [place] * (len(lost) - len(topic))
    return of_run, np.array(lost, dtype=np.float64), np.array(topic, dtype=np.int64)


def _items_of(offsets: Integers, lists: Integers) -> tuple[Integers, Integers]:
    """Return the places of the items of these lists, one list after the other, and how many each has; -1 has none."""
    sizes = np.where(lists < 0, 0, np.diff(offsets)[lists]) if len(offsets) > 1 else np.zeros_like(lists)
    starts = np.where(lists < 0, 0, offsets[lists])
    return _places_from(starts, sizes), sizes


def _places_from(starts: Integers, sizes: Integers) -> Integers:
    """Return so many consecutive places from each start, one list after the other."""
    return np.arange(sizes.sum()) + np.repeat(starts - np.cumsum(sizes) + sizes, sizes)


def _require_distinct(lists: Run | Qrels, column: str, chosen: Integers, topics: Sequence[str]) -> None:
    """Raise DataError if a topic has an item twice; `chosen` are the lists of `topics`."""
    if lists.has_distinct_keys:
        return
    from rankbound.io.table_columns import require_distinct_items

    of_list = np.full(len(lists.topics), -1)
    of_list[chosen[chosen >= 0]] = np.flatnonzero(chosen >= 0)
    topic = np.repeat(of_list, np.diff(lists.offsets))
    frame = pl.DataFrame({"topic": topic, "item": lists.names})
    require_distinct_items(frame.filter(pl.col("topic") >= 0), column, topics)


def _places(run: Run, qrels: Qrels, taken: Integers, offsets: Integers, rows: Integers, topic: Integers) -> Integers:
    """Return where in `taken`, items of the run, those of the qrels' `rows` are; -1 for those that it lacks.

    The items of `taken` are those of lists with these offsets, and row r is of list `topic[r]`.
    """
    for seed in count():
        keys = [lists.keys if seed == 0 else lists.keys_of(seed) for lists in (run, qrels)]
        left, right = pl.DataFrame({"key": keys[0][taken]}), pl.DataFrame({"key": keys[1][rows]})
        pairs = left.with_row_index("place").join(right.with_row_index("row"), on="key")
        place, row = pairs["place"].cast(pl.Int64).to_numpy(), pairs["row"].cast(pl.Int64).to_numpy()
        # Different names may have the same key, by a chance of 1 in 2^64 for a pair.
        in_list = (offsets[topic[row]] <= place) & (place < offsets[topic[row] + 1])
        if in_list.all() and (run.names[taken[place]] == qrels.names[rows[row]]).all():
            break
    places = np.full(len(rows), -1)
    places[row] = place
    return places


def _joined_intents(intents: Intents, n_items: int, row: Integers, at: Integers, names: "pl.Series") -> JudgedIntents:
    """Return the judgements by intent of the joined items `at`, of which `row` has the place in the qrels."""
    place = np.full(n_items, -1, dtype=np.int64)
    place[row] = at
    item = place[intents.item]
    precedence = names.rank("ordinal", descending=True).cast(pl.Int64).to_numpy()
    columns = (item, intents.intent, intents.relevance, precedence)
    of_all = JudgedIntents(*(torch.from_numpy(np.array(column)) for column in columns))
    return of_all.rows(of_all.item >= 0)


def values_of(metrics: Sequence[Metric], run: JudgedRun, undefined: str = "skip") -> dict[str, Floats]:
    """Return the values of each metric, `(n_lists,)`, by its text; NaN where undefined, or 0 by the policy `zero`."""
    if not np.isfinite(run.scores).all():
        item = int((~np.isfinite(run.scores)).argmax())
        topic = run.topics[int(np.searchsorted(run.offsets, item, side="right")) - 1]
        raise ValueError(f"scores: found {run.scores[item]} in topic {topic}, expected finite numbers")
    values: dict[Metric, Floats] = {}
    for unjudged in get_args(Unjudged):
        if chosen := [one for one in metrics if one.unjudged == unjudged]:
            # Missing items that are not relevant remain for `left out`, which counts the judged items.
            kept = run.relevance >= 0 if unjudged == "left out" else run.retrieved | (run.relevance > 0)
            own = run if unjudged == "marked" else replace(run, relevance=run.relevance.clip(min=0))
            values |= _values_of_treated(chosen, own.keep(kept))
    if undefined == "zero":
        values = {one: np.where(np.isnan(value), 0.0, value) for one, value in values.items()}
    return ByText({str(one): values[one] for one in metrics})


def _values_of_treated(metrics: Sequence[Metric], run: JudgedRun) -> dict[Metric, Floats]:
    """Return the values of metrics that take unjudged items alike, by their formulas if they have any."""
    values: dict[Metric, Floats] = {one: one.of_run(run) for one in metrics if isinstance(one, RunMetric)}
    others = [one for one in metrics if one not in values]
    if run.relevance.max(initial=0.0) > HIGHEST_GRADE:
        for one in others:
            one.require_gains_that_fit(torch.from_numpy(run.relevance), torch.float64)
    # A sum of ranks is undefined where a relevant item has none.
    known = {one: formula for one in others if one.higher_is_better and (formula := formula_of(one))}
    if unknown := [one for one in others if one not in known]:
        values |= _of_orders(unknown, run)
    if known:
        of_order = run.relevance[run.order], run.starts, run.offsets, ~run.retrieved[run.order]
        of_formulas = zip(known, values_of_ranking(list(known.values()), *of_order), strict=True)
        values |= {one: one.in_range(value) for one, value in of_formulas}
    return values


def _of_orders(metrics: Sequence[Metric], run: JudgedRun) -> dict[Metric, Floats]:
    """Return the values of metrics by their functions of ranks and of tied blocks."""
    from rankbound.lists import on_cpu

    @on_cpu
    def values() -> dict[Metric, Floats]:
        order, starts, relevance = (torch.from_numpy(array) for array in (run.order, run.starts, run.relevance))
        found = values_in_order(metrics, order, starts, relevance, run.lists)
        found = {one: one.in_range(value) for one, value in found.items()}
        if not run.retrieved.all():
            found = {one: _without_missing(one, value, run) for one, value in found.items()}
        return {one: value.numpy() for one, value in found.items()}

    return values()


def _without_missing(metric: Metric, at_bottom: Tensor, run: JudgedRun) -> Tensor:
    """Return the value with the missing items at rank infinity, given that with them at the bottom."""
    from rankbound.lists import Lists
    from rankbound.ranks import orders_of_ties

    relevance, retrieved, lists = torch.from_numpy(run.relevance), torch.from_numpy(run.retrieved), run.lists
    missing = lists.position >= lists.spread(lists.sum(retrieved))
    if metric.has_formula_for_ties:
        ranked = relevance[torch.from_numpy(run.order)]
        without = _at_infinity(metric, ranked, lists, missing)
        value = at_bottom - metric.in_range(_at_infinity(metric, ranked, lists, torch.tensor(False))) + without
    else:
        without = torch.zeros(len(lists), dtype=torch.float64)
        for ranked, weight in orders_of_ties(run.blocks, relevance, lists, TIE_BREAKS):
            value = weight * _at_infinity(metric, ranked, lists, missing)
            without = without + torch.where(weight > 0, value, 0.0)
        value = without
    # Metrics of the best relevant rank are NaN where no relevant item was retrieved; their value is 0.
    none_retrieved = lists.sum(metric.relevant(relevance) & retrieved) == 0
    value = torch.where(none_retrieved & torch.isnan(without) & ~torch.isnan(at_bottom), 0.0, value)
    value = torch.where(lists.sum(~retrieved) > 0, value, at_bottom)
    defined = torch.isfinite(value) | torch.isnan(at_bottom)
    alone = _at_infinity(metric, relevance.max().reshape(1), Lists(torch.tensor([0, 1])), torch.tensor([True]))
    if not (metric.higher_is_better and bool(defined.all()) and not bool(alone.nan_to_num(nan=0.0).any())):
        raise ValueError(f"metric {metric}: is undefined where a relevant item was not retrieved")
    return metric.in_range(value)


def _at_infinity(metric: Metric, ranked: Tensor, lists: Lists, missing: Tensor) -> Tensor:
    """Return the value of lists, given the relevance of their items from rank 1 down, with missing ones at infinity."""
    from rankbound.ranks import ranks_in_order

    ranks = ranks_in_order(lists, metric.rank_weights(ranked))
    return metric.of_ranks(replace(ranks, position=torch.where(missing, torch.inf, ranks.position)), ranked, lists)
