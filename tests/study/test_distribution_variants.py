"""Variants of the distribution bound: the finding names those that help, and the figure shows why others do not."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from planted import EPOCHS, World, settings

import rankbound as rb
from rankbound_study.claims.comparisons import VARIANT_COLUMNS, distribution_variants
from rankbound_study.data.contracts import write_table
from rankbound_study.figures import draw
from rankbound_study.figures.training import BOUNDS, SIZES, gradient_norms, slopes_at_the_start
from rankbound_study.report.content import Finding
from rankbound_study.report.findings import VARIANTS_FILE, distribution_findings
from rankbound_study.results.study_files import StudyFiles

SD = "distribution(gain=sd)"
LOSSES = ("nDCG", "AP")


def world(changes: dict[str, float], variants: tuple[str, ...] = (SD,)) -> World:
    """Scores by bounding; losses do not differ."""
    own = settings(LOSSES, ("none", "min-max", "distribution"), (2,))
    varied = settings(LOSSES, variants, (2,), "gains-other")
    size = {"own": 0.004, "training": 0.0005, "chance": 0.004, "topics": 30}
    return World(
        lambda one: changes.get(one.bounding, 0.0),
        [*own, *varied],
        validation=lambda one: 0.7 + changes.get(one.bounding, 0.0),
        **size,
    )


def found(folder: Path, planted: World) -> tuple[pl.DataFrame, list[Finding]]:
    table = distribution_variants(planted.files(folder))
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
    assert table.schema == VARIANT_COLUMNS
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
    ).cast(VARIANT_COLUMNS)  # type: ignore[arg-type]
    pl.concat([own, other]).write_csv(tmp_path / VARIANTS_FILE)
    (finding,) = distribution_findings(tmp_path)
    assert finding.headline.endswith("without ranking worse, or not training, on another data set.")
    (row,) = finding.rows
    above_affine = row[finding.header.index("above affine")]
    assert above_affine == "1"


def test_without_variants_there_is_no_finding(tmp_path: Path) -> None:
    table, findings = found(tmp_path, world({}, ()))
    assert table.is_empty()
    assert findings == []


def test_the_slope_at_the_start_is_that_of_the_smooth_distribution() -> None:
    """The thesis' gain flattens nDCG on long lists; at ties the slope is algorithm 2's."""
    for loss, bound, gain in (("nDCG", "distribution", "distinct"), ("nDCG", SD, "sd"), ("AP", SD, "sd")):
        slopes = dict(zip(SIZES, slopes_at_the_start(loss, bound), strict=True))
        n, p = 36, 12
        distribution = rb.score_distribution(loss, n=n, p=p, method="exact")
        relevance = torch.tensor([1] * p + [0] * (n - p))
        value = -float(rb.SmoothLoss(loss)(torch.zeros(n, dtype=torch.float64), relevance, [0, n]))
        step = 1e-5
        below, above = distribution.smooth_cdf(np.array([value - step, value + step]), gain=gain)
        by_hand = (above - below) / (2 * step) * (distribution.maximum - distribution.minimum)
        assert slopes[n] == pytest.approx(by_hand, rel=1e-3)
    thesis, other = slopes_at_the_start("nDCG", "distribution"), slopes_at_the_start("nDCG", SD)
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


def test_norms_are_shares_of_the_largest_one(tmp_path: Path) -> None:
    norms = gradient_norms(StudyFiles(epochs=epochs_file(tmp_path)))
    shares = norms.sort("bounding", "epoch").select("bounding", "epoch", "share").rows()
    assert shares == [("distribution", 1, 0.001), ("distribution", 2, 1.0), ("none", 1, 0.25), ("none", 2, 1.0)]


def test_the_figure_is_drawn_with_and_without_epochs(tmp_path: Path) -> None:
    # All losses at the start; with epochs, those that ran, in two rows.
    for files, panels in ((StudyFiles(), 3), (StudyFiles(epochs=epochs_file(tmp_path)), 2)):
        figure = draw("figure_gradients", files)
        assert len(figure.axes) == panels
        (legend,) = figure.legends
        assert (
            {SD, "distribution"}
            <= {text.get_text() for text in legend.get_texts()}
            <= {"unbounded", *BOUNDS} | {"min-max, at the start"}
        )
