"""A stranger's model or names: refused before a file is written, or shown so that they cannot steer a terminal."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.texts import printable, printable_message, shortened
from tests.library.conftest import Program


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "lists.csv"
    path.write_text("topic,item,relevance,f1,f2\na,1,0,5,.1\na,2,1,.1,.1\nb,1,1,.3,.1\nb,2,0,.4,.1\n")
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
    names: list[str], weight: float, out: str, message: str, table: Path, program: Program
) -> None:
    lists, model = rb.read_lists(table, features=[]), table.with_name("m.safetensors")
    lists = replace(lists, features=np.ones((4, len(names)), np.float32), feature_names=names)
    ranker = rb.train_ranker(lists, scale="none", epochs=1, batch_size=2, validation_share=0)
    for weights in ranker.model.parameters():
        weights.data.fill_(weight)
    ranker.save(model)
    shown = program(f"score {model} {table} --out {table.with_name(out)}", status=2)
    assert message in shown
    assert len(shown) < 3000
    assert not table.with_name(out).exists()


STEER = "\x1b]0;x\x07\x1b[2J"


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "compare", "compare --markdown", "compare --latex", "compare --json"]
)
def test_names_cannot_steer_a_terminal(command: str, table: Path, program: Program) -> None:
    name, *form = command.split()
    folder, long = table.parent, STEER + 5000 * "y"
    if name == "train":
        pl.read_csv(table).with_columns(pl.lit("word").alias(f"te{STEER}xt")).write_csv(table)
        arguments = f"{table} --epochs 1 --out {folder}/m.safetensors"
    elif name == "evaluate":
        (folder / "run.txt").write_text(f"{long} Q0 d1 1 1.0 x\n")
        (folder / "qrels.txt").write_text(f"{long} 0 d1 1\n")
        arguments = f"{folder}/run.txt {folder}/qrels.txt -m AP --per-topic"
    else:
        arguments = f"{folder}/a.csv {folder}/b.csv"
        for place, file in enumerate(arguments.split()):
            scores = [0.1 * place * (topic % 2) + 0.05 * topic for topic in range(8)]
            pl.DataFrame({"topic": list("abcdefgh"), f"AP{STEER}\nmore": scores}).write_csv(file)
    shown = program(f"{name} {arguments}", *form)
    assert shown.replace("\n", "").isprintable()
    assert "[2J" in shown
    assert name == "compare" or r"\x1b]0;x\x07\x1b[2J" in shown
    assert name == "compare" or len(shown) < 2000
    assert not any(line.startswith("more") for line in shown.splitlines())


def test_texts_of_others_are_escaped_and_lose_their_middle_but_keep_their_lines(program: Program) -> None:
    for text in ("plain", "Grüße 漢字 ≥ 1", "a\N{NO-BREAK SPACE}b", ""):
        assert printable(text) == text
    assert printable("a\x1b[2J\r\n\t\u202e\u2028\udcff\0") == r"a\x1b[2J\r\n\t\u202e\u2028\udcff\x00"
    assert shortened("a" * 10, 10) == "a" * 10
    assert shortened("start" + "x" * 1000 + "end..", 10) == "start ... (1000 more characters) ... end.."
    message = printable_message("first\n  second \x1b[0m\n" + "x" * 9000, 100)
    assert message.split("\n")[:2] == ["first", r"  second \x1b[0m"]
    assert len(message) < 200
    told = program("evaluate", "b.txt", "a\x1b[2J.txt", "-m", "AP", status=2)
    assert r"a\x1b[2J.txt: " in told
    assert "\x1b" not in told
