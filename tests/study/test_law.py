"""The law of list weights, registered predictions, and released evidence: what is planted is what they find."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from planted import BOUNDINGS, LOSSES, Setting, World, settings, where_bounded

from rankbound.errors import ConfigError, DataError
from rankbound_study import figures
from rankbound_study.claims import law, theorems, verdicts
from rankbound_study.claims.evidence import Evidence, choose_smallest_effects, smallest_effect
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, REFUTED
from rankbound_study.cli import main
from rankbound_study.config.check import merged
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import SPLITS, lists_table
from rankbound_study.data.reader import read_instances
from rankbound_study.data.sampling import write_instances as write_lists_of
from rankbound_study.export.evidence import Released, release, unpack
from rankbound_study.figures import style
from rankbound_study.jobs.weighting import Influence
from rankbound_study.report.content import Figures
from rankbound_study.report.document import further_sections
from rankbound_study.report.findings import law_findings
from rankbound_study.report.tables.effects import REGISTERED as REGISTERED_LAYOUT
from rankbound_study.results.scores import METRICS
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import ListWeights
from website import gallery

COLUMNS = (DataSet("movielens", 2), DataSet("mq2008-label1", None))
SLOPE = -0.004
VARIANTS = dict(
    zip(
        ("weak", "half", "same", "more", "moved"),
        ("pairs^-0.5", "pairs^0.5", "pairs^-1", "pairs^-1.5", "permuted(pairs^-1)"),
        strict=True,
    )
)
AFFINE = ("none", "min-max", "expectation", "expectation-max")
Instances = Mapping[DataSet, Path]


@pytest.fixture(scope="module")
def instances(tmp_path_factory: pytest.TempPathFactory) -> Instances:
    """Training lists of very different sizes."""
    folder = tmp_path_factory.mktemp("instances")
    return {column: write(folder / f"{column.dataset}.parquet", column) for column in COLUMNS}


def write(path: Path, column: DataSet, folds: int = 5) -> Path:
    random = np.random.default_rng(1)
    parts = []
    for fold in range(1, folds + 1):
        for split in SPLITS:
            p = random.integers(*((20, 100) if column.nsr else (1, 30)), 25)
            n = p * 3 if column.nsr else p + random.integers(1, 60, 25)
            relevance = np.concatenate([np.arange(size) < count for size, count in zip(n, p, strict=True)])
            offsets = np.concatenate([[0], np.cumsum(n)])
            names = [str(topic) if column.nsr else f"{split}-{topic}" for topic in range(25)]
            items = np.arange(len(relevance), dtype=np.int64)
            parts.append((fold, split, lists_table(names, items, relevance.astype(np.int8), offsets)))
    write_lists_of(path, column.dataset, column.nsr, parts, item_count=10**6)
    return path


def evidence(
    instances: Instances,
    folder: Path,
    slope: float = SLOPE,
    only: str = "",
    experiments: tuple[str, ...] = (law.EXPERIMENT,),
    bonus: float = 0.0,
    drawings: int = 1,
) -> Evidence:
    """Runs whose effects are `slope` times the change of mismatch, of one loss `only` if it is named.

    The weights that are best by the second hypothesis have a bonus in its experiment.
    """
    lists = {column.nsr: read_instances(path) for column, path in instances.items()}

    @cache
    def change(nsr: int | None, loss: str, text: str) -> float:
        views = [Influence(lists[nsr], fold, loss) for fold in (1, 2)]
        weights = ListWeights.of(text)
        return float(np.mean([one.under(weights).of_mismatch - one.under(None).of_mismatch for one in views]))

    def effect(one: Setting) -> float:
        text = json.loads(one.options).get("list_weights", one.bounding)
        if text == "none" or (only and one.loss != only):
            return 0.0
        best = one.variant == f"{law.SECOND}-{'weak' if one.loss == 'nRBP' else 'half'}"
        return slope * change(one.nsr, one.loss, text) + bonus * best

    varied = [
        one
        for experiment, (name, text) in product(experiments, VARIANTS.items())
        for one in settings(
            LOSSES, ["none"], (2, None), f"{experiment}-{name}", options=f'{{"list_weights": "{text}"}}'
        )
    ]
    size = {"drawings": drawings, "topics": 40, "own": 0.0, "training": 0.0, "chance": 0.0005}
    return World(effect, [*settings(LOSSES, AFFINE, (2, None)), *varied], **size).files(folder)


def found(instances: Instances, folder: Path, **planted: Any) -> law.Law:
    lists = {column: read_instances(path) for column, path in instances.items()}
    return law.law(evidence(instances, folder, **planted), lists)


@pytest.fixture(scope="module")
def planted(instances: Instances, tmp_path_factory: pytest.TempPathFactory) -> law.Law:
    return found(instances, tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def one_loss(instances: Instances, tmp_path_factory: pytest.TempPathFactory) -> law.Law:
    return found(instances, tmp_path_factory.mktemp("one_loss"), only="nRBP")


def test_the_line_has_the_planted_slope_and_same_weights_count_once(planted: law.Law) -> None:
    line = planted.line()
    assert line["slope"] == pytest.approx(SLOPE, abs=0.0004)
    assert line["slope_low"] < SLOPE < line["slope_high"] < 0
    assert line["intercept"] == pytest.approx(0, abs=2e-4)
    assert line["r_squared"] > 0.95
    without = [one for one in planted.lines if one["predictor"] == law.MISMATCH and one["cells"].startswith("without")]
    assert [one["cells"] for one in without] == ["without movielens", "without mq2008-label1"]
    assert all(one["slope"] == pytest.approx(SLOPE, abs=0.0006) for one in without)
    # The affine bounds of nRBP, and the weights pairs^-1 of the experiment, are one training.
    of_pairs = [one for one in planted.effects if one.cell.loss == "nRBP" and one.cell.column == COLUMNS[0]]
    same = {(one.origin, one.cell.bounding): one.same_as for one in of_pairs}
    assert same[law.BOUNDS, "min-max"] == ""
    assert same[law.BOUNDS, "expectation"] == same[law.BOUNDS, "expectation-max"] == "min-max"
    assert same[law.EXPERIMENT, "pairs^-1"] == "min-max"
    assert same[law.EXPERIMENT, "permuted(pairs^-1)"] == same[law.EXPERIMENT, "pairs^-0.5"] == ""
    assert not any(one.same_as for one in planted.effects if one.cell.loss == "AP")
    assert len(planted.counted) == len(planted.effects) - 3 * len(COLUMNS)


def test_the_law_is_confirmed_where_it_is_planted(planted: law.Law) -> None:
    assert law.verdict(planted).outcome == CONFIRMED
    by_text = {one.prediction: one.outcome for one in law.outcomes(planted)}
    best = [outcome for text, outcome in by_text.items() if "scores highest" in text]
    assert best == [CONFIRMED] * len(LOSSES) * len(COLUMNS)
    # The planted slope is steeper than the predicted one.
    starts = {
        "Permuted, the weights pairs^-1 of nRBP": CONFIRMED,
        "nDCG and AP on": CONFIRMED,
        "The slope over": REFUTED,
    }
    for start, expected in starts.items():
        assert [outcome for text, outcome in by_text.items() if text.startswith(start)] == [expected]


@pytest.mark.parametrize(("bonus", "outcome"), [(0.0, REFUTED), (0.05, CONFIRMED)])
def test_the_second_hypothesis_has_cells_and_predictions_of_its_own(
    instances: Instances, tmp_path: Path, planted: law.Law, bonus: float, outcome: str
) -> None:
    """The same cells again, best at the powers of the first hypothesis, or with a bonus at those of the second."""
    both = found(instances, tmp_path, experiments=(law.EXPERIMENT, law.SECOND), bonus=bonus)
    line, of_first = both.line(law.REGISTERED), planted.line(law.REGISTERED)
    assert line["n"] == of_first["n"], "the registered regression is about the same cells"
    assert line["slope"] == pytest.approx(of_first["slope"], abs=2e-4)
    assert [
        (one.prediction, one.outcome) for one in law.outcomes(both) if law.SECOND_HYPOTHESIS not in one.prediction
    ] == [(one.prediction, one.outcome) for one in law.outcomes(planted)]
    of_second = [one for one in law.outcomes(both) if one.prediction.startswith(law.SECOND_HYPOTHESIS)]
    assert len(of_second) == len(LOSSES) * len(COLUMNS)
    # On MQ2008, nRBP is best at -0.5 by the first hypothesis, too.
    assert {one.outcome for one in of_second if "MovieLens" in one.prediction} == {outcome}
    cells = law.cells_table(both)
    assert len(cells.filter(origin=law.SECOND)) == len(cells.filter(origin=law.EXPERIMENT))


def test_lines_predict_cells_that_they_were_not_fitted_to(instances: Instances, tmp_path: Path) -> None:
    """The bounds' line predicts the later cells and those of another data set, where effects are on one line."""
    later = found(instances, tmp_path, experiments=(law.SECOND,))
    lines = {one["cells"]: one for one in later.lines if one["predictor"] == law.MISMATCH}
    assert lines[law.ALL]["n"] == len(later.counted) == lines[law.REGISTERED]["n"] + lines[law.REGISTERED]["n_held_out"]
    tested = lines["without movielens"]
    assert tested["n"] + tested["n_held_out"] == lines[law.ALL]["n"]
    assert min(one["r_squared_held_out"] for one in (lines[law.REGISTERED], tested)) > 0.9
    assert lines[law.BOUNDS]["r_squared_held_out"] is None


def test_weights_are_those_of_the_folds_of_every_drawing(tmp_path: Path) -> None:
    files = {column: write(tmp_path / f"{column.dataset}.parquet", column, 10) for column in COLUMNS}
    lists = {column: read_instances(path) for column, path in files.items()}
    drawn = {column: replace(one, repeats=2) if column.nsr else one for column, one in lists.items()}
    found = law.law(evidence(files, tmp_path / "runs", drawings=2), drawn)
    (cell,) = (one for one in found.effects if one.cell[:2] == ("AP", "min-max") and one.cell.column.nsr)
    weights = ListWeights.of("min-max")
    views = [Influence(lists[cell.cell.column], fold, "AP") for fold in range(1, 11)]
    changes = [view.under(weights).of_mismatch - view.under(None).of_mismatch for view in views]
    assert cell.changes["mismatch"] == pytest.approx(np.mean(changes), rel=1e-12)
    assert np.std(changes) > 0


def test_a_gain_from_mismatch_refutes_the_law_which_needs_cells(instances: Instances, tmp_path: Path) -> None:
    opposite = found(instances, tmp_path, slope=-SLOPE)
    assert law.verdict(opposite).outcome == REFUTED
    assert {one.outcome for one in law.outcomes(opposite) if "scores highest" in one.prediction} == {REFUTED}
    assert law.verdict(law.law(Evidence("thesis"), {})).outcome == NOT_RUN
    assert list(law.outcomes(law.Law([]))) == []
    assert law.Law([]).lines == []
    assert law.predictions_table(law.Law([])).is_empty()


def test_a_law_of_one_loss_is_not_one_of_all_and_cells_off_the_line_are_named(
    planted: law.Law, one_loss: law.Law
) -> None:
    outcome, line = law.verdict(one_loss), one_loss.line("nRBP")
    assert outcome.outcome == INCONCLUSIVE
    assert "By loss: nDCG +0.0" in outcome.found or "By loss: nDCG -0.0" in outcome.found
    assert line["slope_high"] < 0
    off, none = ([cell for cell, p in of.p_residuals.items() if p <= 0.05] for of in (one_loss, planted))
    assert off
    assert not none
    assert law.fit(planted).outcome != REFUTED == law.fit(one_loss).outcome
    assert f"{len(off)} of {len(one_loss.counted)} (" in law.fit(one_loss).found


def test_the_steps_make_tables_figures_and_a_section(instances: Instances, tmp_path: Path) -> None:
    made = evidence(instances, tmp_path)
    tables, files = tmp_path / "tables", [str(path) for path in instances.values()]
    of_runs = [f"--{name}={getattr(made, name)}" for name in ("runs", "epochs", "experiments")]
    assert main(["table", "table_law", *of_runs, "--instances", *files, "--out-dir", str(tables)]) == 0
    assert main(["table", "table_list_weights", "--instances", *files, "--out-dir", str(tables)]) == 0
    cells = pl.read_csv(tables / "table_law.csv", schema=law.COLUMNS)
    lines = pl.read_csv(tables / "table_law_lines.csv", schema=law.LINE_COLUMNS)
    assert len(cells) == len(COLUMNS) * 3 * (3 + len(VARIANTS))
    assert law.ALL in lines["cells"]
    csv = [str(path) for path in tables.glob("table_law*.csv")]
    for figure in ("figure_law", "figure_weight_powers"):
        (tmp_path / "figures").mkdir(exist_ok=True)
        assert main(["figure", figure, "--law", *csv, "--out", str(tmp_path / "figures" / f"{figure}.svg")]) == 0
    (section,) = further_sections(tables, Figures(tmp_path), "law")
    names = [block.name for block in section.blocks]
    assert names[:2] == ["figure_law", "figure_weight_powers"]
    assert {"Predictions", "Lines through the cells", "The law of list weights", "List weights of bounds"} < set(names)
    (finding,) = law_findings(tables)
    assert finding.headline.startswith("The law that mismatch explains the effect of weights is")
    assert "for every loss, the effect falls as the mismatch grows" in finding.detail
    assert "−0.00" in finding.detail


# Registered predictions: what is planted decides them, and the registered rows stay as they were

POWERS = ("pairs^-0.5", "pairs^0.5")


def best(**values: object) -> law.Prediction:
    """The power 0.5 ranks AP best."""
    usual = {
        "id": "best", "dataset": "movielens", "nsr": 1, "loss": "AP", "weights": "pairs^0.5",
        "against": ["none", "pairs^-0.5"], "above": 0.0, "size": [0.01, 0.05], "reason": "planted",
    }  # fmt: skip
    return law.Prediction(**(usual | values))  # type: ignore[arg-type]


def world(effects: Mapping[str, float], **values: object) -> World:
    """Runs of AP in two experiments, of which no fold and seed is crossed: five trainings of each setting."""
    bounds = [Setting("AP", bounding, 1, "bounds-usual") for bounding in ("none", "min-max")]
    weighted = [
        Setting("AP", "none", 1, f"powers-{number}", json.dumps({"list_weights": text}))
        for number, text in enumerate(POWERS)
    ]

    def effect(one: Setting) -> float:
        text = json.loads(one.options).get("list_weights", one.bounding)
        return effects.get(text, 0.0)

    usual = {"topics": 200, "folds": 5, "seeds": 5, "training": 0.0002, "own": 0.002, "chance": 0.005}
    taking_turns = {"change": lambda one, rows: rows.filter(rows["fold"] == rows["seed"] + 1)}
    return World(effect, [*bounds, *weighted], **(usual | taking_turns | values))  # type: ignore[arg-type]


def outcome(one: law.Prediction, effects: Mapping[str, float], **values: object) -> dict[str, object]:
    (row,) = law.registered_table(world(effects, **values).draw(), [one]).to_dicts()
    return row


ABOVE, BOTH = {"pairs^0.5": 0.02}, {"above": -0.002, "below": 0.002, "weights": "min-max", "against": ["none"]}


@pytest.mark.parametrize(
    ("expected", "changes", "effects", "deciding"),
    [
        (law.HELD, {}, ABOVE, None),
        (law.HELD, {}, {**ABOVE, "pairs^-0.5": 0.01}, "pairs^-0.5"),
        (law.NOT_HELD, {}, {**ABOVE, "pairs^-0.5": 0.03}, "pairs^-0.5"),
        (law.UNDECIDED, {}, {**ABOVE, "pairs^-0.5": 0.02}, "pairs^-0.5"),
        (law.NOT_HELD, {}, {"pairs^0.5": -0.02, "pairs^-0.5": -0.05}, "none"),
        (law.HELD, {"above": None, "below": 0.0, "against": ["none"]}, {"pairs^0.5": -0.02}, "none"),
        (law.HELD, BOTH, {}, "none"),
        (law.NOT_HELD, BOTH, {"min-max": 0.01}, "none"),
        (law.NOT_HELD, BOTH, {"min-max": -0.01}, "none"),
        (law.UNDECIDED, BOTH, {"min-max": 0.002}, "none"),
    ],
)
def test_planted_gaps_decide(
    expected: str, changes: Mapping[str, object], effects: Mapping[str, float], deciding: str | None
) -> None:
    one = best(**changes)
    row = outcome(one, effects)
    assert row["outcome"] == expected
    assert deciding is None or row["deciding"] == deciding
    planted = effects.get(one.weights, 0.0)
    assert row["low"] < planted < row["high"]  # type: ignore[operator]
    assert row["difference"] == pytest.approx(planted - effects.get(str(row["deciding"]), 0.0), abs=0.003)


def test_noise_leaves_predictions_undecided_and_the_correction_is_over_all() -> None:
    assert outcome(best(), {"pairs^0.5": 0.002}, chance=0.2, training=0.02)["outcome"] == law.UNDECIDED
    for size, as_sized in (([0.01, 0.03], True), ([0.03, 0.05], False), ([0.001, 0.01], False)):
        row = outcome(best(size=size), ABOVE)
        assert (row["outcome"], row["as_sized"]) == (law.HELD, as_sized)
    # One result, alone and among twenty predictions that did not run.
    one, lacking = best(against=["none"]), best(loss="nDCG", id="lacking")
    held = world({"pairs^0.5": 0.002}).draw()
    alone = law.registered_table(held, [one]).row(0, named=True)
    many = law.registered_table(held, [one, *(replace(lacking, id=f"lacking {number}") for number in range(20))])
    assert many.row(0, named=True)["p_held"] == pytest.approx(min(1.0, 21 * alone["p_held"]))
    assert 0 < alone["p_held"] < 1 / 21
    assert set(many["outcome"][1:]) == {NOT_RUN}
    assert many["effect"][1:].null_count() == 20
    assert len(REGISTERED_LAYOUT(many).rows) == 21


def test_models_that_did_not_train_are_said_and_not_tested(tmp_path: Path) -> None:
    still = {"gradient": lambda one: 0.0 if "pairs^0.5" in one.options else 1.0}
    row = law.registered_table(world({"pairs^0.5": -0.3}, **still).files(tmp_path), [best()]).row(0, named=True)
    assert (row["outcome"], row["p_held"], row["deciding"]) == (law.UNTRAINED, None, None)
    assert row["effect"] == pytest.approx(-0.3, abs=0.003)


def test_registered_rows_stay_as_they_were_and_predictions_have_limits() -> None:
    """Rows change no more, because their outcomes are known; other predictions need a file of their own."""
    text = files("rankbound_study.reference").joinpath("predictions.yaml").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "f8ec02eb82d82bde80be8ed07793b274589e805bd0df987a06031d298dd2568e"
    assert [one.id for one in law.predictions()] == [f"P{number:02}" for number in range(1, 15)]
    assert law.registered_table(world({}).draw()).schema == law.REGISTERED_COLUMNS


# Released evidence: paper, verdicts and law come out of it as of the results, and nothing else is in it

OPTIONS = {"study": "thesis", "protocol": "honest"}


@pytest.fixture(scope="module")
def study(theorems_file: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evidence, list[Path]]:
    """A results folder with planted runs and its table of claims, its evidence, and its instances."""
    folder = tmp_path_factory.mktemp("results")
    instances = {column: write(folder / f"{column.dataset}.parquet", column) for column in COLUMNS}
    made = evidence(instances, folder)
    files = ["--runs", str(made.runs), "--theorems", str(theorems_file)]
    assert main(["claims", *files, "--out-dir", str(folder / "tables")]) == 0
    return folder, made, list(instances.values())


@pytest.fixture(scope="module")
def file(study: tuple[Path, Evidence, list[Path]]) -> Path:
    folder, _, instances = study
    release(folder, instances, folder / "evidence.parquet", OPTIONS, {})
    return folder / "evidence.parquet"


@pytest.fixture(scope="module")
def released(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Released:
    return unpack(file, tmp_path_factory.mktemp("unpacked"))


def test_law_and_verdicts_are_those_of_the_results(
    study: tuple[Path, Evidence, list[Path]],
    released: Released,
    theorems_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankbound_study.export.evidence.check", lambda: theorems.read(theorems_file))
    _, made, paths = study
    one, other = (
        law.law(evidence, {column: read_instances(path) for column, path in zip(COLUMNS, own, strict=True)})
        for evidence, own in ((made, paths), (released.evidence, released.files.instances))
    )
    assert [str(effect) for effect in one.effects] == [str(effect) for effect in other.effects]
    for a, b in zip(one.effects, other.effects, strict=True):
        assert a.changes == b.changes
        assert a.contrast.mean == pytest.approx(b.contrast.mean, abs=1e-7)
    assert other.line() is not None
    assert other.line()["slope"] == pytest.approx(SLOPE, abs=0.0004)  # type: ignore[index]
    # The evidence decides again what it can, and keeps what takes metrics that it lacks.
    decided, expected = released.decided(), verdicts.read(study[0] / "tables" / "table_claims.csv")
    assert decided.select("id", "verdict", "reason").equals(expected.select("id", "verdict", "reason"))
    assert len(set(decided["verdict"])) > 2
    assert 0 < len(released.kept) < len(decided) / 4
    other = replace(released, claims=released.claims.with_columns(verdict=pl.lit("refuted"))).decided()
    changed = other.join(decided, on=["id", "verdict"], how="anti")
    assert set(changed["id"]) == set(released.kept) - set(decided.filter(verdict="refuted")["id"])


def test_evidence_has_scores_of_the_selected_epoch_and_no_items(file: Path, released: Released) -> None:
    table = pl.read_parquet(file)
    assert {kind for kind in table.schema.values() if kind.is_float()} == {pl.Float32()}
    assert not {"items", "features", "relevance", "rating"} & set(table.columns)
    assert not any(isinstance(kind, pl.List) for kind in table.schema.values())
    assert set(table.filter(table="runs")["selection"]) == {"validation"}
    for path in released.files.instances:
        for split in read_instances(path).splits.values():
            assert all(
                (np.diff(split.items[start:stop]) == 1).all()
                for start, stop in zip(split.offsets, split.offsets[1:], strict=False)
            )


@pytest.mark.parametrize("name", ["figure_5_3", "figure_5_8"])
def test_the_site_draws_from_evidence_what_the_study_draws(
    name: str, study: tuple[Path, Evidence, list[Path]], released: Released, tmp_path: Path
) -> None:
    spec = figures.figure_specs()[name]
    assert name in gallery.OF_EVIDENCE
    assert gallery._drawn(name, spec, tmp_path, study[0], lambda: released)
    whole = StudyFiles(runs=study[1].runs, epochs=study[1].epochs)
    style.save(figures.draw(name, whole, OPTIONS), [tmp_path / "whole.svg"])
    one, other = ((tmp_path / file).read_text("utf-8") for file in (f"{name}.svg", "whole.svg"))
    digits = re.compile(r"-?\d+\.\d+")
    assert digits.sub("", one) == digits.sub("", other)
    # In points: scores are released in single precision.
    np.testing.assert_allclose(*(list(map(float, digits.findall(text))) for text in (one, other)), atol=0.5)
    # A drawing that is newer than evidence and code is kept.
    assert gallery._drawn(name, spec, tmp_path, study[0], lambda: pytest.fail("read again"))


@pytest.mark.slow
def test_another_smallest_effect_moves_verdicts_of_a_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Gains of .001 with noise are undecided at .002, and shown to be none that matters at .02."""
    made = World(where_bounded(0.001), settings(LOSSES, BOUNDINGS, (1, 2, 3, None)), topics=200).files(tmp_path)
    assert made.runs is not None
    runs = pl.read_parquet(made.runs)
    both = pl.concat([runs, runs.with_columns(protocol=pl.lit("published"), selection=pl.lit("test"))])
    both.write_parquet(tmp_path / "runs.parquet")
    assert main(["claims", "--runs", str(tmp_path / "runs.parquet"), "--out-dir", str(tmp_path / "tables")]) == 0
    release(tmp_path, [], tmp_path / "evidence.parquet", {**OPTIONS, "protocol": "published"}, {})
    flags = [word for metric in METRICS for word in ("--smallest-effect", f"{metric}=0.02")]
    try:
        assert main(["report", str(tmp_path / "evidence.parquet"), "--out-dir", str(tmp_path / "report"), *flags]) == 0
    finally:
        choose_smallest_effects(dict.fromkeys(METRICS, 0.002))
    found = [verdicts.read(folder / "tables" / "table_claims.csv") for folder in (tmp_path, tmp_path / "report")]
    moved = found[0].join(found[1], on="id").filter(pl.col("verdict") != pl.col("verdict_right"))
    assert moved.filter(id="T23").select("verdict", "verdict_right").row(0) == ("inconclusive", "confirmed")
    assert (tmp_path / "report" / "paper.pdf").read_bytes().startswith(b"%PDF-")
    assert "What bounding does" in (tmp_path / "report" / "paper.html").read_text("utf-8")
    assert "claims: " in capsys.readouterr().out


@pytest.mark.parametrize("text", ["nDCG", "nDCG=", "nDCG=-1", "nDCG=2", "nDCG=nan"])
def test_effects_are_numbers(text: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(file), "--out-dir", str(tmp_path), "--smallest-effect", text]) == 2
    assert f"--smallest-effect {text}: expected a metric and a number between 0 and 1" in capsys.readouterr().err
    assert smallest_effect("nDCG") == 0.002
    # A misspelt metric would leave every verdict as it is, without a word.
    assert main(["report", str(file), "--out-dir", str(tmp_path), "--smallest-effect", "nDGC=0.01"]) == 2
    assert "nDGC" in capsys.readouterr().err


def test_other_files_are_refused(file: Path, study: tuple[Path, Evidence, list[Path]], tmp_path: Path) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(DataError, match=r"cut\.parquet"):
        unpack(cut, tmp_path)
    strange = tmp_path / "strange.parquet"
    pl.DataFrame({"table": ["runs"]}).write_parquet(strange)
    with pytest.raises(DataError, match=r"strange\.parquet: found .*, expected a file of evidence/1"):
        unpack(strange, tmp_path)
    with pytest.raises((DataError, ConfigError), match=r"runs\.parquet"):
        release(tmp_path / "nothing", [], tmp_path / "x.parquet", OPTIONS, {})
    assert not (tmp_path / "x.parquet").exists()


def test_a_claim_is_trained_alone(tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its configuration is valid and has what its verdict rests on: losses, boundings, data sets, experiments."""
    out = tmp_path / "claim.yaml"
    assert main(["claim", "T45", "--evidence", str(file), "--out", str(out)]) == 0
    study = Study(merged([Path("config.yaml"), out]))
    assert {job.request.loss for job in study.jobs} == {"nRBP"}
    assert {job.request.bounding for job in study.jobs} == set(BOUNDINGS)
    assert {job.request.protocol for job in study.jobs} == {"honest"}
    # The evidence lacks a bounding: the claim is trained on all that it is about.
    assert [*study.instances] == [*(f"movielens-nsr{nsr}" for nsr in (1, 2, 3)), "mq2008-label1"]
    assert (
        study.jobs[0].request
        == next(job for job in Study(merged([Path("config.yaml")])).jobs if job.stem == study.jobs[0].stem).request
    )
    capsys.readouterr()
    assert main(["claim", "T45", "N01", "M03", "--evidence", str(file)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told] == ["T45", "N01", "M03"]
    assert "movielens, mq2008; 20 training jobs, some " in told[0]
    assert "mq2008, web-queries; 13 training jobs, some " in told[1]
    assert told[2].endswith("no training")
    for words, message in (
        (["T4"], "there is no claim 'T4': did you mean T4"),
        (["M03", "--out", str(out)], "rests on no training"),
        (["T45", "T28", "--out", str(out)], "expected one claim, found 2 claims"),
    ):
        assert main(["claim", *words, "--evidence", str(file)]) == 2
        assert message in capsys.readouterr().err
