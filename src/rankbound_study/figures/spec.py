"""The description of a figure."""

from dataclasses import dataclass

from rankbound_study.results.specs import Spec
from rankbound_study.vocabulary import JUDGED_BY, LOSSES

_SCORES = "Columns are data sets, rows boundings; one score per topic, the mean over its test lists (folds, seeds)."


@dataclass(frozen=True)
class FigureSpec(Spec):
    """A figure: `draw` of its module draws it, from the files if it needs any."""

    needs_runs: bool = False
    """`draw` takes the runs table, the selection of its rows, and the epochs if there are any, instead of files."""
    shows_pictures: bool = False
    """The figure contains pictures of a data set, whose licence then applies to it."""
    order: int = 0
    """Place among the figures of a source that have no number."""


def one_per_loss(chapter: int, first: int, caption: str) -> dict[str, FigureSpec]:
    """Return three figures of runs, one per loss, numbered from `first`; `caption` contains {loss} and {metric}."""
    return {
        f"figure_{chapter}_{number}": FigureSpec(
            f"{caption.format(loss=loss, metric=JUDGED_BY[loss])} {_SCORES}", {"loss": loss}, needs_runs=True
        )
        for number, loss in enumerate(LOSSES, start=first)
    }


def neural_title(number: int) -> str:
    """Return the title of a figure that the neural-ranking study numbers itself."""
    return f"Neural networks in ranking, Figure {number}"
