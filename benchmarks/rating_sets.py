"""Generated ratings with the layout and size of an edition of MovieLens."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.judged_sets import sizes_of


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
    "movielens-100k": Edition(
        "ml-100k.zip",
        "ml-100k/u.data",
        943,
        1_682,
        100_000,
        "\t",
        header=False,
        stars=(1, 2, 3, 4, 5),
        shares=(0.061, 0.114, 0.271, 0.342, 0.212),
    ),
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


def write_archive(path: Path, edition: Edition, share: float = 1.0, seed: int = 0) -> None:
    """Write an archive in the edition's layout, with that share of its users and ratings."""
    unfinished = path.with_suffix(".part.zip")
    with (
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(edition.member, "w", force_zip64=True) as member,
    ):
        for text in texts_of(edition, share, seed):
            member.write(text)
    unfinished.rename(path)


def texts_of(edition: Edition, share: float = 1.0, seed: int = 0) -> Iterator[bytes]:
    """Yield the lines of the edition's file, those of some users at a time."""
    random = np.random.default_rng(seed)
    sizes = _sizes(random, edition, round(edition.users * share), round(edition.rows * share))
    for number, frame in enumerate(_frames(random, edition, sizes)):
        text = frame.write_csv(separator="\t", include_header=edition.header and not number)
        yield text.replace("\t", edition.separator).encode()


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
    movies = np.sort(random.choice(4 * edition.movies, edition.movies, replace=False)) + 1
    of_rank = random.permutation(movies)
    for first in range(0, len(sizes), _USERS_AT_ONCE):
        users = np.arange(first, min(first + _USERS_AT_ONCE, len(sizes)))
        count = int(sizes[users].sum())
        yield pl.DataFrame(
            {
                "userId": np.repeat(users + 1, sizes[users]),
                "movieId": of_rank[popular_items(random, sizes[users], edition.movies)],
                "rating": random.choice(edition.stars, count, p=np.array(edition.shares) / sum(edition.shares)),
                "timestamp": _FIRST_SECOND + random.integers(0, _SECONDS, count),
            }
        ).with_columns(pl.col("rating").cast(pl.Float32 if edition.header else pl.Int32))


def popular_items(random: np.random.Generator, sizes: npt.NDArray[np.int64], items: int) -> npt.NDArray[np.int64]:
    """Return as many distinct items for each user as `sizes` says, one user after another, popular ones the likelier.

    Items are numbered by their popularity, from 0.
    """
    share = np.cumsum(np.arange(1, items + 1) ** -_STEEPNESS)
    return np.concatenate([_distinct(random, share, int(size)) for size in sizes])


def _distinct(random: np.random.Generator, share: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.int64]:
    """Return so many distinct ranks by the sums of their shares."""
    drawn = np.searchsorted(share, random.random(_SURPLUS * size) * share[-1], side="right")
    _, first = np.unique(drawn, return_index=True)
    ranks = drawn[np.sort(first)][:size]
    rest = np.setdiff1d(np.arange(len(share)), ranks)[: size - len(ranks)] if len(ranks) < size else ranks[:0]
    return np.concatenate((ranks, rest))
