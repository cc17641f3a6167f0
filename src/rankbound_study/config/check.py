"""Check a study's configuration; each problem is reported with key, line, value found and values allowed.

The schema (workflow/schemas/config.schema.json) holds the rules for single keys, `_cross_checks` those between keys.
The workflow calls `check_config` before it builds anything; the step `check-config` does the same by hand.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError
from rankbound_study.config.comparison_checks import check_comparisons
from rankbound_study.config.data_sets import GRADED, KINDS, SYNTHETIC
from rankbound_study.config.experiment_checks import check_experiments
from rankbound_study.config.lines import ConfigLines, KeyPath, key_text
from rankbound_study.config.words import listed, named, nearest


def check_config(
    config: Mapping[str, Any],
    schema: Path,
    files: Sequence[Path] = (),
    flags: Sequence[str] = (),
    figures: Iterable[str] = (),
) -> None:
    """Check a merged configuration.

    Args:
        config: the merged configuration.
        schema: the JSON schema file.
        files: the files that it was read from, in the order of merging.
        flags: keys given on the command line instead (`snakemake --config seeds=[1,2]`).
        figures: the names of all figures; if there are none, names of figures are not checked.

    Raises:
        ConfigError: one line per problem: file, line, key, value found, values allowed, nearest valid key.
    """
    lines = ConfigLines(files, flags)
    problems = [f"{lines.locate(path)}{message}" for path, message in _problems(config, schema, list(figures))]
    problems = [*lines.duplicates, *problems]
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ConfigError("\n  ".join([f"the configuration has {count}:", *problems]))


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


def load_schema(path: Path) -> dict[str, Any]:
    """Read the JSON schema; raise ConfigError with its expected path if it is missing."""
    try:
        schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(f"the schema {path} is missing: run this in the workflow's root, or give its path") from error
    return schema


def _problems(config: Mapping[str, Any], schema: Path, figures: list[str]) -> Iterator[tuple[KeyPath, str]]:
    # Installed with snakemake, not with the library: imported only here.
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

    # Values that JSON cannot hold come first: neither the schema nor the later checks can handle them.
    unsupported = list(_unsupported_values(config, ()))
    if unsupported:
        yield from unsupported
        return
    rules = load_schema(schema)
    if figures:
        rules["properties"]["figures"]["items"] = {"enum": figures}
    errors = list(Draft202012Validator(rules).iter_errors(config))
    for error in sorted(errors, key=lambda error: [str(step) for step in error.absolute_path]):
        yield from _explain(error)
    if not errors:
        # Rules between keys need valid keys; otherwise one mistake would be reported twice.
        yield from _cross_checks(config)


def _unsupported_values(value: Any, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield keys that are not text, numbers that are not finite, and YAML's dates, bytes and sets."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            if isinstance(key, str):
                yield from _unsupported_values(part, (*path, key))
            else:
                text = key_text(key)
                yield (*path, text), f"the key {text} of {named(path)} is not text: write it in quotes"
    elif isinstance(value, list):
        for position, part in enumerate(value):
            yield from _unsupported_values(part, (*path, position))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, f"{named(path)} is {value}: expected a finite number"
    elif not isinstance(value, str | int | float | None):
        yield path, f"{named(path)} is {value!r}, a {type(value).__name__}: expected text or a number"


def _explain(error: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield one JSON-schema error as readable sentences."""
    path: KeyPath = tuple(error.absolute_path)
    found = _shown(error.instance)
    match error.validator:
        case "additionalProperties":
            allowed = list(error.schema["properties"])
            for key in [key for key in error.instance if key not in allowed]:
                name = named((*path, key))
                yield (*path, key), f"unknown key {name}{nearest(key, allowed)} (the keys here: {listed(allowed)})"
        case "required":
            for key in [key for key in error.validator_value if key not in error.instance]:
                yield path, f"the key {named((*path, key))} is missing{_described(error.schema, key)}"
            # jsonschema reports one error per missing key, each with the whole list; the caller removes the duplicates.
        case "enum":
            allowed = [str(value) for value in error.validator_value]
            yield (
                path,
                f"{named(path)} is {found}: expected one of {listed(allowed)}{nearest(error.instance, allowed)}",
            )
        case "anyOf" if "enum" in error.validator_value[0]:
            allowed = error.validator_value[0]["enum"]
            yield (
                path,
                f"{named(path)} is {found}: expected one of {listed(allowed)}, or distribution with parameters, "
                f"such as distribution(tilt=2) or distribution(gain=sd,tilt=4){nearest(error.instance, allowed)}",
            )
        case "pattern" | "propertyNames":
            yield (
                path,
                f"{named(path)} is {found}: expected {_name_like(str(error.validator_value))}",
            )
        case "type":
            kind = error.validator_value if isinstance(error.validator_value, str) else error.validator_value[0]
            yield path, f"{named(path)} is {found}: expected {_KINDS[kind]}{_hint(error)}"
        case "uniqueItems":
            yield path, f"{named(path)} is {found}: a value occurs twice"
        case "minItems":
            yield path, f"{named(path)} is an empty list: expected at least one value"
        case "minLength":
            yield path, f"{named(path)} is empty: expected a text"
        case validator if validator in _LIMITS:
            yield path, f"{named(path)} is {found}: expected {_LIMITS[validator]} {error.validator_value}"
        case _:
            yield path, f"{named(path)}: {error.message}"


def _name_like(pattern: str) -> str:
    if pattern == f"^{GRADED}$":
        return f"the smallest relevant label, or {GRADED}"
    if pattern.startswith("^[A-Z]"):
        return "a name of letters, digits and hyphens that starts with a capital, such as Rank-LR"
    return "a name of small letters, digits and hyphens, such as movielens"


_KINDS = {
    "object": "a section (key: value lines)",
    "array": "a list, such as [1, 2]",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
}


def _cross_checks(config: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Yield problems between keys, such as a data set that is named but not defined or not trained."""
    sections = {name: config.get(name) or {} for name in KINDS}
    defined = [name for section in sections.values() for name in section]
    for position, name in enumerate(config["datasets"]):
        if name not in defined:
            yield (
                ("datasets", position),
                f"datasets names {name!r}, which neither interactions nor lists defines{nearest(name, defined)}",
            )
        elif name in sections["images"]:
            yield (
                ("datasets", position),
                f"datasets names {name!r}, which has pictures: name it in a comparison instead",
            )
        elif name not in config["training"]:
            trained = listed(list(config["training"])) or "none"
            yield ("training",), f"training has no entry for the data set {name!r} (it has {trained})"
        else:
            yield from _for_all_protocols(("training", name, "learning_rate"), "rate", config)
    yield from _for_all_protocols(("seeds",), "list", config)
    for section, entries in sections.items():
        for name, entry in entries.items():
            yield from _raw_or_generated((section, name), entry)
    for first, second in combinations(KINDS, 2):
        for name in set(sections[first]) & set(sections[second]):
            yield (second, name), f"{second}.{name} is also defined under {first}: give one of them another name"
    yield from _models_that_fit(config, sections)
    yield from _boundings_that_fit(config, sections)
    yield from check_comparisons(config)
    yield from check_experiments(config)


def _for_all_protocols(path: KeyPath, what: str, config: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    """Check that a section with an entry per protocol has one for every protocol that runs."""
    section: Any = config
    for key in path:
        section = section[key]
    for protocol in config["protocols"]:
        if protocol not in section:
            yield path, f"{named(path)} has no {what} for the protocol {protocol} (it has {listed(list(section))})"


def _raw_or_generated(path: KeyPath, entry: Mapping[str, Any]) -> Iterator[tuple[KeyPath, str]]:
    generated = str(path[-1]).startswith(SYNTHETIC)
    if generated and "archive" in entry:
        yield (*path, "archive"), f"{named(path)} is generated (its name starts with {SYNTHETIC}): remove the archive"
    if generated and "seed" not in entry:
        yield path, f"{named(path)} is generated: give it a seed"
    if not generated and "archive" not in entry:
        yield path, f"{named(path)} needs an archive: the raw file's name (generated data have names in {SYNTHETIC}*)"
    if not generated and "size" in entry:
        yield (*path, "size"), f"{named((*path, 'size'))} is for generated data, whose names start with {SYNTHETIC}"


def _models_that_fit(
    config: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[KeyPath, str]]:
    for name in config["datasets"]:
        model = config["training"].get(name, {}).get("model", {}).get("name")
        path: KeyPath = ("training", name, "model", "name")
        if name in sections["lists"] and model == "matrix-factorization":
            yield path, f"{named(path)} is {model}: it learns items that recur between topics; judged lists need mlp"
        if name in sections["interactions"] and model == "mlp":
            yield path, f"{named(path)} is {model}: it reads features, and ratings have none; use matrix-factorization"


def _boundings_that_fit(
    config: Mapping[str, Any], sections: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[KeyPath, str]]:
    """Check that no bounding with score distributions meets graded lists: its tables are by (N, P)."""
    bounds = [bound for bound in config["bounds"] if bound.startswith("distribution")]
    for name in config["datasets"]:
        readings = sections["lists"].get(name, {}).get("thresholds", [])
        if bounds and GRADED in readings:
            path: KeyPath = ("lists", name, "thresholds", readings.index(GRADED))
            yield (
                path,
                f"{named(path)} is {GRADED}, but bounds has {bounds[0]}, whose tables need binary relevance: remove "
                f"one of them, or name {name}-{GRADED} in a comparison instead of {name} in datasets",
            )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _described(schema: Mapping[str, Any], key: str) -> str:
    description = schema.get("properties", {}).get(key, {})
    text = description.get("description", "") if isinstance(description, Mapping) else ""
    return f" ({text})" if text else ""


def _hint(error: Any) -> str:
    """Return a hint for a common YAML mistake: 1e-3 without a dot is text."""
    if error.validator_value in ("number", "integer") and isinstance(error.instance, str):
        try:
            number = float(error.instance)
        except ValueError:
            return ""
        return f"; YAML reads {error.instance} as text: write {number!r} without quotes"
    return ""
