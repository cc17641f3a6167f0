"""The leaderboard on planted scores: its order, its arithmetic, its verdicts, and what the report shows of it."""

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

from rankbound.compare.statistics import corrected
from rankbound_study.claims.leaderboard import ALIKE, BETTER, UNDECIDED, WITHIN, WORSE, groups_of, verdict
from rankbound_study.cli import main
from rankbound_study.data.contracts import SPLITS, lists_table, write_table
from rankbound_study.data.sampling import write_instances
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.report.tables import leaderboard
from rankbound_study.results.scores import SYSTEM
from rankbound_study.results.study_files import StudyFiles
from tests.study.planted_systems import STUDY, TOPICS, PlantedSystems, control, noise

LEVEL = np.linspace(0.3, 0.8, TOPICS)
MLP, BOUNDED, LINEAR = (
    ("", "mlp", "nDCG", "none"),
    ("", "mlp", "nDCG", "min-max"),
    ("models-linear", "linear", "nDCG", "none"),
)
SCORED = [topic for topic in range(TOPICS) if topic % 10 != 9]


SCORES = {
    MLP: LEVEL + noise(1),
    BOUNDED: LEVEL + 0.05 + noise(2),
    LINEAR: LEVEL + 0.1 + noise(3),
    control("random"): LEVEL - 0.2 + noise(4),
    control("best-feature"): LEVEL - 0.1 + noise(5),
    control("oracle"): np.ones(TOPICS),
}
"""A bounded loss that helps, a linear model whose test scores are higher than its validation scores, controls."""
VALIDATION = {MLP: 0.6, BOUNDED: 0.7}


def planted(folder: Path) -> PlantedSystems:
    made = PlantedSystems(folder)
    for system, scores in SCORES.items():
        made.add(system, scores, VALIDATION.get(system, 0.5))
    return made


def table_of(scores: PlantedSystems, **choice: object) -> pl.DataFrame:
    return leaderboard.make_leaderboard(leaderboard.NAME, scores.files(), study=STUDY, leaderboard=choice).table


def row_of(table: pl.DataFrame, system: tuple[str, ...]) -> dict[str, object]:
    return table.filter(*(pl.col(name) == value for name, value in zip(SYSTEM, system, strict=True))).row(0, named=True)


def test_validation_scores_of_the_selected_epochs_decide_the_order(tmp_path: Path) -> None:
    table = table_of(planted(tmp_path))
    assert table["model"].to_list() == ["mlp", "mlp", "linear", "random", "best-feature", "oracle"]
    assert table["rank"].to_list() == [1, 2, 3, None, None, None]
    assert table["validation"].to_list()[:3] == pytest.approx([0.7, 0.6, 0.5])
    assert table["role"].to_list() == ["best", "", "", "", "baseline", ""]
    # No test score selects the best: the linear model's is higher.
    assert row_of(table, LINEAR)["score"] > row_of(table, BOUNDED)["score"]


def test_means_intervals_and_tests_are_those_of_the_written_out_arithmetic(tmp_path: Path) -> None:
    table = table_of(planted(tmp_path))
    own = {system: values[SCORED] for system, values in SCORES.items() if system != control("oracle")}
    for system, values in own.items():
        row = row_of(table, system)
        reach = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
        found = [row[name] for name in ("score", "low", "high")]
        assert found == pytest.approx([values.mean(), values.mean() - reach, values.mean() + reach])
        assert (row["n_topics"], row["n_skipped"]) == (54, 6)
    for comparison, other, compared in (
        ("best", BOUNDED, [MLP, LINEAR, control("random"), control("best-feature")]),
        ("counterpart", MLP, [BOUNDED]),
        ("baseline", control("best-feature"), [BOUNDED, MLP, LINEAR, control("random")]),
    ):
        tests = [stats.ttest_rel(own[system], own[other]) for system in compared]
        for system, test, p_value in zip(compared, tests, corrected([test.pvalue for test in tests]), strict=True):
            row = row_of(table, system)
            assert row[f"{comparison}_difference"] == pytest.approx((own[system] - own[other]).mean())
            assert row[f"{comparison}_low"] == pytest.approx(test.confidence_interval(0.95).low)
            assert row[f"{comparison}_p_holm"] == pytest.approx(p_value)
        untested = set(own) - set(compared)
        assert all(row_of(table, system)[f"{comparison}_difference"] is None for system in untested)
    assert row_of(table, BOUNDED)["counterpart_verdict"] == BETTER
    assert row_of(table, control("random"))["best_verdict"] == WORSE


def test_without_a_signal_nothing_is_significant(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path)
    for place, bounding in enumerate(("none", "min-max", "expectation", "distribution")):
        scores.add(("", "mlp", "nDCG", bounding), LEVEL + noise(place, 0.1), 0.5 + place / 100)
    # Beside a random ordering that scores alike, all of them count as models that did not train.
    table = table_of(scores.add(control("best-feature"), LEVEL + noise(9, 0.1)))
    verdicts = [
        verdict for name in ("best", "counterpart", "baseline") for verdict in table[f"{name}_verdict"].drop_nulls()
    ]
    assert set(verdicts) == {UNDECIDED}
    assert len(verdicts) == 4 + 3 + 4
    stuck = table_of(scores.add(control("random"), LEVEL + noise(8, 0.1)))
    assert "best" not in stuck["role"].to_list(), "none that trained"


def test_systems_within_the_margin_are_alike_by_their_p_values(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path).add(MLP, LEVEL + noise(1, 0.003), 0.6).add(BOUNDED, LEVEL + noise(2, 0.003), 0.7)
    scores.add(control("random"), LEVEL + 0.004)
    table = table_of(scores, margin=0.01)
    assert row_of(table, MLP)["best_verdict"] == ALIKE
    assert row_of(table, control("random"))["best_verdict"] == BETTER + WITHIN
    assert row_of(table_of(scores, margin=0.0005), MLP)["best_verdict"] == UNDECIDED
    cases = ((0.1, 0.01, 0.9), (-0.1, 0.05, 0.9), (0.1, 0.06, 0.05), (0.1, 0.06, 0.06))
    assert [verdict(*case) for case in cases] == [BETTER, WORSE, ALIKE, UNDECIDED]


def test_a_named_baseline_and_metric(tmp_path: Path) -> None:
    scores = planted(tmp_path)
    table = table_of(scores, baseline="random", judged_by="AP")
    assert table["metric"].unique().to_list() == ["AP"]
    assert row_of(table, control("random"))["role"] == "baseline"
    expected = (SCORES[MLP] - SCORES[control("random")])[SCORED].mean()
    assert row_of(table, MLP)["baseline_difference"] == pytest.approx(expected)
    # Variants that are tested on other lists are left out.
    scores.add(("few-one", "mlp", "nDCG", "none"), LEVEL, options='{"test_relevant": 1}')
    assert "few-one" not in table_of(scores)["variant"].to_list()


def test_several_seeds_widen_the_interval_by_their_own_variance(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path, seeds=(0, 1, 2)).add(MLP, LEVEL, 0.6).add(BOUNDED, LEVEL + 0.05 + noise(2), 0.7)
    table = table_of(scores.add(control("random"), LEVEL - 0.1))
    assert row_of(table, MLP)["n_seeds"] == 3
    assert row_of(table, control("random"))["n_seeds"] == 1
    assert row_of(table, MLP)["best_difference"] == pytest.approx(-(0.05 + noise(2)[SCORED]).mean())


def test_groups_of_lengths_hold_every_list_once() -> None:
    for lengths in ([3], [2, 2, 2], list(range(1, 100)), [1] * 50 + [7, 7, 90]):
        groups = groups_of(np.array(lengths))
        assert all(sum(low <= length <= high for low, high in groups) == 1 for length in lengths)
        assert len(groups) <= 6


def test_topics_and_lengths_stand_beside_the_table(tmp_path: Path) -> None:
    made = leaderboard.make_leaderboard(leaderboard.NAME, planted(tmp_path).files(), study=STUDY)
    topics, lengths = made.beside["_topics.csv"], made.beside["_lengths.csv"]
    partner = topics.filter(pl.col("role") == "partner")
    expected = {f"q{topic:02}": (SCORES[BOUNDED] - SCORES[MLP])[topic] for topic in SCORED}
    assert dict(partner.select("topic", "difference").rows()) == pytest.approx(expected)
    assert partner["difference"].is_sorted()
    assert partner["place"].to_list() == list(range(1, 55))
    best = lengths.filter(pl.col("role") == "best")
    assert best["n_topics"].sum() == 54
    weighted = (best["mean"] * best["n_topics"]).sum() / 54
    assert weighted == pytest.approx(SCORES[BOUNDED][SCORED].mean())


def test_without_trained_models_there_are_no_rows(tmp_path: Path) -> None:
    scores = PlantedSystems(tmp_path).add(control("random"), LEVEL)
    made = leaderboard.make_leaderboard(leaderboard.NAME, scores.files(), study=STUDY)
    assert made.table.is_empty()
    assert made.beside["_summary.json"] == {"margin": 0.01, "data_sets": []}


# Trainings on lists whose truth is known, up to the leaderboard: a linear signal is found, and none is not

DRAWN_TOPICS, ITEMS, FEATURES = 50, 12, 4
DATASET = "planted-label1"
MODELS = {
    "": {"name": "mlp", "hidden": [8]},
    "models-linear": {"name": "linear"},
    "models-trees": {"name": "boosted-trees", "rounds": 20, "every": 4, "leaves": 8, "learning_rate": 0.2},
}


def write_lists(folder: Path, signal: float) -> tuple[Path, Path]:
    """Two folds of lists in which each of three features tells a third of the relevance, times `signal`."""
    random = np.random.default_rng(5)
    count = 2 * len(SPLITS) * DRAWN_TOPICS * ITEMS
    features = random.normal(size=(count, FEATURES)).astype(np.float32)
    utility = signal * features[:, :3].sum(1) + random.normal(size=count)
    relevance = (utility > np.quantile(utility, 0.7)).astype(np.int8)
    features[:, 1] = 1000 * features[:, 1] + 77
    parts, first = [], 0
    for fold in (1, 2):
        for split in SPLITS:
            items = np.arange(first, first := first + DRAWN_TOPICS * ITEMS)
            offsets = np.arange(0, DRAWN_TOPICS * ITEMS + 1, ITEMS)
            names = [f"{split}-{fold}-{topic}" for topic in range(DRAWN_TOPICS)]
            parts.append((fold, split, lists_table(names, items, relevance[items], offsets)))
    write_instances(folder / "instances.parquet", DATASET, None, parts, item_count=count)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), FEATURES)
    offsets = pa.array([0, count], pa.int32())
    columns = {
        "items": pa.array([f"d{row}" for row in range(count)]),
        "relevance": pa.array(relevance),
        "features": vectors,
    }
    table = {name: pa.ListArray.from_arrays(offsets, column) for name, column in columns.items()}
    write_table(pa.table({"topic": pa.array(["all"]), **table}), folder / "lists.parquet", "lists")
    return folder / "instances.parquet", folder / "lists.parquet"


def trained(folder: Path, signal: float) -> pl.DataFrame:
    """Train every model with and without a bound, measure the controls, and return the leaderboard."""
    instances, lists = write_lists(folder, signal)
    shared = {"protocol": "honest", "dataset": DATASET, "nsr": None, "study": STUDY, "folds": [1, 2]}
    controls = {**shared, "controls": ["random", "best-feature", "oracle"]}
    run_controls(json.dumps(controls), instances, folder / "controls.parquet", lists)
    trainer = {"optimiser": "adam", "learning_rate": 0.05, "epochs": 12, "batch_size": 16, "scale": "standard"}
    made: dict[str, list[Path]] = {"runs": [folder / "controls.parquet"], "experiments": []}
    for variant, model in MODELS.items():
        for bounding in ("none", "min-max"):
            options = {**shared, "model": model, "loss": "nDCG", "bounding": bounding, "seeds": [0], "temperature": 1.0}
            options |= {"variant": variant} | ({} if model["name"] == "boosted-trees" else trainer)
            out = folder / f"{variant}-{bounding}.parquet"
            arguments = ["job", "--instances", str(instances), "--lists", str(lists), "--out", str(out)]
            assert main([*arguments, "--device", "cpu", "--options", json.dumps(options)]) == 0
            made["experiments" if variant else "runs"].append(out)
    epochs = {"runs": "epochs", "experiments": "experiment_epochs"}
    for name, paths in made.items():
        collect(paths, *(folder / f"{one}.parquet" for one in (name, epochs[name], f"rates of {name}")))
    files = StudyFiles(**{name: folder / f"{name}.parquet" for name in (*epochs, *epochs.values())})
    return leaderboard.make_leaderboard(leaderboard.NAME, files, study=STUDY).table


@pytest.fixture(scope="module")
def with_signal(tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    return trained(tmp_path_factory.mktemp("signal"), 1.0)


def test_models_beat_the_best_feature_which_beats_a_random_order(with_signal: pl.DataFrame) -> None:
    models = with_signal.filter(pl.col("rank").is_not_null())
    assert len(models) == 6
    assert set(models["baseline_verdict"]) == {BETTER}
    random = with_signal.filter(pl.col("model") == "random").row(0, named=True)
    assert random["baseline_verdict"] == WORSE
    assert random["best_verdict"] == WORSE
    best = with_signal.filter(pl.col("model") == "best-feature").row(0, named=True)
    assert all(abs(place) in (1, 2, 3) for place in json.loads(best["options"])["features"])
    # The signal is linear: no other model is better than a linear one.
    linear = with_signal.filter(pl.col("model") == "linear")["score"].max()
    assert linear > 0.97 * float(with_signal.filter(pl.col("rank") == 1)["score"][0])  # type: ignore[operator]


def test_without_a_signal_no_model_trained_or_is_better_than_another(tmp_path: Path) -> None:
    table = trained(tmp_path, 0.0).filter(pl.col("model") != "oracle")
    models = table.filter(pl.col("loss") != "none")
    assert models["n_untrained"].sum() or models["rank"].count()
    for comparison in ("best", "counterpart", "baseline"):
        verdicts = table[f"{comparison}_verdict"].drop_nulls()
        assert len(verdicts) or (models["n_untrained"] > 0).all()
        assert not verdicts.str.contains(f"{BETTER}|{WORSE}").any()
