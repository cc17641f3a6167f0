"""`python -m benchmarks.rates`: nDCG@10 by learning rate and batch, on MQ2008 and generated lists of several sizes.

Of MQ2008, the first and the third fold are used. `train_ranker` has the loss nDCG, and its defaults but for these and
the most epochs. The validation part selects the epoch. Generated lists have normal and lognormal features, and grades
of 0 to 3 by a sum of some features, products of pairs of them, a number of the topic and noise.
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import rankbound as rb
from benchmarks.page import table
from benchmarks.rankers import splits_of
from rankbound.training.splits import picked


class Generated(NamedTuple):
    """Topics of all parts, the shares of them to train on and to validate on, mean items, features, seed, epochs."""

    topics: int
    training: float
    validation: float
    items: int
    features: int
    seed: int
    epochs: int


MQ2008 = "MQ2008"
SETS: dict[str, Generated | None] = {
    MQ2008: None,
    "250 x 20": Generated(416, 0.601, 0.2, 20, 46, 0, 60),
    "417 x 120": Generated(695, 0.6, 0.2, 120, 136, 1, 25),
    "999 x 100": Generated(1_666, 0.6, 0.2, 100, 64, 7, 8),
    "4,000 x 30": Generated(5_000, 0.8, 0.1, 30, 46, 8, 6),
    "2,000 x 120": Generated(2_500, 0.8, 0.1, 120, 136, 2, 4),
}


def main(arguments: list[str] | None = None) -> None:
    """Train a ranker with each rate and batch on each set, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rates", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data/mq2008"), help="folder of MQ2008")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS], help=", ".join(SETS))
    parser.add_argument("--models", nargs="+", default=["mlp", "linear"], help="models of features (default: both)")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.003, 0.01], help="learning rates")
    parser.add_argument("--batches", nargs="+", type=int, default=[16], help="topics a step")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    rows = []
    for name in chosen.sets:
        given = SETS[name]
        splits = splits_of(chosen.data)[:3:2] if given is None else list(generated(given))
        epochs = 60 if given is None else given.epochs
        for model, batch, rate in product(chosen.models, chosen.batches, chosen.rates):
            recipe: dict[str, Any] = {"model": model, "batch_size": batch, "learning_rate": rate, "epochs": epochs}
            found, began = [], time.process_time()
            for split in splits:
                ranker = rb.train_ranker(split.training, split.validation, device="cpu", **recipe)
                run = ranker.score_lists(split.test)
                (values,) = rb.evaluate("nDCG@10", run.scores, split.test.relevance, run.offsets).values()
                found.append([ranker.record["validation"], np.nanmean(values), ranker.record["epoch"]])
            validation, test, epoch = np.mean(found, axis=0)
            seconds = (time.process_time() - began) / len(splits)
            measured = [f"{validation:.3f}", f"{test:.3f}", f"{epoch:.0f}", f"{seconds:.1f}"]
            rows.append([name, model, str(batch), f"{rate:g}", *measured])
    print(table(["lists", "model", "batch", "rate", "validation", "test", "epoch", "seconds"], rows))


def generated(given: Generated) -> Iterator[rb.Split]:
    """Yield one split of generated lists."""
    draws, width = np.random.default_rng(given.seed), given.features
    drawn = draws.lognormal(np.log(given.items), 0.5, given.topics).astype(int).clip(5, 8 * given.items)
    sizes = np.maximum(1, (drawn * (given.items * given.topics / drawn.sum())).astype(int))
    rows = draws.normal(size=(sizes.sum(), width)).astype(np.float32)
    rows[:, width // 2 :] += 0.7 * rows[:, : width - width // 2]
    weighted = rows @ (draws.normal(size=width) * (draws.random(width) < 0.4))
    first, second = draws.integers(0, width, (width // 3, 2)).T
    bent = (rows[:, first] * rows[:, second] * (rows[:, first] > 0)) @ draws.normal(size=width // 3)
    quality = weighted / weighted.std() + 0.8 * bent / bent.std()
    quality += np.repeat(draws.normal(size=given.topics) * 0.7, sizes) + 1.8 * draws.normal(size=len(rows))
    rows[:, ::2] = np.exp(rows[:, ::2] * 0.8)
    lists = rb.JudgedLists(
        topics=[f"q{topic}" for topic in range(given.topics)],
        items=[f"d{row}" for row in range(len(rows))],
        relevance=np.searchsorted(np.quantile(quality, [0.6, 0.85, 0.96]), quality),
        offsets=np.append(0, np.cumsum(sizes)),
        features=rows,
        feature_names=[f"f{feature}" for feature in range(width)],
    )
    shares = np.arange(1, given.topics + 1) / given.topics
    part = np.digitize(shares, [given.training + 1e-9, given.training + given.validation + 1e-9])
    training, validation, test = (picked(lists, np.repeat(part == one, sizes), part == one) for one in range(3))
    yield rb.Split(training=training, validation=validation, test=test)


if __name__ == "__main__":
    main()
