"""The JSON that a workflow rule passes as `--options`: exactly the config keys that the step reads."""

import json
import math
from collections.abc import Mapping
from typing import Any

from rankbound.errors import ConfigError


def read_options(text: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON object `text` over `defaults`, whose types the values must have.

    An int passes for a float. Raises ConfigError that names an unknown key, or a value of the wrong type.
    """
    given = parse_options(text)
    for key, value in given.items():
        if key not in defaults:
            raise ConfigError(f"--options has the unknown key {key!r}; known are {', '.join(sorted(defaults))}")
        wanted = type(defaults[key])
        allowed = (int, float) if wanted is float else (wanted,)
        endless = isinstance(value, float) and not math.isfinite(value)
        if endless or not isinstance(value, allowed) or (isinstance(value, bool) and wanted is not bool):
            raise ConfigError(f"--options: {key!r} is {json.dumps(value)}, expected a value like {defaults[key]!r}")
    return {**defaults, **given}


def parse_options(text: str) -> dict[str, Any]:
    """The JSON object `text`; ConfigError says what stood there instead."""
    try:
        given = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--options is no JSON ({error}): {text}") from error
    if not isinstance(given, dict):
        raise ConfigError(f'--options should be a JSON object such as {{"protocol": "published"}}, found {text}')
    return given


def _refuse_constant(name: str) -> Any:
    # Python's reader takes NaN and Infinity, which JSON does not have.
    raise ValueError(f"{name} is no number")
