"""Validation lists with another share of each user's training ratings than the instances' own."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rankbound.errors import ConfigError, DataError
from rankbound.seeds import derive_seed
from rankbound_study.data.reader import Instances, Split

_Integers = npt.NDArray[np.int64]


def with_validation_share(instances: Instances, share: float) -> Instances:
    """Return `instances` with that share of training and validation items, relevant and other, in validation.

    Each user's items of both parts are shuffled by a seed of the user and the fold and split anew, so the validation
    items of a smaller share are among those of a larger one. Test lists stay.

    Raises:
        ConfigError: the instances are judged lists, whose folds have a separate validation part.
        DataError: a user would keep nothing to train on.
    """
    if instances.nsr is None:
        raise ConfigError(f"validation_share: {instances.dataset} is not a data set of ratings")
    splits: Mapping[tuple[int, str], Split] = {
        key: split for fold in instances.folds for key, split in _cut(instances, fold, share).items()
    }
    return replace(instances, splits={**instances.splits, **splits})


def _cut(instances: Instances, fold: int, share: float) -> dict[tuple[int, str], Split]:
    parts = [instances.split(fold, name) for name in ("train", "validation")]
    topics = np.concatenate([np.repeat(part.topics, part.sizes) for part in parts])
    items, relevance = (np.concatenate([getattr(part, name) for part in parts]) for name in ("items", "relevance"))
    order = np.lexsort((items, topics))
    topics, items, relevance = topics[order], items[order], relevance[order]
    validates = np.zeros(len(items), dtype=bool)
    users, starts = np.unique(topics, return_index=True)
    for user, own in zip(users.tolist(), np.split(np.arange(len(items)), starts[1:]), strict=True):
        seed = derive_seed("validation-share", instances.dataset, fold, instances.topics[user])
        shuffled = np.random.default_rng(seed).permutation(own)
        for some in (shuffled[relevance[shuffled] > 0], shuffled[relevance[shuffled] == 0]):
            validates[some[: _count(share, len(some), instances.topics[user])]] = True
    return {
        (fold, name): _lists(topics[chosen], items[chosen], relevance[chosen])
        for name, chosen in (("train", ~validates), ("validation", validates))
    }


def _count(share: float, items: int, user: str) -> int:
    count = max(1, round(share * items))
    if count >= items:
        raise DataError(
            f"validation_share: user {user} has {items} items of one kind to train on, of which {count} would validate"
        )
    return count


def _lists(topics: _Integers, items: _Integers, relevance: npt.NDArray[np.int8]) -> Split:
    names, starts = np.unique(topics, return_index=True)
    return Split(names, items, relevance, np.concatenate((starts, [len(items)])).astype(np.int64))
