"""`python -m benchmarks.training`: seconds an epoch, and memory, of training a network on lists of two known sizes.

The network has two hidden layers and ListNet's loss, with batches of 64 topics; a tenth of the topics validates after
each epoch by nDCG@10 (allRank evaluates the training topics as well). Features are normal, the lists of a set equally
long, so that nobody pads. LightGBM grows a tree of 31 leaves an epoch. Each trainer has a process of its own, in which
it trains for few epochs and for more: the difference is the time of an epoch. The memory is what training adds to the
features and grades, with the libraries.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import data, losses
from benchmarks.page import table
from benchmarks.runner import OURS, added_peak

HIDDEN, BATCH, METRIC = [64, 32], 64, "nDCG@10"


class Size(NamedTuple):
    """Topics, items of each and features; and the fewer and the more epochs."""

    topics: int
    items: int
    features: int
    epochs: tuple[int, int]


SETS = {"MQ2008": Size(470, 20, 46, (10, 210)), "MSLR-WEB10K": Size(10_000, 120, 136, (1, 6))}
Rows = tuple[Any, Any]


def rows_of(size: Size) -> Rows:
    """Return features `(n_topics, n_items, d)` and grades."""
    draws = np.random.default_rng(0)
    features = draws.standard_normal((size.topics, size.items, size.features), np.float32)
    return features, np.digitize(
        features[..., 0] - features[..., 1] + draws.normal(size=features.shape[:2]), [1.5, 3.0]
    )


def parts_of(rows: Rows) -> list[Rows]:
    """Return the rows of the training and of the validation topics."""
    cut = len(rows[0]) * 9 // 10
    return [(rows[0][:cut], rows[1][:cut]), (rows[0][cut:], rows[1][cut:])]


def ours(rows: Rows, epochs: int, *, share: float = 0.1) -> None:
    import rankbound as rb

    features, grades = rows if share else parts_of(rows)[0]
    lists = data.judged_lists(features.reshape(-1, features.shape[2]), grades.ravel(), grades.shape[1])
    recipe: dict[str, Any] = {"model": "mlp", "hidden": HIDDEN, "loss": "ListNet", "batch_size": BATCH, "patience": 0}
    rb.train_ranker(lists, **recipe, metric=METRIC, epochs=epochs, validation_share=share, device="cpu")


def without_validation(rows: Rows, epochs: int) -> None:
    ours(rows, epochs, share=0)


def allrank(rows: Rows, epochs: int) -> None:
    models, training = losses.allrank("models.model"), losses.allrank("training.train_utils")
    network = models.FCModel([*HIDDEN], False, "ReLU", 0.0, rows[0].shape[2])
    model = models.LTRModel(network, None, models.OutputLayer(HIDDEN[-1], 1))
    columns = ((*map(torch.from_numpy, part), torch.arange(part[1].shape[1])) for part in parts_of(rows))
    sets = [TensorDataset(x, y.float(), places.expand(y.shape)) for x, y, places in columns]
    loaders = [DataLoader(one, batch_size=BATCH, shuffle=place == 0) for place, one in enumerate(sets)]
    loss, optimiser = losses.allrank("models.losses").listNet, torch.optim.Adam(model.parameters(), lr=0.003)
    config = SimpleNamespace(metrics={"ndcg": [10]}, val_metric="ndcg_10")
    with tempfile.TemporaryDirectory() as folder:
        last = None, epochs, "cpu", folder, folder
        training.fit(epochs, model, loss, optimiser, None, *loaders, config, *last)


def lightgbm(rows: Rows, epochs: int) -> None:
    import lightgbm as lgb

    settings = {"objective": "lambdarank", "num_leaves": 31, "metric": "ndcg", "eval_at": [10], "verbosity": -1}
    settings["num_threads"] = torch.get_num_threads()
    training, validation = (
        lgb.Dataset(x.reshape(-1, x.shape[2]), y.ravel(), group=np.full(len(y), y.shape[1])) for x, y in parts_of(rows)
    )
    lgb.train(settings, training, num_boost_round=epochs, valid_sets=[validation])


TRAINERS: Mapping[str, tuple[str | None, Callable[[Rows, int], None]]] = {
    OURS: (None, ours),
    f"{OURS}, without validation": (None, without_validation),
    "allRank": ("allrank", allrank),
    "LightGBM, a tree": ("lightgbm", lightgbm),
}


def main(arguments: list[str] | None = None) -> None:
    """Train in processes, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS], help=", ".join(SETS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="threads of each trainer (default: 1 2)")
    parser.add_argument("--share", type=float, default=1.0, help="share of the topics (default: 1)")
    parser.add_argument("--train", choices=TRAINERS, help="measure one trainer in this process")
    chosen = parser.parse_args(arguments)
    sizes = {name: SETS[name]._replace(topics=round(SETS[name].topics * chosen.share)) for name in chosen.sets}
    if chosen.train:
        torch.set_num_threads(chosen.threads[0])
        print(*measured(TRAINERS[chosen.train][1], sizes[chosen.sets[0]]))
        return
    rows = []
    for name, (trainer, (package, _)) in product(sizes, TRAINERS.items()):
        if package and find_spec(package) is None:
            continue
        seconds = []
        for threads in map(str, chosen.threads):
            command = [sys.executable, "-m", "benchmarks.training", "--sets", name, "--share", str(chosen.share)]
            command += ["--threads", threads, "--train", trainer]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-2:]
            seconds.append(f"{float(found[0]):.3g}")
        rows.append([name, trainer, *seconds, f"{float(found[1]) / 1e6:,.0f} MB"])
    threads = [f"seconds an epoch, {count} thread{'s' if count > 1 else ''}" for count in chosen.threads]
    print(table(["set", "trainer", *threads, "memory"], rows))


def measured(train: Callable[[Rows, int], None], size: Size) -> tuple[float, float]:
    """Return the seconds of an epoch, and the bytes that the training adds."""
    rows, seconds, added = rows_of(size), [], []
    few, more = size.epochs
    # The first training loads libraries and compiles.
    for epochs in (few, few, more):
        begin = time.perf_counter()
        added.append(added_peak(lambda epochs=epochs: train(rows, epochs)))
        seconds.append(time.perf_counter() - begin)
    return (seconds[2] - seconds[1]) / (more - few), max(added)


if __name__ == "__main__":
    main()
