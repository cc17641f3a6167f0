"""Runs of the honest protocol in which differences between boundings are planted: every list's score is known."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from rankbound_study.claims.cells import METRICS, MOVIELENS, MQ2008
from rankbound_study.claims.evidence import Evidence
from rankbound_study.vocabulary import BOUNDED, LOSSES, UNBOUNDED

MEASURED = (*METRICS, "RR", "P@5", "P@10")


@dataclass(frozen=True)
class Lists:
    """The test lists of a run, and what they score without any plant."""

    loss: str
    bounding: str
    nsr: int | None
    metric: str
    topic: np.ndarray
    fold: np.ndarray
    seed: np.ndarray
    n: np.ndarray
    p: np.ndarray
    base: np.ndarray
    random: np.random.Generator


RANDOM = 0.1
"""The score of a random ordering, far below all others: every planted training trained."""

Plant = Callable[[Lists], np.ndarray | float]


@dataclass(frozen=True)
class Study:
    """The planted effects and the size of the study.

    Attributes:
        plant: what a run's lists score beyond their base.
        noise: standard deviation of what each run adds to each list by itself.
        wobble: of what a training adds to all its lists, under all boundings alike: the spread between seeds.
        spread: of what a topic scores at all.
        relevant: the number of relevant items of a topic.
        negatives: for each of them on MQ2008.
    """

    plant: Plant = lambda lists: 0.0
    noise: float = 0.001
    wobble: float = 0.01
    spread: float = 0.1
    topics: int = 60
    folds: int = 2
    seeds: int = 3
    ratios: Sequence[int] = (1, 2, 3)
    losses: Sequence[str] = LOSSES
    boundings: Sequence[str] = (UNBOUNDED, *BOUNDED)
    controls: bool = True
    relevant: Callable[[np.ndarray], np.ndarray] = lambda topic: 5 + topic * 7 % 40
    negatives: int = 6

    def evidence(self, folder: Path) -> Evidence:
        """The results of this study, as claims read them."""
        runs, epochs = folder / "runs.parquet", folder / "epochs.parquet"
        frame = self._frame()
        frame.write_parquet(runs)
        self._epochs(frame).write_parquet(epochs)
        return Evidence("thesis", runs=runs, epochs=epochs)

    @staticmethod
    def _epochs(runs: pl.DataFrame) -> pl.DataFrame:
        """One epoch of every training, whose validation scores are the means of its runs."""
        key = ("study", "protocol", "dataset", "nsr_test", "model", "loss", "bounding", "fold", "seed")
        means = runs.filter(pl.col("loss") != "none").group_by(key).agg(pl.col(METRICS).mean())
        return means.with_columns(epoch=pl.lit(1), part=pl.lit("validation"), gradient_norm=pl.lit(1.0))

    def _frame(self) -> pl.DataFrame:
        keys, lists = zip(*self._runs(), strict=True)
        columns = {name: np.concatenate([of_run[name] for of_run in lists]) for name in lists[0]}
        runs = pl.DataFrame(keys, schema_overrides={"nsr_test": pl.Int8, "epoch": pl.Int32})
        of_lists = runs[np.repeat(np.arange(len(keys)), [len(of_run["topic"]) for of_run in lists])]
        return pl.DataFrame(columns).with_columns(pl.col("topic").cast(pl.String)).hstack(of_lists)

    def _runs(self) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """The key of every run, and the columns of its lists."""
        for column, (dataset, nsr) in enumerate([*((MOVIELENS, nsr) for nsr in self.ratios), (MQ2008, None)]):
            topic, fold, seed = self._lists(nsr, self.seeds)
            for loss in self.losses:
                base = self._base(column, LOSSES.index(loss), topic, fold, seed)
                for bounding in self.boundings:
                    yield self._run(dataset, nsr, loss, bounding, topic, fold, seed, base)
            if self.controls:
                topic, fold, seed = self._lists(nsr, 1)
                for model in ("random", "oracle"):
                    base = np.full(len(topic), RANDOM if model == "random" else 1.0)
                    yield self._run(dataset, nsr, "none", "none", topic, fold, seed, base, model)

    def _lists(self, nsr: int | None, seeds: int) -> tuple[np.ndarray, ...]:
        """Topics of MovieLens have lists in every fold, those of MQ2008 in one."""
        grid = np.meshgrid(np.arange(self.topics), np.arange(self.folds), np.arange(seeds), indexing="ij")
        topic, fold, seed = (part.ravel() for part in grid)
        kept = np.ones(len(topic), bool) if nsr else topic % self.folds == fold
        return topic[kept], fold[kept], seed[kept]

    def _base(self, column: int, loss: int, topic: np.ndarray, fold: np.ndarray, seed: np.ndarray) -> np.ndarray:
        random = np.random.default_rng([column, loss])
        of_topics = np.random.default_rng(7).normal(0, self.spread, self.topics)
        of_lists = random.normal(0, self.spread / 5, (self.topics, self.folds))
        of_trainings = random.normal(0, self.wobble, (self.folds, self.seeds))
        return 0.6 + of_topics[topic] + of_lists[topic, fold] + of_trainings[fold, seed]

    def _run(self, dataset, nsr, loss, bounding, topic, fold, seed, base, model=""):  # type: ignore[no-untyped-def]
        p = self.relevant(topic)
        n = p * (1 + (nsr or self.negatives))
        random = np.random.default_rng([len(loss), len(bounding), nsr or 0, self.topics])
        own = random.normal(0, self.noise, len(topic)) if not model else 0.0
        scores = {}
        for metric in MEASURED:
            lists = Lists(loss, bounding, nsr, metric, topic, fold, seed, n, p, base, random)
            scores[metric] = base + own + (self.plant(lists) if not model else 0.0)
        key = {
            "study": "thesis",
            "protocol": "honest",
            "dataset": dataset,
            "nsr_test": nsr,
            "model": model or "model",
            "loss": loss,
            "bounding": bounding,
            "selection": "last" if model else "validation",
            "epoch": 10,
        }
        return key, {"topic": topic, "fold": fold + 1, "seed": seed, "n": n, "p": p, **scores}


BOUNDED = Study()
"""Nothing planted: bounded losses do as unbounded ones, but for a little noise."""

ONE_SEED = replace(BOUNDED, seeds=1)
NOISY = replace(BOUNDED, noise=0.05, topics=20)


def of_bounded(change: float, *, of: str = "", bounding: str = "", nsr: int | None = -1, metric: str = ""):  # type: ignore[no-untyped-def]
    """A plant: bounded runs change by so much; of one loss, bounding, ratio (None: MQ2008) and metric only."""

    def plant(lists: Lists) -> float:
        found = lists.bounding != "none" and of in ("", lists.loss) and bounding in ("", lists.bounding)
        return change * (found and nsr in (-1, lists.nsr) and metric in ("", lists.metric))

    return plant


def both(*plants):  # type: ignore[no-untyped-def]
    return lambda lists: sum(plant(lists) for plant in plants)


def study(*plants, of: Study = BOUNDED, **changes) -> Study:  # type: ignore[no-untyped-def]
    return replace(of, plant=both(*plants), **changes)


def blurred(**by: float):  # type: ignore[no-untyped-def]
    """A plant: noise in nRBP at each persistence, of that size."""

    def plant(lists: Lists) -> np.ndarray:
        size = by.get(lists.metric.removeprefix("nRBP(p=0.").removesuffix(")").join(("p", "")), 0.0)
        return lists.random.normal(0, 1, 1000)[lists.topic] * size

    return plant


Made = Callable[[Study], Evidence]


@pytest.fixture(scope="module")
def evidence_of(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Makes a study's results, once for all tests of a module."""
    made: dict[Study, Evidence] = {}

    def make(study: Study) -> Evidence:
        if study not in made:
            made[study] = study.evidence(tmp_path_factory.mktemp("study"))
        return made[study]

    return make
