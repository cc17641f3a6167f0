"""Finished folders, here or copied: their report, their crate, and those of strangers."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded_study import CONFIG, INSTANCES, LISTS, MANIFEST, RUN, STEPS, edit, make_study, read, recording
from rocrate.rocrate import ROCrate

from rankbound_study.cli import main
from rankbound_study.provenance.checksums import Checksum, Places, result_files
from rankbound_study.provenance.verify import verify
from tests.library.refusals import problems

Told = Callable[..., str]


def verified(told: Told, folder: Path, *arguments: str, status: int) -> str:
    """Return what `python -m rankbound_study verify` prints in a folder."""
    with recording(folder, records=""):
        return told("verify", *arguments, status=status)


def test_reports_of_untouched_and_changed_folders(study: Path, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
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
    (study / "rankbound").mkdir()
    (study / "rankbound/_version.py").touch()
    monkeypatch.setattr("rankbound_study.provenance.verify.SOURCES", study)
    changed = f"code       rankbound/_version.py: has changed since {len(STEPS) + 2} steps loaded it"
    assert changed in verified(told, study, status=0)
    verified(told, study, "--strict", status=1)
    # Without --config, config.yaml counts only if it is the configuration of this folder.
    elsewhere = CONFIG | {"study": "elsewhere", "pathvars": {"results": "results/elsewhere"}}
    (study / "config.yaml").write_text(yaml.safe_dump(elsewhere), "utf-8")
    assert "config  not checked" in verified(told, study, status=0)


def test_copied_folders_are_checked_as_far_as_provenance_goes(study: Path, told: Told, tmp_path: Path) -> None:
    shutil.copytree(study / "results", tmp_path / "copied")
    text = verified(told, tmp_path, "copied", status=0)
    assert "files   7 as recorded" in text
    assert f"unchecked  ../{LISTS}: not here" in text
    assert "3 differences" in verified(told, tmp_path, "copied", "--strict", status=1)
    (tmp_path / "copied/tables/table_2_2.csv").write_text("changed")
    verified(told, tmp_path, "copied", status=1)
    (tmp_path / "runs.parquet").touch()
    assert "no provenance: expected provenance.json" in told("verify", tmp_path, status=2)


def test_the_manifest_is_enough_but_a_configuration_has_to_be_whole(study: Path) -> None:
    """As after `dvc pull`, where the records stayed where they ran."""

    def findings(config: dict[Any, Any] | None = None) -> list[tuple[str, str]]:
        return [(one.kind, one.subject) for one in verify(study / "results", config).findings]

    shutil.move(study / "results/provenance", study.parent / "records")
    assert findings(CONFIG) == []
    assert findings({**CONFIG, 7: "a number"}) == [("config", "7")]
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


# A stranger's results: a check opens no file elsewhere, waits for no device, and prints no control character

TABLE, MANIFEST_FILE = "tables/table_2_2.csv", "results/provenance.json"
CHECKSUM = {"sha256": "0" * 64, "bytes": 6}


@pytest.fixture
def sent(study: Path) -> Path:
    """A recorded study without its records: the manifest is all that a reader gets."""
    shutil.rmtree(study / "results/provenance")
    (study.parent / "secret").write_text("secret")
    return study


@pytest.fixture(autouse=True)
def no_wait() -> Iterator[None]:
    """End a test that waits for a pipe."""

    def end(number: int, frame: object) -> None:
        raise TimeoutError("waited for a pipe or a device")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def findings(study: Path, config: dict[str, Any] | None = None) -> dict[str, tuple[str, str]]:
    found = verify(study / "results", config).findings
    return {finding.subject: (finding.kind, finding.text) for finding in found if finding.kind != "code"}


@pytest.mark.parametrize("path", ["../../secret", "../data/../../secret", "../data/link", "../data/folder/secret"])
def test_an_input_elsewhere_is_not_read(sent: Path, path: str) -> None:
    (sent / "data/link").symlink_to(sent.parent / "secret")
    (sent / "data/folder").symlink_to(sent.parent)
    edit(sent / MANIFEST_FILE, lambda manifest: manifest["steps"][-1]["inputs"].update({path: CHECKSUM}))
    expected = ("unchecked", "not read: no regular file, or outside of the results and data folders")
    assert findings(sent)[path] == expected


@pytest.mark.parametrize("path", ["{root}/secret", "tables/../../../secret", TABLE])
def test_a_result_elsewhere_is_missing(sent: Path, path: str) -> None:
    path = path.format(root=sent.parent)
    edit(
        sent / MANIFEST_FILE,
        lambda manifest: manifest["steps"][-1]["outputs"].update({path: CHECKSUM} if path != TABLE else {}),
    )
    table = sent / "results" / TABLE
    table.rename(sent.parent / "table.csv")
    table.symlink_to(sent.parent / "table.csv")
    (sent / "results/more").symlink_to(sent.parent)
    found = findings(sent)
    assert found[path][0] == "missing"
    assert "not read: no regular file, or outside" in found[path][1]
    assert found["more"] == ("unknown", "no step made it"), "a link to a folder hides nothing"


def test_a_data_folder_that_the_sender_names_is_read_only_beside_the_results(sent: Path) -> None:
    assert findings(sent, CONFIG) == {}, "an honest folder is still as recorded"
    edit(sent / MANIFEST_FILE, lambda manifest: manifest["config"]["pathvars"].update(data=str(sent.parent)))
    assert {f"../{LISTS}", f"../{INSTANCES}", "../data/folds/synthetic-mq2008.parquet"} <= findings(sent).keys()
    assert "pathvars.data" in findings(sent, CONFIG)


@pytest.mark.parametrize(("data", "results", "expected"), problems("data folders"))
def test_the_data_folder_is_where_both_are_below_one_folder(data: str, results: str, expected: str | None) -> None:
    config = {"pathvars": {"data": data, "results": results}}
    found = Places.of(Path("/study/results/demo"), config, trusted=False)
    assert found.data == (None if expected is None else Path(expected))
    # One's own configuration may name any.
    own = {"pathvars": {"data": "/elsewhere", "results": "results"}}
    assert Places.of(Path("/study/results"), own, trusted=True).data == Path("/elsewhere")


@pytest.mark.parametrize("name", ["provenance.json", TABLE])
def test_a_pipe_is_no_file(sent: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = sent / "results" / name
    file.unlink()
    os.mkfifo(file)
    assert main(["verify", str(sent / "results")]) in (1, 2)
    told = "".join(capsys.readouterr())
    assert "found a folder, a device or a pipe, expected a file" in told or "not read: no regular file" in told


def test_a_pipe_gets_no_checksum(sent: Path, told: Told) -> None:
    os.mkfifo(sent / "results/pipe")
    with recording(sent):
        assert "results/pipe: found a folder, a device or a pipe, expected a file" in told(*MANIFEST, status=2)


def test_names_cannot_forge_lines_or_steer_a_terminal(sent: Path, told: Told) -> None:
    forged = "a\n\nnothing differs from what was recorded\x1b[8m\u202e"
    edit(
        sent / MANIFEST_FILE,
        lambda manifest: (
            manifest["unrecorded"].update({forged: CHECKSUM}),
            manifest["steps"][-1]["inputs"].update({f"../{forged}": CHECKSUM}),
            manifest["config"].update(study=forged),
        ),
    )
    (sent / "results" / "new\rfile").touch()
    said = told("verify", sent / "results", status=1)
    assert said.replace("\n", "").isprintable()
    assert [line for line in said.splitlines() if line.startswith("nothing differs")] == []
    assert r"a\n\nnothing differs from what was recorded\x1b[8m\u202e" in said
    assert r"unknown    new\rfile: no step made it" in said


def test_names_in_messages_cannot_steer_a_terminal(sent: Path, told: Told) -> None:
    table = sent / "results/tables/\x1b[2J\nx.csv"
    table.write_text("a")
    edit(sent / MANIFEST_FILE, lambda manifest: manifest["unrecorded"].update({"tables/\x1b[2J\nx.csv": CHECKSUM}))
    document = ("document", "--results", sent / "results", "--out", "a.pdf", "--html", "a.html")
    said = told(*document, "--provenance", sent / "results/provenance.json", status=2)
    assert r"tables/\x1b[2J\nx.csv: its content is not what provenance.json recorded" in said


# The step `crate`: an RO-Crate with every file of a finished study, and for each the step that made it from what

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


def pack(study: Path, out: Path) -> int:
    with recording(study, records=""):
        return main(["crate", "results", "--out-dir", str(out)])


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


def test_every_result_and_every_step_is_in_the_crate(made: Path, crate: Path) -> None:
    entities, results = graph(crate), made / "results"
    packed = {path for path in result_files(results) if path != PICTURE}
    assert packed | {"provenance.json"} == {
        name.removeprefix("results/") for name in entities if name.startswith("results/")
    }
    for path in packed:
        assert (crate / "results" / path).read_bytes() == (results / path).read_bytes()
        entity, checksum = entities[f"results/{path}"], Checksum.of(results / path)
        assert (entity["sha256"], entity["contentSize"]) == (checksum.sha256, str(checksum.bytes))
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


def test_the_crate_has_workflow_and_configuration_in_fixed_bytes(crate: Path, made: Path, tmp_path: Path) -> None:
    entities = graph(crate)
    main_file = entities["./"]["mainEntity"]["@id"]
    assert "ComputationalWorkflow" in entities[main_file]["@type"]
    for name in (main_file, "workflow/rules/train.smk", "envs/lock.txt", "pyproject.toml"):
        assert (crate / name).read_bytes() == (ROOT / name).read_bytes()
    assert read(crate / "config.json") == CONFIG
    assert len(ids(entities["./"]["conformsTo"])) == 3
    loose = set(references(list(entities.values()))) - set(entities)
    assert all(name.startswith("https://") for name in loose), loose
    for entity in ROCrate(crate).data_entities:
        assert (crate / entity.id).is_file()
    assert pack(made, tmp_path / "again") == 0
    name = "ro-crate-metadata.json"
    assert (tmp_path / "again" / name).read_bytes() == (crate / name).read_bytes()


def test_pictures_are_left_out_and_changed_results_refused(
    made: Path, crate: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (crate / "results/licensed").exists()
    study = Path(shutil.copytree(made, tmp_path / "study"))
    (study / "results/tables/table_2_2.csv").write_text("other")
    assert pack(study, tmp_path / "out") == 2
    assert "tables/table_2_2.csv: made by table; its content has changed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
