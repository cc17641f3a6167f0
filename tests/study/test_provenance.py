"""Records of steps: they say what happened, never change what comes out, and the manifest believes files, not them."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_study import CONFIG, INSTANCES, LISTS, MANIFEST, RUN, STEPS, edit, files, job, read, recording

from rankbound.errors import DataError
from rankbound_study.cli import main
from rankbound_study.provenance.checksums import Checksum, Places, result_files
from rankbound_study.provenance.manifest import (
    check_recorded,
    known_of,
    make_manifest,
    read_manifest,
    read_record,
    restore_records,
    write_manifest,
)
from rankbound_study.provenance.records import code, read_code

SOURCES = Path(__file__).resolve().parents[2] / "src"
JOB_RECORD = f"results/provenance/{RUN}.parquet.json"
ENDINGS = ("parquet", "epochs.parquet", "predictions.parquet", "rates.parquet", "weights.safetensors")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_record_says_what_was_read_and_made_and_how(recorded: Path) -> None:
    record = read(recorded / JOB_RECORD)
    results = recorded / "results"
    assert set(record["outputs"]) == {f"{RUN}.{ending}" for ending in ENDINGS}
    assert set(record["inputs"]) == {f"../{LISTS}", f"../{INSTANCES}"}
    for path, found in (record["outputs"] | record["inputs"]).items():
        file = results / path
        assert found == {"sha256": sha256(file), "bytes": file.stat().st_size}
    assert record["subcommand"] == "job"
    assert record["arguments"]["options"]["epochs"] == 2
    assert record["seeds"] == [3]
    assert {"python", "rankbound", "torch", "numpy"} <= set(record["versions"])
    assert record["machine"]["cores"] >= record["machine"]["usable_cores"] >= 1
    assert record["machine"]["instructions"]
    assert record["seconds"] > 0
    for path in sorted((recorded / "results/provenance").rglob("*.json")):
        names = read(path)["outputs"] | read(path)["inputs"]
        assert not any(Path(name).is_absolute() or str(recorded) in name for name in names), "a path of this machine"


def test_every_step_has_a_record_which_changes_no_byte(recorded: Path, tmp_path: Path) -> None:
    folder = recorded / "results/provenance"
    (listed,) = [path for path in files(folder) if path.suffix != ".json"]
    assert listed == folder / f"code/{sha256(listed)}.sha256"
    names = {path.relative_to(folder).as_posix() for path in files(folder) if path != listed}
    data = {f"{Path(step[step.index('--out') + 1])}.json" for step in STEPS if "--out" in step}
    assert names == data | {"tables/table_2_2.csv.json", f"{RUN}.parquet.json", "provenance.json.json"}
    shutil.copytree(recorded / "data", tmp_path / "data")
    with recording(tmp_path, records=""):
        assert main(job()) == 0
    for ending in ENDINGS:
        assert sha256(tmp_path / f"results/{RUN}.{ending}") == sha256(recorded / f"results/{RUN}.{ending}")
    assert [path for path in files(tmp_path) if "provenance" in path.parts] == []


def test_a_step_that_fails_leaves_no_record(study: Path) -> None:
    study.joinpath(INSTANCES).write_bytes(b"no parquet")
    with recording(study):
        assert main(job("results/again.parquet")) == 2
    assert not list((study / "results/provenance").rglob("again*"))


# The code


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout/src/rankbound"
    folder.mkdir(parents=True)
    (folder / "_version.py").write_text("")
    (folder / "one.py").write_text("one = 1\n")
    study = tmp_path / "checkout/src/rankbound_study"
    study.mkdir()
    (study / "two.py").write_text("two = 2\n")
    monkeypatch.setattr("rankbound_study.provenance.records.PACKAGES", (folder, study))
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_code_is_its_commit_and_what_was_modified_since(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = package.parents[1]
    git(root, "init", "-q")
    (root / "other.py").write_text("")
    git(root, "add", "other.py")
    git(root, "commit", "-q", "-m", "another project around an installed package")
    assert code().commit is None
    (root / "notes.md").write_text("not code\n")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "first")
    clean = code()
    assert (clean.commit, clean.modified) == (git(root, "rev-parse", "HEAD"), ())

    (root / "notes.md").write_text("changed\n")
    (package / "one.py").touch()
    assert code().modified == ()
    (package / "one.py").write_text("one = 2\n")
    (package / "new.py").write_text("")
    (root / "Snakefile").write_text("")
    changed = code()
    assert changed.modified == ("Snakefile", "src/rankbound/new.py", "src/rankbound/one.py")
    monkeypatch.setenv("PATH", str(root / "without git"))
    assert (code().commit, code().modified) == (None, ())


@pytest.mark.slow
def test_a_step_records_the_files_that_it_loaded_as_they_were_then(tmp_path: Path) -> None:
    """Modules, compiled or not, and texts; an edit while the step runs changes the files, and not the record."""
    packages, results = tmp_path / "src", tmp_path / "results"
    for name in ("rankbound", "rankbound_study"):
        shutil.copytree(SOURCES / name, packages / name, ignore=shutil.ignore_patterns("__pycache__"))
    module = packages / "rankbound_study/report/tables/sources.py"
    recorded = sha256(module)
    edit = f"import rankbound_study.report.tables.sources; open({str(module)!r}, 'a').write('# edited')"

    def python(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(packages), "RANKBOUND_PROVENANCE": str(results / "provenance")}
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def verified() -> str:
        python("-m", "rankbound_study", "provenance", "--results", "results", "--out", "results/provenance.json")
        return python("-m", "rankbound_study", "verify", "results")

    step = ["table", "table_2_2", "--out-dir", "results/tables"]
    watched = "import runpy, sys; from rankbound_study.provenance.records import watch; watch()"
    main = f"sys.argv[1:] = {step}; runpy.run_module('rankbound_study', run_name='__main__')"
    python("-c", f"{watched}; {edit}; {main}")
    record = read_record(results / "provenance/tables/table_2_2.csv.json")
    loaded = read_code(results, record.code.sha256)
    assert loaded["rankbound_study/report/tables/sources.py"] == recorded != sha256(module)
    assert "rankbound/losses/base.py" not in loaded
    assert "sources.py: has changed since 1 step loaded it" in verified()
    for _ in "compiled before", "compiled now":
        python("-m", "rankbound_study", *step)
        record = read_record(results / "provenance/tables/table_2_2.csv.json")
        loaded = read_code(results, record.code.sha256)
        assert {path: sha256(packages / path) for path in loaded} == loaded
        assert "code " not in verified()


# The manifest


def test_the_manifest_has_every_result_and_its_maker(recorded: Path, tmp_path: Path) -> None:
    manifest = read_manifest(recorded / "results/provenance.json")
    assert manifest.config == CONFIG
    assert manifest.unrecorded == {}
    inside = {path for path in manifest.files() if not path.startswith("../")}
    assert inside == set(result_files(recorded / "results"))
    assert manifest.makers()[f"{RUN}.weights.safetensors"].subcommand == "job"
    again = make_manifest(recorded / "results", CONFIG)
    write_manifest(again, tmp_path / "a.json")
    assert read_manifest(tmp_path / "a.json") == again


def test_a_file_that_is_not_as_recorded_is_refused_and_one_without_a_record_is_counted(study: Path) -> None:
    table = study / "results/tables/table_2_2.csv"
    table.write_text(table.read_text("utf-8") + "more\n", "utf-8")
    made = "its content is not what `python -m rankbound_study table` made and provenance/tables/table_2_2.csv.json rec"
    with pytest.raises(DataError, match=rf"table_2_2\.csv: {made}"):
        make_manifest(study / "results", CONFIG)
    (study / "results/provenance/tables/table_2_2.csv.json").unlink()
    manifest = make_manifest(study / "results", CONFIG)
    assert manifest.unrecorded == {"tables/table_2_2.csv": Checksum.of(table)}
    assert "tables/table_2_2.csv" not in manifest.makers()


def test_a_changed_manifest_is_named_beside_the_file(study: Path) -> None:
    """The manifest's own record tells that it has changed; without records, nothing tells which of both has."""
    results = study / "results"
    text = (results / "provenance.json").read_text("utf-8")
    digest = Checksum.of(results / "tables/table_2_2.csv").sha256
    (results / "provenance.json").write_text(text.replace(digest, "0" * 64), "utf-8")
    places = Places.of(results, CONFIG, trusted=True)
    with pytest.raises(DataError, match=r"provenance\.json: its content is not what"):
        check_recorded(places, known_of(results))
    shutil.rmtree(results / "provenance")
    with pytest.raises(DataError, match=r"table_2_2\.csv: .* made and provenance\.json recorded: delete it"):
        check_recorded(places, known_of(results))


def test_only_results_are_results(tmp_path: Path) -> None:
    """Benchmarks, hidden files, what killed steps left, and other studies inside are not."""
    names = """runs.parquet tables/a.csv provenance.json provenance/tables/a.csv.json benchmarks/a.tsv demo/runs.parquet
        tables/.a.csv.x1y2z3a4 runs/none.parquet.shards/0/fold-1.parquet demo/provenance.json rate/runs.parquet
        rate/provenance/runs.parquet.json"""
    for name in names.split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert set(result_files(tmp_path)) == {"runs.parquet", "tables/a.csv"}


def test_what_was_recorded_after_the_manifest_counts(study: Path) -> None:
    """A step that ran again, and the paper, which is made from the manifest."""
    with recording(study):
        main(job(epochs=1))
        main(["table", "table_2_4", "--out-dir", "results/paper"])
    known = known_of(study / "results")
    assert known.makers()[f"{RUN}.parquet"].arguments["options"]["epochs"] == 1
    assert "paper/table_2_4.csv" in known.files()
    with recording(study):
        main(MANIFEST)
    assert "paper/table_2_4.csv" not in read_manifest(study / "results/provenance.json").files()


def test_records_come_back_from_the_manifest(study: Path) -> None:
    before = {
        path: path.read_bytes() for path in files(study / "results/provenance") if "provenance.json" not in str(path)
    }
    records = [path for path in before if path.suffix == ".json"]
    shutil.rmtree(study / "results/provenance")
    assert restore_records(study / "results") == len(records)
    assert {path: path.read_bytes() for path in files(study / "results/provenance")} == before
    assert restore_records(study / "results") == 0
    records[0].write_text("{}", "utf-8")
    assert restore_records(study / "results") == 1
    assert {path: path.read_bytes() for path in files(study / "results/provenance")} == before
    assert make_manifest(study / "results", CONFIG).unrecorded == {}


# Bad input


@pytest.mark.parametrize("name", ["../../escaped", "/tmp/escaped"])
def test_a_manifest_cannot_write_elsewhere(study: Path, name: str) -> None:
    edit(study / "results/provenance.json", lambda content: content["steps"][0].update(name=name))
    before = files(study)
    with pytest.raises(DataError, match=r"expected a path without \.\."):
        restore_records(study / "results")
    assert files(study) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside JSON content."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return ([path] if path else []) + [place for key, value in pairs for place in places(value, (*path, key))]


@given(data=st.data())
def test_a_broken_record_is_a_message(recorded: Path, data: st.DataObject) -> None:
    """Any value replaced by any other: it is the same record with another value of that type, or a DataError."""
    content = read(recorded / JOB_RECORD)
    *way, last = data.draw(st.sampled_from(places(content)))
    target: Any = content
    for step in way:
        target = target[step]
    target[last] = data.draw(JSON)
    path = recorded / "broken.json"
    path.write_text(json.dumps(content), "utf-8")
    try:
        found = json.loads(read_record(path).to_json())
    except DataError as error:
        found = str(error)
    assert found == content or found.startswith(f"{path}: ")


@pytest.mark.parametrize(
    "change", [lambda text: text[:-20], lambda text: "[]", lambda text: "[" * 100000, lambda text: ""]
)
@pytest.mark.parametrize("name", [JOB_RECORD, "results/provenance.json"])
def test_a_damaged_file_is_named(study: Path, name: str, change: Callable[[str], str]) -> None:
    path = study / name
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    with pytest.raises(DataError, match=path.name):
        read_record(path) if name == JOB_RECORD else read_manifest(path)


def test_other_versions_are_refused_and_records_know_when_steps_ended(study: Path, recorded: Path) -> None:
    path = study / "results/provenance.json"
    edit(path, lambda content: content.update(schema="rankbound.provenance/2"))
    with pytest.raises(DataError, match=r"expected .rankbound\.provenance/1.*provenance/2"):
        read_manifest(path)
    record = replace(read_record(recorded / JOB_RECORD), started="2026-01-31T23:59:59+00:00", seconds=2.5)
    assert record.ended.isoformat() == "2026-02-01T00:00:01.500000+00:00"
