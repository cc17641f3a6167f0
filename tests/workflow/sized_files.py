"""Generated files with the layouts and sizes of known data sets; what is relevant can be learnt in part."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.generated_sets import (
    EDITIONS,
    LIGHTGBM_TEST,
    LIGHTGBM_TRAIN,
    MQ2008,
    JudgedSet,
    popular_items,
    sizes_of,
    texts_of,
    write_queries,
)

FOLDS = 5
FIVE_PARTS = (157, 157, 157, 157, 156)
"""Queries of MQ2008's parts."""

USERS, ARTICLES, PAIRS, TEST_PAIRS, SPLITS = 2_465, 16_980, 157_527, 31_457, 3
"""Of CiteULike-a with the splits of Li, Urbano and Hanjalic, and its users' fewest articles."""
FEWEST_ARTICLES = 25

SEARCHES, RESULTS, COLUMNS = 2_000, 100_000, 20
"""Topics, judged items and features of a table."""


def mq2008(folder: Path) -> None:
    """Write Fold1 .. Fold5 with train.txt, vali.txt and test.txt, each row into five of the files."""
    random = np.random.default_rng(0)
    sizes = sizes_of(random, MQ2008.topics, MQ2008.rows, MQ2008.spread)
    parts = []
    for number, queries in enumerate(np.array_split(np.arange(MQ2008.topics), FOLDS), start=1):
        _write(folder / f"S{number}.txt", random, MQ2008, queries, sizes)
        parts.append((folder / f"S{number}.txt").read_text())
        (folder / f"S{number}.txt").unlink()
    for fold in range(FOLDS):
        turned = [*parts[fold:], *parts[:fold]]
        place = folder / f"Fold{fold + 1}"
        place.mkdir()
        for name, texts in {"train": turned[:3], "vali": turned[3:4], "test": turned[4:]}.items():
            (place / f"{name}.txt").write_text("".join(texts))


def lightgbm_example(folder: Path) -> None:
    """Write rank.train and rank.test, sparse and without query ids, each with a file of group sizes beside it."""
    for name, judged in {"rank.train": LIGHTGBM_TRAIN, "rank.test": LIGHTGBM_TEST}.items():
        random = np.random.default_rng(judged.rows)
        sizes = sizes_of(random, judged.topics, judged.rows, judged.spread)
        _write(folder / name, random, judged, np.arange(judged.topics), sizes)
        (folder / f"{name}.query").write_text("".join(f"{size}\n" for size in sizes))


def movielens_1m(path: Path) -> None:
    """Write ratings.dat, whose columns are separated by `::`."""
    path.write_bytes(b"".join(texts_of(EDITIONS["movielens-1m"])))


def movielens_100k(folder: Path) -> None:
    """Write u.data, whose columns are separated by tabs, and its five splits u1.base, u1.test, u2.base, ..."""
    text = b"".join(texts_of(EDITIONS["movielens-100k"]))
    (folder / "u.data").write_bytes(text)
    lines = np.array(text.splitlines(keepends=True), dtype=object)
    part = np.random.default_rng(0).permutation(len(lines)) % FOLDS
    for fold in range(FOLDS):
        (folder / f"u{fold + 1}.base").write_bytes(b"".join(lines[part != fold]))
        (folder / f"u{fold + 1}.test").write_bytes(b"".join(lines[part == fold]))


def citeulike(folder: Path) -> None:
    """Write three random splits of the same pairs, whose test parts overlap: fold_0 .. fold_2."""
    random = np.random.default_rng(0)
    sizes = FEWEST_ARTICLES - 1 + sizes_of(random, USERS, PAIRS - USERS * (FEWEST_ARTICLES - 1), spread=1.0)
    tested = np.diff(np.round(np.cumsum(sizes) * TEST_PAIRS / PAIRS).astype(np.int64), prepend=0)
    user, item = np.repeat(np.arange(USERS), sizes), popular_items(random, sizes, ARTICLES)
    pairs = pl.DataFrame({"user": user, "item": random.permutation(ARTICLES)[item], "rating": 1})
    # A user's rows with the smallest random numbers.
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    for fold in range(SPLITS):
        order = np.lexsort((random.random(PAIRS), user))
        is_test = np.empty(PAIRS, dtype=bool)
        is_test[order] = np.arange(PAIRS) - starts < np.repeat(tested, sizes)
        place = folder / f"fold_{fold}"
        place.mkdir()
        pairs.filter(~is_test).write_csv(place / "train.csv")
        pairs.filter(is_test).write_csv(place / "test.csv")


def searches(path: Path) -> None:
    """Write a table with a row per result; a click depends on three of the features."""
    random = np.random.default_rng(0)
    sizes = sizes_of(random, SEARCHES, RESULTS, spread=0.6)
    features = random.standard_normal((RESULTS, COLUMNS)).astype(np.float32)
    utility = features[:, :3].sum(axis=1) + random.standard_normal(RESULTS)
    columns: Mapping[str, npt.NDArray[np.float32]] = {f"feature {i}": features[:, i] for i in range(COLUMNS)}
    pl.DataFrame(
        {
            "query": [f"query {topic}" for topic in np.repeat(np.arange(SEARCHES), sizes)],
            "product": [f"p{row}" for row in range(RESULTS)],
            "clicked": (utility > 2).astype(np.int8),
            **columns,
        }
    ).write_parquet(path)


def _write(
    path: Path,
    random: np.random.Generator,
    judged: JudgedSet,
    queries: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
) -> None:
    with path.open("wb") as file:
        write_queries(file, random, judged, queries, sizes)
