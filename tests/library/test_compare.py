"""`rankbound compare`: two runs, or two files of scores, and what they may lack."""

import csv
import io
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.cli import main
from rankbound.compare.comparison import Settings
from rankbound.compare.runs import Source, compare_sources
from tests.comparing import Compare, assert_as_scipy_says, judged_runs
from tests.library.latex_tables import tables_in
from tests.library.refusals import problems, refusals

stats = pytest.importorskip("scipy.stats", reason="the statistics need scipy")

METRICS = ["-m", "nDCG(gain=linear)@10", "-m", "AP", "-m", "P@5"]

Scores = Mapping[str, Mapping[str, float]]
Trec = tuple[Scores, Scores, Scores]
Files = Callable[..., list[Path]]


@pytest.fixture
def trec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trec:
    """Runs a.txt and b.txt of 30 topics and their qrels.txt, in the working folder; and what is in them."""
    monkeypatch.chdir(tmp_path)
    qrels, runs = judged_runs(5, {"a": 0.8, "b": 1.3}, topics=30, items=25, highest=2)
    write_trec(qrels, *runs.values())
    return qrels, runs["a"], runs["b"]


def write_trec(qrels: Scores, *runs: Scores) -> None:
    rb.write_qrels("qrels.txt", rb.read_qrels(qrels))
    for name, run in zip("abc", runs, strict=False):
        rb.write_run(f"{name}.txt", rb.read_run(run))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    def written(*texts: str) -> list[Path]:
        for name, text in zip("abc", texts, strict=False):
            (tmp_path / f"{name}.csv").write_text(text)
        return [tmp_path / f"{name}.csv" for name in "abc"[: len(texts)]]

    return written


@pytest.fixture
def compare(capsys: pytest.CaptureFixture[str]) -> Compare:
    return Compare(main, capsys)


JUDGED = ("--qrels", "qrels.txt")


class TestRuns:
    def test_it_agrees_with_ir_measures_and_scipy(self, trec: Trec, compare: Compare) -> None:
        ir_measures = pytest.importorskip("ir_measures", reason="a peer, from the extra of that name")
        names = {"nDCG(gain=linear)@10": "nDCG@10", "AP": "AP", "P@5": "P@5"}
        for row in compare.json("a.txt", "b.txt", *JUDGED, *METRICS, "--margin", 0.05)["comparisons"]:
            measure = ir_measures.parse_measure(names[row["metric"]])
            scores = [
                {one.query_id: one.value for one in ir_measures.iter_calc([measure], trec[0], run)} for run in trec[1:]
            ]
            a, b = (np.array([values[topic] for topic in trec[0]]) for values in scores)
            assert (row["mean_a"], row["mean_b"]) == pytest.approx((a.mean(), b.mean()))
            assert_as_scipy_says(row, a, b)
        named = compare.json("a.txt", "b.txt", *JUDGED, "-m", "nDCG@10", "--names", "ir_measures")
        assert [row["metric"] for row in named["comparisons"]] == ["nDCG(gain=linear)@10"]

    def test_what_is_missing_is_named(self, trec: Trec, compare: Compare) -> None:
        qrels, a, b = (dict(table) for table in trec)
        del a["t03"], b["t04"]
        b["extra"] = b["t05"]
        a["t06"] = dict.fromkeys(a["t06"], 1.0)
        qrels["t07"] = dict.fromkeys(qrels["t07"], 0)
        write_trec(qrels, a, b)
        text = compare("a.txt", "b.txt", *JUDGED, "-m", "AP")
        assert "left out: 1 topic (t03) without a score of A" in text
        assert "left out: 1 topic (t04) without a score of B" in text
        assert "topics of B that are not in the qrels don't count (1)" in text
        assert "topics of A with one score for all items: their metrics are means over random orders (1)" in text
        assert "left out: 1 topic for which neither has a score" in text
        zero = compare("a.txt", "b.txt", *JUDGED, "-m", "AP", "--missing", "zero")
        assert "without a score of A" not in zero
        assert "topics of the qrels that are not in A count as 0 (1)" in zero

    @pytest.mark.parametrize(
        ("arguments", "message"),
        problems("comparisons of runs"),
    )
    def test_messages(self, trec: object, compare: Compare, arguments: str, message: str) -> None:
        assert message in compare(*arguments.split(), status=2)


class TestSeveralRuns:
    @pytest.fixture
    def runs(self, trec: Trec) -> dict[str, Scores]:
        """Runs a.txt, b.txt and c.txt, which has the scores of b with more noise."""
        random = np.random.default_rng(9)
        noisy = {topic: {d: s + random.normal(0, 2) for d, s in items.items()} for topic, items in trec[2].items()}
        write_trec(*trec, noisy)
        return {"a.txt": trec[1], "b.txt": trec[2], "c.txt": noisy}

    def test_all_pairs_or_those_with_a_baseline_are_the_pairs_one_by_one(self, runs: object, compare: Compare) -> None:
        judged = (*JUDGED, *METRICS)
        every = compare.json("a.txt", "b.txt", "c.txt", *judged)["comparisons"]
        p_values, adjusted = ([row[key] for row in every] for key in ("p_value", "p_adjusted"))
        for a, b in (("a.txt", "b.txt"), ("a.txt", "c.txt"), ("b.txt", "c.txt")):
            of_pair, every = every[: len(METRICS) // 2], every[len(METRICS) // 2 :]
            assert {row["cell"] for row in of_pair} == {f"{a} - {b}"}
            assert {(row["a"], row["b"]) for row in of_pair} == {(a, b)}
            alone = compare.json(a, b, *judged)["comparisons"]
            left_out = {"cell": "", "a": "", "b": "", "p_adjusted": ""}
            assert [row | left_out for row in of_pair] == [row | left_out for row in alone]
        assert not every
        assert min(adjusted) == pytest.approx(min(1, min(p_values) * len(p_values)))
        assert all(found >= p_value for found, p_value in zip(adjusted, p_values, strict=True))
        found = compare.json("a.txt", "c.txt", "--baseline", "b.txt", *JUDGED, "-m", "AP")
        assert [row["cell"] for row in found["comparisons"]] == ["a.txt - b.txt", "c.txt - b.txt"]
        assert (found["a"], found["b"]) == ("a.txt, c.txt", "b.txt")
        (alone,) = compare.json("a.txt", "--baseline", "b.txt", *JUDGED, "-m", "AP")["comparisons"]
        assert alone["difference"] == found["comparisons"][0]["difference"]

    def test_runs_in_memory(self, trec: Trec, runs: dict[str, Scores], compare: Compare) -> None:
        metrics = ["nDCG@10", "AP"]
        report = rb.compare_runs(
            runs, trec[0], metrics, baseline="b.txt", missing="zero", flips=999, resamples=499, margin=0.02
        )
        flags = [flag for name in metrics for flag in ("-m", name)]
        judged = (*JUDGED, *flags, "--missing", "zero", "--margin", "0.02")
        assert str(report) == compare("a.txt", "c.txt", "--baseline", "b.txt", *judged).rstrip("\n")
        frame = report.to_polars()
        assert frame["cell"].to_list() == ["a.txt - b.txt"] * 2 + ["c.txt - b.txt"] * 2
        assert frame["effect.wins"].dtype == pl.Int64

    @pytest.mark.parametrize("form", ["markdown", "latex"])
    def test_tables_for_papers_hold_what_the_text_holds(self, runs: object, compare: Compare, form: str) -> None:
        arguments = ("a.txt", "b.txt", "c.txt", *JUDGED, "-m", "AP", "-m", "P@5", "--margin")
        text, other = compare(*arguments), compare(*arguments, f"--{form}")
        numbers = re.compile(r"[-+]?\d\.\d{4}")
        if form == "markdown":
            assert numbers.findall(other.replace("\\", "")) == numbers.findall(text)
            tables = [line for line in other.splitlines() if line.startswith("|")]
            assert len(tables) == 2 * (2 + 6)
            assert len({line.count("|") for line in tables[:8]}) == 1
        else:
            differences, margins = tables_in(other)
            assert differences[0] == ["", "metric", "A", "B", "A - B", r"95 \% interval", "p (Holm)", "effect"]
            rows = [line.split() for line in text.split("\n\n")[1].split("\n")[2:]]
            shown = [" ".join(row).replace("$", "").split() for row in differences[1:]]
            # Without the number of topics, the unadjusted p, and what stands behind the effect.
            assert shown == [[*row[:4], *row[5:10], row[11], row[12]] for row in rows]
            assert len(margins) == len(differences) == 7
            comments = [line for line in other.splitlines() if line.startswith("%")]
            assert comments[:3] == ["% A: a.txt, b.txt", "% B: b.txt, c.txt", "% Over 30 topics"]
            assert "% Against a margin" in comments


GIVEN: dict[str, Any] = {"runs": {"a": {"t": {"d": 1.0}}, "b": {"t": {"d": 2.0}}}, "metrics": "AP"}
test_messages_in_python = refusals(
    problems("comparisons in Python"), lambda given: rb.compare_runs(qrels={"t": {"d": 1}}, **GIVEN | given)
)


class TestScoresByTopic:
    def test_what_evaluate_writes(self, trec: object, compare: Compare, capsys: pytest.CaptureFixture[str]) -> None:
        for name in ("a", "b"):
            main(["evaluate", f"{name}.txt", "qrels.txt", *METRICS, "--csv", f"{name}.csv"])
        capsys.readouterr()
        expected = compare.json("a.txt", "b.txt", *JUDGED, *METRICS)["comparisons"]
        assert compare.json("a.csv", "b.csv")["comparisons"] == expected

    def test_tables_with_folds_and_seeds(self, files: Files, compare: Compare) -> None:
        random = np.random.default_rng(0)
        key = [f"0{topic},{fold},{seed}" for topic in range(12) for fold in range(2) for seed in range(3)]
        texts = ("\n".join(["topic,fold,seed,mine,tag", *(f"{row},{random.random()},x" for row in key)]) for _ in "ab")
        paths = files(*texts)
        (row,) = compare.json(*paths)["comparisons"]
        assert (row["n_units"], row["trainings"]["n_folds"], row["trainings"]["n_seeds"]) == (12, 2, 3)
        assert row["trainings"]["deviation_a"] > 0
        text = compare(*paths, "--margin", "noise")
        assert "left out of a.csv: tag (not numeric)" in text
        assert "Between seeds" in text
        assert "topics and trainings" in text

    def test_the_index_of_a_frame_is_no_metric(self, files: Files, compare: Compare) -> None:
        frame, found = pl.DataFrame({"topic": [f"t{t}" for t in range(9)], "AP": [0.1 * t for t in range(9)]}), []
        for index in (True, False):
            powers = (frame.with_columns(pl.col("AP").pow(power)).to_pandas() for power in (1, 2))
            paths = files(*(power.to_csv(index=index) for power in powers))
            found.append(compare.json(*paths)["comparisons"])
            assert compare(*paths).count("left out of a.csv: '' (without a name)") == index
        assert [row["metric"] for row in found[0]] == ["AP"]
        assert found[0][0]["p_adjusted"] == found[1][0]["p_adjusted"]

    def test_undefined_scores_and_lower_ones_that_are_better(self, files: Files, compare: Compare) -> None:
        a = "topic,AP\n007,0.5\n008,\n009,0.25\n010,NaN\n011,0.4\n"
        (row,) = compare.json(*files(a, "topic,AP\n007,0.4\n008,0.5\n009,0.5\n010,\n7,0.4\n"))["comparisons"]
        assert (row["n_units"], row["n_undefined"]) == (2, 1)
        assert row["notes"][:3] == [
            "left out: 2 topics (008; 7) without a score of A",
            "left out: 1 topic (011) without a score of B",
            "left out: 1 topic for which neither has a score",
        ]
        text = compare(*files("topic,AP\nx,1\n", "topic,AP\ny,1\n"))
        assert "not compared: there is no topic for which both have a score" in text
        texts = ("".join(f"{t},{better + t % 2 * t},{better - t % 3}\n" for t in range(9)) for better in (3, 5))
        paths = files(*("topic,nRBP,own\n" + text for text in texts))
        rank_sum, own = compare.json(*paths, "--margin", 1)["comparisons"]
        assert (rank_sum["effect"]["wins"], own["effect"]["losses"]) == (9, 9)

    @pytest.mark.parametrize(
        ("a", "b", "message"),
        problems("files of scores"),
    )
    def test_messages(self, files: Files, compare: Compare, a: str, b: str, message: str) -> None:
        assert message in compare(*files(a, b), status=2)


class TestOutput:
    @pytest.mark.parametrize(
        ("test", "correction", "of", "by"),
        [
            ("t", "bonferroni", "Student's paired t test", "Bonferroni"),
            ("wilcoxon", "bh", "Wilcoxon's signed-rank test without zero differences", "Benjamini-Hochberg"),
        ],
    )
    def test_other_tests_and_corrections_are_named(
        self, trec: Trec, test: str, correction: str, of: str, by: str
    ) -> None:
        runs = dict(zip("ab", trec[1:], strict=True))
        metrics = METRICS[1::2]
        report = rb.compare_runs(runs, trec[0], metrics, test=test, correction=correction, margin=0.05)
        usual = rb.compare_runs(runs, trec[0], metrics, margin=0.05)
        for form in (str(report), report.to_markdown(), report.to_latex()):
            assert f"p: {of}; {by} over 3 tests." in form.replace("\\", "")
            assert f"p ({by})" in form
        a, b = (rb.evaluate_run(run, trec[0], metrics).values for run in trec[1:])
        # Differences of P@5 that are equal but for rounding errors would be no ties in scipy.
        differences = [np.round(a[name] - b[name], 9) for name in metrics]
        theirs = {"t": lambda values: stats.ttest_1samp(values, 0), "wilcoxon": stats.wilcoxon}[test]
        expected = [theirs(values).pvalue for values in differences]
        assert report.to_polars()["p_value"].to_list() == pytest.approx(expected, rel=1e-6)
        assert set(report.to_polars().select("test", "correction").rows()) == {(test, correction)}
        # Margins and all else stay.
        kept = pl.col("^(margin|effect|low|high|detectable).*$")
        assert report.to_polars().select(kept).equals(usual.to_polars().select(kept))

    def test_a_family_that_flips_cannot_reach_is_told_with_its_correction(self, trec: Trec) -> None:
        runs = dict(zip("ab", trec[1:], strict=True))
        told = {}
        for correction in ("holm", "bonferroni", "bh"):
            metrics = [f"P@{place}" for place in range(1, 7)]
            told[correction] = str(rb.compare_runs(runs, trec[0], metrics, flips=99, correction=correction))
        assert "no p (Holm) of 6 tests can be below 0.06: raise --flips" in told["holm"]
        assert "no p (Bonferroni) of 6 tests can be below 0.06" in told["bonferroni"]
        assert "raise --flips" not in told["bh"]

    def test_json_has_no_nan_csv_the_same_numbers_and_the_table_a_head(self, trec: object, compare: Compare) -> None:
        arguments = ["a.txt", "b.txt", *JUDGED, *METRICS, "--margin"]
        rows = compare.json(*arguments)["comparisons"]
        flat = list(csv.DictReader(io.StringIO(compare(*arguments, "--csv"))))
        assert [row["margin"]["margin"] for row in rows] == [0.01] * 3
        for row, line in zip(rows, flat, strict=True):
            for name in ("difference", "low", "high", "p_value", "p_adjusted", "detectable"):
                assert float(line[name]) == row[name]
            assert line["effect.wins"] == str(row["effect"]["wins"])
            assert line["margin.verdict"] == row["margin"]["verdict"]
            assert line["trainings.deviation"] == ""
        text = compare("a.txt", "b.txt", *JUDGED, "-m", "AP", "--interval", "t", "--confidence", 0.9)
        assert text.startswith("A: a.txt\nB: b.txt\n")
        assert "90 % interval" in text
        assert "mean and standard error over topics" in text
        assert "999 sign flips; Holm over 1 test." in text
        assert not [line for line in text.splitlines() if line != line.rstrip()]


ADVICE = problems("advice")
"""Means of systems by name, a metric, settings, and what to do."""


@pytest.mark.parametrize("name", ADVICE)
def test_the_last_line_says_which_system_to_take_or_how_many_topics_would_tell(name: str) -> None:
    means, metric, settings, said = ADVICE[name]
    noise, margin = settings.get("noise", 0.02), settings.get("margin")
    topics = [f"t{topic:02}" for topic in range(40)]
    sources = [
        Source(pl.DataFrame({"topic": topics, metric: np.linspace(0.3, 0.7, 40) + mean + noise * random}), [metric])
        for mean, random in zip(means.values(), np.random.default_rng(1).normal(size=(3, 40)), strict=False)
    ]
    with_last = bool(settings.get("last"))
    report = compare_sources([f"{one}.csv" for one in means], sources, [metric], Settings(margin=margin), with_last)
    last = str(report).splitlines()[-1]
    assert last.startswith(f"What to do, by {metric}: {said}"), last
    assert report.to_markdown().splitlines()[-1].replace("\\", "").endswith(last)
    if found := re.search(r"about ([\d,]+) topics would tell one of ([\d.]+), .* \(there are 40\)\.$", last):
        # With so many topics, the t test has that power: 80 %, and a little more for its degrees of freedom.
        needed, size = int(found[1].replace(",", "")), float(found[2])
        inconclusive = [row.found for row in report.rows if row.found.p_adjusted > 0.05]
        differences = inconclusive[-1]
        deviation = abs(differences.difference / differences.effect.standardised)
        power = stats.nct.sf(stats.t.isf(0.025, needed - 1), needed - 1, size / (deviation / needed**0.5))
        assert 0.78 < power < 0.86
        assert size == pytest.approx(settings.get("margin") or abs(inconclusive[-1].difference), abs=6e-5)
    else:
        assert "about" not in last
