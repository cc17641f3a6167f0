"""Fusion of runs: ranx' own numbers, ties, doors, tuning, refusals, and the command."""

import re
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.fusion import METHODS, PARAMETERS, Fusion
from rankbound.io.judged import Run
from tests.library.conftest import Program
from tests.library.drawn_runs import drawn_run
from tests.library.planted_ratings import orders_of, table_of
from tests.library.refusals import problems, refusals

Nested = dict[str, dict[str, float]]

RUNS: list[Nested] = [
    {"q": {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}, "r": {"a": 1.0}},
    {"r": {"b": 5.0, "a": 5.0}, "q": {"c": 9.0, "e": 1.0}},
    {"q": {"d": 0.5, "a": 0.4, "e": 0.4, "c": 0.4}},
]
QRELS = {"q": {"c": 1, "e": 1}, "r": {"b": 2}}

TEXTS = {"combgmnz": "combgmnz(gamma=2)", "rbc": "rbc(phi=0.8)"}


def fused(runs: Any, name: str, **options: Any) -> Nested:
    if name in ("wsum", "wmnz", "mixed"):
        options.setdefault("weights", [0.5, 0.3, 0.2][: len(runs)])
    return table_of(rb.fuse(runs, TEXTS.get(name, name), **options))


def drawn(place: int) -> Nested:
    """A run without ties, whose scores have a mean and a deviation of their own."""
    run, _ = drawn_run(place, topics=4, items=16, grades=(1,))
    return {topic: {i: place + (1 + place) * (score - 4) / 3 for i, score in of.items()} for topic, of in run.items()}


DRAWN, WEIGHTS = [drawn(place) for place in range(3)], (0.5, 0.3, 0.2)
NORMALISATIONS = ("none", "min-max", "max", "sum", "zmuv", "rank", "borda")
OF_SCORES: list[tuple[str, str, dict[str, Any]]] = [
    *((f"comb{name}", name, {}) for name in ("sum", "mnz", "anz", "max", "min", "med")),
    ("combgmnz(gamma=0.5)", "gmnz", {"gamma": 0.5}),
    *((name, name, {"weights": WEIGHTS}) for name in ("wsum", "wmnz", "mixed")),
]
OF_RANKS: list[tuple[str, str, dict[str, Any]]] = [
    *(("rrf", "rrf", {}), ("rrf(k=10)", "rrf", {"k": 10}), ("isr", "isr", {}), ("log_isr", "log_isr", {})),
    *(("logn_isr(sigma=0.2)", "logn_isr", {"sigma": 0.2}), ("rbc(phi=0.8)", "rbc", {"phi": 0.8})),
    *(("borda", "bordafuse", {}), ("borda", "w_bordafuse", {"weights": WEIGHTS})),
]


@pytest.mark.parametrize(("method", "theirs", "parameters"), OF_SCORES + OF_RANKS)
def test_fused_scores_are_those_of_ranx(method: str, theirs: str, parameters: dict[str, Any], ranx: Any) -> None:
    runs = [ranx.Run.from_dict(run) for run in DRAWN]
    for how in NORMALISATIONS if (method, theirs, parameters) in OF_SCORES else (None,):
        norm = None if how == "none" else how
        expected = ranx.fuse(runs, norm=norm, method=theirs, params=parameters).to_dict()
        found = table_of(rb.fuse(DRAWN, method, normalise=how, weights=parameters.get("weights")))
        assert found.keys() == expected.keys()
        # Means and deviations are sums in another order; all else has ranx' digits.
        close = (1e-13, 1e-13) if how == "zmuv" else (4 * sys.float_info.epsilon, 0)
        for topic, items in expected.items():
            assert found[topic] == pytest.approx(dict(items), rel=close[0], abs=close[1]), how


def untied(run: Nested) -> list[Nested]:
    """Return the runs without ties that a run of ties stands for."""
    return [{t: {i: -float(at) for at, i in enumerate(order)} for t, order in one.items()} for one in orders_of(run)]


@pytest.mark.parametrize("name", ["rrf", "rbc", "borda", "isr", "logn_isr", "log_isr"])
def test_tied_items_have_the_mean_over_their_orders(name: str) -> None:
    several = [fused(list(one), name) for one in product(*map(untied, RUNS))]
    means = {
        topic: {i: np.mean([one[topic][i] for one in several]) for i in items} for topic, items in several[0].items()
    }
    for topic, items in fused(RUNS, name).items():
        assert items == pytest.approx(means[topic])


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_rows_and_the_kind_of_source_make_no_difference(name: str, tmp_path: Path) -> None:
    expected = fused(RUNS, name)
    turned = [{topic: dict(reversed(items.items())) for topic, items in reversed(run.items())} for run in RUNS]
    frames = [pl.DataFrame([(t, i, s) for t, v in run.items() for i, s in v.items()], orient="row") for run in RUNS]
    files = [tmp_path / f"{place}.txt" for place in range(3)]
    for file, run in zip(files, RUNS, strict=True):
        rb.write_run(file, rb.read_run(run))
    sources: list[Any] = [
        [rb.read_run(run) for run in RUNS],
        turned,
        [frame.rename(dict(zip(frame.columns, ("topic", "item", "score"), strict=True))) for frame in frames],
        files,
        dict(zip("abc", RUNS, strict=True)),
    ]
    for source in sources:
        found = fused(source, name)
        assert {topic: pytest.approx(items, rel=1e-14) for topic, items in found.items()} == expected


def majority(runs: list[Nested], topic: str) -> dict[str, float]:
    items = {item for run in runs for item in run.get(topic, {})}

    def votes(a: str, b: str) -> int:
        scores = [(run.get(topic, {}).get(a, -np.inf), run.get(topic, {}).get(b, -np.inf)) for run in runs]
        return sum((first > second) - (first < second) for first, second in scores)

    return {a: 1 + sum(1.0 if votes(a, b) > 0 else 0.5 * (votes(a, b) == 0) for b in items - {a}) for a in items}


@pytest.mark.parametrize("rows", [1, 7, 2**22])
def test_condorcet_counts_majorities(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankbound.fusion._PAIRS_AT_ONCE", rows)
    assert fused(RUNS, "condorcet") == {topic: majority(RUNS, topic) for topic in ("q", "r")}
    # A weight is a number of votes.
    several = [RUNS[0], RUNS[1], RUNS[1], RUNS[2], RUNS[2], RUNS[2]]
    assert fused(RUNS, "condorcet", weights=[1, 2, 3]) == fused(several, "condorcet")


def test_tuning_finds_the_grid_s_best_on_the_topics_that_it_is_given() -> None:
    draws = np.random.default_rng(0)
    topics, items = [f"t{place}" for place in range(40)], [f"d{place}" for place in range(30)]
    truth = {topic: draws.normal(size=30) for topic in topics}
    qrels = {t: dict(zip(items, (truth[t] > 1).astype(int).tolist(), strict=True)) for t in topics}
    noisy = [
        {t: dict(zip(items, (truth[t] + noise * draws.normal(size=30)).tolist(), strict=True)) for t in topics}
        for noise in (0.5, 1.0, 50.0)
    ]
    training = topics[:20]
    for method, options in {"wsum": {}, "rrf": {}, "rrf(k=20)": {"weights": "grid"}, "rbc": {}}.items():
        fusion = rb.tune_fusion(noisy, method, qrels, "nDCG@10", topics=training, step=0.25, **options)
        best = fusion.tried[str(fusion)]
        assert best == max(fusion.tried.values())
        again = rb.evaluate_run(fusion(noisy), qrels, "nDCG@10", topics=training).means()["nDCG@10"]
        assert again == pytest.approx(best, abs=1e-12)
        counts = {"wsum": 15, "rrf": len(PARAMETERS["k"].grid), "rrf(k=20)": 15, "rbc": len(PARAMETERS["phi"].grid)}
        assert len(fusion.tried) == counts[method]
    weights = rb.tune_fusion(noisy, "wsum", qrels, "AP", step=0.25).weights
    assert weights is not None
    assert weights[0] >= weights[1] >= weights[2]
    # Judgements of other topics make no difference.
    others = qrels | {topic: dict.fromkeys(items, 1) for topic in topics[20:]}
    first, second = (rb.tune_fusion(noisy, "wsum", q, "AP", topics=training, step=0.5) for q in (qrels, others))
    assert first.tried == second.tried
    assert table_of(first(noisy)) == table_of(second(noisy))


def test_the_least_mean_is_the_best_of_a_metric_of_which_less_is_better() -> None:
    runs = [{"q": {"a": 2.0, "b": 1.0}}, {"q": {"a": 1.0, "b": 2.0}}]
    fusion = rb.tune_fusion(runs, "wsum", {"q": {"b": 1}}, "PairError", step=0.5)
    assert fusion.weights == (0.0, 1.0)
    assert fusion.tried[str(fusion)] == min(fusion.tried.values()) < max(fusion.tried.values())


INFINITE = Run(topics=["q"], items=["a"], scores=[np.inf], offsets=[0, 1])
test_what_has_no_meaning_is_refused = refusals(
    [
        *(((RUNS, options), re.escape(message)) for options, message in problems("fusions")),
        (([RUNS[0]], {}), "runs: found 1 run, expected two or more"),
        ((RUNS[0], {}), "found one run, {topic: {item: score}}"),
        (("run.txt", {}), "runs: found str, expected a list"),
        (([RUNS[0], INFINITE], {}), "found inf in topic q"),
    ],
    lambda given: rb.fuse(given[0], **given[1]),
)


def test_tuning_refuses_what_leaves_nothing_open_or_too_much() -> None:
    for options, message in (
        ({"method": "combsum"}, "leaves nothing open"),
        ({"method": "wsum", "step": 0.3}, "expected a number that divides 1"),
        ({"method": "wsum", "step": 0.001}, "take a larger step"),
        ({"method": "rrf", "weights": "best"}, "found 'best', expected numbers, or grid"),
    ):
        with pytest.raises(ValueError, match=message):
            rb.tune_fusion(RUNS, qrels=QRELS, metric="AP", **options)
    fusion = rb.tune_fusion(RUNS, "wsum", QRELS, "AP")
    with pytest.raises(ValueError, match="expected 2 numbers from 0, one per run"):
        fusion(RUNS[:2])
    twice = rb.Run(topics=["q"], items=["a", "a"], scores=[1.0, 2.0], offsets=[0, 2])
    with pytest.raises(DataError, match="item 'a' occurs more than once in topic 'q'"):
        rb.fuse([twice, RUNS[0]])


def test_the_module_s_table_has_every_method() -> None:
    import rankbound.fusion as module

    named = Counter(
        part for row in (module.__doc__ or "").split("\n| ")[1:] for part in row.split(" | ")[0].split(", ")
    )
    assert {name.strip("`| ").partition("(")[0] for name in named} >= set(METHODS)


def test_the_command_fuses_and_tunes(tmp_path: Path, program: Program) -> None:
    files, out = [tmp_path / f"{place}.txt" for place in range(3)], tmp_path / "fused.txt"
    for file, run in zip(files, RUNS, strict=True):
        rb.write_run(file, rb.read_run(run))
    (tmp_path / "qrels.txt").write_text("q 0 c 1\nq 0 e 1\nr 0 b 2\n")
    words = f"fuse {' '.join(map(str, files))} --out {out}"
    program(f"{words} --method rrf(k=20)")
    assert table_of(rb.read_run(out)) == fused(RUNS, "rrf(k=20)")
    program(f"{words} --method wsum --weights 0.5,0.3,0.2 --normalise max")
    assert table_of(rb.read_run(out)) == fused(RUNS, "wsum", normalise="max")
    printed = program(f"{words} --method wsum --qrels {tmp_path}/qrels.txt -m AP --topics q")
    fusion = rb.tune_fusion(RUNS, "wsum", QRELS, "AP", topics=["q"])
    assert table_of(rb.read_run(out)) == table_of(fusion(RUNS))
    assert str(fusion) in printed
    for wrong, message in (
        ("--method wsum", "expected one per run"),
        ("--weights a,b", "--weights: found a,b"),
        ("-m AP", "--qrels"),
    ):
        assert message in program(f"{words} {wrong}", status=2)


def test_a_fusion_is_told_by_its_text() -> None:
    assert str(Fusion("combsum", "zmuv", (1.0, 0.5))) == "combsum, zmuv, weights 1,0.5"
