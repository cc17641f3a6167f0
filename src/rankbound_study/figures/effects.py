"""Figures of the effects of bounding and of list weights: all cells, regimes of generated data, the law, powers."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS as COLUMNS
from rankbound_study.claims.effects import MEAN_COLUMNS, MEANS, NAME, REGIME_COLUMNS
from rankbound_study.claims.law import ALL, BOUNDS, CHANGES, EXPERIMENT, LINE_COLUMNS, LINES, MISMATCH, SECOND, WEIGHTS
from rankbound_study.claims.law import COLUMNS as LAW_COLUMNS
from rankbound_study.claims.law import NAME as LAW_NAME
from rankbound_study.config.data_sets import DataSet, SampledName
from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec, made
from rankbound_study.results.scores import losses as losses_of
from rankbound_study.results.scores import of_data_set
from rankbound_study.results.study_files import StudyFiles, read_table, signed
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES, ListWeights

FIGURES = Catalogue(FigureSpec, "figures_effects.md")

NO_EFFECTS = "There is nothing to draw: add table_effects to the tables of the configuration, and honest runs."
_LINEAR = 0.01
"""Effects up to which the scale is linear."""

_EFFECT_TICKS = {-0.1: "−0.1", -0.01: "", -0.005: "−0.005", 0.0: "0", 0.005: "0.005", 0.01: "0.01"}


@FIGURES.add("figure_effects", title="The effects of bounding", needs=("effects",), order=5)
def effects(files: StudyFiles) -> Any:
    """Draw a panel per loss, a row per data set and bounding, and the mean effects below."""
    cells, means = made(files.effects, NAME, COLUMNS), made(files.effects, MEANS, MEAN_COLUMNS)
    if cells.is_empty():
        return style.remark(NO_EFFECTS)
    losses = losses_of(cells)
    sets = sorted({DataSet(*row) for row in cells.select("dataset", "nsr").rows()}, key=lambda one: one.place)
    kinds = means["bounds"].unique(maintain_order=True).to_list()
    bounded = [name for name in BOUNDED if name in set(cells["bounding"])]
    rows = {
        key: -float(place + place // len(bounded) * 0.7)
        for place, key in enumerate((one, name) for one in sets for name in bounded)
    }
    lowest = min(rows.values())
    of_means = {kind: lowest - 1.7 - place for place, kind in enumerate(kinds)}
    figure, axes = style.panels(1, len(losses), height=1.1 + 0.155 * (len(rows) + len(kinds) + len(sets)), sharey=True)
    for panel, loss in zip(axes[0], losses, strict=True):
        _cells(panel, cells.filter(pl.col("loss") == loss), rows)
        _means(panel, means.filter(pl.col("loss") == loss), of_means)
        panel.set_title(f"{loss} loss")
        panel.set_xscale("symlog", linthresh=_LINEAR, linscale=2)
        panel.set_xticks(list(_EFFECT_TICKS), list(_EFFECT_TICKS.values()))
        panel.tick_params(axis="x", labelsize=7)
        panel.set_xlabel("bounded − unbounded")
    names = {height: f"{data_set.label}, {name}" for (data_set, name), height in rows.items()}
    names |= {height: f"mean, {kind}" for kind, height in of_means.items()}
    axes[0, 0].set_yticks(list(names), list(names.values()))
    axes[0, 0].tick_params(axis="y", labelsize=6.5)
    axes[0, 0].set_ylim(min(names) - 0.8, 0.8)
    return style.finish(figure, axes, "The effects of bounding", legend=4)


def _cells(panel: Any, cells: pl.DataFrame, rows: Mapping[tuple[DataSet, str], float]) -> None:
    panel.axvline(0, color=style.MUTED, linewidth=0.6, label="_zero")
    for row in cells.iter_rows(named=True):
        data_set = DataSet(row["dataset"], row["nsr"])
        height, look = rows[data_set, row["bounding"]], style.bounding_style(row["bounding"], BOUNDED)
        if (margin := row["margin"]) is not None:
            panel.barh(height, 2 * margin, 0.9, -margin, color=style.SHADE, alpha=0.6, linewidth=0, label="_margin")
        name = f"_{data_set.label}, {row['bounding']}: {_text(row['effect'], row['low'], row['high'])}"
        panel.plot([row["low"], row["high"]], [height, height], color=look.color, linewidth=0.9, label=name)
        hollow = row["p_holm"] > LEVEL
        style.marks(panel, [row["effect"]], [height], look.color, look.marker, hollow=hollow, label=name)
    shown = dict.fromkeys(bounding for _, bounding in rows)
    looks = ((bounding, style.bounding_style(bounding, BOUNDED)) for bounding in shown)
    style.entries(panel, ((bounding, look.color, look.marker) for bounding, look in looks))


def _means(panel: Any, means: pl.DataFrame, heights: Mapping[str, float]) -> None:
    for row in means.iter_rows(named=True):
        height, (low, mean, high) = heights[row["bounds"]], (row["low"], row["mean"], row["high"])
        name = f"_mean of {row['n']} cells, {row['bounds']}: {_text(mean, low, high)}"
        across, along = [low, mean, high, mean, low], [height, height + 0.4, height, height - 0.4, height]
        panel.fill(across, along, color=style.INK, linewidth=0, label=name)


def _text(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})".replace("-", "−")


NO_REGIMES = "There is no map of regimes to draw: add table_regimes to the tables of the configuration."
LINEAR_WITHIN = 0.05
"""Largest effect on the linear part of the axis."""

_REGIME_TICKS = (-0.5, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.5)
_SHIFT = 0.035
"""Distance between the marks of two boundings, which keeps their intervals apart."""


@FIGURES.add("figure_regimes", title="Effect of bounding by regime", needs=("regimes",))
def regimes(files: StudyFiles) -> Any:
    """Draw a row of panels per loss and capacity, with a line per bounding, from the rows of planted data sets."""
    if files.regimes is None:
        return style.remark(NO_REGIMES)
    # Affine boundings of nRBP are the same up to a factor, so one is kept.
    same = (pl.col("loss") == "nRBP") & pl.col("bounding").is_in(AFFINE[1:])
    table = read_table(files.regimes, REGIME_COLUMNS).filter(pl.col("spread").is_not_null(), ~same)
    if table.is_empty():
        return style.remark(NO_REGIMES)
    rows = list(_rows(table))
    correlations = table["correlation"].unique().sort().to_list()
    boundings = table["bounding"].unique(maintain_order=True).to_list()
    figure, axes = style.panels(len(rows), len(correlations), height=0.6 + 1.25 * len(rows), sharex=True, sharey=True)
    axes[0, 0].set_yscale("symlog", linthresh=LINEAR_WITHIN)
    axes[0, 0].set_yticks(_REGIME_TICKS, [f"{tick:g}".replace("-", "−") for tick in _REGIME_TICKS])
    reach = max(1.2 * LINEAR_WITHIN, 1.2 * float(table.select(pl.max_horizontal(-pl.col("low"), "high").max()).item()))
    axes[0, 0].set_ylim(-reach, reach)
    axes[0, 0].set_xticks(table["spread"].unique().sort().to_list())
    for panels, (_, own) in zip(axes, rows, strict=True):
        for panel, correlation in zip(panels, correlations, strict=True):
            _regime_panel(panel, own.filter(pl.col("correlation") == correlation), boundings)
    for panel, correlation in zip(axes[0], correlations, strict=True):
        panel.set_title(f"correlation {correlation:g}")
    title, labels = "Where does bounding help? Synthetic data", ("spread of list sizes", "bounded minus unbounded")
    return style.finish(figure, axes, title, x=labels[0], y=labels[1], rows=[name for name, _ in rows], legend=3)


def _rows(table: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    below = pl.col("factors") < pl.col("rank")
    for capacity, chosen in (("true rank", ~below), ("fewer factors", below)):
        for loss in LOSSES:
            own = table.filter(chosen, pl.col("loss") == loss)
            if len(own):
                yield f"{loss}, {capacity}", own


_NUMBERS = ("effect", "low", "high")


def _regime_panel(panel: Any, rows: pl.DataFrame, boundings: list[str]) -> None:
    if rows.is_empty():
        style.empty_panel(panel)
        return
    style.zero(panel, "no effect", width=0.7)
    mixed = pl.Series([bool(SampledName.of(name).ratios) for name in rows["dataset"]], dtype=pl.Boolean)
    for place, bounding in enumerate(boundings):
        look = style.bounding_style(bounding, boundings)
        shift = (place - (len(boundings) - 1) / 2) * _SHIFT
        for own, is_mixed in ((rows.filter(~mixed), False), (rows.filter(mixed), True)):
            line = own.filter(pl.col("bounding") == bounding).sort("spread")
            trained, untrained = line.filter(n_untrained=0), line.filter(pl.col("n_untrained") > 0)
            if len(trained):
                x, numbers = trained["spread"] + (shift + is_mixed * _SHIFT / 2), (trained[one] for one in _NUMBERS)
                options: dict[str, Any] = {"linestyle": "none" if is_mixed else look.dashes, "label": bounding}
                options |= {"markerfacecolor": "white", "label": f"_{bounding}, mixed ratios"} if is_mixed else {}
                style.with_intervals(panel, look, x, numbers, **options)
            x, label = untrained["spread"] + shift, f"_{bounding}, some did not train"
            style.marks(panel, x, untrained["effect"], look.color, "x", markersize=5, label=label)


NO_LAW = "There is nothing to draw: add table_law to the tables of the configuration, and runs of the honest protocol."
COLORS = dict(zip(LOSSES, (style.BLUE, style.VERMILION, style.GREEN), strict=True))


_AXES = {MISMATCH: "change of mismatch (CV)", WEIGHTS: "variation of weights (CV)"}
_MARKERS = "osDv^P"


@FIGURES.add("figure_law", title="The law of list weights", needs=("law",), order=10)
def law(files: StudyFiles) -> Any:
    """Draw a panel per predictor."""
    cells = made(files.law, LAW_NAME, LAW_COLUMNS).filter(pl.col("same_as").fill_null("") == "")
    if cells.is_empty():
        return style.remark(NO_LAW)
    lines = made(files.law, LINES, LINE_COLUMNS).filter(pl.col("cells") == ALL)
    figure, axes = style.panels(1, len(_AXES), height=3.6, sharey=True)
    sets = list(dict.fromkeys(cells.select("dataset", "nsr").rows()))
    for panel, (predictor, label) in zip(axes[0], _AXES.items(), strict=True):
        style.zero(panel)
        _least_squares(panel, cells[CHANGES[predictor]], lines.filter(pl.col("predictor") == predictor))
        for row in cells.iter_rows(named=True):
            color, x = COLORS[row["loss"]], row[CHANGES[predictor]]
            name = f"_{row['loss']}, {row['weights']}, {DataSet(row['dataset'], row['nsr']).label}"
            panel.plot([x, x], [row["low"], row["high"]], color=color, linewidth=0.7, alpha=0.55, label=name)
            marker = _MARKERS[sets.index((row["dataset"], row["nsr"])) % len(_MARKERS)]
            style.marks(panel, [x], [row["effect"]], color, marker, hollow=row["origin"] != BOUNDS, label=name)
        panel.set_xlabel(label)
    style.entries(axes[0, 0], ((loss, COLORS[loss], "o") for loss in cells["loss"].unique(maintain_order=True)))
    markers = ((DataSet(*key).label, _MARKERS[place % len(_MARKERS)]) for place, key in enumerate(sets))
    style.entries(axes[0, 0], ((label, style.MUTED, marker) for label, marker in markers))
    axes[0, 0].set_ylabel("score with weights − without")
    return style.finish(figure, axes, "The law of list weights", legend=4)


def _least_squares(panel: Any, changes: pl.Series, lines: pl.DataFrame) -> None:
    for line in lines.head(1).iter_rows(named=True):
        ends = np.array([min(0.0, float(changes.min())), float(changes.max())])  # type: ignore[arg-type]
        fitted = line["intercept"] + line["slope"] * ends
        panel.plot(ends, fitted, color=style.INK, linewidth=1, label="least squares")
        text = "slope {slope:+.4f}\n({slope_low:+.4f} to {slope_high:+.4f}), R² {r_squared:.2f}".format_map(line)
        style.note(panel, text.replace("-", "−"), (0.02, 0.02), ha="left", va="bottom")


NO_POWERS = "There is nothing to draw: add the experiment `weights` and table_law to the configuration."
_PERMUTED = "permuted(pairs^-1)"
_AT = 1.0
"""The place of the permuted weights on the axis."""


@FIGURES.add("figure_weight_powers", title="Powers of the number of pairs", needs=("law",), order=11)
def weight_powers(files: StudyFiles) -> Any:
    """Draw a panel per data set, with a line per loss."""
    cells = made(files.law, LAW_NAME, LAW_COLUMNS).filter(pl.col("origin").is_in([EXPERIMENT, SECOND]))
    if cells.is_empty():
        return style.remark(NO_POWERS)
    sets = list(dict.fromkeys(cells.select("dataset", "nsr", "origin").rows()))
    figure, axes = style.panels(1, len(sets), height=3.1, sharey="row")
    for panel, (*key, origin) in zip(axes[0], sets, strict=True):
        own = of_data_set(cells.filter(pl.col("origin") == origin), DataSet(*key), "nsr")
        style.zero(panel)
        for place, loss in enumerate(loss for loss in COLORS if loss in own["loss"]):
            _curve(panel, own.filter(pl.col("loss") == loss), loss, (place - 1) * 0.035)
        panel.set_title(DataSet(*key).label)
        ticks = {-1.0: "−1", -0.5: "−0.5", 0.0: "0", 0.5: "0.5"}
        ticks = {-1.5: "−1.5", **ticks, _AT: "−1,\npermuted"} if origin == EXPERIMENT else {**ticks, 1.0: "1\n"}
        panel.set_xticks(list(ticks), list(ticks.values()))
        panel.set_xlabel("power of P(N − P)")
    axes[0, 0].set_ylabel("score with weights − without")
    return style.finish(figure, axes, "Powers of the number of pairs", legend=3)


def _curve(panel: Any, own: pl.DataFrame, loss: str, shift: float) -> None:
    """Draw the points of a loss, shifted sideways so that intervals do not cover each other."""
    rows = {row["weights"]: row for row in own.iter_rows(named=True)}
    weights = {text: ListWeights.of(text) for text in rows}
    powers = {one.power: rows[text] for text, one in weights.items() if one.quantity == "pairs" and not one.permuted}
    zero = {"effect": 0.0, "low": 0.0, "high": 0.0}
    points = sorted({0.0: zero, **powers}.items())
    x = [power + shift for power, _ in points]
    color = COLORS[loss]
    panel.plot(x, [row["effect"] for _, row in points], color=color, marker="o", markersize=3.5, label=loss)
    for place, (_, row) in zip(x, points, strict=True):
        panel.plot([place] * 2, [row["low"], row["high"]], color=color, linewidth=0.8, label=f"_{loss}")
    if _PERMUTED in rows:
        moved = rows[_PERMUTED]
        panel.plot([_AT + shift] * 2, [moved["low"], moved["high"]], color=color, linewidth=0.8, label=f"_{loss}")
        style.marks(panel, [_AT + shift], [moved["effect"]], color, "o", hollow=True, label=f"_{loss}, permuted")
