"""All systems of a study side by side: models by loss and bounding, variants of the experiments, and controls.

Trained systems are those of the honest protocol, at the epoch that the validation part selects. Variants are in, unless
they are tested on other lists.
"""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from rankbound_study.config.experiments import VARIANT
from rankbound_study.results.runs_file import scan_runs
from rankbound_study.results.specs import StudyFiles
from rankbound_study.results.trained import read_trainings, untrained_counts
from rankbound_study.vocabulary import CONTROLS, HONEST, JUDGED_BY, SELECTIONS

SYSTEM = ("variant", "model", "loss", "bounding")
"""What distinguishes two systems on a data set; `variant` is empty for the study's own settings."""

METRICS = tuple(JUDGED_BY.values())
"""The metrics of every system, whichever of them judges its loss."""

_DATA = ("dataset", "nsr_test")
_TRAINING = ("fold", "seed")


def read_systems(files: StudyFiles, study: str) -> pl.DataFrame:
    """Return a row per system, fold, seed and test list: options, n, p, epoch and metrics, null where undefined.

    Raises:
        DataError: a file is missing or damaged, or lacks a column.
    """
    columns = ["options", *_TRAINING, "topic", "n", "p", "epoch", *METRICS]
    picked = (pl.col("selection") == SELECTIONS[HONEST]) | (pl.col("loss") == "none")
    rows = [
        _of_study(path, study).filter(picked, _on_its_own_lists()).select(*_DATA, *SYSTEM, *columns).collect()
        for path in (files.runs, files.experiments)
        if path is not None
    ]
    key = [*_DATA, *SYSTEM, *_TRAINING, "topic"]
    return pl.concat(rows).with_columns(pl.col(METRICS).fill_nan(None)).sort(key)


def validation_means(files: StudyFiles, study: str, systems: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return each trained system's `validation` score: of the selected epochs, averaged over folds and seeds.

    The metric is the same for all systems, although each selects its epochs by its own. `systems` are those that
    `read_systems` returns.
    """
    training = [*_DATA, *SYSTEM, *_TRAINING]
    epochs = [*_of_validation(files, study, metric)]
    if not epochs:
        return pl.DataFrame(
            schema={name: systems.schema[name] for name in (*_DATA, *SYSTEM)} | {"validation": pl.Float64}
        )
    picked = systems.filter(pl.col("loss") != "none").select(*training, "epoch").unique()
    found = picked.join(pl.concat(epochs), on=[*training, "epoch"], how="inner", nulls_equal=True).sort(training)
    means = found.group_by(*_DATA, *SYSTEM, maintain_order=True).agg(pl.col(metric).fill_nan(None).mean())
    return means.rename({metric: "validation"})


def untrained_systems(files: StudyFiles, study: str) -> pl.DataFrame:
    """Return the systems with a training that did not train, and the number of these, `n_untrained`."""
    both = (files.runs, files.epochs), (files.experiments, files.experiment_epochs)
    trainings = read_trainings(*both, protocol=HONEST)
    counts = untrained_counts(_with_variant(trainings.lazy(), study).collect(), [*_DATA, *SYSTEM])
    return counts.filter(pl.col("n_untrained") > 0)


def names_of(systems: pl.DataFrame) -> dict[tuple[str, ...], str]:
    """Return the shortest model name of each system that no other one of its loss and bounding has.

    It is the model's, or, where two settings of one model are trained with a loss and bounding, that of the variant.
    """
    keys = sorted(set(systems.select(SYSTEM).rows()))
    models = [key[1:] for key in keys]
    return {
        (variant, model, *training): f"{model} ({variant})"
        if variant and models.count((model, *training)) > 1
        else model
        for variant, model, *training in keys
    }


def control_place(name: str) -> int:
    """Return the place of a control in their fixed order."""
    return CONTROLS.index(name) if name in CONTROLS else len(CONTROLS)


def _of_study(path: Path, study: str) -> pl.LazyFrame:
    return _with_variant(scan_runs(path), study)


def _with_variant(runs: pl.LazyFrame, study: str) -> pl.LazyFrame:
    """Select a study's honest runs; `variant` is empty for those with its own settings."""
    own = (pl.col("study") == study) | pl.col("study").str.starts_with(f"{study}{VARIANT}")
    variant = pl.col("study").str.strip_prefix(study).str.strip_prefix(VARIANT).alias("variant")
    return runs.filter(own, pl.col("protocol") == HONEST).with_columns(variant)


def _on_its_own_lists() -> pl.Expr:
    """Select runs that are tested on the data set's lists, not at another ratio or with fewer relevant items."""
    few = pl.col("options").str.json_path_match("$.test_relevant")
    return pl.col("nsr_train").eq_missing(pl.col("nsr_test")) & few.is_null()


def _of_validation(files: StudyFiles, study: str, metric: str) -> Iterator[pl.DataFrame]:
    columns = [*_DATA, *SYSTEM, *_TRAINING, "epoch", metric]
    for path in (files.epochs, files.experiment_epochs):
        if path is not None:
            epochs = _of_study(path, study).filter(pl.col("part") == "validation", _on_its_own_lists())
            yield epochs.select(columns).collect()
