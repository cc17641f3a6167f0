"""Means of metrics over a run in each library, from the run and the judgements as its users hold them."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from benchmarks.data import Matrices
from benchmarks.runner import OURS

MEASURES = ("nDCG@10", "AP", "RR", "P@10")
DOORS = ("arrays", "own objects", "dictionaries", "files", "data frames")
ARRAYS, OBJECTS, DICTIONARIES, FILES, FRAMES = DOORS

Means = Callable[[], dict[str, float]]
Make = Callable[[Any], Any]

NAMES = {
    OURS: ("nDCG(gain=linear)@10", "AP", "RR", "P@10"),
    "ranx": ("ndcg@10", "map", "mrr", "precision@10"),
    "pytrec_eval": ("ndcg_cut_10", "map", "recip_rank", "P_10"),
    "ir_measures": MEASURES,
}


def evaluated(library: str, runs: Matrices, door: str, count: int = len(MEASURES)) -> Means:
    """Return the call that makes some means of what is held; arrays and a library's own objects are made before."""
    # scikit-learn has the first alone.
    measures = MEASURES[: 1 if library == "sklearn" else count]
    of_run, of_qrels, means = _parts(library, door, NAMES.get(library, MEASURES)[:count])
    run, qrels = runs if door == ARRAYS else held_as(door, runs, library)
    before = (of_run(run), of_qrels(qrels)) if door in (ARRAYS, OBJECTS) else None
    return lambda: dict(zip(measures, map(float, means(*(before or (of_run(run), of_qrels(qrels))))), strict=True))


def held_as(door: str, runs: Matrices, library: str = OURS) -> list[Any]:
    """Return the run and the qrels as the users of a library hold them."""
    lists, items = runs[0].shape
    topics, names = [f"q{row}" for row in range(lists)], [f"d{place}" for place in range(items)]
    held: list[Any] = []
    for values, column in zip(runs, ("score", "relevance"), strict=True):
        if door not in (FILES, FRAMES):
            rows = (dict(zip(names, row.tolist(), strict=True)) for row in values)
            held.append(dict(zip(topics, rows, strict=True)))
            continue
        columns = {"query_id": np.repeat(topics, items).tolist(), "doc_id": names * lists, column: values.ravel()}
        frame = pl.DataFrame(columns)
        if door == FILES:
            path = Path(_folder().name, f"{column}-{lists}-{items}.txt")
            words = ["query_id", pl.lit("Q0"), "doc_id", pl.lit(1).alias("rank"), "score", pl.lit("run").alias("run")]
            if column == "relevance":
                words = ["query_id", pl.lit(0), "doc_id", "relevance"]
            frame.select(words).write_csv(path, separator=" ", include_header=False)
            held.append(str(path))
        else:
            # ranx refuses the texts of pandas 3.
            texts = {"query_id": object, "doc_id": object}
            held.append(frame if library == OURS else frame.to_pandas().astype(texts))
    return held


# Kept until the process ends.
_folder = cache(partial(tempfile.TemporaryDirectory, prefix="rankbound-benchmark-"))


def _parts(library: str, door: str, names: Sequence[str]) -> tuple[Make, Make, Callable[[Any, Any], Iterable[Any]]]:
    """Return what makes a library's run and qrels of what is held, and what makes the means of these."""
    tool, as_held = import_module(library), (lambda held: held,) * 2
    if library == OURS:
        metrics = [tool.metric(text) for text in names]
        if door == ARRAYS:

            def of_arrays(scores: torch.Tensor, grades: torch.Tensor) -> Iterable[torch.Tensor]:
                offsets = torch.arange(len(scores) + 1) * scores.shape[1]
                values = tool.evaluate(metrics, scores.flatten(), grades.flatten(), offsets).values()
                return (own.mean() for own in values)

            return torch.from_numpy, torch.from_numpy, of_arrays
        make = (tool.read_run, tool.read_qrels) if door == OBJECTS else as_held
        return *make, lambda run, qrels: tool.evaluate_run(run, qrels, metrics).means().values()
    if library == "ranx":
        kinds, columns = (tool.Run, tool.Qrels), {"q_id_col": "query_id", "doc_id_col": "doc_id"}
        if door == FILES:
            kinds = tuple(partial(kind.from_file, kind="trec") for kind in kinds)
        elif door == FRAMES:
            scores = zip(kinds, ("score", "relevance"), strict=True)
            kinds = tuple(partial(kind.from_df, **columns, score_col=score) for kind, score in scores)
        return *kinds, lambda run, qrels: map(tool.evaluate(qrels, run, list(names)).get, names)
    if library == "pytrec_eval":
        measures = {name.replace("_10", ".10") for name in names}
        of_run, of_qrels = as_held
        if door == FILES:
            of_run, of_qrels = partial(_parsed, tool.parse_run), partial(_parsed, tool.parse_qrel)

        def of_topics(run: Any, evaluator: Any) -> Iterable[float]:
            topics = evaluator.evaluate(run).values()
            return (sum(topic[name] for topic in topics) / len(topics) for name in names)

        return of_run, lambda qrels: tool.RelevanceEvaluator(of_qrels(qrels), measures), of_topics
    if library == "ir_measures":
        wanted = [tool.parse_measure(name) for name in names]
        make = (tool.read_trec_run, tool.read_trec_qrels) if door == FILES else as_held
        return *make, lambda run, qrels: map(tool.calc_aggregate(wanted, qrels, run).get, wanted)
    ndcg = import_module("sklearn.metrics").ndcg_score
    return *as_held, lambda scores, grades: [ndcg(grades, scores, k=10, ignore_ties=True)]


def _parsed(parse: Make, path: str) -> Any:
    with Path(path).open() as file:
        return parse(file)
