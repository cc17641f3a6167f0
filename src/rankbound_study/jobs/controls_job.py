"""The controls of a data set, scored on the test parts: random, popularity, best feature and oracle."""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.metrics import metric
from rankbound.training.trainer import LAST, Part
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.job import ControlKeys, TrainingJob
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import FoldParts, Inputs, StudyData, run_rows
from rankbound_study.models.controls import (
    best_feature,
    feature_scores,
    oracle_scores,
    popularity_scores,
    random_scores,
)
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import BEST_FEATURE, CONTROLS, POPULARITY

JUDGE = metric("nDCG")
"""The metric that chooses the best feature on the training part."""


def run_controls(options: str, instances: Path, out: Path, lists: Path | None = None) -> None:
    """Write one run per control and fold to `out`.

    `options` is a JSON object: study, protocol, dataset, nsr, controls, folds and, if the folds are drawn several
    times, seeds, each of which has its own run. Popularity needs items that occur in several lists, and is omitted for
    judged lists; the best feature needs `lists`, and is omitted without them.
    """
    values = parse_options(options)
    if unknown := set(values["controls"]) - set(CONTROLS):
        raise ConfigError(f"controls: found {', '.join(sorted(unknown))}, expected some of {', '.join(CONTROLS)}")
    data = StudyData.read(Inputs(instances, lists), torch.device("cpu"))
    absent = {POPULARITY: not DataSet(values["dataset"], values["nsr"]).sampled, BEST_FEATURE: data.features is None}
    names = [name for name in values["controls"] if not absent.get(name)]
    tables = [table for name in names for table in _of_control(name, values, data)]
    if not tables:
        raise ConfigError(f"controls: found {values['controls']}, expected one that ranks judged lists: random, oracle")
    write_table(pa.concat_tables(tables), out, "runs")


def _of_control(name: str, values: Mapping[str, Any], data: StudyData) -> Iterator[pa.Table]:
    """Yield the runs of a control, a table per fold; the options of the best feature are the choices of all folds."""
    job = TrainingJob(
        **{key: values[key] for key in ("study", "protocol", "dataset", "nsr")},
        model=ControlKeys.model_validate({"name": name}),
        loss="none",
        bounding="none",
        folds=values["folds"],
        seeds=values.get("seeds", (0,)),
    )
    trainings = list(product(job.folds, job.seeds))
    parts = {one: data.fold(*one, merge_validation=job.trains_on_validation) for one in trainings}
    places: dict[tuple[int, int], int] = {}
    if name == BEST_FEATURE:
        places = {one: _best_feature(data, own.training) for one, own in parts.items()}
        chosen = ControlKeys.model_validate({"name": name, "features": [places[one] for one in trainings]})
        job = job.model_copy(update={"model": chosen})
    for one, own in parts.items():
        scores = _scores(name, own) if one not in places else feature_scores(_rows(data, own.test), places[one])
        yield run_rows(job.key(*one), LAST, 0, own.test, scores)


def _best_feature(data: StudyData, training: Part) -> int:
    return best_feature(_rows(data, training), training.relevance, training.lists, JUDGE)


def _rows(data: StudyData, part: Part) -> Tensor:
    """Return the features `(n_items, d)` of a part's items."""
    assert data.features is not None
    return data.features.index_select(0, part.items)


def _scores(name: str, parts: FoldParts) -> Tensor:
    if name == POPULARITY:
        return popularity_scores(parts.test.items, parts.training.items, parts.training.relevance)
    return oracle_scores(parts.test.relevance) if name == "oracle" else random_scores(parts.test.items)
