"""What did not train is left out of claims, marked in tables and figures, and never the best of a leaderboard."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankbound as rb
from rankbound_study import figures
from rankbound_study.claims.comparisons import ratios_crossed
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import claims, decide, verdict_on
from rankbound_study.claims.verdicts import CONFIRMED, INCONCLUSIVE, NOT_RUN, MissingEvidence, Ruling, Untrained
from rankbound_study.config.data_sets import DataSet
from rankbound_study.report.claims import Claims
from rankbound_study.report.findings import Bounded, honest_findings
from rankbound_study.report.tables import leaderboard
from rankbound_study.report.tables import table_5_1 as laid_out
from rankbound_study.report.tables.effects import ratio_blocks
from rankbound_study.report.tables.table_5_1 import table_5_1
from rankbound_study.results.scores import (
    AT_RANDOM,
    MARK,
    STILL,
    TRAINING,
    UNCHANGED,
    VANISHED,
    VANISHING,
    RunsChoice,
    read_trainings,
    untrained_counts,
)
from rankbound_study.results.study_files import StudyFiles
from rankbound_study.vocabulary import HONEST
from tests.study.neural_studies import Planted
from tests.study.planted import (
    BOUNDS,
    LOSSES,
    MINE,
    RANDOM,
    TOPICS,
    Lists,
    Plant,
    PlantedSystems,
    Setting,
    World,
    beside,
    control,
    noise,
    settings,
    study,
    usual,
    write_runs,
)
from tests.study.test_calibrations import sgd


def random_order(*, of: str = "", bounding: str = "", nsr: int | None = -1) -> Plant:
    """A plant: some runs score as random orderings do."""

    def plant(lists: Lists) -> np.ndarray | float:
        found = of in ("", lists.loss) and bounding in ("", lists.bounding) and nsr in (-1, lists.nsr)
        return RANDOM - lists.base + lists.random.normal(0, 0.02, len(lists.base)) if found else 0.0

    return plant


def helped(lists: Lists) -> float:
    """A plant: bounding raises every score of nRBP, but for a training that fails at ratio 3."""
    return 0.05 * (lists.bounding != "none" and not (lists.nsr == 3 and lists.bounding == "distribution"))


ONE = study(helped, random_order(of="nRBP", bounding="distribution", nsr=3))
NONE = study(random_order())
COLLAPSED = study(*(random_order(of="nDCG", bounding="distribution", nsr=nsr) for nsr in (1, 2, 3)))


Filed = Callable[[World], Evidence]


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Filed:
    """Return the files of a world, written once."""
    return cache(lambda world: world.files(tmp_path_factory.mktemp("study")))


def test_a_bounding_that_did_not_train_does_not_refute_what_all_others_show(untrained: Filed) -> None:
    """It is named in claims about it alone, and is evidence on training itself."""
    evidence = untrained(ONE)
    verdict, other = verdict_on("T45", evidence), verdict_on("T28", evidence)
    assert (verdict.verdict, evidence.left_out) == (CONFIRMED, set())
    assert "1 cell is left out because it did not train (nRBP with distribution bounding on MovieLens at ratio 3)." in (
        verdict.reason
    )
    of_training = verdict_on("T26", untrained(COLLAPSED))
    assert of_training.verdict == CONFIRMED
    assert of_training.value < -0.3
    assert not [one.reason for one in (other, of_training) if "left out" in one.reason]


def decided(evidence: Evidence, *asked: str) -> list[Ruling]:
    """The verdicts on some claims alone."""
    others = {one.id: Ruling(NOT_RUN, reason="not asked") for one in claims() if one.id not in asked}
    return [verdict for one, verdict in decide(evidence, others) if one.id in asked]


def test_without_a_trained_model_no_claim_is_decided(untrained: Filed) -> None:
    with pytest.raises(Untrained):
        verdict_on("T46", untrained(NONE))
    found = decided(untrained(NONE), "T24", "T45", "T46")
    assert [verdict.verdict for verdict in found] == [INCONCLUSIVE] * 3
    assert all("trained on these data" in verdict.reason for verdict in found)


@pytest.mark.parametrize("claim", [one.id for one in claims() if one.kind == "empirical" and one.id.startswith("T")])
@pytest.mark.parametrize("made", [ONE, COLLAPSED], ids=["one cell", "a bounding"])
def test_every_claim_is_decided_beside_what_did_not_train(untrained: Filed, claim: str, made: World) -> None:
    """Or it names what is missing: experiments, or the one loss that it is about."""
    with suppress(MissingEvidence):
        assert verdict_on(claim, untrained(made)).reason


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both protocols; min-max bounding of AP scores exactly as the random ordering at ratio 1."""
    path = tmp_path_factory.mktemp("runs") / "runs.parquet"
    sets = (("movielens", 1), ("mq2008-label1", None))
    frame = pl.read_parquet(write_runs(path, sets=sets, protocols=("published", HONEST), topics=30, folds=2, seeds=2))
    lists = ["protocol", "dataset", "nsr_test", "fold", "topic"]
    random = frame.filter(pl.col("model") == "random").select(*lists, pl.col("AP").alias("random"))
    stuck = (pl.col("nsr_test") == 1) & (pl.col("loss") == "AP") & (pl.col("bounding") == "min-max")
    frame = frame.join(random, on=lists, how="left", nulls_equal=True, maintain_order="left")
    score = pl.when(stuck).then("random").otherwise("AP").alias("AP")
    frame.with_columns(score).drop("random").write_parquet(path)
    return path


def test_table_and_report_set_it_apart_and_test_all_other_cells(runs: Path) -> None:
    table = table_5_1(runs, RunsChoice(HONEST))
    trained = table.filter(pl.col("loss") != "none")
    marked = trained.filter(pl.col("n_untrained") > 0)
    assert marked.select("nsr", "loss", "bounding", "n_trainings", "n_untrained", "p_holm").rows() == [
        (1, "AP", "min-max", 4, 4, None)
    ]
    others = trained.filter(pl.col("as_printed"), pl.col("bounding") != "none", pl.col("n_untrained") == 0)
    assert len(others) == 2 * 3 * 4 - 1
    assert not others["p_holm"].null_count()
    table, published = (table_5_1(runs, RunsChoice(protocol)) for protocol in (HONEST, "published"))
    texts = laid_out.texts(table)
    row = next(line for line in texts[".md"].splitlines() if line.startswith("| AP | min-max"))
    assert MARK in row.split("|")[4]
    assert "*" not in row.split("|")[4]
    assert f"{MARK} did not train" in texts[".md"]
    assert r"\dag{}" in texts[".tex"]
    (found,) = honest_findings(table, published)
    assert "of 19 cells" in found.headline
    assert "1 cell that did not train is left out" in found.detail
    bounded = Bounded(runs.parent, published, published.clear())
    named = [one for one in bounded.findings(Claims()) if "did not train" in one.headline]
    assert [one.headline for one in named] == ["1 of 30 losses and boundings of Table 5.1 did not train."]
    assert f"AP with min-max bounding on {DataSet('movielens', 1).label} (4 of 4)" in named[0].detail


def test_a_bounded_loss_is_not_tested_against_an_unbounded_one_that_did_not_train(runs: Path, tmp_path: Path) -> None:
    swapped = {"none": "min-max", "min-max": "none"}
    frame = pl.read_parquet(runs)
    trained = frame.with_columns(
        pl.when(pl.col("loss") == "AP")
        .then(pl.col("bounding").replace(swapped))
        .otherwise("bounding")
        .alias("bounding")
    )
    trained.write_parquet(tmp_path / "runs.parquet")
    of_ap = table_5_1(tmp_path / "runs.parquet", RunsChoice(HONEST)).filter(pl.col("loss") == "AP")
    assert of_ap.filter(pl.col("nsr") == 1)["p_holm"].null_count() == 5
    assert of_ap.filter(pl.col("nsr").is_null())["p_holm"].null_count() == 1


@pytest.mark.parametrize("name", ["figure_5_1", "figure_5_3", "figure_5_6", "figure_5_9"])
def test_figures_have_an_entry_for_it_in_their_legends(runs: Path, name: str) -> None:
    figure = figures.draw(name, StudyFiles(runs=runs), {"protocol": HONEST})
    legends = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert legends.count("did not train") == 1
    other = figures.draw(name.replace("_3", "_2").replace("_6", "_5").replace("_9", "_8"), StudyFiles(runs=runs), {})
    assert ("did not train" in str([text.get_text() for one in other.legends for text in one.get_texts()])) == (
        name == "figure_5_1"
    )


def test_on_a_leaderboard_it_has_no_rank_and_is_compared_with_none(tmp_path: Path) -> None:
    level = np.linspace(0.3, 0.8, TOPICS)
    random = level - 0.2
    stuck, trained = ("", "mlp", "nDCG", "none"), ("", "mlp", "nDCG", "min-max")
    scores = PlantedSystems(tmp_path, seeds=(0, 1))
    # Its validation score is the highest, as of one that was selected among many.
    scores.add(stuck, random + noise(1), 0.9).add(trained, level + noise(2), 0.6)
    scores.add(("", "mlp", "AP", "none"), level + noise(3), 0.5).add(control("random"), random)
    made = leaderboard.make_leaderboard(leaderboard.NAME, scores.files(), study=MINE)
    rows = made.table.select("rank", "loss", "bounding", "role", "n_untrained").rows()
    assert rows == [
        (1, "nDCG", "min-max", "best", 0),
        (2, "AP", "none", "", 0),
        (None, "nDCG", "none", "", 4),
        (None, "none", "none", "baseline", 0),
    ]
    verdicts = ("best_verdict", "counterpart_verdict", "baseline_verdict")
    apart = made.table.filter(pl.col("n_untrained") > 0)
    assert apart.select(verdicts).row(0) == (None, None, None)
    assert made.table.row(0, named=True)["counterpart_verdict"] is None
    assert f"mlp{MARK}" in made.beside[".md"]


PLAIN = ("none",)
EXPERIMENTS = {
    "T20": beside(2, dict.fromkeys(("factors-f16", "factors-f64"), usual)),
    "T21": beside(None, dict.fromkeys(("widths-w6", "widths-w92"), usual), bounds=PLAIN),
    "T22": sgd(0.0),
    "T48": beside(2, {"tilts-t2": usual}, bounds=("distribution(tilt=2)",)),
    "M03": beside(2, {"warp-k": usual}, losses=("WARP(alpha=constant)@1", "WARP(alpha=constant)@10"), bounds=PLAIN),
    "M04": beside(2, {"one-relevant-r1": usual}, losses=("softmax", "RankNet"), bounds=PLAIN),
}
"""The study's own trainings, and the variants that decide a claim."""


@pytest.mark.parametrize("claim", EXPERIMENTS)
def test_failed_experiments_are_told_from_missing(tmp_path: Path, claim: str) -> None:
    world = replace(EXPERIMENTS[claim], topics=20, folds=2)
    # The trainings with vanishing gradients: all variants, the study's own, or none.
    stuck = {
        "variants": replace(world, gradient=lambda one: float(not one.variant)),
        "own": replace(world, gradient=lambda one: float(bool(one.variant))),
        "none": world,
        "without": beside(2, {}, topics=20, folds=2),
    }
    found = {}
    for name, world in stuck.items():
        (found[name],) = decided(world.files(tmp_path / name), claim)
    assert found["none"].verdict != NOT_RUN
    assert found["variants"].verdict == INCONCLUSIVE
    assert re.search("no model trained|did not train", found["variants"].reason)
    if claim not in ("M03", "M04"):
        # The study's own trainings, with which these experiments are compared.
        assert found["own"].verdict == INCONCLUSIVE
        assert "did not train" in found["own"].reason
    assert found["without"].verdict == NOT_RUN
    assert "train (" not in found["without"].reason


def test_every_claim_that_reads_an_experiment_names_what_did_not_train(tmp_path: Path) -> None:
    world = replace(EXPERIMENTS["T20"], gradient=lambda one: float(not one.variant.endswith("f16")))
    reason = verdict_on("T20", world.files(tmp_path)).reason
    assert reason.startswith("2 of 3 sizes have scores: a trend takes all of them.")
    assert "9 cells are left out because they did not train" in reason
    assert "(variant f16)" in reason


@pytest.mark.parametrize("claim", ["N01", "N03", "N08"])
def test_failed_methods_are_told_from_missing_ones(tmp_path: Path, claim: str) -> None:
    names = ("DirectRanker", "RankNet", "Class-NN")
    for place, norm in enumerate((1.0, 0.0)):
        planted = Planted(tmp_path / str(place))
        (tmp_path / str(place)).mkdir(exist_ok=True)
        planted.queries(dict.fromkeys(names, 0.6)).queries(dict.fromkeys(names, 0.6), "mslr-web10k-label2")
        for dataset in ("aaf", "aaf-vgg16"):
            planted.pairs(dict.fromkeys(names, 0.7), dataset)
        for one in planted.epochs:
            one["gradient_norm"] = norm
        (found,) = decided(planted.evidence(), claim)
        assert (found.verdict == INCONCLUSIVE and bool(re.search("trained|did not train", found.reason))) == (norm == 0)


def test_ratios_crossed_mark_what_did_not_train(tmp_path: Path) -> None:
    varied = [one for a, b in ((1, 2), (2, 1)) for one in settings(LOSSES, BOUNDS, (a,), "ratios-at", trained_at=b)]
    world = World(usual, [*settings(LOSSES, BOUNDS, (1, 2)), *varied], gradient=lambda one: float(not one.variant))
    table = ratios_crossed(world.files(tmp_path))
    assert table.group_by("nsr_test", "nsr_train").agg(pl.col("score").count()).sort(pl.all()).rows() == [
        (1, 1, 9), (1, 2, 0), (2, 1, 0), (2, 2, 9)
    ]  # fmt: skip
    scores, _ = ratio_blocks(table)
    assert f"{MARK} did not train" in scores.caption
    trained, stuck = [cell.text for cell in scores.rows[0][3:]]
    assert re.fullmatch(r"0\.\d{4}", trained)
    assert stuck == MARK


# Trainings that did not train are named, and no others: planted gains, gradients, losses and metrics

LISTED = 200


@dataclass(frozen=True)
class Course:
    """A job of one fold and three seeds: what its lists gain over a random ordering, and what its epochs record.

    `gain` is a share of the room above a random ordering; `spread` that of its noise; `gradients` the norms by epoch.
    """

    gain: float
    spread: float = 0.1
    gradients: tuple[float, ...] = (1e-3, 1e-3, 1e-3)
    losses: tuple[float, ...] = (-0.6, -0.7, -0.8)
    metrics: tuple[float, ...] = (0.6, 0.7, 0.8)


STUCK = Course(0.0)
GOOD = Course(0.9)


def key(loss: str, job: str, seed: int) -> dict[str, pl.Expr]:
    return Setting(loss, job, 2).key() | {"fold": pl.lit(1), "seed": pl.lit(seed)}


def written(folder: Path, jobs: Mapping[str, Course], topics: int = LISTED) -> tuple[Path, Path]:
    p = 5 + np.arange(topics) * 7 % 40
    n = 3 * p
    expected = rb.expectation("nDCG", n, p)
    lists = {"topic": np.arange(topics).astype(str), "n": n, "p": p}
    control = key("none", "none", 0) | {"model": pl.lit("random"), "selection": pl.lit("last")}
    runs = [pl.DataFrame(lists | {"nDCG": expected}).with_columns(**control)]
    epochs = []
    for place, (job, planted) in enumerate(jobs.items()):
        for seed in range(3):
            noise = np.random.default_rng([place, seed]).normal(0, planted.spread, topics)
            scores = expected + (1 - expected) * (planted.gain + noise)
            own = key("nDCG", job, seed)
            runs.append(pl.DataFrame(lists | {"nDCG": scores}).with_columns(selection=pl.lit("validation"), **own))
            path = {"gradient_norm": planted.gradients, "mean_loss": planted.losses, "nDCG": planted.metrics}
            steps = pl.DataFrame({name: list(values) for name, values in path.items()}).with_row_index("epoch", 1)
            epochs.append(steps.with_columns(part=pl.lit("validation"), **own))
    files = folder / "runs.parquet", folder / "epochs.parquet"
    pl.concat(runs, how="diagonal").write_parquet(files[0])
    pl.concat(epochs).write_parquet(files[1])
    return files


def moving(unit: float, *losses: float) -> Course:
    """A network whose random start ranks far from a random ordering, in a unit of its loss, which is its gradient."""
    of_unit = tuple(unit * value for value in losses)
    return Course(0.4, losses=of_unit, metrics=(0.7, 0.7 + STILL / 3, 0.7), gradients=(unit,) * 3)


FEW = {name: Course(gain, spread=0.4) for name, gain in (("none", 0.7), ("min-max", 0.5), ("expectation", 0.8))}
TREES = Course(0.9, gradients=(float("nan"),) * 3, losses=(1.0,) * 3, metrics=(0.8,) * 3)
CASES: list[Mapping[str, Course | tuple[Course, str]]] = [
    {"distribution": (STUCK, AT_RANDOM)},
    # Models that rank badly, but not at random.
    *({"bad": Course(gain)} for gain in (0.15, 0.3, -0.4)),
    # A gain that is significant, but a fiftieth of the best.
    {"moved": (Course(0.018, spread=0.01), AT_RANDOM)},
    # Noise, also of the unbounded loss.
    dict.fromkeys(("none", "min-max"), (Course(0.0, 0.3), AT_RANDOM)),
    FEW,
    # A vanishing gradient counts whatever the scores are, but not after training, nor where there is none.
    *({"distribution": (replace(GOOD, gradients=(norm,) * 3), VANISHING)} for norm in (0.0, VANISHED / 2)),
    {"none": replace(GOOD, gradients=(1e-3, 0.0, 0.0))},
    {"none": TREES},
    *(
        {"unmoved": (moving(unit, -0.7, -0.7001, -0.7002), UNCHANGED), "moving": moving(unit, -0.7, -0.71, -0.72)}
        for unit in (1e-6, 1.0, 1e4)
    ),
]
"""Jobs beside an unbounded loss that learns, those that did not train with the cause."""


@pytest.mark.parametrize("case", CASES)
def test_trainings_that_failed_are_named(tmp_path: Path, case: Mapping[str, Course | tuple[Course, str]]) -> None:
    every = {
        job: made if isinstance(made, tuple) else (made, None) for job, made in ({"none": GOOD} | dict(case)).items()
    }
    jobs = {job: planted for job, (planted, _) in every.items()}
    table = read_trainings(written(tmp_path, jobs, 12 if case is FEW else LISTED))
    assert {job: set(table.filter(bounding=job)["cause"]) for job in jobs} == {
        job: {of} for job, (_, of) in every.items()
    }


def test_lists_of_another_size_than_the_controls_have_the_expectation_of_their_size(tmp_path: Path) -> None:
    runs, epochs = written(tmp_path, {"none": GOOD, "distribution": STUCK})
    frame = pl.read_parquet(runs)
    few = '{"test_relevant": 1}'
    n, p = frame["n"].to_numpy() - frame["p"].to_numpy() + 1, np.ones(len(frame), np.int64)
    stuck = pl.Series(rb.expectation("nDCG", n, p) + np.random.default_rng(0).normal(0, 0.01, len(frame)))
    experiment = frame.with_columns(
        n=pl.Series(n), p=pl.Series(p), options=pl.lit(few), study=pl.lit("thesis@one"),
        nDCG=pl.when(pl.col("bounding") == "none").then(0.9).otherwise(stuck),
    ).filter(pl.col("loss") != "none")  # fmt: skip
    other = tmp_path / "experiments.parquet"
    experiment.write_parquet(other)
    table = read_trainings((runs, epochs), (other, None)).filter(pl.col("study") == "thesis@one")
    assert dict(table.group_by("bounding").agg(pl.col("cause").first()).rows()) == {
        "none": None,
        "distribution": AT_RANDOM,
    }


def test_trainings_are_counted_by_cell_and_without_a_control_none_is_named(tmp_path: Path) -> None:
    table = read_trainings(written(tmp_path, {"none": GOOD, "distribution": STUCK}))
    assert table.columns == [*TRAINING, "gain", "cause"]
    counts = untrained_counts(table, ["dataset", "loss", "bounding"]).sort("bounding")
    assert counts.rows() == [("movielens", "nDCG", "distribution", 3, 3), ("movielens", "nDCG", "none", 3, 0)]
    runs, _ = written(tmp_path, {"none": GOOD, "distribution": replace(STUCK, gradients=(0.0,) * 3)})
    pl.read_parquet(runs).filter(pl.col("loss") != "none").write_parquet(runs)
    table = read_trainings((runs, None), (None, None))
    assert len(table) == 6
    assert table["cause"].null_count() == table["gain"].null_count() == 6
