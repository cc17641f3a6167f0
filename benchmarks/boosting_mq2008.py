"""`python -m benchmarks.boosting_mq2008`: compare smooth, bounded objectives with LightGBM's lambdarank on MQ2008.

The five folds are those published. All methods use the same tree settings; the number of trees maximises the mean
nDCG@10 of the validation split. Every figure is a mean over the test topics that have a relevant document; a topic's
value is its mean over the seeds. Differences are paired by topic.
"""

import argparse
import csv
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import torch
from tqdm import tqdm

import rankbound as rb
from benchmarks import boosting
from benchmarks.mq2008 import Array, Part, difference, folds_of

BASELINE = "lambdarank"
CHOSEN_BY = "nDCG@10"
METRICS = ("nDCG@10", "AP")
TREES = {**boosting.TREES, "learning_rate": 0.05, "min_data_in_leaf": 20}
ROUNDS, PATIENCE = 300, 50
METHODS: Mapping[str, Mapping[str, Any]] = {
    BASELINE: {},
    "nDCG": {"of": "nDCG"},
    "nDCG min-max": {"of": "nDCG", "bound": "min-max"},
    "nDCG@10": {"of": "nDCG@10"},
    "nDCG@10 min-max": {"of": "nDCG@10", "bound": "min-max"},
    "AP": {"of": "AP"},
    "AP min-max": {"of": "AP", "bound": "min-max"},
}


@dataclass(frozen=True)
class Fitted:
    """One fold and seed: the test topics' values by metric, the number of trees, and processor seconds per round."""

    values: Mapping[str, Array]
    trees: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """Values `(n_seeds, n_topics)` by metric, the median number of trees, and processor seconds by fold and seed."""

    values: Mapping[str, Array]
    trees: int
    seconds: Array

    @classmethod
    def of(cls, runs: list[list[Fitted]]) -> "Result":
        """Join the folds of every seed."""
        values = {
            name: np.stack([np.concatenate([fold.values[name] for fold in run]) for run in runs]) for name in METRICS
        }
        flat = [fold for run in runs for fold in run]
        return cls(values, int(np.median([one.trees for one in flat])), np.array([one.seconds for one in flat]))

    def of_topics(self, metric: str) -> Array:
        """Return each topic's mean over the seeds; NaN if the metric is undefined."""
        return np.asarray(self.values[metric].mean(axis=0))


def main(arguments: list[str] | None = None) -> None:
    """Train all methods, and write the values of each topic and the table of differences."""
    chosen = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    chosen.out.mkdir(parents=True, exist_ok=True)
    folds = list(folds_of(chosen.data))
    # All methods in turn, so that a busy machine slows none of them more than the others.
    turns = [
        [{method: _run(options, parts, seed) for method, options in METHODS.items()} for parts in folds]
        for seed in tqdm(range(chosen.seeds), "seeds", disable=None)
    ]
    results = {method: Result.of([[turn[method] for turn in run] for run in turns]) for method in METHODS}
    rows = [_row(method, results) for method in METHODS]
    table = "\n".join([*_head(results, chosen.seeds), *rows]) + "\n"
    (chosen.out / "boosting_mq2008.md").write_text(table, encoding="utf-8")
    _write_topics(chosen.out / "boosting_mq2008.csv", results)
    print(f"\n{table}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boosting_mq2008", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data/boosting_mq2008"), help="folder of the data")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the tables")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, which sample the features of each tree")
    return parser


def _run(options: Mapping[str, Any], parts: Mapping[str, Part], seed: int) -> Fitted:
    objective = rb.boosting_objective(**options) if options else BASELINE
    parameters = {**TREES, "objective": objective, "seed": seed}
    train, validation = (
        lgb.Dataset(parts[name][0], parts[name][1], group=parts[name][2]) for name in ("train", "validation")
    )
    began = time.process_time()
    model = lgb.train(
        parameters,
        train,
        ROUNDS,
        valid_sets=[validation.set_reference(train)],
        feval=rb.boosting_metric(CHOSEN_BY),
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )
    seconds = (time.process_time() - began) / model.current_iteration()
    features, grades, sizes = parts["test"]
    scores = np.asarray(model.predict(features))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    values = rb.evaluate(map(rb.metric, METRICS), scores, grades, offsets)
    return Fitted({name: value.numpy() for name, value in values.items()}, model.best_iteration, seconds)


def _head(results: Mapping[str, Result], seeds: int) -> list[str]:
    undefined = np.isnan(results[BASELINE].of_topics(CHOSEN_BY))
    return [
        f"MQ2008, {len(undefined)} test topics over five folds; {undefined.sum()} have no relevant document and are",
        f"skipped. Mean and standard deviation over {seeds} seeds; difference to {BASELINE}, paired by topic, with its",
        "95 % bootstrap interval, and the p of a randomisation test. Processor time per tree, with its evaluation on",
        f"the validation part, relative to that of {BASELINE}, {np.median(results[BASELINE].seconds) * 1000:.1f} ms.",
        "",
        "| objective | trees | time per tree | " + " | ".join(f"{name} | difference | p" for name in METRICS) + " |",
        "|---|--:|--:|" + "--:|:--|--:|" * len(METRICS),
    ]


def _row(method: str, results: Mapping[str, Result]) -> str:
    ratio = float(np.median(results[method].seconds / results[BASELINE].seconds))
    cells = [method, str(results[method].trees), f"{ratio:.1f}"]
    for name in METRICS:
        own, other = results[method].of_topics(name), results[BASELINE].of_topics(name)
        means = np.nanmean(results[method].values[name], axis=1)
        cells.append(f"{means.mean():.4f} ± {means.std():.4f}")
        cells += ["", ""] if method == BASELINE else difference((own - other)[~np.isnan(own)])
    return f"| {' | '.join(cells)} |"


def _write_topics(path: Path, results: Mapping[str, Result]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["objective", "topic", *METRICS])
        for method, result in results.items():
            for topic, row in enumerate(zip(*map(result.of_topics, METRICS), strict=True)):
                writer.writerow([method, topic, *("" if np.isnan(value) else f"{value:.6f}" for value in row)])


if __name__ == "__main__":
    main()
