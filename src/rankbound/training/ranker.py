"""Rankers: train one on judged lists, score lists by it, and save and load it as one file.

A ranker scores items by their features, or by topic and item. The file is safetensors: weights, feature scaling and the
names of topics and items are tensors, everything else is JSON in the header. Loading it executes no code from the file.
"""

import io
import json
import logging
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound import _version
from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.atomic import atomic_path
from rankbound.io.files import kind_of, needs_extra, read_lists
from rankbound.io.judged import JudgedLists, Qrels, Run, chosen_features
from rankbound.lists import ArrayLike, Lists, as_tensor, on_cpu
from rankbound.metrics import evaluate, metric
from rankbound.rankers.ensembles import Trees
from rankbound.texts import LONGEST_VALUE, derive_seed, shortened
from rankbound.training import models
from rankbound.training.fitted import fit, objective_of
from rankbound.training.inputs import Encoding, feature_scorer, moved, require_orders, training_parts, weighted
from rankbound.training.recipe import (
    COUNTED,
    FACTORIZATIONS,
    FITTED_MODELS,
    PAIR_MODELS,
    TREES,
    Recipe,
    build,
    build_factors,
    learning_rate_of,
    recipe_of,
)
from rankbound.training.trainer import LAST, Draw, Epoch, Learner, Scorer, threads_for, train

if TYPE_CHECKING:
    from rankbound.training.pairs import Vocabulary

HEADER = "rankbound"
"""The key of the header in a file's metadata."""

FORMAT = "ranker/1"
"""The version of the header's content that any reader knows."""

ENCODED = "ranker/2"
"""That of a ranker whose features are not its model's inputs: earlier readers would take categories for numbers."""

WEIGHTS = "model."
"""The prefix of the names of the model's tensors."""

FILL = "encoding.fill"
"""The name of the tensor of what stands for missing values."""

VALIDATION = "validation"

# On MQ2008, with 30 steps an epoch, a network's best epoch may come 60 epochs after the second best.
PATIENT_STEPS = 2_000

FEATURES = "features"
"""The key of the features' names, as JSON, in the metadata of an exported file."""


@on_cpu
@torch.inference_mode(mode=False)
@torch.enable_grad()
def train_ranker(
    lists: JudgedLists,
    validation: JudgedLists | None = None,
    *,
    weights: ArrayLike | None = None,
    list_weights: ArrayLike | None = None,
    device: str = "auto",
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    **recipe: Any,
) -> "Ranker":
    """Train a ranker, as in `train_ranker(lists, loss="nDCG", bound="min-max", model="mlp")`.

    The ranker has the weights of the epoch with the best validation metric, the first one on ties. Validation topics
    are not trained on. Weights are those of the loss; the metric has none.

    Args:
        lists: judged lists, such as `read_lists` returns.
        validation: judged lists with the same features; by default, `validation_share` of the topics is held out.
        weights, list_weights: `(n_items,)` and `(n_lists,)`, those of the items and of the lists of `lists`; by
            default, those that the lists have, which `read_lists` takes from the columns of these arguments.
        device: `auto` (a GPU if there is one), `cpu` or `cuda`.
        on_epoch: called after every epoch, to show progress.
        recipe: the fields of `rankbound.Recipe`.

    Returns:
        The ranker, which scores lists and can be saved.

    Raises:
        ValueError: unknown loss, bound or metric, a setting out of range, `lists` that are no judged lists, a device
            that is not there, missing values that are refused, or weights of items for a loss that has none.
        DataError: no training list is informative, or the metric is undefined on all validation topics.
        TrainingError: a loss or score is not finite.

    >>> ranker = rb.train_ranker(rb.read_lists("train.csv"), loss="nDCG", bound="min-max")  # doctest: +SKIP
    """
    chosen = recipe_of(recipe)
    objective = objective_of(chosen)
    criterion = metric(chosen.metric)
    if not criterion.higher_is_better:
        raise ValueError(f"metric {chosen.metric}: lower is better; expected a metric whose higher values are better")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device: found {device}, but PyTorch finds no GPU here; expected auto or cpu")
    where = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    # What is fitted without gradients is fitted on the CPU.
    where = torch.device("cpu") if chosen.model in FITTED_MODELS else where
    for given in (lists,) if validation is None else (lists, validation):
        if not isinstance(given, JudgedLists):
            raise ValueError(f"lists: found {type(given).__name__}, expected judged lists, which read_lists returns")
    lists = weighted(lists, weights, list_weights, chosen)
    if chosen.model in COUNTED:
        return _counted(lists, validation, chosen)
    generator = torch.Generator().manual_seed(derive_seed("ranker", chosen.seed))
    model: nn.Module
    score: Scorer
    vocabulary: Vocabulary | None = None
    draw: Draw | None = None
    scaling, encoding = models.Scaling.fitted("none", torch.zeros(0, dtype=torch.float32)), Encoding()
    if chosen.model in FACTORIZATIONS:
        from rankbound.training.pairs import pair_inputs, score_part

        score = score_part
        training, draw, held_out, model, vocabulary = pair_inputs(lists, validation, chosen, generator)
    else:
        training, held_out = training_parts(lists, validation, chosen)
        features = column_tensor(lists.features, "features")
        encoding = Encoding.fitted(chosen.missing_features, lists, features, training.items)
        scaling = models.Scaling.fitted(chosen.scale, features, training.items, encoding.encoder(lists.categories))
        score = feature_scorer(encoding, scaling, lists, validation, where)
        model = build(chosen, len(encoding.inputs), generator)
    require_orders(training)
    informative = objective.informative(training.relevance, training.lists)
    if not bool(informative.any()):
        raise DataError(f"no training topic is informative for the loss {chosen.loss}")
    for name, own in (("weights", training.weights), ("list_weights", training.list_weights)):
        if own is not None and not bool(own[informative if name == "list_weights" else slice(None)].any()):
            raise DataError(f"{name}: all those of the informative training topics are 0")
    if held_out is not None:
        # The metric is undefined on lists by their relevance labels alone, whatever the scores.
        zeros = torch.zeros(held_out.lists.n_items)
        values = evaluate([criterion], zeros, held_out.relevance, held_out.lists.offsets)[str(criterion)]
        if bool(values.isnan().all()):
            raise DataError(f"{criterion} is undefined on all validation topics: none has a relevant item")
    record = _record(lists, vocabulary, training.lists, None if held_out is None else held_out.lists)
    names = list(lists.feature_names) if vocabulary is None else []
    if chosen.model in FITTED_MODELS:
        counted = informative if training.list_weights is None else informative & (training.list_weights > 0)
        used = training.batch(torch.nonzero(counted).squeeze(1))
        model, found = fit(chosen, objective, used, held_out, score, criterion, on_epoch)
        return Ranker(chosen, names, scaling, model, record | found, vocabulary, encoding)
    name, measured = (LAST, training) if held_out is None else (VALIDATION, held_out)
    rate = learning_rate_of(chosen, training.lists.n_items)
    steps = math.ceil(len(training.lists) / chosen.batch_size)
    patience = max(10, math.ceil(PATIENT_STEPS / steps)) if chosen.patience is None else chosen.patience
    source = moved(training, where) if draw is None else lambda: moved(draw(), where)
    shuffled = draw is None or chosen.negative_sampling != "in-batch"
    (trained,) = train(
        [Learner(model.to(where), score, source, {name: moved(measured, where)}, generator, shuffled)],
        objective,
        learning_rate=rate,
        epochs=chosen.epochs,
        batch_size=chosen.batch_size,
        monitored=[criterion],
        selections={} if held_out is None else {VALIDATION: criterion},
        patience=patience,
        on_epoch=on_epoch,
    )
    best = trained.selected[name]
    model.load_state_dict(best.weights)
    validated = None if held_out is None else best.score
    record |= {"epoch": best.epoch, "epochs": len(trained.epochs), "validation": validated, "learning_rate": rate}
    part = "training" if held_out is None else VALIDATION
    curve = [epoch.metrics[name][str(criterion)] for epoch in trained.epochs]
    record |= {"curves": {"loss": [epoch.loss for epoch in trained.epochs], part: curve}}
    return Ranker(chosen, names, scaling, model.cpu(), record, vocabulary, encoding)


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
        recipe = recipe_of({**header["recipe"], "hidden": tuple(header["recipe"]["hidden"])})
        names = header["feature_names"]
        if not isinstance(names, list) or {*map(type, names)} - {str} or len({*names}) < len(names):
            raise ValueError("feature_names should be a list of distinct names")
        scaling = models.Scaling(recipe.scale, tensors["scaling.shift"], tensors["scaling.factor"])
        encoding = Encoding(names=names)
        if header["format"] == ENCODED:
            encoding = Encoding.of_file(names, header["encoding"], tensors[FILL])
        n_scaled = len(encoding.inputs) if recipe.scale == "standard" else 0
        if not scaling.shift.shape == scaling.factor.shape == (n_scaled,):
            raise ValueError(f"the scaling is of {tuple(scaling.shift.shape)} features, not of {n_scaled}")
        vocabulary = None
        if recipe.model in PAIR_MODELS:
            from rankbound.training.pairs import Vocabulary

            vocabulary = Vocabulary.from_tensors(tensors)
        # Indices and texts, which are checked where a model is restored.
        whole = dict.fromkeys(COUNTED, ("near", "offsets", "items")) | dict.fromkeys(TREES, ("trees",))
        exempt = {f"{WEIGHTS}{name}" for name in {**whole, "rankboost": ("features",)}.get(recipe.model, ())}
        exempt |= set() if vocabulary is None else {*vocabulary.tensors()}
        for name, tensor in tensors.items():
            if name not in exempt and (tensor.dtype != torch.float32 or not bool(torch.isfinite(tensor).all())):
                raise ValueError(f"{name} is {tensor.dtype} with {tensor.numel()} values, expected finite float32")
        weights = {name.removeprefix(WEIGHTS): tensor for name, tensor in tensors.items() if name.startswith(WEIGHTS)}
        model: nn.Module
        # Without memory, as a header may claim any width.
        with torch.device("meta"):
            if vocabulary is not None and recipe.model in COUNTED:
                model = models.restored_counted(recipe.model, weights, len(vocabulary.topics), len(vocabulary.items))
            elif recipe.model == "rankboost":
                model = models.Steps.restored(weights, len(encoding.inputs))
            elif recipe.model in TREES:
                model = Trees.restored(weights, len(encoding.inputs))
            elif recipe.model != "matrix-factorization" and len(recipe.hidden) > len(weights):
                raise ValueError(f"the recipe has {len(recipe.hidden)} hidden layers, the file {len(weights)} tensors")
            elif vocabulary is not None:
                model = build_factors(recipe, len(vocabulary.topics), len(vocabulary.items))
            elif recipe.model == "attention" and recipe.blocks > len(weights):
                raise ValueError(f"the recipe has {recipe.blocks} blocks, the file {len(weights)} tensors")
            else:
                model = build(recipe, len(encoding.inputs))
        model.load_state_dict(weights, assign=True)
        return Ranker(recipe, names, scaling, model, dict(header["record"]), vocabulary, encoding)
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
        encoding: how features become the model's inputs; by default, they are.

    >>> columns = {"topics": ["q"], "items": ["a", "b"], "relevance": [2, 0], "offsets": [0, 2]}
    >>> lists = rb.JudgedLists(**columns, features=np.float32([[1], [0]]), feature_names=["length"])
    >>> ranker = rb.train_ranker(lists, learning_rate=0.1, validation_share=0)
    >>> ranker.score(lists.features).argsort()
    array([1, 0])
    """

    recipe: Recipe
    feature_names: Sequence[str]
    scaling: models.Scaling
    model: nn.Module
    record: Mapping[str, Any] = field(default_factory=dict)
    vocabulary: "Vocabulary | None" = None
    encoding: Encoding = field(default_factory=Encoding)

    @property
    def info(self) -> dict[str, Any]:
        """What a service tells about the model that it serves, for JSON: what it reads, and how it came about.

        `training` has a digest of what was trained on, by which two models of the same lists are known.
        """
        of_record = ("training_topics", "training_items", "digest")
        return {
            **{name: self.record.get(name) for name in ("versions", "epoch", "validation")},
            "format": self._format,
            **{name: getattr(self.recipe, name) for name in ("loss", "bound", "model", "metric")},
            "features": list(self.feature_names),
            "categories": {name: len(known) for name, known in self.encoding.categories.items()},
            "missing_features": self.encoding.missing,
            "training": {name.removeprefix("training_"): self.record.get(name) for name in of_record},
        }

    @property
    def _format(self) -> str:
        return FORMAT if self.encoding.is_plain else ENCODED

    def score(self, features: Any, offsets: ArrayLike | None = None) -> Any:
        """Return the scores of items; higher is better.

        Args:
            features: a table with a row per item, a data frame, the path of a CSV or parquet file, or a dictionary of
                columns, whose columns are matched by name, while others are not read; judged lists or another file of
                them; or an array `(n_items, d)` of numbers with columns in the order of `feature_names`.
            offsets: `(n_lists + 1,)`, the lists' limits, which `query` scaling and the model `attention` need: the
                scores of an item are those in its whole list.

        Returns:
            A NumPy array `(n_items,)`, in the order of the rows, or a tensor if `features` is one.

        Raises:
            ValueError: wrong number of features, a column that is missing, features or scores that are not finite,
                missing offsets, or a ranker without features, such as a factorisation.
            DataError: a column has a value that the ranker cannot read; the message names it.
        """
        if self.vocabulary is not None:
            raise ValueError(f"features: a {self.recipe.model} reads topics and items: call score_lists(lists)")
        is_file = isinstance(features, str | os.PathLike)
        if isinstance(features, Qrels) or (is_file and kind_of(features) != "rows"):
            return self.score_lists(features).scores
        rows, categories = self._rows(features)
        if rows.dim() != 2 or rows.shape[1] != len(self.feature_names):
            raise ValueError(
                f"features: found shape {tuple(rows.shape)}, expected (n_items, {len(self.feature_names)})"
            )
        lists = None if offsets is None else Lists.checked(offsets, len(rows), rows.device)
        scores = self._scores(rows.to(torch.float32), lists, categories)
        return scores if isinstance(features, Tensor) else scores.numpy()

    def _rows(self, features: Any) -> tuple[Tensor, Mapping[str, Sequence[str]]]:
        """Return the features of a table's rows, or an array, and the categories in them."""
        known = self.encoding.categories
        # A lazy frame of polars computes its columns whenever it is asked for them.
        features = features.collect() if hasattr(features, "collect") else features
        by_name = hasattr(features, "columns") or hasattr(features, "column_names")
        by_name |= isinstance(features, str | os.PathLike | Mapping)
        # Rows that are dictionaries.
        by_name |= isinstance(features, Sequence) and len(features) > 0 and isinstance(features[0], Mapping)
        if isinstance(features, Tensor | np.ndarray) or not by_name:
            if known:
                raise ValueError(
                    f"features: found {type(features).__name__}, expected a data frame with columns by name: the "
                    f"features {shortened(', '.join(known), LONGEST_VALUE)} have categories"
                )
            return features if isinstance(features, Tensor) else column_tensor(features, "features"), {}
        if hasattr(features, "columns") and not hasattr(features, "column_names") and not known:
            places = {str(name): name for name in features.columns}
            if all(name in places for name in self.feature_names):
                # Numbers alone take a tenth of the time so.
                with suppress(ValueError):
                    own = features[[places[name] for name in self.feature_names]]
                    return column_tensor(own, "features").contiguous(), {}
        with needs_extra("data"):
            from rankbound.io.tables import read_features
        rows, categories = read_features(features, self.feature_names, list(known), self.encoding.missing != "refuse")
        return torch.from_numpy(rows), categories

    def _scores(self, rows: Tensor, lists: Lists | None, categories: Mapping[str, Sequence[str]]) -> Tensor:
        scaled = models.ScaledFeatures(self.scaling, rows, lists, self.encoding.encoder(categories))
        # Threads may score at once; moving a model that is there already takes a fifth of the time of a query.
        if self.model.training or next(iter(self.model.state_dict().values())).device != rows.device:
            self.model.eval().to(rows.device)
        blocks = []
        with threads_for([self.model], len(rows)), torch.no_grad():
            for block, own in models.row_blocks(self.model, len(rows), lists):
                self.encoding.require(rows[block], self.feature_names, block.start)
                blocks.append(models.score_rows(self.model, scaled.of_rows(block), own))
        return _finite(torch.cat(blocks))

    def score_lists(self, lists: Any, unknown: str | None = None, **columns: Any) -> Run:
        """Return the run of lists, whose features, or topics and items, are matched by name.

        Args:
            lists: judged lists with all features of the ranker, in any order, or what `read_lists` reads: a path or a
                data frame, with or without relevance labels, which are not read. A factorisation reads no features.
            unknown: for a factorisation, `refuse` or `mean` for topics and items that it was not trained on, as in
                `rankbound.Recipe`; by default, the recipe's.
            columns: `topic`, `item`, `relevance` and `groups` of a path or data frame, as in `read_lists`.

        Returns:
            The run, with the topics and items of the lists.

        Raises:
            DataError: a feature, topic or item is missing; the message names it. Or as `read_lists`.
            ValueError: as `score`, or another value of `unknown`.
        """
        if not isinstance(lists, Qrels):
            kept = "refuse" if self.encoding.missing == "refuse" else "keep"
            names = dict[str, Any](features=self.feature_names, categorical=list(self.encoding.categories))
            lists = read_lists(lists, **columns, **names, labelled=None, missing_features=kept)
        elif columns:
            raise ValueError(f"{next(iter(columns))}: found beside judged lists, whose columns were named when read")
        if self.vocabulary is None:
            missing = next((name for name in self.feature_names if name not in lists.feature_names), None)
            if missing is not None:
                raise DataError(
                    f"lists: there is no feature {missing!r}, which the ranker was trained with: read them by "
                    "read_lists(source, features=ranker.feature_names)"
                )
            # Their row-major order is kept: the memory layout affects the last digits of scores.
            own = chosen_features(lists, self.feature_names, "lists")
            rows, limits = column_tensor(own.features, "features"), Lists(as_tensor(own.offsets, "offsets"))
            scores = self._scores(rows.to(torch.float32), limits, own.categories).numpy()
        else:
            from rankbound.training.pairs import policy_of

            topics, items = self.vocabulary.known_indices(lists, policy_of(self, unknown))
            topic_of_item = torch.from_numpy(np.repeat(topics, np.diff(lists.offsets)))
            if isinstance(self.model, models.Factorization):
                scores = _finite(models.score_pairs(self.model.cpu(), topic_of_item, torch.from_numpy(items))).numpy()
            else:
                given = map(torch.from_numpy, (topics, items, lists.offsets))
                scores = models.score_listed(self.model, *given).numpy()
        return Run(topics=lists.topics, items=lists.items, scores=scores, offsets=lists.offsets)

    def recommend(
        self,
        topics: Sequence[str] | Qrels | None = None,
        k: int = 10,
        *,
        exclude: Qrels | Sequence[Qrels] = (),
        unknown: str | None = None,
    ) -> Run:
        """Return the `k` best of all items that the ranker was trained on, for each of some topics (users).

        Items of equal scores are in the order of their names. Items that the ranker was not trained on are never
        recommended. Only a block of topics by items is in memory at once.

        Args:
            topics: their names, or lists of them; by default, all that the ranker was trained on.
            k: the number of items for each topic; fewer, if all others are excluded.
            exclude: judged lists, one or several, whose items are not recommended to their topics: the training lists,
                unless an item may come again.
            unknown: `refuse` for topics that the ranker was not trained on, or `mean` for the mean of the scores over
                all others; by default, the recipe's.

        Returns:
            The run, each topic's items by descending score.

        Raises:
            DataError: a topic is unknown; the message names it.
            ValueError: for a ranker of features, a topic that occurs twice, no items to recommend, or another value of
                `unknown`.
        """
        from rankbound.training.pairs import recommend

        return recommend(self, topics, k, exclude, unknown)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranker as one safetensors file, atomically.

        Args:
            path: the file, `.safetensors`.
        """
        from rankbound.io.models import UNSEALED, write_sealed

        header = {
            "format": self._format,
            "recipe": asdict(self.recipe),
            "feature_names": list(self.feature_names),
            "record": dict(self.record),
            "seal": UNSEALED,
        }
        tensors = {f"{WEIGHTS}{name}": tensor.cpu() for name, tensor in self.model.state_dict().items()}
        tensors |= {"scaling.shift": self.scaling.shift.cpu(), "scaling.factor": self.scaling.factor.cpu()}
        if not self.encoding.is_plain:
            header["encoding"], tensors[FILL] = self.encoding.header(), self.encoding.fill
        if self.vocabulary is not None:
            tensors |= self.vocabulary.tensors()
        write_sealed(tensors, path, {HEADER: json.dumps(header, sort_keys=True)})

    def export(self, path: str | os.PathLike[str]) -> None:
        """Write the model with its scaling as one graph, which programs run without this library, atomically.

        The graph maps `features`, `(n_items, d)` of float32 as `score` reads them, for any number of items, to
        `scores`, `(n_items,)`. Missing values are NaN if the ranker was trained to read them. With `query` scaling, the
        items of a call are one list. The graph checks nothing: where `score` refuses, it returns some scores.

        Args:
            path: the file: `.onnx` for ONNX, which needs the extra `export`, or `.pt2` for `torch.export.load`.

        Raises:
            ValueError: another ending, features with categories, or a model that is none of a linear function of them,
                an `mlp` and `rankboost`.
            RankboundError: a library of the extra `export` is missing.
            OutputError: the file could not be written.

        >>> rb.load("model.safetensors").export("model.onnx")  # doctest: +SKIP
        """
        kind, encoding = Path(path).suffix, self.encoding
        if not isinstance(self.model, models.MLP | models.Steps):
            raise ValueError(
                f"model: found {self.recipe.model}, expected a function of an item's features that PyTorch computes, "
                "as linear, mlp and rankboost are"
            )
        if kind not in (".onnx", ".pt2"):
            raise ValueError(f"path: found {os.fspath(path)!r}, expected a name with the ending .onnx or .pt2")
        if encoding.categories:
            raise ValueError(
                f"features: {shortened(', '.join(encoding.categories), LONGEST_VALUE)} have categories, which are "
                "texts; expected numbers alone: train with inputs that are encoded before"
            )
        # Of two items: PyTorch would take one for a size that never changes.
        example = torch.zeros(2, len(encoding.names), dtype=torch.float32, device="cpu")
        sizes = {"features": {0: torch.export.Dim("n_items", min=1)}}
        with torch.no_grad():
            graph = models.Graph(self.model, self.scaling, encoding.encoder({}))
            program = torch.export.export(graph, (example,), dynamic_shapes=sizes)
        names, content = json.dumps(list(encoding.names)), io.BytesIO()
        if kind == ".onnx":
            content.write(_onnx(program, names))
        else:
            torch.export.save(program, content, extra_files={FEATURES: names})
        with atomic_path(path) as temporary:
            temporary.write_bytes(content.getvalue())


def _onnx(program: Any, names: str) -> bytes:
    with needs_extra("export"):
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    names_of: dict[str, Any] = {"input_names": ["features"], "output_names": ["scores"]}
    # The warnings of PyTorch's exporter are about its own parts and about libraries that are not used.
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            written = torch.onnx.export(program, (), **names_of, opset_version=18, dynamo=True, verbose=False)
    finally:
        logger.setLevel(level)
    assert written is not None
    written.model.metadata_props[FEATURES] = names
    content: bytes = written.model_proto.SerializeToString()
    return content


def _counted(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> Ranker:
    """Return the ranker of a model without epochs, of the relevant pairs alone; the validation lists are measured."""
    from rankbound.training.pairs import counted_model

    model, vocabulary = counted_model(lists, validation, recipe)
    record = _record(lists, vocabulary, lists, validation)
    scaling = models.Scaling.fitted("none", torch.zeros(0, dtype=torch.float32))
    ranker = Ranker(recipe, [], scaling, model, record, vocabulary)
    if validation is not None:
        scores = ranker.score_lists(validation).scores
        values = evaluate(recipe.metric, scores, validation.relevance, validation.offsets)
        record["validation"] = next(iter(values.values())).nanmean().item()
    return ranker


def _record(
    lists: JudgedLists,
    vocabulary: "Vocabulary | None",
    training: JudgedLists | Lists,
    validation: JudgedLists | Lists | None,
) -> dict[str, Any]:
    """Return the record of a training without epochs, which has not been measured.

    The digest is the SHA-256 of what a model is trained on; for a factorisation, whatever the order of the rows.
    """
    if vocabulary is not None:
        from rankbound.training.pairs import sorted_pairs

        topics, items, order = sorted_pairs(lists, vocabulary)
        names: list[Any] = [sorted(lists.topics), vocabulary.items.to_list()]
        columns: list[Any] = [topics, items, lists.relevance[order]]
    else:
        names = [lists.topics, lists.feature_names, sorted(lists.categories.items())]
        columns = [lists.offsets, lists.relevance, lists.weights, lists.list_weights]
    digest = sha256(json.dumps(names, default=list).encode())
    for values in columns:
        digest.update(b"-" if values is None else np.ascontiguousarray(values, np.float64).data)
    for first in range(0, len(lists.features) if vocabulary is None else 0, models.ROWS_AT_ONCE):
        digest.update(np.ascontiguousarray(lists.features[first : first + models.ROWS_AT_ONCE]).data)
    return {
        "epoch": 0,
        "validation": None,
        "training_topics": len(training),
        "validation_topics": 0 if validation is None else len(validation),
        "training_items": int(training.offsets[-1]),
        "digest": digest.hexdigest(),
        "versions": {"rankbound": _version.__version__, "torch": torch.__version__},
    }


def _finite(scores: Tensor) -> Tensor:
    """Return the scores; ValueError for the first that is not finite."""
    if not bool(torch.isfinite(scores).all()):
        item = int(torch.nonzero(~torch.isfinite(scores))[0])
        raise ValueError(
            f"scores: found {scores[item].item()} at item {item}, expected finite numbers: the model's weights are "
            "too large for these features, or the features for the model; train it again"
        )
    return scores


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the header and the tensors of a file; DataError for one that is damaged, or no ranker of this version."""
    from safetensors import SafetensorError, safe_open

    from rankbound.io.models import check_seal

    text, tensors, damage = "{}", dict[str, Tensor](), None
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            text = (file.metadata() or {}).get(HEADER, text)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        damage = error
    try:
        header = json.loads(text)
        found = header.get("format")
    except (ValueError, RecursionError, AttributeError):
        found = None
    (kind, _, version), known = str(found).partition("/"), (FORMAT, ENCODED)
    # A newer format may have another seal.
    if kind == "ranker" and version.isdecimal() and found not in known:
        raise DataError(
            f"{path}: found {found}, expected a ranker ({FORMAT} or {ENCODED}): a newer version of rankbound wrote it; "
            "update rankbound to load it"
        )
    check_seal(path, "take another copy of it, or train it again")
    if damage is not None:
        missing = isinstance(damage, FileNotFoundError)
        reason = "there is no such file" if missing else f"not a safetensors file ({damage})"
        raise DataError(f"{path}: {reason}; expected a model that `rankbound train` wrote") from damage
    if found not in known:
        raise DataError(f"{path}: found {found or 'no header of a ranker'}, expected a ranker ({FORMAT})")
    return header, tensors
