"""Unusual places and names: little memory, no home, killed workflows, silent commands; nothing leaves its folder."""

import argparse
import os
import pty
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rankbound.cli import OUT_OF_MEMORY, run
from rankbound.errors import ConfigError, SourceError
from rankbound.io.fetch import MIRROR_VARIABLE
from rankbound_study.commands.data import fetched
from rankbound_study.config.check import check_config, merged
from rankbound_study.config.sections.base import KeyPath
from rankbound_study.config.study import Study
from rankbound_study.data.sources import SOURCES
from rankbound_study.export.trec_folder import Kept, lists_folder
from rankbound_study.figures import figure_specs
from rankbound_study.report.tables import table_names
from tests import raw_files

ROOT = Path(__file__).resolve().parents[2]


class PanicError(BaseException):
    """As polars raises: no `Exception`. OpenBLAS, where it misses memory first, ends the process without any."""


@pytest.mark.parametrize(
    ("error", "is_of_memory"),
    [
        (MemoryError(), True),
        (ImportError("libarrow.so.2600: failed to map segment from shared object"), True),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), True),
        (PanicError("could not spawn threads: ThreadPoolBuildError { kind: IOError(Os { code: 11 }) }"), True),
        (ImportError("no module of that name"), False),
        (ImportError("cannot spawn a worker"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_want_of_memory_has_many_types_and_other_errors_are_none(
    error: BaseException, is_of_memory: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: argparse.Namespace) -> None:
        raise error

    parser = argparse.ArgumentParser("program")
    parser.set_defaults(run=fail, subcommand="step")
    if not is_of_memory:
        with pytest.raises(ImportError, match=str(error)):
            run(parser, [])
        return
    assert run(parser, []) == 2
    assert capsys.readouterr().err == f"program step: {OUT_OF_MEMORY}\n"


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


# The clock of silent commands: seconds on a terminal, one line elsewhere, always the command's status

SCRIPT = Path(__file__).resolve().parents[2] / "envs" / "with_clock.py"
COMMAND = (sys.executable, "-c", "print('a line'); raise SystemExit(3)")


def on_a_terminal(*command: str) -> tuple[str, int]:
    """Return what a command writes to a terminal, and its status."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, SCRIPT, *command], stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:
        # The other end is closed.
        pass
    os.close(ours)
    return written.decode(), process.wait()


def test_a_terminal_shows_seconds_and_the_lines_of_the_command() -> None:
    shown, status = on_a_terminal("count", *COMMAND)
    assert status == 3
    assert "make: count ... 0 s" in shown
    assert "\033[Ka line\r\n" in shown
    assert shown.splitlines()[-1].split("\033[K")[-1].startswith("make: count ... failed after ")


def test_elsewhere_there_is_one_line_and_no_control_character() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "count", *COMMAND], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("a line\n", "make: count\n", 3)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_killed_command_has_the_status_of_a_shell(terminal: bool) -> None:
    command = ("end", sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    if terminal:
        assert on_a_terminal(*command)[1] == 137
    else:
        assert subprocess.run([sys.executable, SCRIPT, *command], capture_output=True, check=False).returncode == 137


def test_a_failure_of_pip_gives_advice() -> None:
    command = (sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "no-such-package-anywhere")
    done = subprocess.run([sys.executable, SCRIPT, "install", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "No matching distribution found" in done.stderr
    assert "set PIP_INDEX_URL" in done.stderr


# No name of a configuration leads out of its study's folders; no file that was set aside is overwritten

DEFAULT = ROOT / "config.yaml"
LEADING_OUT = ("../../x", "{old}/x", "{old}\n", "{old}" + 300 * "x")
FREE = ("mirror", "pathvars")
"""Keys that may name any place: where archives come from, and the folders themselves."""


def texts(config: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool]]:
    """The path of every text in a configuration, and of every section's name (True)."""
    if isinstance(config, str):
        yield path, False
    elif isinstance(config, dict | list):
        for key in config if isinstance(config, dict) else range(len(config)):
            if isinstance(config, dict):
                yield (*path, key), True
            yield from texts(config[key], (*path, key))


def one_of_each_kind(config: Any) -> list[tuple[KeyPath, bool]]:
    """The first text, and the first name, at every place that the configuration's models distinguish."""
    first: dict[Any, tuple[KeyPath, bool]] = {}
    for path, is_name in texts(config):
        if path[0] not in FREE:
            keys = ["", *(key for key in path if isinstance(key, str))]
            first.setdefault((path[0], keys[-2] if is_name else keys[-1], is_name), (path, is_name))
    return list(first.values())


def changed(config: dict[str, Any], path: KeyPath, is_name: bool, text: str) -> dict[str, Any]:
    """The configuration with another text, or with another name, at a place."""
    new = deepcopy(config)
    section: Any = new
    for key in path[:-1]:
        section = section[key]
    old = path[-1] if is_name else section[path[-1]]
    section[text.replace("{old}", str(old)) if is_name else path[-1]] = (
        section.pop(path[-1]) if is_name else text.replace("{old}", str(old))
    )
    return new


def files_of(config: dict[str, Any]) -> list[str]:
    """The files that a study makes or fetches, relative to its folders."""
    study = Study.of(config)
    made = [*study.data_files(), *study.distribution_files(), *study.table_files()]
    made += [path for one in study.collected.values() for path in (*one.runs, *one.beside)]
    return [*made, *(f"<data>/raw/{name}" for name in study.archives)]


def test_no_name_leads_out_of_the_folders_of_a_study() -> None:
    config = merged([DEFAULT])
    places = one_of_each_kind(config)
    assert len(places) > 40
    for path, is_name in places:
        for text in LEADING_OUT:
            new = changed(config, path, is_name, text)
            try:
                check_config(new, figures=figure_specs(), tables=table_names())
            except ConfigError:
                continue
            for made in files_of(new):
                first, *parts = made.split("/")
                assert first in ("<data>", "<results>"), (path, text)
                assert ".." not in parts, (path, text)
                assert made.isprintable(), (path, text)
                assert all(len(part) < 200 for part in parts), (path, text)


def test_a_rejected_archive_overwrites_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do copies of a wrong one fill the disk, nor is a folder in its place touched."""
    # The caller's mirror would serve the right archive in place of a wrong one.
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    source = raw_files.changed(SOURCES["movielens"], addresses=None)
    for content in ("first", "second", "third"):
        (tmp_path / "a.zip").write_text(content)
        with pytest.raises(SourceError, match=r"set aside as .*a\.zip\.rejected"):
            fetched(source, tmp_path / "a.zip")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"a.zip.rejected": "first", "a.zip.rejected-2": "second", "a.zip.rejected-3": "third"}
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "ml-latest-small.zip").write_text("wrong")
    out = tmp_path / "raw" / "a.zip"
    for message in (r"set aside as .*a\.zip\.rejected", r"the copy is not kept, because .*a\.zip\.rejected exists"):
        with pytest.raises(SourceError, match=message):
            fetched(source, out, mirror=str(tmp_path / "mirror"))
        assert [path.name for path in out.parent.iterdir()] == ["a.zip.rejected"]
    (tmp_path / "a.zip").mkdir()
    with pytest.raises(SourceError, match="found a folder or a device, expected a file"):
        fetched(source, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").is_dir()


@pytest.mark.parametrize("dataset", ["..", "../../x", "/x", ".x", "..\n"])
def test_an_exported_data_set_stays_in_its_folder(dataset: str) -> None:
    key = {"dataset": dataset, "nsr_train": None, "nsr_test": None, "options": "{}"}
    name = lists_folder(Kept(Path("x"), key, 0, (1,)), [1])
    assert name
    assert not name.startswith(".")
    assert "/" not in name
