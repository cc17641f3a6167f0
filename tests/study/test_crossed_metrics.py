"""Losses judged by other metrics than their own: what is planted is what is found, and nothing else."""

from pathlib import Path

import polars as pl
import pytest

from rankbound_study.claims.comparisons import JUDGED, METRIC_COLUMNS, TRAINED_FOR, metrics_crossed
from rankbound_study.cli import main
from rankbound_study.report.findings import crossed_findings
from rankbound_study.vocabulary import LOSSES
from tests.study.planted import Lists, Made, Study, evidence_of, of_bounded, study

__all__ = ["evidence_of"]

QUIET = Study(wobble=0.0005, spread=0.02, ratios=(1,))
GAIN = 0.03


def ap_serves_ndcg(lists: Lists) -> float:
    """A plant: on MovieLens, the AP loss ranks better by nDCG than the nDCG loss."""
    return GAIN * (lists.loss == "AP" and lists.metric == "nDCG" and lists.nsr is not None)


PLANTED = study(ap_serves_ndcg, of_bounded(0.005, bounding="expectation"), of=QUIET)


@pytest.fixture(scope="module")
def planted(evidence_of: Made) -> pl.DataFrame:
    return metrics_crossed(evidence_of(PLANTED))


def significant(table: pl.DataFrame) -> pl.DataFrame:
    return table.filter(pl.col("p_holm") <= 0.05)


def test_a_planted_difference_is_found_and_it_alone(planted: pl.DataFrame) -> None:
    found = significant(planted)
    assert found.select("dataset", "loss", "metric", "bounded").rows() == [
        ("movielens", "AP", "nDCG", False),
        ("movielens", "AP", "nDCG", True),
    ]
    for row in found.iter_rows(named=True):
        assert row["low"] < GAIN < row["high"]
        assert row["difference"] == pytest.approx(GAIN, abs=0.005)
        assert row["reference"] == "nDCG"


def test_without_a_difference_none_is_found(evidence_of: Made) -> None:
    table = metrics_crossed(evidence_of(QUIET))
    assert significant(table).is_empty()
    assert table["p_holm"].count() == table["difference"].count() > 0


def test_every_loss_has_every_metric_and_no_difference_from_itself(planted: pl.DataFrame) -> None:
    assert planted.select("bounded", "loss", "metric").unique().height == 2 * len(LOSSES) * len(JUDGED)
    itself = pl.col("loss") == pl.col("reference")
    assert planted.filter(itself)["difference"].is_null().all()
    assert planted.filter(~itself)["difference"].is_not_null().all()
    assert planted["score"].is_between(0, 1).all()


def test_the_validation_part_picks_the_bounding(planted: pl.DataFrame) -> None:
    bounded = planted.filter("bounded")
    assert set(bounded["bounding"]) == {"expectation"}
    assert set(planted.filter(~pl.col("bounded"))["bounding"]) == {"none"}


def test_differences_are_those_of_the_means_of_topics(evidence_of: Made, planted: pl.DataFrame) -> None:
    runs = evidence_of(PLANTED).runs
    assert runs is not None
    rows = pl.read_parquet(runs).filter(dataset="mq2008-label1", bounding="none")
    means = {loss: rows.filter(loss=loss)["P@10"].mean() for loss in LOSSES}
    for loss in ("AP", "nRBP"):
        row = planted.filter(dataset="mq2008-label1", bounded=False, loss=loss, metric="P@10").row(0, named=True)
        assert row["score"] == pytest.approx(means[loss])
        assert row["difference"] == pytest.approx(means[loss] - means["nDCG"])  # type: ignore[operator]


def test_table_and_finding_say_what_was_planted(evidence_of: Made, tmp_path: Path) -> None:
    evidence = evidence_of(PLANTED)
    files = ["--runs", str(evidence.runs), "--epochs", str(evidence.epochs), "--out-dir", str(tmp_path)]
    assert not main(["table", "table_metrics_crossed", *files])
    assert len(pl.read_csv(tmp_path / "table_metrics_crossed.csv", schema=METRIC_COLUMNS)) == 2 * 2 * 3 * len(JUDGED)
    lines = (tmp_path / "table_metrics_crossed.md").read_text("utf-8").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    (raised,) = [line for line in lines if line.startswith("| MovieLens NSR 1 | AP | unbounded")]
    assert raised.split(" | ")[3].endswith("▲")
    assert raised.count("**") == 2, "the score of its own metric is in bold"
    (finding,) = crossed_findings(tmp_path)
    pairs = sum(loss != trained for loss in LOSSES for trained in TRAINED_FOR.values())
    assert f"higher than the loss trained for it in 2 of {2 * 2 * pairs} comparisons" in finding.headline
    assert "lower in 0" in finding.headline


def test_without_the_table_there_is_no_finding(tmp_path: Path) -> None:
    assert list(crossed_findings(tmp_path)) == []
