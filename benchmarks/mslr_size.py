"""`python -m benchmarks.mslr_size`: time and memory of the study's steps on a data set of MSLR-WEB10K's size.

The archive is generated: 1,200,192 rows of 136 features in 10,000 queries, with MSLR-WEB10K's layout, shares of labels
and about its length of lines. Every step is a separate process, whose peak resident memory is shown.
"""

import argparse
import json
import shutil
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from benchmarks.generated_source import generated_source
from benchmarks.judged_sets import MSLR_WEB10K, sizes_of, write_queries
from benchmarks.study_steps import run_step

DATASET = "mslr-web10k"
PARTS = 5
ARCHIVE = "MSLR-WEB10K.zip"
# Precedes a step: replaces the source's checksums by those of the generated archive.
_REGISTER = """\
import json, sys
from dataclasses import replace
from rankbound_study.data import sources
name, members = json.loads(sys.argv.pop(2))
sources.SOURCES = {name: replace(sources.SOURCES[name], members=members)}
"""

METHODS: Mapping[str, Mapping[str, Any]] = {
    "LambdaMART": {
        "family": "rank",
        "model": {"name": "boosted-trees", "rounds": 10, "every": 10, "leaves": 15, "min_rows": 20},
        "loss": "LambdaRank",
        "settings": {},
    },
    "Class-LR": {
        "family": "class",
        "model": {"name": "linear"},
        "loss": "logistic",
        "settings": {"batches": "items"},
    },
    "RankNet": {
        "family": "rank",
        "model": {"name": "mlp", "hidden": [100, 30]},
        "loss": "RankNet",
        "settings": {"batches": "pairs", "pairs": 10_000},
    },
}
_JOB = {
    "study": "size",
    "protocol": "honest",
    "dataset": f"{DATASET}-label2",
    "nsr": None,
    "bounding": "none",
    "target": "relevance",
    "judged_by": "nDCG@10",
    "folds": [1],
    "seeds": [0],
}
_SETTINGS = {"optimiser": "adam", "learning_rate": 0.001, "epochs": 1, "batch_size": 100, "scale": "standard"}


def main() -> None:
    """Generate the archive, run the steps, and print their time and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mslr_size", description=__doc__)
    parser.add_argument(
        "--folder", type=Path, default=Path("benchmarks/results/mslr-size"), help="scratch folder, about 4 GB"
    )
    parser.add_argument("--share", type=float, default=1.0, help="share of the queries and rows (default: 1)")
    parser.add_argument(
        "--methods", nargs="*", choices=METHODS, default=[*METHODS], help="methods to train for one epoch"
    )
    parser.add_argument("--tables", action="store_true", help="convert the same rows as CSV and parquet, too")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / ARCHIVE
    if not archive.exists():
        write_archive(archive, round(MSLR_WEB10K.topics * chosen.share), round(MSLR_WEB10K.rows * chosen.share))
    print(f"{archive}: {_describe(archive)}", flush=True)
    try:
        _run_all(folder, chosen.methods)
        if chosen.tables:
            _convert_tables(folder)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def write_archive(path: Path, topics: int, rows: int, seed: int = 0) -> None:
    """Write an archive in MSLR-WEB10K's layout, without the training files, which no step reads.

    Each part is written twice: for the fold that tests on it, and for the fold that validates on it.
    """
    random = np.random.default_rng(seed)
    sizes = sizes_of(random, topics, rows, MSLR_WEB10K.spread)
    part_file, unfinished = path.with_suffix(".part.txt"), path.with_suffix(".part.zip")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part, queries in enumerate(np.array_split(np.arange(topics), PARTS), 1):
            with part_file.open("wb") as file:
                write_queries(file, random, MSLR_WEB10K, queries, sizes)
            # Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4.
            for name, offset in (("test", 4), ("vali", 3)):
                archive.write(part_file, f"Fold{(part - 1 - offset) % PARTS + 1}/{name}.txt")
    part_file.unlink()
    unfinished.rename(path)


def write_csv(archive: Path, path: Path) -> None:
    """Write the rows of the archive's five parts as one table."""
    names = ",".join(["query", "label", *(f"f{feature}" for feature in range(1, MSLR_WEB10K.width + 1))])
    with zipfile.ZipFile(archive) as opened, path.open("wb") as file:
        file.write(f"{names}\n".encode())
        for name in sorted(name for name in opened.namelist() if name.endswith("test.txt")):
            with opened.open(name) as lines:
                file.writelines(map(_row, lines))


def _row(line: bytes) -> bytes:
    label, *pairs = line.split()
    query, *values = (pair.partition(b":")[2] for pair in pairs)
    return b",".join((query, label, *values)) + b"\n"


def _convert_tables(folder: Path) -> None:
    csv, parquet, out = folder / "rows.csv", folder / "rows.parquet", folder / "lists.parquet"
    write_csv(folder / ARCHIVE, csv)
    pl.scan_csv(csv).sink_parquet(parquet)
    for path in (csv, parquet):
        columns = {"topic": "query", "relevance": "label"}
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": PARTS}
        arguments = ("--raw", path, "--out", out, "--description", json.dumps(described))
        step = run_step(folder, "convert", "rows", *arguments, name=f"convert {path.name}")
        print(f"{step}   of {path.stat().st_size / 1e6:.0f} MB", flush=True)


def _describe(archive: Path) -> str:
    return f"{archive.stat().st_size / 1e6:.0f} MB, {_text_bytes(archive) / 1e6:.0f} MB of text in its five parts"


def _text_bytes(archive: Path) -> int:
    with zipfile.ZipFile(archive) as opened:
        return sum(info.file_size for info in opened.infolist() if info.filename.endswith("test.txt"))


def _run_all(folder: Path, methods: list[str]) -> None:
    archive, lists, folds = folder / ARCHIVE, folder / "lists.parquet", folder / "folds.parquet"
    arguments = ("convert", DATASET, "--raw", archive, "--out", lists)
    checksums = json.dumps([DATASET, dict(generated_source(DATASET, archive).members)])
    step = run_step(folder, *arguments, first=_REGISTER, told=checksums)
    megabytes = _text_bytes(archive) / 1e6
    rates = f"{megabytes / step.seconds:.0f} MB/s, {megabytes / step.processor_seconds:.0f} of processor"
    print(f"{step}   {rates}", flush=True)
    print(run_step(folder, "split", DATASET, "--in", lists, "--out", folds), flush=True)
    for reading, options in (("label2", {"threshold": 2}), ("graded", {"graded": True})):
        arguments = ("--in", lists, "--folds", folds, "--out", folder / f"{reading}.parquet")
        step = run_step(
            folder, "sample", DATASET, *arguments, "--options", json.dumps(options), name=f"sample {reading}"
        )
        print(step, flush=True)
    for method in methods:
        arguments = ("--instances", folder / "label2.parquet", "--lists", lists, "--out", folder / f"{method}.parquet")
        options = {
            **_JOB,
            "method": method,
            **METHODS[method],
            "settings": {**_SETTINGS, **METHODS[method]["settings"]} if METHODS[method]["settings"] else {},
        }
        print(run_step(folder, "job", *arguments, "--options", json.dumps(options), name=f"job {method}"), flush=True)


if __name__ == "__main__":
    main()
