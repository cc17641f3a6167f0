"""Claims that experiments decide: what is planted is what is found."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence
from rankbound_study.data.contracts import write_table
from rankbound_study.jobs.job import RUN_METRICS

LOSSES = ("nDCG", "AP", "nRBP")
BOUNDS = ("none", "min-max", "distribution")
TOPICS, FOLDS, SEEDS = 30, (1, 2), (0, 1, 2)
MOVIELENS, MQ2008 = ("movielens", 2), ("mq2008-label1", None)

Level = Callable[[str, str], float]
"""The mean score of a loss and a bounding."""


def usual(loss: str, bounding: str) -> float:
    return 0.7 + 0.02 * LOSSES.index(loss) + 0.005 * BOUNDS.index(bounding) if bounding in BOUNDS else 0.7


def raised(by: float) -> Level:
    return lambda loss, bounding: usual(loss, bounding) + by


def turned(loss: str, bounding: str) -> float:
    return 1.5 - usual(loss, bounding)


def rows(
    cell: tuple[str, int | None],
    level: Level,
    variant: str = "",
    losses: tuple[str, ...] = LOSSES,
    bounds: tuple[str, ...] = BOUNDS,
    seeds: tuple[int, ...] = SEEDS,
) -> Iterator[dict[str, Any]]:
    """Trainings of one variant: topics differ, trainings differ by chance."""
    for loss in losses:
        for bounding in bounds:
            for seed in seeds:
                chance = np.random.default_rng([seed, len(loss), len(bounding), len(variant)])
                for topic in range(TOPICS):
                    own = 0.05 * np.sin(topic)
                    for fold in FOLDS if cell[1] else (FOLDS[topic % 2],):
                        score = float(np.clip(level(loss, bounding) + own + chance.normal(0, 0.004), 0, 1))
                        yield {**key(cell, variant, loss, bounding, fold, seed), **of_list(str(topic), score)}


def key(cell: tuple[str, int | None], variant: str, loss: str, bounding: str, fold: int, seed: int) -> dict[str, Any]:
    return {
        "study": f"thesis@{variant}" if variant else "thesis",
        "protocol": "honest",
        "dataset": cell[0],
        "nsr_train": cell[1],
        "nsr_test": cell[1],
        "model": "model",
        "options": json.dumps(
            {"learning_rate": float(rate[1])} if (rate := re.search(r"-r([0-9.]+)$", variant)) else {}
        ),
        "loss": loss,
        "bounding": bounding,
        "fold": fold,
        "seed": seed,
    }


def of_list(topic: str, score: float) -> dict[str, Any]:
    sizes = {"selection": "validation", "topic": topic, "n": 20, "p": 5, "epoch": 3}
    return {**sizes, **dict.fromkeys(RUN_METRICS, score)}


def evidence(folder: Path, own: list[Any], varied: list[Any], epochs: list[Any] = (), more: list[Any] = ()) -> Evidence:  # type: ignore[assignment]
    """Files of the study's own runs and of its experiments."""
    paths = {}
    for name, kind, content in (
        ("runs", "runs", own),
        ("experiments", "runs", varied),
        ("epochs", "epochs", epochs),
        ("experiment_epochs", "epochs", more),
    ):
        if content:
            paths[name] = folder / f"{name}.parquet"
            write_table(pa.Table.from_pylist(list(content)), paths[name], kind)
    return Evidence("thesis", **paths)


def epoch(
    cell: tuple[str, int | None],
    variant: str,
    loss: str,
    bounding: str,
    score: float,
    norm: float,
    seed: int = 0,
) -> dict[str, Any]:
    measured = {"epoch": 1, "part": "validation", "mean_loss": 0.5, "gradient_norm": norm}
    scores = dict.fromkeys(("nDCG", "AP", "nRBP(p=0.95)"), score)
    return {**key(cell, variant, loss, bounding, 1, seed), **measured, **scores}


class TestFactors:
    def decided(self, folder: Path, small: Level, large: Level, **options: Any) -> str:
        varied = [*rows(MOVIELENS, small, "factors-f16", **options), *rows(MOVIELENS, large, "factors-f64", **options)]
        return verdict_on("T20", evidence(folder, list(rows(MOVIELENS, usual)), varied)).verdict

    def test_a_trend_without_another_order_confirms(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.05), raised(0.05)) == CONFIRMED

    def test_a_falling_trend_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(0.05), raised(-0.05)) == REFUTED

    def test_another_order_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.05), lambda *one: turned(*one) + 0.1) == REFUTED

    def test_a_size_that_did_not_run_leaves_it_open(self, tmp_path: Path) -> None:
        found = verdict_on(
            "T20", evidence(tmp_path, list(rows(MOVIELENS, usual)), list(rows(MOVIELENS, usual, "factors-f16")))
        )
        assert found.verdict == INCONCLUSIVE
        assert "2 of 3 sizes" in found.reason

    def test_one_seed_says_nothing_of_the_order(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.05), raised(0.05), seeds=(0,)) == INCONCLUSIVE

    def test_without_the_experiment_it_is_said_to_be_missing(self, tmp_path: Path) -> None:
        with pytest.raises(MissingEvidence, match="factors"):
            self.decided_without(tmp_path)

    def decided_without(self, folder: Path) -> str:
        varied = list(rows(MOVIELENS, usual, "rates-low"))
        return verdict_on("T20", evidence(folder, list(rows(MOVIELENS, usual)), varied)).verdict


class TestWidths:
    def decided(self, folder: Path, narrow: Level, wide: Level) -> str:
        only = {"bounds": ("none",)}
        varied = [*rows(MQ2008, narrow, "widths-w6", **only), *rows(MQ2008, wide, "widths-w92", **only)]  # type: ignore[arg-type]
        return verdict_on("T21", evidence(folder, list(rows(MQ2008, usual)), varied)).verdict

    def test_equal_scores_confirm(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, usual, raised(0.001)) == CONFIRMED

    def test_one_width_that_is_far_off_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.05), usual) == REFUTED

    def test_a_difference_at_the_margin_is_left_open(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.01), usual) == INCONCLUSIVE


class TestDescent:
    def decided(self, folder: Path, level: Level, *, rate: str, **of_lowest: Any) -> tuple[str, str]:
        """One of three rates is good, and validation shows it; with the lowest, only some losses may have trained."""
        own = [*rows(MOVIELENS, usual), *rows(MQ2008, usual)]
        varied: list[Any] = []
        more: list[Any] = []
        for cell, experiment in ((MOVIELENS, "sgd-movielens"), (MQ2008, "sgd-mq2008")):
            for name in ("r1", "r3", "r9"):
                good = name == rate
                only = of_lowest if name == "r1" else {}
                varied += rows(cell, level if good else raised(-0.3), f"{experiment}-{name}", **only)
                more += [
                    epoch(cell, f"{experiment}-{name}", loss, bounding, 0.8 if good else 0.4, 1.0)
                    for loss in LOSSES
                    for bounding in BOUNDS
                ]
        found = verdict_on("T22", evidence(folder, own, varied, more=more))
        return found.verdict, found.reason

    def test_better_everywhere_in_the_same_order_confirms(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(0.03), rate="r3")[0] == CONFIRMED

    @pytest.mark.parametrize("rate", ["r1", "r9"])
    def test_a_rate_at_the_end_of_the_grid_leaves_the_order_open(self, tmp_path: Path, rate: str) -> None:
        verdict, reason = self.decided(tmp_path, raised(0.03), rate=rate)
        assert verdict == INCONCLUSIVE
        assert "at an end of the grid for 9 of 9 on MovieLens" in reason

    def test_a_lowest_rate_with_which_most_did_not_train_changes_nothing(self, tmp_path: Path) -> None:
        verdict, reason = self.decided(tmp_path, raised(0.03), rate="r3", losses=("nDCG",), bounds=("none",))
        assert verdict == CONFIRMED
        assert "better than Adam in 18 of 18 distinct losses" in reason

    def test_worse_at_the_end_of_the_grid_refutes_nothing(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.03), rate="r9")[0] == INCONCLUSIVE

    def test_worse_everywhere_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, raised(-0.03), rate="r3")[0] == REFUTED

    def test_another_order_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, lambda *one: turned(*one) + 0.2, rate="r3")[0] == REFUTED


class TestVanishing:
    def decided(
        self, folder: Path, *, drop: float, gains: float, starts: float, drawn: float = 0.1, norm: float = 2.0
    ) -> tuple[str, str]:
        def study(loss: str, bounding: str) -> float:
            return 0.8 - (drop if bounding == "distribution" else 0.0)

        def other_gains(loss: str, bounding: str) -> float:
            return 0.8 - (gains if bounding == "distribution(gain=sd)" else drawn)

        def other_starts(loss: str, bounding: str) -> float:
            return 0.8 - (starts if bounding == "distribution" else 0.0)

        only = {"losses": ("nDCG",)}
        gain = {"bounds": ("distribution(gain=drawn)", "distribution(gain=sd)")}
        varied = [
            *rows(MOVIELENS, other_gains, "gains-other", **only, **gain),  # type: ignore[arg-type]
            *rows(MOVIELENS, other_starts, "starts-s50", **only, bounds=("none", "distribution")),  # type: ignore[arg-type]
        ]
        norms = [
            ("", "none", 2.0),
            ("", "distribution", 0.5),
            ("gains-other", "distribution(gain=drawn)", 0.5),
            ("gains-other", "distribution(gain=sd)", norm),
            ("starts-s50", "none", 1.0),
            ("starts-s50", "distribution", norm / 2),
        ]
        epochs = {
            varied: [
                epoch(MOVIELENS, variant, "nDCG", bounding, 0.5, size * (1 + 0.01 * seed), seed)
                for variant, bounding, size in norms
                for seed in SEEDS
                if bool(variant) == varied
            ]
            for varied in (False, True)
        }
        found = verdict_on("T27", evidence(folder, list(rows(MOVIELENS, study)), varied, epochs[False], epochs[True]))
        return found.verdict, found.reason

    def test_a_drop_that_goes_with_every_remedy_confirms(self, tmp_path: Path) -> None:
        verdict, reason = self.decided(tmp_path, drop=0.1, gains=0.0, starts=0.003)
        assert verdict == CONFIRMED
        assert "with the gain sd (gradient times 4)" in reason
        assert "gradient is not significantly larger: the gain drawn" in reason

    def test_a_drop_that_stays_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, drop=0.1, gains=0.1, starts=0.09)[0] == REFUTED

    def test_one_remedy_that_fails_refutes(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, drop=0.1, gains=0.0, starts=0.1)[0] == REFUTED

    def test_half_a_drop_that_stays_leaves_it_open(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, drop=0.1, gains=0.0, starts=0.05)[0] == INCONCLUSIVE

    def test_what_lifts_no_gradient_is_no_remedy(self, tmp_path: Path) -> None:
        verdict, reason = self.decided(tmp_path, drop=0.1, gains=0.1, starts=0.1, norm=0.5)
        assert verdict == INCONCLUSIVE
        assert "no remedy, as the gradient is not significantly larger" in reason

    def test_without_a_drop_there_is_nothing_to_explain(self, tmp_path: Path) -> None:
        verdict, reason = self.decided(tmp_path, drop=0.0, gains=0.0, starts=0.0)
        assert verdict == INCONCLUSIVE
        assert "no drop to explain" in reason
