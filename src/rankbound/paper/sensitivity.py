"""How much the choices matter that the thesis does not state: every variant of the experiments beside the study's own.

One row per variant and data set: what it changes of the mean scores of the losses (each on the metric that judges it),
how many of these changes are beyond chance, and how far the order of the losses stays what it was.
"""

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from rankbound.claims.cells import Column, Contrast
from rankbound.claims.evidence import KEY, Evidence
from rankbound.claims.rules import Family
from rankbound.claims.varied import Training, order_agreement, paired, trainings, usual_beside, variants
from rankbound.claims.verdict import MissingEvidence
from rankbound.paper import plain_table
from rankbound.paper.plain_table import signed
from rankbound.paper.scores import PRINTED_METRIC, DataSet

NAME = "table_sensitivity"
TITLE = "How much unstated choices matter"
CAPTION = (
    "Each variant minus the study's own setting, in the same folds and under the same seeds: the mean change of the "
    "scores of its losses and boundings, the least and the largest, how many are significantly above and below zero "
    "(Holm), and Kendall's tau between the two orders of the losses by nDCG, beside the least one between two seeds."
)
HEADER = ("choice", "variant", "data set", "losses", "mean change", "least", "largest", "up", "down", "order", "seeds")
LABELS = 3

COLUMNS: dict[str, pl.DataType] = {
    **dict.fromkeys(("choice", "variant", "dataset"), pl.String()),
    "nsr": pl.Int8(),
    "n_trainings": pl.Int64(),
    **dict.fromkeys(("mean_change", "least_change", "largest_change"), pl.Float64()),
    **dict.fromkeys(("n_higher", "n_lower"), pl.Int64()),
    **dict.fromkeys(("order_agreement", "agreement_of_seeds"), pl.Float64()),
}

LAST_EPOCH = "last epoch"
"""A variant that needs no training: the last epoch in the place of the one that validation picked."""

READINGS = ("-label1", "-label2")
"""Ends of the names of judged lists in which labels from 1, or from 2 on are relevant."""


def table_sensitivity(evidence: Evidence, experiments: Mapping[str, Sequence[Column]]) -> pl.DataFrame:
    """A row per variant and column; experiments that did not run are left out."""
    rows = [
        row
        for name, columns in experiments.items()
        for column in columns
        for row in _of_experiment(evidence, name, column)
    ]
    every = list(dict.fromkeys(column for columns in experiments.values() for column in columns))
    rows += [row for column in every for row in _of_last_epoch(evidence, column)]
    rows += [row for column in every for row in _of_other_reading(evidence, column)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _of_experiment(evidence: Evidence, name: str, column: Column) -> Iterator[dict[str, object]]:
    try:
        found = variants(evidence, name, column, with_usual=False)
        for variant, rows in found.items():
            for gain, own in _by_gain(rows).items():
                yield _row(name, gain or variant, column, own, usual_beside(evidence, column, own))
    except MissingEvidence:
        return


def _by_gain(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Rows of distributions with another gain, by that gain, as rows of the usual bounding; all others as they are."""
    others = [name for name in rows["bounding"].unique().sort() if name.startswith("distribution(")]
    plain = rows.filter(~pl.col("bounding").is_in(others))
    usual = pl.lit("distribution").alias("bounding")
    found = {
        name.removeprefix("distribution(").removesuffix(")"): rows.filter(pl.col("bounding") == name).with_columns(
            usual
        )
        for name in others
    }
    return found | ({"": plain} if len(plain) else {})


def _of_last_epoch(evidence: Evidence, column: Column) -> Iterator[dict[str, object]]:
    try:
        usual, last = (_trained(evidence, column, picked) for picked in ("validation", "last"))
    except MissingEvidence:
        return
    if len(usual) and len(last):
        yield _row("epoch", LAST_EPOCH, column, last, usual)


def _of_other_reading(evidence: Evidence, column: Column) -> Iterator[dict[str, object]]:
    """Of the queries that have relevant documents by both readings."""
    usual, other = READINGS
    if not column.dataset.endswith(usual):
        return
    name = column.dataset.removesuffix(usual) + other
    try:
        both = [_trained(evidence, Column(dataset, column.nsr)) for dataset in (name, column.dataset)]
    except MissingEvidence:
        return
    if all(map(len, both)):
        yield _row("relevant", DataSet.of(name, None).label.split(" ", 1)[1], column, *both)


def _trained(evidence: Evidence, column: Column, picked: str = "validation") -> pl.DataFrame:
    trained = pl.col("loss").is_in(list(PRINTED_METRIC))
    rows = evidence.cell(column.dataset, column.nsr, selection=picked).filter(trained)
    return rows.select(*KEY, *PRINTED_METRIC.values()).collect()


def _row(choice: str, variant: str, column: Column, rows: pl.DataFrame, usual: pl.DataFrame) -> dict[str, object]:
    both = [training for training in trainings(rows) if training in trainings(usual)]
    changes: dict[Training, Contrast] = {training: paired(rows, usual, training) for training in both}
    family = Family.of(changes)
    some = pl.DataFrame(both, schema=["loss", "bounding"], orient="row")
    compared = [one.join(some, on=["loss", "bounding"], how="semi") for one in (rows, usual)]
    agreement, by_seed = order_agreement(compared, "nDCG")
    return {
        "choice": choice,
        "variant": variant,
        "dataset": column.dataset,
        "nsr": column.nsr,
        "n_trainings": len(both),
        "mean_change": sum(family.means) / len(both),
        "least_change": min(family.means),
        "largest_change": max(family.means),
        "n_higher": len(family.higher),
        "n_lower": len(family.lower),
        "order_agreement": agreement if len(both) > 1 else None,
        "agreement_of_seeds": min(by_seed, default=None) if len(both) > 1 else None,
    }


def markdown(table: pl.DataFrame) -> str:
    """A pipe table below its caption."""
    return plain_table.markdown(f"{TITLE}. {CAPTION}", HEADER, rows(table), LABELS)


def latex(table: pl.DataFrame) -> str:
    r"""A `tabular` for `booktabs`, to be put in with `\input`."""
    return plain_table.latex(TITLE, HEADER, rows(table), LABELS)


def rows(table: pl.DataFrame) -> Iterator[tuple[str, ...]]:
    """The cells as text."""
    for row in table.iter_rows(named=True):
        changes = (signed(row[name]) for name in ("mean_change", "least_change", "largest_change"))
        taus = (_tau(row[name]) for name in ("order_agreement", "agreement_of_seeds"))
        counts = (str(row[name]) for name in ("n_higher", "n_lower"))
        label = DataSet.of(row["dataset"], row["nsr"]).label
        yield row["choice"], row["variant"], label, str(row["n_trainings"]), *changes, *counts, *taus


def _tau(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}".replace("-", "−")
