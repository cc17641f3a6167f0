"""Figures with pictures of faces, of which only the drawn ones are read: pairs, near duplicates, coefficients."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.data.contracts import read_row_groups
from rankbound_study.data.faces import Bits
from rankbound_study.data.images import Faces, read_faces
from rankbound_study.figures import style
from rankbound_study.figures.catalogue import Catalogue, FigureSpec, neural_title
from rankbound_study.results.neural import TABLES, coefficients, data_set_title, read_pairs, table_of, what_is_missing
from rankbound_study.results.study_files import StudyFiles

FIGURES = Catalogue(FigureSpec, "figures_faces.md")


def pixels_of(images: Path, rows: npt.NDArray[Any]) -> dict[int, npt.NDArray[np.uint8]]:
    """Read the pixels `(height, width, 3)` of these rows of an images file, by row."""
    shape = read_faces(images).shape
    wanted, found, start = set(rows.tolist()), {}, 0
    for table in read_row_groups(images, "images", ["pixels"]):
        column = table.column("pixels")
        for row in sorted(wanted & set(range(start, start + len(column)))):
            flat = np.frombuffer(column[row - start].as_py(), np.uint8)
            found[row] = flat.reshape(shape).transpose(1, 2, 0)
        start += len(column)
    return found


def pair_grid(rows: int, across: int, title: str, *, lines: int, left: float = 0.0) -> tuple[Any, list[list[Any]]]:
    """Create a figure with square panels for pairs of pictures, `2 * across` in each row.

    Below every picture is room for `lines` lines of text; on the left, `left` inches beside the margin are free.
    """
    from matplotlib.figure import Figure

    width = style.PAGE_WIDTH
    side = (width - 2 * style.MARGIN - left - across * _INSIDE - (across - 1) * _BETWEEN) / (2 * across)
    below = 0.12 + _LINE * lines
    height = _TITLE + rows * (side + below)
    figure = Figure(figsize=(width, height))
    panels = []
    for row in range(rows):
        bottom = height - _TITLE - row * (side + below) - side
        starts = [
            style.MARGIN + left + pair * (2 * side + _INSIDE + _BETWEEN) + second * (side + _INSIDE)
            for pair in range(across)
            for second in range(2)
        ]
        panels.append([figure.add_axes((x / width, bottom / height, side / width, side / height)) for x in starts])
        for panel in panels[-1]:
            panel.set_axis_off()
    figure.suptitle(title, y=1 - 0.04 / height, va="top")
    return figure, panels


_TITLE, _LINE, _INSIDE, _BETWEEN = 0.32, 0.15, 0.06, 0.28
"""Inches: the height of the title and of a line of text, and the gaps inside a pair and between pairs."""


def picture(panel: Any, pixels: npt.NDArray[Any], text: str, **options: Any) -> Any:
    """Draw one picture into a panel, pixel by pixel, with a text below it."""
    panel.set_axis_off()
    panel.text(0.5, -0.05, text, transform=panel.transAxes, ha="center", va="top", fontsize=8, color=style.INK)
    # Without resampling, the file holds the picture's own pixels.
    return panel.imshow(pixels, interpolation="none", **options)


METHOD = "Rank-LR"


ACROSS = 3
"""Pairs in a row."""


def face_pairs(files: StudyFiles, *, order: str, count: int) -> Any:
    """Draw random test pairs: all ("any") or those in the right or wrong order by Rank-LR ("right", "wrong").

    Rank-LR uses the features of VGG16 if it was trained on them (as in the paper), else pixels; the title states which.
    The older face is on the right.
    """
    pairs = _candidates(files, order)
    if pairs is None or pairs.is_empty() or files.images is None:
        return style.remark(f"No pairs to draw.\n{what_is_missing(TABLES[1])}")
    random = np.random.default_rng(derive_seed("figure", "face-pairs", order, count))
    chosen = pairs[np.sort(random.permutation(len(pairs))[:count])]
    faces = chosen.select("younger", "older").to_numpy()
    pixels = pixels_of(files.images, np.unique(faces))
    rows = -(-len(chosen) // ACROSS)
    figure, panels = pair_grid(rows, ACROSS, _pairs_title(chosen, order), lines=1 if order == "any" else 2)
    for place, row in enumerate(chosen.iter_rows(named=True)):
        sides = panels[place // ACROSS][2 * (place % ACROSS) :]
        for panel, name in zip(sides, ("younger", "older"), strict=False):
            picture(panel, pixels[row[name]], f"{row[f'{name}_age']} years")
        if order != "any":
            gap = f"score {row['older_score'] - row['younger_score']:+.2f}".replace("-", "−")
            look = {"ha": "center", "va": "top", "fontsize": 7.5, "color": style.MUTED}
            sides[1].text(-0.03, -0.2, gap, transform=sides[1].transAxes, **look)
    return figure


for _number, _order, _count, _data in ((2, "any", 3, (2,)), (6, "right", 6, (2, 3)), (7, "wrong", 6, (2, 3))):
    FIGURES.add(
        f"figure_neural_{_number}",
        arguments={"order": _order, "count": _count},
        title=neural_title(_number),
        needs=("predictions", "images"),
        data=_data,
        methods=(METHOD,),
        shows_pictures=True,
    )(face_pairs)


def _candidates(files: StudyFiles, order: str) -> pl.DataFrame | None:
    if not files.predictions or files.images is None:
        return None
    pairs = read_pairs(files.predictions, files.images)
    sets = sorted(pairs["dataset"].unique().to_list(), key=lambda name: -table_of(name).number)
    if order == "any":
        return pairs.filter(pl.col("method") == pairs["method"].min()).unique("topic", maintain_order=True)
    wanted = pairs.filter(pl.col("method") == METHOD, pl.col("seed") == pairs["seed"].min())
    sets = [name for name in sets if name in set(wanted["dataset"])]
    return wanted.filter(
        pl.col("dataset") == (sets[0] if sets else ""), pl.col("PairAccuracy") == (1.0 if order == "right" else 0.0)
    )


def _pairs_title(chosen: pl.DataFrame, order: str) -> str:
    dataset = str(chosen["dataset"][0])
    if order == "any":
        return f"Pairs of {data_set_title(dataset)}"
    features = "VGG16 features" if table_of(dataset).number == len(TABLES) else "pixels"
    synthetic = "; synthetic data" if dataset.startswith(SYNTHETIC) else ""
    return f"Pairs that {METHOD} puts in the {order} order ({features}{synthetic})"


COLUMNS = 4


@FIGURES.add(
    "figure_neural_duplicates", title="Near duplicates", needs=("images",), data=(2,), shows_pictures=True, order=3
)
def near_duplicates(files: StudyFiles) -> Any:
    """Draw a row of pairs per stretch of distances; titles are black where pairs are grouped, else coloured."""
    from rankbound_study.data.faces import THRESHOLD, example_pairs

    if files.images is None:
        return style.remark(f"No faces to draw.\n{what_is_missing(TABLES[1])}")
    # Of 256 bits; the last two stretches lie beyond the threshold.
    stretches = (range(31), range(31, 47), range(47, THRESHOLD + 1), range(THRESHOLD + 1, 61), range(61, 65))
    faces = read_faces(files.images)
    examples = example_pairs(_hashes(files, faces), range(stretches[-1].stop), per_distance=2)
    chosen = []
    for stretch in stretches:
        # Spread evenly, nearest first.
        pairs = [pair for pair in examples if pair[0] in stretch]
        places = np.linspace(0, max(len(pairs) - 1, 0), min(COLUMNS, len(pairs))).astype(int)
        chosen.append([pairs[place] for place in np.unique(places).tolist()])
    pixels = pixels_of(files.images, np.unique([face for pairs in chosen for pair in pairs for face in pair[1:]]))
    title = f"Pairs of similar pictures by the distance of their hashes; the threshold is {THRESHOLD} of 256 bits"
    figure, panels = pair_grid(len(stretches), COLUMNS, title, lines=2, left=0.45)
    for stretch, pairs, row in zip(stretches, chosen, panels, strict=True):
        grouped = stretch.stop <= THRESHOLD + 1
        text = f"{stretch.start} to {stretch.stop - 1} bits\n{'one group' if grouped else 'not grouped'}"
        look = {"rotation": 90, "fontsize": 8, "ha": "right", "va": "center", "multialignment": "center"}
        color = style.INK if grouped else style.VERMILION
        row[0].text(-0.12, 0.5, text, transform=row[0].transAxes, color=color, **look)
        if not pairs:
            style.empty_panel(row[0], "no such\npair")
        for place, (distance, first, second) in enumerate(pairs):
            picture(row[2 * place], pixels[first], f"{faces.ages[first]} years")
            picture(row[2 * place + 1], pixels[second], f"{faces.ages[second]} years")
            look = {"ha": "center", "va": "bottom", "fontsize": 7, "color": style.MUTED}
            row[2 * place + 1].text(-0.04, 1.02, f"{distance} bits", transform=row[2 * place + 1].transAxes, **look)
    return figure


def _hashes(files: StudyFiles, faces: Faces) -> Bits:
    from rankbound_study.data.faces import perceptual_hashes

    some = [
        perceptual_hashes(
            np.frombuffer(b"".join(table.column("pixels").to_pylist()), np.uint8).reshape(len(table), *faces.shape)
        )
        for table in read_row_groups(files.needed("images"), "images", ["pixels"])
    ]
    return np.concatenate(some)


_METHODS = ("Rank-LR", "Class-LR", "Reg-l1", "Reg-l2")
LOGISTIC_FACTOR = 2000
"""Factor by which the paper multiplies the coefficients of its two logistic regressions."""

_CLIPPED = 0.995
"""Quantile of the absolute coefficients at which the colours end, so a few pixels do not fade all others."""


@FIGURES.add(
    "figure_neural_3",
    arguments={"methods": _METHODS},
    title=neural_title(3),
    needs=("weights", "images"),
    data=(2,),
    methods=_METHODS,
)
def coefficient_images(files: StudyFiles, *, methods: tuple[str, ...]) -> Any:
    """Draw a picture per model: the mean of a pixel's three coefficients, red where brighter pixels look older."""
    if files.images is None or not files.weights:
        return style.remark(f"No coefficients to draw.\n{what_is_missing(TABLES[1])}")
    shape = read_faces(files.images).shape
    of_pixels = {path.parts[-3]: path for path in files.weights if table_of(path.parts[-4]) == TABLES[1]}
    figure, axes = style.panels(1, len(methods), height=2.6)
    for panel, method in zip(axes[0], methods, strict=True):
        panel.set_axis_off()
        panel.set_title(method, loc="center")
        weights = coefficients(of_pixels[method], shape) if method in of_pixels else None
        if weights is None:
            style.empty_panel(panel, "not run")
            continue
        factor = LOGISTIC_FACTOR if method.endswith("LR") else 1
        image = factor * weights.mean(0)
        # Without zeros, which are most coefficients of a lasso.
        reach = float(np.quantile(np.abs(image[image != 0]), _CLIPPED)) if image.any() else 1.0
        text = f"log-odds × {LOGISTIC_FACTOR}" if factor > 1 else "years"
        drawn = picture(panel, image, "", cmap="RdBu_r", vmin=-reach, vmax=reach)
        bar = figure.colorbar(drawn, ax=panel, orientation="horizontal", shrink=0.9, pad=0.03, aspect=14, extend="both")
        bar.set_ticks([-reach, 0, reach], labels=[_short(-reach), "0", _short(reach)])
        bar.outline.set_linewidth(0.4)
        bar.ax.tick_params(labelsize=7)
        bar.set_label(text, fontsize=7.5)
    figure.suptitle("Coefficients of linear models, mean over red, green and blue")
    return figure


def _short(value: float) -> str:
    return f"{value:.2g}".replace("-", "−")
