"""The step `split`: assign every topic or relevant item to the test part of a fold."""

from pathlib import Path
from typing import Any

from rankbound_study.data.contracts import contract_of
from rankbound_study.data.splits import (
    ListSplitting,
    RatingSplitting,
    Splitting,
    fold_images,
    split_lists,
    split_ratings,
)
from rankbound_study.options import read_options

INTERACTION_OPTIONS: dict[str, Any] = {
    "by_time": {},
    "folds": [],
    "min_relevant": 25,
    "repeats": 1,
    "seed": 0,
    "threshold": 4.0,
    "validation_share": 0.1,
}
LIST_OPTIONS: dict[str, Any] = {"folds": [], "random_parts": 0, "seed": 0, "validation_share": 0.2}
IMAGE_OPTIONS: dict[str, Any] = {"folds": 5, "seed": 0, "test_share": 0.2, "validation_share": 0.2}


def split(dataset: str, data: Path, out: Path, options: str) -> None:
    """Write the folds."""
    contract = contract_of(data, ("interactions", "lists", "images"))
    if contract == "lists":
        split_lists(data, out, ListSplitting(dataset, **read_options(options, LIST_OPTIONS)))
    elif contract == "images":
        fold_images(data, out, Splitting(dataset, **read_options(options, IMAGE_OPTIONS)))
    else:
        for note in split_ratings(data, out, RatingSplitting(dataset, **read_options(options, INTERACTION_OPTIONS))):
            print(f"note: {note}")
