"""The columns of a table as a model's inputs: missing values are filled, and categories have an input each.

What is fitted on the training items is kept in the ranker and is the same for all that it scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists
from rankbound.texts import quantity
from rankbound.training.models import ROWS_AT_ONCE, Encoder

MISSING = ("refuse", "mean", "zero", "indicator")

MOST_CATEGORIES = 1000

RARE = 1
"""The number of training items of a category up to which it shares the input of the unknown ones."""

TENSOR = "encoding.fill"
"""The name of the tensor in a ranker's file."""


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
        missing: one of `MISSING`.
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
            or encoding.missing not in MISSING
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
