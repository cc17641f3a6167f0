"""The trainer of all torch models: batches of lists, an optimiser, and a record of every epoch.

A *selection* picks an epoch: the one with the best metric on a part, or the last one. Several models (folds, seeds) may
be trained in joint steps, which is faster if the overhead of operations exceeds their arithmetic.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, zip_longest
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from rankbound.errors import RankboundError
from rankbound.lists import Lists, NotFiniteError, require_finite
from rankbound.metrics import Metric
from rankbound.metrics.base import values_of

if TYPE_CHECKING:
    from rankbound.losses import RankingLoss

WORTH_A_KERNEL = 200_000
"""The number of items, counted again in every epoch, from which kernels save more time than they take to load."""

WORTH_THREADS = 2**26
"""Products with weights in a step, some milliseconds of work, from which threads are worth their waiting."""

LAST = "last"
"""The name of the last epoch's selection, which is always made."""


class TrainingError(RankboundError):
    """A training cannot continue: a loss or a score is NaN or infinite."""


@dataclass(frozen=True)
class Part:
    """A subset of a data set's lists.

    Attributes:
        names: the topic's name of each list, for messages and results.
        topics: `(n_lists,)`, the topic's index of each list.
        items: `(n_items,)`, the model's input: indices of items, or of rows of features.
        relevance: `(n_items,)`, the relevance labels.
        lists: the limits of the lists.
        list_weights: `(n_lists,)`, numbers from 0 by which a training multiplies the lists' losses; None for ones.
        weights: `(n_items,)`, those of the items' terms of the loss; None for ones.
    """

    names: Sequence[str]
    topics: Tensor
    items: Tensor
    relevance: Tensor
    lists: Lists
    list_weights: Tensor | None = None
    weights: Tensor | None = None

    def batch(self, index: Tensor) -> "Part":
        """Return the lists of `index`, in that order, without names."""
        sizes = self.lists.sizes.index_select(0, index)
        lists = Lists.of_sizes(sizes)
        moved = self.lists.offsets.index_select(0, index) - lists.offsets[:-1]
        n_items = int(lists.offsets[-1])
        picked = torch.repeat_interleave(moved, sizes, output_size=n_items)
        picked += torch.arange(n_items, device=index.device)
        topics, items = self.topics.index_select(0, index), self.items.index_select(0, picked)
        relevance = self.relevance.index_select(0, picked)
        list_weights = None if self.list_weights is None else self.list_weights.index_select(0, index)
        weights = None if self.weights is None else self.weights.index_select(0, picked)
        return Part([], topics, items, relevance, lists, list_weights, weights)

    def split(self, counts: Sequence[int]) -> list["Part"]:
        """Return the parts of the first `counts[0]` lists, the next `counts[1]`, and so on, without names or copies."""
        ends = list(accumulate(counts, initial=0))
        limits = self.lists.offsets[ends].tolist()
        return [
            Part(
                [],
                self.topics[first:last],
                self.items[start:stop],
                self.relevance[start:stop],
                Lists(self.lists.offsets[first : last + 1] - start),
                None if self.list_weights is None else self.list_weights[first:last],
                None if self.weights is None else self.weights[start:stop],
            )
            for (first, last), (start, stop) in zip(pairwise(ends), pairwise(limits), strict=True)
        ]


# Returns the scores of all items of a part, flat.
Scorer = Callable[[nn.Module, Part], Tensor]

# Draws the lists of the next epoch.
Draw = Callable[[], Part]


@dataclass(frozen=True)
class Learner:
    """A model to train, with its data.

    Attributes:
        scorer: computes the scores of a part's items under the model.
        training: the lists to train on, with any weights, or a function that draws those of the next epoch.
        parts: parts to evaluate by name, such as `validation` and `test`.
        generator: random generator of the batches' order, on the CPU.
        shuffled: whether it draws that order; otherwise, batches have the lists in the order of `training`.
    """

    model: nn.Module
    scorer: Scorer
    training: Part | Draw
    parts: Mapping[str, Part]
    generator: torch.Generator
    shuffled: bool = True


@dataclass(frozen=True)
class Epoch:
    """The record of an epoch: mean training loss, mean gradient norm, and the mean metrics of each part."""

    number: int
    loss: float
    gradient_norm: float
    metrics: Mapping[str, Mapping[str, float]]


@dataclass
class Selected:
    """The model of the selected epoch, with its validation score (NaN for the last epoch)."""

    epoch: int
    score: float
    weights: dict[str, Tensor]


@dataclass
class Trained:
    """The record of a training: all epochs, and the model of each selection."""

    epochs: list[Epoch] = field(default_factory=list)
    selected: dict[str, Selected] = field(default_factory=dict)


def train(
    learners: Sequence[Learner],
    loss: "RankingLoss",
    *,
    learning_rate: float,
    epochs: int,
    batch_size: int,
    optimiser: str = "adam",
    monitored: Sequence[Metric],
    selections: Mapping[str, Metric],
    patience: int = 0,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
) -> list[Trained]:
    """Train the learners' models, and evaluate each on its parts after every epoch.

    All learners take a step together, with one call of the loss on all their lists, on one thread if it is small. Their
    gradients are independent: up to rounding, each model is trained as it would be alone.

    Args:
        learners: the models to train, with their data.
        loss: the loss to minimise; a step uses the mean of `list_weights` times losses over the batch's informative
            lists. A list of weight 0 is left out like an uninformative one.
        learning_rate, optimiser: of the steps; `adam`, or `sgd` for plain gradient descent.
        epochs: passes over the training lists.
        batch_size: lists of a learner per step.
        monitored: metrics whose means are recorded every epoch.
        selections: the metric by which each named part selects an epoch, the first one on ties. The last epoch is
            always kept too, under `last`.
        patience: the training ends after so many epochs in which no part selects another epoch; 0 for `epochs` in all.
        on_epoch: called after every epoch of every learner, to show progress.

    Returns:
        The record of each learner, in their order.

    Raises:
        TrainingError: a loss or a score is NaN or infinite; the message names the epoch and the topic.
    """
    models = [learner.model.parameters() for learner in learners]
    group = _Group(learners, loss, Optimiser(optimiser, models, learning_rate), epochs, batch_size)
    parts = {(place, name): part for place, learner in enumerate(learners) for name, part in learner.parts.items()}
    measuring = Measuring(parts, monitored, group.by_kernel)
    measured = [joined(list(learner.parts.values())) for learner in learners]
    records = [Trained() for _ in learners]
    networks = [learner.model for learner in learners]
    for number in range(1, epochs + 1):
        with threads_for(networks, group.items_of_step):
            progress = group.train_epoch(number)
            scores = [predict(one.model, one.scorer, part) for one, part in zip(learners, measured, strict=True)]
            means = measuring.means(torch.cat(scores))
        for place, (learner, record) in enumerate(zip(learners, records, strict=True)):
            epoch = Epoch(number, *progress[place], {name: means[place, name] for name in learner.parts})
            record.epochs.append(epoch)
            for name, metric in selections.items():
                score, best = epoch.metrics[name][str(metric)], record.selected.get(name)
                if best is None or score > best.score:
                    record.selected[name] = Selected(number, score, _weights(learner.model))
            on_epoch(epoch)
        last = max((found.epoch for record in records for found in record.selected.values()), default=0)
        if patience and selections and number - last >= patience:
            break
    for learner, record in zip(learners, records, strict=True):
        record.selected[LAST] = Selected(len(record.epochs), math.nan, _weights(learner.model))
    return records


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def worth_a_kernel(epochs: int, n_items: int) -> bool:
    """Return true if compiled kernels shorten a training on so many items."""
    return epochs * n_items >= WORTH_A_KERNEL


@contextmanager
def threads_for(models: Sequence[nn.Module], n_items: int) -> Iterator[None]:
    """Let PyTorch use one thread for steps or calls on so many items, unless each takes several milliseconds.

    Threads wait for one another at every operation: where another process has a core, many times as long as one thread
    takes alone. Afterwards PyTorch has the threads that it had. Factors are looked up: their steps are short.
    """
    layers = [layer for model in models for layer in model.modules() if isinstance(layer, nn.Linear | nn.Conv2d)]
    weights = sum(layer.weight.numel() for layer in layers)
    threads = torch.get_num_threads()
    if threads == 1 or n_items * weights >= WORTH_THREADS:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def predict(model: nn.Module, scorer: Scorer, part: Part) -> Tensor:
    """Return the scores of all items of `part`, without gradients."""
    model.eval()
    with torch.no_grad():
        return scorer(model, part)


class Measuring:
    """Computes the mean metrics of several parts, whose lists are scored and sorted together.

    `by_kernel` is as in `rankbound.metrics.base.values_of`: a choice of speed alone. `joined` has the lists of all
    parts, one part after the other.
    """

    def __init__(self, parts: Mapping[Any, Part], metrics: Sequence[Metric], by_kernel: bool | None = None) -> None:
        self._metrics, self._names, self._by_kernel = metrics, list(parts), by_kernel
        self._sizes = [len(part.lists) for part in parts.values()]
        self.joined = joined(list(parts.values()))

    def means(self, scores: Tensor) -> dict[Any, dict[str, float]]:
        """Return the mean metrics of each part, from the scores of `joined`."""
        arguments = scores, self.joined.relevance, self.joined.lists.offsets
        values = values_of(self._metrics, *arguments, by_kernel=self._by_kernel)
        means: dict[Any, dict[str, float]] = {name: {} for name in self._names}
        for metric, all_values in values.items():
            for name, of_part in zip(self._names, torch.split(all_values, self._sizes), strict=True):
                means[name][metric] = of_part.nanmean().item()
        return means


def joined(parts: Sequence[Part]) -> Part:
    """Concatenate the lists of all `parts`; parts without weights have ones beside others that have some."""
    if len(parts) == 1:
        return parts[0]
    columns = ((part.topics, part.items, part.relevance, part.lists.sizes) for part in parts)
    topics, items, relevance, sizes = map(torch.cat, zip(*columns, strict=True))
    names = [name for part in parts for name in part.names]
    list_weights = _joined_weights([part.list_weights for part in parts], [len(part.lists) for part in parts])
    weights = _joined_weights([part.weights for part in parts], [part.lists.n_items for part in parts])
    return Part(names, topics, items, relevance, Lists.of_sizes(sizes), list_weights, weights)


def _joined_weights(weights: Sequence[Tensor | None], counts: Sequence[int]) -> Tensor | None:
    known = next((own for own in weights if own is not None), None)
    if known is None:
        return None
    filled = (known.new_ones(count) if own is None else own for own, count in zip(weights, counts, strict=True))
    return torch.cat([*filled])


# A learner's share of a step: its place, the indices of its lists, and how many of these are informative.
_Turn = tuple[int, Tensor, int]


class _Group:
    """The learners of a training, which take their steps together: one batch, one loss and one update for all."""

    def __init__(
        self, learners: Sequence[Learner], loss: "RankingLoss", optimiser: "Optimiser", epochs: int, batch_size: int
    ) -> None:
        self._learners, self._loss, self._optimiser, self._batch_size = learners, loss, optimiser, batch_size
        self._take_lists()
        # Folds are of one size, so that this doesn't depend on which are trained together.
        self.by_kernel = worth_a_kernel(epochs, int(self._part.lists.offsets[self._first].diff().max()))

    @property
    def items_of_step(self) -> int:
        """The number of items of a learner's step, on average."""
        return self._batch_size * self._part.lists.n_items // max(len(self._part.lists), 1)

    def train_epoch(self, number: int) -> list[tuple[float, float]]:
        """Train every model on its lists once; return each one's mean loss over informative lists and gradient norm."""
        if number > 1 and any(not isinstance(learner.training, Part) for learner in self._learners):
            self._take_lists()
        for learner in self._learners:
            learner.model.train()
        taken: list[list[tuple[Tensor, Tensor]]] = [[] for _ in self._learners]
        for step in zip_longest(*map(self._turns, range(len(self._learners)))):
            turns = [turn for turn in step if turn is not None]
            sums = [own.sum() for own in self._losses(turns, number)]
            torch.autograd.backward([own / counted for own, (_, _, counted) in zip(sums, turns, strict=True)])
            of_models = self._optimiser.step([place for place, _, _ in turns])
            for (place, _, _), loss, norm in zip(turns, sums, of_models, strict=True):
                taken[place].append((loss.detach(), norm))
        progress = []
        for steps, informative in zip(taken, self._informative, strict=True):
            # Fetched once an epoch: reading a number from a GPU waits for all its queued work.
            losses, norms = (torch.stack(values).tolist() for values in zip(*steps, strict=True)) if steps else ([], [])
            progress.append((sum(losses) / max(int(informative.sum()), 1), sum(norms) / max(len(steps), 1)))
        return progress

    def _take_lists(self) -> None:
        given = [learner.training for learner in self._learners]
        parts = [part if isinstance(part, Part) else part() for part in given]
        counts = [len(part.lists) for part in parts]
        self._part, self._first = joined(parts), list(accumulate(counts, initial=0))
        self._facts = self._loss.facts(self._part.relevance, self._part.lists)
        informative = self._loss.informative_by(self._facts, self._part.relevance, self._part.lists)
        if self._part.list_weights is not None:
            informative = informative & (self._part.list_weights > 0)
        self._informative = torch.split(informative.cpu(), counts)

    def _turns(self, place: int) -> Iterator[_Turn]:
        """Yield a learner's batches of an epoch that have informative lists."""
        informative = self._informative[place]
        learner, count = self._learners[place], len(informative)
        shuffled = torch.randperm(count, generator=learner.generator) if learner.shuffled else torch.arange(count)
        batches = torch.split(shuffled + self._first[place], self._batch_size)
        counts = torch.split(informative.index_select(0, shuffled), self._batch_size)
        for index, own in zip(batches, counts, strict=True):
            if counted := int(own.sum()):
                yield place, index, counted

    def _losses(self, turns: Sequence[_Turn], number: int) -> Sequence[Tensor]:
        """Return the losses of each turn's lists; TrainingError for one that is not finite."""
        places, indices, _ = zip(*turns, strict=True)
        rows, counts = torch.cat(indices), list(map(len, indices))
        index = rows.to(self._part.lists.device)
        batch = self._part.batch(index)
        learners = [self._learners[place] for place in places]
        own = zip(learners, batch.split(counts), strict=True)
        scores = torch.cat([learner.scorer(learner.model, part) for learner, part in own])
        what, place = "", 0
        try:
            require_finite(scores)
            if batch.weights is not None:
                arguments = scores, batch.relevance, batch.lists.offsets
                losses = self._loss(*arguments, weights=batch.weights, validate=False)
            elif self.by_kernel:
                facts = None if self._facts is None else self._facts.select(index)
                losses = self._loss.of_batch(scores, batch.relevance, batch.lists, facts)
            else:
                losses = self._loss.of_lists(scores, batch.relevance, batch.lists)
            if batch.list_weights is not None:
                losses = losses * batch.list_weights.to(losses)
            if not math.isfinite(losses.detach().sum().item()):
                what, place = "loss", int(torch.isfinite(losses).to(torch.uint8).argmin())
        except NotFiniteError as error:
            what, place = "score", int(batch.lists.segment[error.item])
        if what:
            raise TrainingError(
                f"epoch {number}: the {what} of topic {self._part.names[int(rows[place])]} is not a finite number; "
                "nothing of this training was kept. Lower the learning rate, or look for features that are NaN or very "
                "large."
            )
        return torch.split(losses, counts)


_ADAM: Any = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0, "amsgrad": False, "maximize": False}


class Optimiser:
    """Updates the parameters of models by their gradients, with one learning rate; each model takes its own steps.

    `adam` is that of Kingma and Ba (2015) with the usual constants: decay rates 0.9 and 0.999, epsilon 1e-8, no weight
    decay. `sgd` is plain gradient descent, without momentum. Both are torch's functional forms: the classes of
    `torch.optim` import torch's compiler on their first step, which takes as long as training a small model.
    """

    def __init__(self, kind: str, models: Iterable[Iterable[nn.Parameter]], learning_rate: float) -> None:
        self._models = [list(parameters) for parameters in models]
        self._kind, self._learning_rate = kind, learning_rate
        moved = self._models if kind == "adam" else []
        self._means, self._squares = ([[*map(torch.zeros_like, own)] for own in moved] for _ in range(2))
        self._steps = [[torch.zeros((), device=parameter.device) for parameter in own] for own in moved]

    @torch.no_grad()
    def step(self, models: Sequence[int]) -> Tensor:
        """Update every parameter of some models by its gradient, clear it, and return the norm of each model's.

        All are updated in one call, whose cost hardly grows with their number.
        """

        def of(tensors: Sequence[Sequence[Tensor]]) -> list[Tensor]:
            return [tensor for place in models for tensor in tensors[place]]

        parameters = of(self._models)
        gradients = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        norms = torch.split(torch.stack(torch._foreach_norm(gradients)), [len(self._models[place]) for place in models])
        if self._kind == "sgd":
            torch._foreach_add_(parameters, gradients, alpha=-self._learning_rate)
        else:
            state = of(self._means), of(self._squares), list[Tensor](), of(self._steps)
            adam(parameters, gradients, *state, fused=True, lr=self._learning_rate, **_ADAM)
        for parameter in parameters:
            parameter.grad = None
        return torch.stack([own.norm() for own in norms])
