"""The data steps from the command line, on archives made here."""

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rar4_fixture import make_rar

from rankbound_study import cli
from rankbound_study.data import fetch, sources
from rankbound_study.data.reader import read_features, read_instances, read_item_names
from tests.raw_files import source_of

Run = Callable[..., str]
Place = Callable[[str, dict[str, bytes]], None]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("split", "toy", ...)` in an empty folder; gives what was printed, and checks the status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKBOUND_MIRROR", raising=False)

    def call(*arguments: str, status: int = 0) -> str:
        assert cli.main(arguments) == status
        printed = capsys.readouterr()
        return printed.err if status else printed.out

    return call


def letor_part(part: int) -> bytes:
    """Three queries of two lines each."""
    pairs = " ".join(f"{index}:{index / 100:.6f}" for index in range(1, 47))
    lines = [
        f"{label} qid:{part}{query} {pairs} #docid = G{part}{query}-{label} inc = 1 prob = 0.1\r\n"
        for query in range(3)
        for label in (2, 0)
    ]
    return "".join(lines).encode()


def mq2008_members() -> dict[str, bytes]:
    return {f"MQ2008/S{part}.txt": letor_part(part) for part in range(1, 6)}


def pack(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, archive: Path) -> None:
    """Let the source expect this archive's content, and know no address."""
    source = source_of(name, archive)
    monkeypatch.setattr(sources, "SOURCES", {name: source})
    publisher = replace(fetch.PUBLISHERS[name], source=source, addresses=())
    monkeypatch.setattr(fetch, "PUBLISHERS", {name: publisher})


@pytest.fixture
def place(run: Run, monkeypatch: pytest.MonkeyPatch) -> Place:
    """`place("mq2008", members)` packs raw.zip, which the source then expects."""

    def call(name: str, members: dict[str, bytes]) -> None:
        pack(Path("raw.zip"), members)
        stand_in(monkeypatch, name, Path("raw.zip"))

    return call


@pytest.mark.parametrize("packing", ["zip", "rar"])
def test_judged_lists_from_archive_to_instances(run: Run, monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    members = mq2008_members()
    Path("mirror").mkdir()
    archive = Path("mirror") / f"MQ2008.{packing}"
    pack(archive, members) if packing == "zip" else make_rar(archive, members)
    stand_in(monkeypatch, "mq2008", archive)
    printed = run("download", "mq2008", "--out", "data/raw/MQ2008.zip", "--mirror", "mirror")
    assert "no redistribution" in printed
    assert "Introducing LETOR 4.0" in printed
    run("convert", "mq2008", "--raw", "data/raw/MQ2008.zip", "--out", "data/lists.parquet")
    run("split", "mq2008", "--in", "data/lists.parquet", "--out", "data/folds.parquet")
    arguments = ("--in", "data/lists.parquet", "--folds", "data/folds.parquet", "--out", "data/x.parquet")
    run("sample", "mq2008", *arguments, "--options", '{"threshold": 2}')
    instances = read_instances("data/x.parquet")
    assert (instances.dataset, instances.item_count, len(instances.topics)) == ("mq2008-label2", 30, 15)
    test = instances.split(1, "test")
    assert [instances.topics[topic] for topic in test.topics] == ["50", "51", "52"]
    assert test.relevance.tolist() == [1, 0] * 3
    names = read_item_names("data/lists.parquet")
    assert [names[item] for item in test.items] == [f"G5{query}-{label}" for query in range(3) for label in (2, 0)]
    expected = np.tile(np.arange(1, 47) / 100, (30, 1)).astype(np.float32)
    np.testing.assert_array_equal(read_features("data/lists.parquet"), expected)


def mslr_part(part: int, width: int = 136) -> bytes:
    """Two queries of three lines each, with labels up to 4, without comments, as MSLR-WEB10K's lines are."""
    lines = []
    for query in range(2):
        for row in range(3):
            pairs = " ".join(
                f"{index}:{part * 1000 + query * 100 + row if index == 1 else 0}" for index in range(1, width + 1)
            )
            lines.append(f"{(part + row) % 5} qid:{part}{query} {pairs} \n")
    return "".join(lines).encode()


def mslr_members() -> dict[str, bytes]:
    """Fold k trains on parts k .. k + 2, validates on k + 3 and tests on k + 4."""
    parts = [mslr_part(part) for part in range(1, 6)]
    members = {}
    for fold in range(5):
        members[f"Fold{fold + 1}/train.txt"] = b"".join(parts[(fold + step) % 5] for step in range(3))
        members[f"Fold{fold + 1}/vali.txt"] = parts[(fold + 3) % 5]
        members[f"Fold{fold + 1}/test.txt"] = parts[(fold + 4) % 5]
    return members


def topics_and_labels(text: bytes) -> list[tuple[str, int]]:
    tokens = [line.split() for line in text.decode().splitlines()]
    return [(query.removeprefix("qid:"), int(label)) for label, query, *_ in tokens]


@pytest.mark.parametrize(
    ("options", "dataset"), [('{"threshold": 2}', "mslr-web10k-label2"), ('{"graded": true}', "mslr-web10k-graded")]
)
def test_every_fold_of_the_archive_comes_out_as_it_went_in(run: Run, place: Place, options: str, dataset: str) -> None:
    members = mslr_members()
    place("mslr-web10k", members)
    run("convert", "mslr-web10k", "--raw", "raw.zip", "--out", "lists.parquet")
    run("split", "mslr-web10k", "--in", "lists.parquet", "--out", "folds.parquet")
    arguments = ("--in", "lists.parquet", "--folds", "folds.parquet", "--out", "x.parquet")
    run("sample", "mslr-web10k", *arguments, "--options", options)
    instances, features = read_instances("x.parquet"), read_features("lists.parquet")
    # Every row once: 5 parts of 2 queries of 3 rows, not 5 folds of them.
    assert (instances.dataset, instances.item_count, features.shape) == (dataset, 30, (30, 136))
    for fold in range(1, 6):
        for split, name in (("train", "train"), ("validation", "vali"), ("test", "test")):
            lists = instances.split(fold, split)
            expected = topics_and_labels(members[f"Fold{fold}/{name}.txt"])
            graded = dataset.endswith("graded")
            relevance = [label if graded else int(label >= 2) for _, label in expected]
            topics = [instances.topics[topic] for topic in lists.topics.repeat(lists.sizes)]
            found = zip(topics, lists.relevance.tolist(), strict=True)
            wanted = zip([topic for topic, _ in expected], relevance, strict=True)
            assert sorted(found) == sorted(wanted)
            assert (features[lists.items, 0] // 1000).astype(int).tolist() == [int(topic[0]) for topic in topics]


def test_a_label_above_the_data_sets_range_is_named(run: Run, place: Place) -> None:
    members = mslr_members()
    members["Fold2/test.txt"] = members["Fold2/test.txt"].replace(b"\n3 qid:1", b"\n5 qid:1", 1)
    place("mslr-web10k", members)
    message = run("convert", "mslr-web10k", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    expected = "raw.zip: Fold2/test.txt, line 3: found '5', expected a label: a whole number 0 .. 4"
    assert message.startswith(f"python -m rankbound_study convert: {expected}")
    assert not Path("lists.parquet").exists()


def test_folds_that_contradict_one_another_are_named(run: Run, place: Place) -> None:
    members = mslr_members()
    members["Fold3/vali.txt"] += mslr_part(7)
    place("mslr-web10k", members)
    message = run("convert", "mslr-web10k", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert "'Fold2/test.txt' and 'Fold3/vali.txt' should be the same part, but have" in message


def test_graded_labels_have_no_threshold(run: Run) -> None:
    arguments = ("--in", "lists.parquet", "--folds", "folds.parquet", "--out", "x.parquet")
    run("generate", "synthetic-mq2008", "--size", "10", "--out", "lists.parquet")
    run("split", "synthetic-mq2008", "--in", "lists.parquet", "--out", "folds.parquet")
    options = '{"graded": true, "threshold": 2}'
    message = run("sample", "synthetic-mq2008", *arguments, "--options", options, status=2)
    assert "has both a threshold and graded labels" in message


def test_without_a_terminal_there_is_no_progress_bar(
    run: Run, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place("mslr-web10k", mslr_members())
    assert cli.main(("convert", "mslr-web10k", "--raw", "raw.zip", "--out", "lists.parquet")) == 0
    assert capsys.readouterr().err == ""


def test_a_malformed_line_in_the_archive_is_named(run: Run, place: Place) -> None:
    members = mq2008_members()
    members["MQ2008/S3.txt"] = members["MQ2008/S3.txt"].replace(b" 7:", b" 7;", 1)
    place("mq2008", members)
    message = run("convert", "mq2008", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert message.startswith(
        "python -m rankbound_study convert: raw.zip: MQ2008/S3.txt, line 1: found '7;0.070000', expected a pair"
    )
    assert not Path("lists.parquet").exists()


def test_a_query_in_two_parts_is_named(run: Run, place: Place) -> None:
    place("mq2008", {**mq2008_members(), "MQ2008/S4.txt": letor_part(2)})
    message = run("convert", "mq2008", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert "MQ2008/S4.txt, line 1: query 20 occurs again" in message


def test_a_missing_part_is_named(run: Run, place: Place) -> None:
    members = mq2008_members()
    del members["MQ2008/S5.txt"]
    place("mq2008", members)
    message = run("convert", "mq2008", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert "expected exactly one member 'S5.txt', found 0" in message


def test_synthetic_ratings_from_nothing_to_instances(run: Run) -> None:
    name = "synthetic-movielens"
    run("generate", name, "--size", "12", "--out", "ratings.parquet")
    run("split", name, "--in", "ratings.parquet", "--out", "folds.parquet", "--options", '{"threshold": 4}')
    arguments = (name, "--in", "ratings.parquet", "--folds", "folds.parquet", "--out", "x.parquet")
    run("sample", *arguments, "--options", '{"nsr": 2, "seed": 1, "validation_share": 0.2}')
    instances = read_instances("x.parquet")
    assert (instances.dataset, instances.nsr, len(instances.topics)) == (name, 2, 12)
    assert instances.synthetic
    message = run("sample", *arguments, "--options", '{"nsr": 900}', status=2)
    assert "negatives at NSR 900, but only" in message
    run("sample", *arguments, "--options", '{"nsr": [1, 2]}')
    assert read_instances("x.parquet").dataset == f"{name}-mixed-1-2"
    full = '"sampling": {"train": "full", "test": "full"}'
    run("sample", *arguments, "--options", f'{{"nsr": null, {full}}}')
    assert read_instances("x.parquet").dataset == f"{name}-full"
    for options, expected in {
        f"{full}": "'nsr' is 1, expected null",
        '"nsr": null': "'nsr' is null, expected a number of negatives",
        '"nsr": []': "'nsr' is [], expected a value like 1",
        '"nsr": [1, "2"]': "expected a value like 1",
        '"nsr": -1': "expected a value like 1",
        '"sampling": {"train": "full", "test": "uniform"}': '\'sampling\' is {"train": "full"',
    }.items():
        assert expected in run("sample", *arguments, "--options", f"{{{options}}}", status=2)
    message = run("sample", *arguments, "--options", '{"ratio": 2}', status=2)
    assert "unknown key 'ratio'; known are min_relevant, nsr, sampling, seed, threshold, validation_share" in message


def test_the_wrong_kind_of_file_is_named(run: Run) -> None:
    run("generate", "synthetic-mq2008", "--size", "10", "--out", "lists.parquet")
    run("split", "synthetic-mq2008", "--in", "lists.parquet", "--out", "folds.parquet")
    message = run("split", "synthetic-mq2008", "--in", "folds.parquet", "--out", "x.parquet", status=2)
    assert "folds.parquet: the metadata key 'rankbound.schema' should be interactions/1 or lists/1" in message
    message = run("split", "x", "--in", "lists.parquet", "--out", "x.parquet", "--options", '{"nsr": 1}', status=2)
    assert "unknown key 'nsr'" in message


def test_an_unknown_source_is_named(run: Run) -> None:
    assert "no source 'netflix'" in run("download", "netflix", "--out", "x.zip", status=2)
    assert "no source 'netflix'" in run("convert", "netflix", "--raw", "x.zip", "--out", "y", status=2)
