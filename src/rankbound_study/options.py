"""The JSON that a workflow rule passes as `--options`: exactly the config keys that the step reads."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rankbound.errors import ConfigError


def read_options(text: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object `text` merged over `defaults`, whose types the values must have.

    An int is accepted for a float. Raises ConfigError, which names the unknown key or the value of the wrong type.
    """
    options = parse_options(text)
    for key, value in options.items():
        if key not in defaults:
            raise ConfigError(f"--options has the unknown key {key!r}; known are {', '.join(sorted(defaults))}")
        expected = type(defaults[key])
        allowed = (int, float) if expected is float else (expected,)
        infinite = isinstance(value, float) and not math.isfinite(value)
        if infinite or not isinstance(value, allowed) or (isinstance(value, bool) and expected is not bool):
            raise ConfigError(f"--options: {key!r} is {json.dumps(value)}, expected a value like {defaults[key]!r}")
    return {**defaults, **options}


def parse_options(text: str, flag: str = "--options") -> dict[str, Any]:
    """Return the JSON object `text` of a flag; raise ConfigError, which quotes the text, if it is none."""
    try:
        options = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{flag} is not valid JSON ({error}): {text}") from error
    if not isinstance(options, dict):
        raise ConfigError(f'{flag} should be a JSON object such as {{"protocol": "published"}}, found {text}')
    return options


def as_json(options: Mapping[str, Any]) -> str:
    """Return the text of a step's options; equal options give equal bytes."""
    return json.dumps(options, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _refuse_constant(name: str) -> Any:
    # Python's parser accepts NaN and Infinity, which JSON does not have.
    raise ValueError(f"{name} is not a number")
