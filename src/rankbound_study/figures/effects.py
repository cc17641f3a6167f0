"""The effects of bounding as a forest plot: every distinct cell with its interval and margin, and the mean effects."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS, MEAN_COLUMNS, MEANS, NAME
from rankbound_study.config.data_sets import DataSet
from rankbound_study.figures import style
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec
from rankbound_study.results.made_files import reading
from rankbound_study.results.number_texts import signed
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import BOUNDED, LOSSES

SPECS = {
    "figure_effects": FigureSpec(
        "Bounded minus unbounded with 95 % intervals over topics and trainings, in the metric that judges the loss. "
        "Filled: significant after Holm's correction; shaded: the noise margin between two trainings of one system. "
        "Diamonds are mean effects over the cells of a column (a random-effects model). The affine bounds of nRBP are "
        "one training, drawn as min-max. Beyond ±0.01 the scale is logarithmic.",
        title="The effects of bounding",
        needs=("effects",),
        order=5,
    )
}

NOTHING = "There is nothing to draw: add table_effects to the tables of the configuration, and honest runs."

_LINEAR = 0.01
"""Effects up to which the scale is linear."""

_TICKS = {-0.1: "−0.1", -0.01: "", -0.005: "−0.005", 0.0: "0", 0.005: "0.005", 0.01: "0.01"}


def draw(files: StudyFiles) -> Any:
    """Draw a panel per loss, a row per data set and bounding, and the mean effects below."""
    cells, means = _read(files, NAME, CELL_COLUMNS), _read(files, MEANS, MEAN_COLUMNS)
    if cells.is_empty():
        return remark(NOTHING)
    losses = [loss for loss in LOSSES if loss in set(cells["loss"])]
    sets = sorted({DataSet(*row) for row in cells.select("dataset", "nsr").rows()}, key=lambda one: one.place)
    kinds = means["bounds"].unique(maintain_order=True).to_list()
    rows = {
        key: -float(place + place // len(BOUNDED) * 0.7)
        for place, key in enumerate((one, name) for one in sets for name in BOUNDED)
    }
    lowest = min(rows.values())
    of_means = {kind: lowest - 1.7 - place for place, kind in enumerate(kinds)}
    figure, axes = style.panels(1, len(losses), height=1.1 + 0.155 * (len(rows) + len(kinds) + len(sets)), sharey=True)
    for panel, loss in zip(axes[0], losses, strict=True):
        _panel(panel, cells.filter(pl.col("loss") == loss), rows)
        _means(panel, means.filter(pl.col("loss") == loss), of_means)
        panel.set_title(f"{loss} loss")
        panel.set_xscale("symlog", linthresh=_LINEAR, linscale=2)
        panel.set_xticks(list(_TICKS), list(_TICKS.values()))
        panel.tick_params(axis="x", labelsize=7)
        panel.set_xlabel("bounded − unbounded")
    names = {height: f"{data_set.label}, {name}" for (data_set, name), height in rows.items()}
    names |= {height: f"mean, {kind}" for kind, height in of_means.items()}
    axes[0, 0].set_yticks(list(names), list(names.values()))
    axes[0, 0].tick_params(axis="y", labelsize=6.5)
    axes[0, 0].set_ylim(min(names) - 0.8, 0.8)
    style.shared_legend(figure, axes, columns=4)
    figure.suptitle("The effects of bounding")
    return figure


def _read(files: StudyFiles, stem: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    for path in files.effects:
        if path.stem == stem:
            with reading(path):
                return pl.read_csv(path, schema=columns)
    return pl.DataFrame(schema=columns)


def _panel(panel: Any, cells: pl.DataFrame, rows: Mapping[tuple[DataSet, str], float]) -> None:
    panel.axvline(0, color=style.MUTED, linewidth=0.6, label="_zero")
    for row in cells.iter_rows(named=True):
        data_set = DataSet(row["dataset"], row["nsr"])
        height, look = rows[data_set, row["bounding"]], style.bounding_style(row["bounding"], BOUNDED)
        if row["margin"] is not None:
            margin = row["margin"]
            panel.barh(height, 2 * margin, 0.9, -margin, color=style.SHADE, alpha=0.6, linewidth=0, label="_margin")
        name = f"_{data_set.label}, {row['bounding']}: {_text(row['effect'], row['low'], row['high'])}"
        panel.plot([row["low"], row["high"]], [height, height], color=look.color, linewidth=0.9, label=name)
        face = look.color if row["p_holm"] <= LEVEL else "none"
        panel.plot(
            [row["effect"]], [height], color=look.color, marker=look.marker, markersize=4, markerfacecolor=face,
            linestyle="none", label=name,
        )  # fmt: skip
    for bounding in BOUNDED:
        look = style.bounding_style(bounding, BOUNDED)
        panel.plot([], [], color=look.color, marker=look.marker, markersize=4, linestyle="none", label=bounding)


def _means(panel: Any, means: pl.DataFrame, heights: Mapping[str, float]) -> None:
    for row in means.iter_rows(named=True):
        height, (low, mean, high) = heights[row["bounds"]], (row["low"], row["mean"], row["high"])
        name = f"_mean of {row['n']} cells, {row['bounds']}: {_text(mean, low, high)}"
        across, along = [low, mean, high, mean, low], [height, height + 0.4, height, height - 0.4, height]
        panel.fill(across, along, color=style.INK, linewidth=0, label=name)


def _text(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})".replace("-", "−")
