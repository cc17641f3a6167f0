"""What a type checker knows of the public names: calls, options, and the names themselves."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import numpy as np
import torch
from torch import Tensor

import rankbound as rb

scores, relevance, offsets = torch.zeros(3, requires_grad=True), np.array([1, 0, 0]), [0, 3]
loss: Tensor = rb.loss("nDCG@10", "min-max")(scores, relevance, offsets, reduction="mean")
composed: Tensor = (0.5 * rb.loss("nDCG") + rb.loss("RankNet"))(scores, relevance, offsets, list_weights=[1.0])
value: Tensor = rb.metric("nDCG")([0.3, 0.1, 0.2], [1, 0, 0], [0, 3])
by_text: dict[str, Tensor] = rb.evaluate(["AP", "RR"], scores.detach(), relevance, offsets)
mean: dict[str, float] = rb.evaluate_run({"q": {"a": 1.0}}, {"q": {"a": 1}}, "AP").means()
"""
MISTAKES = {
    "rb.nDCG": 'Module has no attribute "nDCG"',
    'rb.loss("nDCG")(scores, relevance)': "Too few arguments",
    'rb.loss("nDCG")([0.1], relevance, offsets)': 'expected "Tensor"',
    'rb.loss("nDCG")(scores, relevance, offsets, reduction="average")': "reduction",
    'rb.loss("nDCG")(scores, relevance, offsets, weight=[1.0])': 'Unexpected keyword argument "weight"',
    'rb.loss("nDCG", temprature=2.0)': 'Unexpected keyword argument "temprature"',
    'rb.evaluate_run({}, {}, "AP").mean()': '"Evaluation" has no attribute "mean"',
}


def test_the_program_runs() -> None:
    exec(PROGRAM, {})


def test_programs_are_typed_and_mistakes_are_found(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM + "".join(f"{line}\n" for line in MISTAKES), "utf-8")
    # The settings and the cache of `make lint`: alone, torch's types take most of a minute.
    known = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    # In a process of its own: the types of torch are ten million objects.
    command = [sys.executable, "-m", "mypy", *known, "--no-error-summary", str(path)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    found = checked.stdout
    assert not checked.stderr
    first = PROGRAM.count("\n") + 1
    by_line: dict[int, str] = {}
    # The cache may hold the errors of the same program elsewhere.
    for number, text in re.findall(r"program\.py:(\d+): (.*)", found):
        by_line[int(number)] = by_line.get(int(number), "") + text
    assert sorted(by_line) == list(range(first, first + len(MISTAKES))), found
    for number, expected in enumerate(MISTAKES.values(), start=first):
        assert expected in by_line[number]
