"""Tables of the effects of bounding and of list weights: all cells, the law, the weights, regimes of generated data."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS as EFFECT_COLUMNS
from rankbound_study.claims.effects import EVERY, MEAN_COLUMNS, MEANS, REGIME_COLUMNS, cells_table, means_table, regimes
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.law import (
    CHANGES,
    LINE_COLUMNS,
    LINES,
    PREDICTION_COLUMNS,
    PREDICTIONS,
    lines_table,
    predictions_table,
)
from rankbound_study.claims.law import COLUMNS as LAW_COLUMNS
from rankbound_study.claims.law import cells_table as law_cells_table
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.reader import FoldedLists, read_instances
from rankbound_study.report.blocks import Cell, TableBlock, changes, plain_rows
from rankbound_study.report.table_files import TableFiles, plain_texts, read_table
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.report.typeset_numbers import DASH, signed, with_minus, with_minus_signs
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK
from rankbound_study.vocabulary import AFFINE, LOSSES

if TYPE_CHECKING:
    from rankbound_study.results.list_weights import Weighting

SPECS: dict[str, TableSpec] = {}

EFFECTS_CAPTION = (
    "Bounded minus unbounded, in the metric that judges the loss, with the 95 % interval over topics and trainings. "
    "The margin is that of noise between two trainings of one system; without several seeds there is none. Bold: "
    "significant (Holm, all cells); italics: alike within the margin. The affine bounds of nRBP train one model, and "
    "min-max stands for all three. Models that did not train are left out."
)
EFFECTS_HEADER = ("data set", "loss", "bounding", "effect", "95 % interval", "margin", "p (Holm)")
MEANS_CAPTION = (
    "Every cell has the same weight. Cells share topics and trainings, so the interval of a mean uses the covariance "
    "of their errors (a bootstrap) and the variance of true effects between cells (method of moments, t interval). The "
    "last column has the interval for the effect in a new cell. The data sets are too few for a variance between data "
    "sets: a new cell is one on data like these. Of two readings of the same queries, means contain one."
)
MEANS_HEADER = ("bounds", "loss", "cells", "mean effect", "95 % interval", "SD between cells", "effect in a new cell")


def effects_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the mean effects and the cells, unless there are none."""
    table = read_table(folder / f"{name}.csv", EFFECT_COLUMNS)
    means = read_table(folder / f"{MEANS}.csv", MEAN_COLUMNS)
    if len(means):
        yield means_block(means)
    if len(table):
        yield effects_block(table)


def effects_block(table: pl.DataFrame) -> TableBlock:
    """Return the table of the cells."""
    rows = tuple(map(_effects_row, table.iter_rows(named=True)))
    rules = changes(table["loss"].to_list())
    return TableBlock("Effects of bounding", EFFECTS_CAPTION, EFFECTS_HEADER, rows, 3, rules, sortable=True)


def means_block(means: pl.DataFrame) -> TableBlock:
    """Return the table of the mean effects."""
    rows = tuple(
        (
            Cell(row["bounds"]),
            Cell("all losses" if row["loss"] == EVERY else row["loss"]),
            Cell(str(row["n"])),
            Cell(signed(row["mean"]), strong=row["low"] > 0 or row["high"] < 0),
            Cell(_range(row["low"], row["high"])),
            Cell(f"{row['between']:.4f}"),
            Cell(_range(row["new_low"], row["new_high"])),
        )
        for row in means.iter_rows(named=True)
    )
    return TableBlock("Mean effects", MEANS_CAPTION, MEANS_HEADER, rows, 2, changes(means["bounds"].to_list()))


def _effects_row(row: dict[str, Any]) -> tuple[Cell, ...]:
    return (
        Cell(DataSet(row["dataset"], row["nsr"]).label),
        Cell(row["loss"]),
        Cell(row["bounding"]),
        Cell(signed(row["effect"]), strong=row["p_holm"] <= LEVEL, emphasis=row["alike"]),
        Cell(_range(row["low"], row["high"])),
        Cell(DASH if row["margin"] is None else f"{row['margin']:.4f}"),
        Cell(f"{row['p_holm']:.4f}"),
    )


def _range(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return DASH
    return f"{signed(low)} to {signed(high)}"


@described(
    SPECS,
    table_effects=TableSpec(
        "The effects of bounding: bounded minus unbounded in every distinct cell of Table 5.1, with intervals and "
        "noise margins, and the mean effects over cells by a random-effects model.",
        title="the effects of bounding",
        needs=("runs", "epochs"),
        options=("study",),
        beside=(".md", ".tex", "_means.csv"),
        section="effects",
        blocks=effects_blocks,
    ),
)
def make_effects(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.effects import effects

    found = effects(Evidence(study, files.runs, files.epochs))
    table = cells_table(found)
    return TableFiles(table, plain_texts(effects_block(table)), {"_means.csv": means_table(found)})


LAW_CAPTION = (
    "Mean score with weights minus without, paired by topic, in the metric that judges the loss; in small type half of "
    "the 95 % interval over topics and trainings. Changes are those of coefficients of variation over the training "
    "lists. Predicted is the line of mismatch through all cells that count; bold where the effect lies significantly "
    "farther than 0.002 from it (Holm). Cells in italics repeat the weights of an earlier one and do not count. Models "
    "that did not train are left out."
)
LAW_HEADER = ("data set", "loss", "weights", "mismatch", "influence", "CV of weights", "effect", "predicted")
LINES_CAPTION = (
    "Effect per unit of change, by least squares; 95 % intervals of a bootstrap of topics within data sets and of "
    "trainings within folds. The law is about mismatch; the other two predictors are for comparison."
)
LINES_HEADER = ("predictor", "cells", "n", "slope", "95 % interval", "intercept", "95 % interval", "R²")
PREDICTIONS_CAPTION = "The law and the predictions of docs/law.md, written before the experiment ran, and the outcome."
PREDICTIONS_HEADER = ("prediction", "outcome", "found")


def law_blocks(name: str, folder: Path) -> Iterator[TableBlock]:
    """Yield the predictions with their outcome, the lines and the cells, unless there are none."""
    table = read_table(folder / f"{name}.csv", LAW_COLUMNS)
    if table.is_empty():
        return
    rows = read_table(folder / f"{PREDICTIONS}.csv", PREDICTION_COLUMNS).rows()
    predictions = plain_rows([tuple(map(with_minus_signs, row)) for row in rows])
    prose = frozenset({0, 2})
    yield TableBlock("Predictions", PREDICTIONS_CAPTION, PREDICTIONS_HEADER, predictions, 3, prose=prose)
    lines = read_table(folder / f"{LINES}.csv", LINE_COLUMNS)
    rules = changes(lines["predictor"].to_list())
    yield TableBlock("Lines through the cells", LINES_CAPTION, LINES_HEADER, plain_rows(_fits(lines)), 2, rules)
    yield law_block(table)


def law_block(table: pl.DataFrame) -> TableBlock:
    """Return the table of the cells."""
    rules = changes(table.select("dataset", "nsr", "origin").rows())
    rows = tuple(map(_law_row, table.iter_rows(named=True)))
    return TableBlock("The law of list weights", LAW_CAPTION, LAW_HEADER, rows, 3, rules, sortable=True)


def _law_row(row: dict[str, Any]) -> tuple[Cell, ...]:
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


@described(
    SPECS,
    table_law=TableSpec(
        "The law of list weights: the effect of every bound and of the experiment's weights on the mean score, against "
        "the change of mismatch between training lists, with the lines by least squares and the outcome of the "
        "predictions.",
        title="the law of list weights",
        needs=("runs", "epochs", "experiments", "experiment_epochs", "instances"),
        options=("study",),
        beside=(".md", ".tex", "_lines.csv", "_predictions.csv"),
        section="law",
        blocks=law_blocks,
    ),
)
def make_law(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.law import law

    evidence = Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs)
    instances = {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)}
    found = law(evidence, instances)
    table = law_cells_table(found)
    beside = {"_lines.csv": lines_table(found), "_predictions.csv": predictions_table(found)}
    return TableFiles(table, plain_texts(law_block(table)), beside)


WEIGHTS_TITLE = "List weights of bounds"
WEIGHTS_REPORT_CAPTION = (
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of the influence of "
    "the unbounded loss, and of the weights that each affine bound amounts to. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; `tables/table_list_weights.csv` has the ranges and the mismatch."
)
WEIGHTS_CAPTION = (
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of a bound's "
    "weights; of the influence, a list's weight times the range of its loss over all orders; and of the mismatch, the "
    "influence over the range of the judging metric; without and with the bound. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; in small type the smallest and largest fold."
)
WEIGHTS_HEADER = (
    *("data set", "loss", "bounding", "lists", "weights", "influence without", "with", "mismatch without", "with"),
    *("effective lists without", "with"),
)
WEIGHTS_LABELS = 3
_NUMBERS = (
    *("n_lists", "cv_weights", "cv_influence_without", "cv_influence_with", "cv_mismatch_without", "cv_mismatch_with"),
    *("effective_without", "effective_with"),
)
_COUNTS = ("n_lists", "effective_without", "effective_with")
WEIGHT_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


def _weights_shown(table: pl.DataFrame) -> TableBlock:
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
    return TableBlock(
        WEIGHTS_TITLE, WEIGHTS_REPORT_CAPTION, header, tuple(rows), WEIGHTS_LABELS - 1, changes(labels), sortable=True
    )


def weights_block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    keys = table.select("dataset", "nsr", "loss").rows()
    rows = tuple(_weights_cells(row) for row in table.iter_rows(named=True))
    return TableBlock(
        WEIGHTS_TITLE, WEIGHTS_CAPTION, WEIGHTS_HEADER, rows, WEIGHTS_LABELS, changes(keys), sortable=True
    )


def _weights_row(instances: FoldedLists, loss: str, bounding: str) -> dict[str, object]:
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


def _weights_cells(row: dict[str, object]) -> tuple[Cell, ...]:
    label = DataSet(str(row["dataset"]), row["nsr"]).label  # type: ignore[arg-type]
    numbers = (Cell(_fold_text(row, name), _fold_range(row, name)) for name in _NUMBERS)
    return Cell(label), Cell(str(row["loss"])), Cell(str(row["bounding"])), *numbers


def _fold_range(row: dict[str, object], name: str) -> str:
    ends = [_fold_text(row, name, end) for end in ("_least", "_largest")]
    return "" if ends[0] == ends[1] else "–".join(ends)


def _fold_text(row: dict[str, object], name: str, end: str = "") -> str:
    return f"{row[f'{name}{end}']:.{0 if name in _COUNTS else 3}f}"


@described(
    SPECS,
    table_list_weights=TableSpec(
        "The weights of training lists that affine bounds amount to, by data set and loss: coefficients of variation "
        "of weights, influence and mismatch, without and with the bound, and the effective number of lists.",
        title="list weights of bounds",
        needs=("instances",),
        section="law",
        columns=WEIGHT_COLUMNS,
        layout=_weights_shown,
    ),
)
def make_list_weights(name: str, files: StudyFiles) -> TableFiles:
    """Return the table of the data sets whose instances are given."""
    every = sorted(map(read_instances, files.instances), key=lambda one: DataSet(one.dataset, one.nsr).place)
    rows = [_weights_row(instances, loss, bounding) for instances, loss, bounding in product(every, LOSSES, AFFINE)]
    table = pl.DataFrame(rows, schema=WEIGHT_COLUMNS)
    return TableFiles(table, plain_texts(weights_block(table)))


REGIMES_TITLE = "Effect of bounding by regime"
REGIMES_CAPTION = (
    "Bounded minus unbounded, in the mean of the metric that judges the loss, with a 95 % interval (bootstrap over "
    "users and seeds), and the same for the users with fewer relevant items than the median and for all others. Spread "
    "is the planted standard deviation of log P, correlation that of list size and kind of taste; a dash marks real "
    "data. CV is the coefficient of variation of a list's influence, the range of its loss over all orders. † marks "
    "effects with trainings that did not train."
)
REGIMES_HEADER = (
    *("data set", "spread", "correlation", "factors / rank", "loss", "bounding", "CV", "mean P(N − P)"),
    *("unbounded", "effect", "95 % interval", "short lists", "long lists"),
)
REGIMES_LABELS = 6


def regimes_block(table: pl.DataFrame) -> TableBlock:
    """Return the table for the report and its files."""
    regime = table.select("dataset", "nsr", "factors").rows()
    return TableBlock(
        REGIMES_TITLE,
        REGIMES_CAPTION,
        REGIMES_HEADER,
        plain_rows(_regime_cells(table)),
        REGIMES_LABELS,
        changes(regime),
        sortable=True,
    )


def _regime_cells(table: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    for row in table.iter_rows(named=True):
        planted = (DASH if row[name] is None else f"{row[name]:g}" for name in ("spread", "correlation"))
        capacity = DASH if row["factors"] is None else f"{row['factors']} / {row['rank'] or DASH}"
        label = DataSet(row["dataset"], row["nsr"]).label
        effect = signed(row["effect"]) + MARK * bool(row["n_untrained"])
        facts = (f"{row['influence_cv']:.2f}", f"{row['pairs']:.0f}", f"{row['unbounded']:.4f}")
        interval = f"{signed(row['low'])} to {signed(row['high'])}"
        halves = (signed(row[name]) for name in ("effect_short", "effect_long"))
        yield label, *planted, capacity, row["loss"], row["bounding"], *facts, effect, interval, *halves


@described(
    SPECS,
    table_regimes=TableSpec(
        "Effect of bounding by regime: planted parameters of generated data, capacity of the model, coefficient of "
        "variation of the lists' influence, and the change in the mean score with its 95 % interval over users and "
        "trainings.",
        title="effect of bounding by regime",
        needs=("runs", "epochs", "experiments", "experiment_epochs"),
        options=("study", "planted"),
        section="regimes",
        columns=REGIME_COLUMNS,
        layout=regimes_block,
    ),
)
def make_regimes(
    name: str,
    files: StudyFiles,
    *,
    study: str = "thesis",
    planted: Mapping[str, Mapping[str, float]] | None = None,
) -> pl.DataFrame:
    """Return the table of a study; `planted` are the parameters of its generated data sets, by name."""
    return regimes(files, study, planted or {})
