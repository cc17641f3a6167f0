"""The step `verify`: its report of a results folder, here or copied."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded_study import CONFIG, LISTS, MANIFEST, RUN, STEPS, recording

from rankbound_study.cli import main
from rankbound_study.provenance.verify import verify

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


def test_the_manifest_is_enough_but_a_configuration_has_to_be_whole(study: Path) -> None:
    """As after `dvc pull`, where the records stayed where they ran."""

    def findings(config: dict[str, Any] | None = None) -> list[tuple[str, str]]:
        return [(one.kind, one.subject) for one in verify(study / "results", config).findings]

    shutil.move(study / "results/provenance", study.parent / "records")
    assert findings(CONFIG) == []
    shutil.move(study.parent / "records", study / "results/provenance")
    with recording(study):
        assert main([*MANIFEST[:-1], json.dumps(CONFIG | {"seeds": {}})]) == 0
    assert findings() == [("unchecked", "options of steps")]
    with recording(study):
        assert main(MANIFEST[:-2]) == 0
    assert findings() == []
    assert findings(CONFIG) == [("unchecked", "configuration")]
    run = study / f"results/{RUN}.parquet"
    run.write_bytes(run.read_bytes()[:-1])
    assert findings() == [("changed", f"{RUN}.parquet")]


def test_a_folder_without_provenance_is_an_error(tmp_path: Path, told: Told) -> None:
    (tmp_path / "runs.parquet").touch()
    assert "no provenance: expected provenance.json" in told("verify", tmp_path, status=2)
