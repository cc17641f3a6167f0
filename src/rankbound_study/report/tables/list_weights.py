"""The list weights that bounds amount to: how they and the lists' influence vary, from instances and library alone."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.reader import FoldedLists, read_instances
from rankbound_study.report.blocks import Cell, TableBlock, changes
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles
from rankbound_study.vocabulary import AFFINE, LOSSES

if TYPE_CHECKING:
    from rankbound_study.results.list_weights import Weighting

SPECS = {
    "table_list_weights": TableSpec(
        "The weights of training lists that affine bounds amount to, by data set and loss: coefficients of variation "
        "of weights, influence and mismatch, without and with the bound, and the effective number of lists.",
        title="list weights of bounds",
        needs=("instances",),
        section="law",
    )
}
TITLE = "List weights of bounds"
REPORT_CAPTION = (
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of the influence of "
    "the unbounded loss, and of the weights that each affine bound amounts to. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; `tables/table_list_weights.csv` has the ranges and the mismatch."
)
CAPTION = (
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of a bound's "
    "weights; of the influence, a list's weight times the range of its loss over all orders; and of the mismatch, the "
    "influence over the range of the judging metric; without and with the bound. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; in small type the smallest and largest fold."
)
HEADER = (
    *("data set", "loss", "bounding", "lists", "weights", "influence without", "with", "mismatch without", "with"),
    *("effective lists without", "with"),
)
LABELS = 3

_NUMBERS = (
    *("n_lists", "cv_weights", "cv_influence_without", "cv_influence_with", "cv_mismatch_without", "cv_mismatch_with"),
    *("effective_without", "effective_with"),
)
_COUNTS = ("n_lists", "effective_without", "effective_with")

COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


def make(name: str, files: StudyFiles) -> TableFiles:
    """Return the table of the data sets whose instances are given."""
    every = sorted(map(read_instances, files.instances), key=lambda one: DataSet(one.dataset, one.nsr).place)
    rows = [_row(instances, loss, bounding) for instances, loss, bounding in product(every, LOSSES, AFFINE)]
    table = pl.DataFrame(rows, schema=COLUMNS)
    return TableFiles(table, plain_texts(block(table)))


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the table, unless it is empty."""
    if len(table := read_table(folder / f"{name}.csv", COLUMNS)):
        yield report_block(table)


def report_block(table: pl.DataFrame) -> TableBlock:
    """Return the report's table: a row per data set and loss, without the ranges of folds."""
    rows, labels = [], []
    for (dataset, nsr, loss), own in table.group_by("dataset", "nsr", "loss", maintain_order=True):
        first = own.row(0, named=True)
        weights = dict(own.select("bounding", "cv_weights").iter_rows())
        labels.append(DataSet(str(dataset), None if nsr is None else int(str(nsr))).label)
        numbers = (first["cv_influence_without"], *(weights[bounding] for bounding in AFFINE))
        lists = f"{first['effective_without']:.0f} of {first['n_lists']:.0f}"
        rows.append((Cell(labels[-1]), Cell(str(loss)), Cell(lists), *(Cell(f"{number:.3f}") for number in numbers)))
    header = ("data set", "loss", "effective lists", "influence", *(f"weights of {bounding}" for bounding in AFFINE))
    return TableBlock(TITLE, REPORT_CAPTION, header, tuple(rows), LABELS - 1, changes(labels), sortable=True)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    keys = table.select("dataset", "nsr", "loss").rows()
    rows = tuple(_cells(row) for row in table.iter_rows(named=True))
    return TableBlock(TITLE, CAPTION, HEADER, rows, LABELS, changes(keys), sortable=True)


def _row(instances: FoldedLists, loss: str, bounding: str) -> dict[str, object]:
    from rankbound_study.results.list_weights import Influence

    views = [Influence(instances, fold, loss) for fold in instances.folds]
    folds = [_numbers(view.under(None), view.under(ListWeights.of(bounding))) for view in views]
    found: dict[str, object] = {
        "dataset": instances.dataset,
        "nsr": instances.nsr,
        "loss": loss,
        "bounding": bounding,
    }
    for name, values in zip(_NUMBERS, np.transpose(folds), strict=True):
        found |= {name: values.mean(), f"{name}_least": values.min(), f"{name}_largest": values.max()}
    return found


def _numbers(usual: "Weighting", weighted: "Weighting") -> Sequence[float]:
    return (
        weighted.n,
        weighted.of_weights,
        usual.of_influence,
        weighted.of_influence,
        usual.of_mismatch,
        weighted.of_mismatch,
        usual.effective,
        weighted.effective,
    )


def _cells(row: dict[str, object]) -> tuple[Cell, ...]:
    label = DataSet(str(row["dataset"]), row["nsr"]).label  # type: ignore[arg-type]
    numbers = (Cell(_text(row, name), _range(row, name)) for name in _NUMBERS)
    return Cell(label), Cell(str(row["loss"])), Cell(str(row["bounding"])), *numbers


def _range(row: dict[str, object], name: str) -> str:
    ends = [_text(row, name, end) for end in ("_least", "_largest")]
    return "" if ends[0] == ends[1] else "–".join(ends)


def _text(row: dict[str, object], name: str, end: str = "") -> str:
    return f"{row[f'{name}{end}']:.{0 if name in _COUNTS else 3}f}"
