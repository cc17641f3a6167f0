"""Figure 3 of the neural-ranking study: the coefficients of linear models of pixels as pictures."""

from typing import Any

import numpy as np

from rankbound_study.data.images import read_faces
from rankbound_study.figures import style
from rankbound_study.figures._pictures import picture
from rankbound_study.figures.remark import remark
from rankbound_study.figures.spec import FigureSpec, neural_title
from rankbound_study.results.coefficients import coefficients
from rankbound_study.results.neural_names import TABLES, table_of, what_is_missing
from rankbound_study.results.specs import StudyFiles

_METHODS = ("Rank-LR", "Class-LR", "Reg-l1", "Reg-l2")
SPECS = {
    "figure_neural_3": FigureSpec(
        "Coefficients of four linear models as pictures: the mean over a pixel's red, green and blue values. Red: the "
        "brighter the pixel, the older the face. Coefficients of logistic regressions are multiplied by 2000, as in "
        "the paper. Every picture has its own scale, which ends at the 99.5 % quantile of the absolute values.",
        {"methods": _METHODS},
        title=neural_title(3),
        needs=("weights", "images"),
        data=(2,),
        methods=_METHODS,
    )
}

LOGISTIC_FACTOR = 2000
"""Factor by which the paper multiplies the coefficients of its two logistic regressions."""

_CLIPPED = 0.995
"""Quantile of the absolute coefficients at which the colours end, so a few pixels do not fade all others."""


def draw(files: StudyFiles, *, methods: tuple[str, ...]) -> Any:
    """Draw a picture per model: the mean of a pixel's three coefficients, red where brighter pixels look older."""
    if files.images is None or not files.weights:
        return remark(f"No coefficients to draw.\n{what_is_missing(TABLES[1])}")
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
