"""Texts: of metrics, bounds and losses, and values from elsewhere in messages.

`nDCG(gain=linear)@10` is a name, parameters and a cut-off. A text stands for an object of a class whose keyword
parameters have types; the parameter `cutoff` is written `@10`. `build` reads a text and `text_of` writes it; the two
are inverse to each other. `named_kinds` finds the classes.

Texts that come from files of others are made `printable`: nothing that a terminal acts on or hides, no endless lines.
"""

import json
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import import_module
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar
from unicodedata import category

if TYPE_CHECKING:
    from inspect import Parameter

CUTOFF = "cutoff"

EXAMPLES = {
    "metric": "nDCG@10, AP or nRBP(p=0.95)",
    "bound": "min-max or distribution(gain=sd)",
    "loss": "nDCG@10, ListNet@2 or hinge(margin=2)",
}

LARGEST_EXACT = 2**53
"""Whole numbers are exact in double precision up to here."""

LONGEST = 2000
"""Characters of a line of a message; longer ones lose their middle."""

LONGEST_VALUE = 80
"""Characters of a name or value in a message."""

Kind = TypeVar("Kind")


class MissingError(ValueError):
    """A text that lacks parameters, those named `missing`."""

    def __init__(self, message: str, missing: Collection[str]) -> None:
        super().__init__(message)
        self.missing = missing


def split_text(text: str, what: str = "metric") -> tuple[str, dict[str, str], int | None]:
    """Split a text into name, parameters and cut-off; raise `ValueError`, with an example, if it is malformed."""
    if not isinstance(text, str):
        raise ValueError(f"{what}: found {text!r}, expected a text such as {EXAMPLES[what]}")
    match = re.fullmatch(r"([A-Za-z][\w-]*)(?:\((.*)\))?(?:@(\d+))?", text.strip())
    if match is None:
        raise ValueError(f"{what} {text!r}: expected a text such as {EXAMPLES[what]}")
    name, inside, cutoff = match.groups()
    parameters: dict[str, str] = {}
    depth, parts = 0, [""]
    for letter in inside or "":
        depth += (letter == "(") - (letter == ")")
        # Commas inside parentheses part nothing.
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    for part in parts if inside else ():
        key, separator, value = (piece.strip() for piece in part.partition("="))
        if not separator:
            raise ValueError(f"{what} {text!r}: expected parameters as name=value, found ({inside})")
        require(f"{what} {text!r}", f"{key} twice", key not in parameters, "each parameter once")
        parameters[key] = value
    if cutoff is None:
        return name, parameters, None
    # Python refuses to read thousands of digits.
    number = int(cutoff[:40])
    require(f"{what} {text!r}", f"cut-off {cutoff}", number >= 1, "at least 1")
    require(f"{what} {name}", f"cut-off {number:.16g}", number <= LARGEST_EXACT, f"at most 2^53 ({LARGEST_EXACT})")
    return name, parameters, number


def is_named(text: Any, known: Collection[str]) -> bool:
    """Return true unless a text's name is another one than the `known` ones."""
    name = re.match(r"\s*([A-Za-z][\w-]*)(?=\s*$|\(|@)", text) if isinstance(text, str) else None
    return name[1] in known if name else not isinstance(text, str) or not text.strip()


def build(
    kind: Callable[..., Kind], text: str, parameters: Mapping[str, str], cutoff: int | None, what: str = "metric"
) -> Kind:
    """Build an object of class `kind` from the texts of its parameters; raise `ValueError` for invalid ones."""
    known = _parameters(kind)
    name = getattr(kind, "name", what)
    arguments: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known or key == CUTOFF:
            expected = ", ".join(one for one in known if one != CUTOFF) or "none"
            cut_off = f"; a cut-off is written {name}@10" if CUTOFF in known else ""
            raise ValueError(f"{what} {text!r}: unknown parameter {key!r}; {name} takes: {expected}{cut_off}")
        expected_type = known[key].annotation
        if isinstance(expected_type, UnionType):  # `int | None`
            expected_type = next(member for member in expected_type.__args__ if member is not type(None))
        if expected_type is bool:
            if value not in ("true", "false"):
                raise ValueError(f"{what} {text!r}: found {key}={value}, expected true or false")
            arguments[key] = value == "true"
            continue
        try:
            arguments[key] = expected_type(value) if expected_type in (int, float) else value
        except ValueError:
            raise ValueError(f"{what} {text!r}: found {key}={value}, expected {expected_type.__name__}") from None
    if cutoff is not None:
        if CUTOFF not in known:
            instead = f": write {name}(metric=nDCG@{cutoff})" if "metric" in known else ""
            raise ValueError(f"{what} {text!r}: {name} takes no cut-off{instead}")
        arguments[CUTOFF] = cutoff
    missing = [one for one, parameter in known.items() if parameter.default is parameter.empty and one not in arguments]
    if missing:
        hint = f"a cut-off, as in {name}@10" if missing == [CUTOFF] else ", ".join(missing)
        raise MissingError(f"{what} {text!r}: {name} needs {hint}", missing)
    return kind(**arguments)


def text_of(named: Any) -> str:
    """Return the object's text: its class's name, the parameters that differ from their defaults, the cut-off."""
    kind: Any = type(named)
    parts = []
    for key, parameter in _parameters(kind).items():
        if key != CUTOFF and (value := getattr(named, key)) != parameter.default:
            written = str(value).lower() if isinstance(value, bool) else str(value).removesuffix(".0")
            parts.append(f"{key}={written}")
    cutoff = getattr(named, CUTOFF, None)
    return str(named.name) + (f"({','.join(parts)})" if parts else "") + (f"@{cutoff}" if cutoff is not None else "")


def unknown_name(what: str, text: str, name: str, known: Collection[str]) -> ValueError:
    """Return the error for an unknown name, with the nearest known one."""
    from difflib import get_close_matches

    nearest = get_close_matches(name.lower(), [other.lower() for other in known], n=1)
    hint = f" Did you mean {next(one for one in known if one.lower() == nearest[0])}?" if nearest else ""
    return ValueError(f"{what} {text!r}: unknown name {name!r}; known are {', '.join(known)}.{hint}")


def require(name: str, value: object, valid: bool, expected: str) -> None:
    """Raise `ValueError`, with what is expected, for a value that isn't valid."""
    if not valid:
        raise ValueError(f"{name}: found {value}, expected {expected}")


def require_one_of(name: str, value: str, known: Collection[str]) -> None:
    """Raise `ValueError` for a value that isn't among the known ones."""
    require(name, value, value in known, f"one of {', '.join(known)}")


def is_number(text: str) -> bool:
    """Return true for a text that Python reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def named_kinds(package: str, base: Callable[..., Kind]) -> Iterator[tuple[str, type[Kind]]]:
    """Yield the name and class of each subclass of `base` that a package's modules define with a `name`.

    Args:
        package: the package ("rankbound.metrics"), whose modules are imported in alphabetical order; modules that begin
            with an underscore are skipped.
        base: the base class.
    """
    from pkgutil import iter_modules

    homes = iter_modules(import_module(package).__path__, f"{package}.")
    for module in sorted(home.name for home in homes if not home.name.rpartition(".")[2].startswith("_")):
        for kind in vars(import_module(module)).values():
            if isinstance(kind, type) and kind.__module__ == module and base in kind.__mro__ and "name" in vars(kind):
                yield vars(kind)["name"], kind


def names(text: str) -> list[str]:
    """Parse `a,b`, the text of a flag, as a list of names."""
    return [part.strip() for part in text.split(",") if part.strip()]


def widths(text: str) -> tuple[int, ...]:
    """Parse `64,32` as integers; argparse reports any other text."""
    return tuple(int(part) for part in names(text))


def positive(text: str) -> int:
    """Parse `5` as a positive integer; argparse reports anything else."""
    if (number := int(text)) < 1:
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{number}: expected at least 1")
    return number


def printable(text: str) -> str:
    r"""Return the text with all characters escaped that a terminal acts on or does not show, line breaks included.

    >>> print(printable("a\x1b[2J\n\u202eb"))
    a\x1b[2J\n\u202eb
    """
    if text.isprintable():
        return text
    # Spaces of other widths are no line breaks.
    return "".join(
        letter if letter.isprintable() or category(letter) == "Zs" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def printable_message(text: str, longest: int = LONGEST) -> str:
    """Return a message of one or several lines, each printable and of at most about `longest` characters."""
    return "\n".join(shortened(printable(line), longest) for line in text.split("\n"))


def quoted(value: object) -> str:
    """Return a value as it stands in a message: its representation, of at most about `LONGEST_VALUE` characters."""
    return shortened(repr(value), LONGEST_VALUE)


def html_table(rows: Sequence[Sequence[str]], words: Collection[str]) -> str:
    """Return rows of cells in HTML, the header first, as a table; columns with headers in `words` align left."""
    sides = ["left" if cell in words else "right" for cell in rows[0]]
    lines = [
        "".join(f'<{tag} style="text-align: {side}">{cell}</{tag}>' for cell, side in zip(row, sides, strict=True))
        for row, tag in zip(rows, ["th", *["td"] * (len(rows) - 1)], strict=True)
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def html_notes(lines: Sequence[str]) -> str:
    """Return lines as a list in HTML."""
    return f"<ul>{''.join(f'<li>{html(line)}</li>' for line in lines)}</ul>" if lines else ""


def html(text: str) -> str:
    """Return a text with the characters escaped that HTML acts on."""
    return escape(printable(text))


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning and end with the number of characters between them.

    >>> shortened("abcdefghij", 4)
    'ab ... (6 more characters) ... ij'
    """
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} ... ({len(text) - 2 * half} more characters) ... {text[-half:]}"


def quantity(number: int, what: str, plural: str = "") -> str:
    """Return a number of things as text; their plural ends in s unless another one is given.

    >>> quantity(1, "topic"), quantity(2001, "topic"), quantity(0, "query", "queries")
    ('1 topic', '2,001 topics', '0 queries')
    """
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def derive_seed(*parts: str | int | float | None) -> int:
    """Return a seed in 0 .. 2**63 - 1 that depends on `parts` alone: the head of the SHA-256 of their JSON text.

    Unlike `hash`, it is the same on every machine and Python version. By convention the purpose comes first, then data
    set, fold and seed: `derive_seed("negatives", "movielens", 1, 0)`.
    """
    import hashlib

    text = json.dumps(parts, ensure_ascii=True, allow_nan=False)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@cache
def _parameters(kind: Hashable) -> "Mapping[str, Parameter]":
    from inspect import signature

    assert callable(kind)
    return signature(kind, eval_str=True).parameters
