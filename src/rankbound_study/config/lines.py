"""Where the keys of configuration files stand, and texts for messages about them."""

import difflib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankbound.errors import ConfigError

KeyPath = tuple[str | int, ...]

LARGEST_CONFIG = 100_000
"""Maximal number of values in a configuration; the default one has some hundred."""

CODE = ("__use_yte__", "__definitions__", "__variables__")
"""Keys for Python code in a configuration (YTE), which Snakemake runs when it reads the file, before the Snakefile."""


def merged(files: Sequence[Path]) -> dict[str, Any]:
    """Read YAML files and merge them as the workflow does: key by key; a later file takes precedence.

    Raises:
        ConfigError: a file is missing, is not YAML, holds code, or holds no keys.
    """
    config: dict[str, Any] = {}
    for file in files:
        root = _compose(file)
        content = None if root is None else _construct(file, root)
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
        if node.id == "mapping":
            seen: dict[str, int] = {}
            for key, value in node.value:
                line = key.start_mark.line + 1
                if not isinstance(key.value, str):
                    continue
                name = _name(key)
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


def key_text(key: object) -> str:
    """Return a key as YAML writes it, even if it is not text."""
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)


def _name(key: Any) -> str:
    """Return a key as messages show it, as written if YAML does not read it as text (`~`, `0x10`)."""
    # Installed with snakemake, not with the library: imported only here.
    import yaml  # type: ignore[import-untyped]

    try:
        return key_text(yaml.SafeLoader("").construct_object(key))
    except (yaml.YAMLError, ValueError, TypeError, OverflowError):
        return str(key.value)


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
        for node in _scalars(root):
            # At any depth: `<<` merges a section into the one around it.
            if node.value in CODE:
                raise ConfigError(
                    f"{file}, line {node.start_mark.line + 1}: the key {node.value} is for Python code, which "
                    "Snakemake runs when it reads the file; a configuration may hold values only: read the file, and "
                    "remove the code before you start snakemake with it"
                )
    except yaml.YAMLError as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is nested too deeply for a configuration") from error
    return root


def _construct(file: Path, root: Any) -> Any:
    import yaml

    loader = yaml.SafeLoader("")
    for node in _scalars(root):
        # YAML's errors, such as those of `<<` alone, are those of the whole below.
        with suppress(yaml.YAMLError):
            try:
                loader.construct_object(node)
            except (ValueError, TypeError, OverflowError) as error:
                # Impossible dates, numbers of thousands of digits: YAML's reader does not report their line.
                place = f"{file}, line {node.start_mark.line + 1}"
                raise ConfigError(f"{place}: a value that YAML cannot read: {error}") from error
    try:
        return yaml.SafeLoader("").construct_document(root)
    except (yaml.YAMLError, TypeError) as error:
        raise ConfigError(f"{file} is not valid YAML: {error}") from error


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
