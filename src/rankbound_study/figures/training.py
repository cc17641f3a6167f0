"""Figures of trainings: learning curves, norms of gradients, and scores by learning rate."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import RATES
from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec
from rankbound_study.results.scores import losses as losses_of
from rankbound_study.results.scores import of_data_set, place
from rankbound_study.results.study_files import StudyFiles, read_frame, scan_runs
from rankbound_study.vocabulary import BOOSTED_TREES, BOUNDINGS, HONEST, JUDGED_BY, LOSSES, STUDY, UNBOUNDED, VARIANT

FIGURES = Catalogue(FigureSpec, "figures_training.md")

ROWS, COLUMNS = 6, 5
"""Panels that fit on a page."""

_ROW = ["dataset", "nsr_test", "model", "variant"]
_CURVE = ["dataset", "nsr_test", "study", "model", "loss", "judge", "bounding"]


@FIGURES.add("figure_leaderboard_epochs", title="Learning curves", needs=("epochs", "experiment_epochs"), order=1)
def learning_curves(files: StudyFiles) -> Any:
    """Draw a row per data set and model, a column per loss, a line per bounding."""
    frame = _validation(files)
    if frame.is_empty():
        return style.remark("There are no validation scores by epoch: models of the honest protocol have them.")
    # A model that is trained with one loss and bounding in several variants has a row for each.
    trained = frame.select(_CURVE).unique().group_by("dataset", "nsr_test", "model", "loss", "bounding").len("settings")
    several = pl.col("model").is_in(set(trained.filter(pl.col("settings") > 1)["model"]))
    named = pl.col("study").str.splitn(VARIANT, 2).struct[1].fill_null("")
    frame = frame.with_columns(pl.when(several).then(named).otherwise(pl.lit("")).alias("variant"))
    # The study's own model comes first, before those of which all runs are those of experiments.
    of_experiments = pl.col("study").str.contains(VARIANT, literal=True).all()
    rows = [
        (dataset, nsr, model, variant)
        for dataset, nsr, model, variant, _ in sorted(
            frame.group_by(_ROW).agg(of_experiments).rows(),
            key=lambda row: (DataSet(*row[:2]).place, row[4], row[2] == BOOSTED_TREES, *row[2:4]),
        )
    ]
    columns = [*JUDGED_BY, *sorted(set(frame["loss"]) - set(JUDGED_BY))]
    columns = [loss for loss in columns if loss in set(frame["loss"])]
    shown, losses = rows[:ROWS], columns[:COLUMNS]
    figure, axes = style.panels(len(shown), len(losses), height=0.9 + 1.35 * len(shown), sharex="row", sharey="col")
    for row, key in enumerate(shown):
        own = frame.filter(*(pl.col(name).eq_missing(value) for name, value in zip(_ROW, key, strict=True)))
        for column, loss in enumerate(losses):
            _curves(axes[row, column], own.filter(pl.col("loss") == loss))
            axes[row, column].set_xlabel("trees" if key[2] == BOOSTED_TREES else "epoch")
    for panel, loss in zip(axes[0], losses, strict=True):
        judge = frame.filter(pl.col("loss") == loss)["judge"][0]
        panel.set_title(f"{loss} loss" if judge == loss else f"{loss} loss\nby {judge}")
    kept = ((shown, rows, "models"), (losses, columns, "losses"))
    fewer = [f"the first {len(some)} of {len(every)} {what}" for some, every, what in kept if len(some) < len(every)]
    title = f"Learning curves ({', '.join(fewer)})" if fewer else "Learning curves"
    return style.finish(figure, axes, title, rows=[_row_title(key, rows) for key in shown], legend=6)


def _validation(files: StudyFiles) -> pl.DataFrame:
    """Return the validation score of every epoch by the metric that selects among them."""
    frames = []
    for path in (files.epochs, files.experiment_epochs):
        if path is None:
            continue
        own = scan_runs(path).filter(
            pl.col("protocol") == HONEST, pl.col("part") == "validation", pl.col("study") != STUDY
        )
        named = pl.col("options").str.json_path_match("$.judged_by")
        judged = own.collect().with_columns(named.fill_null(pl.col("loss").replace(JUDGED_BY)).alias("judge"))
        for (judge,), part in judged.group_by("judge", maintain_order=True):
            score = pl.col(str(judge)).fill_nan(None).alias("score")
            frames.append(part.select(*_CURVE, "fold", "seed", "epoch", score).drop_nulls("score"))
    key = [*_CURVE, "fold", "seed", "epoch"]
    return pl.concat(frames).sort(key) if frames else pl.DataFrame(schema=dict.fromkeys([*key, "score"], pl.String))


def _curves(panel: Any, own: pl.DataFrame) -> None:
    if own.is_empty():
        panel.set_axis_off()
        return
    boundings = own["bounding"].unique().to_list()
    for bounding in sorted(boundings, key=lambda name: place(name, list(style.BOUNDING_STYLES))):
        line = own.filter(pl.col("bounding") == bounding)
        look, title = style.bounding_style(bounding, boundings), style.bounding_title(bounding)
        mean = line.group_by("epoch").agg(pl.col("score").mean()).sort("epoch")
        of_line = {"color": look.color, "linestyle": look.dashes, "linewidth": 1.0, "label": f"_{title}"}
        panel.plot(mean["epoch"], mean["score"], **of_line)
        highest = line.sort("score", "epoch", descending=[True, False])
        best = highest.group_by("fold", "seed", maintain_order=True).first()
        x, y = ([best[name].mean()] for name in ("epoch", "score"))
        style.marks(panel, x, y, look.color, look.marker, markersize=3.6, label=title)
    panel.locator_params(axis="x", nbins=4, integer=True)
    panel.locator_params(axis="y", nbins=4)


def _row_title(key: Sequence[Any], every: Sequence[Sequence[Any]]) -> str:
    """Return a row's title: the model, with the variant and the data set where rows differ in them."""
    dataset, nsr, model, variant = key
    of_set = f", {DataSet(dataset, nsr).label}" if len({other[:2] for other in every}) > 1 else ""
    return f"{model}{f' ({variant})' if variant else ''}{of_set}"


BOUNDS = (UNBOUNDED, "distribution", "distribution(gain=sd)")
MOST_SETS = 3
"""Data sets that fit above."""

SIZES = (6, 9, 15, 24, 36, 60, 90, 120, 180, 240)
RELEVANT = 1 / 3
FLOOR = 1e-5
"""Lowest slope and share that are drawn."""


@FIGURES.add(
    "figure_gradients", title="Gradients under distribution bounding", needs=("epochs", "experiment_epochs"), order=12
)
def gradients(files: StudyFiles) -> Any:
    """Draw a row per data set with other gains (or the first ones), then the start; columns are losses."""
    norms = gradient_norms(files)
    # The data sets with another gain, or, without any, the first ones.
    other = norms.filter(pl.col("bounding") == BOUNDS[-1])
    found = (other if len(other) else norms).select("dataset", "nsr_test").unique().rows()
    sets = sorted((DataSet(*row) for row in found), key=lambda data_set: data_set.place)[:MOST_SETS]
    losses = losses_of(norms)
    figure, axes = style.panels(len(sets) + 1, len(losses), height=1.2 + 1.3 * (len(sets) + 1), sharey="row")
    for column, loss in enumerate(losses):
        for row, data_set in enumerate(sets):
            panel, own = axes[row, column], of_data_set(norms, data_set)
            for bounding in BOUNDS:
                line = own.filter(pl.col("loss") == loss, pl.col("bounding") == bounding, pl.col("share") > 0)
                if len(line):
                    look, title = style.bounding_style(bounding, BOUNDS), style.bounding_title(bounding)
                    style.line(panel, line["epoch"], line["share"], look, label=title, marks=5)
            panel.set_yscale("log")
            panel.locator_params(axis="x", nbins=5, integer=True)
        _start(axes[-1, column], loss)
        axes[0, column].set_title(f"{loss} loss")
        axes[-1, column].set_xlabel("items in the list")
        if sets:
            axes[-2, column].set_xlabel("epoch")
    axes[0, 0].set_ylabel("share of largest norm" if sets else "slope at the start")
    axes[-1, 0].set_ylabel("slope at the start")
    rows = [*(data_set.label for data_set in sets), "at the start"]
    return style.finish(figure, axes, "Gradients under distribution bounding", rows=rows, legend=4)


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
        for bounding in (bound, UNBOUNDED):
            scores = torch.zeros(n, dtype=torch.float64, requires_grad=True)
            rb.SmoothLoss(loss, bounding)(scores, relevance, [0, n]).backward()  # type: ignore[no-untyped-call]
            assert scores.grad is not None
            norms.append(float(scores.grad.norm()))
        size = np.array([n]), np.array([p])
        found.append(norms[0] / norms[1] * float((rb.maximum(loss, *size) - rb.minimum(loss, *size))[0]))
    return found


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


_CELL = ["dataset", "nsr_test", "loss", "bounding"]
MARK = 80.0
"""Area of the mark of a rate that all folds select, in square points."""

MOST_NAMED = 3
"""Number of rates whose names have room below a panel."""


@FIGURES.add("figure_bounding_rates", title="Learning rates and boundings", needs=("rates",))
def rates(files: StudyFiles) -> Any:
    """Draw a column per data set, a row per loss, a line per bounding."""
    frame = read_frame(files.needed("rates"), RATES).filter(
        pl.col("study") != STUDY, pl.col("loss").is_in(LOSSES), pl.col("bounding").is_in(BOUNDINGS)
    )
    if frame.is_empty():
        return style.remark("There are no grids of learning rates: every training has one rate.")
    points = frame.group_by(*_CELL, "learning_rate").agg(pl.col("test_score").mean(), pl.col("chosen").sum())
    sets = sorted((DataSet(*row) for row in points.select(_CELL[:2]).unique().rows()), key=lambda one: one.place)
    losses = losses_of(points)
    figure, axes = style.panels(len(losses), len(sets), height=0.9 + 1.5 * len(losses), sharex="col")
    for row, loss in enumerate(losses):
        for column, data_set in enumerate(sets):
            _rates_panel(axes[row, column], of_data_set(points, data_set).filter(pl.col("loss") == loss))
    for panel, data_set in zip(axes[0], sets, strict=True):
        panel.set_title(data_set.title)
    for panel in axes[-1]:
        panel.set_xlabel("learning rate")
    return style.finish(figure, axes, rows=[f"{loss} loss by {JUDGED_BY[loss]}" for loss in losses], legend=5)


def _rates_panel(panel: Any, own: pl.DataFrame) -> None:
    if own.is_empty():
        style.empty_panel(panel)
        return
    for bounding in [one for one in BOUNDINGS if one in set(own["bounding"])]:
        line = own.filter(pl.col("bounding") == bounding).sort("learning_rate")
        look, title = style.bounding_style(bounding, BOUNDINGS), style.bounding_title(bounding)
        x, y = (line[name].to_numpy() for name in ("learning_rate", "test_score"))
        panel.plot(x, y, color=look.color, linestyle=look.dashes, linewidth=1.0, label=title)
        marked = line.filter(pl.col("chosen") > 0)
        share = marked["chosen"].to_numpy() / line["chosen"].sum()
        of_marks = {"s": MARK * share, "marker": look.marker, "alpha": 0.7, "linewidths": 0}
        panel.scatter(
            marked["learning_rate"], marked["test_score"], color=look.color, label=f"_{title}, selected", **of_marks
        )
    rates = own["learning_rate"].unique().sort().to_list()
    panel.set_xscale("log")
    # The lowest, the middle and the highest.
    named = rates if len(rates) <= MOST_NAMED else (rates[0], rates[(len(rates) - 1) // 2], rates[-1])
    panel.set_xticks(rates, [f"{rate:g}" if rate in named else "" for rate in rates])
    panel.minorticks_off()
    panel.locator_params(axis="y", nbins=4)
