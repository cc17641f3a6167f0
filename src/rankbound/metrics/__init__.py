"""Ranking metrics as values: `metric("nDCG@10")` parses a text, `str` returns it, and a call evaluates lists."""

import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rankbound.lazy import ArrayLike, Tensor
from rankbound.metrics.base import Metric, values_of
from rankbound.metrics.cumulative_gain import AdditiveMetric
from rankbound.metrics.pairs import RankSum
from rankbound.metrics.precision import NormalizedRBP
from rankbound.metrics.runs import RunMetric
from rankbound.names import ByText, MeaningsError, require_tool, translated
from rankbound.texts import build, is_named, named_kinds, split_text

KINDS: dict[str, type[Metric]] = {
    name: kind for name, kind in named_kinds(__name__, Metric) if kind not in (NormalizedRBP, RankSum)
}
"""The metrics by name, except the two named nRBP, which differ in their parameters."""

KNOWN = (*KINDS, NormalizedRBP.name)
"""The names of all metrics."""


def metric(text: str | Metric, *, names: str = "rankbound") -> Metric:
    """Return the metric that `text` names, with its parameters and cut-off.

    Texts: `nDCG@10`, `nDCG(gain=linear)`, `AP(rel=2)`, `P@5`, `RBP(p=0.8)`, `ERR(max=4)@20`; the metrics' classes
    document their parameters. `nRBP(p=0.95)` is the metric of thesis eq. 2.5; plain `nRBP` is the loss of eq. 2.12,
    which has no persistence. Other tools' names are read, in any case, where they mean one thing: `MAP`, `MRR@10`,
    `recall@100`, `ndcg_cut_10`.

    Args:
        text: the text, or a metric, which is returned unchanged.
        names: whose names are meant: those of all tools, as far as they agree (`rankbound`), or first those of one
            tool, such as `ir_measures`, whose nDCG has linear gain, `trec_eval` or `LightGBM`.

    Returns:
        The metric, which is called with scores, relevance and offsets; `str` gives its text.

    Raises:
        ValueError: for an unknown name (the message suggests the nearest one), parameter or value, or a name with two
            meanings, such as `ndcg@10` (the message says how to write each).

    >>> str(rb.metric("nDCG(gain=exp2)@10")), str(rb.metric("MRR@10"))
    ('nDCG@10', 'RR@10')
    >>> str(rb.metric("nDCG@10", names="ir_measures"))
    'nDCG(gain=linear)@10'
    >>> str(rb.metric("map_cut_5", names="trec_eval"))
    'AP@5'
    >>> str(rb.metric("ndcg@10", names="LightGBM"))
    'nDCG@10'
    """
    tool = "" if names == "rankbound" else names
    if tool:
        require_tool(tool)
    if isinstance(text, Metric):
        return text
    if tool == "ir_measures":
        from rankbound.conventions import of_ir_measures

        text = of_ir_measures(text)
    if tool or not is_named(text, KNOWN):
        return metric(translated("metric", text, KNOWN, tool))
    name, parameters, cutoff = split_text(text)
    if name == NormalizedRBP.name:
        return build(NormalizedRBP if "p" in parameters else RankSum, text, parameters, cutoff)
    return build(KINDS[name], text, parameters, cutoff)


def evaluate(
    metrics: str | Metric | Iterable[str | Metric],
    scores: ArrayLike,
    relevance: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    mask: Any = None,
    lengths: Any = None,
) -> dict[str, Tensor]:
    """Evaluate metrics, or their texts, on the same lists with one sort.

    Args:
        metrics: one or several metrics or their texts.
        scores: `(n_items,)`, finite; higher is better.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits. Without them, flat arguments are one list, padded ones
            `(n_lists, longest)` have all their items, or those of `mask` or `lengths`, and sequences of sequences
            one for each list.
        mask: `(n_lists, longest)`, boolean, true at the items of padded `scores` and `relevance`; or
        lengths: `(n_lists,)`, the number of items at the beginning of each of their rows.

    Returns:
        The values of each list by the metric's text, float64 `(n_lists,)`; NaN where a metric is undefined. Other
        tools' names of the same metrics find them as well.

    Raises:
        ValueError: as `Metric.__call__`, or for a text that names no metric.

    >>> rb.evaluate(["nDCG", "RR"], [0.3, 0.1, 0.2], [0, 1, 0], [0, 3])
    {'nDCG': tensor([0.5000], dtype=torch.float64), 'RR': tensor([0.3333], dtype=torch.float64)}
    """
    from rankbound.lists import laid_out

    offsets, flat = laid_out(offsets, mask, lengths, scores=scores, relevance=relevance)
    relevance = flat["relevance"]
    return ByText(values_of(metrics_of(metrics, lambda _: relevance), flat["scores"], relevance, offsets))


def metrics_of(
    metrics: str | Metric | Iterable[str | Metric], grades: Callable[[list[Metric]], ArrayLike] | None = None
) -> list[Metric]:
    """Return one or several metrics, or their texts, as a list of metrics.

    Args:
        grades: returns the relevance of the items to evaluate, given the metrics that are known without. They tell the
            meanings of names such as `ndcg@10` apart, which are one where all grades are 0 or 1.
    """
    texts = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    chosen: dict[int, Metric] = {}
    untold: dict[int, ValueError] = {}
    for place, text in enumerate(texts):
        try:
            chosen[place] = metric(text)
        except ValueError as error:
            if grades is None or not (isinstance(error, MeaningsError) or getattr(error, "missing", None) == ["max"]):
                raise
            untold[place] = error
    if grades is not None and untold:
        relevance = grades(list(chosen.values()))
        array = np.asarray(relevance.detach().cpu() if hasattr(relevance, "detach") else relevance)
        for place, why in untold.items():
            text = str(texts[place])
            if not isinstance(why, MeaningsError):
                name, parameters, cutoff = split_text(text)
                highest = f"{array.max(initial=0):g}"
                ways = ",".join([*(f"{key}={value}" for key, value in parameters.items()), f"max={highest}"])
                instead = f"{name}({ways})" + (f"@{cutoff}" if cutoff else "")
                raise ValueError(f"{why}, the highest grade of the scale; {highest} is that of these items: {instead}")
            # All gains of grades 0 and 1 are the same.
            alike, *others = {re.sub(r"\(gain=\w+\)", "", meaning) for meaning in why.meanings}
            if others or not np.isin(array, (0, 1)).all():
                raise why
            message = f"metric {text!r}: all grades are 0 or 1, for which its meanings are one: evaluated as {alike}"
            warnings.warn(message, stacklevel=3)
            chosen[place] = metric(alike)
    return [chosen[place] for place in range(len(texts))]


__all__ = ["AdditiveMetric", "Metric", "RunMetric", "evaluate", "metric", "metrics_of"]
