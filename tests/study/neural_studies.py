"""Files of the neural-ranking study: a small one as training jobs leave it, and methods as good as asked for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from planted import joined, repeated
from recorded_study import STUDIES
from safetensors.torch import save_file

from rankbound_study.claims.evidence import Evidence
from rankbound_study.data.contracts import write_table
from rankbound_study.data.images import images_table
from rankbound_study.jobs.parts import RUN_METRICS

METRICS = (*RUN_METRICS, "PairAccuracy")

SIDE = 100
FACES = 60
DRAWN_PAIRS = 80

WEB, AGES = STUDIES["neural"]["web"], STUDIES["neural"]["ages"]
"""Method -> about its mean on queries; on faces, its family and the noise of its scores."""


def write_study(folder: Path, *, web: str = "mq2008-label1", faces: str = "aaf") -> Evidence:
    """Write everything below `folder`, laid out as a results folder."""
    made = Planted(folder).queries(WEB | {"random": 0.25, "oracle": 0.9}, web)
    ages = made.true_ages()
    pairs = draw_pairs(ages)
    for method, (family, noise) in AGES.items():
        made.scored({method: method_scores(method, family, noise, ages)}, pairs, faces)
        made.linear(method, np.random.default_rng(len(method)).normal(0, 1e-3, (3, SIDE, SIDE)), faces)
    control = _key(faces, "random") | {"study": "thesis", "protocol": "published"}
    made.runs.append(repeated(_run(control, 2), {"topic": _topics(pairs)}))
    # The less noise, the better.
    of_faces = {method: -noise / 100 for method, (_, noise) in AGES.items()}
    made.epochs = [*_courses(web, "nDCG@10", WEB), *_courses(faces, "PairAccuracy", of_faces)]
    return made.evidence()


@cache
def pictures() -> tuple[pa.Table, np.ndarray]:
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
    return images_table(names, np.arange(FACES), ages, groups, pixels.astype(np.uint8)), ages


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


def _key(dataset: str, method: str, **options: Any) -> dict[str, object]:
    """Return the columns that identify a method's runs; `options` are those besides its family and model."""
    control = method in ("random", "oracle")
    model = "mlp" if any(part in method for part in NETWORKS) else "other"
    family = {"Reg": "reg", "Class": "class"}.get(method.split("-")[0], "rank")
    told = {} if control else {"family": family, "model": model, **options}
    return {
        "study": "neural",
        "protocol": "honest",
        "dataset": dataset,
        "nsr_train": None,
        "nsr_test": None,
        "model": method,
        "options": json.dumps(told, sort_keys=True),
        "loss": "none" if control else "RankNet",
        "bounding": "none",
        "seed": 0,
    }


def _run(key: Mapping[str, object], n: int) -> dict[str, object]:
    selection = "validation" if key["loss"] != "none" else "last"
    of_list = {"fold": 1, "selection": selection, "drawing": 0, "n": n, "p": 1, "epoch": 3}
    return {**key, **of_list, **dict.fromkeys(METRICS, 0.5)}


def _topics(pairs: np.ndarray) -> list[str]:
    return [f"{one} {other}" for one, other in pairs]


def _courses(dataset: str, metric: str, levels: Mapping[str, float]) -> Iterator[dict[str, object]]:
    folds, epochs, parts = (1, 2), range(1, 13), enumerate(("train", "validation", "test"))
    for (method, level), fold, epoch, (shift, part) in product(levels.items(), folds, epochs, parts):
        loss = 0.4 + 0.3 / epoch + 0.01 * shift * epoch + 0.01 * fold
        others = dict.fromkeys(("nDCG@10", "AP", "PairAccuracy"), float("nan"))
        score = 0.5 - 0.3 / epoch - 0.02 * shift + 0.01 * fold + 0.3 * level
        key = {**_key(dataset, method), "fold": fold, "epoch": epoch, "part": part}
        yield {**key, "mean_loss": loss, "gradient_norm": 1.0, **others, metric: score}


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

    def ages(
        self, methods: Mapping[str, np.ndarray], dataset: str = "aaf", pairs: np.ndarray | None = None
    ) -> "Planted":
        """Predictions of methods: a score for each of the faces of these pairs, or of all more than 5 years apart."""
        pairs = self.drawn() if pairs is None else pairs
        columns = {"topic": _topics(pairs), "items": pairs.tolist()}
        for method, scores in methods.items():
            key = {**_key(dataset, method), "fold": 1, "selection": "validation"}
            self.predictions.append(self._path(dataset, method, "predictions.parquet"))
            table = repeated(key, {**columns, "scores": scores[pairs].tolist()})
            write_table(table, self.predictions[-1], "predictions")
        return self

    def scored(
        self, methods: Mapping[str, np.ndarray], pairs: np.ndarray, dataset: str = "aaf", **options: Any
    ) -> "Planted":
        """Predictions of methods, with their runs."""
        ages = self.true_ages()
        for method, scores in methods.items():
            older, higher = (values[pairs[:, 0]] > values[pairs[:, 1]] for values in (ages, scores))
            self._add(dataset, method, {"topic": _topics(pairs)}, (older == higher).astype(float), n=2, **options)
            self._epochs(dataset, method, 0.9)
        return self.ages(methods, dataset, pairs)

    def true_ages(self) -> np.ndarray:
        """The ages of the faces, whose pictures are written on first use."""
        table, ages = pictures()
        if self.images is None:
            self.images = self.folder / "images.parquet"
            self.folder.mkdir(parents=True, exist_ok=True)
            shape = {"rankbound.images": json.dumps({"shape": [3, SIDE, SIDE]})}
            write_table(table, self.images, "images", metadata=shape)
        return ages

    def drawn(self) -> np.ndarray:
        """All pairs of faces that are more than 5 years apart."""
        ages = self.true_ages().astype(int)
        return np.array([pair for pair in np.ndindex(60, 60) if ages[pair[0]] - ages[pair[1]] > 5])

    def linear(self, method: str, weights: np.ndarray, dataset: str = "aaf") -> "Planted":
        """The weights `(3, SIDE, SIDE)` of a linear model."""
        path = self._path(dataset, method, "weights.safetensors")
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
        """Add a method's runs, with a score for each list that is the same on all metrics."""
        row = _run(_key(dataset, method, **options), n)
        for seed in (0, 1) if "features" in options else (0,):
            self.runs.append(repeated(row | {"seed": seed}, {**columns, **dict.fromkeys(METRICS, scores)}))

    def _path(self, dataset: str, method: str, ending: str) -> Path:
        return self.folder / "runs" / "honest" / dataset / method / "RankNet" / f"none.{ending}"

    def _epochs(self, dataset: str, method: str, score: float) -> None:
        for epoch, drop in ((1, 0.2), (2, 0.0), (3, 0.1)):
            numbers = dict.fromkeys(("mean_loss", "gradient_norm", "nDCG@10", "AP", "PairAccuracy"), score - drop)
            key = {**_key(dataset, method), "fold": 1, "epoch": epoch, "part": "validation"}
            self.epochs.append({**key, **numbers})


def _random(method: str, dataset: str) -> np.random.Generator:
    return np.random.default_rng(list(f"{method} {dataset}".encode()))
