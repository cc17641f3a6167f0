"""Table 5.1: means, margins and changes against sums spelled out by hand, printed numbers, exports."""

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from scipy import stats

from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims.evidence import certainty, holm_adjusted
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report import findings
from rankbound_study.report.blocks import Finding
from rankbound_study.report.claims import Claims
from rankbound_study.report.findings import honest_findings
from rankbound_study.report.tables import table_5_1
from rankbound_study.report.tables.table_5_1 import COLUMNS, signs, signs_block
from rankbound_study.results.scores import RunsChoice
from rankbound_study.results.study_files import StudyFiles
from tests.study.drawn_files import contents, run
from tests.study.planted import BOUNDINGS, RUNS, SETS, World, settings, write_runs

PUBLISHED = RunsChoice()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("runs") / "runs.parquet", topics=12, seeds=2)


@pytest.fixture(scope="module")
def table(runs: Path) -> pl.DataFrame:
    return table_5_1.table_5_1(runs, PUBLISHED)


def table_of(folder: Path, choice: RunsChoice = PUBLISHED, *, topics: int = 8, **options: Any) -> pl.DataFrame:
    """Return the table of small runs."""
    return table_5_1.table_5_1(write_runs(folder / "runs.parquet", topics=topics, **options), choice)


def cell(table: pl.DataFrame, **where: object) -> dict[str, Any]:
    (row,) = table.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in where.items())).to_dicts()
    return row


def test_sixty_cells_are_printed_and_data_sets_stand_in_a_fixed_order() -> None:
    printed = {name: own.drop("dataset") for (name,), own in table_5_1.printed_scores().group_by("dataset")}
    assert {name: len(own) for name, own in printed.items()} == {
        "movielens": 45, "mq2008-label1": 15, "mq2008-label2": 15,
    }  # fmt: skip
    assert printed["mq2008-label1"].equals(printed["mq2008-label2"])
    names = ["synthetic-movielens", "mq2008-label2", "aaf", "movielens", "mq2008-label1"]
    found = sorted((DataSet(name, None) for name in names), key=lambda data_set: data_set.place)
    assert [names.index(data_set.dataset) for data_set in found] == [3, 4, 1, 2, 0]


@pytest.mark.parametrize(("dataset", "nsr"), SETS)
def test_means_are_those_of_lists_spelled_out(runs: Path, table: pl.DataFrame, dataset: str, nsr: int | None) -> None:
    by_list: dict[tuple[int, str], list[float]] = {}
    for row in pq.read_table(runs).to_pylist():
        if (row["dataset"], row["nsr_test"], row["loss"], row["bounding"]) == (dataset, nsr, "AP", "min-max"):
            by_list.setdefault((row["fold"], row["topic"]), []).append(row["AP"])
    means = {key: sum(values) / len(values) for key, values in by_list.items() if values[0] == values[0]}
    folds = [[value for (fold, _), value in means.items() if fold == number] for number in range(1, 6)]
    found = cell(table, dataset=dataset, nsr=nsr, loss="AP", bounding="min-max")
    assert found["ours"] == pytest.approx(sum(sum(fold) / len(fold) for fold in folds) / 5, abs=1e-12)
    assert found["ours_pooled"] == pytest.approx(sum(means.values()) / len(means), abs=1e-12)
    assert (found["n_lists"], found["n_skipped"]) == (len(means), len(by_list) - len(means))
    assert (found["n_folds"], found["n_seeds"]) == (5, 2)
    assert (found["n_skipped"] > 0) == (nsr is None), "queries without a relevant document"


def test_printed_scores_stand_beside_their_data_and_marks_are_set(table: pl.DataFrame, tmp_path: Path) -> None:
    found = cell(table, dataset="movielens", nsr=3, loss="nDCG", bounding="distribution")
    assert found["published"] == 0.8346
    assert found["difference"] == pytest.approx(found["ours"] - 0.8346, abs=1e-15)
    assert found["within_0.015"] == (abs(found["difference"]) <= 0.015)
    rows = table.filter(pl.col("loss") == "nRBP", pl.col("dataset") == "mq2008-label1", pl.col("bounding") == "none")
    assert rows.select("metric", "as_printed", "published").rows() == [
        (f"nRBP(p={p})", p == 0.95, 0.7140) for p in (0.95, 0.9, 0.8)
    ]
    controls = table.filter(pl.col("loss") == "none")
    assert set(controls["model"]) == {"random", "popularity", "oracle"}
    assert controls["published"].is_null().all()
    assert controls.filter(pl.col("model") == "oracle")["ours"].unique().to_list() == [1.0]
    synthetic = table_of(tmp_path, sets=(("synthetic-movielens", 1), ("synthetic-mq2008-label1", None)))
    assert synthetic["published"].is_null().all()
    block = table_5_1.block(table, "published protocol")
    assert [title.split()[0] for title in block.header[3:]] == ["MovieLens"] * 3 + ["MQ2008"] * 2
    trained = [row for row in block.rows if row[0].text == row[2].text == "nDCG"]
    assert [name.text for _, name, *_ in trained] == ["unbounded", *BOUNDINGS[1:]]
    for cells in list(zip(*trained, strict=True))[3:]:
        values = [float(one.text) for one in cells]
        marks = [(one.strong, one.emphasis) for one in cells]
        assert marks == [(value == max(values), value > values[0]) for value in values]
    text = table_5_1.texts(table)[".md"]
    assert "(0.9659)" in text, "a printed score"
    assert "±" not in text


def test_protocols_are_never_mixed_and_variants_have_rows_of_their_own(tmp_path: Path) -> None:
    both = {"protocols": ("published", "honest")}
    assert table_of(tmp_path, **both).equals(table_of(tmp_path))
    honest = table_of(tmp_path, RunsChoice(protocol="honest"), **both)
    assert honest["protocol"].unique().to_list() == ["honest"]
    found = table_of(tmp_path, sets=(("movielens", 1),), boundings=(*BOUNDINGS, "distribution(gain=sd)"))
    assert found.filter(pl.col("bounding") == "distribution(gain=sd)")["published"].is_null().all()
    assert "distribution(gain=sd)" in table_5_1.texts(found)[".md"]


def test_mixtures_missing_columns_and_unknown_options_are_refused(tmp_path: Path) -> None:
    frame = pl.read_parquet(write_runs(tmp_path / "runs.parquet", topics=4))
    mixed, broken = tmp_path / "two.parquet", tmp_path / "broken.parquet"
    pl.concat([frame, frame.with_columns(pl.lit("other").alias("study"))]).write_parquet(mixed)
    frame.drop("AP").write_parquet(broken)
    with pytest.raises(DataError, match=r'several values of study: other, thesis; choose one with .*"study"'):
        table_5_1.table_5_1(mixed, PUBLISHED)
    assert table_5_1.table_5_1(mixed, RunsChoice(study="thesis"))["n_lists"].sum() > 0
    with pytest.raises(DataError, match="column 'AP' is missing"):
        table_5_1.table_5_1(broken, PUBLISHED)
    for options, message in (
        ({"protocoll": "honest"}, "found the option 'protocoll', expected only protocol, study"),
        ({"protocol": "dishonest"}, "'dishonest' is unknown: choose one of published, honest"),
    ):
        with pytest.raises(ConfigError, match=message):
            figures.draw("figure_5_1", StudyFiles(runs=mixed), options)


def test_findings_and_metrics_count_what_the_table_holds(table: pl.DataFrame, tmp_path: Path) -> None:
    def found(start: str, table: pl.DataFrame = table) -> list[Finding]:
        every = findings.Bounded(tmp_path, table, table.clear()).findings(Claims())
        return [one for one in every if one.headline.startswith(start)]

    (reading,) = found("The printed MQ2008 scores of nDCG and AP fit")
    assert [row[0] for row in reading.rows] == ["nDCG", "AP", "nRBP(p=0.95)", "nRBP(p=0.9)", "nRBP(p=0.8)"]
    (skipped,) = found("Test lists without relevant items are left out")
    assert skipped.detail.count(" 4 of 12") == 2
    assert not found("The printed MQ2008", table_of(tmp_path, sets=(("mq2008-label2", None),)))
    nested = table_5_1.metrics(table)
    assert set(nested) == {"movielens-nsr1", "movielens-nsr2", "movielens-nsr3", "mq2008-label1", "mq2008-label2"}
    assert set(nested["movielens-nsr1"]["nDCG"]["nDCG"]) == set(BOUNDINGS)
    assert set(nested["mq2008-label2"]["controls"]["AP"]) == {"random", "popularity", "oracle"}


def test_the_command_writes_every_form_twice_the_same(runs: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        run("table", "table_5_1", "--runs", runs, "--out-dir", folder, "--metrics", folder / "metrics.json")
    first = contents(tmp_path / "a")
    assert list(first) == ["metrics.json", "table_5_1.csv", "table_5_1.md", "table_5_1.tex"]
    assert first == contents(tmp_path / "b")
    header = first["table_5_1.csv"].decode().splitlines()[0].split(",")
    assert header == list(table_5_1.COLUMNS)
    assert b"0.9659" in first["table_5_1.md"]
    assert first["table_5_1.tex"].count(rb"\\") == len(first["table_5_1.md"].splitlines()) - 3
    with pytest.raises(ConfigError, match="--runs"):
        run("table", "table_5_1", "--out-dir", tmp_path / "c")
    assert not (tmp_path / "c").exists()


# Margins and significant changes of Table 5.1: against sums spelled out and scipy, and in the report

HONEST = RunsChoice("honest")


def planted(change: float, *, topics: int = 40, seeds: int = 1, noise: float = 0.02) -> pl.DataFrame:
    """Scores of an unbounded and of a bounded loss that differs from it by `change` on average."""
    size = {"topics": topics, "folds": 1, "seeds": seeds, "own": 0.0, "training": 0.0, "chance": noise}
    some = settings(["AP"], ["none", "min-max"], (1,))
    return World(lambda one: change * (one.bounding != "none"), some, **size).frames(0)[RUNS]


def test_of_one_seed_margins_are_those_of_a_mean_over_topics() -> None:
    scores = planted(0.05)
    found = certainty(scores, "AP")
    for bounding in ("none", "min-max"):
        values = scores.filter(bounding=bounding)["AP"].to_numpy()
        reach = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
        assert cell(found, bounding=bounding)["margin"] == pytest.approx(reach, rel=1e-9)
    a, b = (scores.filter(bounding=name)["AP"].to_numpy() for name in ("min-max", "none"))
    bounded = cell(found, bounding="min-max")
    assert bounded["change"] == pytest.approx((a - b).mean(), rel=1e-9)
    assert bounded["p_value"] == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-6)
    assert cell(found, bounding="none")["change"] is None


def test_margins_widen_with_trainings_and_undefined_topics_are_left_out() -> None:
    scores = planted(0.0, seeds=3, noise=0.0)
    shifted = scores.with_columns(pl.col("AP") + (pl.col("seed") - 1) * 0.1)
    calm, wild = (cell(certainty(frame, "AP"), bounding="none")["margin"] for frame in (scores, shifted))
    assert wild > 2 * calm
    found = certainty(planted(0.1, topics=1), "AP")
    assert found.select("margin", "change", "p_value").null_count().row(0) == (2, 2, 2)
    scores = planted(0.05)
    holes = scores.with_columns(pl.when(pl.col("topic").cast(pl.Int32) < 30).then(pl.col("AP")).alias("AP"))
    left = certainty(scores.filter(pl.col("topic").cast(pl.Int32) < 30), "AP")
    assert certainty(holes, "AP").equals(left)


@pytest.fixture(scope="module")
def tested_table(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return table_of(tmp_path_factory.mktemp("runs"), HONEST, topics=30, seeds=2, protocols=("honest",))


def test_printed_bounded_cells_are_tested_and_have_arrows_where_significant(tested_table: pl.DataFrame) -> None:
    tested = tested_table.filter(pl.col("p_holm").is_not_null())
    assert set(tested["bounding"]) == {"min-max", "expectation", "expectation-max", "distribution"}
    assert tested["as_printed"].all()
    assert len(tested) == 60
    assert tested["p_holm"].is_between(0, 1, closed="right").all()
    names = ["nDCG", *["nRBP"] * 3], ["min-max", "min-max", "expectation", "expectation-max"]
    cells = {"loss": names[0], "bounding": names[1], "p_value": [0.02, 0.01, 0.02, 0.03], "as_printed": [True] * 4}
    assert holm_adjusted(pl.DataFrame(cells)).to_list() == pytest.approx([0.02, 0.02, 0.04, 0.04])
    some = tested_table.filter(pl.col("p_holm").is_not_null()).row(0, named=True)
    for p_value, change, arrow in ((0.01, 0.1, "▲"), (0.01, -0.1, "▼"), (0.5, 0.1, ""), (0.5, -0.1, "")):
        row = pl.DataFrame([{**some, "p_holm": p_value, "change": change}], schema=table_5_1.COLUMNS)
        text = table_5_1.texts(row)[".md"]
        assert f"±{some['margin']:.4f}{arrow}" in text
        assert sum(text.split("\n", 2)[2].count(one) for one in "▲▼") == len(arrow)
        assert f"({some['published']:.4f})" not in text
        in_tex = {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "": ""}[arrow]
        assert rf"$\pm${some['margin']:.4f}{in_tex}" in table_5_1.texts(row)[".tex"]


def test_the_first_finding_counts_what_is_significant(tested_table: pl.DataFrame) -> None:
    tested = tested_table.filter(pl.col("p_holm").is_not_null())
    signs = pl.Series([1.0] * 7 + [-1.0] * 53)
    p_values = pl.Series([0.01] * 11 + [0.9] * 49)
    # The last two of the eleven are further affine boundings of nRBP, which repeat the ninth.
    assert tested.select("loss", "bounding").rows()[8:11] == [
        ("nRBP", name) for name in ("min-max", "expectation", "expectation-max")
    ]
    (found,) = honest_findings(tested.with_columns(change=signs * 0.01, p_holm=p_values), tested_table)
    assert found.headline == (
        "Bounding improves 7 of 50 cells significantly and degrades 2; for 41 the difference is not significant."
    )
    assert "2 seeds" in found.detail
    assert sum(int(row[1]) for row in found.rows) == 50
    assert [sum(int(row[place]) for row in found.rows) for place in (2, 3)] == [7, 2]
    assert "published protocol" not in found.detail, "no table by that protocol was given"
    other = tested_table.with_columns(protocol=pl.lit("published"))
    (found,) = honest_findings(tested.with_columns(change=signs * 0.01, p_holm=p_values), other)
    assert "By the published protocol, and without a test," in found.detail
    assert list(honest_findings(tested_table.with_columns(protocol=pl.lit("published")), tested_table)) == []


# Cells whose effect changes its sign between the protocols: each is counted at the step that changes it

CELLS = {
    "min-max": (0.001, -0.002, -0.003),
    "expectation": (0.001, 0.002, -0.003),
    "expectation-max": (0.001, -0.002, 0.003),
    "distribution": (-0.01, -0.02, -0.03),
}
"""Bounding -> the effect by the published protocol, at the lowest rate, and by the honest protocol."""


def signs_of(place: int, loss: str = "AP", p_holm: float = 0.5) -> pl.DataFrame:
    shared = {"dataset": "movielens", "nsr": 2, "loss": loss, "as_printed": True}
    bounded = [{"bounding": name, "change": changes[place], "p_holm": p_holm} for name, changes in CELLS.items()]
    return pl.DataFrame([shared | own for own in (*bounded, {"bounding": "none"})], schema=COLUMNS)


def rates(loss: str = "AP") -> pl.DataFrame:
    """Two folds and two rates; at the higher rate, all effects are those of the lower one with the other sign."""
    rows = [
        {"dataset": "movielens", "nsr_test": 2, "loss": loss, "bounding": bounding, "fold": fold}
        | {"learning_rate": rate, "test_score": 0.6 + sign * effect + fold / 100}
        for bounding, (_, effect, _) in {**CELLS, "none": (0, 0, 0)}.items()
        for fold in (1, 2)
        for rate, sign in ((0.003, 1), (0.1, -1))
    ]
    return pl.DataFrame(rows, schema_overrides={"nsr_test": pl.Int8})


def counts(table: pl.DataFrame) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in signs_block(table).rows}


def test_every_change_is_counted_at_its_step_and_nothing_else() -> None:
    table = signs(signs_of(0), signs_of(2), rates())
    assert table["lowest_rate"].to_list() == pytest.approx([changes[1] for changes in CELLS.values()])
    found = dict(zip(signs_block(table).header[1:], counts(table)["AP"], strict=True))
    assert (found["cells"], found["other sign"]) == ("4", "2")
    assert (found["by protocol"], found["by rate"]) == ("1", "1")
    assert (found["there and back"], found["significantly"]) == ("1", "0")
    assert counts(table)["all"] == counts(table)["AP"]
    nrbp = signs(signs_of(0, "nRBP"), signs_of(2, "nRBP"), rates("nRBP"))
    assert nrbp["bounding"].to_list() == ["min-max", "distribution"], "identical boundings count once"
    assert counts(nrbp.with_columns(honest=pl.lit(1e-12)))["nRBP"][1] == "0", "equal scores have no sign"
    significant = [signs(signs_of(0, p_holm=0.01), signs_of(2, p_holm=p), rates()) for p in (0.01, 0.5)]
    assert [counts(table)["AP"][-1] for table in significant] == ["2", "0"], "by both protocols"
    assert counts(signs(signs_of(0), signs_of(2), rates().clear()))["AP"] == ["4", "2", "–", "–", "–", "0"]


# Printed scores that are not reproduced: the nearest attempt at each, and the count below a random ordering

Row = dict[str, object]


def row(dataset: str, ours: float, **changes: object) -> Row:
    usual = {"protocol": "published", "model": "mlp", "loss": "nRBP", "bounding": "none", "metric": "nRBP(p=0.95)"}
    return {**usual, "dataset": dataset, "as_printed": True, "published": 0.7, "ours": ours, **changes}


def attempts_table(*rows: Row) -> pl.DataFrame:
    difference = pl.col("ours") - pl.col("published")
    known = {"difference": difference, "within_0.015": difference.abs() <= table_5_1.TOLERANCE}
    return pl.DataFrame(list(rows), schema=COLUMNS).with_columns(**known)


def random_order(dataset: str, ours: float) -> Row:
    return row(dataset, ours, model="random", loss="none", published=None)


def test_scores_are_reproduced_by_readings_alone_or_named_with_the_nearest() -> None:
    """By no other metric, nor by the honest protocol, whose runs are attempts."""
    other = row("mq2008-label2", 0.701, metric="nRBP(p=0.8)", as_printed=False)
    off = row("mq2008-label1", 0.8)
    assert findings.not_reproduced(attempts_table(off, row("mq2008-label2", 0.71))) == []
    assert len(findings.not_reproduced(attempts_table(off, other))) == 1
    (found,) = findings.not_reproduced(
        attempts_table(off), attempts_table(row("mq2008-label1", 0.701, protocol="honest"))
    )
    assert (found["n"], found["protocol"]) == (2, "honest")
    assert findings.not_reproduced(attempts_table(row("synthetic-mq2008-label1", 0.8, published=None))) == []
    assert list(findings.attempts_findings([], 60)) == []
    tried = [row("mq2008-label1", 0.8), row("mq2008-label2", 0.66, metric="nRBP(p=0.8)", as_printed=False)]
    block = findings.ATTEMPTS(findings.not_reproduced(attempts_table(*tried, random_order("mq2008-label1", 0.75))))
    (text,) = [[cell.text for cell in cells] for cells in block.rows]
    assert text[:6] == ["MQ2008", "nRBP", "unbounded", "0.7000", "0.7500", "2"]
    assert text[6:8] == ["0.6600", "−0.0400"]
    assert "nRBP(p=0.8)" in text[8]
    assert len(text) == len(block.header)


@pytest.mark.parametrize(("random", "below"), [(0.75, True), (0.65, False)])
def test_a_printed_score_below_a_random_order_is_told(random: float, below: bool) -> None:
    found = findings.not_reproduced(attempts_table(row("mq2008-label1", 0.8), random_order("mq2008-label1", random)))
    (told,) = findings.attempts_findings(found, 60)
    assert told.headline == "1 of 60 printed scores of Table 5.1 are not reproduced: nRBP on MQ2008."
    assert ("1 of them lie below the score of a random ordering" in told.detail) == below
