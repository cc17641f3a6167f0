"""The parquet contracts: columns and types of every kind of file that steps exchange."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

SCHEMA_KEY = "rankbound.schema"
"""Metadata of every file: its contract's name and version."""

DATASET_KEY = "rankbound.dataset"
"""Metadata: the data set of a file, or from which it was made."""

SYNTHETIC_KEY = "rankbound.synthetic"
"""Metadata of a synthetic file and of all files made from it: how it was generated, as sorted JSON."""

PARTS_KEY = "rankbound.parts"
"""Metadata of a lists file: JSON object of the raw files' names, each with its ranges of lists, [first, past last]."""

# Types with any width d, as `type_text` writes them.
FEATURES = "list<fixed_size_list<float>[d]>"
VECTOR = "fixed_size_list<float>[d]"
PIXELS = "fixed_size_binary[d]"
"""The bytes of a picture, all red, then green, then blue."""

_WIDTH = re.compile(r"\[\d+\]")
_FIELD = re.compile(r"\w+: ")


@dataclass(frozen=True)
class Contract:
    """Columns in order; those in `nullable` may hold nulls; `metrics` allows further columns of type float64."""

    name: str
    columns: Mapping[str, pa.DataType | str]
    nullable: frozenset[str] = field(default=frozenset())
    metrics: bool = False
    version: int = 1

    def __str__(self) -> str:
        return f"{self.name}/{self.version}"


_ITEMS = pa.list_(pa.int64())
_RELEVANCE = pa.list_(pa.int8())
_NAMES = pa.list_(pa.string())
_FLOATS = pa.list_(pa.float64())
_SCORES = pa.list_(pa.float32())

_TRAINING_KEY = {
    "study": pa.string(),
    "protocol": pa.string(),
    "dataset": pa.string(),
    "nsr_train": pa.int8(),
    "nsr_test": pa.int8(),
    "model": pa.string(),
    "options": pa.string(),
    "loss": pa.string(),
    "bounding": pa.string(),
    "fold": pa.int8(),
    "seed": pa.int16(),
}
_LIST_KEY = {**_TRAINING_KEY, "selection": pa.string(), "topic": pa.string()}
_NSR_KEYS = frozenset({"nsr_train", "nsr_test"})

CONTRACTS: Mapping[str, Contract] = {
    contract.name: contract
    for contract in (
        Contract(
            "interactions",
            {"topic": pa.int32(), "item": pa.int32(), "rating": pa.float32(), "timestamp": pa.int64()},
        ),
        Contract("lists", {"topic": pa.string(), "items": _NAMES, "relevance": _RELEVANCE, "features": FEATURES}),
        Contract("list-splits", {"fold": pa.int8(), "split": pa.string(), "list": pa.int32()}),
        Contract("interaction-folds", {"topic": pa.int32(), "item": pa.int32(), "fold": pa.int8()}),
        Contract(
            "interaction-splits",
            {"fold": pa.int8(), "split": pa.string(), "topic": pa.int32(), "item": pa.int32()},
        ),
        Contract(
            "images",
            {"face": pa.string(), "number": pa.int32(), "age": pa.int8(), "group": pa.int32(), "pixels": PIXELS},
        ),
        Contract("image-folds", {"fold": pa.int8(), "split": pa.string(), "face": pa.string()}),
        Contract("image-features", {"face": pa.string(), "features": VECTOR}),
        Contract(
            "instances",
            {
                "dataset": pa.string(),
                "nsr": pa.int8(),
                "fold": pa.int8(),
                "split": pa.string(),
                "topic": pa.string(),
                "items": _ITEMS,
                "relevance": _RELEVANCE,
            },
            nullable=frozenset({"nsr"}),
        ),
        Contract(
            "distributions",
            {
                "metric": pa.string(),
                "n": pa.int32(),
                "p": pa.int32(),
                "minimum": pa.float64(),
                "maximum": pa.float64(),
                "expectation": pa.float64(),
                "sd": pa.float64(),
                "count": pa.float64(),
                "low": pa.float64(),
                "high": pa.float64(),
                "width": pa.float64(),
                "error": pa.float64(),
                "support": _FLOATS,
                "probability": _FLOATS,
            },
        ),
        Contract(
            "runs",
            {**_LIST_KEY, "n": pa.int32(), "p": pa.int32(), "epoch": pa.int32()},
            nullable=_NSR_KEYS,
            metrics=True,
        ),
        Contract(
            "epochs",
            {
                **_TRAINING_KEY,
                "epoch": pa.int32(),
                "part": pa.string(),
                "mean_loss": pa.float64(),
                "gradient_norm": pa.float64(),
            },
            nullable=_NSR_KEYS,
            metrics=True,
        ),
        Contract(
            "rates",
            {
                **_TRAINING_KEY,
                "learning_rate": pa.float64(),
                "epoch": pa.int32(),
                "score": pa.float64(),
                "test_score": pa.float64(),
                "chosen": pa.bool_(),
            },
            nullable=_NSR_KEYS,
        ),
        Contract("predictions", {**_LIST_KEY, "items": _ITEMS, "scores": _SCORES}, nullable=_NSR_KEYS),
    )
}


def origin(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata that a file takes over from those it is made of: data set, and how it was generated."""
    return {key: metadata[key] for key in (DATASET_KEY, SYNTHETIC_KEY) if key in metadata}


def same_type(found: pa.DataType, expected: pa.DataType | str) -> bool:
    """Return whether a column has the type of its contract."""
    return type_text(found) == expected if isinstance(expected, str) else bool(found == expected)


def type_text(kind: pa.DataType | str) -> str:
    """Return a type with any width as contracts name it; any other type in Arrow's words."""
    if isinstance(kind, str) or not _WIDTH.search(str(kind)):
        return str(kind)
    return _WIDTH.sub("[d]", _FIELD.sub("", str(kind)))
