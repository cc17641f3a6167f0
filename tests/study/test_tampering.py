"""Forty ways to tamper with a finished study, and what a check answers to each.

The promise of `docs/reproducibility.md`, in one table: bytes, options, order, clocks, links, places, code.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from recorded_study import CONFIG, INSTANCES, LISTS, MANIFEST, RUN, STEPS, job, make_study, read, recording

from rankbound_study.cli import main
from rankbound_study.provenance import facts
from rankbound_study.provenance.checksums import Checksum
from rankbound_study.provenance.verify import verify

Finding = tuple[str, str]
Change = Callable[[Path], object]

TABLE, PAGE, RUNS = "tables/table_2_2.csv", "paper/table_2_4.csv", "runs.parquet"
FOLDS = "data/folds/synthetic-mq2008.parquet"
COLLECT = (
    *("collect", "--out", "results/runs.parquet", "--epochs-out", "results/epochs.parquet"),
    *("--rates-out", "results/rates.parquet", "--runs"),
)


def repeat(*steps: tuple[str, ...]) -> Change:
    """Run steps again, as the workflow does."""

    def change(study: Path) -> None:
        with recording(study):
            for step in steps:
                assert main(step) == 0

    return change


def manifest_of(config: dict[str, Any]) -> tuple[str, ...]:
    return (*MANIFEST[:-1], json.dumps(config))


ALL = (f"results/{RUN}.parquet",)
MAKE_PAGE = ("table", "table_2_4", "--out-dir", "results/paper")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_study(tmp_path_factory.mktemp("study"))
    repeat((*COLLECT, *ALL), manifest_of(CONFIG), MAKE_PAGE)(folder)
    return folder


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "study"))


@pytest.fixture(autouse=True)
def same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone may edit the package while its tests run."""
    same = facts.code()
    for module in ("facts", "manifest", "verify"):
        monkeypatch.setattr(f"rankbound_study.provenance.{module}.code", lambda: same)


def flip(path: str) -> Change:
    def change(study: Path) -> None:
        content = bytearray((study / path).read_bytes())
        content[len(content) // 2] ^= 1
        (study / path).write_bytes(content)

    return change


def append(path: str) -> Change:
    def change(study: Path) -> None:
        with (study / path).open("ab") as file:
            file.write(b"\n")

    return change


def cut(study: Path) -> None:
    file = study / f"results/{RUN}.weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def empty(study: Path) -> None:
    (study / f"results/{RUN}.parquet").write_bytes(b"")


def swap(study: Path) -> None:
    runs, epochs = (study / f"results/{RUN}.{ending}" for ending in ("parquet", "epochs.parquet"))
    content = runs.read_bytes()
    runs.write_bytes(epochs.read_bytes())
    epochs.write_bytes(content)


def remove(path: str) -> Change:
    return lambda study: (study / path).unlink()


def add(path: str) -> Change:
    def change(study: Path) -> None:
        (study / path).parent.mkdir(parents=True, exist_ok=True)
        (study / path).write_text("a\n1\n")

    return change


def edit(path: str, alter: Callable[[dict[str, Any]], object]) -> Change:
    """Edit a record or the manifest."""

    def change(study: Path) -> None:
        content = read(study / path)
        alter(content)
        (study / path).write_text(json.dumps(content), "utf-8")

    return change


JOB_RECORD = f"results/provenance/{RUN}.parquet.json"
PAGE_RECORD = f"results/provenance/{PAGE}.json"


def of_another_protocol(record: dict[str, Any]) -> None:
    """As a step leaves it that runs again with other options, and makes the same bytes."""
    record["arguments"]["options"] = {"protocol": "honest", "study": "other"}
    record["started"] = record["started"].replace("20", "21", 1)


def with_epochs(epochs: int) -> dict[str, Any]:
    config = deepcopy(CONFIG)
    config["training"]["synthetic-mq2008"]["epochs"] = epochs
    return config


def step_of(manifest: dict[str, Any], subcommand: str) -> dict[str, Any]:
    return next(step for step in manifest["steps"] if step["subcommand"] == subcommand)


def forge_a_table(study: Path) -> None:
    """Alter a table, and its checksum in the manifest and in both records."""
    file = study / "results" / TABLE
    file.write_text(file.read_text("utf-8").replace("1", "2"), "utf-8")
    checksum = asdict(Checksum.of(file))
    edit(f"results/provenance/{TABLE}.json", lambda record: record["outputs"].update({TABLE: checksum}))(study)
    edit("results/provenance.json", lambda all_: step_of(all_, "table")["outputs"].update({TABLE: checksum}))(study)
    file = study / "results/provenance.json"
    checksum = asdict(Checksum.of(file))
    of_manifest = "results/provenance/provenance.json.json"
    edit(of_manifest, lambda record: record["outputs"].update({"provenance.json": checksum}))(study)


def alter_the_manifest_with_a_file(study: Path) -> None:
    """Alter a table and its checksum in the manifest; its record remains."""
    record = study / f"results/provenance/{TABLE}.json"
    kept = record.read_bytes()
    forge_a_table(study)
    record.write_bytes(kept)


def collect_foreign_runs(study: Path) -> None:
    for ending in ("parquet", "epochs.parquet", "rates.parquet"):
        shutil.copy(study / f"results/{RUN}.{ending}", study.parent / f"foreign.{ending}")
    repeat((*COLLECT, "../foreign.parquet"), manifest_of(CONFIG))(study)


def collect_unrecorded_runs(study: Path) -> None:
    """Runs of a step without a record."""
    (study / JOB_RECORD).unlink()
    repeat((*COLLECT, *ALL), manifest_of(CONFIG))(study)


def collect_and_put_back(study: Path) -> None:
    """Other runs are collected from, and then put back."""
    file = study / ALL[0]
    kept, records = file.read_bytes(), (study / JOB_RECORD).read_bytes()
    repeat(job(epochs=1), (*COLLECT, *ALL))(study)
    for ending in ("parquet", "epochs.parquet", "predictions.parquet", "rates.parquet", "weights.safetensors"):
        original = study.parent / "kept" / f"{RUN}.{ending}"
        shutil.copy(original, study / f"results/{RUN}.{ending}")
    assert file.read_bytes() == kept
    (study / JOB_RECORD).write_bytes(records)


def keep_a_copy(study: Path) -> None:
    shutil.copytree(study / "results", study.parent / "kept")


def collect_more(study: Path) -> None:
    other = RUN.replace("nDCG", "AP")
    repeat(job(f"results/{other}.parquet", loss="AP"), (*COLLECT, *ALL, f"results/{other}.parquet"))(study)
    repeat(manifest_of(CONFIG))(study)


def alter_the_page_when_the_clock_was_back(study: Path) -> None:
    edit(PAGE_RECORD, lambda record: record.update(started="2000-01-01T00:00:00+00:00"))(study)
    flip(f"results/{PAGE}")(study)


def touch(study: Path) -> None:
    for path in study.rglob("*"):
        os.utime(path, (0, 0))


def record_of_another_run_in_the_future(study: Path) -> None:
    record = read(study / f"results/provenance/{TABLE}.json")
    record |= {"name": "old", "started": "2100-01-01T00:00:00+00:00"}
    record["outputs"][TABLE]["sha256"] = "0" * 64
    (study / "results/provenance/old.json").write_text(json.dumps(record), "utf-8")


def link(path: str) -> Change:
    def change(study: Path) -> None:
        file = study / path
        file.rename(study.parent / "elsewhere")
        file.symlink_to(study.parent / "elsewhere")

    return change


def link_to_a_folder(study: Path) -> None:
    (study / "results/more").symlink_to(study.parent)


def pipe(study: Path) -> None:
    (study / "results" / TABLE).unlink()
    os.mkfifo(study / "results" / TABLE)


def without_data(study: Path) -> None:
    shutil.rmtree(study / "data")


def nested(name: str) -> Change:
    """A folder of records hides no new result."""

    def change(study: Path) -> None:
        add(f"results/{name}/new.csv")(study)
        (study / "results" / name / "provenance").mkdir()

    return change


def another_study(study: Path) -> None:
    (study / "results/demo/provenance").mkdir(parents=True)
    (study / "results/demo/runs.parquet").touch()
    for name in ("tables/.gitignore", ".gitkeep"):
        (study / "results" / name).touch()


OTHER_SEED = ("generate", "synthetic-mq2008", "--seed", "1", "--size", "12", "--out", LISTS)
OTHER_THRESHOLD = (*STEPS[2][:-1], '{"threshold":2}')
SUMS = {"sha256": "0" * 64, "bytes": 1}

FOUND: dict[str, tuple[Change, Finding]] = {
    "a bit of a table": (flip(f"results/{TABLE}"), ("changed", TABLE)),
    "a bit of a training": (flip(f"results/{RUN}.epochs.parquet"), ("changed", f"{RUN}.epochs.parquet")),
    "a byte more in the manifest": (append("results/provenance.json"), ("changed", "provenance.json")),
    "the last byte of weights": (cut, ("changed", f"{RUN}.weights.safetensors")),
    "an empty file": (empty, ("changed", f"{RUN}.parquet")),
    "two files swapped": (swap, ("changed", f"{RUN}.parquet")),
    "a page altered": (flip(f"results/{PAGE}"), ("changed", PAGE)),
    "a bit of an input": (flip(LISTS), ("input", f"../{LISTS}")),
    "a table removed": (remove(f"results/{TABLE}"), ("missing", TABLE)),
    "a page removed": (remove(f"results/{PAGE}"), ("missing", PAGE)),
    "a table added": (add("results/tables/table_9_9.csv"), ("unknown", "tables/table_9_9.csv")),
    "a folder added": (add("results/more/a.csv"), ("unknown", "more/a.csv")),
    **{
        f"a folder of records in {name}": (nested(name), ("unknown", f"{name}/new.csv"))
        for name in ("tables", "runs/x")
    },
    "another budget in the manifest": (
        repeat(manifest_of(with_epochs(2000))),
        ("config", f"{RUN}.epochs.parquet"),
    ),
    "another budget in the training": (
        repeat(job(epochs=1), (*COLLECT, *ALL), manifest_of(CONFIG)),
        ("config", f"{RUN}.epochs.parquet"),
    ),
    "a table of another protocol": (
        edit(f"results/provenance/{TABLE}.json", of_another_protocol),
        ("config", TABLE),
    ),
    "data of another seed": (repeat(OTHER_SEED), ("config", f"../{LISTS}")),
    "another threshold": (repeat(OTHER_THRESHOLD, job()), ("config", f"../{INSTANCES}")),
    "data made again after the training": (repeat(OTHER_SEED), ("chain", f"../{LISTS}")),
    "runs put back after they were collected from": (collect_and_put_back, ("chain", f"{RUN}.parquet")),
    "foreign runs": (collect_foreign_runs, ("origin", "../../foreign.parquet")),
    "runs without a record": (collect_unrecorded_runs, ("origin", f"{RUN}.parquet")),
    "runs too many": (collect_more, ("origin", RUNS)),
    "an input elsewhere": (
        edit("results/provenance.json", lambda all_: step_of(all_, "job")["inputs"].update({"/etc/passwd": SUMS})),
        ("origin", "/etc/passwd"),
    ),
    "options in a record": (
        edit(JOB_RECORD, lambda record: record["arguments"]["options"].update(epochs=2000)),
        ("record", f"{RUN}.parquet"),
    ),
    "options in the manifest": (
        edit("results/provenance.json", lambda all_: step_of(all_, "job")["arguments"]["options"].update(epochs=9)),
        ("record", f"{RUN}.parquet"),
    ),
    "a table with its checksum in the manifest": (alter_the_manifest_with_a_file, ("record", TABLE)),
    "a page altered when the clock was back": (alter_the_page_when_the_clock_was_back, ("changed", PAGE)),
    "a manifest of the future": (
        edit("results/provenance.json", lambda all_: all_.update(created="2100-01-01T00:00:00+00:00")),
        ("changed", "provenance.json"),
    ),
    "a link in a table's place": (link(f"results/{TABLE}"), ("missing", TABLE)),
    "a link to a folder": (link_to_a_folder, ("unknown", "more")),
    "a pipe in a table's place": (pipe, ("missing", TABLE)),
}
"""Changes that are differences: exit status 1."""

OPEN: dict[str, tuple[Change, Finding]] = {
    "an input removed": (remove(LISTS), ("unchecked", f"../{LISTS}")),
    "the results alone, without data": (without_data, ("unchecked", f"../{INSTANCES}")),
    "a link in an input's place": (link(LISTS), ("unchecked", f"../{LISTS}")),
    "a hidden folder": (add("results/.more/a.csv"), ("unchecked", ".more")),
    "a hidden file": (add("results/tables/.more.csv"), ("unchecked", "tables/.more.csv")),
    "an unfinished training": (add("results/runs/x.shards/a.parquet"), ("unchecked", "runs/x.shards")),
    "a page without its record": (remove(PAGE_RECORD), ("unchecked", PAGE)),
}
"""Changes that leave something undecided: it is listed, and the exit status is 1 with `--strict`."""

NOTHING: dict[str, Change] = {
    "times of files": touch,
    "another study's folder, and what git needs": another_study,
    "a record of another run, of the future": record_of_another_run_in_the_future,
    "a step run again": repeat(STEPS[3], MAKE_PAGE),
}
"""Changes that change no result."""


TEXTS = {
    "another budget in the manifest": "not made as the recorded configuration requests: epochs 2 instead of 2000",
    "another budget in the training": "epochs 1 instead of 2",
    "a table of another protocol": "protocol honest instead of published, study other instead of tiny",
    "a hidden file": "hidden, or left by a training that was ended: no result",
}
"""What some findings say."""


def findings(study: Path) -> set[Finding]:
    return {(finding.kind, finding.subject) for finding in verify(study / "results", CONFIG).findings}


def test_nothing_is_found_in_the_untouched_study(study: Path) -> None:
    assert findings(study) == set()


@pytest.mark.parametrize("name", FOUND)
def test_a_difference_is_found(study: Path, name: str) -> None:
    change, expected = FOUND[name]
    keep_a_copy(study)
    change(study)
    report = verify(study / "results", CONFIG)
    texts = {(finding.kind, finding.subject): finding.text for finding in report.findings}
    assert TEXTS.get(name, "") in texts[expected]
    assert not report.holds(strict=False)


@pytest.mark.parametrize("name", OPEN)
def test_what_cannot_be_decided_is_listed(study: Path, name: str) -> None:
    change, expected = OPEN[name]
    change(study)
    report = verify(study / "results", CONFIG)
    texts = {(finding.kind, finding.subject): finding.text for finding in report.findings}
    assert TEXTS.get(name, "") in texts[expected]
    assert report.holds(strict=False)
    assert not report.holds(strict=True)


@pytest.mark.parametrize("name", NOTHING)
def test_what_changes_no_result_is_no_finding(study: Path, name: str) -> None:
    NOTHING[name](study)
    assert findings(study) == set()


def test_another_configuration_is_a_difference(study: Path) -> None:
    found = {(one.kind, one.subject) for one in verify(study / "results", with_epochs(3)).findings}
    assert found == {("config", "training.synthetic-mq2008.epochs")}


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_forger_is_found_by_the_signature_alone(study: Path) -> None:
    """The commands of `docs/reproducibility.md`."""

    def ssh_keygen(*arguments: str, stdin: Path | None = None) -> int:
        content = stdin.read_bytes() if stdin else None
        command = ["ssh-keygen", *arguments]
        return subprocess.run(command, cwd=study, input=content, capture_output=True, check=False).returncode

    ssh_keygen("-t", "ed25519", "-N", "", "-C", "me", "-f", "key")
    assert ssh_keygen("-Y", "sign", "-f", "key", "-n", "rankbound", "results/provenance.json") == 0
    (study / "signers").write_text(f"me {(study / 'key.pub').read_text()}")
    check = ("-Y", "verify", "-f", "signers", "-I", "me", "-n", "rankbound", "-s", "results/provenance.json.sig")
    manifest = study / "results/provenance.json"
    assert ssh_keygen(*check, stdin=manifest) == 0
    assert findings(study) == set()
    forge_a_table(study)
    assert findings(study) == set()
    assert ssh_keygen(*check, stdin=manifest) != 0


def test_without_records_the_signed_manifest_decides(study: Path) -> None:
    """A record that fits an altered file would be believed: it may be of a later run."""
    kept = (study / "results/provenance.json").read_bytes()
    forge_a_table(study)
    (study / "results/provenance.json").write_bytes(kept)
    shutil.rmtree(study / "results/provenance")
    assert ("changed", TABLE) in findings(study)
