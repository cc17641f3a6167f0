"""`python -m benchmarks.clicks`: learn from simulated clicks, naively, without position bias, and from the labels.

Lists are drawn as judged ones are: a grade from 0 to 4 by a quality that bends with some features. A weak ranker,
trained on few lists, shows them; users click by the position-based model with noise. All rankers of a kind have the
same settings and learn from the same sessions; nDCG@10 is that of other lists, by their labels.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lightgbm as lgb
import numpy as np
import torch
import xgboost as xgb
from tqdm import tqdm

import rankbound as rb
from benchmarks import asked
from benchmarks.data import Array
from benchmarks.page import table
from rankbound.clicks import ClickLog, PositionBased, estimated_relevance, regression_em, simulate

LENGTH, FEATURES, FEW = 10, 12, 20
"""Items of a list, their features, and the lists that the weak ranker is trained on."""
SHOWN, TESTED = 2000, 1000
"""Lists that are shown, and those that rankers are tested on."""
MODEL = PositionBased(noise=0.05, eta=1.0)
LIGHTGBM: dict[str, Any] = {"objective": "lambdarank", "learning_rate": 0.1, "num_leaves": 15, "min_data_in_leaf": 20}
LIGHTGBM |= {"verbose": -1, "num_threads": 1}
XGBOOST: dict[str, Any] = {"objective": "rank:ndcg", "lambdarank_pair_method": "topk", "eta": 0.1, "max_leaves": 15}
XGBOOST |= {"grow_policy": "lossguide", "nthread": 1}
ROUNDS, STEPS = 60, 150

Predict = Callable[[Array], Array]


def main(arguments: list[str] | None = None) -> None:
    """Train all rankers on growing logs, and write the table of their nDCG: means and standard errors over seeds."""
    chosen = asked("benchmarks.clicks", __doc__, arguments)
    torch.set_num_threads(1)
    runs = [dict(curves(seed, chosen.sessions)) for seed in tqdm(range(chosen.seeds), "seeds", disable=None)]
    found = np.array([list(own.values()) for own in runs])
    (clicks, *means), errors = found.mean(axis=0), found.std(axis=0, ddof=int(len(found) > 1)) / np.sqrt(len(found))
    sizes = (f"{n:,} sessions, {count:,.0f} clicks" for n, count in zip(chosen.sessions, clicks, strict=True))
    cells = ([f"{m:.3f} ± {e:.3f}" for m, e in zip(*own, strict=True)] for own in zip(means, errors[1:], strict=True))
    text = table(["trained on", *sizes], ([name, *own] for name, own in zip([*runs[0]][1:], cells, strict=True))) + "\n"
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "clicks.md").write_text(text, encoding="utf-8")
    print(text)


def curves(seed: int, sessions: Sequence[int]) -> Iterator[tuple[str, list[float]]]:
    """Yield the number of clicks and the nDCG of each ranker, for each size of the log."""
    draws = np.random.default_rng(seed)
    coefficients, bends = draws.normal(size=(2, FEATURES))
    parts = []
    for n_lists in (SHOWN, TESTED):
        rows = draws.normal(size=(n_lists * LENGTH, FEATURES))
        quality = rows @ coefficients + 0.5 * np.abs(rows) @ bends + draws.normal(size=len(rows))
        parts.append((rows, np.digitize(quality, np.quantile(quality, (0.5, 0.75, 0.9, 0.97)))))
    (features, grades), (others, labels) = parts
    limits, of_others = (np.arange(0, len(own) + 1, LENGTH) for own in (features, others))
    few = FEW * LENGTH
    weak = linear(features[:few], grades[:few], None, limits[: FEW + 1])
    shown = features @ weak
    logs = [simulate(MODEL, grades, limits, scores=shown, sessions=n, highest=4, seed=seed) for n in sessions]
    yield "clicks", [float(log.clicked.sum()) for log in logs]
    predicted = [dict(rankers(log, features, grades)) for log in logs]
    for name in ("the ranker that shows the lists", *predicted[0]):
        scores = (own.get(name, lambda rows: rows @ weak)(others) for own in predicted)
        # The mean over lists where it is defined.
        yield name, [float(np.nanmean(np.asarray(rb.metric("nDCG@10")(one, labels, of_others)))) for one in scores]


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


def rankers(log: ClickLog, features: Array, grades: Array) -> Iterator[tuple[str, Predict]]:
    """Train the rankers on the sessions of a log, or on the labels of all lists; yield what each predicts by."""
    propensities = {
        "clicks (naive)": np.ones(LENGTH),
        "clicks, IPS by regression EM": regression_em(log, features),
        "clicks, IPS by true propensities": MODEL.propensities(LENGTH),
    }
    weights = {name: estimated_relevance(log, own, floor=0.05) for name, own in propensities.items()}
    for name, own in {**weights, "labels (full information)": MODEL.attraction(grades, 4)}.items():
        estimate = np.nan_to_num(own)
        labels = np.ones(len(grades)) if name.startswith("labels") else estimate > 0
        model = linear(features, labels, estimate, log.limits)
        yield f"linear: {name}", lambda rows, model=model: rows @ model
    # Their items are in the order of their ranks.
    sessions, clicked, sizes = features[log.item], log.clicked.astype(int), np.diff(log.offsets)
    for name, columns in {"clicks (naive)": {}, "clicks, `position`": {"position": log.rank - 1}}.items():
        data = lgb.Dataset(sessions, clicked, group=sizes, **columns)
        yield f"LightGBM: {name}", lgb.train(LIGHTGBM, data, ROUNDS).predict
    for name, unbiased in {"clicks (naive)": False, "clicks, `lambdarank_unbiased`": True}.items():
        matrix = xgb.DMatrix(sessions, clicked)
        matrix.set_group(sizes)
        trees = xgb.train({**XGBOOST, "lambdarank_unbiased": unbiased}, matrix, ROUNDS)
        yield f"XGBoost: {name}", lambda rows, trees=trees: trees.predict(xgb.DMatrix(rows))
    data = lgb.Dataset(features, grades, group=np.diff(log.limits))
    yield "LightGBM: labels (full information)", lgb.train(LIGHTGBM, data, ROUNDS).predict


if __name__ == "__main__":
    main()
