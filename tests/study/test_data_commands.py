"""The data steps from the command line, on archives made here."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from described_steps import Run, sample, topics
from rar4_fixture import make_rar

from rankbound_study.data import sources
from rankbound_study.data.reader import read_features, read_instances, read_item_names
from tests.raw_files import changed, pack, source_of

Members = dict[str, bytes]
Place = Callable[..., str]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Packs an archive, which the source of that name then expects, without an address; gives its path."""

    def call(name: str, members: Members, file: str = "raw.zip") -> str:
        path = (make_rar if file.endswith("rar") else pack)(Path(file), members)
        monkeypatch.setattr(sources, "SOURCES", {name: changed(source_of(name, path), addresses=None)})
        return file

    return call


def mq2008_part(part: int) -> bytes:
    """Three queries of two lines each."""
    pairs = " ".join(f"{index}:{index / 100:.6f}" for index in range(1, 47))
    return "".join(
        f"{label} qid:{part}{query} {pairs} #docid = G{part}{query}-{label} inc = 1 prob = 0.1\r\n"
        for query in range(3)
        for label in (2, 0)
    ).encode()


MQ2008 = {f"MQ2008/S{part}.txt": mq2008_part(part) for part in range(1, 6)}


@pytest.mark.parametrize("packing", ["zip", "rar"])
def test_judged_lists_from_archive_to_instances(run: Run, place: Place, packing: str) -> None:
    Path("mirror").mkdir()
    place("mq2008", MQ2008, f"mirror/MQ2008.{packing}")
    printed = run("download", "mq2008", "--out", "data/raw/MQ2008.zip", "--mirror", "mirror")
    assert "no redistribution" in printed
    assert "Introducing LETOR 4.0" in printed
    run("convert", "mq2008", "--raw", "data/raw/MQ2008.zip", "--out", "data.parquet")
    run("split", "mq2008", "--in", "data.parquet", "--out", "folds.parquet")
    sample(run, "mq2008", threshold=2)
    instances = read_instances("instances.parquet")
    assert (instances.dataset, instances.item_count, len(instances.topics)) == ("mq2008-label2", 30, 15)
    assert topics(instances, 1, "test") == ["50", "51", "52"]
    test = instances.split(1, "test")
    assert test.relevance.tolist() == [1, 0] * 3
    names = read_item_names("data.parquet")
    assert [names[item] for item in test.items] == [f"G5{query}-{label}" for query in range(3) for label in (2, 0)]
    expected = np.tile(np.arange(1, 47) / 100, (30, 1)).astype(np.float32)
    np.testing.assert_array_equal(read_features("data.parquet"), expected)


def mslr_part(part: int) -> bytes:
    """Two queries of three lines each, with labels up to 4, without comments, as MSLR-WEB10K's lines are."""
    zeros = " ".join(f"{index}:0" for index in range(2, 137))
    return "".join(
        f"{(part + row) % 5} qid:{part}{query} 1:{part * 1000 + query * 100 + row} {zeros} \n"
        for query in range(2)
        for row in range(3)
    ).encode()


def mslr() -> Members:
    """Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4."""
    members = {}
    for fold in range(5):
        turned = [mslr_part((fold + step) % 5 + 1) for step in range(5)]
        for name, parts in {"train": turned[:3], "vali": turned[3:4], "test": turned[4:]}.items():
            members[f"Fold{fold + 1}/{name}.txt"] = b"".join(parts)
    return members


def test_every_row_of_the_archives_folds_is_stored_once(run: Run, place: Place) -> None:
    """5 parts of 2 queries of 3 rows, not 5 folds of them."""
    run("convert", "mslr-web10k", "--raw", place("mslr-web10k", mslr()), "--out", "data.parquet")
    run("split", "mslr-web10k", "--in", "data.parquet", "--out", "folds.parquet")
    sample(run, "mslr-web10k", graded=True)
    instances, features = read_instances("instances.parquet"), read_features("data.parquet")
    assert (instances.dataset, instances.item_count, features.shape) == ("mslr-web10k-graded", 30, (30, 136))
    for fold in range(1, 6):
        test = instances.split(fold, "test")
        place_in_turn = (fold + 3) % 5 + 1
        assert set((features[test.items, 0] // 1000).astype(int).tolist()) == {place_in_turn}
        assert test.relevance.tolist() == [(place_in_turn + row) % 5 for _ in range(2) for row in range(3)]


BAD: dict[str, tuple[str, Callable[[], Members], str]] = {
    "a label above the range": (
        "mslr-web10k",
        lambda: mslr() | {"Fold2/test.txt": mslr()["Fold2/test.txt"].replace(b"\n3 qid:1", b"\n5 qid:1", 1)},
        "raw.zip: Fold2/test.txt, line 3: found '5', expected a label: a whole number 0 .. 4",
    ),
    "folds that contradict one another": (
        "mslr-web10k",
        lambda: mslr() | {"Fold3/vali.txt": mslr()["Fold3/vali.txt"] + mslr_part(7)},
        "raw.zip: 'Fold2/test.txt' and 'Fold3/vali.txt' should be the same part, but have",
    ),
    "a malformed line": (
        "mq2008",
        lambda: MQ2008 | {"MQ2008/S3.txt": mq2008_part(3).replace(b" 7:", b" 7;", 1)},
        "raw.zip: MQ2008/S3.txt, line 1: found '7;0.070000', expected a pair",
    ),
    "a query in two parts": (
        "mq2008",
        lambda: MQ2008 | {"MQ2008/S4.txt": mq2008_part(2)},
        "raw.zip: MQ2008/S4.txt, line 1: query 20 occurs again",
    ),
    "a missing part": (
        "mq2008",
        lambda: {name: text for name, text in MQ2008.items() if "S5" not in name},
        "raw.zip: expected exactly one member 'S5.txt', found 0",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_in_an_archive_is_named(run: Run, place: Place, name: str) -> None:
    source, members, message = BAD[name]
    told = run("convert", source, "--raw", place(source, members()), "--out", "lists.parquet", status=2)
    assert told.startswith(f"python -m rankbound_study convert: {message}"), told
    assert not Path("lists.parquet").exists()


def test_synthetic_ratings_from_nothing_to_instances(run: Run) -> None:
    name = "synthetic-movielens"
    run("generate", name, "--size", "12", "--out", "data.parquet")
    run("split", name, "--in", "data.parquet", "--out", "folds.parquet", threshold=4)
    sample(run, name, nsr=2, seed=1, validation_share=0.2)
    instances = read_instances("instances.parquet")
    assert (instances.dataset, instances.nsr, len(instances.topics)) == (name, 2, 12)
    assert "negatives at NSR 900, but only" in sample(run, name, status=2, nsr=900)
    full = {"train": "full", "test": "full"}
    for options, suffix in (({"nsr": [1, 2]}, "-mixed-1-2"), ({"nsr": None, "sampling": full}, "-full")):
        sample(run, name, **options)
        assert read_instances("instances.parquet").dataset == name + suffix
    for options, expected in (
        ({"sampling": full}, "'nsr' is 1, expected null"),
        ({"nsr": None}, "'nsr' is null, expected a number of negatives"),
        ({"nsr": []}, "'nsr' is [], expected a value like 1"),
        ({"nsr": [1, "2"]}, "expected a value like 1"),
        ({"nsr": -1}, "expected a value like 1"),
        ({"sampling": {"train": "full", "test": "uniform"}}, '\'sampling\' is {"train": "full"'),
        ({"ratio": 2}, "unknown key 'ratio'; known are min_relevant, nsr, sampling, seed, threshold, validation_share"),
    ):
        assert expected in sample(run, name, status=2, **options)


def test_wrong_files_options_and_sources_are_named(run: Run) -> None:
    run("generate", "synthetic-mq2008", "--size", "10", "--out", "data.parquet")
    run("split", "synthetic-mq2008", "--in", "data.parquet", "--out", "folds.parquet")
    told = sample(run, "synthetic-mq2008", status=2, graded=True, threshold=2)
    assert "has both a threshold and graded labels" in told
    told = run("split", "synthetic-mq2008", "--in", "folds.parquet", "--out", "x.parquet", status=2)
    assert "folds.parquet: the metadata key 'rankbound.schema' should be interactions/1 or lists/1" in told
    assert "unknown key 'nsr'" in run("split", "x", "--in", "data.parquet", "--out", "x.parquet", status=2, nsr=1)
    assert "no source 'netflix'" in run("download", "netflix", "--out", "x.zip", status=2)
    assert "no source 'netflix'" in run("convert", "netflix", "--raw", "x.zip", "--out", "y", status=2)
    assert "vgg16 is not converted: its format is weights" in run(
        "convert", "vgg16", "--raw", "x", "--out", "y", status=2
    )
