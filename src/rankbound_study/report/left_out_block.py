"""A table of the users whose lists are neither trained nor tested on, by the files of instances."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from rankbound.texts import quantity
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.samplings import OWN
from rankbound_study.data.contracts import read_metadata
from rankbound_study.data.instances import LEFT_OUT_KEY
from rankbound_study.data.schemas import DATASET_KEY
from rankbound_study.report.blocks import Cell, TableBlock

_CAPTION = (
    "A list without irrelevant items has one order, which tells nothing of a model. Only lists with a user's own "
    "negatives can lack them: at other sampling ratios, nobody is left out for that reason."
)
_REASONS = {
    "users": ("user", "rated no item below the threshold"),
    "lists": ("list", "of other users, in a part of a fold that got none of their ratings below the threshold"),
}
"""What the step `sample` counts -> the thing, and why it is left out."""


def left_out_blocks(instances: Sequence[Path]) -> Iterator[TableBlock]:
    """Yield the table for these files of instances, unless they have everybody; DataError for a damaged file."""
    rows = tuple(row for path in instances for row in _rows(path))
    if rows:
        yield TableBlock("Left out", _CAPTION, ("data set", "left out", "because"), rows, labels=3)


def _rows(path: Path) -> Iterator[tuple[Cell, ...]]:
    metadata = read_metadata(path, "instances")
    counts = json.loads(metadata.get(LEFT_OUT_KEY, "{}"))
    for counted, (what, reason) in _REASONS.items():
        if number := counts.get(counted):
            label = DataSet(metadata[DATASET_KEY], OWN).label
            yield Cell(label), Cell(quantity(number, what)), Cell(reason)
