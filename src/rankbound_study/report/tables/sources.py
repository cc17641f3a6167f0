"""Tables beside print and beside other work: worked examples, losses on CiteULike-a, what related work predicts."""

import polars as pl

from rankbound_study.claims.citeulike import COLUMNS as CITEULIKE_COLUMNS
from rankbound_study.claims.citeulike import METRICS, citeulike
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.related import COLUMNS as RELATED_COLUMNS
from rankbound_study.claims.worked import PERSISTENCE, worked_table
from rankbound_study.report.blocks import Cell
from rankbound_study.report.columns import DASH, DATA_SET, Column, Layout, between, fixed, signed
from rankbound_study.report.table_files import TableFiles
from rankbound_study.report.tables.spec import TableSpec
from rankbound_study.results.number_texts import score
from rankbound_study.results.specs import StudyFiles, described

SPECS: dict[str, TableSpec] = {}

_CAPTIONS = {
    "1.1": "A list with all relevant items at the bottom scores above a list whose only relevant item is second.",
    "2.2": "DCG of the ideal and the worst ordering of nine items with three relevant ones.",
    "2.3": f"RBP with p = {PERSISTENCE} of the same two orderings.",
    "2.4": "AP of the same two orderings.",
    "3.1": "DCG of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.2": "First term of the nRBP loss of all orderings of X(2,1) and X(3,2), and its expectation.",
    "3.3": "AP of all orderings of X(2,1) and X(3,2), and its expectation.",
}
HOLDS = {True: "yes", False: "NO", None: "–"}
_WORKED_COLUMNS = {
    **dict.fromkeys(("part", "row", "quantity"), pl.String),
    "ours": pl.Float64,
    "printed": pl.String,
    "holds": pl.Boolean,
}


def _worked(title: str, caption: str) -> TableSpec:
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
    return TableSpec(caption, title=title, beside=(), section="worked", columns=_WORKED_COLUMNS, layout=layout)


@described(
    SPECS,
    **{
        f"table_{number.replace('.', '_')}": _worked(f"Table {number}", caption)
        for number, caption in _CAPTIONS.items()
    },
    table_murphy_9_3=_worked(
        "Murphy, Table 9.3",
        "Murphy's Table 9.3 (linear gain, first two ranks undiscounted) and his example of AP. The book adds up "
        "rounded terms, and carries its DCG into the nDCG.",
    ),
)
def make_worked(name: str, files: StudyFiles) -> TableFiles:
    """Return the computed and the printed values."""
    return TableFiles(worked_table(name), digits=None)


def _of_metric(metric: str) -> tuple[Column, ...]:
    return (
        *(
            Column(f"{metric} {title}", name, score)
            for title, name in (
                ("published", f"published_{metric}"),
                ("test-picked", f"test_picked_{metric}"),
                ("by validation", metric),
            )
        ),
        Column(
            f"{metric} behind nRBP",
            (f"{metric}_behind", f"{metric}_low", f"{metric}_high"),
            lambda behind, low, high: f"{signed(behind)} ({between(low, high)})",
        ),
    )


CITEULIKE = Layout(
    "Losses on CiteULike-a",
    "Published: Li, Urbano and Hanjalic (SIGIR 2021), at the best rate and epoch on the test part, means over folds. "
    "Ours, test-picked: rate and epoch by the test part, too; then both by the validation part, with the picked rate "
    "(an asterisk marks an end of the grid). Behind nRBP: the unbounded nRBP loss minus the row's at "
    "the same temperature, with its 95 % interval over users and trainings.",
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


@described(
    SPECS,
    table_citeulike=TableSpec(
        "RBP, nDCG and AP losses on CiteULike-a: published scores beside ours, every loss and bounding at its own "
        "learning rate at each temperature of smooth ranks, and their distance to the unbounded nRBP loss.",
        title="losses on CiteULike-a",
        needs=("experiments", "experiment_epochs"),
        options=("study",),
        section="citeulike",
        columns=CITEULIKE_COLUMNS,
        layout=CITEULIKE,
    ),
)
def make_citeulike(name: str, files: StudyFiles, *, study: str = "thesis") -> pl.DataFrame:
    """Return the table of a study."""
    evidence = Evidence(study, experiments=files.experiments, experiment_epochs=files.experiment_epochs)
    return citeulike(evidence)


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
    "The trained losses and boundings of a data set by a metric and by its bounded form, on the same test lists: "
    "Kendall's tau between both orders of means, pairs of systems in the other order, those that are significantly so "
    "by both (Holm), and pairs that differ significantly by the metric, by its bounded form, and by one of them alone "
    "(at 5 %, without correction). Lists whose items are all relevant are left out.",
    (
        *(DATA_SET, Column("metric"), Column("bounded by", "bound"), Column("tau", write=fixed(2))),
        *(Column(title, name) for name, title in _COUNTS.items()),
    ),
    labels=3,
    rules=("dataset", "nsr"),
    sortable=True,
)


@described(
    SPECS,
    table_related=TableSpec(
        "What related work predicts here: the order of the trained systems by metrics and by their bounded forms, the "
        "coherence of gradients, and a loss of ranks beside the losses of the metrics.",
        title="what related work predicts here",
        needs=("runs", "epochs"),
        options=("study",),
        beside=(".md", ".tex", "_gradients.csv", "_ranks.csv"),
        section="related",
        columns=RELATED_COLUMNS,
        layout=RELATED,
    ),
)
def make_related(name: str, files: StudyFiles, *, study: str = "thesis") -> TableFiles:
    """Return the tables of a study; without runs of the honest protocol, only that of gradients has rows."""
    from rankbound_study.claims.related import gradients_table, orders_table, ranks_table

    evidence = Evidence(study, files.runs, files.epochs)
    table = orders_table(evidence)
    beside = {"_gradients.csv": gradients_table(), "_ranks.csv": ranks_table(evidence)}
    return TableFiles(table, beside=beside)
