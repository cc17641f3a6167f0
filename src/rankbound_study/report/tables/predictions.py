"""The table of registered predictions and their outcomes."""

from rankbound_study.claims.predictions import COLUMNS, predictions_table
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.report.columns import (
    DASH,
    DATA_SET,
    Cell,
    Column,
    Layout,
    between,
    signed,
    with_margin,
    with_minus,
)
from rankbound_study.report.tables import OF_EXPERIMENTS, TableSpec, of_evidence
from rankbound_study.templates import text

FILE = "table_predictions.md"
TABLES = Catalogue(TableSpec, FILE)


def _limits(above: float | None, below: float | None) -> str:
    """Return the predicted differences: `> 0`, or an interval."""
    if above is not None and below is not None:
        return between(above, below)
    return with_minus(f"> {above:g}" if above is not None else f"< {below:g}")


def _deciding(name: str, value: float, low: float, high: float) -> Cell:
    """Return the deciding difference with what is compared with."""
    return Cell(f"{signed(value)} ({between(low, high)})", f"minus {name}")


PREDICTIONS = Layout(
    "Registered predictions",
    text(FILE, "predictions"),
    (
        *(Column("id"), DATA_SET, Column("loss"), Column("weights")),
        Column("compared with", "against"),
        Column("predicted", ("above", "below"), _limits, null=True),
        Column("size", ("size_low", "size_high"), between),
        Column(
            "effect",
            ("effect", "low", "high", "as_sized"),
            lambda effect, low, high, as_sized: (
                DASH if effect is None else with_margin(effect, low, high, strong=bool(as_sized))
            ),
            null=True,
        ),
        Column("deciding difference", ("deciding", "difference", "difference_low", "difference_high"), _deciding),
        Column("outcome"),
    ),
    labels=5,
    rules=("dataset",),
)


TABLES.add(
    "table_predictions",
    title="registered predictions",
    section="law",
    columns=COLUMNS,
    layout=PREDICTIONS,
    **OF_EXPERIMENTS,
)(of_evidence(predictions_table))
