"""Studies with known true effects, drawn again and again: how often does a rule give each verdict?

Every score is a topic's level, plus the effect of a bounding, plus deviations of the topic, the training and the list.
A bounding and its unbounded loss share topics, and all boundings share the unbounded trainings: the cells of a table
depend on each other as they do in the real one.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from rankbound_study.claims.cells import METRICS, MOVIELENS, MQ2008
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.config.experiments import VARIANT
from rankbound_study.vocabulary import BOUNDINGS, LOSSES, UNBOUNDED

RUNS, EPOCHS, EXPERIMENTS, EXPERIMENT_EPOCHS = map(Path, ("runs", "epochs", "experiments", "experiment_epochs"))
STUDY = "thesis"


@dataclass(frozen=True, eq=False)
class Held(Evidence):
    """Results in memory, by the name of their file; a draw is equal to itself only, so that caches tell draws apart."""

    frames: Mapping[Path, pl.DataFrame] = field(default_factory=dict)

    __hash__, __eq__ = object.__hash__, object.__eq__  # type: ignore[assignment]

    def _scan(self, path: Path | None, what: str) -> pl.LazyFrame:  # type: ignore[override]
        assert path is not None, what
        return self.frames[path].lazy()

    @cached_property
    def _data_sets(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(name for frame in self.frames.values() for name in frame["dataset"].unique())


@dataclass(frozen=True)
class Setting:
    """A loss under a bounding on MovieLens at a ratio, or on MQ2008 (None), in the study itself or in a variant."""

    loss: str
    bounding: str
    nsr: int | None
    variant: str = ""
    rate: float = 0.0


Effect = Callable[[Setting], float]


@dataclass(frozen=True)
class World:
    """True effects, and the size and noise of a study of them.

    Attributes:
        effect: by how much a setting's mean score exceeds 0.6.
        settings: the settings that are trained.
        topics, folds, seeds: the size of the study.
        level, own: standard deviations of a topic's level, and of what a setting adds to it.
        training: of what a training adds to all its lists.
        chance: of what remains, for each list.
        relevant: what the number of relevant items of a list (2 to 41) adds, by setting, from -1 to 1 over the topics.
        scatter: the standard deviation of what a setting adds to every list beyond that.
        gradient: the mean gradient norm of a setting in the first epoch.
        validation: the validation score of a setting.
    """

    effect: Effect
    settings: Sequence[Setting]
    topics: int = 60
    folds: int = 2
    seeds: int = 3
    level: float = 0.1
    own: float = 0.02
    training: float = 0.002
    chance: float = 0.02
    relevant: Effect = lambda setting: 0.0
    scatter: Effect = lambda setting: 0.0
    gradient: Effect = lambda setting: 1.0
    validation: Effect = lambda setting: 0.5

    def draw(self, number: int) -> Held:
        """Return the results of one study of this world."""
        random = np.random.default_rng([number, self.topics])
        lists = {nsr: self._lists(nsr) for nsr in {one.nsr for one in self.settings}}
        levels = {nsr: self._levels(random, lists[nsr]) for nsr in lists}
        rows: dict[bool, list[pl.DataFrame]] = {False: [], True: []}
        for one in self.settings:
            frame = lists[one.nsr]
            scores = levels[one.nsr] + self._of(one, random, frame)
            rows[bool(one.variant)].append(self._named(one, frame, scores))
        epochs = {varied: self._epochs(random, varied) for varied in rows}
        tables = {RUNS: rows[False], EXPERIMENTS: rows[True], EPOCHS: epochs[False], EXPERIMENT_EPOCHS: epochs[True]}
        frames = {name: pl.concat(some) for name, some in tables.items() if some}
        paths = dict(zip(("runs", "epochs", "experiments", "experiment_epochs"), tables_in_order(frames), strict=True))
        return Held(STUDY, frames=frames, with_untrained=True, **paths)  # type: ignore[arg-type]

    def _lists(self, nsr: int | None) -> pl.DataFrame:
        """Topics of MovieLens have lists in every fold, those of MQ2008 in one."""
        grid = np.meshgrid(np.arange(self.topics), np.arange(self.folds), np.arange(self.seeds), indexing="ij")
        topic, fold, seed = (part.ravel() for part in grid)
        kept = np.ones(len(topic), bool) if nsr else topic % self.folds == fold
        p = 2 + topic * 17 % 40
        columns = {"topic": topic, "fold": fold, "seed": seed, "n": p * (1 + (nsr or 6)), "p": p}
        return pl.DataFrame({name: column[kept] for name, column in columns.items()})

    def _levels(self, random: np.random.Generator, lists: pl.DataFrame) -> np.ndarray:
        topic, fold = lists["topic"].to_numpy(), lists["fold"].to_numpy()
        of_lists = random.normal(0, self.level / 5, (self.topics, self.folds))
        return 0.6 + random.normal(0, self.level, self.topics)[topic] + of_lists[topic, fold]

    def _of(self, one: Setting, random: np.random.Generator, lists: pl.DataFrame) -> np.ndarray:
        topic, fold, seed, p = (lists[name].to_numpy() for name in ("topic", "fold", "seed", "p"))
        own = random.normal(0, self.own, self.topics)
        trainings = random.normal(0, self.training, (self.folds, self.seeds))
        chance = random.normal(0, np.hypot(self.chance, self.scatter(one)), len(topic))
        by_size = self.relevant(one) * (p - 21.5) / 19.5
        return self.effect(one) + own[topic] + trainings[fold, seed] + chance + by_size

    def _named(self, one: Setting, lists: pl.DataFrame, scores: np.ndarray) -> pl.DataFrame:
        values = pl.Series(scores)
        return lists.with_columns(
            *_key(one),
            pl.col("topic").cast(pl.String),
            pl.col("fold") + 1,
            pl.lit("validation").alias("selection"),
            pl.lit(3).alias("epoch"),
            pl.lit(json.dumps({"learning_rate": one.rate})).alias("options"),
            *(values.alias(metric) for metric in METRICS),
        )

    def _epochs(self, random: np.random.Generator, varied: bool) -> list[pl.DataFrame]:
        trainings = pl.DataFrame({"fold": range(1, self.folds + 1)}).join(
            pl.DataFrame({"seed": range(self.seeds)}), how="cross"
        )
        found = []
        for one in self.settings:
            if bool(one.variant) == varied:
                norms = self.gradient(one) * np.exp(random.normal(0, 0.1, len(trainings)))
                validation = pl.lit(self.validation(one))
                found.append(
                    trainings.with_columns(
                        *_key(one),
                        pl.Series(norms).alias("gradient_norm"),
                        pl.lit("validation").alias("part"),
                        pl.lit(1).alias("epoch"),
                        *(validation.alias(metric) for metric in METRICS),
                    )
                )
        return found


def tables_in_order(frames: Mapping[Path, pl.DataFrame]) -> Iterator[Path | None]:
    """Yield the name of each file, or None if there is none."""
    for name in (RUNS, EPOCHS, EXPERIMENTS, EXPERIMENT_EPOCHS):
        yield name if name in frames else None


def _key(one: Setting) -> Iterator[pl.Expr]:
    yield pl.lit(f"{STUDY}{VARIANT}{one.variant}" if one.variant else STUDY).alias("study")
    yield pl.lit("honest").alias("protocol")
    yield pl.lit(MOVIELENS if one.nsr else MQ2008).alias("dataset")
    yield pl.lit(one.nsr, dtype=pl.Int8).alias("nsr_test")
    yield pl.lit("model").alias("model")
    yield pl.lit(one.loss).alias("loss")
    yield pl.lit(one.bounding).alias("bounding")


def settings(
    losses: Sequence[str] = LOSSES,
    boundings: Sequence[str] = BOUNDINGS,
    ratios: Sequence[int | None] = (1, 2, 3, None),
    variant: str = "",
) -> list[Setting]:
    """Return all combinations."""
    return [Setting(loss, name, nsr, variant) for nsr in ratios for loss in losses for name in boundings]


def of_bounded(effect: Effect | float) -> Effect:
    """Return an effect of bounded losses alone."""

    def of(one: Setting) -> float:
        if one.bounding == UNBOUNDED:
            return 0.0
        return effect(one) if callable(effect) else effect

    return of


def verdicts(claim: str, world: World, repetitions: int, start: int = 0) -> Counter[str]:
    """Count the verdicts on a claim over several studies."""
    return Counter(verdict_on(claim, world.draw(start + number)).verdict for number in range(repetitions))
