"""Files of distributions, and the step that makes them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_train_job import frame, options
from test_train_job import train as train_job

import rankbound as rb
from rankbound.bounds.extremes import Facts
from rankbound.bounds.orders import Profile
from rankbound.bounds.score_distribution import score_distribution, score_distributions
from rankbound.bounds.tables import DistributionTables
from rankbound.errors import ConfigError, DataError
from rankbound_study import cli
from rankbound_study.config.job import TrainingJob
from rankbound_study.data.contracts import FOLDS, lists_table
from rankbound_study.data.reader import FoldedLists, Split, read_distributions, read_instances, write_distributions
from rankbound_study.data.sampling import Drawing, RelevantPairs, sampled_instances, write_instances
from rankbound_study.jobs.parts import StudyData, as_tested, with_few_relevant, with_tests_of, with_validation_share

PAIRS = [(2, 1), (8, 4), (20, 10), (6, 6), (400, 200)]


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
def test_tables_survive_the_file_byte_for_byte(metric: str, tmp_path: Path) -> None:
    tables = DistributionTables.collect(one.binned() for one in score_distributions(metric, PAIRS))
    write_distributions(tables, tmp_path / "a.parquet")
    read = read_distributions(tmp_path / "a.parquet")
    write_distributions(read, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    for n, p in PAIRS:
        before, after = tables.of_key(Profile(n, p).key), read.of_key(Profile(n, p).key)
        assert {**vars(before), "support": 0, "probability": 0} == {**vars(after), "support": 0, "probability": 0}
        np.testing.assert_array_equal(before.support, after.support)
        np.testing.assert_array_equal(before.probability, after.probability)
    values, relevance = torch.tensor([0.3, 0.9]), torch.tensor([*[1] * 4, *[0] * 4, *[1] * 200, *[0] * 200])
    facts = Facts(rb.metric(metric), relevance, rb.Lists.of_sizes([8, 400]))
    assert torch.equal(read.smooth(values, facts), tables.smooth(values, facts))


def test_files_know_their_tilt(tmp_path: Path) -> None:
    for tilt in (1, 2.5):
        made = [score_distribution("AP", n=n, p=3, tilt=tilt) for n in (8, 9)]
        write_distributions(DistributionTables.collect(made), tmp_path / "AP.parquet")
        assert (b"rankbound.tilt" in (tmp_path / "AP.parquet").read_bytes()) == (tilt != 1)
        read = read_distributions(tmp_path / "AP.parquet")
        assert read.tilt == read.of_key(Profile(8, 3).key).tilt == tilt
        np.testing.assert_array_equal(read.of_key(Profile(9, 3).key).probability, made[1].probability)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Arguments: instances of a few sizes, and a file to write."""
    lists = {"train": [[1, 1, 0, 0, 0], [0, 0, 0], [1, 1]], "validation": [[1, 0, 0]], "test": [[0, 1]]}
    parts = []
    for split, relevance in lists.items():
        offsets = np.cumsum([0, *map(len, relevance)])
        grades, names = np.concatenate(relevance).astype(np.int8), ["a", "b", "c"][: len(relevance)]
        parts.append((1, split, lists_table(names, 20 * len(parts) + np.arange(len(grades)), grades, offsets)))
    write_instances(tmp_path / "i.parquet", "synthetic-x", None, parts, item_count=100)
    return ["--instances", str(tmp_path / "i.parquet"), "--out", str(tmp_path / "t.parquet")]


def test_the_command_tabulates_or_samples_all_lists_and_the_merged_ones(tmp_path: Path, files: list[str]) -> None:
    made = []
    for _ in range(2):
        assert cli.main(["distributions", "AP", *files]) == 0
        made.append((tmp_path / "t.parquet").read_bytes())
    assert made[0] == made[1]
    tables = read_distributions(tmp_path / "t.parquet")
    assert list(zip(tables.n, tables.p, strict=True)) == [(2, 1), (3, 1), (5, 2), (8, 3)]
    assert tables.metric == "AP"
    how = {"method": "sampled", "samples": 500, "seed": 3}
    assert cli.main(["distributions", "nDCG", *files, "--options", json.dumps(how)]) == 0
    tables, expected = read_distributions(tmp_path / "t.parquet"), score_distribution("nDCG", 8, 3, **how)
    assert tables.samples.tolist() == [500] * 4
    np.testing.assert_array_equal(tables.of_key(Profile(8, 3).key).probability, expected.probability)
    with pytest.raises(DataError, match="distributions/1"):
        read_distributions(files[1])


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("nDGC", "{}", "Did you mean nDCG"),
        ("AP", '{"method": "guess"}', "method: found guess, expected one of"),
        ("AP", '{"sample": 5}', "sample"),
    ],
)
def test_the_command_names_what_is_wrong(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], metric: str, options: str, message: str
) -> None:
    assert cli.main(["distributions", metric, *files, "--options", options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "t.parquet").exists()


# Test lists of another ratio, or with one relevant item, and other validation shares: all else stays

USERS, RELEVANT, ITEMS = 12, 15, 90


def ratings(folder: Path, nsr: int, *, shift: int = 0, items: int = ITEMS) -> Path:
    """Sampled ratings in which every user has so few items that the ratios' negatives overlap."""
    random = np.random.default_rng(0)
    topic = np.repeat(np.arange(USERS, dtype=np.int32), RELEVANT)
    item = np.concatenate([np.sort(random.choice(items, RELEVANT, replace=False)) for _ in range(USERS)])
    fold = ((np.arange(len(topic)) + shift) % FOLDS + 1).astype(np.int8)
    made = sampled_instances(RelevantPairs(topic, item, fold, items), Drawing("movielens", nsr, 0.1, 0))
    names = [str(number) for number in range(items)]
    path = folder / f"nsr{nsr}-{shift}-{items}.parquet"
    write_instances(path, "movielens", nsr, made, item_count=items, item_names=names)
    return path


def pairs(instances: FoldedLists, split: Split) -> set[tuple[str, int, int]]:
    every = zip(split.owners.tolist(), split.items.tolist(), split.relevance.tolist(), strict=True)
    return {(instances.topics[owner], item, relevance) for owner, item, relevance in every}


def test_test_lists_of_another_ratio_or_one_relevant_item_are_new_or_fewer(tmp_path: Path) -> None:
    own, other = (read_instances(ratings(tmp_path, nsr)) for nsr in (3, 1))
    found = with_tests_of(own, other)
    left_out = 0
    for fold in own.folds:
        for part in ("train", "validation"):
            assert pairs(found, found.split(fold, part)) == pairs(own, own.split(fold, part))
        seen = {one[:2] for part in ("train", "validation") for one in pairs(own, own.split(fold, part))}
        before, after = (pairs(one, one.split(fold, "test")) for one in (other, found))
        assert after == {one for one in before if one[:2] not in seen}
        assert {one for one in before if one[2]} <= after
        left_out += len(before) - len(after)
    assert left_out > 0
    own = read_instances(ratings(tmp_path, 2))
    found = with_few_relevant(own, 1)
    for fold in own.folds:
        before, after = (one.split(fold, "test") for one in (own, found))
        assert (after.positives == 1).all()
        assert (after.sizes == before.sizes - before.positives + 1).all()
        assert pairs(found, after) < pairs(own, before)
        assert pairs(found, found.split(fold, "train")) == pairs(own, own.split(fold, "train"))
    again = with_few_relevant(own, 1)
    assert all((again.splits[key].items == found.splits[key].items).all() for key in found.splits)


@pytest.mark.parametrize("changed", [{"shift": 1}, {"items": ITEMS + 1}])
def test_instances_of_other_folds_or_items_are_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    own, other = read_instances(ratings(tmp_path, 3)), read_instances(ratings(tmp_path, 1, **changed))
    with pytest.raises(DataError, match="make both anew"):
        with_tests_of(own, other)


def test_a_file_of_test_lists_is_asked_for_exactly_where_it_counts(tmp_path: Path) -> None:
    paths = {nsr: ratings(tmp_path, nsr) for nsr in (1, 2, 3)}
    data = StudyData(read_instances(paths[3]), None, torch.device("cpu"))
    job = TrainingJob.model_validate(options(nsr=3, test_nsr=1))
    with pytest.raises(ConfigError, match="--test-instances: found none, expected a file"):
        as_tested(job, data, None)
    with pytest.raises(ConfigError, match="--test-instances: found a file, expected none"):
        as_tested(TrainingJob.model_validate(options(nsr=3)), data, paths[1])
    with pytest.raises(DataError, match="found instances at NSR 2, expected 1"):
        as_tested(job, data, paths[2])


def test_a_job_trains_at_one_ratio_and_is_tested_at_another(tmp_path: Path) -> None:
    own, other, out = ratings(tmp_path, 3), ratings(tmp_path, 1), tmp_path / "runs.parquet"
    asked = json.dumps(options(nsr=3, test_nsr=1, protocol="honest", folds=[1]))
    files = ["--instances", str(own), "--test-instances", str(other), "--out", str(out), "--device", "cpu"]
    assert cli.main(["job", *files, "--options", asked]) == 0
    found = frame(out)
    assert found.select("nsr_train", "nsr_test").unique().rows() == [(3, 1)]
    lists = with_tests_of(read_instances(own), read_instances(other)).split(1, "test")
    assert found.filter(selection="validation")["n"].to_list() == lists.sizes.tolist()


@pytest.mark.parametrize("loss", ["softmax", "RankNet", "hinge", "WARP(alpha=constant)@1"])
def test_any_loss_trains_the_factorisation_and_is_judged_by_the_named_metric(tmp_path: Path, loss: str) -> None:
    changes: dict[str, Any] = {"loss": loss, "bounding": "none", "protocol": "honest", "folds": [1], "judged_by": "RR"}
    out = train_job(tmp_path, ratings(tmp_path, 2), nsr=2, test_relevant=1, epochs=6, **changes)
    epochs = frame(tmp_path / "runs.epochs.parquet", "epochs").filter(part="validation").sort("epoch")
    assert epochs["mean_loss"][-1] < epochs["mean_loss"][0]
    best = epochs["RR"].arg_max()
    assert best is not None
    found = frame(out).filter(selection="validation")
    assert found["epoch"].unique().to_list() == [epochs["epoch"][best]]
    assert json.loads(found["options"][0])["test_relevant"] == 1
    assert found["p"].unique().to_list() == [1]


# Another share of the training ratings validates: nothing is lost, nothing moves into the test, shares are nested


@pytest.fixture
def own(tmp_path: Path) -> FoldedLists:
    return read_instances(ratings(tmp_path, 2))


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5])
def test_both_parts_hold_the_same_items_as_before_cut_at_the_share(own: FoldedLists, share: float) -> None:
    found = with_validation_share(own, share)
    for fold in own.folds:
        parts, before = ([one.split(fold, name) for name in ("train", "validation")] for one in (found, own))
        train, validation = (pairs(found, part) for part in parts)
        assert train | validation == set().union(*(pairs(own, part) for part in before))
        assert not train & validation
        assert found.split(fold, "test") is own.split(fold, "test")
        every = parts[0].positives + parts[1].positives
        assert (parts[1].positives == np.maximum(1, [round(share * count) for count in every.tolist()])).all()
        assert all((np.diff(part.items[places]) > 0).all() for part in parts for _, places in part.slices())


def test_smaller_shares_are_parts_of_larger_and_impossible_ones_refused(own: FoldedLists) -> None:
    small, large = (with_validation_share(own, share) for share in (0.1, 0.3))
    for fold in own.folds:
        assert pairs(small, small.split(fold, "validation")) < pairs(large, large.split(fold, "validation"))
    with pytest.raises(DataError, match="validation_share: user 0 has 12 items of one kind to train on"):
        with_validation_share(own, 0.99)
    with pytest.raises(ConfigError, match="not a data set of ratings"):
        with_validation_share(replace(own, nsr=None), 0.2)
