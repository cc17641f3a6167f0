"""Figures of the neural-ranking study: paths of training, age gaps, numbers of features, and pictures of faces.

Of pictures, only the drawn ones are read.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.data.contracts import read_row_groups
from rankbound_study.data.images import read_faces
from rankbound_study.figures import Catalogue, FigureSpec, style
from rankbound_study.results import neural
from rankbound_study.results.scores import best_of, scores_of_methods
from rankbound_study.results.study_files import StudyFiles, scan_runs
from rankbound_study.templates import text
from rankbound_study.vocabulary import COMPARED

FILE = "figures_neural.md"
FIGURES = Catalogue(FigureSpec, FILE)

METHOD = "Rank-LR"
"""The method whose pairs of faces are shown, and that is always among those of the age gaps."""

PARTS = ("train", "validation", "test")
_PATHS = (
    (1, 1, "web queries", "NDCG@10", ("RankNet", "DirectRanker", "Class-NN", "RankNet-as-printed")),
    (4, 2, "pixels of faces", "pair accuracy", ("RankCNN",)),
    (5, 3, "VGG16 features of faces", "pair accuracy", ("RankNet",)),
)
"""The paper's figures of paths: number, table, data, metric and methods."""


def training_paths(files: StudyFiles, *, table: int, methods: tuple[str, ...]) -> Any:
    """Draw methods in columns, with the loss above the table's metric; a thin line per fold, a thick mean."""
    about = neural.TABLES[table - 1]
    frame = neural.read_epochs(files.needed("epochs"), methods)
    sets = [name for name in frame["dataset"].unique() if neural.table_of(name) == about]
    frame = frame.filter(pl.col("dataset").is_in(sets))
    found = [method for method in methods if method in set(frame["method"])]
    if not found or about.metric not in frame.columns:
        return style.remark(f"{', '.join(methods)}: nothing to draw.\n{neural.what_is_missing(about)}")
    runs = None if files.runs is None else neural.read_runs(files.runs, about, []).group_by("method")
    picked = {} if runs is None else dict(runs.agg(pl.col("epoch").unique().sort()).rows())
    figure, axes = style.panels(2, len(found), height=3.6 if len(found) > 1 else 3.9, sharex="col", sharey="row")
    for column, method in enumerate(found):
        own = frame.filter(pl.col("method") == method)
        _panel(axes[0, column], own, "mean_loss")
        _panel(axes[1, column], own, about.metric)
        for epoch in picked.get(method, ()):
            for panel in axes[:, column]:
                look = {"color": style.MUTED, "linewidth": 0.8, "linestyle": (0, (1, 2)), "zorder": 0}
                panel.axvline(epoch, label=f"_picked epoch {epoch}", **look)
        axes[1, column].set_xlabel("epoch")
        axes[1, column].locator_params(axis="x", nbins=6, integer=True)
    axes[0, 0].set_ylabel("loss")
    axes[1, 0].set_ylabel("pair accuracy" if about.of_faces else "NDCG@10")
    titles = " and ".join(neural.data_set_title(name) for name in frame["dataset"].unique().sort())
    return style.finish(figure, axes, titles, columns=found, legend=3)


for _number, _table, _subject, _metric, _methods in _PATHS:
    _caption = text(FILE, "paths", metric=_metric, methods=_methods, data=_subject)
    _fields = {"needs": ("runs", "epochs"), "part": COMPARED, "data": (_table,)}
    _arguments = {"table": _table, "methods": _methods}
    FIGURES.add(f"figure_neural_{_number}", _caption, arguments=_arguments, **_fields)(training_paths)


def _panel(panel: Any, frame: pl.DataFrame, column: str) -> None:
    parts = [part for part in PARTS if part in set(frame["part"])]
    losses = frame.group_by("fold", "seed", "epoch").agg(pl.col(column).n_unique())
    if column == "mean_loss" and losses[column].max() == 1:
        # The recorded loss is that of the training part, repeated for every measured part.
        frame, parts = frame.with_columns(pl.lit(PARTS[0]).alias("part")), [PARTS[0]]
    for part, look in zip(PARTS, style.SERIES, strict=False):
        own = frame.filter(pl.col("part") == part, pl.col(column).is_not_null())
        if part not in parts or own.is_empty():
            continue
        for (_, fold, seed), path in own.group_by("dataset", "fold", "seed", maintain_order=True):
            look_of_fold = {"color": look.color, "linewidth": 0.5, "alpha": 0.35}
            panel.plot(path["epoch"], path[column], label=f"_{part}, fold {fold}, seed {seed}", **look_of_fold)
        mean = own.group_by("epoch").agg(pl.col(column).mean()).sort("epoch")
        style.line(panel, mean["epoch"], mean[column], look, label=part, marks=6)
    panel.locator_params(axis="y", nbins=5)
    # Grid lines would be mistaken for the picked epochs.
    panel.grid(visible=False, axis="x")


_OF_METHODS: dict[str, Any] = {"needs": ("runs", "epochs", "predictions", "images"), "part": COMPARED}


@FIGURES.add("figure_neural_gaps", title="Accuracy by age difference", data=(2, 3), order=2, **_OF_METHODS)
def age_gaps(files: StudyFiles) -> Any:
    """Draw a panel per data set of faces, with a line per method and 95 % intervals; 0.5 is a random order."""
    if not files.predictions or files.images is None or files.runs is None or files.epochs is None:
        return style.remark(f"No pairs to draw.\n{neural.what_is_missing(neural.TABLES[1])}")
    pairs = neural.read_pairs(files.predictions, files.images)
    sets = sorted(pairs["dataset"].unique().to_list(), key=lambda name: (neural.table_of(name).number, name))
    figure, axes = style.panels(1, len(sets), height=2.9, sharey=True)
    for panel, dataset in zip(axes[0], sets, strict=True):
        own = pairs.filter(pl.col("dataset") == dataset)
        # The best method of each family by validation, among those with predictions.
        runs = neural.read_runs(files.runs, neural.table_of(dataset), [neural.PAIR_ACCURACY])
        runs = runs.filter(pl.col("method").is_in(own["method"].unique().to_list()))
        by_validation = scores_of_methods(files.epochs, dataset, neural.PAIR_ACCURACY)
        of_family = (runs.filter(family=family)["method"].unique().to_list() for family in neural.FAMILIES)
        best = [*(best_of(methods, by_validation) for methods in of_family), METHOD]
        chosen = list(dict.fromkeys(name for name in best if name in set(own["method"])))
        gaps = neural.by_gap(own.filter(pl.col("method").is_in(chosen)))
        for shift, (method, look) in enumerate(zip(chosen, style.SERIES, strict=False)):
            line = gaps.filter(pl.col("method") == method)
            groups = [(int(low), int(high)) for low, high in line.select("from_years", "to_years").rows()]
            places = [neural.GAPS.index(group) + 0.07 * (shift - (len(chosen) - 1) / 2) for group in groups]
            widths = {"linewidth": 1.1, "elinewidth": 0.7}
            style.with_intervals(panel, look, places, line, "accuracy", label=method, **widths)
        panel.axhline(0.5, color=style.MUTED, linewidth=0.6, label="_random order: 0.5")
        panel.set_xticks(
            range(len(neural.GAPS)), [f"{low}–{high}" if high < 99 else f"over {low - 1}" for low, high in neural.GAPS]
        )
        panel.set_xlabel("years between the two faces")
        panel.set_title("VGG16 features" if neural.table_of(dataset) == neural.TABLES[-1] else "pixels")
        panel.legend(loc="best", fontsize=7.5)
    axes[0, 0].set_ylabel("pair accuracy")
    return style.finish(figure, axes, neural.data_set_title(sets[0]))


_BY_FEATURES = {"data": (1, 2, 3), "by_features": True, "order": 1, **_OF_METHODS}


@FIGURES.add("figure_neural_features", title="Scores by the number of features", **_BY_FEATURES)
def feature_counts(files: StudyFiles) -> Any:
    """Draw a column per data set: a line per method with 95 % intervals, and below it the gap of every family."""
    results = neural.feature_results(files.needed("runs"), files.needed("epochs"), files.predictions, files.images)
    if not results.datasets:
        return style.remark(neural.NOT_RUN)
    heights = {"height_ratios": [1.7, 1]}
    figure, axes = style.panels(2, len(results.datasets), height=4.6, sharex="col", gridspec_kw=heights)
    # Solid lines with filled marks for networks, dashed with hollow ones for others.
    methods = results.scores.select("method", "network").unique(maintain_order=True).sort(~pl.col("network"))
    styles = {
        name: style.LineStyle(look.color, "-" if network else (0, (4, 1.6)), look.marker, 1.5 if network else 1.1)
        for (name, network), look in zip(methods.rows(), style.SERIES[1:], strict=False)
    }
    for column, dataset in enumerate(results.datasets):
        own = pl.col("dataset") == dataset
        _scores(axes[0, column], results.scores.filter(own), styles)
        panel, of_set = axes[1, column], results.gaps.filter(own, pl.col("features").is_not_null())
        style.zero(panel, "no gap", width=0.8)
        if of_set.is_empty():
            style.empty_panel(panel, "no network beside another model")
        several = of_set["family"].n_unique() > 1
        for ((family,), gaps), look in zip(of_set.group_by("family", maintain_order=True), style.SERIES, strict=False):
            label = f"gap, {family}" if several else "gap"
            style.with_intervals(panel, look, gaps["features"], gaps, "difference", markersize=4, label=label)
        counts = results.scores.filter(own)["features"].unique().sort().to_list()
        axes[1, column].set(xlabel="number of features", xscale="log")
        axes[1, column].set_xticks(counts, [f"{count:,}" for count in counts])
        axes[1, column].minorticks_off()
        axes[1, column].margins(x=0.08)
    figure.get_layout_engine().set(wspace=0.06)
    axes[1, 0].set_ylabel("best network −\nbest other model")
    return style.finish(figure, axes, columns=list(map(neural.data_set_title, results.datasets)), legend=4)


def _scores(panel: Any, scores: pl.DataFrame, styles: dict[str, style.LineStyle]) -> None:
    counts = scores["features"].to_list()
    reach = max(counts) / min(counts)
    for rank, name in enumerate(styles):
        own = scores.filter(pl.col("method") == name).sort("features")
        if own.is_empty():
            continue
        look, network = styles[name], bool(own["network"][0])
        # Points of one number beside each other, by a share of the axis, so that their intervals are apart.
        shift = reach ** (0.012 * (rank - (len(styles) - 1) / 2))
        face, label = look.color if network else "none", f"{name}{'' if network else ' (no network)'}"
        options: dict[str, Any] = {"markersize": 4, "markerfacecolor": face, "label": label}
        style.with_intervals(panel, look, own["features"] * shift, own, "ours", **options)
    metric = str(scores["metric"][0])
    panel.set_ylabel("pair accuracy" if metric == neural.PAIR_ACCURACY else metric.replace("nDCG", "NDCG"))


def pixels_of(images: Path, rows: npt.NDArray[Any]) -> dict[int, npt.NDArray[np.uint8]]:
    """Read the pixels `(height, width, 3)` of these rows of an images file, by row."""
    shape, wanted = read_faces(images).shape, pl.col("row").is_in(rows.ravel().tolist())
    found = scan_runs(images).with_row_index("row").filter(wanted).select("row", "pixels").collect()
    return {row: np.frombuffer(pixels, np.uint8).reshape(shape).transpose(1, 2, 0) for row, pixels in found.rows()}


def pair_grid(rows: int, across: int, title: str, *, lines: int, left: float = 0.0) -> Any:
    """Create a figure with square panels for pairs of pictures, `2 * across` in each row, row by row.

    Below every picture is room for `lines` lines of text; on the left, `left` inches beside the margin are free.
    """
    from matplotlib.figure import Figure

    width = style.PAGE_WIDTH
    side = (width - 2 * style.MARGIN - left - across * _INSIDE - (across - 1) * _BETWEEN) / (2 * across)
    below = 0.12 + _LINE * lines
    height = _TITLE + rows * (side + below)
    figure = Figure(figsize=(width, height))
    edges = {"left": (style.MARGIN + left) / width, "right": 1 - style.MARGIN / width}
    edges |= {"top": 1 - _TITLE / height, "bottom": below / height}
    spaces = {"wspace": _BETWEEN / (2 * side + _INSIDE), "hspace": below / side}
    pairs = figure.add_gridspec(rows, across, **edges, **spaces)
    for place in np.ndindex(rows, across):
        pair = pairs[place].subgridspec(1, 2, wspace=_INSIDE / side)
        for second in range(2):
            figure.add_subplot(pair[second]).set_axis_off()
    figure.suptitle(title, y=1 - 0.04 / height, va="top")
    return figure


_TITLE, _LINE, _INSIDE, _BETWEEN = 0.32, 0.15, 0.06, 0.28
"""Inches: the height of the title and of a line of text, and the gaps inside a pair and between pairs."""


def picture(panel: Any, pixels: npt.NDArray[Any], text: str, **options: Any) -> Any:
    """Draw one picture into a panel, pixel by pixel, with a text below it."""
    panel.text(0.5, -0.05, text, transform=panel.transAxes, ha="center", va="top", fontsize=8, color=style.INK)
    # Without resampling, the file holds the picture's own pixels.
    return panel.imshow(pixels, interpolation="none", **options)


_OF_PAIRS: dict[str, Any] = {"needs": ("predictions", "images"), "methods": (METHOD,), "shows_pictures": True}


@FIGURES.add("figure_neural_2", arguments={"order": "any", "count": 3}, data=(2,), **_OF_PAIRS)
@FIGURES.add("figure_neural_6", arguments={"order": "right", "count": 6}, data=(2, 3), **_OF_PAIRS)
@FIGURES.add("figure_neural_7", arguments={"order": "wrong", "count": 6}, data=(2, 3), **_OF_PAIRS)
def face_pairs(files: StudyFiles, *, order: str, count: int) -> Any:
    """Draw random test pairs: all ("any") or those in the right or wrong order by Rank-LR ("right", "wrong").

    Rank-LR uses the features of VGG16 if it was trained on them (as in the paper), else pixels; the title states which.
    The older face is on the right.
    """
    if not files.predictions or files.images is None:
        return style.remark(f"No pairs to draw.\n{neural.what_is_missing(neural.TABLES[1])}")
    pairs = neural.read_pairs(files.predictions, files.images)
    if order == "any":
        pairs = pairs.filter(pl.col("method") == pairs["method"].min()).unique("topic", maintain_order=True)
    else:
        pairs = pairs.filter(pl.col("method") == METHOD, pl.col("seed") == pairs["seed"].min())
        best = max(pairs["dataset"].unique().sort(), key=lambda name: neural.table_of(name).number, default="")
        accuracy = 1.0 if order == "right" else 0.0
        pairs = pairs.filter(pl.col("dataset") == best, pl.col("PairAccuracy") == accuracy)
    if pairs.is_empty():
        return style.remark(f"No pairs to draw.\n{neural.what_is_missing(neural.TABLES[1])}")
    random = np.random.default_rng(derive_seed("figure", "face-pairs", order, count))
    chosen = pairs[np.sort(random.permutation(len(pairs))[:count])]
    faces = chosen.select("younger", "older").to_numpy()
    pixels = pixels_of(files.images, faces)
    dataset = str(chosen["dataset"][0])
    features = "VGG16 features" if neural.table_of(dataset).number == len(neural.TABLES) else "pixels"
    synthetic = "; synthetic data" if dataset.startswith(SYNTHETIC) else ""
    title = f"Pairs that {METHOD} puts in the {order} order ({features}{synthetic})"
    title = f"Pairs of {neural.data_set_title(dataset)}" if order == "any" else title
    figure = pair_grid(-(-len(chosen) // 3), 3, title, lines=1 if order == "any" else 2)
    for *sides, row in zip(figure.axes[::2], figure.axes[1::2], chosen.iter_rows(named=True), strict=False):
        for panel, name in zip(sides, ("younger", "older"), strict=True):
            picture(panel, pixels[row[name]], f"{row[f'{name}_age']} years")
        if order != "any":
            gap = f"score {row['older_score'] - row['younger_score']:+.2f}".replace("-", "−")
            look = {"ha": "center", "va": "top", "fontsize": 7.5, "color": style.MUTED}
            sides[1].text(-0.03, -0.2, gap, transform=sides[1].transAxes, **look)
    return figure


@FIGURES.add(
    "figure_neural_duplicates", title="Near duplicates", needs=("images",), data=(2,), shows_pictures=True, order=3
)
def near_duplicates(files: StudyFiles) -> Any:
    """Draw a row of pairs per stretch of distances; titles are black where pairs are grouped, else coloured."""
    if files.images is None:
        return style.remark(f"No faces to draw.\n{neural.what_is_missing(neural.TABLES[1])}")
    from rankbound_study.data.faces import THRESHOLD, close_pairs, perceptual_hashes

    # Of 256 bits; the last two stretches lie beyond the threshold.
    stretches = (range(31), range(31, 47), range(47, THRESHOLD + 1), range(THRESHOLD + 1, 61), range(61, 65))
    faces, hashes = read_faces(files.images), []
    for table in read_row_groups(files.images, "images", ["pixels"]):
        bytes_of_rows = np.frombuffer(b"".join(table.column("pixels").to_pylist()), np.uint8)
        hashes.append(perceptual_hashes(bytes_of_rows.reshape(len(table), *faces.shape)))
    close, apart = close_pairs(np.concatenate(hashes), stretches[-1].stop - 1)
    random, examples, chosen, across = np.random.default_rng(0), [], [], 4
    for distance in range(stretches[-1].stop):
        two = np.sort(random.permutation(np.flatnonzero(apart == distance))[:2])
        examples += [(distance, *pair) for pair in close[two].tolist()]
    for stretch in stretches:
        # Spread evenly, nearest first.
        pairs = [pair for pair in examples if pair[0] in stretch]
        places = np.linspace(0, max(len(pairs) - 1, 0), min(across, len(pairs))).astype(int)
        chosen.append([pairs[place] for place in np.unique(places).tolist()])
    pixels = pixels_of(files.images, np.array([pair[1:] for pairs in chosen for pair in pairs]))
    title = f"Pairs of similar pictures by the distance of their hashes; the threshold is {THRESHOLD} of 256 bits"
    figure = pair_grid(len(stretches), across, title, lines=2, left=0.45)
    for stretch, pairs, row in zip(stretches, chosen, np.reshape(figure.axes, (-1, 2 * across)), strict=True):
        grouped = stretch.stop <= THRESHOLD + 1
        text = f"{stretch.start} to {stretch.stop - 1} bits\n{'one group' if grouped else 'not grouped'}"
        look = {"rotation": 90, "fontsize": 8, "ha": "right", "va": "center", "multialignment": "center"}
        color = style.INK if grouped else style.VERMILION
        row[0].text(-0.12, 0.5, text, transform=row[0].transAxes, color=color, **look)
        if not pairs:
            style.empty_panel(row[0], "no such\npair")
        for (distance, *pair), left, right in zip(pairs, row[::2], row[1::2], strict=False):
            for panel, face in zip((left, right), pair, strict=True):
                picture(panel, pixels[face], f"{faces.ages[face]} years")
            look = {"ha": "center", "va": "bottom", "fontsize": 7, "color": style.MUTED}
            right.text(-0.04, 1.02, f"{distance} bits", transform=right.transAxes, **look)
    return figure


_METHODS = ("Rank-LR", "Class-LR", "Reg-l1", "Reg-l2")
LOGISTIC_FACTOR = 2000
"""Factor by which the paper multiplies the coefficients of its two logistic regressions."""


@FIGURES.add("figure_neural_3", needs=("weights", "images"), data=(2,), methods=_METHODS)
def coefficient_images(files: StudyFiles) -> Any:
    """Draw a picture per model: the mean of a pixel's three coefficients, red where brighter pixels look older."""
    if files.images is None or not files.weights:
        return style.remark(f"No coefficients to draw.\n{neural.what_is_missing(neural.TABLES[1])}")
    shape = read_faces(files.images).shape
    of_pixels = {path.parts[-3]: path for path in files.weights if neural.table_of(path.parts[-4]) == neural.TABLES[1]}
    figure, axes = style.panels(1, len(_METHODS), height=2.6)
    for panel, method in zip(axes[0], _METHODS, strict=True):
        panel.set_axis_off()
        panel.set_title(method, loc="center")
        weights = neural.coefficients(of_pixels[method], shape) if method in of_pixels else None
        if weights is None:
            style.empty_panel(panel, "not run")
            continue
        factor = LOGISTIC_FACTOR if method.endswith("LR") else 1
        image = factor * weights.mean(0)
        # The colours end at a quantile, so that a few pixels do not fade all others; most of a lasso are zeros.
        reach = float(np.quantile(np.abs(image[image != 0]), 0.995)) if image.any() else 1.0
        text = f"log-odds × {LOGISTIC_FACTOR}" if factor > 1 else "years"
        drawn = picture(panel, image, "", cmap="RdBu_r", vmin=-reach, vmax=reach)
        bar = figure.colorbar(drawn, ax=panel, orientation="horizontal", shrink=0.9, pad=0.03, aspect=14, extend="both")
        short = f"{reach:.2g}".replace("-", "−")
        bar.set_ticks([-reach, 0, reach], labels=[f"−{short}", "0", short])
        bar.outline.set_linewidth(0.4)
        bar.ax.tick_params(labelsize=7)
        bar.set_label(text, fontsize=7.5)
    figure.suptitle("Coefficients of linear models, mean over red, green and blue")
    return figure
