"""The law of list weights: every cell's effect and change of mismatch, and the lines through them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.law import (
    CHANGES,
    COLUMNS,
    LINE_COLUMNS,
    LINES,
    NAME,
    PREDICTION_COLUMNS,
    PREDICTIONS,
    cells_table,
    lines_table,
    predictions_table,
)
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.reader import read_instances
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed, with_minus, with_minus_signs
from rankbound_study.results.specs import StudyFiles

SECTION = "law"

SPECS = {
    NAME: TableSpec(
        "The law of list weights: the effect of every bound and of the experiment's weights on the mean score, against "
        "the change of mismatch between training lists, with the lines by least squares and the outcome of the "
        "predictions.",
        title="the law of list weights",
        needs=("runs", "epochs", "experiments", "experiment_epochs", "instances"),
        options=("study",),
        beside=(".md", ".tex", "_lines.csv", "_predictions.csv"),
        section=SECTION,
    )
}
CAPTION = (
    "Mean score with weights minus without, paired by topic, in the metric that judges the loss; in small type half of "
    "the 95 % interval over topics and trainings. Changes are those of coefficients of variation over the training "
    "lists. Predicted is the line of mismatch through all cells that count; bold where the effect lies significantly "
    "farther than 0.002 from it (Holm). Cells in italics repeat the weights of an earlier one and do not count. Models "
    "that did not train are left out."
)
HEADER = ("data set", "loss", "weights", "mismatch", "influence", "CV of weights", "effect", "predicted")
LINES_CAPTION = (
    "Effect per unit of change, by least squares; 95 % intervals of a bootstrap of topics within data sets and of "
    "trainings within folds. The law is about mismatch; the other two predictors are for comparison."
)
LINES_HEADER = ("predictor", "cells", "n", "slope", "95 % interval", "intercept", "95 % interval", "R²")
PREDICTIONS_CAPTION = "The law and the predictions of docs/law.md, written before the experiment ran, and the outcome."
PREDICTIONS_HEADER = ("prediction", "outcome", "found")


def make(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.law import law

    evidence = Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs)
    instances = {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)}
    found = law(evidence, instances)
    table = cells_table(found)
    beside = {"_lines.csv": lines_table(found), "_predictions.csv": predictions_table(found)}
    return TableFiles(table, plain_texts(block(table)), beside)


def blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the predictions with their outcome, the lines and the cells, unless there are none."""
    table = read_table(folder / f"{name}.csv", COLUMNS)
    if table.is_empty():
        return
    rows = read_table(folder / f"{PREDICTIONS}.csv", PREDICTION_COLUMNS).rows()
    predictions = plain_rows([tuple(map(with_minus_signs, row)) for row in rows])
    prose = frozenset({0, 2})
    yield TableBlock("Predictions", PREDICTIONS_CAPTION, PREDICTIONS_HEADER, predictions, 3, prose=prose)
    lines = read_table(folder / f"{LINES}.csv", LINE_COLUMNS)
    rules = changes(lines["predictor"].to_list())
    yield TableBlock("Lines through the cells", LINES_CAPTION, LINES_HEADER, plain_rows(_fits(lines)), 2, rules)
    yield block(table)


def block(table: pl.DataFrame) -> TableBlock:
    """Return the table of the cells."""
    rules = changes(table.select("dataset", "nsr", "origin").rows())
    rows = tuple(map(_cells, table.iter_rows(named=True)))
    return TableBlock("The law of list weights", CAPTION, HEADER, rows, 3, rules, sortable=True)


def _cells(row: dict[str, Any]) -> tuple[Cell, ...]:
    again = bool(row["same_as"])
    fails = row["p_residual"] is not None and row["p_residual"] <= LEVEL
    labels = (DataSet(row["dataset"], row["nsr"]).label, row["loss"], row["weights"])
    numbers = (with_minus(f"{row[column] + 0.0:+.2f}") for column in CHANGES.values())
    predicted = DASH if row["predicted"] is None else signed(row["predicted"])
    return (
        *(Cell(text, emphasis=again) for text in (*labels, *numbers)),
        Cell(signed(row["effect"]), f"±{(row['high'] - row['low']) / 2:.4f}", strong=fails, emphasis=again),
        Cell(predicted, emphasis=again),
    )


def _fits(lines: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in lines.iter_rows(named=True):
        fits = [
            text
            for name in ("slope", "intercept")
            for text in (signed(row[name]), f"{signed(row[f'{name}_low'])} to {signed(row[f'{name}_high'])}")
        ]
        yield row["predictor"], row["cells"], str(row["n"]), *fits, f"{row['r_squared']:.2f}"
