"""Generate dvc.yaml: stages whose outputs are those of Snakemake's rules.

DVC needs every output by name, and fails if one is missing. The configuration determines which tables and data exist,
so the file is generated: Snakemake lists the files, this module assigns each to a stage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from rankbound.errors import ConfigError, DataError
from rankbound.io.atomic import atomic_path
from rankbound_study.workflow.programs import SNAKEMAKE, run_program

FILE = "dvc.yaml"
LICENSED = "licensed"
"""The remote of files with rows of licensed data, or pictures."""
PICTURES = "pictures"
"""The stage of outputs that show a data set's pictures: some figures, and the document with them."""

CHECK = "python -m rankbound_study dvc-stages --check"
WRITE = "python -m rankbound_study dvc-stages"

_HEADER = f"""\
# Written by `{WRITE}` from config.yaml: run it again when the configuration requests other data or tables.
#
# Versions of the workflow's outputs. Each stage calls snakemake, which decides what to run; every output persists,
# because a stage that deleted its outputs first would make snakemake run everything again. Files with licensed rows or
# pictures go to a separate remote; tables and metrics are small enough for git (cache: false): docs/dvc.md.
"""
# `profiles/default` may name another configuration.
_CODE = ["Snakefile", "config.yaml", "profiles/default", "src/rankbound", "src/rankbound_study", "workflow"]
# Data folders that trainings and figures read besides the instances, if they exist.
_FEATURES = ("lists", "images", "features")


def write_stages(folder: Path) -> Path:
    """Write dvc.yaml into the workflow's root, and return its path."""
    target = folder / FILE
    text = stages_text(outputs_of_workflow(folder), folders_of(folder))
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return target


def misfits(folder: Path) -> list[str]:
    """Return what is wrong with the outputs or dependencies in dvc.yaml, one line each; [] if nothing is.

    Its other settings (remotes, plots, commands) belong to the user.
    """
    expected = yaml.safe_load(stages_text(outputs_of_workflow(folder), folders_of(folder)))
    outputs, read = _outputs(expected), _dependencies(expected)
    try:
        content = yaml.safe_load((folder / FILE).read_text(encoding="utf-8"))
        named, depends = _outputs(content), _dependencies(content)
    except FileNotFoundError:
        return [f"there is no {FILE}"]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{folder / FILE} is not a list of DVC stages ({error}); write it anew: {WRITE}") from error
    moved = [path for path in outputs if named.get(path, outputs[path]) != outputs[path]]
    return [
        *(f"{path} is made, but no stage names it" for path in outputs if path not in named),
        *(f"{path} is in the stage {named[path]}, but is not made" for path in named if path not in outputs),
        *(f"{path} is in the stage {named[path]} instead of {outputs[path]}" for path in moved),
        *(f"the stage {stage} does not depend on {path}" for stage, path in sorted(read - depends)),
    ]


def outputs_of_workflow(folder: Path) -> dict[str, bool]:
    """Return every file that the target `all` requires, and whether Snakemake has a record of it as current."""
    table = run_program([*SNAKEMAKE, "--summary", "--", "all"], folder)
    rows = [line.split("\t") for line in table.splitlines() if "\t" in line]
    columns = dict(zip(rows[0], range(len(rows[0])), strict=True))
    # A file without a record has no log either.
    return {
        row[columns["output_file"]]: row[columns["plan"]] == "no update" and row[columns["log-file(s)"]] != "-"
        for row in sorted(rows[1:])
    }


def pictures_of(folder: Path) -> list[str]:
    """Return the outputs in dvc.yaml that show pictures of a data set."""
    stages = yaml.safe_load((folder / FILE).read_text(encoding="utf-8"))["stages"]
    return list(_paths(stages.get(PICTURES, {})))


def folders_of(folder: Path) -> dict[str, str]:
    """Return the folders of data and results that config.yaml names."""
    try:
        config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        return {name: Path(config["pathvars"][name]).as_posix() for name in ("data", "results")}
    except (OSError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{folder / 'config.yaml'} names no folders under pathvars: {error!r}") from error


def stages_text(outputs: Iterable[str], folders: Mapping[str, str]) -> str:
    """Return the text of dvc.yaml for these files, each under one of the `data` and `results` folders."""
    outputs = list(outputs)
    pictured = any(shows_pictures(Path(path)) for path in outputs)
    outs: dict[str, dict[str, dict[str, Any]]] = {"data": {}, "tables": {}, "runs": {}, "paper": {}, PICTURES: {}}
    for path in outputs:
        stage, out, settings = _place(path, folders, pictured=pictured)
        outs[stage][out] = {"persist": True, **settings}
    data, results = folders["data"], folders["results"]
    instances = [f"{data}/instances"]
    read = [path for name in _FEATURES if (path := f"{data}/{name}") in outs["data"]]
    stages = {
        "data": _stage("raw archives to the instances that training reads", "data", [], outs["data"]),
        "tables": _stage("score distributions over random orders", "tables", instances, outs["tables"]),
        "runs": _stage("all trainings, and the controls", "runs", [*instances, *read, *outs["tables"]], outs["runs"]),
        "paper": _stage("tables, figures and the document", "all", [*outs["runs"], *read], outs["paper"]),
        PICTURES: _stage(
            "figures with licensed pictures, and the document", "all", [*outs["runs"], *read], outs[PICTURES]
        ),
    }
    # Other outputs need another dvc.yaml; the check reports this at once, not after an hour of training. Features of
    # pictures are not part of the target `data`, but have the licence of the pictures.
    features = [path for path in outputs if path.startswith(f"{data}/features/")]
    stages["data"]["cmd"] = [CHECK, f"snakemake {' '.join(['data', *features])} --cores all"]
    metrics = outs["paper"].get(f"{results}/metrics.json")
    if metrics is not None:
        stages["paper"]["outs"].remove({f"{results}/metrics.json": metrics})
        stages["paper"]["metrics"] = [{f"{results}/metrics.json": metrics}]
    blocks = [_indented({name: stage}) for name, stage in stages.items() if outs[name]]
    rest = {"params": ["config.yaml"]} | _plots(results, outs["paper"])
    return _HEADER + "stages:\n" + "\n".join(blocks) + "\n" + _dumped(rest)


def shows_pictures(path: Path) -> bool:
    """Return whether a file is a figure with pictures of a data set."""
    from rankbound_study.figures import figure_specs

    spec = figure_specs().get(path.stem) if path.parent.name == "figures" else None
    return spec is not None and spec.shows_pictures


def _place(path: str, folders: Mapping[str, str], *, pictured: bool) -> tuple[str, str, dict[str, Any]]:
    """Return the stage of a file, its out (the file itself or a folder), and the out's settings.

    Outs cannot be nested, so if some figures are `pictured`, each is a separate out.
    """
    data, results = Path(folders["data"]), Path(folders["results"])
    file = Path(path)
    if file.is_relative_to(data) and len(file.relative_to(data).parts) > 1:
        return "data", (data / file.relative_to(data).parts[0]).as_posix(), {"remote": LICENSED}
    if not file.is_relative_to(results):
        raise DataError(f"the workflow makes {path}, which is in a folder of neither {data} nor {results}")
    match file.relative_to(results).parts:
        case ("tables", "distributions", *_):
            return "tables", f"{results.as_posix()}/tables/distributions", {}
        case ("runs", *_):
            return "runs", f"{results.as_posix()}/runs", {}
        case (name,) if name.endswith(".parquet"):
            return "runs", path, {}
        case ("figures", *_) if pictured:
            return (PICTURES, path, {"remote": LICENSED}) if shows_pictures(file) else ("paper", path, {})
        case ("paper", *_) if pictured:
            return PICTURES, f"{results.as_posix()}/paper", {"remote": LICENSED}
        case ("figures" | "paper" as name, *_):
            return "paper", f"{results.as_posix()}/{name}", {}
        case ("tables", *_) | ("metrics.json",):
            return "paper", path, {"cache": False}
    return "paper", path, {}


def _stage(meaning: str, target: str, inputs: Sequence[str], outs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "desc": meaning,
        "cmd": f"snakemake {target} --cores all",
        "deps": [*_CODE, *inputs],
        "outs": [{path: settings} for path, settings in outs.items()],
    }


def _plots(results: str, outs: Mapping[str, Any]) -> dict[str, Any]:
    table = f"{results}/tables/table_5_1.csv"
    if table not in outs:
        return {}
    axes = {"template": "scatter", "x": {table: "published"}, "y": {table: "ours"}}
    return {"plots": [{"printed against ours": {"title": "Table 5.1, printed against ours", **axes}}]}


def _outputs(content: Mapping[str, Any]) -> dict[str, str]:
    """Return the stage of every output in the content of dvc.yaml."""
    return {path: name for name, stage in content["stages"].items() for path in _paths(stage)}


def _dependencies(content: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return every stage's name with each of its dependencies."""
    return {(name, path) for name, stage in content["stages"].items() for path in stage["deps"]}


def _paths(stage: Mapping[str, Any]) -> Iterator[str]:
    for section in ("outs", "metrics", "plots"):
        for out in stage.get(section, []):
            yield from [out] if isinstance(out, str) else out


def _indented(content: Mapping[str, Any]) -> str:
    return "".join(f"  {line}" for line in _dumped(content).splitlines(keepends=True))


def _dumped(content: Mapping[str, Any]) -> str:
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000)
    return text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Indents lists below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)
