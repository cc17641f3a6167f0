"""The step `doctor`: finds what is missing, and only that, without importing torch."""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankbound_study.cli import main
from rankbound_study.doctor import MISSING, NOTE, READY, Finding, lines, machine

ROOT = Path(__file__).resolve().parents[2]
MQ2008 = {"datasets": ["mq2008"], "compare": [], "experiment": []}
Diagnosed = Callable[..., str]


@pytest.fixture
def diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Diagnosed:
    """Return what the doctor prints for config.yaml with these keys instead, whose folders are in `tmp_path`."""
    monkeypatch.delenv("RANKBOUND_MIRROR", raising=False)
    folders = {name: str(tmp_path / name) for name in ("data", "results", "logs")}

    def call(status: int = 0, **keys: Any) -> str:
        own = tmp_path / "mine.yaml"
        own.write_text(yaml.safe_dump({"pathvars": folders, **keys}), "utf-8")
        assert main(["doctor", str(ROOT / "config.yaml"), str(own)]) == status
        return " ".join(capsys.readouterr().out.split())

    return call


def levels(findings: Sequence[Finding]) -> set[str]:
    return {finding.level for finding in findings}


def write_archive(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("S1.txt", "0 qid:1 1:0\n")
    return path


# Packages


def test_this_environment_has_what_pyproject_requires() -> None:
    findings = list(machine.packages())
    assert MISSING not in levels(findings)
    (present,) = [finding.text for finding in findings if finding.level == READY]
    for name in ("torch", "numpy", "numba", "polars", "snakemake", "dvc", "lightgbm"):
        assert f"{name} {machine.installed_version(name)}" in present


def test_an_old_and_a_missing_package_are_named_with_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {"numba": "0.60.9", "torch": None, "snakemake": "9.14"}
    real = machine.installed_version
    monkeypatch.setattr(machine, "installed_version", lambda name: planted.get(name, real(name)))
    findings = list(machine.packages())
    missing = [finding.text for finding in findings if finding.level == MISSING]
    assert missing[0].startswith("not installed: torch>=2.4: ")
    assert missing[1].startswith("numba is 0.60.9, expected >=0.61: ")
    assert len(missing) == 2
    assert all("make setup" in text for text in missing)
    (other,) = [finding.text for finding in findings if finding.level == NOTE]
    assert "snakemake 9.14 (" in other
    monkeypatch.setattr("platform.python_version", lambda: "3.10.13")
    first = next(iter(machine.packages()))
    assert (first.level, "this is Python 3.10.13, expected >=3.11" in first.text) == (MISSING, True)


def test_before_anything_is_installed_it_says_what_installs_it_and_what_that_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "nothing_installed", lambda: True)
    assert main(["doctor"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert "run `make setup`" in text
    assert "3 GB of disk, and `make demo` and `make paper` begin with it" in text
    assert f"GB free for {Path.cwd()}" in text
    assert "kernels" not in text


# Data


def test_files_that_will_be_downloaded_are_not_missing(diagnosed: Diagnosed, tmp_path: Path) -> None:
    text = diagnosed()
    assert "movielens: not here; will be downloaded from files.grouplens.org" in text
    assert "comparisons.faces-vgg16 is left out" in text
    assert "ready for the study of" in text
    rejected = write_archive(tmp_path / "data/raw/MQ2008.zip.rejected")
    assert f"- {rejected} failed its check" in diagnosed(**MQ2008)
    text = diagnosed(status=1, nonsense=1)
    assert "unknown key nonsense" in text
    assert "check-config" in text


def test_archives_are_found_here_and_at_the_mirror(
    diagnosed: Diagnosed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrored = write_archive(tmp_path / "mirror/MQ2008.zip")
    monkeypatch.setenv("RANKBOUND_MIRROR", str(mirrored.parent))
    assert f"mq2008: {mirrored}" in diagnosed(**MQ2008)
    here = write_archive(tmp_path / "data/raw/MQ2008.zip")
    assert f"mq2008: {here}" in diagnosed(**MQ2008)
    monkeypatch.setenv("RANKBOUND_MIRROR", "https://mirror.invalid/archives")
    here.unlink()
    assert "mq2008: will be asked for at the mirror https://mirror.invalid/archives" in diagnosed(**MQ2008)


def own_lists(**keys: Any) -> dict[str, Any]:
    """Return the configuration of a study of one's own judged lists; `keys` say where these are."""
    training = {"model": {"name": "mlp", "hidden": [4]}, "learning_rate": {"published": 0.01, "honest": 0.01}}
    return {
        **MQ2008,
        "datasets": ["mine"],
        "lists": {"mine": {"thresholds": [1], **keys}},
        "training": {"mine": {**training, "epochs": 1, "batch_size": 32}},
    }


def test_a_file_that_is_not_there_is_missing(diagnosed: Diagnosed, tmp_path: Path) -> None:
    file, target = tmp_path / "searches.txt", tmp_path / "data/raw/private.zip"
    keys = own_lists(source={"format": "letor", "path": str(file), "random_parts": 5})
    text = diagnosed(status=1, **keys)
    assert f"! mine: there is no file {file}: put it there" in text
    assert "1 thing missing" in text
    file.write_text("0 qid:1 1:0\n1 qid:1 1:1\n")
    assert f"mine: {file}" in diagnosed(**keys)
    source = {"format": "letor", "archives": ["private.zip"], "random_parts": 5, "homepage": "https://owner.invalid"}
    text = diagnosed(status=1, **own_lists(source=source, archive="private.zip"))
    assert f"! mine: {target} is missing and has no address: get private.zip from https://owner.invalid" in text


# Programs and the machine


def test_a_rar_archive_needs_a_reader(diagnosed: Diagnosed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under the name .zip; the publisher's address ends in .rar, too."""
    monkeypatch.setattr("rankbound_study.data.archives.readers", list)
    assert "! mq2008: no reader of .rar archives: install libarchive" in diagnosed(status=1, **MQ2008)
    archive = write_archive(tmp_path / "data/raw/MQ2008.zip")
    assert "none, and none is needed" in diagnosed(**MQ2008)
    archive.write_bytes(b"Rar!\x1a\x07\x00")
    assert "! mq2008: no reader" in diagnosed(status=1, **MQ2008)
    monkeypatch.setattr("rankbound_study.data.archives.readers", lambda: ["unar"])
    assert "readers of .rar archives: unar" in diagnosed(**MQ2008)


def test_optional_programs_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    findings = [finding for finding in machine.tools([]) if "was not found" in finding.text]
    assert len(findings) == len(machine.OPTIONAL)
    assert levels(findings) == {NOTE}


@pytest.mark.parametrize(("total", "available", "level"), [(4.0, 3.0, MISSING), (8.0, 3.0, NOTE), (8.0, 6.0, READY)])
def test_memory_is_compared_with_the_largest_step(
    total: float, available: float, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_memory", lambda: (total, available))
    finding = machine.memory("a training of mine", 5.0)
    assert finding.level == level
    assert "a training of mine, takes about 5.0 GB" in finding.text


def test_little_disk_space_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "not/yet", tmp_path]
    (finding,) = machine.disk(folders)  # both on one disk
    assert str(folders[0]) in finding.text
    monkeypatch.setattr(machine, "DISK_GIGABYTES", 1e9)
    assert levels(list(machine.disk(folders))) == {NOTE}


def test_a_gpu_that_torchs_build_cannot_use_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_torch_build", lambda: {"__version__": "9.9+cpu", "cuda": None})
    monkeypatch.setattr("sys.platform", "linux")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU 0: Planted Card (UUID: GPU-1)'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    finding = machine.accelerators()
    assert finding.level == NOTE
    assert finding.text.startswith("GPU 0: Planted Card, which torch 9.9+cpu cannot use")
    program.write_text("#!/bin/sh\nexit 9\n")
    assert machine.accelerators().level == READY


def test_compiled_kernels_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankbound.kernels.compiler.cache_folder", lambda: tmp_path)
    assert "0 compiled modules" in machine.kernels().text
    (tmp_path / "module.nbi").touch()
    assert "1 compiled module in" in machine.kernels().text
    monkeypatch.setattr("rankbound.kernels.compiler.cache_folder", lambda: None)
    assert machine.kernels().level == NOTE
    monkeypatch.setenv("RANKBOUND_FAST", "0")
    assert "RANKBOUND_FAST=0" in machine.kernels().text


# The screen


def test_a_line_is_marked_by_its_level_and_no_name_breaks_it() -> None:
    shown = list(lines([Finding("data", "a\nb"), Finding("data", "c", MISSING), Finding("disk", "d", NOTE)]))
    assert [line.split() for line in shown] == [["data", "a\\nb"], ["!", "c"], ["disk", "-", "d"]]
    assert len({line.rindex(line.split()[-1]) for line in shown}) == 1
    long = list(lines([Finding("data", "word " * 100)]))
    assert len(long) > 1
    assert max(map(len, long)) <= 110


def test_torch_is_not_imported_for_a_build_without_accelerators() -> None:
    build = machine._torch_build()
    if build is None or build["cuda"] or build["hip"] or sys.platform == "darwin":
        pytest.skip("torch's build may use an accelerator")
    program = (
        "import sys; from rankbound_study.cli import main; main(['doctor', 'profiles/demo/study.yaml']);"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_make_doctor_installs_nothing(tmp_path: Path) -> None:
    command = ["make", "--no-print-directory", "doctor", f"VENV={tmp_path / 'absent'}", f"PYTHON={sys.executable}"]
    done = subprocess.run([*command, "FILES=profiles/demo/study.yaml"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ready for the study of profiles/demo/study.yaml" in done.stdout
    assert "synthetic-movielens" in done.stdout
    assert "downloaded" not in done.stdout
    assert not (tmp_path / "absent").exists()
