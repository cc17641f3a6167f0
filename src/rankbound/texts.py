"""Texts of metrics, bounds and losses: `nDCG(gain=linear)@10` is a name, parameters and a cut-off.

A text stands for an object of a class whose keyword parameters have types; the parameter `cutoff` is written `@10`.
`build` reads a text and `text_of` writes it; the two are inverse to each other.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, signature
from types import UnionType
from typing import Any, TypeVar

CUTOFF = "cutoff"

EXAMPLES = {
    "metric": "nDCG@10, AP or nRBP(p=0.95)",
    "bound": "min-max or distribution(gain=sd)",
    "loss": "nDCG@10, ListNet@2 or hinge(margin=2)",
}

_MOST_DIGITS = 40

LARGEST_EXACT = 2**53
"""Whole numbers are exact in double precision up to here."""

Named = TypeVar("Named")


def split_text(text: str, what: str = "metric") -> tuple[str, dict[str, str], int | None]:
    """Split a text into name, parameters and cut-off; raise `ValueError`, with an example, if it is malformed."""
    if not isinstance(text, str):
        raise ValueError(f"{what}: found {text!r}, expected a text such as {EXAMPLES[what]}")
    match = re.fullmatch(r"([A-Za-z][\w-]*)(?:\((.*)\))?(?:@(\d+))?", text.strip())
    if match is None:
        raise ValueError(f"{what} {text!r}: expected a text such as {EXAMPLES[what]}")
    name, inside, cutoff = match.groups()
    parameters: dict[str, str] = {}
    for part in _top_level_parts(inside or ""):
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise ValueError(f"{what} {text!r}: expected parameters as name=value, found ({inside})")
        if key in parameters:
            raise ValueError(f"{what} {text!r}: found {key} twice, expected each parameter once")
        parameters[key] = value
    if cutoff is None:
        return name, parameters, None
    # Python refuses to read thousands of digits.
    number = int(cutoff[:_MOST_DIGITS])
    if number < 1:
        raise ValueError(f"{what} {text!r}: found cut-off {cutoff}, expected at least 1")
    require_exact(number, f"{what} {name}: found cut-off")
    return name, parameters, number


def require_exact(number: float, found: str) -> None:
    """Raise `ValueError`, which begins with `found`, for a whole parameter that double precision does not hold."""
    if number > LARGEST_EXACT:
        digits = f"{number:.16g}" if number < 1e300 else "a larger number"
        raise ValueError(f"{found} {digits}, expected at most 2^53 ({LARGEST_EXACT})")


def unknown_name(
    what: str, text: str, name: str, known: Collection[str], hints: Mapping[str, str] | None = None
) -> ValueError:
    """Return the error for an unknown name, with its hint or else the nearest known one."""
    for other, hint in (hints or {}).items():
        if other.lower() == name.lower():
            return ValueError(f"{what} {text!r}: unknown name {name!r}. Did you mean {hint}?")
    nearest = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    hint = f" Did you mean {next(one for one in known if one.lower() == nearest[0])}?" if nearest else ""
    return ValueError(f"{what} {text!r}: unknown name {name!r}; known are {', '.join(known)}.{hint}")


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raise `ValueError` for a value that isn't among the known ones."""
    if value not in known:
        raise ValueError(f"{name}: found {value}, expected one of {', '.join(known)}")


def build(
    kind: Callable[..., Named], text: str, parameters: Mapping[str, str], cutoff: int | None, what: str = "metric"
) -> Named:
    """Build an object of class `kind` from the texts of its parameters; raise `ValueError` for invalid ones."""
    known = _parameters(kind)
    name = getattr(kind, "name", what)
    arguments: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known or key == CUTOFF:
            expected = ", ".join(one for one in known if one != CUTOFF) or "none"
            cut_off = f"; a cut-off is written {name}@10" if CUTOFF in known else ""
            raise ValueError(f"{what} {text!r}: unknown parameter {key!r}; {name} takes: {expected}{cut_off}")
        arguments[key] = _typed(value, known[key].annotation, f"{what} {text!r}", key)
    if cutoff is not None:
        if CUTOFF not in known:
            raise ValueError(f"{what} {text!r}: {name} takes no cut-off")
        arguments[CUTOFF] = cutoff
    missing = [one for one, parameter in known.items() if parameter.default is Parameter.empty and one not in arguments]
    if missing:
        hint = f"a cut-off, as in {name}@10" if missing == [CUTOFF] else ", ".join(missing)
        raise ValueError(f"{what} {text!r}: {name} needs {hint}")
    return kind(**arguments)


def text_of(named: Any) -> str:
    """Return the object's text: its class's name, the parameters that differ from their defaults, the cut-off."""
    kind: Any = type(named)
    parts = [
        f"{key}={_written(value)}"
        for key, parameter in _parameters(kind).items()
        if key != CUTOFF and (value := getattr(named, key)) != parameter.default
    ]
    cutoff = getattr(named, CUTOFF, None)
    return str(named.name) + (f"({','.join(parts)})" if parts else "") + (f"@{cutoff}" if cutoff is not None else "")


@cache
def _parameters(kind: Hashable) -> Mapping[str, Parameter]:
    assert callable(kind)
    return signature(kind, eval_str=True).parameters


def _top_level_parts(inside: str) -> Iterator[str]:
    """Yield the parts between commas, ignoring commas inside parentheses."""
    depth, start = 0, 0
    for place, letter in enumerate(inside):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield inside[start:place]
            start = place + 1
    if inside:
        yield inside[start:]


def _typed(value: str, kind: Any, where: str, key: str) -> Any:
    if isinstance(kind, UnionType):  # `int | None`
        kind = next(member for member in kind.__args__ if member is not type(None))
    if kind is bool:
        if value not in ("true", "false"):
            raise ValueError(f"{where}: found {key}={value}, expected true or false")
        return value == "true"
    if kind not in (int, float):
        return value
    try:
        return kind(value)
    except ValueError:
        raise ValueError(f"{where}: found {key}={value}, expected {kind.__name__}") from None


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value).removesuffix(".0")


def is_number(text: str) -> bool:
    """Return true for a text that Python reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
