"""The step `split`: assign every topic or relevant item to the test part of a fold."""

from pathlib import Path
from typing import Any

from rankbound_study.data.contracts import contract_of
from rankbound_study.data.splits import fold_images, split_lists, split_ratings
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
    files = (data, out, dataset)
    match contract_of(data, ("interactions", "lists", "images")):
        case "lists":
            split_lists(*files, **read_options(options, LIST_OPTIONS))
        case "images":
            fold_images(*files, **read_options(options, IMAGE_OPTIONS))
        case _:
            for note in split_ratings(*files, **read_options(options, INTERACTION_OPTIONS)):
                print(f"note: {note}")
