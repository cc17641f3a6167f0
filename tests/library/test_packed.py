"""Packed files, a row for each topic: read whoever wrote them, and the features of Arrow files stay in the file."""

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import rankbound as rb
from rankbound import cli
from rankbound.errors import DataError
from rankbound.io import letor as letor_module
from rankbound.training.models import ROWS_AT_ONCE, ScaledFeatures, Scaling
from tests.library.test_refused_files import packed

FRAME = pl.DataFrame(
    {"topic": ["b", "a", "b"], "item": ["x", "y", "z"], "relevance": [2, 0, 1], "f": [0.5, 1.5, 2.5], "g": [1, 2, 3]}
)


def same(found: rb.JudgedLists, expected: rb.JudgedLists) -> None:
    for name in ("topics", "items", "feature_names"):
        assert list(getattr(found, name)) == list(getattr(expected, name))
    for name in ("offsets", "relevance", "features"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def letor(path: Path, topics: int, items: int = 12) -> Path:
    """Lists with some features missing."""
    random = np.random.default_rng(0)
    lines = [
        f"{random.integers(0, 3)} qid:{topic} 1:{random.random():.4f} 3:{random.random():.4f} #docid = d{item}\n"
        for topic in range(1, topics + 1)
        for item in range(items)
    ]
    path.write_text("".join(lines))
    return path


def test_what_is_packed_is_read_again(tmp_path: Path) -> None:
    """Names of columns, and topics whose rows aren't adjacent, too."""
    packed = rb.pack_lists(FRAME.rename({"topic": "query"}), tmp_path / "x.arrow", topic="query")
    assert (packed.n_topics, packed.n_items, packed.n_features) == (2, 3, 2)
    same(rb.read_lists(tmp_path / "x.arrow"), rb.read_lists(FRAME))
    assert rb.read_lists(tmp_path / "x.arrow", features=["g"]).features.tolist() == [[1], [3], [2]]
    assert rb.read_qrels(tmp_path / "x.arrow").relevance.tolist() == [2, 1, 0]
    rb.pack_lists(tmp_path / "x.arrow", tmp_path / "y.arrow", features=["g", "f"])
    same(rb.read_lists(tmp_path / "y.arrow"), rb.read_lists(FRAME, features=["g", "f"]))


def test_text_of_many_chunks_is_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(letor_module.read_lists, "__defaults__", (1000, None, 127))
    seen: list[int] = []
    path = letor(tmp_path / "x.txt", topics=40)
    packed = rb.pack_lists(path, tmp_path / "x.arrow", on_topics=seen.append)
    assert sum(seen) == packed.n_topics == 40
    assert len(seen) > 5
    same(rb.read_lists(tmp_path / "x.arrow"), rb.read_lists(path))


def test_features_stay_in_the_file_which_cannot_be_written_to(tmp_path: Path) -> None:
    rb.pack_lists(FRAME, tmp_path / "x.arrow")
    before = pa.total_allocated_bytes()
    lists = rb.read_lists(tmp_path / "x.arrow", features=["f", "g"])
    assert pa.total_allocated_bytes() - before < lists.features.nbytes
    assert not lists.features.flags.owndata
    assert str(tmp_path / "x.arrow") in Path("/proc/self/maps").read_text()
    with pytest.raises(ValueError, match="read-only"):
        lists.features[0, 0] = 7
    topic = lists[0]
    topic.features.add_(1)
    assert topic.features.tolist() == [[1.5, 2], [3.5, 4]]
    same(lists, rb.read_lists(FRAME))


def test_a_model_learns_the_same_from_text_and_from_a_packed_file(tmp_path: Path) -> None:
    text = letor(tmp_path / "x.txt", topics=30)
    assert cli.main(["pack", str(text), str(tmp_path / "x.arrow")]) == 0
    for scale in ("standard", "query", "none"):
        found, expected = (
            rb.train_ranker(rb.read_lists(path), loss="AP", scale=scale, epochs=3)
            for path in (tmp_path / "x.arrow", text)
        )
        for name, weights in expected.model.state_dict().items():
            assert torch.equal(found.model.state_dict()[name], weights)
        scores = [ranker.score_lists(rb.read_lists(path)).scores for ranker in (found, expected) for path in (text,)]
        np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("kind", ["standard", "query", "none"])
def test_scaling_by_blocks_is_the_scaling_of_all(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    features = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)) * 1e3 + 1e4
    features[:, 1] = 7
    lists, rows = rb.Lists(torch.tensor([0, 20, 20, 50])), torch.arange(0, 50, 3)
    whole = Scaling.fitted(kind, features[rows])
    monkeypatch.setattr("rankbound.training.models.ROWS_AT_ONCE", 4)
    blocks = Scaling.fitted(kind, features, rows)
    torch.testing.assert_close((blocks.shift, blocks.factor), (whole.shift, whole.factor), rtol=1e-6, atol=0)
    scaled = ScaledFeatures(blocks, features, lists)
    torch.testing.assert_close(scaled.of_rows(rows), scaled.of_rows(slice(None))[rows], rtol=0, atol=0)


def test_a_number_that_is_not_finite_is_named_in_any_block() -> None:
    features = np.zeros((ROWS_AT_ONCE + 3, 1), np.float32)
    ranker = rb.train_ranker(rb.read_lists(FRAME.drop("g")), validation_share=0, epochs=1)
    features[ROWS_AT_ONCE + 1] = np.nan
    with pytest.raises(ValueError, match=rf"found nan at item {ROWS_AT_ONCE + 1}, feature 'f'"):
        ranker.score(features)


def test_what_cannot_be_packed_leaves_no_file(tmp_path: Path) -> None:
    text = letor(tmp_path / "x.txt", topics=3)
    with text.open("a") as file:
        file.write("1 qid:4 2:nan\n")
    with pytest.raises(DataError, match="line 37: found '2:nan'"):
        rb.pack_lists(text, tmp_path / "x.arrow")
    with pytest.raises(DataError, match=r"found relevance 0\.5, but packed files hold whole numbers"):
        rb.pack_lists(FRAME.with_columns(relevance=pl.lit(0.5)), tmp_path / "x.arrow")
    with pytest.raises(DataError, match=r"x\.parquet: expected a name that ends in \.arrow"):
        rb.pack_lists(FRAME, tmp_path / "x.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["x.txt"]


def test_a_file_of_any_writer_is_read(tmp_path: Path) -> None:
    """Texts and lists that polars wrote have 64-bit offsets."""
    pq.write_table(table := packed(more=pa.array([1, 2, 3])), tmp_path / "x.parquet")
    pl.DataFrame(table).write_parquet(tmp_path / "y.parquet")
    assert pa.types.is_large_list(pq.read_schema(tmp_path / "y.parquet").field("items").type)
    columns = {"topics": ["q1", "q2", "q3"], "items": ["a", "b", "c"], "offsets": [0, 2, 2, 3], "relevance": [1, 0, 2]}
    features = np.float32([[0, 1], [2, 3], [4, 5]])
    for path in (tmp_path / "x.parquet", tmp_path / "y.parquet"):
        same(rb.read_lists(path), rb.JudgedLists(**columns, features=features, feature_names=["1", "2"]))
        assert rb.read_qrels(path).relevance.tolist() == [1, 0, 2]
