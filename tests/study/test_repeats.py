"""A training repeats: drawings in turns, fixed settings of its process, stable seeds, and exactly the known options."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from test_train_job import frame, train

from rankbound.errors import ConfigError
from rankbound.texts import derive_seed
from rankbound_study import cli
from rankbound_study.config.data_sets import DataSet
from rankbound_study.data.contracts import FOLDS, REPEATS_KEY, SPLITS, write_table
from rankbound_study.data.reader import FoldedLists, read_instances
from rankbound_study.export import trec_folder
from rankbound_study.jobs.collect import collect
from rankbound_study.jobs.controls_job import run_controls
from rankbound_study.jobs.running import subnormals_as_zero
from rankbound_study.options import read_options
from tests.forks import run_with_torch

USERS, RELEVANT, ITEMS, REPEATS = 6, 11, 80, 3
SHARED = {"threshold": 4.0, "min_relevant": 5, "seed": 0}


def made(folder: Path, **options: Any) -> Path:
    """Return instances of ratings, some of them relevant, whose folds are drawn as the options say."""
    random = np.random.default_rng(0)
    topic = np.repeat(np.arange(1, USERS + 1, dtype=np.int32), 2 * RELEVANT)
    item = np.concatenate([np.sort(random.permutation(ITEMS)[: 2 * RELEVANT]) for _ in range(USERS)]).astype(np.int32)
    rating = np.where(np.arange(len(topic)) % 2, 5.0, 1.0).astype(np.float32)
    columns = {"topic": topic, "item": item, "rating": rating, "timestamp": np.zeros(len(topic), np.int64)}
    folder.mkdir(exist_ok=True)
    write_table(pa.table(columns), folder / "interactions.parquet", "interactions")
    step(folder, "split", "interactions", "folds", {**SHARED, **options})
    files = ("--folds", str(folder / "folds.parquet"))
    return step(folder, "sample", "interactions", "movielens-nsr1", {**SHARED, "validation_share": 0.2}, *files)


def step(folder: Path, name: str, source: str, out: str, options: dict[str, Any], *more: str) -> Path:
    paths = ["--in", str(folder / f"{source}.parquet"), *more, "--out", str(folder / f"{out}.parquet")]
    assert cli.main([name, "movielens", *paths, "--options", json.dumps(options)]) == 0
    return folder / f"{out}.parquet"


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("once"))


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("repeated"), repeats=REPEATS)


def relevant(instances: FoldedLists, fold: int, split: str) -> set[tuple[str, int]]:
    lists = instances.split(fold, split)
    chosen = lists.relevance > 0
    names = [instances.topics[place] for place in lists.owners[chosen].tolist()]
    return set(zip(names, lists.items[chosen].tolist(), strict=True))


def test_the_first_drawing_does_not_depend_on_their_number(once: Path, repeated: Path) -> None:
    first, several = read_instances(once), read_instances(repeated)
    assert several.repeats == REPEATS
    assert several.folds == tuple(range(1, REPEATS * FOLDS + 1))
    for (fold, name), split in first.splits.items():
        for column in ("topics", "items", "relevance", "offsets"):
            np.testing.assert_array_equal(getattr(split, column), getattr(several.split(fold, name), column))


def test_each_drawing_is_a_partition_of_the_relevant_items_and_differs_from_the_others(repeated: Path) -> None:
    instances = read_instances(repeated)
    tested = []
    for repeat in range(REPEATS):
        folds = range(repeat * FOLDS + 1, (repeat + 1) * FOLDS + 1)
        parts = [relevant(instances, fold, "test") for fold in folds]
        assert sum(map(len, parts)) == len(set.union(*parts)) == USERS * RELEVANT
        for fold, test in zip(folds, parts, strict=True):
            others = [relevant(instances, fold, name) for name in SPLITS[:2]]
            assert set.union(test, *others) == set.union(*parts)
            assert sum(map(len, (test, *others))) == USERS * RELEVANT, "no pair is in two parts"
        tested.append(parts)
    assert len({frozenset(part) for parts in tested for part in parts}) == REPEATS * FOLDS


def test_a_seed_is_trained_and_tested_on_its_own_drawing(tmp_path: Path, repeated: Path) -> None:
    """The seeds 0, 4 and 2 have the folds of the drawings 0, 1 and 2."""
    out = train(tmp_path, repeated, together=2, seeds=[0, 4, 2], folds=[1, 3])
    instances = read_instances(repeated)
    runs = frame(out).filter(pl.col("selection") == "test")
    assert (runs["drawing"] == runs["seed"] % REPEATS).all()
    assert sorted(runs.select("fold", "seed").unique().rows()) == [(f, s) for f in (1, 3) for s in (0, 2, 4)]
    predictions = frame(out.with_suffix("").with_suffix(".predictions.parquet"), "predictions")
    for row in predictions.iter_rows(named=True):
        drawn = instances.split(row["fold"] + FOLDS * (row["seed"] % REPEATS), "test")
        names = [instances.topics[place] for place in drawn.topics.tolist()]
        place = names.index(row["topic"])
        assert row["items"] == drawn.items[drawn.offsets[place] : drawn.offsets[place + 1]].tolist()


def test_the_first_seed_is_that_of_a_single_drawing(tmp_path: Path, once: Path, repeated: Path) -> None:
    runs = [frame(train(tmp_path, path, name)) for name, path in (("once", once), ("repeated", repeated))]
    assert runs[0].equals(runs[1])


def test_controls_have_every_seed_of_the_trainings(tmp_path: Path, repeated: Path) -> None:
    shared = {"study": "thesis", "protocol": "published", "dataset": "movielens", "nsr": 1, "folds": [1, 2]}
    options = {**shared, "controls": ["random", "popularity", "oracle"], "seeds": [0, 1]}
    run_controls(json.dumps(options), repeated, tmp_path / "controls.parquet")
    files = [tmp_path / "controls.parquet", train(tmp_path, repeated, seeds=[0, 1])]
    collect(files, *(tmp_path / f"{name}.parquet" for name in ("all", "epochs", "rates")))
    controls = frame(files[0])
    assert controls.group_by("model", "seed").len()["len"].to_list() == [2 * USERS] * 6
    popular = controls.filter(model="popularity")
    assert popular.filter(seed=0)["nDCG"].to_list() != popular.filter(seed=1)["nDCG"].to_list()


def test_the_export_refuses_lists_that_differ_between_seeds(tmp_path: Path, repeated: Path) -> None:
    (tmp_path / "instances").mkdir()
    (tmp_path / "instances/movielens-nsr1.parquet").write_bytes(repeated.read_bytes())
    with pytest.raises(Exception, match="its folds were drawn 3 times, so that the seeds of a fold have other lists"):
        trec_folder.Tested.read(tmp_path, *DataSet("movielens", 1))


def test_the_number_of_drawings_is_checked(tmp_path: Path, repeated: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(repeated)
    for text, message in (("7", "15 folds are not those of 7 repeats"), ("x", "should be a number from 1")):
        path = tmp_path / f"{text}.parquet"
        metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        kept = {key: value for key, value in metadata.items() if key.startswith("rankbound.") and "seal" not in key}
        sizes = [pq.ParquetFile(repeated).metadata.row_group(k).num_rows for k in range(3 * REPEATS * FOLDS)]
        write_table(table, path, "instances", sizes, {**kept, REPEATS_KEY: text})
        with pytest.raises(Exception, match=message):
            read_instances(path)


def test_every_drawing_selects_its_own_rates(tmp_path: Path, repeated: Path) -> None:
    """Test items of one drawing validate in another: a rate that one drawing selects is used in that drawing alone."""
    out = train(tmp_path, repeated, protocol="honest", learning_rate=[0.001, 0.3], seeds=[0, 1, 3, 4], folds=[1])
    tried = frame(out.with_suffix("").with_suffix(".rates.parquet"), "rates")
    assert tried["seed"].to_list() == [0, 0, 1, 1], "the seeds 3 and 4 have the drawings of 0 and 1"
    assert tried.filter("chosen")["seed"].to_list() == [0, 1]


# A training repeats: what its process is set to before it begins, and that the settings reach every step

_JOB = """
import sys, warnings
warnings.simplefilter("error")
import torch
from rankbound_study.cli import main
from rankbound_study.jobs import train_job, vgg16

def tell(*arguments, **named):
    # Below the smallest normal number: zero, where the processor can make it so.
    tiny = float(torch.tensor(1e-38) / 1e3)
    print(
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cuda.matmul.allow_tf32,
        tiny == 0 or not torch.set_flush_denormal(True),
        "torch._dynamo" in sys.modules,  # Torch's compiler, which nobody here needs: half of a job's start.
    )
    sys.exit()

train_job.run_job = vgg16.read_weights = tell
train_job.known_job = lambda options: None
torch.set_num_threads(2)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "threads", "flushed"),
    [
        (["job", "--instances", "a", "--out", "b", "--options", "{}"], "1", "True"),
        (["features", "--images", "a", "--weights", "b", "--out", "c"], "2", "False"),
    ],
)
def test_steps_that_compute_with_networks_use_fixed_algorithms(
    arguments: list[str], threads: str, flushed: str
) -> None:
    result = run_with_torch(_JOB, *arguments)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [threads, "True", "False", "False", "False", flushed, "False"]


def test_small_numbers_are_themselves_again_after_a_training() -> None:
    tiny = torch.tensor(1e-38) / 1e3
    with subnormals_as_zero():
        inside = float(torch.tensor(1e-38) / 1e3)
    assert inside == 0 or not torch.set_flush_denormal(False)
    assert torch.tensor(1e-38) / 1e3 == tiny > 0


# Derived seeds are stable and distinct; options are exactly the known keys

DEFAULTS = {"nsr": 1, "share": 0.1, "name": "x", "flag": False}


def test_seeds_do_not_change_between_versions_or_processes() -> None:
    digest = hashlib.sha256(b'["folds", "movielens", 0]').hexdigest()
    assert derive_seed("folds", "movielens", 0) == int(digest[:16], 16) // 2 == 2053635801640725812


def test_seeds_differ_wherever_their_parts_do() -> None:
    parts = [(), ("a",), ("a", "b"), ("ab",), ("a", 1), ("a", "1"), ("a", None), ("a,b",), (1, 12), (11, 2), (1.5,)]
    seeds = [derive_seed(*some) for some in parts]
    assert len(set(seeds)) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    np.random.default_rng(seeds[0])


def test_options_stand_over_the_defaults() -> None:
    assert read_options("{}", DEFAULTS) == DEFAULTS
    assert read_options('{"share": 1, "nsr": 3}', DEFAULTS) == {**DEFAULTS, "share": 1, "nsr": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{nsr: 1}", r"--options is not valid JSON \(.*\): \{nsr: 1\}"),
        *((text, "--options is not valid JSON") for text in ("[" * 100_000, '{"a": NaN}', f'{{"a": {"9" * 5000}}}')),
        ("[1]", r"should be a JSON object such as \{.*\}, found \[1\]"),
        ('{"NSR": 1}', "unknown key 'NSR'; known are flag, name, nsr, share"),
        ('{"nsr": 1.5}', "'nsr' is 1.5, expected a value like 1"),
        ('{"nsr": true}', "'nsr' is true, expected a value like 1"),
        ('{"share": "0.1"}', "'share' is \"0.1\", expected a value like 0.1"),
        ('{"name": null}', "'name' is null, expected a value like 'x'"),
    ],
)
def test_other_options_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_options(text, DEFAULTS)
