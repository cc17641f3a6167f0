"""What a check does not vouch for: results of another configuration than the recorded one, and files out of sight."""

import json
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from recorded_study import CONFIG, MANIFEST, RUN, job, make_study, recording
from test_hostile_results import edit

from rankbound_study.cli import main
from rankbound_study.provenance.manifest import known_of
from rankbound_study.provenance.requested import contradictions
from rankbound_study.provenance.verify import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_study(tmp_path_factory.mktemp("study"))


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "study"))


def configure(study: Path, config: dict[str, Any]) -> None:
    """Make the manifest again with this configuration, as its own step does."""
    with recording(study):
        assert main([*MANIFEST[:-1], json.dumps(config)]) == 0


def findings(study: Path, config: dict[str, Any]) -> dict[str, tuple[str, str]]:
    found = verify(study / "results", config).findings
    return {finding.subject: (finding.kind, finding.text) for finding in found if finding.kind != "code"}


def test_what_the_configuration_requests_was_trained(study: Path) -> None:
    configure(study, CONFIG)
    assert findings(study, CONFIG) == {}
    assert list(contradictions(known_of(study / "results"))) == []


def test_a_manifest_made_again_with_another_budget_vouches_for_nothing(study: Path) -> None:
    edited = deepcopy(CONFIG)
    edited["training"]["synthetic-mq2008"]["epochs"] = 2000
    configure(study, edited)
    kind, text = findings(study, edited)[f"{RUN}.epochs.parquet"]
    assert kind == "config"
    assert text == "not made as the recorded configuration requests: epochs 2 instead of 2000"
    configure(study, CONFIG)
    with recording(study):
        assert main(job(epochs=1)) == 0
    assert "epochs 1 instead of 2" in findings(study, CONFIG)[f"{RUN}.epochs.parquet"][1]


def test_a_table_of_another_protocol_or_study_is_found(study: Path) -> None:
    configure(study, CONFIG)

    def other_protocol(manifest: dict[str, Any]) -> None:
        (table,) = (step for step in manifest["steps"] if step["subcommand"] == "table")
        table["arguments"]["options"] = {"protocol": "honest", "study": "other"}

    edit(study, other_protocol)
    kind, text = findings(study, CONFIG)["tables/table_2_2.csv"]
    assert kind == "config"
    assert text.endswith("protocol honest instead of published, study other instead of tiny")


@pytest.mark.parametrize("name", ["tables", "figures", "runs/published"])
def test_a_folder_of_records_hides_no_new_result(study: Path, name: str) -> None:
    (study / "results" / name / "provenance").mkdir(parents=True)
    (study / "results" / name / "new.csv").touch()
    (study / "results" / name / "provenance.json").touch()
    found = findings(study, CONFIG)
    assert found[f"{name}/new.csv"] == ("unknown", "no step made it")
    # Another study's results beside these are not these.
    (study / "results/demo/provenance").mkdir(parents=True)
    (study / "results/demo/runs.parquet").touch()
    assert "demo/runs.parquet" not in findings(study, CONFIG)


def hidden_file(results: Path) -> str:
    (results / "tables/.more.csv").touch()
    return "tables/.more.csv"


def hidden_folder(results: Path) -> str:
    (results / ".more").mkdir()
    (results / ".more/a.csv").touch()
    return ".more"


def unfinished(results: Path) -> str:
    (results / "runs/x.shards").mkdir()
    (results / "runs/x.shards/a.parquet").touch()
    return "runs/x.shards"


@pytest.mark.parametrize("hide", [hidden_file, hidden_folder, unfinished])
def test_hidden_files_are_an_open_question(
    study: Path, hide: Callable[[Path], str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = hide(study / "results")
    (study / "results/tables/.gitignore").touch()
    (study / "results/.gitkeep").touch()
    found = findings(study, CONFIG)
    assert found == {path: ("unchecked", "hidden, or left by a training that was ended: no result")}
    assert main(["verify", str(study / "results")]) == 0
    assert f"unchecked  {path}: hidden" in capsys.readouterr().out
    assert main(["verify", str(study / "results"), "--strict"]) == 1
