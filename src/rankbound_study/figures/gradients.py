"""The gradient under distribution bounding: by epoch, from the trainings, and at the start, in closed form."""

from typing import Any

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import HONEST, LOSSES, UNBOUNDED

SPECS = {
    "figure_gradients": FigureSpec(
        "Above: norm of the gradient by epoch, the mean over folds and seeds, as a share of its largest mean over the "
        "epochs: Adam ignores its unit. Below: slope of the distribution bound at the start of a training, where all "
        "scores of a list tie, times the range of the metric, by the number of items, of which a third are relevant; "
        "for min-max bounding it is 1 (dotted). Distribution bounding in the thesis' gain flattens nDCG on long lists "
        "and steepens AP and nRBP, whose gradient then fades as soon as the lists are ordered well.",
        title="Gradients under distribution bounding",
        needs=("epochs", "experiment_epochs"),
        order=12,
    )
}

BOUNDS = (UNBOUNDED, "distribution", "distribution(gain=sd)")
ROWS = 3
"""Data sets that fit above."""

SIZES = (6, 9, 15, 24, 36, 60, 90, 120, 180, 240)
RELEVANT = 1 / 3
FLOOR = 1e-5
"""Lowest slope and share that are drawn."""


def draw(files: StudyFiles) -> Any:
    """Draw a row per data set with other gains (or the first ones), then the start; columns are losses."""
    norms = gradient_norms(files)
    sets = shown_sets(norms)
    figure, axes = style.panels(len(sets) + 1, len(LOSSES), height=1.2 + 1.3 * (len(sets) + 1), sharey="row")
    for column, loss in enumerate(LOSSES):
        for row, data_set in enumerate(sets):
            _epochs(axes[row, column], _of(norms, data_set).filter(pl.col("loss") == loss))
        _start(axes[-1, column], loss)
        axes[0, column].set_title(f"{loss} loss")
        axes[-1, column].set_xlabel("items in the list")
        if sets:
            axes[-2, column].set_xlabel("epoch")
    axes[0, 0].set_ylabel("share of largest norm" if sets else "slope at the start")
    axes[-1, 0].set_ylabel("slope at the start")
    style.row_titles(axes, [*(data_set.label for data_set in sets), "at the start"])
    style.shared_legend(figure, axes, columns=4)
    figure.suptitle("Gradients under distribution bounding")
    return figure


def gradient_norms(files: StudyFiles) -> pl.DataFrame:
    """Return the mean norm by data set, loss, bounding and epoch, as a `share` of the largest over the epochs."""
    key = ["dataset", "nsr_test", "loss", "bounding"]
    parts = [pl.DataFrame(schema={**dict.fromkeys(key, pl.String), "nsr_test": pl.Int8, "epoch": pl.Int32})]
    for path, boundings in ((files.epochs, BOUNDS[:2]), (files.experiment_epochs, BOUNDS[2:])):
        if path is not None:
            own = pl.col("protocol") == HONEST, pl.col("study") != STUDY, pl.col("loss").is_in(LOSSES)
            rows = scan_runs(path).filter(*own, pl.col("bounding").is_in(boundings))
            # Every measured part repeats the norm of its epoch.
            once = rows.select(*key, "study", "fold", "seed", "epoch", "gradient_norm").unique()
            parts.append(once.group_by(*key, "epoch").agg(pl.col("gradient_norm").mean()).collect())
    means = pl.concat(parts, how="diagonal_relaxed").sort(*key, "epoch")
    if "gradient_norm" not in means.columns:
        return means.with_columns(share=pl.lit(None, pl.Float64))
    return means.with_columns((pl.col("gradient_norm") / pl.col("gradient_norm").max().over(key)).alias("share"))


def shown_sets(norms: pl.DataFrame) -> list[DataSet]:
    """Return the data sets with another gain, or, without any, the first ones."""
    other = norms.filter(pl.col("bounding") == BOUNDS[-1])
    found = (other if len(other) else norms).select("dataset", "nsr_test").unique().rows()
    return sorted((DataSet(*row) for row in found), key=lambda data_set: data_set.place)[:ROWS]


def slopes_at_the_start(loss: str, bound: str) -> list[float]:
    """Return the slope of a bound where all scores tie, times the range of the metric, for lists of `SIZES` items.

    A bound multiplies the gradient of a list's metric by its slope.
    """
    import numpy as np
    import torch

    import rankbound as rb

    found = []
    for n in SIZES:
        p = round(n * RELEVANT)
        relevance = torch.tensor([1] * p + [0] * (n - p))
        norms = []
        for text in (bound, UNBOUNDED):
            scores = torch.zeros(n, dtype=torch.float64, requires_grad=True)
            rb.SmoothLoss(loss, text)(scores, relevance, [0, n]).backward()  # type: ignore[no-untyped-call]
            assert scores.grad is not None
            norms.append(float(scores.grad.norm()))
        size = np.array([n]), np.array([p])
        found.append(norms[0] / norms[1] * float((rb.maximum(loss, *size) - rb.minimum(loss, *size))[0]))
    return found


def _of(norms: pl.DataFrame, data_set: DataSet) -> pl.DataFrame:
    at_ratio = pl.col("nsr_test").eq_missing(pl.lit(data_set.nsr, pl.Int8))
    return norms.filter(pl.col("dataset") == data_set.dataset, at_ratio)


def _epochs(panel: Any, norms: pl.DataFrame) -> None:
    for bounding in BOUNDS:
        line = norms.filter(pl.col("bounding") == bounding, pl.col("share") > 0)
        if len(line):
            look, title = style.bounding_style(bounding, BOUNDS), style.bounding_title(bounding)
            style.line(panel, line["epoch"], line["share"], look, label=title, marks=5)
    panel.set_yscale("log")
    panel.locator_params(axis="x", nbins=5, integer=True)


def _start(panel: Any, loss: str) -> None:
    panel.axhline(1, color=style.MUTED, linewidth=0.8, linestyle=(0, (1, 2)), label="min-max, at the start")
    for bounding in BOUNDS[1:]:
        slopes = [max(slope, FLOOR) for slope in slopes_at_the_start(loss, bounding)]
        look, title = style.bounding_style(bounding, BOUNDS), style.bounding_title(bounding)
        style.line(panel, SIZES, slopes, look, label=title, marks=5)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks([6, 15, 36, 90, 240], ["6", "15", "36", "90", "240"])
    panel.minorticks_off()
