"""Figures of runs and trainings: nDCG@k, scores of topics, learning curves, norms of gradients, learning rates."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import RATES
from rankbound_study.figures import OF_RUNS, Catalogue, FigureSpec, style
from rankbound_study.results import scores
from rankbound_study.results.scores import RunsChoice, place, untrained_cells
from rankbound_study.results.study_files import FILE_PLACES, StudyFiles, read_frame, scan_runs
from rankbound_study.templates import text
from rankbound_study.vocabulary import (
    BOOSTED_TREES,
    BOUNDED,
    BOUNDINGS,
    HONEST,
    JUDGED_BY,
    LOSSES,
    STUDY,
    UNBOUNDED,
    VARIANT,
)

FILE = "figures_runs.md"
FIGURES = Catalogue(FigureSpec, FILE)

CUTOFFS = range(1, 21)


@FIGURES.add("figure_5_1", **OF_RUNS)
def ndcg_at_k(runs: Path, choice: RunsChoice, *, epochs: Path | None = None) -> Any:
    """Draw losses in rows, data sets in columns; a value is the mean over topics, averaged over folds and seeds.

    Markers of what did not train are hollow.
    """
    untrained = untrained_cells(scores.read_trainings((runs, epochs), choice=choice))
    metrics = [f"nDCG@{k}" for k in CUTOFFS]
    frame = scores.per_topic(scores.read_scores(runs, metrics, choice), metrics)
    sets = scores.data_sets(frame)
    names, losses = scores.boundings(frame), scores.losses(frame)
    key = ["dataset", "nsr_test", "loss", "bounding"]
    means = frame.group_by(key, maintain_order=True).agg(pl.col(metrics).mean())
    figure, axes = style.panels(len(losses), len(sets), height=0.8 + 1.2 * len(losses), sharex=True)
    for column, data_set in enumerate(sets):
        of_set = scores.of_data_set(means, data_set)
        for row, loss in enumerate(losses):
            hollow = [name for name in names if (*data_set, loss, name) in untrained]
            panel, own = axes[row, column], of_set.filter(pl.col("loss") == loss)
            if own.is_empty():
                style.empty_panel(panel)
                continue
            for position, bounding in enumerate(names):
                for line in own.filter(pl.col("bounding") == bounding).select(metrics).rows()[:1]:
                    look, label = style.bounding_style(bounding, names), style.bounding_title(bounding)
                    options = {"linestyle": look.dashes, "linewidth": 1.0, "markersize": 2.6, "label": label}
                    options |= {"markevery": (position % 5, 5), "hollow": bounding in hollow}
                    style.marks(panel, list(CUTOFFS), line, look.color, look.marker, **options)
            if hollow:
                style.marks(panel, [], [], style.MUTED, "o", hollow=True, markersize=2.6, label=style.DID_NOT_TRAIN)
            _cutoff_axis(panel)
    title = scores.heading("nDCG@k by bounding, loss (rows) and data set (columns)", choice, sets)
    columns, rows = [one.title for one in sets], [f"{loss} loss" for loss in losses]
    return style.finish(figure, axes, title, x="cut-off k", y="mean nDCG@k", columns=columns, rows=rows, legend=5)


def _cutoff_axis(axes: Any) -> None:
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.set_xlim(0.5, 20.5)
    axes.locator_params(axis="y", nbins=5)


GROUPS = {"p": (1, 3, 6, 11, 21), "n": (1, 11, 21, 41, 81)}
"""Smallest number of relevant items (p) and of items (n) in each group of lists."""

_NAMES = {"p": "relevant", "n": "items"}
FEWEST = 5
"""Groups with fewer lists are not drawn."""


@FIGURES.add("figure_cut_offs", title="nDCG@k by list size", **OF_RUNS)
def ndcg_by_size(runs: Path, choice: RunsChoice, *, epochs: Path | None = None) -> Any:
    """Draw relevant items above, items below, and data sets in columns; a value is a mean over lists."""
    metrics = [f"nDCG@{k}" for k in CUTOFFS]
    trained, controls = (scores.read_scores(runs, metrics, choice, controls=controls) for controls in (False, True))
    trained = trained.filter(pl.col("loss") == "nDCG", pl.col("bounding") == UNBOUNDED)
    random = controls.filter(pl.col("model") == "random")
    sets = scores.data_sets(trained)
    figure, axes = style.panels(len(GROUPS), len(sets), height=4.0, sharex=True, sharey="col")
    for column, data_set in enumerate(sets):
        own, by_chance = (scores.of_data_set(frame, data_set) for frame in (trained, random))
        for row, size in enumerate(GROUPS):
            panel = axes[row, column]
            if own.is_empty():
                style.empty_panel(panel)
                continue
            for number, means in means_by_size(own, metrics, size):
                style.line(panel, list(CUTOFFS), means, style.SERIES[number], label=_label(size, number), marks=4)
            for number, means in means_by_size(by_chance, metrics, size):
                look = {"color": style.SERIES[number].color, "linestyle": (0, (1, 1.5)), "linewidth": 0.8}
                panel.plot(list(CUTOFFS), means, label=f"_random ordering, {_label(size, number)}", **look)
            _cutoff_axis(panel)
    title, columns = scores.heading("nDCG@k by list size", choice, sets), [one.title for one in sets]
    rows = ["by relevant items", "by items"]
    style.finish(figure, axes, title, x="cut-off k", y="mean nDCG@k", columns=columns, rows=rows)
    # A row for each way of grouping.
    found: dict[str, Any] = {}
    for panel in axes.flat:
        found |= dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    labels = [_label(size, number) for number in range(len(GROUPS["p"])) for size in GROUPS]
    if drawn := [label for label in labels if label in found]:
        handles = [found[label] for label in drawn]
        figure.legend(handles, drawn, loc="outside lower center", ncols=len(GROUPS["p"]), columnspacing=1.0)
    return figure


def means_by_size(lists: pl.DataFrame, metrics: Sequence[str], size: str) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Yield the groups that have enough lists, with the mean of each metric over their lists."""
    known = lists.filter(pl.col(metrics[0]).is_not_null())
    group = pl.sum_horizontal((pl.col(size) >= least).cast(pl.Int32) for least in GROUPS[size]) - 1
    # The same list under several seeds is one list.
    per_list = known.group_by("fold", "topic", group.alias("group"), maintain_order=True).agg(pl.col(metrics).mean())
    found = per_list.group_by("group").agg(pl.len(), pl.col(metrics).mean()).sort("group")
    for number, count, *means in found.rows():
        if count >= FEWEST:
            yield number, tuple(means)


def _label(size: str, number: int) -> str:
    least = GROUPS[size]
    if number + 1 == len(least):
        return f"≥ {least[number]} {_NAMES[size]}"
    return f"{least[number]}–{least[number + 1] - 1} {_NAMES[size]}"


Column = tuple[Any, tuple[float, float], pl.DataFrame, list[tuple[Any, pl.DataFrame]]]
"""The panels of a data set, its axis of scores, its scores, and the panels to draw, each with pairs of scores."""
Labels = tuple[str, str, str, int]


def scores_of_topics(runs: Path, choice: RunsChoice, *, loss: str, shown: str, epochs: Path | None = None) -> Any:
    """Draw the topics' scores in one of the ways of `OF_TOPICS`; what did not train is hatched.

    The boundings that ran are in rows, data sets in columns.
    """
    metric = JUDGED_BY[loss]
    frame = scores.per_topic(scores.read_scores(runs, [metric], choice), [metric])
    frame = frame.filter(pl.col("loss") == loss)
    untrained = untrained_cells(scores.read_trainings((runs, epochs), choice=choice))
    sets = scores.data_sets(frame)
    ran = set(frame["bounding"])
    rows = [bounding for bounding in BOUNDED if bounding in ran] or list(BOUNDED)
    sharing: dict[str, Any] = {"sharex": "col", "sharey": "col" if shown == "pairs" else True}
    figure, axes = style.panels(len(rows), len(sets), height=1.5 + 0.7 * len(rows), **sharing)
    columns = []
    for data_set, column in zip(sets, axes.T, strict=True):
        of_set = scores.of_data_set(frame, data_set)
        drawn = []
        for panel, bounding in zip(column, rows, strict=True):
            if {(*data_set, loss, UNBOUNDED), (*data_set, loss, bounding)} & untrained:
                style.mark_untrained(panel)
            pairs = scores.paired(of_set, loss, bounding, metric)
            if pairs.is_empty():
                style.empty_panel(panel)
            else:
                drawn.append((panel, pairs))
        # The axis of scores goes from the smallest one, rounded down to a multiple of 0.05, to 1.
        smallest: Any = frame.filter(pl.col("dataset") == data_set.dataset)[metric].min()
        low = 0.0 if smallest is None else float(np.floor(smallest * 20) / 20)
        columns.append((column, (max(min(low, 0.9), 0.0) - 0.005, 1.005), of_set, drawn))
    title, x, y, legend = OF_TOPICS[shown](columns, loss)
    title, names = scores.heading(title, choice, sets), [data_set.title for data_set in sets]
    return style.finish(figure, axes, title, x=x, y=y, columns=names, rows=rows, legend=legend)


def _shares(columns: Sequence[Column], loss: str) -> Labels:
    """Draw the shares of topics that score at most x; grey where the bounded loss has the smaller share (better)."""
    for (top, *_), limits, _, panels in columns:
        for panel, pairs in panels:
            values = [pairs[name].to_numpy() for name in ("unbounded", "bounded")]
            grid = np.unique(np.concatenate([*values, [0.0, 1.0]]))
            unbounded, bounded = (np.searchsorted(np.sort(one), grid, side="right") / len(one) for one in values)
            # (start, width) of the longest stretches where fewer topics score that low.
            edges = np.flatnonzero(np.diff(np.concatenate([[False], bounded < unbounded, [False]]).astype(np.int8)))
            starts, ends = grid[edges[::2]], grid[np.minimum(edges[1::2], len(grid) - 1)]
            stretches = list(zip(starts.tolist(), (ends - starts).tolist(), strict=True))
            panel.broken_barh(stretches, (0, 1), color=style.SHADE, linewidth=0, label="bounded share is lower")
            plain, dashed = style.SERIES[0].color, style.SERIES[2].color
            panel.plot(grid, unbounded, drawstyle="steps-post", color=plain, linewidth=1.0, label="unbounded")
            look = {"color": dashed, "linestyle": (0, (3, 1)), "linewidth": 1.1}
            panel.plot(grid, bounded, drawstyle="steps-post", label="bounded", **look)
        top.set_xlim(*limits)
        top.locator_params(axis="x", nbins=3)
    columns[0][0][0].set_yticks([0, 0.5, 1])
    title = f"{JUDGED_BY[loss]} per topic, trained on {loss}: bounded against unbounded"
    return title, JUDGED_BY[loss], "share of topics with a score ≤ x", 4


def _pairs(columns: Sequence[Column], loss: str) -> Labels:
    """Draw a point per topic; those above the diagonal are topics that the bounding improves."""
    for (top, *_), limits, _, panels in columns:
        for panel, pairs in panels:
            panel.plot(limits, limits, color=style.MUTED, linewidth=0.7, linestyle=(0, (4, 2)), label="_equal scores")
            unbounded, bounded = (pairs[name].to_numpy() for name in ("unbounded", "bounded"))
            style.points(panel, unbounded, bounded, label="topic", in_legend=False)
            # Means of the same scores in another order differ in their last digits.
            differences = (bounded - unbounded).round(FILE_PLACES)
            style.note(panel, f"{int((differences > 0).sum())} above", (0.04, 0.96), ha="left", va="top")
            style.note(panel, f"{int((differences < 0).sum())} below", (0.98, 0.04), ha="right", va="bottom")
        top.set(xlim=limits, ylim=limits)
        top.locator_params(nbins=3)
    title = f"{JUDGED_BY[loss]} per topic, trained on {loss}: bounded (y) against unbounded (x)"
    return title, "unbounded", f"{JUDGED_BY[loss]}, bounded loss", 1


LINEAR_WITHIN = 0.01
"""Largest difference on the linear part of the axis: most differences are about 0.001, some 0.1."""

LABELLED = (-0.1, -LINEAR_WITHIN, 0, LINEAR_WITHIN, 0.1)
"""Differences labelled at the axis; labels of 1, which few topics come near, would leave too little room."""


def _differences(columns: Sequence[Column], loss: str) -> Labels:
    """Draw the topics' differences by their number of relevant items; those above zero are improvements."""
    first = columns[0][0][0]
    first.set_yscale("symlog", linthresh=LINEAR_WITHIN, linscale=1.0)
    largest = 2 * LINEAR_WITHIN
    for column, _, of_set, panels in columns:
        column[0].set_xscale("log")
        for panel, pairs in panels:
            relevant, difference = pairs["p"].to_numpy(), (pairs["bounded"] - pairs["unbounded"]).to_numpy()
            style.zero(panel, "no difference", width=0.7)
            style.points(panel, relevant, difference, label="topic")
            _density(panel, relevant, difference)
            # Means of eight groups of about equal size; topics with equal counts share a group.
            edges = np.unique(np.quantile(relevant, np.linspace(0, 1, 9)[1:-1]))
            group = np.searchsorted(edges, relevant, side="left")
            x, y = (
                [float(values[group == one].mean()) for one in np.unique(group)] for values in (relevant, difference)
            )
            panel.plot(x, y, color=style.VERMILION, linewidth=1.3, marker="o", markersize=2.4, label="mean of a group")
            largest = max(largest, 1.3 * float(np.abs(difference).max()))
        # Round numbers of relevant items, from about the smallest to about the largest one.
        some: Any = of_set.filter(pl.col("p") > 0)["p"]
        smallest, most = (some.min(), some.max()) if len(some) else (0, np.inf)
        ticks = [tick for tick in (1, 3, 10, 30, 100, 300, 1000) if tick <= 1.5 * most]
        ticks = [tick for tick in ticks if tick >= 0.5 * smallest] or ticks
        column[-1].set_xticks(ticks, [str(tick) for tick in ticks])
        column[-1].set_xticks([], minor=True)
        if len(some):
            column[-1].set_xlim(0.75 * smallest, 1.4 * most)
    first.set_yticks(LABELLED, [f"{tick:g}".replace("-", "−") for tick in LABELLED])
    first.set_yticks([-1, 1], minor=True)
    first.set_ylim(-largest, largest)
    title = f"Difference in {JUDGED_BY[loss]} per topic, bounded minus unbounded {loss} loss"
    return title, "relevant items", f"difference in {JUDGED_BY[loss]}", 3


OF_TOPICS = {"distributions": _shares, "pairs": _pairs, "differences": _differences}
"""The piece of a caption, and what draws the columns and returns title, axes' labels, and columns of the legend."""

for _number, (_piece, _loss) in enumerate(product(OF_TOPICS, LOSSES), start=2):
    _caption = text(FILE, _piece, loss=_loss, metric=JUDGED_BY[_loss])
    _arguments = {"loss": _loss, "shown": _piece}
    FIGURES.add(f"figure_5_{_number}", _caption, arguments=_arguments, **OF_RUNS)(scores_of_topics)


def _density(axes: Any, relevant: Any, difference: Any) -> None:
    """Draw contours of a Gaussian kernel estimate in the axes' scales, unless the points do not span a plane."""
    from scipy.stats import gaussian_kde

    scale = axes.yaxis.get_transform()
    points = np.vstack([np.log10(relevant), scale.transform(difference)])
    # The estimate of a numerically singular covariance would show rounding errors only.
    if points.shape[1] < 10 or np.linalg.cond(np.cov(points)) > 1e8 or not points.std(axis=1).all():
        return
    density = gaussian_kde(points)
    low, high = points.min(axis=1), points.max(axis=1)
    margin = 0.15 * (high - low)
    x, y = (np.linspace(low[i] - margin[i], high[i] + margin[i], 72) for i in range(2))
    mesh = np.meshgrid(x, y)
    values = density(np.vstack([part.ravel() for part in mesh])).reshape(mesh[0].shape)
    # The levels that enclose the given shares of the mass, ascending.
    descending = np.sort(values.ravel())[::-1]
    mass = np.cumsum(descending) / descending.sum()
    levels = [float(descending[np.searchsorted(mass, share)]) for share in (0.9, 0.5)]
    if levels[0] < levels[1]:
        place = 10 ** mesh[0], scale.inverted().transform(mesh[1].ravel()).reshape(mesh[1].shape)
        look = {"colors": style.BLUE, "linewidths": (0.8, 1.2), "linestyles": ("dashed", "solid")}
        contours = axes.contour(*place, values, levels=levels, **look)
        contours.set_label("_density: 50 % of topics within the unbroken line, 90 % within the dashed one")
        axes.plot([], [], color=style.BLUE, linewidth=1.2, label="density: 50 % (dashed: 90 %)")


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

    def position(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return DataSet(*row[:2]).place, row[4], row[2] == BOOSTED_TREES, *row[2:4]

    rows = [row[:4] for row in sorted(frame.group_by(_ROW).agg(of_experiments).rows(), key=position)]
    columns = sorted(set(frame["loss"]), key=lambda loss: place(loss, list(JUDGED_BY)))
    shown, losses = rows[:ROWS], columns[:COLUMNS]
    figure, axes = style.panels(len(shown), len(losses), height=0.9 + 1.35 * len(shown), sharex="row", sharey="col")
    for row, key in enumerate(shown):
        own = frame.filter(*(pl.col(name).eq_missing(value) for name, value in zip(_ROW, key, strict=True)))
        for column, loss in enumerate(losses):
            _curves(axes[row, column], own.filter(pl.col("loss") == loss))
            axes[row, column].set_xlabel("trees" if key[2] == BOOSTED_TREES else "epoch")
    judges = [(loss, frame.filter(pl.col("loss") == loss)["judge"][0]) for loss in losses]
    titles = [f"{loss} loss" if judge == loss else f"{loss} loss\nby {judge}" for loss, judge in judges]
    kept = ((shown, rows, "models"), (losses, columns, "losses"))
    fewer = [f"the first {len(some)} of {len(every)} {what}" for some, every, what in kept if len(some) < len(every)]
    title = f"Learning curves ({', '.join(fewer)})" if fewer else "Learning curves"
    # A row's title has the variant and the data set where rows differ in them.
    of_set = len({key[:2] for key in rows}) > 1
    models = [
        f"{model}{f' ({variant})' if variant else ''}{f', {DataSet(*data_set).label}' if of_set else ''}"
        for *data_set, model, variant in shown
    ]
    return style.finish(figure, axes, title, columns=titles, rows=models, legend=6)


def _validation(files: StudyFiles) -> pl.DataFrame:
    """Return the validation score of every epoch by the metric that selects among them."""
    frames = []
    for path in (files.epochs, files.experiment_epochs):
        if path is None:
            continue
        own = scan_runs(path).filter(pl.col("study") != STUDY, protocol=HONEST, part="validation")
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


BOUNDS = (UNBOUNDED, "distribution", "distribution(gain=sd)")
SIZES = (6, 9, 15, 24, 36, 60, 90, 120, 180, 240)
"""Items of lists, of which a third are relevant."""


@FIGURES.add(
    "figure_gradients", title="Gradients under distribution bounding", needs=("epochs", "experiment_epochs"), order=12
)
def gradients(files: StudyFiles) -> Any:
    """Draw a row per data set with other gains (or the first ones), then the start; columns are losses."""
    norms = gradient_norms(files)
    # The data sets with another gain, or, without any, the first ones: three fit above.
    other = norms.filter(pl.col("bounding") == BOUNDS[-1])
    sets = scores.data_sets(other if len(other) else norms)[:3] if len(norms) else []
    losses = scores.losses(norms)
    figure, axes = style.panels(len(sets) + 1, len(losses), height=1.2 + 1.3 * (len(sets) + 1), sharey="row")
    for column, loss in enumerate(losses):
        for row, data_set in enumerate(sets):
            panel, own = axes[row, column], scores.of_data_set(norms, data_set)
            for bounding in BOUNDS:
                line = own.filter(pl.col("loss") == loss, pl.col("bounding") == bounding, pl.col("share") > 0)
                if len(line):
                    look, title = style.bounding_style(bounding, BOUNDS), style.bounding_title(bounding)
                    style.line(panel, line["epoch"], line["share"], look, label=title, marks=5)
            panel.set_yscale("log")
            panel.locator_params(axis="x", nbins=5, integer=True)
        panel = axes[-1, column]
        panel.axhline(1, color=style.MUTED, linewidth=0.8, linestyle=(0, (1, 2)), label="min-max, at the start")
        for bounding in BOUNDS[1:]:
            slopes = [max(slope, 1e-5) for slope in slopes_at_the_start(loss, bounding)]
            look, title = style.bounding_style(bounding, BOUNDS), style.bounding_title(bounding)
            style.line(panel, SIZES, slopes, look, label=title, marks=5)
        panel.set(xscale="log", yscale="log", xlabel="items in the list")
        panel.set_xticks([6, 15, 36, 90, 240], ["6", "15", "36", "90", "240"])
        panel.minorticks_off()
        if sets:
            axes[-2, column].set_xlabel("epoch")
    axes[0, 0].set_ylabel("share of largest norm" if sets else "slope at the start")
    axes[-1, 0].set_ylabel("slope at the start")
    columns, rows = [f"{loss} loss" for loss in losses], [*(one.label for one in sets), "at the start"]
    return style.finish(figure, axes, "Gradients under distribution bounding", columns=columns, rows=rows, legend=4)


def gradient_norms(files: StudyFiles) -> pl.DataFrame:
    """Return the mean norm by data set, loss, bounding and epoch, as a `share` of the largest over the epochs."""
    key = ["dataset", "nsr_test", "loss", "bounding"]
    kinds = {**dict.fromkeys(key, pl.String), "nsr_test": pl.Int8, "epoch": pl.Int32, "gradient_norm": pl.Float64}
    parts = [pl.DataFrame(schema=kinds)]
    for path, boundings in ((files.epochs, BOUNDS[:2]), (files.experiment_epochs, BOUNDS[2:])):
        if path is not None:
            own = pl.col("protocol") == HONEST, pl.col("study") != STUDY, pl.col("loss").is_in(LOSSES)
            rows = scan_runs(path).filter(*own, pl.col("bounding").is_in(boundings))
            # Every measured part repeats the norm of its epoch.
            once = rows.select(*key, "study", "fold", "seed", "epoch", "gradient_norm").unique()
            parts.append(once.group_by(*key, "epoch").agg(pl.col("gradient_norm").mean()).collect())
    means = pl.concat(parts, how="vertical_relaxed").sort(*key, "epoch")
    return means.with_columns((pl.col("gradient_norm") / pl.col("gradient_norm").max().over(key)).alias("share"))


def slopes_at_the_start(loss: str, bound: str) -> list[float]:
    """Return the slope of a bound where all scores tie, times the range of the metric, for lists of `SIZES` items.

    A bound multiplies the gradient of a list's metric by its slope.
    """
    import torch

    import rankbound as rb

    n = np.array(SIZES)
    relevance = torch.cat([torch.arange(count) < count // 3 for count in SIZES]).int()
    norms = []
    for bounding in (bound, UNBOUNDED):
        scores = torch.zeros(n.sum(), dtype=torch.float64, requires_grad=True)
        losses = rb.SmoothLoss(loss, bounding)(scores, relevance, [0, *n.cumsum().tolist()])
        (gradient,) = torch.autograd.grad(losses.sum(), scores)
        norms.append(np.array([np.linalg.norm(part) for part in np.split(gradient.numpy(), n.cumsum()[:-1])]))
    reach = rb.maximum(loss, n, n // 3) - rb.minimum(loss, n, n // 3)
    slopes: list[float] = (norms[0] / norms[1] * reach).tolist()
    return slopes


@FIGURES.add("figure_bounding_rates", title="Learning rates and boundings", needs=("rates",))
def rates(files: StudyFiles) -> Any:
    """Draw a column per data set, a row per loss, a line per bounding."""
    frame = read_frame(files.needed("rates"), RATES).filter(
        pl.col("study") != STUDY, pl.col("loss").is_in(LOSSES), pl.col("bounding").is_in(BOUNDINGS)
    )
    if frame.is_empty():
        return style.remark("There are no grids of learning rates: every training has one rate.")
    cell = ("dataset", "nsr_test", "loss", "bounding", "learning_rate")
    points = frame.group_by(cell).agg(pl.col("test_score").mean(), pl.col("chosen").sum())
    sets, losses = scores.data_sets(points), scores.losses(points)
    figure, axes = style.panels(len(losses), len(sets), height=0.9 + 1.5 * len(losses), sharex="col")
    for row, loss in enumerate(losses):
        for column, data_set in enumerate(sets):
            panel = axes[row, column]
            own = scores.of_data_set(points, data_set).filter(pl.col("loss") == loss)
            if own.is_empty():
                style.empty_panel(panel)
                continue
            for bounding in [one for one in BOUNDINGS if one in set(own["bounding"])]:
                line = own.filter(pl.col("bounding") == bounding).sort("learning_rate")
                look, title = style.bounding_style(bounding, BOUNDINGS), style.bounding_title(bounding)
                x, y = (line[name].to_numpy() for name in ("learning_rate", "test_score"))
                panel.plot(x, y, color=look.color, linestyle=look.dashes, linewidth=1.0, label=title)
                marked = line.filter(pl.col("chosen") > 0)
                # The area of a mark, in square points, is the share of the folds that select the rate.
                area = 80.0 * (marked["chosen"].to_numpy() / line["chosen"].sum())
                of_marks = {"color": look.color, "marker": look.marker, "alpha": 0.7, "linewidths": 0}
                chosen = marked["learning_rate"], marked["test_score"]
                panel.scatter(*chosen, area, label=f"_{title}, selected", **of_marks)
            rates = own["learning_rate"].unique().sort().to_list()
            panel.set_xscale("log")
            # The lowest, the middle and the highest: the names of three have room.
            named = rates[0], rates[(len(rates) - 1) // 2], rates[-1]
            panel.set_xticks(rates, [f"{rate:g}" if rate in named else "" for rate in rates])
            panel.minorticks_off()
            panel.locator_params(axis="y", nbins=4)
    for panel in axes[-1]:
        panel.set_xlabel("learning rate")
    rows = [f"{loss} loss by {JUDGED_BY[loss]}" for loss in losses]
    return style.finish(figure, axes, columns=[one.title for one in sets], rows=rows, legend=5)
