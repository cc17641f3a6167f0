"""Evidence of a second study with planted scores: methods on queries and on pairs of faces, as good as asked for."""

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
from synthetic_comparisons import METRICS, SIDE, _key, _run, _write_predictions, write_images

from rankbound_study.claims.evidence import Evidence
from rankbound_study.data.contracts import write_table

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
        """Add a method's runs, with a score for each list that is the same on all metrics."""
        row = _run(self._key(dataset, method, **options), 1, "", n, 1, 0.0)
        self.runs.append(repeated(row, {**columns, **dict.fromkeys(METRICS, scores)}))

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
