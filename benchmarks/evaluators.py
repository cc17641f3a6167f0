"""Means of metrics over a run in each library, from the run and the judgements as its users hold them."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import Matrices
from benchmarks.runner import OURS

MEASURES = ("nDCG@10", "AP", "RR", "P@10")
DOORS = ("arrays", "own objects", "dictionaries", "files", "data frames")
ARRAYS, OBJECTS, DICTIONARIES, FILES, FRAMES = DOORS

Means = Callable[[], dict[str, float]]


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
    make, means = _parts(library, door, NAMES.get(library, MEASURES)[:count])
    held = runs if door == ARRAYS else held_as(door, runs, library)
    before = make(*held) if door in (ARRAYS, OBJECTS) else None
    return lambda: dict(zip(measures, map(float, means(*(before or make(*held)))), strict=True))


def held_as(door: str, runs: Matrices, library: str = OURS) -> list[Any]:
    """Return the run and the qrels as the users of a library hold them."""
    names = [f"d{place}" for place in range(runs[0].shape[1])]
    held: list[Any] = []
    for values, column in zip(runs, ("score", "relevance"), strict=True):
        rows = ((f"q{row}", one.tolist()) for row, one in enumerate(values))
        if door == FILES:
            line = "{} Q0 {} 1 {!r} run\n" if column == "score" else "{} 0 {} {}\n"
            path = folder() / f"{column}-{len(values)}-{len(names)}.txt"
            held.append(str(path))
            with path.open("w") if not path.exists() else nullcontext() as file:
                for topic, row in rows if file else ():
                    file.writelines(line.format(topic, *pair) for pair in zip(names, row, strict=True))
        elif door == FRAMES:
            import pandas as pd
            import polars as pl

            topics, items = np.repeat([f"q{row}" for row in range(len(values))], len(names)), names * len(values)
            columns = {"query_id": topics.tolist(), "doc_id": items, column: values.ravel()}
            # ranx refuses the texts of pandas 3.
            texts = {"query_id": object, "doc_id": object}
            held.append(pl.DataFrame(columns) if library == OURS else pd.DataFrame(columns).astype(texts))
        else:
            held.append({topic: dict(zip(names, row, strict=True)) for topic, row in rows})
    return held


@cache
def folder() -> Path:
    """Return a folder that is removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="rankbound-benchmark-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def _parts(
    library: str, door: str, names: Sequence[str]
) -> tuple[Callable[[Any, Any], Any], Callable[..., Iterable[Any]]]:
    """Return what makes a library's objects from a run and qrels, and what makes the means from these."""
    tool = import_module(library)

    def as_held(run: Any, qrels: Any) -> Any:
        return run, qrels

    if library == OURS:
        metrics = [tool.metric(text) for text in names]
        if door == ARRAYS:

            def flat(scores: Any, grades: Any) -> Any:
                offsets = torch.arange(len(scores) + 1) * scores.shape[1]
                return torch.from_numpy(scores.ravel()), torch.from_numpy(grades.ravel()), offsets

            return flat, lambda *lists: (values.mean() for values in tool.evaluate(metrics, *lists).values())
        make = (lambda run, qrels: (tool.read_run(run), tool.read_qrels(qrels))) if door == OBJECTS else as_held
        return make, lambda run, qrels: tool.evaluate_run(run, qrels, metrics).means().values()
    if library == "ranx":
        columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}

        def of_ranx(run: Any, qrels: Any) -> Any:
            if door == FILES:
                return tool.Run.from_file(run, kind="trec"), tool.Qrels.from_file(qrels, kind="trec")
            if door == FRAMES:
                scored = tool.Run.from_df(run, **columns, score_col="score")
                return scored, tool.Qrels.from_df(qrels, **columns, score_col="relevance")
            return tool.Run(run), tool.Qrels(qrels)

        return of_ranx, lambda run, qrels: map(tool.evaluate(qrels, run, list(names)).get, names)
    if library == "pytrec_eval":
        measures = {name.replace("_10", ".10") for name in names}

        def of_pytrec_eval(run: Any, qrels: Any) -> Any:
            if door == FILES:
                with Path(run).open() as of_run, Path(qrels).open() as of_qrels:
                    run, qrels = tool.parse_run(of_run), tool.parse_qrel(of_qrels)
            return run, tool.RelevanceEvaluator(qrels, measures)

        def means(run: Any, evaluator: Any) -> Iterable[float]:
            topics = evaluator.evaluate(run).values()
            return (sum(topic[name] for topic in topics) / len(topics) for name in names)

        return of_pytrec_eval, means
    if library == "ir_measures":
        wanted = [tool.parse_measure(name) for name in names]
        make = (lambda run, qrels: (tool.read_trec_run(run), tool.read_trec_qrels(qrels))) if door == FILES else as_held
        return make, lambda run, qrels: map(tool.calc_aggregate(wanted, qrels, run).get, wanted)
    if library == "sklearn":
        ndcg = import_module("sklearn.metrics").ndcg_score
        return as_held, lambda scores, grades: [ndcg(grades, scores, k=10, ignore_ties=True)]
    return as_held, _by_numpy


def _by_numpy(scores: Any, grades: Any) -> Iterable[Any]:
    """Return the means by the plain formulas of matrices without ties."""
    ranks = np.arange(1, scores.shape[1] + 1)
    discounts = (ranks <= 10) / np.log2(ranks + 1)
    sorted_by = np.take_along_axis(grades, np.argsort(-scores, axis=1), axis=1)
    hits = sorted_by > 0
    dcg, ideal = ((own * discounts).sum(axis=1) for own in (sorted_by, -np.sort(-grades, axis=1)))
    precision = hits.cumsum(axis=1) / ranks
    columns = dcg / ideal, (precision * hits).sum(axis=1) / hits.sum(axis=1), 1 / (hits.argmax(axis=1) + 1)
    return map(np.mean, (*columns, precision[:, 9]))
