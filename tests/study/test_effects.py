"""Effects of bounding, by regime, and what related work predicts: tables, figures and tests find what is planted."""

import json
import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound.compare import PairedScores
from rankbound_study.claims import comparisons, effects
from rankbound_study.claims.comparisons import OWN_METRICS, coherence
from rankbound_study.claims.evidence import Evidence
from rankbound_study.jobs.parts import RUN_METRICS
from rankbound_study.report.blocks import Paragraph, TableBlock
from rankbound_study.report.findings import related_sections
from rankbound_study.report.tables import effects as table_effects
from rankbound_study.report.tables.table_5_1 import COLUMNS
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import AFFINE, BOUNDED, LOSSES
from tests.study.drawn_files import made_table, run
from tests.study.planted import STUDY, Lists, Setting, World, main_runs, of_bounded, settings, study

RISE = 0.004
SMALL = main_runs((1, 2), topics=30, controls={}, chance=0.002, shared=0.001)


def covariance(k: int, shared: float, own: float) -> np.ndarray:
    """Errors of cells that share something: a common part, and one of each cell."""
    return np.full((k, k), shared**2) + np.eye(k) * own**2


@pytest.mark.parametrize("between", [0.0, 0.003])
@pytest.mark.parametrize("shared", [0.0, 0.002])
def test_intervals_cover_the_planted_mean_in_95_of_100_draws(between: float, shared: float) -> None:
    random, k, draws = np.random.default_rng(3), 12, 2000
    errors = covariance(k, shared, 0.002)
    y = RISE + random.normal(0, between, (draws, k)) + random.multivariate_normal(np.zeros(k), errors, draws)
    found = [effects.pooled(one, errors) for one in y]
    assert 0.93 < np.mean([low < RISE < high for low, high in (one.interval() for one in found)]) <= 1.0
    new = RISE + random.normal(0, between, draws)
    of_new = np.array([one.of_new_cell for one in found])
    assert 0.9 < np.mean((of_new[:, 0] < new) & (new < of_new[:, 1])) <= 1.0


def test_the_variance_between_cells_is_the_planted_one_whatever_they_share() -> None:
    random, k = np.random.default_rng(4), 12
    for shared in (0.0, 0.005):
        errors = covariance(k, shared, 0.002)
        y = random.normal(0, 0.003, (2000, k)) + random.multivariate_normal(np.zeros(k), errors, 2000)
        assert np.mean([effects.pooled(one, errors).between ** 2 for one in y]) == pytest.approx(0.003**2, rel=0.05)
    equal = effects.pooled(np.full(3, RISE), covariance(3, 0.0, 0.001))
    assert (equal.between, equal.standard_error) == (0.0, pytest.approx(0.001 / np.sqrt(3)))


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Bounded AP rises; distribution bounding costs nDCG; nothing else changes."""
    plants = of_bounded(RISE, of="AP"), of_bounded(-0.05, of="nDCG", bounding="distribution")
    return study(*plants, of=SMALL).files(tmp_path_factory.mktemp("effects"))


def test_means_are_the_planted_ones_and_two_readings_are_one_data_set(evidence: Evidence, tmp_path: Path) -> None:
    _, means = effects.cells_and_means(evidence)
    found = {(row["bounds"], row["loss"]): row for row in means.iter_rows(named=True)}
    assert set(found) == {(kind, loss) for kind in effects.KINDS for loss in (effects.EVERY, "nDCG", "AP", "nRBP")}
    rise = found["affine", "AP"]
    assert rise["n"] == 9, "three boundings on three data sets"
    assert 0 < rise["low"] < RISE < rise["high"]
    assert found["affine", "nRBP"]["n"] == 3, "identical boundings are one cell"
    assert found["distribution", "nDCG"]["mean"] == pytest.approx(-0.05, abs=0.002)
    assert found["affine", "nDCG"]["low"] < 0 < found["affine", "nDCG"]["high"]
    assert found["affine", effects.EVERY]["between"] > rise["between"]
    runs = pl.read_parquet(evidence.runs)
    again = runs.filter(pl.col("dataset") == "mq2008-label1").with_columns(dataset=pl.lit("mq2008-label2"))
    pl.concat([runs, again]).write_parquet(tmp_path / "runs.parquet")
    cells, means = effects.cells_and_means(replace(evidence, runs=tmp_path / "runs.parquet"))
    assert len(cells) == 4 * 10
    assert means.filter(bounds="affine", loss="AP")["n"].to_list() == [9]


def test_intervals_hold_replicas_of_one_training(tmp_path: Path) -> None:
    """The test of the intervals against themselves, on planted trainings and drawings: 95 % contain 0.

    Over topics alone, far fewer do.
    """
    world = World(
        lambda one: 0.0, settings(["nRBP"]), topics=40, seeds=4, drawings=2, own=0.0, training=0.01, chance=0.005
    )
    folders = [tmp_path / str(number) for number in range(5)]
    for folder in folders:
        folder.mkdir()
    found = pl.concat(effects.replicas_table(world.files(folder, number)) for number, folder in enumerate(folders))
    assert set(found["replicas"]) == {effects.SAME_LOSS, effects.OTHER_SEEDS}
    assert found.filter(replicas=effects.OTHER_SEEDS)["a"].n_unique() == 5
    of_one = found.filter(dataset="movielens", nsr=1)
    assert sorted(of_one.filter(replicas=effects.SAME_LOSS).select("a", "b").unique().rows()) == [
        ("expectation", "expectation-max"), ("min-max", "expectation"), ("min-max", "expectation-max"),
    ]  # fmt: skip
    covered, by_topics = (((found[f"{name}low"] <= 0) & (found[f"{name}high"] >= 0)).mean() for name in ("", "topics_"))
    assert 0.9 < covered < 1
    assert by_topics < 0.7


def test_halves_of_the_seeds_are_those_of_one_fold() -> None:
    values = np.full((1, 3, 2, 4), np.nan)
    values[0, :, 0] = [1, 2, 4, 8]
    values[0, :, 1, 1:] = [1, 10, 100]
    drawn = PairedScores(["a"], ["x", "y", "z"], values, ["1", "2"], list("0123"))
    halves = effects.of_halves(drawn.pair("a", "a"))
    assert (halves.a - halves.b)[0].tolist()[0] == [-1, -4]
    assert (halves.a - halves.b)[0, 1, 0] == -9
    assert np.isnan((halves.a - halves.b)[0, 1, 1]), "a third seed has no other"
    assert effects.of_halves(replace(drawn, values=values[..., :1], seeds=["0"]).pair("a", "a")) is None


def test_the_steps_make_tables_a_figure_and_a_section_or_empty_ones(evidence: Evidence, tmp_path: Path) -> None:
    cells, _ = made_table("table_effects", evidence, tmp_path)
    assert len(cells) == 3 * 10
    significant = set(cells.filter(pl.col("p_holm") <= 0.05)["loss"])
    assert significant == {"nDCG", "AP"}
    blocks = list(table_effects.TABLES["table_effects"].shown("table_effects", tmp_path))
    assert [block.name for block in blocks] == ["Mean effects", "Replicas", "Effects of bounding"]
    bold = {(row[0].text, row[1].text) for row in blocks[0].rows if row[3].strong}
    assert ("affine", "AP") in bold
    assert ("affine", "nDCG") not in bold
    drawing = tmp_path / "figure.svg"
    run("figure", "figure_effects", "--effects", *tmp_path.glob("table_effects*.csv"), "--out", drawing)
    text = drawing.read_text("utf-8")
    assert re.search("MovieLens NSR 1, distribution: −0.0(49|50)", text)
    assert "mean of 9 cells, affine: +0.00" in text
    assert all(isinstance(block, TableBlock) for block in blocks)
    made = table_effects.TABLES["table_effects"].make("table_effects", table_effects.StudyFiles())
    assert made.table.is_empty()
    made.write(tmp_path, "table_effects")
    assert list(table_effects.TABLES["table_effects"].shown("table_effects", tmp_path)) == []


# The map of regimes, from runs whose effects are planted

SHORT, LONG = 4, 40  # relevant items of the two kinds of users; lists have as many irrelevant ones
OF_SHORT, OF_LONG = 0.04, -0.01
USERS = 20
WIDE = "synthetic-wide"
PLANTED = {WIDE: {"spread": 1.5, "correlation": 1.0, "rank": 4}}


def of_kinds(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    """Bounding changes the scores of both kinds of users, twice as much in a variant; other runs do not count."""
    is_short = pl.col("topic").cast(pl.Int32) < USERS // 2
    effect = pl.when(is_short).then(OF_SHORT).otherwise(OF_LONG) * (one.bounding != "none") * (1 + bool(one.variant))
    p = pl.when(is_short).then(SHORT).otherwise(LONG)
    own = rows.with_columns(*(pl.col(metric) + effect for metric in RUN_METRICS), p=p, n=2 * p)
    others = ({"selection": pl.lit("last")}, {"protocol": pl.lit("published")}, {"study": pl.lit("other")})
    return pl.concat([own, *(own.with_columns(**other) for other in others)])


def world(dataset: str = WIDE, factors: int = 4, boundings: tuple[str, ...] = ("none", "min-max")) -> World:
    some = settings(["nRBP"], boundings, (1,), options=json.dumps({"factors": factors}), dataset=dataset)
    return World(lambda one: 0.0, some, USERS, 1, own=0.0, training=0.0, chance=0.0, change=of_kinds)


def files(folder: Path, of: World, gradient: float = 1.0) -> StudyFiles:
    """Write the runs and a variant with two factors; the gradients of its bounded trainings are as large as stated."""
    varied = settings(["nRBP"], ["none", "min-max"], (1,), "below-f2", options='{"factors": 2}', dataset=WIDE)
    norms = {"none": 1.0, "min-max": gradient}
    both = World(**(vars(of) | {"settings": [*of.settings, *varied], "gradient": lambda one: norms[one.bounding]}))
    written = both.files(folder)
    return StudyFiles(written.runs, written.epochs, experiments=written.experiments)


def test_effects_are_those_of_the_runs(tmp_path: Path) -> None:
    table = effects.regimes(files(tmp_path, world()), STUDY, PLANTED)
    assert table["factors"].to_list() == [4, 2]
    for row, times in zip(table.iter_rows(named=True), (1, 2), strict=True):
        assert row["effect_short"] == pytest.approx(OF_SHORT * times)
        assert row["effect_long"] == pytest.approx(OF_LONG * times)
        assert row["effect"] == pytest.approx(0.015 * times)
        # The standard error over users is 0.0056: half of them differ by 0.05 from the others.
        assert 0.001 * times < row["low"] < 0.008 * times
        assert 0.022 * times < row["high"] < 0.029 * times
        assert (row["n_topics"], row["n_trainings"], row["n_untrained"]) == (USERS, 3, 0)
        assert (row["spread"], row["correlation"], row["rank"]) == (1.5, 1.0, 4)
        # Influence is the range of the loss.
        pairs = np.array([SHORT**2, LONG**2], dtype=float)
        assert row["pairs"] == pytest.approx(pairs.mean())
        assert row["influence_cv"] == pytest.approx(pairs.std() / pairs.mean())
        assert row["log_sd"] == pytest.approx(np.log(LONG / SHORT) / 2)


def test_real_data_have_no_planted_parameters_and_an_effect_takes_an_unbounded_loss(tmp_path: Path) -> None:
    runs = world("movielens-mixed-1-2-3", 32).files(tmp_path).runs
    row = effects.regimes(StudyFiles(runs), STUDY, PLANTED).row(0, named=True)
    assert row["spread"] is row["correlation"] is row["rank"] is None
    assert row["factors"] == 32
    assert effects.regimes(StudyFiles(world(boundings=("min-max",)).files(tmp_path).runs), STUDY, PLANTED).is_empty()


def test_table_and_figure_are_made_from_the_files_and_count_what_did_not_train(tmp_path: Path) -> None:
    made = files(tmp_path, world(), 1e-12)
    table, lines = made_table("table_regimes", made, tmp_path, study=STUDY, planted=PLANTED)
    assert table["n_untrained"].to_list() == [3, 0], "three seeds; no epochs of the experiments were given"
    assert "+0.0150†" in "".join(lines)
    drawing = tmp_path / "map.svg"
    for given, text in ((("--regimes", tmp_path / "table_regimes.csv"), "fewer factors"), ((), "<svg")):
        run("figure", "figure_regimes", *given, "--out", drawing)
        assert text in drawing.read_text("utf-8")


# Related work: planted orders of systems, gradients of every bound, and the paragraphs that quote them

STUDIED = main_runs((2,), ("nDCG", "nRBP"), ("none", "min-max"), topics=30, controls={}, chance=0.0005)


def evidence_of(folder: Path, plant=lambda lists: 0.0, **changes) -> Evidence:  # type: ignore[no-untyped-def]
    return replace(STUDIED, plant=plant, **changes).files(folder)


def towards_small_floors(lists: Lists) -> np.ndarray | float:
    """One system gains where the unit of min-max bounding is small, and loses a little more elsewhere."""
    if (lists.loss, lists.bounding) != ("nDCG", "min-max"):
        return 0.0
    unit = 1 - rb.minimum("nDCG", lists.n, lists.p)
    order = np.argsort(np.argsort(unit))
    signs = np.where(order < len(unit) / 2, 1.0, -1.02)
    return 0.02 * signs


def test_systems_that_differ_on_every_list_keep_their_order(tmp_path: Path) -> None:
    """Whatever the weights of lists are: a system that is better on all of them is better on average."""
    shifts = {("nDCG", "none"): 0.0, ("nDCG", "min-max"): 0.05, ("nRBP", "none"): 0.1, ("nRBP", "min-max"): 0.15}
    made = evidence_of(tmp_path, lambda lists: shifts[lists.loss, lists.bounding] - lists.base + 0.5)
    found = comparisons.orders_table(made)
    keys = set(product(("movielens", "mq2008-label1"), OWN_METRICS, AFFINE))
    assert set(found.select("dataset", "metric", "bound").rows()) == keys
    assert found.drop("dataset", "nsr", "metric", "bound").unique().rows() == [(4, 6, 1.0, 0, 0, 6, 6, 0, 0)]


def test_a_gain_where_units_are_small_inverts_the_order_unless_all_lists_have_one_size(tmp_path: Path) -> None:
    ours = comparisons.orders_table(evidence_of(tmp_path, towards_small_floors)).filter(metric="nDCG", bound="min-max")
    assert (ours["inverted"] > 0).all()
    assert (ours["tau"] < 1).all()
    alike = evidence_of(tmp_path, towards_small_floors, sizes=lambda topic: 5 + 0 * topic)
    found = comparisons.orders_table(alike).select("tau", "inverted", "exchanged", "gained", "lost")
    assert found.unique().rows() == [(1.0, 0, 0, 0, 0)]


@pytest.mark.parametrize("loss", LOSSES)
def test_bounds_change_no_direction_of_a_gradient(loss: str) -> None:
    pairs, incoherent = coherence(loss, "none")
    assert pairs == 50 * (3 * 5 + 4 * 8 + 5 * 15)
    assert (incoherent > 0) == (loss != "nRBP"), "a sum of ranks pushes every relevant item up"
    assert {coherence(loss, bound) for bound in BOUNDED} == {(pairs, incoherent)}


def test_a_loss_of_ranks_is_compared_with_the_metrics_own(tmp_path: Path) -> None:
    planted = evidence_of(tmp_path, lambda lists: 0.03 * (lists.loss == "nRBP") - lists.base + 0.5)
    found = comparisons.ranks_table(planted)
    assert found.select("dataset", "nsr", "metric").rows() == [
        ("movielens", 2, "nDCG"),
        ("mq2008-label1", None, "nDCG"),
    ]
    assert found["difference"].to_list() == pytest.approx([0.03, 0.03], abs=0.001)


def test_the_section_quotes_the_tables(tmp_path: Path) -> None:
    made = evidence_of(tmp_path, towards_small_floors)
    orders, _ = made_table("table_related", made, tmp_path)
    rows = [("nDCG", "none", 5, 0), ("nDCG", "min-max", 10, 1), ("nDCG", "distribution", 5, 2)]
    honest = pl.DataFrame(
        [
            {"loss": loss, "bounding": bounding, "n_trainings": every, "n_untrained": untrained, "as_printed": True}
            for loss, bounding, every, untrained in rows
        ],
        schema=COLUMNS,
    )
    (section,) = related_sections(tmp_path, honest)
    texts = {block.title: block.text for block in section.blocks if isinstance(block, Paragraph)}
    assert len(texts) == 6
    inverted, pairs = orders["inverted"].sum(), orders["pairs"].sum()
    assert f"invert {inverted} of {pairs} pairs of systems" in texts["Jeunen, Potapov and Ustimenko 2024"]
    assert (
        "1 of 10 with affine bounds, 2 of 5 with distribution bounding, 0 of 5 with no bounding did not train."
        in (texts["XGBoost's normalisation of LambdaRank"])
    )
    assert "0 combinations of a loss and a bound have another share" in texts["Marcuzzi, Lucchese and Orlando 2023"]
    assert " in nDCG (significantly higher on 0 of 2 data sets" in texts["Gomez, Wang and Fu 2023"]
    assert texts["Gomez, Wang and Fu 2023"].endswith(" (without correction).")
    for title in ("Karmaker Santu and Feng 2022", "Gienapp et al. 2020"):
        assert "(at 5 %, without correction; pairs share systems and topics)" in texts[title]
    assert list(related_sections(tmp_path / "none", honest)) == []
