"""`python -m benchmarks.data_sizes SET`: time and memory of each step on generated data of a known data set's size.

Steps are separate processes. *mslr-web10k* (1,200,192 rows of 136 features in 10,000 queries, with that data set's
layout, shares of labels and about its length of lines) and *movielens-...* (ratings of an edition, such as 1M's
1,000,209 of 6,040 users with `::`, or 25M's 25,000,095 of 162,541 users) are archives for the steps of the study.
*mslr-web30k* is text of 3,771,125 rows in 31,531 queries, which the command line packs, trains on, scores and
evaluates. Shown are the peak of the resident memory, and that of a process' own, without the pages of mapped files.
"""

import argparse
import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import asked, data, rows_of
from benchmarks.runner import Cost, cost_of
from rankbound_study.config.sections.description import known_sets

MSLR, MSLR_TEXT = "mslr-web10k", "mslr-web30k"
SETS = (MSLR, MSLR_TEXT, *data.EDITIONS)
_ROWS: Mapping[str, Any] = rows_of("data_sizes")
METHODS: Mapping[str, Mapping[str, Any]] = _ROWS["methods"]


def main(arguments: list[str] | None = None) -> None:
    """Generate the data, run the steps, and print their time and memory, and the sizes of all files."""
    chosen = asked("benchmarks.data_sizes", __doc__, arguments, set=SETS, methods=METHODS)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sizes-", dir=chosen.folder) as name:
        folder = Path(name)
        if chosen.set == MSLR_TEXT:
            list(data.write_parts(folder, data.MSLR_WEB30K, chosen.share, parts=1))
            for title, words in _ROWS["commands"].items():
                step(title, *(word.format(folder=folder) for word in words.split()))
        else:
            run_steps(chosen, folder)
        for path in sorted(folder.iterdir()):
            print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")


def step(title: str, *command: object) -> Cost:
    """Run a command of Python's `-m`, and print its elapsed and processor time and its memory."""
    cost = cost_of(command)
    times = f"{cost.seconds:9.1f} s{cost.processor:10.1f} s of processor"
    print(f"{title:24}{times}{cost.peak / 1e6:10.0f} MB, {cost.own / 1e6:.0f} of its own", flush=True)
    return cost


def run_steps(chosen: argparse.Namespace, folder: Path) -> None:
    """Write the archive of a set into a folder, and run the steps of the study."""
    known = known_sets()[chosen.set]
    archive, rows, folds = folder / known.archives[0], folder / "rows.parquet", folder / "folds.parquet"
    is_mslr, name, study = chosen.set == MSLR, f"generated-{chosen.set}", "rankbound_study"
    # Under another name and without its size: a share of the rows is not the data set.
    described = known.model_dump(exclude_defaults=True, exclude={"sizes"}) | {"path": str(archive)}
    if is_mslr:
        # Instead of the publisher's, so that converting the archive includes the check of its members.
        described["content"]["members"] = data.write_folds(archive, data.MSLR_WEB10K, share=chosen.share)
    else:
        data.write_ratings(archive, data.EDITIONS[chosen.set], share=chosen.share)
    description = ("--description", json.dumps(described))
    cost = step("convert", study, "convert", name, "--raw", archive, "--out", rows, *description)
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
        options = {**_ROWS["job"], "method": method, **METHODS[method]}
        step(f"job {method}", study, "job", *files, "--options", json.dumps(options))


if __name__ == "__main__":
    main()
