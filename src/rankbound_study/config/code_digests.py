"""Digests of the code that steps run; after an edit, exactly the steps whose digest has changed run again.

The code of a step is its row in the table of steps, its function with what this names in its module, everything that
these import, and the metrics, bounds and losses that its options or the code name. A training with the AP loss, for
example, does not depend on the file of WARP. Digests ignore comments, docstrings and layout. Neither package is
imported to compute them.
"""

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, get_args

import grimp

from rankbound.errors import ConfigError
from rankbound_study.config.sections.base import SOURCES, names_given
from rankbound_study.config.sections.training import RankerName

LIBRARY, STUDY = "rankbound", "rankbound_study"

TABLE = f"{STUDY}/steps.toml"
"""The table of steps: each counts with its own row."""

NAMED = (f"{LIBRARY}.metrics", f"{LIBRARY}.losses", f"{LIBRARY}.bounds")
"""Packages with modules that are looked up by name (`rankbound.texts`): one counts if its names occur."""

WHOLE = {
    f"{STUDY}.claims.registry": (f"{STUDY}.claims",),
    f"{STUDY}.report.content": (f"{STUDY}.figures", f"{STUDY}.report.tables"),
}
"""Modules that find all modules of packages at run time, with those packages."""

ONLY_WITH = {
    (f"{STUDY}.jobs.train_job", f"{STUDY}.jobs.fit_by_steps"): (
        *("boosted-trees", "random-forest", "lasso", "ridge"),
        *get_args(RankerName),
    ),
    (f"{STUDY}.jobs.fit_by_steps", f"{LIBRARY}.training.fitted"): get_args(RankerName),
    (f"{STUDY}.jobs.fit_by_steps", f"{LIBRARY}.training.recipe"): get_args(RankerName),
    (f"{STUDY}.jobs.models", f"{STUDY}.jobs.cnn"): ("cnn",),
    (f"{STUDY}.commands.data", f"{STUDY}.data.ratings"): ("ratings",),
    (f"{STUDY}.commands.data", f"{STUDY}.data.judged_files"): ("letor", "lightgbm", "table"),
    (f"{STUDY}.commands.data", f"{STUDY}.data.faces"): ("faces",),
    (f"{STUDY}.data.judged_files", f"{LIBRARY}.io.files"): ("table",),
    (f"{STUDY}.data.judged_files", f"{LIBRARY}.io.table_columns"): ("table",),
    (f"{STUDY}.data.judged_files", f"{LIBRARY}.io.tables"): ("table",),
    (f"{LIBRARY}.metrics", f"{LIBRARY}.conventions"): ("ir_measures",),
}
"""Imports inside functions that run for certain options alone, with words of which the options have to hold one."""

DATA = (f"{STUDY}.reference", f"{STUDY}.templates")
"""Folders of published values and of the study's prose; a file counts if a module names it."""

IGNORED = frozenset({LIBRARY, f"{LIBRARY}._version"})
"""Modules that do not affect any output: the library's lazy names, and its version number."""

_LENGTH = 16
_NAMING = re.compile(r"[A-Za-z][\w-]*(?:[(@]\S*)?")
_WORD = re.compile(r"[A-Za-z][\w-]*")


class _Code(NamedTuple):
    """The relevant facts of a module's source, or of a function's with what it names in its module.

    Attributes:
        digest: of its code.
        names: words in its texts, which may name metrics, bounds and losses.
        data: the files of `DATA` that it names.
        imports: the modules that it imports, with those behind the names of the library's top level (`rb.metric`).
    """

    digest: str
    names: frozenset[str]
    data: list[str]
    imports: set[str]


class CodeDigests:
    """Digests for the packages that this interpreter finds; each module is read once, when a step needs it."""

    @cached_property
    def _graph(self) -> grimp.ImportGraph:
        return grimp.build_graph(LIBRARY, STUDY, cache_dir=None, exclude_type_checking_imports=True)

    def of_step(self, step: str, options: str = "", modules: Iterable[str] = ()) -> str:
        """Return the digest of `python -m rankbound_study STEP --options OPTIONS`.

        Args:
            step: its name on the command line ("check-config").
            options: a text with the names of its metrics, bounds and losses, such as its options as JSON.
            modules: further modules, imported by a name computed at run time.

        Raises:
            ConfigError: there is no such step or module.
        """
        return self._digest(step, self._deciding_words(options), tuple(modules))

    def modules_of(self, step: str, options: str = "", modules: Iterable[str] = ()) -> list[str]:
        """Return the modules whose code a step runs, sorted."""
        reached = self._modules(step, self._deciding_words(options), tuple(modules))
        return sorted({name.partition(":")[0] for name in reached})

    @cached_property
    def _rows(self) -> dict[str, tuple[str, str]]:
        """Step -> its function as `module:function`, and its row as text, with the flags that it shares with others."""
        table = tomllib.loads(SOURCES.joinpath(TABLE).read_text("utf-8"))
        rows: dict[str, tuple[str, str]] = {}
        for step, row in table["step"].items():
            text = json.dumps({key: value for key, value in row.items() if key != "examples"})
            for name, flags in table["shared"].items():
                text += json.dumps(flags) if f'"{name}"' in text else ""
            rows[step] = f"{STUDY}.{row['function']}", text
        return rows

    def _deciding_words(self, options: str) -> frozenset[str]:
        """Return the words of options that may change a step's modules: the same few for thousands of trainings."""
        return self._vocabulary.intersection(_WORD.findall(options)) if options else frozenset()

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        homes = (name for package in self._homes.values() for name, _ in package)
        return frozenset([*homes, *chain.from_iterable(ONLY_WITH.values())])

    @cache  # noqa: B019 (one object a process)
    def _digest(self, step: str, words: frozenset[str], modules: tuple[str, ...]) -> str:
        reached = self._modules(step, words, modules)
        digest = hashlib.sha256(self._rows[step][1].encode())
        for name in reached:
            digest.update(f"{name} {self._code(name).digest}\n".encode())
            for file in self._code(name).data:
                content = hashlib.sha256(self._data[file].read_bytes()).hexdigest()
                digest.update(f"{file} {content}\n".encode())
        return digest.hexdigest()[:_LENGTH]

    def _modules(self, step: str, words: frozenset[str], modules: tuple[str, ...]) -> list[str]:
        if step not in self._rows:
            raise ConfigError(f"{step} is no step of {TABLE}")
        waiting = [self._rows[step][0], *modules]
        for name in waiting:
            if name.partition(":")[0] not in self._graph.modules:
                raise ConfigError(f"{name} is not a module below {SOURCES}")
        reached: set[str] = set()
        unused = {edge for edge, needed in ONLY_WITH.items() if words.isdisjoint(needed)}
        names = set(words)
        while waiting:
            code = waiting.pop()
            if code not in reached:
                reached.add(code)
                module = code.partition(":")[0]
                waiting += [module.rsplit(".", depth)[0] for depth in range(1, module.count(".") + 1)]
                if module != LIBRARY:
                    names |= self._code(code).names
                    waiting += [other for other in self._code(code).imports if (module, other) not in unused]
                for package in WHOLE.get(module, ()):
                    waiting += self._graph.find_children(package)
            # Names count only for packages in which the step's code looks them up.
            for package in () if waiting else reached.intersection(NAMED):
                waiting += {home for name, home in self._homes[package] if name in names} - reached
        return sorted(reached - IGNORED)

    @cached_property
    def _homes(self) -> dict[str, list[tuple[str, str]]]:
        """Package -> the names that are looked up in it, each with the module that defines it."""
        children = {package: self._graph.find_children(package) for package in NAMED}
        return {
            package: [(name, home) for home in homes for name in names_given(self._tree(home))]
            for package, homes in children.items()
        }

    @cached_property
    def _data(self) -> dict[str, Path]:
        """The files of `DATA` by name."""
        folders = [SOURCES.joinpath(*name.split(".")) for name in DATA]
        return {file.name: file for folder in folders for file in folder.iterdir() if file.is_file()}

    @cached_property
    def _public(self) -> dict[str, str]:
        """The library's public names with their modules, which it loads on first use."""
        for statement in self._tree(LIBRARY).body:
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == "_HOMES":
                homes: dict[str, tuple[str, ...]] = ast.literal_eval(statement.value)
                return {name: module for module, names in homes.items() for name in names}
        raise ConfigError(f"{self._path(LIBRARY)} has no table _HOMES of its public names")

    @cache  # noqa: B019 (one object a process)
    def _code(self, name: str) -> _Code:
        module, _, function = name.partition(":")
        path = self._path(module)
        digest, texts, attributes, lines = _facts(path.read_bytes(), str(path), function)
        imports = {
            imported
            for imported in self._graph.find_modules_directly_imported_by(module)
            for found in self._graph.get_import_details(importer=module, imported=imported)
            if found["line_number"] in lines
        }
        public = {self._public[attribute] for attribute in attributes & self._public.keys()}
        return _Code(
            digest=digest,
            names=frozenset(word for text in texts if _NAMING.fullmatch(text) for word in _WORD.findall(text)),
            data=sorted(texts & self._data.keys()),
            imports=imports - {LIBRARY} | public if LIBRARY in imports else imports,
        )

    def _tree(self, name: str) -> ast.Module:
        path = self._path(name)
        return ast.parse(path.read_bytes(), filename=str(path))

    def _path(self, name: str) -> Path:
        path = SOURCES.joinpath(*name.split("."))
        return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _facts(source: bytes, path: str, function: str = "") -> tuple[str, frozenset[str], frozenset[str], frozenset[int]]:
    """Return the digest of code, its texts, the names that it uses from the library's top level, and its lines.

    The code is that of a module, or that which one of its functions runs. Docstrings are no code and no texts; names
    are used as in `rb.metric` or `from rankbound import metric`.
    """
    tree = _WithoutTexts().visit(ast.parse(source, filename=path))
    if function:
        (first,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
        tree.body = sorted(_with_named(tree, first), key=lambda node: node.lineno)
    lines = frozenset(line for node in tree.body for line in range(node.lineno, (node.end_lineno or 0) + 1))
    texts, used, aliases, attributes = set[str](), set[str](), set[str](), set[tuple[str, str]]()
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)):
                texts.add(text)
            case ast.ImportFrom(module=str(module)) if module == LIBRARY:
                used |= {one.name for one in node.names}
            case ast.Import():
                aliases |= {one.asname or LIBRARY for one in node.names if one.name == LIBRARY}
            case ast.Attribute(value=ast.Name(id=owner)):
                attributes.add((owner, node.attr))
    used |= {name for owner, name in attributes if owner in aliases}
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return digest, frozenset(texts), frozenset(used), lines


class _WithoutTexts(ast.NodeTransformer):
    """Removes the statements of a text alone, such as docstrings."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else node


def _with_named(tree: ast.Module, first: Any) -> list[Any]:
    """Return a node with the definitions of a module that it names, directly or not, and all that always runs."""
    defined = {name: node for node in tree.body for name in _defined_by(node)}
    nodes = [first, *(node for node in tree.body if not _defined_by(node))]
    for node in nodes:
        named = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} & defined.keys()
        nodes += [defined[name] for name in sorted(named) if defined[name] not in nodes]
    return nodes


def _defined_by(statement: ast.stmt) -> list[str]:
    """Return the names that a definition or an assignment of a module gives; imports always run."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return [one.id for one in ast.walk(target) if isinstance(one, ast.Name)]
    return []
