"""Sensitivity, the bias of a test-picked epoch, and rates on CiteULike-a: what is planted is what the tables say."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from rankbound_study.claims.comparisons import CITEULIKE_COLUMNS, citeulike, published_scores
from rankbound_study.claims.evidence import Evidence
from rankbound_study.cli import main
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import write_table
from rankbound_study.report.blocks import Cell
from rankbound_study.report.methods import settings_table
from rankbound_study.report.tables import protocols, table_specs
from rankbound_study.report.tables.protocols import differing, option_text
from rankbound_study.results.study_files import StudyFiles
from tests.study.drawn_files import made_table
from tests.study.planted import (
    BOUNDS,
    EXPERIMENTS,
    LOSSES,
    MINE,
    RUNS,
    TOPICS,
    PlantedSystems,
    World,
    beside,
    noise,
    raised,
    settings,
    usual,
    write_runs,
)

COLUMN = DataSet("movielens", 2)
OPTIONS = {"batch_size": 32, "factors": 32, "hidden": [46], "learning_rate": 0.01, "optimiser": "adam"}
ALL = len(LOSSES) * len(BOUNDS)


def with_options(world: World, **of_variants: dict[str, Any]) -> World:
    """The study's options in all runs, but for those of some variants."""
    changes = [OPTIONS | of_variants.get(one.variant.partition("-")[2], {}) for one in world.settings]
    own = [
        replace(one, options=json.dumps(changed, sort_keys=True))
        for one, changed in zip(world.settings, changes, strict=True)
    ]
    effects = dict(zip(own, map(world.effect, world.settings), strict=True))
    return replace(world, settings=own, effect=effects.__getitem__)


def table(folder: Path, world: World, name: str, column: DataSet = COLUMN) -> pl.DataFrame:
    return protocols.table_sensitivity(with_options(world).files(folder), {name: [column]})


def test_a_change_is_found_with_its_size_and_the_order_is_that_of_means(tmp_path: Path) -> None:
    made = with_options(beside(2, {"rates-high": raised(0.02)}), high={"learning_rate": 0.03}).files(tmp_path)
    rows, lines = made_table("table_sensitivity", made, tmp_path, experiments={"rates": [COLUMN]})
    assert any("| learning rate 0.03 | MovieLens NSR" in line for line in lines)
    found = rows.row(0, named=True)
    assert (found["choice"], found["variant"], found["dataset"], found["nsr"]) == ("rates", "high", *COLUMN)
    assert found["n_trainings"] == ALL == found["n_higher"]
    assert found["n_lower"] == 0
    assert found["mean_change"] == pytest.approx(0.02, abs=0.002)
    assert found["least_change"] <= found["mean_change"] <= found["largest_change"]
    assert found["order_agreement"] > 0.7
    world = beside(2, {"rates-high": lambda one: -usual(one)})
    found = table(tmp_path / "turned", world, "rates").row(0, named=True)
    both = [world.frames(0)[name] for name in (RUNS, EXPERIMENTS)]
    by_seed = [[means(one.filter(seed=seed)) for seed in range(3)] for one in both]
    pairs = [(one[a], one[b]) for one in by_seed for a, b in ((0, 1), (0, 2), (1, 2))]
    assert found["order_agreement"] == pytest.approx(stats.kendalltau(*map(means, both)).statistic)
    assert found["agreement_of_seeds"] == pytest.approx(min(stats.kendalltau(*pair).statistic for pair in pairs))


def means(frame: pl.DataFrame) -> list[float]:
    scores = frame.group_by("loss", "bounding").agg(pl.col("nDCG").mean()).sort("loss", "bounding")
    return scores["nDCG"].to_list()


def test_a_setting_is_what_differs_from_the_study_and_nothing_else(tmp_path: Path) -> None:
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "f16": ({"factors": 16}, "factors 16"),
        "narrow": ({"hidden": [12]}, "hidden 12"),
        "r03": ({"optimiser": "sgd", "learning_rate": 0.3}, "learning rate 0.3, optimiser sgd"),
        "same": ({}, protocols.AS_USUAL),
        "share": ({"validation_share": 0.05}, "validation share 0.05"),
    }
    world = beside(2, {f"any-{name}": usual for name in changes})
    world = with_options(world, **{name: changed for name, (changed, _) in changes.items()})
    found = protocols.table_sensitivity(world.files(tmp_path), {"any": [COLUMN]})
    assert found.select("variant", "setting").rows() == [(name, text) for name, (_, text) in changes.items()]


def test_gains_are_compared_with_the_usual_distribution(tmp_path: Path) -> None:
    gains = ("distribution(gain=drawn)", "distribution(gain=sd)")
    found = table(tmp_path, beside(2, {"gains-other": raised(-0.1)}, losses=("nDCG",), bounds=gains), "gains")
    assert found["variant"].to_list() == ["gain=drawn", "gain=sd"]
    assert found["setting"].to_list() == [f"bounding {name}" for name in gains]
    # The usual one stands 0.01 above what the builder gives to names that it does not know.
    assert found["mean_change"].to_list() == pytest.approx([-0.11] * 2, abs=0.004)
    assert found["order_agreement"].to_list() == [None, None]


def test_without_experiments_there_is_no_row_and_without_trainings_no_number(tmp_path: Path) -> None:
    assert table(tmp_path / "others", beside(2, {"rates-high": usual}), "factors").is_empty()
    world = beside(2, {"rates-high": usual, "rates-low": usual}, gradient=lambda one: float(bool(one.variant)))
    found = table(tmp_path, world, "rates")
    assert found.select("variant", "n_trainings", "mean_change").rows() == [("high", 0, None), ("low", 0, None)]


def test_the_other_reading_of_relevance_is_told_beside_the_usual_one(tmp_path: Path) -> None:
    world = beside(None, {"widths-w6": usual}, bounds=("none",))
    other = settings(LOSSES, BOUNDS, (None,), dataset="mq2008-label2")
    both = replace(
        world, settings=[*world.settings, *other], effect=lambda one: raised(-0.1)(one) if one.dataset else usual(one)
    )
    rows = protocols.table_sensitivity(both.files(tmp_path), {"widths": [DataSet("mq2008-label1", None)]})
    found = rows.filter(choice="relevant").row(0, named=True)
    assert (found["variant"], found["dataset"]) == ("label\N{NO-BREAK SPACE}2", "mq2008-label1")
    assert found["setting"] == "relevant label\N{NO-BREAK SPACE}2"
    assert found["mean_change"] == pytest.approx(-0.1, abs=0.002)
    assert found["n_lower"] == ALL


# Options in words: all that differ are told, and nothing that does not

OPTIONS_IN_WORDS = {
    "learning rate 0.03": 0.03,
    "learning rate 1e-05": 0.00001,
    "temperature 3": 3.0,
    "factors 16": 16,
    "hidden 12": [12],
    "hidden 100-30": [100, 30],
    "optimiser sgd": "sgd",
}


def test_what_differs_or_is_new_is_told_whatever_the_order() -> None:
    for text, value in OPTIONS_IN_WORDS.items():
        assert option_text(text.rpartition(" ")[0].replace(" ", "_"), value) == text
    usual = {"batch_size": 32, "learning_rate": 0.01, "optimiser": "adam", "temperature": 1.0}
    for changed in ({}, {"learning_rate": 3}, {"optimiser": "sgd", "learning_rate": 3}, {"spread": 0.1}):
        options = {**dict(reversed(usual.items())), **changed}
        assert differing(options, usual) == [option_text(name, changed[name]) for name in sorted(changed)]
    assert differing({**usual, "temperature": 1}, usual) == []


# The bias of a test-picked epoch, against means that are written out

SETS = (("movielens", 1), ("mq2008-label1", None))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Honest runs of which every epoch that the test part picks scores higher: by 0.01, by 0.03 of AP."""
    folder = tmp_path_factory.mktemp("flattery")
    path = write_runs(folder / "honest.parquet", sets=SETS, protocols=("honest", "published"), topics=10, seeds=2)
    rows = pl.read_parquet(path).with_columns(pl.col(pl.Float64).clip(0, 0.9), pl.lit("validation").alias("selection"))
    more = pl.when(pl.col("loss") == "AP").then(0.03).otherwise(0.01)
    test = rows.with_columns(pl.lit("test").alias("selection"), pl.col("nDCG", "AP", "nRBP(p=0.95)") + more)
    key = ["protocol", "dataset", "loss", "bounding", "model", "fold", "seed", "topic", "selection"]
    both = pl.concat([rows, test]).unique(key, maintain_order=True)
    schema = pa.parquet.read_schema(path).remove_metadata()
    write_table(both.to_arrow().cast(schema), folder / "runs.parquet", "runs")
    return folder / "runs.parquet"


def test_the_same_trainings_are_compared_cell_by_cell_in_rows_by_loss(runs: Path) -> None:
    table = protocols.make_flattery("table_flattery", StudyFiles(runs))
    assert table["dataset"].to_list() == ["movielens"] * 15 + ["mq2008-label1"] * 15
    assert table["loss"].to_list()[:15] == ["nDCG"] * 5 + ["AP"] * 5 + ["nRBP"] * 5
    assert table["bounding"].to_list()[:5] == ["none", "min-max", "expectation", "expectation-max", "distribution"]
    assert table["n_trainings"].unique().to_list() == [10]
    ap = table.filter(pl.col("loss") == "AP")
    assert ap["flattery"].to_list() == pytest.approx([0.03] * len(ap))
    others = table.filter(pl.col("loss") != "AP")
    assert others["flattery"].to_list() == pytest.approx([0.01] * len(others))
    difference = table["test_picked"] - table["validation_picked"]
    assert difference.to_list() == pytest.approx(table["flattery"].to_list())
    assert ((table["low"] <= table["flattery"] + 1e-9) & (table["flattery"] <= table["high"] + 1e-9)).all()
    block = table_specs()["table_flattery"].layout(table)
    assert [loss.text for _, loss, *_ in block.rows] == ["nDCG", "AP", "nRBP"] * 2
    assert block.rows[0][0].text == block.rows[2][0].text == "MovieLens NSR\N{NO-BREAK SPACE}1"
    assert block.rules == {3}
    assert [cell.text for cell in block.rows[1][2:]] == ["+0.0300"] * 5
    assert all(cell.strong for _, _, *cells in block.rows for cell in cells)
    unsure = table.with_columns(low=pl.lit(-0.01), high=pl.lit(0.03)).filter(pl.col("bounding") != "min-max")
    assert table_specs()["table_flattery"].layout(unsure).rows[0][2:4] == (Cell("+0.0100", "±0.0200"), Cell("–"))


def test_tables_are_empty_without_honest_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_runs(tmp_path / "runs.parquet", sets=SETS, topics=4)
    arguments = ["table", "table_flattery", "--runs", str(path), "--out-dir", str(tmp_path), "--options"]
    assert main([*arguments, '{"study": "thesis"}']) == 0
    assert pl.read_csv(tmp_path / "table_flattery.csv", schema=protocols.FLATTERY_COLUMNS).is_empty()
    assert "test-picked" in (tmp_path / "table_flattery.md").read_text("utf-8")
    assert r"\bottomrule" in (tmp_path / "table_flattery.tex").read_text("utf-8")
    assert main([*arguments, '{"protocol": "honest"}']) == 2
    assert "expected only study" in capsys.readouterr().err


# The report's table of training options loses none of them

TRAININGS: list[tuple[str, str, dict[str, Any], int]] = [
    ("neural", "Net", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30]}, 3),
    ("neural", "Net", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30]}, 7),
    ("neural", "Net-of-5", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30], "features": 5}, 1),
    ("neural", "Net-of-20", {"epochs": 9, "optimiser": "adam", "hidden": [100, 30], "features": 20}, 8),
    ("neural", "Line-of-5", {"epochs": 9, "optimiser": "sgd", "features": 5}, 2),
    ("thesis", "mlp", {"epochs": 9, "temperature": 1.0}, 4),
]


def test_what_is_shared_is_said_once_and_the_rest_by_method(tmp_path: Path) -> None:
    assert list(settings_table(tmp_path / "runs.parquet")) == []
    path = write_runs(tmp_path / "some.parquet", sets=(("mq2008-label1", None),), topics=1)
    row = pl.read_parquet(path).filter(pl.col("loss") != "none").row(0, named=True)
    rows = [
        {**row, "study": study, "model": model, "options": json.dumps(options), "epoch": epoch}
        for study, model, options, epoch in TRAININGS
    ]
    arrow = pl.DataFrame(rows, schema=pl.read_parquet_schema(path)).to_arrow()
    write_table(arrow.cast(pq.read_schema(path).remove_metadata()), tmp_path / "runs.parquet", "runs")
    (table,) = settings_table(tmp_path / "runs.parquet")
    assert [tuple(cell.text for cell in row) for row in table.rows] == [
        ("MQ2008 (relevant: label ≥ 1), neural, published", "epochs 9", ""),
        ("Line of 5", "optimiser sgd", "2"),
        ("Net; of 5, 20", "optimiser adam, hidden 100-30", "1–8"),
        (f"{DataSet('mq2008-label1', None).label}, thesis, published: mlp", "epochs 9, temperature 1", "4"),
    ]
    assert table.rules == {0, 3}


# The published finding on CiteULike-a beside planted runs: rates by validation, and distances to the winner

RATES = {"r1": 0.01, "r2": 0.1, "r3": 1.0}
LEVELS = {
    ("nRBP", "none"): {"r1": 0.90, "r2": 0.95, "r3": 0.80},
    ("nRBP", "min-max"): {"r1": 0.92, "r2": 0.91, "r3": 0.80},
    ("AP", "none"): {"r1": 0.60, "r2": 0.85, "r3": 0.93},
}
"""Mean scores on validation; on the test part they are lower, by the part that picked the epoch."""
LOWER: dict[str, float] = {"validation": 0.02, "test": 0.01, "last": 0.5}
SEEDS = 3


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    planted = PlantedSystems(tmp_path, seeds=range(SEEDS), dataset="citeulike-a")
    of_users = noise(0) - noise(0)[np.arange(TOPICS) % 10 != 9].mean()
    for ((loss, bounding), levels), (variant, rate) in product(LEVELS.items(), RATES.items()):
        # The same at a high temperature, of one loss at one rate.
        flat = {"flat-r2": 100.0} if (loss, variant) == ("nRBP", "r2") else {}
        for (name, temperature), (selection, lower) in product(
            {f"rates-{variant}": 1.0, **flat}.items(), LOWER.items()
        ):
            key: dict[str, Any] = {"nsr_train": 1, "nsr_test": 1}
            key |= {"selection": selection} if selection != "validation" else {}
            options = json.dumps({"learning_rate": rate, "temperature": temperature})
            scores = levels[variant] - lower + of_users
            planted.add((name, "mf", loss, bounding), scores, levels[variant] - 0.4, options=options, **key)
    files = planted.files()
    return Evidence(MINE, experiments=files.experiments, experiment_epochs=files.experiment_epochs)


def test_every_training_has_its_rate_by_validation_as_the_printed_ones(evidence: Evidence) -> None:
    table = citeulike(evidence)
    assert table["temperature"].to_list() == [1.0] * 3 + [100.0] * 2
    rows = {(row["loss"], row["bounding"]): row for row in table.filter(temperature=1.0).to_dicts()}
    assert {key: row["rate"] for key, row in rows.items()} == {
        ("nRBP", "none"): 0.1,
        ("nRBP", "min-max"): 0.01,
        ("AP", "none"): 1.0,
    }
    assert [rows[key]["at_edge"] for key in LEVELS] == [False, True, True]
    for key, levels in LEVELS.items():
        assert rows[key]["nDCG"] == pytest.approx(max(levels.values()) - 0.02)
        assert rows[key]["test_picked_nDCG"] == pytest.approx(max(levels.values()) - 0.01)
        assert rows[key]["n_trainings"] == 2 * SEEDS
    assert rows["nRBP", "none"]["AP_behind"] is None
    assert rows["nRBP", "min-max"]["AP_behind"] == pytest.approx(0.03)
    assert rows["AP", "none"]["nDCG_behind"] == pytest.approx(0.02)
    assert rows["AP", "none"]["nDCG_low"] <= rows["AP", "none"]["nDCG_behind"] <= rows["AP", "none"]["nDCG_high"]
    assert rows["AP", "none"]["published_AP"] == pytest.approx(0.8563, abs=1e-4)
    assert rows["nRBP", "min-max"]["published_AP"] is rows["nRBP", "none"]["published_AP"] is None
    flat = {row["bounding"]: row for row in table.filter(temperature=100.0).to_dicts()}
    # Published RBP losses have a temperature of 100.
    assert flat["none"]["published_AP"] == pytest.approx(0.9132, abs=5e-4)
    assert flat["min-max"]["AP_behind"] == pytest.approx(0.04)
    assert not flat["none"]["at_edge"]
    rows = {(row["nsr"], row["loss"]): row for row in published_scores().to_dicts()}
    assert set(rows) == {(nsr, loss) for nsr in (1, 2, 5) for loss in ("nDCG", "AP", "nRBP")}
    # "RBP beats nDCG by 0.02 nDCG and AP by 0.06 AP", at a ratio of 1.
    assert rows[1, "nRBP"]["published_nDCG"] - rows[1, "nDCG"]["published_nDCG"] == pytest.approx(0.02, abs=0.005)
    assert rows[1, "nRBP"]["published_AP"] - rows[1, "AP"]["published_AP"] == pytest.approx(0.06, abs=0.005)


def test_the_table_is_written_and_empty_without_trained_models(evidence: Evidence, tmp_path: Path) -> None:
    files = [f"--experiments={evidence.experiments}", f"--experiment-epochs={evidence.experiment_epochs}"]
    options = ["--options", f'{{"study": "{MINE}"}}', "--out-dir", str(tmp_path)]
    assert not main(["table", "table_citeulike", *files, *options])
    assert len(pl.read_csv(tmp_path / "table_citeulike.csv", schema=CITEULIKE_COLUMNS)) == 5
    text = (tmp_path / "table_citeulike.md").read_text("utf-8")
    assert "1*" in text
    assert "+0.0300" in text
    epochs = evidence.experiment_epochs
    assert citeulike(replace(evidence, study="other")).is_empty()
    assert citeulike(Evidence(MINE)).is_empty()
    stuck = pl.read_parquet(epochs).with_columns(pl.lit(0.0).alias("gradient_norm"))
    stuck.write_parquet(epochs)
    assert citeulike(replace(evidence)).is_empty()
