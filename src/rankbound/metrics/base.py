"""What a metric is: a value object whose text is its name everywhere, and one function of ranks."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor

from rankbound.lists import ArrayLike, Lists, as_floating, as_tensor, require_finite, require_grades
from rankbound.ranks import Ranks, TieBlocks, hard_ranks, tie_blocks

# Random orders of each tie block that a metric without a closed form is averaged over.
TIE_BREAKS = 200


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A ranking metric of each list of a batch.

    Subclasses are frozen dataclasses whose fields are the metric's parameters; `of_ranks` alone makes a metric, a
    bounded metric and a loss. Closed forms (`of_blocks`, `binary_extremes`, `binary_expectation`) are optional.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    needs_relevant_ranks: ClassVar[bool] = False
    uses_grades: ClassVar[bool] = True

    @abstractmethod
    def of_ranks(self, ranks: Ranks, relevance: Tensor, lists: Lists) -> Tensor:
        """The value per list `(n_lists,)`, NaN where undefined; differentiable where the ranks are smooth.

        `ranks`, `relevance` and `lists` describe the same items, at least all relevant ones of every list.
        """

    def relevant(self, relevance: Tensor) -> Tensor:
        """Which items the metric counts as relevant, a boolean mask."""
        return relevance > 0

    def of_blocks(self, blocks: TieBlocks, relevance: Tensor, lists: Lists) -> Tensor:
        """The mean over all orders of the tied items; here over `TIE_BREAKS` random ones, from a fixed seed."""
        generator = torch.Generator(device="cpu").manual_seed(0)
        orders = [blocks.order]
        if blocks.has_ties:
            orders = [_break_ties(blocks, generator) for _ in range(TIE_BREAKS)]
        relevant = self.relevant(relevance) if self.needs_relevant_ranks else None
        values = [self.of_ranks(hard_ranks(order, lists, relevant), relevance, lists) for order in orders]
        return torch.stack(values).mean(0)

    def binary_extremes(self, n: Tensor, p: Tensor) -> tuple[Tensor, Tensor] | None:
        """Smallest and largest value over all orders of `n` items of which `p` are relevant, if there is a formula."""
        return None

    def binary_expectation(self, n: Tensor, p: Tensor) -> Tensor | None:
        """Mean over all orders of `n` items of which `p` are relevant, if there is a formula."""
        return None

    def __call__(self, scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike) -> Any:
        """The metric of each list, float64 `(n_lists,)`, NaN where undefined.

        Args:
            scores: `(n_items,)`, finite; higher stands above. Tied items count by their mean over all orders.
            relevance: `(n_items,)`, grades from 0.
            offsets: `(n_lists + 1,)`, the lists' limits.

        Returns:
            A numpy array, or a tensor if `scores` is one.
        """
        value = evaluate([self], scores, relevance, offsets)[str(self)]
        return value if isinstance(scores, Tensor) else value.numpy()

    def __str__(self) -> str:
        given = [
            f"{field.name}={str(value).removesuffix('.0')}"
            for field in fields(self)
            if field.name != "cutoff" and (value := getattr(self, field.name)) != field.default
        ]
        cutoff = getattr(self, "cutoff", None)
        return self.name + (f"({','.join(given)})" if given else "") + (f"@{cutoff}" if cutoff is not None else "")


def evaluate(
    metrics: Iterable[Metric], scores: ArrayLike, relevance: ArrayLike, offsets: ArrayLike
) -> dict[str, Tensor]:
    """Several metrics of the same lists from one sort: text of the metric to float64 values `(n_lists,)`."""
    flat = as_tensor(scores, "scores").detach()
    grades = as_tensor(relevance, "relevance", len(flat)).to(flat.device)
    lists = Lists.checked(offsets, len(flat), flat.device)
    require_finite(as_floating(flat))
    require_grades(grades)
    blocks = tie_blocks(flat, lists)
    return {str(metric): metric.of_blocks(blocks, grades, lists) for metric in metrics}


def build(kind: type[Metric], text: str, parameters: Mapping[str, str], cutoff: int | None) -> Metric:
    """A metric of class `kind` from the texts of its parameters; `ValueError` names what doesn't fit."""
    known = {field.name: field for field in fields(kind)}
    given: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known or key == "cutoff":
            expected = ", ".join(name for name in known if name != "cutoff") or "none"
            raise ValueError(f"metric {text!r}: unknown parameter {key!r}; {kind.name} takes: {expected}")
        given[key] = _typed(value, known[key].type, text, key)
    if cutoff is not None:
        if "cutoff" not in known:
            raise ValueError(f"metric {text!r}: {kind.name} takes no cut-off")
        given["cutoff"] = cutoff
    missing = [name for name, field in known.items() if field.default is MISSING and name not in given]
    if missing:
        hint = "a cut-off, as in P@10" if missing == ["cutoff"] else ", ".join(missing)
        raise ValueError(f"metric {text!r}: {kind.name} needs {hint}")
    return kind(**given)


def split_text(text: str) -> tuple[str, dict[str, str], int | None]:
    """Name, parameters and cut-off of a metric's text, such as `nDCG(gain=linear)@10`."""
    match = re.fullmatch(r"([A-Za-z]+)(?:\((.*)\))?(?:@(\d+))?", text.strip())
    if match is None:
        raise ValueError(f"metric {text!r}: expected a text such as nDCG@10, AP or nRBP(p=0.95)")
    name, inside, cutoff = match.groups()
    pairs = [part.partition("=") for part in inside.split(",")] if inside else []
    if any(not separator for _, separator, _ in pairs):
        raise ValueError(f"metric {text!r}: expected parameters as name=value, found ({inside})")
    if cutoff is not None and int(cutoff) < 1:
        raise ValueError(f"metric {text!r}: found cut-off {cutoff}, expected at least 1")
    return name, {key.strip(): value.strip() for key, _, value in pairs}, int(cutoff) if cutoff else None


def _typed(value: str, kind: Any, text: str, key: str) -> Any:
    if kind is str:
        return value
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"metric {text!r}: found {key}={value}, expected {kind.__name__}") from None


def _break_ties(blocks: TieBlocks, generator: torch.Generator) -> Tensor:
    shuffled = torch.randperm(len(blocks.order), generator=generator).to(blocks.order.device)
    return blocks.order[shuffled[torch.argsort(blocks.block[shuffled], stable=True)]]
