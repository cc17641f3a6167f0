"""`python -m benchmarks.clicks`: learn from simulated clicks, naively, without position bias, and from the labels.

Lists are drawn as judged ones are: a grade from 0 to 4 by a quality that bends with some features. A weak ranker,
trained on few lists, shows them; users click by the position-based model with noise. All rankers of a kind have the
same settings and learn from the same sessions; nDCG@10 is that of other lists, by their labels.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import numpy.typing as npt
import torch
import xgboost as xgb
from tqdm import tqdm

import rankbound as rb
from rankbound.clicks import ClickLog, PositionBased, estimated_relevance, regression_em, simulate

Array = npt.NDArray[Any]

LENGTH, FEATURES = 10, 12
LISTS = {"shown": 2000, "test": 1000}
SESSIONS = (100, 1_000, 10_000, 100_000)
MODEL = PositionBased(noise=0.05, eta=1.0)
TREES: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "verbose": -1,
    "num_threads": 1,
}
ROUNDS, STEPS = 60, 150
METRIC = "nDCG@10"


def main(arguments: list[str] | None = None) -> None:
    """Train all rankers on growing logs, and write the table of their nDCG."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clicks", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the table")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, of lists, rankers and clicks")
    parser.add_argument("--sessions", type=int, nargs="+", default=SESSIONS, help="sizes of the logs")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = np.array([curve(seed, chosen.sessions) for seed in tqdm(range(chosen.seeds), "seeds", disable=None)])
    chosen.out.mkdir(parents=True, exist_ok=True)
    text = table(found, chosen.sessions)
    (chosen.out / "clicks.md").write_text(text, encoding="utf-8")
    print(text)


def table(found: Array, sessions: tuple[int, ...]) -> str:
    """Return the means and their standard errors over seeds, a row per ranker; clicks are those of all of them."""
    clicks, values = found[:, :, 0].mean(axis=0), found[:, :, 1:]
    lines = [
        "| trained on | "
        + " | ".join(f"{n:,} sessions, {c:,.0f} clicks" for n, c in zip(sessions, clicks, strict=True))
        + " |"
    ]
    lines.append("|---|" + "---|" * len(sessions))
    errors = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.zeros(values.shape[1:])
    for place, name in enumerate(("the ranker that shows the lists", *LINEAR, *BOOSTED)):
        cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(values[:, :, place].mean(axis=0), errors[:, place], strict=True)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def curve(seed: int, sessions: tuple[int, ...]) -> list[list[float]]:
    """Return, for each size of the log, the number of clicks and the nDCG of all rankers."""
    draws = np.random.default_rng(seed)
    coefficients, bends = draws.normal(size=(2, FEATURES))
    parts = {name: drawn(draws, n, coefficients, bends) for name, n in LISTS.items()}
    features, grades, limits = parts["shown"]
    few = 20 * LENGTH
    weak = linear(features[:few], grades[:few], None, limits[:21])
    rows = []
    for n in sessions:
        log = simulate(MODEL, grades, limits, scores=features @ weak, sessions=n, highest=4, seed=seed)
        values = [score(parts["test"][0] @ weak, *parts["test"][1:])]
        for learn in (*LINEAR.values(), *BOOSTED.values()):
            predict = learn(log, features, grades)
            values.append(score(predict(parts["test"][0]), *parts["test"][1:]))
        rows.append([float(log.clicked.sum()), *values])
    return rows


def drawn(draws: np.random.Generator, n_lists: int, coefficients: Array, bends: Array) -> tuple[Array, Array, Array]:
    """Return features, grades and limits of lists."""
    features = draws.normal(size=(n_lists * LENGTH, FEATURES))
    quality = features @ coefficients + 0.5 * np.abs(features) @ bends + draws.normal(size=len(features))
    grades = np.digitize(quality, np.quantile(quality, (0.5, 0.75, 0.9, 0.97)))
    return features, grades, np.arange(0, len(features) + 1, LENGTH)


def score(scores: Array, grades: Array, limits: Array) -> float:
    """Return the mean of the metric over the lists where it is defined."""
    return float(np.nanmean(np.asarray(rb.metric(METRIC)(scores, grades, limits))))


def linear(features: Array, labels: Array, weights: Array | None, limits: Array) -> Array:
    """Return the coefficients of a linear ranker, trained on a loss without a normaliser."""
    loss, inputs = rb.loss("DCG(gain=linear)"), torch.from_numpy(features)
    model = torch.zeros(features.shape[1], dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.Adam([model], lr=0.05)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss(inputs @ model, labels, limits, weights=weights, reduction="mean").backward()
        optimiser.step()
    return model.detach().numpy()


def by_clicks(propensities: Callable[[ClickLog, Array], Array]) -> Callable[[ClickLog, Array, Array], Any]:
    """Return the linear ranker of clicks with these inverse propensities."""

    def learn(log: ClickLog, features: Array, grades: Array) -> Any:
        estimate = np.nan_to_num(estimated_relevance(log, propensities(log, features), floor=0.05))
        model = linear(features, estimate > 0, estimate, log.limits)
        return lambda others: others @ model

    return learn


def by_labels(log: ClickLog, features: Array, grades: Array) -> Any:
    """The linear ranker of the labels' attractions, of all lists."""
    model = linear(features, np.ones(len(grades)), MODEL.attraction(grades, 4), log.limits)
    return lambda others: others @ model


def lightgbm(positions: bool, labels: bool = False) -> Callable[[ClickLog, Array, Array], Any]:
    """Return LightGBM's lambdarank on the sessions, with or without their positions, or on the labels."""

    def learn(log: ClickLog, features: Array, grades: Array) -> Any:
        if labels:
            data = lgb.Dataset(features, grades, group=np.diff(log.limits))
        else:
            extra = {"position": log.rank - 1} if positions else {}
            data = lgb.Dataset(features[log.item], log.clicked.astype(int), group=np.diff(log.offsets), **extra)
        return lgb.train({**TREES, "objective": "lambdarank"}, data, ROUNDS).predict

    return learn


def xgboost(unbiased: bool) -> Callable[[ClickLog, Array, Array], Any]:
    """Return XGBoost's lambda loss on the sessions, whose items are in the order of their ranks."""

    def learn(log: ClickLog, features: Array, grades: Array) -> Any:
        data = xgb.DMatrix(features[log.item], log.clicked.astype(int))
        data.set_group(np.diff(log.offsets))
        settings = {
            "objective": "rank:ndcg",
            "lambdarank_unbiased": unbiased,
            "lambdarank_pair_method": "topk",
            "eta": 0.1,
            "max_leaves": 15,
            "grow_policy": "lossguide",
            "nthread": 1,
        }
        model = xgb.train(settings, data, ROUNDS)
        return lambda others: model.predict(xgb.DMatrix(others))

    return learn


LINEAR: dict[str, Callable[[ClickLog, Array, Array], Any]] = {
    "linear: clicks (naive)": by_clicks(lambda log, features: np.ones(LENGTH)),
    "linear: clicks, IPS by regression EM": by_clicks(lambda log, features: regression_em(log, features)),
    "linear: clicks, IPS by true propensities": by_clicks(lambda log, features: MODEL.propensities(LENGTH)),
    "linear: labels (full information)": by_labels,
}
BOOSTED: dict[str, Callable[[ClickLog, Array, Array], Any]] = {
    "LightGBM: clicks (naive)": lightgbm(False),
    "LightGBM: clicks, `position`": lightgbm(True),
    "XGBoost: clicks (naive)": xgboost(False),
    "XGBoost: clicks, `lambdarank_unbiased`": xgboost(True),
    "LightGBM: labels (full information)": lightgbm(False, labels=True),
}


if __name__ == "__main__":
    main()
