"""The files that a training job leaves: runs, and beside them epochs, predictions and weights."""

from pathlib import Path

SIDECARS = ("epochs", "predictions")
"""The tables beside the runs, by the part of their names after the output's own."""

WEIGHTS = "weights.safetensors"

CONTROLS_FILE = "controls.parquet"
"""The runs of the models without training."""


def beside(out: Path, ending: str) -> Path:
    """The sidecar of the runs file `out`: min-max.parquet has min-max.epochs.parquet beside it."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{ending}")
