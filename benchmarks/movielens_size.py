"""`python -m benchmarks.movielens_size`: time and memory of convert, split and sample on ratings of MovieLens' sizes.

The archives are generated, in the layouts and sizes of MovieLens 1M (`ratings.dat` with `::`, 1,000,209 ratings of
6,040 users) and 25M (`ratings.csv`, 25,000,095 ratings of 162,541 users). Every step is a separate process, whose peak
resident memory is shown.
"""

import argparse
import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.mslr_size import sizes_of
from benchmarks.study_steps import run_step
from rankbound_study.config.known_sets import known_set


@dataclass(frozen=True)
class Edition:
    """An edition of MovieLens: its archive and member, numbers of users, movies and ratings, and the layout."""

    archive: str
    member: str
    users: int
    movies: int
    rows: int
    separator: str
    header: bool
    stars: tuple[float, ...]
    shares: tuple[float, ...]
    """Shares of the ratings."""


EDITIONS = {
    "movielens-1m": Edition(
        "ml-1m.zip",
        "ml-1m/ratings.dat",
        6_040,
        3_706,
        1_000_209,
        "::",
        header=False,
        stars=(1, 2, 3, 4, 5),
        shares=(0.056, 0.108, 0.261, 0.349, 0.226),
    ),
    "movielens-25m": Edition(
        "ml-25m.zip",
        "ml-25m/ratings.csv",
        162_541,
        59_047,
        25_000_095,
        ",",
        header=True,
        stars=(0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5),
        shares=(0.016, 0.031, 0.016, 0.066, 0.050, 0.196, 0.127, 0.266, 0.088, 0.144),
    ),
}
FEWEST = 20
"""Ratings of a user, at least."""

_SPREAD = 1.1
"""Standard deviation of the logarithm of the users' numbers of ratings."""

_STEEPNESS = 0.9
"""Of popularity: a movie's share is as its rank to this power, negative."""

_SURPLUS = 3
"""Movies drawn for each that is needed, as popular ones are drawn repeatedly."""

_USERS_AT_ONCE = 2_000
_FIRST_SECOND, _SECONDS = 789_652_009, 785_000_000


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


def write_archive(path: Path, edition: Edition, share: float = 1.0, seed: int = 0) -> None:
    """Write an archive in the edition's layout, with that share of its users and ratings."""
    random = np.random.default_rng(seed)
    sizes = _sizes(random, edition, round(edition.users * share), round(edition.rows * share))
    unfinished = path.with_suffix(".part.zip")
    with (
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(edition.member, "w", force_zip64=True) as member,
    ):
        for number, frame in enumerate(_frames(random, edition, sizes)):
            text = frame.write_csv(separator="\t", include_header=edition.header and not number)
            member.write(text.replace("\t", edition.separator).encode())
    unfinished.rename(path)


def _sizes(random: np.random.Generator, edition: Edition, users: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the users' numbers of ratings, uneven, with the sum `rows`."""
    most = edition.movies // _SURPLUS
    sizes = np.minimum(FEWEST - 1 + sizes_of(random, users, rows - users * (FEWEST - 1), _SPREAD), most)
    # What the users with the most ratings lost goes to the others, by the room that they have.
    ends = np.round(np.cumsum(most - sizes) / (most - sizes).sum() * (rows - sizes.sum())).astype(np.int64)
    even: npt.NDArray[np.int64] = sizes + np.diff(ends, prepend=0)
    return even


def _frames(random: np.random.Generator, edition: Edition, sizes: npt.NDArray[np.int64]) -> Iterator[pl.DataFrame]:
    """Yield the ratings of some users at a time."""
    share = np.cumsum(np.arange(1, edition.movies + 1) ** -_STEEPNESS)
    movies = np.sort(random.choice(4 * edition.movies, edition.movies, replace=False)) + 1
    of_rank = random.permutation(movies)
    for first in range(0, len(sizes), _USERS_AT_ONCE):
        users = np.arange(first, min(first + _USERS_AT_ONCE, len(sizes)))
        items = [_distinct(random, share, int(size), edition.movies) for size in sizes[users]]
        count = int(sizes[users].sum())
        yield pl.DataFrame(
            {
                "userId": np.repeat(users + 1, sizes[users]),
                "movieId": of_rank[np.concatenate(items)],
                "rating": random.choice(edition.stars, count, p=np.array(edition.shares) / sum(edition.shares)),
                "timestamp": _FIRST_SECOND + random.integers(0, _SECONDS, count),
            }
        ).with_columns(pl.col("rating").cast(pl.Float32 if edition.header else pl.Int32))


def _distinct(
    random: np.random.Generator, share: npt.NDArray[np.float64], size: int, movies: int
) -> npt.NDArray[np.int64]:
    """Return so many distinct ranks, popular ones the likelier."""
    drawn = np.searchsorted(share, random.random(_SURPLUS * size) * share[-1], side="right")
    _, first = np.unique(drawn, return_index=True)
    ranks = drawn[np.sort(first)][:size]
    rest = np.setdiff1d(np.arange(movies), ranks)[: size - len(ranks)] if len(ranks) < size else ranks[:0]
    return np.concatenate((ranks, rest))


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
