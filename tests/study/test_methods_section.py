"""The report's methods say what the configuration says, and no number of another study."""

from copy import deepcopy
from typing import Any

import pytest

from rankbound_study.report.columns import TableBlock
from rankbound_study.report.content import Paragraph
from rankbound_study.report.methods_section import methods_section

CONFIG: dict[str, Any] = {
    "interactions": {"movielens": {"threshold": 3, "min_relevant": 7, "nsr": [4, 1, 2]}},
    "lists": {"mq2008": {"thresholds": [2]}},
    "images": {"aaf": {"above": 6}},
    "compare": ["queries", "faces-pixels"],
    "comparisons": {
        "queries": {"datasets": ["mq2008-label1"]},
        "faces-pixels": {"datasets": ["aaf"]},
        "faces-vgg16": {"datasets": ["aaf-vgg16"]},
    },
    "datasets": ["movielens"],
    "boundings": ["none", "distribution"],
    "protocols": ["honest"],
    "temperature": 0.5,
}


def told(config: dict[str, Any] | None) -> dict[str, str]:
    return {one.title: one.text for one in methods_section(config).blocks if isinstance(one, Paragraph)}


@pytest.mark.parametrize(
    ("thresholds", "expected"),
    [
        (["graded"], "judged documents, and labels are graded relevance."),
        (
            [2, "graded", 1],
            "at least 1 or 2 is relevant, or labels are graded relevance (each reading is a data set of its own).",
        ),
    ],
)
def test_graded_readings_are_named(thresholds: list[Any], expected: str) -> None:
    config = deepcopy(CONFIG)
    config["lists"]["mq2008"]["thresholds"] = thresholds
    assert expected in told(config)["Data"]


def test_numbers_come_from_the_configuration() -> None:
    text = told(CONFIG)
    assert "a rating of at least 3 is relevant" in text["Data"]
    assert "fewer than 7 relevant" in text["Data"]
    assert "1, 2 or 4 negatives" in text["Data"]
    assert (
        "MQ2008: a topic is a query with its judged documents, and a label of at least 2 is relevant." in text["Data"]
    )
    assert "more than 6 years" in text["Data"]
    assert "τ = 0.5" in text["Losses"]
    assert "The published protocol" not in text["Protocols"]
    (table,) = (one for one in methods_section(CONFIG).blocks if isinstance(one, TableBlock))
    assert [row[0].text for row in table.rows] == ["unbounded", "distribution"]


@pytest.mark.parametrize(
    ("distributions", "expected"),
    [
        ({"method": "exact"}, "their cumulative distribution."),
        ({"method": "sampled"}, "distribution. F is estimated from 3,000 random orderings."),
        (
            {"method": {"published": "sampled", "honest": "exact"}},
            "random orderings under the published protocol, and exact elsewhere.",
        ),
        (
            {"method": "exact", "datasets": {"movielens": "sampled"}},
            "orderings under the published protocol on MovieLens and under the honest protocol on MovieLens, and exact",
        ),
    ],
)
def test_estimated_distributions_are_told(distributions: dict[str, Any], expected: str) -> None:
    config = {**CONFIG, "protocols": ["published", "honest"], "datasets": ["movielens", "mq2008"]}
    config["distributions"] = {**distributions, "samples": 3000, "seed": 0}
    (table,) = (one for one in methods_section(config).blocks if isinstance(one, TableBlock))
    assert expected in table.caption


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"nsr": [2]}, "Every relevant item comes with 2 negatives (the negative sampling ratio, NSR), drawn without"),
        ({"nsr": [3, [1, 2]]}, "come with 3 negatives, or 1 or 2 negatives by a ratio drawn for each user (the"),
        ({"nsr": [0]}, "Own negatives are the user's ratings below the threshold"),
        ({"nsr": [1], "sampling": ["popularity"]}, "with a probability proportional to the number of its ratings."),
        ({"nsr": [1], "sampling": [{"train": "uniform", "test": "full"}]}, "drawn parts have no negatives in common."),
        ({"sampling": ["full"]}, "left out. A full catalogue is all rated items, without those that are relevant"),
    ],
)
def test_the_choice_of_negatives_is_told(options: dict[str, Any], expected: str) -> None:
    config = {**CONFIG, "interactions": {"movielens": {"threshold": 3, "min_relevant": 7, **options}}}
    assert expected in told(config)["Data"]


@pytest.mark.parametrize(
    ("changes", "called"),
    [
        ({}, ["MovieLens", "MQ2008", "All-Age-Faces"]),
        ({"compare": []}, ["MovieLens"]),
        ({"compare": ["queries"]}, ["MovieLens", "MQ2008"]),
        ({"compare": ["faces-vgg16"]}, ["MovieLens", "All-Age-Faces"]),
        ({"datasets": ["mq2008"], "compare": []}, ["MQ2008"]),
    ],
)
def test_only_data_that_something_reads_are_told_of(changes: dict[str, Any], called: list[str]) -> None:
    text = told({**CONFIG, **changes})["Data"]
    assert [name for name in ("MovieLens", "MQ2008", "All-Age-Faces") if f"{name}:" in text] == called


def test_where_no_comparison_is_named_all_run() -> None:
    text = told({name: value for name, value in CONFIG.items() if name != "compare"})["Data"]
    assert all(name in text for name in ("MQ2008:", "All-Age-Faces:"))


def test_controls_are_those_that_run() -> None:
    assert told({**CONFIG, "controls": ["oracle"]})["Controls"].endswith(
        "controls: the oracle, which knows the labels."
    )
    assert "Controls" not in told({**CONFIG, "controls": []})


@pytest.mark.parametrize("config", [None, {}])
def test_without_a_configuration_only_what_holds_for_all_is_told(config: dict[str, Any] | None) -> None:
    text = told(config)
    assert "Data" not in text
    assert all(name in text["Protocols"] for name in ("published protocol", "honest protocol"))


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"honest": 0.01}, "share the learning rate, the number of epochs"),
        ({"honest": [0.01, 0.1]}, "Every loss and bounding has its own learning rate: each fold"),
        ({"published": 0.1, "honest": [0.01, 0.1]}, "its own learning rate under the honest protocol: each fold"),
    ],
)
def test_grids_of_learning_rates_are_named_where_they_are(rates: dict[str, Any], expected: str) -> None:
    config = {**CONFIG, "protocols": list(rates), "training": {"movielens": {"learning_rate": rates}}}
    text = told(config)["Training"]
    assert expected in text
    assert ("the learning rate, " in text) == ("grid" not in text)
