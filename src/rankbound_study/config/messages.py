"""Sentences about what is wrong with a section: its key, the value found, and the values allowed."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin

from pydantic import ValidationError

from rankbound.errors import ConfigError
from rankbound_study.config.lines import KeyPath, key_text, listed, named, nearest, shown
from rankbound_study.config.sections.base import Keys
from rankbound_study.options import parse_options

Section = TypeVar("Section", bound=Keys)


def of_flag(kind: type[Section], text: str, flag: str) -> Section:
    """Return the section that a flag has as JSON; ConfigError names the key of each problem."""
    values = parse_options(text, flag)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        sentences = (text.removeprefix(f"{named(())} ") for _, text in explained(error, values, kind))
        raise ConfigError("\n  ".join(f"{flag}: {sentence}" for sentence in sentences)) from error


_EXPECTED = {
    "model_type": "a section (key: value lines)",
    "model_attributes_type": "a section (key: value lines)",
    "dict_type": "a section (key: value lines)",
    "list_type": "a list, such as [1, 2]",
    "tuple_type": "a list, such as [1, 2]",
    "string_type": "text",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:,.15g}",
    "too_long": "at most {max_length} values",
    "too_short": "at least one value",
    "string_too_short": "a text that is not empty",
}
"""Kind of error -> what was expected."""


def explained(error: ValidationError, values: Mapping[str, Any], kind: type[Keys]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and the sentence of each error in the values of a section."""
    for details in error.errors(include_url=False):
        wrong, where, found, context = details["type"], details["loc"], details["input"], details.get("ctx", {})
        path = _in_file(where, values)
        match wrong:
            case "missing":
                section, path = _section_at(where[:-1], kind), (*path, where[-1])
                meaning = section.model_fields[str(where[-1])].description
                yield path, f"the key {named(path)} is missing" + (f" ({meaning})" if meaning else "")
            case "extra_forbidden":
                keys = list(_section_at(where[:-1], kind).model_fields)
                owner = f"of {where[-2]}" if len(path) < len(where) else "here"  # of one of several models
                hint = f"{nearest(path[-1], keys)} (the keys {owner}: {listed(keys)})"
                yield path, f"unknown key {named(path)}{hint}"
            case _ if wrong == "invalid_key" or where[-1:] == ("[key]",):
                path = (*_in_file(where[: -1 if wrong == "invalid_key" else -2], values), key_text(found))
                text = details["msg"] if isinstance(found, str) else "is not text: write it in quotes"
                yield path, f"the key {path[-1]} of {named(path[:-1])} {text}"
            case "union_tag_not_found":
                yield path, f"the key {named((*path, 'name'))} is missing"
            case "union_tag_invalid":
                names = re.findall("'(.*?)'", context["expected_tags"])
                path, name = (*path, "name"), context["tag"]
                yield path, f"{named(path)} is {shown(name)}: expected one of {listed(names)}{nearest(name, names)}"
            case "problem":
                yield path, f"{named(path)} {details['msg']}"
            case _:
                expected = _EXPECTED[wrong].format(**context) if wrong in _EXPECTED else details["msg"]
                yield path, f"{named(path)} is {shown(found)}: expected {expected}{_hint(wrong, found)}"


def _in_file(where: KeyPath, values: Any) -> KeyPath:
    """Return the place of an error without what is no key of the file."""
    path: KeyPath = ()
    for key in where:
        # pydantic names the member of a union, too, and calls a section's name that is wrong "[key]".
        with suppress(LookupError, TypeError):
            path, values = (*path, key), values[key]
    return path


def _section_at(where: KeyPath, kind: Any) -> type[Keys]:
    """Return the model of the section at the place of an error."""
    for key in where:
        if isinstance(kind, type) and issubclass(kind, Keys):
            kind = kind.model_fields[str(key)].annotation
        elif get_origin(kind) is dict:
            kind = get_args(kind)[1]
        else:
            kind = next(member for member in get_args(kind) if key in get_args(member.model_fields["name"].annotation))
        if NoneType in get_args(kind):
            kind = get_args(kind)[0]
    return cast(type[Keys], kind)


def _hint(wrong: str, found: Any) -> str:
    """Return a hint for a common YAML mistake: 1e-3 without a dot is text."""
    if wrong in ("int_type", "float_type") and isinstance(found, str):
        with suppress(ValueError, OverflowError):
            number = int(float(found)) if wrong == "int_type" else float(found)
            return f"; YAML reads {found} as text: write {number!r} without quotes"
    return ""
