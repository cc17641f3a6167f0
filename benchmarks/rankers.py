"""`python -m benchmarks.rankers`: which ranker should one take? Rankers on MQ2008's five folds, by LETOR's protocol.

The rankers are the rows of `rankers.yaml`. Each trains on the training part of every fold, its validation part selects
the epoch, round or tree by AP, and its test part is scored: every topic is tested once. As in LETOR's own evaluation, a
topic without relevant documents counts 0, and nDCG has the discount log2(r), 1 for the first two ranks. A topic's value
is its mean over the seeds. Differences are paired by topic.

`--rates` asks which learning rate one should take: `train_ranker` with the loss nDCG, batches of 16 topics and its
other defaults trains on MQ2008's first and third fold and on generated lists of several sizes. The validation part
selects the epoch.
"""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from tqdm import tqdm

import rankbound as rb
from benchmarks import asked, rows_of
from benchmarks.data import Array
from benchmarks.page import table
from rankbound.compare.statistics import corrected, interval_of_mean, sign_flip
from rankbound.training.splits import picked

_ROWS: Mapping[str, Any] = rows_of("rankers")
RANKERS: Mapping[str, Mapping[str, Any]] = _ROWS["rankers"]
BASELINE = _ROWS["baseline"]
AP, NDCG = METRICS = ("AP", "nDCG(discount=log2(r))@10")

Tested = tuple[Array, float]
"""The result of a ranker with one seed: values of the topics `(n_topics, n_metrics)`, and the seconds it took."""


def main(arguments: list[str] | None = None) -> None:
    """Train all rankers, and write the values of each topic, the table and the picture."""
    chosen = asked("benchmarks.rankers", __doc__, arguments, only=RANKERS, rates=RATED)
    if chosen.rates is not None:
        torch.set_num_threads(1)
        print(rates(chosen.rates or RATED, chosen.data))
        return
    topics = [topic for split in splits_of(chosen.data) for topic in split.test.topics]
    rows = {name: row for name, row in RANKERS.items() if name in {*chosen.only, BASELINE}}
    # A process per core trains them in turn.
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
        results = {
            name: [pool.submit(tested, chosen.data, row, seed) for seed in range(row.get("seeds", chosen.seeds))]
            for name, row in rows.items()
        }
        found = {name: [one.result() for one in own] for name, own in tqdm(results.items(), "rankers", disable=None)}
    print(f"\n{write(chosen.out, found, topics)}")


@cache
def splits_of(folder: Path) -> list[rb.Split]:
    """Return the splits of the five folds; the data are in the folder, in the mirror, or downloaded."""
    return list(rb.datasets.load("mq2008", folder))


def tested(folder: Path, row: Mapping[str, Any], seed: int) -> Tested:
    """Train a ranker on each fold, and evaluate it on the fold's test topics."""
    values, seconds = [], 0.0
    for split in splits_of(folder):
        began = time.perf_counter()
        if "recipe" in row:
            recipe = {"device": "cpu", "metric": AP, "seed": seed, **row["recipe"]}
            ranker = rb.train_ranker(split.training, split.validation, **recipe)
            scores = ranker.score_lists(split.test).scores
        else:
            scores = np.random.default_rng(seed).random(len(split.test.relevance))
        seconds += time.perf_counter() - began
        own = rb.evaluate(METRICS, scores, split.test.relevance, split.test.offsets)
        values.append(np.stack([np.nan_to_num(np.asarray(own[name])) for name in METRICS], axis=1))
    return np.concatenate(values), seconds


def write(folder: Path, found: Mapping[str, Sequence[Tested]], topics: Sequence[str]) -> str:
    """Write the values of each topic, the picture and the table, best mean AP first, which is returned.

    p is corrected over all differences from the baseline.
    """
    folder.mkdir(parents=True, exist_ok=True)
    means = {name: np.mean([values for values, _ in seeds], axis=0).T for name, seeds in found.items()}
    evaluations = {
        name: rb.Evaluation(topics, dict(zip(METRICS, own, strict=True)), [], []) for name, own in means.items()
    }
    by_topic = [one.to_polars().select(pl.lit(name).alias("ranker"), pl.all()) for name, one in evaluations.items()]
    pl.concat(by_topic).write_csv(folder / "rankers.csv", float_precision=6)
    rb.plot.critical_differences(evaluations, AP).figure.savefig(folder / "rankers.svg")
    values = {name: own[0] for name, own in means.items()}
    differences = {name: own - values[BASELINE] for name, own in values.items() if name != BASELINE}
    p_values = dict(zip(differences, corrected([sign_flip(own) for own in differences.values()]), strict=True))
    lines = []
    for name in sorted(values, key=lambda name: -values[name].mean()):
        low, high = interval_of_mean(values[name])
        cells = [name, RANKERS[name]["family"], f"{values[name].mean():.4f} ({low:.4f} to {high:.4f})", "", ""]
        if name != BASELINE:
            low, high = interval_of_mean(differences[name])
            cells[3:] = [f"{differences[name].mean():+.4f} ({low:+.4f} to {high:+.4f})", f"{p_values[name]:.3f}"]
        of_seeds = [float(own[:, 0].mean()) for own, _ in found[name]]
        deviation = f"{np.std(of_seeds, ddof=1):.4f}" if len(of_seeds) > 1 else ""
        seconds = np.mean([seconds for _, seconds in found[name]])
        lines.append([*cells, f"{means[name][1].mean():.4f}", str(len(of_seeds)), deviation, f"{seconds:.1f}"])
    columns = ["ranker", "family", "AP", "difference", "p", NDCG, "seeds", "between seeds", "seconds"]
    undefined = int((values[BASELINE] == 0).sum())
    text = f"""\
MQ2008, {len(topics)} test topics over five folds, of which {undefined} have AP 0. Intervals: 95 %,
bootstrap over topics. Difference from {BASELINE}, paired by topic; p by a randomisation test, corrected by Holm.

{table(columns, lines)}
"""
    (folder / "rankers.md").write_text(text, encoding="utf-8")
    return text


# Learning rates.


RATED: Mapping[str, Mapping[str, Any] | None] = _ROWS["rates"]
"""The sets that rates are compared on: the epochs, and what is generated; None is MQ2008."""


def rates(names: Iterable[str], folder: Path, *tried: float) -> str:
    """Return the table of nDCG@10 by learning rate on sets of these names; by default, the rates are .003 and .01."""
    lines = []
    for name in names:
        given = dict(RATED[name] or {"epochs": 60})
        epochs = given.pop("epochs")
        splits = [generated(**given)] if given else splits_of(folder)[:3:2]
        for model, rate in product(("mlp", "linear"), tried or (0.003, 0.01)):
            recipe: dict[str, Any] = {"model": model, "learning_rate": rate, "epochs": epochs}
            found, began = [], time.process_time()
            for split in splits:
                ranker = rb.train_ranker(split.training, split.validation, device="cpu", batch_size=16, **recipe)
                run = ranker.score_lists(split.test)
                (values,) = rb.evaluate("nDCG@10", run.scores, split.test.relevance, run.offsets).values()
                found.append([ranker.record["validation"], np.nanmean(values), ranker.record["epoch"]])
            validation, test, epoch = np.mean(found, axis=0)
            seconds = (time.process_time() - began) / len(splits)
            lines.append(
                [name, model, f"{rate:g}", f"{validation:.3f}", f"{test:.3f}", f"{epoch:.0f}", f"{seconds:.1f}"]
            )
    return table(["lists", "model", "rate", "validation", "test", "epoch", "seconds"], lines)


def generated(*, topics: int, training: float, validation: float, items: int, features: int, seed: int) -> rb.Split:
    """Return a split of lists with normal and lognormal features, by shares of the topics to train and validate on.

    Grades from 0 to 3 are by a sum of some features, products of pairs of them, a number of the topic and noise.
    """
    draws = np.random.default_rng(seed)
    drawn = draws.lognormal(np.log(items), 0.5, topics).astype(int).clip(5, 8 * items)
    sizes = np.maximum(1, (drawn * (items * topics / drawn.sum())).astype(int))
    rows = draws.normal(size=(sizes.sum(), features)).astype(np.float32)
    rows[:, features // 2 :] += 0.7 * rows[:, : features - features // 2]
    weighted = rows @ (draws.normal(size=features) * (draws.random(features) < 0.4))
    first, second = draws.integers(0, features, (features // 3, 2)).T
    bent = (rows[:, first] * rows[:, second] * (rows[:, first] > 0)) @ draws.normal(size=features // 3)
    quality = weighted / weighted.std() + 0.8 * bent / bent.std()
    quality += np.repeat(draws.normal(size=topics) * 0.7, sizes) + 1.8 * draws.normal(size=len(rows))
    rows[:, ::2] = np.exp(rows[:, ::2] * 0.8)
    lists = rb.JudgedLists(
        topics=[f"q{topic}" for topic in range(topics)],
        items=[f"d{row}" for row in range(len(rows))],
        relevance=np.searchsorted(np.quantile(quality, [0.6, 0.85, 0.96]), quality),
        offsets=np.append(0, np.cumsum(sizes)),
        features=rows,
        feature_names=[f"f{feature}" for feature in range(features)],
    )
    part = np.digitize(np.arange(1, topics + 1) / topics, [training + 1e-9, training + validation + 1e-9])
    parts = (picked(lists, np.repeat(part == one, sizes), part == one) for one in range(3))
    return rb.Split(**dict(zip(("training", "validation", "test"), parts, strict=True)))


if __name__ == "__main__":
    main()
