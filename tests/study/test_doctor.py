"""The step `doctor`: finds what is missing, and only that, without importing torch."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankbound_study import doctor
from rankbound_study.cli import main
from rankbound_study.doctor import MISSING, NOTE, READY, Finding, lines

ROOT = Path(__file__).resolve().parents[2]
MQ2008 = {"datasets": ["mq2008"], "compare": [], "experiment": []}
Diagnosed = Callable[..., str]


@pytest.fixture
def diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Diagnosed:
    """Return what the doctor prints for config.yaml with these keys instead, whose folders are in the working one."""
    monkeypatch.delenv("RANKBOUND_MIRROR", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("data/raw").mkdir(parents=True)

    def call(status: int = 0, **keys: Any) -> str:
        own = {"pathvars": {name: name for name in ("data", "results", "logs")}, **keys}
        Path("mine.yaml").write_text(yaml.safe_dump(own), "utf-8")
        assert main(["doctor", str(ROOT / "config.yaml"), "mine.yaml"]) == status
        return " ".join(capsys.readouterr().out.split())

    return call


def texts(findings: Sequence[Finding], level: str) -> list[str]:
    return [finding.text for finding in findings if finding.level == level]


def write_archive(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("S1.txt", "0 qid:1 1:0\n")


def test_packages_are_those_of_pyproject_or_named_with_what_is_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    real, findings = doctor.installed_version, list(doctor.packages())
    assert texts(findings, MISSING) == []
    (present,) = texts(findings, READY)
    for name in ("torch", "numpy", "numba", "polars", "snakemake", "dvc", "lightgbm"):
        assert f"{name} {real(name)}" in present
    planted = {"numba": "0.60.9", "torch": None}
    monkeypatch.setattr(doctor, "installed_version", lambda name: planted.get(name, real(name)))
    monkeypatch.setattr("platform.python_version", lambda: "3.10.13")
    findings = list(doctor.packages())
    python, lacking = texts(findings, MISSING)
    assert "this is Python 3.10.13, expected >=3.11" in python
    assert re.match(r"not installed: .*torch>=2\.4, .*numba>=0\.61, not 0\.60\.9: run `make setup`", lacking)


def test_extras_of_the_library_are_there_or_named_with_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = {"onnx": None, "onnxscript": "0.2", "matplotlib": "3.9.1"}
    monkeypatch.setattr(doctor, "installed_version", lambda name: planted.get(name, "99"))
    findings = list(doctor.extras())
    (present,), (absent,) = texts(findings, READY), texts(findings, NOTE)
    assert {"data", "boosting", "plots", "statistics"} <= {*present.removeprefix("of the library: ").split(", ")}
    assert (
        "not installed: export (onnx>=1.16, onnxscript>=0.3, not 0.2), lightning-ir (transformers<5, not 99);" in absent
    )
    assert not {*doctor.OF_THE_REPOSITORY} & {*present.split(", ")}
    monkeypatch.setattr(doctor, "installed_version", lambda name: None)
    assert texts(list(doctor.extras()), READY) == []


def test_before_anything_is_installed_it_says_what_installs_it_and_what_that_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "nothing_installed", lambda: True)
    assert main(["doctor"]) == 1
    text = " ".join(capsys.readouterr().out.split())
    for said in ("run `make setup`", "3 GB of disk, and `make demo` and `make paper` beg"):
        assert said in text
    assert "accelerators" not in text


def test_files_are_found_here_at_the_mirror_or_at_the_publisher(
    diagnosed: Diagnosed, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = diagnosed()
    assert "movielens: not here; will be downloaded from files.grouplens.org" in text
    assert "comparisons.faces-vgg16 is left out" in text
    assert "ready for the study of" in text
    write_archive(Path("data/raw/MQ2008.zip.rejected"))
    assert "- data/raw/MQ2008.zip.rejected failed its check" in diagnosed(**MQ2008)
    monkeypatch.setenv("RANKBOUND_MIRROR", "https://mirror.invalid/archives")
    assert "mq2008: will be asked for at the mirror https://mirror.invalid/archives" in diagnosed(**MQ2008)
    monkeypatch.setenv("RANKBOUND_MIRROR", "mirror")
    for path in (Path("mirror/MQ2008.zip"), Path("data/raw/MQ2008.zip")):
        write_archive(path)
        assert f"mq2008: {path}" in diagnosed(**MQ2008)
    text = diagnosed(status=1, nonsense=1)
    assert "unknown key nonsense" in text
    assert "check-config" in text


def test_a_file_that_is_not_there_is_missing(diagnosed: Diagnosed) -> None:
    training = {"model": {"name": "mlp", "hidden": [4]}, "learning_rate": {"published": 0.01, "honest": 0.01}}

    def own_lists(**keys: Any) -> dict[str, Any]:
        lists = {"mine": {"thresholds": [1], **keys}}
        trained = {"mine": {**training, "epochs": 1, "batch_size": 32}}
        return {**MQ2008, "datasets": ["mine"], "lists": lists, "training": trained}

    keys = own_lists(source={"format": "letor", "path": "searches.txt", "random_parts": 5})
    text = diagnosed(status=1, **keys)
    assert "! mine: there is no file searches.txt: put it there" in text
    assert "1 thing missing" in text
    Path("searches.txt").write_text("0 qid:1 1:0\n1 qid:1 1:1\n")
    assert "mine: searches.txt" in diagnosed(**keys)
    source = {"format": "letor", "archives": ["private.zip"], "random_parts": 5, "homepage": "https://owner.invalid"}
    text = diagnosed(status=1, **own_lists(source=source, archive="private.zip"))
    assert (
        "! mine: data/raw/private.zip is missing and has no address: get private.zip from https://owner.invalid" in text
    )


def test_a_rar_archive_needs_a_reader(diagnosed: Diagnosed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also under the name .zip; the publisher's address ends in .rar, too."""
    archive = Path("data/raw/MQ2008.zip")
    monkeypatch.setattr("rankbound_study.data.archives.readers", list)
    assert "! mq2008: no reader of .rar archives: install libarchive" in diagnosed(status=1, **MQ2008)
    write_archive(archive)
    assert "none, and none is needed" in diagnosed(**MQ2008)
    archive.write_bytes(b"Rar!\x1a\x07\x00")
    assert "! mq2008: no reader" in diagnosed(status=1, **MQ2008)
    monkeypatch.setattr("rankbound_study.data.archives.readers", lambda: ["unar"])
    assert "readers of .rar archives: unar" in diagnosed(**MQ2008)


def test_a_gpu_that_torchs_build_cannot_use_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_torch_build", lambda: {"__version__": "9.9+cpu", "cuda": None})
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    program = tmp_path / "nvidia-smi"
    for script, level, said in (
        ("echo 'GPU 0: Planted Card (UUID: GPU-1)'", NOTE, "GPU 0: Planted Card, which torch 9.9+cpu cannot use"),
        ("exit 9", READY, "none: torch 9.9+cpu is a build"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        (text,) = texts([doctor.accelerators()], level)
        assert text.startswith(said)


def test_a_line_is_marked_by_its_level_and_no_name_breaks_it() -> None:
    shown = list(lines([Finding("data", "a\nb"), Finding("data", "c", MISSING), Finding("disk", "d", NOTE)]))
    assert [line.split() for line in shown] == [["data", "a\\nb"], ["!", "c"], ["disk", "-", "d"]]
    assert len({line.rindex(line.split()[-1]) for line in shown}) == 1
    long = list(lines([Finding("data", "word " * 100)]))
    assert len(long) > 1
    assert max(map(len, long)) <= 110


def test_torch_is_not_imported_for_a_build_without_accelerators() -> None:
    build = doctor._torch_build()
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
