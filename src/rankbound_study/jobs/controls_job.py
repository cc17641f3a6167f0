"""The controls of a data set, scored on the test parts: random, popularity, best feature and oracle.

They bound every model from below or above, and are evaluated like any other method.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from rankbound.errors import ConfigError
from rankbound.lists import Lists
from rankbound.metrics import Metric, metric
from rankbound.metrics.base import values_of
from rankbound.training.trainer import LAST
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.job import ControlKeys, TrainingJob
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.parts import Inputs, StudyData, run_rows
from rankbound_study.options import parse_options
from rankbound_study.vocabulary import BEST_FEATURE, CONTROLS, POPULARITY

JUDGE = metric("nDCG")  # the metric that chooses the best feature on the training part
_ROUNDING = 1e-12


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
    parts = {one: data.fold(*one, merge_validation=job.trains_on_validation) for one in product(job.folds, job.seeds)}
    scores: dict[tuple[int, int], Tensor] = {}
    if name == BEST_FEATURE:
        assert data.features is not None
        places = []
        for one, own in parts.items():
            training, tested = (data.features.index_select(0, part.items) for part in (own.training, own.test))
            places.append(best_feature(training, own.training.relevance, own.training.lists, JUDGE))
            scores[one] = feature_scores(tested, places[-1])
        chosen = ControlKeys.model_validate({"name": name, "features": places})
        job = job.model_copy(update={"model": chosen})
    for one, own in parts.items():
        if name == POPULARITY:
            # How often each item was relevant to a topic of the training part.
            relevant = own.training.items[own.training.relevance > 0]
            counts = torch.bincount(relevant, minlength=data.instances.item_count)
            scores[one] = counts[own.test.items].to(torch.float64)
        elif name != BEST_FEATURE:
            # A metric of ties is its exact mean over all orderings; the relevance is the ideal ordering.
            known = own.test.relevance if name == "oracle" else torch.zeros(len(own.test.items))
            scores[one] = known.to(torch.float64)
        yield run_rows(job.key(*one), LAST, data.instances.drawing(one[1]), 0, own.test, scores[one])


def best_feature(features: Tensor, relevance: Tensor, lists: Lists, judge: Metric) -> int:
    """Return the column whose order has the highest mean score: `column + 1` ascending, `-(column + 1)` descending.

    Args:
        features: `(n_items, d)`, of the lists' items in their order; a larger score ranks higher.
        relevance: `(n_items,)`.
        lists: on which the columns are compared; pass no test lists.
        judge: the metric; lists on which it is undefined do not count.

    The first of equal columns counts, ascending before descending. Ties in a column score their exact mean over orders.
    """
    best, chosen = -torch.inf, 1
    for place in (place for column in range(1, features.shape[1] + 1) for place in (column, -column)):
        (values,) = values_of([judge], feature_scores(features, place), relevance, lists.offsets).values()
        if (mean := float(values.nanmean())) > best + _ROUNDING:
            best, chosen = mean, place
    return chosen


def feature_scores(features: Tensor, place: int) -> Tensor:
    """Return the scores of items by the feature that `best_feature` names."""
    scores = features[:, abs(place) - 1].to(torch.float64)
    return scores if place > 0 else -scores
