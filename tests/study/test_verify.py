"""The step `verify`: finds every change of a results folder, here or copied, and compares two of them."""

import json
import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from recorded_study import CONFIG, LISTS, MANIFEST, RUN, STEPS, job, make_study, recording
from synthetic_runs import write_runs

from rankbound.errors import DataError
from rankbound_study.cli import main
from rankbound_study.data.contracts import read_table, write_table
from rankbound_study.provenance.verify import compare, verify


@pytest.fixture(scope="module", autouse=True)
def same_code() -> Iterator[None]:
    """Someone may edit the package while its tests run; that is not what they are about."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rankbound_study.provenance.facts._digest", lambda folder: "1" * 64)
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study"))
    (folder / "config.yaml").write_text(yaml.safe_dump(CONFIG), "utf-8")
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "study"))


def verified(folder: Path, *arguments: str, status: int) -> str:
    """Return the output of `python -m rankbound_study verify` in `folder`; the exit status must be `status`."""
    with recording(folder, records=""), pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("builtins.print", lambda *texts, **_: lines.append(" ".join(map(str, texts))))
        assert main(["verify", *arguments]) == status, "\n".join(lines)
    return "\n".join(lines)


def findings(study: Path, config: dict[str, Any] | None = None) -> set[tuple[str, str]]:
    return {(finding.kind, finding.subject) for finding in verify(study / "results", config).findings}


def test_an_untouched_folder_is_as_recorded(study: Path) -> None:
    text = verified(study, status=0)
    assert "files   7 as recorded" in text
    assert "inputs  3 as recorded" in text
    assert "config  as recorded" in text
    assert "nothing differs" in text
    verified(study, "--strict", status=0)


def add(study: Path) -> None:
    (study / "results/tables/table_9_9.csv").write_text("a\n1\n")


def test_a_difference_is_a_line_of_the_report_and_one_of_its_json(study: Path) -> None:
    add(study)
    text = verified(study, status=1)
    assert "unknown    tables/table_9_9.csv: no step made it" in text
    assert "1 difference from what was recorded" in text
    report = json.loads(verified(study, "--json", status=1))
    assert report["holds"] is False
    assert report["as_recorded"] == {"files": 7, "inputs": 3, "steps": len(STEPS) + 2}
    assert [(one["kind"], one["subject"]) for one in report["findings"]] == [("unknown", "tables/table_9_9.csv")]


def test_the_configuration_is_compared_key_by_key(study: Path) -> None:
    changed = deepcopy(CONFIG) | {"mirror": "/elsewhere", "extra": 1}
    changed["training"]["synthetic-mq2008"]["epochs"] = 3
    assert findings(study, changed) == {("config", "training.synthetic-mq2008.epochs"), ("config", "extra")}
    (study / "other.yaml").write_text(yaml.safe_dump(changed), "utf-8")
    text = verified(study, "--config", "other.yaml", status=1)
    assert "training.synthetic-mq2008.epochs: found 3, recorded 2" in text
    # Without --config, config.yaml counts only if it is the configuration of this folder.
    elsewhere = CONFIG | {"study": "elsewhere", "pathvars": {"results": "results/elsewhere"}}
    (study / "config.yaml").write_text(yaml.safe_dump(elsewhere), "utf-8")
    assert "config  not checked" in verified(study, status=0)


def test_a_configuration_that_is_not_whole_is_an_open_question(study: Path) -> None:
    """Of another version, say: nothing says which options it requests."""
    with recording(study):
        assert main([*MANIFEST[:-1], json.dumps(CONFIG | {"seeds": {}})]) == 0
    assert findings(study) == {("unchecked", "options of steps")}


def test_a_copied_folder_is_checked_as_far_as_possible(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "results", tmp_path / "copied")
    text = verified(tmp_path, "copied", status=0)
    assert "files   7 as recorded" in text
    assert f"unchecked  ../{LISTS}: not here" in text
    assert "3 differences" in verified(tmp_path, "copied", "--strict", status=1)
    (tmp_path / "copied/tables/table_2_2.csv").write_text("changed")
    verified(tmp_path, "copied", status=1)


def test_the_manifest_or_the_records_alone_are_enough(study: Path) -> None:
    """As after `dvc pull`, where the records stayed where they ran; and before the manifest is made."""
    kept, run = study.parent / "records", study / f"results/{RUN}.parquet"
    shutil.move(study / "results/provenance", kept)
    (study / "results/paper").mkdir()
    (study / "results/paper/index.html").touch()
    assert findings(study, CONFIG) == {("unchecked", "paper/index.html")}
    shutil.move(kept, study / "results/provenance")
    for name in ("provenance.json", "provenance/provenance.json.json", "paper/index.html"):
        (study / "results" / name).unlink()
    assert findings(study) == set()
    assert findings(study, CONFIG) == {("unchecked", "configuration")}
    run.write_bytes(run.read_bytes()[:-1])
    assert findings(study) == {("changed", f"{RUN}.parquet")}


def test_files_made_without_a_record_are_an_open_question(study: Path) -> None:
    table = study / "results/tables/table_2_2.csv"
    table.write_text(table.read_text("utf-8") + "more\n", "utf-8")
    with recording(study):
        assert main(MANIFEST) == 2
        (study / "results/provenance/tables/table_2_2.csv.json").unlink()
        assert main(MANIFEST) == 0
    assert findings(study) == {("unrecorded", "tables/table_2_2.csv")}
    verified(study, status=0)
    verified(study, "--strict", status=1)


def test_other_code_is_an_open_question(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankbound_study.provenance.facts._digest", lambda folder: "0" * 64)
    assert {kind for kind, _ in findings(study)} == {"code"}
    assert f"another package than the installed one made {len(STEPS) + 2} steps" in verified(study, status=0)
    verified(study, "--strict", status=1)


def test_a_folder_without_provenance_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.parquet").touch()
    assert main(["verify", str(tmp_path)]) == 2
    assert "no provenance: expected provenance.json" in capsys.readouterr().err


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
    frame = pl.from_arrow(read_table(path, "runs"))
    assert isinstance(frame, pl.DataFrame)
    write_table(change(frame).to_arrow(), path, "runs")


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
    assert not found.holds(None)
    assert not found.holds(0.0049)
    assert found.holds(0.0051)
    assert main(["verify", str(here), "--against", str(there), "--tolerance", "0.02"]) == 0
    assert main(["verify", str(here), "--against", str(there), "--tolerance", "0.001", "--json"]) == 1


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


@pytest.mark.parametrize(
    "flags", [[f"--tolerance={value}", "--against"] for value in ("nan", "-1", "inf")] + [["--tolerance=1"]]
)
def test_a_tolerance_is_a_number_of_at_least_zero_beside_another_folder(
    pair: tuple[Path, Path], flags: list[str]
) -> None:
    assert main(["verify", str(pair[0]), *flags, *([str(pair[1])] if flags[-1] == "--against" else [])]) == 2


def test_single_runs_are_compared_where_they_were_not_collected(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "results", tmp_path / "results")
    with recording(made, records=""):
        assert main(job(str(tmp_path / f"results/{RUN}.parquet"))) == 0
    change_runs(tmp_path / f"results/{RUN}.parquet", lambda runs: runs.with_columns(AP=pl.col("AP") / 2))
    found = compare(made / "results", tmp_path / "results")
    assert found.different == (f"{RUN}.parquet",)
    assert {metric.metric for metric in found.metrics if metric.mean} == {"AP"}
