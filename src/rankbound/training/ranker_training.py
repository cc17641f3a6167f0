"""Train a ranker on judged lists."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rankbound import _version
from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.lists import Lists, as_tensor
from rankbound.losses import loss
from rankbound.metrics import Metric, evaluate, metric
from rankbound.seeds import derive_seed
from rankbound.training.epochs import LAST, Epoch
from rankbound.training.feature_scaling import ROWS_AT_ONCE, ScaledFeatures, Scaling
from rankbound.training.parts import Part
from rankbound.training.ranker import Ranker, Recipe
from rankbound.training.trainer import Learner, Settings, train

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists

VALIDATION = "validation"


def train_ranker(
    lists: "JudgedLists",
    validation: "JudgedLists | None" = None,
    *,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    **recipe: Any,
) -> Ranker:
    """Train a ranker, as in `train_ranker(lists, loss="nDCG", bound="min-max", model="mlp")`.

    The ranker has the weights of the epoch with the best validation metric, the first one on ties. Validation topics
    are not trained on.

    Args:
        lists: judged lists, such as `read_lists` returns.
        validation: judged lists with the same features; by default, `validation_share` of the topics is held out.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        on_epoch: called after every epoch, to show progress.
        recipe: the fields of `rankbound.Recipe`.

    Returns:
        The ranker, which scores lists and can be saved.

    Raises:
        ValueError: unknown loss, bound or metric, a setting out of range, `lists` that are no judged lists, or a
            device that is not there.
        DataError: no training list is informative, or the metric is undefined on all validation topics.
        TrainingError: a loss or score is not finite.

    >>> ranker = rb.train_ranker(rb.read_lists("train.csv"), loss="nDCG", bound="min-max")  # doctest: +SKIP
    """
    chosen = Recipe(**recipe)
    objective = loss(chosen.loss, bound=chosen.bound, temperature=chosen.temperature, kernel=chosen.kernel)
    criterion = _criterion(chosen.metric)
    where = _device(device)
    for each in (lists, *([] if validation is None else [validation])):
        _require_judged(each)
    training, held_out = _parts(lists, validation, chosen)
    if not bool(objective.informative(training.relevance, training.lists).any()):
        raise DataError("no training topic is informative: expected at least one with two different relevance labels")
    if held_out is not None:
        _require_defined(held_out, criterion)
    scaling = Scaling.fitted(chosen.scale, column_tensor(lists.features, "features"), training.items)
    trained_on = _scaled(scaling, lists, where)
    measured_on = trained_on if validation is None else _scaled(scaling, validation, where)
    measured = {LAST: training} if held_out is None else {VALIDATION: held_out}
    generator = torch.Generator().manual_seed(derive_seed("ranker", chosen.seed))
    model = chosen.build(len(lists.feature_names), generator).to(where)
    parts = {name: _moved(part, where) for name, part in measured.items()}
    (trained,) = train(
        [Learner(model, _scorer(trained_on, measured_on), _moved(training, where), parts, generator)],
        objective,
        settings=Settings(chosen.learning_rate, chosen.epochs, chosen.batch_size),
        monitored=[criterion],
        selections={} if held_out is None else {VALIDATION: criterion},
        on_epoch=on_epoch,
    )
    best = trained.selected[LAST if held_out is None else VALIDATION]
    model.load_state_dict(best.weights)
    record = {
        "epoch": best.epoch,
        "validation": None if held_out is None else best.score,
        "training_topics": len(training.lists),
        "validation_topics": 0 if held_out is None else len(held_out.lists),
        "training_items": training.lists.n_items,
        "versions": {"rankbound": _version.__version__, "torch": torch.__version__},
    }
    return Ranker(chosen, list(lists.feature_names), scaling, model.cpu(), record)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device: found {name}, but PyTorch finds no GPU here; expected auto or cpu")
    return torch.device(name)


def _require_judged(lists: object) -> None:
    from rankbound.io.judged import JudgedLists

    if not isinstance(lists, JudgedLists):
        raise ValueError(
            f"lists: found {type(lists).__name__}, expected judged lists, which rankbound.read_lists returns for a "
            "file or a data frame"
        )


def _criterion(text: str) -> Metric:
    criterion = metric(text)
    if not criterion.higher_is_better:
        raise ValueError(f"metric {text}: lower is better; expected a metric whose higher values are better")
    return criterion


def _parts(lists: "JudgedLists", validation: "JudgedLists | None", recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the training and the validation part; the items of each are rows of its own file's features."""
    all_lists = _part(lists)
    if validation is not None:
        if list(validation.feature_names) != list(lists.feature_names):
            raise DataError("the validation lists have other features than the training lists")
        return all_lists, _part(validation)
    if recipe.validation_share == 0:
        return all_lists, None
    count = len(all_lists.lists)
    if count < 2:
        raise DataError(f"found {count} topics, expected two or more, to train and to validate; or a share of 0")
    held = min(max(round(recipe.validation_share * count), 1), count - 1)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed("validation", recipe.seed)))
    picked = [part.sort().values for part in (shuffled[held:], shuffled[:held])]
    training, held_out = (
        replace(all_lists.batch(index), names=[all_lists.names[at] for at in index.tolist()]) for index in picked
    )
    return training, held_out


def _part(lists: "JudgedLists") -> Part:
    relevance, topics = as_tensor(lists.relevance, "relevance"), torch.arange(len(lists.topics))
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, _lists(lists))


def _lists(lists: "JudgedLists") -> Lists:
    return Lists(as_tensor(lists.offsets, "offsets"))


def _scaled(scaling: Scaling, lists: "JudgedLists", device: torch.device) -> ScaledFeatures:
    features = column_tensor(lists.features, "features").to(device)
    return ScaledFeatures(scaling, features, _moved_lists(_lists(lists), device))


def _moved(part: Part, device: torch.device) -> Part:
    topics, items, relevance = (values.to(device) for values in (part.topics, part.items, part.relevance))
    return Part(part.names, topics, items, relevance, _moved_lists(part.lists, device))


def _moved_lists(lists: Lists, device: torch.device) -> Lists:
    return Lists(lists.offsets.to(device))


def _scorer(trained_on: ScaledFeatures, measured_on: ScaledFeatures) -> Callable[[nn.Module, Part], Tensor]:
    """Return a scorer that reads a batch at once, and the measured lists a block of rows at a time."""

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            scores: Tensor = model(trained_on.of_rows(part.items))
            return scores
        return torch.cat([model(measured_on.of_rows(rows)) for rows in torch.split(part.items, ROWS_AT_ONCE)])

    return score


def _require_defined(part: Part, criterion: Metric) -> None:
    """Raise DataError if the metric is undefined on all lists, which depends on their relevance labels alone."""
    scores = torch.zeros(part.lists.n_items)
    if bool(evaluate([criterion], scores, part.relevance, part.lists.offsets)[str(criterion)].isnan().all()):
        raise DataError(f"{criterion} is undefined on all validation topics: none has a relevant item")
