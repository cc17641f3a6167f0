"""Read a study's configuration; each problem is reported with file, line, key, value found and values allowed.

The models in `sections` hold the rules. The workflow calls `check_config` before it builds anything; the step
`check-config` does the same by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from rankbound.errors import ConfigError
from rankbound.texts import quantity
from rankbound_study.config.lines import ConfigLines, merged
from rankbound_study.config.messages import explained
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
    return cast(dict[str, Any], _without_required(Configuration.model_json_schema()))


def _without_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if key not in ("required", "discriminator", "default")}
    # A part of a model's options may fit several models.
    return {"anyOf" if key == "oneOf" else key: _without_required(part) for key, part in kept.items()}
