"""Check a study's configuration; each problem is reported with file, line, key, value found and values allowed.

The models in `sections` hold the rules. The workflow calls `check_config` before it builds anything; the step
`check-config` does the same by hand.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any, cast, get_args, get_origin

from pydantic import ValidationError

from rankbound.errors import ConfigError
from rankbound.texts import quantity
from rankbound_study.config.lines import ConfigLines, KeyPath, key_text, listed, named, nearest, shown
from rankbound_study.config.sections.base import Keys
from rankbound_study.config.sections.configuration import Configuration

BASE = "config.yaml"
"""The configuration that others change."""


def check_config(
    config: Mapping[str, Any],
    files: Sequence[Path] = (),
    flags: Sequence[str] = (),
    *,
    figures: Iterable[str] = (),
    tables: Iterable[str] = (),
) -> None:
    """Check a merged configuration.

    Args:
        config: the merged configuration.
        files: the files that it was read from, in the order of merging.
        flags: keys given on the command line instead (`snakemake --config seeds=[1,2]`).
        figures, tables: the names of all figures and tables; if there are none, they are not checked.

    Raises:
        ConfigError: one line per problem: file, line, key, value found, values allowed, nearest valid key.
    """
    lines = ConfigLines(files, flags)
    problems = list(lines.duplicates)
    advice: list[str] = []
    try:
        Configuration.model_validate(dict(config), context={"figures": list(figures), "tables": list(tables)})
    except ValidationError as error:
        explained = list(_explained(error, config))
        problems += [lines.locate(path) + text for path, text in explained]
        lacks_keys = any(len(path) == 1 and path[0] not in config for path, _ in explained)
        if lacks_keys and files and all(file.name != BASE for file in files):
            named_files = " ".join(map(str, files))
            advice = [f"a file that changes some keys is named after {BASE}, which has all: {BASE} {named_files}"]
    if problems:
        count = quantity(len(problems), "problem")
        raise ConfigError("\n  ".join([f"the configuration has {count}:", *problems, *advice]))


def config_files(workflow: Any) -> list[Path]:
    """Return the files that a Snakemake workflow's configuration was merged from; the last one takes precedence.

    Snakemake lists those of the command line first, although they take precedence; --replace-workflow-config uses only
    them.
    """
    command_line = [Path(file) for file in workflow.overwrite_configfiles or []]
    if command_line and workflow.config_settings.replace_workflow_config:
        return command_line
    own = [Path(file) for file in workflow.configfiles if Path(file) not in command_line]
    return [*own, *command_line]


def editor_schema() -> dict[str, Any]:
    """Return the JSON schema of configuration files for editors; every key is optional, because files are merged."""
    return cast(dict[str, Any], _without_required(Configuration.model_json_schema()))


def _without_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # A part of a model's options may fit several models.
    renamed = {"anyOf" if key == "oneOf" else key: part for key, part in schema.items()}
    dropped = ("required", "discriminator", "default")
    return {key: _without_required(part) for key, part in renamed.items() if key not in dropped}


_EXPECTED = {
    "model_type": "a section (key: value lines)",
    "model_attributes_type": "a section (key: value lines)",
    "dict_type": "a section (key: value lines)",
    "list_type": "a list, such as [1, 2]",
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


def _explained(error: ValidationError, config: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and the sentence of each error."""
    for details in error.errors(include_url=False):
        kind, where, found, context = details["type"], details["loc"], details["input"], details.get("ctx", {})
        path = _in_file(where, config)
        match kind:
            case "missing":
                section, path = _section_at(where[:-1]), (*path, where[-1])
                yield path, f"the key {named(path)} is missing ({section.model_fields[str(where[-1])].description})"
            case "extra_forbidden":
                keys = list(_section_at(where[:-1]).model_fields)
                owner = f"of {where[-2]}" if len(path) < len(where) else "here"  # of one of several models
                hint = f"{nearest(path[-1], keys)} (the keys {owner}: {listed(keys)})"
                yield path, f"unknown key {named(path)}{hint}"
            case _ if kind == "invalid_key" or where[-1:] == ("[key]",):
                path = (*_in_file(where[: -1 if kind == "invalid_key" else -2], config), key_text(found))
                wrong = details["msg"] if isinstance(found, str) else "is not text: write it in quotes"
                yield path, f"the key {path[-1]} of {named(path[:-1])} {wrong}"
            case "union_tag_not_found":
                yield path, f"the key {named((*path, 'name'))} is missing"
            case "union_tag_invalid":
                names = re.findall("'(.*?)'", context["expected_tags"])
                path, name = (*path, "name"), context["tag"]
                yield path, f"{named(path)} is {shown(name)}: expected one of {listed(names)}{nearest(name, names)}"
            case "problem":
                yield path, f"{named(path)} {details['msg']}"
            case _:
                expected = _EXPECTED[kind].format(**context) if kind in _EXPECTED else details["msg"]
                yield path, f"{named(path)} is {shown(found)}: expected {expected}{_hint(kind, found)}"


def _in_file(where: KeyPath, config: Any) -> KeyPath:
    """Return the place of an error without what is no key of the file."""
    path: KeyPath = ()
    for key in where:
        # pydantic names the member of a union, too, and calls a section's name that is wrong "[key]".
        with suppress(LookupError, TypeError):
            path, config = (*path, key), config[key]
    return path


def _section_at(where: KeyPath) -> type[Keys]:
    """Return the model of the section at the place of an error."""
    kind: Any = Configuration
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


def _hint(kind: str, found: Any) -> str:
    """Return a hint for a common YAML mistake: 1e-3 without a dot is text."""
    if kind in ("int_type", "float_type") and isinstance(found, str):
        with suppress(ValueError, OverflowError):
            number = int(float(found)) if kind == "int_type" else float(found)
            return f"; YAML reads {found} as text: write {number!r} without quotes"
    return ""
