"""The figures by name: which module draws each, with which arguments, and what its caption says.

Importing this module is light: a figure's own module (and matplotlib) is imported when it is drawn.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.figures.neural import NEURAL_FIGURES
from rankbound_study.figures.spec import FigureSpec, StudyFiles

_BOUNDED_LOSS = (
    "Bounded loss against unbounded loss, {bounding} bounding, for every value between the best and the worst order of "
    "X(N, P), a list of N items with P relevant ones. Top: three lists at NSR 2; bottom: three lists with 10 relevant "
    "items at NSR 1, 2, 3. nDCG and AP are bounded first and negated after; the nRBP loss is bounded as it is."
)
_SCORES = "Columns are data sets, rows boundings; one score per topic, the mean over its test lists (folds, seeds)."


def _bounded_loss(bounding: str) -> FigureSpec:
    return FigureSpec("bounded_loss", _BOUNDED_LOSS.format(bounding=bounding), {"bounding": bounding})


def _of_runs(module: str, caption: str, **arguments: Any) -> FigureSpec:
    return FigureSpec(module, caption, arguments, needs_runs=True)


def _by_loss(module: str, caption: str, loss: str, metric: str) -> FigureSpec:
    return _of_runs(module, f"{caption.format(loss=loss, metric=metric)} {_SCORES}", loss=loss)


_DISTRIBUTIONS = (
    "Share of topics whose {metric} is at most x, trained on the bounded and on the unbounded {loss} loss; grey where "
    "the bounded share is lower (fewer topics score that little)."
)
_PAIRS = "{metric} of each topic, trained on the bounded {loss} loss (y) against the unbounded one (x)."
_DIFFERENCES = (
    "Difference in {metric} (bounded minus unbounded {loss} loss; higher is better) against the number of relevant "
    "items of a topic, drawn linearly within ±0.01 and logarithmically beyond. Contours of a Gaussian kernel density "
    "hold 50 and 90 percent of the topics; the line joins the means of up to eight groups of topics of about equal "
    "size, ordered by their number of relevant items."
)
_LINEAR = (
    "A ranked list above its ideal order: ratings in boxes, below each the share of DCG, rating times the number of "
    "items under it. Arcs join the pairs in the wrong order, with the difference of their ratings where it exceeds 1; "
    "their sum is the DCG error. The drawing is lost in the text; this list is one of those that give the printed "
    "numbers."
)
_LOSSES = (("nDCG", "nDCG"), ("AP", "AP"), ("nRBP", "nRBP(p=0.95)"))


def _linear(figure: int, *ratings: int) -> FigureSpec:
    return FigureSpec("linear_ndcg", _LINEAR, {"ratings": ratings}, title=f"Jin and Geng, Figure {figure}")


FIGURES: dict[str, FigureSpec] = {
    "figure_1_1": FigureSpec(
        "lower_bounds",
        "Lower bounds of nDCG and AP: score of the worst order against the share of relevant items, by list size N.",
    ),
    "figure_3_1": _bounded_loss("min-max"),
    "figure_3_2": FigureSpec(
        "expected_loss",
        "Expected loss of a random order against the number of relevant items P, by negative sampling ratio (NSR).",
    ),
    "figure_3_3": _bounded_loss("expectation"),
    "figure_3_4": _bounded_loss("expectation-max"),
    "figure_3_5": FigureSpec(
        "gains",
        "Cumulative distribution of the scores of all orders (steps) and its smooth versions (algorithm 2) with gains "
        "1, 4, 16 and 64, for lists of 8 items with 4 relevant ones and of 15 with 5.",
    ),
    "figure_3_6": FigureSpec(
        "smooth_distributions",
        "Smooth cumulative distributions (algorithm 2) with the gain a(D) of equation 3.13. Top: three lists X(N, P) "
        "at NSR 2; bottom: three lists with 10 relevant items at NSR 1, 2, 3.",
    ),
    "figure_3_7": _bounded_loss("distribution"),
    "figure_5_1": _of_runs(
        "ndcg_at_k",
        "Mean nDCG@k against the cut-off k, a line per bounding; rows are the losses that were trained on, columns "
        "data sets. Every panel has its own vertical scale.",
    ),
    **{
        f"figure_5_{first + position}": _by_loss(module, caption, loss, metric)
        for first, module, caption in (
            (2, "score_distributions", _DISTRIBUTIONS),
            (5, "score_pairs", _PAIRS),
            (8, "score_differences", _DIFFERENCES),
        )
        for position, (loss, metric) in enumerate(_LOSSES)
    },
    "figure_linear_2": _linear(2, 1, 0, 1, 0, 0, 1),
    "figure_linear_3": _linear(3, 2, 1, 0, 2, 0, 0),
    **NEURAL_FIGURES,
}


def title(name: str) -> str:
    """A figure as a reader calls it: Figure 5.1 of the thesis, or with the name of its source."""
    return FIGURES[name].title or name.replace("figure_", "Figure ").replace("_", ".")


def draw(name: str, runs: Path | None, options: Mapping[str, Any], files: Mapping[str, Any] | None = None) -> Any:
    """Draw a figure; `runs` is the runs table, for those that need one, and `options` chooses among its runs.

    `files` holds further files of a figure of the neural-ranking study, by the names of `StudyFiles`. Where one is
    missing the figure says so.

    Raises:
        ConfigError: no figure has that name, or the runs table is missing.
    """
    if name not in FIGURES:
        raise ConfigError(f"there is no {name!r}; the figures are {', '.join(FIGURES)}")
    from rankbound_study.figures.style import house_style
    from rankbound_study.results.scores import RunsChoice

    spec = FIGURES[name]
    module = import_module(f"rankbound_study.figures.{spec.module}")
    with house_style():
        if spec.needs:
            return module.draw(StudyFiles(runs=runs, **(files or {})), **spec.arguments)
        if not spec.needs_runs:
            return module.draw(**spec.arguments)
        if runs is None:
            raise ConfigError(f"{name} is drawn from runs: give the runs table with --runs FILE")
        return module.draw(runs, RunsChoice.from_options(options), **spec.arguments)
