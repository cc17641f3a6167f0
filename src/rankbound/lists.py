"""A batch of ranked lists: flat values plus offsets, the Arrow list layout, with no padding anywhere.

List `t` owns the items `offsets[t]` to `offsets[t + 1] - 1` of every flat tensor. An empty list repeats an offset.
Padded tensors and the topics of a PyTorch DataLoader become such a batch, and the arguments of functions of lists are
checked here.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import pairwise
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd import forward_ad

from rankbound.columns import Column, column_tensor, from_list_column
from rankbound.texts import LARGEST_EXACT, require

ArrayLike = Tensor | npt.NDArray[Any] | Column | Sequence[float]

Weights = tuple[Tensor | None, ...]
"""Weights of the items in one or more sums, each `(n_items,)`; `None` stands for ones."""

LARGEST_GRADE = 2.0**900
"""Sums over pairs of items of higher grades could exceed the range of double precision."""

# Types of whole numbers that PyTorch stores, but neither sorts nor compares.
STORED_ONLY = (torch.uint16, torch.uint32, torch.uint64)

_WAITS: ContextVar[bool] = ContextVar("waits", default=True)

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Lists:
    """The limits of a batch's lists.

    In all methods, `values` `(n_items,)` are numbers of the items (`(n_lists,)` in `spread`, of the lists), and `mask`
    `(n_items,)` is true for some items. Booleans and integers are converted to float64 where they are reduced. The
    results are tensors `(n_lists,)` of reductions, `(n_items,)` of others, and lists, as many as before.

    Args:
        offsets: `(n_lists + 1,)`, int64: starts at 0, never descends, and ends at `n_items`. `checked` verifies it.

    >>> lists = rb.Lists(torch.tensor([0, 2, 3]))
    >>> lists.sum(torch.tensor([1.0, 2.0, 4.0]))
    tensor([3., 4.])
    """

    offsets: Tensor

    @classmethod
    def checked(
        cls, offsets: "ArrayLike | Lists", n_items: int, device: torch.device | None = None, *, values: bool = True
    ) -> "Lists":
        """Return the lists of `offsets`, which are checked.

        Args:
            offsets: `(n_lists + 1,)`, integers, the lists' limits.
            n_items: the number of items.
            device: the device of the items; arrays are moved there. By default, any.
            values: check the numbers on a GPU, too, for which the computer waits; otherwise type and device alone.

        Returns:
            The lists.

        Raises:
            ValueError: for offsets that are not integers, do not start at 0, descend, do not end at `n_items`, or are a
                tensor on another device.
        """
        tensor = as_tensor(offsets, "offsets", device=device)
        if len(tensor) == 0:
            raise ValueError("offsets: found none, expected (n_lists + 1,) with at least the leading 0")
        if tensor.is_floating_point() or tensor.dtype == torch.bool:
            raise ValueError(f"offsets: found dtype {tensor.dtype}, expected integers")
        limits = tensor.to(torch.int64)
        # Sums over lists that end elsewhere would read any memory, and on a CPU no comparison waits.
        if values or tensor.is_cpu:
            _require_limits(limits if values else limits.numpy(), n_items)
        # Lists stay the same, with all that is known of them.
        if isinstance(offsets, Lists) and limits is tensor and offsets.__dict__.get("n_items", n_items) == n_items:
            lists = offsets
        else:
            lists = cls(limits)
        # Known without reading the last offset.
        lists.__dict__["n_items"] = n_items
        return lists

    @classmethod
    def of_sizes(cls, sizes: ArrayLike) -> "Lists":
        """Return lists with these numbers of items, one after another.

        Args:
            sizes: `(n_lists,)`, integers from 0.

        Returns:
            The lists.

        >>> rb.Lists.of_sizes([2, 1]).offsets
        tensor([0, 2, 3])
        """
        counts = sizes if isinstance(sizes, Tensor) else as_tensor(sizes, "sizes")
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]))

    @classmethod
    def _of_sizes(cls, sizes: Tensor, n_items: int, longest: int | None = None) -> "Lists":
        """Return lists with these numbers of items, whose total is known, and perhaps a limit of the longest."""
        lists = cls.of_sizes(sizes)
        lists.__dict__.update({"n_items": n_items} if longest is None else {"n_items": n_items, "longest": longest})
        return lists

    @classmethod
    def from_groups(cls, groups: ArrayLike) -> "Lists":
        """Return the lists of groups as LightGBM and XGBoost have them, their sizes: another name of `of_sizes`.

        Args:
            groups: `(n_lists,)`, integers from 0, the numbers of items.

        Returns:
            The lists.

        >>> rb.Lists.from_groups([2, 1]).offsets
        tensor([0, 2, 3])
        """
        return cls.of_sizes(groups)

    @classmethod
    def from_ids(cls, ids: Any) -> "Lists":
        """Return the lists of items that have the id of their query, such as XGBoost's `qid`.

        Args:
            ids: `(n_items,)`, numbers or texts: an array, a tensor, a column or a sequence. Items of a query are
                adjacent.

        Returns:
            The lists, in the order of the items.

        Raises:
            ValueError: for ids that aren't flat, or one that comes again after others.

        >>> rb.Lists.from_ids(["a", "a", "b"]).offsets
        tensor([0, 2, 3])
        """
        known = np.asarray(ids.detach().cpu() if isinstance(ids, Tensor) else ids)
        require("ids", f"shape {known.shape}", known.ndim == 1, "a flat (n_items,) array")
        starts = np.flatnonzero(np.concatenate([np.ones(min(len(known), 1), np.bool_), known[1:] != known[:-1]]))
        _, first = np.unique(known[starts], return_index=True)
        if len(first) < len(starts):
            again = np.setdiff1d(np.arange(len(starts)), first)[0]
            raise ValueError(
                f"ids: found {known[starts[again]]!s} again at item {starts[again]} after others, expected the items "
                "of a query beside each other: sort all arrays by numpy.argsort(ids, kind='stable')"
            )
        return cls(torch.from_numpy(np.append(starts, len(known))).to(torch.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def device(self) -> torch.device:
        """The device of the offsets."""
        return self.offsets.device

    @cached_property
    def sizes(self) -> Tensor:
        """The number of items of each list, shape `(n_lists,)`."""
        return self.offsets.diff()

    @cached_property
    def n_items(self) -> int:
        """The number of items of all lists."""
        return int(self.offsets[-1])

    @cached_property
    def limits(self) -> npt.NDArray[np.int64]:
        """The offsets on the CPU, `(n_lists + 1,)`; from a GPU, they are copied once."""
        return np.asarray(self.offsets.cpu().numpy())

    @cached_property
    def longest(self) -> int:
        """The number of items of the longest list."""
        return int(np.diff(self.limits).max(initial=0))

    @cached_property
    def _kept(self) -> dict[Any, Any]:
        return {}

    def _known(self, key: Any, compute: Callable[[], _Result], relevance: Tensor | None = None) -> _Result:
        """Return what is computed once of the lists, and of the relevance of their items as long as it is the same.

        It is for what may read numbers, in the first step of these lists alone.
        """
        state: object = None
        if relevance is not None:
            # Tensors that share memory share the count of changes in place, which those of inference mode lack.
            same = object() if relevance.is_inference() else relevance._version
            state = relevance.data_ptr(), same, relevance.dtype
        if key not in self._kept or self._kept[key][0] != state:
            # The memory is held, so that no other tensor comes to lie there.
            self._kept[key] = state, relevance, compute()
        known: _Result = self._kept[key][2]
        return known

    def _shares(self, kinds: Tensor | npt.NDArray[Any]) -> "list[tuple[Any, Tensor | slice, Lists]]":
        """Return the lists of each of the `kinds` `(n_lists,)`: the kind, the lists' items, and their limits.

        Those of an array, which sizes decide, are kept; those of a tensor are not, since scores decide it.
        """
        known = kinds.cpu().numpy() if isinstance(kinds, Tensor) else kinds

        def compute() -> "list[tuple[Any, Tensor | slice, Lists]]":
            chosen, sizes = np.unique(known).tolist() or [0], np.diff(self.limits)
            shares: list[tuple[Any, Tensor | slice, Lists]] = []
            if len(chosen) == 1:
                return [(chosen[0], slice(None), self)]
            of_items = np.repeat(known, sizes)
            for kind in chosen:
                items, own = np.flatnonzero(of_items == kind), sizes[known == kind]
                limits = np.append(0, own.cumsum())
                lists = Lists(torch.from_numpy(limits).to(self.device, non_blocking=True))
                lists.__dict__.update(n_items=len(items), limits=limits)
                shares.append((kind, torch.from_numpy(items).to(self.device, non_blocking=True), lists))
            return shares

        return compute() if isinstance(kinds, Tensor) else self._known(("shares", known.tobytes()), compute)

    def _places(self, chosen: npt.NDArray[np.bool_]) -> Tensor:
        """Return the indices of the lists where the mask `(n_lists,)` is true, on the lists' device."""

        key = "places", chosen.tobytes()
        return self._known(key, lambda: torch.from_numpy(np.flatnonzero(chosen)).to(self.device, non_blocking=True))

    @cached_property
    def segment(self) -> Tensor:
        """The index of each item's list, shape `(n_items,)`."""
        index = torch.arange(len(self), device=self.device)
        return torch.repeat_interleave(index, self.sizes, output_size=self.n_items)

    @cached_property
    def position(self) -> Tensor:
        """The place of each item in its list, from 0, shape `(n_items,)`."""
        return torch.arange(self.n_items, device=self.device) - self.spread(self.offsets[:-1])

    def spread(self, values: Tensor) -> Tensor:
        """Repeat each list's value for its items."""
        # Much faster than indexing with brackets, for batches of any size.
        return values.index_select(0, self.segment)

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of the items' values of each list; 0 for an empty list."""
        floating = as_floating(values)
        # The sum of a million numbers in single precision would have a relative error of 1e-4. Short lists are treated
        # alike, since their sums must not depend on the size of the batch.
        return _reduce(floating.to(torch.float64), "sum", self).to(floating.dtype)

    def max(self, values: Tensor) -> Tensor:
        """Return the largest value of each list; minus infinity for an empty list."""
        return _reduce(as_floating(values), "max", self)

    def min(self, values: Tensor) -> Tensor:
        """Return the smallest value of each list; infinity for an empty list."""
        return _reduce(as_floating(values), "min", self)

    def running_sum(self, values: Tensor) -> Tensor:
        """Return the sum of its list's values up to and including each item, which depends on that list alone."""
        exact = not values.is_floating_point()
        if not exact and values.is_cpu:
            # Whole numbers have sums without rounding, in any order, up to some size.
            constant, limit = values.detach(), 2 / torch.finfo(values.dtype).eps
            is_whole = bool((constant == constant.trunc()).all())
            exact = is_whole and float(constant.to(torch.float64).abs().sum()) <= limit
        if exact:
            total = values.cumsum(0)
            before = torch.cat([total.new_zeros(1), total]).index_select(0, self.offsets[:-1])
            return total - self.spread(before)
        # The difference of two totals would hold rounding errors, and any NaN, of the lists before. Each step doubles
        # the number of summands.
        total, step = values, 1
        while step < self.longest:
            before = torch.cat([total.new_zeros(step), total[:-step]])
            total = total + torch.where(self.position >= step, before, 0.0)
            step *= 2
        return total

    def keep(self, mask: Tensor) -> "Lists":
        """Return the lists of the items where the mask is true; lists may become empty, but none is removed."""
        kept = torch.cat([self.offsets.new_zeros(1), mask.cumsum(0)])
        return Lists(kept.index_select(0, self.offsets))

    def each(self) -> list[slice]:
        """Return one slice per list, for tests and for printed output."""
        bounds = self.offsets.tolist()
        return [slice(start, stop) for start, stop in pairwise(bounds)]


def from_padded(values: Tensor, mask: Tensor | None = None, *, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the items of padded lists in the flat layout, and the offsets of the lists.

    Args:
        values: `(n_lists, longest, ...)`, padded with anything; gradients flow back to the items.
        mask: `(n_lists, longest)`, boolean, true at the items, which may stand anywhere in their row; or
        lengths: `(n_lists,)`, the number of items at the beginning of each row.

    Returns:
        `(n_items, ...)` and `(n_lists + 1,)`, on the device of `values`.

    Raises:
        ValueError: unless one of `mask` and `lengths` is given, for a mask of another shape or type, or lengths that
            are too many, negative or longer than the rows.

    >>> rb.from_padded(torch.tensor([[3.0, 1.0, -9.0], [2.0, -9.0, -9.0]]), lengths=torch.tensor([2, 1]))
    (tensor([3., 1., 2.]), tensor([0, 2, 3]))
    """
    require("values", f"shape {tuple(values.shape)}", values.dim() > 1, "(n_lists, longest) or more dimensions")
    if (mask is None) == (lengths is None):
        raise ValueError("from_padded: expected either mask or lengths, which tell items from padding")
    if lengths is not None:
        longest, known = values.shape[1], as_tensor(lengths, "lengths").to(values.device)
        if len(known) != len(values) or known.is_floating_point():
            found = f"{len(known)} of {known.dtype}"
            raise ValueError(f"lengths: found {found}, expected {len(values)} integers, one per list")
        wrong = known[(known < 0) | (known > longest)]
        if len(wrong):
            raise ValueError(f"lengths: found {wrong[0]}, expected numbers from 0 to {longest}, the length of the rows")
        mask = torch.arange(longest, device=values.device) < known[:, None]
    assert mask is not None
    if mask.shape != values.shape[:2] or mask.dtype != torch.bool:
        raise ValueError(
            f"mask: found {mask.dtype} of shape {tuple(mask.shape)}, expected torch.bool of shape "
            f"{tuple(values.shape[:2])}, true at the items"
        )
    mask = mask.to(values.device)
    return values[mask], Lists.of_sizes(mask.sum(1)).offsets


def laid_out(
    offsets: ArrayLike | Lists | None, mask: Any = None, lengths: Any = None, **items: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the offsets and the flat numbers of items, given in any layout; the first of `items` decides which one.

    Without offsets, flat numbers are one list; padded ones `(n_lists, longest)` have their items where `mask` is true,
    in the first `lengths` places of each row, or everywhere; a sequence of sequences, a column of lists or a jagged
    tensor has one for each list. Offsets may be `Lists`.

    Raises:
        ValueError: for several of offsets, mask and lengths, a mask or lengths of flat numbers, numbers of items in
            another shape than the first ones, or a single column of several numbers, which may be one list or many.
    """
    given = [name for name, one in (("offsets", offsets), ("mask", mask), ("lengths", lengths)) if one is not None]
    if len(given) > 1:
        raise ValueError(f"{given[1]}: found beside {given[0]}, expected one of them, which tells the lists")
    if offsets is not None:
        return offsets, items
    known = {name: _rows_of(values) for name, values in items.items() if values is not None}
    what, *_ = known
    if _is_nested(known[what]):
        sizes = [len(one) for one in known[what]]
        for name, values in known.items():
            if not _is_nested(values) or [len(one) for one in values] != sizes:
                raise ValueError(f"{name}: expected {len(sizes)} lists, each as long as that of {what}")
        flat = {name: torch.cat([as_tensor(one, name) for one in values]) for name, values in known.items()}
        return Lists.of_sizes(torch.tensor(sizes, device=flat[what].device)).offsets, items | flat
    tensors = {name: one if isinstance(one, Tensor) else column_tensor(one, name) for name, one in known.items()}
    shape, device = tensors[what].shape, tensors[what].device
    if not given and len(shape) == 2 and shape[0] > 1 and shape[1] == 1:
        raise ValueError(
            f"{what}: found shape {tuple(shape)}, which may be one list or {shape[0]} lists of one item: pass one list "
            f"flat ({what}.squeeze(1)), or the lists with lengths"
        )
    if len(shape) != 2:
        if given:
            raise ValueError(f"{given[0]}: found beside {what} of shape {tuple(shape)}, expected (n_lists, longest)")
        return torch.tensor([0, len(tensors[what])], device=device), items
    for name, tensor in tensors.items():
        if tensor.shape != shape:
            raise ValueError(f"{name}: found shape {tuple(tensor.shape)}, expected {tuple(shape)}, that of {what}")
    if not given:
        return torch.arange(shape[0] + 1, device=device) * shape[1], items | {
            name: tensor.flatten() for name, tensor in tensors.items()
        }
    if lengths is not None:
        lengths = as_tensor(lengths, "lengths")
    else:
        mask = torch.as_tensor(mask)
    padded = {name: from_padded(tensor, mask, lengths=lengths) for name, tensor in tensors.items()}
    return padded[what][1], items | {name: values for name, (values, _) in padded.items()}


def _rows_of(values: Any) -> Any:
    """Return a column of lists, or a jagged tensor, as a list of the lists' numbers, and anything else as it is."""
    if isinstance(values, Tensor):
        return list(values.unbind()) if values.is_nested else values
    if "list" in str(getattr(values, "dtype", getattr(values, "type", ""))).lower():
        flat, offsets = from_list_column(values)
        return list(torch.split(flat, offsets.diff().tolist()))
    is_series = hasattr(values, "iloc") and getattr(values, "dtype", None) == np.dtype(object)
    return values.tolist() if is_series else values


def _is_nested(values: Any) -> bool:
    """Return true for a sequence of sequences of numbers."""
    if not isinstance(values, list | tuple) and getattr(values, "dtype", None) != np.dtype(object):
        return False
    return len(values) > 0 and hasattr(values[0], "__len__") and not isinstance(values[0], str)


def to_padded(values: Tensor, offsets: ArrayLike, fill: float = 0.0) -> Tensor:
    """Return flat values `(n_items, ...)` as padded lists `(n_lists, longest, ...)`, with `fill` after the items.

    Gradients flow back to the values.

    Args:
        values: `(n_items, ...)`.
        offsets: `(n_lists + 1,)`, the lists' limits.
        fill: the value after the items of a row.

    Returns:
        `(n_lists, longest, ...)`.

    Raises:
        ValueError: for invalid offsets.

    >>> rb.to_padded(torch.tensor([3.0, 1.0, 2.0]), torch.tensor([0, 2, 3]), fill=-1)
    tensor([[ 3.,  1.],
            [ 2., -1.]])
    """
    lists = Lists.checked(offsets, len(values), values.device)
    padded = values.new_full((len(lists), lists.longest, *values.shape[1:]), fill)
    return padded.index_put((lists.segment, lists.position), values)


class Topic(NamedTuple):
    """One list, the item of a dataset.

    Args:
        features: `(n, d)`.
        relevance: `(n,)`, grades from 0.
        name: the topic's name.

    >>> rb.Topic(torch.zeros(2, 3), torch.tensor([1, 0]), "a").name
    'a'
    """

    features: Tensor
    relevance: Tensor
    name: str


class Batch(NamedTuple):
    """Lists in the flat layout, as `rankbound.collate` returns them.

    Args:
        features: `(n_items, d)`.
        relevance: `(n_items,)`, grades from 0.
        offsets: `(n_lists + 1,)`, the lists' limits.
        names: the topics' names, one per list.

    >>> batch = rb.collate([rb.Topic(torch.zeros(2, 3), torch.tensor([1, 0]), "a")])
    >>> batch.offsets, batch.names
    (tensor([0, 2]), ['a'])
    """

    features: Tensor
    relevance: Tensor
    offsets: Tensor
    names: list[str]


def collate(topics: Sequence[tuple[Tensor, Tensor] | Topic]) -> Batch:
    """Return topics as one batch, for `torch.utils.data.DataLoader(lists, collate_fn=rankbound.collate)`.

    Args:
        topics: the items of a dataset, such as `JudgedLists`: features `(n, d)` and relevance `(n,)`, and perhaps a
            name.

    Returns:
        The batch: features `(n_items, d)`, relevance `(n_items,)`, offsets `(n_lists + 1,)` and names.

    Raises:
        ValueError: for a topic whose features and relevance differ in length.

    >>> topics = [(torch.zeros(2, 3), torch.tensor([1, 0])), (torch.ones(1, 3), torch.tensor([2]))]
    >>> rb.collate(topics).offsets
    tensor([0, 2, 3])
    """
    features, relevance = [topic[0] for topic in topics], [topic[1] for topic in topics]
    for place, (rows, labels) in enumerate(zip(features, relevance, strict=True)):
        if len(rows) != len(labels):
            raise ValueError(f"topic {place} of the batch: found {len(rows)} rows of features, {len(labels)} labels")
    names = [topic[2] if len(topic) > 2 else str(place) for place, topic in enumerate(topics)]
    labels = torch.cat(relevance)
    sizes = torch.tensor([len(one) for one in relevance], device=labels.device)
    return Batch(torch.cat(features), labels, Lists.of_sizes(sizes).offsets, names)


def as_tensor(
    values: ArrayLike | Lists, name: str, n_items: int | None = None, device: torch.device | None = None
) -> Tensor:
    """Return a flat tensor that shares the memory of `values` where possible.

    `values` may be a tensor, a NumPy array, an Arrow array, or a polars or pandas Series; or lists, which stand for
    their offsets. Unsigned integers of 16 bits or more are converted to int64, floats of 8 bits to float32; arrays are
    moved to `device`, if it is given. Raises `ValueError`, with the argument's `name`, for values that aren't flat or
    not `n_items` many, for complex and sparse ones, for integers from 2^63, and for a tensor on another device, since
    silent copies at every call are slow.
    """
    values = values.offsets if isinstance(values, Lists) else values
    tensor = values if isinstance(values, Tensor) else column_tensor(values, name)
    if tensor.dtype in STORED_ONLY:
        unsigned, tensor = tensor.dtype, tensor.to(torch.int64)
        if unsigned == torch.uint64 and tensor.numel() and may_read(tensor) and int(tensor.min()) < 0:
            raise ValueError(f"{name}: found {int(tensor.min()) + 2**64}, expected integers below 2^63")
    if tensor.is_floating_point() and tensor.dtype.itemsize == 1:
        tensor = tensor.to(torch.float32)
    if tensor.is_complex() or tensor.layout != torch.strided:
        found = tensor.dtype if tensor.is_complex() else tensor.layout
        raise ValueError(f"{name}: found {found}, expected real numbers in a dense array")
    if tensor.dim() != 1:
        advice = "; rankbound.from_padded returns one of padded lists" if tensor.dim() == 2 else ""
        raise ValueError(f"{name}: found shape {tuple(tensor.shape)}, expected a flat (n_items,) array{advice}")
    if n_items is not None and len(tensor) != n_items:
        raise ValueError(f"{name}: found {len(tensor)} values, expected {n_items}, one per item")
    if device is None or tensor.device == device:
        return tensor
    if isinstance(values, Tensor):
        raise ValueError(f"{name}: found on {tensor.device}, expected on {device} beside the scores")
    return tensor.to(device)


def weights_of(weights: ArrayLike, name: str, count: int, beside: Tensor) -> Tensor:
    """Return `count` weights as constants in the dtype and on the device of `beside`.

    Raises `ValueError` for another number of them, or weights that are negative, NaN or infinite.
    """
    tensor = as_tensor(weights, name).detach().to(beside)
    if len(tensor) != count:
        raise ValueError(f"{name}: found {len(tensor)} values, expected {count}")
    usable = torch.isfinite(tensor) & (tensor >= 0)
    if may_read(tensor) and not bool(usable.all()):
        place = int(torch.nonzero(~usable)[0, 0])
        raise ValueError(f"{name}: found {tensor[place].item()} at {place}, expected finite numbers from 0")
    return tensor


class NotFiniteError(ValueError):
    """A score that is NaN or infinite; `item` is its index."""

    def __init__(self, score: float, item: int) -> None:
        super().__init__(
            f"scores: found {score} at item {item}, expected finite numbers. "
            "Check for a learning rate that is too high, or for missing features."
        )
        self.item = item


def require_finite(scores: Tensor) -> None:
    """Raise `NotFiniteError` for the first score that is NaN or infinite."""
    finite = torch.isfinite(scores)
    if not bool(finite.all()):
        item = int(torch.nonzero(~finite)[0, 0])
        raise NotFiniteError(scores[item].item(), item)


def require_grades(relevance: Tensor) -> None:
    """Raise `ValueError` for relevance labels that are negative, NaN or infinite, or whole numbers above 2^53."""
    if len(relevance) == 0:
        return
    lowest, highest = (one.item() for one in torch.aminmax(relevance))
    if not lowest >= 0:
        wrong = f"{float(lowest)}, expected grades from 0"
    elif highest == float("inf"):
        wrong = "inf, expected finite grades from 0"
    elif highest > LARGEST_GRADE:
        wrong = f"{highest:g}, expected grades up to {LARGEST_GRADE:.2g}, whose sums are finite"
    elif highest > LARGEST_EXACT and not relevance.is_floating_point():
        wrong = f"{highest}, expected grades up to 2^53 ({LARGEST_EXACT}), which are exact in double precision"
    else:
        return
    raise ValueError(f"relevance: found {wrong}")


def are_fractions(relevance: Tensor) -> bool:
    """Return true if some relevance is above 0 and none reaches 1."""
    return bool(len(relevance) and relevance.is_floating_point() and 0 < float(relevance.max()) < 1)


def warn_of_fractions(name: str, relevance: Tensor, counts: Callable[[Tensor], Tensor]) -> None:
    """Warn that the loss or metric of this name counts none of these fractions, if it would count grades of 1.

    `counts` returns a mask that is true somewhere if any of the relevance counts.
    """
    ones = (relevance > 0).to(relevance.dtype)
    if bool(counts(relevance).any()) or not bool(counts(ones).any()):
        return
    warnings.warn(
        f"relevance: found numbers below 1 alone, which {name} does not count as relevant, so that it finds no "
        "relevant item in any list; use grades of 0 and 1, or a loss or metric of gains (nDCG(gain=linear), softmax)",
        stacklevel=3,
    )


def may_read(values: Tensor) -> bool:
    """Return true where shapes and branches may depend on a tensor's numbers: where it is on a CPU, or waited for."""
    return values.is_cpu or _WAITS.get()


@contextmanager
def waiting(allowed: bool) -> Iterator[None]:
    """Let functions wait for a GPU's numbers, or for none but those of lists and relevance that are new to them."""
    token = _WAITS.set(allowed)
    try:
        yield
    finally:
        _WAITS.reset(token)


def as_floating(values: Tensor) -> Tensor:
    """Convert booleans and integers to float64; return floating-point values unchanged."""
    return values if values.is_floating_point() else values.to(torch.float64)


def is_transformed() -> bool:
    """Return true in forward mode, and inside a transform of `torch.func` (`grad`, `vmap`, `jvp`, `jacrev`, ...)."""
    # PyTorch has no public way to ask; `autograd.Function` asks in this way, too.
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


def on_cpu(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Make a function create its tensors on the CPU, after `torch.set_default_device("cuda")`, too."""

    @wraps(function)
    def call(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        if torch.get_default_device().type == "cpu":
            return function(*arguments, **keywords)
        with torch.device("cpu"):
            return function(*arguments, **keywords)

    return call


def _require_limits(offsets: Tensor | npt.NDArray[np.int64], n_items: int) -> None:
    """Raise `ValueError` for offsets that are not limits of lists, with advice for sizes or indices of lists."""
    first, last, falls = int(offsets[0]), int(offsets[-1]), offsets[1:] < offsets[:-1]
    if first != 0 or last != n_items:
        hint = ""
        if int(offsets.sum()) == n_items and int(offsets.min()) >= 0:
            hint = "; these are sizes of lists: pass rankbound.Lists.of_sizes(sizes).offsets"
        elif len(offsets) == n_items:
            hint = (
                "; there is one per item: pass the index of each list's first item, and the number of items at the "
                "end, or for ids, rankbound.Lists.from_ids(ids).offsets"
            )
        raise ValueError(f"offsets: found {first} .. {last}, expected 0 .. {n_items} (the number of items){hint}")
    if bool(falls.any()):
        place = int(falls.nonzero()[0][0])
        raise ValueError(
            f"offsets: entry {place + 1} ({int(offsets[place + 1])}) is below entry {place} ({int(offsets[place])}); "
            "expected offsets that never descend"
        )


def _reduce(values: Tensor, how: str, lists: Lists) -> Tensor:
    if is_transformed() or (values.requires_grad and torch.is_grad_enabled()):
        reduced: Tensor = _Reduced.apply(values, how, lists)  # type: ignore[no-untyped-call]
        return reduced
    return torch.segment_reduce(values, how, offsets=lists.offsets, unsafe=True)


class _Reduced(torch.autograd.Function):
    """A reduction that can be differentiated repeatedly, unlike PyTorch's; items that tie for an extreme share it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Tensor, how: str, lists: Lists) -> Tensor:
        return torch.segment_reduce(values, how, offsets=lists.offsets, unsafe=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str, Lists], output: Tensor) -> None:
        values, how, ctx.lists = inputs
        share = None
        if how != "sum":
            reached = (values == ctx.lists.spread(output)).to(values)
            share = reached / ctx.lists.spread(_reduce(reached, "sum", ctx.lists))
        ctx.save_for_backward(share)
        ctx.save_for_forward(share)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (share,), gradient = ctx.saved_tensors, ctx.lists.spread(upstream)
        return gradient if share is None else gradient * share, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        (share,) = ctx.saved_tensors
        return _reduce(tangent if share is None else tangent * share, "sum", ctx.lists)
