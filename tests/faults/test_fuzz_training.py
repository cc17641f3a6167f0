"""Any bytes to the training of one's own files: a model, or one message; never a traceback, never half a file."""

import os
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings

from rankbound import cli
from tests.damages import Damages, damaged
from tests.faults.test_fuzz_readers import few_damages

EXAMPLES = int(os.environ.get("RANKBOUND_FUZZ", "60"))
many = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

RATINGS = b"topic,item,relevance\n" + b"".join(
    b"%d,%d,%d\n" % (topic, item, (topic + item) % 3) for topic in range(4) for item in range(5)
)
FACTORS = ["--model", "matrix-factorization", "--factors", "2"]
QUICK = ["--epochs", "1", "--device", "cpu"]

COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "train": lambda path: ["train", path, *FACTORS, *QUICK, "--out", "m.safetensors"],
    "negatives": lambda path: ["train", path, *FACTORS, *QUICK, "--negatives", "2", "--out", "m.safetensors"],
    "validation": lambda path: ["train", path, "--validation", "other.csv", *FACTORS, *QUICK, "--out", "m.safetensors"],
    "score": lambda path: ["score", "model.safetensors", path, "--out", "run.txt"],
    "score by means": lambda path: ["score", "model.safetensors", path, "--unknown", "mean", "--out", "run.csv"],
    "folds": lambda path: ["cross-validate", path, *FACTORS, *QUICK, "--folds", "2", "-m", "AP", "--runs", "runs"],
    "split": lambda path: ["cross-validate", "--split", f"{path},other.csv", *FACTORS, *QUICK, "-m", "AP"],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_bytes(RATINGS)
    Path("other.csv").write_bytes(b"topic,item,relevance\n9,1,0\n9,2,1\n9,3,0\n")
    assert cli.main(["train", "r.csv", *FACTORS, *QUICK, "--out", "model.safetensors"]) == 0
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_any_table_is_trained_on_or_refused_in_one_message(command: str, folder: Path) -> None:
    @many
    @given(few_damages)
    @example([])
    @example([(0, 400, b"topic,item,relevance\n")])
    @example([(0, 400, b"topic,item,relevance\na,x,1\n")])
    @example([(0, 400, b"topic,item,relevance\na,x,1\nb,x,0\n")])
    @example([(0, 400, b"topic,item,relevance\na,x,1\na,y,0\nb,x,1\n")])
    @example([(0, 400, b"topic,item,relevance\na,x,1e308\na,y,0\nb,x,1e308\nb,z,3\n")])
    def attempt(damage: Damages) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as own:
            Path(own, "x.csv").write_bytes(damaged(RATINGS, damage))
            before = {path.name for path in folder.iterdir()}
            out, err = StringIO(), StringIO()
            with redirect_stdout(out), redirect_stderr(err):
                status = cli.main(COMMANDS[command](f"{Path(own).name}/x.csv"))
            messages = [line for line in err.getvalue().splitlines() if line.startswith("rankbound ")]
            assert (status, len(messages)) in ((0, 0), (2, 1)), err.getvalue()
            if status == 2:
                made = {path.name for path in folder.iterdir()} - before
                assert made <= {"runs"}, made
            for name in ("m.safetensors", "run.txt", "run.csv"):
                Path(name).unlink(missing_ok=True)

    attempt()
