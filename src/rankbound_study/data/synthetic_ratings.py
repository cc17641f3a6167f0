"""Generated ratings: a stand-in for MovieLens, and data sets whose sizes and tastes are planted by parameters.

A user's utility of an item decides which items the user rates, and which of these are relevant: both are draws without
replacement with probabilities proportional to exp(utility / noise). An item of larger utility is therefore more likely
to be relevant, and the order by utility is the best one by expectation (Bayes-optimal) among negatives that are drawn
uniformly.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import ndtri

from rankbound.errors import ConfigError
from rankbound_study.config.sections.planted import PlantedKeys

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

# MovieLens latest-small (INVENTORY section 1): 412 users with at least 25 relevant items, 198 with fewer; 9,724
# rated movies; relevant items per user 25 .. 1227, median 65.5, mean 110.5; 48% of all ratings are 4 or more.
_FULL_ITEMS, _FEWEST_ITEMS = 9724, 600
_DROPPED_SHARE, _RELEVANT_SHARE = 198 / 412, 0.48
_LEAST_RELEVANT, _MOST_RELEVANT, _MEDIAN_EXCESS, _EXCESS_SPREAD = 25, 1227, 40.5, 1.2
_ITEMS_PER_RELEVANT = 6  # room for three negatives per relevant item among the rated movies
_TASTES, _TASTE_WEIGHT, _POPULARITY_SPREAD = 4, 1.6, 1.3
_FIRST_TIMESTAMP = 1_000_000_000


def like_movielens(random: np.random.Generator, users: int, full_users: int) -> pa.Table:
    """Return ratings by popularity and taste, in the sizes of MovieLens scaled to a number of users."""
    scale = min(1.0, users / full_users)
    items = max(_FEWEST_ITEMS, round(_FULL_ITEMS * scale))
    relevant = _relevant_counts(random, users, scale, items // _ITEMS_PER_RELEVANT)
    popularity = _POPULARITY_SPREAD * random.standard_normal(items)
    item_tastes = random.standard_normal((items, _TASTES))
    tastes = (random.standard_normal(_TASTES) / np.sqrt(_TASTES) for _ in relevant)
    return _ratings(random, relevant, (popularity + _TASTE_WEIGHT * item_tastes @ taste for taste in tastes))


def with_planted(random: np.random.Generator, users: int, planted: PlantedKeys) -> pa.Table:
    """Return ratings of a planted population; ConfigError if the longest list leaves no item to draw from."""
    population = Population.drawn(random, users, planted)
    longest = round(population.relevant.max() / _RELEVANT_SHARE)
    if longest > planted.items:
        raise ConfigError(
            f"planted.items is {planted.items}, but the longest list takes {longest} rated items: raise items, or "
            "lower spread or mean_relevant"
        )
    return _ratings(random, population.relevant, population.utilities(), planted.noise)


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
        score = _correlated(random, ndtri((place + 1) / 2), planted.correlation)
        minority = np.zeros(users, dtype=np.bool_)
        minority[np.argsort(-score)[: round(planted.minority * users)]] = True
        half = planted.rank // 2
        tastes = random.standard_normal((users, planted.rank)) / np.sqrt(half)
        tastes[minority, half:] = 0
        tastes[~minority, :half] = 0
        popularity = planted.popularity * random.standard_normal(planted.items)
        item_tastes = planted.taste * random.standard_normal((planted.items, planted.rank))
        return cls(relevant, minority, tastes, item_tastes, popularity)

    def utilities(self) -> Iterator[Floats]:
        """Yield every user's utilities of all items."""
        for taste in self.tastes:
            yield self.popularity + self.item_tastes @ taste


def _correlated(random: np.random.Generator, scores: Floats, correlation: float) -> Floats:
    """Return values whose sample correlation with centred scores is exactly `correlation`."""
    noise = random.standard_normal(len(scores))
    noise -= noise.mean()
    noise -= scores * (noise @ scores) / (scores @ scores)
    noise *= np.sqrt((scores @ scores) / (noise @ noise))
    found: Floats = correlation * scores + np.sqrt(1 - correlation**2) * noise
    return found


def _ratings(
    random: np.random.Generator, relevant: Integers, utilities: Iterable[Floats], noise: float = 1.0
) -> pa.Table:
    """Return the ratings of users with so many relevant items each, by their utilities."""
    rows = []
    for user, (count, utility) in enumerate(zip(relevant.tolist(), utilities, strict=True), 1):
        items = len(utility)
        rated = min(items, round(count / _RELEVANT_SHARE))
        # The largest values of utility plus Gumbel noise are a draw without replacement by exp(utility).
        chosen = np.argsort(-(utility + noise * random.gumbel(size=items)))[:rated]
        ordered = chosen[np.argsort(-(utility[chosen] + noise * random.gumbel(size=rated)))]
        good = random.choice((4.0, 4.5, 5.0), size=count)
        poor = random.integers(1, 8, size=rated - count) / 2
        rows.append((np.full(rated, user), ordered, np.concatenate((good, poor))))
    topic, item, rating = (np.concatenate(column) for column in zip(*rows, strict=True))
    order = np.lexsort((item, topic))
    # Like the real ones, movie ids are not dense.
    columns = {"topic": topic[order], "item": 1 + 3 * item[order], "rating": rating[order]}
    timestamp = _FIRST_TIMESTAMP + random.permutation(len(order))
    return pa.table({**columns, "timestamp": timestamp}).cast(
        pa.schema({"topic": pa.int32(), "item": pa.int32(), "rating": pa.float32(), "timestamp": pa.int64()}.items())
    )


def _relevant_counts(random: np.random.Generator, users: int, scale: float, most: int) -> Integers:
    """Return relevant items per user: `users` with enough of them, and the share of others that folding drops."""
    excess = _MEDIAN_EXCESS * np.sqrt(scale) * np.exp(_EXCESS_SPREAD * random.standard_normal(users))
    enough = np.clip(_LEAST_RELEVANT + np.round(excess), _LEAST_RELEVANT, min(most, _MOST_RELEVANT))
    fewer = random.integers(1, _LEAST_RELEVANT, size=round(users * _DROPPED_SHARE))
    shuffled: Integers = random.permutation(np.concatenate((enough.astype(np.int64), fewer)))
    return shuffled
