"""The leaderboard of rankers: its rows, what it trains, and its table, on lists with a planted weight per feature."""

import csv
from pathlib import Path

import numpy as np
import pytest

import rankbound as rb
from benchmarks import rankers, rates

TRIED = ("random scores", "best single feature", "Ranking SVM", "LambdaMART", "trees, AP min-max")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0)

    def lists(part: str, fold: int) -> rb.JudgedLists:
        topics = [f"{part}-{fold}-{topic}" for topic in range(40)]
        features = draws.normal(size=(400, 4)).astype(np.float32)
        relevance = np.digitize(features @ [1.5, 1.5, 1.5, 0.0] + draws.normal(size=400), [1.5, 3.0])
        relevance[:10] = 0  # A topic without relevant items counts 0.
        columns = {"features": features, "feature_names": list("abcd"), "items": [f"d{row}" for row in range(400)]}
        return rb.JudgedLists(topics=topics, offsets=np.arange(0, 401, 10), relevance=relevance, **columns)

    parts = ("training", "validation", "test")
    splits = [rb.Split(**{part: lists(part, fold) for part in parts}) for fold in (1, 2)]
    monkeypatch.setattr(rankers, "splits_of", lambda folder: splits)


def test_every_row_is_a_recipe() -> None:
    assert rankers.BASELINE in rankers.RANKERS
    assert len(rankers.RANKERS) >= 20
    for name, row in rankers.RANKERS.items():
        assert row["family"], name
        recipe = rb.Recipe(metric=rankers.AP, **row.get("recipe", {}))
        assert rb.loss(recipe.loss, recipe.bound), name


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_the_table_ranks_what_learns_above_what_does_not(tmp_path: Path) -> None:
    known = {name: rankers.RANKERS[name] for name in TRIED}
    found = {name: [rankers.tested(tmp_path, row, seed) for seed in (0, 1)] for name, row in known.items()}
    means = {name: float(np.mean([one.values[:, 0] for one in seeds])) for name, seeds in found.items()}
    learnt = {name: mean for name, mean in means.items() if name not in TRIED[:2]}
    assert means["random scores"] + 0.1 < means["best single feature"] < min(learnt.values()) < 0.975
    # Zero, not left out: one topic of each fold's forty.
    assert all((one.values[[0, 40]] == 0).all() for seeds in found.values() for one in seeds)
    again = rankers.tested(tmp_path, known["trees, AP min-max"], 1)
    np.testing.assert_array_equal(again.values, found["trees, AP min-max"][1].values)
    rankers.write(tmp_path, found, [str(topic) for topic in range(80)])
    lines = (tmp_path / "rankers.md").read_text("utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert [row[0].strip("| ") for row in rows] == sorted(means, key=lambda name: -means[name])
    assert float(rows[-1][2].split()[0]) == pytest.approx(means["random scores"], abs=6e-5)
    with (tmp_path / "rankers.csv").open(encoding="utf-8") as file:
        values = list(csv.DictReader(file))
    assert len(values) == 80 * len(TRIED)
    assert (tmp_path / "rankers.svg").stat().st_size > 0


def test_an_unknown_ranker_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        rankers.main(["--only", "MARS"])
    assert "--only: unknown MARS; known are random scores, " in capsys.readouterr().err


def test_rates_are_compared_on_generated_lists(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ranker that hardly moves is worse than one that learns; the parts have all topics, each once."""
    few = rates.Generated(100, 0.6, 0.2, 20, 6, 0, 3)
    (split,) = rates.generated(few)
    parts = [part.topics for part in split.parts.values() if part is not None]
    assert [len(topics) for topics in parts] == [60, 20, 20]
    assert len({topic for topics in parts for topic in topics}) == 100
    assert {*split.training.relevance} == {0, 1, 2, 3}
    monkeypatch.setitem(rates.SETS, "few", few)
    rates.main(["--sets", "few", "--models", "linear", "--rates", "1e-9", "0.1"])
    rows = [line.split("|") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[4].strip() for row in rows] == ["1e-09", "0.1"]
    assert all(float(rows[0][place]) < float(rows[1][place]) for place in (5, 6))
