"""Options in words: all that differ are told, and nothing that does not."""

import pytest

from rankbound_study.report.tables.sensitivity import differing, option_text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("learning_rate", 0.03, "learning rate 0.03"),
        ("learning_rate", 0.00001, "learning rate 1e-05"),
        ("temperature", 3.0, "temperature 3"),
        ("factors", 16, "factors 16"),
        ("hidden", [12], "hidden 12"),
        ("hidden", [100, 30], "hidden 100-30"),
        ("optimiser", "sgd", "optimiser sgd"),
    ],
)
def test_an_option_and_its_value(name: str, value: object, text: str) -> None:
    assert option_text(name, value) == text


def test_what_differs_or_is_new_is_told_whatever_the_order() -> None:
    usual = {"batch_size": 32, "learning_rate": 0.01, "optimiser": "adam", "temperature": 1.0}
    for changed in ({}, {"learning_rate": 3}, {"optimiser": "sgd", "learning_rate": 3}, {"spread": 0.1}):
        options = {**dict(reversed(usual.items())), **changed}
        assert differing(options, usual) == [option_text(name, changed[name]) for name in sorted(changed)]
    assert differing({**usual, "temperature": 1}, usual) == []
