"""Tables beside print and beside other work: worked examples, losses on CiteULike-a, what related work predicts."""

from collections.abc import Iterator

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.related import (
    CITEULIKE_COLUMNS,
    METRICS,
    citeulike,
    gradients_table,
    orders_table,
    ranks_table,
)
from rankbound_study.claims.related import COLUMNS as RELATED_COLUMNS
from rankbound_study.claims.worked import PERSISTENCE, worked_table
from rankbound_study.figures.catalogue import Catalogue
from rankbound_study.report.columns import DASH, DATA_SET, Cell, Column, Layout, between, fixed, signed
from rankbound_study.report.table_files import TableFiles
from rankbound_study.report.tables import OF_STUDY, TableSpec, of_evidence
from rankbound_study.results.study_files import schema, score
from rankbound_study.templates import text

FILE = "table_sources.md"
TABLES = Catalogue(TableSpec, FILE)

_WORKED = ("1.1", "2.2", "2.3", "2.4", "3.1", "3.2", "3.3")
HOLDS = {True: "yes", False: "NO", None: "–"}
_WORKED_COLUMNS = schema("text: part row quantity; float: ours; text: printed; flag: holds")


def _worked(name: str, title: str, caption: str) -> None:
    """Enter a worked table."""
    layout = Layout(
        title,
        caption,
        (
            *(Column("list", "part"), Column("row"), Column("quantity"), Column("ours", write=fixed(4))),
            Column("printed", write=lambda printed: printed or DASH),
            Column("holds", write=lambda holds: Cell(HOLDS[holds], strong=holds is False), null=True),
        ),
        labels=3,
    )
    of_table = {"title": title, "section": "worked", "columns": _WORKED_COLUMNS, "layout": layout}
    TABLES.add(name, caption, beside=(), **of_table)(lambda name, files: TableFiles(worked_table(name), digits=None))


for _number in _WORKED:
    _caption = text(FILE, f"worked-{_number}", persistence=PERSISTENCE)
    _worked(f"table_{_number.replace('.', '_')}", f"Table {_number}", _caption)
_worked("table_murphy_9_3", "Murphy, Table 9.3", text(FILE, "murphy"))


def _of_metric(metric: str) -> Iterator[Column]:
    yield Column(f"{metric} published", f"published_{metric}", score)
    yield Column(f"{metric} test-picked", f"test_picked_{metric}", score)
    yield Column(f"{metric} by validation", metric, score)
    numbers = (f"{metric}_behind", f"{metric}_low", f"{metric}_high")
    yield Column(f"{metric} behind nRBP", numbers, lambda one, *interval: f"{signed(one)} ({between(*interval)})")


CITEULIKE = Layout(
    "Losses on CiteULike-a",
    text(FILE, "citeulike"),
    (
        Column("NSR", "nsr"),
        Column("temperature", write="{:g}".format),
        *(Column("loss"), Column("bounding")),
        Column("rate", ("rate", "at_edge"), lambda rate, at_edge: f"{rate:g}{'*' * at_edge}"),
        Column("trainings", "n_trainings"),
        *(column for metric in METRICS for column in _of_metric(metric)),
    ),
    labels=4,
    rules=("nsr", "temperature"),
)


TABLES.add(
    "table_citeulike",
    title="losses on CiteULike-a",
    needs=("experiments", "experiment_epochs"),
    options=("study",),
    section="citeulike",
    columns=CITEULIKE_COLUMNS,
    layout=CITEULIKE,
)(of_evidence(citeulike))


_COUNTS = {
    "pairs": "pairs",
    "inverted": "inverted",
    "exchanged": "significantly",
    "significant": "by metric",
    "significant_bounded": "by bounded",
    "gained": "gained",
    "lost": "lost",
}
RELATED = Layout(
    "Systems by bounded metrics",
    text(FILE, "related"),
    (
        *(DATA_SET, Column("metric"), Column("bounded by", "bound"), Column("tau", write=fixed(2))),
        *(Column(title, name) for name, title in _COUNTS.items()),
    ),
    labels=3,
    rules=("dataset", "nsr"),
    sortable=True,
)


@TABLES.add(
    "table_related",
    title="what related work predicts here",
    beside=(".md", ".tex", "_gradients.csv", "_ranks.csv"),
    section="related",
    columns=RELATED_COLUMNS,
    layout=RELATED,
    **OF_STUDY,
)
@of_evidence
def make_related(evidence: Evidence) -> TableFiles:
    """Return the tables; without runs of the honest protocol, only that of gradients has rows."""
    beside = {"_gradients.csv": gradients_table(), "_ranks.csv": ranks_table(evidence)}
    return TableFiles(orders_table(evidence), beside=beside)
