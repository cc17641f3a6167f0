"""Train a ranker on judged lists."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from rankbound import _version
from rankbound.errors import DataError
from rankbound.lists import Lists, on_cpu
from rankbound.losses import loss
from rankbound.metrics import Metric, evaluate, metric
from rankbound.texts import derive_seed
from rankbound.training.epochs import LAST, Epoch
from rankbound.training.factorization_inputs import FactorizationInputs
from rankbound.training.feature_inputs import FeatureInputs
from rankbound.training.inputs import Inputs
from rankbound.training.parts import Part
from rankbound.training.ranker import Ranker
from rankbound.training.recipe import FACTORIZATION, Recipe
from rankbound.training.trainer import Learner, Settings, train

if TYPE_CHECKING:
    from rankbound.io.judged import JudgedLists

VALIDATION = "validation"


@on_cpu
@torch.inference_mode(mode=False)
@torch.enable_grad()
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
    objective = loss(chosen.loss, bound=chosen.bound, temperature=chosen.temperature)
    criterion = _criterion(chosen.metric)
    where = _device(device)
    for each in (lists, *([] if validation is None else [validation])):
        _require_judged(each)
    inputs = _INPUTS[chosen.model == FACTORIZATION](lists, validation, chosen)
    training, held_out = inputs.training, inputs.held_out
    _require_orders(training)
    if not bool(objective.informative(training.relevance, training.lists).any()):
        raise DataError(f"no training topic is informative for the loss {chosen.loss}")
    if held_out is not None:
        _require_defined(held_out, criterion)
    generator = torch.Generator().manual_seed(derive_seed("ranker", chosen.seed))
    model, scorer = inputs.build(generator, where)
    measured = {LAST: training} if held_out is None else {VALIDATION: held_out}
    parts = {name: _moved(part, where) for name, part in measured.items()}
    (trained,) = train(
        [Learner(model, scorer, _moved(training, where), parts, generator)],
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
    return inputs.ranker(model.cpu(), record)


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


def _moved(part: Part, device: torch.device) -> Part:
    topics, items, relevance = (values.to(device) for values in (part.topics, part.items, part.relevance))
    return Part(part.names, topics, items, relevance, Lists(part.lists.offsets.to(device)))


def _require_orders(part: Part) -> None:
    """Raise DataError unless a list has two different relevance labels: otherwise all orders are equally good."""
    if not bool((part.lists.sizes > 1).any()):
        raise DataError(
            f"each of the {len(part.lists)} training topics has one item, so that there is no order to learn: expected "
            "topics of several items, such as the queries, users or searches that the items belong to (on the command "
            "line: --topic NAME)"
        )
    first = float(part.relevance[0])
    if bool((part.relevance == first).all()):
        raise DataError(
            f"no training topic is informative: all {part.lists.n_items} relevance labels are {first:g}; expected "
            "at least one topic with two different labels (on the command line, --relevance NAME is their column)"
        )
    if not bool((part.lists.max(part.relevance) > part.lists.min(part.relevance)).any()):
        raise DataError("no training topic is informative: expected at least one with two different relevance labels")


def _require_defined(part: Part, criterion: Metric) -> None:
    """Raise DataError if the metric is undefined on all lists, which depends on their relevance labels alone."""
    scores = torch.zeros(part.lists.n_items)
    if bool(evaluate([criterion], scores, part.relevance, part.lists.offsets)[str(criterion)].isnan().all()):
        raise DataError(f"{criterion} is undefined on all validation topics: none has a relevant item")


_INPUTS: Mapping[bool, type[Inputs]] = {False: FeatureInputs, True: FactorizationInputs}
