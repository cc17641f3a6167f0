"""Files of rankers: damaged ones, those of other versions, and those whose parts don't fit each other."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import rankbound as rb
from rankbound.errors import DataError
from rankbound.training.recipe import FITTED_MODELS, PAIR_MODELS
from tests.library.planted_ratings import ratings, rewrite
from tests.library.test_encoded_features import lists_of as encoded_lists
from tests.library.test_ranker import planted

FIT = "a ranker whose parts don't fit each other"
RATED = ratings(users=12, items=10)
RANKERS: dict[str, dict[str, Any]] = {
    "linear": {},
    "mlp": {"model": "mlp", "hidden": (5, 3), "activation": "tanh"},
    "attention": {"model": "attention", "hidden": (5, 4), "blocks": 1, "scale": "query"},
    "scaled in lists": {"scale": "query"},
    "not scaled": {"scale": "none"},
    "encoded": {"missing_features": "indicator"},
    **{model: {"model": model} for model in (*FITTED_MODELS, *PAIR_MODELS)},
}


def lists_for(name: str) -> rb.JudgedLists:
    return RATED.lists(RATED.known) if name in PAIR_MODELS else encoded_lists() if name == "encoded" else planted()


def trained(name: str) -> rb.Ranker:
    return rb.train_ranker(lists_for(name), **{"epochs": 2, "device": "cpu", **RANKERS[name]})


@cache
def saved(name: str) -> bytes:
    with TemporaryDirectory() as folder:
        trained(name).save(path := Path(folder, "model.safetensors"))
        return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("name", RANKERS)
def test_a_file_gives_the_ranker_back_and_a_training_repeats_every_byte(name: str, path: Path) -> None:
    ranker, lists = trained(name), lists_for(name)
    ranker.save(path)
    assert path.read_bytes() == saved(name)
    loaded = rb.load(path)
    assert (loaded.recipe, loaded.feature_names, loaded.record) == (ranker.recipe, ranker.feature_names, ranker.record)
    np.testing.assert_array_equal(loaded.score_lists(lists).scores, ranker.score_lists(lists).scores)
    loaded.save(path)
    assert path.read_bytes() == saved(name)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", RANKERS)
def test_a_tensor_that_is_shorter_of_another_type_or_not_finite_is_refused(name: str, path: Path) -> None:
    """A file that is written again without its seal is read."""
    path.write_bytes(saved(name))
    whole = rb.load(path)
    rewrite(path, lambda header, tensors: None)
    assert (rb.load(path).recipe, rb.load(path).record) == (whole.recipe, whole.record)
    for key, values in load_file(path).items():
        is_float = values.is_floating_point()
        changed = (values[1:], values.double() if is_float else values.float(), values / 0 if is_float else values[:-1])
        for other in changed if values.numel() else ():
            path.write_bytes(saved(name))
            rewrite(path, lambda header, tensors, key=key, other=other: tensors.update({key: other.clone()}))
            with pytest.raises(DataError, match=FIT):
                rb.load(path)


Change = Callable[[Path], object]


def parts(change: Callable[[dict[str, Any], dict[str, Tensor]], object]) -> Change:
    return lambda path: rewrite(path, change)


def tensor(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    return parts(lambda header, tensors: tensors.update({name: change(tensors[name]).clone()}))


def encoding(key: str, value: Any) -> Change:
    return parts(lambda header, tensors: header["encoding"].update({key: value}))


def recipe(changed: dict[str, Any]) -> Change:
    return parts(lambda header, tensors: header["recipe"].update(changed))


def added(name: str, value: float = 0.0) -> Change:
    return parts(lambda header, tensors: tensors.update({name: torch.tensor([value])}))


def content(change: Callable[[bytes], bytes]) -> Change:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def header(**given: Any) -> Change:
    return lambda path: save_file({"weight": torch.zeros(3)}, path, {"rankbound": json.dumps(given)} if given else None)


RECIPES: dict[str, list[Any]] = {
    "hidden": [[10**9, 10**9], [60_000, 60_000], [2**70], [1] * 100_000, [3.0], "abc", None],
    "activation": [["relu"], "eval"],
    "model": [{}, "linear"],
    "scale": ["query"],
    "epochs": [float("nan")],
    "temperature": ["hot"],
    "validation_share": [[0.5]],
}
TEXTS: dict[str, list[Any]] = {
    "feature_names": [5, "abc", ["a", "b", None], ["a", "b", "a"], ["a"]],
    "recipe": [None, []],
    "record": [None, 3],
    "format": ["ranker/2", None],
}
MORE, FEWER = ("model.layers.9.bias", "model."), ("scaling.shift", "scaling.factor", "model.layers.0.weight")
ENDS, TEXT = "known.items.ends", "known.topics.text"
REGIONS = ["1", "2", "3"]
MISFITS: list[tuple[str, Change]] = [
    ("linear", header(format="ranker/1", recipe={}, feature_names=["a"], record={})),
    *(("mlp", recipe({key: value})) for key, values in RECIPES.items() for value in values),
    *(("mlp", added(name)) for name in MORE),
    *(("mlp", parts(lambda header, tensors, name=name: tensors.pop(name))) for name in FEWER),
    *(
        ("encoded", change)
        for change in (
            encoding("missing", "median"),
            encoding("categories", {"colour": ["red"]}),
            encoding("categories", {"brand": ["acme", "acme", "bolt"], "region": REGIONS}),
            encoding("categories", {"brand": [1, 2, 3], "region": REGIONS}),
            encoding("categories", {"brand": ["acme"]}),
            encoding("indicators", ["colour"]),
            encoding("others", ["price"]),
            parts(lambda header, tensors: header.pop("encoding")),
            parts(lambda header, tensors: tensors.pop("encoding.fill")),
        )
    ),
    *(
        ("matrix-factorization", tensor(name, change))
        for name, change in (
            (ENDS, lambda ends: ends.flip(0)),
            (ENDS, lambda ends: ends + 1_000_000),
            (ENDS, lambda ends: -ends),
            (ENDS, lambda ends: ends[None]),
            (TEXT, torch.zeros_like),
            (TEXT, lambda text: torch.full_like(text, 255)),
        )
    ),
    *(
        (model, tensor(f"model.{name}", change))
        for model, name, change in (
            ("ease", "items", lambda items: items + 99),
            ("ease", "offsets", lambda offsets: offsets + 1),
            ("item-knn", "near", lambda near: near + 1),
            ("item-knn", "cosines", lambda cosines: cosines[:, 1:]),
            ("item-knn", "items", lambda items: items - 1),
            ("item-knn", "offsets", lambda offsets: offsets.flip(0)),
        )
    ),
]
DAMAGED = "damaged: .*; take another copy of it, or train it"
REFUSED: list[tuple[str, Change, str]] = [
    *((name, change, FIT) for name, change in MISFITS),
    *(("mlp", parts(lambda header, tensors, key=key, value=value: header.update({key: value})),
       f"({FIT}|found .*, expected a ranker)") for key, values in TEXTS.items() for value in values),
    # A tensor that is of no part of a ranker has to be finite all the same.
    ("mlp", added("another", float("inf")), f"({FIT}|damaged)"),
    ("linear", Path.unlink, "there is no such file"),
    ("linear", header(), r"found no header of a ranker, expected a ranker \(ranker/1\)"),
    ("linear", header(format="ranker/99"), "found ranker/99, expected a ranker"),
    ("linear", content(lambda data: b"not safetensors at all"), "not a safetensors file"),
    ("linear", content(lambda data: data[:-10]), DAMAGED),
    ("linear", content(lambda data: data[:-10] + bytes(10)), DAMAGED),
    ("linear", content(lambda data: data.replace(b"clicks", b"klicks")), DAMAGED),
    # A newer format is named before damage.
    ("encoded", content(lambda data: data.replace(b"ranker/2", b"ranker/3")),
     "found ranker/3, .*: a newer version of rankbound wrote it; update"),
    ("linear", recipe({"kernel": "laplace"}),
     ".*kernel: found a setting that the training of a ranker does not have; .*; train it again"),
    ("attention", recipe({"blocks": 10**6}), f"{FIT}.*the recipe has 1000000 blocks"),
    ("mcrank", tensor("model.trees", lambda trees: trees[trees != 10]), f"{FIT}.*LightGBM cannot read"),
    ("mcrank", tensor("model.trees", Tensor.float), f"{FIT}.*expected bytes"),
    ("mcrank", tensor("model.values", lambda values: values[:-1]), f"{FIT}.*expected 3"),
    ("rankboost", tensor("model.features", lambda features: features + 9), f"{FIT}.*none of 3 features"),
    ("rankboost", tensor("model.thresholds", lambda thresholds: thresholds[:-1]), f"{FIT}.*as many"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), REFUSED)
def test_what_is_no_ranker_is_refused(name: str, change: Change, message: str, path: Path) -> None:
    path.write_bytes(saved(name))
    change(path)
    with pytest.raises(DataError, match=rf"model\.safetensors: {message}"):
        rb.load(path)
