"""Names of the neural-ranking study (Li and Wu): its tables, their data sets and families of methods.

The name of a data set determines its table: web queries are Table 1, faces by their pixels Table 2, faces by VGG16's
features Table 3. Importing this module is light: the workflow's rules read it.
"""

from dataclasses import dataclass

from rankbound.errors import ConfigError
from rankbound_study.config.data_sets import SYNTHETIC, described_title

FAMILIES = ("rank", "regression", "classification")
CONTROLS = ("random", "oracle")
CONTROL = "control"
"""The family of random order and oracle."""

AS_PRINTED = "-as-printed"
"""Suffix of methods that are trained with the optimiser, rate and batches of the paper."""

FEATURES_TABLE = "table_neural_features"
"""The table of scores by the number of features, of the comparisons with `feature_counts`."""

PAIR_ACCURACY = "PairAccuracy"

_PRINTED_LABEL = 2
"""Smallest label of a web query's documents that the paper treats as relevant."""

_FACES, _FEATURES, _GRADED = "aaf", "vgg16", "-graded"


@dataclass(frozen=True)
class Printed:
    """The subject of one of the paper's three tables."""

    number: int
    title: str
    metric: str
    metrics: tuple[str, ...]
    dataset: str

    @property
    def name(self) -> str:
        """The table's name in the configuration and in its file names."""
        return f"table_neural_{self.number}"

    def is_on(self, dataset: str) -> bool:
        """Check that a data set is that of the printed scores, in the paper's reading of its labels."""
        return dataset == f"{self.dataset.lower()}-label{_PRINTED_LABEL}"

    @property
    def of_faces(self) -> bool:
        """The table is about pairs of faces, not about documents of queries."""
        return self.number > 1


TABLES = (
    Printed(1, "web queries", "nDCG@10", ("nDCG@10", "AP"), "MSLR-WEB10K"),
    Printed(2, "faces by age, 3 x 100 x 100 pixels", PAIR_ACCURACY, (PAIR_ACCURACY,), "All-Age-Faces"),
    Printed(3, "faces by age, features of VGG16", PAIR_ACCURACY, (PAIR_ACCURACY,), "All-Age-Faces"),
)
"""The paper's three tables: our metrics, the printed one first, and the data set of the printed scores."""


def table_named(name: str) -> Printed:
    """Return the table of that name; ConfigError if there is none."""
    by_name = {table.name: table for table in TABLES}
    if name not in by_name:
        raise ConfigError(f"there is no {name!r}; the tables of the neural-ranking study are {', '.join(by_name)}")
    return by_name[name]


def table_of(dataset: str) -> Printed:
    """Return the table of a data set."""
    if _FACES not in dataset:
        return TABLES[0]
    return TABLES[2 if _FEATURES in dataset else 1]


def what_is_missing(table: Printed) -> str:
    """Explain why no method of a table has run."""
    if table.number == len(TABLES):
        return (
            "No method has run on the features of VGG16, which need its published weights: "
            "`python -m rankbound_study weights --help` explains how to make them from the publisher's file."
        )
    return f"No method has run on {table.title}: add their data sets to comparisons in the configuration."


def data_set_title(name: str) -> str:
    """Return the title of a data set of this study."""
    real = name.removeprefix(SYNTHETIC)
    title = {_FACES: "All-Age-Faces", f"{_FACES}-{_FEATURES}": "All-Age-Faces, VGG16 features"}.get(real)
    if title is None:
        stem, found, label = real.partition("-label")
        stem, is_graded = stem.removesuffix(_GRADED), real.endswith(_GRADED)
        title = described_title(stem) or stem.upper()
        if found or is_graded:
            title += f" (relevant: label ≥ {label})" if found else " (graded)"
    return f"synthetic stand-in for {title}" if real != name else title
