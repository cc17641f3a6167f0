r"""Scores of a study's runs tables: by data set in a fixed order, of systems side by side, and which models trained.

Published and honest runs are never mixed: every reader selects one protocol. The published protocol picks the epoch on
the test part (see `rankbound_study.vocabulary` for what is known of the printed scores), the honest one on a validation
part. Trained *systems* (models by loss and bounding, variants of the experiments) are those of the honest protocol, at
the epoch that the validation part selects. Variants are in, unless they are tested on other lists. The best of several
methods is chosen by the validation part, too: a choice by the test part would be biased.

A *training* is one model, loss and bounding in one fold under one seed. One that did not train is no evidence for or
against anything but training itself. It did not train if one of these rules holds:

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import rankbound as rb
from rankbound.compare import scores as compared
from rankbound.compare.scores import PairedScores, scores_of_frame
from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import GRADED, DataSet
from rankbound_study.results.study_files import StudyFiles, scan_runs
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES, PUBLISHED, SELECTIONS, STUDY, VARIANT

PROTOCOLS = {
    PUBLISHED: "published protocol: epoch picked on the test part",
    HONEST: "honest protocol: epoch picked on a validation part",
}

_KEY = ("study", "model", "options", "dataset", "nsr_test", "loss", "bounding", "fold", "seed", "topic")

SYSTEM = ("variant", "model", "loss", "bounding")
"""What distinguishes two systems on a data set; `variant` is empty for the study's own settings."""

METRICS = tuple(JUDGED_BY.values())  # the metrics of every system, whichever of them judges its loss

_DATA = ("dataset", "nsr_test")


@dataclass(frozen=True)
class RunsChoice:
    """The runs that a table or figure shows; `study` is needed only where several share a cell."""

    protocol: str = PUBLISHED
    study: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"protocol {self.protocol!r} is unknown: choose one of {', '.join(PROTOCOLS)}")


def read_scores(path: Path, metrics: Sequence[str], choice: RunsChoice, *, controls: bool = False) -> pl.DataFrame:
    """Read rows of the runs table for one protocol: key columns, n, p and the metrics; NaN becomes null.

    Trained runs only, or with `controls` the control models only (their `loss` is none).

    Raises:
        DataError: a column is absent, or two studies, models or option sets share a cell and the choice names none.
    """
    columns = [*_KEY, "drawing", "n", "p", *metrics]
    scan = scan_runs(path, (*columns, "protocol", "selection"))
    wanted = pl.col("protocol") == choice.protocol
    if controls:
        wanted &= pl.col("loss") == "none"
    else:
        wanted &= pl.col("loss").is_in(LOSSES) & (pl.col("selection") == SELECTIONS[choice.protocol])
    if choice.study is not None:
        wanted &= pl.col("study") == choice.study
    # Sorting here and grouping with maintain_order fix the order of sums, so means agree to the last digit.
    frame = scan.filter(wanted).select(columns).collect().sort(_KEY).with_columns(pl.col(list(metrics)).fill_nan(None))
    cell = ["dataset", "nsr_test", "loss", "bounding"]
    for key in () if controls else ("study", "model", "options"):
        counts = frame.group_by(cell).agg(pl.col(key).unique().sort())
        for *where, values in counts.filter(pl.col(key).list.len() > 1).sort(cell).rows():
            several = f"runs of several values of {key}: {', '.join(values)}"
            choice_of_study = f'choose one with --options \'{{"study": "{values[0]}"}}\''
            remedy = choice_of_study if key == "study" else "collect only one of them"
            raise DataError(f"{path}: the cell {' / '.join(map(str, where))} holds {several}; {remedy}")
    return frame


def data_sets(frame: pl.DataFrame, nsr: str = "nsr_test") -> list[DataSet]:
    """Return the data sets of a frame with ratios in the column `nsr`, in the fixed order; the thesis' if empty."""
    pairs = frame.select("dataset", nsr).unique().rows()
    of_thesis = *(("movielens", nsr) for nsr in (1, 2, 3)), ("mq2008-label1", None), ("mq2008-label2", None)
    return sorted(map(DataSet._make, pairs or of_thesis), key=lambda data_set: data_set.place)


def place(name: str, known: Sequence[str]) -> tuple[int, str]:
    """Return a key that sorts known names before others: the former in their order, the latter by name."""
    return (known.index(name) if name in known else len(known)), name


def boundings(frame: pl.DataFrame) -> list[str]:
    """Return the frame's boundings: those of the thesis first, then variants such as distribution(gain=sd) by name."""
    return sorted(frame["bounding"].unique(), key=lambda name: place(name, BOUNDINGS))


def losses(frame: pl.DataFrame) -> list[str]:
    """Return the losses of the thesis that a frame has; all of them if it has none."""
    return [loss for loss in LOSSES if loss in set(frame["loss"])] or list(LOSSES)


def of_data_set(frame: pl.DataFrame, data_set: DataSet, nsr: str = "nsr_test") -> pl.DataFrame:
    """Return the rows of one data set, whose ratio is in the column `nsr`."""
    on_ratio = pl.col(nsr).eq_missing(pl.lit(data_set.nsr, dtype=pl.Int8))
    return frame.filter(pl.col("dataset") == data_set.dataset, on_ratio)


def per_topic(frame: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Average scores and numbers of relevant items per data set, loss, bounding and topic, over folds and seeds.

    A MovieLens user is in the test part of every fold, an MQ2008 query in one. Lists on which a metric is undefined are
    left out of its mean; a topic without any defined value has null.
    """
    key = ["dataset", "nsr_test", "loss", "bounding", "topic"]
    return frame.group_by(key, maintain_order=True).agg(pl.col("p").mean(), pl.col(list(metrics)).mean()).sort(key)


def paired(frame: pl.DataFrame, loss: str, bounding: str, metric: str) -> pl.DataFrame:
    """Join per-topic scores of a bounded and the unbounded loss: topic, p, unbounded, bounded."""
    scores = frame.filter(pl.col("loss") == loss, pl.col(metric).is_not_null())
    unbounded = scores.filter(pl.col("bounding") == "none").select("topic", "p", pl.col(metric).alias("unbounded"))
    bounded = scores.filter(pl.col("bounding") == bounding).select("topic", pl.col(metric).alias("bounded"))
    return unbounded.join(bounded, on="topic", how="inner").sort("topic")


def heading(text: str, choice: RunsChoice, sets: Sequence[DataSet]) -> str:
    """Return a figure's title: its subject, the kind of data, and the protocol."""
    synthetic = "SYNTHETIC DATA; " if any(data_set.synthetic for data_set in sets) else ""
    return f"{text}\n({synthetic}{PROTOCOLS[choice.protocol]})"


def read_systems(files: StudyFiles, study: str) -> pl.DataFrame:
    """Return a row per system, fold, seed and test list: options, n, p, epoch and metrics, null where undefined.

    Raises:
        DataError: a file is missing or damaged, or lacks a column.
    """
    columns = ["options", "fold", "seed", "drawing", "topic", "n", "p", "epoch", *METRICS]
    picked = (pl.col("selection") == SELECTIONS[HONEST]) | (pl.col("loss") == "none")
    runs = [_with_variant(scan_runs(path), study) for path in (files.runs, files.experiments) if path is not None]
    rows = [own.filter(picked, _on_its_own_lists()).select(*_DATA, *SYSTEM, *columns).collect() for own in runs]
    key = [*_DATA, *SYSTEM, "fold", "seed", "topic"]
    return pl.concat(rows).with_columns(pl.col(METRICS).fill_nan(None)).sort(key)


def validation_means(files: StudyFiles, study: str, systems: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return each trained system's `validation` score: of the selected epochs, averaged over folds and seeds.

    The metric is the same for all systems, although each selects its epochs by its own. `systems` are those that
    `read_systems` returns.
    """
    training = [*_DATA, *SYSTEM, "fold", "seed"]
    picked = systems.filter(pl.col("loss") != "none").select(*training, "epoch").unique()
    epochs = [picked.clear().with_columns(pl.lit(None, pl.Float64).alias(metric))]
    epochs += [
        _with_variant(scan_runs(path), study)
        .filter(pl.col("part") == "validation", _on_its_own_lists())
        .select(*training, "epoch", metric)
        .collect()
        for path in (files.epochs, files.experiment_epochs)
        if path is not None
    ]
    found = picked.join(pl.concat(epochs), on=[*training, "epoch"], how="inner", nulls_equal=True).sort(training)
    means = found.group_by(*_DATA, *SYSTEM, maintain_order=True).agg(pl.col(metric).fill_nan(None).mean())
    return means.rename({metric: "validation"})


def untrained_systems(files: StudyFiles, study: str) -> pl.DataFrame:
    """Return the systems with a training that did not train, and the number of these, `n_untrained`."""
    both = (files.runs, files.epochs), (files.experiments, files.experiment_epochs)
    trainings = read_trainings(*both, choice=RunsChoice(HONEST))
    counts = untrained_counts(_with_variant(trainings.lazy(), study).collect(), [*_DATA, *SYSTEM])
    return counts.filter(pl.col("n_untrained") > 0)


def names_of(systems: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """Return the shortest model name of each system that no other one of its loss and bounding has.

    It is the model's, or, where two settings of one model are trained with a loss and bounding, that of the variant.
    """
    keys = sorted(set(systems.select(SYSTEM).rows()))
    models = [key[1:] for key in keys]
    return {
        (variant, model, *training): f"{model} ({variant})"
        if variant and models.count((model, *training)) > 1
        else model
        for variant, model, *training in keys
    }


def validation_scores(epochs: pl.LazyFrame, metric: str, by: str = "model") -> dict[str, float]:
    """Return the score of the epoch picked by validation, averaged over folds and seeds, by a column of the epochs.

    Values of the column without a defined score are left out; the result is empty if no epoch has this metric.
    """
    if metric not in epochs.collect_schema().names():
        return {}
    measured = epochs.filter(pl.col("part") == "validation").with_columns(pl.col(metric).fill_nan(None))
    highest = measured.group_by(by, "fold", "seed").agg(pl.col(metric).max()).sort(by, "fold", "seed")
    means = highest.group_by(by, maintain_order=True).agg(pl.col(metric).mean()).drop_nulls().collect()
    return dict(means.rows())


def scores_of_methods(epochs: Path, dataset: str, metric: str) -> dict[str, float]:
    """Return the validation scores of the neural-ranking study's methods on a data set, by their names in the runs."""
    own = (pl.col("study") == STUDY) & (pl.col("dataset") == dataset)
    return validation_scores(scan_runs(epochs).filter(own), metric)


def best_of(names: Sequence[str], scores: Mapping[str, float]) -> str | None:
    """Return the name with the highest validation score (ties: the last alphabetically); None without scores."""
    return max((name for name in names if name in scores), key=lambda name: (scores[name], name), default=None)


def scores_of_runs(
    runs: pl.DataFrame, metric: str, by: Sequence[str] = ("model", "loss", "bounding"), *, members: bool = False
) -> PairedScores:
    """Return the scores of systems in the runs table on one metric; the columns `by`, joined by " / ", name a system.

    The rows should have one data set and protocol, one selection of epochs and one set of options per system. The rest
    is as for `scores_of_frame`.
    """
    names = pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator=" / ")
    return scores_of_frame(runs.with_columns(names.alias(compared.SYSTEM)), metric, members=members)


def names_pairs(frame: pl.DataFrame) -> bool:
    """Return True if every row of the runs table is a pair whose topic names both members."""
    return len(frame) > 0 and bool((frame["n"] == 2).all() and (frame["topic"].str.count_matches(" ") == 1).all())


def _with_variant(runs: pl.LazyFrame, study: str) -> pl.LazyFrame:
    """Select a study's honest runs; `variant` is empty for those with its own settings."""
    own = (pl.col("study") == study) | pl.col("study").str.starts_with(f"{study}{VARIANT}")
    variant = pl.col("study").str.strip_prefix(study).str.strip_prefix(VARIANT).alias("variant")
    return runs.filter(own, pl.col("protocol") == HONEST).with_columns(variant)


def _on_its_own_lists() -> pl.Expr:
    """Select runs that are tested on the data set's lists, not at another ratio or with fewer relevant items."""
    few = pl.col("options").str.json_path_match("$.test_relevant")
    return pl.col("nsr_train").eq_missing(pl.col("nsr_test")) & few.is_null()


VANISHED = 1e-8
"""Adam divides a gradient by its size plus this constant: steps shrink with gradients below it, and not with others.
A plain gradient step of this size is lost to rounding beside parameters of 0.1 and more in single precision."""

STILL = 0.001
"""Largest change of a metric, in its unit, and of the training loss, as a share, of a model that does not change."""

SHARE = 0.05  # largest share of the best gain over a random ordering that counts as none
ERRORS = 3.0  # number of standard errors within which a gain counts as none

CAUSES = VANISHING, UNCHANGED, AT_RANDOM = ("vanishing gradient", "no change", "random order")

UNTRAINED = (pl.col("n_untrained") > 0).fill_null(value=False)  # a cell of a table with trainings that did not train
MARK = "†"  # the mark of a score with trainings that did not train

JOB = ("study", "protocol", "dataset", "nsr_train", "nsr_test", "model", "options", "loss", "bounding")
TRAINING = (*JOB, "fold", "seed")

_TYPES = dict.fromkeys(JOB, pl.String) | dict.fromkeys(("nsr_train", "nsr_test", "fold"), pl.Int8) | {"seed": pl.Int16}

_LIST = ("dataset", "nsr_test", "fold", "topic")
_SAME_LISTS = ("protocol", "dataset", "nsr_test", "few", "judge")
"""What identifies the test lists of a job, and the metric on them."""


def read_trainings(*files: tuple[Path | None, Path | None], choice: RunsChoice | None = None) -> pl.DataFrame:
    """Return all trainings, or those of a choice, in columns `TRAINING`, with `gain` and `cause`.

    `gain` is the mean score of the test lists minus that of a random ordering, in the metric that judges the training:
    null without a control `random` on the data set. `cause`, one of `CAUSES`, is why it did not train: null if it did.

    Args:
        files: pairs of a runs table and its epochs, such as the study's own and those of the experiments. Without
            epochs, only a random order is recognised; pairs without a runs table are skipped.
        choice: the choice; None for all.
    """
    known = [(_scan(runs, choice), epochs) for runs, epochs in files if runs is not None]
    random = [runs.filter(pl.col("model") == "random", pl.col("loss") == "none") for runs, _ in known]
    gains = [one for runs, _ in known for one in _gains(runs, random)]
    steps = [_stuck(_scan(epochs, choice)) for _, epochs in known if epochs is not None]
    if not gains:
        return pl.DataFrame(schema={**_TYPES, "gain": pl.Float64, "cause": pl.String})
    table = pl.concat(gains, how="diagonal_relaxed")
    # The largest gain of any job on the same lists.
    best = (
        table.drop_nulls("job_error")
        .sort("job_gain", descending=True, maintain_order=True)
        .group_by(_SAME_LISTS, maintain_order=True)
        .agg(pl.col("job_gain").first().alias("best"), pl.col("job_error").first().alias("best_error"))
    )
    half, informative = pl.col("best") / 2, pl.col("best") > ERRORS * pl.col("best_error")
    gain, of_job = pl.col("gain").abs(), pl.col("job_gain").abs()
    alone = informative & (gain <= SHARE * pl.col("best")) & (ERRORS * pl.col("error") <= half)
    jointly = (of_job <= ERRORS * pl.col("job_error")) & (~informative | (of_job <= half))
    table = table.join(best, on=_SAME_LISTS, how="left", nulls_equal=True)
    none_stuck = table.select(*TRAINING, pl.lit(None, pl.String).alias("stuck")).clear()
    stuck = pl.concat([none_stuck, *steps], how="vertical_relaxed")
    table = table.join(stuck, on=TRAINING, how="left", nulls_equal=True)
    # Null where a gain or its error is unknown.
    cause = pl.coalesce("stuck", pl.when(alone | jointly).then(pl.lit(AT_RANDOM))).alias("cause")
    of_study = [] if choice is None or choice.study is None else [pl.col("study") == choice.study]
    return table.select(*TRAINING, "gain", cause).filter(*of_study).sort(TRAINING)


def untrained_cells(trainings: pl.DataFrame) -> frozenset[tuple[str, int | None, str, str]]:
    """Return the data set, ratio, loss and bounding of the cells with a training that did not train."""
    named = trainings.filter(pl.col("cause").is_not_null())
    return frozenset(named.select("dataset", "nsr_test", "loss", "bounding").rows())


def untrained_counts(trainings: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Count trainings by some of their columns: `n_trainings`, and how many of them did not train, `n_untrained`."""
    counts = {"n_trainings": pl.len(), "n_untrained": pl.col("cause").count()}
    return trainings.group_by(by, maintain_order=True).agg(**{k: v.cast(pl.Int64) for k, v in counts.items()})


def _scan(path: Path, choice: RunsChoice | None) -> pl.LazyFrame:
    """Scan the rows of a table that are of a protocol."""
    scan = scan_runs(path)
    return scan if choice is None else scan.filter(pl.col("protocol") == choice.protocol)


def _gains(runs: pl.LazyFrame, random: Sequence[pl.LazyFrame]) -> Iterator[pl.DataFrame]:
    """Yield, by metric, the mean gain of every training over a random ordering, and that of its job over topics.

    Beside both stand their standard errors.
    """
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
            lists, job = _lists(rows, str(judge), random), [*JOB, "judge", "few"]
            topics = lists.group_by(*job, "topic", maintain_order=True).agg(pl.col("gain").mean())
            of_jobs = topics.group_by(job, maintain_order=True).agg(*_mean_and_error("job_"))
            of_trainings = lists.group_by(*job, "fold", "seed", maintain_order=True).agg(*_mean_and_error(""))
            yield of_trainings.join(of_jobs, on=job, how="left", nulls_equal=True)
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
    controls = [of.select(*_LIST, "n", "p", score.alias("expected")) for of in random if metric in of.collect_schema()]
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


def _mean_and_error(prefix: str) -> Iterator[pl.Expr]:
    gain = pl.col("gain")
    yield gain.mean().alias(f"{prefix}gain")
    yield (gain.std() / gain.count().sqrt()).alias(f"{prefix}error")


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
