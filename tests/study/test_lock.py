"""The locked environment: every package at the version that the tests ran with, and with checksums."""

import re
from pathlib import Path

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
