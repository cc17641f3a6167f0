"""The number of trainings of a job."""

from collections.abc import Mapping
from typing import Any


def trainings_of(options: Mapping[str, Any]) -> int:
    """Return the trainings of a job with these options: all folds and seeds, and all rates of a grid on one seed."""
    settings = options.get("settings", options)
    rate = settings.get("learning_rate", options["model"].get("learning_rate"))
    tried = len(rate) if isinstance(rate, list) else 1
    return len(options["folds"]) * (tried + len(options["seeds"]) - 1)
