"""Exported runs of users and items that are called by texts, which TREC files cannot always hold."""

import json
from pathlib import Path
from typing import Any

import exported_study
import numpy as np
import polars as pl
import pytest

from rankbound.evaluation import evaluate_run
from rankbound.io.files import read_qrels, read_run
from rankbound_study import cli

USERS, ITEMS, OWN = 12, 60, 20
DRAWING = {"threshold": 4, "min_relevant": 10}


def user(number: int) -> str:
    return f"reader é {number:02}"


def item(number: int) -> str:
    return f'isbn,\t"{number:02}"\nfirst edition'


def make_study(items: list[str]) -> pl.DataFrame:
    """Ratings by texts, and one training on them, in the working folder; the ratings."""
    random = np.random.default_rng(0)
    rows = [
        (user(number), items[place], int(random.integers(4, 6)))
        for number in range(USERS)
        for place in random.choice(ITEMS, OWN, replace=False)
    ]
    ratings = pl.DataFrame(rows, schema=["who", "what", "stars"], orient="row")
    ratings.write_parquet("ratings.parquet")
    columns = {"topic": "who", "item": "what", "rating": "stars"}
    described = {"format": "ratings", "path": "ratings.parquet", "columns": columns, "ids": "texts"}
    data, folds, lists = "data/interactions/mine.parquet", "data/folds/mine.parquet", "data/instances/mine-nsr1.parquet"
    description, drawing = json.dumps(described), json.dumps(DRAWING)
    exported_study.step("convert", "mine", "--raw", "ratings.parquet", "--out", data, "--description", description)
    exported_study.step("split", "mine", "--in", data, "--out", folds, "--options", drawing)
    sampling = json.dumps({**DRAWING, "nsr": 1})
    exported_study.step("sample", "mine", "--in", data, "--folds", folds, "--out", lists, "--options", sampling)
    options: dict[str, Any] = {**exported_study.OF_USERS, "dataset": "mine", "loss": "nDCG", "bounding": "none"}
    out = "results/runs/published/mine-nsr1/x/nDCG/none.parquet"
    exported_study.step("job", "--instances", lists, "--out", out, "--options", json.dumps(options), "--device", "cpu")
    return ratings


def export(*flags: str, status: int = 0) -> None:
    assert cli.main(["export", "results", "--out-dir", "trec", *flags]) == status
    assert Path("trec").exists() == (status == 0)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("inside")
def test_texts_are_the_names_of_runs_and_qrels(capsys: pytest.CaptureFixture[str]) -> None:
    ratings = make_study([item(number) for number in range(ITEMS)])
    export(status=2)
    assert "a name in a TREC file has no white space and is not empty: use --space _" in capsys.readouterr().err
    export("--space", "_")
    assert "nDCG, AP, RR of all lists are those of the study's runs" in capsys.readouterr().out
    relevant = {tuple("_".join(name.split()) for name in row) for row in ratings.select("who", "what").rows()}
    found: list[tuple[str, str]] = []
    for row in pl.read_csv("trec/runs.csv").iter_rows(named=True):
        run, qrels = read_run(Path("trec", row["run"])), read_qrels(Path("trec", row["qrels"]))
        assert set(run.topics) == {user(number).replace(" ", "_") for number in range(USERS)}
        topic = np.repeat(qrels.topics, np.diff(qrels.offsets))
        judged = list(zip(topic.tolist(), list(qrels.items), strict=True))
        found += [pair for pair, label in zip(judged, qrels.relevance.tolist(), strict=True) if label]
        assert not {pair for pair, label in zip(judged, qrels.relevance.tolist(), strict=True) if not label} & relevant
        evaluated = evaluate_run(Path("trec", row["run"]), Path("trec", row["qrels"]), ("nDCG",))
        assert not evaluated.missing
        assert not evaluated.unjudged
    # The test parts of the five folds have every relevant pair once.
    assert sorted(found) == sorted(relevant)


@pytest.mark.usefixtures("inside")
def test_two_items_that_would_have_one_name_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Even if no list has both of them."""
    names = [item(number) for number in range(ITEMS)]
    make_study([*names[:-2], "red shoes", "red_shoes"])
    export("--space", "_", status=2)
    message = capsys.readouterr().err
    assert "with '_' instead of white space, two items have the name 'red_shoes': choose another character" in message
    export("--space", "=")
