"""A run and its judgements have one value by a metric, whatever they come in and whatever is evaluated beside them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankbound as rb
from rankbound.errors import DataError
from rankbound.io import files, run_files
from rankbound.io.judged import Qrels, Run
from tests.library.drawn_runs import DOORS, Table, drawn_run, without
from tests.library.refusals import problems

METRICS = ("nDCG@3", "AP", "RR", "P@2", "R@5", "RBP(p=0.8)", "Bpref", "Judged@3", "infAP", "SetF", "nDCG(gain=linear)")


def drawn(seed: int) -> tuple[Table, Table]:
    """A run with ties, sorted in some topics, and judgements of other topics, some of them negative."""
    run, qrels = drawn_run(seed, 6, 30, range(-2, 4), ties=True)
    numbers = np.random.default_rng(seed)
    names = {topic: f"{'quite-a-long-name-of-a-' * int(numbers.integers(2))}{topic}" for topic in run}
    is_sorted = dict(zip(run, numbers.random(6) < 0.3, strict=True))
    for topic, items in run.items():
        run[topic] = dict(sorted(items.items(), key=lambda pair: -pair[1])) if is_sorted[topic] else items
    judged = numbers.permutation(list(qrels))[seed % 2 :]
    return {names[t]: run[t] for t in without(run, seed % 6)}, {names[t]: qrels[t] for t in judged}


def outcome(run: Any, qrels: Any, metrics: Any = METRICS, missing: str = "skip") -> str:
    """Return all values, to the last digit, or the message."""
    try:
        found = rb.evaluate_run(run, qrels, metrics, missing=missing)
    except ValueError as error:
        return str(error)
    return repr((found.topics, found.missing, found.unjudged, [of.tolist() for of in found.values.values()]))


SEEDS = [*range(8), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 40))]


@pytest.mark.parametrize("missing", ["skip", "zero"])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_doors_lead_to_the_same_digits_and_messages(
    seed: int, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "PART_BYTES", int(np.random.default_rng(seed).integers(40, 500)))
    run, qrels = drawn(seed)
    found = rb.evaluate_run(run, qrels, "AP", missing=missing)
    assert sorted(found.topics) == sorted(qrels if missing == "zero" else set(run) & set(qrels))
    asked = (METRICS, ["ERR(max=1)"], ["nRBP"])
    expected = [outcome(run, qrels, metrics, missing) for metrics in asked]
    for name, door in [*DOORS.items(), ("small TREC", DOORS["TREC"])]:
        monkeypatch.setattr(files, "SMALL_BYTES", 2**16 if name == "small TREC" else 0)
        sources = door(run, "score", tmp_path), door(qrels, "relevance", tmp_path)
        assert [outcome(*sources, metrics, missing) for metrics in asked] == expected, name


def test_what_was_read_does_not_change_with_the_dictionaries() -> None:
    run, qrels = drawn(0)
    read = rb.read_run(run), rb.read_qrels(qrels)
    expected = outcome(run, qrels)
    for items in (*run.values(), *qrels.values()):
        items.clear()
    assert outcome(*read) == expected


@pytest.mark.parametrize("bits", [0, 2, 5])
def test_names_with_the_same_key_are_told_apart(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    run, qrels = drawn(bits)
    expected = outcome(run, qrels)
    keys_of = Run.keys_of
    asked = []

    def few(lists: Run | Qrels, seed: int) -> Any:
        asked.append(seed)
        return keys_of(lists, seed) if seed else keys_of(lists, 0) & np.uint64(2**bits - 1)

    monkeypatch.setattr(Run, "keys_of", few)
    monkeypatch.setattr(Qrels, "keys_of", few)
    assert outcome(rb.read_run(run), qrels) == expected
    assert 1 in asked
    twice = rb.Run(topics=["q"], items=["a", "b", "a"], scores=[1.0, 2.0, 3.0], offsets=[0, 3])
    with pytest.raises(DataError, match="item 'a' occurs more than once in topic 'q'"):
        rb.evaluate_run(twice, {"q": {"a": 1}}, "AP")


GOOD = {
    "run": "q1 Q0 a 1 2.5 tag\nq1 Q0 b 2 1.5 tag\nq2 Q0 a 1 2.5 tag\n",
    "qrels": "q1 0 a 1\nq1 0 b 0\nq2 0 b 2\n",
}


@pytest.mark.parametrize(
    ("kind", "line", "is_read"),
    [
        (kind, line, what == "read")
        for kind, lines in problems("lines of files").items()
        for what, each in lines.items()
        for line in each
    ],
)
def test_parts_are_read_or_refused_as_the_whole_file_is(
    kind: str, line: str, is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, good = tmp_path / f"{kind}.txt", GOOD[kind]
    path.write_text(f"{good}{line}\n{good.replace('q1', 'q4').replace('q2', 'q5')}")
    judged = {topic: {"a": 1, "c": 2, '"a': 1} for topic in ("q1", "q2", "q3", "q4", "q5")}

    monkeypatch.setattr(files, "SMALL_BYTES", 0)

    def read(size: int) -> str:
        monkeypatch.setattr(run_files, "PART_BYTES", size)
        try:
            return outcome(path, judged) if kind == "run" else repr(columns_of(rb.read_qrels(path)))
        except DataError as error:
            return f"refused: {error}"

    of_parts, of_part = read(20 if kind == "run" else 9), read(2**24)
    monkeypatch.setattr(Path, "is_file", lambda path: False)
    of_whole = read(2**24)
    assert of_whole.startswith("refused") != is_read
    assert of_parts == of_part == of_whole


def columns_of(qrels: Qrels) -> Any:
    unjudged = None if qrels.unjudged is None else qrels.unjudged.tolist()
    return list(qrels.topics), list(qrels.items), qrels.relevance.tolist(), qrels.offsets.tolist(), unjudged


def test_memory_is_that_of_a_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "PART_BYTES", 100)
    path = DOORS["TREC"]({f"q{t}": {"a": 2.0, "b": 1.0} for t in range(50)}, "score", tmp_path)
    sizes = [len(part.items) for part in run_files.read_parts(path)]
    assert sum(sizes) == 100
    assert max(sizes) < 20
