"""The benchmarks' own logic: turns and ratios by a clock of our own, contenders that agree, features, rankers."""

import ast
import builtins
import csv
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rankbound as rb
from benchmarks import __main__ as program
from benchmarks import data, data_sizes, evaluators, features, questions, rankers, runner, sweep
from benchmarks.data import MOVIELENS_RELEVANT, Batch, lists_of, movielens_sizes, one_list
from benchmarks.features import FAILS, NO, NOT_TRIED, PARTLY, SOURCE_ONLY, TABLES, YES, try_cell
from benchmarks.losses import allrank
from benchmarks.page import GOALS, around, guarded, outcomes, read_results, summary
from benchmarks.questions import ALLOCATORS, AUTO, DIRECT, DIRECT_TORCH, OF_ONE_LIST, PADDED_TORCH, QUESTIONS
from benchmarks.runner import (
    FULL,
    OURS,
    Call,
    Cell,
    Contender,
    Pace,
    Question,
    Row,
    check_same,
    measure,
    race,
    read_rows,
    write_rows,
)
from rankbound_study.config.check import check_config
from rankbound_study.config.sections.description import SizeKeys, known_sets
from rankbound_study.config.study import Study
from rankbound_study.data import ratings
from rankbound_study.data.contracts import PARTS_KEY, read_metadata, read_table
from rankbound_study.data.judged_files import convert
from rankbound_study.data.sources import SOURCES, RawFiles
from tests.raw_files import changed

NO_TURNS = Pace(fewest=3, most=3, seconds=0.0, turn=0.0)


class Clock:
    """Time that passes only where a contender says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.calls: list[str] = []
        monkeypatch.setattr(runner.time, "perf_counter", lambda: self.now)

    def contender(self, name: str, seconds: list[float]) -> dict[str, Call]:
        """Takes these seconds, call after call; the last one again and again."""
        left = iter(seconds)

        def call() -> None:
            self.calls.append(name)
            self.now += next(left, seconds[-1])

        return {name: call}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_contenders_take_turns_and_ratios_are_taken_within_rounds(clock: Clock) -> None:
    race(clock.contender("long", [5.0]) | clock.contender("short", [0.5]), NO_TURNS)
    assert clock.calls == ["long", "long", "short", "short"] + ["long", "short", "short"] * 3
    first, second = clock.contender("a", [9, 9, 2, 4, 8]), clock.contender("b", [9, 9, 20, 20, 24])
    ours, peer = race(first | second, NO_TURNS)
    assert (ours.value, ours.ratio, ours.ratio_low, ours.ratio_high) == (4, 1, 1, 1)
    assert (peer.value, peer.ratio, peer.ratio_low, peer.ratio_high) == (20, 5, 3, 10)
    _, peer = race(clock.contender("a", [2.0]) | clock.contender("b", [3.0]), NO_TURNS, scales={"b": 100})
    assert (peer.value, peer.ratio) == (300, 150)


def test_a_turn_is_the_median_of_its_calls_and_the_slow_are_left_out(clock: Clock) -> None:
    (ours,) = race(clock.contender("a", [1, 1, 0.9, 1, 3, 2]), Pace(fewest=1, most=1, seconds=0.0, turn=5.5))
    assert ours.value == 2
    slow = clock.contender("a", [20.0]) | clock.contender("b", [30.0]) | clock.contender("c", [1.0])
    rows = race(slow, NO_TURNS)
    assert [row.contender for row in rows if not row.left_out] == ["a", "c"], "never the first"
    assert (rows[-1].contender, rows[-1].note) == ("b", "a call takes 30 s")
    for lasting, rounds in ((2.0, 15), (9.0, 5)):
        clock.calls.clear()
        race(clock.contender("a", [lasting]), FULL)
        assert len(clock.calls) == 2 + rounds
    ours, other = race({"a": lambda: runner.Elapsed(0.5), "b": lambda: runner.Elapsed(b"2.0\n")}, NO_TURNS)
    assert (ours.value, other.value, other.ratio) == (0.5, 2.0, 4.0)


def test_rows_survive_their_file(tmp_path: Path) -> None:
    whole = Row("1,000", 1000, "a, b", 0.25, "s", 2.0, 1.5, 2.5, "a note")
    write_rows(tmp_path / "rows.csv", [whole, Row("1,000", 1000, "c", note="too large")])
    first, second = read_rows(tmp_path / "rows.csv")
    assert first == whole
    assert (second.left_out, second.note) == (True, "too large")


def test_movielens_sizes_are_those_of_the_table() -> None:
    sizes = movielens_sizes(4000)
    relevant = torch.tensor([p for _, p in sizes], dtype=torch.float64)
    assert {n / p for n, p in sizes} == {2, 3, 4}
    assert int(relevant.min()) == 25
    assert 1200 < int(relevant.max()) <= 1227
    assert float(relevant.quantile(0.5)) == pytest.approx(MOVIELENS_RELEVANT[0.5], abs=1)


@pytest.mark.parametrize("batch", [one_list(40), lists_of(movielens_sizes(3))], ids=["one list", "ragged"])
def test_formulations_agree_and_padding_holds_every_item_once(batch: Batch) -> None:
    results = {one.name: one.prepare(batch)() for one in (AUTO, DIRECT, DIRECT_TORCH, PADDED_TORCH)}
    check_same(results, 1e-3)
    for another in ((torch.tensor(-0.5), results[OURS][1]), (results[OURS][0], torch.zeros(1))):
        with pytest.raises(ArithmeticError, match="other"):
            check_same({**results, "other": another}, 1e-3)
    scores, relevance, mask = batch.padded()
    assert mask.sum(1).tolist() == batch.sizes
    assert torch.equal(scores[mask], batch.scores)
    assert torch.equal(relevance[mask], batch.relevance)
    assert not scores[~mask].any()
    assert not relevance[~mask].any()


@pytest.mark.parametrize("name", [name for name, question in QUESTIONS.items() if question.tolerance])
def test_contenders_with_other_results_are_found_out(name: str) -> None:
    question = QUESTIONS[name]

    def cells(quick: bool) -> Iterator[Cell]:
        cell = next(iter(question.cells(quick)))
        ours = cell.contenders[0]
        other = Contender("other", lambda data: lambda: changed(ours.prepare(data)()))
        yield replace(cell, contenders=[ours, other])

    def changed(result: Any) -> Any:
        return {key: value + 0.1 for key, value in result.items()} if isinstance(result, dict) else (0, result[1])

    with pytest.raises(ArithmeticError, match="other"):
        measure(replace(question, cells=cells), quick=True)


def test_who_cannot_take_part_says_why() -> None:
    assert PADDED_TORCH.obstacle(8_000) is None
    assert PADDED_TORCH.obstacle(8_001) == "over 10 s or 6 GB"
    assert replace(AUTO, package="no_such_package").obstacle(1) == "no_such_package is not installed"


def test_the_goals_of_what_people_do_name_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """At full sizes, with small data."""
    monkeypatch.setattr(data, "matrices", lambda lists, items: (torch.zeros(1, 1).numpy(),) * 2)
    monkeypatch.setattr(data, "write_parts", lambda folder, judged: [])
    kinds = "TREC files", "flat lists", "own objects", "dictionaries", "polars frames", "flat lists", "first AP"
    kinds += "first minimum", "command line", *[f"a step of {name} on" for name in ("nDCG", "softmax") * 2 + ("nDCG",)]
    kinds += ("LETOR text",)
    cells = list(QUESTIONS["people"].cells(False))
    assert [cell.n for cell in cells] == list(range(len(kinds)))
    for goal in (goal for goal in GOALS if goal["question"] == "people"):
        cell, what = cells[goal["n"]], goal["what"]
        assert what.startswith(kinds[cell.n])
        name = what.partition(",")[0].removeprefix("a step of ").replace(" on ", ", ")
        assert cell.size == name or "step" not in what
        assert {*goal.get("peers", [])} <= {one.name for one in cell.contenders}


def test_few_data_are_worked_on_first_and_a_part_of_the_work_is_scaled() -> None:
    asked: list[Any] = []

    def prepare(data: Any) -> Call:
        asked.append(data)
        return lambda: None

    contenders = [Contender(OURS, prepare), Contender("a part", prepare, scale=1e6), Contender("peer", prepare, "no")]
    cell = Cell("5", 5, "data", contenders, few="few")
    question = Question(lambda quick: iter([cell]))
    _, part, peer = measure(question, quick=True)
    assert asked == ["few", "data"] * 2
    assert part.ratio > 1_000
    assert (peer.note, peer.left_out) == ("no is not installed", True)
    assert [row.contender for row in measure(Question(lambda quick: iter([cell])), True, peers=False)] == [
        OURS,
        "a part",
    ]


@pytest.mark.parametrize(("error", "note"), [(TimeoutError, "takes over 40 s"), (EOFError, "failed")])
def test_memory_that_is_not_measured_says_why(error: type, note: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(work: Any, question: Question, quick: bool, size: str, name: str, patience: float) -> float:
        if name != OURS:
            raise error
        return 2e6

    monkeypatch.setattr(runner, "in_new_process", pretend)
    ours, *others = measure(replace(QUESTIONS["memory"], cells=partial(questions.one_list, (), (50,))), quick=True)
    assert (ours.value, ours.unit, ours.ratio) == (2, "MB", 1)
    assert {(one.note, one.left_out) for one in others if "installed" not in one.note} == {(note, True)}


def test_a_new_process_has_this_environment_and_has_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "a value")
    assert runner.in_new_process(os.getenv, "SOME_NAME") == "a value"
    for error, work, argument in ((TimeoutError, time.sleep, 60), (EOFError, os._exit, 1)):
        with pytest.raises(error):
            runner.in_new_process(work, argument, patience=2.0 if error is TimeoutError else None)


def test_every_goal_is_measured_by_its_question() -> None:
    sizes: dict[str, Any] = {"loss": questions.LENGTHS, "memory": questions.LONG_LENGTHS}
    sizes |= {"short": range(len(questions.SHORT)), "boosting": range(len(questions.BOOSTED))}
    sizes |= {"ragged": [32], "evaluation": range(len(evaluators.DOORS)), "distributions": [questions.TABULATED]}
    sizes |= {"people": range(15), "people-memory": [0]}
    assert all(goal["n"] in sizes[goal["question"]] for goal in GOALS)
    results: dict[tuple[str, str], list[Row]] = {(goal["question"], "default"): [] for goal in GOALS}
    for goal in GOALS:
        others = "ranx", "order by order", questions.PEER, "pytrec_eval", "padded torch"
        results[goal["question"], "default"] += [
            Row(size, goal["n"], name, 0.1, "s", 5.0, 4.0, 6.0)
            for name, size in product(
                (*(one.name for one in OF_ONE_LIST), *others, "scikit-learn"),
                ("nDCG, 128 x 10", "softmax, 128 x 10", "LambdaRank, 470 x 20"),
            )
        ]
    assert [goal for goal, *_ in outcomes(results)] == list(GOALS)


# PyTorch's own warning, while it traces a step.
@pytest.mark.filterwarnings("ignore:.*Function.* should not be instantiated:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if "rerankers" in name else []) for name in QUESTIONS]
)
def test_every_question_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who is slow on a busy machine is measured all the same.
    monkeypatch.setattr(runner, "PATIENCE", 600.0)
    rows = measure(QUESTIONS[name], quick=True, peers=False)
    assert rows[0].contender == OURS
    # A step on a short list may need no more memory than its process has.
    assert all(row.value > 0 or ("memory" in name and row.value == 0) for row in rows)
    assert set(QUESTIONS[name].settings) <= set(ALLOCATORS)


@pytest.mark.slow
def test_the_program_writes_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--no-peers", "--threads", "1", "--out", str(tmp_path), "--only"]
    assert program.main([*arguments, "evaluation"]) == 0
    page = capsys.readouterr().out
    assert list(read_results(tmp_path / "quick")) == [("evaluation", "default")]
    assert page.strip() == summary(tmp_path / "quick", quick=True).strip()
    assert "`python -m benchmarks --only evaluation`" in page
    assert f"| {OURS} |" in page
    write_rows(tmp_path / "quick" / "loss-kept.csv", [Row("100", 100, OURS, 1e-3), Row("300", 300, OURS, 2e-3)])
    assert program.main([*arguments, "loss", "--report"]) == 0
    assert (tmp_path / "quick" / "images" / "benchmarks_loss.svg").read_text("utf-8").startswith("<?xml")
    assert "| 300 | 2.00 ms |" in capsys.readouterr().out


def test_the_generated_sweep_is_a_valid_study_of_its_size(tmp_path: Path) -> None:
    for jobs in (5, 1001):
        study = Study(check_config(sweep.configuration(jobs, tmp_path)))
        assert jobs <= len(study.experiments) < jobs + 5
        assert len(set(study.collected["experiments"].runs)) == len(study.experiments)


@pytest.mark.slow
def test_jobs_that_do_nothing_end(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(sweep.ROWS["workflow"].replace("JOBS", "2"), encoding="utf-8")
    runner.cost_of(["snakemake", "--cores", "1", "--quiet", "all"], tmp_path)
    assert len(list(tmp_path.glob("made/*"))) == 2


def test_a_command_whose_cost_is_measured_has_to_end(tmp_path: Path) -> None:
    for flag, seconds, message in (("--help-me", 60, "ended with 2"), ("--help", 0, "ended with -9")):
        with pytest.raises(RuntimeError, match=f"rankbound {flag} {message}"):
            runner.cost_of(["rankbound", flag], tmp_path, seconds)


def test_the_guard_names_what_got_slower_in_the_median_and_in_every_round() -> None:
    def rows(*ratios: tuple[float, float]) -> list[Row]:
        return [Row(f"work {at}", 0, "peer", 1.0, "s", own, own / 2, high) for at, (own, high) in enumerate(ratios)]

    kept = rows((4.0, 5.0), (4.0, 5.0), (4.0, 5.0), (4.0, 5.0))
    text, worse = guarded(rows((3.1, 3.9), (3.1, 4.1), (3.3, 3.9), (9.0, 9.0)), [*kept, Row("work 4", 0, "peer")])
    assert worse == ["work 0"]
    assert "| work 0 | peer | 4.00x | 3.10x (1.55 to 3.90) | **slower** |" in text
    text, worse = guarded([Row("work 0", 0, "peer", note="peer is not installed")], kept)
    assert (worse, "peer is not installed" in text) == ([], True)


def test_the_guard_ends_with_1_where_something_got_slower_and_keeps_what_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios, kept = [2.0], tmp_path / "kept.csv"

    def run(chosen: Any, name: str, setting: str, out: Path) -> bool:
        assert (name, chosen.threads) == ("guard", 1)
        write_rows(out, [Row("work", 0, "peer", 1.0, "s", *ratios * 3)])
        return True

    monkeypatch.setattr(program, "_run_one", run)
    monkeypatch.setattr(program, "KEPT_RATIOS", kept)
    assert program.main(["--guard", "--keep", "--out", str(tmp_path)]) == 0
    ratios[0] = 1.0
    assert program.main(["--guard", "--out", str(tmp_path)]) == 1
    assert "benchmarks: work got slower" in capsys.readouterr().out
    assert read_rows(kept)[0].ratio == 2


def test_failures_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path / "loss-kept.csv", [Row("100", 100, OURS, 1e-3)])
    (tmp_path / "machine.json").write_text("{}", "utf-8")
    monkeypatch.setattr(program, "_run_one", lambda *arguments: False)
    monkeypatch.setattr(runner, "cores_in_use", lambda: 2.0)
    assert program.main(["--only", "boosting", "--out", str(tmp_path)]) == 1
    errors = capsys.readouterr().err
    assert "boosting-default: others are using 2.0 cores" in errors
    assert "boosting-default failed" in errors


def test_the_generated_archive_of_a_size_converts_to_that_size(tmp_path: Path) -> None:
    archive, lists = tmp_path / "MSLR-WEB10K.zip", tmp_path / "lists.parquet"
    sums = data.write_folds(archive, replace(data.MSLR_WEB10K, topics=23, rows=400))
    source = SOURCES[data_sizes.MSLR]
    assert sums.keys() == source.content.members.keys()
    convert(RawFiles(changed(source, members=sums, sizes=SizeKeys(topics=23, rows=400)), [archive]), lists)
    relevance = read_table(lists, "lists", ["relevance"]).column("relevance").to_pylist()
    assert sum(map(len, relevance)) == 400
    # In order: the parts of the archive are those that the converter takes for S1 .. S5.
    assert read_table(lists, "lists", ["topic"]).column("topic").to_pylist() == [str(topic) for topic in range(1, 24)]
    assert json.loads(read_metadata(lists, "lists")[PARTS_KEY]) == {
        f"Fold{fold}/test.txt": [limits]
        for fold, limits in zip((2, 3, 4, 5, 1), ([0, 5], [5, 10], [10, 15], [15, 19], [19, 23]), strict=True)
    }
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["MSLR-WEB10K.zip", "lists.parquet"]


@pytest.mark.parametrize("name", data.EDITIONS)
def test_generated_ratings_have_the_edition_s_layout_and_size(tmp_path: Path, name: str) -> None:
    edition, share = data.EDITIONS[name], 0.002
    users, rows = round(share * edition.users), round(share * edition.rows)
    data.write_ratings(tmp_path / known_sets()[name].archives[0], edition, share)
    source = changed(SOURCES[name], sizes=SizeKeys(topics=users, rows=rows))
    raw = RawFiles(source, [tmp_path / known_sets()[name].archives[0]])
    ratings.convert(raw, tmp_path / "ratings.parquet")
    table = read_table(tmp_path / "ratings.parquet", "interactions")
    assert (len(table), len(table.column("topic").unique())) == (rows, users)
    assert min(table.column("topic").value_counts().field("counts").to_pylist()) >= data.FEWEST
    assert (known_sets()[name].sizes.topics, known_sets()[name].sizes.rows) == (edition.users, edition.rows)


# The table of features

ROWS = {name: row for table in TABLES.values() for name, row in table["rows"].items()}

COUNTED = "Number of ranking measures"
OUR_VERDICTS = dict.fromkeys(ROWS.keys() - {COUNTED}, YES) | {"Trains on texts": PARTLY}
"""The library has no text model and no trainer of one."""
SLOW = {"Compiles as a whole", "Trains on texts", "Exported as a graph"}
"""Which import a compiler or language models, or trace a graph."""


def page_tables() -> list[list[list[str]]]:
    """Return the cells of the page's tables, without their rulers."""
    text = features.PAGE.read_text("utf-8")
    tables = re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert [heading for heading, _ in tables] == list(TABLES)
    return [[line.strip("| ").split(" | ") for line in table.splitlines() if "---" not in line] for _, table in tables]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] if n in SLOW else []) for n in sorted(OUR_VERDICTS)]
)
def test_rankbound_has_what_the_table_says(name: str) -> None:
    seen = try_cell(name, ROWS[name], "rankbound")
    if seen.verdict == NOT_TRIED:
        pytest.skip(seen.note)
    assert seen.verdict == OUR_VERDICTS[name], seen.note


def test_every_cell_is_of_a_column_and_says_where_it_is_from() -> None:
    for columns, rows in map(dict.values, TABLES.values()):
        for name, row in rows.items():
            cells = {**dict.fromkeys(columns if "each" in row else (), row.get("each")), **row["cells"]}
            assert cells.keys() <= {*columns}
            assert row.get("words") or cells.keys() == {*columns}, name
            for library, cell in cells.items():
                if library in SOURCE_ONLY:
                    verdict, _, file = cell
                    assert verdict in (YES, PARTLY, NO) or verdict.isdigit()
                    assert re.fullmatch(r"[\w/]+\.(py|java)", file), file
                else:
                    tree = ast.parse(cell if isinstance(cell, str) else cell[2], mode="eval")
                    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
                    own = {node.id for node in names if isinstance(node.ctx, ast.Store)} | {"library"}
                    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
                    assert {node.id for node in names} <= own | vars(features).keys() | vars(builtins).keys()
            assert {*SOURCE_ONLY} & {*columns} <= row["cells"].keys()


def test_the_page_is_the_programs_and_our_measures_are_counted() -> None:
    shown = {}
    for table, (libraries, rows) in zip(page_tables(), map(dict.values, TABLES.values()), strict=True):
        assert table[0] == ["feature", *libraries]
        assert [line[0] for line in table[1:]] == [*rows]
        assert {len(line) for line in table[1:]} == {1 + len(libraries)}
        assert not {FAILS, NOT_TRIED} & {cell for line in table[1:] for cell in line}
        shown |= {line[0]: line[1] for line in table}
    assert {name: shown[name] for name in OUR_VERDICTS} == OUR_VERDICTS
    assert int(try_cell(COUNTED, ROWS[COUNTED], "rankbound").verdict) > 20


def test_an_absent_library_is_reported_and_the_rest_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> bool:
        raise ValueError("a message\nof two lines")

    monkeypatch.setattr(features, "breaks", breaks, raising=False)
    cells = {
        "absent": "breaks()",
        "Rax": "use('no_such_module')",
        "LightGBM": "breaks()",
        "rankbound": [PARTLY, "seen", "1 < 2"],
        "XGBoost": [YES, "not seen", "2 < 1"],
        "RecBole": "breaks()",
    }
    monkeypatch.setattr(features, "find_spec", lambda name: None if name in ("absent", "recbole") else object())
    shown = {"versions": "RecBole 1", "cells": {"A feature": [YES, "seen elsewhere"]}}
    of_the_program = features.elsewhere
    monkeypatch.setattr(features, "elsewhere", lambda name: shown if name == "RecBole" else of_the_program(name))
    assert {library: try_cell("A feature", {"words": "word", "cells": cells}, library) for library in cells} == {
        "absent": (NOT_TRIED, "absent is not installed"),
        "Rax": (NOT_TRIED, "no_such_module is not installed"),
        "LightGBM": (FAILS, "ValueError: a message"),
        "rankbound": (PARTLY, "seen"),
        "XGBoost": (NO, "not seen"),
        "RecBole": (YES, "seen elsewhere"),
    }


def test_the_program_prints_cells_and_writes_between_the_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"meaning": "What it means.", "cells": {"rankbound": [YES, "0.5", "True"]}}
    table = {"columns": ["rankbound"], "rows": {"A feature": row, "Another": {"words": "no_such_word", "cells": {}}}}
    monkeypatch.setattr(features, "OTHER_PYTHON", {})
    monkeypatch.setattr(features, "TABLES", {"A table": table, "Others": {"columns": ["Rax"], "rows": {}}})
    assert features.main(["--library", "rankbound"]) == 0
    cells = {"A feature": [YES, "0.5"], "Another": [NO, "no such name"]}
    assert json.loads(capsys.readouterr().out)["cells"] == cells
    page = tmp_path / "features.md"
    begin, end = around(features.COMMAND)
    page.write_text(f"# Before\n\n{begin}\nold\n{end}\n\n## After\n")
    monkeypatch.setattr(features, "PAGE", page)
    monkeypatch.setattr(features, "TABLES", {"A table": {"columns": ["rankbound"], "rows": {"A feature": row}}})
    assert features.main(["--write-docs"]) == 0
    text = page.read_text("utf-8")
    assert text.startswith("# Before")
    assert text.endswith("## After\n")
    assert "old" not in text
    assert "| feature | rankbound |\n| --- | --- |\n| A feature | yes |" in text
    assert "### A feature\n\nWhat it means.\n\n- rankbound: *yes* (0.5)\n" in text


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package named allrank."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "allrank"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "allrank").mkdir()
    (tmp_path / "allrank" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "allrank"


def test_names_are_searched_where_nothing_can_be_tried(package: Path) -> None:
    (package / "private.py").write_text("def _fuse(): ...\n\nfuse = 1\n")
    (package / "fuse_test.py").write_text("def fuse_tested(): ...\n")
    row = {"words": "fuse", "cells": {}}
    assert try_cell("Fusion", row, "allRank") == (NO, "no such name")
    (package / "runs.py").write_text("class Runs:\n    def fuse_all(self): ...\n")
    assert try_cell("Fusion", row, "allRank") == (NOT_TRIED, "has fuse_all")


def test_stand_ins_are_gone_after_the_import(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = object()
    monkeypatch.setitem(sys.modules, "torchvision", mine)
    monkeypatch.delitem(sys.modules, "gcsfs", raising=False)
    (package / "losses.py").write_text("import gcsfs\nfrom torchvision.transforms import Compose\n\nvalue = 3\n")
    assert allrank("losses").value == 3
    assert sys.modules["torchvision"] is mine
    assert "gcsfs" not in sys.modules


# The leaderboard of rankers, on lists with a planted weight per feature

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


def test_every_row_is_a_recipe_and_unknown_rankers_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert rankers.BASELINE in rankers.RANKERS
    assert len(rankers.RANKERS) >= 20
    for name, row in rankers.RANKERS.items():
        assert row["family"], name
        recipe = rb.Recipe(metric=rankers.AP, **row.get("recipe", {}))
        assert rb.loss(recipe.loss, recipe.bound), name
    with pytest.raises(SystemExit):
        rankers.main(["--only", "MARS"])
    assert "--only: invalid choice: 'MARS' (choose from" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("planted")
def test_the_table_ranks_what_learns_above_what_does_not(tmp_path: Path) -> None:
    known = {name: rankers.RANKERS[name] for name in TRIED}
    found = {name: [rankers.tested(tmp_path, row, seed) for seed in (0, 1)] for name, row in known.items()}
    means = {name: float(np.mean([values[:, 0] for values, _ in seeds])) for name, seeds in found.items()}
    learnt = {name: mean for name, mean in means.items() if name not in TRIED[:2]}
    assert means["random scores"] + 0.1 < means["best single feature"] < min(learnt.values()) < 0.975
    # Zero, not left out: one topic of each fold's forty.
    assert all((values[[0, 40]] == 0).all() for seeds in found.values() for values, _ in seeds)
    again, _ = rankers.tested(tmp_path, known["trees, AP min-max"], 1)
    np.testing.assert_array_equal(again, found["trees, AP min-max"][1][0])
    rankers.write(tmp_path, found, [str(topic) for topic in range(80)])
    lines = (tmp_path / "rankers.md").read_text("utf-8").splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ")][2:]
    assert [row[0].strip("| ") for row in rows] == sorted(means, key=lambda name: -means[name])
    assert float(rows[-1][2].split()[0]) == pytest.approx(means["random scores"], abs=6e-5)
    with (tmp_path / "rankers.csv").open(encoding="utf-8") as file:
        values = list(csv.DictReader(file))
    assert len(values) == 80 * len(TRIED)
    assert (tmp_path / "rankers.svg").stat().st_size > 0


def test_rates_are_compared_on_drawn_lists(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A ranker that hardly moves is worse than one that learns; the parts have all topics, each once."""
    few = {"topics": 100, "training": 0.6, "validation": 0.2, "items": 20, "features": 6, "seed": 0}
    split = rankers.generated(**few)
    parts = [part.topics for part in (split.training, split.validation, split.test) if part is not None]
    assert [len(topics) for topics in parts] == [60, 20, 20]
    assert len({topic for topics in parts for topic in topics}) == 100
    assert {*split.training.relevance} == {0, 1, 2, 3}
    monkeypatch.setitem(rankers.RATED, "few", few | {"epochs": 3})
    rows = [line.split("|") for line in rankers.rates(["few"], tmp_path, 1e-9, 0.1).splitlines()[2:]]
    assert [row[3].strip() for row in rows] == ["1e-09", "0.1"] * 2
    assert all(float(rows[2][place]) < float(rows[3][place]) for place in (4, 5))
