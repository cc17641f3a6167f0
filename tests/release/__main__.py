"""Build, check, install and try a release: `make release` runs `python -m tests.release`. Nothing is uploaded.

Each part is announced: the installations are silent for minutes, and longer where torch is a build with CUDA.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST, WORK = ROOT / "dist", ROOT / "build" / "release"
CLAIMED = ("3.11", "3.12", "3.13")
"""The versions of Python in the package's metadata (`tests/study/test_study_pages.py`)."""

COMMAND_LINE = "statistics"
"""The extra with all that the command line needs; without it, fresh environments have the dependencies alone."""

NEWEST, OLDEST = ("envs/torch.txt", "envs/cpu.txt"), ("envs/oldest.txt",)
"""Constraints of the newest versions that the tests ran with, and of the lowest that the metadata allow."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run everything; the exit status is 1 if anything failed, or could not be tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--torch-index", default="", metavar="URL", help="package index for torch alone")
    help_of_pythons = "interpreters to try (default: one of each version that is claimed)"
    every = [f"python{number}" for number in CLAIMED]
    parser.add_argument("--pythons", nargs="+", default=every, metavar="PYTHON", help=help_of_pythons)
    arguments = parser.parse_args(argv)
    version = version_of(ROOT)
    problems = list(disagreements(ROOT))
    announce("build the sdist and the wheel, and check both")
    build(version)
    pythons = {number: python for python in arguments.pythons if (number := number_of(python))}
    absent = [number for number in CLAIMED if number not in pythons]
    problems += [f"Python {number} was not tried: name one with --pythons" for number in absent]
    index = arguments.torch_index
    tried = [installed(version, python, f"newest-{number}", NEWEST, index) for number, python in pythons.items()]
    if CLAIMED[0] in pythons:
        tried.append(installed(version, pythons[CLAIMED[0]], "oldest", OLDEST, index))
    print(f"\nrankbound {version}: {', '.join(sorted(path.name for path in DIST.iterdir()))}")
    print(*(f"  tried: {text}" for text in tried), sep="\n")
    print(*(f"  to do: {text}" for text in problems), sep="\n")
    if not problems:
        print(f"ready: git tag v{version}, then upload dist/ with twine")
    return 1 if problems else 0


def build(version: str) -> None:
    """Build the sdist, and the wheel from it; check names, contents and metadata."""
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    files = sorted(path.name for path in DIST.iterdir())
    assert files == [f"rankbound-{version}-py3-none-any.whl", f"rankbound-{version}.tar.gz"], files
    run(sys.executable, "-m", "twine", "check", "--strict", *DIST.iterdir())
    # The wheel was built from the sdist: with the files of the clone in the one, the other has them, too.
    run(Path(sys.executable).with_name("check-wheel-contents"), "--package", ROOT / "src/rankbound", wheel())


def installed(version: str, python: str, name: str, constraints: Sequence[str], torch_index: str) -> str:
    """Install the wheel and then the sdist into a fresh environment, try both, and return what was installed."""
    folder = WORK / name
    announce(f"{name}: install torch, the wheel and the sdist with {python}, and try them")
    run(python, "-m", "venv", folder / "venv")
    own = folder / "venv" / "bin" / "python"
    pip = (own, "-m", "pip", "install", "--quiet", "--no-compile")
    limits = [part for file in constraints for part in ("-c", ROOT / file)]
    run(*pip, "torch", *limits, *(("--index-url", torch_index) if torch_index else ()))
    run(*pip, wheel(), *limits)
    smoke(own, folder, version)
    run(*pip, f"{wheel()}[{COMMAND_LINE}]", *limits)
    smoke(own, folder, version, "all")
    run(*pip, "--no-deps", "--force-reinstall", DIST / f"rankbound-{version}.tar.gz")
    smoke(own, folder, version)
    listed = run(own, "-m", "pip", "list", "--format", "freeze")
    versions = re.findall(r"^((?:torch|numpy|polars|pyarrow|scipy)==\S+)", listed, re.MULTILINE)
    shutil.rmtree(folder)
    number = run(python, "-c", "import platform; print(platform.python_version())").strip()
    return f"Python {number}, {' '.join(versions)}"


def announce(text: str) -> None:
    """Say what comes next, and when it began."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def smoke(python: Path, folder: Path, version: str, *parts: str) -> None:
    """Run the smoke test in an empty folder; a warning is an error."""
    empty = folder / f"smoke-{len(list(folder.iterdir()))}"
    empty.mkdir()
    run(python, "-I", Path(__file__).with_name("smoke.py"), version, ROOT, *parts, cwd=empty)


def wheel() -> Path:
    return next(DIST.glob("*.whl"))


def number_of(python: str) -> str:
    """Return the version of an interpreter, such as 3.11; an empty text if it does not run."""
    try:
        return run(python, "-c", "import sys; print(*sys.version_info[:2], sep='.')").strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run(*command: object, cwd: Path = ROOT) -> str:
    """Run a command, and return what it printed; what it printed is shown if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        print(*command, done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()
    return done.stdout


def version_of(root: Path) -> str:
    """Return the version of the library in a clone."""
    text = (root / "src/rankbound/_version.py").read_text("utf-8")
    return re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)[0]


def disagreements(root: Path) -> Iterator[str]:
    """Yield what states another version than `_version.py`, or none, each with what to do."""
    version = version_of(root)
    citation = re.findall(r"^version: (.+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    if citation != [version]:
        yield f"CITATION.cff has the version {' '.join(citation) or 'none'}, expected {version}: edit it"
    sections = re.findall(r"^## (\S+)", (root / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    if sections[:1] == ["Unreleased"]:
        yield f"CHANGELOG.md begins with Unreleased: name that section {version}, with the date of the release"
    elif sections[:1] != [version]:
        yield f"CHANGELOG.md begins with {' '.join(sections[:1]) or 'no section'}, expected {version}: describe it"
    listed = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], cwd=root, capture_output=True, text=True, check=False
    )
    if (tags := listed.stdout.split()) and f"v{version}" not in tags:
        yield f"this commit has the tag {' '.join(tags)}, expected v{version}: tag another commit, or set the version"


def lowest(project: Mapping[str, Mapping[str, list[str]]], extra: str) -> dict[str, str]:
    """Return the lowest versions that pyproject.toml allows of the dependencies and of an extra, by name."""
    extras, waiting, found = project["optional-dependencies"], [*project["dependencies"]], {}
    waiting += extras[extra]
    while waiting:
        text = waiting.pop(0)
        if inner := re.fullmatch(r"rankbound\[(.+)\]", text):
            waiting += [one for name in inner[1].split(",") for one in extras[name]]
        else:
            name, bound = text.split(">=")
            found[name] = bound
    return found


if __name__ == "__main__":
    sys.exit(main())
