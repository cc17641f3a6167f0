"""Table 5.1 as the thesis lays it out (a row per loss and bounding, a column per data set), as Markdown and LaTeX.

Beside each mean stands the printed one, which the published protocol is compared with, or (honest protocol) its margin.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from rankbound_study.claims.certainty import significance
from rankbound_study.figures.style import bounding_title
from rankbound_study.report import tables
from rankbound_study.report.latex_text import escaped
from rankbound_study.results import scores
from rankbound_study.results.scores import DataSet
from rankbound_study.vocabulary import HONEST

DIGITS = 4
"""As many decimals as the thesis prints."""


UP, DOWN = "▲", "▼"
BESIDE = {
    False: "(printed)",
    True: f"±half of the 95 % interval, {UP} significantly better and {DOWN} worse than unbounded",
}


@dataclass(frozen=True)
class Cell:
    """Our mean, its margin and the printed mean; `best` of its loss, or an `increase` over the unbounded loss.

    `side`: 1 where the loss ranks significantly better than the unbounded one, -1 where it ranks worse.
    """

    ours: float | None
    published: float | None = None
    margin: float | None = None
    side: int = 0
    best: bool = False
    increase: bool = False

    @property
    def text(self) -> str:
        """Our mean as it is printed."""
        return "–" if self.ours is None else f"{self.ours:.{DIGITS}f}"

    @property
    def note(self) -> str:
        """The printed mean; or the margin, with an arrow where the change against the unbounded loss is significant."""
        if self.published is not None:
            return f"{self.published:.{DIGITS}f}"
        return "" if self.margin is None else f"±{self.margin:.{DIGITS}f}{('', UP, DOWN)[self.side]}"


@dataclass(frozen=True)
class Row:
    """One loss under one bounding (or one control), scored by one metric, on every data set."""

    loss: str
    metric: str
    name: str
    control: bool
    cells: tuple[Cell, ...]


def is_honest(table: pl.DataFrame) -> bool:
    """Whether margins stand beside the means, in the place of printed scores that were made otherwise."""
    return bool(len(table)) and table["protocol"][0] == HONEST


def layout(table: pl.DataFrame) -> tuple[list[DataSet], list[Row]]:
    """The columns and rows of the table; marks (bold, italic) are recomputed from our numbers."""
    sets = scores.data_sets(table.rename({"nsr": "nsr_test"}))
    return sets, [
        row for loss in tables.METRICS for metric in tables.METRICS[loss] for row in _block(table, sets, loss, metric)
    ]


def markdown(table: pl.DataFrame) -> str:
    """A pipe table; every cell is ours, with the printed score in brackets."""
    sets, rows = layout(table)
    lines = [
        f"Table 5.1 — {scores.PROTOCOLS[table['protocol'][0]] if len(table) else 'no runs'}."
        f" Ours {BESIDE[is_honest(table)]}; **highest of its loss**, *above unbounded*.",
        "",
        "| loss | bounding or control | metric | " + " | ".join(data_set.label for data_set in sets) + " |",
        "|---|---|---|" + "---:|" * len(sets),
    ]
    for row in rows:
        cells = " | ".join(_marked(cell, "**{}**", "*{}*", "{}") for cell in row.cells)
        lines.append(f"| {'control' if row.control else row.loss} | {row.name} | {row.metric} | {cells} |")
    return "\n".join(lines) + "\n"


def latex(table: pl.DataFrame) -> str:
    r"""A `tabular` for `booktabs`, to be put in with `\input`."""
    sets, rows = layout(table)
    lines = [
        rf"% Table 5.1, {table['protocol'][0] if len(table) else 'no'} protocol: ours {BESIDE[is_honest(table)]}",
        rf"\begin{{tabular}}{{lll{'r' * len(sets)}}}",
        r"\toprule",
        " & ".join(["Loss", "Bounding", "Metric", *(escaped(data_set.label) for data_set in sets)]) + r" \\",
    ]
    previous = None
    for row in rows:
        if row.metric != previous:
            lines.append(r"\midrule")
        previous = row.metric
        cells = [
            _marked(cell, r"\textbf{{{}}}", r"\textit{{{}}}", r"{{\footnotesize {}}}", escaped) for cell in row.cells
        ]
        first = "control" if row.control else row.loss
        lines.append(" & ".join([first, escaped(row.name), escaped(row.metric), *cells]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _block(table: pl.DataFrame, sets: list[DataSet], loss: str, metric: str) -> Iterator[Row]:
    of_metric = table.filter(pl.col("metric") == metric)
    trained = of_metric.filter(pl.col("loss") == loss)
    controls = of_metric.filter(pl.col("loss") == "none")
    names = scores.boundings(trained)
    cells = {(row["dataset"], row["nsr"], row["bounding"]): row for row in trained.iter_rows(named=True)}
    best = {
        data_set: _best(cells[place]["ours"] for name in names if (place := (*data_set.key, name)) in cells)
        for data_set in sets
    }
    for name in names:
        row = []
        for data_set in sets:
            found = cells.get((*data_set.key, name))
            base = cells.get((*data_set.key, "none"))
            row.append(_cell(found, None if base is None else base["ours"], best[data_set]))
        yield Row(loss, metric, bounding_title(name), False, tuple(row))
    values = {(row["dataset"], row["nsr"], row["model"]): row for row in controls.iter_rows(named=True)}
    for model in sorted(controls["model"].unique()):
        cells_of_model = tuple(_cell(values.get((*data_set.key, model)), None, None) for data_set in sets)
        yield Row(loss, metric, model, True, cells_of_model)


def _best(scores_of_loss: Iterable[float | None]) -> float | None:
    """The highest score, if there are several."""
    known = [score for score in scores_of_loss if score is not None]
    return max(known) if len(known) > 1 else None


def _cell(found: dict[str, object] | None, base: object, best: float | None) -> Cell:
    if found is None or not isinstance(found["ours"], float):
        return Cell(None)
    ours, margin, published = found["ours"], found["margin"], found["published"]
    honest = found["protocol"] == HONEST
    return Cell(
        ours,
        published if isinstance(published, float) and found["as_printed"] and not honest else None,
        margin if isinstance(margin, float) and honest else None,
        significance(_number(found["change"]), _number(found["p_holm"])),
        best=best is not None and round(ours, DIGITS) == round(best, DIGITS),
        increase=isinstance(base, float) and round(ours, DIGITS) > round(base, DIGITS),
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _marked(cell: Cell, bold: str, italic: str, small: str, set_in: Callable[[str], str] = str) -> str:
    text = cell.text
    if cell.best:
        text = bold.format(text)
    elif cell.increase:
        text = italic.format(text)
    if not cell.note:
        return text
    return f"{text} {small.format(set_in(cell.note if cell.published is None else f'({cell.note})'))}"
