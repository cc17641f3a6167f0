"""`python -m benchmarks.web30k_size`: pack, train, score and evaluate lists of MSLR-WEB30K's size on the command line.

The text is generated, in the layout of `benchmarks.mslr_size`: 3,771,125 rows of 136 features in 31,531 queries, as
the publisher states. The features take 2 GB; the memory that a step needs besides the files that it maps is shown.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.judged_sets import MSLR_WEB30K, sizes_of, write_queries
from benchmarks.study_steps import processor_seconds

_EVERY = 0.05
"""Seconds between two looks at a step's memory."""


def main() -> None:
    """Generate the text, run the commands, and print their time and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.web30k_size", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("benchmarks/results/web30k-size"), help="scratch folder, about 10 GB"
    )
    parser.add_argument("--share", type=float, default=1.0, help="share of the queries and rows (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    text, packed, model, run = (folder / name for name in ("all.txt", "all.arrow", "model.safetensors", "run.parquet"))
    if not text.exists():
        write_text(text, round(MSLR_WEB30K.topics * chosen.share), round(MSLR_WEB30K.rows * chosen.share))
    print(f"{text}: {text.stat().st_size / 1e6:.0f} MB", flush=True)
    try:
        step("pack", text, packed)
        print(f"{packed}: {packed.stat().st_size / 1e6:.0f} MB", flush=True)
        training = ("--model", "mlp", "--bound", "min-max", "--epochs", 1, "--batch-size", 64, "--device", "cpu")
        step("train", packed, "--out", model, *training)
        step("score", model, packed, "--out", run)
        step("evaluate", run, packed, "-m", "nDCG@10", "-m", "AP")
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def write_text(path: Path, topics: int, rows: int, seed: int = 0) -> None:
    """Write LETOR text with uneven lists."""
    random = np.random.default_rng(seed)
    sizes = sizes_of(random, topics, rows, MSLR_WEB30K.spread)
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        write_queries(file, random, MSLR_WEB30K, np.arange(topics), sizes)
    unfinished.rename(path)


def step(command: str, *arguments: object) -> None:
    """Run `rankbound COMMAND`, and print its elapsed and processor time and its own memory."""
    start, before = time.perf_counter(), processor_seconds()
    process = subprocess.Popen([sys.executable, "-m", "rankbound", command, *map(str, arguments)])
    most = 0
    while process.poll() is None:
        most = max(most, _own_bytes(process.pid))
        time.sleep(_EVERY)
    if process.returncode:
        sys.exit(f"rankbound {command}: exit status {process.returncode}")
    seconds, spent = time.perf_counter() - start, processor_seconds() - before
    print(f"{command:10}{seconds:8.1f} s{spent:8.1f} s of processor{most / 1e6:8.0f} MB", flush=True)


def _own_bytes(pid: int) -> int:
    """Return the memory of a process without the pages of mapped files, which the system drops when it needs them."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    own = [line.split()[1] for line in status.splitlines() if line.startswith("RssAnon")]
    return int(own[0]) * 1024 if own else 0


if __name__ == "__main__":
    main()
