"""Read a study's configuration; each problem is reported with file, line, key, value found and values allowed.

The models in `sections` hold the rules. The workflow calls `check_config` before it builds anything; the step
`check-config` does the same by hand.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from rankbound.errors import ConfigError
from rankbound.texts import quantity
from rankbound_study.config.sections.base import KeyPath, explained, key_text
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
        problems += [lines.locate(path) + text for path, text in found]
        lacks_keys = any(len(path) == 1 and path[0] not in config for path, _ in found)
        if lacks_keys and files and all(file.name != BASE for file in files):
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
        ConfigError: a file is missing, is not YAML, holds code, or holds no keys.
    """
    import yaml  # type: ignore[import-untyped]

    config: dict[str, Any] = {}
    for file in files:
        root = _compose(file)
        try:
            content = None if root is None else yaml.SafeLoader("").construct_document(root)
        except (yaml.YAMLError, TypeError) as error:
            raise ConfigError(f"{file} is not valid YAML: {error}") from error
        if not isinstance(content, dict):
            raise ConfigError(f"{file} holds no keys: expected lines such as `study: thesis`")
        _merge(config, content)
    return config


class ConfigLines:
    """The keys of YAML files with their lines; a later file overrides an earlier one, as in merging.

    Args:
        files: in the order of merging.
        flags: keys given on the command line instead.

    Attributes:
        duplicates: messages about keys that occur twice in one section of a file; YAML silently takes the last.

    Raises:
        ConfigError: a file is missing, is not YAML, or holds code.
    """

    def __init__(self, files: Sequence[Path], flags: Sequence[str] = ()) -> None:
        self._places: dict[KeyPath, str] = {}
        self._flags = set(flags)
        self.duplicates: list[str] = []
        for file in files:
            root = _compose(file)
            for path, line in [] if root is None else self._walk(root, (), file):
                self._places[path] = f"{file}, line {line}"

    def locate(self, path: KeyPath) -> str:
        """Return the place of a key, or of the nearest section around it, as "config.yaml, line 3: "."""
        if path and path[0] in self._flags:
            return "--config on the command line: "
        places = (self._places.get(path[:length]) for length in range(len(path), 0, -1))
        return next((f"{place}: " for place in places if place), "")

    def _walk(self, node: Any, path: KeyPath, file: Path) -> Iterator[tuple[KeyPath, int]]:
        # Installed with snakemake, not with the library: imported only where it is used.
        import yaml

        if node.id == "mapping":
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key.value, str):
                    continue
                # As messages show it; as written if YAML does not read it (`<<` alone).
                name = str(key.value)
                with suppress(yaml.YAMLError):
                    name = key_text(yaml.SafeLoader("").construct_object(key))
                if name in seen:
                    first = f"first in line {seen[name]}"
                    self.duplicates.append(f"{file}, line {line}: the key {name!r} occurs twice ({first})")
                seen[name] = line
                yield (*path, name), line
                yield from self._walk(value, (*path, name), file)
        elif node.id == "sequence":
            for position, value in enumerate(node.value):
                yield (*path, position), value.start_mark.line + 1
                yield from self._walk(value, (*path, position), file)


def refuse_code(file: Path) -> None:
    """Check that a configuration file, if it exists, can be read without running code.

    Raises:
        ConfigError: it is not YAML, or holds code.
    """
    if file.exists():
        _compose(file)


def _compose(file: Path) -> Any:
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError(f"the configuration file {file} does not exist") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error}") from error
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _count(root, file, {})
        loader = yaml.SafeLoader("")
        for node in _scalars(root):
            place = f"{file}, line {node.start_mark.line + 1}"
            # At any depth: `<<` merges a section into the one around it.
            if node.value in CODE:
                raise ConfigError(
                    f"{place}: the key {node.value} is for Python code, which Snakemake runs when it reads the file; a "
                    "configuration may hold values only: read the file, and remove the code before you start snakemake "
                    "with it"
                )
            # YAML's errors, such as those of `<<` alone, are those of the whole (`merged`).
            with suppress(yaml.YAMLError):
                try:
                    loader.construct_object(node)
                except (ValueError, TypeError, OverflowError) as error:
                    # Impossible dates, numbers of thousands of digits: YAML's reader does not report their line.
                    raise ConfigError(f"{place}: a value that YAML cannot read: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply for a configuration") from error
    return root


def _count(node: Any, file: Path, counts: dict[int, int]) -> int:
    """Count a node's values, those of aliases at each use: nine lines of aliases can make billions."""
    if node is None or node.id == "scalar":
        return 1
    where = f"{file}, line {node.start_mark.line + 1}"
    if id(node) not in counts:
        counts[id(node)] = 0
        counts[id(node)] = count = 1 + sum(_count(part, file, counts) for part in _parts(node))
        if count > LARGEST_CONFIG:
            raise ConfigError(f"{where}: {count} values, counting repeated aliases; expected at most {LARGEST_CONFIG}")
    elif not counts[id(node)]:
        raise ConfigError(f"{where}: a value contains itself through an alias")
    return counts[id(node)]


def _scalars(node: Any) -> Iterator[Any]:
    """Yield the keys and values of a counted node that are no sections or lists, in the order of the file."""
    if node is not None and node.id == "scalar":
        yield node
    elif node is not None:
        for part in _parts(node):
            yield from _scalars(part)


def _parts(node: Any) -> list[Any]:
    """Return the keys and values of a section, or the values of a list."""
    return [part for pair in node.value for part in pair] if node.id == "mapping" else node.value


def _merge(config: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        if isinstance(value, dict) and isinstance(config.get(key), dict):
            _merge(config[key], value)
        else:
            config[key] = value
