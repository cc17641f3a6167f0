"""Unusual places: little memory, no home, a dollar sign in the folder's path, the lock of a killed snakemake."""

import argparse
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from rankbound.cli import OUT_OF_MEMORY, run

ROOT = Path(__file__).resolve().parents[2]


class PanicError(BaseException):
    """As polars raises: no `Exception`. OpenBLAS, where it misses memory first, ends the process without any."""


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("libarrow.so.2600: failed to map segment from shared object"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"),
        PanicError("could not spawn threads: ThreadPoolBuildError { kind: IOError(Os { code: 11 }) }"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_want_of_memory_has_many_types(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(arguments: argparse.Namespace) -> None:
        raise error

    parser = argparse.ArgumentParser("program")
    parser.set_defaults(run=fail, subcommand="step")
    assert run(parser, []) == 2
    assert capsys.readouterr().err == f"program step: {OUT_OF_MEMORY}\n"


@pytest.mark.parametrize("text", ["no module of that name", "cannot spawn a worker"])
def test_other_errors_are_no_want_of_memory(text: str) -> None:
    def fail(arguments: argparse.Namespace) -> None:
        raise ImportError(text)

    parser = argparse.ArgumentParser("program")
    parser.set_defaults(run=fail, subcommand="step")
    with pytest.raises(ImportError, match=text):
        run(parser, [])


OF_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "VENV", "PYTHON", "TORCH_INDEX")
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    # Those of the make that runs these tests are not meant: it would install into its environment.
    outer = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=outer | variables, capture_output=True, text=True, check=False
    )


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "my stüdy (1) $x"
    (folder / "envs").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "envs/lock.txt", "envs/torch.txt"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@needs_make
def test_caches_have_a_place_without_a_home(clone: Path, tmp_path: Path) -> None:
    show = ("--silent", "--eval", 'show:; @echo "$$HOME"', "show")
    assert make(clone, *show, HOME="/dev/null/nowhere").stdout == f"{clone}/.cache\n"
    assert make(clone, *show, HOME=str(tmp_path)).stdout == f"{tmp_path}\n"


@needs_make
def test_a_dollar_sign_in_the_path_needs_another_place_for_the_environment(clone: Path, tmp_path: Path) -> None:
    done = make(clone, "setup")
    assert done.returncode == 2
    assert "choose another place, as in make VENV=/tmp/rankbound-venv setup" in done.stderr
    assert "choose another place" not in make(clone, "--dry-run", f"VENV={tmp_path}/venv", "setup").stderr


@needs_make
def test_the_lock_of_a_killed_snakemake_is_named_with_the_command_that_removes_it(clone: Path, tmp_path: Path) -> None:
    programs = tmp_path / "venv/bin"
    programs.mkdir(parents=True)
    for name, text in (
        ("python", "true"),
        ("snakemake", "mkdir -p .snakemake/locks; touch .snakemake/locks/0; exit 3"),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(stat.S_IRWXU)
    (tmp_path / "venv/ready").touch()
    done = make(clone, f"VENV={tmp_path}/venv", "demo")
    assert done.returncode == 2
    command = f"{programs}/snakemake --workflow-profile profiles/demo --unlock"
    assert f"was killed here. If none is running: {command}" in " ".join(done.stderr.split())
    (programs / "snakemake").write_text("#!/bin/sh\nrm -r .snakemake; exit 3\n")
    assert "--unlock" not in make(clone, f"VENV={tmp_path}/venv", "demo").stderr
