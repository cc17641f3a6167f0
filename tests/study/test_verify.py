"""The step `verify`: its report of a results folder, here or copied, and the comparison of two of them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from recorded_study import CONFIG, LISTS, MANIFEST, RUN, STEPS, recording
from synthetic_runs import write_runs

from rankbound.errors import DataError
from rankbound_study.cli import main
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.provenance.verify import compare, verify

Told = Callable[..., str]


def verified(told: Told, folder: Path, *arguments: str, status: int) -> str:
    """Return what `python -m rankbound_study verify` prints in a folder."""
    with recording(folder, records=""):
        return told("verify", *arguments, status=status)


def test_the_report_of_an_untouched_folder_of_a_difference_and_of_other_code(
    study: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    (study / "config.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    text = verified(told, study, "--strict", status=0)
    for line in ("files   7 as recorded", "inputs  3 as recorded", "config  as recorded", "nothing differs"):
        assert line in text
    (study / "results/tables/table_9_9.csv").write_text("a\n1\n")
    text = verified(told, study, status=1)
    assert "unknown    tables/table_9_9.csv: no step made it" in text
    assert "1 difference from what was recorded" in text
    report = json.loads(verified(told, study, "--json", status=1))
    assert report["holds"] is False
    assert report["as_recorded"] == {"files": 7, "inputs": 3, "steps": len(STEPS) + 2}
    assert [(one["kind"], one["subject"]) for one in report["findings"]] == [("unknown", "tables/table_9_9.csv")]
    (study / "results/tables/table_9_9.csv").unlink()
    other = yaml.safe_dump(CONFIG | {"temperature": 2.0, "mirror": "x"})
    (study / "other.yaml").write_text(other, "utf-8")
    text = verified(told, study, "--config", "other.yaml", status=1)
    assert "config  differs in 1 key" in text
    assert "temperature: found 2.0, recorded 1.0" in text
    monkeypatch.setattr("rankbound_study.provenance.verify.file_here", lambda path: "0" * 64)
    changed = f"code       rankbound/_version.py: has changed since {len(STEPS) + 2} steps loaded it"
    assert changed in verified(told, study, status=0)
    verified(told, study, "--strict", status=1)
    # Without --config, config.yaml counts only if it is the configuration of this folder.
    elsewhere = CONFIG | {"study": "elsewhere", "pathvars": {"results": "results/elsewhere"}}
    (study / "config.yaml").write_text(yaml.safe_dump(elsewhere), "utf-8")
    assert "config  not checked" in verified(told, study, status=0)


def test_a_copied_folder_is_checked_as_far_as_possible(study: Path, tmp_path: Path, told: Told) -> None:
    shutil.copytree(study / "results", tmp_path / "copied")
    text = verified(told, tmp_path, "copied", status=0)
    assert "files   7 as recorded" in text
    assert f"unchecked  ../{LISTS}: not here" in text
    assert "3 differences" in verified(told, tmp_path, "copied", "--strict", status=1)
    (tmp_path / "copied/tables/table_2_2.csv").write_text("changed")
    verified(told, tmp_path, "copied", status=1)


def test_the_manifest_or_the_records_alone_are_enough_but_a_configuration_has_to_be_whole(study: Path) -> None:
    """As after `dvc pull`, where the records stayed where they ran; and before the manifest is made."""

    def findings(config: dict[str, Any] | None = None) -> list[tuple[str, str]]:
        return [(one.kind, one.subject) for one in verify(study / "results", config).findings]

    shutil.move(study / "results/provenance", study.parent / "records")
    assert findings(CONFIG) == []
    shutil.move(study.parent / "records", study / "results/provenance")
    with recording(study):
        assert main([*MANIFEST[:-1], json.dumps(CONFIG | {"seeds": {}})]) == 0
    assert findings() == [("unchecked", "options of steps")]
    for name in ("provenance.json", "provenance/provenance.json.json"):
        (study / "results" / name).unlink()
    assert findings() == []
    assert findings(CONFIG) == [("unchecked", "configuration")]
    run = study / f"results/{RUN}.parquet"
    run.write_bytes(run.read_bytes()[:-1])
    assert findings() == [("changed", f"{RUN}.parquet")]


def test_a_folder_without_provenance_is_an_error(tmp_path: Path, told: Told) -> None:
    (tmp_path / "runs.parquet").touch()
    assert "no provenance: expected provenance.json" in told("verify", tmp_path, status=2)


# Two folders


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two results folders with the same runs and a table."""
    for name in ("here", "there"):
        write_runs(tmp_path / name / "runs.parquet", sets=(("movielens", 1),), topics=8, folds=2)
        (tmp_path / name / "tables").mkdir()
        (tmp_path / name / "tables/a.csv").write_text("a\n1\n")
    return tmp_path / "here", tmp_path / "there"


def change_runs(path: Path, change: Callable[[pl.DataFrame], pl.DataFrame]) -> None:
    write_table(change(pl.DataFrame(read_table(path, "runs"))).to_arrow(), path, "runs")


def test_equal_folders_have_the_same_bytes_apart_from_the_paper(pair: tuple[Path, Path]) -> None:
    for folder in pair:
        (folder / "paper").mkdir()
        (folder / "paper/index.html").write_text(str(folder))
    found = compare(*pair)
    assert (set(found.same), found.metrics) == ({"runs.parquet", "tables/a.csv"}, ())
    assert found.holds(None)
    assert found.holds(0.0)


def test_means_within_the_tolerance_hold(pair: tuple[Path, Path]) -> None:
    """One topic of one fold differs by 0.08: the mean over 8 topics in 2 folds by 0.08 / 16."""
    here, there = pair
    one = (pl.col("loss") == "AP") & (pl.col("bounding") == "none") & (pl.col("fold") == 1) & (pl.col("topic") == "3")
    change_runs(
        there / "runs.parquet", lambda runs: runs.with_columns(AP=pl.col("AP") + pl.when(one).then(0.08).otherwise(0.0))
    )
    found = compare(here, there)
    assert found.different == ("runs.parquet",)
    by_name = {metric.metric: metric for metric in found.metrics}
    assert by_name["AP"].topic == pytest.approx(0.08)
    assert by_name["AP"].mean == pytest.approx(0.005)
    assert "AP none" in by_name["AP"].where
    assert by_name["nDCG"].topic == by_name["nDCG"].mean == 0.0
    assert [found.holds(bound) for bound in (None, 0.0049, 0.0051)] == [False, False, True]
    assert main(["verify", str(here), "--against", str(there), "--tolerance", "0.02"]) == 0
    assert main(["verify", str(here), "--against", str(there), "--tolerance", "0.001", "--json"]) == 1
    for flags in (
        *([f"--tolerance={value}", f"--against={there}"] for value in ("nan", "-1", "inf")),
        ["--tolerance=1"],
    ):
        assert main(["verify", str(here), *flags]) == 2, "a number of at least zero beside another folder"


def test_order_of_rows_and_picked_epochs_are_no_difference_of_scores(pair: tuple[Path, Path]) -> None:
    here, there = pair
    change_runs(
        there / "runs.parquet",
        lambda runs: runs.reverse().with_columns(epoch=pl.col("epoch") + (pl.col("loss") == "AP")),
    )
    found = compare(here, there)
    assert found.holds(0.0)
    assert found.other_epochs == len(
        pl.read_parquet(here / "runs.parquet").filter(pl.col("loss") == "AP").unique(["bounding", "fold", "selection"])
    )


def test_undefined_scores_files_of_one_folder_and_other_topics_are_differences(pair: tuple[Path, Path]) -> None:
    here, there = pair
    change_runs(there / "runs.parquet", lambda runs: runs.with_columns(AP=pl.lit(float("nan"))))
    assert not compare(here, there).holds(0.5)
    change_runs(there / "runs.parquet", lambda runs: runs.filter(pl.col("topic") != "3"))
    with pytest.raises(DataError, match="made with the same configuration"):
        compare(here, there)
    shutil.copy(here / "runs.parquet", there / "runs.parquet")
    (there / "tables/a.csv").unlink()
    found = compare(here, there)
    assert found.only_here == ("tables/a.csv",)
    assert not found.holds(1.0)


def test_single_runs_are_compared_where_they_were_not_collected(study: Path, tmp_path: Path) -> None:
    shutil.copytree(study / "results", tmp_path / "results")
    change_runs(tmp_path / f"results/{RUN}.parquet", lambda runs: runs.with_columns(AP=pl.col("AP") / 2))
    found = compare(study / "results", tmp_path / "results")
    assert found.different == (f"{RUN}.parquet",)
    assert {metric.metric for metric in found.metrics if metric.mean} == {"AP"}
