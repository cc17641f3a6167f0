"""Seeded stand-ins for the licensed data sets, always labelled synthetic, for demonstrations and tests.

They have the published sizes and shares, scaled down on demand, and a planted structure that a model can learn in part:
a random ordering scores below a fitted model, and the model below an oracle, by margins that tests state.

*Ratings*: a user's utility of an item decides which items the user rates, and which of these are relevant: both are
draws without replacement with probabilities proportional to exp(utility). An item of larger utility is
therefore more likely to be relevant, and the order by utility is the best one by expectation (Bayes-optimal) among
negatives that are drawn uniformly. Data sets of any name have sizes and tastes by planted parameters.

*Faces*: hair and skin indicate the age in part. Hair turns grey with age: a linear sign, blurred by hair colours.
Wrinkles are stripes whose strength grows with age but whose place is random: no linear model detects them. Some
pictures are altered copies of others with another age, as in the real set.
"""

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import ndtri

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import SMALLEST_GENERATED, SYNTHETIC
from rankbound_study.config.sections.data import PlantedKeys
from rankbound_study.data.contracts import (
    CONTRACTS,
    DATASET_KEY,
    FOLDS,
    PARTS_KEY,
    SYNTHETIC_KEY,
    judged_table,
    write_table,
)
from rankbound_study.data.faces import perceptual_hashes, write_images
from rankbound_study.data.images import CHANNELS, SIDE, Pixels

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

SIZES = {
    "synthetic-movielens": {"demo": 60, "full": 412},
    "synthetic-mq2008": {"demo": 120, "full": 784},
    "synthetic-aaf": {"demo": 240, "full": 12_936},
}
"""Number of topics (users with enough relevant items, or queries), or of faces."""

_WIDTH = 46

# MQ2008 (INVENTORY section 1): 5 .. 121 documents, median 8, mean 19.4; labels 0, 1, 2 in shares 81, 13 and 6%; 28% of
# the queries have no label above 0; every query has some label 0.
_FEWEST_DOCUMENTS, _MOST_DOCUMENTS, _MEDIAN_MORE, _MORE_SPREAD = 5, 121, 3.5, 1.6
_EMPTY_SHARE, _POSITIVE_SHARE, _TOP_SHARE = 0.28, 0.3, 0.32
_CAUSES, _INFORMATIVE, _CONSTANT, _NOISE = 6, 30, 6, 0.8
_FIRST_QUERY = 10_001


def generate(
    dataset: str, out: str | os.PathLike[str], seed: int, size: str, planted: PlantedKeys | None = None
) -> None:
    """Write `synthetic-movielens` (interactions), `synthetic-mq2008` (judged lists) or `synthetic-aaf` (images).

    With `planted` parameters, a data set of any other name `synthetic-*` has ratings by these. `size` is a number of
    topics or faces, `demo` or `full`. Raises ConfigError for another data set or size.
    """
    if (dataset in SIZES) == (planted is not None) or not dataset.startswith(SYNTHETIC):
        raise ConfigError(
            f"there is no synthetic data set {dataset!r}; known are {', '.join(SIZES)}, and, with planted parameters, "
            f"any other name {SYNTHETIC}*"
        )
    sizes = SIZES.get(dataset, SIZES["synthetic-movielens"])
    if size not in sizes and (not size.isdigit() or int(size) < SMALLEST_GENERATED):
        raise ConfigError(f"--size is {size!r}; expected demo, full, or a number of topics from {SMALLEST_GENERATED}")
    topics = sizes[size] if size in sizes else int(size)
    stated = {"dataset": dataset, "seed": seed, "topics": topics}
    if planted is not None:
        stated["planted"] = planted.model_dump()
    metadata = {DATASET_KEY: dataset, SYNTHETIC_KEY: json.dumps(stated, sort_keys=True)}
    random = np.random.default_rng(derive_seed("synthetic", dataset, seed, topics))
    if planted is not None:
        # Not by the name: two data sets that differ in one parameter share everything that it does not change.
        random = np.random.default_rng(derive_seed("planted", seed, topics))
        population = Population.drawn(random, topics, planted)
        longest = round(population.relevant.max() / _RELEVANT_SHARE)
        if longest > planted.items:
            raise ConfigError(
                f"planted.items is {planted.items}, but the longest list takes {longest} rated items: raise items, or "
                "lower spread or mean_relevant"
            )
        ratings = _ratings(random, population.relevant, population.utilities())
        write_table(ratings, out, "interactions", metadata=metadata)
    elif dataset == "synthetic-aaf":
        # Drawn twice instead of held in memory: the real set's size would take 400 MB.
        drawn = [(perceptual_hashes(pixels), ages) for pixels, ages in _blocks(topics, seed)]
        hashes, ages = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        names = [f"{number:05}A{age:02}" for number, age in enumerate(ages.tolist())]
        blocks = (pixels for pixels, _ in _blocks(topics, seed))
        write_images(out, names, np.arange(topics), ages, hashes, blocks, metadata, {})
    elif dataset == "synthetic-movielens":
        write_table(_like_movielens(random, topics, sizes["full"]), out, "interactions", metadata=metadata)
    else:
        table = _judged_lists(random, topics)
        parts = np.array_split(np.arange(topics), FOLDS)
        places = {f"S{part}": [[int(own[0]), int(own[-1]) + 1]] for part, own in enumerate(parts, start=1)}
        write_table(table, out, "lists", list(map(len, parts)), {**metadata, PARTS_KEY: json.dumps(places)})


def _judged_lists(random: np.random.Generator, queries: int) -> pa.Table:
    """Return lists whose labels follow hidden causes, partly linear; the features are noisy mixtures of these."""
    more = np.floor(_MEDIAN_MORE * np.exp(_MORE_SPREAD * random.standard_normal(queries)))
    sizes = np.clip(_FEWEST_DOCUMENTS + more, _FEWEST_DOCUMENTS, _MOST_DOCUMENTS).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    rows = int(offsets[-1])
    causes = random.standard_normal((rows, _CAUSES))
    weights = random.permutation(np.linspace(0.4, 1.2, _CAUSES)) * random.choice((-1.0, 1.0), _CAUSES)
    utility = causes @ weights + np.tanh(causes[:, 0] * causes[:, 1]) + _NOISE * random.standard_normal(rows)
    labels = np.zeros(rows, dtype=np.int8)
    for start, stop in pairwise(offsets):
        # 0 throughout for some queries, else the best get 2 and 1, and at least one stays 0.
        if random.random() >= _EMPTY_SHARE:
            positives = np.clip(random.binomial(stop - start, _POSITIVE_SHARE), 1, stop - start - 1)
            order = start + np.argsort(-utility[start:stop])[:positives]
            labels[order] = 1
            labels[order[: random.binomial(positives, _TOP_SHARE)]] = 2
    # Noisy mixtures of the causes, pure noise and constants, scaled to 0 .. 1 per query as LETOR does.
    mixed = causes @ random.standard_normal((_CAUSES, _INFORMATIVE)) / np.sqrt(_CAUSES)
    noise = random.standard_normal((rows, _WIDTH - _CONSTANT))
    noise[:, :_INFORMATIVE] = mixed + _NOISE * noise[:, :_INFORMATIVE]
    lowest = np.minimum.reduceat(noise, offsets[:-1])
    spread = np.maximum.reduceat(noise, offsets[:-1]) - lowest
    query = np.repeat(np.arange(queries), sizes)
    features = np.zeros((rows, _WIDTH))
    features[:, random.permutation(_WIDTH)[: _WIDTH - _CONSTANT]] = (noise - lowest[query]) / spread[query]
    topics = [str(_FIRST_QUERY + query) for query in range(queries)]
    names = [f"SYNTHETIC-{topic}-{place}" for topic, size in zip(topics, sizes, strict=True) for place in range(size)]
    return judged_table(topics, names, labels, np.round(features, 6).astype(np.float32), offsets)


# MovieLens latest-small (INVENTORY section 1): 412 users with at least 25 relevant items, 198 with fewer; 9,724
# rated movies; relevant items per user 25 .. 1227, median 65.5, mean 110.5; 48% of all ratings are 4 or more.
_FULL_ITEMS, _FEWEST_ITEMS = 9724, 600
_DROPPED_SHARE, _RELEVANT_SHARE = 198 / 412, 0.48
_LEAST_RELEVANT, _MOST_RELEVANT, _MEDIAN_EXCESS, _EXCESS_SPREAD = 25, 1227, 40.5, 1.2
_ITEMS_PER_RELEVANT = 6  # room for three negatives per relevant item among the rated movies
_TASTES, _TASTE_WEIGHT, _POPULARITY_SPREAD = 4, 1.6, 1.3
_PLANTED_WEIGHT, _MINORITY = 2.0, 0.25  # of tastes in planted utilities; the share of users with tastes of long lists
_FIRST_TIMESTAMP = 1_000_000_000


def _like_movielens(random: np.random.Generator, users: int, full_users: int) -> pa.Table:
    """Return ratings by popularity and taste, in the sizes of MovieLens scaled to a number of users."""
    scale = min(1.0, users / full_users)
    items = max(_FEWEST_ITEMS, round(_FULL_ITEMS * scale))
    # So many users with enough relevant items, and the share of others that folding drops.
    excess = _MEDIAN_EXCESS * np.sqrt(scale) * np.exp(_EXCESS_SPREAD * random.standard_normal(users))
    most = min(items // _ITEMS_PER_RELEVANT, _MOST_RELEVANT)
    enough = np.clip(_LEAST_RELEVANT + np.round(excess), _LEAST_RELEVANT, most).astype(np.int64)
    fewer = random.integers(1, _LEAST_RELEVANT, size=round(users * _DROPPED_SHARE))
    relevant = random.permutation(np.concatenate((enough, fewer)))
    popularity = _POPULARITY_SPREAD * random.standard_normal(items)
    item_tastes = random.standard_normal((items, _TASTES))
    tastes = (random.standard_normal(_TASTES) / np.sqrt(_TASTES) for _ in relevant)
    return _ratings(random, relevant, (popularity + _TASTE_WEIGHT * item_tastes @ taste for taste in tastes))


@dataclass(frozen=True)
class Population:
    """The planted truth: sizes and tastes of users, and the items' places in the space of tastes.

    Attributes:
        relevant: number of relevant items of every user.
        minority: whether a user's taste is of the kind that goes with long lists.
        tastes: `(n_users, rank)`; the minority's lie in the first half of the dimensions, all others' in the second.
        item_tastes: `(n_items, rank)`.
        popularity: `(n_items,)`, the same for all users.
    """

    relevant: Integers
    minority: npt.NDArray[np.bool_]
    tastes: Floats
    item_tastes: Floats
    popularity: Floats

    @classmethod
    def drawn(cls, random: np.random.Generator, users: int, planted: PlantedKeys) -> "Population":
        r"""Draw a population in which spread and correlation hold exactly, up to rounding.

        Sizes are $c \exp(s \sqrt{3} u)$ for values $u$ evenly spaced between -1 and 1, whose standard deviation is
        $1 / \sqrt{3}$; $c$ makes their mean `mean_relevant`. The correlation is between the normal scores of sizes and
        a standard normal score of every user, of which the largest belong to the minority.
        """
        place = (2 * random.permutation(users) + 1) / users - 1
        sizes = np.exp(planted.spread * place * np.sqrt(3 / (1 - 1 / users**2)))
        relevant = np.round(planted.mean_relevant * sizes / sizes.mean()).astype(np.int64)
        # The part of noise that is not correlated with the centred scores of sizes.
        scores, noise = ndtri((place + 1) / 2), random.standard_normal(users)
        noise -= noise.mean()
        noise -= scores * (noise @ scores) / (scores @ scores)
        noise *= np.sqrt((scores @ scores) / (noise @ noise))
        score = planted.correlation * scores + np.sqrt(1 - planted.correlation**2) * noise
        minority = np.zeros(users, dtype=np.bool_)
        minority[np.argsort(-score)[: round(_MINORITY * users)]] = True
        half = planted.rank // 2
        tastes = random.standard_normal((users, planted.rank)) / np.sqrt(half)
        tastes[minority, half:] = 0
        tastes[~minority, :half] = 0
        popularity = planted.popularity * random.standard_normal(planted.items)
        item_tastes = _PLANTED_WEIGHT * random.standard_normal((planted.items, planted.rank))
        return cls(relevant, minority, tastes, item_tastes, popularity)

    def utilities(self) -> Iterator[Floats]:
        """Yield every user's utilities of all items."""
        for taste in self.tastes:
            yield self.popularity + self.item_tastes @ taste


def _ratings(random: np.random.Generator, relevant: Integers, utilities: Iterable[Floats]) -> pa.Table:
    """Return the ratings of users with so many relevant items each, by their utilities."""
    rows = []
    for user, (count, utility) in enumerate(zip(relevant.tolist(), utilities, strict=True), 1):
        items = len(utility)
        rated = min(items, round(count / _RELEVANT_SHARE))
        # The largest values of utility plus Gumbel noise are a draw without replacement by exp(utility).
        chosen = np.argsort(-(utility + random.gumbel(size=items)))[:rated]
        ordered = chosen[np.argsort(-(utility[chosen] + random.gumbel(size=rated)))]
        good = random.choice((4.0, 4.5, 5.0), size=count)
        poor = random.integers(1, 8, size=rated - count) / 2
        rows.append((np.full(rated, user), ordered, np.concatenate((good, poor))))
    topic, item, rating = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((item, topic))
    # Like the real ones, movie ids are not dense.
    timestamp = _FIRST_TIMESTAMP + random.permutation(len(order))
    columns = {"topic": topic[order], "item": 1 + 3 * item[order], "rating": rating[order], "timestamp": timestamp}
    return pa.table(columns).cast(pa.schema(CONTRACTS["interactions"].columns.items()))


# All-Age-Faces without exact duplicates: ages 2 .. 80, and the shares of the decades.
_DECADES = np.array([2, 10, 20, 30, 40, 50, 60, 70, 81])
_SHARES = np.array([0.080, 0.095, 0.238, 0.255, 0.155, 0.086, 0.053, 0.038])
_COPY_SHARE = 0.02

_BLOCK = 240
_TEXTURE_GRID, _TEXTURE = 13, 24.0
_HAIR_NOISE, _GREYNESS, _WRINKLES = 30.0, 110.0, 30.0
_BACKGROUND, _SKIN = (90, 220), (120, 210)


def _blocks(count: int, seed: int) -> Iterator[tuple[Pixels, Integers]]:
    """Yield some faces and their ages at a time; the last ones are altered copies of the first ones."""
    for start in range(0, count, _BLOCK):
        size = min(_BLOCK, count - start)
        random = np.random.default_rng(derive_seed("synthetic", "synthetic-aaf", seed, count, start))
        decade = random.choice(len(_SHARES), size, p=_SHARES / _SHARES.sum())
        ages = random.integers(_DECADES[decade], _DECADES[decade + 1])
        drawn = _draw(random, ages)
        if copies := int(_COPY_SHARE * size):
            drawn[-copies:] = 0.8 * drawn[:copies] + 25 + 2 * random.standard_normal(drawn[:copies].shape)
        yield np.clip(np.round(drawn), 0, 255).astype(np.uint8), ages


def _draw(random: np.random.Generator, ages: Integers) -> Singles:
    """Return faces `(n, 3, side, side)` before rounding: background, hair, wrinkled skin, and a texture over all."""
    count = len(ages)
    age = ((ages - _DECADES[0]) / (_DECADES[-1] - 1 - _DECADES[0])).astype(np.float32)
    place = np.linspace(-1, 1, SIDE, dtype=np.float32)
    across, down = place[None, None, :], place[None, :, None]
    width = _spread(0.45 + 0.06 * random.standard_normal(count, dtype=np.float32))
    face = (across / width) ** 2 + (down / 0.7) ** 2 < 1
    hair = ((across / (width + 0.12)) ** 2 + ((down + 0.2) / 0.75) ** 2 < 1) & ~(face & (down > -0.35))
    stripes = np.sin(_spread(random.uniform(25, 35, count)) * down + _spread(random.uniform(0, 2 * np.pi, count)))
    canvas = np.empty((count, CHANNELS, SIDE, SIDE), dtype=np.float32)
    grey = 30 + _GREYNESS * age + _HAIR_NOISE * np.abs(random.standard_normal(count, dtype=np.float32))
    for channel in range(CHANNELS):
        background, skin = (_spread(random.uniform(*reach, count)) for reach in (_BACKGROUND, _SKIN))
        wrinkled = skin + _WRINKLES * _spread(age) * stripes
        canvas[:, channel] = np.where(hair, _spread(grey), np.where(face, wrinkled, background))
    # Smooth noise, which makes all pictures different.
    knots = np.linspace(0, SIDE - 1, _TEXTURE_GRID)
    weights = np.clip(1 - np.abs(np.arange(SIDE)[:, None] - knots) / knots[1], 0, None).astype(np.float32)
    coarse = random.standard_normal((count, _TEXTURE_GRID, _TEXTURE_GRID), dtype=np.float32)
    canvas += _TEXTURE * (weights @ coarse @ weights.T)[:, None]
    return canvas


def _spread(values: npt.NDArray[Any]) -> Singles:
    """Return a value per face, for all its pixels."""
    return values.astype(np.float32)[:, None, None]
