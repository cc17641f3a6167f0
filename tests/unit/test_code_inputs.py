"""The package files behind a subcommand: read from the source, and equal to what Python really loads."""

import subprocess
import sys
from pathlib import Path

import pytest

from rankbound.errors import ConfigError
from rankbound_study import code_inputs as module
from rankbound_study.code_inputs import code_inputs, files_behind


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the same name, small enough to know by heart."""
    root = tmp_path / "src" / "rankbound"
    files = {
        "__init__.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from rankbound.far import away\n"
            "    from rankbound.unused import other\ndef __getattr__(name): ...\n"
        ),
        "_version.py": "",
        "far.py": "",
        "near.py": "from . import deep\n",
        "deep/__init__.py": "from .inner import value\n",
        "deep/inner.py": "value = 1\n",
        "lazy.py": "",
        "typed.py": "",
        "unused.py": "",
        "reference/printed.csv": "a\n1\n",
        "reference/other.csv": "a\n1\n",
        "reference/__init__.py": "",
        "commands/__init__.py": "",
        "commands/draw.py": (
            "import numpy\nfrom typing import TYPE_CHECKING\n"
            "from rankbound.near import deep\nfrom rankbound import _version\n"
            "if TYPE_CHECKING:\n    from rankbound.typed import T\n"
            "def run(arguments):\n    import rankbound.lazy\n    open('reference/printed.csv')\n"
        ),
        "commands/by_name.py": "from rankbound import away\n",
        "commands/by_attribute.py": "import rankbound as rb\ndef run(arguments):\n    rb.away()\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.chdir(tmp_path)
    return root


def test_imports_are_followed_everywhere_but_no_further(package: Path) -> None:
    assert code_inputs("draw") == [
        f"src/rankbound/{name}"
        for name in (
            "__init__.py",
            "commands/draw.py",
            "deep/__init__.py",
            "deep/inner.py",
            "lazy.py",
            "near.py",
            "reference/__init__.py",
            "reference/printed.csv",
        )
    ]


@pytest.mark.parametrize("subcommand", ["by-name", "by-attribute"])
def test_names_that_the_package_loads_on_first_use_are_followed_home(package: Path, subcommand: str) -> None:
    file = f"commands/{subcommand.replace('-', '_')}.py"
    assert code_inputs(subcommand) == [f"src/rankbound/{name}" for name in ("__init__.py", file, "far.py")]


def test_modules_imported_by_a_computed_name_are_added(package: Path) -> None:
    assert "src/rankbound/unused.py" in code_inputs("draw", ["rankbound.unused"])


def test_an_import_cycle_ends(package: Path) -> None:
    (package / "far.py").write_text("import rankbound.unused\n", encoding="utf-8")
    (package / "unused.py").write_text("import rankbound.far\n", encoding="utf-8")
    assert files_behind(["rankbound.far"]) == ["__init__.py", "far.py", "unused.py"]


def test_an_unknown_subcommand_is_an_error(package: Path) -> None:
    with pytest.raises(ConfigError, match=r"rankbound\.commands\.drow is no module"):
        code_inputs("drow")


def test_outside_the_working_folder_paths_are_absolute(
    package: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert all(Path(name).is_absolute() and Path(name).is_file() for name in code_inputs("draw"))


# The real package


def subcommands() -> list[str]:
    return sorted(file.stem for file in (module.ROOT / "commands").glob("*.py") if file.stem != "__init__")


@pytest.mark.parametrize("name", ["convert", "distributions", "job", "table", "document", "settle"])
def test_code_inputs_are_what_python_loads(name: str) -> None:
    """Import every file that is claimed, in an interpreter of its own: nothing of the package comes that was not."""
    claimed = files_behind([f"rankbound.commands.{name}"])
    code = [_module_name(file) for file in claimed if file.endswith(".py")]
    script = (
        "import sys\n"
        f"for name in {code!r}:\n    __import__(name)\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'rankbound'), sep='\\n')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {Path(line).resolve().relative_to(module.ROOT).as_posix() for line in result.stdout.splitlines() if line}
    assert loaded - module.IGNORED == {file for file in claimed if file.endswith(".py")}


def test_importing_subcommands_is_light() -> None:
    """`rankbound --help` imports all of them: the heavy imports stand inside `run`."""
    modules = [f"rankbound.commands.{name}" for name in subcommands()]
    script = f"import sys\nfor name in {modules!r}:\n    __import__(name)\nprint(*sys.modules, sep='\\n')"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    heavy = {"torch", "numpy", "polars", "pyarrow", "matplotlib", "scipy", "snakemake", "yaml", "jsonschema"}
    assert heavy.isdisjoint(result.stdout.split())


def test_steps_do_not_depend_on_what_only_others_use() -> None:
    assert not any("losses" in file or "paper" in file for file in files_behind(["rankbound_study.commands.convert"]))
    assert not any("paper" in file for file in files_behind(["rankbound_study.commands.job"]))
    assert "losses/smooth.py" in files_behind(["rankbound_study.commands.job"])
    assert "reference/thesis_table_5_1.csv" in files_behind(["rankbound_study.commands.table"])


def _module_name(file: str) -> str:
    return ".".join(("rankbound", *Path(file).with_suffix("").parts)).removesuffix(".__init__")


def test_the_core_needs_torch_and_numpy_only() -> None:
    """Every name of the public interface, in an interpreter where nothing else of the environment can be imported."""
    result = subprocess.run([sys.executable, "-c", _CORE_ONLY], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "core"


_CORE_ONLY = """
import importlib.metadata, sys

# What torch itself requires counts as torch.
allowed, waiting = set(), ["torch", "numpy"]
while waiting:
    name = waiting.pop()
    if name in allowed:
        continue
    allowed.add(name)
    for requirement in importlib.metadata.requires(name) or []:
        required = requirement.split(";")[0].split("[")[0].split(" ")[0].strip("<>=!~0123456789.,")
        if "extra ==" not in requirement:
            try:
                importlib.metadata.version(required)
            except importlib.metadata.PackageNotFoundError:
                continue
            waiting.append(required)
modules = {"rankbound"}
for module, distributions in importlib.metadata.packages_distributions().items():
    if any(d.lower().replace("_", "-") in {a.lower().replace("_", "-") for a in allowed} for d in distributions):
        modules.add(module)

class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.split(".")[0]
        if top in sys.stdlib_module_names or top in modules or top.startswith("_"):
            return None
        raise ModuleNotFoundError(f"{name} is not part of a core install", name=name)

sys.meta_path.insert(0, Blocker())
import rankbound as rb
for name in rb.__all__:
    getattr(rb, name)
import torch
scores = torch.tensor([0.3, 0.1, 0.2], requires_grad=True)
relevance, offsets = torch.tensor([0, 1, 0]), torch.tensor([0, 3])
for bound in ("none", "min-max", "expectation", "expectation-max"):
    rb.SmoothLoss("nDCG", bound=bound)(scores, relevance, offsets).sum().backward()
rb.metric("nDCG@10")(scores.detach(), relevance, offsets)
rb.score_distribution("AP", n=8, p=3, method="exact")
for module in ("polars", "pyarrow", "scipy", "yaml", "snakemake"):
    assert module not in sys.modules, module
print("core")
"""
