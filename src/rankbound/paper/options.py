"""The JSON of `--options`: one object, as the workflow's rules pass it."""

import json
from typing import Any

from rankbound.errors import ConfigError


def parse_options(text: str) -> dict[str, Any]:
    """Read a JSON object; ConfigError says what stood there instead."""
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"--options is not JSON ({error}): {text}") from error
    if not isinstance(options, dict):
        raise ConfigError(f'--options must be a JSON object such as {{"protocol": "published"}}, not {text}')
    return options
