"""Rankers across folds: every topic is scored once, by a ranker that never saw it."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import DataError
from rankbound.io.judged import JudgedLists

QUICK = {"epochs": 3, "batch_size": 8, "device": "cpu"}


def judged(topics: int = 20, sizes: tuple[int, ...] = (3, 5, 4)) -> JudgedLists:
    random = np.random.default_rng(0)
    lengths = [sizes[topic % len(sizes)] for topic in range(topics)]
    features = random.random((sum(lengths), 2)).astype(np.float32)
    return JudgedLists(
        topics=[f"q{topic}" for topic in range(topics)],
        items=[f"d{row}" for row in range(len(features))],
        relevance=(features[:, 0] > np.median(features[:, 0])).astype(float),
        offsets=np.append(0, np.cumsum(lengths)),
        features=features,
        feature_names=["a", "b"],
    )


def test_every_topic_is_tested_once_in_the_order_of_the_lists() -> None:
    lists = judged()
    made = rb.cross_validate(lists, 4, **QUICK)
    assert [len(fold) for fold in made.folds] == [5, 5, 5, 5]
    assert sorted(topic for fold in made.folds for topic in fold) == sorted(lists.topics)
    assert (list(made.run.topics), list(made.run.items)) == (lists.topics, lists.items)
    np.testing.assert_array_equal(made.run.offsets, lists.offsets)
    for ranker, fold in zip(made.rankers, made.folds, strict=True):
        scores = ranker.score(lists.features, lists.offsets)
        for topic in fold:
            place = slice(*lists.offsets[int(topic[1:]) :][:2])
            np.testing.assert_allclose(made.run.scores[place], scores[place], rtol=1e-6)


def test_no_ranker_depends_on_the_topics_that_it_scores() -> None:
    lists = judged()
    made = rb.cross_validate(lists, 4, **QUICK)
    (first, *_) = made.folds
    changed = lists.relevance.copy()
    for topic in first:
        place = slice(*lists.offsets[int(topic[1:]) :][:2])
        changed[place] = 1 - changed[place]
    columns = {name: getattr(lists, name) for name in ("topics", "items", "offsets", "features", "feature_names")}
    again = rb.cross_validate(JudgedLists(**columns, relevance=changed), 4, **QUICK)
    for topic in first:
        place = slice(*lists.offsets[int(topic[1:]) :][:2])
        np.testing.assert_array_equal(made.run.scores[place], again.run.scores[place])
    assert not np.array_equal(made.run.scores, again.run.scores)


def test_the_same_seed_gives_the_same_folds_and_scores() -> None:
    one, same, other = (rb.cross_validate(judged(), 3, seed=seed, **QUICK) for seed in (1, 1, 2))
    assert one.folds == same.folds != other.folds
    np.testing.assert_array_equal(one.run.scores, same.run.scores)


def test_folds_may_be_named_and_leave_topics_out() -> None:
    lists = judged()
    made = rb.cross_validate(lists, [["q3", "q1"], ["q7"]], **QUICK)
    assert (list(made.run.topics), made.folds) == (["q1", "q3", "q7"], [["q1", "q3"], ["q7"]])
    expected = [item for topic in (1, 3, 7) for item in lists.items[slice(*lists.offsets[topic:][:2])]]
    assert list(made.run.items) == expected
    assert np.isfinite(made.run.scores).all()


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "folds: found 1, expected 2 to 20, the number of topics"),
        (21, "folds: found 21, expected 2 to 20"),
        ([["q1"], ["other"]], "folds: found topic 'other', which the lists do not have"),
        ([["q1"], ["q2", "q1"]], "a topic is tested in two folds"),
        ([["q1"], []], "found one without topics"),
        ([[f"q{topic}" for topic in range(20)]], "or with all of them"),
    ],
)
def test_folds_that_cannot_be(folds: int | list[list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rb.cross_validate(judged(), folds, **QUICK)


def test_an_uninformative_fold_is_named() -> None:
    lists = judged(4)
    columns = {name: getattr(lists, name) for name in ("topics", "items", "offsets", "features", "feature_names")}
    with pytest.raises(DataError, match="fold 1: no training topic is informative"):
        rb.cross_validate(JudgedLists(**columns, relevance=np.zeros(len(lists.items))), 2, **QUICK)


def test_the_command_compares_losses_and_keeps_their_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    rows = [
        {"query": f"shoes {query}", "sku": f"s{item}", "clicked": int(price > 0.5), "price": price}
        for query in range(12)
        for item, price in enumerate(random.random(6).tolist())
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "lists.csv")
    columns = ["--topic", "query", "--item", "sku", "--relevance", "clicked"]
    flags = ["--folds", "3", "--epochs", "2", "-m", "nDCG@5", "-m", "RR", "--runs", str(tmp_path / "runs"), *columns]
    losses = ["--loss", "nDCG", "--loss", "LambdaRank(metric=nDCG@5)"]
    assert main(["cross-validate", str(tmp_path / "lists.csv"), *losses, *flags]) == 0
    shown = capsys.readouterr().out
    assert shown.count("3 folds, 12 topics\n") == 2
    assert "A: LambdaRank(metric=nDCG@5)\nB: nDCG\n" in shown
    runs = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert runs == ["LambdaRank(metric=nDCG@5).csv", "nDCG.csv"]
    assert (
        main(["evaluate", str(tmp_path / "runs/nDCG.csv"), str(tmp_path / "lists.csv"), "-m", "nDCG@5", *columns]) == 0
    )
    assert capsys.readouterr().out.splitlines()[1] in shown
