"""`rankbound score` in a stream: the same run as of lists that are read whole, and nothing where a line is wrong."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io.files import stream_lists, write_runs
from tests.library.conftest import Program
from tests.library.planted_ratings import frame
from tests.library.test_ranker import planted


def text_of(lists: rb.JudgedLists) -> str:
    topics = np.repeat(lists.topics, np.diff(lists.offsets))
    rows = zip(lists.relevance, topics, lists.features.tolist(), strict=True)
    return "".join(
        f"{grade} qid:{topic} {' '.join(f'{place + 1}:{value}' for place, value in enumerate(values))}\n"
        for grade, topic, values in rows
    )


@pytest.mark.parametrize("kind", ["csv", "parquet", "letor"])
@pytest.mark.parametrize("out", ["run.txt", "run.csv", "run.tsv", "run.parquet", "run.json"])
def test_a_stream_scores_as_the_whole(
    kind: str, out: str, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankbound.io.tables.BATCH_BYTES", 4_000)
    lists, path, whole = planted(), tmp_path / f"lists.{kind}", tmp_path / f"whole-{out}"
    if kind == "letor":
        path.write_text(text_of(lists))
    elif kind == "csv":
        frame(lists).drop("relevance").write_csv(path)
    else:
        frame(lists).drop("relevance").write_parquet(path)
    train = rb.read_lists(path) if kind == "letor" else lists
    ranker = rb.train_ranker(train, epochs=2)
    ranker.save(tmp_path / "model.safetensors")
    printed = program(f"score {tmp_path}/model.safetensors {path} --out {tmp_path}/{out}")
    assert "scored 480 items of 40 topics" in printed
    rb.write_run(whole, ranker.score_lists(path))
    if out.endswith("parquet"):
        ours, theirs = (pl.read_parquet(file) for file in (tmp_path / out, whole))
        assert ours.drop("score").equals(theirs.drop("score"))
        np.testing.assert_allclose(ours["score"], theirs["score"], rtol=1e-6)
    else:
        ours, theirs = (rb.read_run(file) for file in (tmp_path / out, whole))
        assert (list(ours.topics), list(ours.items)) == (list(theirs.topics), list(theirs.items))
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-6)


def test_a_late_mistake_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    lists, path, out = planted(), tmp_path / "lists.letor", tmp_path / "run.txt"
    path.write_text(text_of(lists))
    ranker = rb.train_ranker(rb.read_lists(path), epochs=2)
    out.write_text("as it was")
    parts = stream_lists(path, ranker.feature_names)
    assert parts is not None

    def runs() -> object:
        yield from map(ranker.score_lists, parts)
        raise DataError("a late line")

    with pytest.raises(DataError, match="a late line"):
        write_runs(out, runs())  # type: ignore[arg-type]
    assert out.read_text() == "as it was"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lists.letor", "run.txt"]
