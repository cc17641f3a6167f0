"""Scores of one protocol from the runs table, for tables and figures: by data set in a fixed order, and in pairs.

Published and honest runs are never mixed: every reader selects one protocol. The published protocol picks the epoch on
the test part (see `rankbound_study.vocabulary` for what is known of the printed scores), the honest one on a validation
part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.errors import ConfigError, DataError
from rankbound_study.config.data_sets import DataSet
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.trained import read_trainings
from rankbound_study.vocabulary import BOUNDINGS, HONEST, LOSSES, PUBLISHED, SELECTIONS

PROTOCOLS = {
    PUBLISHED: "published protocol: epoch picked on the test part",
    HONEST: "honest protocol: epoch picked on a validation part",
}

_KEY = ("study", "model", "options", "dataset", "nsr_test", "loss", "bounding", "fold", "seed", "topic")


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


THESIS_DATA_SETS = tuple(
    DataSet(name, nsr)
    for name, nsr in (
        ("movielens", 1),
        ("movielens", 2),
        ("movielens", 3),
        ("mq2008-label1", None),
        ("mq2008-label2", None),
    )
)


def read_scores(path: Path, metrics: Sequence[str], choice: RunsChoice, *, controls: bool = False) -> pl.DataFrame:
    """Read rows of the runs table for one protocol: key columns, n, p and the metrics; NaN becomes null.

    Trained runs only, or with `controls` the control models only (their `loss` is none).

    Raises:
        DataError: a column is absent, or two studies, models or option sets share a cell and the choice names none.
    """
    columns = [*_KEY, "n", "p", *metrics]
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


def boundings(frame: pl.DataFrame) -> list[str]:
    """Return the frame's boundings: those of the thesis first, then variants such as distribution(gain=sd) by name."""
    found = set(frame["bounding"].unique())
    return [*(bounding for bounding in BOUNDINGS if bounding in found), *sorted(found - set(BOUNDINGS))]


def of_data_set(frame: pl.DataFrame, data_set: DataSet) -> pl.DataFrame:
    """Return the rows of one data set."""
    return frame.filter(
        pl.col("dataset") == data_set.dataset, pl.col("nsr_test").eq_missing(pl.lit(data_set.nsr, dtype=pl.Int8))
    )


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


def _refuse_mixtures(path: Path, frame: pl.DataFrame) -> None:
    cell = ["dataset", "nsr_test", "loss", "bounding"]
    for key in ("study", "model", "options"):
        counts = frame.group_by(cell).agg(pl.col(key).unique().sort())
        for *where, values in counts.filter(pl.col(key).list.len() > 1).sort(cell).rows():
            raise DataError(
                f"{path}: the cell {' / '.join(str(part) for part in where)} holds runs of several values of {key}: "
                f'{", ".join(values)}; choose one with --options \'{{"{key}": "{values[0]}"}}\''
                if key != "options"
                else f"{path}: the cell {' / '.join(str(part) for part in where)} holds runs with different options: "
                f"{'; '.join(values)}; collect only one of them"
            )
