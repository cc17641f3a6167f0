"""The values of the keys that say how irrelevant items are chosen."""

from typing import Annotated, Any

from pydantic import AfterValidator, WithJsonSchema

from rankbound_study.config.samplings import EVERY, FULL, OWN, SAMPLINGS, TEST, TRAIN, UNIFORM, Sampling
from rankbound_study.config.sections.base import LARGEST_RATIO, problem
from rankbound_study.config.words import listed, shown


def _sampling(value: Any) -> Any:
    parts = (value,) if isinstance(value, str) else tuple(value.values()) if isinstance(value, dict) else ()
    of_parts = not isinstance(value, dict) or list(value) in ([TRAIN, TEST], [TEST, TRAIN])
    if not parts or not of_parts or any(part not in SAMPLINGS for part in parts):
        raise problem(
            f"is {shown(value)}: expected one of {listed(SAMPLINGS)}, or one for each part: "
            f"{{{TRAIN}: {UNIFORM}, {TEST}: {FULL}}}"
        )
    if isinstance(value, dict) and value[TRAIN] == value[TEST]:
        raise problem(f"has {value[TRAIN]} for both parts: write {value[TRAIN]} alone")
    if Sampling.of(value) not in EVERY:
        raise problem(f"trains on all irrelevant items, so that none is left to draw for {TEST}: use {FULL} there, too")
    return value


_PART = {"enum": list(SAMPLINGS)}
SamplingValue = Annotated[
    Any,
    AfterValidator(_sampling),
    WithJsonSchema(
        {
            "anyOf": [
                _PART,
                {
                    "type": "object",
                    "properties": {TRAIN: _PART, TEST: _PART},
                    "required": [TRAIN, TEST],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def _ratios(value: Any) -> Any:
    several = value if isinstance(value, list) else None
    for ratio in [value] if several is None else several:
        if type(ratio) is not int or not (OWN if several is None else 1) <= ratio <= LARGEST_RATIO:
            raise problem(
                f"is {shown(value)}: expected a whole number of at most {LARGEST_RATIO}, {OWN} for the user's own "
                "irrelevant items, or a list of ratios from 1 on, of which each user has one"
            )
    if several is not None and (len(several) < 2 or sorted(set(several)) != several):
        raise problem(f"is {shown(value)}: expected at least two different ratios in ascending order, such as [1, 2]")
    return value


_RATIO = {"type": "integer", "minimum": 1, "maximum": LARGEST_RATIO}
Ratios = Annotated[
    Any,
    AfterValidator(_ratios),
    WithJsonSchema(
        {
            "anyOf": [
                {**_RATIO, "minimum": OWN},
                {"type": "array", "items": _RATIO, "minItems": 2, "uniqueItems": True},
            ]
        }
    ),
]
