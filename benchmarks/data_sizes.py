"""`python -m benchmarks.data_sizes SET`: time and memory of each step on generated data of a known data set's size.

Steps are separate processes. *mslr-web10k* (1,200,192 rows of 136 features in 10,000 queries, with that data set's
layout, shares of labels and about its length of lines) and *movielens-...* (ratings of an edition, such as 1M's
1,000,209 of 6,040 users with `::`, or 25M's 25,000,095 of 162,541 users) are archives for the steps of the study, whose
peak resident memory is shown. *mslr-web30k* is text of 3,771,125 rows in 31,531 queries, which the command line packs,
trains on, scores and evaluates; the memory that it needs besides the files that it maps is shown.
"""

import argparse
import json
import shutil
import sys
import zipfile
from functools import partial
from pathlib import Path

import polars as pl

from benchmarks import generated_sets as generated
from benchmarks.measure import Cost, cost_of
from rankbound_study.config.sections.description import known_set

MSLR, MSLR_TEXT = "mslr-web10k", "mslr-web30k"
SETS = (MSLR, MSLR_TEXT, *generated.EDITIONS)
_SETTINGS = {"optimiser": "adam", "learning_rate": 0.001, "epochs": 1, "batch_size": 100, "scale": "standard"}

METHODS = {
    "LambdaMART": ("rank", {"name": "boosted-trees", "rounds": 10, "every": 10, "leaves": 15, "min_rows": 20}, {}),
    "Class-LR": ("class", {"name": "linear"}, {**_SETTINGS, "batches": "items"}),
    "RankNet": ("rank", {"name": "mlp", "hidden": [100, 30]}, {**_SETTINGS, "batches": "pairs", "pairs": 10_000}),
}
"""Name -> family, model and settings."""
_LOSSES = {"LambdaMART": "LambdaRank", "Class-LR": "logistic"}
_JOB = {
    "study": "size",
    "protocol": "honest",
    "dataset": f"{MSLR}-label2",
    "nsr": None,
    "bounding": "none",
    "target": "relevance",
    "judged_by": "nDCG@10",
    "folds": [1],
    "seeds": [0],
}


def main(arguments: list[str] | None = None) -> None:
    """Generate the data, run the steps, and print their time and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.data_sizes", description=__doc__)
    parser.add_argument("set", choices=SETS, help=", ".join(SETS))
    default = Path("benchmarks/results/data-sizes")
    parser.add_argument("--folder", type=Path, default=default, help="scratch folder, about 1 to 10 GB")
    parser.add_argument("--share", type=float, default=1.0, help="share of the queries or users, and rows (default: 1)")
    help_of_methods = f"methods to train for one epoch ({MSLR} only)"
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=[*METHODS], help=help_of_methods)
    help_of_tables = f"convert the same rows as CSV and parquet, too ({MSLR} only)"
    parser.add_argument("--tables", action="store_true", help=help_of_tables)
    parser.add_argument("--keep", action="store_true", help="keep the files")
    chosen = parser.parse_args(arguments)
    folder: Path = chosen.folder / chosen.set
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / ("all.txt" if chosen.set == MSLR_TEXT else known_set(chosen.set).archives[0])
    if not raw.exists():
        described = {MSLR: generated.MSLR_WEB10K, MSLR_TEXT: generated.MSLR_WEB30K, **generated.EDITIONS}[chosen.set]
        writers = {MSLR: generated.write_folds, MSLR_TEXT: generated.write_text}
        writers.get(chosen.set, generated.write_ratings)(raw, described, share=chosen.share)
    _print_size(raw)
    try:
        if chosen.set == MSLR_TEXT:
            _run_commands(folder, raw)
        else:
            _run_steps(folder, chosen.set, raw, chosen.methods)
        if chosen.set == MSLR and chosen.tables:
            _convert_tables(folder, raw)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def _run_steps(folder: Path, name: str, archive: Path, methods: list[str]) -> None:
    rows, folds = folder / "rows.parquet", folder / "folds.parquet"
    # Under another name and without its size: a share of the rows is not the data set.
    known = known_set(name).model_dump(exclude_defaults=True, exclude={"sizes"})
    described = {**known, "path": str(archive)}
    text = 0.0
    if name == MSLR:
        described["content"]["members"] = dict(generated.generated_source(name, archive).content.members)
        with zipfile.ZipFile(archive) as opened:
            text = sum(info.file_size for info in opened.infolist() if info.filename.endswith("test.txt")) / 1e6
    step, name = partial(_print_step, "rankbound_study"), f"generated-{name}"
    cost = step("convert", name, "--raw", archive, "--out", rows, "--description", json.dumps(described))
    if text:
        print(f"{text:.0f} MB of text: {text / cost.seconds:.0f} MB/s, {text / cost.processor:.0f} of processor")
    step("split", name, "--in", rows, "--out", folds)
    graded = {"label2": {"threshold": 2}, "graded": {"graded": True}}
    for reading, options in (graded if text else {"nsr1": {"nsr": 1}}).items():
        files = ("--in", rows, "--folds", folds, "--out", folder / f"{reading}.parquet")
        step("sample", name, *files, "--options", json.dumps(options), title=f"sample {reading}")
    for method in methods if text else ():
        files = ("--instances", folder / "label2.parquet", "--lists", rows, "--out", folder / f"{method}.parquet")
        described = dict(zip(("family", "model", "settings"), METHODS[method], strict=True))
        job = {**_JOB, "method": method, "loss": _LOSSES.get(method, method), **described}
        step("job", *files, "--options", json.dumps(job), title=f"job {method}")


def _run_commands(folder: Path, text: Path) -> None:
    packed, model, run = (folder / name for name in ("all.arrow", "model.safetensors", "run.parquet"))
    step = partial(_print_step, "rankbound", is_own=True)
    step("pack", text, packed)
    _print_size(packed)
    training = ("--model", "mlp", "--bound", "min-max", "--epochs", 1, "--batch-size", 64, "--device", "cpu")
    step("train", packed, "--out", model, *training)
    step("score", model, packed, "--out", run)
    step("evaluate", run, packed, "-m", "nDCG@10", "-m", "AP")


def _convert_tables(folder: Path, archive: Path) -> None:
    csv, parquet, out = folder / "rows.csv", folder / "rows-table.parquet", folder / "lists.parquet"
    write_csv(archive, csv)
    pl.scan_csv(csv).sink_parquet(parquet)
    for path in (csv, parquet):
        columns = {"topic": "query", "relevance": "label"}
        described = {"format": "table", "path": str(path), "columns": columns, "random_parts": generated.PARTS}
        arguments = ("--raw", path, "--out", out, "--description", json.dumps(described))
        _print_size(path)
        _print_step("rankbound_study", "convert", "rows", *arguments, title=f"convert {path.name}")


def write_csv(archive: Path, path: Path) -> None:
    """Write the rows of the archive's five parts as one table."""
    names = ",".join(["query", "label", *(f"f{feature}" for feature in range(1, generated.MSLR_WEB10K.width + 1))])
    with zipfile.ZipFile(archive) as opened, path.open("wb") as file:
        file.write(f"{names}\n".encode())
        for name in sorted(name for name in opened.namelist() if name.endswith("test.txt")):
            with opened.open(name) as lines:
                for label, *pairs in map(bytes.split, lines):
                    query, *values = (pair.partition(b":")[2] for pair in pairs)
                    file.write(b",".join((query, label, *values)) + b"\n")


def _print_step(program: str, *arguments: object, title: str = "", is_own: bool = False) -> Cost:
    """Run a step of a program, and print its elapsed and processor time and its memory."""
    cost = cost_of([sys.executable, "-m", program, *arguments])
    memory, words = (cost.own, "of its own") if is_own else (cost.peak, "at most")
    times = f"{cost.seconds:9.1f} s{cost.processor:10.1f} s of processor"
    print(f"{title or arguments[0]!s:24}{times}{memory / 1e6:10.0f} MB {words}", flush=True)
    return cost


def _print_size(path: Path) -> None:
    print(f"{path}: {path.stat().st_size / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
