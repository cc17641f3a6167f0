"""The package files that a subcommand reads: its module and whatever that imports, anywhere, inside functions too.

They are inputs of the workflow's rules, so that changing a line reruns exactly the steps that execute it. The graph is
read from the source without importing anything: it is the same on a machine without torch, and takes milliseconds.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from rankbound.errors import ConfigError

PACKAGE = "rankbound"
ROOT = Path(__file__).resolve().parents[1]
REFERENCE = "reference"

IGNORED = {
    "cli.py",
    "_version.py",
    "commands/__init__.py",
    *(f"provenance/{name}.py" for name in ("__init__", "checksums", "facts", "recorder", "records")),
}
"""Loaded by every subcommand, without a say in its output: a new version number must not rerun a study."""


def code_inputs(subcommand: str, modules: Sequence[str] = ()) -> list[str]:
    """The files behind `rankbound SUBCOMMAND`, sorted; relative to the working folder if the package lies inside it.

    Args:
        subcommand: its name on the command line ("check-config").
        modules: further modules that it imports by a name computed at run time ("rankbound_study.figures.gains").

    Printed reference tables (`reference/*.csv`) belong to it if a module names them in a string.

    Raises:
        ConfigError: there is no such subcommand or module.
    """
    names = [f"{PACKAGE}.commands.{subcommand.replace('-', '_')}", *modules]
    for name in names:
        if _file_of(name) is None:
            raise ConfigError(f"{name} is no module of the package at {ROOT}")
    return [_from_working_folder(ROOT / name) for name in files_behind(names)]


def modules_of(package: str) -> list[str]:
    """The names of a package's modules, for what it imports by names that it finds at run time."""
    folder = ROOT.joinpath(*package.split(".")[1:])
    return sorted(f"{package}.{file.stem}" for file in folder.glob("*.py") if file.stem != "__init__")


def files_behind(modules: Sequence[str]) -> list[str]:
    """The files that the modules import transitively, themselves included, sorted, relative to the package's folder."""
    files: set[str] = set()
    # A package met only on the way to its submodule runs its top level alone: its functions' imports do not count.
    seen: set[tuple[str, bool]] = set()
    waiting = [(name, True) for name in modules]
    while waiting:
        name, whole = waiting.pop()
        file = _file_of(name)
        if file is None or (name, whole) in seen:
            continue
        seen.add((name, whole))
        files.add(file.relative_to(ROOT).as_posix())
        imported, data = _read(file, name)
        files.update(data)
        parents = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
        waiting.extend((parent, False) for parent in parents)
        waiting.extend((target, True) for target, at_top in imported if whole or at_top)
    return sorted(files - IGNORED)


def _file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split(".")[1:])
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if module.split(".")[0] == PACKAGE and candidate.is_file():
            return candidate
    return None


@cache
def _read(file: Path, module: str) -> tuple[list[tuple[str, bool]], list[str]]:
    """The modules that a file imports, each with whether at its top level, and the reference files that it names."""
    tree = _parsed(file)
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    imported = [
        (target, at_top)
        for statement, at_top in _imports(tree, at_top=True)
        for target in _targets(statement, package, tree)
    ]
    if any(name == f"{PACKAGE}.registry" for name, _ in imported):
        # What a registry finds at run time: every module of its package.
        imported += [(name, True) for name in modules_of(module) if not name.rpartition(".")[2].startswith("_")]
    return imported, sorted(_reference_files(tree))


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), filename=str(file))


def _imports(node: ast.AST, at_top: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_top
        elif not (isinstance(child, ast.expr) or _is_for_types(child)):
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _imports(child, at_top and not inside)


def _is_for_types(node: ast.AST) -> bool:
    """Whether this is an `if TYPE_CHECKING:` block, which never runs."""
    test = node.test if isinstance(node, ast.If) else None
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def _targets(statement: ast.Import | ast.ImportFrom, package: str, tree: ast.Module) -> Iterator[str]:
    """The package's modules that a statement of `tree` imports."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.name == PACKAGE:
                yield from _homes(PACKAGE, _attributes(tree, alias.asname or PACKAGE))
            elif alias.name.split(".")[0] == PACKAGE:
                yield alias.name
        return
    source = statement.module or ""
    if statement.level:
        base = package.split(".")[: len(package.split(".")) - statement.level + 1]
        source = ".".join([*base, source] if source else base)
    if source.split(".")[0] == PACKAGE:
        yield from _homes(source, [alias.name for alias in statement.names])


def _homes(module: str, names: Sequence[str]) -> Iterator[str]:
    """Where a module's names live: in its submodule of that name, where it loads them from on first use, or in it."""
    file = _file_of(module)
    lazy = _loaded_on_first_use(file) if file is not None else {}
    for name in names:
        submodule = f"{module}.{name}"
        if _file_of(submodule) is not None:
            yield submodule
        else:
            yield lazy.get(name, module)


def _loaded_on_first_use(file: Path) -> dict[str, str]:
    """Name -> module, from the imports for type checkers of a package that loads its names when they are asked for."""
    if file.name != "__init__.py":
        return {}
    return {
        alias.name: statement.module
        for block in _parsed(file).body
        if _is_for_types(block)
        for statement in ast.walk(block)
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }


def _attributes(tree: ast.Module, name: str) -> list[str]:
    """The attributes of a name that a file uses."""
    found = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
    }
    return sorted(found)


def _reference_files(tree: ast.AST) -> Iterator[str]:
    """Files under reference/ that a string in the source names, with or without that folder."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith((".csv", ".json")):
            name = f"{REFERENCE}/{node.value.removeprefix(REFERENCE + '/')}"
            if (ROOT / name).is_file():
                yield from (f"{REFERENCE}/__init__.py", name)


def _from_working_folder(path: Path) -> str:
    """Relative where possible, so that a moved checkout keeps its finished work; links resolved alike on both sides."""
    here = Path.cwd().resolve()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
