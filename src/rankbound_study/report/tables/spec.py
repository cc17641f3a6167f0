"""The description of a table."""

from dataclasses import dataclass

from rankbound_study.results.specs import Spec


@dataclass(frozen=True)
class TableSpec(Spec):
    """A table: `make` of its module makes it from the files, the options and its arguments."""

    options: tuple[str, ...] = ()
    """The keys of its options, which the configuration determines."""
    beside: tuple[str, ...] = (".md", ".tex")
    """Ends of the names of its files beside NAME.csv."""
    metrics: bool = False
    """Its means are the study's metrics, a file of their own that DVC compares."""
    section: str = "table-5-1"
    """The report's section that shows it."""
