"""Figures 2, 6 and 7 of the neural-ranking study: pairs of faces, drawn at random, with their ages."""

from typing import Any

import numpy as np
import polars as pl

from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import SYNTHETIC
from rankbound_study.figures import style
from rankbound_study.figures._pictures import pair_grid, picture, pixels_of
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec, neural_title
from rankbound_study.results.neural_names import TABLES, data_set_title, table_of, what_is_missing
from rankbound_study.results.neural_pairs import read_pairs, with_readings
from rankbound_study.results.specs import StudyFiles

METHOD = "Rank-LR"


def _spec(number: int, order: str, count: int, data: tuple[int, ...], pairs: str) -> FigureSpec:
    return FigureSpec(
        f"The older face is on the right. Drawn at random from the test pairs, {pairs}.",
        {"order": order, "count": count},
        title=neural_title(number),
        needs=("predictions", "images"),
        data=data,
        methods=(METHOD,),
        shows_pictures=True,
    )


SPECS = {
    "figure_neural_2": _spec(2, "any", 3, (2,), "with their ages"),
    "figure_neural_6": _spec(
        6,
        "right",
        6,
        (2, 3),
        "among those that Rank-LR orders correctly. Below each pair: the score of the older face minus that of the "
        "younger one; the title gives the features of Rank-LR",
    ),
    "figure_neural_7": _spec(7, "wrong", 6, (2, 3), "among those that Rank-LR orders incorrectly"),
}

ACROSS = 3
"""Pairs in a row."""


def draw(files: StudyFiles, *, order: str, count: int) -> Any:
    """Draw random test pairs: all ("any") or those in the right or wrong order by Rank-LR ("right", "wrong").

    Rank-LR uses the features of VGG16 if it was trained on them (as in the paper), else pixels; the title states which.
    The older face is on the right.
    """
    pairs = _candidates(files, order)
    if pairs is None or pairs.is_empty() or files.images is None:
        return remark(f"No pairs to draw.\n{what_is_missing(TABLES[1])}")
    random = np.random.default_rng(derive_seed("figure", "face-pairs", order, count))
    chosen = pairs[np.sort(random.permutation(len(pairs))[:count])]
    faces = chosen.select("younger", "older").to_numpy()
    pixels = pixels_of(files.images, np.unique(faces))
    rows = -(-len(chosen) // ACROSS)
    figure, panels = pair_grid(rows, ACROSS, _title(chosen, order), lines=1 if order == "any" else 2)
    for place, row in enumerate(chosen.iter_rows(named=True)):
        sides = panels[place // ACROSS][2 * (place % ACROSS) :]
        for panel, name in zip(sides, ("younger", "older"), strict=False):
            picture(panel, pixels[row[name]], f"{row[f'{name}_age']} years")
        if order != "any":
            _below(sides[1], row["older_score"] - row["younger_score"])
    return figure


def _candidates(files: StudyFiles, order: str) -> pl.DataFrame | None:
    if not files.predictions or files.images is None:
        return None
    pairs = with_readings(read_pairs(files.predictions, files.images))
    sets = sorted(pairs["dataset"].unique().to_list(), key=lambda name: -table_of(name).number)
    if order == "any":
        return pairs.filter(pl.col("method") == pairs["method"].min()).unique("topic", maintain_order=True)
    wanted = pairs.filter(pl.col("method") == METHOD, pl.col("seed") == pairs["seed"].min())
    sets = [name for name in sets if name in set(wanted["dataset"])]
    return wanted.filter(
        pl.col("dataset") == (sets[0] if sets else ""), pl.col("PairAccuracy") == (1.0 if order == "right" else 0.0)
    )


def _below(panel: Any, gap: float) -> None:
    """Write the score of the older face minus that of the younger one below a picture."""
    text = f"score {gap:+.2f}".replace("-", "−")
    panel.text(-0.03, -0.2, text, transform=panel.transAxes, ha="center", va="top", fontsize=7.5, color=style.MUTED)


def _title(chosen: pl.DataFrame, order: str) -> str:
    dataset = str(chosen["dataset"][0])
    if order == "any":
        return f"Pairs of {data_set_title(dataset)}"
    features = "VGG16 features" if table_of(dataset).number == len(TABLES) else "pixels"
    synthetic = "; synthetic data" if dataset.startswith(SYNTHETIC) else ""
    return f"Pairs that {METHOD} puts in the {order} order ({features}{synthetic})"
