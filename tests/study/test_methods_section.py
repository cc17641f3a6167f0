"""The report's methods say what the configuration says, and no number of another study."""

from typing import Any

import pytest

from rankbound_study.report.columns import TableBlock
from rankbound_study.report.content import Paragraph
from rankbound_study.report.methods_section import methods_section

QUERIES = "MQ2008: a topic is a query with its judged documents, and"
USERS = {"threshold": 3, "min_relevant": 7}
CONFIG: dict[str, Any] = {
    "interactions": {"movielens": {**USERS, "nsr": [4, 1, 2]}},
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
BOTH = {"protocols": ["published", "honest"], "datasets": ["movielens", "mq2008"]}
WITHOUT_COMPARE = {name: value for name, value in CONFIG.items() if name != "compare"}


def told(config: dict[str, Any] | None) -> dict[str, str]:
    """Return the paragraphs by title, and the caption and the rows of the table of bounds."""
    (table,) = (one for one in methods_section(config).blocks if isinstance(one, TableBlock))
    rows = " ".join(row[0].text for row in table.rows)
    paragraphs = {one.title: one.text for one in methods_section(config).blocks if isinstance(one, Paragraph)}
    return paragraphs | {"Bounds": table.caption, "Boundings": rows}


def readings(*thresholds: Any) -> dict[str, Any]:
    return {"lists": {"mq2008": {"thresholds": list(thresholds)}}}


def distributions(**options: Any) -> dict[str, Any]:
    return {**BOTH, "distributions": {**options, "samples": 3000, "seed": 0}}


def negatives(*nsr: Any, **options: Any) -> dict[str, Any]:
    return {"interactions": {"movielens": {**USERS, **({"nsr": list(nsr)} if nsr else {}), **options}}}


def rates(**by_protocol: Any) -> dict[str, Any]:
    return {"protocols": list(by_protocol), "training": {"movielens": {"learning_rate": by_protocol}}}


@pytest.mark.parametrize(
    ("changes", "title", "expected"),
    [
        ({}, "Data", "a rating of at least 3 is relevant, and users with fewer than 7 relevant items are left out."),
        ({}, "Data", "1, 2 or 4 negatives"),
        ({}, "Data", f"{QUERIES} a label of at least 2 is relevant."),
        ({}, "Data", "more than 6 years"),
        ({}, "Losses", "τ = 0.5"),
        ({}, "Boundings", "unbounded distribution"),
        (readings("graded"), "Data", f"{QUERIES} labels are graded relevance."),
        (
            readings(2, "graded", 1), "Data",
            "1 or 2 is relevant, or labels are graded relevance (each reading is a data set of its own).",
        ),
        (distributions(method="exact"), "Bounds", "their cumulative distribution."),
        (distributions(method="sampled"), "Bounds", "distribution. F is estimated from 3,000 random orderings."),
        (
            distributions(method={"published": "sampled", "honest": "exact"}), "Bounds",
            "random orderings under the published protocol, and exact elsewhere.",
        ),
        (
            distributions(method="exact", datasets={"movielens": "sampled"}), "Bounds",
            "orderings under the published protocol on MovieLens and under the honest protocol on MovieLens, and exact",
        ),
        (negatives(2), "Data", "item comes with 2 negatives (the negative sampling ratio, NSR), drawn without"),
        (negatives(3, [1, 2]), "Data", "with 3 negatives, or 1 or 2 negatives by a ratio drawn for each user (the"),
        (negatives(0), "Data", "Own negatives are the user's ratings below the threshold"),
        (negatives(1, sampling=["popularity"]), "Data", "probability proportional to the number of its ratings."),
        (negatives(1, sampling=[{"train": "uniform", "test": "full"}]), "Data", "drawn parts have no negatives in"),
        (negatives(sampling=["full"]), "Data", "left out. A full catalogue is all rated items, without those that"),
        ({"controls": ["oracle"]}, "Controls", "controls: the oracle, which knows the labels."),
        (rates(honest=0.01), "Training", "share the learning rate, the number of epochs"),
        (rates(honest=[0.01, 0.1]), "Training", "Every loss and bounding has its own learning rate: each fold"),
        (rates(published=0.1, honest=[0.01, 0.1]), "Training", "its own learning rate under the honest protocol: each"),
    ],
)  # fmt: skip
def test_numbers_and_choices_come_from_the_configuration(changes: dict[str, Any], title: str, expected: str) -> None:
    text = told(CONFIG | changes)
    assert expected in text[title]
    assert "The published protocol" not in text["Protocols"] or "published" in changes["protocols"]
    assert ("the learning rate, " in text["Training"]) == ("grid" not in text["Training"])


@pytest.mark.parametrize(
    ("config", "called"),
    [
        (CONFIG, "MovieLens MQ2008 All-Age-Faces"),
        (CONFIG | {"compare": []}, "MovieLens"),
        (CONFIG | {"compare": ["queries"]}, "MovieLens MQ2008"),
        (CONFIG | {"compare": ["faces-vgg16"]}, "MovieLens All-Age-Faces"),
        (CONFIG | {"datasets": ["mq2008"], "compare": []}, "MQ2008"),
        # Where no comparison is named, all run.
        (WITHOUT_COMPARE, "MovieLens MQ2008 All-Age-Faces"),
    ],
)
def test_only_data_that_something_reads_are_told_of(config: dict[str, Any], called: str) -> None:
    text = told(config)["Data"]
    assert " ".join(name for name in ("MovieLens", "MQ2008", "All-Age-Faces") if f"{name}:" in text) == called


def test_what_the_configuration_does_not_have_is_not_told() -> None:
    assert "Controls" not in told(CONFIG | {"controls": []})
    for text in map(told, (None, {})):
        assert "Data" not in text
        assert all(name in text["Protocols"] for name in ("published protocol", "honest protocol"))
