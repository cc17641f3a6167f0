"""TREC files in and out, and trec_eval's own numbers for a run judged by qrels."""

import gzip
import itertools
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
import torch

import rankbound as rb
from rankbound.cli import main
from rankbound.errors import DataError
from rankbound.evaluation import evaluate_run
from rankbound.io.files import read_qrels, read_run, write_qrels, write_run
from rankbound.io.judged import Qrels, Run
from rankbound.lists import Lists
from rankbound.metrics import Metric, metric
from rankbound.metrics.base import values_of
from rankbound.ranks import Ranks

Table = Mapping[str, Mapping[str, float]]

# Ours, and what pytrec_eval calls it.
SHARED = {
    "AP": "map",
    "nDCG(gain=linear)": "ndcg",
    "nDCG(gain=linear)@10": "ndcg_cut_10",
    "P@10": "P_10",
    "RR": "recip_rank",
    "AP@10": "map_cut_10",
    "Recall@10": "recall_10",
    "Hit@10": "success_10",
    "Rprec": "Rprec",
    "Bpref": "bpref",
    "infAP": "infAP",
    "SetP": "set_P",
    "SetR": "set_recall",
    "SetF": "set_F",
    # At 0.7, trec_eval's rounding takes 2 of 3 relevant items for enough.
    **{f"IPrec(recall={level / 10:g})": f"iprec_at_recall_{level / 10:.2f}" for level in range(11) if level != 7},
}

MEASURES = {
    *("map", "map_cut", "ndcg", "ndcg_cut", "P", "recall", "recip_rank", "success", "Rprec", "iprec_at_recall"),
    *("bpref", "infAP", "set_P", "set_recall", "set_F"),
}


def run_of(table: Table) -> Run:
    scores = [score for items in table.values() for score in items.values()]
    return Run(topics=list(table), items=_items(table), scores=np.array(scores, float), offsets=_offsets(table))


def qrels_of(table: Table) -> Qrels:
    grades = [int(grade) for items in table.values() for grade in items.values()]
    return Qrels(topics=list(table), items=_items(table), relevance=np.array(grades, int), offsets=_offsets(table))


def _items(table: Table) -> list[str]:
    return [item for items in table.values() for item in items]


def _offsets(table: Table) -> np.ndarray[Any, Any]:
    return np.cumsum([0, *(len(items) for items in table.values())])


def table_of(run: Run) -> dict[str, dict[str, float]]:
    scores = run.scores.tolist()
    return {
        topic: dict(zip(list(run.items)[start:stop], scores[start:stop], strict=True))
        for topic, (start, stop) in zip(run.topics, itertools.pairwise(run.offsets.tolist()), strict=True)
    }


def random_tables(seed: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Topics with retrieved and unretrieved, judged and unjudged items; some in the run alone, some in the qrels."""
    generator = np.random.default_rng(seed)
    run, qrels = {}, {}
    for topic in range(40):
        pool = [f"d{item}" for item in range(60)]
        retrieved = generator.permutation(pool)[: generator.integers(1, 50)]
        judged = generator.permutation(pool)[: generator.integers(1, 40)]
        if topic % 7 != 3:
            run[f"q{topic}"] = dict(zip(map(str, retrieved), generator.permutation(len(retrieved)) / 4, strict=True))
        if topic % 11 != 5:
            grades = generator.integers(-1, 4, len(judged)) * (generator.random(len(judged)) < 0.5)
            qrels[f"q{topic}"] = dict(zip(map(str, judged), grades.tolist(), strict=True))
    return run, qrels


@pytest.mark.parametrize("seed", range(3))
def test_trec_evals_numbers(tmp_path: Path, seed: int) -> None:
    run, qrels = random_tables(seed)
    write_run(tmp_path / "run.txt", run_of(run))
    write_qrels(tmp_path / "qrels.txt", qrels_of(qrels))
    found = evaluate_run(tmp_path / "run.txt", tmp_path / "qrels.txt", list(SHARED), missing="skip")
    expected = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
    assert set(found.topics) == set(expected)
    for ours, theirs in SHARED.items():
        values = np.array([expected[topic][theirs] for topic in found.topics])
        np.testing.assert_allclose(np.nan_to_num(found.values[ours]), values, atol=1e-9, err_msg=ours)
        # They count a topic without relevant items as 0; ours is undefined, and left out of the mean.
        relevant = np.array([max(qrels[topic].values()) > 0 for topic in found.topics])
        if ours not in ("P@10", "Hit@10", "SetP"):
            np.testing.assert_array_equal(np.isnan(found.values[ours]), ~relevant)


OF_TIES = (
    *("AP", "nDCG", "nDCG@4", "RR", "P@3", "RBP(p=0.7)", "nRBP(p=0.7)", "Rprec", "Rprec(rel=2)"),
    *("IPrec(recall=0.1)", "IPrec(recall=0.4)", "IPrec(recall=0.6)", "IPrec(recall=1)", "Bpref", "Bpref(rel=2)"),
    *("infAP", "infAP(rel=2)", "Judged", "Judged@1", "Judged@3", "Judged@6", "SetP", "SetR(rel=2)", "SetF(beta=2)"),
)


def test_ties_count_by_the_mean_over_their_orders() -> None:
    """Beside items that were not retrieved, which are below all of them in every order, and unjudged ones."""
    scores, grades, lost = [2.0, 1.0, 1.0, 1.0, 0.5, 0.5], [0, 2, 0, 1, 1, 0], {"x": 2, "y": 1, "z": 0}
    scores += [1.0, 0.5]
    items = [f"d{index}" for index in range(len(scores))]
    qrels = qrels_of({"q": dict(zip(items, grades, strict=False)) | lost})
    values: dict[str, list[float]] = {name: [] for name in OF_TIES}
    for first, second in itertools.product(itertools.permutations((1, 2, 3, 6)), itertools.permutations((4, 5, 7))):
        order = [0, *first, *second]
        strict = {"q": {items[item]: -float(rank) for rank, item in enumerate(order)}}
        for name, (value,) in evaluate_run(run_of(strict), qrels, list(OF_TIES)).values.items():
            values[name].append(value)
    tied = evaluate_run(run_of({"q": dict(zip(items, scores, strict=True))}), qrels, list(OF_TIES))
    assert {name: value for name, (value,) in tied.values.items()} == pytest.approx(
        {name: np.mean(values[name]) for name in OF_TIES}, abs=1e-12
    )


def test_an_item_that_is_missing_adds_nothing_and_counts_in_what_was_possible() -> None:
    run = run_of({"q": {"a": 3.0, "b": 2.0, "c": 1.0}})
    qrels = qrels_of({"q": {"a": 1, "c": 1, "x": 1, "y": 0}})
    found = evaluate_run(run, qrels, ["AP", "nDCG", "RR", "P@2"]).values
    assert found["AP"][0] == pytest.approx((1 + 2 / 3) / 3, abs=1e-15)
    assert found["nDCG"][0] == pytest.approx((1 + 1 / 2) / (1 + 1 / np.log2(3) + 1 / 2), abs=1e-15)
    assert found["RR"][0] == 1
    assert found["P@2"][0] == 0.5


def test_nothing_relevant_retrieved_is_zero_and_nothing_relevant_at_all_is_undefined() -> None:
    run = run_of({"none": {"a": 1.0}, "empty": {"a": 1.0}, "clean": {"a": 1.0}})
    qrels = qrels_of({"none": {"b": 2}, "empty": {"a": 0}, "clean": {"a": 3}})
    found = evaluate_run(run, qrels, ["AP", "nDCG", "RR", "P@5"])
    for name in ("AP", "nDCG", "RR"):
        np.testing.assert_array_equal(found.values[name], [0, np.nan, 1])
    np.testing.assert_array_equal(found.values["P@5"], [0, 0, 0.2])
    assert found.undefined() == {"AP": 1, "nDCG": 1, "RR": 1, "P@5": 0}
    assert found.means()["AP"] == 0.5


def test_topics_that_are_missing_are_skipped_or_count_zero() -> None:
    run = run_of({"b": {"x": 1.0}, "only-run": {"x": 1.0}})
    qrels = qrels_of({"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 0}})
    skipped = evaluate_run(run, qrels, ["AP", "P@2"], missing="skip")
    assert (skipped.topics, skipped.missing, skipped.unjudged) == (["b"], ["a", "c"], ["only-run"])
    assert skipped.means() == {"AP": 1.0, "P@2": 0.5}
    zero = evaluate_run(run, qrels, ["AP", "P@2"], missing="zero")
    assert list(zero.topics) == ["a", "b", "c"]
    np.testing.assert_array_equal(zero.values["AP"], [0, 1, np.nan])
    np.testing.assert_array_equal(zero.values["P@2"], [0, 0.5, 0])
    with pytest.raises(ValueError, match=r"^missing: found drop, expected one of skip, zero"):
        evaluate_run(run, qrels, ["AP"], missing="drop")


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_a_run_without_common_topics_is_refused(missing: str) -> None:
    expected = "no topic in common: the run has 'b', 'c', 'd', ..., the qrels have 'a'; compare the topics' names"
    with pytest.raises(DataError, match=expected):
        evaluate_run({topic: {"x": 1.0} for topic in "bcde"}, {"a": {"x": 1}}, "AP", missing=missing)
    with pytest.raises(DataError, match="the run has none, the qrels have 'a'"):
        evaluate_run({}, {"a": {"x": 1}}, "AP", missing=missing)


def test_dictionaries_and_data_frames_are_runs_and_qrels() -> None:
    run, qrels = (
        {"q": {"a": 2.0, "b": 1.0, "c": 3}, "r": {}, 7: {"a": 1}},
        {"q": {"b": 1, "c": 2}, "7": {"a": 0}, "r": {"a": 1}},
    )
    expected = evaluate_run(run_of(run), qrels_of(qrels), ["AP", "nDCG", "P@2"])  # type: ignore[arg-type]
    rows = [(str(topic), item, score) for topic, items in run.items() for item, score in items.items()]
    run_frame = pl.DataFrame(rows, schema=["topic", "item", "score"], orient="row")
    labels = [(topic, item, grade) for topic, items in qrels.items() for item, grade in items.items()]
    qrels_frame = pl.DataFrame(labels, schema=["topic", "item", "relevance"], orient="row")
    found = evaluate_run(run, qrels, ["AP", "nDCG", "P@2"])
    assert list(found.topics) == ["q", "7", "r"]
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)
    for frames in ((run_frame, qrels_frame), (run_frame.to_pandas(), qrels_frame.to_arrow())):
        framed = evaluate_run(*frames, ["AP", "nDCG", "P@2"], missing="skip")
        assert list(framed.topics) == ["q", "7"]
        for name, values in expected.values.items():
            np.testing.assert_array_equal(framed.values[name], values[:2])


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        ({"q": {"a": "high"}}, {"q": {"a": 1}}, "topic 'q', item 'a': found 'high', expected a number"),
        ({"q": {"a": None}}, {"q": {"a": 1}}, "topic 'q', item 'a': found None, expected a number"),
        ({"q": {"a": 1}}, {"q": {"a": -1}}, "topic 'q', item 'a': found relevance -1, expected grades from 0"),
        ({"q": {"a": 1}}, {"q": {"a": float("nan")}}, "item 'a': found relevance nan, expected grades from 0"),
    ],
)
def test_dictionaries_with_other_values_are_refused(run: Any, qrels: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        evaluate_run(run, qrels, "AP")


def test_undefined_values_are_skipped_or_zero_and_the_evaluation_is_a_table() -> None:
    run, qrels = {"a": {"x": 1.0}, "b": {"x": 1.0}, "e": {}}, {"a": {"x": 1}, "b": {"x": 0}, "d": {"x": 1}}
    skipped, zero = (
        evaluate_run(run, qrels, ["AP", rb.metric("P@1")], undefined=how, missing="skip") for how in ("skip", "zero")
    )
    assert (skipped.means()["AP"], zero.means()["AP"], zero.undefined()["AP"]) == (1.0, 0.5, 0)
    assert str(skipped).splitlines() == [
        "metric    mean  topics  undefined",
        "AP      1.0000       1          1",
        "P@1     0.5000       2          0",
        "topics of the qrels that the run lacks: 1",
        "topics of the run that the qrels lack: 1",
    ]
    assert skipped.to_polars().rows() == [("a", 1.0, 1.0), ("b", pytest.approx(np.nan, nan_ok=True), 0.0)]
    assert zero.to_pandas().to_dict("list") == {"topic": ["a", "b"], "AP": [1.0, 0.0], "P@1": [1.0, 0.0]}
    with pytest.raises(ValueError, match=r"^undefined: found 'none', expected|^undefined: found none, expected"):
        evaluate_run(run, qrels, "AP", undefined="none")


def test_complete_lists_are_plain_metrics() -> None:
    generator = np.random.default_rng(0)
    scores, grades = generator.integers(0, 5, 30).astype(float), generator.integers(0, 3, 30)
    items = [f"d{index}" for index in range(10)] * 3
    offsets = np.array([0, 10, 20, 30])
    run = Run(topics=list("abc"), items=items, scores=scores, offsets=offsets)
    qrels = Qrels(topics=list("abc"), items=items, relevance=grades, offsets=offsets)
    found = evaluate_run(run, qrels, ["nDCG@3", "AP", "nRBP"])
    for name, values in found.values.items():
        np.testing.assert_array_equal(values, metric(name)(scores, grades, offsets))


@pytest.mark.parametrize("name", ["nRBP", "LinearDCG", "LinearNDCG", "PairError"])
def test_sums_of_ranks_have_no_value_for_a_missing_item(name: str) -> None:
    qrels = qrels_of({"q": {"a": 1, "b": 1, "c": 0}})
    with pytest.raises(ValueError, match=rf"^metric {name}: is undefined where a relevant item was not retrieved"):
        evaluate_run(run_of({"q": {"a": 1.0, "c": 2.0}}), qrels, [name])


def test_a_metric_that_does_not_notice_rank_infinity_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Found(Metric):
        """The number of relevant items, whatever their ranks."""

        name: ClassVar[str] = "Found"

        def of_ranks(self, ranks: Ranks, relevance: torch.Tensor, lists: Lists) -> torch.Tensor:
            return lists.sum(relevance > 0)

    complete = qrels_of({"q": {"a": 1}})
    assert evaluate_run(run_of({"q": {"a": 1.0}}), complete, [Found()]).values["Found"].tolist() == [1]
    with pytest.raises(ValueError, match=r"^metric Found: is undefined where a relevant item was not retrieved"):
        evaluate_run(run_of({"q": {"b": 1.0}}), complete, [Found()])


def test_a_score_that_is_not_finite_is_refused_with_its_topic() -> None:
    run = run_of({"p": {"a": 1.0}, "q": {"a": 1.0, "b": float("nan")}})
    with pytest.raises(ValueError, match=r"^scores: found nan in topic q, expected finite numbers"):
        evaluate_run(run, qrels_of({"p": {"a": 1}, "q": {"a": 1}}), ["AP"])


# Files


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz", "run.csv", "run.csv.gz", "run.tsv", "run.parquet"])
def test_a_written_run_is_read_back_with_every_score_and_its_order(tmp_path: Path, name: str, dtype: Any) -> None:
    generator = np.random.default_rng(1)
    # Neighbours in their own precision, at all magnitudes.
    base = (10.0 ** generator.uniform(-30, 30, 200)).astype(dtype)
    scores = np.concatenate([base, np.nextafter(base, dtype(np.inf)), -base]).astype(dtype)
    generator.shuffle(scores)
    offsets = np.array([0, 250, 250, 600])
    items = [f"d{index}" for index in range(600)]
    run = Run(topics=["q1", "empty", "q2"], items=items, scores=torch.from_numpy(scores), offsets=offsets)
    write_run(tmp_path / name, run)
    back = read_run(tmp_path / name)
    expected = {topic: found for topic, found in table_of(run).items() if found}
    assert {t: {i: dtype(s) for i, s in found.items()} for t, found in table_of(back).items()} == expected
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if "txt" in name:
        lines = (gzip.decompress if name.endswith("gz") else bytes)((tmp_path / name).read_bytes()).decode().split("\n")
        assert lines[0].split()[::3] == ["q1", "1"]
        assert all(a >= b for a, b in itertools.pairwise(back.scores[:250]))


def test_written_qrels_are_read_back(tmp_path: Path) -> None:
    qrels = qrels_of({"q1": {"a": 2, "b": 0}, "q2": {"a": 1}})
    write_qrels(tmp_path / "qrels", qrels)
    assert (tmp_path / "qrels").read_text() == "q1 0 a 2\nq1 0 b 0\nq2 0 a 1\n"
    back = read_qrels(tmp_path / "qrels")
    assert (list(back.topics), list(back.items), back.relevance.tolist(), back.offsets.tolist()) == (
        ["q1", "q2"],
        ["a", "b", "a"],
        [2, 0, 1],
        [0, 2, 3],
    )


@pytest.mark.parametrize("name", ["q.csv", "q.csv.gz", "q.tsv", "q.tsv.gz", "q.parquet", "q.txt", "q.txt.gz"])
def test_written_qrels_are_read_back_whatever_their_name(tmp_path: Path, name: str) -> None:
    _, table = random_tables(0)
    qrels = qrels_of({topic: {item: max(grade, 0) for item, grade in items.items()} for topic, items in table.items()})
    write_qrels(tmp_path / name, qrels)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")
    back = read_qrels(tmp_path / name)
    assert (list(back.topics), list(back.items)) == (list(qrels.topics), list(qrels.items))
    np.testing.assert_array_equal(back.relevance, qrels.relevance)
    np.testing.assert_array_equal(back.offsets, qrels.offsets)


def test_packed_parquet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"run\.parquet\.gz: parquet is already compressed; expected a name that ends in"
    ):
        write_run(tmp_path / "run.parquet.gz", run_of({"q": {"a": 1.0}}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "q1 0 a 1\nq2 0 b -2\nq1 0 c 3\n",
        "q1\t0\ta\t1\nq2\t0\tb\t-2\nq1\t0\tc\t3",
        " q1  0 a   1 \r\n\r\nq2 0\tb -2\r\nq1 0 c 3\r\n",
        "q1 0 a 1\n\n\nq2 0 b -2\nq1 0 c +3\n",
    ],
    ids=["plain", "tabs", "untidy", "signs"],
)
def test_white_space_and_order_of_qrels_are_free(tmp_path: Path, text: str) -> None:
    """Rows of a topic come together, in the order of their first; negative relevance is 0."""
    (tmp_path / "qrels").write_bytes(text.encode())
    qrels = read_qrels(tmp_path / "qrels")
    assert (list(qrels.topics), list(qrels.items)) == (["q1", "q2"], ["a", "c", "b"])
    assert qrels.relevance.tolist() == [1, 3, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": ["a b"]}, "items holds 'a b'; a name in a TREC file has no white space"),
        ({"topics": [""]}, "topics holds ''"),
        ({"scores": np.array([np.inf])}, "found the score inf, expected finite numbers"),
    ],
)
def test_what_a_run_cannot_hold_is_not_written(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    run = Run(**{"topics": ["q"], "items": ["a"], "scores": np.array([1.0]), "offsets": [0, 1], **change})
    with pytest.raises(DataError, match=message):
        write_run(tmp_path / "run.txt", run)
    assert list(tmp_path.iterdir()) == []


def test_qrels_hold_whole_numbers(tmp_path: Path) -> None:
    qrels = Qrels(topics=["q"], items=["a", "b"], relevance=np.array([1.0, 0.5]), offsets=[0, 2])
    with pytest.raises(DataError, match=r"found relevance 0\.5, expected whole numbers"):
        write_qrels(tmp_path / "qrels", qrels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0]}, r"^scores: found 1 values, expected 2"),
        ({"offsets": [0, 1]}, r"^offsets: found 0 .. 1, expected 0 .. 2"),
        ({"topics": ["a"]}, r"^topics: found 1 names, expected 2"),
        ({"topics": ["a", "a"]}, r"^topics: found 'a' twice"),
    ],
)
def test_a_run_whose_columns_do_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Run(**{"topics": ["a", "b"], "items": ["x", "y"], "scores": [1.0, 2.0], "offsets": [0, 1, 2], **change})


def test_objects_with_arrays_are_compared_by_identity() -> None:
    columns = {"topics": ["a"], "items": ["x", "y"], "offsets": [0, 2]}
    of_topic = {"a": {"x": 1.0, "y": 2.0}}
    pairs: list[list[object]] = [
        [Run(**columns, scores=[1.0, 2.0]) for _ in range(2)],
        [Qrels(**columns, relevance=[1, 0]) for _ in range(2)],
        [Lists.of_sizes([1, 2]) for _ in range(2)],
        [evaluate_run(of_topic, of_topic, "AP") for _ in range(2)],
    ]
    for one, other in pairs:
        assert one == one
        assert one != other
        assert len({one, other}) == 2


def test_columns_of_other_libraries_make_a_run() -> None:
    run = Run(topics=["a"], items=pl.Series(["x", "y"]), scores=pl.Series([1.0, 2.0]), offsets=pl.Series([0, 2]))
    assert table_of(run) == {"a": {"x": 1.0, "y": 2.0}}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_of_any_precision_make_a_run(dtype: torch.dtype) -> None:
    scores = torch.tensor([1.5, 2.25], dtype=dtype, requires_grad=True)
    run = Run(topics=["a"], items=["x", "y"], scores=scores, offsets=[0, 2])
    assert table_of(run) == {"a": {"x": 1.5, "y": 2.25}}


def test_numbers_are_names_too(tmp_path: Path) -> None:
    run = Run(topics=[7, 8], items=np.array([3, 4, 3]), scores=[1.0, 2.0, 3.0], offsets=[0, 2, 3])
    write_run(tmp_path / "run.txt", run)
    assert table_of(read_run(tmp_path / "run.txt")) == {"7": {"4": 2.0, "3": 1.0}, "8": {"3": 3.0}}
    found = evaluate_run(run, qrels_of({"7": {"3": 1}, "8": {"3": 1}}), ["RR"])
    assert found.values["RR"].tolist() == [0.5, 1]


def test_an_item_that_a_topic_has_twice_is_refused() -> None:
    twice: dict[str, Any] = {"topics": ["p", "q"], "items": ["a", "b", "b"], "offsets": [0, 1, 3]}
    run, qrels = run_of({"q": {"b": 1.0}}), qrels_of({"q": {"b": 1}})
    with pytest.raises(DataError, match=r"^scores: item 'b' occurs more than once in topic 'q'"):
        evaluate_run(Run(**twice, scores=[1.0, 2.0, 3.0]), qrels, ["AP"])
    with pytest.raises(DataError, match=r"^relevance: item 'b' occurs more than once in topic 'q'"):
        evaluate_run(run, Qrels(**twice, relevance=[1, 1, 1]), ["AP"])


LARGE = 2**53
# As doubles, the first two of a topic are equal; the third is far away.
TIED_BY_ROUNDING = {"q": {"a": LARGE + 1, "b": LARGE, "c": 1}}
EQUAL = rf"topic 'q', items 'a' and 'b': found the scores {LARGE + 1} and {LARGE}, which are equal in double precision"


def _text_of_run(scores: dict[str, dict[str, Any]], line: str) -> str:
    return "".join(
        line.format(topic=topic, item=item, score=score)
        for topic, items in scores.items()
        for item, score in items.items()
    )


def _frame_of_run(scores: dict[str, dict[str, Any]], dtype: Any = None) -> pl.DataFrame:
    rows = [(topic, item, score) for topic, items in scores.items() for item, score in items.items()]
    topics, items_, values = zip(*rows, strict=True)
    return pl.DataFrame({"topic": topics, "item": items_, "score": pl.Series(values, dtype=dtype)})


def _file(tmp_path: Path, name: str, text: str) -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


# Each way in which a run comes, for the same scores.
RUNS_OF: dict[str, Callable[[dict[str, dict[str, Any]], Path], Any]] = {
    "dictionaries": lambda scores, _: scores,
    "int64 of NumPy": lambda scores, _: {t: {i: np.int64(s) for i, s in of.items()} for t, of in scores.items()},
    "polars": lambda scores, _: _frame_of_run(scores),
    "uint64": lambda scores, _: _frame_of_run(scores, pl.UInt64),
    "decimals without digits": lambda scores, _: _frame_of_run(scores, pl.Decimal(38, 0)),
    "pandas": lambda scores, _: _frame_of_run(scores).to_pandas(),
    "Arrow": lambda scores, _: _frame_of_run(scores).to_arrow(),
    "CSV": lambda scores, path: _file(
        path, "r.csv", "topic,item,score\n" + _text_of_run(scores, "{topic},{item},{score}\n")
    ),
    "CSV beside a fraction": lambda scores, path: _file(
        path, "r.csv", "topic,item,score\n" + _text_of_run(scores, "{topic},{item},{score}\n") + "q,d,0.5\n"
    ),
    "TREC": lambda scores, path: _file(path, "r.txt", _text_of_run(scores, "{topic} Q0 {item} 1 {score} t\n")),
    "TREC with other spaces": lambda scores, path: _file(
        path, "r.txt", _text_of_run(scores, "{topic}\t Q0  {item} 1 {score} t \n\n")
    ),
}


@pytest.mark.parametrize("way", RUNS_OF)
def test_whole_scores_that_become_equal_are_refused_with_topic_and_items(way: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=EQUAL):
        read_run(RUNS_OF[way](TIED_BY_ROUNDING, tmp_path))
    # In topics of their own, or apart as doubles, they are scores like others; equal ones tie.
    fine = {"q": {"a": LARGE + 1, "c": LARGE - 1}, "r": {"b": LARGE}, "s": {"a": LARGE + 2, "b": LARGE + 2}}
    qrels = {topic: {item: 1 for item in items if item != "a"} for topic, items in fine.items()}
    values = evaluate_run(RUNS_OF[way](fine, tmp_path), qrels, "RR").values["RR"]
    np.testing.assert_array_equal(values, [0.5, 1, 0.75])


@pytest.mark.parametrize(
    ("dtype", "scores"),
    [(pl.Decimal(10, 2), [0.5, 0.75]), (pl.Float32, [0.5, 0.75]), (pl.Int8, [1, 2]), (pl.Boolean, [False, True])],
)
def test_columns_of_each_numeric_type_keep_their_fractions(dtype: Any, scores: list[float]) -> None:
    """Decimals, which databases export, were cut to whole numbers."""
    columns = {"topic": ["q", "q"], "item": ["a", "b"]}
    numbers = pl.Series(scores).cast(dtype)
    assert read_run(pl.DataFrame({**columns, "score": numbers})).scores.tolist() == scores
    assert read_qrels(pl.DataFrame({**columns, "relevance": numbers})).relevance.tolist() == scores
    halves = pa.table({**columns, "score": np.array(scores, np.float16)})
    assert read_run(halves).scores.tolist() == scores


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: read_run({"q": {"a": 10**400}}), "topic 'q', item 'a': found a score above 1.8e308"),
        (lambda: read_qrels({"q": {"a": LARGE + 1}}), r"topic 'q', item 'a': found relevance .*up to 2\^53"),
        (lambda: rb.evaluate("RR", [LARGE + 1, LARGE, 0.5], [0, 1, 0], [0, 3]), f"scores: found {LARGE + 1} at 0"),
        (lambda: rb.evaluate("PairAccuracy", [1, 2], [LARGE + 2, LARGE + 1], [0, 2]), r"grades up to 2\^53"),
        (lambda: rb.evaluate("LinearNDCG", [1, 2], [1e308, 1e308], [0, 2]), "relevance: found 1e\\+308"),
        (lambda: rb.evaluate("RR", np.array([1j, 2]), [0, 1], [0, 2]), "scores: found torch.complex128"),
        (lambda: rb.evaluate("RR", torch.zeros(2).to_sparse(), [0, 1], [0, 2]), "scores: found torch.sparse_coo"),
        (lambda: rb.evaluate("RR", torch.zeros(2, device="meta"), [0, 1], [0, 2]), "scores: found a tensor on meta"),
        (lambda: rb.metric(f"nDCG@{10**30}"), r"metric nDCG: found cut-off 1e\+30, expected at most 2\^53"),
        (lambda: rb.metric("nDCG@" + "9" * 5000), "metric nDCG: found cut-off 1e"),
        (lambda: rb.loss(f"nDCG@{10**30}"), r"found cut-off 1e\+30, expected at most 2\^53"),
        (lambda: rb.metric(f"AP(rel={10**19})"), r"metric AP: found rel 1e\+19, expected at most 2\^53"),
        (lambda: metric("nDCG").__class__(cutoff=10**400), "found cut-off a larger number"),
        (lambda: rb.metric("ERR_IA@99999999999"), "found cut-off 99999999999, expected at most 10000000"),
        (lambda: rb.metric("SetF(beta=1e200)"), r"found beta=1e\+200"),
    ],
)
def test_numbers_beyond_a_type_are_refused_by_name(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        call()


def test_whole_scores_are_compared_exactly_by_every_way_of_flat_arguments() -> None:
    scores, grades, offsets = np.array([LARGE, LARGE + 1]), [0, 1], [0, 2]
    for by_kernel in (True, False):
        assert values_of([metric("RR")], scores, grades, offsets, by_kernel=by_kernel)["RR"].tolist() == [1]
    # The largest grade of a narrow type is below the threshold.
    assert np.isnan(rb.metric(f"AP(rel={LARGE})")(np.array([1.0]), np.array([1], np.uint8), [0, 1]))


LACKING = {"a": {"x": 1.0}}, {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1}}


@pytest.mark.parametrize(
    ("missing", "topics", "mean", "warns"),
    [(None, ["a"], 1.0, True), ("skip", ["a"], 1.0, False), ("zero", ["a", "b", "c"], 1 / 3, False)],
)
def test_topics_that_the_run_lacks_are_warned_of_unless_named(
    missing: str | None, topics: list[str], mean: float, warns: bool
) -> None:
    options = {} if missing is None else {"missing": missing}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        evaluation = evaluate_run(*LACKING, "AP", **options)
    assert (evaluation.topics, evaluation.missing) == (topics, ["b", "c"])
    assert evaluation.means() == {"AP": pytest.approx(mean)}
    assert [str(one.message).startswith("the run lacks 2 of 3 topics of the qrels ('b', 'c')") for one in found] == (
        [True] if warns else []
    )
    assert "topics of the qrels that the run lacks: 2" in str(evaluation)


def test_topics_that_the_run_lacks_are_refused_by_choice() -> None:
    with pytest.raises(DataError, match=r"the run lacks 2 of 3 topics of the qrels \('b', 'c'\), expected all"):
        evaluate_run(*LACKING, "AP", missing="error")
    assert evaluate_run({"a": {"x": 1.0}}, {"a": {"x": 1}}, "AP", missing="error").means() == {"AP": 1.0}


@pytest.mark.parametrize(
    ("flags", "rows", "error"),
    [
        ([], ["topic,AP,missing", "a,1.0,false", "b,,true", "c,,true"], "warning: the run lacks 2 topics of the qrels"),
        (["--missing", "skip"], ["topic,AP,missing", "a,1.0,false", "b,,true", "c,,true"], ""),
        (["--missing", "zero"], ["topic,AP,missing", "a,1.0,false", "b,0.0,true", "c,0.0,true"], ""),
        (["--missing", "error"], None, "the run lacks 2 of 3 topics of the qrels ('b', 'c'), expected all of them"),
    ],
)
def test_outputs_of_the_command_count_topics_that_the_run_lacks(
    flags: list[str], rows: list[str] | None, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, qrels = LACKING
    write_run(tmp_path / "run.txt", run_of(run))
    write_qrels(tmp_path / "qrels.txt", qrels_of(qrels))
    files = [str(tmp_path / name) for name in ("run.txt", "qrels.txt")]
    status = main(["evaluate", *files, "-m", "AP", "--json", "--csv", str(tmp_path / "topics.csv"), *flags])
    out, err = capsys.readouterr()
    assert error in err if error else err == ""
    if rows is None:
        assert status == 2
        return
    assert (tmp_path / "topics.csv").read_text().splitlines() == rows
    content = json.loads(out)
    assert (content["topics"]["missing_in_run"], content["missing"]) == (2, flags[1] if flags else "skip")
