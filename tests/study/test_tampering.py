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
import recorded_study
from recorded_study import CONFIG, INSTANCES, LISTS, MANIFEST, RUN, STEPS, job, read, recording

from rankbound_study.cli import main
from rankbound_study.provenance.checksums import Checksum
from rankbound_study.provenance.verify import DIFFERS, verify

Finding = tuple[str, str]
Change = Callable[[Path], object]

TABLE, PAGE, RUNS = "tables/table_2_2.csv", "paper/table_2_4.csv", "collected/published.parquet"
ALL, COLLECTED = f"results/{RUN}.parquet", ("parquet", "epochs.parquet", "rates.parquet")
RECORD_OF_JOB, RECORD_OF_PAGE = f"results/provenance/{RUN}.parquet.json", f"results/provenance/{PAGE}.json"
RECORD_OF_TABLE, WHOLE = f"results/provenance/{TABLE}.json", "results/provenance.json"
MAKE_PAGE = ("table", "table_2_4", "--out-dir", "results/paper")


def collect(*runs: str) -> tuple[str, ...]:
    stem = "results/collected/published"
    beside = ("--epochs-out", f"{stem}.epochs.parquet", "--rates-out", f"{stem}.rates.parquet")
    return ("collect", "--out", f"{stem}.parquet", *beside, "--runs", *runs)


def manifest_of(**changes: Any) -> tuple[str, ...]:
    return (*MANIFEST[:-1], json.dumps(CONFIG | changes))


def repeat(*steps: tuple[str, ...]) -> Change:
    """Run steps again, as the workflow does."""

    def change(study: Path) -> None:
        with recording(study):
            for step in steps:
                assert main(step) == 0

    return change


@pytest.fixture(scope="module")
def recorded(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded study with collected runs and a page that is made from the manifest."""
    folder = Path(shutil.copytree(recorded, tmp_path_factory.mktemp("made") / "study"))
    repeat(collect(ALL), manifest_of(), MAKE_PAGE)(folder)
    return folder


def put(path: str, alter: Callable[[bytes], bytes]) -> Change:
    """Write a file with other content; a new file has none."""

    def change(study: Path) -> None:
        (study / path).parent.mkdir(parents=True, exist_ok=True)
        (study / path).write_bytes(alter((study / path).read_bytes() if (study / path).exists() else b""))

    return change


def flip(path: str) -> Change:
    return put(path, lambda old: old[: len(old) // 2] + bytes([old[len(old) // 2] ^ 1]) + old[len(old) // 2 + 1 :])


def add(path: str) -> Change:
    return put(path, lambda _: b"a\n1\n")


def remove(path: str) -> Change:
    return lambda study: (study / path).unlink()


def edit(path: str, alter: Callable[[dict[str, Any]], object]) -> Change:
    """Edit a record or the manifest."""
    return lambda study: recorded_study.edit(study / path, alter)


def of_another_protocol(record: dict[str, Any]) -> None:
    """As a step leaves it that runs again with other options, and makes the same bytes."""
    record["arguments"]["options"] = {"protocol": "honest", "study": "other"}
    record["started"] = record["started"].replace("20", "21", 1)


def with_epochs(epochs: int) -> dict[str, Any]:
    training = deepcopy(CONFIG["training"])
    training["synthetic-mq2008"]["epochs"] = epochs
    return {"training": training}


def of_step(subcommand: str, alter: Callable[[dict[str, Any]], object]) -> Change:
    """Edit what the manifest says of a step."""
    return edit(WHOLE, lambda all_: [alter(step) for step in all_["steps"] if step["subcommand"] == subcommand])


def forge_a_table(study: Path) -> None:
    """Alter a table, and its checksum in the manifest and in both records."""
    put(f"results/{TABLE}", lambda old: old.replace(b"1", b"2"))(study)
    checksum = asdict(Checksum.of(study / "results" / TABLE))
    edit(RECORD_OF_TABLE, lambda record: record["outputs"].update({TABLE: checksum}))(study)
    of_step("table", lambda step: step["outputs"].update({TABLE: checksum}))(study)
    whole = asdict(Checksum.of(study / WHOLE))
    edit(
        f"{WHOLE.replace('results', 'results/provenance')}.json",
        lambda record: record["outputs"].update({"provenance.json": whole}),
    )(study)


def alter_the_manifest_with_a_file(study: Path) -> None:
    """Alter a table and its checksum in the manifest; its record remains."""
    kept = (study / RECORD_OF_TABLE).read_bytes()
    forge_a_table(study)
    (study / RECORD_OF_TABLE).write_bytes(kept)


def collect_foreign_runs(study: Path) -> None:
    for ending in COLLECTED:
        shutil.copy(study / f"results/{RUN}.{ending}", study.parent / f"foreign.{ending}")
    repeat(collect("../foreign.parquet"), manifest_of())(study)


def collect_unrecorded_runs(study: Path) -> None:
    """Runs of a step without a record."""
    (study / RECORD_OF_JOB).unlink()
    repeat(collect(ALL), manifest_of())(study)


def collect_and_put_back(study: Path) -> None:
    """Other runs are collected from, and then put back."""
    kept = {path: path.read_bytes() for path in (study / "results").glob(f"{RUN}.*")}
    kept[study / RECORD_OF_JOB] = (study / RECORD_OF_JOB).read_bytes()
    repeat(job(epochs=1), collect(ALL))(study)
    for path, content in kept.items():
        path.write_bytes(content)


def collect_more(study: Path) -> None:
    other = f"results/{RUN.replace('nDCG', 'AP')}.parquet"
    repeat(job(other, loss="AP"), collect(ALL, other), manifest_of())(study)


def alter_the_page_when_the_clock_was_back(study: Path) -> None:
    edit(RECORD_OF_PAGE, lambda record: record.update(started="2000-01-01T00:00:00+00:00"))(study)
    flip(f"results/{PAGE}")(study)


def touch(study: Path) -> None:
    for path in study.rglob("*"):
        os.utime(path, (0, 0))


def record_of_another_run_in_the_future(study: Path) -> None:
    record = read(study / RECORD_OF_TABLE)
    record |= {"name": "old", "started": "2100-01-01T00:00:00+00:00"}
    record["outputs"][TABLE]["sha256"] = "0" * 64
    (study / "results/provenance/old.json").write_text(json.dumps(record), "utf-8")


def link(path: str) -> Change:
    def change(study: Path) -> None:
        (study / path).rename(study.parent / "elsewhere")
        (study / path).symlink_to(study.parent / "elsewhere")

    return change


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


def unrecorded_table(study: Path) -> None:
    (study / RECORD_OF_TABLE).unlink()
    repeat(manifest_of())(study)


OTHER_SEED = ("generate", "synthetic-mq2008", "--seed", "1", "--size", "12", "--out", LISTS)
OTHER_THRESHOLD = (*STEPS[2][:-1], '{"threshold":2}')
SUMS = {"sha256": "0" * 64, "bytes": 1}
NOT_AS = "not made as the recorded configuration requests: "

CHANGES: dict[str, tuple[Change, str, str, str]] = {
    "a bit of a table": (flip(f"results/{TABLE}"), "changed", TABLE, "made by table; its content has changed"),
    "a bit of a training": (flip(f"results/{RUN}.epochs.parquet"), "changed", f"{RUN}.epochs.parquet", ""),
    "a byte more in the manifest": (put(WHOLE, lambda old: old + b"\n"), "changed", "provenance.json", ""),
    "an empty file": (put(ALL, lambda _: b""), "changed", f"{RUN}.parquet", ""),
    "a page altered": (flip(f"results/{PAGE}"), "changed", PAGE, ""),
    "a bit of an input": (flip(LISTS), "input", f"../{LISTS}", "its content has changed"),
    "a table removed": (remove(f"results/{TABLE}"), "missing", TABLE, "made by table; not here"),
    "a page removed": (remove(f"results/{PAGE}"), "missing", PAGE, ""),
    "a table added": (add("results/tables/table_9_9.csv"), "unknown", "tables/table_9_9.csv", "no step made it"),
    "a folder added": (add("results/more/a.csv"), "unknown", "more/a.csv", ""),
    "a folder of records in tables": (nested("tables"), "unknown", "tables/new.csv", ""),
    "a folder of records in runs/x": (nested("runs/x"), "unknown", "runs/x/new.csv", ""),
    "another budget in the manifest": (
        repeat(manifest_of(**with_epochs(2000))),
        *("config", f"{RUN}.epochs.parquet", f"{NOT_AS}epochs 2 instead of 2000"),
    ),
    "another budget in the training": (
        repeat(job(epochs=1), collect(ALL), manifest_of()),
        *("config", f"{RUN}.epochs.parquet", "epochs 1 instead of 2"),
    ),
    "a table of another protocol": (
        edit(RECORD_OF_TABLE, of_another_protocol),
        *("config", TABLE, "protocol honest instead of published, study other instead of tiny"),
    ),
    "data of another seed": (repeat(OTHER_SEED), "config", f"../{LISTS}", "seed 1 instead of 0"),
    "another threshold": (repeat(OTHER_THRESHOLD, job()), "config", f"../{INSTANCES}", ""),
    "data made again after the training": (repeat(OTHER_SEED), "chain", f"../{LISTS}", ""),
    "runs put back after they were collected from": (collect_and_put_back, "chain", f"{RUN}.parquet", ""),
    "foreign runs": (collect_foreign_runs, "origin", "../../foreign.parquet", ""),
    "runs without a record": (collect_unrecorded_runs, "origin", f"{RUN}.parquet", ""),
    "runs too many": (collect_more, "origin", RUNS, "requests: runs/published/synthetic-mq2008-label1/mlp/AP/none.ep"),
    "an input elsewhere": (
        of_step("job", lambda step: step["inputs"].update({"/etc/passwd": SUMS})),
        *("origin", "/etc/passwd", "no recorded step made it, but one read it"),
    ),
    "options in a record": (
        edit(RECORD_OF_JOB, lambda record: record["arguments"]["options"].update(epochs=2000)),
        *("record", f"{RUN}.parquet", ""),
    ),
    "options in the manifest": (
        of_step("job", lambda step: step["arguments"]["options"].update(epochs=9)),
        *("record", f"{RUN}.parquet", ""),
    ),
    "a table with its checksum in the manifest": (alter_the_manifest_with_a_file, "record", TABLE, ""),
    "a page altered when the clock was back": (alter_the_page_when_the_clock_was_back, "changed", PAGE, ""),
    "a manifest of the future": (
        edit(WHOLE, lambda all_: all_.update(created="2100-01-01T00:00:00+00:00")),
        *("changed", "provenance.json", ""),
    ),
    # What leaves something undecided.
    "an input removed": (remove(LISTS), "unchecked", f"../{LISTS}", "not here"),
    "a link in an input's place": (link(LISTS), "unchecked", f"../{LISTS}", ""),
    "a hidden folder": (add("results/.more/a.csv"), "unchecked", ".more", ""),
    "a hidden file": (
        add("results/tables/.more.csv"),
        *("unchecked", "tables/.more.csv", "hidden, or left by a training that was ended: no result"),
    ),
    "an unfinished training": (add("results/runs/x.shards/a.parquet"), "unchecked", "runs/x.shards", ""),
    "a page without its record": (remove(RECORD_OF_PAGE), "unchecked", PAGE, "made after provenance.json"),
    "a table without a record": (unrecorded_table, "unrecorded", TABLE, "but not the step that made it"),
    # What changes no result.
    "times of files": (touch, "", "", ""),
    "another study's folder, and what git needs": (another_study, "", "", ""),
    "a record of another run, of the future": (record_of_another_run_in_the_future, "", "", ""),
    "a step run again": (repeat(STEPS[3], MAKE_PAGE), "", "", ""),
    "nothing": (lambda study: None, "", "", ""),
}
"""Changes with the kind, the subject and the text of what a check finds; nothing for those that change no result."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_found_and_what_cannot_be_decided_is_listed(study: Path, name: str) -> None:
    change, kind, subject, text = CHANGES[name]
    change(study)
    report = verify(study / "results", CONFIG)
    found = {(finding.kind, finding.subject): finding.text for finding in report.findings}
    if kind:
        assert text in found[kind, subject]
    else:
        assert found == {}
    assert report.holds(strict=False) == (kind not in DIFFERS)
    assert report.holds(strict=True) == (not kind)


def findings(study: Path, config: dict[str, Any]) -> set[Finding]:
    return {(finding.kind, finding.subject) for finding in verify(study / "results", config).findings}


def test_configurations_are_compared_by_key_and_a_signed_manifest_decides(study: Path) -> None:
    other = CONFIG | with_epochs(3) | {"mirror": "/elsewhere", "extra": 1}
    assert findings(study, other) == {("config", "training.synthetic-mq2008.epochs"), ("config", "extra")}
    # A record that fits an altered file would be believed: it may be of a later run.
    kept = (study / WHOLE).read_bytes()
    forge_a_table(study)
    (study / WHOLE).write_bytes(kept)
    shutil.rmtree(study / "results/provenance")
    assert ("changed", TABLE) in findings(study, CONFIG)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_a_forger_is_found_by_the_signature_alone(study: Path) -> None:
    """The commands of `docs/reproducibility.md`."""

    def ssh_keygen(*arguments: str, stdin: str = "") -> int:
        content = (study / stdin).read_bytes() if stdin else None
        command = ["ssh-keygen", *arguments]
        return subprocess.run(command, cwd=study, input=content, capture_output=True, check=False).returncode

    ssh_keygen("-t", "ed25519", "-N", "", "-C", "me", "-f", "key")
    assert ssh_keygen("-Y", "sign", "-f", "key", "-n", "rankbound", WHOLE) == 0
    (study / "signers").write_text(f"me {(study / 'key.pub').read_text()}")
    check = ("-Y", "verify", "-f", "signers", "-I", "me", "-n", "rankbound", "-s", f"{WHOLE}.sig")
    assert ssh_keygen(*check, stdin=WHOLE) == 0
    assert findings(study, CONFIG) == set()
    forge_a_table(study)
    assert findings(study, CONFIG) == set()
    assert ssh_keygen(*check, stdin=WHOLE) != 0
