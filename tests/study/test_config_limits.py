"""A configuration that passes the check can end: its numbers have limits, and its document has what it is made from."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from rankbound.errors import ConfigError
from rankbound_study.config.check import check_config, editor_schema
from rankbound_study.config.estimate import estimated, uncounted
from rankbound_study.config.lines import KeyPath, merged
from rankbound_study.config.study import Study
from rankbound_study.data.contracts import CONTRACTS

ROOT = Path(__file__).resolve().parents[2]
NO_OTHERS: dict[str, Any] = {"compare": [], "experiment": []}
SYNTHETIC_LISTS = {"size": 40, "seed": 0, "thresholds": [1]}


def changed(path: KeyPath, value: Any, file: str = "config.yaml") -> dict[str, Any]:
    config: dict[str, Any] = merged([ROOT / file])
    section: Any = config
    for key in path[:-1]:
        section = section[key]
    section[path[-1]] = value
    return config


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("training", "movielens", "model", "factors"), 10**9, "at most 10,000"),
        (("training", "mq2008", "model", "hidden"), [10**9], "at most 10,000"),
        (("training", "mq2008", "model", "hidden"), [8] * 21, "at most 20 values"),
        (("training", "movielens", "epochs"), 10**9, "at most 10,000"),
        (("training", "movielens", "epochs"), 1e9, "a whole number"),
        (("training", "movielens", "epochs"), "1e9", "write 1000000000 without quotes"),
        (("training", "movielens", "batch_size"), 2**70, "at most 1,000,000"),
        (("seeds", "honest"), [2**70], "at most 32,767"),
        (("interactions", "movielens", "seed"), 2**70, "at most 2,147,483,647"),
        (("interactions", "movielens", "nsr"), [10**30], "at most 100"),
        (("interactions", "movielens", "nsr"), [1e30], "a whole number"),
        (("interactions", "movielens", "threshold"), 1e30, "at most 1,000,000"),
        (("lists", "mq2008", "thresholds"), [10**9], "the smallest relevant label, 1 to 127, or graded"),
        (("distributions", "samples"), 10**12, "at most 1,000,000"),
        (("temperature",), 1e300, "at most 1,000,000"),
        (("experiments", "factors", "seeds"), [2**15], "at most 32,767"),
        (("comparisons", "web-queries", "seeds"), [2**15], "at most 32,767"),
    ],
)
def test_numbers_beyond_any_study_are_refused_with_their_limit(path: KeyPath, value: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(changed(path, value))
    assert f"{expected}" in str(caught.value)


@pytest.mark.parametrize("size", [40.0, 10**9, "40", 0])
def test_the_size_of_generated_data_is_a_whole_number_within_limits(size: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"lists\.synthetic-mq2008\.size is .*: expected (a whole number|at (most|least))"
    ):
        check_config(changed(("lists", "synthetic-mq2008", "size"), size, "profiles/demo/study.yaml"))


def numbers(schema: Any) -> Iterator[dict[str, Any]]:
    """The parts of a JSON schema that allow a number."""
    if isinstance(schema, list):
        for part in schema:
            yield from numbers(part)
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number"):
            yield schema
        for part in schema.values():
            yield from numbers(part)


def test_every_number_of_a_configuration_has_limits() -> None:
    found = list(numbers(editor_schema()))
    assert len(found) > 40
    for limits in found:
        assert limits.keys() & {"maximum", "exclusiveMaximum"}, limits
        assert limits.keys() & {"minimum", "exclusiveMinimum"}, limits


def test_the_limits_of_seeds_and_ratios_are_those_of_the_results() -> None:
    """Otherwise a study would train everything and fail to write it."""
    kinds = dict(CONTRACTS["runs"].columns)
    assert kinds["seed"].bit_width == 16
    assert kinds["nsr_train"].bit_width == 8


@pytest.mark.parametrize(
    ("file", "path", "value", "expected"),
    [
        ("profiles/demo/study.yaml", ("temperature",), 1.0, "some 7 minutes of a processor; the largest step, "),
        ("config.yaml", ("temperature",), 1.0, "some 7 hours of a processor; the largest step, Reg-l1 of aaf, 5.2 GB"),
        ("config.yaml", ("compare",), [], "some 5 hours of a processor; the largest step, "),
        ("config.yaml", ("training", "movielens", "epochs"), 10_000, "some 22 days of a processor"),
        (
            "config.yaml",
            ("training", "mq2008", "model", "hidden"),
            [10_000, 10_000],
            "the largest step, a training of mq2008-label2, 10.6 GB",
        ),
    ],
)
def test_what_a_study_takes_is_estimated(file: str, path: KeyPath, value: Any, expected: str) -> None:
    study = Study.of(changed(path, value, file))
    assert expected in str(estimated(study, study.jobs))


# From the records of the default study: processor seconds and peak memory in GB.
MEASURED = {
    "RankNet-shifted": (683, 1.8),
    "RankNet-of-3000": (87, 1.0),
    "RankNet-of-300": (31, 0.9),
    "Rank-LR-of-3000": (5.8, 0.9),
    "LambdaMART-of-300": (6.2, 1.0),
    "LambdaMART-of-30000": (124, 2.6),
    "Rank-LR-of-46": (23, 0.5),
    "LambdaMART-of-5": (9.2, 0.5),
}


@pytest.mark.parametrize("method", MEASURED)
def test_an_estimate_is_near_what_was_measured(method: str) -> None:
    study = Study.of(merged([ROOT / "config.yaml"]))
    found = estimated(study, [job for job in study.compared if job.model == method])
    seconds, gigabytes = MEASURED[method]
    assert 1 / 2 < found.seconds / seconds < 2
    assert 1 / 2 < found.gigabytes / gigabytes < 2


def test_ratings_of_one_s_own_count_by_their_bytes(tmp_path: Path) -> None:
    """A conversion of 25 million of them takes 2.3 GB."""
    path = tmp_path / "ratings.dat"
    with path.open("wb") as file:
        file.truncate(25 * 25_000_000)
    config = changed(("compare",), [], "config.yaml") | {"datasets": ["mine"], "experiment": []}
    columns = {"topic": "1", "item": "2", "rating": "3"}
    described = {"format": "ratings", "path": str(path), "separator": "::", "header": False, "columns": columns}
    config["interactions"]["mine"] = {**config["interactions"]["movielens"], "source": described}
    del config["interactions"]["mine"]["archive"]
    config["training"]["mine"] = config["training"]["movielens"]
    study = Study.of(config)
    found = estimated(study, study.runs)
    assert found.largest == "the conversion of mine"
    assert found.gigabytes == pytest.approx(2.3, abs=0.3)


def test_what_whole_catalogues_take_is_said_beside_the_estimate() -> None:
    def notes(*sampling: Any, losses: Sequence[str] = ("nDCG", "AP")) -> list[str]:
        config = changed(("interactions", "movielens", "sampling"), list(sampling))
        if sampling == ("full",):
            del config["interactions"]["movielens"]["nsr"]
        return list(uncounted(Study.of(config | {"losses": list(losses), "datasets": ["movielens"], **NO_OTHERS}).runs))

    assert notes("uniform", "popularity") == []
    long_lists, tables = notes("full")
    assert long_lists.startswith("movielens-full: lists of the whole catalogue")
    assert tables.startswith("movielens-full: tables of AP's score distributions")
    assert notes("full", losses=["nDCG"]) == [long_lists]
    assert len(notes({"train": "uniform", "test": "full"})) == 1


def test_the_document_has_its_table() -> None:
    with pytest.raises(ConfigError, match="tables lacks table_5_1, from which the document is made: add it"):
        check_config(changed(("tables",), ["table_2_2"]))
    check_config(changed(("tables",), ["table_5_1"]))


@pytest.mark.parametrize("apart", [False, True])
def test_generated_and_real_data_do_not_share_a_table(apart: bool) -> None:
    config = changed(("lists", "synthetic-mq2008"), SYNTHETIC_LISTS)
    if apart:
        config["comparisons"]["more"] = deepcopy(config["comparisons"]["web-queries"])
        config["comparisons"]["more"]["datasets"] = ["synthetic-mq2008-label1"]
        config["compare"] = [*config["compare"], "more"]
    else:
        config["comparisons"]["web-queries"]["datasets"] = ["mq2008-label1", "synthetic-mq2008-label1"]
    with pytest.raises(ConfigError, match="'synthetic-mq2008-label1' beside 'mq2008-label1': a table shows generated"):
        check_config(config)
    # Comparisons that do not run are in no table.
    check_config(config | {"compare": []})
