"""The step `crate`: an RO-Crate with every file of a finished study, and for each the step that made it from what."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_study import CONFIG, INSTANCES, MANIFEST, RUN, STEPS, make_study, read, recording
from rocrate.rocrate import ROCrate

from rankbound_study.cli import main
from rankbound_study.provenance.checksums import Checksum, result_files

ROOT = Path(__file__).resolve().parents[2]
PICTURE = "licensed/figure.svg"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study, one of whose results shows pictures."""
    folder = make_study(tmp_path_factory.mktemp("study"))
    picture = folder / "results" / PICTURE
    picture.parent.mkdir()
    picture.write_text("<svg/>")
    with recording(folder):
        assert main(MANIFEST) == 0
    return folder


@pytest.fixture(scope="module")
def crate(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "crate"
    assert pack(made, out) == 0
    return out


def pack(study: Path, out: Path, *flags: str) -> int:
    with recording(study, records=""):
        return main(["crate", "results", "--out-dir", str(out), *flags])


def graph(crate: Path) -> dict[str, dict[str, Any]]:
    entities = read(crate / "ro-crate-metadata.json")["@graph"]
    assert len({entity["@id"] for entity in entities}) == len(entities)
    return {entity["@id"]: entity for entity in entities}


def ids(value: Any) -> set[str]:
    return {one["@id"] for one in (value if isinstance(value, list) else [value])}


def references(value: Any) -> Iterator[str]:
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict) and set(inner) == {"@id"}:
            yield inner["@id"]
        else:
            yield from references(inner)


def test_every_result_is_in_it_with_its_checksum(made: Path, crate: Path) -> None:
    entities, results = graph(crate), made / "results"
    packed = {path for path in result_files(results) if path != PICTURE}
    assert packed | {"provenance.json"} == {
        name.removeprefix("results/") for name in entities if name.startswith("results/")
    }
    for path in packed:
        assert (crate / "results" / path).read_bytes() == (results / path).read_bytes()
        entity, checksum = entities[f"results/{path}"], Checksum.of(results / path)
        assert (entity["sha256"], entity["contentSize"]) == (checksum.sha256, str(checksum.bytes))


def test_every_step_is_an_action_from_its_inputs_to_its_outputs(crate: Path, made: Path) -> None:
    entities = graph(crate)
    actions = [entity for entity in entities.values() if entity["@type"] == "CreateAction"]
    assert len(actions) == len(STEPS) + 2
    (job,) = [action for action in actions if action["name"].startswith("job: ")]
    assert f"results/{RUN}.parquet" in ids(job["result"])
    used = [entities[one] for one in ids(job["object"])]
    (instances,) = [one for one in used if one["name"] == f"../{INSTANCES}"]
    assert instances["description"] == "not in this crate"
    # What one step made and another read is one thing.
    (sample,) = [action for action in actions if action["name"].startswith("sample: ")]
    assert instances["@id"] in ids(sample["result"])
    (arguments,) = [json.loads(one["value"]) for one in used if one["name"] == "arguments"]
    assert arguments["options"]["loss"] == "nDCG"
    (program,) = ids(job["instrument"])
    assert entities[program]["name"] == "python -m rankbound_study job"
    assert entities[program]["sha256"] == read(made / f"results/provenance/{RUN}.parquet.json")["code"]["sha256"]


def test_workflow_environment_and_configuration_are_in_it(crate: Path) -> None:
    entities = graph(crate)
    main_file = entities["./"]["mainEntity"]["@id"]
    assert "ComputationalWorkflow" in entities[main_file]["@type"]
    for name in (main_file, "workflow/rules/train.smk", "envs/lock.txt", "pyproject.toml"):
        assert (crate / name).read_bytes() == (ROOT / name).read_bytes()
    assert read(crate / "config.json") == CONFIG
    assert len(ids(entities["./"]["conformsTo"])) == 3


def test_it_is_a_crate_that_the_library_reads_without_loose_ends(crate: Path) -> None:
    entities = graph(crate)
    loose = set(references(list(entities.values()))) - set(entities)
    assert all(name.startswith("https://") for name in loose), loose
    for entity in ROCrate(crate).data_entities:
        assert (crate / entity.id).is_file()


def test_the_same_results_give_the_same_bytes(made: Path, crate: Path, tmp_path: Path) -> None:
    assert pack(made, tmp_path / "again") == 0
    name = "ro-crate-metadata.json"
    assert (tmp_path / "again" / name).read_bytes() == (crate / name).read_bytes()


def test_licensed_pictures_are_named_only_unless_asked_for(made: Path, crate: Path, tmp_path: Path) -> None:
    assert not (crate / "results/licensed").exists()
    assert pack(made, tmp_path / "all", "--licensed") == 0
    assert (tmp_path / "all/results" / PICTURE).is_file()


def test_a_changed_result_is_refused(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = Path(shutil.copytree(made, tmp_path / "study"))
    (study / "results/tables/table_2_2.csv").write_text("other")
    assert pack(study, tmp_path / "out") == 2
    assert "tables/table_2_2.csv: made by table; its content has changed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_and_one_without_provenance_are_refused(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/file").touch()
    assert pack(study, tmp_path / "out") == 2
    assert "already exists" in capsys.readouterr().err
    shutil.rmtree(study / "results/provenance")
    (study / "results/provenance.json").unlink()
    assert pack(study, tmp_path / "new") == 2
    assert "no provenance" in capsys.readouterr().err
