"""The output files of a training job: runs, with epochs, predictions and weights beside them."""

from pathlib import Path

RATES = "rates"  # the table of what every rate of a grid reached
SIDECARS = ("epochs", "predictions", RATES)  # the tables beside the runs, by the suffix that replaces the output's own
WEIGHTS = "weights.safetensors"

CONTROLS_FILE = "controls.parquet"  # the file name of the runs of models without training


def beside(out: Path, ending: str) -> Path:
    """Return the sidecar of the runs file `out`: min-max.epochs.parquet beside min-max.parquet."""
    return out.with_name(f"{out.name.removesuffix('.parquet')}.{ending}")
