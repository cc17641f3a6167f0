r"""Fusion of runs: one ranking of each topic from those of several systems.

An item has a term from each run that retrieved it, by its score or by its rank, and its fused score combines them. Tied
items of a run share the mean of the terms of their ranks, the expectation over all orders of them, so that the order of
a file's lines never matters; items whose fused scores are equal stay tied. A run that lacks a topic is an empty list.

A method is a text as that of a metric, `rrf(k=20)`. An item has the (normalised) score $s$ and the rank $r$, from 1, in
$n$ of the runs, and its topic has $D$ items in any run:

| method | fused score | source |
|---|---|---|
| `combsum`, `combmnz`, `combanz` | $\sum s$, $n \sum s$, $\sum s / n$ | Fox and Shaw 1994 |
| `combmax`, `combmin`, `combmed` | largest, smallest, median $s$ | Fox and Shaw 1994 |
| `combgmnz(gamma)` | $n^\gamma \sum s$ | Lee 1997 |
| `wsum`, `wmnz`, `mixed` | $\sum w s$, $\sum s \sum w$, $\sqrt{n} \sum w s$ | Wu and Crestani 2002 |
| `rrf(k=60)` | $\sum 1 / (k + r)$ | Cormack et al. 2009 |
| `isr`, `log_isr`, `logn_isr(sigma=0.01)` | $\sum 1 / r^2$ times $n$, $\ln n$, $\ln(n + \sigma)$ | Mourão et al. 2015 |
| `rbc(phi)` | $\sum (1 - \phi) \phi^{r - 1}$ | Bailey et al. 2017 |
| `borda` | $\sum (D + 1 - r)$, or the mean of the points left where it is missing | Aslam and Montague 2001 |
| `condorcet` | items that most runs rank below it, itself included, ties half | Montague and Aslam 2002 |
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from itertools import combinations, product
from math import comb
from typing import Any, NamedTuple

import numpy as np

from rankbound.evaluation import chosen_topics, evaluate_run, judged_by
from rankbound.io.files import read_run
from rankbound.io.judged import Run, is_nested
from rankbound.kernels.formulas import Floats, Integers, cases_of
from rankbound.lazy import pl
from rankbound.metrics import Metric
from rankbound.texts import is_number, quantity, require_one_of, split_text, unknown_name


class _Parameter(NamedTuple):
    """A parameter of methods: its default, its least and largest values, and what `tune_fusion` tries."""

    default: float | None
    least: float
    largest: float
    grid: Sequence[float]


PARAMETERS = {
    "k": _Parameter(60, 0, 1e15, range(10, 101, 10)),
    "gamma": _Parameter(None, -100, 100, [step / 20 for step in range(-20, 41)]),
    "sigma": _Parameter(0.01, 0, 1, [step / 20 for step in range(1, 21)]),
    "phi": _Parameter(None, 0, 1, [step / 20 for step in range(1, 20)]),
}
"""The parameters of methods by name."""

_PAIRS_AT_ONCE = 2**22


def fuse(
    runs: Sequence[Any] | Mapping[str, Any],
    method: str = "rrf",
    *,
    normalise: str | None = None,
    weights: Sequence[float] | None = None,
) -> Run:
    """Fuse runs: score each item that any of them retrieved by its ranks or scores in all of them.

    Tied items of a run share the mean of their ranks' terms; items of the same fused score are tied in the result.

    Args:
        runs: two or more runs, or runs by name, each a `Run` or what `read_run` reads; a run that lacks a topic has an
            empty list there.
        method: the method's text, such as `rrf(k=20)`, `combsum` or `condorcet`; `rankbound.fusion` lists them.
            Condorcet's takes time in the square of a topic's items.
        normalise: how a method of scores makes those of a list comparable: `min-max` (default), `max`, `sum`, `zmuv`
            (zero mean, unit variance), `rank`, `borda`, or `none`.
        weights: one number from 0 per run, by which the terms of a linear method (`combsum`, `rrf`, `rbc`, `borda`) or
            the votes of `condorcet` are multiplied; `wsum`, `wmnz` and `mixed` need them.

    Returns:
        The fused run, each topic in descending order of scores, topics in the order of their first appearance.

    Raises:
        ValueError: fewer than two runs, an unknown method or normalisation, one for a method of ranks, weights that a
            method does not take or lacks, or scores that are not finite.
        DataError: as `read_run`, and for an item that occurs twice in a topic.

    >>> rb.fuse([{"q": {"a": 9.0, "b": 8.0}}, {"q": {"b": 0.2, "c": 0.1}}], "rrf(k=0)").items.to_list()
    ['b', 'a', 'c']
    """
    return Fusion(method, normalise, None if weights is None else tuple(weights))(runs)


def tune_fusion(
    runs: Sequence[Any] | Mapping[str, Any],
    method: str,
    qrels: Any,
    metric: str | Metric,
    *,
    normalise: str | None = None,
    weights: Sequence[float] | str | None = None,
    step: float = 0.1,
    topics: Iterable[str] | None = None,
) -> "Fusion":
    """Choose what a method leaves open on judged topics; the result fuses these and other runs.

    Parameters that the text leaves open are chosen from `rankbound.fusion.PARAMETERS`, and weights from all that are
    multiples of `step` and sum to 1: the setting of the best mean of the metric, the first of equal ones. An estimate
    of a fusion's quality needs other topics than these.

    Args:
        runs: as in `fuse`.
        method: the method's text; `rrf` leaves k open, and `rrf(k=60)` does not.
        qrels: the judgements, as `evaluate_run` accepts them.
        metric: the metric or its text.
        normalise: as in `fuse`.
        weights: as in `fuse`, or `grid` to choose them, which is the default of methods that need them.
        step: the step of the grid of weights.
        topics: the names of the topics to choose on; by default all of the qrels.

    Returns:
        The fusion: call it on runs in the same order. `tried` has the metric's mean for each setting.

    Raises:
        ValueError: as `fuse`, for nothing left open, for a step that does not divide 1, or for more than 5,000
            settings.
        DataError: as `evaluate_run`, for qrels that can't be read, or no topic in common.

    >>> runs = [{"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1.0, "b": 2.0}}]
    >>> rb.tune_fusion(runs, "wsum", {"q": {"b": 1}}, "RR", step=0.5).weights
    (0.0, 1.0)
    """
    several, ((measured,), judged) = _read(runs), judged_by(metric, qrels)
    wanted = chosen_topics(topics, judged.topics, "the qrels")
    name, given = _split(method)
    opened = [one for one in signature(METHODS[name]).parameters if one not in given]
    rows = product(*(PARAMETERS[one].grid for one in opened))
    settings = (given | dict(zip(opened, row, strict=True)) for row in rows)
    inside = [",".join(f"{key}={value:g}" for key, value in setting.items()) for setting in settings]
    texts = [f"{name}({one})" if one else name for one in inside]
    if weights == "grid" or (weights is None and Fusion(texts[0], normalise)._method().weights == "must"):
        vectors: list[tuple[float, ...] | None] = [*_compositions(step, len(several), 5000 // len(texts))]
    elif isinstance(weights, str):
        raise ValueError(f"weights: found {weights!r}, expected numbers, or grid")
    else:
        vectors = [weights if weights is None else tuple(weights)]
    if len(texts) * len(vectors) == 1:
        raise ValueError(f"method: found {method}, which leaves nothing open: call rankbound.fuse, or weights='grid'")
    joined = _Joined.of([_of_topics(run, wanted) for run in several])
    tried: dict[Fusion, float] = {}
    for text, vector in product(texts, vectors):
        fusion = Fusion(text, normalise, vector)
        mean = evaluate_run(fusion._fused(joined), judged, [measured], missing="skip", topics=wanted).means()
        tried[fusion] = mean[str(measured)]
    sign = 1 if measured.higher_is_better else -1
    best = max(tried, key=lambda one: -np.inf if np.isnan(tried[one]) else sign * tried[one])
    return replace(best, tried={str(one): mean for one, mean in tried.items()})


@dataclass(frozen=True, eq=False)
class Fusion:
    """A method of fusion with all its settings, which fuses runs when it is called.

    Args:
        method: the method's text.
        normalise, weights: as in `rankbound.fuse`.
        tried: the mean of the metric for each setting among which this one was chosen.

    >>> from rankbound.fusion import Fusion
    >>> str(Fusion("wsum", weights=(0.75, 0.25)))
    'wsum, weights 0.75,0.25'
    """

    method: str
    normalise: str | None = None
    weights: tuple[float, ...] | None = None
    tried: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __call__(self, runs: Sequence[Any] | Mapping[str, Any]) -> Run:
        """Return the fused run of several, in the order in which the fusion was tuned."""
        return self._fused(_Joined.of(_read(runs)))

    def __str__(self) -> str:
        """Return the method with its normalisation and weights."""
        weights = None if self.weights is None else f"weights {','.join(f'{one:g}' for one in self.weights)}"
        return ", ".join(filter(None, [self.method, self.normalise, weights]))

    def _method(self) -> "_Method":
        """Return how the method is computed; ValueError for settings that it does not take."""
        name, given = _split(self.method)
        parameters = {one: given.get(one, PARAMETERS[one].default) for one in signature(METHODS[name]).parameters}
        if missing := [one for one, value in parameters.items() if value is None]:
            raise ValueError(f"method {self.method!r}: {name} needs {missing[0]}, or rankbound.tune_fusion")
        method = METHODS[name](**parameters)
        require_one_of("normalise", self.normalise or "none", NORMALISATIONS)
        if self.normalise is not None and not method.of_scores:
            raise ValueError(f"normalise: found {self.normalise} for {name}, which takes ranks alone: leave it out")
        if self.weights is not None and method.weights == "no":
            raise ValueError(
                f"weights: found some for {name}, which takes none; expected wsum, wmnz or mixed, or a linear method: "
                "combsum, rrf, rbc, borda or condorcet"
            )
        return method

    def _fused(self, joined: "_Joined") -> Run:
        method, n_runs = self._method(), len(joined.lists)
        if self.weights is None and method.weights == "must":
            raise ValueError(f"weights: found none for {self.method}, expected one per run, or rankbound.tune_fusion")
        weights = np.asarray([1.0] * n_runs if self.weights is None else self.weights, np.float64)
        if weights.shape != (n_runs,) or not (np.isfinite(weights) & (weights >= 0)).all():
            raise ValueError(f"weights: found {self.weights}, expected {n_runs} numbers from 0, one per run")
        normalised, absent = NORMALISATIONS[(self.normalise or "min-max") if method.of_scores else "none"]
        # The terms of all runs' items; NaN for those that a run lacks.
        terms = np.full((n_runs, len(joined.topic)), np.nan)
        for row, run in zip(terms, joined.lists, strict=True):
            if (missing := method.missing or absent) is not None:
                row[:] = missing(run)[joined.topic]
            row[run.item] = method.term(run, normalised(run))
        scores = method.combine(terms, weights[:, None], joined)
        order = np.lexsort((-scores, joined.topic))
        return Run(topics=joined.topics, items=joined.names[order], scores=scores[order], offsets=joined.offsets)


class _List:
    """A run's lists, each in descending order of scores; `item` numbers the items of all runs.

    `n` and `sizes` `(n_topics,)` are the numbers of items of any run and of this one; `starts`, `lengths`, `largest`
    and `least` are of the lists that have items, and `position` is the items' places in them, from 0.
    """

    def __init__(self, run: Run, topic: Integers, item: Integers, n: Integers) -> None:
        scores, of_list = run.scores.astype(np.float64), np.repeat(np.arange(len(run.topics)), np.diff(run.offsets))
        if not np.isfinite(scores).all():
            at = int((~np.isfinite(scores)).argmax())
            raise ValueError(f"scores: found {scores[at]} in topic {run.topics[of_list[at]]}")
        if np.bincount(item, minlength=1).max() > 1:
            from rankbound.io.table_columns import require_distinct_items

            require_distinct_items(pl.DataFrame({"topic": of_list, "item": run.names}), "scores", run.topics)
        if ((np.diff(scores) > 0) & (np.diff(topic) == 0)).any():
            order = np.lexsort((-scores, of_list))
            item, topic, scores = item[order], topic[order], scores[order]
        self.item, self.topic, self.scores, self.n = item, topic, scores, n
        self.sizes = np.bincount(topic, minlength=len(n))
        self.starts = np.flatnonzero(np.diff(topic, prepend=-1))
        self.lengths = np.diff(np.append(self.starts, len(topic)))
        self._list, self.position = cases_of(self.lengths)
        self.largest, self.least = scores[self.starts], scores[self.starts + self.lengths - 1]

    @cached_property
    def _block(self) -> Integers | None:
        """The number of each item's block of ties; None without ties."""
        begins = (np.diff(self.topic, prepend=-1) != 0) | (np.diff(self.scores, prepend=np.nan) != 0)
        return None if begins.all() else np.cumsum(begins) - 1

    def mean(self, values: Floats | Integers) -> Floats:
        """Return the means of values, one per place, over tied items."""
        if self._block is None:
            return values.astype(np.float64)
        return (np.bincount(self._block, values) / np.bincount(self._block))[self._block]

    def total(self, values: Floats) -> Floats:
        """Return the sums of the lists, in the order of their items."""
        return np.asarray(np.bincount(self._list, values, len(self.starts)), np.float64)

    def shifted(self, shift: Floats, divisor: Floats) -> Floats:
        """Return the scores less a number of their list, divided by another, by 1e-9 at least, as ranx does."""
        return np.asarray((self.scores - shift[self._list]) / divisor.clip(1e-9)[self._list])


_Values = Callable[[_List], Floats]


def _zmuv(run: _List) -> Floats:
    mean = run.total(run.scores) / run.lengths
    return run.shifted(mean, np.sqrt(run.total(run.shifted(mean, np.ones_like(mean)) ** 2) / run.lengths))


NORMALISATIONS: Mapping[str, tuple[_Values, _Values | None]] = {
    "none": (lambda run: run.scores, None),
    "min-max": (lambda run: run.shifted(run.least, run.largest - run.least), None),
    "max": (lambda run: run.shifted(np.zeros_like(run.least), run.largest), None),
    "sum": (lambda run: run.shifted(run.least, run.total(run.scores) - run.least * run.lengths), None),
    "zmuv": (_zmuv, None),
    "rank": (lambda run: run.mean(1 - run.position / run.sizes[run.topic]), None),
    "borda": (
        lambda run: run.mean(1 - run.position / run.n[run.topic]),
        lambda run: 0.5 - (run.sizes - 1) / (2 * run.n.clip(1)),
    ),
}
"""The values of a run's items, and of those that it lacks, one per topic, where these have any."""

_Combined = Callable[[Floats, Floats, "_Joined"], Floats]


def _sum(factor: Callable[[Floats, Integers], Floats] = lambda total, n: total) -> _Combined:
    """Return a factor of the sum of the weighted terms and their number; by default, the sum alone."""
    return lambda terms, weights, _: factor(np.nansum(weights * terms, axis=0), (~np.isnan(terms)).sum(axis=0))


def _median(terms: Floats, *_: Any) -> Floats:
    # NaN is sorted last.
    every, n = np.sort(terms, axis=0), (~np.isnan(terms)).sum(axis=0)
    low, high = (np.take_along_axis(every, middle[None], axis=0)[0] for middle in ((n - 1) // 2, n // 2))
    return np.asarray((low + high) / 2)


def _condorcet(terms: Floats, weights: Floats, joined: "_Joined") -> Floats:
    """Return the number of items that a majority of votes ranks below each item, itself included, ties half."""
    ranks, votes = np.where(np.isnan(terms), np.inf, terms).astype(np.float32), weights.astype(np.float32)
    won = np.empty(len(joined.topic))
    for start, stop in zip(joined.offsets[:-1].tolist(), joined.offsets[1:].tolist(), strict=True):
        rows = max(1, _PAIRS_AT_ONCE // max(stop - start, 1))
        for begin in range(start, stop, rows):
            part = slice(begin, min(begin + rows, stop))
            margin = np.zeros((part.stop - begin, stop - start), dtype=np.float32)
            for row, vote in zip(ranks, votes, strict=True):
                above, all_of_topic = row[part, None], row[None, start:stop]
                margin += vote * (above < all_of_topic)
                margin -= vote * (above > all_of_topic)
            won[part] = (margin > 0).sum(axis=1) + ((margin == 0).sum(axis=1) + 1) / 2
    return won


class _Method(NamedTuple):
    """How a method is computed.

    `term` gives the terms of a run's items, from it and its normalised scores; `missing` those of items that it lacks,
    one per topic; `combine` the scores, from the terms and weights of all runs.
    """

    term: Callable[[_List, Floats], Floats] = lambda run, scores: scores
    combine: _Combined = _sum()
    missing: _Values | None = None
    of_scores: bool = True
    weights: str = "no"  # or "may", or "must"


def _of_ranks(value: Callable[[Integers], Floats], **others: Any) -> _Method:
    return _Method(lambda run, scores: run.mean(value(run.position + 1)), of_scores=False, **others)


METHODS: Mapping[str, Callable[..., _Method]] = {
    "combsum": lambda: _Method(weights="may"),
    "combmnz": lambda: _Method(combine=_sum(np.multiply)),
    "combanz": lambda: _Method(combine=_sum(np.divide)),
    "combmax": lambda: _Method(combine=lambda terms, *_: np.fmax.reduce(terms)),
    "combmin": lambda: _Method(combine=lambda terms, *_: np.fmin.reduce(terms)),
    "combmed": lambda: _Method(combine=_median),
    "combgmnz": lambda gamma: _Method(combine=_sum(lambda total, n: total * n**gamma)),
    "wsum": lambda: _Method(weights="must"),
    "wmnz": lambda: _Method(
        combine=lambda terms, weights, _: np.nansum(terms, axis=0) * (~np.isnan(terms) * weights).sum(axis=0),
        weights="must",
    ),
    "mixed": lambda: _Method(combine=_sum(lambda total, n: total * np.sqrt(n)), weights="must"),
    "rrf": lambda k: _of_ranks(lambda rank: 1 / (k + rank), weights="may"),
    "rbc": lambda phi: _of_ranks(lambda rank: (1 - phi) * phi ** (rank - 1.0), weights="may"),
    "isr": lambda: _of_ranks(lambda rank: 1 / rank**2, combine=_sum(np.multiply)),
    "log_isr": lambda: _of_ranks(lambda rank: 1 / rank**2, combine=_sum(lambda total, n: total * np.log(n))),
    "logn_isr": lambda sigma: _of_ranks(
        lambda rank: 1 / rank**2, combine=_sum(lambda total, n: total * np.log(n + sigma))
    ),
    "borda": lambda: _Method(
        lambda run, scores: run.mean(run.n[run.topic] - run.position),
        missing=lambda run: (run.n - run.sizes + 1) / 2,
        of_scores=False,
        weights="may",
    ),
    "condorcet": lambda: _of_ranks(lambda rank: rank.astype(np.float64), combine=_condorcet, weights="may"),
}
"""The methods by name; their parameters are those of a method's text."""


@dataclass(frozen=True)
class _Joined:
    """The lists of several runs, with one number for each item of a topic."""

    topics: Sequence[str]
    names: "pl.Series"
    topic: Integers
    offsets: Integers
    lists: Sequence[_List]

    @classmethod
    def of(cls, runs: Sequence[Run]) -> "_Joined":
        """Join runs by the names of their topics and items; both are in the order of their first appearance."""
        topics = list(dict.fromkeys(topic for run in runs for topic in run.topics))
        place = {topic: index for index, topic in enumerate(topics)}
        places = [np.array([place[topic] for topic in run.topics], np.int64) for run in runs]
        of_items = [np.repeat(own, np.diff(run.offsets)) for own, run in zip(places, runs, strict=True)]
        topic, names = np.concatenate(of_items), pl.concat([run.names for run in runs])
        frame = pl.DataFrame({"topic": topic, "item": names}).with_row_index("row")
        first = frame.select(pl.col("row").first().over("topic", "item")).to_series().to_numpy()
        rows, number = np.flatnonzero(first == np.arange(len(topic))), np.empty(len(topic), np.int64)
        rows = rows[np.argsort(topic[rows], kind="stable")]
        number[rows] = np.arange(len(rows))
        number = number[first]
        n = np.bincount(topic[rows], minlength=len(topics))
        parts = np.split(number, np.cumsum([len(of) for of in of_items])[:-1])
        lists = [_List(*one, n) for one in zip(runs, of_items, parts, strict=True)]
        return cls(topics, names[rows], topic[rows], np.append(0, np.cumsum(n)), lists)


def _read(runs: Sequence[Any] | Mapping[str, Any]) -> list[Run]:
    several = list(runs.values()) if isinstance(runs, Mapping) else runs
    if not isinstance(several, list | tuple):
        raise ValueError(f"runs: found {type(runs).__name__}, expected a list of two or more runs, or runs by name")
    if len(several) < 2:
        raise ValueError(f"runs: found {quantity(len(several), 'run')}, expected two or more")
    if is_nested(runs) and not all(map(is_nested, several)):
        raise ValueError("runs: found one run, {topic: {item: score}}, expected a list of two or more, or runs by name")
    return [run if isinstance(run, Run) else read_run(run) for run in several]


def _split(method: str) -> tuple[str, dict[str, float]]:
    """Return a method's name and the parameters that its text gives; ValueError for others than it takes."""
    name, texts, cutoff = split_text(method, "method")
    if name not in METHODS:
        raise unknown_name("method", method, name, METHODS)
    parameters, known = dict[str, float](), list(signature(METHODS[name]).parameters)
    for key, text in texts.items() if cutoff is None else [("a cut-off", str(cutoff))]:
        if key not in known:
            raise ValueError(f"method {method!r}: found {key}, expected {', '.join(known) or 'no parameter'}")
        _, least, largest, _ = PARAMETERS[key]
        if not is_number(text) or not least <= float(text) <= largest:
            raise ValueError(f"method {method!r}: found {key}={text}, expected a number from {least:g} to {largest:g}")
        parameters[key] = float(text)
    return name, parameters


def _compositions(step: float, n_runs: int, most: int) -> Iterator[tuple[float, ...]]:
    """Yield all vectors of multiples of a step that sum to 1; ValueError for more than `most`."""
    parts = round(1 / step) if 0 < step <= 1 else 0
    if not parts or abs(parts * step - 1) > 1e-9:
        raise ValueError(f"step: found {step}, expected a number that divides 1, such as 0.1")
    if (number := comb(parts + n_runs - 1, parts)) > most:
        raise ValueError(
            f"step: found {step}, which gives {number:,} vectors of weights, expected at most {most:,} of {n_runs} "
            "runs: take a larger step"
        )
    for bars in combinations(range(parts + n_runs - 1), n_runs - 1):
        places = np.diff([-1, *bars, parts + n_runs - 1]) - 1
        yield tuple((places / parts).tolist())


def _of_topics(run: Run, topics: Sequence[str]) -> Run:
    """Return the lists of some topics of a run."""
    kept, sizes = np.isin(run.topics, topics), np.diff(run.offsets)
    rows, names = np.repeat(kept, sizes), [run.topics[place] for place in np.flatnonzero(kept).tolist()]
    offsets = np.append(0, np.cumsum(sizes[kept]))
    return Run(topics=names, items=run.names.filter(rows), scores=run.scores[rows], offsets=offsets)
