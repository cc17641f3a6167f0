"""`rb.evaluate_runs` and `rankbound evaluate` of several runs: a table of systems by metrics, its forms, its tests."""

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound import cli
from rankbound.compare import statistics
from tests.comparing import judged_runs
from tests.library.conftest import Program
from tests.library.latex_tables import tables_in
from tests.library.pages import follow, text_of
from tests.library.refusals import problems, refusals

pytest.importorskip("scipy.stats", reason="the statistics need scipy")

PAGE = "a_table_for_the_paper.md"
METRICS = ["nDCG@10", "AP", "P@5"]
FLAGS = " ".join(f"-m {name}" for name in METRICS)
NOISE = {"bm25": 1.3, "same": 1.3, "better": 0.7, "worse": 4.0, "other": 1.2}
TESTS = {"flips": "9999 sign flips", "t": "Student's paired t test", "wilcoxon": "signed-rank test without zero"}
CORRECTIONS = {"holm": "Holm", "bonferroni": "Bonferroni", "bh": "Benjamini-Hochberg"}


@pytest.fixture(scope="module")
def judged() -> tuple[dict[str, dict[str, int]], dict[str, dict[str, dict[str, float]]]]:
    """Judgements of 40 topics, and runs of five systems, two of which are the same."""
    qrels, runs = judged_runs(3, NOISE, topics=40, items=25, highest=3)
    return qrels, {**runs, "same": runs["bm25"]}


@pytest.fixture
def folder(judged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rb.write_qrels("qrels.txt", rb.read_qrels(judged[0]))
    for name, run in judged[1].items():
        rb.write_run(f"{name}.txt", rb.read_run(run))
    return tmp_path


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("test", TESTS)
def test_means_and_daggers_are_those_of_single_runs_and_of_tests(judged: Any, test: str, correction: str) -> None:
    """`test_statistics` compares the tests and corrections with scipy's."""
    qrels, runs = judged
    table = rb.evaluate_runs(runs, qrels, METRICS, baseline="bm25", test=test, correction=correction, resamples=99)
    alone = {name: rb.evaluate_run(run, qrels, METRICS) for name, run in runs.items()}
    assert table.means() == {name: one.means() for name, one in alone.items()}
    frame = table.to_polars()
    assert frame.select("system", "metric").rows() == [(name, metric) for name in runs for metric in METRICS]
    tested = frame.filter(pl.col("p_value").is_not_null())
    assert set(tested["system"]) == {*runs} - {"bm25", "same"}, "the same scores are not tested"
    differences = (
        alone[row["system"]].values[row["metric"]] - alone["bm25"].values[row["metric"]]
        for row in tested.rows(named=True)
    )
    p_values = [statistics.p_value_of_mean(values, test=test) for values in differences]
    assert tested["p_value"].to_list() == pytest.approx(p_values, rel=1e-12)
    assert tested["p_adjusted"].to_list() == pytest.approx(statistics.corrected(p_values, correction), rel=1e-12)
    signs = {"better": 1, "worse": -1, "": 0}
    sign = [np.sign(row["difference"]) * (row["p_adjusted"] <= 0.05) for row in tested.rows(named=True)]
    assert [signs[name] for name in tested["significant"]] == sign
    assert {*sign} == {-1, 0, 1}
    assert set(frame["test"]) == {test}
    for form in (str(table), table.to_markdown(), table.to_latex()):
        assert TESTS[test] in form
        assert f"{CORRECTIONS[correction]} over 9 tests" in form
    settings = json.loads(table.to_json())["settings"]
    assert (settings["test"], settings["correction"], "flips" in settings) == (test, correction, test == "flips")


def test_all_forms_hold_the_same(judged: Any) -> None:
    table = rb.evaluate_runs(judged[1], judged[0], METRICS, baseline="bm25", resamples=99)
    names, best = list(judged[1]), table.best()
    frame = {(row["system"], row["metric"]): row for row in table.to_polars().rows(named=True)}
    marks = {key: {"better": "†", "worse": "‡", "": ""}[row["significant"]] for key, row in frame.items()}
    strong = {key: key[0] in best[key[1]] for key in frame}
    assert [strong[name, metric] for name, metric in frame] == [row["best"] for row in frame.values()]

    def cells(pattern: str, bold: str, mark: Any = str) -> list[list[str]]:
        def shown(key: tuple[str, str]) -> str:
            return (bold if strong[key] else pattern).format(f"{frame[key]['mean']:.4f}", mark(marks[key]))

        return [["System", *METRICS], *([name, *(shown((name, metric)) for metric in METRICS)] for name in names)]

    text, markdown, latex = str(table), table.to_markdown(), table.to_latex()
    header, _, *rows = [line.split() for line in text.split("\n\n")[0].split("\n")]
    assert [header, *rows] == cells("{}{}", "{}{}*")
    header, _, *rows = [re.findall(r"(?<=\| ).*?(?= \|)", line) for line in markdown.split("\n\n")[0].split("\n")]
    assert [header, *rows] == cells("{}{}", "**{}**{}")
    daggers = {"": "", "†": r"\rlap{$^{\dagger}$}", "‡": r"\rlap{$^{\ddagger}$}"}
    ((header, *rows),) = tables_in(latex)
    below = [row[0] for row in rows[len(names) :]]
    assert [header, *rows[: len(names)]] == cells("{}{}", r"\textbf{{{}}}{}", daggers.get)
    print_ = " ".join(re.sub(r".*?footnotesize (.*)}", r"\1", line) for line in below)
    assert print_.endswith(r"(p~$\le$~0.05; randomisation test, 9999 sign flips; Holm over 9 tests)")
    assert r"$^{\dagger}$ significantly better, $^{\ddagger}$ significantly worse than bm25" in print_
    flat = list(csv.DictReader(io.StringIO(table.to_csv())))
    content = json.loads(table.to_json())
    for row in flat:
        mean, of_json = float(row["mean"]), content["systems"][row["system"]]["means"][row["metric"]]
        assert mean == of_json == frame[row["system"], row["metric"]]["mean"]
    assert content["best"] == best
    adjusted = {(row["a"], row["metric"]): row["p_adjusted"] for row in content["comparisons"]}
    assert adjusted == {key: row["p_adjusted"] for key, row in frame.items() if key[0] != "bm25"}
    values = table.evaluations["better"].values["AP"]
    assert values.tolist() == rb.evaluate_run(judged[1]["better"], judged[0], "AP").values["AP"].tolist()


FIRST, LAST = {"x": 2, "y": 1}, {"y": 2, "x": 1}
BEST: list[tuple[str, dict[str, dict[str, float]], list[str]]] = [
    ("RR", {"a": FIRST, "b": {"x": 9, "y": 1}, "c": LAST}, ["a", "b"]),
    ("MRR", {"a": FIRST, "c": LAST}, ["a"]),
    ("PairError", {"a": FIRST, "c": LAST}, ["a"]),
    ("RR", {"a": FIRST}, ["a"]),
]


@pytest.mark.parametrize(("metric", "runs", "best"), BEST)
def test_the_best_is_bold_and_all_that_tie_and_a_single_run_is_not(metric: str, runs: Any, best: list[str]) -> None:
    """A metric that is named twice is one; of some, lower is better."""
    runs, qrels = {system: {"q": run} for system, run in runs.items()}, {"q": {"x": 1, "y": 0}}
    table = rb.evaluate_runs(runs, qrels, ["RR", "MRR"] if metric == "MRR" else metric)
    assert list(table.best().values()) == [best]
    assert table.to_markdown().count("**") == (2 * len(best) if len(runs) > 1 else 0)
    assert ("best mean" in str(table)) == (len(runs) > 1)
    assert "significant" not in str(table) + table.to_latex() + table.to_json() + table.to_csv()


def test_undefined_and_missing_topics_are_told_and_treated_as_of_single_runs(judged: Any) -> None:
    qrels, runs = judged
    qrels = {**qrels, "none": {"d1": 0}}
    lacking = {name: {**run, "none": run["t00"]} for name, run in runs.items()}
    lacking["worse"] = {topic: items for topic, items in lacking["worse"].items() if topic not in ("t03", "t04")}
    lacking["other"] = {**lacking["other"], "extra": {"d1": 1.0}}
    with pytest.warns(UserWarning, match='worse lacks 2 of the topics of the qrels.*missing="zero"'):
        table = rb.evaluate_runs(lacking, qrels, ["AP", "P@5"], baseline="bm25", resamples=99)
    for said in (
        "worse lacks 2 topics of the qrels: left out of its means",
        "topics of other that are not in the qrels",
        "worse - bm25, AP; worse - bm25, P@5: left out: 2 topics (t03; t04) without a score of worse",
        "Means over 40 (AP), 41 (P@5) topics for bm25, same, better, other; 38 (AP), 39 (P@5) topics for worse. ",
        "same - bm25, AP; same - bm25, P@5: not tested: same and bm25 score the same",
    ):
        assert said in str(table), said
        assert re.search(f"^%.*{re.escape(said)}", table.to_latex(), re.MULTILINE), said
    for how in ({"missing": "zero"}, {"missing": "skip", "undefined": "zero"}):
        alone = {name: rb.evaluate_run(run, qrels, ["AP", "P@5"], **how).means() for name, run in lacking.items()}
        assert rb.evaluate_runs(lacking, qrels, ["AP", "P@5"], **how).means() == alone
    with pytest.raises(rb.io.judged.DataError, match="the run lacks 2 of 41 topics"):
        rb.evaluate_runs(lacking, qrels, ["AP"], missing="error")
    table = rb.evaluate_runs({"a": runs["bm25"], "b": runs["bm25"]}, judged[0], "AP", baseline="b")
    assert "No significant difference from b (p ≤ 0.05; " in str(table)


NAMES = {"[x]": r"{}[x]", "*a_b&c": r"{}*a\_b\&c", "50%#$~^|<\\{}": "", "a--b -3": r"a-{}-b $-$3", "e\x1b[2J\nf": ""}


def test_any_name_stands_in_latex_and_cannot_steer_a_terminal(judged: Any) -> None:
    runs = dict(zip(NAMES, judged[1].values(), strict=True))
    table = rb.evaluate_runs(runs, judged[0], METRICS, baseline="[x]", resamples=99)
    ((_, *rows),) = tables_in(table.to_latex())
    for row, (name, expected) in zip(rows, NAMES.items(), strict=False):
        assert row[0] == expected or not expected, name
    assert not re.search("[\x00-\x09\x0b-\x1f]", str(table) + table.to_markdown() + table.to_latex())
    assert [row["system"] for row in csv.DictReader(io.StringIO(table.to_csv(), newline=""))][::3] == list(NAMES)
    assert list(json.loads(table.to_json())["systems"]) == list(NAMES)


GIVEN: dict[str, Any] = {"runs": {"a": {"t": {"d": 1.0}}, "b": {"t": {"d": 2.0}}}, "metrics": "AP", "baseline": "a"}
test_messages_in_python = refusals(
    problems("tables in Python"),
    lambda given: rb.evaluate_runs(qrels={"t": {"d": 1}}, **GIVEN | given),
)


class TestTopics:
    CHOSEN = ("t03", "t01", "t20", "t07", "t08", "t09", "t10")

    def test_they_are_chosen_in_all_functions_and_commands(self, judged: Any, folder: Path, program: Program) -> None:
        qrels, runs = judged
        some = {topic: qrels[topic] for topic in qrels if topic in self.CHOSEN}
        chosen = rb.evaluate_run(runs["bm25"], qrels, METRICS, topics=iter(self.CHOSEN))
        assert chosen.topics == list(some)
        assert chosen.means() == rb.evaluate_run(runs["bm25"], some, METRICS).means()
        assert not [*chosen.missing, *chosen.unjudged]
        assert rb.evaluate_run(runs["bm25"], qrels, "AP", topics="t03").topics == ["t03"]
        table = rb.evaluate_runs(runs, qrels, METRICS, baseline="bm25", topics=iter(self.CHOSEN))
        expected = rb.evaluate_runs(runs, some, METRICS, baseline="bm25")
        assert table.to_csv() == expected.to_csv()
        pair = {name: runs[name] for name in ("better", "bm25")}
        report = rb.compare_runs(pair, qrels, METRICS, topics=iter(self.CHOSEN)).to_csv()
        assert report == rb.compare_runs({name: runs[name] for name in pair}, qrels, METRICS, topics=some).to_csv()
        (folder / "some").write_text("\n".join([*self.CHOSEN, "", ""]))
        for text in (",".join(self.CHOSEN), "@some"):
            names = "bm25.txt same.txt better.txt worse.txt other.txt"
            command = f"evaluate {names} qrels.txt {FLAGS} --baseline bm25 --topics {text} --table-csv"
            assert program(command) == table.to_csv() + "\n"
            compared = program(f"compare better.txt bm25.txt --qrels qrels.txt {FLAGS} --topics {text} --csv")
            assert compared == report + "\n"
        for name in pair:
            program(f"evaluate {name}.txt qrels.txt {FLAGS} --csv {name}.csv")
        of_scores = program("compare better.csv bm25.csv --topics @some --csv")
        assert [row["n_units"] for row in csv.DictReader(io.StringIO(of_scores))] == ["7"] * 3
        assert "1.0000" not in program("evaluate bm25.txt qrels.txt -m AP --topics t03 --per-topic").split("\n\n")[0]

    def test_an_unknown_one_is_refused_by_name(self, folder: Path, program: Program) -> None:
        (folder / "empty").write_text("\n")
        (folder / "a.csv").write_text("topic,AP\nx,1\ny,0\n")
        runs = "bm25.txt better.txt"
        for command in (
            f"evaluate bm25.txt qrels.txt {FLAGS}",
            f"evaluate {runs} qrels.txt {FLAGS}",
            f"compare {runs} --qrels qrels.txt {FLAGS}",
        ):
            said = program(f"{command} --topics t01,t99", status=2)
            assert "topics: found 't99', expected topics of the qrels, which have 't00', 't01', 't02', ..." in said
            assert "topics: found none" in program(f"{command} --topics @empty", status=2)
            assert "gone: cannot be read" in program(f"{command} --topics @gone", status=2)
        assert "topics: found 'z', expected topics of the files, which have 'x', 'y'" in program(
            "compare a.csv a.csv --topics x,z", status=2
        )


class TestCommand:
    def test_one_run_is_evaluated_as_before(self, judged: Any, folder: Path, program: Program) -> None:
        alone = rb.evaluate_run(judged[1]["bm25"], judged[0], METRICS)
        assert program(f"evaluate bm25.txt qrels.txt {FLAGS}", warns="") == f"{alone}\n"
        found = json.loads(program("evaluate bm25.txt qrels.txt -m AP --json"))
        assert list(found) == ["topics", "missing", "means", "undefined"]
        ((header, row),) = tables_in(program(f"evaluate bm25.txt qrels.txt {FLAGS} --latex --name Mine"))
        assert (header[0], row[0]) == ("System", "Mine")

    def test_forms_are_those_of_python(self, judged: Any, folder: Path, program: Program) -> None:
        table = rb.evaluate_runs(judged[1], judged[0], METRICS, baseline="bm25", test="t", correction="bh")
        files = " ".join(f"{name}.txt" for name in judged[1])
        command = f"evaluate {files} qrels.txt {FLAGS} --baseline bm25 --test t --correction bh --csv topics.csv"
        for flag, form in {
            "": str(table),
            "--json": table.to_json(),
            "--latex": table.to_latex(),
            "--markdown": table.to_markdown(),
            "--table-csv": table.to_csv(),
        }.items():
            assert program(f"{command} {flag}", warns="") == f"{form}\n"
        frame = pl.read_csv("topics.csv")
        assert frame.columns == ["system", "topic", *METRICS]
        means = frame.group_by("system").agg(pl.col("AP").mean())
        expected = {name: means["AP"] for name, means in table.means().items()}
        assert dict(means.rows()) == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("arguments", "names"),
        problems("names of systems"),
    )
    def test_names_of_systems(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, program: Program, arguments: str, names: str
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("bm25.txt").read_bytes())))
        (folder / "d").mkdir()
        for name in ("d/bm25.txt", "bm25.trec.gz", "input.k1=0.9"):
            rb.write_run(name, rb.read_run("bm25.txt"))
        files, *flags = re.split("(?= --)", arguments, maxsplit=1)
        found = json.loads(program(f"evaluate {files} qrels.txt -m AP --json {' '.join(flags)}"))
        assert " ".join(found["systems"]) == names

    @pytest.mark.parametrize(
        ("arguments", "message"),
        problems("tables by command"),
    )
    def test_messages(self, folder: Path, program: Program, arguments: str, message: str) -> None:
        assert message in program(f"evaluate {arguments} -m AP", status=2)

    def test_a_run_that_lacks_topics_is_named_in_a_warning(self, judged: Any, folder: Path, program: Program) -> None:
        part = {topic: items for topic, items in judged[1]["same"].items() if topic > "t02"}
        rb.write_run("same.txt", rb.read_run(part))
        program(
            "evaluate bm25.txt same.txt qrels.txt -m AP --csv t.csv", warns="warning: same lacks 3 topics of the qrels"
        )
        frame = pl.read_csv("t.csv")
        assert frame.filter("missing").select("system", "topic").rows() == [
            ("same", f"t0{place}") for place in range(3)
        ]
        program("evaluate bm25.txt same.txt qrels.txt -m AP --missing zero", warns="")


def test_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: Program, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = follow(PAGE, program, capsys, close=2e-3)
    assert "colbert" in Path("table.tex").read_text("utf-8"), "that of Python"
    assert len(tables_in(names["table"].to_latex())) == 1
    with pytest.raises(SystemExit):
        cli.main(["evaluate", "--help"])
    known = capsys.readouterr().out
    assert [flag for flag in re.findall("--[a-z][a-z-]+", text_of(PAGE)) if flag not in known] == ["--qrels"]
