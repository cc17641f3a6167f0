"""`python -m benchmarks.movielens_size`: time and memory of convert, split and sample on ratings of MovieLens' sizes.

The archives are generated, in the layouts and sizes of MovieLens 1M (`ratings.dat` with `::`, 1,000,209 ratings of
6,040 users) and 25M (`ratings.csv`, 25,000,095 ratings of 162,541 users). Every step is a separate process, whose peak
resident memory is shown.
"""

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.rating_sets import EDITIONS, write_archive
from benchmarks.study_steps import run_step
from rankbound_study.config.sections.known_sets import known_set


def main() -> None:
    """Generate the archives, run the steps, and print their time and memory."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.movielens_size", description=__doc__)
    parser.add_argument("--edition", choices=EDITIONS, default="movielens-1m", help="(default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results/movielens-size"), help="scratch folder")
    parser.add_argument("--share", type=float, default=1.0, help="share of the users and ratings (default: 1)")
    parser.add_argument("--keep", action="store_true", help="keep the files")
    chosen = parser.parse_args()
    folder, edition = chosen.folder / chosen.edition, EDITIONS[chosen.edition]
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / edition.archive
    if not archive.exists():
        write_archive(archive, edition, chosen.share)
    print(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB", flush=True)
    try:
        _run_all(folder, chosen.edition, archive)
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def _run_all(folder: Path, name: str, archive: Path) -> None:
    ratings, folds = folder / "ratings.parquet", folder / "folds.parquet"
    # Under another name: a share of the users is not the edition, whose size is checked.
    known = known_set(name).model_dump(exclude_defaults=True, exclude={"sizes"})
    name = f"generated-{name}"
    described = json.dumps({**known, "path": str(archive)})
    print(run_step(folder, "convert", name, "--raw", archive, "--out", ratings, "--description", described), flush=True)
    print(run_step(folder, "split", name, "--in", ratings, "--out", folds), flush=True)
    files = ("--in", ratings, "--folds", folds, "--out", folder / "instances.parquet")
    print(run_step(folder, "sample", name, *files, "--options", json.dumps({"nsr": 1})), flush=True)


if __name__ == "__main__":
    main()
