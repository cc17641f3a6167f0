"""A stranger's model or names: refused before a file is written, or shown so that they cannot steer a terminal."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound import cli
from rankbound.io.judged import JudgedLists

ROWS = {"topic": ["a", "a", "b", "b"], "item": ["1", "2", "1", "2"], "relevance": [0, 1, 1, 0]}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pl.DataFrame(ROWS | {"f1": [5.0, 0.1, 0.3, 0.4], "f2": [0.1] * 4}).write_csv(tmp_path / "lists.csv")
    return tmp_path / "lists.csv"


def ranker(names: list[str], weight: float, path: Path) -> Path:
    lists = JudgedLists(
        topics=["a", "b"],
        items=ROWS["item"],
        relevance=np.array(ROWS["relevance"]),
        offsets=[0, 2, 4],
        features=np.ones((4, len(names)), np.float32),
        feature_names=names,
    )
    trained = rb.train_ranker(lists, scale="none", epochs=1, batch_size=2, validation_share=0)
    for weights in trained.model.parameters():
        weights.data.fill_(weight)
    trained.save(path)
    return path


@pytest.mark.parametrize(
    ("names", "weight", "out", "message"),
    [
        (["f1", "relevance"], 1.0, "run.txt", "the feature 'relevance' is the column of the relevance"),
        (["f1", "f2"], 3e38, "run.txt", "scores: found inf at item 0, expected finite numbers"),
        (["f1", "f2"], 3e38, "run.csv", "scores: found inf at item 0, expected finite numbers"),
        (["f1", "z" * 3_000_000], 1.0, "run.csv", "there is no column 'zzz"),
    ],
)
def test_a_model_that_reads_the_label_or_gives_no_scores_is_refused(
    names: list[str], weight: float, out: str, message: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ranker(names, weight, table.with_name("m.safetensors"))
    assert cli.main(["score", str(model), str(table), "--out", str(table.with_name(out))]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown) < 3000
    assert not table.with_name(out).exists()


def test_the_label_is_no_feature_of_the_command_either(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = table.with_name("m.safetensors")
    assert cli.main(["train", str(table), "--features", "f1,relevance", "--out", str(out)]) == 2
    assert "the feature 'relevance' is the column of the relevance, which a ranker" in capsys.readouterr().err
    assert not out.exists()


STEER = "\x1b]0;x\x07\x1b[2J"


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "compare", "compare --markdown", "compare --latex", "compare --json"]
)
def test_names_cannot_steer_a_terminal(command: str, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of columns, topics and metrics."""
    name, *form = command.split()
    folder, long = table.parent, STEER + 5000 * "y"
    if name == "train":
        pl.read_csv(table).with_columns(pl.lit("word").alias(f"te{STEER}xt")).write_csv(table)
        arguments = [str(table), "--epochs", "1", "--out", str(folder / "m.safetensors")]
    elif name == "evaluate":
        (folder / "run.txt").write_text(f"{long} Q0 d1 1 1.0 x\n")
        (folder / "qrels.txt").write_text(f"{long} 0 d1 1\n")
        arguments = [str(folder / "run.txt"), str(folder / "qrels.txt"), "-m", "AP", "--per-topic"]
    else:
        arguments = [str(folder / file) for file in ("a.csv", "b.csv")]
        for place, file in enumerate(arguments):
            scores = [0.1 * place * (topic % 2) + 0.05 * topic for topic in range(8)]
            pl.DataFrame({"topic": list("abcdefgh"), f"AP{STEER}\nmore": scores}).write_csv(file)
    assert cli.main([name, *arguments, *form]) == 0
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert "[2J" in shown
    assert name == "compare" or r"\x1b]0;x\x07\x1b[2J" in shown
    assert name == "compare" or len(shown) < 2000
    assert not any(line.startswith("more") for line in shown.splitlines())
