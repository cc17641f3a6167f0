"""What a ranker reads: parts of judged lists, checked, and their features as the inputs of a model.

Missing values are filled, and categories have an input each. What is fitted on the training items is kept in the ranker
and is the same for all that it scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rankbound.columns import column_tensor
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists, no_features
from rankbound.lists import Lists, as_tensor
from rankbound.texts import derive_seed, quantity, quoted
from rankbound.training.models import ROWS_AT_ONCE, Encoder, ScaledFeatures, Scaling, row_blocks, score_rows
from rankbound.training.recipe import CHOICES, FITTED_MODELS, PAIR_MODELS, Recipe
from rankbound.training.trainer import Part, Scorer

MOST_CATEGORIES = 1000

RARE = 1
"""The number of training items of a category up to which it shares the input of the unknown ones."""


@dataclass(frozen=True)
class Encoding:
    r"""The map from the features of items to the inputs of a model.

    A number is its own input. A category of a feature with K known ones is the K inputs $1[x = c_k]$, and one more for
    all others, if some training items have it: categories of a single training item, and those that are met later. If
    no training item has it, an unknown category is 0 in all inputs of its feature: an input that was 0 in training
    would have an arbitrary weight.

    A missing value is refused, or all inputs of its feature are 0 (`zero`), or their means over the training items that
    have a value (`mean`): the mean of the numbers, the shares of the categories. `indicator` is `mean` with one more
    input, 1 where the value is missing, for each feature that lacked one in training. The inputs are those of
    scikit-learn's `SimpleImputer` and of its `OneHotEncoder` with `handle_unknown="infrequent_if_exist"` and
    `min_frequency=2`.

    Args:
        missing: as `missing_features` of a recipe.
        names: the features' names.
        categories: the known categories of the features that have some, by the features' names.
        others: those of them with an input for other categories.
        indicators: the features with an indicator.
        fill: `(n_inputs,)`, what stands for missing values; without the indicators.
    """

    missing: str = "refuse"
    names: Sequence[str] = ()
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)
    others: Sequence[str] = ()
    indicators: Sequence[str] = ()
    fill: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float32, device="cpu"))

    @property
    def is_plain(self) -> bool:
        """True if the features are the inputs."""
        return self.missing == "refuse" and not self.categories

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs: numbers, then categories, then indicators."""
        inputs = [name for name in self.names if name not in self.categories]
        for name, known in self.categories.items():
            own = (*known, "(others)") if name in self.others else known
            inputs += [f"{name} = {category}" for category in own]
        return inputs + [f"{name} is missing" for name in self.indicators]

    @classmethod
    def fitted(cls, missing: str, lists: JudgedLists, features: Tensor, chosen: Tensor) -> "Encoding":
        """Fit to the `chosen` rows of the features of lists, which are read in blocks: they may be larger than memory.

        Raises:
            DataError: missing values that are refused, or too many categories.
        """
        names = list(lists.feature_names)
        coded = {name: list(lists.categories[name]) for name in names if name in lists.categories}
        if missing == "refuse" and not coded:
            return cls(names=names)
        counts = {name: torch.zeros(len(known), dtype=torch.int64) for name, known in coded.items()}
        present = torch.zeros(len(names), dtype=torch.int64)
        total = torch.zeros(len(names), dtype=torch.float64)
        for rows in torch.split(chosen, ROWS_AT_ONCE):
            block = features.index_select(0, rows)
            known = ~block.isnan()
            present += known.sum(0)
            total += torch.where(known, block, 0).sum(0, dtype=torch.float64)
            for name in coded:
                place = names.index(name)
                codes = block[known[:, place], place].to(torch.int64)
                counts[name] += torch.bincount(codes, minlength=len(counts[name]))
        of_numbers = [place for place, name in enumerate(names) if name not in coded]
        fill, categories, others = [(total / present.clamp(min=1))[of_numbers]], dict[str, list[str]](), []
        for name, count in counts.items():
            is_known = count > RARE
            categories[name] = [coded[name][at] for at in torch.nonzero(is_known).flatten().tolist()]
            if len(categories[name]) > MOST_CATEGORIES:
                raise DataError(
                    f"feature {name!r} has {len(categories[name])} categories in the training lists, expected at most "
                    f"{MOST_CATEGORIES}: leave it out by `exclude` (on the command line: --exclude), or group them"
                )
            n_rare, share = int(count[~is_known].sum()), count.to(torch.float64) / max(int(count.sum()), 1)
            fill.append(share[is_known])
            if n_rare:
                others.append(name)
                fill.append(share[~is_known].sum(0, keepdim=True))
        lacking = [name for name, count in zip(names, present.tolist(), strict=True) if count < len(chosen)]
        means = torch.cat(fill).to(torch.float32)
        means = torch.zeros_like(means) if missing == "zero" else means
        return cls(missing, names, categories, others, lacking if missing == "indicator" else (), means)

    def require(self, features: Tensor, names: Sequence[str], first: int = 0) -> None:
        """Raise ValueError for a value that the model cannot read: infinite, or missing where that is refused.

        `first` is the number of the first item.
        """
        wrong = ~torch.isfinite(features) if self.missing == "refuse" else torch.isinf(features)
        if bool(wrong.any()):
            item, place = torch.nonzero(wrong)[0].tolist()
            found = features[item, place].item()
            way = "; a ranker that is trained with missing_features='mean', 'zero' or 'indicator' reads missing values"
            where = f"at item {first + item}, feature {names[place]!r}"
            raise ValueError(f"features: found {found} {where}, expected finite numbers{way if found != found else ''}")

    def encoder(self, categories: Mapping[str, Sequence[str]]) -> Encoder | None:
        """Return the function of rows of features whose categories have these places; None if it changes nothing.

        Raises:
            DataError: a feature has categories here and none there, or the other way round.
        """
        for name in self.names:
            if (name in categories) != (name in self.categories):
                here, there = ("categories", "numbers") if name in categories else ("numbers", "categories")
                raise DataError(
                    f"lists: the feature {name!r} holds {here}, and held {there} where the ranker was trained: read "
                    f"them by read_lists(source, features=ranker.feature_names, categorical={list(self.categories)})"
                )
        if self.is_plain:
            return None
        numbers = [place for place, name in enumerate(self.names) if name not in self.categories]
        slots, first = [], len(numbers)
        for name, known in self.categories.items():
            place_of, width = {category: at for at, category in enumerate(known)}, len(known) + (name in self.others)
            # One slot more, whose column is dropped: the row of a missing value takes it, too.
            own = [place_of.get(category, len(known)) for category in categories[name]]
            slots.append((self.names.index(name), torch.tensor([*own, len(known)]), first, width))
            first += width
        lacking = [self.names.index(name) for name in self.indicators]

        def encode(block: Tensor) -> Tensor:
            missing, fill = block.isnan(), self.fill.to(block)
            parts = [torch.where(missing[:, numbers], fill[: len(numbers)], block[:, numbers])]
            for place, slot_of_code, start, width in slots:
                is_missing = missing[:, place]
                codes = torch.where(is_missing, len(slot_of_code) - 1, block[:, place]).to(torch.int64)
                slot = slot_of_code.to(block.device)[codes]
                one_hot = torch.nn.functional.one_hot(slot, width + 1)[:, :width].to(block.dtype)
                parts.append(torch.where(is_missing[:, None], fill[start : start + width], one_hot))
            return torch.cat([*parts, missing[:, lacking].to(block.dtype)], dim=1)

        return encode

    def header(self) -> dict[str, Any]:
        """Return what a ranker's file says about it beside the tensor `fill`."""
        return {name: getattr(self, name) for name in ("missing", "categories", "others", "indicators")}

    @classmethod
    def of_file(cls, names: Sequence[str], header: Mapping[str, Any], fill: Tensor) -> "Encoding":
        """Return the encoding of a file's header and tensor; ValueError or TypeError for what does not fit."""
        # In the order of the features, which JSON's is not.
        categories = {name: list(header["categories"][name]) for name in names if name in header["categories"]}
        encoding = cls(header["missing"], names, categories, header["others"], header["indicators"], fill)
        texts = [category for known in categories.values() for category in known]
        if (
            len(categories) < len(header["categories"])
            or encoding.missing not in CHOICES["missing_features"]
            or not {*encoding.indicators} <= {*names}
            or not {*encoding.others} <= {*categories}
            or {*map(type, texts)} - {str}
            or any(len({*known}) < len(known) for known in categories.values())
        ):
            raise ValueError("the encoding should be of the features")
        expected = len(encoding.inputs) - len(encoding.indicators)
        if fill.shape != (expected,):
            raise ValueError(f"the encoding fills {quantity(len(fill), 'input')}, not {expected}")
        return encoding


def weighted(lists: JudgedLists, weights: Any, list_weights: Any, recipe: Recipe) -> JudgedLists:
    """Return the lists with these weights, where there are any; ValueError for a factorisation of weighted lists."""
    given = {"weights": weights, "list_weights": list_weights}
    for name, values in given.items():
        if isinstance(values, str):
            raise ValueError(
                f"{name}: found the text {values!r}, expected an array; the column of a table is named where it is "
                f"read: read_lists(source, {name}={values!r})"
            )
    lists = replace(lists, **{name: values for name, values in given.items() if values is not None})
    for name in given:
        if getattr(lists, name) is not None and recipe.model in PAIR_MODELS:
            raise ValueError(f"{name}: found weights beside the model {recipe.model}, whose training has none")
    if lists.weights is not None and recipe.model in FITTED_MODELS:
        raise ValueError(f"weights: found weights of items beside the model {recipe.model}, which has list_weights")
    return lists


def training_parts(lists: JudgedLists, validation: JudgedLists | None, recipe: Recipe) -> tuple[Part, Part | None]:
    """Return the lists to train on, and those to select the epoch on, by default a share of the topics.

    The items of both are rows of the features of their own lists. DataError if the lists do not fit each other.
    """
    if not lists.feature_names:
        raise DataError(
            no_features(lists.left_out, f", which model {recipe.model} reads")
            + "; from topics and items alone, train model matrix-factorization"
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
            f"found {quantity(count, 'topic')}, expected two or more, to train and validate, or a share of 0"
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
    weights, list_weights = (
        None if own is None else torch.from_numpy(own.astype(np.float32)) for own in (lists.weights, lists.list_weights)
    )
    return Part(list(lists.topics), topics, torch.arange(len(relevance)), relevance, limits, list_weights, weights)


def feature_scorer(
    encoding: Encoding, scaling: Scaling, lists: JudgedLists, validation: JudgedLists | None, device: torch.device
) -> Scorer:
    """Return the scorer of the rows of lists by their scaled features, with gradients, and of the validation lists."""

    def scaled(lists: JudgedLists) -> ScaledFeatures:
        limits = Lists(as_tensor(lists.offsets, "offsets").to(device))
        features = column_tensor(lists.features, "features")
        for first in range(0, len(features), ROWS_AT_ONCE):
            encoding.require(features[first : first + ROWS_AT_ONCE], lists.feature_names, first)
        return ScaledFeatures(scaling, features.to(device), limits, encoding.encoder(lists.categories))

    trained_on = scaled(lists)
    measured_on = trained_on if validation is None else scaled(validation)

    def score(model: nn.Module, part: Part) -> Tensor:
        if torch.is_grad_enabled():
            return score_rows(model, trained_on.of_rows(part.items), part.lists)
        blocks = row_blocks(model, len(part.items), part.lists)
        return torch.cat([score_rows(model, measured_on.of_rows(part.items[rows]), own) for rows, own in blocks])

    return score


def require_apart(parts: Mapping[str, JudgedLists | None], *, by_item: bool) -> None:
    """Raise DataError for a topic that is in two of the named parts, or, `by_item`, for a topic's item in two."""
    if by_item:
        from rankbound.io.table_columns import rows_of

    there = {name: lists for name, lists in parts.items() if lists is not None}
    for (a, first), (b, second) in combinations(there.items(), 2):
        if by_item:
            rows = rows_of(second).join(rows_of(first), on=["topic", "item"], how="semi", maintain_order="left")
            shared = "item {1} of topic {0}".format(*map(quoted, rows.row(0))) if len(rows) else ""
        else:
            known = set(first.topics)
            shared = next((f"topic {quoted(topic)}" for topic in second.topics if topic in known), "")
        if shared:
            where = "each item of a topic" if by_item else "each topic"
            raise DataError(
                f"{shared} is in the {a} and in the {b} lists; expected {where} in one of them: remove it from one"
                + ("" if by_item else ", or give different topics different names")
            )


def require_orders(part: Part) -> None:
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


def moved(part: Part, device: torch.device) -> Part:
    columns = {name: getattr(part, name) for name in ("topics", "items", "relevance", "list_weights", "weights")}
    there = {name: values.to(device) for name, values in columns.items() if values is not None}
    return replace(part, lists=Lists(part.lists.offsets.to(device)), **there)
