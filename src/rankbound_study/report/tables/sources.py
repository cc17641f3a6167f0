"""Tables beside print and beside other work: worked examples, losses on CiteULike-a, what related work predicts."""

from dataclasses import replace

from rankbound_study.claims.comparisons import (
    CITEULIKE_COLUMNS,
    ORDER_COLUMNS,
    citeulike,
    gradients_table,
    orders_table,
    ranks_table,
)
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.worked import PERSISTENCE, worked_table
from rankbound_study.figures import Catalogue
from rankbound_study.report.blocks import Cell, Layout, TableFiles
from rankbound_study.report.numbers import DASH, between, signed
from rankbound_study.report.tables import OF_STUDY, TableSpec, of_evidence
from rankbound_study.results.study_files import schema, score
from rankbound_study.templates import titled

FILE = "table_sources.md"
TABLES = Catalogue(TableSpec, FILE)

_WORKED = ("1.1", "2.2", "2.3", "2.4", "3.1", "3.2", "3.3", "murphy_9.3")
HOLDS = {True: "yes", False: "NO", None: "–"}
_LAYOUT = Layout.of(
    FILE,
    "worked",
    formats={
        "or_dash": lambda printed: printed or DASH,
        "holds": lambda holds: Cell(HOLDS[holds], strong=holds is False),
    },
)
for _key in _WORKED:
    _title, _caption = titled(FILE, f"worked-{_key}", persistence=PERSISTENCE)
    TABLES.add(
        f"table_{_key.replace('.', '_')}",
        _caption,
        beside=(),
        title=_title.removesuffix("."),
        section="worked",
        columns=schema("text: part row quantity; float: ours; text: printed; flag: holds"),
        layout=replace(_LAYOUT, name=_title.removesuffix("."), caption=_caption),
    )(lambda name, files: TableFiles(worked_table(name), digits=None))


TABLES.add(
    "table_citeulike",
    needs=("experiments", "experiment_epochs"),
    options=("study",),
    section="citeulike",
    columns=CITEULIKE_COLUMNS,
    layout=Layout.of(
        FILE,
        "citeulike",
        formats={
            "rate": lambda rate, at_edge: f"{rate:g}{'*' * at_edge}",
            "score": score,
            "behind": lambda one, *interval: f"{signed(one)} ({between(*interval)})",
        },
    ),
)(of_evidence(citeulike))


@TABLES.add(
    "table_related",
    beside=(".md", ".tex", "_gradients.csv", "_ranks.csv"),
    section="related",
    columns=ORDER_COLUMNS,
    layout=Layout.of(FILE, "related"),
    **OF_STUDY,
)
@of_evidence
def make_related(evidence: Evidence) -> TableFiles:
    """Return the tables; without runs of the honest protocol, only that of gradients has rows."""
    beside = {"_gradients.csv": gradients_table(), "_ranks.csv": ranks_table(evidence)}
    return TableFiles(orders_table(evidence), beside=beside)
