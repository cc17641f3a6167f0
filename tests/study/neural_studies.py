"""Files of the neural-ranking study: a small one as training jobs leave it, and methods as good as asked for."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from planted import joined, repeated
from safetensors.torch import save_file

from rankbound_study.claims.evidence import Evidence
from rankbound_study.data.contracts import write_table
from rankbound_study.data.images import images_table
from rankbound_study.jobs.job import RUN_METRICS

METRICS = (*RUN_METRICS, "PairAccuracy")

SIDE = 100
FACES = 60
DRAWN_PAIRS = 80

WEB = {
    "RankNet": ("rank", 0.55),
    "DirectRanker": ("rank", 0.56),
    "LambdaMART": ("rank", 0.6),
    "Rank-LR": ("rank", 0.5),
    "Class-NN": ("classification", 0.52),
    "Class-LR": ("classification", 0.45),
    "Class-RF": ("classification", 0.58),
    "Class-Boost": ("classification", 0.57),
}
"""Method -> family and about its mean."""

AGES = {
    "Reg-NN": ("regression", 12.0),
    "Reg-l1": ("regression", 20.0),
    "Reg-l2": ("regression", 18.0),
    "RankNet": ("rank", 10.0),
    "Rank-LR": ("rank", 16.0),
    "RankCNN": ("rank", 8.0),
    "Class-CNN": ("classification", 9.0),
    "Class-LR": ("classification", 25.0),
}
"""Method -> family and the noise of its scores, in years."""


@dataclass(frozen=True)
class Study:
    """The files: one runs table, one epochs table, an images file, and sidecars by method."""

    runs: Path
    epochs: Path
    images: Path
    predictions: tuple[Path, ...]
    weights: tuple[Path, ...]


def write_study(folder: Path, *, web: str = "mq2008-label1", faces: str = "aaf", topics: int = 30) -> Study:
    """Write everything below `folder`, laid out as a results folder."""
    images, ages = write_images(folder / "images.parquet")
    runs, predictions, weights = _of_queries(web, topics), [], []
    pairs = draw_pairs(ages)
    for method, (family, noise) in AGES.items():
        scores = method_scores(method, family, noise, ages)
        runs.append(runs_of_pairs(_key(faces, method, family), pairs, scores, ages))
        stem = folder / "runs" / "honest" / faces / method / "RankNet"
        predictions.append(_write_predictions(stem / "none.predictions.parquet", faces, method, family, pairs, scores))
        weights.append(stem / "none.weights.safetensors")
        random = torch.Generator().manual_seed(len(method))
        tensors = {"fold-1/seed-0/weight": torch.randn(3 * SIDE * SIDE, generator=random) / 1000}
        save_file(tensors | {"fold-1/seed-0/bias": torch.zeros(1)}, weights[-1])
    runs.append(runs_of_pairs(_key(faces, "random", None), pairs))
    write_table(joined(runs), folder / "runs.parquet", "runs")
    epochs = [*_epochs(web, WEB, "nDCG@10"), *_epochs(faces, AGES, "PairAccuracy")]
    write_table(pa.Table.from_pylist(epochs), folder / "epochs.parquet", "epochs")
    return Study(folder / "runs.parquet", folder / "epochs.parquet", images, tuple(predictions), tuple(weights))


def write_images(path: Path) -> tuple[Path, np.ndarray]:
    """Grey discs, the larger the older, in smooth noise; the last picture is a copy of the first."""
    random = np.random.default_rng(0)
    ages = random.integers(2, 81, FACES)
    place = np.linspace(-1, 1, SIDE)
    radius = np.hypot(place[:, None], place[None, :])
    noise = np.repeat(np.repeat(random.integers(0, 120, (FACES, 3, 10, 10)), 10, 2), 10, 3)
    pixels = noise + 100 * (radius[None, None] < (ages / 80)[:, None, None, None])
    pixels[-1] = pixels[0] // 2 + 60
    names = [f"{number:05}A{age:02}" for number, age in enumerate(ages)]
    groups = np.arange(FACES)
    groups[-1] = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    table = images_table(names, np.arange(FACES), ages, groups, pixels.astype(np.uint8))
    write_table(table, path, "images", metadata={"rankbound.images": json.dumps({"shape": [3, SIDE, SIDE]})})
    return path, ages


def draw_pairs(ages: np.ndarray) -> np.ndarray:
    """Pairs of rows more than 5 years apart, sides at random."""
    random = np.random.default_rng(1)
    drawn = random.integers(0, FACES, (20 * DRAWN_PAIRS, 2))
    apart = np.abs(ages[drawn[:, 0]] - ages[drawn[:, 1]]) > 5
    return np.unique(drawn[apart], axis=0)[:DRAWN_PAIRS]


def method_scores(method: str, family: str, noise: float, ages: np.ndarray) -> np.ndarray:
    """A score per face: the age in years of regression, log-odds around 0 otherwise; every method's own noise."""
    random = np.random.default_rng(sum(map(ord, method)))
    found = ages + noise * random.standard_normal(len(ages))
    return found if family == "regression" else (found - 41) / 20


def _key(dataset: str, method: str, family: str | None) -> dict[str, object]:
    return {
        "study": "neural" if family else "thesis",
        "protocol": "honest" if family else "published",
        "dataset": dataset,
        "nsr_train": None,
        "nsr_test": None,
        "model": method,
        "options": json.dumps({"family": family, "model": _model(method)} if family else {}),
        "loss": "RankNet" if family else "none",
        "bounding": "none",
        "seed": 0,
    }


def _model(method: str) -> str:
    return "mlp" if method.endswith(("Net", "Ranker", "NN")) else "linear"


def _runs(key: Mapping[str, object], columns: Mapping[str, Any], scores: Any, n: int) -> pa.Table:
    """The runs of a method, with a score for each list that is the same on all metrics."""
    selection = "validation" if key["loss"] != "none" else "last"
    row = {**key, "fold": 1, "selection": selection, "topic": "", "drawing": 0, "n": n, "p": 1, "epoch": 3}
    return repeated(row, {**columns, **dict.fromkeys(METRICS, scores)})


def _of_queries(dataset: str, topics: int) -> list[pa.Table]:
    random, topic = np.random.default_rng(2), np.arange(topics)
    level = random.normal(0, 0.2, topics)
    # Every sixth query has no relevant document.
    p = np.where(topic % 6 == 0, 0, 2)
    lists = {"fold": topic % 5 + 1, "topic": [f"q{one}" for one in topic], "p": p}
    tables = []
    for method, (family, mean) in [*WEB.items(), ("random", (None, 0.25)), ("oracle", (None, 9.0))]:
        own = np.clip(mean + level + random.normal(0, 0.05, topics), 0, 1)
        tables.append(_runs(_key(dataset, method, family), lists, np.where(p > 0, own, np.nan), 9))
    return tables


def runs_of_pairs(
    key: Mapping[str, object], pairs: np.ndarray, scores: np.ndarray | None = None, ages: np.ndarray | None = None
) -> pa.Table:
    """The runs of a method on pairs of faces, of which it orders those right whose scores do; by chance without any."""
    right = np.full(len(pairs), 0.5)
    if scores is not None and ages is not None:
        right = ((scores[pairs[:, 0]] > scores[pairs[:, 1]]) == (ages[pairs[:, 0]] > ages[pairs[:, 1]])).astype(float)
    return _runs(key, {"topic": [f"{one} {other}" for one, other in pairs]}, right, 2)


def _write_predictions(
    path: Path, dataset: str, method: str, family: str, pairs: np.ndarray, scores: np.ndarray
) -> Path:
    key = {**_key(dataset, method, family), "fold": 1, "selection": "validation"}
    rows = [
        {**key, "topic": f"{one} {other}", "items": [int(one), int(other)], "scores": scores[[one, other]].tolist()}
        for one, other in pairs
    ]
    write_table(pa.Table.from_pylist(rows), path, "predictions")
    return path


def _epochs(dataset: str, methods: Mapping[str, tuple[str, float]], metric: str) -> list[dict[str, object]]:
    rows = []
    for method, (family, level) in methods.items():
        # A mean, or a noise in years: the less the better.
        better = level if level < 1 else -level / 100
        for fold in (1, 2):
            for epoch in range(1, 13):
                for shift, part in enumerate(("train", "validation", "test")):
                    loss = 0.4 + 0.3 / epoch + 0.01 * shift * epoch + 0.01 * fold
                    others = dict.fromkeys(("nDCG@10", "AP", "PairAccuracy"), float("nan"))
                    score = 0.5 - 0.3 / epoch - 0.02 * shift + 0.01 * fold + 0.3 * better
                    key = {**_key(dataset, method, family), "fold": fold, "epoch": epoch, "part": part}
                    rows.append({**key, "mean_loss": loss, "gradient_norm": 1.0, **others, metric: score})
    return rows


QUERIES = 120
PAIRS = 1500
NETWORKS = ("Net", "Ranker", "NN", "CNN")


@dataclass
class Planted:
    """Tables of runs, rows of epochs, and files, that gather until `evidence` writes them."""

    folder: Path
    runs: list[pa.Table] = field(default_factory=list)
    epochs: list[dict[str, Any]] = field(default_factory=list)
    predictions: list[Path] = field(default_factory=list)
    weights: list[Path] = field(default_factory=list)
    images: Path | None = None

    def queries(
        self,
        means: Mapping[str, float],
        dataset: str = "mq2008-label1",
        noise: float = 0.03,
        *,
        validation: float | None = None,
        **options: Any,
    ) -> "Planted":
        """Mean nDCG@10 of methods; every sixth query has no relevant document."""
        level = np.random.default_rng(0).normal(0, 0.1, QUERIES)
        topics = np.arange(QUERIES)
        p = np.where(topics % 6 == 0, 0, 2)
        of_queries = {"fold": topics % 5 + 1, "topic": [f"q{topic}" for topic in topics], "p": p}
        for method, mean in means.items():
            scores = mean + level + _random(method, dataset).normal(0, noise, QUERIES)
            self._add(dataset, method, of_queries, np.where(p > 0, scores, np.nan), n=9, **options)
            self._epochs(dataset, method, mean if validation is None else validation)
        return self

    def pairs(
        self,
        shares: Mapping[str, float],
        dataset: str = "aaf",
        *,
        own: float = 1.0,
        validation: Mapping[str, float] | None = None,
        **options: Any,
    ) -> "Planted":
        """Pair accuracy of methods; `own` is the share of pairs on which luck is a method's own, not that of all."""
        shared = np.random.default_rng(1).random(PAIRS)
        of_pairs = {"topic": [f"{2 * pair} {2 * pair + 1}" for pair in range(PAIRS)]}
        for method, share in shares.items():
            random = _random(method, "aaf")
            luck = np.where(random.random(PAIRS) < own, random.random(PAIRS), shared)
            self._add(dataset, method, of_pairs, (luck < share).astype(float), n=2, **options)
            self._epochs(dataset, method, (validation or shares)[method])
        return self

    def ages(self, methods: Mapping[str, np.ndarray], dataset: str = "aaf") -> "Planted":
        """Predictions of methods: a score for each of the faces, all pairs of which are more than 5 years apart."""
        pairs = self.drawn()
        for method, scores in methods.items():
            stem = self.folder / "runs" / "honest" / dataset / method / "RankNet"
            family = _family(method)
            self.predictions.append(
                _write_predictions(stem / "none.predictions.parquet", dataset, method, family, pairs, scores)
            )
        return self

    def true_ages(self) -> np.ndarray:
        """The instances of the faces, whose pictures are written on first use."""
        self.images, ages = write_images(self.folder / "images.parquet")
        return ages

    def drawn(self) -> np.ndarray:
        """All pairs of faces that are more than 5 years apart."""
        ages = self.true_ages().astype(int)
        return np.array([pair for pair in np.ndindex(60, 60) if ages[pair[0]] - ages[pair[1]] > 5])

    def linear(self, method: str, weights: np.ndarray, dataset: str = "aaf") -> "Planted":
        """The weights `(3, SIDE, SIDE)` of a linear model."""
        path = self.folder / "runs" / "honest" / dataset / method / "RankNet" / "none.weights.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        tensor = torch.from_numpy(weights.reshape(3 * SIDE * SIDE).astype(np.float32))
        save_file({"fold-1/seed-0/network.weight": tensor}, path)
        self.weights.append(path)
        return self

    def evidence(self) -> Evidence:
        """All of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        runs, epochs = (self.folder / f"{name}.parquet" for name in ("runs", "epochs"))
        write_table(joined(self.runs), runs, "runs")
        write_table(pa.Table.from_pylist(self.epochs), epochs, "epochs")
        others = {"predictions": tuple(self.predictions), "weights": tuple(self.weights)}
        return Evidence("thesis", runs, epochs, images=self.images, **others)

    def _add(
        self, dataset: str, method: str, columns: Mapping[str, Any], scores: np.ndarray, *, n: int, **options: Any
    ) -> None:
        """Add a method's runs, under two seeds if it sees some features alone."""
        key = self._key(dataset, method, **options)
        self.runs += [_runs(key | {"seed": seed}, columns, scores, n) for seed in range(1 + ("features" in options))]

    def _key(self, dataset: str, method: str, **options: Any) -> dict[str, object]:
        if method in ("random", "oracle"):
            return {**_key(dataset, method, None), "study": "neural", "protocol": "honest"}
        is_network = any(part in method for part in NETWORKS)
        told = {"family": _family(method), "model": "mlp" if is_network else "other", **options}
        return {**_key(dataset, method, _family(method)), "options": json.dumps(told, sort_keys=True)}

    def _epochs(self, dataset: str, method: str, score: float) -> None:
        for epoch, drop in ((1, 0.2), (2, 0.0), (3, 0.1)):
            numbers = dict.fromkeys(("mean_loss", "gradient_norm", "nDCG@10", "AP", "PairAccuracy"), score - drop)
            key = {**self._key(dataset, method), "fold": 1, "epoch": epoch, "part": "validation"}
            self.epochs.append({**key, **numbers})


def _family(method: str) -> str:
    return {"Reg": "reg", "Class": "class"}.get(method.split("-")[0], "rank")


def _random(method: str, dataset: str) -> np.random.Generator:
    return np.random.default_rng(list(f"{method} {dataset}".encode()))
