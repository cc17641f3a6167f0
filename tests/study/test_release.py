"""What a release states agrees, and a lie is found; the locked environment has every package with checksums."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.release import __main__ as release
from tests.release.agreement import COMMAND_LINE, disagreements, lowest, version_of

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone that is ready for the release of 1.2.0."""
    for name, text in {
        "src/rankbound/_version.py": '__version__ = "1.2.0"\n',
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
        "CHANGELOG.md": "# Changes\n\n## 1.2.0 (2030-01-01)\n\n## 1.1.0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def git(clone: Path, *arguments: str) -> None:
    named = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *named, *arguments], cwd=clone, check=True, capture_output=True)


def test_a_clone_that_agrees_has_nothing_to_do(clone: Path) -> None:
    assert version_of(clone) == "1.2.0"
    assert list(disagreements(clone)) == []


@pytest.mark.parametrize(
    ("file", "before", "after", "expected"),
    [
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff has the version 1.1.0, expected 1.2.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "", "CITATION.cff has the version none, expected 1.2.0"),
        ("CHANGELOG.md", "1.2.0 (2030-01-01)", "Unreleased", "CHANGELOG.md begins with Unreleased: name that section"),
        ("CHANGELOG.md", "## 1.2.0 (2030-01-01)", "", "CHANGELOG.md begins with 1.1.0, expected 1.2.0"),
    ],
)
def test_what_states_another_version_is_named(clone: Path, file: str, before: str, after: str, expected: str) -> None:
    path = clone / file
    path.write_text(path.read_text().replace(before, after))
    (problem,) = disagreements(clone)
    assert problem.startswith(expected)


def test_the_tag_is_the_versions(clone: Path) -> None:
    git(clone, "init", "-q")
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "all")
    assert list(disagreements(clone)) == []
    git(clone, "tag", "v1.1.0")
    assert "has the tag v1.1.0, expected v1.2.0" in next(disagreements(clone))
    git(clone, "tag", "v1.2.0")
    assert list(disagreements(clone)) == []


def test_this_clone_lacks_a_dated_section_at_most() -> None:
    assert all("begins with Unreleased" in problem or "has the tag" in problem for problem in disagreements(ROOT))


def test_the_oldest_environment_has_the_lowest_versions_that_are_allowed() -> None:
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "envs/oldest.txt").read_text("utf-8"), re.MULTILINE))
    assert pins == lowest(PROJECT, COMMAND_LINE)


def test_the_pythons_that_are_claimed_are_those_that_are_tried() -> None:
    claimed = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert tuple(claimed) == release.CLAIMED
    assert PROJECT["requires-python"] == f">={release.CLAIMED[0]}"


# The locked environment: every package at the version that the tests ran with, and with checksums

ENVS = Path(__file__).resolve().parents[2] / "envs"


def names_and_versions(text: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pins}


def test_every_package_has_a_checksum_and_none_comes_from_elsewhere() -> None:
    lock = (ENVS / "lock.txt").read_text("utf-8")
    entries = re.split(r"^(?=\w)", lock, flags=re.MULTILINE)[1:]
    assert len(entries) == len(names_and_versions(lock)) > 150
    for entry in entries:
        assert re.search(r"^    --hash=sha256:[0-9a-f]{64}", entry, re.MULTILINE), entry
    assert not re.search(r"https?:|file:|^-", lock, re.MULTILINE)


def test_versions_are_those_that_the_tests_ran_with() -> None:
    lock, ran = (names_and_versions((ENVS / name).read_text("utf-8")) for name in ("lock.txt", "cpu.txt"))
    assert {name: lock[name] for name in lock.keys() & ran.keys()} == {
        name: ran[name] for name in lock.keys() & ran.keys()
    }
    # Those of other systems, and what installs the project.
    assert lock.keys() - ran.keys() == {"httpx2-jsfetch", "pyreadline3", "pywin32", "setuptools", "tzdata"}
    assert "torch" not in lock
