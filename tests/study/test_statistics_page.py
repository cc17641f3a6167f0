"""The page on statistics runs as it stands, block after block, in an empty folder."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from rankbound import cli
from rankbound_study import cli as study

pytest.importorskip("scipy.stats", reason="the statistics need scipy")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "statistics.md").read_text("utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NUMBER = re.compile(r"[-+]?\d+\.\d+")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    tables = []
    for kind, text in _BLOCK.findall(PAGE):
        capsys.readouterr()
        if kind == "python":
            exec(text, names)
        elif kind == "sh":
            for command, *arguments in [shlex.split(line) for line in text.splitlines() if line[:4] != "pip "]:
                assert command == "rankbound"
                assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
        printed = capsys.readouterr().out
        if printed.startswith("A: "):
            tables.append(printed)
        elif kind == "text":
            assert_alike(tables[-1], text)
    assert len(tables) == 2
    # The last block prints the intervals and Holm's p-values of the first table, of a family of two.
    shown = [line.split() for line in printed.splitlines()]
    assert [line[0] for line in shown] == re.findall(r"^(?:nDCG@10|AP) .*? ([-+]\d\.\d{4}) ", tables[0], re.MULTILINE)


def assert_alike(printed: str, shown: str) -> None:
    """The same table, with numbers that another processor may round otherwise."""
    assert _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", shown).split()
    found, expected = ([float(number) for number in _NUMBER.findall(text)] for text in (printed, shown))
    assert found == pytest.approx(expected, abs=2e-3)


def test_every_flag_that_is_named_exists(capsys: pytest.CaptureFixture[str]) -> None:
    for program in (cli, study):
        with pytest.raises(SystemExit):
            program.main(["compare", "--help"])
    known = capsys.readouterr().out
    flags = set(re.findall(r"(--[a-z][a-z-]+)", PAGE)) - {"--per-topic"}
    assert [flag for flag in sorted(flags) if flag not in known] == []
