"""Texts for messages about a configuration: key names, lists of allowed values, suggestions."""

import difflib
import json
from collections.abc import Sequence
from typing import Any

from rankbound_study.config.lines import KeyPath


def named(path: KeyPath) -> str:
    """Return a key with all sections around it: `lists.mq2008.thresholds[1]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the configuration"


def listed(names: Sequence[str]) -> str:
    """Return the names, separated by commas."""
    return ", ".join(names)


def nearest(found: Any, allowed: Sequence[str]) -> str:
    """Return `: did you mean nDCG?` if an allowed name is near, else an empty text."""
    by_small_letters = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(str(found).lower(), list(by_small_letters), n=1, cutoff=0.6)
    return f": did you mean {by_small_letters[close[0]]}?" if close else ""


def shown(value: Any) -> str:
    """Return a value as JSON, or with its type if JSON has no such values, cut if it is long."""
    if not isinstance(value, str | int | float | list | dict | None):
        return f"{value} (a {type(value).__name__})"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."
