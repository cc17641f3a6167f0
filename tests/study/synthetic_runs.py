"""A generator of runs tables: every column of the contract, scores that look like scores, none from real data."""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from planted import joined, repeated

from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import RUN_METRICS

LOSSES = ("nDCG", "AP", "nRBP")
BOUNDINGS = ("none", "min-max", "expectation", "expectation-max", "distribution")
SETS = (("movielens", 1), ("movielens", 2), ("movielens", 3), ("mq2008-label2", None), ("mq2008-label1", None))


def write_runs(
    path: Path,
    *,
    sets: Sequence[tuple[str, int | None]] = SETS,
    boundings: Sequence[str] = BOUNDINGS,
    protocols: Iterable[str] = ("published",),
    topics: int = 60,
    folds: int = 5,
    seeds: int = 1,
    controls: bool = True,
    skip: Iterable[tuple[str, str]] = (),
) -> Path:
    """Write a runs table; `skip` holds the (data set, bounding) pairs that were not run."""
    skipped = set(skip)
    tables: list[pa.Table] = []
    for protocol in protocols:
        for name, nsr in sets:
            lists = _lists(name, nsr, topics, folds)
            trained = [(loss, bounding) for loss in LOSSES for bounding in boundings if (name, bounding) not in skipped]
            for loss, bounding in trained:
                model = "matrix-factorisation" if nsr else "network"
                tables.append(_runs(protocol, name, nsr, model, loss, bounding, lists, seeds))
            for model in ("random", "popularity", "oracle") if controls else ():
                tables.append(_runs(protocol, name, nsr, model, "none", "none", lists, 1))
    write_table(joined(tables), path, "runs")
    return path


def _lists(name: str, nsr: int | None, topics: int, folds: int) -> list[tuple[int, str, int, int]]:
    """(fold, topic, n, p): a sampled data set has every topic in every fold, a judged one each topic in one fold."""
    random = np.random.default_rng(len(name))
    lists = []
    for topic in range(topics):
        if nsr:
            p = int(np.clip(5 * np.exp(random.exponential(0.9)), 5, 246))
            lists += [(fold, str(topic), p * (nsr + 1), p) for fold in range(1, folds + 1)]
        else:
            n = int(random.integers(5, 121)) if topic % 4 == 0 else 8
            p = int(random.integers(0, max(2, n // 3)))
            lists.append((topic % folds + 1, str(topic), n, p))
    return lists


def _runs(protocol, name, nsr, model, loss, bounding, lists, seeds):  # type: ignore[no-untyped-def]
    level = 3.4 - 0.4 * (nsr or 4)
    shift = {"random": -2.2, "popularity": 0.2, "oracle": np.inf}.get(model, 0.0)
    shift += -1.0 if bounding.startswith("distribution") and loss == "nDCG" and nsr else 0.0
    shift += 0.02 * BOUNDINGS.index(bounding) if bounding in BOUNDINGS else 0.05
    own = np.array([_own(int(topic), p, fold) for fold, topic, _, p in lists])
    noise = [
        np.random.default_rng([seed, fold, int(topic), len(bounding), len(loss)]).normal(0, 0.08, len(RUN_METRICS))
        for seed in range(seeds)
        for fold, topic, _, _ in lists
    ]
    of_lists = np.tile(level + shift + own, seeds)[:, None] - 0.03 * np.arange(len(RUN_METRICS))
    scores = 1 / (1 + np.exp(-(of_lists + np.array(noise))))
    folds, topics, n, p = zip(*lists * seeds, strict=True)
    row = {
        "study": "thesis",
        "protocol": protocol,
        "dataset": name,
        "nsr_train": nsr,
        "nsr_test": nsr,
        "model": model,
        "options": "{}",
        "loss": loss,
        "bounding": bounding,
        "selection": "test" if protocol == "published" else "validation",
        "drawing": 0,
        "epoch": 10,
    }
    trained = np.repeat(np.arange(seeds), len(lists))
    columns = {"fold": folds, "seed": trained, "topic": topics, "n": n, "p": p}
    return repeated(row, columns | dict(zip(RUN_METRICS, scores.T, strict=True)))


@cache
def _own(topic: int, p: int, fold: int) -> float:
    """Return what a list scores whatever was trained; NaN without relevant items."""
    return float(np.random.default_rng([topic, p, fold]).normal(0, 0.6)) if p else float("nan")
