"""The step `generate`: a synthetic stand-in for a data set."""

from pathlib import Path

from rankbound_study.config.messages import of_flag
from rankbound_study.config.sections.planted import PlantedKeys
from rankbound_study.data import synthetic


def generate(dataset: str, out: Path, seed: int, size: str, planted: str | None) -> None:
    """Generate the data set."""
    parameters = None if planted is None else of_flag(PlantedKeys, planted, "--planted")
    synthetic.generate(dataset, out, seed, size, parameters)
