"""The pages on a model for search and on serving it run as they stand."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from tests.library.conftest import Program
from tests.library.pages import blocks, programs

PAGE, SERVE = "search_model.md", "Serve"


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names of the programs before the last section, run in a new folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for text in programs(PAGE)[:-1]:
        exec(text, names)
    return names


def test_the_page_takes_a_log_to_scores(page: dict[str, Any], program: Program) -> None:
    ranker, lists = page["ranker"], page["lists"]
    assert page["ndcg"] > 0.85
    assert page["tested"].evaluate("nDCG@10").means()["nDCG@10"] > 0.85
    assert list(lists.feature_names) == ["price", "stars", "brand", "in_stock"]
    assert page["best_first"].tolist() == [0, 1]
    np.testing.assert_array_equal(page["run"].scores, ranker.score_lists(page["later"]).scores)
    assert "price is missing" in ranker.encoding.inputs
    by_page = Path("model.safetensors").read_bytes()
    ((_, text),) = [block for block in blocks(PAGE) if block[0] == "sh"]
    for line in text.splitlines():
        printed = program(line.removeprefix("rankbound "))
    # The command is the program: the same bytes.
    assert Path("model.safetensors").read_bytes() == by_page
    assert f"nDCG@10  {page['ndcg']:.4f}" in printed
    written = [line for text in programs(PAGE)[1:] for line in text.splitlines() if line.strip()]
    assert len(written) <= 30


def test_the_page_serves_the_model(page: dict[str, Any]) -> None:
    """Rows of JSON, with and without values; a mistake in them is the client's."""
    pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[serving]'")
    with warnings.catch_warnings():
        # Of its own dependencies.
        warnings.simplefilter("ignore")
        from fastapi.testclient import TestClient

        (text,) = programs(PAGE, SERVE)
        exec(text, page)
        client = TestClient(page["app"])
        scored = client.post("/score", json=page["rows"])
        assert scored.status_code == 200, scored.text
        assert scored.json() == page["ranker"].score(page["rows"]).tolist()
        assert client.get("/health").json() == page["model"].info
        refused = client.post("/score", json=[{"price": "cheap", "stars": 1, "brand": "acme", "in_stock": True}])
        assert (refused.status_code, "column 'price' holds 'cheap'" in refused.json()["detail"]) == (422, True)
        assert client.post("/score", json=[{"price": 1.0}]).status_code == 422


def test_the_page_on_serving_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.set_num_threads", lambda count: None)
    names: dict[str, Any] = {}
    for text in programs("serving.md"):
        exec(text, names)
    assert len(names["same"]) == 50
    assert all(np.array_equal(scores, names["scores"]) for scores in names["same"])
    assert {*names["info"]} == {
        name
        for line in Path(__file__).parents[2].joinpath("docs/serving.md").read_text().splitlines()
        if line.startswith("| `")
        for name in line.split("|")[1].replace("`", "").replace(",", "").split()
    }


def test_known_categories_keep_their_places() -> None:
    """A model of LightGBM reads the places of its training; with a ranker of one's own, they make no difference."""
    frame = pl.DataFrame({"topic": [1, 1, 2], "relevance": [0, 1, 1], "brand": ["c", "x", "a"]})
    known = {"brand": ["a", "b", "c"]}
    lists = rb.read_lists(frame, categorical=known, missing_features="keep")
    assert lists.categories == known
    np.testing.assert_array_equal(lists.features[:, 0], [2, np.nan, 0])
    message = "row 1: column 'brand' holds 'x', expected one of its 3 known categories; missing_features='keep' reads"
    with pytest.raises(rb.errors.DataError, match=message):
        rb.read_lists(frame, categorical=known)
