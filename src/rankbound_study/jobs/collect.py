"""Collect all runs in one table; check for duplicates, differing topics and scores beyond the controls."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from rankbound.errors import DataError
from rankbound_study.data.contracts import CONTROLS_FILE, RATES, beside, read_table, write_table
from rankbound_study.vocabulary import JUDGED_BY, LAST

# A mean this far below a random ordering's, in units of the metric, and more than chance does to so few topics, is a
# mistake: once in 741 times, as 3 standard errors of many topics.
BELOW_RANDOM = 0.05
CHANCE = 0.00135
ROUNDING = 1e-9

CELL = ["study", "protocol", "dataset", "nsr_train", "nsr_test"]
RUN = [*CELL, "model", "options", "loss", "bounding", "fold", "seed", "selection"]


def collected_beside(runs: Sequence[Path], contract: str) -> list[Path]:
    """Return the files of epochs or rates beside files of runs, by the files' names; controls have none."""
    return [beside(path, f"{contract}.parquet") for path in sorted(runs) if path.name != CONTROLS_FILE]


def beside_runs(runs: Sequence[Path], **_: Any) -> dict[str, list[Path]]:
    """Return the epochs and rates that are collected with runs: the record of the step names them."""
    return {contract: collected_beside(runs, contract) for contract in ("epochs", RATES)}


def collect(runs: Sequence[Path], out: Path, epochs_out: Path, rates_out: Path) -> None:
    """Write all `runs` into `out`, and the epochs and rates beside them into tables of their own, by the files' names.

    Raises:
        DataError: a run occurs twice, runs of one fold have different topics, or a mean score is above the oracle's or
            far below a random ordering's.
    """
    files = sorted(runs)
    table = pa.concat_tables(read_table(path, "runs") for path in files)
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    twice = frame.group_by(*RUN, "topic").len().filter(pl.col("len") > 1)
    if len(twice):
        raise DataError(f"the runs contain {len(twice)} topics twice, such as {twice.sort('topic').row(0, named=True)}")
    # A fold and seed have the same topics, of the same sizes, in every run: topics' scores are compared.
    pairs = frame.group_by(*RUN).agg(pl.struct("topic", "n", "p").sort_by("topic").hash(seed=0).sum().alias("topics"))
    differing = pairs.group_by(*CELL, "fold", "seed").agg(pl.col("topics").n_unique()).filter(pl.col("topics") > 1)
    if len(differing):
        raise DataError(
            f"runs over different topics in {differing.row(0, named=True)}: some were made from other instances; "
            "remove them and run again"
        )
    _check_controls(frame)
    for contract, path in (("epochs", epochs_out), (RATES, rates_out)):
        if tables := [read_table(one, contract) for one in collected_beside(files, contract)]:
            joined = pl.from_arrow(pa.concat_tables(tables, promote_options="default"))
            assert isinstance(joined, pl.DataFrame)
            # Tables have different metrics: NaN if one was not measured.
            metrics = [name for name, kind in joined.schema.items() if kind == pl.Float64]
            write_table(joined.with_columns(pl.col(metrics).fill_null(float("nan"))).to_arrow(), path, contract)
    write_table(table, out, "runs")


def _check_controls(runs: pl.DataFrame) -> None:
    """Check that no model is above the oracle or far below random: that is a bug in data or metrics, not a finding."""
    from scipy.special import stdtrit

    # The metric that a run's options name as judge; null if the loss decides.
    runs = runs.with_columns(judge=pl.col("options").str.json_path_match("$.judged_by"))
    judged = runs.filter(pl.col("loss") != "none").select("loss", "judge").unique()
    for loss, named in judged.sort("loss", "judge").iter_rows():
        metric = named or JUDGED_BY.get(loss, loss)
        value = pl.col(metric).fill_nan(None)
        run = [*CELL, "model", "loss", "judge", "bounding", "selection"]
        topics = runs.group_by(*run, "topic").agg(value.mean()).drop_nulls(metric)
        spread = pl.col(metric).std() / pl.len().sqrt()
        means = topics.group_by(run).agg(
            pl.col(metric).mean().alias("mean"), spread.alias("error"), pl.len().alias("n")
        )
        # Student's quantile; the error of one topic is unknown.
        errors = pl.Series("errors", stdtrit(means["n"].to_numpy() - 1.0, 1 - CHANCE))
        means = means.with_columns(pl.col("error") * errors)
        found = means.filter(pl.col("loss") == loss, pl.col("judge").eq_missing(named))
        for control, beyond in (
            ("oracle", pl.col("mean") > pl.col("limit") + ROUNDING),
            # The last epoch is exempt: a classifier that first learns how rare relevant items are, and which features
            # tell, may order them backwards for many epochs. Selected epochs are checked.
            (
                "random",
                (pl.col("selection") != LAST) & (pl.col("mean") < pl.col("limit") - BELOW_RANDOM - pl.col("error")),
            ),
        ):
            limits = means.filter(pl.col("model") == control).select(*CELL, pl.col("mean").alias("limit"))
            wrong = found.join(limits, on=CELL, nulls_equal=True).filter(beyond).sort(*CELL[:3], "bounding")
            for row in wrong.head(1).iter_rows(named=True):
                raise DataError(
                    f"{row['dataset']}, loss {loss}, bounding {row['bounding']}: mean {metric} {row['mean']:.4f} is "
                    f"{'above the oracle' if control == 'oracle' else 'far below random'} ({row['limit']:.4f})"
                )
