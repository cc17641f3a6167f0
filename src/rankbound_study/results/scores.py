"""Scores of a study's runs tables: by data set in a fixed order, of all systems side by side, and paired by topics.

Published and honest runs are never mixed: every reader selects one protocol. The published protocol picks the epoch on
the test part (see `rankbound_study.vocabulary` for what is known of the printed scores), the honest one on a validation
part. Trained *systems* (models by loss and bounding, variants of the experiments) are those of the honest protocol, at
the epoch that the validation part selects. Variants are in, unless they are tested on other lists. The best of several
methods is chosen by the validation part, too: a choice by the test part would be biased.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare import scores as compared
from rankbound.compare.scores import PairedScores, scores_of_frame
from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.study_files import StudyFiles, scan_runs
from rankbound_study.results.trained import read_trainings, untrained_counts
from rankbound_study.vocabulary import BOUNDINGS, HONEST, JUDGED_BY, LOSSES, PUBLISHED, SELECTIONS, STUDY, VARIANT

PROTOCOLS = {
    PUBLISHED: "published protocol: epoch picked on the test part",
    HONEST: "honest protocol: epoch picked on a validation part",
}

_KEY = ("study", "model", "options", "dataset", "nsr_test", "loss", "bounding", "fold", "seed", "topic")

SYSTEM = ("variant", "model", "loss", "bounding")
"""What distinguishes two systems on a data set; `variant` is empty for the study's own settings."""

METRICS = tuple(JUDGED_BY.values())
"""The metrics of every system, whichever of them judges its loss."""

_DATA = ("dataset", "nsr_test")
_TRAINING = ("fold", "seed")
_DRAWN = (*_TRAINING, "drawing")


@dataclass(frozen=True)
class RunsChoice:
    """The runs that a table or figure shows; `study` and `model` are needed only where several share a cell."""

    protocol: str = PUBLISHED
    study: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(f"protocol {self.protocol!r} is unknown: choose one of {', '.join(PROTOCOLS)}")

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "RunsChoice":
        """Read the keys protocol, study and model; any other key is an error."""
        unknown = sorted(set(options) - {"protocol", "study", "model"})
        if unknown:
            raise ConfigError(f"option {unknown[0]!r} is unknown here: the options are protocol, study and model")
        return cls(**options)


THESIS_DATA_SETS = (
    *(DataSet("movielens", nsr) for nsr in (1, 2, 3)),
    *(DataSet(f"mq2008-label{label}", None) for label in (1, 2)),
)


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
    for key in ("study", "model"):
        value = getattr(choice, key)
        if value is not None and not (controls and key == "model"):
            wanted &= pl.col(key) == value
    # Sorting here and grouping with maintain_order fix the order of sums, so means agree to the last digit.
    frame = scan.filter(wanted).select(columns).collect().sort(_KEY).with_columns(pl.col(list(metrics)).fill_nan(None))
    if not controls:
        _refuse_mixtures(path, frame)
    return frame


def chosen_trainings(runs: Path, epochs: Path | None, choice: RunsChoice) -> pl.DataFrame:
    """Return the trainings of one protocol, with the cause for which any of them did not train."""
    trainings = read_trainings((runs, epochs), protocol=choice.protocol)
    for key in ("study", "model"):
        if (value := getattr(choice, key)) is not None:
            trainings = trainings.filter(pl.col(key) == value)
    return trainings


def data_sets(frame: pl.DataFrame) -> list[DataSet]:
    """Return the data sets of the frame in the fixed order; those of the thesis if the frame is empty."""
    pairs = frame.select("dataset", "nsr_test").unique().rows()
    return sorted(map(DataSet._make, pairs), key=lambda data_set: data_set.place) or list(THESIS_DATA_SETS)


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
    columns = ["options", *_DRAWN, "topic", "n", "p", "epoch", *METRICS]
    picked = (pl.col("selection") == SELECTIONS[HONEST]) | (pl.col("loss") == "none")
    runs = [_with_variant(scan_runs(path), study) for path in (files.runs, files.experiments) if path is not None]
    rows = [own.filter(picked, _on_its_own_lists()).select(*_DATA, *SYSTEM, *columns).collect() for own in runs]
    key = [*_DATA, *SYSTEM, *_TRAINING, "topic"]
    return pl.concat(rows).with_columns(pl.col(METRICS).fill_nan(None)).sort(key)


def validation_means(files: StudyFiles, study: str, systems: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return each trained system's `validation` score: of the selected epochs, averaged over folds and seeds.

    The metric is the same for all systems, although each selects its epochs by its own. `systems` are those that
    `read_systems` returns.
    """
    training = [*_DATA, *SYSTEM, *_TRAINING]
    epochs = [
        _with_variant(scan_runs(path), study)
        .filter(pl.col("part") == "validation", _on_its_own_lists())
        .select(*training, "epoch", metric)
        .collect()
        for path in (files.epochs, files.experiment_epochs)
        if path is not None
    ]
    if not epochs:
        kinds = {name: systems.schema[name] for name in (*_DATA, *SYSTEM)}
        return pl.DataFrame(schema={**kinds, "validation": pl.Float64})
    picked = systems.filter(pl.col("loss") != "none").select(*training, "epoch").unique()
    found = picked.join(pl.concat(epochs), on=[*training, "epoch"], how="inner", nulls_equal=True).sort(training)
    means = found.group_by(*_DATA, *SYSTEM, maintain_order=True).agg(pl.col(metric).fill_nan(None).mean())
    return means.rename({metric: "validation"})


def untrained_systems(files: StudyFiles, study: str) -> pl.DataFrame:
    """Return the systems with a training that did not train, and the number of these, `n_untrained`."""
    both = (files.runs, files.epochs), (files.experiments, files.experiment_epochs)
    trainings = read_trainings(*both, protocol=HONEST)
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
    if "n" not in frame.columns or frame.is_empty():
        return False
    return bool((frame["n"] == 2).all()) and bool((frame["topic"].str.count_matches(" ") == 1).all())


def _refuse_mixtures(path: Path, frame: pl.DataFrame) -> None:
    cell = ["dataset", "nsr_test", "loss", "bounding"]
    for key in ("study", "model", "options"):
        counts = frame.group_by(cell).agg(pl.col(key).unique().sort())
        for *where, values in counts.filter(pl.col(key).list.len() > 1).sort(cell).rows():
            text = f"{path}: the cell {' / '.join(map(str, where))} holds runs"
            if key == "options":
                raise DataError(f"{text} with different options: {'; '.join(values)}; collect only one of them")
            remedy = f'choose one with --options \'{{"{key}": "{values[0]}"}}\''
            raise DataError(f"{text} of several values of {key}: {', '.join(values)}; {remedy}")


def _with_variant(runs: pl.LazyFrame, study: str) -> pl.LazyFrame:
    """Select a study's honest runs; `variant` is empty for those with its own settings."""
    own = (pl.col("study") == study) | pl.col("study").str.starts_with(f"{study}{VARIANT}")
    variant = pl.col("study").str.strip_prefix(study).str.strip_prefix(VARIANT).alias("variant")
    return runs.filter(own, pl.col("protocol") == HONEST).with_columns(variant)


def _on_its_own_lists() -> pl.Expr:
    """Select runs that are tested on the data set's lists, not at another ratio or with fewer relevant items."""
    few = pl.col("options").str.json_path_match("$.test_relevant")
    return pl.col("nsr_train").eq_missing(pl.col("nsr_test")) & few.is_null()
