"""All generated data, from fixed seeds: lists, runs, texts, and files with the layouts and sizes of known data sets."""

import hashlib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import rankbound as rb
from benchmarks import rows_of

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

RELEVANT_SHARE = 0.1
"""Share of relevant items in single lists."""
MOVIELENS_RELEVANT = {0.0: 25, 0.1: 29, 0.25: 39, 0.5: 65.5, 0.75: 137, 0.9: 245, 0.95: 304, 0.99: 607, 1.0: 1227}
"""Quantile -> relevant movies per user, counted over the 412 users of MovieLens latest-small with at least 25."""
NEGATIVES_PER_RELEVANT = (1, 2, 3)
"""The thesis' negative sampling ratios: a list has 2, 3 or 4 times as many items as relevant ones."""


@dataclass(frozen=True)
class Batch:
    """Concatenated lists: `scores` (float32) and `relevance` (0 or 1) of all items, `sizes` of the lists."""

    scores: Tensor
    relevance: Tensor
    sizes: list[int]

    @property
    def offsets(self) -> Tensor:
        return torch.tensor([0, *np.cumsum(self.sizes)])

    def padded(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, relevance and the mask of items, each `(n_lists, longest)`, padded with 0."""
        mask = torch.arange(max(self.sizes)) < torch.tensor(self.sizes)[:, None]
        scores, relevance = (
            torch.zeros(mask.shape, dtype=values.dtype).masked_scatter(mask, values)
            for values in (self.scores, self.relevance)
        )
        return scores, relevance, mask


def lists_of(sizes: Sequence[tuple[int, int]]) -> Batch:
    """Return lists of these numbers of items and relevant items, with standard normal scores."""
    draws = torch.Generator().manual_seed(0)
    scores = torch.randn(sum(n for n, _ in sizes), generator=draws)
    relevance = torch.cat([(torch.randperm(n, generator=draws) < p).to(torch.int64) for n, p in sizes])
    return Batch(scores, relevance, [n for n, _ in sizes])


def one_list(n: int) -> Batch:
    """Return a list of `n` items with standard normal scores, a tenth of them relevant."""
    return lists_of([(n, max(1, round(RELEVANT_SHARE * n)))])


def uneven_lists() -> Batch:
    """Return 64 lists whose lengths are lognormal, a third of the items relevant."""
    sizes = np.random.default_rng(0).lognormal(np.log(100), 0.6, 64).round().astype(int)
    return lists_of([(int(n), int(n) // 3) for n in np.clip(sizes, 10, 324)])


def movielens_sizes(count: int) -> list[tuple[int, int]]:
    """Return the numbers of items and relevant items of `count` lists at equally spaced quantiles of MovieLens' users.

    Quantiles are interpolated linearly; the negative sampling ratios alternate.
    """
    quantiles = (np.arange(count) + 0.5) / count
    relevant = np.interp(quantiles, list(MOVIELENS_RELEVANT), list(MOVIELENS_RELEVANT.values())).round().astype(int)
    ratios = np.resize(NEGATIVES_PER_RELEVANT, count)
    return [(int(p * (1 + ratio)), int(p)) for p, ratio in zip(relevant, ratios, strict=True)]


Matrices = tuple[Any, Any]
"""Scores and relevance labels `(n_lists, n_items)`; or features `(n_lists, n_items, d)` and grades."""
_GRADE_SHARES = (0.52, 0.23, 0.19, 0.04, 0.02)


def matrices(lists: int, items: int) -> Matrices:
    """Return distinct scores and relevance labels of a run, `(n_lists, n_items)`."""
    draws = np.random.default_rng(0)
    scores = draws.permuted(np.tile(np.arange(items) / items, (lists, 1)), axis=1)
    scores += draws.random(scores.shape) / (2 * items)
    grades = draws.choice(len(_GRADE_SHARES), size=scores.shape, p=_GRADE_SHARES)
    # Libraries treat undefined metrics differently, so every list has a relevant item.
    grades[:, 0] = np.maximum(grades[:, 0], 1)
    return scores, grades


def judged_rows(lists: int, n: int, features: int) -> Matrices:
    """Return normal features of lists `(n_lists, n_items, d)`, and grades from 0 to 2 by two of them and noise."""
    draws = np.random.default_rng(0)
    rows = draws.standard_normal((lists, n, features), np.float32)
    return rows, np.digitize(rows[..., 0] - rows[..., 1] + draws.normal(size=(lists, n)), [1.5, 3.0])


def judged_lists(features: Array, relevance: Array) -> rb.JudgedLists:
    """Return the lists of such rows, with a number as the name of each topic, item and feature."""
    topics, items, names = (list(map(str, range(count))) for count in features.shape)
    offsets, rows = np.arange(len(topics) + 1) * len(items), features.reshape(-1, len(names))
    columns: Mapping[str, Any] = {"relevance": relevance.ravel(), "features": rows, "feature_names": names}
    return rb.JudgedLists(topics=topics, items=items * len(topics), offsets=offsets, **columns)


def lightgbm_rows(rows: Matrices, **columns: Any) -> Any:
    """Return LightGBM's data set of such rows."""
    import lightgbm as lgb

    features, grades = rows
    group = np.full(len(grades), grades.shape[1])
    return lgb.Dataset(features.reshape(-1, features.shape[2]), grades.ravel(), group=group, **columns)


WORDS = ("apple", "basket", "cider", "green", "orchard", "press", "red", "ripe", "tree", "window")
GRADED_WORD = "ripe"
"""The relevance of a document is the number of times that it has this word, at most 2."""
QUERY_WORDS, DOCUMENT_WORDS = 2, 5


def labelled_queries(sizes: list[int], seed: int = 0) -> dict[str, list[Any]]:
    """Return the columns `query`, `documents` and `labels` of queries with so many documents each."""
    draws = np.random.default_rng(seed)
    documents = [[" ".join(draws.choice(WORDS, DOCUMENT_WORDS)) for _ in range(size)] for size in sizes]
    queries = [" ".join(draws.choice(WORDS, QUERY_WORDS)) for _ in sizes]
    labels = [[min(text.split().count(GRADED_WORD), 2) for text in texts] for texts in documents]
    return {"query": queries, "documents": documents, "labels": labels}


# LETOR text.

_KEPT_SIGNAL = 0.5
"""By how many deviations a label shifts a third of the features; twice as many for another third."""
_QUERIES_AT_ONCE = 50


@dataclass(frozen=True)
class JudgedSet:
    """What is published of a data set of judged lists.

    Attributes:
        topics, rows, width: numbers of queries, rows and features.
        labels: numbers, or shares, of the rows with the labels 0, 1, ...
        counts: number of integer features, like the counts of words; the others have six decimals.
        dense: share of nonzero values.
        spread: standard deviation of the logarithm of the lists' sizes.
        documents: write the name of the document into each line, as LETOR 4.0 does.
    """

    topics: int
    rows: int
    width: int
    labels: tuple[float, ...]
    counts: int = 0
    dense: float = 0.75
    spread: float = 0.6
    documents: bool = False


MSLR_WEB10K = JudgedSet(10_000, 1_200_192, 136, (624_263, 386_280, 159_451, 21_317, 8_881), counts=66)
MSLR_WEB30K = JudgedSet(31_531, 3_771_125, 136, MSLR_WEB10K.labels, counts=66)
MQ2008 = JudgedSet(784, 15_211, 46, (12_279, 2_001, 931), spread=1.0, documents=True)


def sizes_of(random: np.random.Generator, topics: int, rows: int, spread: float) -> Integers:
    """Return uneven list sizes with the sum `rows`."""
    weight = np.exp(spread * random.standard_normal(topics))
    ends = np.round(np.cumsum(weight) / weight.sum() * (rows - topics)).astype(np.int64)
    sizes: Integers = np.diff(ends, prepend=0) + 1
    return sizes


PARTS = 5


def write_parts(folder: Path, judged: JudgedSet, share: float = 1.0, parts: int = PARTS) -> Iterator[Path]:
    """Write the text of a data set, that share of its queries and rows, in files of about equal size; yield each.

    Labels depend weakly on features.
    """
    random, topics, feature = np.random.default_rng(0), round(judged.topics * share), np.arange(judged.width)
    sizes = sizes_of(random, topics, round(judged.rows * share), judged.spread)
    is_count = (feature % 2 == 0) & (feature < 2 * judged.counts)
    pairs = " ".join(f"{index}:%d" if count else f"{index}:%.6f" for index, count in enumerate(is_count.tolist(), 1))
    shares = np.cumsum(judged.labels) / sum(judged.labels)
    for part, queries in enumerate(np.array_split(np.arange(topics), parts), 1):
        with (path := folder / f"S{part}.txt").open("wb") as file:
            for start in range(0, len(queries), _QUERIES_AT_ONCE):
                at_once = queries[start : start + _QUERIES_AT_ONCE]
                query = np.repeat(at_once, sizes[at_once])
                label = np.searchsorted(shares, random.random(len(query)), side="right")
                noise = random.standard_normal((len(query), judged.width))
                noise += _KEPT_SIGNAL * label[:, None] * (feature % 3)
                values = np.where(random.random(noise.shape) < judged.dense, np.abs(noise) * 10.0 ** (feature % 4), 0)
                lines = zip(label.tolist(), query.tolist(), values.tolist(), strict=True)
                for place, (grade, topic, row) in enumerate(lines):
                    document = f"#docid = GX{place} inc = 1 prob = 0.5" if judged.documents else ""
                    file.write(f"{grade} qid:{topic + 1} {pairs % tuple(row)} {document}\n".encode())
        yield path


def write_folds(path: Path, judged: JudgedSet, share: float = 1.0) -> dict[str, str]:
    """Write an archive in MSLR-WEB10K's layout, and return the checksums of its test files.

    Each part is written twice: for the fold that tests on it, and for the fold that validates on it. The training files
    are left out, as no step reads them.
    """
    sums = {}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for part, text in enumerate(write_parts(path.parent, judged, share)):
            # Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4.
            test, validation = (f"Fold{(part - offset) % PARTS + 1}" for offset in (4, 3))
            archive.write(text, f"{test}/test.txt")
            archive.write(text, f"{validation}/vali.txt")
            with text.open("rb") as file:
                sums[f"{test}/test.txt"] = hashlib.file_digest(file, "sha256").hexdigest()
            text.unlink()
    return sums


# Ratings.


EDITIONS: Mapping[str, Any] = {name: SimpleNamespace(**row) for name, row in rows_of("data").items()}
"""Editions of MovieLens, by the names of known data sets."""
# A user's fewest ratings, and the standard deviation of the logarithm of the users' numbers of ratings.
FEWEST, _SPREAD = 20, 1.1
# Of popularity: a movie's share is as its rank to this power, negative.
_STEEPNESS = 0.9
# Movies drawn for each that is needed, as popular ones are drawn repeatedly.
_SURPLUS = 3
_USERS_AT_ONCE = 2_000
_FIRST_SECOND, _SECONDS = 789_652_009, 785_000_000


def write_ratings(path: Path, edition: SimpleNamespace, share: float = 1.0, seed: int = 0) -> None:
    """Write an archive in the edition's layout, with that share of its users and ratings."""
    import polars as pl

    random = np.random.default_rng(seed)
    users, rows, most = round(edition.users * share), round(edition.rows * share), edition.movies // _SURPLUS
    # Uneven numbers of ratings; what the users with the most of them lost goes to the others, by the room they have.
    sizes = np.minimum(FEWEST - 1 + sizes_of(random, users, rows - users * (FEWEST - 1), _SPREAD), most)
    ends = np.round(np.cumsum(most - sizes) / (most - sizes).sum() * (rows - sizes.sum())).astype(np.int64)
    sizes = sizes + np.diff(ends, prepend=0)
    movies = random.permutation(np.sort(random.choice(4 * edition.movies, edition.movies, replace=False)) + 1)
    stars = np.array(edition.stars, np.float32 if edition.header else np.int32)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(edition.member, "w", force_zip64=True) as member,
    ):
        for first in range(0, users, _USERS_AT_ONCE):
            user = np.arange(first, min(first + _USERS_AT_ONCE, users))
            count = int(sizes[user].sum())
            columns = {
                "userId": np.repeat(user + 1, sizes[user]),
                "movieId": movies[popular_items(random, sizes[user], edition.movies)],
                "rating": stars[random.choice(len(stars), count, p=np.array(edition.shares) / sum(edition.shares))],
                "timestamp": _FIRST_SECOND + random.integers(0, _SECONDS, count),
            }
            text = pl.DataFrame(columns).write_csv(separator="\t", include_header=edition.header and not first)
            member.write(text.replace("\t", edition.separator).encode())


def popular_items(random: np.random.Generator, sizes: Integers, items: int) -> Integers:
    """Return as many distinct items for each user as `sizes` says, one user after another, popular ones the likelier.

    Items are numbered by their popularity, from 0.
    """
    share = np.cumsum(np.arange(1, items + 1) ** -_STEEPNESS)
    chosen = []
    for size in sizes.tolist():
        drawn = np.searchsorted(share, random.random(_SURPLUS * size) * share[-1], side="right")
        _, first = np.unique(drawn, return_index=True)
        ranks = drawn[np.sort(first)][:size]
        rest = np.setdiff1d(np.arange(items), ranks)[: size - len(ranks)] if len(ranks) < size else ranks[:0]
        chosen += [ranks, rest]
    return np.concatenate(chosen)
