"""`python -m benchmarks.kernels_mq2008`: compare the sigmoid and the Laplace step of smooth ranks on MQ2008.

Rankers learn the smooth nDCG on the five published folds. For every model, step, fold and seed, the temperature and the
epoch maximise nDCG@10 on the validation part. A topic's value is its mean over the seeds; differences between the two
steps are paired by topic.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

import rankbound as rb
from benchmarks.mq2008 import Array, Part, difference, folds_of

MODELS = ("linear", "mlp")
KERNELS = ("sigmoid", "laplace")
TEMPERATURES = (0.1, 0.3, 1.0, 3.0)
METRICS = ("nDCG@10", "AP")
EPOCHS = 50

Values = dict[tuple[str, str], list[dict[str, Array]]]
"""The values of all test topics by metric, for every model and kernel; one entry per seed."""
Picked = dict[tuple[str, str], list[float]]
"""The temperatures that validation picked."""


def main(arguments: list[str] | None = None) -> None:
    """Train all rankers, and write the table of means and differences."""
    chosen = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    chosen.out.mkdir(parents=True, exist_ok=True)
    folds = list(folds_of(chosen.data))
    values: Values = {(model, kernel): [] for model in MODELS for kernel in KERNELS}
    picked: Picked = {key: [] for key in values}
    for seed in tqdm(range(chosen.seeds), "seeds", disable=None):
        for key, runs in values.items():
            tested = [_tested(parts, *key, seed) for parts in folds]
            picked[key] += [temperature for _, temperature in tested]
            runs.append({name: np.concatenate([fold[name] for fold, _ in tested]) for name in METRICS})
    table = "\n".join(_table(values, picked)) + "\n"
    (chosen.out / "kernels_mq2008.md").write_text(table, encoding="utf-8")
    print(f"\n{table}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels_mq2008", description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("data/boosting_mq2008"), help="folder of the data")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the table")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, of initial weights and order of topics")
    return parser


def _tested(parts: Mapping[str, Part], model: str, kernel: str, seed: int) -> tuple[dict[str, Array], float]:
    """Return the test topics' values by metric at the temperature that is best in validation, and that."""
    train, validation = (_judged(*parts[name]) for name in ("train", "validation"))
    recipe = {"loss": "nDCG", "kernel": kernel, "model": model, "metric": METRICS[0], "epochs": EPOCHS, "seed": seed}
    rankers = [rb.train_ranker(train, validation, temperature=one, **recipe) for one in TEMPERATURES]
    best = max(rankers, key=lambda ranker: ranker.record["validation"])
    features, grades, sizes = parts["test"]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    found = rb.evaluate(map(rb.metric, METRICS), best.score(features.astype(np.float32), offsets), grades, offsets)
    return {name: np.asarray(value) for name, value in found.items()}, best.recipe.temperature


def _judged(features: Array, relevance: Array, sizes: Array) -> rb.JudgedLists:
    return rb.JudgedLists(
        topics=[str(topic) for topic in range(len(sizes))],
        items=[str(item) for item in range(len(relevance))],
        relevance=relevance,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        features=features.astype(np.float32),
        feature_names=[str(feature) for feature in range(features.shape[1])],
    )


def _table(
    values: Mapping[tuple[str, str], list[dict[str, Array]]], picked: Mapping[tuple[str, str], list[float]]
) -> list[str]:
    lines = [
        "| model | step | temperature | " + " | ".join(f"{name} | difference | p" for name in METRICS) + " |",
        "|---|---|--:|" + "--:|:--|--:|" * len(METRICS),
    ]
    for (model, kernel), runs in values.items():
        cells = [model, kernel, f"{np.median(picked[model, kernel]):g}"]
        for name in METRICS:
            means = [np.nanmean(run[name]) for run in runs]
            own, other = (np.mean([run[name] for run in values[model, k]], 0) for k in (kernel, KERNELS[0]))
            cells.append(f"{np.mean(means):.4f} ± {np.std(means):.4f}")
            cells += ["", ""] if kernel == KERNELS[0] else difference((own - other)[~np.isnan(own)])
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    main()
