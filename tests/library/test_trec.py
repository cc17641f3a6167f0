"""TREC files in and out, and trec_eval's own numbers for a run judged by qrels."""

import itertools
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import pytrec_eval
import torch

import rankbound as rb
from rankbound.errors import DataError
from rankbound.evaluation import evaluate_run
from rankbound.io.files import ROW_OF_RUN, read_qrels, read_run, rows_of_small, write_qrels, write_run
from rankbound.io.judged import JudgedLists, Qrels, Run
from rankbound.lists import Lists
from rankbound.metrics import metric
from rankbound.metrics.base import values_of
from tests.library.conftest import Program
from tests.library.drawn_runs import DOORS, Table, drawn_run, file_of, frame_of, without
from tests.library.planted_ratings import table_of
from tests.library.refusals import refusals

# Ours, and what pytrec_eval calls it. At 0.7, trec_eval's rounding takes 2 of 3 relevant items for enough.
NAMES = """\
AP:map nDCG(gain=linear):ndcg nDCG(gain=linear)@10:ndcg_cut_10 P@10:P_10 RR:recip_rank AP@10:map_cut_10 Bpref:bpref
Recall@10:recall_10 Hit@10:success_10 Rprec:Rprec infAP:infAP SetP:set_P SetR:set_recall SetF:set_F"""
SHARED = dict(pair.split(":") for pair in NAMES.split())
SHARED |= {f"IPrec(recall={level / 10:g})": f"iprec_at_recall_{level / 10:.2f}" for level in range(11) if level != 7}

MEASURES = {
    *("map", "map_cut", "ndcg", "ndcg_cut", "P", "recall", "recip_rank", "success", "Rprec", "iprec_at_recall"),
    *("bpref", "infAP", "set_P", "set_recall", "set_F"),
}


def run_and_qrels(seed: int) -> tuple[Table, Table]:
    """Scores without ties; some topics are in the run alone, some in the qrels."""
    run, qrels = drawn_run(seed, 40, 60, (-1, 1, 2, 3, 0, 0, 0, 0, 0, 0))
    return without(run, *range(3, 40, 7)), without(qrels, *range(5, 40, 11))


@pytest.mark.parametrize("rel", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_trec_evals_numbers(tmp_path: Path, seed: int, rel: int) -> None:
    run, qrels = run_and_qrels(seed)
    write_run(tmp_path / "run.txt", read_run(run))
    file_of(tmp_path / "qrels.txt", qrels, "{} 0 {} {}\n")
    ours = {text: metric(text) for text in SHARED}
    ours = {text: replace(one, rel=rel) if hasattr(one, "rel") else one for text, one in ours.items()}
    found = evaluate_run(tmp_path / "run.txt", tmp_path / "qrels.txt", [*ours.values()], missing="skip")
    expected = pytrec_eval.RelevanceEvaluator(qrels, MEASURES, relevance_level=rel).evaluate(run)
    assert set(found.topics) == set(expected)
    for text, theirs in SHARED.items():
        values, here = np.array([expected[topic][theirs] for topic in found.topics]), found.values[str(ours[text])]
        np.testing.assert_allclose(np.nan_to_num(here), values, atol=1e-9, err_msg=text)
        assert metric(theirs, names="trec_eval") == metric(text)
        # They count a topic without relevant items as 0; ours is undefined, and left out of the mean.
        least = rel if hasattr(ours[text], "rel") else 1
        relevant = np.array([max(qrels[topic].values()) >= least for topic in found.topics])
        if text not in ("P@10", "Hit@10", "SetP"):
            np.testing.assert_array_equal(np.isnan(here), ~relevant)


@pytest.mark.parametrize(
    "line",
    ["# q2 Q0 b 2 0.5 x", "#q Q0 b 2 0.5 x", "q Q0 a 2 0.5 x", "q Q0 b 2 0.5", "q Q0 b 2 0.5 x y", "q  Q0 b 2 0.5 x"]
    + [f"q Q0 b 2 {score} x" for score in ("nan", "1e999", "0x1", "9007199254740992", ".5", "1_0", "1e99")]
    + ["q Q0 é 2 0.5 x", "q Q0 b\u00a0c 2 0.5 x", "q Q0 b 2 0.5 x\r", "", "q\x0bQ0 b 2 0.5 x"],
)
def test_lines_that_the_parser_has_to_read_or_refuse(line: str, tmp_path: Path) -> None:
    (path := tmp_path / "run").write_bytes(b"q Q0 a 1 1.5 x\n")
    assert rows_of_small(path, ROW_OF_RUN) == {"q": {"a": 1.5}}
    assert rows_of_small(path.rename(path.with_suffix(".tsv")), ROW_OF_RUN) is None
    path.write_bytes(f"q Q0 a 1 1.5 x\n{line}\n".encode())
    assert rows_of_small(path, ROW_OF_RUN) is None


def test_undefined_values_are_skipped_or_zero_and_the_evaluation_is_a_table() -> None:
    run, qrels = {"a": {"x": 1.0}, "b": {"x": 1.0}, "e": {}}, {"a": {"x": 1}, "b": {"x": 0}, "d": {"x": 1}}
    skipped, zero = (
        evaluate_run(run, qrels, ["AP", rb.metric("P@1")], undefined=how, missing="skip") for how in ("skip", "zero")
    )
    assert (skipped.means()["AP"], zero.means()["AP"], zero.undefined()["AP"]) == (1.0, 0.5, 0)
    assert (skipped.topics, skipped.missing, skipped.unjudged) == (["a", "b"], ["d"], ["e"])
    assert skipped.to_polars().rows() == [("a", 1.0, 1.0), ("b", pytest.approx(np.nan, nan_ok=True), 0.0)]
    assert zero.to_pandas().to_dict("list") == {"topic": ["a", "b"], "AP": [1.0, 0.0], "P@1": [1.0, 0.0]}
    for wrong in ({"undefined": "none"}, {"missing": "drop"}):
        with pytest.raises(ValueError, match=rf"^{next(iter(wrong))}: found (none|drop), expected one of skip, zero"):
            evaluate_run(run, qrels, "AP", **wrong)


@pytest.mark.parametrize("judge", ["nRBP", "LinearDCG", "LinearNDCG", "PairError"])
def test_what_does_not_notice_rank_infinity_has_no_value_for_a_missing_item(judge: Any) -> None:
    with pytest.raises(ValueError, match=rf"^metric {judge}: is undefined where a relevant item was not retrieved"):
        evaluate_run({"q": {"a": 1.0, "c": 2.0}}, {"q": {"a": 1, "b": 1, "c": 0}}, [judge])
    complete = evaluate_run({"q": {"a": 2.0, "c": 1.0}}, {"q": {"a": 1, "c": 0}}, [judge])
    assert np.isfinite(complete.values[str(judge)]).all()


# Files

ENDS = ("txt", "csv", "tsv", "parquet", "json")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [f"run.{end}" for end in ENDS])
def test_a_written_run_is_read_back_with_every_score_and_its_order(tmp_path: Path, name: str, dtype: Any) -> None:
    generator = np.random.default_rng(1)
    # Neighbours in their own precision, at all magnitudes.
    base = (10.0 ** generator.uniform(-30, 30, 200)).astype(dtype)
    scores = np.concatenate([base, np.nextafter(base, dtype(np.inf)), -base]).astype(dtype)
    generator.shuffle(scores)
    columns: dict[str, Any] = {"topics": ["q1", "empty", "q2"], "offsets": np.array([0, 250, 250, 600])}
    run = Run(**columns, items=[f"d{index}" for index in range(600)], scores=torch.from_numpy(scores))
    write_run(tmp_path / name, run)
    back = read_run(tmp_path / name)
    expected = {topic: found for topic, found in table_of(run).items() if found}
    assert {t: {i: dtype(s) for i, s in found.items()} for t, found in table_of(back).items() if found} == expected
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if "json" in name:
        # The fewest digits that identify a number in its own precision, as other programs write it.
        assert json.loads((tmp_path / name).read_text())["q1"]["d0"] == json.loads(str(scores[0]))
    if "txt" in name:
        assert (tmp_path / name).read_text().splitlines()[0].split()[::3] == ["q1", "1"]
        assert all(a >= b for a, b in itertools.pairwise(back.scores[:250]))


@pytest.mark.parametrize("name", ["q", *(f"q.{end}" for end in ENDS)])
def test_written_qrels_are_read_back_whatever_their_name(tmp_path: Path, name: str) -> None:
    table = {
        topic: {item: max(grade, 0) for item, grade in items.items()} for topic, items in run_and_qrels(0)[1].items()
    }
    write_qrels(tmp_path / name, read_qrels(table))
    assert table_of(read_qrels(tmp_path / name)) == table
    assert list(read_qrels(tmp_path / name).topics) == list(table)
    if name == "q.json":
        assert json.loads((tmp_path / name).read_text()) == table
    if name == "q":
        assert (tmp_path / name).read_text() == file_of(tmp_path / "x", table, "{} 0 {} {}\n").read_text()


PAIR: dict[str, Any] = {"topics": ["a", "b"], "items": ["x", "y"], "scores": [1.0, 2.0], "offsets": [0, 1, 2]}
TWICE: dict[str, Any] = {"topics": ["p", "q"], "items": ["a", "b", "b"], "offsets": [0, 1, 3]}
JUDGED: dict[str, Any] = {"topics": ["q"], "items": ["a", "b"], "offsets": [0, 2]}
APART = "no topic in common: the run has {}, the qrels have 'a'; compare the topics' names"


REFUSED: list[tuple[Callable[[Path], Any], str]] = [
    (lambda path: write_run(path, Run(**PAIR | {"items": ["a b", "c"]})), "items holds 'a b'; a name in a TREC file"),
    (lambda path: write_run(path, Run(**PAIR | {"topics": ["", "b"]})), "topics holds ''"),
    (lambda path: write_run(path, Run(**PAIR | {"scores": [1, np.inf]})), "found the score inf, expected finite"),
    (lambda path: write_run(path / "r.json", Run(**PAIR | {"scores": [1, np.inf]})), "found inf, expected finite numb"),
    (lambda path: write_run(path / "r.parquet.gz", Run(**PAIR)), r"r\.parquet\.gz: parquet is already compressed; exp"),
    (lambda path: write_qrels(path, Qrels(**JUDGED, relevance=[1, 0.5])), r"relevance 0\.5, expected whole numbers"),
    (lambda _: Run(**PAIR | {"scores": [1.0]}), "^scores: found 1 values, expected 2"),
    (lambda _: Run(**PAIR | {"offsets": [0, 1]}), r"^offsets: found 0 \.\. 1, expected 0 \.\. 2"),
    (lambda _: Run(**PAIR | {"topics": ["a"]}), "^topics: found 1 names, expected 2"),
    (lambda _: Run(**PAIR | {"topics": ["a", "a"]}), "^topics: found 'a' twice"),
    (
        lambda _: JudgedLists(**JUDGED, relevance=[0, 1], features=np.zeros((1, 2)), feature_names=["f", "g"]),
        r"^features: found shape \(1, 2\), expected \(2, 2\)",
    ),
    (lambda _: read_qrels({"q": {"a": -1.5}}), "topic 'q', item 'a': found relevance -1.5, expected grades from 0"),
    (lambda _: read_qrels({"q": {"a": np.nan}}), "item 'a': found relevance nan, expected grades from 0"),
    *(
        (lambda _, run=run, qrels=qrels, missing=missing: evaluate_run(run, qrels, "AP", missing=missing), message)
        for run, qrels, missing, message in (
            (Run(**TWICE, scores=[1, 2, 3]), {"q": {"b": 1}}, None, "^scores: item 'b' occurs more "),
            ({"q": {"b": 1}}, Qrels(**TWICE, relevance=[1, 1, 1]), None, "^relevance: item 'b' occurs"),
            ({"p": {}, "q": {"a": np.nan}}, {"q": {"a": 1}}, None, "^scores: found nan in topic q"),
            ({"q": {"a": "high"}}, {"q": {"a": 1}}, None, "topic 'q', item 'a': found 'high', expected a"),
            ({"q": {"a": None}}, {"q": {"a": 1}}, None, "item 'a': found None, expected a number"),
            ({}, {"a": {"x": 1}}, "skip", APART.format("none")),
            ({topic: {"x": 1.0} for topic in "bcde"}, {"a": {"x": 1}}, "zero", APART.format("'b', 'c', 'd', ...")),
        )
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_no_run_and_no_qrels_can_hold(call: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ValueError, DataError), match=message):
        call(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_runs_are_compared_by_identity_and_have_columns_of_any_library(tmp_path: Path) -> None:
    """Numbers are names, in files too."""
    makes: tuple[Callable[[], object], ...] = (
        lambda: Run(**PAIR),
        lambda: Qrels(**JUDGED, relevance=[1, 0]),
        lambda: Lists.of_sizes([1, 2]),
        lambda: evaluate_run({"a": {"x": 1.0}}, {"a": {"x": 1}}, "AP"),
    )
    for one, other in ((make(), make()) for make in makes):
        assert one == one != other
        assert len({one, other}) == 2
    halves = torch.tensor([1.5, 2.25], requires_grad=True)
    kinds = (torch.float16, torch.bfloat16)
    for scores in (pl.Series([1.5, 2.25]), *(halves.to(kind) for kind in kinds), halves):
        run = Run(topics=[7], items=pl.Series(["x", "y"]), scores=scores, offsets=pl.Series([0, 2]))
        assert table_of(run) == {"7": {"x": 1.5, "y": 2.25}}
    run = Run(topics=[7, 8], items=np.array([3, 4, 3]), scores=[1.0, 2.0, 3.0], offsets=[0, 2, 3])
    write_run(tmp_path / "run.txt", run)
    assert table_of(read_run(tmp_path / "run.txt")) == {"7": {"4": 2.0, "3": 1.0}, "8": {"3": 3.0}}
    assert evaluate_run(run, {"7": {"3": 1}, "8": {"3": 1}}, ["RR"]).values["RR"].tolist() == [0.5, 1]


LARGE = 2**53
# As doubles, the first two of a topic are equal; the third is far away.
TIED_BY_ROUNDING = {"q": {"a": LARGE + 1, "b": LARGE, "c": 1}}
EQUAL = rf"topic 'q', items 'a' and 'b': found the scores {LARGE + 1} and {LARGE}, which are equal in double precision"
HEADED = {"topic,item,score\nq": {"z": 0}}

RUNS_OF: dict[str, Callable[[Table, Path], Any]] = {
    **{name: lambda table, path, door=door: door(table, "score", path) for name, door in DOORS.items()},  # type: ignore[misc]
    "int64 of NumPy": lambda table, _: {t: {i: np.int64(s) for i, s in of.items()} for t, of in table.items()},
    "uint64": lambda table, _: frame_of(table, "score", pl.UInt64),
    "decimals without digits": lambda table, _: frame_of(table, "score", pl.Decimal(38, 0)),
    "CSV": lambda table, path: file_of(path / "r.csv", HEADED | table, "{},{},{}\n"),
    "CSV beside a fraction": lambda table, path: file_of(path / "r.csv", HEADED | table, "{},{},{}\n", "q,d,0.5\n"),
    "TREC with other spaces": lambda table, path: file_of(path / "r.txt", table, "{}\t Q0  {} 1 {} t \n\n"),
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


@pytest.mark.parametrize("dtype", [pl.Decimal(10, 2), pl.Float32, pl.Int8, pl.Boolean], ids=str)
def test_columns_of_each_numeric_type_keep_their_fractions(dtype: Any) -> None:
    """Decimals, which databases export, were cut to whole numbers."""
    scores = {pl.Int8: [1, 2], pl.Boolean: [False, True]}.get(dtype, [0.5, 0.75])
    columns, numbers = {"topic": ["q", "q"], "item": ["a", "b"]}, pl.Series(scores).cast(dtype)
    assert read_run(pl.DataFrame({**columns, "score": numbers})).scores.tolist() == scores
    assert read_qrels(pl.DataFrame({**columns, "relevance": numbers})).relevance.tolist() == scores
    assert read_run(pa.table({**columns, "score": np.array(scores, np.float16)})).scores.tolist() == scores


test_numbers_beyond_a_type_are_refused_by_name = refusals(
    [
        (lambda: read_run({"q": {"a": 10**400}}), "topic 'q', item 'a': found a score above 1.8e308"),
        (lambda: read_qrels({"q": {"a": LARGE + 1}}), r"topic 'q', item 'a': found relevance .*up to 2\^53"),
        (lambda: rb.evaluate("RR", [LARGE + 1, LARGE, 0.5], [0, 1, 0], [0, 3]), f"scores: found {LARGE + 1} at 0"),
        (lambda: rb.evaluate("PairAccuracy", [1, 2], [LARGE + 2, LARGE + 1], [0, 2]), r"grades up to 2\^53"),
        (lambda: rb.evaluate("LinearNDCG", [1, 2], [1e308, 1e308], [0, 2]), "relevance: found 1e\\+308"),
        (lambda: rb.evaluate("RR", np.array([1j, 2]), [0, 1], [0, 2]), "scores: found torch.complex128"),
        (lambda: rb.evaluate("RR", torch.zeros(2).to_sparse(), [0, 1], [0, 2]), "scores: found torch.sparse_coo"),
        (lambda: rb.metric(f"nDCG@{10**30}"), r"metric nDCG: found cut-off 1e\+30, expected at most 2\^53"),
        (lambda: rb.metric("nDCG@" + "9" * 5000), "metric nDCG: found cut-off 1e"),
        (lambda: rb.loss(f"nDCG@{10**30}"), r"found cut-off 1e\+30, expected at most 2\^53"),
        (lambda: rb.metric(f"AP(rel={10**19})"), r"metric AP: found rel=10{19}, expected a grade from 1 to 2\^53"),
        (lambda: metric("nDCG").__class__(cutoff=10**400), "found cut-off 10{400}, expected a whole number"),
        (
            lambda: rb.metric("ERR_IA@99999999999"),
            "found cut-off 99999999999, expected 1 to 10000000",
        ),
        (lambda: rb.metric("SetF(beta=1e200)"), r"found beta=1e\+200"),
    ]
)


def test_whole_scores_are_compared_exactly_by_every_way_of_flat_arguments() -> None:
    scores, grades, offsets = np.array([LARGE, LARGE + 1]), [0, 1], [0, 2]
    for by_kernel in (True, False):
        assert values_of([metric("RR")], scores, grades, offsets, by_kernel=by_kernel)["RR"].tolist() == [1]
    # The largest grade of a narrow type is below the threshold.
    assert np.isnan(rb.metric(f"AP(rel={LARGE})")(np.array([1.0]), np.array([1], np.uint8), [0, 1]))


LACKING: Any = ({"a": {"x": 1.0}}, {"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 0}})
LACKS = r"the run lacks 2 of 3 topics of the qrels \('b', 'c'\)"


@pytest.mark.parametrize(
    ("missing", "mean", "of_b"), [(None, 1.0, ""), ("skip", 1.0, ""), ("zero", 0.5, "0.0"), ("error", None, "")]
)
def test_topics_that_the_run_lacks_are_counted_and_warned_of_unless_named(
    missing: str | None, mean: float | None, of_b: str, tmp_path: Path, program: Program
) -> None:
    """In Python, and in all outputs of the command."""
    run, qrels, table = (tmp_path / name for name in ("run.txt", "qrels.txt", "topics.csv"))
    write_run(run, read_run(LACKING[0]))
    write_qrels(qrels, read_qrels(LACKING[1]))
    options = {"missing": missing} if missing else {}
    command = f"evaluate {run} {qrels} -m AP --json --csv {table}" + (f" --missing {missing}" if missing else "")
    if mean is None:
        assert re.search(f"{LACKS}, expected all of them", program(command, status=2))
        with pytest.raises(DataError, match=f"{LACKS}, expected all"):
            evaluate_run(*LACKING, "AP", **options)
        return
    content = json.loads(program(command, warns="" if missing else "warning: the run lacks 2 topics of the qrels"))
    assert table.read_text().splitlines() == ["topic,AP,missing", "a,1.0,false", f"b,{of_b},true", "c,,true"]
    assert (content["topics"]["missing_in_run"], content["missing"]) == (2, missing or "skip")
    with nullcontext() if missing else pytest.warns(UserWarning, match=f"^{LACKS}"):
        evaluation = evaluate_run(*LACKING, "AP", **options)
    assert list(evaluation.topics) == (["a", "b", "c"] if of_b else ["a"])
    assert evaluation.missing == ["b", "c"]
    assert (evaluation.means()["AP"], content["means"]["AP"]) == (mean, mean)
    assert "topics of the qrels that the run lacks: 2" in str(evaluation)
