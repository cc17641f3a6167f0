"""A ranker's graph in ONNX or of PyTorch gives the scores of the ranker, from raw features, for lists of any length."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound.errors import RankboundError
from tests.library.test_ranker import planted

RECIPES: list[dict[str, Any]] = [
    {"model": "linear"},
    {"model": "mlp", "hidden": (5, 3), "activation": "tanh", "scale": "none"},
    {"model": "mlp", "hidden": (4,), "missing_features": "indicator", "scale": "query"},
    {"model": "linear", "missing_features": "mean"},
    {"model": "ranksvm"},
    {"model": "rankboost"},
]


def run_pt2(path: Path, features: Any) -> Any:
    names = {"features": ""}
    program = torch.export.load(path, extra_files=names)
    return program.module()(torch.from_numpy(features)).detach().numpy(), names["features"]


def run_onnx(path: Path, features: Any) -> Any:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": features})
    return scores, session.get_modelmeta().custom_metadata_map["features"]


RUN = {".pt2": run_pt2, ".onnx": run_onnx}


@pytest.mark.parametrize("ending", RUN)
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: "-".join(map(str, recipe.values())))
def test_the_scores_of_a_graph_are_those_of_the_ranker(
    recipe: dict[str, Any], ending: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lists = planted()
    if "missing_features" in recipe:
        features = np.array(lists.features)
        features[np.random.default_rng(1).random(features.shape) < 0.2] = np.nan
        lists = replace(lists, features=features)
    how = {} if recipe["model"] in ("ranksvm", "rankboost") else {"epochs": 5, "learning_rate": 0.05}
    ranker = rb.train_ranker(lists, **how, **recipe)
    ranker.export(tmp_path / f"model{ending}")
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in tmp_path.iterdir()] == [f"model{ending}"]
    for n_items in (1, 2, 7, 400):
        features = np.ascontiguousarray(lists.features[:n_items], dtype=np.float32)
        scores, names = RUN[ending](tmp_path / f"model{ending}", features)
        expected = ranker.score(features, offsets=[0, n_items])
        np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
        assert scores.shape == (n_items,)
        assert json.loads(names) == ["clicks", "price", "noise"]


def test_what_has_no_graph_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = rb.train_ranker(planted(), epochs=1)
    frame = pl.DataFrame({"topic": list("aabb"), "item": list("wxyz"), "relevance": [1, 0, 0, 1], "kind": list("rrss")})
    texts = rb.train_ranker(rb.read_lists(frame, categorical=["kind"]), epochs=1, validation_share=0.0)
    attention = rb.train_ranker(planted(), epochs=1, model="attention", hidden=(4,), blocks=1)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setitem(sys.modules, "onnx", None)
    for ranker, name, kind, message in (
        (numbers, "model.pb", ValueError, r"model\.pb', expected a name with the ending \.onnx or \.pt2"),
        (texts, "model.pt2", ValueError, "features: kind have categories"),
        (attention, "model.pt2", ValueError, "model: found attention, expected a function of an item's features"),
        (numbers, "model.onnx", RankboundError, r"onnx is not installed: run pip install 'rankbound\[export\]'"),
    ):
        with pytest.raises(kind, match=message):
            ranker.export(tmp_path / name)
    assert not [*tmp_path.iterdir()]
