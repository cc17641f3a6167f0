"""`python -m benchmarks.data_sizes SET`: time and memory of each step on generated data of a known data set's size.

Steps are separate processes. *mslr-web10k* (1,200,192 rows of 136 features in 10,000 queries, with that data set's
layout, shares of labels and about its length of lines) and *movielens-...* (ratings of an edition, such as 1M's
1,000,209 of 6,040 users with `::`, or 25M's 25,000,095 of 162,541 users) are archives for the steps of the study, whose
peak resident memory is shown. *mslr-web30k* is text of 3,771,125 rows in 31,531 queries, which the command line packs,
trains on, scores and evaluates; the memory that it needs besides the files that it maps is shown.
"""

import argparse
import json
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from benchmarks import asked, data
from benchmarks.runner import Cost, cost_of
from rankbound_study.config.sections.description import known_sets

MSLR, MSLR_TEXT = "mslr-web10k", "mslr-web30k"
SETS = (MSLR, MSLR_TEXT, *data.EDITIONS)
_ROWS: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
METHODS: Mapping[str, Mapping[str, Any]] = _ROWS["methods"]


def main(arguments: list[str] | None = None) -> None:
    """Generate the data, run the steps, and print their time and memory."""
    chosen = asked("benchmarks.data_sizes", __doc__, arguments, set=SETS, methods=METHODS)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sizes-", dir=chosen.folder) as name:
        run_steps(chosen, Path(name))


def step(title: str, *command: object) -> Cost:
    """Run a command of Python's `-m`, and print its elapsed and processor time and its memory."""
    cost = cost_of([sys.executable, "-m", *command])
    memory, words = (cost.own, "of its own") if command[0] == "rankbound" else (cost.peak, "at most")
    times = f"{cost.seconds:9.1f} s{cost.processor:10.1f} s of processor"
    print(f"{title:24}{times}{memory / 1e6:10.0f} MB {words}", flush=True)
    return cost


def run_steps(chosen: argparse.Namespace, folder: Path) -> None:
    """Write the files of a set into a folder, print their sizes, and run the steps."""
    if chosen.set == MSLR_TEXT:
        files = ("all.txt", "all.arrow", "model.safetensors", "run.parquet")
        text, packed, model, run = (folder / name for name in files)
        (written,) = data.write_parts(folder, data.MSLR_WEB30K, chosen.share, parts=1)
        written.rename(text)
        step("pack", "rankbound", "pack", _with_size(text), packed)
        training = ("--model", "mlp", "--bound", "min-max", "--epochs", 1, "--batch-size", 64, "--device", "cpu")
        step("train", "rankbound", "train", _with_size(packed), "--out", model, *training)
        step("score", "rankbound", "score", model, packed, "--out", run)
        step("evaluate", "rankbound", "evaluate", run, packed, "-m", "nDCG@10", "-m", "AP")
        return
    archive, rows, folds = (
        folder / known_sets()[chosen.set].archives[0],
        folder / "rows.parquet",
        folder / "folds.parquet",
    )
    is_mslr, name = chosen.set == MSLR, f"generated-{chosen.set}"
    if is_mslr:
        data.write_folds(archive, data.MSLR_WEB10K, share=chosen.share)
    else:
        data.write_ratings(archive, data.EDITIONS[chosen.set], share=chosen.share)
    # Under another name and without its size: a share of the rows is not the data set.
    described = known_sets()[chosen.set].model_dump(exclude_defaults=True, exclude={"sizes"}) | {"path": str(archive)}
    if is_mslr:
        described["content"]["members"] = dict(data.generated_source(MSLR, archive).content.members)
    study = "rankbound_study"
    description = ("--description", json.dumps(described))
    cost = step("convert", study, "convert", name, "--raw", _with_size(archive), "--out", rows, *description)
    if is_mslr:
        with zipfile.ZipFile(archive) as opened:
            text = sum(info.file_size for info in opened.infolist() if info.filename.endswith("test.txt")) / 1e6
        print(f"{text:.0f} MB of text: {text / cost.seconds:.0f} MB/s, {text / cost.processor:.0f} of processor")
    step("split", study, "split", name, "--in", rows, "--out", folds)
    readings = {"label2": {"threshold": 2}, "graded": {"graded": True}} if is_mslr else {"nsr1": {"nsr": 1}}
    for reading, options in readings.items():
        files = ("--in", rows, "--folds", folds, "--out", folder / f"{reading}.parquet")
        step(f"sample {reading}", study, "sample", name, *files, "--options", json.dumps(options))
    for method in chosen.methods if is_mslr else ():
        files = ("--instances", folder / "label2.parquet", "--lists", rows, "--out", folder / f"{method}.parquet")
        settings = METHODS[method]["settings"] and {**_ROWS["settings"], **METHODS[method]["settings"]}
        job = {**_ROWS["job"], "method": method, **METHODS[method], "settings": settings}
        step(f"job {method}", study, "job", *files, "--options", json.dumps(job))
    if is_mslr and chosen.tables:
        csv, parquet = folder / "rows.csv", folder / "rows-table.parquet"
        write_csv(archive, csv)
        pl.scan_csv(csv).sink_parquet(parquet)
        described = {"format": "table", "columns": {"topic": "query", "relevance": "label"}, "random_parts": data.PARTS}
        for path in (csv, parquet):
            words = ("--raw", _with_size(path), "--out", folder / "lists.parquet", "--description")
            described["path"] = str(path)
            step(f"convert {path.name}", study, "convert", "rows", *words, json.dumps(described))


def write_csv(archive: Path, path: Path) -> None:
    """Write the rows of the archive's five parts as one table."""
    names = ",".join(["query", "label", *(f"f{feature}" for feature in range(1, data.MSLR_WEB10K.width + 1))])
    with zipfile.ZipFile(archive) as opened, path.open("wb") as file:
        file.write(f"{names}\n".encode())
        for name in sorted(name for name in opened.namelist() if name.endswith("test.txt")):
            with opened.open(name) as lines:
                for label, *pairs in map(bytes.split, lines):
                    query, *values = (pair.partition(b":")[2] for pair in pairs)
                    file.write(b",".join((query, label, *values)) + b"\n")


def _with_size(path: Path) -> Path:
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB", flush=True)
    return path


if __name__ == "__main__":
    main()
