"""Losses beside a reference, other metrics, ratios, popularity, variants of a bound: what is planted is found."""

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import rankbound as rb
from rankbound_study.claims import comparisons
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.data.contracts import write_table
from rankbound_study.figures import draw
from rankbound_study.figures.runs import BOUNDS, SIZES, gradient_norms, slopes_at_the_start
from rankbound_study.jobs.parts import RUN_METRICS
from rankbound_study.report.blocks import Finding
from rankbound_study.report.findings import VARIANTS_FILE, crossed_findings, distribution_findings
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import LOSSES
from tests.study.drawn_files import made_table
from tests.study.planted import (
    EPOCHS,
    MINE,
    STUDY,
    Lists,
    PlantedSystems,
    Setting,
    World,
    control,
    main_runs,
    noise,
    of_bounded,
    settings,
    study,
)
from tests.study.planted import TOPICS as SCORED

QUIET = main_runs((1,), shared=0.0005, level=0.02, own=0.002)
GAIN = 0.03


def ap_serves_ndcg(lists: Lists) -> float:
    """A plant: on MovieLens, the AP loss ranks better by nDCG than the nDCG loss."""
    return GAIN * (lists.loss == "AP" and lists.metric == "nDCG" and lists.nsr is not None)


PLANTED = study(ap_serves_ndcg, of_bounded(0.005, bounding="expectation"), of=QUIET)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    return PLANTED.files(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def planted(evidence: Evidence) -> pl.DataFrame:
    return comparisons.metrics_crossed(evidence)


def significant(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("p_holm") <= 0.05)


def test_a_planted_difference_is_found_alone_in_every_metric(planted: pl.DataFrame, evidence: Evidence) -> None:
    found = significant(planted)
    assert found.select("dataset", "loss", "metric", "bounded").rows() == [
        ("movielens", "AP", "nDCG", False),
        ("movielens", "AP", "nDCG", True),
    ]
    for row in found.iter_rows(named=True):
        assert row["low"] < GAIN < row["high"]
        assert row["difference"] == pytest.approx(GAIN, abs=0.005)
        assert row["reference"] == "nDCG"
    assert planted.select("bounded", "loss", "metric").unique().height == 2 * len(LOSSES) * len(comparisons.JUDGED)
    itself = pl.col("loss") == pl.col("reference")
    assert planted.filter(itself)["difference"].is_null().all()
    assert planted.filter(~itself)["difference"].is_not_null().all()
    assert planted["score"].is_between(0, 1).all()
    assert planted.select("bounded", "bounding").unique().sort(pl.all()).rows() == [
        (False, "none"),
        (True, "expectation"),
    ]
    rows = pl.read_parquet(evidence.runs).filter(dataset="mq2008-label1", bounding="none")
    means = {loss: rows.filter(loss=loss)["P@10"].mean() for loss in LOSSES}
    for loss in ("AP", "nRBP"):
        row = planted.filter(dataset="mq2008-label1", bounded=False, loss=loss, metric="P@10").row(0, named=True)
        assert row["score"] == pytest.approx(means[loss])
        assert row["difference"] == pytest.approx(means[loss] - means["nDCG"])  # type: ignore[operator]


def test_nothing_planted_is_nothing_found(tmp_path: Path) -> None:
    table = comparisons.metrics_crossed(QUIET.files(tmp_path / "quiet"))
    assert significant(table).is_empty()
    assert table["p_holm"].count() == table["difference"].count() > 0
    assert comparisons.ratios_crossed(Evidence(STUDY, made(tmp_path / "made").runs)).is_empty(), (
        "without the experiment"
    )
    table = table_of(made(tmp_path / "unplanted", planted=0.0))
    for column in ("p_holm", "effect_p_holm"):
        assert table[column].count()
        assert table.filter(pl.col(column) <= 0.05).is_empty()
    with pytest.raises(MissingEvidence, match="popularity"):
        verdict_on("P01", with_popularity(tmp_path / "others", {UNIFORM: 0.0}, controls=False))
    table, findings = found(tmp_path, world({}, ()))
    assert table.is_empty()
    assert findings == []


def test_table_and_finding_say_what_was_planted(evidence: Evidence, tmp_path: Path) -> None:
    assert list(crossed_findings(tmp_path)) == []
    table, lines = made_table("table_metrics_crossed", evidence, tmp_path)
    assert len(table) == 2 * 2 * 3 * len(comparisons.JUDGED)
    (raised,) = [line for line in lines if line.startswith("| MovieLens NSR 1 | AP | unbounded")]
    assert raised.split(" | ")[3].endswith("▲")
    assert raised.count("**") == 2, "the score of its own metric is in bold"
    (finding,) = crossed_findings(tmp_path)
    pairs = sum(loss != trained for loss in LOSSES for trained in comparisons.TRAINED_FOR.values())
    assert f"higher than the loss trained for it in 2 of {2 * 2 * pairs} comparisons" in finding.headline
    assert "lower in 0" in finding.headline


# Models trained and tested at all ratios: planted differences are found, on common lists, and no others

TOPICS = 20
HIGHER, EFFECT = 0.05, 0.02  # what training at ratio 2 adds on tests at ratio 1, and what bounding adds to it


def lost(one: Setting, rows: pl.DataFrame) -> pl.DataFrame:
    """Topic 0 lost a negative of its test list if training was at another ratio."""
    short = (pl.col("topic") == "0") & (one.trained_at != one.nsr)
    scores = [pl.when(short).then(0.0).otherwise(metric).alias(metric) for metric in RUN_METRICS]
    return rows.with_columns(pl.col("n") - short, *scores)


def made(folder: Path, planted: float = 1.0) -> Evidence:
    def effect(one: Setting) -> float:
        return planted * (HIGHER + EFFECT * (one.bounding != "none")) * ((one.trained_at, one.nsr) == (2, 1))

    # The experiment also repeats the study's own trainings.
    names = {(a, b): f"ratios-at{b}" for a, b in product((1, 2), (1, 2))} | {(a, a, "own"): "" for a in (1, 2)}
    some = [
        one
        for (trained_at, tested_at, *_), variant in names.items()
        for one in settings(["nDCG", "AP"], ["none", "min-max"], (tested_at,), variant, trained_at=trained_at)
    ]
    size = {"topics": TOPICS, "folds": 1, "own": 0.0, "training": 0.0, "chance": 1e-3}
    return World(effect, some, change=lost, **size).files(folder)


def table_of(evidence: Evidence) -> pl.DataFrame:
    return comparisons.ratios_crossed(Evidence(STUDY, evidence.runs, experiments=evidence.experiments))


def test_planted_differences_are_found_and_shown_on_lists_that_lost_nothing(tmp_path: Path) -> None:
    table = table_of(made(tmp_path))
    assert len(table) == 2 * 2 * 2 * 2
    found = table.filter(pl.col("p_holm") <= 0.05)
    assert set(found.select("nsr_test", "nsr_train").rows()) == {(1, 2)}
    assert len(found) == 4
    for row in found.iter_rows(named=True):
        planted = HIGHER + EFFECT * (row["bounding"] == "min-max")
        assert row["difference"] == pytest.approx(planted, abs=2e-3)
        assert row["low"] < row["difference"] < row["high"]
    effects = table.filter(pl.col("effect_p_holm") <= 0.05)
    assert effects.select("nsr_test", "nsr_train", "bounding").unique().rows() == [(1, 2, "min-max")]
    assert effects["effect_difference"].to_list() == pytest.approx([EFFECT * (TOPICS - 1) / TOPICS] * 2, abs=2e-3)
    own = pl.col("nsr_test") == pl.col("nsr_train")
    assert [set(table.filter(of)["n_topics"]) for of in (own, ~own)] == [{TOPICS}, {TOPICS - 1}]
    table, lines = made_table("table_ratios", made(tmp_path), tmp_path)
    assert len(table) == 16
    raised, effect = [line for line in lines if line.startswith("| MovieLens NSR 1 | AP | min-max")]
    assert raised.count("**") == 2
    assert raised.count("▲") == effect.count("▲") == 1


# Popularity against trained models: what is planted on each kind of test lists is what is found

UNIFORM, BY_POPULARITY = "movielens", "movielens-uniform-popularity"
BOUNDINGS = {"none": 0.0, "min-max": 0.01}  # what each bounding adds: min-max is the best one


def with_popularity(folder: Path, ahead: dict[str, float], size: float = 0.002, controls: bool = True) -> Evidence:
    """Runs in which popularity is that far ahead of the best bounding; it has one seed."""
    planted = PlantedSystems(folder, seeds=range(3))
    trained = [("", "mf", *names) for names in product(("nDCG", "AP"), BOUNDINGS)]
    for (dataset, by), system in product(ahead.items(), (*trained, *map(control, ("popularity", "random") * controls))):
        level = {"popularity": 0.61 + by, "random": 0.2}.get(system[1], 0.6 + BOUNDINGS[system[3]])
        scores = level + 0.05 * np.sin(np.arange(SCORED)) + noise(len("".join(system)), size)
        planted.add(system, scores, level, dataset=dataset, nsr_train=1, nsr_test=1)
    files = planted.files()
    return Evidence(MINE, files.runs, files.epochs)


@pytest.mark.parametrize(
    ("ahead", "size", "verdict"),
    [
        ({UNIFORM: 0.03, BY_POPULARITY: 0.03}, 0.002, CONFIRMED),
        ({UNIFORM: 0.03, BY_POPULARITY: -0.03}, 0.002, REFUTED),
        ({UNIFORM: -0.03}, 0.002, REFUTED),
        ({UNIFORM: 0.0}, 0.002, INCONCLUSIVE),
        ({UNIFORM: 0.03}, 0.3, INCONCLUSIVE),
    ],
)
def test_verdicts_are_those_of_samplings(tmp_path: Path, ahead: dict[str, float], size: float, verdict: str) -> None:
    found = verdict_on("P01", with_popularity(tmp_path, ahead, size))
    assert found.verdict == verdict
    if size < 0.1:
        assert found.value == pytest.approx(min(ahead.values()), abs=0.002)
        assert found.low < found.value < found.high
    assert f"of {2 * len(ahead)} comparisons" in found.reason


def test_differences_are_from_popularity_on_the_same_lists_in_a_column_per_sampling(tmp_path: Path) -> None:
    ahead = {UNIFORM: 0.03, BY_POPULARITY: -0.03}
    evidence = with_popularity(tmp_path, ahead)
    table = comparisons.against_popularity(evidence)
    for row in table.filter(pl.col("loss") != "none").iter_rows(named=True):
        expected = BOUNDINGS[row["bounding"]] - 0.01 - ahead[row["dataset"]]
        assert row["difference"] == pytest.approx(expected, abs=0.003)
        assert row["p_holm"] <= 0.05
        assert row["picked"] == (row["bounding"] == "min-max")
    assert table.filter(model="popularity")["difference"].is_null().all()
    assert table.filter(model="random")["difference"].max() < -0.3  # type: ignore[operator]
    shown, lines = made_table("table_samplings", evidence, tmp_path, study="mine")
    assert len(shown) == 2 * 2 * 4
    (header,) = [line for line in lines if line.startswith("| judged by")]
    assert header.endswith("| MovieLens NSR 1 | MovieLens NSR 1, popularity test |")
    (best,) = [line for line in lines if line.startswith("| nDCG | nDCG | min-max")]
    down, up = best.strip("| ").split(" | ")[3:]
    assert (down[-1], up[-1]) == ("▼", "▲")
    assert "*" in down.split()[0] + up.split()[0]
    (count,) = [line for line in lines if line.startswith("| nDCG | popularity")]
    assert count.count("**") == 4


# Variants of the distribution bound: the finding names those that help, and the figure shows why others do not

SD = "distribution(gain=sd)"
VARIED = ("nDCG", "AP")


def world(changes: dict[str, float], variants: tuple[str, ...] = (SD,)) -> World:
    """Scores by bounding; losses do not differ."""
    own = settings(VARIED, ("none", "min-max", "distribution"), (2,))
    varied = settings(VARIED, variants, (2,), "gains-other")
    size = {"own": 0.004, "training": 0.0005, "chance": 0.004, "topics": 30}
    return World(
        lambda one: changes.get(one.bounding, 0.0),
        [*own, *varied],
        validation=lambda one: 0.7 + changes.get(one.bounding, 0.0),
        **size,
    )


def found(folder: Path, planted: World) -> tuple[pl.DataFrame, list[Finding]]:
    table = comparisons.distribution_variants(planted.files(folder))
    table.write_csv(folder / VARIANTS_FILE)
    return table, list(distribution_findings(folder))


@pytest.mark.parametrize(
    ("changes", "headline", "helping"),
    [
        ({"distribution": -0.05, SD: 0.05}, f"should be used for nDCG with {SD}, AP with {SD}: ", f"nDCG with {SD}"),
        ({"distribution": -0.05, SD: 0.05, "min-max": 0.1}, "No variant of", f"nDCG with {SD}, AP with {SD}."),
        ({"distribution": -0.05, SD: -0.05}, "No variant of", "nowhere worse: none."),
        ({}, "No variant of", "nowhere worse: none."),
    ],
)
def test_a_variant_that_should_be_used_is_better_than_no_bound_and_than_the_affine_one(
    tmp_path: Path, changes: dict[str, float], headline: str, helping: str
) -> None:
    table, (finding,) = found(tmp_path, world(changes))
    assert headline in finding.headline
    assert helping in finding.detail
    assert table.schema == comparisons.VARIANT_COLUMNS
    for row in table.iter_rows(named=True):
        change = changes.get(row["bounding"], 0.0)
        assert row["difference"] == pytest.approx(change, abs=0.004)
        assert (row["p_holm"] <= 0.05) == bool(change)
        assert row["affine"] == "min-max"
        assert row["affine_difference"] == pytest.approx(change - changes.get("min-max", 0.0), abs=0.004)


@pytest.mark.parametrize("elsewhere", [-0.05, None])
def test_a_variant_that_is_worse_elsewhere_should_not_be_used(tmp_path: Path, elsewhere: float | None) -> None:
    """It beats the best affine bounding on one data set, so that the headline may not say that none does."""
    table, _ = found(tmp_path, world({SD: 0.05}))
    own = table.filter(loss="nDCG", bounding=SD)
    other = own.with_columns(
        nsr=pl.lit(3, pl.Int8), difference=elsewhere, affine_difference=elsewhere, trained=pl.lit(elsewhere is not None)
    ).cast(comparisons.VARIANT_COLUMNS)  # type: ignore[arg-type]
    pl.concat([own, other]).write_csv(tmp_path / VARIANTS_FILE)
    (finding,) = distribution_findings(tmp_path)
    assert finding.headline.endswith("without ranking worse, or not training, on another data set.")
    (row,) = finding.rows
    above_affine = row[finding.header.index("above affine")]
    assert above_affine == "1"


def test_the_slope_at_the_start_is_that_of_the_smooth_distribution() -> None:
    """The thesis' gain flattens nDCG on long lists; at ties the slope is algorithm 2's."""
    found = {}
    for loss, bound, gain in (("nDCG", "distribution", "distinct"), ("nDCG", SD, "sd"), ("AP", SD, "sd")):
        found[loss, bound] = slopes_at_the_start(loss, bound)
        slopes = dict(zip(SIZES, found[loss, bound], strict=True))
        n, p = 36, 12
        distribution = rb.score_distribution(loss, n=n, p=p, method="exact")
        relevance = torch.tensor([1] * p + [0] * (n - p))
        value = -float(rb.SmoothLoss(loss)(torch.zeros(n, dtype=torch.float64), relevance, [0, n]))
        step = 1e-5
        below, above = distribution.smooth_cdf(np.array([value - step, value + step]), gain=gain)
        by_hand = (above - below) / (2 * step) * (distribution.maximum - distribution.minimum)
        assert slopes[n] == pytest.approx(by_hand, rel=1e-3)
    thesis, other = found["nDCG", "distribution"], found["nDCG", SD]
    assert thesis[-1] < 1e-3 < 0.5 < other[-1]
    assert min(slopes_at_the_start("AP", "distribution")) > 1


def epochs_file(folder: Path) -> Path:
    """The norms of two epochs, in all folds, seeds and parts."""
    norms = {"none": (1.0, 4.0), "distribution": (0.01, 10.0)}
    drawn = World(lambda one: 0.0, settings(["nDCG"], list(norms), (2,))).frames(0)[EPOCHS]
    measured = [
        drawn.filter(bounding=bounding).with_columns(
            gradient_norm=pl.lit(norm), epoch=pl.lit(number, pl.Int32), part=pl.lit(part)
        )
        for bounding, of_epochs in norms.items()
        for number, norm in enumerate(of_epochs, start=1)
        for part in ("validation", "test")
    ]
    write_table(pl.concat(measured).to_arrow(), folder / "epochs.parquet", "epochs")
    return folder / "epochs.parquet"


def test_norms_are_shares_of_the_largest_one_and_the_figure_is_drawn_without_them_too(tmp_path: Path) -> None:
    measured = StudyFiles(epochs=epochs_file(tmp_path))
    shares = gradient_norms(measured).sort("bounding", "epoch").select("bounding", "epoch", "share").rows()
    assert shares == [("distribution", 1, 0.001), ("distribution", 2, 1.0), ("none", 1, 0.25), ("none", 2, 1.0)]
    # All losses at the start; with epochs, those that ran, in two rows.
    for files, panels in ((StudyFiles(), 3), (measured, 2)):
        figure = draw("figure_gradients", files)
        assert len(figure.axes) == panels
        (legend,) = figure.legends
        assert (
            {SD, "distribution"}
            <= {text.get_text() for text in legend.get_texts()}
            <= {"unbounded", *BOUNDS} | {"min-max, at the start"}
        )
