"""The data steps from the command line, on archives made here."""

import hashlib
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rar4_fixture import make_rar

from rankbound import cli
from rankbound.data import sources
from rankbound.data.reader import read_features, read_instances, read_item_names

Run = Callable[..., str]


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


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, members: dict[str, bytes]) -> None:
    """Let the source expect this content, and know no address."""
    source = sources.SOURCES[name]
    contents = {member: members[f"MQ2008/{member}"].replace(b"\r\n", b"\n") for member in source.members}
    expected = {member: hashlib.sha256(content).hexdigest() for member, content in contents.items()}
    monkeypatch.setattr(sources, "SOURCES", {name: replace(source, members=expected, addresses=())})


@pytest.mark.parametrize("packing", ["zip", "rar"])
def test_judged_lists_from_archive_to_instances(run: Run, monkeypatch: pytest.MonkeyPatch, packing: str) -> None:
    members = mq2008_members()
    Path("mirror").mkdir()
    archive = Path("mirror") / f"MQ2008.{packing}"
    pack(archive, members) if packing == "zip" else make_rar(archive, members)
    stand_in(monkeypatch, "mq2008", members)
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


def test_a_malformed_line_in_the_archive_is_named(run: Run) -> None:
    members = mq2008_members()
    members["MQ2008/S3.txt"] = members["MQ2008/S3.txt"].replace(b" 7:", b" 7;", 1)
    pack(Path("raw.zip"), members)
    message = run("convert", "mq2008", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert message.startswith("rankbound convert: raw.zip: MQ2008/S3.txt, line 1: found '7;0.070000', expected a pair")
    assert not Path("lists.parquet").exists()


def test_a_query_in_two_parts_is_named(run: Run) -> None:
    pack(Path("raw.zip"), {**mq2008_members(), "MQ2008/S4.txt": letor_part(2)})
    message = run("convert", "mq2008", "--raw", "raw.zip", "--out", "lists.parquet", status=2)
    assert "MQ2008/S4.txt, line 1: query 20 occurs again" in message


def test_a_missing_part_is_named(run: Run) -> None:
    members = mq2008_members()
    del members["MQ2008/S5.txt"]
    pack(Path("raw.zip"), members)
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
    message = run("sample", *arguments, "--options", '{"ratio": 2}', status=2)
    assert "unknown key 'ratio'; known are min_relevant, nsr, seed, threshold, validation_share" in message


def test_the_wrong_kind_of_file_is_named(run: Run) -> None:
    run("generate", "synthetic-mq2008", "--size", "10", "--out", "lists.parquet")
    run("split", "synthetic-mq2008", "--in", "lists.parquet", "--out", "folds.parquet")
    message = run("split", "synthetic-mq2008", "--in", "folds.parquet", "--out", "x.parquet", status=2)
    assert "folds.parquet: the metadata key 'rankbound.schema' should be interactions/1 or lists/1" in message
    message = run("split", "x", "--in", "lists.parquet", "--out", "x.parquet", "--options", '{"seed": 1}', status=2)
    assert "unknown key 'seed'" in message


def test_an_unknown_source_is_named(run: Run) -> None:
    assert "no source 'netflix'" in run("download", "netflix", "--out", "x.zip", status=2)
    assert "no source 'netflix'" in run("convert", "netflix", "--raw", "x.zip", "--out", "y", status=2)
