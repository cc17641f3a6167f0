"""Registered predictions: what is planted decides them, and the registered rows stay as they were."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from planted import Setting, World

from rankbound_study.claims.law import (
    HELD,
    NOT_HELD,
    REGISTERED_COLUMNS,
    UNDECIDED,
    UNTRAINED,
    Prediction,
    predictions,
    registered_table,
)
from rankbound_study.claims.verdicts import NOT_RUN
from rankbound_study.report.tables.effects import REGISTERED

POWERS = ("pairs^-0.5", "pairs^0.5")


def best(**values: object) -> Prediction:
    """The power 0.5 ranks AP best."""
    usual = {
        "id": "best", "dataset": "movielens", "nsr": 1, "loss": "AP", "weights": "pairs^0.5",
        "against": ["none", "pairs^-0.5"], "above": 0.0, "size": [0.01, 0.05], "reason": "planted",
    }  # fmt: skip
    return Prediction(**(usual | values))  # type: ignore[arg-type]


def world(effects: Mapping[str, float], **values: object) -> World:
    """Runs of AP in two experiments, of which no fold and seed is crossed: five trainings of each setting."""
    bounds = [Setting("AP", bounding, 1, "bounds-usual") for bounding in ("none", "min-max")]
    weighted = [
        Setting("AP", "none", 1, f"powers-{number}", json.dumps({"list_weights": text}))
        for number, text in enumerate(POWERS)
    ]

    def effect(one: Setting) -> float:
        text = json.loads(one.options).get("list_weights", one.bounding)
        return effects.get(text, 0.0)

    usual = {"topics": 200, "folds": 5, "seeds": 5, "training": 0.0002, "own": 0.002, "chance": 0.005}
    taking_turns = {"change": lambda one, rows: rows.filter(rows["fold"] == rows["seed"] + 1)}
    return World(effect, [*bounds, *weighted], **(usual | taking_turns | values))  # type: ignore[arg-type]


def outcome(one: Prediction, effects: Mapping[str, float], **values: object) -> dict[str, object]:
    (row,) = registered_table(world(effects, **values).draw(), [one]).to_dicts()
    return row


ABOVE, BOTH = {"pairs^0.5": 0.02}, {"above": -0.002, "below": 0.002, "weights": "min-max", "against": ["none"]}


@pytest.mark.parametrize(
    ("expected", "changes", "effects", "deciding"),
    [
        (HELD, {}, ABOVE, None),
        (HELD, {}, {**ABOVE, "pairs^-0.5": 0.01}, "pairs^-0.5"),
        (NOT_HELD, {}, {**ABOVE, "pairs^-0.5": 0.03}, "pairs^-0.5"),
        (UNDECIDED, {}, {**ABOVE, "pairs^-0.5": 0.02}, "pairs^-0.5"),
        (NOT_HELD, {}, {"pairs^0.5": -0.02, "pairs^-0.5": -0.05}, "none"),
        (HELD, {"above": None, "below": 0.0, "against": ["none"]}, {"pairs^0.5": -0.02}, "none"),
        (HELD, BOTH, {}, "none"),
        (NOT_HELD, BOTH, {"min-max": 0.01}, "none"),
        (NOT_HELD, BOTH, {"min-max": -0.01}, "none"),
        (UNDECIDED, BOTH, {"min-max": 0.002}, "none"),
    ],
)
def test_planted_differences_decide(
    expected: str, changes: Mapping[str, object], effects: Mapping[str, float], deciding: str | None
) -> None:
    one = best(**changes)
    row = outcome(one, effects)
    assert row["outcome"] == expected
    assert deciding is None or row["deciding"] == deciding
    planted = effects.get(one.weights, 0.0)
    assert row["low"] < planted < row["high"]  # type: ignore[operator]
    assert row["difference"] == pytest.approx(planted - effects.get(str(row["deciding"]), 0.0), abs=0.003)


def test_noise_leaves_a_prediction_undecided_and_its_size_is_judged_apart_from_the_direction() -> None:
    assert outcome(best(), {"pairs^0.5": 0.002}, chance=0.2, training=0.02)["outcome"] == UNDECIDED
    for size, as_sized in (([0.01, 0.03], True), ([0.03, 0.05], False), ([0.001, 0.01], False)):
        row = outcome(best(size=size), ABOVE)
        assert (row["outcome"], row["as_sized"]) == (HELD, as_sized)


def test_the_correction_is_over_all_predictions_and_missing_runs_are_said() -> None:
    """One result, alone and among twenty predictions that did not run."""
    one, lacking = best(against=["none"]), best(loss="nDCG", id="lacking")
    held = world({"pairs^0.5": 0.002}).draw()
    alone = registered_table(held, [one]).row(0, named=True)
    many = registered_table(held, [one, *(replace(lacking, id=f"lacking {number}") for number in range(20))])
    assert many.row(0, named=True)["p_held"] == pytest.approx(min(1.0, 21 * alone["p_held"]))
    assert 0 < alone["p_held"] < 1 / 21
    assert set(many["outcome"][1:]) == {NOT_RUN}
    assert many["effect"][1:].null_count() == 20
    assert len(REGISTERED(many).rows) == 21


def test_models_that_did_not_train_are_said_and_not_tested(tmp_path: Path) -> None:
    still = {"gradient": lambda one: 0.0 if "pairs^0.5" in one.options else 1.0}
    row = registered_table(world({"pairs^0.5": -0.3}, **still).files(tmp_path), [best()]).row(0, named=True)
    assert (row["outcome"], row["p_held"], row["deciding"]) == (UNTRAINED, None, None)
    assert row["effect"] == pytest.approx(-0.3, abs=0.003)


def test_the_registered_rows_are_those_of_the_registration() -> None:
    """Rows change no more, because their outcomes are known; other predictions need a file of their own."""
    text = files("rankbound_study.reference").joinpath("predictions.yaml").read_bytes()
    assert hashlib.sha256(text).hexdigest() == "f8ec02eb82d82bde80be8ed07793b274589e805bd0df987a06031d298dd2568e"
    assert [one.id for one in predictions()] == [f"P{number:02}" for number in range(1, 15)]
    assert registered_table(world({}).draw()).schema == REGISTERED_COLUMNS
