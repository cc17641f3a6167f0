"""Scores of the systems of a runs table, paired by topics, folds and seeds."""

from collections.abc import Sequence

import polars as pl

from rankbound.compare.scores import SYSTEM, PairedScores, scores_of_frame


def scores_of_runs(
    runs: pl.DataFrame, metric: str, by: Sequence[str] = ("model", "loss", "bounding"), *, members: bool = False
) -> PairedScores:
    """Return the scores of systems in the runs table on one metric; the columns `by`, joined by " / ", name a system.

    The rows should have one data set and protocol, one selection of epochs and one set of options per system. The rest
    is as for `scores_of_frame`.
    """
    names = pl.concat_str([pl.col(name).cast(pl.String) for name in by], separator=" / ")
    return scores_of_frame(runs.with_columns(names.alias(SYSTEM)), metric, members=members)


def names_pairs(frame: pl.DataFrame) -> bool:
    """Return True if every row of the runs table is a pair whose topic names both members."""
    if "n" not in frame.columns or frame.is_empty():
        return False
    return bool((frame["n"] == 2).all()) and bool((frame["topic"].str.count_matches(" ") == 1).all())
