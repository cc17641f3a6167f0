"""Read a study's configuration; each problem is reported with file, line, key, value found and values allowed.

The models in `sections` hold the rules. The workflow calls `check_config` before it builds anything; the step
`check-config` does the same by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml  # type: ignore[import-untyped]
from pydantic import ValidationError

from rankbound.errors import ConfigError
from rankbound.texts import quantity
from rankbound_study.config.sections.base import KeyPath, explained, key_text, named
from rankbound_study.config.sections.configuration import Configuration

LARGEST_CONFIG = 100_000
"""Maximal number of values in a configuration; the default one has some hundred."""

CODE = ("__use_yte__", "__definitions__", "__variables__")
"""Keys for Python code in a configuration (YTE), which Snakemake runs when it reads the file, before the Snakefile."""

BASE = "config.yaml"
"""The configuration that others change."""


def check_config(
    config: Mapping[str, Any],
    files: Sequence[Path] = (),
    flags: Sequence[str] = (),
    *,
    figures: Iterable[str] = (),
    tables: Iterable[str] = (),
) -> Configuration:
    """Return the configuration that a mapping states.

    Args:
        config: the merged configuration.
        files: the files that it was read from, in the order of merging.
        flags: keys given on the command line instead (`snakemake --config seeds=[1,2]`).
        figures, tables: the names of all figures and tables; if there are none, they are not checked.

    Raises:
        ConfigError: one line per problem: file, line, key, value found, values allowed, nearest valid key.
    """
    lines = ConfigLines(files, flags)
    problems, advice = list(lines.duplicates), []
    try:
        checked = Configuration.model_validate(config, context={"figures": list(figures), "tables": list(tables)})
    except ValidationError as error:
        found = list(explained(error, config, Configuration))
        problems += [f"{lines.locate(path)}{named(path)} {text}" for path, text in found]
        if any(not path for path, _ in found) and files and all(file.name != BASE for file in files):
            named_files = " ".join(map(str, files))
            advice = [f"a file that changes some keys is named after {BASE}, which has all: {BASE} {named_files}"]
    if problems:
        count = quantity(len(problems), "problem")
        raise ConfigError("\n  ".join([f"the configuration has {count}:", *problems, *advice]))
    return checked


def config_sources(workflow: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a Snakemake workflow's configuration is from, as arguments of `check_config`: `files` and `flags`.

    Snakemake lists the files of the command line first, although they take precedence; with --replace-workflow-config,
    it uses them alone. A key with another value than the files give it is one of --config.
    """
    command_line = [Path(file) for file in workflow.overwrite_configfiles or []]
    own = [Path(file) for file in workflow.configfiles if Path(file) not in command_line]

    def sources(files: Sequence[Path]) -> dict[str, Any]:
        given = merged(files)
        flags = [key for key in {**given, **config} if key not in given or config.get(key) != given[key]]
        return {"files": files, "flags": flags}

    return min(map(sources, ([*own, *command_line], command_line)), key=lambda found: len(found["flags"]))


def editor_schema() -> dict[str, Any]:
    """Return the JSON schema of configuration files for editors; every key is optional, because files are merged."""

    def optional(schema: Any) -> Any:
        if isinstance(schema, list):
            return [optional(part) for part in schema]
        if not isinstance(schema, dict):
            return schema
        kept = {key: part for key, part in schema.items() if key not in ("required", "discriminator", "default")}
        # A part of a model's options may fit several models.
        return {"anyOf" if key == "oneOf" else key: optional(part) for key, part in kept.items()}

    return cast(dict[str, Any], optional(Configuration.model_json_schema()))


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """Read YAML files and merge them as the workflow does: key by key; a later file takes precedence.

    Raises:
        ConfigError: as `ConfigLines`.
    """
    return ConfigLines(files).content


def refuse_code(file: Path) -> None:
    """Check that a configuration file, if it exists, can be read without running code; raise ConfigError if not."""
    if file.exists():
        merged([file])


class ConfigLines:
    """The keys of YAML files with their lines; a later file overrides an earlier one, as in merging.

    Args:
        files: in the order of merging.
        flags: keys given on the command line instead.

    Attributes:
        content: the merged files.
        duplicates: messages about keys that occur twice in one section of a file; YAML silently takes the last.

    Raises:
        ConfigError: a file is missing, is not YAML, holds code, or holds no keys.
    """

    def __init__(self, files: Sequence[Path], flags: Sequence[str] = ()) -> None:
        self.content: dict[str, Any] = {}
        self.duplicates: list[str] = []
        self._places: dict[KeyPath, str] = {}
        self._flags = set(flags)
        self._visited = 0
        for file in files:
            content = self._read(file)
            if not isinstance(content, dict):
                raise ConfigError(f"{file} holds no keys: expected lines such as `study: thesis`")
            merge(self.content, content)

    def locate(self, path: KeyPath) -> str:
        """Return the place of a key, or of the nearest section around it, as "config.yaml, line 3: "."""
        if path and path[0] in self._flags:
            return "--config on the command line: "
        places = (self._places.get(path[:length]) for length in range(len(path), 0, -1))
        return next((f"{place}: " for place in places if place), "")

    def _read(self, file: Path) -> Any:
        try:
            root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
            if root is None:
                return None
            self._visited = 0
            self._visit(root, (), file)
            return yaml.SafeLoader("").construct_document(root)
        except FileNotFoundError as error:
            raise ConfigError(f"the configuration file {file} does not exist") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the configuration file {file} cannot be read: {error}") from error
        except (yaml.YAMLError, TypeError) as error:
            raise ConfigError(f"{file} is not valid YAML: {error}") from error
        except RecursionError as error:
            text = f"{file} is nested too deeply for a configuration, or contains itself through an alias"
            raise ConfigError(text) from error

    def _visit(self, node: Any, path: KeyPath, file: Path) -> None:
        """Note the lines of the keys and values in a node, and refuse those that should not be constructed."""
        self._visited += 1
        if self._visited > LARGEST_CONFIG:
            # Those of aliases count at each use: nine lines of aliases can make billions.
            counted = f"{self._visited} values, counting repeated aliases; expected at most {LARGEST_CONFIG}"
            raise ConfigError(f"{_place(node, file)}: {counted}")
        if node.id == "scalar":
            _value_of(node, file)
        elif node.id == "sequence":
            for position, value in enumerate(node.value):
                self._places[*path, position] = _place(value, file)
                self._visit(value, (*path, position), file)
        else:
            seen: dict[str, int] = {}
            for key, value in node.value:
                name, place = key_text(_value_of(key, file)), _place(key, file)
                if name in seen:
                    self.duplicates.append(f"{place}: the key {name!r} occurs twice (first in line {seen[name]})")
                seen[name] = key.start_mark.line + 1
                self._places[*path, name] = place
                self._visit(value, (*path, name), file)


def _place(node: Any, file: Path) -> str:
    return f"{file}, line {node.start_mark.line + 1}"


def _value_of(node: Any, file: Path) -> Any:
    """Return a key, or a value that is no section or list, as YAML reads it."""
    # At any depth: `<<` merges a section into the one around it.
    if node.value in CODE:
        raise ConfigError(
            f"{_place(node, file)}: the key {node.value} is for Python code, which Snakemake runs when it reads the "
            "file; a configuration may hold values only: read the file, and remove the code before you start snakemake "
            "with it"
        )
    try:
        return yaml.SafeLoader("").construct_object(node)
    except yaml.YAMLError:
        return node.value  # such as `<<` alone: the error is that of the whole file
    except (ValueError, TypeError, OverflowError) as error:
        # Impossible dates, numbers of thousands of digits: YAML's reader does not report their line.
        raise ConfigError(f"{_place(node, file)}: a value that YAML cannot read: {error}") from error


def merge(config: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge a configuration into another one, key by key."""
    for key, value in update.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            merge(config[key], value)
        else:
            config[key] = value
