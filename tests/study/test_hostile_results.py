"""A stranger's results: a check opens no file elsewhere, waits for no device, and prints no control character."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded_study import CONFIG, INSTANCES, LISTS, MANIFEST, read, recording

from rankbound_study.cli import main
from rankbound_study.provenance.checksums import Places
from rankbound_study.provenance.verify import verify

TABLE = "tables/table_2_2.csv"
CHECKSUM = {"sha256": "0" * 64, "bytes": 6}


Told = Callable[..., str]


@pytest.fixture
def study(study: Path) -> Path:
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


def edit(study: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest, as whoever sends a folder may."""
    file = study / "results/provenance.json"
    manifest = read(file)
    change(manifest)
    file.write_text(json.dumps(manifest), "utf-8")


def findings(study: Path, config: dict[str, Any] | None = None) -> dict[str, tuple[str, str]]:
    found = verify(study / "results", config).findings
    return {finding.subject: (finding.kind, finding.text) for finding in found if finding.kind != "code"}


@pytest.mark.parametrize("path", ["../../secret", "../data/../../secret", "../data/link", "../data/folder/secret"])
def test_an_input_elsewhere_is_not_read(study: Path, path: str) -> None:
    (study / "data/link").symlink_to(study.parent / "secret")
    (study / "data/folder").symlink_to(study.parent)
    edit(study, lambda manifest: manifest["steps"][-1]["inputs"].update({path: CHECKSUM}))
    expected = ("unchecked", "not read: no regular file, or outside of the results and data folders")
    assert findings(study)[path] == expected


@pytest.mark.parametrize("path", ["{root}/secret", "tables/../../../secret", TABLE])
def test_a_result_elsewhere_is_missing(study: Path, path: str) -> None:
    path = path.format(root=study.parent)
    edit(study, lambda manifest: manifest["steps"][-1]["outputs"].update({path: CHECKSUM} if path != TABLE else {}))
    table = study / "results" / TABLE
    table.rename(study.parent / "table.csv")
    table.symlink_to(study.parent / "table.csv")
    (study / "results/more").symlink_to(study.parent)
    found = findings(study)
    assert found[path][0] == "missing"
    assert "not read: no regular file, or outside" in found[path][1]
    assert found["more"] == ("unknown", "no step made it"), "a link to a folder hides nothing"


def test_a_data_folder_that_the_sender_names_is_read_only_beside_the_results(study: Path) -> None:
    assert findings(study, CONFIG) == {}, "an honest folder is still as recorded"
    edit(study, lambda manifest: manifest["config"]["pathvars"].update(data=str(study.parent)))
    assert {f"../{LISTS}", f"../{INSTANCES}", "../data/folds/synthetic-mq2008.parquet"} <= findings(study).keys()
    assert "pathvars.data" in findings(study, CONFIG)


@pytest.mark.parametrize(
    ("data", "results", "expected"),
    [
        ("data", "results/demo", "/study/data"),
        ("./data/demo", "results/demo/", "/study/data/demo"),
        ("data", "results", None),
        ("data", "other/demo", None),
        ("/data", "results/demo", None),
        ("../data", "results/demo", None),
        ("data", "../../study/results/demo", None),
        ("data", "/study/results/demo", None),
    ],
)
def test_the_data_folder_is_where_both_are_below_one_folder(data: str, results: str, expected: str | None) -> None:
    config = {"pathvars": {"data": data, "results": results}}
    found = Places.of(Path("/study/results/demo"), config, trusted=False)
    assert found.data == (None if expected is None else Path(expected))
    # One's own configuration may name any.
    own = {"pathvars": {"data": "/elsewhere", "results": "results"}}
    assert Places.of(Path("/study/results"), own, trusted=True).data == Path("/elsewhere")


@pytest.mark.parametrize("name", ["provenance.json", TABLE])
def test_a_pipe_is_no_file(study: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = study / "results" / name
    file.unlink()
    os.mkfifo(file)
    assert main(["verify", str(study / "results")]) in (1, 2)
    told = "".join(capsys.readouterr())
    assert "found a folder, a device or a pipe, expected a file" in told or "not read: no regular file" in told


def test_a_pipe_gets_no_checksum(study: Path, told: Told) -> None:
    os.mkfifo(study / "results/pipe")
    with recording(study):
        assert "results/pipe: found a folder, a device or a pipe, expected a file" in told(*MANIFEST, status=2)


def test_names_cannot_forge_lines_or_steer_a_terminal(study: Path, told: Told) -> None:
    forged = "a\n\nnothing differs from what was recorded\x1b[8m\u202e"
    edit(
        study,
        lambda manifest: (
            manifest["unrecorded"].update({forged: CHECKSUM}),
            manifest["steps"][-1]["inputs"].update({f"../{forged}": CHECKSUM}),
            manifest["config"].update(study=forged),
        ),
    )
    (study / "results" / "new\rfile").touch()
    said = told("verify", study / "results", status=1)
    assert said.replace("\n", "").isprintable()
    assert [line for line in said.splitlines() if line.startswith("nothing differs")] == []
    assert r"a\n\nnothing differs from what was recorded\x1b[8m\u202e" in said
    assert r"unknown    new\rfile: no step made it" in said


def test_names_in_messages_cannot_steer_a_terminal(study: Path, told: Told) -> None:
    table = study / "results/tables/\x1b[2J\nx.csv"
    table.write_text("a")
    edit(study, lambda manifest: manifest["unrecorded"].update({"tables/\x1b[2J\nx.csv": CHECKSUM}))
    document = ("document", "--results", study / "results", "--out", "a.pdf", "--html", "a.html")
    said = told(*document, "--provenance", study / "results/provenance.json", status=2)
    assert r"tables/\x1b[2J\nx.csv: its content is not what provenance.json recorded" in said
