"""`python -m benchmarks.mslr_size`: time and memory of the study's steps on a data set of MSLR-WEB10K's size.

The archive is generated: 1,200,192 rows of 136 features in 10,000 queries, with MSLR-WEB10K's layout, shares of labels
and about its length of lines. Every step is a separate process, whose peak resident memory is shown.
"""

import argparse
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from benchmarks.generated_source import generated_source
from benchmarks.study_steps import run_step

DATASET = "mslr-web10k"
TOPICS, ROWS, WIDTH, PARTS = 10_000, 1_200_192, 136, 5
LABELS = (624_263, 386_280, 159_451, 21_317, 8_881)
"""Number of rows with the labels 0 .. 4."""

ARCHIVE = "MSLR-WEB10K.zip"
_SPREAD = 0.6
"""Standard deviation of the logarithm of the lists' sizes."""
_COUNTS = 66
"""Number of integer features, like the word counts of MSLR-WEB10K; the others have six decimals."""
_KEPT_SIGNAL = 0.5
_DENSE = 0.75
"""Share of nonzero values."""
_QUERIES_AT_ONCE = 50

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
    parser.add_argument("--keep", action="store_true", help="keep the files")
    chosen = parser.parse_args()
    folder: Path = chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / ARCHIVE
    if not archive.exists():
        write_archive(archive, round(TOPICS * chosen.share), round(ROWS * chosen.share))
    print(f"{archive}: {_describe(archive)}", flush=True)
    try:
        _run_all(folder, chosen.methods)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def write_archive(path: Path, topics: int, rows: int, seed: int = 0) -> None:
    """Write an archive in MSLR-WEB10K's layout, without the training files, which no step reads.

    Each part is written twice: for the fold that tests on it, and for the fold that validates on it.
    """
    random = np.random.default_rng(seed)
    sizes = sizes_of(random, topics, rows)
    part_file, unfinished = path.with_suffix(".part.txt"), path.with_suffix(".part.zip")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part, queries in enumerate(np.array_split(np.arange(topics), PARTS), 1):
            with part_file.open("wb") as file:
                write_queries(file, random, queries, sizes)
            # Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4.
            for name, offset in (("test", 4), ("vali", 3)):
                archive.write(part_file, f"Fold{(part - 1 - offset) % PARTS + 1}/{name}.txt")
    part_file.unlink()
    unfinished.rename(path)


def sizes_of(random: np.random.Generator, topics: int, rows: int, spread: float = _SPREAD) -> npt.NDArray[np.int64]:
    """Return uneven list sizes with the sum `rows`."""
    weight = np.exp(spread * random.standard_normal(topics))
    ends = np.round(np.cumsum(weight) / weight.sum() * (rows - topics)).astype(np.int64)
    sizes: npt.NDArray[np.int64] = np.diff(ends, prepend=0) + 1
    return sizes


def write_queries(
    file: BinaryIO, random: np.random.Generator, queries: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> None:
    """Write the lines of some queries."""
    for start in range(0, len(queries), _QUERIES_AT_ONCE):
        file.writelines(_lines(random, queries[start : start + _QUERIES_AT_ONCE], sizes))


def _lines(
    random: np.random.Generator, queries: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]
) -> Iterator[bytes]:
    """Yield the lines of some queries, with labels that depend weakly on the features, and without comments."""
    query = np.repeat(queries, sizes[queries])
    label = np.searchsorted(np.cumsum(LABELS) / sum(LABELS), random.random(len(query)), side="right")
    noise = np.abs(random.standard_normal((len(query), WIDTH)) + _KEPT_SIGNAL * label[:, None] * (np.arange(WIDTH) % 3))
    values = np.where(random.random(noise.shape) < _DENSE, noise * 10.0 ** (np.arange(WIDTH) % 4), 0)
    kinds = ["%d" if feature % 2 == 0 and feature < 2 * _COUNTS else "%.6f" for feature in range(WIDTH)]
    pattern = "%d qid:%d " + " ".join(f"{feature}:{kind}" for feature, kind in enumerate(kinds, 1)) + " \n"
    for grade, topic, row in zip(label.tolist(), query.tolist(), values.tolist(), strict=True):
        yield (pattern % (grade, topic + 1, *row)).encode()


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
