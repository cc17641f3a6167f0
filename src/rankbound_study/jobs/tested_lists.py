"""Lists that differ from the instances: tests at another ratio, with fewer relevant items; other validation shares."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rankbound.errors import ConfigError, DataError
from rankbound.texts import derive_seed
from rankbound_study.config.data_sets import DataSet
from rankbound_study.config.samplings import SampledName
from rankbound_study.data.reader import FoldedLists, Split, merge, read_instances
from rankbound_study.jobs.job import TrainingJob
from rankbound_study.jobs.parts import StudyData

_Integers = npt.NDArray[np.int64]


def as_tested(job: TrainingJob, data: StudyData, other: Path | None) -> StudyData:
    """Return the data with the test lists of the job; `other` is the file with those of another ratio."""
    if (job.test_nsr is None) != (other is None):
        found, expected = ("none", "a file") if other is None else ("a file", "none")
        raise ConfigError(f"--test-instances: found {found}, expected {expected}: test_nsr is {job.test_nsr}")
    instances = data.instances
    if other is not None:
        of_ratio = read_instances(other)
        if of_ratio.nsr != job.test_nsr:
            raise DataError(f"{other}: found instances at NSR {of_ratio.nsr}, expected {job.test_nsr}")
        instances = with_tests_of(instances, of_ratio)
    if job.validation_share is not None:
        instances = with_validation_share(instances, job.validation_share)
    if job.test_relevant is not None:
        instances = with_few_relevant(instances, job.test_relevant)
    return replace(data, instances=instances)


def with_tests_of(instances: FoldedLists, other: FoldedLists) -> FoldedLists:
    """Return `instances` with the test lists of `other`: the same ratings and folds, sampled at another ratio.

    Every ratio draws its negatives anew, so a test negative of one may be a training negative of the other. Those in
    the user's training or validation list are removed from the test list.

    Raises:
        DataError: the two differ in items, users, folds or relevant test items.
    """
    if instances.item_names is None or instances.item_names != other.item_names or instances.folds != other.folds:
        raise DataError("test instances: expected sampled ratings with the same items and folds; make both anew")
    places = {name: place for place, name in enumerate(instances.topics)}
    if unknown := [name for name in other.topics if name not in places]:
        raise DataError(f"test instances: topic {unknown[0]} has no training lists; make both anew")
    names = np.array([places[name] for name in other.topics], dtype=np.int64)
    splits = dict(instances.splits)
    for fold in instances.folds:
        split = other.split(fold, "test")
        test = replace(split, topics=names[split.topics])
        own = instances.split(fold, "test")
        if not np.array_equal(_relevant_pairs(test, instances), _relevant_pairs(own, instances)):
            raise DataError(f"test instances: fold {fold}'s test part has other relevant items; make both anew")
        seen = np.concatenate([_pairs(instances.split(fold, part), instances) for part in ("train", "validation")])
        splits[fold, "test"] = test.keep(~np.isin(_pairs(test, instances), seen))
    return replace(instances, splits=splits)


def with_few_relevant(instances: FoldedLists, count: int) -> FoldedLists:
    """Return `instances` with at most `count` relevant items, drawn at random, per test list, and all other items."""
    splits = dict(instances.splits)
    for fold in instances.folds:
        test = instances.split(fold, "test")
        kept = test.relevance == 0
        for topic, own in test.slices():
            relevant = own.start + np.flatnonzero(test.relevance[own] > 0)
            seed = derive_seed("test-relevant", instances.dataset, fold, instances.topics[topic])
            kept[np.random.default_rng(seed).permutation(relevant)[:count]] = True
        splits[fold, "test"] = test.keep(kept)
    return replace(instances, splits=splits)


def with_validation_share(instances: FoldedLists, share: float) -> FoldedLists:
    """Return `instances` with that share of training and validation items, relevant and other, in validation.

    Each user's items of both parts are shuffled by a seed of the user and the fold and split anew, so the validation
    items of a smaller share are among those of a larger one. Test lists stay.

    Raises:
        ConfigError: the instances are judged lists, whose folds have a separate validation part, or whole catalogues,
            whose parts share items.
        DataError: a user would keep nothing to train on.
    """
    if not (DataSet(instances.dataset, instances.nsr).sampled and SampledName.of(instances.dataset).sampling.draws):
        raise ConfigError(f"validation_share: {instances.dataset} is not a data set of ratings with drawn items")
    splits = dict(instances.splits)
    for fold in instances.folds:
        both = merge(instances.split(fold, "train"), instances.split(fold, "validation"))
        validates = np.zeros(len(both.items), dtype=bool)
        for topic, own in both.slices():
            user = instances.topics[topic]
            seed = derive_seed("validation-share", instances.dataset, fold, user)
            shuffled = own.start + np.random.default_rng(seed).permutation(own.stop - own.start)
            for some in (shuffled[both.relevance[shuffled] > 0], shuffled[both.relevance[shuffled] == 0]):
                validates[some[: _validation_count(share, len(some), user)]] = True
        splits[fold, "train"], splits[fold, "validation"] = both.keep(~validates), both.keep(validates)
    return replace(instances, splits=splits)


def _validation_count(share: float, items: int, user: str) -> int:
    count = max(1, round(share * items))
    if count >= items:
        raise DataError(
            f"validation_share: user {user} has {items} items of one kind to train on, of which {count} would validate"
        )
    return count


def _pairs(split: Split, instances: FoldedLists) -> _Integers:
    """Return a number for every topic and item of the lists."""
    pairs: _Integers = split.owners * instances.item_count + split.items
    return pairs


def _relevant_pairs(split: Split, instances: FoldedLists) -> _Integers:
    return np.sort(_pairs(split, instances)[split.relevance > 0])
