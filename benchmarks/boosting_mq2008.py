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
import numpy.typing as npt
import torch
from scipy import stats
from tqdm import tqdm

import rankbound as rb
from benchmarks.questions import TREES as TREES_OF_RACES
from rankbound_study.config.sections.known_sets import known_set
from rankbound_study.data.contracts import read_table
from rankbound_study.data.fetch import fetch
from rankbound_study.data.instances import SPLITS
from rankbound_study.data.judged_files import convert
from rankbound_study.data.list_splits import ListSplitting, split_lists
from rankbound_study.data.publishers import PUBLISHERS
from rankbound_study.data.reader import read_features
from rankbound_study.data.sources import SOURCES, RawFile

Array = npt.NDArray[Any]
Part = tuple[Array, Array, Array]
"""Features, relevance labels, and the sizes of the lists."""

BASELINE = "lambdarank"
CHOSEN_BY = "nDCG@10"
METRICS = ("nDCG@10", "AP")
TREES = {**TREES_OF_RACES, "learning_rate": 0.05, "min_data_in_leaf": 20}
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
    """One fold and seed, or all: values of the test topics by metric, numbers of trees, processor seconds per round."""

    values: Mapping[str, Array]
    trees: Array
    seconds: Array

    @classmethod
    def joined(cls, runs: list[list["Fitted"]]) -> "Fitted":
        """Join the folds of every seed: values `(n_seeds, n_topics)`."""
        flat = [fold for run in runs for fold in run]
        values = {
            name: np.stack([np.concatenate([fold.values[name] for fold in run]) for run in runs]) for name in METRICS
        }
        return cls(values, np.array([one.trees for one in flat]), np.array([one.seconds for one in flat]))

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
    results = {method: Fitted.joined([[turn[method] for turn in run] for run in turns]) for method in METHODS}
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
    return Fitted(
        {name: value.numpy() for name, value in values.items()}, np.array(model.best_iteration), np.array(seconds)
    )


def folds_of(folder: Path) -> list[dict[str, Part]]:
    """Return the splits of the five folds, by name; the archive is read from the mirror, or downloaded."""
    lists, folds = folder / "lists.parquet", folder / "folds.parquet"
    if not folds.exists():
        raw = fetch(PUBLISHERS["mq2008"], folder / "MQ2008.zip")
        convert(RawFile(SOURCES["mq2008"], raw), known_set("mq2008"), lists)
        split_lists(lists, folds, ListSplitting("mq2008"))
    features = read_features(lists).astype(np.float64)
    labels = read_table(lists, "lists", ["relevance"]).column("relevance").to_pylist()
    offsets = np.concatenate([[0], np.cumsum([len(list_labels) for list_labels in labels])])
    splits = read_table(folds, "list-splits")
    fold, split = splits.column("fold").to_numpy(), np.array(splits.column("split").to_pylist())
    rows_of_splits = splits.column("list").to_numpy()

    def select(topics: Array) -> Part:
        rows = np.concatenate([np.arange(offsets[topic], offsets[topic + 1]) for topic in topics])
        return features[rows], np.concatenate([labels[topic] for topic in topics]), np.diff(offsets)[topics]

    return [
        {name: select(rows_of_splits[(fold == number) & (split == name)]) for name in SPLITS} for number in range(1, 6)
    ]


def difference(paired: Array) -> list[str]:
    """Return the mean with its 95 % interval over topics, and the p-value of a sign-flip test."""
    test = stats.permutation_test(
        (paired,), np.mean, permutation_type="samples", n_resamples=9_999, vectorized=True, rng=0
    )
    interval = stats.bootstrap((paired,), np.mean, n_resamples=9_999, method="percentile", rng=0).confidence_interval
    return [f"{paired.mean():+.4f} ({interval.low:+.4f} to {interval.high:+.4f})", f"{test.pvalue:.2f}"]


def _head(results: Mapping[str, Fitted], seeds: int) -> list[str]:
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


def _row(method: str, results: Mapping[str, Fitted]) -> str:
    ratio = float(np.median(results[method].seconds / results[BASELINE].seconds))
    cells = [method, str(int(np.median(results[method].trees))), f"{ratio:.1f}"]
    for name in METRICS:
        own, other = results[method].of_topics(name), results[BASELINE].of_topics(name)
        means = np.nanmean(results[method].values[name], axis=1)
        cells.append(f"{means.mean():.4f} ± {means.std():.4f}")
        cells += ["", ""] if method == BASELINE else difference((own - other)[~np.isnan(own)])
    return f"| {' | '.join(cells)} |"


def _write_topics(path: Path, results: Mapping[str, Fitted]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["objective", "topic", *METRICS])
        for method, result in results.items():
            for topic, row in enumerate(zip(*map(result.of_topics, METRICS), strict=True)):
                writer.writerow([method, topic, *("" if np.isnan(value) else f"{value:.6f}" for value in row)])


if __name__ == "__main__":
    main()
