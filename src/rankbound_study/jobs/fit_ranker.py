"""Rankers of the library that are fitted without gradients of a loss: Ranking SVM, AdaRank, coordinate ascent, ..."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.kernels.formulas import Floats
from rankbound.losses import RankingLoss
from rankbound.rankers import Columns, Model, Selection
from rankbound.texts import derive_seed
from rankbound.training.fitted import columns_of, fit_columns, model_of
from rankbound.training.recipe import Recipe
from rankbound.training.trainer import Epoch, Part, predict
from rankbound_study.config.job import TrainingJob
from rankbound_study.config.sections.training import OF_METRICS, RankerKeys
from rankbound_study.jobs.examples import FoldTraining
from rankbound_study.jobs.fitted import Fitted, StepRecord, input_scale, score_distinct
from rankbound_study.vocabulary import SELECTIONS


def fit_ranker(
    job: TrainingJob, training: FoldTraining, judged: RankingLoss, on_epoch: Callable[[Epoch], None]
) -> Fitted:
    """Fit the job's ranker on its informative lists; an epoch is what it is in the library."""
    assert isinstance(job.model, RankerKeys)
    features, examples = training.features, training.lists
    scale = input_scale(job.settings.scale or "standard", features, examples.items, training.channels)
    options: dict[str, Any] = {"model": job.model.name, **job.model.given("name")}
    if job.model.name in OF_METRICS:
        options |= {"loss": job.loss, "bound": job.bounding}
    if job.settings.epochs:
        options["epochs"] = job.settings.epochs
    seed = derive_seed("ranker", job.study, job.dataset, training.fold, training.seed) % 2**31
    recipe = Recipe(**options, seed=seed)

    def scaled(rows: nn.Module, part: Part) -> Tensor:
        values: Tensor = rows(scale(features.index_select(0, part.items)))
        return values

    informative = judged.informative(examples.relevance, examples.lists)
    record = StepRecord(job, training, on_epoch)
    with torch.no_grad():
        offered = _Offered(columns_of(scaled, record.measured), record, SELECTIONS[job.protocol])
        fit_columns(recipe, judged, columns_of(scaled, examples.batch(torch.nonzero(informative).squeeze(1))), offered)
    scorer = score_distinct(features)

    def chosen(number: int) -> tuple[Tensor, Mapping[str, Tensor]]:
        network = model_of(recipe, offered.models[number], features.shape[1])
        model = nn.Sequential(OrderedDict(scale=scale, network=network))
        return predict(model, scorer, training.parts.test), model.state_dict()

    return record.fitted(chosen)


class _Offered(Selection):
    """Records every epoch's scores of the measured lists, and keeps its model; `part` selects the epoch."""

    def __init__(self, measured: Columns, record: StepRecord, part: str) -> None:
        self.held_out, self.epoch = measured, 0
        self.models: dict[int, Model] = {}
        self._record, self._part = record, part

    def offer(self, epoch: int, loss: float, scores: Floats | None, model: Callable[[], Model]) -> None:
        assert scores is not None
        self.models[epoch] = model()
        self._record.add(epoch, loss, torch.from_numpy(scores.astype(np.float32)))
        self.epoch = self._record.best(self._part)
