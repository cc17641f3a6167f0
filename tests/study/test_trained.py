"""Trainings that did not train are named, and no others: planted gains, gradients, losses and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound_study.results.trained import (
    AT_RANDOM,
    STILL,
    TRAINING,
    UNCHANGED,
    VANISHED,
    VANISHING,
    read_trainings,
    untrained_counts,
)

TOPICS = 200


@dataclass(frozen=True)
class Planted:
    """A job of one fold and three seeds: what its lists gain over a random ordering, and what its epochs record.

    `gain` is a share of the room above a random ordering; `spread` that of its noise; `gradients` the norms by epoch.
    """

    gain: float
    spread: float = 0.1
    gradients: tuple[float, ...] = (1e-3, 1e-3, 1e-3)
    losses: tuple[float, ...] = (-0.6, -0.7, -0.8)
    metrics: tuple[float, ...] = (0.6, 0.7, 0.8)
    options: str = "{}"


STUCK = Planted(0.0)
GOOD = Planted(0.9)


def key(job: str, seed: int, options: str) -> dict[str, object]:
    return {
        "study": "thesis", "protocol": "honest", "dataset": "movielens", "nsr_train": 2, "nsr_test": 2, "model": "mf",
        "options": options, "loss": "nDCG", "bounding": job, "fold": 1, "seed": seed,
    }  # fmt: skip


def written(folder: Path, jobs: Mapping[str, Planted], topics: int = TOPICS) -> tuple[Path, Path]:
    p = 5 + np.arange(topics) * 7 % 40
    n = 3 * p
    expected = rb.expectation("nDCG", n, p)
    lists = {"topic": np.arange(topics).astype(str), "n": n, "p": p}
    control = key("none", 0, "{}") | {"model": "random", "loss": "none"}
    runs = [pl.DataFrame(lists | {"nDCG": expected}).with_columns(selection=pl.lit("last"), **literals(control))]
    epochs = []
    for place, (job, planted) in enumerate(jobs.items()):
        for seed in range(3):
            noise = np.random.default_rng([place, seed]).normal(0, planted.spread, topics)
            scores = expected + (1 - expected) * (planted.gain + noise)
            own = literals(key(job, seed, planted.options))
            runs.append(pl.DataFrame(lists | {"nDCG": scores}).with_columns(selection=pl.lit("validation"), **own))
            path = {"gradient_norm": planted.gradients, "mean_loss": planted.losses, "nDCG": planted.metrics}
            steps = pl.DataFrame({name: list(values) for name, values in path.items()}).with_row_index("epoch", 1)
            epochs.append(steps.with_columns(part=pl.lit("validation"), **own))
    files = folder / "runs.parquet", folder / "epochs.parquet"
    pl.concat(runs, how="diagonal").write_parquet(files[0])
    pl.concat(epochs).write_parquet(files[1])
    return files


def literals(values: Mapping[str, object]) -> dict[str, pl.Expr]:
    return {name: pl.lit(value) for name, value in values.items()}


def moving(unit: float, *losses: float) -> Planted:
    """A network whose random start ranks far from a random ordering, in a unit of its loss, which is its gradient."""
    of_unit = tuple(unit * value for value in losses)
    return Planted(0.4, losses=of_unit, metrics=(0.7, 0.7 + STILL / 3, 0.7), gradients=(unit,) * 3)


FEW = {name: Planted(gain, spread=0.4) for name, gain in (("none", 0.7), ("min-max", 0.5), ("expectation", 0.8))}
TREES = Planted(0.9, gradients=(float("nan"),) * 3, losses=(1.0,) * 3, metrics=(0.8,) * 3)
CASES: list[Mapping[str, Planted | tuple[Planted, str]]] = [
    {"distribution": (STUCK, AT_RANDOM)},
    # Models that rank badly, but not at random.
    *({"bad": Planted(gain)} for gain in (0.15, 0.3, -0.4)),
    # A gain that is significant, but a fiftieth of the best.
    {"moved": (Planted(0.018, spread=0.01), AT_RANDOM)},
    # Noise, also of the unbounded loss.
    dict.fromkeys(("none", "min-max"), (Planted(0.0, 0.3), AT_RANDOM)),
    FEW,
    # A vanishing gradient counts whatever the scores are, but not after training, nor where there is none.
    *({"distribution": (replace(GOOD, gradients=(norm,) * 3), VANISHING)} for norm in (0.0, VANISHED / 2)),
    {"none": replace(GOOD, gradients=(1e-3, 0.0, 0.0))},
    {"none": TREES},
    *(
        {"unmoved": (moving(unit, -0.7, -0.7001, -0.7002), UNCHANGED), "moving": moving(unit, -0.7, -0.71, -0.72)}
        for unit in (1e-6, 1.0, 1e4)
    ),
]
"""Jobs beside an unbounded loss that learns, those that did not train with the cause."""


@pytest.mark.parametrize("case", CASES)
def test_trainings_that_did_not_train_are_named(
    tmp_path: Path, case: Mapping[str, Planted | tuple[Planted, str]]
) -> None:
    every = {
        job: made if isinstance(made, tuple) else (made, None) for job, made in ({"none": GOOD} | dict(case)).items()
    }
    jobs = {job: planted for job, (planted, _) in every.items()}
    table = read_trainings(written(tmp_path, jobs, 12 if case is FEW else TOPICS))
    assert {job: set(table.filter(bounding=job)["cause"]) for job in jobs} == {
        job: {of} for job, (_, of) in every.items()
    }


def test_lists_of_another_size_than_the_controls_have_the_expectation_of_their_size(tmp_path: Path) -> None:
    runs, epochs = written(tmp_path, {"none": GOOD, "distribution": STUCK})
    frame = pl.read_parquet(runs)
    few = '{"test_relevant": 1}'
    n, p = frame["n"].to_numpy() - frame["p"].to_numpy() + 1, np.ones(len(frame), np.int64)
    stuck = pl.Series(rb.expectation("nDCG", n, p) + np.random.default_rng(0).normal(0, 0.01, len(frame)))
    experiment = frame.with_columns(
        n=pl.Series(n), p=pl.Series(p), options=pl.lit(few), study=pl.lit("thesis@one"),
        nDCG=pl.when(pl.col("bounding") == "none").then(0.9).otherwise(stuck),
    ).filter(pl.col("loss") != "none")  # fmt: skip
    other = tmp_path / "experiments.parquet"
    experiment.write_parquet(other)
    table = read_trainings((runs, epochs), (other, None)).filter(pl.col("study") == "thesis@one")
    assert dict(table.group_by("bounding").agg(pl.col("cause").first()).rows()) == {
        "none": None,
        "distribution": AT_RANDOM,
    }


def test_without_a_random_control_or_epochs_nothing_is_named(tmp_path: Path) -> None:
    runs, _ = written(tmp_path, {"none": GOOD, "distribution": replace(STUCK, gradients=(0.0,) * 3)})
    pl.read_parquet(runs).filter(pl.col("loss") != "none").write_parquet(runs)
    table = read_trainings((runs, None), (None, None))
    assert len(table) == 6
    assert table["cause"].null_count() == table["gain"].null_count() == 6


def test_trainings_are_counted_by_cell(tmp_path: Path) -> None:
    table = read_trainings(written(tmp_path, {"none": GOOD, "distribution": STUCK}))
    assert table.columns == [*TRAINING, "gain", "cause"]
    counts = untrained_counts(table, ["dataset", "loss", "bounding"]).sort("bounding")
    assert counts.rows() == [("movielens", "nDCG", "distribution", 3, 3), ("movielens", "nDCG", "none", 3, 0)]
