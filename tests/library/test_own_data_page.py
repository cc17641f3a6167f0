"""The page on one's own data runs as it stands, block after block, in an empty folder."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankbound import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "your_own_data.md"
_NUMBER = re.compile(r"-?\d+\.\d+")


def blocks() -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"^```(\w+)\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        yield match[1], match[2]


@pytest.mark.long
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = ""
    kinds = []
    for kind, text in blocks():
        kinds.append(kind)
        if kind == "python":
            exec(text, names)
        elif kind == "sh":
            commands = [shlex.split(line) for line in text.splitlines() if not line.startswith("pip ")]
            for command, *arguments in commands:
                assert command == "rankbound"
                capsys.readouterr()
                assert cli.main(arguments) == 0, (arguments, capsys.readouterr().err)
            printed = capsys.readouterr().out
        else:
            # Another processor may train to other last digits.
            assert _NUMBER.sub("#", printed) == _NUMBER.sub("#", text)
            shown, found = ([float(number) for number in _NUMBER.findall(one)] for one in (text, printed))
            assert found == pytest.approx(shown, abs=0.02)
    assert " ".join(kinds) == "sh python sh text python python python sh python sh python sh sh sh"
    assert names["ndcg"].shape == (40,)
    assert np.nanmean(names["plain"]) > 0.85
    made = {"model.safetensors", "run.txt", "runs", "train.arrow", "packed.safetensors"}
    made |= {"ratings.csv", "later.csv", "films.safetensors", "later.txt", "Fold1", "Fold2", "splits"}
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "test.csv", *made}


def test_the_comment_beside_a_value_is_true() -> None:
    (text,) = [text for kind, text in blocks() if kind == "python" and "from_list_column" in text]
    names: dict[str, Any] = {}
    setup, shown = "import polars as pl\nimport rankbound as rb\n", re.findall(r"# tensor\(\[(.*?)\]", text)
    exec(setup + text.replace("rb.metric(", "value = rb.metric("), names)
    assert names["value"].tolist() == pytest.approx([float(number) for number in shown[0].split(",")], abs=5e-5)
