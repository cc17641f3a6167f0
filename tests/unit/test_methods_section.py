"""The report's methods say what the configuration says, and no number of another study."""

from typing import Any

import pytest

from rankbound.paper.blocks import Paragraph, TableBlock
from rankbound.paper.methods_section import methods_section

CONFIG: dict[str, Any] = {
    "interactions": {"movielens": {"threshold": 3, "min_relevant": 7, "nsr": [4, 1, 2]}},
    "lists": {"mq2008": {"thresholds": [2]}},
    "images": {"aaf": {"above": 6}},
    "compare": ["faces-pixels"],
    "bounds": ["none", "distribution"],
    "protocols": ["honest"],
    "temperature": 0.5,
}


def told(config: dict[str, Any] | None) -> dict[str, str]:
    return {one.title: one.text for one in methods_section(config).blocks if isinstance(one, Paragraph)}


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
    assert "published protocol" not in text["Protocols"]
    (table,) = (one for one in methods_section(CONFIG).blocks if isinstance(one, TableBlock))
    assert [row[0].text for row in table.rows] == ["unbounded", "distribution"]


def test_pictures_that_no_comparison_reads_are_not_told_of() -> None:
    assert "faces" not in told({**CONFIG, "compare": []})["Data"]


@pytest.mark.parametrize("config", [None, {}])
def test_without_a_configuration_only_what_holds_for_all_is_told(config: dict[str, Any] | None) -> None:
    text = told(config)
    assert "Data" not in text
    assert all(name in text["Protocols"] for name in ("published protocol", "honest protocol"))
