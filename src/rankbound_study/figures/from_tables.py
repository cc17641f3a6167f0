"""Figures drawn from tables: effects of bounding, regimes of generated data, the law of list weights, leaderboard."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound.compare.comparison import LEVEL
from rankbound_study.claims import effects as of_effects
from rankbound_study.claims import law as of_law
from rankbound_study.claims import leaderboard as board
from rankbound_study.claims.leaderboard import BASELINE, BEST, ORACLE, PARTNER, WORSE
from rankbound_study.config.data_sets import DataSet, SampledName
from rankbound_study.figures import Catalogue, FigureSpec, style
from rankbound_study.results import scores
from rankbound_study.results.study_files import StudyFiles, read_table, signed
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES, ListWeights

FIGURES = Catalogue(FigureSpec, "figures_from_tables.md")


def _made(paths: Iterable[Path], stem: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    """Read the table of that name among CSV files; no rows if it was not made."""
    path = next((path for path in paths if path.stem == stem), None)
    return pl.DataFrame(schema=columns) if path is None else read_table(path, columns)


def _nothing(table: str) -> Any:
    text = "and the honest runs or experiments that it is made from"
    return style.remark(f"There is nothing to draw: add {table} to the tables of the configuration, {text}.")


_EFFECT_TICKS = {-0.1: "−0.1", -0.01: "", -0.005: "−0.005", 0.0: "0", 0.005: "0.005", 0.01: "0.01"}


@FIGURES.add("figure_effects", title="The effects of bounding", needs=("effects",), order=5)
def effects(files: StudyFiles) -> Any:
    """Draw a panel per loss, a row per data set and bounding, and the mean effects below."""
    cells = _made(files.effects, of_effects.NAME, of_effects.CELL_COLUMNS)
    means = _made(files.effects, of_effects.MEANS, of_effects.MEAN_COLUMNS)
    if cells.is_empty():
        return _nothing("table_effects")
    losses = scores.losses(cells)
    sets = scores.data_sets(cells, "nsr")
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
        for row in means.filter(pl.col("loss") == loss).iter_rows(named=True):
            height, (low, mean, high) = of_means[row["bounds"]], (row["low"], row["mean"], row["high"])
            name = f"_mean of {row['n']} cells, {row['bounds']}: {_text(mean, low, high)}"
            across, along = [low, mean, high, mean, low], [height, height + 0.4, height, height - 0.4, height]
            panel.fill(across, along, color=style.INK, linewidth=0, label=name)
        panel.set_xscale("symlog", linthresh=0.01, linscale=2)
        panel.set_xticks(list(_EFFECT_TICKS), list(_EFFECT_TICKS.values()))
        panel.tick_params(axis="x", labelsize=7)
        panel.set_xlabel("bounded − unbounded")
    names = {height: f"{data_set.label}, {name}" for (data_set, name), height in rows.items()}
    names |= {height: f"mean, {kind}" for kind, height in of_means.items()}
    axes[0, 0].set_yticks(list(names), list(names.values()))
    axes[0, 0].tick_params(axis="y", labelsize=6.5)
    axes[0, 0].set_ylim(min(names) - 0.8, 0.8)
    columns = [f"{loss} loss" for loss in losses]
    return style.finish(figure, axes, "The effects of bounding", columns=columns, legend=4)


def _cells(panel: Any, cells: pl.DataFrame, rows: Mapping[tuple[DataSet, str], float]) -> None:
    panel.axvline(0, color=style.MUTED, linewidth=0.6, label="_zero")
    for row in cells.iter_rows(named=True):
        data_set = DataSet(row["dataset"], row["nsr"])
        height, look = rows[data_set, row["bounding"]], style.bounding_style(row["bounding"], BOUNDED)
        if (margin := row["margin"]) is not None:
            grey: Any = {"color": style.SHADE, "alpha": 0.6, "linewidth": 0}
            panel.barh(height, 2 * margin, 0.9, -margin, label=[f"_margin: ±{margin:.4f}"], **grey)
        name = f"_{data_set.label}, {row['bounding']}: {_text(row['effect'], row['low'], row['high'])}"
        panel.plot([row["low"], row["high"]], [height, height], color=look.color, linewidth=0.9, label=name)
        hollow = row["p_holm"] > LEVEL
        style.marks(panel, [row["effect"]], [height], look.color, look.marker, hollow=hollow, label=name)
    for bounding in dict.fromkeys(bounding for _, bounding in rows):
        look = style.bounding_style(bounding, BOUNDED)
        style.marks(panel, [], [], look.color, look.marker, label=bounding)


def _text(value: float, low: float, high: float) -> str:
    return f"{signed(value)} ({signed(low)} to {signed(high)})".replace("-", "−")


LINEAR_WITHIN = 0.05
"""Largest effect on the linear part of the axis."""

_REGIME_TICKS = (-0.5, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.5)
_SHIFT = 0.035
"""Distance between the marks of two boundings, which keeps their intervals apart."""


@FIGURES.add("figure_regimes", title="Effect of bounding by regime", needs=("regimes",))
def regimes(files: StudyFiles) -> Any:
    """Draw a row of panels per loss and capacity, with a line per bounding, from the rows of planted data sets."""
    # Affine boundings of nRBP are the same up to a factor, so one is kept.
    same = (pl.col("loss") == "nRBP") & pl.col("bounding").is_in(AFFINE[1:])
    empty = pl.DataFrame(schema=of_effects.REGIME_COLUMNS)
    table = empty if files.regimes is None else read_table(files.regimes, of_effects.REGIME_COLUMNS)
    table = table.filter(pl.col("spread").is_not_null(), ~same)
    if table.is_empty():
        return _nothing("table_regimes")
    below = pl.col("factors") < pl.col("rank")
    capacities = product((("true rank", ~below), ("fewer factors", below)), LOSSES)
    every = ((f"{loss}, {name}", table.filter(chosen, pl.col("loss") == loss)) for (name, chosen), loss in capacities)
    rows = [(name, own) for name, own in every if len(own)]
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
    columns, names = [f"correlation {one:g}" for one in correlations], [name for name, _ in rows]
    title, x, y = "Where does bounding help? Synthetic data", "spread of list sizes", "bounded minus unbounded"
    return style.finish(figure, axes, title, x=x, y=y, columns=columns, rows=names, legend=3)


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
                x = trained["spread"] + (shift + is_mixed * _SHIFT / 2)
                options: dict[str, Any] = {"linestyle": "none" if is_mixed else look.dashes, "label": bounding}
                options |= {"markerfacecolor": "white", "label": f"_{bounding}, mixed ratios"} if is_mixed else {}
                style.with_intervals(panel, look, x, trained, "effect", **options)
            x, label = untrained["spread"] + shift, f"_{bounding}, some did not train"
            style.marks(panel, x, untrained["effect"], look.color, "x", markersize=5, label=label)


COLORS = dict(zip(LOSSES, (style.BLUE, style.VERMILION, style.GREEN), strict=True))
_AXES = {of_law.MISMATCH: "change of mismatch (CV)", of_law.WEIGHTS: "variation of weights (CV)"}


@FIGURES.add("figure_law", title="The law of list weights", needs=("law",), order=10)
def law(files: StudyFiles) -> Any:
    """Draw a panel per predictor."""
    cells = _made(files.law, of_law.NAME, of_law.COLUMNS).filter(pl.col("same_as").fill_null("") == "")
    if cells.is_empty():
        return _nothing("table_law")
    lines = _made(files.law, of_law.LINES, of_law.LINE_COLUMNS).filter(pl.col("cells") == of_law.ALL)
    figure, axes = style.panels(1, len(_AXES), height=3.6, sharey=True)
    sets = enumerate(cells.select("dataset", "nsr").unique(maintain_order=True).rows())
    markers = {key: "osDv^P"[place % 6] for place, key in sets}
    for panel, (predictor, label) in zip(axes[0], _AXES.items(), strict=True):
        style.zero(panel)
        changes: Any = cells[of_law.CHANGES[predictor]]
        for line in lines.filter(pl.col("predictor") == predictor).head(1).iter_rows(named=True):
            ends = np.array([min(0.0, changes.min()), changes.max()])
            fitted = line["intercept"] + line["slope"] * ends
            panel.plot(ends, fitted, color=style.INK, linewidth=1, label="least squares")
            text = "slope {slope:+.4f}\n({slope_low:+.4f} to {slope_high:+.4f}), R² {r_squared:.2f}".format_map(line)
            style.note(panel, text.replace("-", "−"), (0.02, 0.02), ha="left", va="bottom")
        for row in cells.iter_rows(named=True):
            color, x = COLORS[row["loss"]], row[of_law.CHANGES[predictor]]
            name = f"_{row['loss']}, {row['weights']}, {DataSet(row['dataset'], row['nsr']).label}"
            panel.plot([x, x], [row["low"], row["high"]], color=color, linewidth=0.7, alpha=0.55, label=name)
            marker, hollow = markers[row["dataset"], row["nsr"]], row["origin"] != of_law.BOUNDS
            style.marks(panel, [x], [row["effect"]], color, marker, hollow=hollow, label=name)
        panel.set_xlabel(label)
    looks = [(loss, COLORS[loss], "o") for loss in cells["loss"].unique(maintain_order=True)]
    looks += [(DataSet(*key).label, style.MUTED, marker) for key, marker in markers.items()]
    for label, color, marker in looks:
        style.marks(axes[0, 0], [], [], color, marker, label=label)
    axes[0, 0].set_ylabel("score with weights − without")
    return style.finish(figure, axes, "The law of list weights", legend=4)


_PERMUTED = "permuted(pairs^-1)"
_AT = 1.0
"""The place of the permuted weights on the axis."""


@FIGURES.add("figure_weight_powers", title="Powers of the number of pairs", needs=("law",), order=11)
def weight_powers(files: StudyFiles) -> Any:
    """Draw a panel per data set, with a line per loss."""
    cells = _made(files.law, of_law.NAME, of_law.COLUMNS).filter(
        pl.col("origin").is_in([of_law.EXPERIMENT, of_law.SECOND])
    )
    if cells.is_empty():
        return _nothing("table_law")
    sets = list(dict.fromkeys(cells.select("dataset", "nsr", "origin").rows()))
    figure, axes = style.panels(1, len(sets), height=3.1, sharey="row")
    for panel, (*key, origin) in zip(axes[0], sets, strict=True):
        own = scores.of_data_set(cells.filter(pl.col("origin") == origin), DataSet(*key), "nsr")
        style.zero(panel)
        for place, loss in enumerate(loss for loss in COLORS if loss in own["loss"]):
            rows = {row["weights"]: row for row in own.filter(pl.col("loss") == loss).iter_rows(named=True)}
            weights = {text: ListWeights.of(text) for text in rows}
            powers = {
                one.power: rows[text] for text, one in weights.items() if one.quantity == "pairs" and not one.permuted
            }
            points = sorted(({0.0: {"effect": 0.0, "low": 0.0, "high": 0.0}} | powers).items())
            # Shifted sideways, so that intervals do not cover each other.
            color, shift = COLORS[loss], (place - 1) * 0.035
            x, y = [power + shift for power, _ in points], [row["effect"] for _, row in points]
            panel.plot(x, y, color=color, marker="o", markersize=3.5, label=loss)
            permuted = [(_AT, rows[_PERMUTED])] if _PERMUTED in rows else []
            for power, row in points + permuted:
                ends = [row["low"], row["high"]]
                panel.plot([power + shift] * 2, ends, color=color, linewidth=0.8, label=f"_{loss}")
            for power, row in permuted:
                label = f"_{loss}, permuted"
                style.marks(panel, [power + shift], [row["effect"]], color, "o", hollow=True, label=label)
        ticks = {-1.0: "−1", -0.5: "−0.5", 0.0: "0", 0.5: "0.5"}
        ticks = {-1.5: "−1.5", **ticks, _AT: "−1,\npermuted"} if origin == of_law.EXPERIMENT else {**ticks, 1.0: "1\n"}
        panel.set_xticks(list(ticks), list(ticks.values()))
        panel.set_xlabel("power of P(N − P)")
    axes[0, 0].set_ylabel("score with weights − without")
    columns = [DataSet(*key).label for *key, _ in sets]
    return style.finish(figure, axes, "Powers of the number of pairs", columns=columns, legend=3)


def _titles(sets: Sequence[pl.DataFrame]) -> list[str]:
    return [DataSet(*own.select("dataset", "nsr").row(0)).title for own in sets]


def system_text(row: Mapping[str, Any]) -> str:
    """Return a system's name in figures: `mlp, AP, min-max`."""
    if row["loss"] == "none":
        return str(row["model"])
    return f"{row['model']}, {row['loss']}, {style.bounding_title(row['bounding'])}"


ROLES = {BEST: "best", PARTNER: "same model and loss", BASELINE: "baseline", "random": "random"}
"""Roles of systems in words."""


@FIGURES.add("figure_leaderboard_scores", title="Leaderboard", needs=("leaderboard",), order=0)
def leaderboard_scores(files: StudyFiles) -> Any:
    """Draw a column per data set; systems share their rows."""
    table = _made(files.leaderboard, "table_leaderboard", board.COLUMNS)
    table = table.filter(pl.col("model") != ORACLE, pl.col("low").is_not_null())
    if table.is_empty():
        return _nothing("table_leaderboard")
    every = table.select(scores.SYSTEM).unique().height
    # Systems by mean rank, of many those that fit on a page, then controls.
    ranks = table.group_by(scores.SYSTEM, maintain_order=True).agg(pl.col("rank").mean())
    trained = ranks.filter(pl.col("loss") != "none").sort("rank", nulls_last=True, maintain_order=True)
    controls = ranks.filter(pl.col("loss") == "none").select(scores.SYSTEM).rows()
    order = [*trained.head(60 - len(controls)).select(scores.SYSTEM).rows(), *controls]
    sets = table.partition_by("dataset", "nsr", maintain_order=True)
    figure, axes = style.panels(1, len(sets), height=max(2.0, 0.9 + 0.145 * len(order)), sharey=True)
    for panel, own in zip(axes[0], sets, strict=True):
        _scores_panel(panel, own, order)
        panel.set_xlabel(f"{own['metric'][0]} on the test part")
        panel.locator_params(axis="x", nbins=6 if len(sets) < 3 else 4)
    names = [system_text(dict(zip(scores.SYSTEM, key, strict=True))) for key in order]
    axes[0, 0].set_yticks(range(len(order)), names, fontsize=7)
    axes[0, 0].set_ylim(len(order) - 0.4, -0.6)
    left_out = f" (the best {len(order)} of {every} systems)" if len(order) < every else ""
    return style.finish(figure, axes, f"Leaderboard{left_out}", columns=_titles(sets), legend=4)


def _scores_panel(panel: Any, own: pl.DataFrame, order: list[tuple[str, ...]]) -> None:
    rows = {tuple(row[name] for name in scores.SYSTEM): row for row in own.iter_rows(named=True)}
    boundings = scores.boundings(own)
    # Entries without points give the legend the order of all figures.
    for bounding in boundings:
        look = style.bounding_style(bounding, boundings)
        style.marks(panel, [], [], look.color, look.marker, label=style.bounding_title(bounding))
    for place, key in enumerate(order):
        if key not in rows:
            continue
        row = rows[key]
        look, label = style.bounding_style(row["bounding"], boundings), style.bounding_title(row["bounding"])
        color, marker = look.color, look.marker
        if row["loss"] == "none":
            color, marker, label = style.MUTED, "D", "control"
        elif row["n_untrained"]:
            color, marker, label = style.MUTED, "x", style.DID_NOT_TRAIN
        worse = (row["best_verdict"] or "").startswith(WORSE)
        panel.plot([row["low"], row["high"]], [place] * 2, color=color, linewidth=1.1, label=f"_{system_text(row)}")
        style.marks(panel, [row["score"]], [place], color, marker, hollow=worse, label=label)
        if row["validation"] is not None:
            style.marks(panel, [row["validation"]], [place], style.MUTED, "|", markersize=5, label="validation")
        if row["role"] == BASELINE:
            panel.axvline(row["score"], color=style.MUTED, linewidth=0.8, linestyle=(0, (4, 2)), label="_baseline")
        if row["role"] == BEST:
            panel.axvline(row["score"], color=style.GRID, linewidth=0.8, zorder=0, label="_best")
    panel.grid(visible=False, axis="x")


@FIGURES.add("figure_leaderboard_lengths", title="Scores by list length", needs=("leaderboard",), order=2)
def leaderboard_lengths(files: StudyFiles) -> Any:
    """Draw a column per data set, with a line per system."""
    table = _made(files.leaderboard, "table_leaderboard_lengths", board.LENGTHS)
    if table.is_empty():
        return _nothing("table_leaderboard")
    sets = table.partition_by("dataset", "nsr", maintain_order=True)
    figure, axes = style.panels(1, len(sets), height=3.1, sharey=True)
    looks = dict(zip(ROLES, style.SERIES, strict=False))
    for panel, own in zip(axes[0], sets, strict=True):
        groups = own.select("from_items", "to_items").unique(maintain_order=True).sort("from_items").rows()
        for number, ((role,), line) in enumerate(own.group_by("role", maintain_order=True)):
            text = system_text(line.row(0, named=True))
            label = ROLES[str(role)] if len(sets) > 1 or text == role else f"{ROLES[str(role)]}: {text}"
            places = [groups.index(group) for group in line.select("from_items", "to_items").rows()]
            # Points of two systems beside each other, so that their intervals are apart.
            x = [place + (number - 1.5) * 0.08 for place in places]
            style.with_intervals(panel, looks[str(role)], x, line, "mean", label=label)
        panel.set_xlabel("items in the list")
        titles = [str(low) if low == high else f"{low}–{high}" for low, high in groups]
        panel.set_xticks(range(len(groups)), titles)
        panel.grid(visible=False, axis="x")
    axes[0, 0].set_ylabel(table["metric"][0])
    legend = 4 if len(sets) > 1 else 2
    return style.finish(figure, axes, "Scores by list length", columns=_titles(sets), legend=legend)


@FIGURES.add("figure_leaderboard_topics", title="Topics that gain and lose", needs=("leaderboard",), order=3)
def leaderboard_topics(files: StudyFiles) -> Any:
    """Draw a row per comparison and a column per data set."""
    table = _made(files.leaderboard, "table_leaderboard_topics", board.TOPICS)
    if table.is_empty():
        return _nothing("table_leaderboard")
    sets = table.partition_by("dataset", "nsr", maintain_order=True)
    roles = [role for role in ROLES if role in set(table["role"])]
    figure, axes = style.panels(len(roles), len(sets), height=0.6 + 1.7 * len(roles), sharex=True, sharey=True)
    for column, own in zip(axes.T, sets, strict=True):
        for panel, role in zip(column, roles, strict=True):
            topics = own.filter(pl.col("role") == role)
            if topics.is_empty():
                style.empty_panel(panel, "nothing to compare with")
                continue
            count = topics["n_topics"][0]
            place, difference = (topics[name].to_numpy() for name in ("place", "difference"))
            share = 100 * (place - 0.5) / count
            signs = (("gain", difference > 0, style.BLUE), ("loss", difference < 0, style.VERMILION))
            for name, where, color in signs:
                look = {"color": color, "linewidth": 0, "alpha": 0.75, "step": "mid", "label": f"_{name}"}
                panel.fill_between(share, difference, where=where, **look)
            style.zero(panel, "no difference", width=0.7)
            panel.set_xlim(0, 100)
            # Of many topics, some are left out: places tell how many gain and lose.
            lose = 100 * place[difference < 0].max(initial=0) / count
            gain = 100 * (count + 1 - place[difference > 0].min(initial=count + 1)) / count
            # In narrow panels, the row's title has to do.
            other = "" if len(sets) > 2 else f"minus {system_text(topics.row(0, named=True))}\n"
            style.note(panel, f"{other}{gain:.0f} % gain\n{lose:.0f} % lose", (0.02, 0.97), ha="left", va="top")
    title, y = "Topics that gain and lose: the best system minus another one", f"difference in {table['metric'][0]}"
    rows = [ROLES[role] for role in roles]
    return style.finish(figure, axes, title, x="topics, % of all", y=y, columns=_titles(sets), rows=rows)
