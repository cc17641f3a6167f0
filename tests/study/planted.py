"""Planted studies: results whose true effects are known, drawn in memory again and again, or written once to files.

Every score is a topic's level, plus what is planted, plus deviations of the topic, the training and the list. A
bounding and its unbounded loss share topics, and all boundings share the unbounded trainings: the cells of a table
depend on each other as they do in the real one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rankbound_study.claims.evidence import METRICS, MOVIELENS, MQ2008, Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import EPOCH_METRICS, RUN_METRICS
from rankbound_study.vocabulary import BOUNDED, BOUNDINGS, LOSSES, UNBOUNDED, VARIANT

STUDY = "thesis"
RUNS, EPOCHS, EXPERIMENTS, EXPERIMENT_EPOCHS = map(Path, ("runs", "epochs", "experiments", "experiment_epochs"))
TABLES = (RUNS, EPOCHS, EXPERIMENTS, EXPERIMENT_EPOCHS)


def repeated(row: Mapping[str, object], columns: Mapping[str, Any]) -> pa.Table:
    """Return a table of that row, repeated, with these columns beside its values or in their place."""
    count = len(next(iter(columns.values())))
    return pa.table({name: [value] * count for name, value in row.items()} | dict(columns))


def joined(tables: Iterable[pa.Table]) -> pa.Table:
    """Return the tables one below the other; a column without values in one has the type that it has in others."""
    return pa.concat_tables(tables, promote_options="default")


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
    """A loss under a bounding on MovieLens at a ratio, or on MQ2008 (None), in the study itself or in a variant.

    `options` are those of its runs; `trained_at` is the ratio of its training, by default that of the test.
    """

    loss: str
    bounding: str
    nsr: int | None
    variant: str = ""
    options: str = "{}"
    trained_at: int | None = None
    dataset: str = ""

    def key(self) -> dict[str, pl.Expr]:
        """Return the columns that identify its runs."""
        texts = {
            "study": f"{STUDY}{VARIANT}{self.variant}" if self.variant else STUDY,
            "protocol": "honest",
            "dataset": self.dataset or (MOVIELENS if self.nsr else MQ2008),
            "model": "model",
            "options": self.options,
            "loss": self.loss,
            "bounding": self.bounding,
        }
        ratios = {"nsr_train": self.trained_at or self.nsr, "nsr_test": self.nsr}
        return {name: pl.lit(text) for name, text in texts.items()} | {
            name: pl.lit(ratio, dtype=pl.Int8) for name, ratio in ratios.items()
        }


def grid(topics: int, folds: int, seeds: int, *, judged: bool) -> tuple[np.ndarray, ...]:
    """Return topic, fold and seed of every list: sampled topics have lists in every fold, judged ones in one."""
    every = np.meshgrid(np.arange(topics), np.arange(folds), np.arange(seeds), indexing="ij")
    topic, fold, seed = (part.ravel() for part in every)
    kept = topic % folds == fold if judged else np.ones(len(topic), bool)
    return topic[kept], fold[kept], seed[kept]


Effect = Callable[[Setting], float]


@dataclass(frozen=True)
class World:
    """True effects, and the size and noise of a study of them.

    Attributes:
        effect: by how much a setting's mean score exceeds 0.6.
        settings: the settings that are trained.
        topics, folds, seeds, drawings: the size of the study; seeds take turns in the drawings.
        level, own: standard deviations of a topic's level, and of what a setting adds to it.
        training: of what a training adds to all its lists.
        chance: of what remains, for each list.
        relevant: what the number of relevant items of a list (2 to 41) adds, by setting, from -1 to 1 over the topics.
        scatter: the standard deviation of what a setting adds to every list beyond that.
        metric: what a setting adds on one metric alone.
        gradient: the mean gradient norm of a setting in the first epoch.
        validation: the validation score of a setting.
        change: changes the lists of a setting, or leaves some out.
    """

    effect: Effect
    settings: Sequence[Setting]
    topics: int = 60
    folds: int = 5
    seeds: int = 3
    drawings: int = 1
    level: float = 0.1
    own: float = 0.02
    training: float = 0.002
    chance: float = 0.02
    relevant: Effect = lambda setting: 0.0
    scatter: Effect = lambda setting: 0.0
    metric: Callable[[Setting, str], float] = lambda setting, metric: 0.0
    gradient: Effect = lambda setting: 1.0
    validation: Effect = lambda setting: 0.5
    change: Callable[[Setting, pl.DataFrame], pl.DataFrame] = lambda setting, rows: rows

    def draw(self, number: int = 0) -> Held:
        """Return the results of one study of this world."""
        frames = self.frames(number)
        paths = {name.name: name for name in frames}
        return Held(STUDY, frames=frames, with_untrained=True, **paths)  # type: ignore[arg-type]

    def files(self, folder: Path, number: int = 0) -> Evidence:
        """Write them to files, as the workflow does."""
        paths = {}
        for name, frame in self.frames(number).items():
            contract = "epochs" if "epochs" in name.name else "runs"
            paths[name.name] = folder / f"{name}.parquet"
            write_table(frame.to_arrow(), paths[name.name], contract)
        return Evidence(STUDY, **paths)

    def frames(self, number: int) -> dict[Path, pl.DataFrame]:
        """Return the tables of one study by the name of their file."""
        random = np.random.default_rng([number, self.topics])
        lists = {nsr: self._lists(nsr) for nsr in {one.nsr for one in self.settings}}
        levels = {nsr: self._levels(random, lists[nsr]) for nsr in lists}
        rows: dict[bool, list[pl.DataFrame]] = {False: [], True: []}
        for one in self.settings:
            frame = lists[one.nsr]
            scores = levels[one.nsr] + self._of(one, random, frame)
            rows[bool(one.variant)].append(self._named(one, frame, scores))
        epochs = {varied: self._epochs(random, varied) for varied in rows}
        tables = zip(TABLES, (rows[False], epochs[False], rows[True], epochs[True]), strict=True)
        return {name: pl.concat(some) for name, some in tables if some}

    def _lists(self, nsr: int | None) -> pl.DataFrame:
        topic, fold, seed = grid(self.topics, self.folds, self.seeds, judged=nsr is None)
        p = 2 + topic * 17 % 40
        drawing = seed % self.drawings if nsr else 0 * seed
        sizes = {"n": p * (1 + (nsr or 6)), "p": p}
        return pl.DataFrame({"topic": topic, "fold": fold, "seed": seed, "drawing": drawing, **sizes})

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
        facts = {"topic": pl.col("topic").cast(pl.String), "fold": pl.col("fold") + 1, "epoch": pl.lit(3)}
        rows = lists.with_columns(**one.key(), **facts, selection=pl.lit("validation"))
        own = {metric: self.metric(one, metric) for metric in RUN_METRICS}
        values = {by: pl.Series(scores + by) for by in set(own.values())}
        return self.change(one, rows.with_columns(values[by].alias(metric) for metric, by in own.items()))

    def _epochs(self, random: np.random.Generator, varied: bool) -> list[pl.DataFrame]:
        trainings = pl.DataFrame({"fold": range(1, self.folds + 1)}).join(
            pl.DataFrame({"seed": range(self.seeds)}), how="cross"
        )
        return [
            trainings.with_columns(
                **one.key(),
                gradient_norm=pl.Series(self.gradient(one) * np.exp(random.normal(0, 0.1, len(trainings)))),
                part=pl.lit("validation"),
                epoch=pl.lit(1),
                mean_loss=pl.lit(0.5),
                **dict.fromkeys((*EPOCH_METRICS, "RR"), pl.lit(self.validation(one))),
            )
            for one in self.settings
            if bool(one.variant) == varied
        ]


def settings(
    losses: Sequence[str] = LOSSES,
    boundings: Sequence[str] = BOUNDINGS,
    ratios: Sequence[int | None] = (1, 2, 3, None),
    variant: str = "",
    **more: Any,
) -> list[Setting]:
    """Return all combinations."""
    return [Setting(loss, name, nsr, variant, **more) for nsr in ratios for loss in losses for name in boundings]


def where_bounded(effect: Effect | float) -> Effect:
    """Return an effect of bounded losses alone."""

    def of(one: Setting) -> float:
        if one.bounding == UNBOUNDED:
            return 0.0
        return effect(one) if callable(effect) else effect

    return of


BOUNDS = ("none", "min-max", "distribution")


def usual(one: Setting) -> float:
    """The level of a loss and a bounding in a study whose losses have a clear order."""
    known = one.loss in LOSSES and one.bounding in BOUNDS
    return 0.02 * LOSSES.index(one.loss) + 0.005 * BOUNDS.index(one.bounding) if known else 0.0


def raised(by: float) -> Effect:
    """The same levels, higher by so much."""
    return lambda one: usual(one) + by


def beside(
    nsr: int | None,
    variants: Mapping[str, Effect],
    *,
    losses: Sequence[str] = LOSSES,
    bounds: Sequence[str] = BOUNDS,
    **changes: Any,
) -> World:
    """Return the study's own runs on one data set, and variants of some losses, each with its own levels."""
    some = [one for name in variants for one in settings(losses, bounds, (nsr,), name)]
    size = {"topics": 30, "own": 0.004, "training": 0.0005, "chance": 0.004}
    return World(
        lambda one: variants.get(one.variant, usual)(one),
        [*settings(boundings=BOUNDS, ratios=(nsr,)), *some],
        **(size | changes),
    )


def joint(*worlds: World) -> World:
    """Return the first world with the settings of all, each with its own effect."""
    effects = {one: each.effect for each in reversed(worlds) for one in each.settings}
    some = dict.fromkeys(one for each in worlds for one in each.settings)
    return replace(worlds[0], settings=list(some), effect=lambda one: effects[one](one))


def verdicts(claim: str, world: World, repetitions: int, start: int = 0) -> Counter[str]:
    """Count the verdicts on a claim over several studies."""
    return Counter(verdict_on(claim, world.draw(start + number)).verdict for number in range(repetitions))


@dataclass(frozen=True)
class Lists:
    """The test lists of a run, and what they score without any plant."""

    loss: str
    bounding: str
    nsr: int | None
    metric: str
    topic: np.ndarray
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
        """The results of this study, as claims read them: one epoch of every training, with the means of its runs."""
        runs, epochs = folder / "runs.parquet", folder / "epochs.parquet"
        frame = pl.concat(self._runs())
        frame.write_parquet(runs)
        key = (*Setting("", "", None).key(), "fold", "seed")
        means = frame.filter(pl.col("loss") != "none").group_by(key).agg(pl.col(METRICS).mean())
        of_epoch = {"epoch": pl.lit(1), "part": pl.lit("validation"), "gradient_norm": pl.lit(1.0)}
        means.with_columns(**of_epoch).write_parquet(epochs)
        return Evidence(STUDY, runs=runs, epochs=epochs)

    def _runs(self) -> Iterator[pl.DataFrame]:
        for column, nsr in enumerate([*self.ratios, None]):
            for loss in self.losses:
                topic, fold, seed = lists = grid(self.topics, self.folds, self.seeds, judged=nsr is None)
                random = np.random.default_rng([column, LOSSES.index(loss)])
                of_topics = np.random.default_rng(7).normal(0, self.spread, self.topics)
                of_lists = random.normal(0, self.spread / 5, (self.topics, self.folds))
                of_trainings = random.normal(0, self.wobble, (self.folds, self.seeds))
                base = 0.6 + of_topics[topic] + of_lists[topic, fold] + of_trainings[fold, seed]
                for bounding in self.boundings:
                    yield self._run(Setting(loss, bounding, nsr), *lists, base)
            for model, score in {"random": RANDOM, "oracle": 1.0}.items() if self.controls else ():
                lists = grid(self.topics, self.folds, 1, judged=nsr is None)
                yield self._run(Setting("none", "none", nsr), *lists, np.full(len(lists[0]), score), model)

    def _run(self, one: Setting, topic, fold, seed, base, model="") -> pl.DataFrame:  # type: ignore[no-untyped-def]
        p = self.relevant(topic)
        n = p * (1 + (one.nsr or self.negatives))
        random = np.random.default_rng([len(one.loss), len(one.bounding), one.nsr or 0, self.topics])
        own = random.normal(0, self.noise, len(topic)) if not model else 0.0
        columns = {"topic": topic, "fold": fold + 1, "seed": seed, "drawing": 0 * seed, "n": n, "p": p}
        for metric in (*METRICS, "RR", "P@5", "P@10"):
            lists = Lists(one.loss, one.bounding, one.nsr, metric, topic, n, p, base, random)
            columns[metric] = base + own + (self.plant(lists) if not model else 0.0)
        facts = one.key() | {"selection": pl.lit("last" if model else "validation"), "epoch": pl.lit(10, pl.Int32)}
        return pl.DataFrame(columns).with_columns(
            pl.col("topic").cast(pl.String), **facts | ({"model": pl.lit(model)} if model else {})
        )


STILL = Study()
"""Nothing planted: bounded losses do as unbounded ones, but for a little noise."""

ONE_SEED = replace(STILL, seeds=1)
NOISY = replace(STILL, noise=0.05, topics=20)


def of_bounded(change: float, *, of: str = "", bounding: str = "", nsr: int | None = -1, metric: str = ""):  # type: ignore[no-untyped-def]
    """A plant: bounded runs change by so much; of one loss, bounding, ratio (None: MQ2008) and metric only."""

    def plant(lists: Lists) -> float:
        found = lists.bounding != "none" and of in ("", lists.loss) and bounding in ("", lists.bounding)
        return change * (found and nsr in (-1, lists.nsr) and metric in ("", lists.metric))

    return plant


def study(*plants, of: Study = STILL, **changes) -> Study:  # type: ignore[no-untyped-def]
    return replace(of, plant=lambda lists: sum(plant(lists) for plant in plants), **changes)


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
