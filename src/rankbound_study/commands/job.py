"""The step `job`: one training job, all its folds and seeds."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rankbound.errors import ConfigError, plain_errors
from rankbound.texts import positive

if TYPE_CHECKING:
    from rankbound_study.jobs.job import TrainingJob

_COUNTS = ("epochs", "batch_size")

SUMMARY = "Train one model with one loss on all folds and seeds, resuming from finished ones."

EXAMPLES = """\
  python -m rankbound_study job --instances data/instances/movielens-nsr1.parquet \\
      --out runs/movielens-nsr1/min-max.parquet \\
      --options '{"study": "thesis", "protocol": "published", "dataset": "movielens", "nsr": 1,
                  "model": {"name": "matrix-factorization", "factors": 32}, "loss": "nDCG", "bounding": "min-max",
                  "folds": [1, 2, 3, 4, 5], "seeds": [0], "optimiser": "adam", "learning_rate": 0.001,
                  "epochs": 30, "batch_size": 32, "temperature": 1.0, "variant": ""}'
  python -m rankbound_study job --instances data/instances/aaf.parquet --images data/images/aaf.parquet \\
      --out runs/Rank-LR.parquet \\
      --options '{"study": "neural", "protocol": "honest", "dataset": "aaf", "nsr": null, "method": "Rank-LR",
                  "family": "rank", "model": {"name": "linear"}, "loss": "RankNet", "bounding": "none",
                  "target": "relevance", "settings": {"optimiser": "adam", "learning_rate": 0.0001, "epochs": 20,
                  "batch_size": 100, "scale": "standard"}, "judged_by": "PairAccuracy", "folds": [1], "seeds": [0]}'
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--instances", type=Path, required=True, help="parquet file of instances")
    parser.add_argument("--lists", type=Path, help="parquet file of judged lists, for models that read features")
    parser.add_argument("--images", type=Path, help="parquet file of images, instead of judged lists")
    parser.add_argument("--image-features", type=Path, help="a network's features of the images, instead of pixels")
    parser.add_argument("--distributions", type=Path, help="score distributions of the loss' metric")
    parser.add_argument("--test-instances", type=Path, help="the same ratings at another ratio, for the test lists")
    parser.add_argument("--out", type=Path, required=True, help="runs to write, with sidecars beside it")
    parser.add_argument("--options", required=True, help="JSON object: the job")
    parser.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda"), help="where to train")
    parser.add_argument(
        "--together", type=positive, default=5, metavar="N", help="number of folds and seeds trained together"
    )
    parser.add_argument("--code", default="", metavar="DIGEST", help="its digest; shards of other code are not reused")


def run(arguments: argparse.Namespace) -> None:
    import torch

    from rankbound_study.jobs.determinism import subnormals_as_zero, use_fixed_algorithms
    from rankbound_study.jobs.parts import Inputs
    from rankbound_study.jobs.train_job import run_job

    # One thread: the same sums in the same order under any load; jobs run in parallel instead.
    torch.set_num_threads(1)
    use_fixed_algorithms()
    names = ("instances", "lists", "distributions", "images", "image_features", "test_instances")
    inputs = Inputs(**{name: getattr(arguments, name) for name in names})
    job = _known_job(arguments.options)
    with subnormals_as_zero():
        run_job(job, inputs, arguments.out, arguments.device, arguments.together, arguments.code)


def _known_job(options: str) -> "TrainingJob":
    """Return the job of the options; ConfigError before anything is read if a name in them is unknown."""
    from rankbound.losses import KINDS, loss
    from rankbound.texts import require_one_of, split_text
    from rankbound.training.trainer import OPTIMISERS
    from rankbound_study.jobs.job import TrainingJob

    try:
        with plain_errors():
            job = TrainingJob.from_json(options)
            smooth = {"temperature": job.settings.get("temperature", 1.0)}
            loss(job.loss, job.bounding, **({} if split_text(job.loss, "loss")[0] in KINDS else smooth))
            _ = job.judge, job.epoch_metrics
            require_one_of("optimiser", job.settings.get("optimiser", "adam"), OPTIMISERS)
            _require_numbers(job)
    except TypeError as error:
        raise ConfigError(f"options: a value is of the wrong kind ({error}); expected those of the example") from error
    return job


def _require_numbers(job: "TrainingJob") -> None:
    """Raise ConfigError for settings of the trainer that are no numbers above 0, and for a model without a name."""
    if not isinstance(job.model, dict) or not isinstance(job.model.get("name"), str):
        raise ConfigError(f"model: found {job.model}, expected an object with a name")
    rates = job.rates or (job.settings.get("learning_rate", 1),)
    stated = [*(("learning_rate", rate) for rate in rates), *((name, job.settings.get(name, 1)) for name in _COUNTS)]
    for name, value in stated:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigError(f"{name}: found {value!r}, expected a number above 0")
