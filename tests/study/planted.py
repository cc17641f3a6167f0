"""Planted studies: results whose true effects are known, drawn in memory again and again, or written once to files.

Every score is a topic's level, plus what is planted, plus deviations of the topic, the training and the list. A
bounding and its unbounded loss share topics, and all boundings share the unbounded trainings: the cells of a table
depend on each other as they do in the real one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from rankbound_study.claims.evidence import MOVIELENS, MQ2008, Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import EPOCH_METRICS, RUN_METRICS
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import BOUNDINGS, CONTROLS, LOSSES, UNBOUNDED, VARIANT

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


@dataclass(frozen=True, kw_only=True)
class Lists(Setting):
    """The test lists of a setting by a metric, and what they score without any plant."""

    metric: str
    topic: np.ndarray
    n: np.ndarray
    p: np.ndarray
    base: np.ndarray
    random: np.random.Generator


Plant = Callable[[Lists], np.ndarray | float]


@dataclass(frozen=True, eq=False)
class World:
    """True effects, and the size and noise of a study of them.

    Attributes:
        effect: by how much a setting's mean score exceeds 0.6.
        settings: the settings that are trained.
        topics, folds, seeds, drawings: the size of the study; seeds take turns in the drawings.
        level, own: standard deviations of a topic's level, and of what a setting adds to it.
        training, shared: of what a training adds to all its lists, and all trainings of a loss with its fold and seed.
        chance: of what remains, for each list.
        sizes, negatives: the number of relevant items by topic, and of others on MQ2008 for each of them.
        relevant: what the number of relevant items of a list (2 to 41) adds, by setting, from -1 to 1 over the topics.
        scatter: the standard deviation of what a setting adds to every list beyond that.
        plant: what lists score beyond that, by metric.
        gradient: the mean gradient norm of a setting in the first epoch.
        validation: the validation score of a setting; without it, the mean of its lists.
        change: changes the lists of a setting, or leaves some out.
        controls: controls with their scores.
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
    shared: float = 0.0
    chance: float = 0.02
    sizes: Callable[[np.ndarray], np.ndarray] = lambda topic: 2 + topic * 17 % 40
    negatives: int = 6
    relevant: Effect = lambda setting: 0.0
    scatter: Effect = lambda setting: 0.0
    plant: Plant | None = None
    gradient: Effect = lambda setting: 1.0
    validation: Effect | None = lambda setting: 0.5
    change: Callable[[Setting, pl.DataFrame], pl.DataFrame] = lambda setting, rows: rows
    controls: Mapping[str, float] = field(default_factory=dict)

    def draw(self, number: int = 0) -> Held:
        """Return the results of one study of this world."""
        frames = self.frames(number)
        paths = {name.name: name for name in frames}
        return Held(STUDY, frames=frames, with_untrained=True, **paths)  # type: ignore[arg-type]

    def files(self, folder: Path, number: int = 0) -> Evidence:
        """Write them to files, as the workflow does; what is read of evidence is kept by its paths."""
        folder.mkdir(exist_ok=True)
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
        trainings = dict.fromkeys((one.nsr, one.loss) for one in self.settings)
        shared = {cell: random.normal(0, self.shared, (self.folds, self.seeds)) for cell in trainings if self.shared}
        rows = {one: self._runs(random, one, lists[one.nsr], levels[one.nsr], shared) for one in self.settings}
        tables: list[list[pl.DataFrame]] = [[frame for one, frame in rows.items() if not one.variant]]
        tables[0] += [self._control(lists[nsr], nsr, *control) for nsr in lists for control in self.controls.items()]
        tables += [self._epochs(random, rows, varied=False), [frame for one, frame in rows.items() if one.variant]]
        tables += [self._epochs(random, rows, varied=True)]
        return {name: pl.concat(some) for name, some in zip(TABLES, tables, strict=True) if some}

    def _lists(self, nsr: int | None) -> pl.DataFrame:
        topic, fold, seed = grid(self.topics, self.folds, self.seeds, judged=nsr is None)
        p = self.sizes(topic)
        drawing = seed % self.drawings if nsr else 0 * seed
        sizes = {"n": p * (1 + (nsr or self.negatives)), "p": p}
        return pl.DataFrame({"topic": topic, "fold": fold, "seed": seed, "drawing": drawing, **sizes})

    def _levels(self, random: np.random.Generator, lists: pl.DataFrame) -> np.ndarray:
        topic, fold = lists["topic"].to_numpy(), lists["fold"].to_numpy()
        of_lists = random.normal(0, self.level / 5, (self.topics, self.folds))
        return 0.6 + random.normal(0, self.level, self.topics)[topic] + of_lists[topic, fold]

    def _runs(
        self,
        random: np.random.Generator,
        one: Setting,
        lists: pl.DataFrame,
        level: np.ndarray,
        shared: Mapping[tuple[int | None, str], np.ndarray],
    ) -> pl.DataFrame:
        """Return the lists of a setting with their scores."""
        topic, fold, seed, n, p = (lists[name].to_numpy() for name in ("topic", "fold", "seed", "n", "p"))
        own = random.normal(0, self.own, self.topics)
        trainings = random.normal(0, self.training, (self.folds, self.seeds))
        chance = random.normal(0, np.hypot(self.chance, self.scatter(one)), len(topic))
        base = level + shared[one.nsr, one.loss][fold, seed] if shared else level
        by_size = self.relevant(one) * (p - 21.5) / 19.5
        scores = base + self.effect(one) + own[topic] + trainings[fold, seed] + chance + by_size
        if self.plant is None:
            values = dict.fromkeys(RUN_METRICS, pl.Series(scores))
        else:
            about = {**vars(one), "topic": topic, "n": n, "p": p, "base": base, "random": random}
            planted = {metric: self.plant(Lists(metric=metric, **about)) for metric in RUN_METRICS}
            values = {metric: pl.Series(scores + change) for metric, change in planted.items()}
        return self.change(one, self._named(lists, one).with_columns(**values))

    def _control(self, lists: pl.DataFrame, nsr: int | None, model: str, score: float) -> pl.DataFrame:
        rows = self._named(lists.filter(seed=0), Setting("none", "none", nsr))
        changes = {"model": pl.lit(model), "selection": pl.lit("last"), **dict.fromkeys(RUN_METRICS, pl.lit(score))}
        return rows.with_columns(**changes)

    @staticmethod
    def _named(lists: pl.DataFrame, one: Setting) -> pl.DataFrame:
        facts = {"topic": pl.col("topic").cast(pl.String), "fold": pl.col("fold") + 1, "epoch": pl.lit(3)}
        return lists.with_columns(**one.key(), **facts, selection=pl.lit("validation"))

    def _epochs(
        self, random: np.random.Generator, rows: Mapping[Setting, pl.DataFrame], *, varied: bool
    ) -> list[pl.DataFrame]:
        """Return an epoch of every training."""
        trainings = pl.DataFrame({"fold": range(1, self.folds + 1)}).join(
            pl.DataFrame({"seed": range(self.seeds)}), how="cross"
        )
        names = (*EPOCH_METRICS, "RR")
        made = []
        for one in (one for one in self.settings if bool(one.variant) == varied):
            norm = pl.Series(self.gradient(one) * np.exp(random.normal(0, 0.1, len(trainings))))
            facts = {"part": pl.lit("validation"), "epoch": pl.lit(1), "mean_loss": pl.lit(0.5)}
            own = trainings.with_columns(**one.key(), gradient_norm=norm, **facts)
            if self.validation is None:
                means = rows[one].group_by("fold", "seed").agg(pl.col(names).mean())
                made.append(own.join(means, on=["fold", "seed"], maintain_order="left"))
            else:
                made.append(own.with_columns(**dict.fromkeys(names, pl.lit(self.validation(one)))))
        return made


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


# The main runs of the study, with effects on lists

RANDOM = 0.1  # the score of a random ordering, far below all others: every planted training trained


def main_runs(
    ratios: Sequence[int] = (1, 2, 3),
    losses: Sequence[str] = LOSSES,
    boundings: Sequence[str] = BOUNDINGS,
    **changes: Any,
) -> World:
    """Return a world in which bounded losses do as unbounded ones, but for a little noise."""
    sizes = {"own": 0.0, "training": 0.0, "shared": 0.01, "chance": 0.001, "folds": 2, "validation": None}
    more = {"controls": {"random": RANDOM, "oracle": 1.0}, "sizes": lambda topic: 5 + topic * 7 % 40}
    return World(lambda one: 0.0, settings(losses, boundings, [*ratios, None]), **(sizes | more | changes))


STILL = main_runs()
ONE_SEED = replace(STILL, seeds=1)
NOISY = replace(STILL, chance=0.05, topics=20)


def of_bounded(change: float, *, of: str = "", bounding: str = "", nsr: int | None = -1, metric: str = "") -> Plant:
    """A plant: bounded runs change by so much; of one loss, bounding, ratio (None: MQ2008) and metric only."""

    def plant(lists: Lists) -> float:
        found = lists.bounding != "none" and of in ("", lists.loss) and bounding in ("", lists.bounding)
        return change * (found and nsr in (-1, lists.nsr) and metric in ("", lists.metric))

    return plant


def study(*plants: Plant, of: World = STILL, **changes: Any) -> World:
    """Return the main runs with the sum of these plants."""
    return replace(of, plant=lambda lists: sum(plant(lists) for plant in plants), **changes)


def blurred(**by: float) -> Plant:
    """A plant: noise in nRBP at each persistence, of that size."""

    def plant(lists: Lists) -> np.ndarray:
        size = by.get(lists.metric.removeprefix("nRBP(p=0.").removesuffix(")").join(("p", "")), 0.0)
        return lists.random.normal(0, 1, 1000)[lists.topic] * size

    return plant


@lru_cache(8)
def drawn(world: World) -> Held:
    """Return one study of a world, for all tests that ask for it one after another."""
    return world.draw()


# Systems that are as good as asked for

MINE = "mine"
TOPICS = 60

System = tuple[str, str, str, str]  # variant, model, loss and bounding


@dataclass
class PlantedSystems:
    """Scores of systems by topic; those of validation decide the order.

    Every tenth topic has no relevant item. Folds share out the topics; list lengths grow with their number.
    """

    folder: Path
    seeds: Sequence[int] = (0,)
    dataset: str = "web-label1"
    tables: dict[str, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))

    def add(
        self, system: System, scores: Sequence[float], validation: float = 0.5, *, options: str = "{}", **changes: Any
    ) -> "PlantedSystems":
        """Add a system with a score per topic, the same on all metrics and in all seeds; `changes` are other keys.

        With a `selection` of its own, these are the runs of other epochs of a system that has been added.
        """
        variant, model, loss, bounding = system
        study = {"study": f"{MINE}@{variant}" if variant else MINE, "protocol": "honest"}
        data = {"dataset": self.dataset, "nsr_train": None, "nsr_test": None}
        key = {**study, **data, "model": model, "options": options, "loss": loss, "bounding": bounding}
        topics, is_control = np.arange(TOPICS), loss == "none"
        known = topics % 10 != 9
        lists = {"fold": topics % 2 + 1, "topic": [f"q{topic:02}" for topic in topics], "n": 5 + topics // 6}
        lists |= {"p": 2 * known, **dict.fromkeys(RUN_METRICS, np.where(known, scores, np.nan))}
        last = {"selection": "last" if is_control else "validation", "epoch": 0 if is_control else 3, "drawing": 0}
        course = {"part": "validation", "mean_loss": 0.0, "gradient_norm": 1.0}
        steps = {"fold": [1, 1, 2, 2], "epoch": [2, 3] * 2}
        steps |= dict.fromkeys(EPOCH_METRICS, [validation + 0.3, validation] * 2)
        for seed in (0,) if is_control else self.seeds:
            row = key | {"seed": seed}
            self.tables["experiments" if variant else "runs"].append(repeated(row | last | changes, lists))
            if not (is_control or "selection" in changes):
                epochs = self.tables["experiment_epochs" if variant else "epochs"]
                epochs.append(repeated(row | course | changes, steps))
        return self

    def files(self) -> StudyFiles:
        """Write the tables, those of variants apart, as the workflow does."""
        self.folder.mkdir(exist_ok=True)
        paths = {name: self.folder / f"{name}.parquet" for name in self.tables}
        for name, path in paths.items():
            write_table(joined(self.tables[name]), path, "epochs" if "epochs" in name else "runs")
        return StudyFiles(**paths)


def control(name: str) -> System:
    """A control as a system."""
    assert name in CONTROLS
    return "", name, "none", "none"


def noise(seed: int, size: float = 0.02) -> np.ndarray:
    """Noise of one system's scores."""
    return np.random.default_rng(seed).normal(0, size, TOPICS)


# Runs tables with every column of the contract, and scores that look like scores

SETS = (("movielens", 1), ("movielens", 2), ("movielens", 3), ("mq2008-label2", None), ("mq2008-label1", None))
KNOWING = {"random": -2.2, "popularity": 0.2, "oracle": np.inf}
"""Controls, and by how much they score more than models, in log-odds."""


def write_runs(
    path: Path,
    *,
    sets: Sequence[tuple[str, int | None]] = SETS,
    boundings: Sequence[str] = BOUNDINGS,
    protocols: Iterable[str] = ("published",),
    topics: int = 60,
    folds: int = 5,
    seeds: int = 1,
    controls: bool = True,
    skip: Collection[tuple[str, str]] = (),
) -> Path:
    """Write a runs table; `skip` holds the (data set, bounding) pairs that were not run.

    Scores of all seeds are those of the lists, moved by the bounding; the distribution bound of nDCG collapses.
    """
    systems = [("", loss, bounding) for loss, bounding in product(LOSSES, boundings)]
    systems += [(name, "none", "none") for name in KNOWING] * controls
    tables: list[pa.Table] = []
    for protocol, (dataset, nsr), (control, loss, bounding) in product(protocols, sets, systems):
        if not control and (dataset, bounding) in skip:
            continue
        key = {"study": STUDY, "protocol": protocol, "dataset": dataset, "nsr_train": nsr, "nsr_test": nsr}
        key |= {"model": control or ("matrix-factorisation" if nsr else "network"), "options": "{}", "loss": loss}
        key |= {"bounding": bounding, "selection": "test" if protocol == "published" else "validation"}
        shift = KNOWING.get(control, 0.02 * BOUNDINGS.index(bounding) if bounding in BOUNDINGS else 0.05)
        shift -= 1.0 * (bounding.startswith("distribution") and loss == "nDCG" and nsr is not None)
        lists, count = _lists(len(dataset), nsr, topics, folds), 1 if control else seeds
        columns = {name: np.tile(column, count) for name, column in lists.items()}
        size = len(RUN_METRICS), len(columns["own"])
        noise = np.random.default_rng([len(bounding), len(loss)]).normal(0, 0.08, size)
        odds = columns.pop("own") + shift + noise - 0.03 * np.arange(len(RUN_METRICS))[:, None]
        columns["seed"] = np.repeat(np.arange(count), len(lists["p"]))
        columns |= dict(zip(RUN_METRICS, 1 / (1 + np.exp(-odds)), strict=True))
        tables.append(repeated(key | {"drawing": 0, "epoch": 10}, columns))
    write_table(joined(tables), path, "runs")
    return path


@cache
def _lists(seed: int, nsr: int | None, topics: int, folds: int) -> dict[str, np.ndarray]:
    """Sampled data sets have every topic in every fold, judged ones each topic in one, some without relevant items."""
    random = np.random.default_rng(seed)
    topic, fold, _ = grid(topics, folds, 1, judged=nsr is None)
    p = np.clip(5 * np.exp(random.exponential(0.9, topics)), 5, 246).astype(int)
    n = p * (1 + (nsr or 0))
    if nsr is None:
        n = np.where(np.arange(topics) % 4 == 0, random.integers(5, 121, topics), 8)
        p = random.integers(0, np.maximum(2, n // 3))
    level = np.where(p > 0, 3.4 - 0.4 * (nsr or 4), np.nan)
    own = level[topic] + random.normal(0, 0.6, len(topic))
    return {"fold": fold + 1, "topic": topic.astype(str), "n": n[topic], "p": p[topic], "own": own}
