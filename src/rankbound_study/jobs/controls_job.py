"""The controls of a data set, scored on the test parts: random, popularity and oracle."""

from pathlib import Path

import pyarrow as pa
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.training.epochs import LAST
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import FoldParts, Inputs, StudyData
from rankbound_study.jobs.records import run_rows
from rankbound_study.models.controls import CONTROLS, oracle_scores, popularity_scores, random_scores
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import POPULARITY


def run_controls(options: str, instances: Path, out: Path) -> None:
    """Write one run per control and fold to `out`.

    `options` is a JSON object: study, protocol, dataset, nsr, controls and folds. Popularity needs items that occur in
    several lists, and is omitted for judged lists.
    """
    values = parse_options(options)
    if unknown := set(values["controls"]) - set(CONTROLS):
        raise ConfigError(f"controls: found {', '.join(sorted(unknown))}, expected some of {', '.join(CONTROLS)}")
    data = StudyData.read(Inputs(instances), torch.device("cpu"))
    tables = []
    for name in values["controls"]:
        if name == POPULARITY and not DataSet(values["dataset"], values["nsr"]).sampled:
            continue
        job = TrainingJob(
            **{key: values[key] for key in ("study", "protocol", "dataset", "nsr")},
            model={"name": name},
            loss="none",
            bounding="none",
            folds=tuple(values["folds"]),
            seeds=(0,),
            settings={},
        )
        for fold in job.folds:
            parts = data.fold(fold, merge_validation=job.trains_on_validation)
            tables.append(run_rows(job.key(fold, 0), LAST, 0, parts.test, _scores(name, parts)))
    if not tables:
        raise ConfigError(f"controls: found {values['controls']}, expected one that ranks judged lists: random, oracle")
    write_table(pa.concat_tables(tables), out, "runs")


def _scores(name: str, parts: FoldParts) -> Tensor:
    if name == POPULARITY:
        return popularity_scores(parts.test.items, parts.training.items, parts.training.relevance)
    return oracle_scores(parts.test.relevance) if name == "oracle" else random_scores(parts.test.items)
