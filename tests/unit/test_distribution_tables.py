"""Tables of distributions: storage, look-up of a batch of lists, the command."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from rankbound import cli
from rankbound.bounds.distribution import score_distribution, score_distributions
from rankbound.bounds.tables import DistributionTables
from rankbound_study.data.contracts import write_table
from rankbound_study.data.distribution_files import read_distributions, write_distributions
from rankbound_study.data.sampling import ITEM_COUNT_KEY
from rankbound.errors import ConfigError, DataError

METRICS = ("nDCG", "AP", "nRBP")
GAINS = ("distinct", "drawn", "sd")
PAIRS = [(2, 1), (8, 4), (20, 10), (40, 3), (100, 50), (300, 100), (6, 6), (400, 200)]


@pytest.fixture(scope="module", params=METRICS)
def tables(request: pytest.FixtureRequest) -> DistributionTables:
    return DistributionTables.collect(one.binned() for one in score_distributions(request.param, PAIRS))


def batch(tables: DistributionTables, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Values over the whole range and beyond, in an order unlike the tables'."""
    generator = np.random.default_rng(seed)
    pairs = [pair for pair in PAIRS if pair[0] != pair[1]] * 8
    generator.shuffle(pairs)
    known = [tables.of(n, p) for n, p in pairs]
    values = [
        one.expectation + one.sd * generator.normal() * 3 if index % 3 else generator.uniform(one.minimum, one.maximum)
        for index, one in enumerate(known)
    ]
    return torch.tensor(values), *(torch.tensor(column) for column in zip(*pairs, strict=True))  # type: ignore


@pytest.mark.parametrize("gain", GAINS)
def test_a_batch_equals_the_lists_one_by_one(tables: DistributionTables, gain: str) -> None:
    values, n, p = batch(tables)
    found = tables.smooth_cdf(values.double(), n, p, gain)  # type: ignore[arg-type]
    expected = [
        float(tables.of(int(items), int(relevant)).smooth_cdf(float(value), gain))  # type: ignore[arg-type]
        for value, items, relevant in zip(values, n, p, strict=True)
    ]
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("gain", GAINS)
def test_the_gradient_is_the_slope(tables: DistributionTables, gain: str) -> None:
    values, n, p = batch(tables, seed=1)
    values = values.double().requires_grad_()
    gains = torch.tensor([tables.of(int(a), int(b)).gain(gain) for a, b in zip(n, p, strict=True)])  # type: ignore
    tables.smooth_cdf(values, n, p, gain).sum().backward()  # type: ignore[no-untyped-call, arg-type]
    step = 1e-3 / gains
    with torch.no_grad():
        above, below = (tables.smooth_cdf(values + sign * step, n, p, gain) for sign in (1, -1))  # type: ignore
    assert values.grad is not None
    np.testing.assert_allclose((values.grad / gains).numpy(), ((above - below) / (2 * step * gains)).numpy(), atol=1e-6)


def test_gradcheck(tables: DistributionTables) -> None:
    # A unit of distance for every list, so that gradcheck's step suits all: 1 / gain.
    values, n, p = batch(tables, seed=2)
    scale = torch.tensor([1 / tables.of(int(a), int(b)).gain() for a, b in zip(n, p, strict=True)]).double()
    units = (values.double() / scale).requires_grad_()
    assert torch.autograd.gradcheck(lambda u: tables.smooth_cdf(u * scale, n, p), (units,), eps=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_outside_the_scores_are_finite(tables: DistributionTables, dtype: torch.dtype) -> None:
    values = torch.tensor([-1e30, -5.0, 2.0, 1e30], dtype=dtype, requires_grad=True)
    result = tables.smooth_cdf(values, torch.full((4,), 100), torch.full((4,), 50))
    result.sum().backward()  # type: ignore[no-untyped-call]
    result = result.detach()
    assert result.dtype == dtype
    assert values.grad is not None
    assert values.grad.isfinite().all()
    assert float(result[0]) == pytest.approx(0, abs=1e-6)
    assert float(result[3]) == pytest.approx(1, abs=1e-6)


def test_nan_stays_nan_and_an_empty_batch_empty(tables: DistributionTables) -> None:
    one = tables.smooth_cdf(torch.tensor([float("nan"), 0.5]), torch.tensor([8, 8]), torch.tensor([4, 4]))
    assert one.isnan().tolist() == [True, False]
    none = torch.empty(0, dtype=torch.int64)
    assert tables.smooth_cdf(torch.empty(0), none, none).shape == (0,)


def test_lists_do_not_depend_on_their_batch(tables: DistributionTables) -> None:
    values, n, p = batch(tables)
    whole = tables.smooth_cdf(values, n, p)
    for index in (0, 7, 20):
        part = slice(index, index + 1)
        torch.testing.assert_close(tables.smooth_cdf(values[part], n[part], p[part]), whole[part])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_cuda_agrees(tables: DistributionTables) -> None:
    values, n, p = batch(tables)
    found = tables.smooth_cdf(values.cuda(), n.cuda(), p.cuda())
    torch.testing.assert_close(found.cpu(), tables.smooth_cdf(values, n, p))


def test_missing_and_undefined_lists_are_named(tables: DistributionTables) -> None:
    two = torch.tensor([0.5, 0.5])
    with pytest.raises(ConfigError, match=r"7 items with 3 relevant .* tabulate it as well"):
        tables.smooth_cdf(two, torch.tensor([8, 7]), torch.tensor([4, 3]))
    with pytest.raises(ValueError, match="6 items with 6 relevant"):
        tables.smooth_cdf(two, torch.tensor([8, 6]), torch.tensor([4, 6]))
    with pytest.raises(ConfigError, match="gain 'wide'"):
        tables.smooth_cdf(two, torch.tensor([8, 8]), torch.tensor([4, 4]), "wide")  # type: ignore[arg-type]


def test_tables_survive_the_file_byte_for_byte(tables: DistributionTables, tmp_path: Path) -> None:
    write_distributions(tables, tmp_path / "a.parquet")
    read = read_distributions(tmp_path / "a.parquet")
    write_distributions(read, tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    for n, p in PAIRS:
        before, after = tables.of(n, p), read.of(n, p)
        assert {**vars(before), "support": 0, "probability": 0} == {**vars(after), "support": 0, "probability": 0}
        np.testing.assert_array_equal(before.support, after.support)
        np.testing.assert_array_equal(before.probability, after.probability)
    values, n, p = batch(read)
    assert torch.equal(read.smooth_cdf(values, n, p), tables.smooth_cdf(values, n, p))


def test_a_table_equals_the_distribution_it_was_made_of() -> None:
    ones = [score_distribution("AP", 9, 4), score_distribution("AP", 7, 2)]
    tables = DistributionTables.collect(ones)
    assert list(zip(tables.n, tables.p, strict=True)) == [(7, 2), (9, 4)]
    assert tables.of(9, 4).gain() == ones[0].gain()
    for gain in GAINS:
        assert tables.gains(gain)[1] == ones[0].gain(gain)  # type: ignore[arg-type]
    for wrong in ([ones[0], ones[0]], [ones[0], score_distribution("nDCG", 9, 3)], []):
        with pytest.raises(ValueError, match="expected one metric and each list once"):
            DistributionTables.collect(wrong)


def test_a_file_holds_binary_lists_with_one_number_of_samples(tmp_path: Path) -> None:
    binary, graded = score_distribution("nDCG", 4, 2), score_distribution("nDCG", relevance=[0, 1, 2])
    fewer = score_distribution("nDCG", 5, 2, samples=10)
    for ones in ([binary, graded], [binary, fewer]):
        with pytest.raises(ValueError, match="expected binary lists and one number of samples in a file"):
            write_distributions(DistributionTables.collect(ones), tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def write_instances(path: Path) -> None:
    rows = [
        ("train", "a", [1, 1, 0, 0, 0]),
        ("train", "b", [0, 0, 0]),
        ("train", "c", [1, 1]),
        ("validation", "a", [1, 0, 0]),
        ("test", "a", [0, 1]),
    ]
    table = pa.table(
        {
            "dataset": ["synthetic-x"] * len(rows),
            "nsr": pa.array([None] * len(rows), pa.int8()),
            "fold": pa.array([1] * len(rows), pa.int8()),
            "split": [split for split, _, _ in rows],
            "topic": [topic for _, topic, _ in rows],
            "items": [list(range(len(relevance))) for _, _, relevance in rows],
            "relevance": [relevance for _, _, relevance in rows],
        }
    )
    write_table(table, path, "instances", metadata={ITEM_COUNT_KEY: "100"})


def test_the_command_tabulates_every_list_and_the_merged_training_lists(tmp_path: Path) -> None:
    write_instances(tmp_path / "i.parquet")
    out = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    for path in out:
        assert cli.main(["distributions", "AP", "--instances", str(tmp_path / "i.parquet"), "--out", str(path)]) == 0
    assert out[0].read_bytes() == out[1].read_bytes()
    tables = read_distributions(out[0])
    assert list(zip(tables.n, tables.p, strict=True)) == [(2, 1), (3, 1), (5, 2), (8, 3)]
    assert tables.metric == "AP"


def test_the_command_samples_on_request(tmp_path: Path) -> None:
    write_instances(tmp_path / "i.parquet")
    options = json.dumps({"method": "sampled", "samples": 500, "seed": 3})
    arguments = ["--instances", str(tmp_path / "i.parquet"), "--out", str(tmp_path / "t.parquet"), "--options", options]
    assert cli.main(["distributions", "nDCG", *arguments]) == 0
    tables = read_distributions(tmp_path / "t.parquet")
    assert tables.samples.tolist() == [500] * 4
    expected = score_distribution("nDCG", 8, 3, method="sampled", samples=500, seed=3)
    np.testing.assert_array_equal(tables.of(8, 3).probability, expected.probability)


@pytest.mark.parametrize(
    ("metric", "options", "message"),
    [
        ("nDGC", "{}", "Did you mean nDCG"),
        ("AP", '{"method": "guess"}', "method 'guess'"),
        ("AP", '{"sample": 5}', "sample"),
    ],
)
def test_the_command_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], metric: str, options: str, message: str
) -> None:
    write_instances(tmp_path / "i.parquet")
    out = tmp_path / "t.parquet"
    arguments = ["--instances", str(tmp_path / "i.parquet"), "--out", str(out), "--options", options]
    assert cli.main(["distributions", metric, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_loading_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    write_instances(tmp_path / "i.parquet")
    with pytest.raises(DataError, match="distributions/1"):
        read_distributions(tmp_path / "i.parquet")
