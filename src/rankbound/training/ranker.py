"""Rankers: train one on judged lists, score lists by it, and save and load it as one file.

A ranker scores items by their features, or by topic and item. The file is safetensors: weights, feature scaling and the
names of topics and items are tensors, everything else is JSON in the header. Loading it executes no code from the file.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound import _version
from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists, Run, chosen_features, no_features
from rankbound.lists import ArrayLike, Lists, as_tensor, on_cpu
from rankbound.losses import loss
from rankbound.metrics import evaluate, metric
from rankbound.texts import LONGEST_VALUE, derive_seed, quantity, require_one_of, shortened
from rankbound.training.models import ROWS_AT_ONCE, Factorization, ScaledFeatures, Scaling, score_pairs
from rankbound.training.recipe import FACTORIZATION, UNKNOWN, Recipe
from rankbound.training.splits import require_apart
from rankbound.training.trainer import LAST, Epoch, Learner, Part, Scorer, train

if TYPE_CHECKING:
    from rankbound.training.factorisation import Vocabulary

HEADER = "rankbound"
"""The key of the header in a file's metadata."""

FORMAT = "ranker/1"
"""The version of the header's content."""

WEIGHTS = "model."
"""The prefix of the names of the model's tensors."""

VALIDATION = "validation"


@on_cpu
@torch.inference_mode(mode=False)
@torch.enable_grad()
def train_ranker(
    lists: JudgedLists,
    validation: JudgedLists | None = None,
    *,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    **recipe: Any,
) -> "Ranker":
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
    criterion = metric(chosen.metric)
    if not criterion.higher_is_better:
        raise ValueError(f"metric {chosen.metric}: lower is better; expected a metric whose higher values are better")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device: found {device}, but PyTorch finds no GPU here; expected auto or cpu")
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    for given in (lists,) if validation is None else (lists, validation):
        if not isinstance(given, JudgedLists):
            raise ValueError(
                f"lists: found {type(given).__name__}, expected judged lists, which rankbound.read_lists returns for a "
                "file or a data frame"
            )
    generator = torch.Generator().manual_seed(derive_seed("ranker", chosen.seed))
    model: nn.Module
    score: Scorer
    vocabulary: Vocabulary | None = None
    none = torch.zeros(0, dtype=torch.float32)
    scaling = Scaling("none", none, none)
    if chosen.model == FACTORIZATION:
        from rankbound.training.factorisation import pair_inputs, score_part

        score = score_part
        training, held_out, model, vocabulary = pair_inputs(lists, validation, chosen, generator)
    else:
        training, held_out = _parts(lists, validation, chosen)
        scaling = Scaling.fitted(chosen.scale, column_tensor(lists.features, "features"), training.items)
        score = _scorer(scaling, lists, validation, where)
        model = chosen.build(len(lists.feature_names), generator)
    _require_orders(training)
    if not bool(objective.informative(training.relevance, training.lists).any()):
        raise DataError(f"no training topic is informative for the loss {chosen.loss}")
    if held_out is not None:
        # The metric is undefined on lists by their relevance labels alone, whatever the scores.
        zeros = torch.zeros(held_out.lists.n_items)
        values = evaluate([criterion], zeros, held_out.relevance, held_out.lists.offsets)[str(criterion)]
        if bool(values.isnan().all()):
            raise DataError(f"{criterion} is undefined on all validation topics: none has a relevant item")
    name, measured = (LAST, training) if held_out is None else (VALIDATION, held_out)
    (trained,) = train(
        [Learner(model.to(where), score, _moved(training, where), {name: _moved(measured, where)}, generator)],
        objective,
        learning_rate=chosen.learning_rate,
        epochs=chosen.epochs,
        batch_size=chosen.batch_size,
        monitored=[criterion],
        selections={} if held_out is None else {VALIDATION: criterion},
        on_epoch=on_epoch,
    )
    best = trained.selected[name]
    model.load_state_dict(best.weights)
    record = {
        "epoch": best.epoch,
        "validation": None if held_out is None else best.score,
        "training_topics": len(training.lists),
        "validation_topics": 0 if held_out is None else len(held_out.lists),
        "training_items": training.lists.n_items,
        "versions": {"rankbound": _version.__version__, "torch": torch.__version__},
    }
    names = list(lists.feature_names) if vocabulary is None else []
    return Ranker(chosen, names, scaling, model.cpu(), record, vocabulary)


def load(path: str | os.PathLike[str]) -> "Ranker":
    """Load a ranker that `Ranker.save` or `rankbound train` wrote.

    Args:
        path: the file, `.safetensors`; nothing in it is executed.

    Returns:
        The ranker.

    Raises:
        DataError: the file is missing, damaged, or not a ranker.

    >>> ranker = rb.load("model.safetensors")  # doctest: +SKIP
    """
    header, tensors = _read(path)
    try:
        if header["recipe"].get("kernel", "sigmoid") != "sigmoid":
            raise ValueError(
                f"kernel: found {header['recipe']['kernel']}, expected sigmoid, the only smooth step of this version"
            )
        settings = {setting.name: header["recipe"].get(setting.name, setting.default) for setting in fields(Recipe)}
        recipe = Recipe(**{**settings, "hidden": tuple(settings["hidden"])})
        names = header["feature_names"]
        if not isinstance(names, list) or {*map(type, names)} - {str} or len({*names}) < len(names):
            raise ValueError("feature_names should be a list of distinct names")
        scaling = Scaling(recipe.scale, tensors["scaling.shift"], tensors["scaling.factor"])
        n_scaled = len(names) if recipe.scale == "standard" else 0
        if not scaling.shift.shape == scaling.factor.shape == (n_scaled,):
            raise ValueError(f"the scaling is of {tuple(scaling.shift.shape)} features, not of {n_scaled}")
        vocabulary = None
        if recipe.model == FACTORIZATION:
            from rankbound.training.factorisation import Vocabulary

            vocabulary = Vocabulary.from_tensors(tensors)
        text = {} if vocabulary is None else vocabulary.tensors()
        for name, tensor in tensors.items():
            if name not in text and (tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all())):
                raise ValueError(
                    f"{name} is {tensor.dtype} with {tensor.numel()} values; expected finite torch.float32"
                )
        weights = {name.removeprefix(WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
        model: nn.Module
        # Without memory, as a header may claim any width.
        with torch.device("meta"):
            if vocabulary is not None:
                model = Factorization(len(vocabulary.topics), len(vocabulary.items), recipe.factors, bias=recipe.bias)
            elif len(recipe.hidden) > len(weights):
                raise ValueError(f"the recipe has {len(recipe.hidden)} hidden layers, the file {len(weights)} tensors")
            else:
                model = recipe.build(len(names))
        model.load_state_dict(weights, assign=True)
        return Ranker(recipe, names, scaling, model, dict(header["record"]), vocabulary)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise DataError(f"{path}: a ranker whose parts don't fit each other ({error}); train it again") from error


@dataclass(frozen=True, eq=False)
class Ranker:
    """A trained model with what it reads, as `rankbound.train_ranker` and `rankbound.load` return it.

    Args:
        recipe: the settings of the training.
        feature_names: the features' names, in the order of the model's inputs.
        scaling: the scaling of the features.
        model: the model of scaled features, or of the indices of topics and items.
        record: epoch, validation metric, counts and versions of the training.
        vocabulary: the topics and items of a factorisation, which has no features; otherwise none.

    >>> columns = {"topics": ["q"], "items": ["a", "b"], "relevance": [2, 0], "offsets": [0, 2]}
    >>> lists = rb.JudgedLists(**columns, features=np.float32([[1], [0]]), feature_names=["length"])
    >>> ranker = rb.train_ranker(lists, learning_rate=0.1, validation_share=0)
    >>> ranker.score(lists.features).argsort()
    array([1, 0])
    """

    recipe: Recipe
    feature_names: Sequence[str]
    scaling: Scaling
    model: nn.Module
    record: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: "Vocabulary | None" = None

    def score(self, features: Any, offsets: ArrayLike | None = None) -> Any:
        """Return the scores of items; higher is better.

        Args:
            features: `(n_items, d)`, an array with columns in the order of `feature_names`, or a data frame (polars or
                pandas), whose columns are matched by name; others are not read.
            offsets: `(n_lists + 1,)`, the lists' limits; only `query` scaling needs them.

        Returns:
            A NumPy array `(n_items,)`, or a tensor if `features` is one.

        Raises:
            ValueError: wrong number of features, a column that is missing, features or scores that are not finite,
                missing offsets, or a ranker that is a factorisation.
        """
        if self.vocabulary is not None:
            raise ValueError(
                "features: this ranker is a factorisation, which reads topics and items; expected score_lists(lists)"
            )
        if hasattr(features, "columns") and not hasattr(features, "column_names"):
            places = {str(name): name for name in features.columns}
            missing = next((name for name in self.feature_names if name not in places), None)
            if missing is not None:
                known = shortened(", ".join(self.feature_names), LONGEST_VALUE)
                raise ValueError(
                    f"features: the data frame has no column {missing!r}; expected columns with the names of the "
                    f"ranker's features ({known}), or an array with columns in that order"
                )
            rows = column_tensor(features[[places[name] for name in self.feature_names]], "features").contiguous()
        else:
            rows = features if isinstance(features, Tensor) else column_tensor(features, "features")
        if rows.dim() != 2 or rows.shape[1] != len(self.feature_names):
            raise ValueError(
                f"features: found shape {tuple(rows.shape)}, expected (n_items, {len(self.feature_names)})"
            )
        lists = None if offsets is None else Lists.checked(offsets, len(rows), rows.device)
        scaled = ScaledFeatures(self.scaling, rows.to(torch.float32), lists)
        self.model.eval().to(rows.device)
        blocks = []
        for first in range(0, max(len(rows), 1), ROWS_AT_ONCE):
            block = slice(first, first + ROWS_AT_ONCE)
            finite = torch.isfinite(rows[block])
            if not bool(finite.all()):
                item, column = torch.nonzero(~finite)[0].tolist()
                name, found = self.feature_names[column], rows[first + item, column].item()
                raise ValueError(
                    f"features: found {found} at item {first + item}, feature {name!r}, expected finite numbers"
                )
            with torch.no_grad():
                blocks.append(self.model(scaled.of_rows(block)))
        scores = _finite(torch.cat(blocks))
        return scores if isinstance(features, Tensor) else scores.numpy()

    def score_lists(self, lists: JudgedLists, unknown: str | None = None) -> Run:
        """Return the run of judged lists, whose features, or topics and items, are matched by name.

        Args:
            lists: judged lists with all features of the ranker, in any order; a factorisation reads no features.
            unknown: for a factorisation, `refuse` or `mean` for topics and items that it was not trained on, as in
                `rankbound.Recipe`; by default, the recipe's.

        Returns:
            The run, with the topics and items of the lists.

        Raises:
            DataError: a feature, topic or item is missing; the message names it.
            ValueError: as `score`, or another value of `unknown`.
        """
        if self.vocabulary is None:
            missing = next((name for name in self.feature_names if name not in lists.feature_names), None)
            if missing is not None:
                raise DataError(
                    f"lists: there is no feature {missing!r}, which the ranker was trained with: read them by "
                    "read_lists(source, features=ranker.feature_names)"
                )
            # Their row-major order is kept: the memory layout affects the last digits of scores.
            scores = self.score(chosen_features(lists, self.feature_names, "lists").features, lists.offsets)
        else:
            policy = self.recipe.unknown if unknown is None else unknown
            require_one_of("unknown", policy, UNKNOWN)
            topics, items = self.vocabulary.known_indices(lists, policy)
            topic_of_item = torch.from_numpy(np.repeat(topics, np.diff(lists.offsets)))
            assert isinstance(self.model, Factorization)
            scores = _finite(score_pairs(self.model.cpu(), topic_of_item, torch.from_numpy(items))).numpy()
        return Run(topics=lists.topics, items=lists.items, scores=scores, offsets=lists.offsets)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker as one safetensors file, atomically.

        Args:
            path: the file, `.safetensors`.
        """
        from rankbound.io.models import UNSEALED, write_sealed

        header = {
            "format": FORMAT,
            "recipe": asdict(self.recipe),
            "feature_names": list(self.feature_names),
            "record": dict(self.record),
            "seal": UNSEALED,
        }
        tensors = {f"{WEIGHTS}{name}": tensor.cpu() for name, tensor in self.model.state_dict().items()}
        tensors |= {"scaling.shift": self.scaling.shift.cpu(), "scaling.factor": self.scaling.factor.cpu()}
        if self.vocabulary is not None:
            tensors |= self.vocabulary.tensors()
        write_sealed(tensors, path, {HEADER: json.dumps(header, sort_keys=True)})


def _finite(scores: Tensor) -> Tensor:
    """Return the scores; ValueError for the first that is not finite."""
    if not bool(torch.isfinite(scores).all()):
        item = int(torch.nonzero(~torch.isfinite(scores))[0])
        raise ValueError(
            f"scores: found {scores[item].item()} at item {item}, expected finite numbers: the model's weights are "
            "too large for these features, or the features for the model; train it again"
        )
    return scores


def _parts(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the lists to train on, and those to select the epoch on, by default a share of the topics.

    The items of both are rows of the features of their own lists. DataError if the lists do not fit each other.
    """
    if not lists.feature_names:
        raise DataError(
            no_features(lists.left_out, f", which model {recipe.model} reads")
            + f"; from topics and items alone, train model {FACTORIZATION}"
        )
    whole = _part(lists)
    if validation is not None:
        if list(validation.feature_names) != list(lists.feature_names):
            raise DataError(
                "the validation lists have other features than the training lists: read them by "
                "read_lists(source, features=lists.feature_names), also where a LETOR file ends with another index"
            )
        require_apart({"training": lists, "validation": validation}, by_item=False)
        return whole, _part(validation)
    if recipe.validation_share == 0:
        return whole, None
    count = len(whole.lists)
    if count < 2:
        raise DataError(
            f"found {quantity(count, 'topic')}, expected two or more, to train and to validate; or a share of 0"
        )
    held = min(max(round(recipe.validation_share * count), 1), count - 1)
    shuffled = torch.randperm(count, generator=torch.Generator().manual_seed(derive_seed("validation", recipe.seed)))
    training, held_out = (
        replace(whole.batch(index), names=[whole.names[at] for at in index.tolist()])
        for index in (shuffled[held:].sort().values, shuffled[:held].sort().values)
    )
    return training, held_out


def _part(lists: JudgedLists) -> Part:
    relevance, topics = as_tensor(lists.relevance, "relevance"), torch.arange(len(lists.topics))
    limits = Lists(as_tensor(lists.offsets, "offsets"))
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, limits)


def _scorer(scaling: Scaling, lists: JudgedLists, validation: JudgedLists | None, device: torch.device) -> Scorer:
    """Return the scorer of the rows of lists by their scaled features, with gradients, and of the validation lists."""

    def scaled(lists: JudgedLists) -> ScaledFeatures:
        limits = Lists(as_tensor(lists.offsets, "offsets").to(device))
        return ScaledFeatures(scaling, column_tensor(lists.features, "features").to(device), limits)

    trained_on = scaled(lists)
    measured_on = trained_on if validation is None else scaled(validation)

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            scores: Tensor = model(trained_on.of_rows(part.items))
            return scores
        return torch.cat([model(measured_on.of_rows(rows)) for rows in torch.split(part.items, ROWS_AT_ONCE)])

    return score


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


def _moved(part: Part, device: torch.device) -> Part:
    topics, items, relevance = (values.to(device) for values in (part.topics, part.items, part.relevance))
    return Part(part.names, topics, items, relevance, Lists(part.lists.offsets.to(device)))


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors import SafetensorError, safe_open

    from rankbound.io.models import check_seal

    check_seal(path, "take another copy of it, or train it again")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        missing = isinstance(error, FileNotFoundError)
        reason = "there is no such file" if missing else f"not a safetensors file ({error})"
        raise DataError(f"{path}: {reason}; expected a model that `rankbound train` wrote") from error
    try:
        header = json.loads(metadata.get(HEADER, "{}"))
    except (ValueError, RecursionError):
        header = {}
    format_name = header.get("format") if isinstance(header, dict) else None
    if format_name != FORMAT:
        raise DataError(f"{path}: found {format_name or 'no header of a ranker'}, expected a ranker ({FORMAT})")
    return header, tensors
