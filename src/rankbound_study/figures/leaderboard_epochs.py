"""Learning curves of all trained models: the validation score by epoch."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from rankbound_study.config.comparisons import STUDY
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.experiments import VARIANT
from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import BOOSTED_TREES, HONEST, JUDGED_BY

SPECS = {
    "figure_leaderboard_epochs": FigureSpec(
        "Validation score by epoch (by number of trees for boosted trees), the mean over folds and seeds. Columns are "
        "losses, each scored by the metric that selects its epoch; rows are models. Marks are the means of the "
        "selected epochs and of their scores: above a curve if its trainings select different epochs. A curve that "
        "still rises at its end was trained for too few epochs.",
        title="Learning curves",
        needs=("epochs", "experiment_epochs"),
        order=1,
    )
}

ROWS, COLUMNS = 6, 5
"""Panels that fit on a page."""

_ROW = ["dataset", "nsr_test", "model", "variant"]
_LINE = ["dataset", "nsr_test", "study", "model", "loss", "judge", "bounding"]


def draw(files: StudyFiles) -> Any:
    """Draw a row per data set and model, a column per loss, a line per bounding."""
    frame = _validation(files)
    if frame.is_empty():
        return remark("There are no validation scores by epoch: models of the honest protocol have them.")
    frame = frame.with_columns(_variant(frame))
    rows = [row[:-1] for row in sorted(frame.group_by(_ROW).agg(_of_experiments()).rows(), key=_place)]
    columns = [*JUDGED_BY, *sorted(set(frame["loss"]) - set(JUDGED_BY))]
    columns = [loss for loss in columns if loss in set(frame["loss"])]
    shown, losses = rows[:ROWS], columns[:COLUMNS]
    figure, axes = style.panels(len(shown), len(losses), height=0.9 + 1.35 * len(shown), sharex="row", sharey="col")
    for row, key in enumerate(shown):
        own = frame.filter(*(pl.col(name).eq_missing(value) for name, value in zip(_ROW, key, strict=True)))
        for column, loss in enumerate(losses):
            _panel(axes[row, column], own.filter(pl.col("loss") == loss))
            axes[row, column].set_xlabel("trees" if key[2] == BOOSTED_TREES else "epoch")
    for panel, loss in zip(axes[0], losses, strict=True):
        judge = frame.filter(pl.col("loss") == loss)["judge"][0]
        panel.set_title(f"{loss} loss" if judge == loss else f"{loss} loss\nby {judge}")
    style.row_titles(axes, [_title(key, rows) for key in shown])
    style.shared_legend(figure, axes, columns=6)
    figure.suptitle(f"Learning curves{_left_out(len(rows), len(columns))}")
    return figure


def _validation(files: StudyFiles) -> pl.DataFrame:
    """Return the validation score of every epoch by the metric that selects among them."""
    frames = []
    for path in (files.epochs, files.experiment_epochs):
        if path is None:
            continue
        own = scan_runs(path).filter(
            pl.col("protocol") == HONEST, pl.col("part") == "validation", pl.col("study") != STUDY
        )
        named = own.collect().with_columns(_judge().alias("judge"))
        for (judge,), part in named.group_by("judge", maintain_order=True):
            score = pl.col(str(judge)).fill_nan(None).alias("score")
            frames.append(part.select(*_LINE, "fold", "seed", "epoch", score).drop_nulls("score"))
    key = [*_LINE, "fold", "seed", "epoch"]
    return pl.concat(frames).sort(key) if frames else pl.DataFrame(schema=dict.fromkeys([*key, "score"], pl.String))


def _judge() -> pl.Expr:
    named = pl.col("options").str.json_path_match("$.judged_by")
    return named.fill_null(pl.col("loss").replace(JUDGED_BY))


def _panel(panel: Any, own: pl.DataFrame) -> None:
    if own.is_empty():
        panel.set_axis_off()
        return
    boundings = own["bounding"].unique().to_list()
    for bounding in sorted(boundings, key=_bounding_place):
        line = own.filter(pl.col("bounding") == bounding)
        look = style.bounding_style(bounding, boundings)
        mean = line.group_by("epoch").agg(pl.col("score").mean()).sort("epoch")
        title = style.bounding_title(bounding)
        panel.plot(
            mean["epoch"], mean["score"], color=look.color, linestyle=look.dashes, linewidth=1.0, label=f"_{title}"
        )
        best = (
            line.sort("score", "epoch", descending=[True, False]).group_by("fold", "seed", maintain_order=True).first()
        )
        panel.plot(
            [best["epoch"].mean()], [best["score"].mean()], color=look.color, marker=look.marker, markersize=3.6,
            linestyle="none", label=title,
        )  # fmt: skip
    panel.locator_params(axis="x", nbins=4, integer=True)
    panel.locator_params(axis="y", nbins=4)


def _bounding_place(bounding: str) -> tuple[int, str]:
    known = list(style.BOUNDING_STYLES)
    return (known.index(bounding) if bounding in known else len(known)), bounding


def _variant(frame: pl.DataFrame) -> pl.Expr:
    """Return the variant of a model that is trained with one loss and bounding in several; empty for others."""
    trained = frame.select(_LINE).unique().group_by("dataset", "nsr_test", "model", "loss", "bounding").len("settings")
    several = set(trained.filter(pl.col("settings") > 1)["model"])
    named = pl.col("study").str.splitn(VARIANT, 2).struct[1].fill_null("")
    return pl.when(pl.col("model").is_in(several)).then(named).otherwise(pl.lit("")).alias("variant")


def _of_experiments() -> pl.Expr:
    """Return whether all runs of a row are those of experiments: the study's own model comes first."""
    return pl.col("study").str.contains(VARIANT, literal=True).all()


def _place(key: Sequence[Any]) -> tuple[Any, ...]:
    dataset, nsr, model, variant, of_experiments = key
    return DataSet(dataset, nsr).place, of_experiments, model == BOOSTED_TREES, model, variant


def _title(key: Sequence[Any], every: Sequence[Sequence[Any]]) -> str:
    """Return a row's title: the model, with the variant and the data set where rows differ in them."""
    dataset, nsr, model, variant = key
    of_set = f", {DataSet(dataset, nsr).label}" if len({other[:2] for other in every}) > 1 else ""
    return f"{model}{f' ({variant})' if variant else ''}{of_set}"


def _left_out(rows: int, columns: int) -> str:
    kept = [(min(rows, ROWS), rows, "models"), (min(columns, COLUMNS), columns, "losses")]
    texts = [f"the first {shown} of {every} {what}" for shown, every, what in kept if shown < every]
    return f" ({', '.join(texts)})" if texts else ""
