"""A few calls of an installed rankbound, run by the Python of a fresh environment in an empty folder.

`python -I smoke.py VERSION CLONE [all]` needs torch and numpy alone; with `all` also the extra `statistics`. The import
must not come from the clone.
"""

import csv
import random
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path

import numpy as np
import torch

import rankbound as rb

TOPICS, ITEMS = 30, 8


def core(expected: str, clone: Path) -> None:
    """Check the version, the place, the public names, values, gradients and bounds."""
    where = Path(rb.__file__).resolve()
    assert not where.is_relative_to(clone / "src"), f"imported from the clone: {where}"
    assert version("rankbound") == expected
    assert (where.parent / "py.typed").is_file()
    assert metadata("rankbound")["Requires-Python"] == ">=3.11"
    for name in rb.__all__:
        getattr(rb, name)
    scores = torch.tensor([0.9, 0.1, 0.4, 0.2, 0.7], requires_grad=True)
    relevance, offsets = torch.tensor([0, 1, 0, 1, 0]), torch.tensor([0, 3, 5])
    values = rb.metric("nDCG@10")(scores.detach(), relevance, offsets)
    assert np.allclose(values.numpy(), [0.5, 1 / np.log2(3)])
    for bound in ("none", "min-max", "distribution"):
        rb.SmoothLoss("nDCG", bound=bound)(scores, relevance, offsets, reduction="mean").backward()
    assert torch.isfinite(scores.grad).all()
    for name in ("RankNet", "LambdaRank", "ListMLE", "softmax"):
        assert torch.isfinite(rb.loss(name)(scores, relevance, offsets)).all()
    assert rb.minimum("nDCG", 3, 1) < rb.expectation("nDCG", 3, 1) < 1
    assert 0 < rb.score_distribution("AP", n=50, p=25, method="exact").cdf(0.6) < 1
    assert run("--version").split() == ["rankbound", expected]


def command_line() -> None:
    """Train, score, evaluate and compare on a small table."""
    drawn = random.Random(0)
    with Path("lists.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["topic", "item", "relevance", "first", "second"])
        for topic in range(TOPICS):
            for item in range(ITEMS):
                feature = drawn.random()
                table.writerow([topic, f"i{item}", int(feature > 0.6), feature, drawn.random()])
    for loss in ("nDCG", "RankNet"):
        run("train", "lists.csv", "--loss", loss, "--out", f"{loss}.safetensors")
        run("score", f"{loss}.safetensors", "lists.csv", "--out", f"{loss}.txt")
    assert "nDCG@10" in run("evaluate", "nDCG.txt", "lists.csv", "-m", "nDCG@10")
    assert "AP" in run("compare", "nDCG.txt", "RankNet.txt", "--qrels", "lists.csv", "-m", "AP")


def run(*arguments: str) -> str:
    """Run `python -m rankbound` and return what it printed."""
    done = subprocess.run([sys.executable, "-I", "-m", "rankbound", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"rankbound {' '.join(arguments)}: {done.stderr}"
    return done.stdout


if __name__ == "__main__":
    core(sys.argv[1], Path(sys.argv[2]))
    if sys.argv[3:] == ["all"]:
        command_line()
