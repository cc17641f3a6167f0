"""Claims about other test lists, metrics and losses: what is planted is what is found."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_claims_experiments import FOLDS, MOVIELENS, MQ2008, SEEDS, evidence, key, of_list, rows, usual

from rankbound_study.claims import experiments
from rankbound_study.claims.evidence import Evidence
from rankbound_study.claims.experiments import FIRST, SPREAD
from rankbound_study.claims.registry import verdict_on
from rankbound_study.claims.verdict import CONFIRMED, INCONCLUSIVE, REFUTED, MissingEvidence, Verdict

TOPICS = 16
BOUNDS = ("none", "min-max", "expectation", "expectation-max", "distribution")
JUDGES = {"nDCG": "nDCG", "AP": "AP", "nRBP": "nRBP(p=0.95)"}

Gain = Callable[[str, str], float]
"""What bounding changes, by loss and metric."""


def nothing(loss: str, metric: str) -> float:
    return 0.0


def everywhere(by: float) -> Gain:
    return lambda loss, metric: by


def on_own_metric(by: float, on_others: float) -> Gain:
    return lambda loss, metric: by if metric == JUDGES[loss] else on_others


def bounded(
    cell: tuple[str, int | None], gain: Gain, variant: str = "", bounds: tuple[str, ...] = BOUNDS, noise: float = 0.004
) -> Iterator[dict[str, Any]]:
    """Runs in which all bounded losses differ from the unbounded one by what is planted, on every metric."""
    for loss in JUDGES:
        for bounding in bounds:
            for seed in SEEDS:
                chance = np.random.default_rng([seed, len(loss), len(bounding), len(variant), cell[1] or 0])
                wobble = np.random.default_rng([seed, len(loss), len(variant)]).normal(0, 0.02)
                for topic in range(TOPICS):
                    for fold in FOLDS if cell[1] else (FOLDS[topic % 2],):
                        row = {**key(cell, variant, loss, bounding, fold, seed), **of_list(str(topic), 0.6)}
                        own = 0.6 + 0.05 * np.sin(topic) + wobble
                        for metric in JUDGES.values():
                            changed = gain(loss, metric) if bounding != "none" else 0.0
                            row[metric] = float(own + changed + chance.normal(0, noise))
                        yield {**row, "nsr_train": 3 if variant else cell[1]}


def few(cell: tuple[str, int | None]) -> list[dict[str, Any]]:
    """Runs of the study that only say which columns there are."""
    return list(rows(cell, usual, losses=("AP",), bounds=("none",), seeds=(0,)))


class TestCrossed:
    def decided(self, folder: Path, own: Gain, trained_higher: Gain, noise: float = 0.004) -> Verdict:
        runs = [*bounded(MOVIELENS, own, noise=noise), *bounded(MQ2008, own, noise=noise)]
        varied = bounded(MOVIELENS, trained_higher, "ratios-at2", ("none", "distribution"), noise)
        return verdict_on("T49", evidence(folder, runs, list(varied)))

    def test_verdicts_that_turn_on_both_sides_confirm(self, tmp_path: Path) -> None:
        found = self.decided(tmp_path, on_own_metric(0.05, -0.05), everywhere(-0.05))
        assert found.verdict == CONFIRMED
        assert "3 of 3 verdicts" in found.reason
        assert "40 of 40 differences have significantly opposite signs" in found.reason

    def test_the_same_verdicts_everywhere_refute(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, everywhere(0.05), everywhere(0.05)).verdict == REFUTED

    def test_differences_inside_the_noise_are_no_other_verdicts(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, everywhere(0.002), everywhere(-0.002)).verdict == REFUTED

    def test_a_difference_within_the_margin_of_one_metric_alone_is_no_other_verdict(self, tmp_path: Path) -> None:
        """Effects are the same, and significant, on all metrics; seeds differ on the own metric alone."""
        assert self.decided(tmp_path, on_own_metric(0.05, 0.004), everywhere(-0.05)).verdict == INCONCLUSIVE

    def test_one_side_alone_is_not_enough(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, everywhere(0.05), everywhere(-0.05)).verdict == REFUTED
        assert self.decided(tmp_path, on_own_metric(0.05, -0.05), on_own_metric(0.05, -0.05)).verdict == REFUTED

    def test_lists_that_lost_what_was_seen_do_not_count(self, tmp_path: Path) -> None:
        def shorter(row: dict[str, Any]) -> dict[str, Any]:
            lost = int(row["topic"]) % 2 and row["bounding"] != "none"
            changed = {metric: row[metric] - 0.2 for metric in JUDGES.values()} if lost else {}
            return {**row, **changed, "n": row["n"] - int(row["topic"]) % 2}

        runs = [*bounded(MOVIELENS, everywhere(0.05)), *bounded(MQ2008, everywhere(0.05))]
        varied = [shorter(row) for row in bounded(MOVIELENS, everywhere(0.05), "ratios-at2", ("none", "distribution"))]
        assert verdict_on("T49", evidence(tmp_path, runs, varied)).verdict == REFUTED
        none_left = [{**row, "n": row["n"] - 1} for row in varied if int(row["topic"]) % 2 == 0]
        with pytest.raises(MissingEvidence, match="lost negatives"):
            verdict_on("T49", evidence(tmp_path, runs, none_left))

    def test_noise_leaves_it_open(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, everywhere(0.01), nothing, noise=0.3).verdict == INCONCLUSIVE

    def test_without_the_experiment_it_is_said_to_be_missing(self, tmp_path: Path) -> None:
        runs = [*bounded(MOVIELENS, nothing), *bounded(MQ2008, nothing)]
        made = evidence(tmp_path, runs, list(rows(MOVIELENS, usual, "rates-low")))
        with pytest.raises(MissingEvidence, match="ratios"):
            verdict_on("T49", made)


def epochs_of(varied: list[dict[str, Any]], best: dict[str, str]) -> list[dict[str, Any]]:
    """Validation scores by which `best` names the variant that a loss is picked at."""
    keys = {(row["study"], row["loss"]): row for row in varied}
    names = list(key(MOVIELENS, "", "", "", 0, 0))
    return [
        {
            **{name: row[name] for name in names},
            "epoch": 1,
            "part": "validation",
            "mean_loss": 0.5,
            "gradient_norm": 1.0,
            **dict.fromkeys(("nDCG", "AP", "nRBP(p=0.95)"), 0.5),
            "RR": 0.9 if study.endswith(best.get(loss, "usual")) else 0.1,
        }
        for (study, loss), row in keys.items()
    ]


class TestOneRelevant:
    losses: tuple[str, ...] = ("softmax", "RankNet", "AP")

    def decided(self, folder: Path, level: Callable[[str, str], float], best: dict[str, str] | None = None) -> Verdict:
        varied = [
            row
            for name in ("usual", "low")
            for row in rows(
                MOVIELENS,
                lambda loss, bounding, name=name: level(loss, name),  # type: ignore[misc]
                f"one-relevant-{name}",
                losses=self.losses,
                bounds=("none",),
            )
        ]
        made = evidence(folder, few(MOVIELENS), varied, more=epochs_of(varied, best or {}))
        return verdict_on("M04", made)

    def test_a_softmax_that_ranks_better_or_alike_confirms(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, lambda loss, _: 0.6).verdict == CONFIRMED
        assert self.decided(tmp_path, lambda loss, _: 0.6 + 0.1 * (loss == "softmax")).verdict == CONFIRMED

    def test_one_loss_that_is_better_refutes(self, tmp_path: Path) -> None:
        found = self.decided(tmp_path, lambda loss, _: 0.6 + 0.05 * (loss == "AP"))
        assert found.verdict == REFUTED
        assert "lowest against AP" in found.reason

    def test_a_difference_at_the_margin_is_left_open(self, tmp_path: Path) -> None:
        assert self.decided(tmp_path, lambda loss, _: 0.6 + 0.01 * (loss == "AP")).verdict == INCONCLUSIVE

    def test_every_loss_stands_at_the_rate_that_validation_picks(self, tmp_path: Path) -> None:
        def level(loss: str, name: str) -> float:
            return 0.6 + 0.1 * (loss == "AP" and name == "low")

        assert self.decided(tmp_path, level).verdict == CONFIRMED
        assert self.decided(tmp_path, level, {"AP": "low"}).verdict == REFUTED

    def test_without_the_softmax_it_is_said_to_be_missing(self, tmp_path: Path) -> None:
        self.losses = ("RankNet", "AP")
        with pytest.raises(MissingEvidence, match="softmax"):
            self.decided(tmp_path, usual)


class TestWarp:
    def made(self, folder: Path, gain: float, noise: float = 0.0) -> Evidence:
        varied = [
            {**row, "P@10": row["P@10"] + 0.02 * row["seed"] + float(chance.normal(0, noise))}
            for cell in (MQ2008, MOVIELENS)
            for chance in [np.random.default_rng(5)]
            for row in rows(
                cell,
                lambda loss, _: 0.6 + gain * (loss == SPREAD),
                "warp-p10",
                losses=(FIRST, SPREAD),
                bounds=("none",),
            )
        ]
        return evidence(folder, [*few(MQ2008), *few(MOVIELENS)], varied)

    @pytest.mark.parametrize(
        ("gain", "noise", "expected"),
        [(0.05, 0.0, CONFIRMED), (-0.05, 0.0, REFUTED), (0.0, 0.0, REFUTED), (0.02, 0.5, INCONCLUSIVE)],
    )
    def test_what_is_planted_is_found(self, tmp_path: Path, gain: float, noise: float, expected: str) -> None:
        found = verdict_on("M03", self.made(tmp_path, gain, noise))
        assert found.verdict == expected
        assert "In 426 of 426 short lists" in found.reason

    def test_lists_that_all_have_ten_items_are_named(self, tmp_path: Path) -> None:
        varied = list(rows(MQ2008, lambda *_: 0.6, "warp-p10", losses=(FIRST, SPREAD), bounds=("none",)))
        short = evidence(tmp_path, few(MQ2008), [{**row, "n": 10} for row in varied])
        with pytest.raises(MissingEvidence, match="longer than 10"):
            verdict_on("M03", short)

    def test_a_penalty_that_is_no_error_of_the_top_refutes(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(experiments, "warp_rank", lambda scores, true: int((scores > scores[true]).sum()))
        assert verdict_on("M03", self.made(tmp_path, 0.05)).verdict == REFUTED

    def test_without_the_experiment_it_is_said_to_be_missing(self, tmp_path: Path) -> None:
        other = evidence(tmp_path, few(MQ2008), list(rows(MQ2008, usual, "widths-w6")))
        with pytest.raises(MissingEvidence, match="warp"):
            verdict_on("M03", other)
