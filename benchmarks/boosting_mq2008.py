"""`python -m benchmarks.boosting_mq2008`: compare smooth, bounded objectives with LightGBM's lambdarank on MQ2008.

The five folds are those published. All methods use the same tree settings; the number of trees maximises the mean
nDCG@10 of the validation split. Every figure is a mean over the test topics that have a relevant document; a topic's
value is its mean over the seeds. Differences are paired by topic.
"""

import argparse
import csv
import time
from collections.abc import Mapping
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
from rankbound_study.data.fetch import fetch
from rankbound_study.data.sources import SOURCES, RawFile, as_file

Array = npt.NDArray[Any]
Part = tuple[Array, Array, Array]
"""Features, relevance labels, and the sizes of the lists."""

BASELINE = "lambdarank"
CHOSEN_BY = "nDCG@10"
METRICS = ("nDCG@10", "AP")
TREES = {**TREES_OF_RACES, "learning_rate": 0.05, "min_data_in_leaf": 20}
ROUNDS, PATIENCE = 300, 50
METHODS = (BASELINE, "nDCG", "nDCG min-max", "nDCG@10", "nDCG@10 min-max", "AP", "AP min-max")
"""LightGBM's own objective, and ours: a loss, and a bound if it has one."""


def main(arguments: list[str] | None = None) -> None:
    """Train all methods, and write the values of each topic and the table of differences."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.boosting_mq2008", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data/boosting_mq2008"), help="folder of the data")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the tables")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, which sample the features of each tree")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    chosen.out.mkdir(parents=True, exist_ok=True)
    folds = folds_of(chosen.data)
    # All methods in turn, so that a busy machine slows none of them more than the others.
    runs = [
        [[_run(method, parts, seed) for method in METHODS] for parts in folds]
        for seed in tqdm(range(chosen.seeds), "seeds", disable=None)
    ]
    numbers = np.array([[run[1:] for run in methods] for of_folds in runs for methods in of_folds])
    # (n_methods, n_metrics, n_seeds, n_topics)
    joined = [np.concatenate([[run[0] for run in methods] for methods in of_folds], axis=-1) for of_folds in runs]
    text = comparison(np.stack(joined, axis=2), *numbers.T)
    (chosen.out / "boosting_mq2008.md").write_text(text, encoding="utf-8")
    with (chosen.out / "boosting_mq2008.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["objective", "topic", *METRICS])
        for method, values in zip(METHODS, np.stack(joined).mean(axis=0), strict=True):
            for topic, row in enumerate(values.T):
                writer.writerow([method, topic, *("" if np.isnan(value) else f"{value:.6f}" for value in row)])
    print(f"\n{text}")


def _run(method: str, parts: Mapping[str, Part], seed: int) -> tuple[Array, int, float]:
    """Return test topics' values `(n_metrics, n_topics)`, the number of trees, and processor seconds per round."""
    train, validation = (
        lgb.Dataset(parts[name][0], parts[name][1], group=parts[name][2]) for name in ("train", "validation")
    )
    began = time.process_time()
    model = lgb.train(
        {**TREES, "objective": method if method == BASELINE else rb.boosting_objective(*method.split()), "seed": seed},
        train,
        ROUNDS,
        valid_sets=[validation.set_reference(train)],
        feval=rb.boosting_metric(CHOSEN_BY),
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )
    seconds = (time.process_time() - began) / model.current_iteration()
    features, grades, sizes = parts["test"]
    scores = np.asarray(model.predict(features))
    values = rb.evaluate(map(rb.metric, METRICS), scores, grades, np.concatenate([[0], np.cumsum(sizes)]))
    return np.stack([value.numpy() for value in values.values()]), model.best_iteration, seconds


def folds_of(folder: Path) -> list[dict[str, Part]]:
    """Return the splits of the five folds, by name; the archive is read from the mirror, or downloaded."""
    folder.mkdir(parents=True, exist_ok=True)
    raw = RawFile(SOURCES["mq2008"], fetch(SOURCES["mq2008"], folder / "MQ2008.zip"))
    lists = []
    for number in range(1, 6):
        with as_file(raw, raw.find(f"S{number}.txt")) as path:
            lists.append(rb.read_lists(path))

    def joined(*places: int) -> Part:
        parts = [lists[place] for place in sorted(place % 5 for place in places)]
        features = np.concatenate([part.features for part in parts]).astype(np.float64)
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        return features, np.concatenate([part.relevance for part in parts]), sizes

    # Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4.
    return [{"train": joined(k, k + 1, k + 2), "validation": joined(k + 3), "test": joined(k + 4)} for k in range(5)]


def difference(paired: Array) -> list[str]:
    """Return the mean with its 95 % interval over topics, and the p-value of a sign-flip test."""
    test = stats.permutation_test(
        (paired,), np.mean, permutation_type="samples", n_resamples=9_999, vectorized=True, rng=0
    )
    interval = stats.bootstrap((paired,), np.mean, n_resamples=9_999, method="percentile", rng=0).confidence_interval
    return [f"{paired.mean():+.4f} ({interval.low:+.4f} to {interval.high:+.4f})", f"{test.pvalue:.2f}"]


def comparison(values: Array, trees: Array, seconds: Array) -> str:
    """Return the table; the methods are the first axis of all arrays, the baseline comes first."""
    seeds, of_topics = values.shape[2], values.mean(axis=2)
    undefined = np.isnan(of_topics[0, METRICS.index(CHOSEN_BY)])
    lines = [
        f"MQ2008, {len(undefined)} test topics over five folds; {undefined.sum()} have no relevant document and are",
        f"skipped. Mean and standard deviation over {seeds} seeds; difference to {BASELINE}, paired by topic, with its",
        "95 % bootstrap interval, and the p of a randomisation test. Processor time per tree, with its evaluation on",
        f"the validation part, relative to that of {BASELINE}, {np.median(seconds[0]) * 1000:.1f} ms.",
        "",
        "| objective | trees | time per tree | " + " | ".join(f"{name} | difference | p" for name in METRICS) + " |",
        "|---|--:|--:|" + "--:|:--|--:|" * len(METRICS),
    ]
    for place, method in enumerate(METHODS):
        ratio = np.median(seconds[place] / seconds[0])
        cells = [method, f"{int(np.median(trees[place]))}", f"{ratio:.1f}"]
        for of_seeds, own, other in zip(values[place], of_topics[place], of_topics[0], strict=True):
            means = np.nanmean(of_seeds, axis=1)
            cells.append(f"{means.mean():.4f} ± {means.std():.4f}")
            cells += difference((own - other)[~np.isnan(own)]) if place else ["", ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
