r"""Trainings that did not train: no evidence for or against anything but training itself.

A training is one model, loss and bounding in one fold under one seed. It did not train if one of these rules holds:

- *vanishing gradient*: in every epoch, the mean norm of its gradient is below `VANISHED`.
- *no change*: over all its epochs no metric on a measured part changes by more than `STILL`, and its training loss
  changes by less than this share of its size.
- *random order*: its test lists score as those of a random ordering do. The gain $g$ of a training is its mean score
  minus the expectation over random orders, $e$ its standard error over topics, and $G$ the largest gain of any job on
  the same lists. The rule holds for a training with $|g| \le$ `SHARE` $G$ on lists that can tell ($3e \le G/2$), and
  for all trainings of a job whose joint gain has $|g| \le 3e$ and $|g| \le G/2$. If $G$ itself is at most $3e$, the
  data are uninformative: no training is known to have learned anything, and every job with $|g| \le 3e$ is named.

No rule depends on the unit of the loss, except that of the gradient, which Adam's own constant sets. A training that
ranks far worse than the best one, or worse than a random ordering, did train: it left its start.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

import rankbound as rb
from rankbound_study.config.data_sets import GRADED
from rankbound_study.results.study_files import scan_runs
from rankbound_study.vocabulary import JUDGED_BY, SELECTIONS

VANISHED = 1e-8
"""Adam divides a gradient by its size plus this constant: steps shrink with gradients below it, and not with others.
A plain gradient step of this size is lost to rounding beside parameters of 0.1 and more in single precision."""

STILL = 0.001
"""Largest change of a metric, in its unit, and of the training loss, as a share, of a model that does not change."""

SHARE = 0.05
"""Largest share of the best gain over a random ordering that counts as none."""

ERRORS = 3.0
"""Number of standard errors within which a gain counts as none."""

VANISHING, UNCHANGED, AT_RANDOM = "vanishing gradient", "no change", "random order"
CAUSES = (VANISHING, UNCHANGED, AT_RANDOM)

UNTRAINED = (pl.col("n_untrained") > 0).fill_null(value=False)
"""A cell of a table with trainings that did not train."""

MARK = "†"
"""The mark of a score with trainings that did not train."""

JOB = ("study", "protocol", "dataset", "nsr_train", "nsr_test", "model", "options", "loss", "bounding")
TRAINING = (*JOB, "fold", "seed")

Cell = tuple[str, int | None, str, str]
"""Data set, ratio, loss and bounding."""

_NUMBERS = {"nsr_train": pl.Int8, "nsr_test": pl.Int8, "fold": pl.Int8, "seed": pl.Int16}
_TYPES = {name: _NUMBERS.get(name, pl.String) for name in TRAINING}

_LIST = ("dataset", "nsr_test", "fold", "topic")
_SAME_LISTS = ("protocol", "dataset", "nsr_test", "few", "judge")
"""What identifies the test lists of a job, and the metric on them."""


def read_trainings(*files: tuple[Path | None, Path | None], protocol: str = "") -> pl.DataFrame:
    """Return all trainings, or those of one protocol, in columns `TRAINING`, with `gain` and `cause`.

    `gain` is the mean score of the test lists minus that of a random ordering, in the metric that judges the training:
    null without a control `random` on the data set. `cause`, one of `CAUSES`, is why it did not train: null if it did.

    Args:
        files: pairs of a runs table and its epochs, such as the study's own and those of the experiments. Without
            epochs, only a random order is recognised; pairs without a runs table are skipped.
        protocol: the protocol; empty for all.
    """
    known = [(_scan(runs, protocol), epochs) for runs, epochs in files if runs is not None]
    random = [runs.filter(pl.col("model") == "random", pl.col("loss") == "none") for runs, _ in known]
    gains = [one for runs, _ in known for one in _gains(runs, random)]
    steps = [_stuck(_scan(epochs, protocol)) for _, epochs in known if epochs is not None]
    if not gains:
        return pl.DataFrame(schema={**_TYPES, "gain": pl.Float64, "cause": pl.String})
    table = _at_random(pl.concat(gains, how="diagonal_relaxed"))
    none_stuck = table.select(*TRAINING, pl.lit(None, pl.String).alias("stuck")).clear()
    stuck = pl.concat([none_stuck, *steps], how="vertical_relaxed")
    table = table.join(stuck, on=TRAINING, how="left", nulls_equal=True)
    cause = pl.coalesce("stuck", pl.when("at_random").then(pl.lit(AT_RANDOM))).alias("cause")
    return table.select(*TRAINING, "gain", cause).sort(TRAINING)


def untrained_cells(trainings: pl.DataFrame) -> frozenset[Cell]:
    """Return the cells with a training that did not train."""
    named = trainings.filter(pl.col("cause").is_not_null())
    return frozenset(named.select("dataset", "nsr_test", "loss", "bounding").rows())


def untrained_counts(trainings: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Count trainings by some of their columns: `n_trainings`, and how many of them did not train, `n_untrained`."""
    counts = {"n_trainings": pl.len(), "n_untrained": pl.col("cause").count()}
    return trainings.group_by(by, maintain_order=True).agg(**{k: v.cast(pl.Int64) for k, v in counts.items()})


def _scan(path: Path, protocol: str) -> pl.LazyFrame:
    """Scan a table; the columns of a training's key that it lacks are null."""
    scan = scan_runs(path)
    found = scan.collect_schema().names()
    if protocol:
        scan = scan.filter(pl.col("protocol") == protocol)
    return scan.with_columns(pl.lit(None, kind).alias(name) for name, kind in _TYPES.items() if name not in found)


def _gains(runs: pl.LazyFrame, random: Sequence[pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """Yield, by metric, the gain of every training over a random ordering, and that of its job, with their errors."""
    columns = runs.collect_schema().names()
    picked = pl.col("selection") == pl.col("protocol").replace(SELECTIONS)
    trained = runs.filter(picked, pl.col("loss") != "none")
    # Options are read once, not once a list.
    judged = trained.select("options", "loss").unique().collect().sort("options", "loss")
    judged = judged.with_columns(
        pl.col("options")
        .str.json_path_match("$.judged_by")
        .fill_null(pl.col("loss").replace(JUDGED_BY))
        .alias("judge"),
        pl.col("options").str.json_path_match("$.test_relevant").alias("few"),
    )
    for (judge,), own in judged.group_by("judge", maintain_order=True):
        rows = trained.join(own.lazy(), on=["options", "loss"], how="inner", nulls_equal=True)
        if judge in columns:
            yield _of_metric(_lists(rows, str(judge), random))
        else:
            unknown = (pl.lit(None, pl.Float64).alias(name) for name in ("gain", "error", "job_gain", "job_error"))
            yield rows.select(*TRAINING, "judge", "few").unique().with_columns(*unknown).collect()


def _lists(trained: pl.LazyFrame, metric: str, random: Sequence[pl.LazyFrame]) -> pl.DataFrame:
    """Return each test list's gain: its score minus that of a random ordering; null where one is unknown.

    The control scores a random ordering's expectation. Lists of another size than its own (with fewer relevant items,
    or without negatives that occur in training) have the expectation of their size, unless they are graded.
    """
    score = pl.col(metric).fill_nan(None)
    rows = trained.select(*TRAINING, "judge", "few", "topic", "n", "p", score.alias("score")).collect()
    controls = [
        one.select(*_LIST, "n", "p", score.alias("expected")) for one in random if metric in one.collect_schema()
    ]
    control = pl.concat(controls).collect().unique([*_LIST, "n", "p"])
    rows = rows.join(control, on=[*_LIST, "n", "p"], how="left", nulls_equal=True)
    data_sets = control.select("dataset", "nsr_test", pl.lit(value=True).alias("has_control")).unique()
    rows = rows.join(data_sets, on=["dataset", "nsr_test"], how="left", nulls_equal=True)
    other = pl.col("has_control") & ~pl.col("dataset").str.ends_with(f"-{GRADED}") & (pl.col("p") > 0)
    sizes = rows.filter(pl.col("expected").is_null() & other).select("n", "p").unique().sort("n", "p")
    closed = rb.expectation(metric, sizes["n"].to_numpy(), sizes["p"].to_numpy()) if len(sizes) else np.empty(0)
    rows = rows.join(sizes.with_columns(pl.Series("closed", closed, pl.Float64)), on=["n", "p"], how="left")
    expected = pl.coalesce("expected", pl.when(other).then("closed"))
    return rows.with_columns((pl.col("score") - expected).fill_nan(None).alias("gain"))


def _of_metric(lists: pl.DataFrame) -> pl.DataFrame:
    """Return the mean gain of every training, and of its job over topics, with their standard errors."""
    job = [*JOB, "judge", "few"]
    topics = lists.group_by(*job, "topic", maintain_order=True).agg(pl.col("gain").mean())
    of_jobs = topics.group_by(job, maintain_order=True).agg(*_mean_and_error("job_"))
    own = lists.group_by(*job, "fold", "seed", maintain_order=True).agg(*_mean_and_error(""))
    return own.join(of_jobs, on=job, how="left", nulls_equal=True)


def _mean_and_error(prefix: str) -> Iterator[pl.Expr]:
    gain = pl.col("gain")
    yield gain.mean().alias(f"{prefix}gain")
    yield (gain.std() / gain.count().sqrt()).alias(f"{prefix}error")


def _at_random(gains: pl.DataFrame) -> pl.DataFrame:
    """Add the column `at_random`; null where a gain or its error is unknown."""
    best = (
        gains.drop_nulls("job_error")
        .sort("job_gain", descending=True, maintain_order=True)
        .group_by(_SAME_LISTS, maintain_order=True)
        .agg(pl.col("job_gain").first().alias("best"), pl.col("job_error").first().alias("best_error"))
    )
    half, informative = pl.col("best") / 2, pl.col("best") > ERRORS * pl.col("best_error")
    gain, of_job = pl.col("gain").abs(), pl.col("job_gain").abs()
    alone = informative & (gain <= SHARE * pl.col("best")) & (ERRORS * pl.col("error") <= half)
    jointly = (of_job <= ERRORS * pl.col("job_error")) & (~informative | (of_job <= half))
    joined = gains.join(best, on=_SAME_LISTS, how="left", nulls_equal=True)
    return joined.with_columns((alone | jointly).alias("at_random"))


def _stuck(epochs: pl.LazyFrame) -> pl.DataFrame:
    """Return each training and why it is `stuck`, by its epochs; null if it moved, or has no gradients."""
    schema = epochs.collect_schema()
    numbers = [name for name, kind in schema.items() if kind == pl.Float64]
    metrics = [name for name in numbers if name not in ("mean_loss", "gradient_norm")]
    loss = "mean_loss" if "mean_loss" in numbers else "gradient_norm"
    parts = (
        epochs.with_columns(pl.col(numbers).fill_nan(None))
        .group_by(*TRAINING, "part")
        .agg(
            pl.max_horizontal(pl.col(name).max() - pl.col(name).min() for name in metrics).alias("moved"),
            (pl.col(loss).max() - pl.col(loss).min() < STILL * pl.col(loss).abs().max()).alias("flat"),
            pl.col("gradient_norm").max().alias("gradient"),
            (pl.col("epoch").n_unique() > 1).alias("several"),
        )
    )
    still = pl.col("several") & pl.col("flat") & (pl.col("moved") <= STILL) & pl.col("gradient").is_not_null()
    found = parts.group_by(TRAINING).agg(
        (pl.col("gradient") < VANISHED).all(ignore_nulls=False), still.all().alias("still")
    )
    stuck = pl.when("gradient").then(pl.lit(VANISHING)).when("still").then(pl.lit(UNCHANGED)).alias("stuck")
    return found.select(*TRAINING, stuck).collect()
