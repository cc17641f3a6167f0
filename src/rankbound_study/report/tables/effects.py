"""Tables of the effects of bounding and of list weights: all cells, the law, the weights, regimes of generated data."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl

from rankbound.compare.margins import LEVEL
from rankbound_study.claims.effects import CELL_COLUMNS as EFFECT_COLUMNS
from rankbound_study.claims.effects import EVERY, MEAN_COLUMNS, REGIME_COLUMNS, cells_table, means_table, regimes
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.law import CHANGES, LINE_COLUMNS, PREDICTION_COLUMNS, lines_table, predictions_table
from rankbound_study.claims.law import COLUMNS as LAW_COLUMNS
from rankbound_study.claims.law import cells_table as law_cells_table
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.list_weights import ListWeights
from rankbound_study.data.reader import FoldedLists, read_instances
from rankbound_study.report.blocks import Cell
from rankbound_study.report.columns import (
    DASH,
    DATA_SET,
    Across,
    Column,
    Layout,
    between,
    fixed,
    signed,
    with_margin,
    with_minus,
    with_minus_signs,
)
from rankbound_study.report.table_files import TableFiles
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.specs import StudyFiles, described
from rankbound_study.results.trained import MARK
from rankbound_study.vocabulary import AFFINE, LOSSES

SPECS: dict[str, TableSpec] = {}

EFFECTS = Layout(
    "Effects of bounding",
    "Bounded minus unbounded, in the metric that judges the loss, with the 95 % interval over topics and trainings. "
    "The margin is that of noise between two trainings of one system; without several seeds there is none. Bold: "
    "significant (Holm, all cells); italics: alike within the margin. The affine bounds of nRBP train one model, and "
    "min-max stands for all three. Models that did not train are left out.",
    (
        DATA_SET,
        Column("loss"),
        Column("bounding"),
        Column(
            "effect",
            ("effect", "p_holm", "alike"),
            lambda effect, p_holm, alike: Cell(signed(effect), strong=p_holm <= LEVEL, emphasis=alike),
            null=True,
        ),
        Column("95 % interval", ("low", "high"), between),
        Column("margin", write=fixed(4)),
        Column("p (Holm)", "p_holm", fixed(4)),
    ),
    labels=3,
    rules=("loss",),
    sortable=True,
)
MEANS = Layout(
    "Mean effects",
    "Every cell has the same weight. Cells share topics and trainings, so the interval of a mean uses the covariance "
    "of their errors (a bootstrap) and the variance of true effects between cells (method of moments, t interval). The "
    "last column has the interval for the effect in a new cell. The data sets are too few for a variance between data "
    "sets: a new cell is one on data like these. Of two readings of the same queries, means contain one.",
    (
        Column("bounds"),
        Column("loss", write=lambda loss: "all losses" if loss == EVERY else loss),
        Column("cells", "n"),
        Column(
            "mean effect",
            ("mean", "low", "high"),
            lambda mean, low, high: Cell(signed(mean), strong=low > 0 or high < 0),
        ),
        Column("95 % interval", ("low", "high"), between),
        Column("SD between cells", "between", fixed(4)),
        Column("effect in a new cell", ("new_low", "new_high"), between),
    ),
    labels=2,
    rules=("bounds",),
)


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
        columns=EFFECT_COLUMNS,
        layout=EFFECTS,
        first=(("_means", MEAN_COLUMNS, MEANS),),
    ),
)
def make_effects(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.effects import effects

    found = effects(Evidence(study, files.runs, files.epochs))
    return TableFiles(cells_table(found), beside={"_means.csv": means_table(found)})


def _unless_repeated(column: Column) -> Column:
    """Return a column of the law, in italics where the cell repeats the weights of an earlier one."""
    return Column(column.title, None, lambda row: replace(column.cell(row), emphasis=bool(row["same_as"])))


def _change(value: float) -> str:
    return with_minus(f"{value + 0.0:+.2f}")


def _law_effect(effect: float, low: float, high: float, p_residual: float | None) -> Cell:
    return with_margin(effect, low, high, strong=p_residual is not None and p_residual <= LEVEL)


_CHANGES = ("mismatch", "influence", "CV of weights")
LAW = Layout(
    "The law of list weights",
    "Mean score with weights minus without, paired by topic, in the metric that judges the loss; in small type half of "
    "the 95 % interval over topics and trainings. Changes are those of coefficients of variation over the training "
    "lists. Predicted is the line of mismatch through all cells that count; bold where the effect lies significantly "
    "farther than 0.002 from it (Holm). Cells in italics repeat the weights of an earlier one and do not count. Models "
    "that did not train are left out.",
    tuple(
        map(
            _unless_repeated,
            (
                *(DATA_SET, Column("loss"), Column("weights")),
                *(Column(title, name, _change) for title, name in zip(_CHANGES, CHANGES.values(), strict=True)),
                Column("effect", ("effect", "low", "high", "p_residual"), _law_effect, null=True),
                Column("predicted", write=signed),
            ),
        )
    ),
    labels=3,
    rules=("dataset", "nsr", "origin"),
    sortable=True,
)


def _fit(name: str) -> tuple[Column, Column]:
    return Column(name, write=signed), Column("95 % interval", (f"{name}_low", f"{name}_high"), between)


LINES = Layout(
    "Lines through the cells",
    "Effect per unit of change, by least squares; 95 % intervals of a bootstrap of topics within data sets and of "
    "trainings within folds. The law is about mismatch; the other two predictors are for comparison.",
    (
        *(Column("predictor"), Column("cells"), Column("n"), *_fit("slope"), *_fit("intercept")),
        Column("R²", "r_squared", fixed(2)),
    ),
    labels=2,
    rules=("predictor",),
)
PREDICTIONS = Layout(
    "Predictions",
    "The law and the predictions of docs/law.md, written before the experiment ran, and the outcome.",
    tuple(
        Column(title, name, with_minus_signs)
        for title, name in zip(("prediction", "outcome", "found"), PREDICTION_COLUMNS, strict=True)
    ),
    labels=3,
    prose=frozenset({0, 2}),
)


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
        columns=LAW_COLUMNS,
        layout=LAW,
        first=(("_predictions", PREDICTION_COLUMNS, PREDICTIONS), ("_lines", LINE_COLUMNS, LINES)),
    ),
)
def make_law(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without cells they have no rows."""
    from rankbound_study.claims.law import law

    evidence = Evidence(study, files.runs, files.epochs, files.experiments, files.experiment_epochs)
    found = law(evidence, {DataSet(one.dataset, one.nsr): one for one in map(read_instances, files.instances)})
    beside = {"_lines.csv": lines_table(found), "_predictions.csv": predictions_table(found)}
    return TableFiles(law_cells_table(found), beside=beside)


_NUMBERS = {
    "n_lists": ("lists", 0),
    "cv_weights": ("weights", 3),
    "cv_influence_without": ("influence without", 3),
    "cv_influence_with": ("with", 3),
    "cv_mismatch_without": ("mismatch without", 3),
    "cv_mismatch_with": ("with", 3),
    "effective_without": ("effective lists without", 0),
    "effective_with": ("with", 0),
}
"""Number -> its title and decimals."""

WEIGHT_COLUMNS: dict[str, pl.DataType] = {
    "dataset": pl.String(),
    "nsr": pl.Int8(),
    **dict.fromkeys(("loss", "bounding"), pl.String()),
    **{f"{name}{end}": pl.Float64() for name in _NUMBERS for end in ("", "_least", "_largest")},
}


def _of_folds(name: str, title: str, digits: int) -> Column:
    """Return a column of means over folds, with the smallest and the largest fold in small type."""

    def cell(*values: float) -> Cell:
        mean, least, largest = (f"{value:.{digits}f}" for value in values)
        return Cell(mean, "" if least == largest else f"{least}–{largest}")

    return Column(title, (name, f"{name}_least", f"{name}_largest"), cell)


WEIGHTS_IN_FILES = Layout(
    "List weights of bounds",
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of a bound's "
    "weights; of the influence, a list's weight times the range of its loss over all orders; and of the mismatch, the "
    "influence over the range of the judging metric; without and with the bound. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; in small type the smallest and largest fold.",
    (
        *(DATA_SET, Column("loss"), Column("bounding")),
        *(_of_folds(name, title, digits) for name, (title, digits) in _NUMBERS.items()),
    ),
    labels=3,
    rules=("dataset", "nsr", "loss"),
    sortable=True,
)
WEIGHTS = Layout(
    "List weights of bounds",
    "Coefficients of variation (standard deviation over mean) over the informative training lists: of the influence of "
    "the unbounded loss, and of the weights that each affine bound amounts to. The effective number of lists is "
    "n/(1 + CV²) of the influence. Means over folds; `tables/table_list_weights.csv` has the ranges and the mismatch.",
    (
        *(DATA_SET, Column("loss")),
        Column("effective lists", ("effective_without", "n_lists"), lambda some, every: f"{some:.0f} of {every:.0f}"),
        Column("influence", "cv_influence_without", fixed(3)),
    ),
    labels=2,
    rules=("dataset", "nsr"),
    sortable=True,
    across=Across(
        ("dataset", "nsr", "loss"),
        ("bounding",),
        {bounding: f"weights of {bounding}" for bounding in AFFINE},
        lambda row: Cell(f"{row['cv_weights']:.3f}"),
    ),
)


@described(
    SPECS,
    table_list_weights=TableSpec(
        "The weights of training lists that affine bounds amount to, by data set and loss: coefficients of variation "
        "of weights, influence and mismatch, without and with the bound, and the effective number of lists.",
        title="list weights of bounds",
        needs=("instances",),
        section="law",
        columns=WEIGHT_COLUMNS,
        layout=WEIGHTS,
        in_files=WEIGHTS_IN_FILES,
    ),
)
def make_list_weights(name: str, files: StudyFiles) -> pl.DataFrame:
    """Return the table of the data sets whose instances are given: a row per loss and bound, means over folds."""
    every = sorted(map(read_instances, files.instances), key=lambda one: DataSet(one.dataset, one.nsr).place)
    rows = [_weights_row(instances, loss, bounding) for instances, loss, bounding in product(every, LOSSES, AFFINE)]
    return pl.DataFrame(rows, schema=WEIGHT_COLUMNS)


def _weights_row(instances: FoldedLists, loss: str, bounding: str) -> dict[str, object]:
    from rankbound_study.results.list_weights import Influence

    folds = []
    for fold in instances.folds:
        view = Influence(instances, fold, loss)
        usual, weighted = view.under(None), view.under(ListWeights.of(bounding))
        pairs = [(one.of_influence, one.of_mismatch, one.effective) for one in (usual, weighted)]
        folds.append([weighted.n, weighted.of_weights, *(value for pair in zip(*pairs, strict=True) for value in pair)])
    row: dict[str, object] = {
        "dataset": instances.dataset,
        "nsr": instances.nsr,
        "loss": loss,
        "bounding": bounding,
    }
    for name, values in zip(_NUMBERS, np.transpose(folds), strict=True):
        row |= {name: values.mean(), f"{name}_least": values.min(), f"{name}_largest": values.max()}
    return row


REGIMES = Layout(
    "Effect of bounding by regime",
    "Bounded minus unbounded, in the mean of the metric that judges the loss, with a 95 % interval (bootstrap over "
    "users and seeds), and the same for the users with fewer relevant items than the median and for all others. Spread "
    "is the planted standard deviation of log P, correlation that of list size and kind of taste; a dash marks real "
    "data. CV is the coefficient of variation of a list's influence, the range of its loss over all orders. † marks "
    "effects with trainings that did not train.",
    (
        DATA_SET,
        Column("spread", write="{:g}".format),
        Column("correlation", write="{:g}".format),
        Column(
            "factors / rank",
            ("factors", "rank"),
            lambda factors, rank: DASH if factors is None else f"{factors} / {rank or DASH}",
            null=True,
        ),
        *(Column("loss"), Column("bounding")),
        Column("CV", "influence_cv", fixed(2)),
        Column("mean P(N − P)", "pairs", fixed(0)),
        Column("unbounded", write=fixed(4)),
        Column(
            "effect",
            ("effect", "n_untrained"),
            lambda effect, untrained: signed(effect) + MARK * bool(untrained),
            null=True,
        ),
        Column("95 % interval", ("low", "high"), lambda low, high: f"{signed(low)} to {signed(high)}", null=True),
        *(Column("short lists", "effect_short", signed), Column("long lists", "effect_long", signed)),
    ),
    labels=6,
    rules=("dataset", "nsr", "factors"),
    sortable=True,
)


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
        layout=REGIMES,
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
