"""The number of trainings of a job."""

from collections.abc import Mapping, Sequence
from typing import Any


def trainings_of(options: Mapping[str, Any], repeats: int) -> int:
    """Return the trainings of a job with these options, whose folds are drawn `repeats` times."""
    settings = options.get("settings", options)
    rate = settings.get("learning_rate", options["model"].get("learning_rate"))
    rates = len(rate) if isinstance(rate, list) else 1
    return count_trainings(len(options["folds"]), options["seeds"], rates, repeats)


def count_trainings(folds: int, seeds: Sequence[int], rates: int, repeats: int) -> int:
    """Return the trainings of all folds and seeds, of which the first seed of each drawing tries all rates.

    Args:
        folds: the number of folds.
        seeds: the training seeds.
        rates: the number of learning rates of the grid; 1 without a grid.
        repeats: the number of times that the folds are drawn, in which the seeds take turns.

    Returns:
        The number of trainings.
    """
    drawings = len(set(first_seeds(seeds, repeats).values()))
    return folds * (rates * drawings + len(seeds) - drawings)


def first_seeds(seeds: Sequence[int], repeats: int) -> dict[int, int]:
    """Return the first seed with the same drawing, of each seed."""
    first: dict[int, int] = {}
    return {seed: first.setdefault(seed % repeats, seed) for seed in seeds}
