"""Files of distributions, and the step that makes them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import rankbound as rb
from rankbound.bounds.extremes import Facts
from rankbound.bounds.score_distribution import score_distribution, score_distributions
from rankbound.bounds.tables import DistributionTables
from rankbound.errors import DataError
from rankbound_study import cli
from rankbound_study.data.contracts import lists_table
from rankbound_study.data.distribution_files import read_distributions, write_distributions
from rankbound_study.data.sampling import write_instances

PAIRS = [(2, 1), (8, 4), (20, 10), (6, 6), (400, 200)]


@pytest.mark.parametrize("metric", ["nDCG", "AP", "nRBP"])
def test_tables_survive_the_file_byte_for_byte(metric: str, tmp_path: Path) -> None:
    tables = DistributionTables.collect(one.binned() for one in score_distributions(metric, PAIRS))
    write_distributions(tables, tmp_path / "a.parquet")
    read = read_distributions(tmp_path / "a.parquet")
    write_distributions(read, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    for n, p in PAIRS:
        before, after = tables.of(n, p), read.of(n, p)
        assert {**vars(before), "support": 0, "probability": 0} == {**vars(after), "support": 0, "probability": 0}
        np.testing.assert_array_equal(before.support, after.support)
        np.testing.assert_array_equal(before.probability, after.probability)
    values, relevance = torch.tensor([0.3, 0.9]), torch.tensor([*[1] * 4, *[0] * 4, *[1] * 200, *[0] * 200])
    facts = Facts(rb.metric(metric), relevance, rb.Lists.of_sizes([8, 400]))
    assert torch.equal(read.smooth(values, facts), tables.smooth(values, facts))


def test_a_file_knows_the_tilt_of_its_tables_if_there_is_one(tmp_path: Path) -> None:
    for tilt in (1, 2.5):
        made = [score_distribution("AP", n=n, p=3, tilt=tilt) for n in (8, 9)]
        write_distributions(DistributionTables.collect(made), tmp_path / "AP.parquet")
        assert (b"rankbound.tilt" in (tmp_path / "AP.parquet").read_bytes()) == (tilt != 1)
        read = read_distributions(tmp_path / "AP.parquet")
        assert read.tilt == read.of(8, 3).tilt == tilt
        np.testing.assert_array_equal(read.of(9, 3).probability, made[1].probability)


def test_a_file_holds_binary_lists_with_one_number_of_samples(tmp_path: Path) -> None:
    binary, graded = score_distribution("nDCG", 4, 2), score_distribution("nDCG", relevance=[0, 1, 2])
    fewer = score_distribution("nDCG", 5, 2, samples=10)
    for ones in ([binary, graded], [binary, fewer]):
        with pytest.raises(ValueError, match="expected binary lists and one number of samples in a file"):
            write_distributions(DistributionTables.collect(ones), tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


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


def test_the_command_tabulates_or_samples_every_list_and_the_merged_training_lists(
    tmp_path: Path, files: list[str]
) -> None:
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
    np.testing.assert_array_equal(tables.of(8, 3).probability, expected.probability)
    with pytest.raises(DataError, match="distributions/1"):
        read_distributions(files[1])


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("nDGC", "{}", "Did you mean nDCG"),
        ("AP", '{"method": "guess"}', "method 'guess'"),
        ("AP", '{"sample": 5}', "sample"),
    ],
)
def test_the_command_names_what_is_wrong(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str], metric: str, options: str, message: str
) -> None:
    assert cli.main(["distributions", metric, *files, "--options", options]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "t.parquet").exists()
